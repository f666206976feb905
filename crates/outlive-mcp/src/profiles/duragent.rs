//! The tools of Duragent: `spawn_process`, waited for or not, and `process`.
//!
//! The end of a process that was not waited for comes as a message of its own beside the next answer. A process runs
//! without tmux, and what needs a screen is refused in that design's words.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outlive::{ControlError, Job, JobId, Kill, Output, Piece, Request, State, Status, Stdin, WaitStatus};
use serde_json::{Map, Value, json};

use super::{Isolation, NoticeStyle, Profile, command, known_pid, links, pid, random_digits, started};
use crate::arguments::shown;
use crate::jobs;
use crate::reply::{Failure, Reply, chain};
use crate::starting;
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(crate) static PROFILE: Profile = Profile {
    name: "duragent",
    about: "Duragent's `spawn_process` and `process`",
    instructions: "spawn_process starts a background command and returns its handle at once, or, with wait: true, its result. \
        When a process that was not waited for has ended, a message that begins with [Background Process Completed] comes \
        beside the next result of any tool: do not poll in a loop. process lists processes, tells their status, reads their \
        log, writes to their stdin and kills them. Processes survive restarts.",
    tools: &[&SPAWN_PROCESS, &PROCESS],
    isolation: Isolation::Conversation,
    notices: NoticeStyle::Messages,
    choices: [
        "`spawn_process`",
        "not there: `process` with `action: \"log\"`",
        "`action`: list, status, log, capture, send_keys, write, kill",
        "not there: `spawn_process`",
        "`proc-` and 8 digits of 36",
        "`handle`",
        "running, completed, failed, timed_out, lost, killed",
        "completed",
        "`timed_out`",
        "30 minutes; `timeout_seconds`",
        "5 s, on a timeout and on a kill",
        "the whole tree",
        "an error: `process is not running`",
        "none",
        "a range of lines",
        "merged, line by line in the order in which they came",
        "kept",
        "100 MiB on disk",
        "none",
        "at once, or with `wait: true` at the end (at most 45 s)",
        "a line for the shell",
        "bash, else sh",
        "inherited, login or clean",
        "a pipe, with `write`",
        "none yet: `tmux: true` runs without one",
        "everything: processes go on, whoever starts or ends the server",
        "30 minutes after the end, once that was told",
        "as configured: 50 a session, 200 in all",
        "the conversation's own, else the project's",
        "the agent's conversation",
        "a message of its own beside the next answer",
        "one line each",
        "whole seconds; RFC 3339",
        "annotations",
        "none",
        "the whole handle",
        "Linux",
        "in scope, by the other front ends",
        "none; `label` is the job's name",
    ],
};

static SPAWN_PROCESS: Tool = Tool {
    name: "spawn_process",
    title: "Spawn a process",
    description: "Start a background command. Returns its handle immediately; you will receive a completion message when the process finishes: do not poll in a loop. With wait: true, blocks until it exits and returns its status, exit code and output.",
    parameters: &[
        Parameter::required("command", Kind::Text, "Shell command to run"),
        Parameter::new("workdir", Kind::Text, "Working directory (default: the project's)"),
        Parameter::new(
            "wait",
            Kind::Flag,
            "If true, block until the process exits and return its result. Default: false",
        ),
        Parameter::new(
            "tmux",
            Kind::Flag,
            "If true, run inside a tmux session where one is available. Default: false",
        ),
        Parameter::new("label", Kind::Text, "Human-readable label for the process"),
        Parameter::new("timeout_seconds", Kind::Number, "Timeout in seconds. Default: 1800"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call: spawn,
};

const ACTIONS: [&str; 7] = ["list", "status", "log", "capture", "send_keys", "write", "kill"];

static PROCESS: Tool = Tool {
    name: "process",
    title: "Interact with processes",
    description: "Interact with background processes. Actions: list (all processes), status (check one), log (read output), capture (screen; requires tmux), send_keys (keystrokes; requires tmux), write (stdin), kill (terminate).",
    parameters: &[
        Parameter::required("action", Kind::Word(&ACTIONS), "Action to perform"),
        Parameter::new("handle", Kind::Text, "Process handle (required for all actions except 'list')"),
        Parameter::new("offset", Kind::Number, "Line offset for 'log' action (default: 0)"),
        Parameter::new("limit", Kind::Number, "Max lines for 'log' action (default: 100)"),
        Parameter::new(
            "keys",
            Kind::Text,
            "Keystrokes for 'send_keys' action (key names like 'C-c', 'Enter', etc.)",
        ),
        Parameter::new("press_enter", Kind::Flag, "If true, press Enter after sending keys. Default: true"),
        Parameter::new(
            "input",
            Kind::Text,
            "Text for 'write' action (written to stdin). Append a newline to press Enter.",
        ),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: false,
    call: process,
};

/// How the handles of its own jobs begin.
const PREFIX: &str = "proc-";

/// How long a process may run if nothing is said, in seconds.
const TIMEOUT: u64 = 1800;

/// A year, in seconds: no process is given longer.
const YEAR: u64 = 366 * 86_400;

/// The time between the signals of a timeout or a kill.
const GRACE: Duration = Duration::from_secs(5);

/// The longest that one call waits: under what the most impatient client allows.
const LONGEST_WAIT: Duration = Duration::from_secs(45);

/// So many characters of the end of its output come with the result of a process that was waited for.
const RESULT: usize = 8 << 10;

/// How many lines a log shows if nothing is said.
const LOGGED: u64 = 100;

/// The most characters that one log shows, whatever is asked for: a client has to hold it in memory.
const MOST_LOGGED: usize = 1_000_000;

/// An ended process is kept for so long.
const KEPT: Duration = Duration::from_secs(30 * 60);

/// How long a process may leave its input unread before that is told.
const UNREAD: Duration = Duration::from_secs(10);

/// Who asks, for the record.
const BY: &str = "outlive mcp";

fn spawn(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let line = match call.arguments.value("command") {
        None => return Err(Failure::new("'command' is required")),
        Some(Value::String(line)) if line.trim().is_empty() => {
            return Err(Failure::new("'command' is empty"));
        }
        Some(Value::String(line)) => line.clone(),
        Some(_) => return Err(Failure::new("'command' must be a string")),
    };
    let workdir = call.arguments.text("workdir")?;
    let is_waited_for = call.arguments.flag("wait")?;
    // Without terminals it makes no difference, but it must make sense.
    call.arguments.flag("tmux")?;
    let label = call.arguments.text("label")?;
    let timeout = match call.arguments.value("timeout_seconds") {
        Some(Value::Number(number)) if number.as_f64().is_some_and(|seconds| seconds < 1.0) => {
            return Err(Failure::new("'timeout_seconds' must be at least 1"));
        }
        _ => call.arguments.number("timeout_seconds", 1..=YEAR)?.unwrap_or(TIMEOUT),
    };
    sweep(call);
    let handle = format!("{PREFIX}{}", random_digits(8, 36));
    let mut request = starting::identify(starting::fill(call, Request::shell(&line)), &handle)
        .stdin(Stdin::Open)
        .timeout(Some(Duration::from_secs(timeout)))
        .grace(GRACE);
    if let Some(workdir) = workdir {
        request = request.cwd(directory(call).join(starting::expand_home(&workdir)));
    }
    if let Some(label) = label.as_deref().and_then(starting::name) {
        request = request.name(label);
    }
    let claim = JobId::parse(&handle).ok().filter(|_| is_waited_for).map(|job| call.claims.claim(job));
    let job = starting::start(call, "spawn failed", &request)?;
    if let Err(error) = show(call, &job) {
        crate::log(&format!("the files of {handle} cannot be made: {}", chain(&error)));
    }
    if is_waited_for {
        // Where it cannot be waited for it goes on, and its end is told.
        jobs::wait_for_start(call, &job, LONGEST_WAIT).ok();
    }
    let state = job.state(call.store);
    if is_waited_for && state.status.has_ended() {
        return Ok(result(call, job, &state).after(move || drop(claim)));
    }
    let mut answer = json!({"handle": handle, "status": "running", "pid": known_pid(&state)});
    if is_waited_for {
        answer["message"] =
            "Still running: it goes on in the background, and a completion message will follow when it exits. \
             Do not start it again."
                .into();
    }
    Ok(Reply::json(&answer))
}

/// Answers with how a process ended that was waited for. No message follows.
fn result(call: &Call<'_>, job: Job, state: &State) -> Reply {
    let output = read(&job, |output| {
        let text = output.last_characters(RESULT + 1)?;
        Ok(match text.char_indices().nth(RESULT) {
            // One more than there is room for: it is not all of it.
            Some(_) => format!("...\n{}", text.chars().skip(1).collect::<String>()),
            None => text,
        })
    });
    let answer = json!({
        "status": status(state),
        "exit_code": exit_code(state),
        "output": output,
        "duration_seconds": state.runtime_ms().unwrap_or(0) / 1000,
    });
    jobs::delivers(call, Reply::json(&answer), job, state)
}

fn process(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let action = match call.arguments.value("action") {
        None => return Err(Failure::new("'action' is required")),
        Some(Value::String(action)) => action.clone(),
        Some(other) => shown(&other.to_string()),
    };
    let Some(action) = ACTIONS.into_iter().find(|word| *word == action) else {
        let words = ACTIONS.join(", ");
        return Err(Failure::new(format!("Unknown action: '{}'. Use: {words}", shown(&action))));
    };
    if action == "list" {
        return list(call);
    }
    let Some(handle) = call.arguments.text("handle")? else {
        return Err(Failure::new("'handle' is required for this action"));
    };
    if action == "send_keys" && call.arguments.text("keys")?.is_none() {
        return Err(Failure::new("'keys' is required for send_keys action"));
    }
    if action == "write" && call.arguments.value("input").is_none() {
        return Err(Failure::new("'input' is required for write action"));
    }
    let job = find(call, &handle)?;
    match action {
        "status" => Ok(report(call, job)),
        "log" => log(call, &job),
        "capture" => Err(Failure::new(
            "tmux is not available: the process runs without a terminal, so there is no screen to capture. \
             Use the log action to read its output.",
        )),
        "send_keys" => Err(Failure::new(
            "tmux is not available: the process runs without a terminal, so it takes no keys. \
             Use the write action to send text to its stdin.",
        )),
        "write" => write(call, &job),
        _ => kill(call, job),
    }
}

/// Lists the processes of the session. How one ended is told by its message, not by this.
fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    sweep(call);
    let jobs = super::jobs(call)?;
    if jobs.is_empty() {
        return Ok(Reply::plain("No background processes for this session."));
    }
    let line = |(job, state): &(Job, State)| {
        let (command, label) =
            (outlive::one_line(&command(job)), outlive::one_line(job.name().unwrap_or("-")));
        format!("- {} | {command} | {} | {label}", job.id(), status(state))
    };
    Ok(Reply::plain(jobs.iter().map(line).collect::<Vec<_>>().join("\n")))
}

/// Answers with all that is kept of a process.
fn report(call: &Call<'_>, job: Job) -> Reply {
    let state = job.state(call.store);
    let spec = job.spec();
    let mut answer = Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            answer.insert(name.to_owned(), value);
        }
    };
    add("handle", Some(job.id().as_str().into()));
    add("command", Some(command(&job).into()));
    add("label", job.name().map(Into::into));
    add("pid", pid(&state).map(Into::into));
    add("status", Some(status(&state).into()));
    add("exit_code", exit_code(&state).map(Into::into));
    add("workdir", Some(spec.cwd.to_lossy().into()));
    add("session_id", Some(job.session().as_str().into()));
    add("log_path", Some(log_path(call, &job).to_string_lossy().into()));
    add("spawned_at", Some(started(&job, &state).to_string().into()));
    add("completed_at", state.outcome.as_ref().map(|outcome| outcome.ended.to_string().into()));
    add("timeout_seconds", spec.timeout_ms.map(|millis| (millis / 1000).into()));
    add("duration_seconds", state.runtime_ms().map(|millis| (millis / 1000).into()));
    jobs::delivers(call, Reply::json(&answer.into()), job, &state)
}

fn log(call: &mut Call<'_>, job: &Job) -> Result<Reply, Failure> {
    let offset = call.arguments.number("offset", 0..=u64::MAX >> 12)?.unwrap_or(0);
    let limit = call.arguments.number("limit", 1..=u64::MAX >> 12)?.unwrap_or(LOGGED);
    let text = read(job, |output| {
        let text = lines(output, offset + 1, limit)?;
        Ok(match text.is_empty() {
            true if output.end() > 0 => "(no more output)".to_owned(),
            true => "(no output yet)".to_owned(),
            false => text,
        })
    });
    Ok(Reply::plain(text))
}

/// Reads `limit` lines from the one with number `from`, unfinished ones included.
fn lines(output: &mut Output, from: u64, limit: u64) -> std::io::Result<String> {
    let gone = output.assembler_at(output.start())?.number();
    let mut offset = output.offset_before_line(from);
    let mut assembler = output.assembler_at(offset)?;
    let (mut text, mut left) = (String::new(), limit);
    if from <= gone {
        text = format!("[{gone} lines are no longer kept: read from offset {gone}]\n");
    }
    let mut take = |line: &outlive::Line| {
        if line.number >= from && left > 0 && text.len() < MOST_LOGGED {
            left -= 1;
            text.push_str(&String::from_utf8_lossy(&line.text));
            if line.cut_bytes > 0 {
                text.push_str(&format!("[... {} bytes omitted ...]", line.cut_bytes));
            }
            if line.is_ended {
                text.push('\n');
            }
        }
        left > 0 && text.len() < MOST_LOGGED
    };
    let mut goes_on = true;
    while goes_on && let Some(piece) = output.piece(offset)? {
        match piece {
            Piece::Output { stream, time, bytes, .. } => {
                offset += bytes.len() as u64;
                assembler.push(stream, time, &bytes, |line| goes_on = take(&line));
            }
            Piece::Gone { to, .. } => {
                offset = to;
                assembler = output.assembler_at(offset)?;
            }
        }
    }
    if goes_on {
        for line in assembler.unfinished() {
            take(&line);
        }
    }
    Ok(text)
}

fn write(call: &mut Call<'_>, job: &Job) -> Result<Reply, Failure> {
    let input = match call.arguments.value("input") {
        Some(Value::String(input)) => enter(input),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(is_true)) => is_true.to_string(),
        _ => return Err(Failure::new("'input' must be a string")),
    };
    let is_over = || job.state(call.store).status.has_ended();
    if is_over() {
        return Err(Failure::new("process is not running"));
    }
    if job.spec().stdin == Stdin::Null {
        return Err(Failure::new("process does not have stdin"));
    }
    let written = call.store.write_stdin(job, input.as_bytes(), UNREAD);
    written.map_err(|error| match &error {
        ControlError::Ended(_) => Failure::new("process is not running"),
        ControlError::Orphaned(_) => Failure::new("process does not have stdin"),
        ControlError::Refused { code, .. } if code == "no_stdin" || code == "stdin_closed" => {
            Failure::new("process does not have stdin")
        }
        ControlError::NotReading { .. } => Failure::new("stdin write timed out"),
        // It may have ended a moment ago.
        _ if is_over() => Failure::new("process is not running"),
        _ => Failure::of("stdin was not written", &error),
    })?;
    Ok(Reply::plain(format!("Wrote to {}", job.id())))
}

/// Takes a backslash and an `n` at the very end for the newline that was meant: it is what is left of one that was
/// quoted twice.
fn enter(input: &str) -> String {
    match input.strip_suffix("\\n") {
        Some(text) if !text.ends_with('\\') => format!("{text}\n"),
        _ => input.to_owned(),
    }
}

fn kill(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    if !job.state(call.store).is_live() {
        return Err(Failure::new("process is not running"));
    }
    let how = Kill { grace: Some(GRACE), by: BY.to_owned(), ..Kill::default() };
    match call.store.kill(&job, &how) {
        Ok(killed) => {
            if let Some(left) = killed.survivors.first() {
                let command = shown(&left.command);
                return Err(Failure::new(format!("pid {} {command} is left: {}", left.pid, left.why)));
            }
        }
        Err(ControlError::Ended(_)) => {}
        Err(error) => return Err(Failure::of("process was not killed", &error)),
    }
    let state = job.state(call.store);
    let reply = Reply::plain(format!("Killed process {}", job.id()));
    Ok(jobs::delivers(call, reply, job, &state))
}

/// Finds a process of the session; one whose time is over is gone.
fn find(call: &Call<'_>, handle: &str) -> Result<Job, Failure> {
    match super::find(call, handle) {
        Some(job) if is_expired(&job, &job.state(call.store)) => discard(call, &job),
        Some(job) => return Ok(job),
        None => {}
    }
    Err(Failure::new(format!("process not found: {}", shown(handle))))
}

/// Removes processes of all sessions that ended long ago, and links to those that others have removed.
fn sweep(call: &Call<'_>) {
    let jobs = call.store.list(None).map(|listing| listing.jobs).unwrap_or_default();
    for job in jobs.iter().filter(|job| is_own(job) && is_expired(job, &job.state(call.store))) {
        discard(call, job);
    }
    links::sweep(call.store, &files(call));
}

fn is_expired(job: &Job, state: &State) -> bool {
    let is_kept = !is_own(job) || state.is_live() || !job.is_seen();
    let Some(outcome) = state.outcome.as_ref().filter(|_| !is_kept) else { return false };
    let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(outcome.ended.0);
    ended.elapsed().is_ok_and(|age| age >= KEPT)
}

fn is_own(job: &Job) -> bool {
    job.id().as_str().starts_with(PREFIX)
}

fn discard(call: &Call<'_>, job: &Job) {
    for link in file_names(job) {
        if let Err(error) = links::unpoint(call.store, &files(call).join(&link)) {
            crate::log(&format!("{link} stays: {}", chain(&error)));
        }
    }
    if let Err(error) = call.store.remove(job) {
        crate::log(&format!("{} stays: {}", job.id(), chain(&error)));
    }
}

/// Returns the project's directory.
fn directory(call: &Call<'_>) -> PathBuf {
    call.scope.directory.clone().or_else(|| std::env::current_dir().ok()).unwrap_or_default()
}

/// Returns the directory where that design keeps the files of processes.
fn files(call: &Call<'_>) -> PathBuf {
    directory(call).join(".duragent/processes")
}

fn file_names(job: &Job) -> [String; 3] {
    ["meta.json", "spec.json", "log"].map(|kind| format!("{}.{kind}", job.id()))
}

/// Makes the files of a process: what it is and how it is doing, what was asked, and what it prints.
fn show(call: &Call<'_>, job: &Job) -> std::io::Result<()> {
    let targets = [job.meta_file(), job.spec_file(), job.log_file()?];
    for (name, target) in file_names(job).iter().zip(targets) {
        links::point(call.store, &files(call).join(name), &target)?;
    }
    Ok(())
}

/// Returns the log of a process: that design's file where there is one, else the store's.
fn log_path(call: &Call<'_>, job: &Job) -> PathBuf {
    let [.., name] = file_names(job);
    let link = files(call).join(name);
    let Ok(target) = job.log_file() else { return link };
    // The first file of a long log goes when there is too much of it; then the next is the first.
    let is_there = link.symlink_metadata().is_ok() && links::point(call.store, &link, &target).is_ok();
    if is_there { link } else { target }
}

/// Reads of what a process printed; what cannot be read is nothing, and said on standard error.
fn read(job: &Job, look: impl FnOnce(&mut Output) -> std::io::Result<String>) -> String {
    Output::open(job).and_then(|mut output| look(&mut output)).unwrap_or_else(|error| {
        crate::log(&format!("the output of {} cannot be read: {}", job.id(), chain(&error)));
        String::new()
    })
}

fn status(state: &State) -> &'static str {
    match state.status {
        Status::Starting => "running",
        status => status.word(),
    }
}

fn exit_code(state: &State) -> Option<i32> {
    match state.outcome.as_ref()?.wait_status {
        WaitStatus::Exited { code } => Some(code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_that_was_quoted_twice_is_one() {
        assert_eq!(enter("y\\n"), "y\n");
        assert_eq!(enter("y\n"), "y\n");
        assert_eq!(enter("a\\nb"), "a\\nb", "in the middle it may be meant");
        assert_eq!(enter("c:\\\\n"), "c:\\\\n", "a quoted backslash is one");
        assert_eq!(enter("\\n"), "\n");
        assert_eq!(enter(""), "");
    }
}
