//! `bash_output` and `kill_bash`: read a task, and end it.

use std::time::Duration;

use outlive::{Job, Kill, Signal};

use super::output::merged;
use crate::jobs::delivers;
use crate::profiles::{find, known_pid, word_of_four};
use crate::reply::{Failure, Reply};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

/// The time between the signals of a kill.
pub(super) const GRACE: Duration = Duration::from_millis(200);

pub(crate) static BASH_OUTPUT: Tool = Tool {
    name: "bash_output",
    title: "Read background task output",
    description: "Retrieve output from a background bash task.

Usage:
- Accepts a task_id parameter to identify the background task
- Returns the accumulated stdout and stderr output
- Shows current task status (running/completed/killed/failed)
- Use this to monitor or check output from long-running background tasks
- Task IDs are returned when commands are moved to background",
    parameters: &[Parameter::required("task_id", Kind::Text, "The ID of the background task")],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: false,
    call: bash_output,
};

pub(crate) static KILL_BASH: Tool = Tool {
    name: "kill_bash",
    title: "Terminate background task",
    description: "Terminate a running background bash task.

Usage:
- Accepts a task_id parameter to identify the task to kill
- Sends SIGTERM first, then SIGKILL if needed (Unix-like systems)
- Returns success or failure status
- Use this when you need to stop a long-running background task",
    parameters: &[Parameter::required("task_id", Kind::Text, "The ID of the background task to terminate")],
    hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
    waits: false,
    call: kill_bash,
};

fn bash_output(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let job = task(call)?;
    // The state is read first: of an ended job, all output is then there.
    let state = job.state(call.store);
    let has_ended = state.status.has_ended();
    let output = merged(&job, has_ended && !state.is_live())
        .map_err(|error| Failure::of("cannot read its output", &error))?;
    let mut lines = vec![
        format!("Command: {}", job.spec().command_line()),
        format!("Status: {}", word_of_four(state.status)),
        format!("PID: {}", known_pid(&state).unwrap_or(0)),
        format!("Created: {}", job.spec().created),
        String::new(),
        "Output:".to_owned(),
        if output.is_empty() { "(no output yet)".to_owned() } else { output },
    ];
    if let Some(code) = state.exit_code() {
        lines.extend([String::new(), format!("Exit Code: {code}")]);
    }
    Ok(delivers(call, Reply::plain(lines.join("\n")), job, &state))
}

fn kill_bash(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let job = task(call)?;
    let state = job.state(call.store);
    // Leftover children belong to the task, too.
    if !state.is_live() {
        let text = format!(
            "Task {} is not running (status: {}). Cannot terminate.",
            job.id(),
            word_of_four(state.status)
        );
        return Ok(delivers(call, Reply::refusal(text), job, &state));
    }
    let kill =
        Kill { signal: Some(Signal::TERM), grace: Some(GRACE), force: false, by: "kill_bash".to_owned() };
    let killed = call.store.kill(&job, &kill);
    let reply = match killed {
        Ok(killed) if killed.survivors.is_empty() && !killed.was_over => {
            Reply::plain(format!("Successfully terminated task {} ({})", job.id(), job.spec().command_line()))
        }
        _ => {
            Reply::refusal(format!("Failed to terminate task {}. Process may have already exited.", job.id()))
        }
    };
    let state = job.state(call.store);
    Ok(delivers(call, reply, job, &state))
}

/// Finds the task that is meant.
fn task(call: &Call<'_>) -> Result<Job, Failure> {
    let id = call.arguments.required("task_id", "task_id=\"task_0123456789ab\"")?;
    let missing = || Failure::new(format!("Task {id} not found. Use bash tool to see available tasks."));
    find(call, &id).ok_or_else(missing)
}
