//! The tools of Duragent: `spawn_process`, waited for or not, and `process`.
//!
//! The end of a process that was not waited for comes as a message of its own beside the next answer. A process runs
//! without tmux, and what needs a screen is refused in that design's words.

mod files;
mod process;
mod spawn_process;

use std::time::{Duration, SystemTime};

use outlive::{Job, Output, State, Status, WaitStatus};

use super::{Isolation, News, Profile, links};
use crate::reply::chain;
use crate::tools::Call;
use files::{file_names, files};

pub(crate) static PROFILE: Profile = Profile {
    name: "duragent",
    about: "Duragent's `spawn_process` and `process`",
    instructions: "spawn_process starts a background command and returns its handle at once, or, with wait: true, its result. \
        When a process that was not waited for has ended, a message that begins with [Background Process Completed] comes \
        beside the next result of any tool: do not poll in a loop. process lists processes, tells their status, reads their \
        log, writes to their stdin and kills them. Processes survive restarts.",
    tools: &[&spawn_process::SPAWN_PROCESS, &process::PROCESS],
    isolation: Isolation::Conversation,
    news: News::Messages,
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

/// How the handles of its own jobs begin.
const PREFIX: &str = "proc-";

/// The time between the signals of a timeout or a kill.
const GRACE: Duration = Duration::from_secs(5);

/// An ended process is kept for so long.
const KEPT: Duration = Duration::from_secs(30 * 60);

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
