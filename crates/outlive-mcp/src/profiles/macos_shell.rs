//! The tools of macos-shell: background processes of shell sessions, with a window of lines to look back on.
//!
//! - `start`: what runs commands, in the background or not.
//! - `processes`: what lists, reads and signals them.
//! - `sessions`: what `session` means, and what makes and closes one.

mod processes;
mod sessions;
mod start;

use std::collections::HashMap;
use std::io;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use outlive::{Job, JobId, Line, Nonblank, Nonce, State, Status, Stream, Tally};
use serde_json::{Value, json};

use super::{Isolation, NoticeStyle, Profile, random_digits};
use crate::jobs;
use crate::reply::{Failure, Reply};
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
    isolation: Isolation::Project,
    notices: NoticeStyle::None,
    choices: [
        "`run_background`; `run_command` with `runInBackground`",
        "not there: `get_process_output`",
        "not there: `list_processes`, `kill_process`",
        "in the foreground, a command and `args`",
        "UUID",
        "`processId`",
        "starting, running, stopped, failed, killed",
        "stopped",
        "`killed`",
        "none; `run_command` 30 s",
        "none: one signal",
        "the whole tree",
        "an error that says its status",
        "any, or `force`",
        "lines by number, as often as one likes",
        "both, each line with its stream; or one",
        "empty ones are passed over",
        "the last 300 lines, or `bufferSize`; all is on disk",
        "by stream",
        "at once",
        "a command and `args`, which are quoted",
        "/bin/zsh, else bash, else sh",
        "the session's, then the call's",
        "closed",
        "pipes",
        "everything; processes go on",
        "an hour, once told",
        "50 a session, 200 in all",
        "the project's sessions",
        "a shell's directory and environment",
        "none: asked for",
        "`{processes: […]}`",
        "milliseconds; start in ISO 8601",
        "annotations",
        "none",
        "whole id",
        "Linux",
        "in scope",
        "none",
    ],
};

/// How many lines one can look back on, unless it was said at the start.
const WINDOW: u64 = 300;

/// The longest part of a line that is shown: one line must not fill an answer.
const LONGEST_LINE: usize = 10_000;

/// The group of what `run_command` runs.
const FOREGROUND: &str = "run_command";

/// How long `run_command` waits, in milliseconds: under what the most impatient client allows.
const FOREGROUND_MS: u64 = 45_000;

/// Chooses the word for how a job is doing. Whom a deadline ended was killed; of whom nobody knows how it ended, it
/// failed.
fn word(state: &State) -> &'static str {
    match state.status {
        Status::Starting => "starting",
        Status::Running => "running",
        Status::Completed => "stopped",
        Status::Failed | Status::Lost => "failed",
        Status::Killed | Status::TimedOut => "killed",
    }
}

/// Makes an id of its own for a job: a UUID of version 4.
fn new_id() -> Result<JobId, Failure> {
    let digits = random_digits(31, 16);
    // The variant is one of four digits.
    let variant = match digits.as_bytes()[15] {
        b'0'..=b'3' => '8',
        b'4'..=b'7' => '9',
        b'8'..=b'9' | b'a'..=b'b' => 'a',
        _ => 'b',
    };
    let id = format!(
        "{}-{}-4{}-{variant}{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..15],
        &digits[16..19],
        &digits[19..31]
    );
    JobId::parse(&id).map_err(|error| Failure::of("no id could be made", &error))
}

/// Tells whether an id is one that this profile made.
fn is_own(id: &JobId) -> bool {
    let id = id.as_str();
    let is_right = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    id.len() == 36 && id.bytes().enumerate().all(is_right)
}

/// Lists the jobs in sight, the newest first. Own ones that have ended go once their time is over.
fn in_sight(call: &Call<'_>) -> Result<Vec<(Job, State)>, Failure> {
    let listing =
        call.store.list(None).map_err(|error| Failure::of("the processes cannot be listed", &error))?;
    let mut jobs = Vec::new();
    for job in listing.jobs.into_iter().rev() {
        if !sessions::is_in_sight(call.scope, job.session()) {
            continue;
        }
        let state = job.state(call.store);
        if is_over(call, &job, &state) {
            // Where it cannot be removed it is gone from sight all the same.
            call.store.remove(&job).ok();
        } else if !state.is_removed && !is_answered(&job, &state) {
            jobs.push((job, state));
        }
    }
    Ok(jobs)
}

/// Tells whether an own job has ended so long ago that it goes. One whose end nobody has heard of stays.
fn is_over(call: &Call<'_>, job: &Job, state: &State) -> bool {
    let Some(outcome) = state.outcome.as_ref().filter(|_| !state.is_live()) else { return false };
    let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(outcome.ended.0);
    is_own(job.id())
        && ended.elapsed().is_ok_and(|age| age >= call.store.config().retention.keep)
        && job.is_seen()
}

/// Tells whether a job was a foreground command whose answer said everything: it never was a background process.
fn is_answered(job: &Job, state: &State) -> bool {
    job.spec().group.as_deref() == Some(FOREGROUND)
        && !state.is_live()
        && state.runtime_ms().is_some_and(|runtime| runtime < FOREGROUND_MS)
        && job.is_seen()
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

/// Says that an answer tells how jobs ended, and notes it once the client has it.
fn telling(call: &Call<'_>, reply: Reply, jobs: Vec<(Job, State)>) -> Reply {
    jobs.into_iter().fold(reply, |reply, (job, state)| jobs::delivers(call, reply, job, &state))
}

/// What was counted of each job: nothing that could not be counted again.
static TALLIES: LazyLock<Mutex<HashMap<Nonce, Tally>>> = LazyLock::new(Mutex::default);

/// So many counts are kept; they are few bytes each.
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

/// Counts the lines of a job.
fn total_lines(job: &Job) -> Result<u64, Failure> {
    counting(job, |tally| tally.advance(job).map(|()| tally.total()))
}

/// Returns the lines of a job that one can look back on.
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
            assert!(is_own(&id), "{id}");
            assert_eq!(&id.as_str()[14..15], "4", "{id}");
            assert!("89ab".contains(&id.as_str()[19..20]), "{id}");
        }
        for other in ["vite-3f9c", "proc-abc", "0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0g"] {
            assert!(!is_own(&JobId::parse(other).unwrap()), "{other}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_says_what_is_missing() {
        let line = |text: String, cut_bytes| Line {
            number: 1,
            stream: None,
            time: None,
            text: text.into_bytes(),
            cut_bytes,
            is_ended: true,
        };
        assert_eq!(content(&line("short".into(), 0)), "short");
        assert_eq!(content(&line("é".repeat(LONGEST_LINE), 0)), "é".repeat(LONGEST_LINE));
        assert!(content(&line("é".repeat(10_003), 4)).ends_with("é[... 7 characters omitted ...]"));
    }
}
