//! `outlive remove`.

use std::process::ExitCode;

use outlive::{Job, RemoveError};
use outlive_sys::clock;

use crate::args::Remove;
use crate::commands::{Context, each, unnamed};
use crate::failure::Failure;
use crate::progress::meanwhile;
use crate::render::note;

pub(crate) fn run(context: &Context, arguments: &Remove) -> Result<ExitCode, Failure> {
    let found = match arguments.jobs.as_slice() {
        [] => (ended(context, arguments)?, None),
        named => context.find_each(named),
    };
    let done = if arguments.dry_run { "would_be_removed" } else { "removed" };
    let is_by_id = |job: &Job| arguments.jobs.iter().any(|reference| reference == job.id().as_str());
    each(context, found, done, |job| {
        let state = job.state(&context.store);
        // A run that has ended is live until the next one is there: whose name was given is that one.
        if state.is_lingering()
            && let Some(next) = context.store.next_run_of(job)
            && !is_by_id(job)
        {
            return Err(RemoveError::Live(next.id().clone()).into());
        }
        let is_live = job.state(&context.store).is_live();
        if arguments.dry_run {
            return if is_live { Err(RemoveError::Live(job.id().clone()).into()) } else { Ok(()) };
        }
        // A reader that removes a job knows that it has ended.
        if !is_live {
            job.mark_delivered(&context.reader);
        }
        // Of a job that printed much, all files have to go.
        let remove = || context.store.remove(job);
        Ok(meanwhile(context.is_json, || format!("removing {}", job.id()), remove)?)
    })
}

/// Finds the ended jobs that meet every condition. Without one nothing is meant, least of all everything.
fn ended(context: &Context, arguments: &Remove) -> Result<Vec<Job>, Failure> {
    if !arguments.ended && arguments.older.is_none() && arguments.filters.is_empty() {
        return Err(unnamed("remove", "--ended, --failed, --group NAME or --older 2d"));
    }
    let oldest = arguments
        .older
        .map(|older| clock::wall_us().saturating_sub(u64::try_from(older.as_micros()).unwrap_or(u64::MAX)));
    let mut jobs = context.list("remove")?.jobs;
    jobs.retain(|job| {
        if !arguments.filters.fits(job) {
            return false;
        }
        let state = job.state(&context.store);
        let is_old = |oldest| state.outcome.as_ref().is_some_and(|outcome| outcome.ended.0 < oldest);
        !state.is_live() && arguments.filters.fits_state(&state) && oldest.is_none_or(is_old)
    });
    if jobs.is_empty() {
        let has_conditions = oldest.is_some() || !arguments.filters.is_empty();
        note(if has_conditions { "no such ended jobs" } else { "no ended jobs" });
    }
    Ok(jobs)
}
