//! `outlive deliver`: send the notices that wait.

use std::process::ExitCode;

use outlive::Delivered;

use crate::args::Deliver;
use crate::commands::Context;
use crate::failure::{FAILED, Failure};
use crate::render::{answer, counted, note};

pub(crate) fn run(context: &Context, arguments: &Deliver) -> Result<ExitCode, Failure> {
    // In the background it is started with all signals blocked.
    outlive_sys::signal::unblock_all();
    if arguments.retry {
        context.store.retry_notices();
    }
    let delivered =
        context.store.deliver(arguments.once).map_err(|error| Failure::other("deliver", &error))?;
    let Some(delivered) = delivered else {
        note("outlive: another one is at it");
        return Ok(ExitCode::SUCCESS);
    };
    let Delivered { delivered: arrived, failed_attempts, set_aside, waiting } = delivered;
    answer(context.is_json, &delivered, || {
        let attempts = counted(failed_attempts as u64, "attempt", "attempts");
        format!("{arrived} delivered, {waiting} waiting, {set_aside} given up; {attempts} failed\n")
    })?;
    Ok(if waiting > 0 || set_aside > 0 { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}
