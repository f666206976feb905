//! The tools of macos-shell: background processes of shell sessions, with a window of lines to look back on.
//!
//! - `start`: run commands, in the background or not.
//! - `processes`: list, read and signal them.
//! - `sessions`: what `session` means; make and close sessions.

mod processes;
mod sessions;
mod start;

use std::collections::HashMap;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use outlive::{Job, JobId, Line, Nonblank, Nonce, State, Status, Stream, Tally};
use serde_json::{Value, json};

use super::own::{discard, is_expired, is_past};
use super::{Expiry, Isolation, NoticeStyle, Profile, is_answered};
use crate::reply::Failure;
use crate::tools::Call;

pub(crate) static PROFILE: Profile = Profile {
    name: "macos-shell",
    about: "the tools of macos-shell: background processes of shell sessions",
    instructions: "Shell commands in sessions, each with a directory and environment of its own. \
run_background starts a process that goes on by itself, also when this server ends; list_processes, get_process_output, \
stream_process_output and kill_process look after it. Without a session, \"default\" is meant.",
    tools: &[
        &start::RUN_BACKGROUND,
        &processes::LIST,
        &processes::OUTPUT,
        &processes::KILL,
        &processes::STREAM,
        &start::RUN_COMMAND,
        &sessions::LIST,
        &sessions::CREATE,
        &sessions::CLOSE,
    ],
    isolation: Isolation::Conversation,
    inherit: sessions::inherit,
    notices: NoticeStyle::None,
    expiry: Some(Expiry {
        is_due: |call, job, ended| {
            job.is_seen() && is_past(ended, call.store.config().retention.keep.unwrap_or(KEPT))
        },
        remove_files: |_, _| {},
    }),
};

/// How long an ended process stays once its end was told, unless the configuration says otherwise.
const KEPT: Duration = Duration::from_secs(3600);

/// How many of the last lines a client can read, unless `bufferSize` says otherwise.
const WINDOW: u64 = 300;

/// The most characters of a line that are shown: a single line must not fill an answer.
const LONGEST_LINE: usize = 10_000;

/// Returns the design's word for a status. A job that timed out was killed, and a lost job failed.
fn word(state: &State) -> &'static str {
    match state.status {
        Status::Queued | Status::Starting => "starting",
        Status::Running => "running",
        Status::Completed => "stopped",
        Status::Failed | Status::Lost => "failed",
        Status::Killed | Status::TimedOut => "killed",
    }
}

/// Makes an id of its own for a job: a UUID of version 4.
fn new_id() -> Result<JobId, Failure> {
    let mut bytes = outlive_sys::random::bytes16();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let id = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-");
    JobId::parse(&id).map_err(|error| Failure::of("no id could be made", &error))
}

/// Lists the jobs that this server sees, the newest first, and removes its own whose time is over.
fn in_sight(call: &Call<'_>) -> Result<Vec<(Job, State)>, Failure> {
    let listing =
        call.store.list(None).map_err(|error| Failure::of("the processes cannot be listed", &error))?;
    let mut jobs = Vec::new();
    for job in listing.jobs.into_iter().rev() {
        if !sessions::is_in_sight(call.scope, job.session()) {
            continue;
        }
        let state = job.state(call.store);
        if is_expired(call, &job, &state) {
            // It is not listed even where it cannot be removed.
            discard(call, &job);
        } else if !state.is_removed() && !is_answered(call, &job, &state) {
            jobs.push((job, state));
        }
    }
    Ok(jobs)
}

/// Finds the job that `processId` names.
fn find(call: &Call<'_>) -> Result<Job, Failure> {
    let given = call.arguments.required("processId", "a process id of list_processes")?;
    let id = JobId::parse(&given.trim().to_ascii_lowercase()).ok();
    let found = id.and_then(|id| call.store.find(id.as_str(), None).ok().filter(|job| *job.id() == id));
    found
        .filter(|job| sessions::is_in_sight(call.scope, job.session()))
        .ok_or_else(|| Failure::new(format!("Process '{}' not found", crate::arguments::shown(&given))))
}

/// How far the lines of each job were counted: a cache, which may be dropped.
static TALLIES: LazyLock<Mutex<HashMap<Nonce, Tally>>> = LazyLock::new(Mutex::default);

/// The most counts that are kept; each is a few bytes.
const MOST_TALLIES: usize = 10_000;

/// Goes on counting the lines of a job.
fn counting<T>(job: &Job, count: impl FnOnce(&mut Tally) -> io::Result<T>) -> Result<T, Failure> {
    let tallies = || TALLIES.lock().unwrap_or_else(PoisonError::into_inner);
    let nonce = job.spec().nonce;
    let mut tally = tallies().get(&nonce).cloned().unwrap_or_default();
    let counted = count(&mut tally).map_err(|error| Failure::of("the output cannot be read", &error))?;
    let mut tallies = tallies();
    if tallies.len() >= MOST_TALLIES {
        tallies.clear();
    }
    tallies.insert(nonce, tally);
    Ok(counted)
}

/// Counts the lines of a job. While it runs, an unfinished line is none yet.
fn total_lines(job: &Job, state: &State) -> Result<u64, Failure> {
    let has_ended = state.status.has_ended();
    counting(job, |tally| tally.advance(job).map(|()| if has_ended { tally.total() } else { tally.ended() }))
}

/// Returns the last lines of a job that a client can read.
fn window(job: &Job, most: usize) -> Result<Nonblank, Failure> {
    let window = job.spec().window_lines.unwrap_or(WINDOW);
    let window = usize::try_from(window).unwrap_or(usize::MAX).min(most);
    counting(job, |tally| job.nonblank_tail(tally, window))
}

/// Describes a line.
fn line_object(job: &Job, state: &State, line: &Line) -> Value {
    let time = line.time.unwrap_or_else(|| super::started(job, state));
    json!({
        "timestamp": time.to_string(),
        "type": line.stream.unwrap_or(Stream::Stdout).word(),
        "content": content(line),
        "lineNumber": line.number,
    })
}

/// Returns the text of a line, cut where it is too long for an answer.
fn content(line: &Line) -> String {
    let text = String::from_utf8_lossy(&line.text);
    match text.char_indices().nth(LONGEST_LINE) {
        None if line.cut_bytes == 0 => text.into_owned(),
        cut => {
            let cut = cut.map_or(text.len(), |(at, _)| at);
            let more = text[cut..].chars().count() as u64 + line.cut_bytes;
            format!("{}[... {more} characters omitted ...]", &text[..cut])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_4() {
        for _ in 0..200 {
            let id = new_id().unwrap();
            assert_eq!(&id.as_str()[14..15], "4", "{id}");
            assert!("89ab".contains(&id.as_str()[19..20]), "{id}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_says_what_is_missing() {
        let line = |text: String, cut_bytes| Line {
            number: 1,
            stream: None,
            time: None,
            text: text.into_bytes(),
            repeated: 1,
            cut_bytes,
            lost_bytes: 0,
            is_ended: true,
        };
        assert_eq!(content(&line("short".into(), 0)), "short");
        assert_eq!(content(&line("é".repeat(LONGEST_LINE), 0)), "é".repeat(LONGEST_LINE));
        assert!(content(&line("é".repeat(10_003), 4)).ends_with("é[... 7 characters omitted ...]"));
    }
}
