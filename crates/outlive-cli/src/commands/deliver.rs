//! `outlive deliver`: send the notices that wait.

use std::process::ExitCode;

use outlive::Delivered;

use crate::args::Deliver;
use crate::commands::Context;
use crate::failure::{FAILED, Failure};
use crate::render::{note, print, print_json};

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
    if context.is_json {
        print_json(&delivered)?;
    } else {
        print(&text(&delivered));
    }
    Ok(if delivered.waiting > 0 || delivered.set_aside > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn text(delivered: &Delivered) -> String {
    let Delivered { delivered, failed_attempts, set_aside, waiting } = delivered;
    format!(
        "{delivered} delivered, {waiting} waiting, {set_aside} given up; {failed_attempts} attempts failed\n"
    )
}
