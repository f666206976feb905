//! `outlive resume`: let paused jobs go on.

use std::process::ExitCode;

use crate::args::LiveJobs;
use crate::commands::{Context, each_saying};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &LiveJobs) -> Result<ExitCode, Failure> {
    let jobs = context.find_live("resume", arguments, |is_paused| is_paused)?;
    each_saying(context, jobs, "resumed", |job| {
        let is_paused = context.is_paused(job);
        context.store.resume(job).map_err(|error| Failure::from(error).during("resume"))?;
        Ok((!is_paused).then_some("was not paused"))
    })
}
