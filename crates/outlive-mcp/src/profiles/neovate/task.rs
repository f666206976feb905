//! `bash_output` and `kill_bash`: read a task, and end it.

use std::time::Duration;

use outlive::{Job, Kill, Signal, Status};

use super::output::merged;
use crate::jobs::delivers;
use crate::profiles::{command, find, known_pid};
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
    let job = match task(call)? {
        Ok(job) => job,
        Err(refusal) => return Ok(refusal),
    };
    // The state is read first: of an ended job, all output is then there.
    let state = job.state(call.store);
    let has_ended = state.status.has_ended();
    let output = merged(&job, has_ended && !state.is_live())
        .map_err(|error| Failure::of("cannot read its output", &error))?;
    let mut lines = vec![
        format!("Command: {}", command(&job)),
        format!("Status: {}", status(state.status)),
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
    let job = match task(call)? {
        Ok(job) => job,
        Err(refusal) => return Ok(refusal),
    };
    let state = job.state(call.store);
    // Leftover children belong to the task, too.
    if !state.is_live() {
        let text =
            format!("Task {} is not running (status: {}). Cannot terminate.", job.id(), status(state.status));
        return Ok(delivers(call, Reply::refusal(text), job, &state));
    }
    let kill =
        Kill { signal: Some(Signal::TERM), grace: Some(GRACE), force: false, by: "kill_bash".to_owned() };
    let killed = call.store.kill(&job, &kill);
    let reply = match killed {
        Ok(killed) if killed.survivors.is_empty() && !killed.was_over => {
            Reply::plain(format!("Successfully terminated task {} ({})", job.id(), command(&job)))
        }
        _ => {
            Reply::refusal(format!("Failed to terminate task {}. Process may have already exited.", job.id()))
        }
    };
    let state = job.state(call.store);
    Ok(delivers(call, reply, job, &state))
}

/// Finds the task that is meant, or says that there is none.
fn task(call: &Call<'_>) -> Result<Result<Job, Reply>, Failure> {
    let id = call.arguments.required("task_id", "task_id=\"task_0123456789ab\"")?;
    let missing = || Reply::refusal(format!("Task {id} not found. Use bash tool to see available tasks."));
    Ok(find(call, &id).ok_or_else(missing))
}

/// Returns the design's word for a status.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Starting | Status::Running => "running",
        Status::Completed => "completed",
        Status::Killed | Status::TimedOut => "killed",
        Status::Failed | Status::Lost => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_four_words_for_a_status() {
        for (native, word) in [
            (Status::Starting, "running"),
            (Status::Running, "running"),
            (Status::Completed, "completed"),
            (Status::Failed, "failed"),
            (Status::Lost, "failed"),
            (Status::Killed, "killed"),
            (Status::TimedOut, "killed"),
        ] {
            assert_eq!(status(native), word, "{native}");
        }
    }
}
