//! `outlive boot`: lets jobs go on that a restart of the machine ended and that are to come back. Run once after it, as `outlive setup boot`
//! arranges; to run it again changes nothing.

use std::process::ExitCode;

use serde_json::json;

use crate::commands::Context;
use crate::failure::Failure;
use crate::render::answer;

pub(crate) fn run(context: &Context) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::other("boot", &error);
    let mut jobs = context.store.revive_schedules().map_err(failed)?;
    jobs.extend(context.store.revive_services().map_err(failed)?);
    let ids: Vec<String> = jobs.iter().map(|job| job.id().to_string()).collect();
    let lines = || {
        let line = |job: &outlive::Job| format!("{}  {}\n", job.id(), job.state(&context.store).summary());
        jobs.iter().map(line).collect::<String>()
    };
    answer(context.is_json, &json!({ "jobs": ids }), lines)
}
