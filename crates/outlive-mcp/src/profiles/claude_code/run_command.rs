//! `run_command`: in the foreground, or with `run_in_background` as a process that is read and stopped later.

use std::io;
use std::time::Duration;

use outlive::{
    Blank, Job, Output, OwnLabel, Piece, Place, Request, StartError, State, Status, Stdin, Stream, Timestamp,
    Unread,
};

use super::bash_output::texts;
use super::kill_shell::GRACE;
use super::{BYTES, LINES, MOST, PREFIX, delivers, last_words, processes};
use crate::jobs;
use crate::profiles::{epoch_ms, is_own, known_pid, random_digits};
use crate::reading::pieces;
use crate::reply::{Failure, Reply, chain};
use crate::starting::{self, YEAR_MS};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static TOOL: Tool = Tool {
    name: "run_command",
    title: "Run a command",
    description: "Execute a shell command. Use run_in_background:true for dev servers/watchers — after starting, use bash_output to verify.",
    parameters: &[
        Parameter::required("command", Kind::Text, "Shell command to execute"),
        Parameter::new("working_directory", Kind::Text, "Working directory for the command"),
        Parameter::new("cwd", Kind::Text, "The same as working_directory"),
        Parameter::number(
            "timeout",
            "Timeout in milliseconds (default 30000, max 300000; in the background default 600000, no max)",
        ),
        Parameter::new("description", Kind::Text, "Short description of what this command does"),
        Parameter::new(
            "run_in_background",
            Kind::Flag,
            "Run in background (for dev servers, watchers). Returns process ID immediately.",
        ),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call,
};

/// How long a process in the background may run by default, in milliseconds.
const BACKGROUND_LIMIT: u64 = 600_000;

/// How long a command in the foreground may run, by default and at most, in milliseconds.
const FOREGROUND_LIMIT: u64 = 30_000;
const LONGEST_FOREGROUND_LIMIT: u64 = 300_000;

/// The time between the signals after a timeout in the foreground.
const FOREGROUND_GRACE: Duration = Duration::from_secs(3);

/// How long a start in the background is watched for an immediate failure.
const START_CHECK: Duration = Duration::from_millis(1500);

/// How many characters of what a failed command printed are shown.
const FAILED_OUTPUT: usize = 5000;

/// How many lines of each stream are shown of a process that was started.
const FIRST_OUTPUT: usize = 8;
const FIRST_ERRORS: usize = 4;

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let command = call.arguments.required("command", "run_command command=\"npm test\"")?;
    let is_background = call.arguments.flag("run_in_background")?;
    let (default, longest) = match is_background {
        true => (BACKGROUND_LIMIT, YEAR_MS),
        false => (FOREGROUND_LIMIT, LONGEST_FOREGROUND_LIMIT),
    };
    let timeout = call.arguments.number("timeout", 0..=longest)?;
    let limit = Duration::from_millis(timeout.filter(|&timeout| timeout > 0).unwrap_or(default));
    let mut request = starting::fill(call, Request::shell(&command))
        .with_shell("/bin/sh")
        .env("FORCE_COLOR", "0")
        .stdin(Stdin::Null);
    let directory = match call.arguments.text("working_directory")? {
        None => call.arguments.text("cwd")?,
        given => given,
    };
    if let Some(given) = directory {
        request = request.cwd(starting::directory(call, &given));
    }
    if is_background {
        make_room(call)?;
        background(call, &command, request.timeout(Some(limit)).grace(GRACE))
    } else {
        let request = request.own_label(OwnLabel::Foreground, TOOL.name);
        run(call, &command, request.timeout(Some(limit)).grace(FOREGROUND_GRACE))
    }
}

/// Removes the oldest ended jobs while there are too many. A live job is never touched.
fn make_room(call: &Call<'_>) -> Result<(), Failure> {
    let mut mine = processes(call)?;
    mine.retain(|(job, _)| is_own(call, job) && *job.session() == call.scope.session);
    let mut left = mine.len();
    for (job, state) in mine {
        if left < MOST {
            break;
        }
        // A job that cannot be removed stays.
        if !state.is_live() && call.store.remove(&job).is_ok() {
            left -= 1;
        }
    }
    Ok(())
}

/// Starts it under an id of its own.
fn start(call: &Call<'_>, request: &Request) -> Result<Job, StartError> {
    let now = || epoch_ms(Timestamp(outlive_sys::clock::wall_us()));
    starting::start_drawn(call, request, || format!("{PREFIX}{}-{}", now(), random_digits(4, 36)))
}

/// Says why a command could not be started. The job of the attempt stays in the store, and out of the design's list.
fn not_started(call: &Call<'_>, what: &str, error: &StartError) -> Reply {
    let reply = Reply::refusal(format!("{what}: {}", chain(error)));
    let StartError::NeverStarted { job, .. } = error else { return reply };
    let Some(job) = crate::profiles::find(call, job.as_str()) else { return reply };
    let reader = call.scope.reader.clone();
    let state = job.state(call.store);
    reply.tells(&job, &state).after(move || jobs::note_delivered(&job, &reader))
}

/// Starts a process, and waits long enough to see whether it fails at once.
fn background(call: &Call<'_>, command: &str, request: Request) -> Result<Reply, Failure> {
    let job = match start(call, &request) {
        Ok(job) => job,
        Err(error) => return Ok(not_started(call, "Failed to spawn", &error)),
    };
    // Where the wait fails, the answer still tells the state.
    jobs::wait_for_start(call, &job, START_CHECK).ok();
    let state = job.state(call.store);
    let text = report(&job, &state, command, None).map_err(unreadable)?;
    let mut reply = Reply::plain(text);
    reply.is_error = state.status.has_ended() && state.status != Status::Completed;
    Ok(delivers(call, reply, job, &state))
}

/// Describes a process that was just started.
fn report(job: &Job, state: &State, command: &str, moved: Option<Duration>) -> io::Result<String> {
    let id = job.id();
    let mut lines = Vec::new();
    let (errors, error_count) = first(job, state, Stream::Stderr, LINES)?;
    if state.status.has_ended() && state.status != Status::Completed {
        // Another front end killed it.
        let how = if state.status == Status::Killed { "was killed" } else { "failed" };
        lines.push(format!("✕ Process {how} immediately"));
        lines.push(format!("  Command: {command}"));
        if !errors.is_empty() {
            lines.push(format!("  Error: {}", errors.join("\n  ")));
        }
        lines.extend(state.exit_code().map(|code| format!("  Exit code: {code}")));
        lines.push(format!("  ID: {id}"));
        return Ok(lines.join("\n"));
    }
    let has_ended = state.status.has_ended();
    lines.push(format!("✓ Background process {}", if has_ended { "completed" } else { "running" }));
    lines.push(format!("  PID: {}", known_pid(state).map_or_else(|| "?".to_owned(), |pid| pid.to_string())));
    lines.push(format!("  ID: {id}"));
    lines.push(format!("  Command: {command}"));
    lines.extend(moved.map(|waited| {
        format!("  Not done after {}s in the foreground: it goes on in the background.", waited.as_secs())
    }));
    if has_ended {
        lines.extend(state.exit_code().map(|code| format!("  Exit code: {code}")));
    }
    let (output, count) = first(job, state, Stream::Stdout, FIRST_OUTPUT)?;
    if count > 0 {
        lines.push(format!("  Initial output ({count} lines):"));
        lines.extend(output.iter().map(|line| format!("    {line}")));
        if count > FIRST_OUTPUT {
            lines.push(format!("    ... +{} more lines", count - FIRST_OUTPUT));
        }
    }
    if error_count > 0 {
        lines.push(format!("  Stderr ({error_count} lines):"));
        lines.extend(errors.iter().take(FIRST_ERRORS).map(|line| format!("    {line}")));
    }
    lines.push(match (has_ended, state.is_live()) {
        (false, _) => format!("  Use bash_output(\"{id}\") to check output, kill_shell(\"{id}\") to stop."),
        // It has leftover children.
        (true, true) => format!(
            "  Use bash_output(\"{id}\") to check output, kill_shell(\"{id}\") to stop the processes that it left running."
        ),
        (true, false) => format!("  Use bash_output(\"{id}\") to check output."),
    });
    Ok(lines.join("\n"))
}

/// Returns the first lines of a stream that are kept, and how many there are. No cursor moves.
fn first(job: &Job, state: &State, stream: Stream, count: usize) -> io::Result<(Vec<String>, usize)> {
    let wanted = Unread {
        stream,
        from: Place::default(),
        blank: Blank::Whitespace,
        window: LINES,
        lines: count,
        bytes: BYTES,
        is_over: true,
    };
    let unread = job.unread(&wanted)?;
    let mut lines = texts(&unread.lines);
    let last = (stream == Stream::Stderr).then(|| last_words(job, state)).flatten();
    let total = unread.total + usize::from(last.is_some());
    if unread.is_all && lines.len() < count {
        lines.extend(last);
    }
    Ok((lines, total))
}

/// Runs a command to its end. A command that takes longer than a client waits goes on in the background.
fn run(call: &Call<'_>, command: &str, request: Request) -> Result<Reply, Failure> {
    let job = match start(call, &request) {
        Ok(job) => job,
        Err(error) => return Ok(not_started(call, "Spawn error", &error)),
    };
    let longest = call.longest();
    jobs::wait_for_start(call, &job, longest).ok();
    let state = job.state(call.store);
    if !state.status.has_ended() {
        let text = report(&job, &state, command, Some(longest)).map_err(unreadable)?;
        return Ok(Reply::plain(text));
    }
    let printed = printed(&job).map_err(unreadable)?;
    let reply = match (state.status, state.exit_code()) {
        (Status::Completed, _) if printed.is_empty() => Reply::plain("(no output)"),
        (Status::Completed, _) => Reply::plain(fitted(&printed, BYTES)),
        (Status::TimedOut, _) => {
            let limit = job.spec().options.timeout_ms.unwrap_or(FOREGROUND_LIMIT);
            Reply::refusal(fitted(&format!("Command timed out after {limit}ms.\n{printed}"), FAILED_OUTPUT))
        }
        (_, code) => {
            let code = code.map_or_else(|| "?".to_owned(), |code| code.to_string());
            let mut text = format!("Exit code {code}:\n{printed}");
            if let Some(last) = last_words(&job, &state) {
                text.push_str(&last);
            }
            Reply::refusal(fitted(&text, FAILED_OUTPUT))
        }
    };
    Ok(jobs::delivers(call, reply, job, &state))
}

/// Returns all that a command printed: standard output, then standard error.
fn printed(job: &Job) -> io::Result<String> {
    let mut output = Output::open(job)?;
    let (mut streams, start) = ([Ends::default(), Ends::default()], output.start());
    pieces(&mut output, start, |piece| {
        if let Piece::Output { stream, bytes, .. } = piece {
            streams[usize::from(stream == Some(Stream::Stderr))].push(&bytes);
        }
    })?;
    let [stdout, stderr] = streams.map(Ends::text);
    Ok(if stderr.is_empty() { stdout } else { format!("{stdout}\n{stderr}") })
}

/// The beginning and the end of an output that may be too large for memory.
#[derive(Debug, Default)]
struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
    left_out: usize,
}

impl Ends {
    fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 4 * BYTES {
            let surplus = self.tail.len() - BYTES;
            self.tail.drain(..surplus);
            self.left_out += surplus;
        }
    }

    fn text(mut self) -> String {
        if self.left_out == 0 {
            self.head.append(&mut self.tail);
            return String::from_utf8_lossy(&self.head).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&self.tail));
        format!("{head}\n… {} bytes left out …\n{tail}", self.left_out)
    }
}

/// Leaves out the middle of a text that is too long.
fn fitted(text: &str, characters: usize) -> String {
    let count = text.chars().count();
    if count <= characters {
        return text.to_owned();
    }
    let half = characters / 2;
    let place = |character: usize| text.char_indices().nth(character).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (&text[..place(half)], &text[place(count - half)..]);
    format!("{head}\n… {} characters left out …\n{tail}", count - 2 * half)
}

fn unreadable(error: io::Error) -> Failure {
    Failure::of("its output cannot be read", &error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_left_out() {
        assert_eq!(fitted("abc", 3), "abc");
        assert_eq!(fitted("äbcdé", 4), "äb\n… 1 characters left out …\ndé");
    }

    #[test]
    fn of_very_much_the_beginning_and_the_end_are_held() {
        let mut ends = Ends::default();
        for number in 0..200 {
            ends.push(&vec![b'a' + number % 26; 100_000]);
        }
        assert!(ends.head.len() + ends.tail.len() <= 6 * BYTES);
        let text = ends.text();
        assert!(
            text.starts_with('a') && text.contains("left out") && text.ends_with(char::from(b'a' + 199 % 26))
        );
    }
}
