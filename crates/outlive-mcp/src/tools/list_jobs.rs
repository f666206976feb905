//! `list_jobs`: list the jobs of the project.

use outlive::duration::{format_duration, format_size};
use outlive::{Job, Listeners, State};
use outlive_project::{Project, ProjectError};

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::arguments::shown;
use crate::jobs::{self, summary};
use crate::reply::{Failure, Reply, push_own_line};
use crate::scope::session_of;

pub(crate) static TOOL: Tool = Tool {
    name: "list_jobs",
    title: "List jobs",
    description: "List the jobs of this project, also of earlier sessions: the live ones, then the newest that ended.",
    parameters: &[
        Parameter::new("group", Kind::Text, ""),
        Parameter::new("status", Kind::Word(&STATUS), ""),
        Parameter::new("ports", Kind::Flag, ""),
        Parameter::new("usage", Kind::Flag, "CPU time and memory"),
        Parameter::new("why", Kind::Text, "Job of outlive.toml: what it waits for; * for how all are"),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call,
};

/// How many ended jobs are listed unless they are asked for.
const ENDED: usize = 10;

/// The size of the list in bytes: of all jobs, and of those that were asked for.
const ROOM: usize = 1400;
const FILTERED: usize = 2800;

/// How many characters of a command are shown.
const COMMAND: usize = 40;

const STATUS: [&str; 11] = [
    "all",
    "live",
    "ended",
    "queued",
    "starting",
    "running",
    "completed",
    "failed",
    "killed",
    "timed_out",
    "lost",
];

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    if let Some(name) = call.arguments.text("why")? {
        return project(call, &name);
    }
    let group = call.arguments.text("group")?;
    let status = call.arguments.word("status", &STATUS)?.unwrap_or("all");
    let (ports, usage) = (call.arguments.flag("ports")?, call.arguments.flag("usage")?);
    let mut jobs: Vec<(Job, State)> = Vec::new();
    let is_member = |job: &Job| group.is_none() || job.spec().options.group == group;
    let mut found = jobs::list_states(call, is_member)?;
    call.store.ask_engine(&mut found.iter_mut().map(|(job, state)| (&*job, state)).collect::<Vec<_>>());
    for (job, mut state) in found {
        call.store.look_at_question(&job, &mut state);
        let is_wanted = match status {
            "all" => true,
            "live" => state.is_live(),
            "ended" => !state.is_live(),
            word => state.status.word() == word,
        };
        if is_wanted && !state.is_removed() {
            jobs.push((job, state));
        }
    }
    let (live, ended): (Vec<_>, Vec<_>) = jobs.iter().rev().partition(|(_, state)| state.is_live());
    let is_plain = status == "all" && group.is_none();
    let (most_ended, room) = if is_plain { (ENDED, ROOM) } else { (usize::MAX, FILTERED) };
    let mut listeners = Listeners::new();
    let (mut body, mut listed) = (String::new(), 0);
    for (job, state) in live.iter().copied().chain(ended.iter().copied().take(most_ended)) {
        let mut line = String::new();
        push_own_line(&mut line, &row(call, job, state, ports.then_some(&mut listeners), usage));
        if body.len() + line.len() > room {
            break;
        }
        body.push_str(&line);
        listed += 1;
    }
    let header = match jobs.len() {
        0 if !is_plain => "no such jobs".to_owned(),
        0 => "no jobs yet: start one with run".to_owned(),
        count => format!("{count} {}, {} live", if count == 1 { "job" } else { "jobs" }, live.len()),
    };
    let mut reply = Reply::new(header).body(body);
    if listed < jobs.len() {
        reply = reply.footer(format!("{} more: list_jobs with status or group", jobs.len() - listed));
    }
    Ok(reply)
}

/// Tells how the jobs of the project's file are doing, or why one is as it is.
fn project(call: &Call<'_>, name: &str) -> Result<Reply, Failure> {
    let failed = |error: ProjectError| {
        let next = match &error {
            ProjectError::None(_) => {
                "list_jobs without why lists the jobs; outlive.toml says which belong together"
            }
            ProjectError::Unknown { .. } => "list_jobs why=* lists its jobs",
            _ => "mend the file, and ask again",
        };
        Failure::of("no project", &error).next(next)
    };
    let directory = call.scope.directory.as_deref().unwrap_or(&call.scope.here);
    let file = Project::find(directory).map_err(failed)?;
    let project = Project::load(&file, &call.store.config().hosts).map_err(failed)?;
    // A client from elsewhere names the directory: it sees the project if its session is that of it.
    let own = [project.session(), session_of(directory)];
    if call.scope.is_remote && call.scope.seen().is_some_and(|session| !own.contains(session)) {
        let failure = Failure::new("the project belongs to another session");
        return Err(failure.next("list_jobs without why lists the jobs of this one"));
    }
    let mut body = String::new();
    if name == "*" {
        for job in outlive_project::status(call.store, &project).map_err(failed)? {
            let host = job.host.map(|host| format!("{host}/")).unwrap_or_default();
            let id = job.job.map(|job| format!("  {host}{}", job.id())).unwrap_or_default();
            push_own_line(&mut body, &format!("{}: {}{id}", job.name, job.state));
        }
        let header = format!(
            "project {}, {} jobs: start them with outlive up",
            shown(&project.name),
            project.jobs.len()
        );
        return Ok(Reply::new(header).body(body));
    }
    for cause in outlive_project::why(call.store, &project, name).map_err(failed)? {
        let indent = "  ".repeat(cause.depth);
        push_own_line(&mut body, &format!("{indent}{}", cause.text));
        cause.output.iter().for_each(|line| body += &format!("{line}\n"));
    }
    Ok(Reply::new(format!("why {}", shown(name))).body(body))
}

/// Describes an ended job's age: `, 5m ago`.
fn age(state: &State) -> Option<String> {
    let ended = state.outcome.as_ref()?.ended;
    let micros = outlive_sys::clock::wall_us().saturating_sub(ended.0);
    Some(format!(", {} ago", format_duration(micros / 1_000_000 * 1000)))
}

fn row(call: &Call<'_>, job: &Job, state: &State, listeners: Option<&mut Listeners>, usage: bool) -> String {
    let spec = job.spec();
    let mut row = summary(job, state);
    row.extend(age(state).filter(|_| !state.is_live()));
    if let Some(group) = &spec.options.group {
        row += &format!("  group={}", shown(group));
    }
    if call.scope.sees_all {
        row += &format!("  session={}", job.session());
    }
    let tree =
        if state.is_live() && (usage || listeners.is_some()) { job.tree(call.store, state) } else { None };
    if let (Some(listeners), Some(tree)) = (listeners, &tree) {
        let mut ports: Vec<u16> = tree.ports(listeners).iter().map(|port| port.port).collect();
        ports.dedup();
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        row += &format!("  ports={}", if ports.is_empty() { "-".to_owned() } else { ports.join(",") });
    }
    if usage {
        let used = job.usage(state, tree.as_ref());
        let cpu = used.cpu_ms.map_or_else(|| "-".to_owned(), format_duration);
        let memory = used.memory_bytes.map_or_else(|| "-".to_owned(), format_size);
        row += &format!("  cpu={cpu} memory={memory}");
    }
    let line = shown(&spec.command_line());
    let short: String = line.chars().take(COMMAND).collect();
    let cut = if short.len() < line.len() { "…" } else { "" };
    row + "  $ " + &short + cut
}
