//! `outlive list`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use outlive::{Job, JobObject, Listeners, NEWER, Port, State, Usage};
use serde::Serialize;

use crate::args::List;
use crate::commands::Context;
use crate::failure::{Failure, chain};
use crate::render::{
    colour, is_coloured, note, one_line, port_list, print, print_json, table, usage_cells, width,
};

/// A job, and what was looked up because it was asked for.
struct Listed {
    job: Job,
    state: State,
    usage: Option<Usage>,
    /// The inner `None`: not known.
    ports: Option<Option<Vec<Port>>>,
}

/// The job object, and the fields that were asked for.
#[derive(Serialize)]
struct ListedObject<'a> {
    #[serde(flatten)]
    job: JobObject,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<&'a Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ports: Option<&'a Option<Vec<Port>>>,
}

pub(crate) fn run(context: &Context, arguments: &List) -> Result<ExitCode, Failure> {
    let listing = context.list("list")?.with_labels(&arguments.label);
    // The session of a damaged job is not known, so a list of one session leaves it out.
    for damaged in listing.damaged.iter().filter(|_| context.session.is_none()) {
        let name = one_line(&damaged.name.to_string_lossy());
        note(&if damaged.error.is_newer() {
            format!("outlive: warning: {name} {NEWER}")
        } else if damaged.error.is_certain() {
            format!("outlive: warning: {name} is damaged; outlive doctor --fix moves it out of the way")
        } else {
            format!("outlive: warning: {name} could not be read: {}", chain(&damaged.error))
        });
    }
    let mut listeners = Listeners::new();
    let jobs: Vec<Listed> = listing
        .jobs
        .into_iter()
        .filter(|job| arguments.group.is_none() || job.spec().options.group == arguments.group)
        .filter_map(|job| {
            let state = job.state(&context.store);
            context.store.probe_in_passing(&job, &state);
            let is_listed = !state.is_removed() && (!arguments.live || state.is_live());
            is_listed.then(|| look_up(context, arguments, &mut listeners, job, state))
        })
        .collect();
    for listed in &jobs {
        if !listed.state.newer.is_empty() {
            note(&format!("outlive: warning: {} {NEWER}", listed.job.id()));
        }
        let usage = listed.usage.iter();
        for warning in usage.flat_map(|usage| listed.job.warnings(&listed.state, usage)) {
            note(&format!("outlive: warning: {warning}"));
        }
    }
    if context.is_json {
        return print_json(&jobs.iter().map(object).collect::<Vec<_>>());
    }
    if jobs.is_empty() {
        note(if arguments.live { "no live jobs" } else { "no jobs; start one with: outlive run 'LINE'" });
        return Ok(ExitCode::SUCCESS);
    }
    let has_sessions = jobs.iter().any(|listed| listed.job.session() != jobs[0].job.session());
    let mut rows = vec![header(arguments, has_sessions)];
    rows.extend(jobs.iter().map(|listed| row(listed, has_sessions)));
    let is_coloured = is_coloured();
    let mut text = table(&rows, width(), |line, column, cell| match (line, column) {
        (0, _) | (_, 0) | (_, 2..) => cell.to_owned(),
        (line, _) => colour(jobs[line - 1].state.status, cell, is_coloured),
    });
    if has_sessions && arguments.usage {
        text.push('\n');
        text.push_str(&table(&sums(&jobs), width(), |_, _, cell| cell.to_owned()));
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

/// Looks only where that was asked for: processes are many, and a list is made often.
fn look_up(context: &Context, arguments: &List, listeners: &mut Listeners, job: Job, state: State) -> Listed {
    let is_wanted = arguments.usage || arguments.ports;
    let tree = if is_wanted { job.tree(&context.store, &state) } else { None };
    let usage = arguments.usage.then(|| job.usage(&state, tree.as_ref()));
    let ports = arguments.ports.then(|| tree.map(|tree| tree.ports(listeners)));
    Listed { job, state, usage, ports }
}

fn object(listed: &Listed) -> ListedObject<'_> {
    let job = JobObject::new(&listed.job, &listed.state);
    ListedObject { job, usage: listed.usage.as_ref(), ports: listed.ports.as_ref() }
}

fn header(arguments: &List, has_sessions: bool) -> Vec<String> {
    let mut header = vec!["JOB", "STATUS", "TIME"];
    if has_sessions {
        header.push("SESSION");
    }
    if arguments.usage {
        header.extend(["CPU", "MEMORY", "PROCS"]);
    }
    if arguments.ports {
        header.push("PORTS");
    }
    header.push("COMMAND");
    header.into_iter().map(str::to_owned).collect()
}

fn row(listed: &Listed, has_sessions: bool) -> Vec<String> {
    let Listed { job, state, usage, ports } = listed;
    let mut status = state.words();
    if let Some(outlive::WaitStatus::Exited { code: code @ 1.. }) =
        state.outcome.as_ref().map(|outcome| outcome.wait_status)
    {
        status = format!("{status} ({code})");
    }
    let time = state.runtime_ms().map_or_else(|| "-".to_owned(), outlive::duration::format_duration);
    let spec = job.spec();
    let mut row = vec![spec.job.to_string(), status, time];
    if has_sessions {
        row.push(listed.job.session().to_string());
    }
    row.extend(usage.iter().flat_map(usage_cells));
    row.extend(ports.iter().map(|ports| port_list(ports.as_deref().unwrap_or_default())));
    let command = one_line(&spec.command_line());
    row.push(job.name().map_or(command.clone(), |name| format!("{}: {command}", one_line(name))));
    row
}

/// Sums up what the listed jobs of each session use.
fn sums(jobs: &[Listed]) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<&str, Usage> = BTreeMap::new();
    for listed in jobs {
        *sums.entry(listed.job.session().as_str()).or_default() += listed.usage.unwrap_or_default();
    }
    let header = ["SESSION", "CPU", "MEMORY", "PROCS"].map(str::to_owned).to_vec();
    let rows = sums.iter().map(|(session, usage)| {
        let mut row = vec![(*session).to_owned()];
        row.extend(usage_cells(usage));
        row
    });
    std::iter::once(header).chain(rows).collect()
}
