//! `outlive resize`: give a job's terminal another size.

use std::process::ExitCode;

use crate::args::Resize;
use crate::commands::{Context, each};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Resize) -> Result<ExitCode, Failure> {
    each(context, context.find_each(std::slice::from_ref(&arguments.job)), "resized", |job| {
        context.store.resize(job, arguments.size).map_err(|error| Failure::from(error).during("resize"))
    })
}
