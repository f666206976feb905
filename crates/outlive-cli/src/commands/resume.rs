//! `outlive resume`: let paused jobs go on.

use std::process::ExitCode;

use serde::Serialize;

use crate::args::Resume;
use crate::commands::{Context, each};
use crate::failure::Failure;
use crate::render::print_json;

#[derive(Serialize)]
struct Resumed {
    resumed: Vec<outlive::JobId>,
}

pub(crate) fn run(context: &Context, arguments: &Resume) -> Result<ExitCode, Failure> {
    let mut resumed = Vec::new();
    let code = each(context, &arguments.jobs, |job| {
        context.store.resume(job).map_err(|error| Failure::from(error).during("resume"))?;
        resumed.push(job.id().clone());
        Ok(())
    })?;
    if context.is_json {
        print_json(&Resumed { resumed })?;
    }
    Ok(code)
}
