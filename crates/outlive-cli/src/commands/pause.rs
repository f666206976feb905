//! `outlive pause`: stop every process of jobs where it is.

use std::process::ExitCode;

use crate::args::LiveJobs;
use crate::commands::{Context, each_saying};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &LiveJobs) -> Result<ExitCode, Failure> {
    let jobs = context.find_live("pause", arguments, |is_paused| !is_paused)?;
    each_saying(context, jobs, "paused", |job| {
        let is_paused = context.is_paused(job);
        context.store.pause(job).map_err(|error| Failure::from(error).during("pause"))?;
        Ok(is_paused.then_some("is paused already"))
    })
}
