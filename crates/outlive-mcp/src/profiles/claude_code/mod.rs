//! The tools of an agent with asynchronous shells in the style of Claude Code: `run_command` with `run_in_background`, `bash_output`,
//! `kill_shell`, `list_shells`, and notes of background agents.
//!
//! That design keeps everything in memory; here the store does. What it calls a process is a job, and one cursor of the profile's own
//! for each stream says what was read, so that the next server goes on where the last stopped.

mod agents;
mod bash_output;
mod kill_shell;
mod list_shells;
mod run_command;

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use outlive::{Cause, Job, Nonce, SessionName, State};
use serde_json::json;

use super::{Isolation, NoticeStyle, Profile, is_answered, is_own, word_of_four};
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
    isolation: Isolation::Conversation,
    inherit: |_, _, _| Ok(()),
    notices: NoticeStyle::None,
    expiry: None,
};

/// How the ids that this profile makes begin.
const PREFIX: &str = "shell-";

/// MAX_PROCESSES of the design: a start removes the oldest ended jobs until there are fewer.
const MOST: usize = 20;

/// MAX_BUFFER_LINES of the design: how many of the newest lines of each stream can be read.
const LINES: usize = 10_000;

/// The most text of a stream in one answer. The design has no such limit, but lines may be long, and no client takes more; what is
/// beyond it comes with the next read.
const BYTES: usize = 1 << 20;

/// What asks for the end of a job, for the record of its outcome.
const BY: &str = "outlive mcp (kill_shell)";

/// The reader of all clients of this profile: the design has a single position for each stream.
fn reader() -> SessionName {
    outlive::reader_name("claude-code")
}

/// Returns the line that the design adds to the errors of a process that did not end by itself.
fn last_words(job: &Job, state: &State) -> Option<String> {
    match &state.outcome.as_ref()?.cause {
        Cause::Timeout => {
            let limit =
                job.spec().options.timeout_ms.map_or_else(|| "?".to_owned(), |limit| limit.to_string());
            Some(format!("Process killed after {limit}ms timeout"))
        }
        Cause::Oom | Cause::Lost { .. } | Cause::NeverStarted(_) | Cause::Newer(_) => {
            Some(format!("Process error: {}", outlive::reason(state)?))
        }
        Cause::Natural | Cause::Kill { .. } | Cause::Overlap => None,
    }
}

/// Tells whether the design would not list a job: a command in the foreground that was answered and has left nothing running,
/// or a command that never began.
fn is_hidden(call: &Call<'_>, job: &Job, state: &State) -> bool {
    let never_began =
        || state.outcome.as_ref().is_some_and(|outcome| matches!(outcome.cause, Cause::NeverStarted(_)));
    is_answered(call, job, state) || (is_own(call, job) && never_began())
}

/// Notes that the end was told. It does not count as seen: the design forgets a process only to make room.
fn delivers(call: &Call<'_>, reply: Reply, job: Job, state: &State) -> Reply {
    let (reader, has_ended) = (call.scope.reader.clone(), state.status.has_ended());
    reply.tells(&job, state).after(move || {
        if has_ended {
            job.mark_delivered(&reader);
        }
    })
}

/// Lists what the caller sees, the oldest first.
fn processes(call: &Call<'_>) -> Result<Vec<(Job, State)>, Failure> {
    let mut jobs = super::jobs(call)?;
    jobs.retain(|(job, state)| !is_hidden(call, job, state));
    Ok(jobs)
}

/// Finds a process by its whole id.
fn exactly(call: &Call<'_>, id: &str) -> Option<(Job, State)> {
    let job = super::find(call, id)?;
    let state = job.state(call.store);
    (!is_hidden(call, &job, &state)).then_some((job, state))
}

/// Finds a process by its id, else the oldest whose id contains `part`.
fn roughly(call: &Call<'_>, part: &str) -> Result<Option<(Job, State)>, Failure> {
    if let Some(found) = exactly(call, part) {
        return Ok(Some(found));
    }
    Ok(processes(call)?.into_iter().find(|(job, _)| job.id().as_str().contains(part)))
}

/// Jobs that `kill_shell` has answered as killed: from then on the design calls them so. Those that have ended are known by their outcome.
static KILLED: LazyLock<Mutex<HashSet<Nonce>>> = LazyLock::new(Mutex::default);

fn killed() -> MutexGuard<'static, HashSet<Nonce>> {
    KILLED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note_kill(job: &Job) {
    killed().insert(job.spec().nonce);
}

fn forget_kill(job: &Job) {
    killed().remove(&job.spec().nonce);
}

fn is_being_killed(job: &Job) -> bool {
    killed().contains(&job.spec().nonce)
}

/// Returns the design's word for the status of a process.
fn word(job: &Job, state: &State) -> &'static str {
    match state.status.has_ended() {
        false if is_being_killed(job) => "killed",
        _ => word_of_four(state.status),
    }
}

/// Answers whether the action succeeded.
fn done(success: bool, message: String) -> Reply {
    let object = json!({"success": success, "message": message});
    if success { Reply::json(&object) } else { Reply::refusal(object.to_string()) }
}
