//! `outlive resume`: let paused jobs go on.

use std::process::ExitCode;

use crate::args::Jobs;
use crate::commands::{Context, each};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Jobs) -> Result<ExitCode, Failure> {
    each(context, &arguments.jobs, "resumed", |job| {
        context.store.resume(job).map_err(|error| Failure::from(error).during("resume"))
    })
}
