//! `execute_command`: in the foreground for a while, or in the background.

use std::path::PathBuf;
use std::time::Duration;

use outlive::{Job, Request, State, Status, Stdin};
use serde_json::{Value, json};

use super::files::{OFFLOADED, offloaded};
use super::{GRACE, PREFIX, flag, invalid, number};
use crate::jobs;
use crate::profiles::{random_digits, read, sweep};
use crate::reply::{Failure, Reply};
use crate::starting::{self, YEAR_MS};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static EXECUTE_COMMAND: Tool = Tool {
    name: "execute_command",
    title: "Execute a command",
    description: "Execute a shell command. A command that ends within yieldMs returns its output and exit code; a longer one goes on in the background and returns a sessionId for the process tool. Use background: true for servers, watchers and other long-running commands.",
    parameters: &[
        Parameter::required("command", Kind::Text, "The shell command to execute")
            .with(r#"{"minLength": 1}"#),
        Parameter::new("timeout", Kind::Number, "Kill the command after so many milliseconds (default: never)")
            .with(r#"{"type": "number", "minimum": 100}"#),
        Parameter::required("description", Kind::Text, "Brief description of what the command does (5-100 characters)")
            .with(r#"{"minLength": 5, "maxLength": 100}"#),
        Parameter::new(
            "background",
            Kind::Flag,
            "Run the command in the background (recommended for commands taking >10s). Returns immediately with sessionId for use with process tool.",
        ),
        Parameter::new(
            "yieldMs",
            Kind::Number,
            "Foreground grace window in milliseconds before auto-backgrounding the command and returning a sessionId (default 10000, at most 45000). Ignored when background is true.",
        )
        .with(r#"{"type": "number", "minimum": 100}"#),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call: execute,
};

/// How long a command runs in the foreground by default, in milliseconds.
const YIELD: u64 = 10_000;

/// How many characters of an offloaded output the answer of a foreground command shows.
const PREVIEW: usize = 12_000;

fn execute(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let line = text(call, "command", 1, usize::MAX)?;
    let description = text(call, "description", 5, 100)?;
    let timeout = number(call, "timeout", 100)?;
    let window = Duration::from_millis(number(call, "yieldMs", 100)?.unwrap_or(YIELD)).min(call.longest());
    let is_background = flag(call, "background")?;
    sweep(call);
    let id = format!("{PREFIX}{}", random_digits(12, 36));
    // Only what is in the background from the start can be written to.
    let stdin = if is_background { Stdin::Open } else { Stdin::Null };
    let mut request =
        starting::identify(starting::fill(call, Request::shell(&line)), &id).stdin(stdin).grace(GRACE);
    if let Some(shell) = user_shell(call) {
        request = request.with_shell(shell);
    }
    if let Some(name) = starting::name(&description) {
        request = request.name(name);
    }
    if let Some(timeout) = timeout {
        request = request.timeout(Some(Duration::from_millis(timeout.min(YEAR_MS))));
    }
    let job = starting::start(call, "Failed to start the command", &request)?;
    if !is_background {
        // Where the wait fails, the command goes on in the background.
        jobs::wait_for_start(call, &job, window).ok();
    }
    let state = job.state(call.store);
    if is_background || !state.status.has_ended() {
        return Ok(Reply::json(&json!({"status": "running", "sessionId": id})));
    }
    Ok(finished(call, job, &state))
}

/// Answers with what a foreground command printed and its exit code. The job is removed then, unless its output was offloaded.
fn finished(call: &Call<'_>, job: Job, state: &State) -> Reply {
    let file = offloaded(call, &job);
    let shown = read(&job, |output| match file {
        Some(_) => output.last_characters(PREVIEW),
        None => output.last_characters(OFFLOADED as usize),
    });
    let mut lines = Vec::new();
    if !shown.is_empty() {
        lines.push(shown.trim_end().to_owned());
    }
    let code = state.exit_code().map_or_else(|| "null".to_owned(), |code| code.to_string());
    lines.push(format!("Exit Code: {code}"));
    if state.status == Status::TimedOut {
        lines.push("Timed out".to_owned());
    }
    lines.extend(file.as_ref().map(|file| format!("Output offloaded: {}", file.display())));
    let (store, reader) = (std::sync::Arc::clone(call.store), call.scope.reader.clone());
    Reply::plain(lines.join("\n")).tells(&job, state).after(move || {
        jobs::note_delivered(&job, &reader);
        if file.is_none() {
            // A job with leftover children cannot be removed, so that they can be ended.
            store.remove(&job).ok();
        }
    })
}

/// Returns the user's own shell, unless another is configured.
fn user_shell(call: &Call<'_>) -> Option<PathBuf> {
    let shell = std::env::var_os("SHELL").map(PathBuf::from);
    shell.filter(|shell| call.store.config().job.shell.is_none() && shell.is_absolute() && shell.is_file())
}

/// Returns a required text whose number of characters is in this range.
fn text(call: &Call<'_>, name: &str, least: usize, most: usize) -> Result<String, Failure> {
    let Some(value) = call.arguments.value(name) else {
        return Err(invalid(format!("{name} is required")));
    };
    let Value::String(text) = value else { return Err(invalid(format!("{name} must be a string"))) };
    match text.chars().count() {
        count if count < least => Err(invalid(format!("{name} must contain at least {least} character(s)"))),
        count if count > most => Err(invalid(format!("{name} must contain at most {most} character(s)"))),
        _ => Ok(text.clone()),
    }
}
