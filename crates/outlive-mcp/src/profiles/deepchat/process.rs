//! `process`: list sessions, read their output, write to them, end and remove them.

use std::time::SystemTime;

use outlive::{ControlError, Job, Kill, Output, State, Status, Stdin};
use serde_json::{Value, json};

use super::files::{OFFLOADED, file, forget_file, offloaded};
use super::messages::{SESSION_NOT_FOUND, SESSION_NOT_RUNNING, STDIN_NOT_AVAILABLE};
use super::{GRACE, flag, invalid, status, whole};
use crate::arguments::{scalar, shown};
use crate::jobs::{self, BY, UNREAD};
use crate::profiles::{epoch_ms, find, pid, read, sweep, without_nulls};
use crate::reply::{Failure, Reply};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static PROCESS: Tool = Tool {
    name: "process",
    title: "Manage background sessions",
    description: "Manage background sessions created by execute_command with background: true, or by foreground commands that yielded a sessionId. Use poll to check output and status, log to get full output with pagination, write to send input to stdin, kill to terminate, clear to empty the output, and remove to clean up sessions.",
    parameters: &[
        Parameter::required("action", Kind::Word(&ACTIONS), "The action to perform"),
        Parameter::new("sessionId", Kind::Text, "Session ID (required for all actions except list)"),
        Parameter::new("offset", Kind::Number, "Starting character for log action (default 0)")
            .with(r#"{"minimum": 0}"#),
        Parameter::new("limit", Kind::Number, "Maximum characters to return for log action (default 1000)")
            .with(r#"{"minimum": 1}"#),
        Parameter::new("data", Kind::Text, "Text to write to stdin (write action only)"),
        Parameter::new("eof", Kind::Flag, "Close stdin after writing (write action only)"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: false,
    call: process,
};

const ACTIONS: [&str; 7] = ["list", "poll", "log", "write", "kill", "clear", "remove"];

/// How many of the last characters a poll shows.
const POLLED: usize = 500;

/// How many characters a log shows by default.
const LOGGED: u64 = 1000;

/// The most characters of a log in one answer: the client holds it in memory, and `totalLength` tells that there is more.
const MOST_LOGGED: u64 = 1_000_000;

fn process(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let wrong = || invalid(format!("action must be one of {}", ACTIONS.join(", ")));
    let action = match call.arguments.value("action") {
        Some(Value::String(action)) => ACTIONS.into_iter().find(|word| word == action).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if action == "list" {
        return list(call);
    }
    let id = match call.arguments.value("sessionId") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        None | Some(Value::String(_)) => {
            return Err(Failure::new(format!("sessionId is required for {action} action")));
        }
        Some(_) => return Err(invalid("sessionId must be a string")),
    };
    let missing = || Failure::new(SESSION_NOT_FOUND.about(&shown(&id)));
    let job = find(call, &id).ok_or_else(missing)?;
    match action {
        "poll" => Ok(poll(call, job)),
        "log" => log(call, job),
        "write" => write(call, job),
        "kill" => kill(call, job),
        "clear" => clear(call, job),
        _ => remove(call, job),
    }
}

/// Lists the sessions of the conversation. Being listed is no look at any of them.
fn list(call: &mut Call<'_>) -> Result<Reply, Failure> {
    sweep(call);
    let sessions: Vec<Value> =
        crate::profiles::jobs(call)?.iter().map(|(job, state)| meta(call, job, state)).collect();
    Ok(Reply::json(&json!({"status": "ok", "sessions": sessions})))
}

/// Describes a session for the list.
fn meta(call: &Call<'_>, job: &Job, state: &State) -> Value {
    let created = epoch_ms(job.spec().created);
    let since_1970 = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).ok();
    let looked = job.last_look().and_then(since_1970).map(|time| time.as_millis() as u64);
    let length = count(job);
    if length > OFFLOADED {
        // A client that knows the path may read the file without asking for it.
        file(call, job);
    }
    without_nulls(json!({
        "sessionId": job.id().as_str(),
        "command": job.spec().command_line(),
        "status": status(state),
        "createdAt": created,
        "lastAccessedAt": looked.map_or(created, |looked| looked.max(created)),
        "pid": pid(state),
        "outputLength": length,
        "offloaded": length > OFFLOADED,
        "exitCode": state.exit_code(),
        "timedOut": timed_out(state),
    }))
}

fn poll(call: &Call<'_>, job: Job) -> Reply {
    let state = job.state(call.store);
    let output = read(&job, |output| output.last_characters(POLLED));
    printed(call, job, &state, &output, None)
}

fn log(call: &mut Call<'_>, job: Job) -> Result<Reply, Failure> {
    let offset = whole(call, "offset", 0)?.unwrap_or(0);
    let limit = whole(call, "limit", 1)?.unwrap_or(LOGGED).min(MOST_LOGGED);
    // The state is read first: of an ended job, all output is then there.
    let state = job.state(call.store);
    let output = read(&job, |output| output.characters(offset, limit, None));
    let total = count(&job);
    Ok(printed(call, job, &state, &output, Some(total)))
}

/// Answers with what a session printed.
fn printed(call: &Call<'_>, job: Job, state: &State, output: &str, total: Option<u64>) -> Reply {
    let file = offloaded(call, &job);
    let answer = without_nulls(json!({
        "status": status(state),
        "output": output,
        "totalLength": total,
        "offloaded": file.is_some().then_some(true),
        "outputFilePath": file.map(|file| file.to_string_lossy().into_owned()),
        "exitCode": state.exit_code(),
        "timedOut": timed_out(state),
    }));
    looked(call, job, state, &answer)
}

fn write(call: &mut Call<'_>, job: Job) -> Result<Reply, Failure> {
    let data = call.arguments.value("data").map_or(Some(String::new()), scalar);
    let data = data.ok_or_else(|| invalid("data must be a string"))?;
    let eof = flag(call, "eof")?;
    let state = job.state(call.store);
    let id = job.id();
    let ended = || Failure::new(SESSION_NOT_RUNNING.about(id.as_str()));
    let no_stdin = || Failure::new(STDIN_NOT_AVAILABLE.about(id.as_str()));
    if state.status.has_ended() {
        return Err(ended());
    }
    if job.spec().options.stdin == Stdin::Null {
        return Err(no_stdin());
    }
    let refused = |error: ControlError| match &error {
        ControlError::Ended(_) => ended(),
        ControlError::Orphaned(_) => no_stdin(),
        ControlError::Refused { code, .. } if code == "no_stdin" || code == "stdin_closed" => no_stdin(),
        // It may have ended a moment ago.
        _ if job.state(call.store).status.has_ended() => ended(),
        _ => Failure::of(&format!("Session {id} stdin was not written"), &error),
    };
    if !data.is_empty() {
        call.store.write_stdin(&job, data.as_bytes(), UNREAD).map_err(refused)?;
    }
    if eof {
        call.store.close_stdin(&job).map_err(refused)?;
    }
    Ok(done(call, job, &state))
}

fn kill(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    end(call, &job)?;
    let state = job.state(call.store);
    Ok(done(call, job, &state))
}

/// Ends every process of a session; asking again is a success.
fn end(call: &Call<'_>, job: &Job) -> Result<(), Failure> {
    let id = job.id();
    let how = Kill { grace: Some(GRACE), by: BY.to_owned(), ..Kill::default() };
    let killed = match call.store.kill(job, &how) {
        Ok(killed) => killed,
        Err(ControlError::Ended(_)) => return Ok(()),
        Err(error) => return Err(Failure::of(&format!("Session {id} was not killed"), &error)),
    };
    match killed.survivors.first() {
        None => Ok(()),
        Some(left) => Err(Failure::new(format!(
            "Session {id} was not killed: pid {} {} is left, {}",
            left.pid,
            shown(&left.command),
            left.why
        ))),
    }
}

fn clear(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    let cleared = call.store.clear(&job);
    cleared.map_err(|error| Failure::of(&format!("Session {} was not cleared", job.id()), &error))?;
    forget_file(call, &job);
    let state = job.state(call.store);
    Ok(done(call, job, &state))
}

fn remove(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    end(call, &job)?;
    forget_file(call, &job);
    // The caller that removes it need not be told of its end.
    jobs::note_delivered(&job, &call.scope.reader);
    let removed = call.store.remove(&job);
    removed.map_err(|error| Failure::of(&format!("Session {} was not removed", job.id()), &error))?;
    Ok(Reply::json(&json!({"status": "ok", "sessionId": job.id().as_str()})))
}

/// Answers that the action is done.
fn done(call: &Call<'_>, job: Job, state: &State) -> Reply {
    let answer = json!({"status": "ok", "sessionId": job.id().as_str()});
    looked(call, job, state, &answer)
}

/// Answers, and notes once the client has the answer that the session was looked at.
fn looked(call: &Call<'_>, job: Job, state: &State, answer: &Value) -> Reply {
    let reader = call.scope.reader.clone();
    let has_ended = state.status.has_ended();
    Reply::json(answer).tells(&job, state).after(move || {
        if has_ended {
            jobs::note_delivered(&job, &reader);
        } else {
            // The position stays; only the time of the look changes.
            let place = job.cursor(&reader, None).unwrap_or(0);
            job.set_cursor(&reader, None, place).ok();
        }
    })
}

fn timed_out(state: &State) -> Option<bool> {
    (state.status == Status::TimedOut).then_some(true)
}

fn count(job: &Job) -> u64 {
    read(job, Output::character_count)
}
