//! `process`: list processes, read their status and log, write to them, end them.

use outlive::{ControlError, Job, Kill, Output, Piece, State};
use serde_json::{Value, json};

use super::files::log_path;
use super::{GRACE, status, sweep, terminal};
use crate::arguments::{scalar, shown};
use crate::jobs::{BY, UNREAD};
use crate::profiles::{find, pid, read, started, without_nulls};
use crate::reply::{Failure, Reply};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static PROCESS: Tool = Tool {
    name: "process",
    title: "Interact with processes",
    description: "Interact with background processes. Actions: list (all processes), status (check one), log (read output), capture (screen; started with tmux), send_keys (keystrokes; started with tmux), write (stdin), kill (terminate).",
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

const ACTIONS: [&str; 7] = ["list", "status", "log", "capture", "send_keys", "write", "kill"];

/// How many lines a log shows by default.
const LOGGED: u64 = 100;

/// The most bytes of a log in one answer: the client holds it in memory.
const MOST_LOGGED: usize = 1_000_000;

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
    let keys = call.arguments.text("keys")?.unwrap_or_default();
    if action == "send_keys" && keys.is_empty() {
        return Err(Failure::new("'keys' is required for send_keys action"));
    }
    if action == "write" && call.arguments.value("input").is_none() {
        return Err(Failure::new("'input' is required for write action"));
    }
    let missing = || Failure::new(format!("process not found: {}", shown(&handle)));
    let job = find(call, &handle).ok_or_else(missing)?;
    match action {
        "status" => Ok(report(call, &job)),
        "log" => log(call, &job),
        "capture" => terminal::capture(call, &job),
        "send_keys" => terminal::send_keys(call, &job, &keys),
        "write" => write(call, &job),
        _ => kill(call, &job),
    }
}

/// Lists the processes of the session. The end of a process is told by its message, not by the list.
fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    sweep(call);
    let jobs = crate::profiles::jobs(call)?;
    if jobs.is_empty() {
        return Ok(Reply::plain("No background processes for this session."));
    }
    let line = |(job, state): &(Job, State)| {
        let [command, label] = [&job.spec().command_line(), job.name().unwrap_or("-")].map(outlive::one_line);
        format!("- {} | {command} | {} | {label}", job.id(), status(state))
    };
    Ok(Reply::plain(jobs.iter().map(line).collect::<Vec<_>>().join("\n")))
}

/// Answers with the status of a process.
fn report(call: &Call<'_>, job: &Job) -> Reply {
    let state = job.state(call.store);
    let spec = job.spec();
    let answer = without_nulls(json!({
        "handle": job.id().as_str(),
        "command": spec.command_line(),
        "label": job.name(),
        "tmux_session": spec.options.pty.then(|| terminal::session(job)).flatten(),
        "pid": pid(&state),
        "status": status(&state),
        "exit_code": state.exit_code(),
        "workdir": spec.cwd.to_lossy(),
        "session_id": job.session().as_str(),
        "log_path": log_path(call, job).to_string_lossy(),
        "spawned_at": started(job, &state).to_string(),
        "completed_at": state.outcome.as_ref().map(|outcome| outcome.ended.to_string()),
        "timeout_seconds": spec.options.timeout_ms.map(|millis| millis / 1000),
        "duration_seconds": state.runtime_ms().map(|millis| millis / 1000),
    }));
    // The end is told by its message.
    Reply::json(&answer)
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

/// Reads `limit` lines from number `from` on, unfinished lines included.
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
    let input = call.arguments.value("input").and_then(scalar);
    let mut input = enter(&input.ok_or_else(|| Failure::new("'input' must be a string"))?);
    if job.spec().options.pty {
        // The Enter key of a terminal.
        input = input.replace('\n', "\r");
    }
    let is_over = || job.state(call.store).status.has_ended();
    let ended = || Failure::new("process is not running");
    let no_stdin = || Failure::new("process does not have stdin");
    if is_over() {
        return Err(ended());
    }
    if !job.spec().options.takes_input() {
        return Err(no_stdin());
    }
    call.store.write_stdin(job, input.as_bytes(), UNREAD).map_err(|error| match &error {
        ControlError::Ended(_) => ended(),
        ControlError::Orphaned(_) => no_stdin(),
        ControlError::Refused { code, .. } if code == "no_stdin" || code == "stdin_closed" => no_stdin(),
        ControlError::NotReading { .. } => Failure::new("stdin write timed out"),
        // It may have ended a moment ago.
        _ if is_over() => ended(),
        _ => Failure::of("stdin was not written", &error),
    })?;
    Ok(Reply::plain(format!("Wrote to {}", job.id())))
}

/// Turns a backslash and an `n` at the very end into a newline: models quote the newline twice.
fn enter(input: &str) -> String {
    match input.strip_suffix("\\n") {
        Some(text) if !text.ends_with('\\') => format!("{text}\n"),
        _ => input.to_owned(),
    }
}

fn kill(call: &Call<'_>, job: &Job) -> Result<Reply, Failure> {
    if !job.state(call.store).is_live() {
        return Err(Failure::new("process is not running"));
    }
    let how = Kill { grace: Some(GRACE), by: BY.to_owned(), ..Kill::default() };
    match call.store.kill(job, &how) {
        Ok(killed) => {
            if let Some(left) = killed.survivors.first() {
                let command = shown(&left.command);
                return Err(Failure::new(format!("pid {} {command} is left: {}", left.pid, left.why)));
            }
        }
        Err(ControlError::Ended(_)) => {}
        Err(error) => return Err(Failure::of("process was not killed", &error)),
    }
    // The end is told by its message.
    Ok(Reply::plain(format!("Killed process {}", job.id())))
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
