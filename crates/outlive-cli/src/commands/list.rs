//! `outlive list`.

use std::process::ExitCode;

use outlive::{Job, JobObject, State};

use crate::args::List;
use crate::commands::Context;
use crate::failure::{Failure, chain};
use crate::render::{colour, is_coloured, note, one_line, print, print_json, status_text, table, width};

pub(crate) fn run(context: &Context, arguments: &List) -> Result<ExitCode, Failure> {
    let listing =
        context.store.list(context.session.as_ref()).map_err(|error| Failure::other("list", &error))?;
    for damaged in &listing.damaged {
        let name = one_line(&damaged.name.to_string_lossy());
        note(&if damaged.error.is_certain() {
            format!("outlive: warning: {name} is damaged; outlive doctor moves it out of the way")
        } else {
            format!("outlive: warning: {name} could not be read: {}", chain(&damaged.error))
        });
    }
    let jobs: Vec<(Job, State)> = listing
        .jobs
        .into_iter()
        .map(|job| {
            let state = job.state(&context.store);
            (job, state)
        })
        .filter(|(_, state)| !state.is_removed && (!arguments.live || state.is_live()))
        .collect();
    if context.is_json {
        let objects: Vec<JobObject> = jobs.iter().map(|(job, state)| JobObject::new(job, state)).collect();
        return print_json(&objects);
    }
    if jobs.is_empty() {
        note(if arguments.live { "no live jobs" } else { "no jobs; start one with: outlive run 'LINE'" });
        return Ok(ExitCode::SUCCESS);
    }
    let has_sessions = jobs.iter().any(|(job, _)| job.spec().session != jobs[0].0.spec().session);
    let mut rows = vec![header(has_sessions)];
    rows.extend(jobs.iter().map(|(job, state)| row(job, state, has_sessions)));
    let is_coloured = is_coloured();
    let text = table(&rows, width(), |line, column, cell| match (line, column) {
        (0, _) | (_, 0) | (_, 2..) => cell.to_owned(),
        (line, _) => colour(jobs[line - 1].1.status, cell, is_coloured),
    });
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn header(has_sessions: bool) -> Vec<String> {
    let mut header = vec!["JOB", "STATUS", "TIME"];
    if has_sessions {
        header.push("SESSION");
    }
    header.push("COMMAND");
    header.into_iter().map(str::to_owned).collect()
}

fn row(job: &Job, state: &State, has_sessions: bool) -> Vec<String> {
    let mut status = status_text(state);
    if let Some(outlive::WaitStatus::Exited { code: code @ 1.. }) =
        state.outcome.as_ref().map(|outcome| outcome.wait_status)
    {
        status = format!("{status} ({code})");
    }
    let time = state.runtime_ms().map_or_else(|| "-".to_owned(), outlive::duration::format_duration);
    let spec = job.spec();
    let mut row = vec![spec.job.to_string(), status, time];
    if has_sessions {
        row.push(spec.session.to_string());
    }
    let command = one_line(&spec.command_line());
    row.push(spec.name.as_ref().map_or(command.clone(), |name| format!("{}: {command}", one_line(name))));
    row
}
