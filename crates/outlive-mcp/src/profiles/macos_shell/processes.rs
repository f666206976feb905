//! `list_processes`, `get_process_output`, `kill_process` and `stream_process_output`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive::{
    ControlError, Followed, Follower, Job, Kill, Line, Signal, State, Status, Stream, Until, WaitFor,
};
use serde_json::{Value, json};

use super::{content, find, in_sight, line_object, sessions, total_lines, window, word};
use crate::arguments::shown;
use crate::jobs::{BY, delivers};
use crate::profiles::{known_pid, started, without_nulls};
use crate::reply::{Failure, Reply, chain};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static LIST: Tool = Tool {
    name: "list_processes",
    title: "List background processes",
    description: "Lists all background processes, optionally filtered by session or status.",
    parameters: &[
        Parameter::new("session", Kind::Text, "Filter by session"),
        Parameter::new("status", Kind::Word(&STATUS), "Filter by status"),
        Parameter::new("includeOutput", Kind::Flag, "Include recent output (default: false)"),
        Parameter::new("group", Kind::Text, "Filter by group"),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call: list,
};

pub(super) static OUTPUT: Tool = Tool {
    name: "get_process_output",
    title: "Get a process's output",
    description: "Retrieves buffered output from a background process.",
    parameters: &[
        Parameter::required("processId", Kind::Text, "Background process ID"),
        Parameter::number("lines", "Number of lines to retrieve (default: 100)"),
        Parameter::number("fromLine", "Start from specific line number"),
        Parameter::new("type", Kind::Word(&TYPES), "Filter by output type"),
        Parameter::new(
            "clearOutput",
            Kind::Flag,
            "Clear the buffered output once it was returned (default: false)",
        ),
    ],
    hints: Hints { read_only: false, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call: output,
};

pub(super) static KILL: Tool = Tool {
    name: "kill_process",
    title: "Signal a process",
    description: "Sends a signal to a background process, or to all of a group. Answers at once: a process that takes longer to end is reported by list_processes.",
    parameters: &[
        Parameter::new("processId", Kind::Text, "Background process ID; required without group"),
        Parameter::new("group", Kind::Text, "All running processes of this group"),
        Parameter::new("signal", Kind::Text, "Signal to send (default: \"SIGTERM\")"),
        Parameter::new("force", Kind::Flag, "Use SIGKILL if true"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: false },
    waits: true,
    call: kill,
};

pub(super) static STREAM: Tool = Tool {
    name: "stream_process_output",
    title: "Stream a process's output",
    description: "Waits for new output of a background process and returns it as soon as there is some, or when the process ends. Call it again with the afterLine that it returns.",
    parameters: &[
        Parameter::required("processId", Kind::Text, "Background process ID"),
        Parameter::number("afterLine", "Get lines after this line number (default: 0)"),
        Parameter::number("timeout", "Max time to wait for new output in ms (default: 30000, at most 45000)"),
        Parameter::number("maxLines", "Maximum lines to return (default: 100)"),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: true,
    call: stream,
};

const STATUS: [&str; 5] = ["starting", "running", "stopped", "failed", "killed"];

const TYPES: [&str; 3] = ["all", "stdout", "stderr"];

/// How many lines may be unfinished: one of each stream.
const UNFINISHED: usize = 2;

/// How many lines `includeOutput` shows.
const RECENT: usize = 10;

/// Far beyond any line number.
const NO_LINE: u64 = 1 << 50;

/// How long a call waits for a process to end by a signal: most do at once, and the answer must not wait for the others.
const EFFECT: Duration = Duration::from_secs(1);

/// How long a process that was sent SIGTERM is watched after the answer, so that what it leaves behind ends with it.
const WATCHED: Duration = Duration::from_secs(600);

/// How long leftover children have to end once their process ended by a signal.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let given = call.arguments.text("session")?;
    let session = given.map(|given| sessions::meant(call, &given)).transpose()?;
    let status = call.arguments.word("status", &STATUS)?;
    let with_output = call.arguments.flag("includeOutput")?;
    let group = call.arguments.text("group")?;
    let mut jobs = in_sight(call)?;
    let alerts = alerts(&jobs);
    jobs.retain(|(job, state)| {
        group.as_ref().is_none_or(|group| job.spec().options.group.as_ref() == Some(group))
            && session.as_ref().is_none_or(|session| job.session() == session)
            && status.is_none_or(|status| word(state) == status)
    });
    let mut processes = Vec::new();
    for (job, state) in &jobs {
        match row(call, job, state, with_output) {
            Ok(row) => processes.push(row),
            // Another front end has removed it since.
            Err(_) if job.is_removed() => {}
            Err(failure) => return Err(failure),
        }
    }
    // A list is no access: jobs whose end was told are not noted again.
    jobs.retain(|(job, _)| !job.is_seen());
    let mut object = json!({"processes": processes});
    if !alerts.is_empty() {
        object["alerts"] = alerts.into();
    }
    let reply = Reply::json(&object);
    Ok(jobs.into_iter().fold(reply, |reply, (job, state)| delivers(call, reply, job, &state)))
}

/// Describes the processes that have failed or were killed, and of which no answer has told yet.
fn alerts(jobs: &[(Job, State)]) -> Vec<Value> {
    let is_news = |(job, state): &&(Job, State)| {
        matches!(state.status, Status::Failed | Status::Killed | Status::TimedOut | Status::Lost)
            && !job.is_seen()
    };
    let alert = |(job, state): &(Job, State)| {
        without_nulls(json!({
            "processId": job.id().as_str(),
            "status": word(state),
            "exitCode": state.exit_code(),
            "message": outlive::reason(state),
        }))
    };
    jobs.iter().filter(is_news).map(alert).collect()
}

/// Describes the end of a process, and nothing while it runs.
fn ending(object: &mut Value, state: &State) {
    if let Some(outcome) = state.outcome.as_ref().filter(|_| state.status.has_ended()) {
        object["endTime"] = outcome.ended.to_string().into();
        object["exitCode"] = state.exit_code().into();
    }
}

/// Describes a process.
fn row(call: &Call<'_>, job: &Job, state: &State, with_output: bool) -> Result<Value, Failure> {
    let spec = job.spec();
    // Only a job of `shell_words` has its arguments apart; the line of any other is one word.
    let words: Vec<String> = match (&spec.shell_line, spec.words.as_slice()) {
        (Some(line), []) => vec![line.to_lossy()],
        (None, []) => spec.argv.iter().map(outlive::RawText::to_lossy).collect(),
        (_, words) => words.iter().map(outlive::RawText::to_lossy).collect(),
    };
    let (command, arguments) = words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut row = json!({
        "id": job.id().as_str(),
        "sessionName": sessions::called(call.scope, job.session()),
        "command": command,
        "args": arguments,
        "pid": known_pid(state),
        "status": word(state),
        "startTime": started(job, state).to_string(),
        "runtime": state.runtime_ms().unwrap_or(0),
    });
    ending(&mut row, state);
    if let Some(group) = &job.spec().options.group {
        row["group"] = group.as_str().into();
    }
    if let Some(tree) = job.tree(call.store, state).filter(|_| state.is_live()) {
        let usage = job.usage(state, Some(&tree));
        row["resourceUsage"] = without_nulls(json!({
            "cpuMs": usage.cpu_ms,
            "memoryBytes": usage.memory_bytes,
            "processes": usage.processes,
        }));
    }
    row["outputLines"] = total_lines(job, state)?.into();
    if with_output {
        let mut recent = window(job, RECENT + UNFINISHED)?;
        recent.lines.retain(|line| line.is_ended || state.status.has_ended());
        let first = recent.lines.len().saturating_sub(RECENT);
        row["recentOutput"] = recent.lines.iter().skip(first).map(content).collect();
    }
    Ok(row)
}

fn output(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let lines = call.arguments.number("lines", 1..=NO_LINE)?.unwrap_or(100);
    let from = call.arguments.number("fromLine", 0..=NO_LINE)?;
    let stream = match call.arguments.word("type", &TYPES)? {
        Some("stdout") => Some(Stream::Stdout),
        Some("stderr") => Some(Stream::Stderr),
        _ => None,
    };
    let job = find(call)?;
    // The state is read first: of an ended job, all output is then there.
    let state = job.state(call.store);
    let shown = window(&job, usize::MAX)?;
    let is_of_stream =
        |line: &&Line| stream.is_none_or(|stream| line.stream.unwrap_or(Stream::Stdout) == stream);
    // A line has its number when it ends: an unfinished line is shown apart.
    let is_told = |line: &Line| line.is_ended || state.status.has_ended();
    let is_wanted =
        |line: &&Line| is_of_stream(line) && is_told(line) && from.is_none_or(|from| line.number >= from);
    let mut wanted: Vec<&Line> = shown.lines.iter().filter(is_wanted).collect();
    let most = usize::try_from(lines).unwrap_or(usize::MAX);
    // With `fromLine` the next lines, without it the last.
    match from {
        Some(_) => wanted.truncate(most),
        None => drop(wanted.drain(..wanted.len().saturating_sub(most))),
    }
    let output: Vec<Value> = wanted.into_iter().map(|line| line_object(&job, &state, line)).collect();
    let all_unfinished = shown.lines.iter().filter(|line| !is_told(line)).count() as u64;
    let unfinished: Vec<&Line> =
        shown.lines.iter().filter(is_of_stream).filter(|line| !is_told(line)).collect();
    let mut object = json!({
        "processId": job.id().as_str(),
        "status": word(&state),
        "totalLines": shown.total - all_unfinished,
        "requestedLines": lines,
        "output": output,
    });
    ending(&mut object, &state);
    if !unfinished.is_empty() {
        object["partial"] = unfinished.into_iter().map(content).collect();
    }
    let clears = call.arguments.flag("clearOutput")?;
    let (store, id, nonce) = (Arc::clone(call.store), job.id().clone(), job.spec().nonce);
    let reply = delivers(call, Reply::json(&object), job, &state);
    Ok(match clears {
        false => reply,
        // Only once the client has it.
        true => reply.after(move || {
            if let Some(job) = store.find_exactly(&id, nonce)
                && let Err(error) = store.clear(&job)
            {
                crate::log(&format!("{id} is not cleared: {}", chain(&error)));
            }
        }),
    })
}

fn stream(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let after = call.arguments.number("afterLine", 0..=NO_LINE)?.unwrap_or(0);
    let longest = u64::try_from(call.longest().as_millis()).unwrap_or(u64::MAX);
    let timeout = call.arguments.number("timeout", 0..=longest)?.unwrap_or(30_000).min(longest);
    let most = call.arguments.number("maxLines", 1..=NO_LINE)?.unwrap_or(100);
    let job = find(call)?;
    let deadline = Instant::now() + Duration::from_millis(timeout);
    let failed = |error: std::io::Error| Failure::of("the output cannot be read", &error);
    // Following begins before the first look, so that nothing is missed between the two.
    let mut follower: Option<Follower<'_>> = None;
    let (state, shown) = loop {
        let state = job.state(call.store);
        let mut shown = window(&job, usize::MAX)?;
        // An unfinished line would be shown once, and never again with its end.
        let is_told = |line: &Line| line.is_ended || state.status.has_ended();
        shown.total -= shown.lines.iter().filter(|line| !is_told(line)).count() as u64;
        shown.lines.retain(|line| line.number > after && (line.is_ended || state.status.has_ended()));
        let left = deadline.saturating_duration_since(Instant::now());
        if !shown.lines.is_empty() || state.status.has_ended() || left.is_zero() || call.is_cancelled() {
            break (state, shown);
        }
        match &mut follower {
            None => {
                let end = outlive::Output::open(&job).map_err(failed)?.end();
                let following = Follower::new(call.store, &job, end).map_err(failed)?;
                follower = Some(following.until_exit().stopped_by(call.stop()));
            }
            Some(follower) => {
                // Without a keeper there is no output to follow, but the job can still end.
                if follower.next(Some(left)).map_err(failed)? == Followed::End {
                    let exits = WaitFor::exits(std::slice::from_ref(&job));
                    let wanted = WaitFor { limit: Some(left), stop: call.stop(), ..exits };
                    call.store.wait_for(&wanted).ok();
                }
            }
        }
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let output: Vec<Value> =
        shown.lines.iter().take(most).map(|line| line_object(&job, &state, line)).collect();
    let last = output.len().checked_sub(1).map_or(after, |last| shown.lines[last].number);
    let reply = Reply::json(&json!({
        "processId": job.id().as_str(),
        "status": word(&state),
        "totalLines": shown.total,
        "output": output,
        "afterLine": last,
        "hasMore": shown.lines.len() > most,
    }));
    Ok(delivers(call, reply, job, &state))
}

fn kill(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let signal = signal(call)?;
    let Some(group) = call.arguments.text("group")? else {
        let (job, now, object) = kill_one(call, find(call)?, signal)?;
        return Ok(delivers(call, Reply::json(&object), job, &now));
    };
    let mut jobs = in_sight(call)?;
    jobs.retain(|(job, state)| state.is_live() && job.spec().options.group.as_ref() == Some(&group));
    if jobs.is_empty() {
        return Err(Failure::new(format!("Group '{}' has no running process", shown(&group))));
    }
    let mut reply = Reply::default();
    let mut killed = Vec::new();
    for (job, _) in jobs {
        let id = job.id().to_string();
        match kill_one(call, job, signal) {
            Ok((job, now, object)) => {
                reply = delivers(call, reply, job, &now);
                killed.push(object);
            }
            Err(failure) => {
                killed.push(json!({"processId": id, "killed": false, "error": failure.into_words()}))
            }
        }
    }
    Ok(reply.with_json(&json!({"group": group, "processes": killed})))
}

/// Sends a signal to a process; returns its state afterwards, and describes what happened.
fn kill_one(call: &Call<'_>, job: Job, signal: Signal) -> Result<(Job, State, Value), Failure> {
    let before = job.state(call.store);
    if !before.is_live() {
        return Err(not_running(&job, &before));
    }
    if let Err(error) = send(call, &job, signal) {
        crate::log(&format!("Unexpected error in process {}: {}", job.id(), chain(&error)));
        return Err(match error {
            ControlError::Ended(_) => not_running(&job, &job.state(call.store)),
            error => Failure::of(&format!("Failed to kill process '{}'", job.id()), &error),
        });
    }
    let now = job.state(call.store);
    // Where the main process had ended before, its leftover children were to be ended.
    let is_killed = now.status.has_ended() && (!before.status.has_ended() || !now.is_live());
    if is_killed {
        crate::log(&format!("Process {} terminated with {}", job.id(), signal.name()));
    }
    let object = json!({
        "processId": job.id().as_str(),
        "previousStatus": word(&before),
        "newStatus": word(&now),
        "killed": is_killed,
    });
    Ok((job, now, object))
}

fn signal(call: &Call<'_>) -> Result<Signal, Failure> {
    if call.arguments.flag("force")? {
        return Ok(Signal::KILL);
    }
    let Some(given) = call.arguments.text("signal")? else { return Ok(Signal::TERM) };
    Signal::parse(given.trim()).ok_or_else(|| Failure::new(format!("Unknown signal: {}", shown(&given))))
}

fn not_running(job: &Job, state: &State) -> Failure {
    Failure::new(format!("Process '{}' is not running (status: {})", job.id(), word(state)))
}

/// Sends a signal to every process of a job, and waits a while for its effect. If the main process ends by it, its leftover
/// children are ended, too.
fn send(call: &Call<'_>, job: &Job, signal: Signal) -> Result<(), ControlError> {
    let end = |force: bool| {
        let kill = Kill { signal: None, grace: Some(LEFT_BEHIND), force, by: BY.to_owned() };
        call.store.kill(job, &kill).map(drop)
    };
    let state = match signal {
        Signal::KILL => return end(true),
        Signal::STOP => return call.store.pause(job),
        Signal::CONT => {
            call.store.resume(job)?;
            // A process that stopped itself is not paused: only the signal resumes it.
            return call.store.signal(job, signal, BY).map(drop);
        }
        Signal::TERM => {
            let state = call.store.ask_to_end(job, signal, BY, EFFECT)?;
            if !state.status.has_ended() {
                end_leftovers_later(call, job);
            }
            state
        }
        _ => {
            call.store.signal(job, signal, BY)?;
            let is_harmless = matches!(
                signal.name().as_str(),
                "SIGTSTP" | "SIGTTIN" | "SIGTTOU" | "SIGCHLD" | "SIGURG" | "SIGWINCH"
            );
            if is_harmless {
                return Ok(());
            }
            let waited = call.store.wait(std::slice::from_ref(job), Until::All, Some(EFFECT));
            waited.states.into_iter().next().unwrap_or_else(|| job.state(call.store))
        }
    };
    let is_to_go = signal == Signal::TERM || state.status == Status::Killed;
    if is_to_go && state.status.has_ended() && state.is_live() {
        end(false)?;
    }
    Ok(())
}

/// Ends what a process leaves behind that takes longer to end than the answer waits.
fn end_leftovers_later(call: &Call<'_>, job: &Job) {
    let (store, id, nonce) = (Arc::clone(call.store), job.id().clone(), job.spec().nonce);
    std::thread::spawn(move || {
        let Some(job) = store.find_exactly(&id, nonce) else { return };
        let waited = store.wait(std::slice::from_ref(&job), Until::All, Some(WATCHED));
        let is_left = |state: &State| state.status.has_ended() && state.is_live();
        if waited.states.first().is_some_and(is_left) {
            let kill = Kill { signal: None, grace: Some(LEFT_BEHIND), force: false, by: BY.to_owned() };
            // What cannot be ended is shown as running.
            store.kill(&job, &kill).ok();
        }
    });
}
