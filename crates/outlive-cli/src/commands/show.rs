//! `outlive show`: all that is known of a job.

use std::collections::BTreeMap;
use std::process::ExitCode;

use outlive::duration::{format_duration, format_size};
use outlive::{
    Enforcement, JobDetails, JobObject, JobOptions, LimitsObject, NEWER, OPTIONS, OnExit, OnExitState,
    OrNewer, Port, Process, Source, State, Usage, Webhook, WebhookState,
};

use serde_json::Value;

use crate::args::Show;
use crate::commands::Context;
use crate::failure::Failure;
use crate::local_time;
use crate::render::{
    Rows, colour, counted, is_coloured, note, one_line, port_list, print, print_json, survival, table, width,
};

pub(crate) fn run(context: &Context, arguments: &Show) -> Result<ExitCode, Failure> {
    let job = context.find(&arguments.job)?;
    let mut state = job.state(&context.store);
    context.store.ask_engine(&mut [(&job, &mut state)]);
    context.store.look_for_input_wait(&job, &mut state);
    context.store.probe_in_passing(&job, &state);
    let mut shown = JobDetails::new(&context.store, &job, &state, arguments.show_env);
    if !state.newer.is_empty() {
        shown.warnings.push(format!("{} {NEWER} (not understood: {})", job.id(), state.newer.join(", ")));
    }
    for warning in &shown.warnings {
        note(&format!("outlive: warning: {warning}"));
    }
    if context.is_json {
        print_json(&shown)?;
    } else if arguments.tree {
        match shown.processes.as_deref() {
            Some([]) => note(&format!("nothing of {} runs", job.id())),
            Some(processes) => print(&tree_text(processes)),
            None => note(&format!("the processes of {} cannot be seen from here", job.id())),
        }
    } else {
        print(&text(&state, &shown, &job.spec().options));
    }
    // Marked only after the answer was printed: if this program dies before, the inbox has the ending.
    if state.status.has_ended() {
        job.mark_seen();
        if context.is_json || !arguments.tree {
            job.mark_delivered(&context.reader);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(state: &State, shown: &JobDetails, options: &JobOptions) -> String {
    let job = &shown.job;
    let status = state.words().replace('_', " ");
    let mut rows = Rows::default();
    rows.add("job", Some(job.job.to_string()));
    rows.add("name", &job.name);
    rows.add("status", Some(&status));
    rows.add("ready", ready_line(job));
    rows.add("awaits", awaits_line(job));
    rows.add("reason", &job.reason);
    // One that has ended says it with the reason.
    rows.add("gave up", job.gave_up.as_ref().filter(|_| job.ended_at.is_none()));
    rows.add("recorded until", job.recorded_until.as_deref().map(local_time::of_object));
    // A line of a script is not to be taken for an argument of the one before it.
    rows.add("command", Some(job.command.trim_end().replace('\n', " ↵ ")));
    rows.add("directory", Some(&job.cwd));
    rows.add("session", Some(&job.session));
    rows.add("labels", job.labels.iter().map(|(name, value)| format!("{name}={value}")));
    rows.add("parent", job.parent.as_ref().map(ToString::to_string));
    rows.add("previous", job.previous.as_ref().map(ToString::to_string));
    rows.add("because", &shown.because);
    rows.add("after", job.after.iter());
    rows.add("queue", &job.queue);
    rows.add("placed by", &job.placed_by);
    rows.add("waits for", &job.waits_for);
    rows.add("schedule", &job.schedule);
    rows.add("next run", job.next_run_at.as_deref().map(local_time::of_object));
    rows.add("pid", job.pid.map(|pid| pid.to_string()));
    rows.add("keeper", shown.keeper_pid.map(|pid| format!("pid {pid}")));
    rows.add("guard", shown.guard_pid.map(|pid| format!("pid {pid}")));
    rows.add("started", job.started_at.as_deref().map(local_time::of_object));
    rows.add("ended", job.ended_at.as_deref().map(local_time::of_object));
    rows.add("runtime", job.runtime_ms.map(format_duration));
    rows.add("timeout", shown.timeout_ms.map(format_duration));
    rows.add("grace", Some(format_duration(shown.grace_ms)));
    let dropped = match job.output.dropped_bytes {
        0 => String::new(),
        bytes => format!("; {} could not be kept", format_size(bytes)),
    };
    let lines = counted(job.output.lines, "line", "lines");
    let output = format!("{} in {lines}{dropped}", format_size(job.output.bytes));
    rows.add("output", Some(output));
    let cap = shown.output_cap_bytes.map(|cap| format!("the last {}", format_size(cap)));
    rows.add("kept", Some(cap.as_deref().unwrap_or("all")));
    rows.add("containment", job.containment.as_ref().map(OrNewer::word));
    rows.add("limits", job.limits.iter().flat_map(limit_lines));
    rows.add("survivors", Some(&shown.survivors));
    for option in OPTIONS.iter().filter(|option| option.surfaces.in_show) {
        let (text, default) = (option.text(options), option.text(&JobOptions::default()));
        let shown = match text.strip_prefix("until=") {
            Some(time) => format!("until {}", local_time::of_object(time)),
            None => text.clone(),
        };
        rows.add(option.name, (text != default).then_some(shown));
    }
    rows.add("usage", usage_line(&shown.usage));
    let port = |port: &Port| {
        // What it speaks is not known.
        let place = port.url.strip_prefix("http://").unwrap_or(&port.url);
        format!("{place} (pid {}, bound to {})", port.pid, port.address)
    };
    rows.add("ports", shown.ports.iter().flatten().map(port));
    // Of a job whose main process has ended, these are what is left.
    let left = shown.processes.iter().flatten().filter(|_| job.lingering);
    rows.add("left", left.map(|process| format!("pid {}: {}", process.pid, process.command)));
    rows.add("on exit", shown.on_exit.as_ref().map(on_exit_line));
    rows.add("webhook", shown.webhook.as_ref().map(webhook_line));
    let stdin = shown.stdin_from.as_ref().map(|from| format!("what {from} prints"));
    let stdin =
        stdin.unwrap_or_else(|| if options.pty { "its terminal".to_owned() } else { plain(&shown.stdin) });
    rows.add("stdin", Some(stdin));
    rows.add("restart on change", shown.restart_on_change.iter());
    for (name, value) in &shown.env_set {
        rows.add("env", Some(format!("{name}={value}")));
    }
    for name in &shown.env_unset {
        rows.add("unset", Some(name));
    }
    // What has ended has nothing to survive.
    rows.add("survives", survival(&shown.survives).into_iter().filter(|_| state.is_live()));
    rows.add("files", Some(&shown.directory));
    let is_coloured = is_coloured();
    rows.text(|column, cell| match column {
        1 if cell == status => colour(state.status, cell, is_coloured),
        _ => cell.into(),
    })
}

/// Writes a word as it is, and what a later version wrote as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Tells what became of the command that is run at the end.
fn on_exit_line(on_exit: &OnExit) -> String {
    let ended = match (on_exit.run.exit_code, &on_exit.run.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("ended by {signal}"),
        (None, None) => "ended".to_owned(),
    };
    let state = match on_exit.state {
        OnExitState::Waiting => "waiting for the end".to_owned(),
        OnExitState::Running => "running".to_owned(),
        OnExitState::Ended => ended,
        OnExitState::NotRun => "not run".to_owned(),
        OnExitState::Unknown => "how it ended is not known: whoever ran it died".to_owned(),
    };
    let more = [&on_exit.run.error, &on_exit.run.note].into_iter().flatten().map(|text| format!("; {text}"));
    let printed = on_exit.run.output.as_deref().map(str::trim_end).filter(|output| !output.is_empty());
    let last = printed.and_then(|output| output.lines().last()).map(|line| format!("; last line: {line}"));
    format!("{state}{}{}: {}", more.collect::<String>(), last.unwrap_or_default(), on_exit.line)
}

/// Tells what became of the notice that is sent at the end.
fn webhook_line(webhook: &Webhook) -> String {
    let attempts = || counted(webhook.attempts.into(), "attempt", "attempts");
    let state = match webhook.state {
        WebhookState::Waiting => "waiting for the end".to_owned(),
        WebhookState::Owed => "not yet kept for sending".to_owned(),
        WebhookState::Spooled => format!("not delivered yet, {}", attempts()),
        WebhookState::Delivered => format!("delivered, {}", attempts()),
        WebhookState::GivenUp => {
            format!("given up after {}; outlive deliver --retry sends it anew", attempts())
        }
        WebhookState::Unknown => "whether it arrived is not known".to_owned(),
    };
    let error = webhook.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("{}: {state}{error}", webhook.address)
}

fn awaits_line(job: &JobObject) -> Option<String> {
    let awaits = job.awaits.as_ref()?;
    let hint = awaits.hint(&job.job).map(|hint| format!("; {hint}"));
    Some(format!(
        "{} since {}{}",
        awaits.sentence(),
        local_time::of_object(&awaits.since),
        hint.unwrap_or_default()
    ))
}

/// Tells whether it is ready; `None` where nothing was said about when it would be.
fn ready_line(job: &JobObject) -> Option<String> {
    let since = job
        .ready_at
        .as_deref()
        .map(|at| format!(", since {}", local_time::of_object(at)))
        .unwrap_or_default();
    let url = job.ready_place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
    job.ready.map(|is_ready| format!("{}{since}{url}", if is_ready { "yes" } else { "no" }))
}

fn limit_lines(limits: &LimitsObject) -> Vec<String> {
    let kept = |kept: Option<Enforcement>| kept.map_or("not known", Enforcement::word);
    let lines = [
        limits.memory_bytes.map(|limit| format!("memory {}: {}", format_size(limit.value), kept(limit.kept))),
        limits.pids.map(|limit| format!("processes {}: {}", limit.value, kept(limit.kept))),
        limits.cpu.map(|limit| format!("processors {}: {}", limit.value, kept(limit.kept))),
        limits.open_files.map(|limit| format!("open files {}: {}", limit.value, kept(limit.kept))),
    ];
    lines.into_iter().flatten().collect()
}

/// Writes what is known; `None` if nothing is.
fn usage_line(usage: &Usage) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(usage.cpu_ms.map(|cpu| format!("{} of processor time", format_duration(cpu))));
    if usage.source != Some(Source::Outcome) {
        parts.extend(usage.memory_bytes.map(|now| format!("{} of memory", format_size(now))));
        parts.extend(usage.processes.map(|count| counted(count, "process", "processes")));
    }
    parts.extend(usage.memory_peak_bytes.map(|peak| format!("{} at the peak", format_size(peak))));
    parts.extend(usage.max_rss_bytes.map(|largest| format!("{} in one process", format_size(largest))));
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Draws the processes as a tree, with what each uses.
fn tree_text(processes: &[Process]) -> String {
    let unknown = || "-".to_owned();
    let mut rows = vec![["PID", "CPU", "MEMORY", "PORTS", "COMMAND"].map(str::to_owned).to_vec()];
    for (process, branch) in processes.iter().zip(branches(processes)) {
        rows.push(vec![
            process.pid.to_string(),
            process.cpu_ms.map_or_else(unknown, format_duration),
            process.rss_bytes.map_or_else(unknown, format_size),
            port_list(&process.ports),
            format!("{branch}{}", one_line(&process.command)),
        ]);
    }
    table(&rows, width(), |_, _, cell| cell.into())
}

/// Draws the branch before each process; parents come before their children, and these right after them.
fn branches(processes: &[Process]) -> Vec<String> {
    let is_listed = |pid: i32| processes.iter().any(|process| process.pid == pid);
    let mut drawn: BTreeMap<i32, String> = BTreeMap::new();
    let draw = |(number, process): (usize, &Process)| {
        // The prefix of this process's children: a line goes on where siblings follow.
        let Some(above) = drawn.get(&process.parent).filter(|_| is_listed(process.parent)).cloned() else {
            drawn.insert(process.pid, String::new());
            return String::new();
        };
        let is_last = processes[number + 1..].iter().all(|later| later.parent != process.parent);
        drawn.insert(process.pid, format!("{above}{}", if is_last { "   " } else { "│  " }));
        format!("{above}{}", if is_last { "└─ " } else { "├─ " })
    };
    processes.iter().enumerate().map(draw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_lead_from_parents_to_children() {
        let process = |(pid, parent)| Process {
            pid,
            parent,
            command: String::new(),
            state: 'S',
            cpu_ms: None,
            rss_bytes: None,
            ports: Vec::new(),
        };
        let processes = [(10, 1), (11, 10), (12, 11), (13, 10), (14, 13), (20, 1)].map(process);
        assert_eq!(branches(&processes), ["", "├─ ", "│  └─ ", "└─ ", "   └─ ", ""]);
    }
}
