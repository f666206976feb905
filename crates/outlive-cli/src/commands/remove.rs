//! `outlive remove`.

use std::process::ExitCode;

use serde::Serialize;

use crate::args::Remove;
use crate::commands::{Context, each};
use crate::failure::Failure;
use crate::render::print_json;

#[derive(Serialize)]
struct Removed {
    removed: Vec<outlive::JobId>,
}

pub(crate) fn run(context: &Context, arguments: &Remove) -> Result<ExitCode, Failure> {
    let mut removed = Vec::new();
    let code = each(context, &arguments.jobs, |job| {
        // A reader that removes a job knows that it has ended.
        if !job.state(&context.store).is_live() {
            job.mark_delivered(&context.reader);
        }
        context.store.remove(job).map_err(Failure::from)?;
        removed.push(job.id().clone());
        Ok(())
    })?;
    if context.is_json {
        print_json(&Removed { removed })?;
    }
    Ok(code)
}
