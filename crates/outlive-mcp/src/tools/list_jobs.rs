//! `list_jobs`: list the jobs of the project.

use outlive::duration::{format_duration, format_size};
use outlive::{Job, Listeners, State};

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::arguments::shown;
use crate::jobs::{self, condition};
use crate::reply::{Failure, Reply, push_line};

pub(crate) static TOOL: Tool = Tool {
    name: "list_jobs",
    title: "List jobs",
    description: "List the jobs of this project with state, exit code, time and command, the newest first; also those of earlier sessions. status: live, ended, or one state. ports and usage add what each listens on, and its processor time and memory.",
    parameters: &[
        Parameter::new("group", Kind::Text, "Only this group"),
        Parameter::new("status", Kind::Word(&STATUS), "Only these"),
        Parameter::new("ports", Kind::Flag, "Show ports"),
        Parameter::new("usage", Kind::Flag, "Show CPU time and memory"),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call,
};

const STATUS: [&str; 10] =
    ["all", "live", "ended", "starting", "running", "completed", "failed", "killed", "timed_out", "lost"];

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let group = call.arguments.text("group")?;
    let status = call.arguments.word("status", &STATUS)?.unwrap_or("all");
    let (ports, usage) = (call.arguments.flag("ports")?, call.arguments.flag("usage")?);
    let mut jobs: Vec<(Job, State)> = Vec::new();
    for job in
        jobs::list(call)?.into_iter().filter(|job| group.is_none() || job.spec().options.group == group)
    {
        let state = job.state(call.store);
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
    let live = jobs.iter().filter(|(_, state)| state.is_live()).count();
    let mut listeners = Listeners::new();
    let (mut body, mut listed, room) = (String::new(), 0, call.room());
    for (job, state) in jobs.iter().rev() {
        let mut line = String::new();
        push_line(&mut line, &row(call, job, state, ports.then_some(&mut listeners), usage));
        if body.len() + line.len() > room {
            break;
        }
        body.push_str(&line);
        listed += 1;
    }
    let header = match jobs.len() {
        0 if group.is_some() || status != "all" => "no such jobs".to_owned(),
        0 => "no jobs yet: start one with run".to_owned(),
        count => format!("{count} {}, {live} live", if count == 1 { "job" } else { "jobs" }),
    };
    let mut reply = Reply::new(header).body(body);
    if listed < jobs.len() {
        reply =
            reply.footer(format!("{} older ones are not shown: use status or group", jobs.len() - listed));
    }
    Ok(reply)
}

fn row(call: &Call<'_>, job: &Job, state: &State, listeners: Option<&mut Listeners>, usage: bool) -> String {
    let spec = job.spec();
    let mut row = format!("{}  {}", job.id(), condition(state));
    if let Some(name) = job.name() {
        row += &format!("  name={}", shown(name));
    }
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
    row + "  $ " + &shown(&spec.command_line())
}
