//! `outlive converge`: start the jobs of a project in their order; started in the background by `up`.

use std::process::ExitCode;

use crate::args::Converge;
use crate::commands::Context;
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Converge) -> Result<ExitCode, Failure> {
    // The starter had blocked all signals.
    outlive_sys::signal::unblock_all();
    // The starter's directory must not stay busy for as long as this takes.
    std::env::set_current_dir("/").ok();
    outlive_project::converge(&context.store, &arguments.session, &arguments.generation)?;
    Ok(ExitCode::SUCCESS)
}
