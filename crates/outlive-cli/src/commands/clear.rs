//! `outlive clear`: forget what jobs have printed so far.

use std::process::ExitCode;

use serde::Serialize;

use crate::args::Clear;
use crate::commands::{Context, each};
use crate::failure::Failure;
use crate::render::print_json;

#[derive(Serialize)]
struct Cleared {
    cleared: Vec<outlive::JobId>,
}

pub(crate) fn run(context: &Context, arguments: &Clear) -> Result<ExitCode, Failure> {
    let mut cleared = Vec::new();
    let code = each(context, &arguments.jobs, |job| {
        context.store.clear(job).map_err(|error| Failure::from(error).during("clear"))?;
        cleared.push(job.id().clone());
        Ok(())
    })?;
    if context.is_json {
        print_json(&Cleared { cleared })?;
    }
    Ok(code)
}
