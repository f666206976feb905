//! `outlive probe`: look whether a job is ready, until it is; started in the background with the job.

use std::process::ExitCode;

use crate::args::Probe;
use crate::commands::Context;
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Probe) -> Result<ExitCode, Failure> {
    // The starter had blocked all signals.
    outlive_sys::signal::unblock_all();
    // The starter's directory must not stay busy for as long as the job takes.
    std::env::set_current_dir("/").ok();
    context.store.probe(&arguments.job, arguments.nonce)?;
    Ok(ExitCode::SUCCESS)
}
