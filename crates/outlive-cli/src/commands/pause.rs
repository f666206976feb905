//! `outlive pause`: stop every process of jobs where it is.

use std::process::ExitCode;

use crate::args::Jobs;
use crate::commands::{Context, each};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Jobs) -> Result<ExitCode, Failure> {
    each(context, &arguments.jobs, "paused", |job| {
        context.store.pause(job).map_err(|error| Failure::from(error).during("pause"))
    })
}
