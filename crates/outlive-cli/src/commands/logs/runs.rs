//! The runs of a job that was restarted: `logs NAME` shows them one after another.

use outlive::{Job, Output};

use super::failure;
use crate::args::Logs;
use crate::commands::Context;
use crate::failure::Failure;

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
    let Logs { from_line, bytes, cursor, head, tail, lines, budget, grep, .. } = arguments;
    let is_place =
        from_line.is_some() || bytes.is_some() || cursor.is_some() || head.is_some() || budget.is_some();
    let counts_matches = grep.is_some() && (tail.is_some() || lines.is_some());
    let is_named = arguments.jobs.iter().any(|reference| job.name() == Some(reference));
    job.spec().previous.is_some() && is_named && !is_place && !counts_matches
}
