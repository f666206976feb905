//! The runs of a job that was restarted: `logs NAME` shows them one after another. And one that was not begun.

use outlive::{Cause, Job, Output, Search, Status};

use super::printer::Printer;
use super::{Reading, failure};
use crate::args::Logs;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::note;

/// Lists the runs to show, oldest first, and what is wanted of each.
pub(super) fn of(context: &Context, arguments: &Logs, job: &Job) -> Result<Vec<(Job, Logs)>, Failure> {
    let mut wanted = arguments.clone();
    let job = context.store.find(job.id().as_str(), None)?;
    if !are_joined(arguments, &job) {
        return Ok(vec![(job, wanted)]);
    }
    let mut runs = Vec::new();
    for job in context.store.runs(job).into_iter().rev() {
        let lines = Output::open(&job).map_err(|error| failure(&job, &error))?.line_count();
        runs.push((job, wanted.clone()));
        // Only the newest run can go on, and earlier ones have what it lacks of the lines that are wanted.
        wanted.follow = false;
        let left = [&mut wanted.lines, &mut wanted.tail].into_iter().find_map(Option::as_mut);
        if let Some(left) = left {
            *left = left.saturating_sub(lines);
            if *left == 0 {
                break;
            }
        }
    }
    runs.reverse();
    Ok(runs)
}

/// Tells whether the runs before are shown, too: of a job that is named, unless a place in one log is meant.
fn are_joined(arguments: &Logs, job: &Job) -> bool {
    job.spec().previous.is_some() && is_of_all_runs(arguments, job)
}

/// Tells whether runs that come after this one are followed.
pub(super) fn are_followed(arguments: &Logs, job: &Job) -> bool {
    arguments.follow && is_of_all_runs(arguments, job)
}

fn is_of_all_runs(arguments: &Logs, job: &Job) -> bool {
    let Logs { from_line, bytes, cursor, head, tail, lines, budget, grep, .. } = arguments;
    let is_place =
        from_line.is_some() || bytes.is_some() || cursor.is_some() || head.is_some() || budget.is_some();
    let counts_matches = grep.is_some() && (tail.is_some() || lines.is_some());
    let is_named = arguments.jobs.iter().any(|reference| job.name() == Some(reference));
    is_named && !is_place && !counts_matches
}

/// Follows the runs that come after one that has ended, for as long as there are any.
pub(super) fn follow(
    context: &Context,
    arguments: &Logs,
    mut last: Job,
    search: &Search,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let whole = super::resumed(arguments);
    let form = super::form(arguments, context.is_json);
    while let Some(job) = context.store.run_after(&last) {
        note(&format!("outlive: run {}, {}", job.id(), job.state(&context.store).summary()));
        let mut reading = Reading::new(context, &whole, &job, search.clone(), form)
            .map_err(|error| failure(&job, &error))?;
        let done = if reading.is_bytewise() { reading.copy(printer) } else { reading.show(printer) };
        done.and_then(|()| reading.tell_end(printer)).map_err(|error| failure(&job, &error))?;
        if super::shows_end(arguments) {
            job.mark_delivered(&context.reader);
        }
        last = job;
    }
    Ok(())
}

/// Says of a job that has printed nothing for it was never begun why that is.
pub(super) fn tell_not_begun(context: &Context, job: &Job) {
    let state = job.state(&context.store);
    let summary = state.summary();
    if matches!(state.outcome.as_ref().map(|outcome| &outcome.cause), Some(Cause::NeverStarted(_))) {
        note(&format!("outlive: {} was {summary}", job.id()));
    } else if state.status == Status::Queued {
        note(&format!("outlive: {} has not begun, {summary}", job.id()));
    }
}
