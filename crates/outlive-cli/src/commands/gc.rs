//! `outlive gc`: remove now what the configuration no longer keeps.

use std::process::ExitCode;

use outlive::duration::format_size;

use crate::commands::Context;
use crate::failure::Failure;
use crate::progress::meanwhile;
use crate::render::answer;

pub(crate) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let collect = || context.store.collect();
    let collected = meanwhile(context.is_json, || "removing what is no longer kept".to_owned(), collect);
    let collected = collected.map_err(|error| Failure::other("gc", &error))?;
    answer(context.is_json, &collected, || {
        let (removed, freed) = (collected.removed.len(), format_size(collected.bytes));
        format!("{removed} removed, {freed} freed, {} kept\n", collected.kept)
    })
}
