//! `outlive pause`: stop every process of jobs where it is.

use std::process::ExitCode;

use serde::Serialize;

use crate::args::Pause;
use crate::commands::{Context, each};
use crate::failure::Failure;
use crate::render::print_json;

#[derive(Serialize)]
struct Paused {
    paused: Vec<outlive::JobId>,
}

pub(crate) fn run(context: &Context, arguments: &Pause) -> Result<ExitCode, Failure> {
    let mut paused = Vec::new();
    let code = each(context, &arguments.jobs, |job| {
        context.store.pause(job).map_err(|error| Failure::from(error).during("pause"))?;
        paused.push(job.id().clone());
        Ok(())
    })?;
    if context.is_json {
        print_json(&Paused { paused })?;
    }
    Ok(code)
}
