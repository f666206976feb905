//! `outlive gc`: remove now what the configuration no longer keeps.

use std::process::ExitCode;

use outlive::duration::format_size;
use serde::Serialize;

use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{print, print_json};

#[derive(Serialize)]
struct Collected {
    removed: Vec<outlive::JobId>,
    bytes: u64,
    kept: usize,
}

pub(crate) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let collected = context.store.collect().map_err(|error| Failure::other("gc", &error))?;
    if context.is_json {
        return print_json(&Collected {
            removed: collected.removed,
            bytes: collected.bytes,
            kept: collected.kept,
        });
    }
    print(&format!(
        "{} removed, {} freed, {} kept\n",
        collected.removed.len(),
        format_size(collected.bytes),
        collected.kept
    ));
    Ok(ExitCode::SUCCESS)
}
