//! The tools of an agent with asynchronous shells in the style of Claude Code: `run_command` with `run_in_background`, `bash_output`,
//! `kill_shell`, `list_shells`, and notes of background agents.
//!
//! That design keeps everything in memory; here the store does. What it calls a process is a job, and one cursor of the profile's own
//! for each stream says what was read, so that a server that is started anew goes on where the last one stopped.

mod agents;
mod bash_output;
mod kill_shell;
mod list_shells;
mod run_command;

use outlive::{Cause, Job, SessionName, State, Status, WaitStatus};
use serde_json::json;

use super::{Isolation, NoticeStyle, Profile};
use crate::reply::{Failure, Reply};
use crate::tools::Call;

pub(crate) static PROFILE: Profile = Profile {
    name: "claude-code",
    about: "asynchronous shells in the style of Claude Code, and notes of background agents",
    instructions: "\
run_command with run_in_background: true starts dev servers, watchers and builds without blocking, and returns an ID. \
bash_output reads what is new since the last read, kill_shell stops a process with everything it started, list_shells shows all of them. \
They go on when this server or the client ends, and are there again afterwards.",
    tools: &[
        &run_command::TOOL,
        &bash_output::TOOL,
        &kill_shell::TOOL,
        &list_shells::TOOL,
        &agents::REGISTER,
        &agents::STATUS,
        &agents::OUTPUT,
        &agents::DONE,
        &agents::LIST,
        &agents::STOP,
    ],
    isolation: Isolation::Project,
    notices: NoticeStyle::None,
    choices: [
        "`run_command` with `run_in_background`",
        "`bash_id`, `filter`; what is new",
        "not there: `bash_output`, `kill_shell`, `list_shells`",
        "foreground and background, by `run_in_background`",
        "`shell-<ms>-<4 base36>`",
        "`bash_id` to read, `shell_id` to kill (or `bash_id`)",
        "running, completed, failed, killed",
        "completed",
        "`killed`, and a line in the errors",
        "10 minutes; 30 s in the foreground",
        "5 s; 3 s after a timeout in the foreground",
        "the whole tree",
        "an error: `Process already …`",
        "none",
        "what is new, once for all readers",
        "two texts",
        "left out, also those of spaces alone",
        "the newest 10,000 lines a stream",
        "regular expression without regard to case; an invalid one is passed over",
        "1.5 s, or its end",
        "a line for the shell",
        "`/bin/sh`",
        "inherited, and `FORCE_COLOR=0`",
        "closed",
        "none",
        "everything",
        "until 20 are there; then the oldest ended go",
        "20, running ones not counted out; 50 live ones",
        "the project's own",
        "whose jobs they are",
        "none: ask with `bash_output`",
        "an array",
        "`1m 5s`, to now",
        "annotations",
        "none",
        "part of an id to read, the whole to kill",
        "Linux",
        "in scope",
        "taken and not used",
    ],
};

/// How ids begin that are made here.
const PREFIX: &str = "shell-";

/// MAX_PROCESSES: from so many on, the oldest that have ended make room.
const MOST: usize = 20;

/// MAX_BUFFER_LINES: of each stream, so many of the newest lines can be read.
const LINES: usize = 10_000;

/// The most text of a stream in one answer. The design has no such limit, but lines may be long, and no client takes more; what is
/// beyond it comes with the next read.
const BYTES: usize = 1 << 20;

/// Who asks for the end of a process, for the record.
const BY: &str = "outlive mcp (kill_shell)";

/// The one reader of this design: whoever reads, it is read.
fn reader() -> SessionName {
    outlive::reader_name("claude-code")
}

/// The reader of commands in the foreground: one that was told to this one is not in the list.
fn foreground() -> SessionName {
    outlive::reader_name("claude-code-foreground")
}

/// Chooses the design's word for a status.
fn word(state: &State) -> &'static str {
    match state.status {
        Status::Starting | Status::Running => "running",
        Status::Completed => "completed",
        Status::Killed | Status::TimedOut => "killed",
        // Nobody knows how it ended; it did not end as it should.
        Status::Failed | Status::Lost => "failed",
    }
}

/// Returns the exit code; none of one that a signal ended.
fn exit_code(state: &State) -> Option<i32> {
    match state.outcome.as_ref()?.wait_status {
        WaitStatus::Exited { code } => Some(code),
        WaitStatus::Signaled { .. } | WaitStatus::Unknown => None,
    }
}

/// Returns the line that the design adds to the errors of one that did not end by itself.
fn last_words(job: &Job, state: &State) -> Option<String> {
    match &state.outcome.as_ref()?.cause {
        Cause::Timeout => {
            let limit = job.spec().timeout_ms.map_or_else(|| "?".to_owned(), |limit| limit.to_string());
            Some(format!("Process killed after {limit}ms timeout"))
        }
        Cause::Oom | Cause::Lost { .. } | Cause::NeverStarted(_) => {
            Some(format!("Process error: {}", outlive::reason(state)?))
        }
        Cause::Natural | Cause::Kill { .. } => None,
    }
}

/// Tells whether the design would not have it in its list: a command in the foreground that was answered and has left nothing
/// running, or one that never began.
fn is_hidden(job: &Job, state: &State) -> bool {
    let never_began =
        || state.outcome.as_ref().is_some_and(|outcome| matches!(outcome.cause, Cause::NeverStarted(_)));
    (job.is_delivered(&foreground()) && !state.is_live())
        || (job.id().as_str().starts_with(PREFIX) && never_began())
}

/// Lists what the caller sees, the oldest first.
fn processes(call: &Call<'_>) -> Result<Vec<(Job, State)>, Failure> {
    let mut jobs = super::jobs(call)?;
    jobs.retain(|(job, state)| !is_hidden(job, state));
    Ok(jobs)
}

/// Finds one by its whole id.
fn exactly(call: &Call<'_>, id: &str) -> Option<(Job, State)> {
    let job = super::find(call, id)?;
    let state = job.state(call.store);
    (!is_hidden(&job, &state)).then_some((job, state))
}

/// Finds one by its id, else the oldest whose id has this in it.
fn roughly(call: &Call<'_>, part: &str) -> Result<Option<(Job, State)>, Failure> {
    if let Some(found) = exactly(call, part) {
        return Ok(Some(found));
    }
    Ok(processes(call)?.into_iter().find(|(job, _)| job.id().as_str().contains(part)))
}

/// An answer that says whether something was done.
fn done(success: bool, message: String) -> Reply {
    let object = json!({"success": success, "message": message});
    if success { Reply::json(&object) } else { Reply::refusal(object.to_string()) }
}
