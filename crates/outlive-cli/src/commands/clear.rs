//! `outlive clear`: forget what jobs have printed so far.

use std::process::ExitCode;

use crate::args::Jobs;
use crate::commands::{Context, each};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Jobs) -> Result<ExitCode, Failure> {
    each(context, context.find_each(&arguments.jobs), "cleared", |job| {
        context.store.clear(job).map_err(|error| Failure::from(error).during("clear"))
    })
}
