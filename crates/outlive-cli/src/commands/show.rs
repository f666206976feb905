//! `outlive show`: all that is known of a job.

use std::collections::BTreeMap;
use std::process::ExitCode;

use outlive::{Job, JobObject, State, Survival};
use serde::Serialize;

use crate::args::Show;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{colour, is_coloured, one_line, print, print_json, status_text, table};

/// The job object, and what only `show` tells.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: &'a JobObject,
    argv: Vec<String>,
    stdin: outlive::Stdin,
    timeout_ms: Option<u64>,
    grace_ms: u64,
    output_cap_bytes: Option<u64>,
    env_set: BTreeMap<String, String>,
    env_unset: &'a [String],
    keeper_pid: Option<i32>,
    closed_at: Option<String>,
    survives: Survival,
    directory: String,
}

pub(crate) fn run(context: &Context, arguments: &Show) -> Result<ExitCode, Failure> {
    let job = context.store.find(&arguments.job, context.session.as_ref())?;
    let state = job.state(&context.store);
    if state.status.has_ended() {
        job.mark_seen();
    }
    let object = JobObject::new(&job, &state);
    let shown = shown(&job, &state, &object, arguments.show_env);
    if context.is_json {
        return print_json(&shown);
    }
    print(&text(&state, &shown));
    Ok(ExitCode::SUCCESS)
}

fn shown<'a>(job: &'a Job, state: &State, object: &'a JobObject, show_env: bool) -> Shown<'a> {
    let spec = job.spec();
    let value = |value: &str| if show_env { value.to_owned() } else { "***".to_owned() };
    let keeper = state.meta.as_ref().and_then(|meta| meta.keeper);
    Shown {
        job: object,
        argv: spec.argv.iter().map(|argument| argument.to_lossy()).collect(),
        stdin: spec.stdin,
        timeout_ms: spec.timeout_ms,
        grace_ms: spec.grace_ms,
        output_cap_bytes: spec.output_cap_bytes,
        env_set: spec.env_set.iter().map(|(name, text)| (name.clone(), value(&text.to_lossy()))).collect(),
        env_unset: &spec.env_unset,
        keeper_pid: keeper.filter(|_| state.is_live() && !state.is_orphaned).map(|keeper| keeper.pid),
        closed_at: state.closed.map(|closed| closed.closed.to_string()),
        survives: Survival::here(),
        directory: job.path().display().to_string(),
    }
}

fn text(state: &State, shown: &Shown<'_>) -> String {
    use outlive::duration::{format_duration, format_size};
    let job = shown.job;
    let status = status_text(state);
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row = |name: &str, value: Option<String>| {
        rows.extend(value.map(|value| [name.to_owned(), one_line(&value)]))
    };
    row("job", Some(job.job.to_string()));
    row("name", job.name.clone());
    row("status", Some(status.clone()));
    row("reason", job.reason.clone());
    row("command", Some(job.command.clone()));
    row("directory", Some(job.cwd.clone()));
    row("session", Some(job.session.clone()));
    row("parent", job.parent.as_ref().map(ToString::to_string));
    row("pid", job.pid.map(|pid| pid.to_string()));
    row("keeper", shown.keeper_pid.map(|pid| format!("pid {pid}")));
    row("started", job.started_at.clone());
    row("ended", job.ended_at.clone());
    row("runtime", job.runtime_ms.map(format_duration));
    row("timeout", shown.timeout_ms.map(format_duration));
    row("grace", Some(format_duration(shown.grace_ms)));
    let dropped = match job.output.dropped_bytes {
        0 => String::new(),
        bytes => format!("; {} could not be kept", format_size(bytes)),
    };
    let output = format!("{} in {} lines{dropped}", format_size(job.output.bytes), job.output.lines);
    row("output", Some(output));
    row(
        "kept",
        Some(shown.output_cap_bytes.map_or("all".to_owned(), |cap| format!("the last {}", format_size(cap)))),
    );
    row("stdin", Some(format!("{:?}", shown.stdin).to_lowercase()));
    for (name, value) in &shown.env_set {
        row("env", Some(format!("{name}={value}")));
    }
    for name in shown.env_unset {
        row("unset", Some(name.clone()));
    }
    row("survives", Some(format!("its starter: {}", shown.survives.starter)));
    row("", Some(format!("logout: {}", shown.survives.logout)));
    row("", Some(format!("the service or container: {}", shown.survives.surroundings)));
    row("", Some(format!("a restart: {}", shown.survives.restart)));
    row("files", Some(shown.directory.clone()));
    let is_coloured = is_coloured();
    let rows: Vec<Vec<String>> = rows.into_iter().map(Vec::from).collect();
    table(&rows, None, |_, column, cell| match column {
        1 if cell == status => colour(state.status, cell, is_coloured),
        _ => cell.to_owned(),
    })
}
