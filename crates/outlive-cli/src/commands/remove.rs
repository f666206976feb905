//! `outlive remove`.

use std::process::ExitCode;

use outlive::Job;
use serde::Serialize;

use crate::args::Remove;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::print_json;

#[derive(Serialize)]
struct Removed {
    removed: Vec<outlive::JobId>,
}

pub(crate) fn run(context: &Context, arguments: &Remove) -> Result<ExitCode, Failure> {
    let jobs = arguments
        .jobs
        .iter()
        .map(|reference| context.store.find(reference, context.session.as_ref()))
        .collect::<Result<Vec<Job>, _>>()?;
    for job in &jobs {
        context.store.remove(job).map_err(|error| Failure::remove(&error))?;
    }
    if context.is_json {
        return print_json(&Removed { removed: jobs.iter().map(|job| job.id().clone()).collect() });
    }
    Ok(ExitCode::SUCCESS)
}
