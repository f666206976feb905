//! `spawn_process`: start a command, and wait for it if asked to.

use std::time::Duration;

use outlive::{Job, JobId, Request, State, Stdin, WaitFor};
use serde_json::{Value, json};

use super::files::{project, show};
use super::{GRACE, PREFIX, status, sweep, terminal};
use crate::jobs;
use crate::profiles::{known_pid, random_digits, read};
use crate::reply::{Failure, Reply, chain};
use crate::starting::{self, YEAR_MS};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static SPAWN_PROCESS: Tool = Tool {
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
            "If true, run in a terminal, which a tmux session shows where tmux is available. Default: false",
        ),
        Parameter::new("label", Kind::Text, "Human-readable label for the process"),
        Parameter::new("timeout_seconds", Kind::Number, "Timeout in seconds. Default: 1800"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call: spawn,
};

/// The default timeout, in seconds.
const TIMEOUT: u64 = 1800;

/// How many of the last characters of output come with the result of a process that was waited for.
const RESULT: usize = 8 << 10;

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
    let is_in_terminal = call.arguments.flag("tmux")?;
    let label = call.arguments.text("label")?;
    let timeout = match call.arguments.value("timeout_seconds") {
        Some(Value::Number(number)) if number.as_f64().is_some_and(|seconds| seconds < 1.0) => {
            return Err(Failure::new("'timeout_seconds' must be at least 1"));
        }
        _ => call.arguments.number("timeout_seconds", 1..=YEAR_MS / 1000)?.unwrap_or(TIMEOUT),
    };
    sweep(call);
    let handle = format!("{PREFIX}{}", random_digits(8, 36));
    let mut request = starting::identify(starting::fill(call, Request::shell(&line)), &handle)
        .stdin(Stdin::Open)
        .pty(is_in_terminal)
        .timeout(Some(Duration::from_secs(timeout)))
        .grace(GRACE);
    if let Some(workdir) = workdir {
        request = request.cwd(project(call).join(starting::expand_home(&workdir)));
    }
    if let Some(label) = label.as_deref().and_then(starting::name) {
        request = request.name(label);
    }
    let claim = JobId::parse(&handle).ok().filter(|_| is_waited_for).map(|job| call.claims.claim(job));
    let job = starting::start(call, "spawn failed", &request)?;
    if let Err(error) = show(call, &job) {
        crate::log(&format!("the files of {handle} cannot be made: {}", chain(&error)));
    }
    let shown = is_in_terminal.then(|| terminal::open_session(call, &job));
    if is_waited_for {
        // To the end: its own timeout is the limit. Where the client gives up before, the process goes on, and its end is told.
        let exits = WaitFor::exits(std::slice::from_ref(&job));
        call.store.wait_for(&WaitFor { stop: call.stop(), ..exits }).ok();
        jobs::await_leftovers(call, &job);
    }
    let state = job.state(call.store);
    if is_waited_for && state.status.has_ended() {
        return Ok(result(call, job, &state).after(move || drop(claim)));
    }
    let mut answer = json!({"handle": handle, "status": "running", "pid": known_pid(&state)});
    match shown {
        Some(Ok(session)) => {
            answer["attach"] = format!("tmux attach -t {session}").into();
            answer["tmux_session"] = session.into();
        }
        Some(Err(why)) => {
            answer["attach"] = format!("outlive attach {handle}").into();
            answer["message"] =
                format!("tmux is not available: {why}. The process runs in a terminal all the same.").into();
        }
        None => {}
    }
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
            // There is more than is shown.
            Some(_) => format!("...\n{}", text.chars().skip(1).collect::<String>()),
            None => text,
        })
    });
    let answer = json!({
        "status": status(state),
        "exit_code": state.exit_code(),
        "output": output,
        "duration_seconds": state.runtime_ms().unwrap_or(0) / 1000,
    });
    jobs::delivers(call, Reply::json(&answer), job, state)
}
