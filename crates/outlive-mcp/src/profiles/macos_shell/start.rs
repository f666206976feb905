//! `run_background` and `run_command`.

use std::io;
use std::path::Path;
use std::time::Duration;

use outlive::{
    Cause, Fitter, Job, LimitError, Line, Output, OwnLabel, Piece, Request, StartError, Started, State,
    Stdin, Stream, WaitStatus,
};
use serde_json::{Map, Value, json};

use super::{LONGEST_LINE, new_id, sessions};
use crate::arguments::scalar;
use crate::jobs;
use crate::profiles::without_nulls;
use crate::reading::pieces;
use crate::reply::{Failure, Reply, chain};
use crate::starting::{self, YEAR_MS};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static RUN_BACKGROUND: Tool = Tool {
    name: "run_background",
    title: "Run in the background",
    description: "Starts a command in the background and returns immediately.",
    parameters: &[
        Parameter::required("command", Kind::Text, "Command to execute"),
        Parameter::new("args", Kind::Texts, "Command arguments"),
        Parameter::new("session", Kind::Text, "Session name/ID (default: \"default\")"),
        Parameter::new("cwd", Kind::Text, "Working directory override"),
        Parameter::new("env", Kind::Variables, "Environment variables"),
        Parameter::number("bufferSize", "Max output lines to buffer (default: 300, AI-optimized)"),
        Parameter::new("group", Kind::Text, "Group of related processes, to list and to kill together"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: false,
    call: run_background,
};

pub(super) static RUN_COMMAND: Tool = Tool {
    name: "run_command",
    title: "Run a command",
    description: "Executes a shell command and returns its output. For what takes long, use run_background.",
    parameters: &[
        Parameter::required("command", Kind::Text, "The shell command to execute"),
        Parameter::new("args", Kind::Texts, "Command arguments"),
        Parameter::new("session", Kind::Text, "Session name or ID (uses default if not specified)"),
        Parameter::new("cwd", Kind::Text, "Working directory (overrides session cwd)"),
        Parameter::new("env", Kind::Variables, "Environment variables (merged with session env)"),
        Parameter::number("timeout", "Command timeout in milliseconds (default: 30000)"),
        Parameter::number("maxOutputLines", "Maximum lines of stdout to return (default: 100)"),
        Parameter::number("maxErrorLines", "Maximum lines of stderr to return (default: 50)"),
        Parameter::new(
            "runInBackground",
            Kind::Flag,
            "Start it in the background instead (deprecated: use run_background)",
        ),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call: run_command,
};

/// The shell of the design, where there is one.
const SHELL: &str = "/bin/zsh";

/// The largest window: an answer holds that many lines in memory.
const MOST_LINES: u64 = 100_000;

/// How many bytes decide whether an output is text.
const SAMPLE: usize = 1000;

fn run_background(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let size = call.arguments.number("bufferSize", 1..=MOST_LINES)?.unwrap_or(super::WINDOW);
    let mut request = request(call)?.timeout(None).window_lines(size);
    if let Some(group) = call.arguments.text("group")? {
        request = request.group(group);
    }
    let started = start(call, &request)?;
    Ok(Reply::json(&announced(&started)))
}

/// Describes a job that was started in the background.
fn announced(started: &Started) -> Value {
    without_nulls(json!({
        "processId": started.job.id().as_str(),
        "pid": started.pid,
        // One that waits for its turn has no process yet.
        "status": if started.pid.is_some() { "running" } else { "starting" },
        "warning": started.warning,
    }))
}

/// Makes the request of both tools.
fn request(call: &mut Call<'_>) -> Result<Request, Failure> {
    let command = call.arguments.required("command", "npm")?;
    if command.trim().is_empty() {
        return Err(Failure::new("command is empty"));
    }
    let arguments = arguments(call.arguments.value("args"))?;
    let session = sessions::open(call)?;
    let directory = sessions::directory(call, call.store.session_settings(&session).as_ref())?;
    let mut request = starting::fill(call, Request::shell_words(&command, &arguments))
        .id(new_id()?)
        .session(session)
        .cwd(directory)
        .stdin(Stdin::Null);
    if Path::new(SHELL).exists() {
        request = request.with_shell(SHELL);
    }
    // The store adds the session's variables where the call has none of the same name.
    for (name, value) in call.arguments.variables("env")? {
        request = request.env(name, value);
    }
    Ok(request)
}

/// Takes arguments as they are: empty ones and commas are arguments, too.
fn arguments(given: Option<&Value>) -> Result<Vec<String>, Failure> {
    let list = |items: &[Value]| items.iter().map(scalar).collect::<Option<Vec<String>>>();
    let read = match given {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => list(items),
        // Models write lists as text now and then.
        Some(Value::String(text)) => match serde_json::from_str(text) {
            Ok(Value::Array(items)) => list(&items),
            _ if text.is_empty() => Some(Vec::new()),
            _ => Some(vec![text.clone()]),
        },
        Some(_) => None,
    };
    read.ok_or_else(|| Failure::new("args must be a list of strings"))
}

fn start(call: &Call<'_>, request: &Request) -> Result<Started, Failure> {
    call.store.start(request).map_err(|error| match error {
        StartError::Limit(LimitError::Session { limit, .. }) => {
            Failure::new(format!("Session has reached maximum process limit ({limit})"))
        }
        StartError::Limit(LimitError::Total { limit, .. }) => {
            Failure::new(format!("Server has reached maximum process limit ({limit})"))
        }
        error => {
            starting::forget(call, &error);
            Failure::new(format!("Error starting background process: {}", chain(&error)))
        }
    })
}

fn run_command(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let timeout = call.arguments.number("timeout", 1..=YEAR_MS)?.unwrap_or(30_000);
    let most = [
        call.arguments.number("maxOutputLines", 1..=MOST_LINES)?.unwrap_or(100),
        call.arguments.number("maxErrorLines", 1..=MOST_LINES)?.unwrap_or(50),
    ];
    let is_background = call.arguments.flag("runInBackground")?;
    let request = request(call)?;
    if is_background {
        // The timeout is for the foreground.
        return Ok(Reply::json(&announced(&start(call, &request.timeout(None))?)));
    }
    let request = request
        .own_label(OwnLabel::Foreground, RUN_COMMAND.name)
        .timeout(Some(Duration::from_millis(timeout)));
    let started = start(call, &request)?;
    // Where the wait fails, the answer still tells the state.
    jobs::wait_for_start(call, &started.job, call.longest()).ok();
    let state = started.job.state(call.store);
    if !state.status.has_ended() {
        return Ok(Reply::json(&announced(&started)));
    }
    let (object, is_success) = result(&started.job, &state, most)
        .map_err(|error| Failure::of("the output cannot be read", &error))?;
    let mut reply = Reply::json(&object);
    reply.is_error = !is_success;
    Ok(jobs::delivers(call, reply, started.job, &state))
}

/// Describes how a command ended and what it printed.
fn result(job: &Job, state: &State, most: [u64; 2]) -> io::Result<(Value, bool)> {
    let outcome = state.outcome.as_ref();
    let status = outcome.map_or(WaitStatus::Unknown, |outcome| outcome.wait_status);
    let is_late = outcome.is_some_and(|outcome| matches!(outcome.cause, Cause::Timeout));
    let exit_code = match status {
        _ if is_late => -1,
        WaitStatus::Exited { code } => code,
        // As a shell reports it.
        WaitStatus::Signaled { signal, .. } => 128 + signal,
        WaitStatus::Unknown => -1,
    };
    let is_success = exit_code == 0;
    let words: Vec<String> = job.spec().words.iter().map(outlive::RawText::to_lossy).collect();
    let mut object = json!({
        "exitCode": exit_code,
        "success": is_success,
        "duration": state.runtime_ms().unwrap_or(0),
        "command": words.join(" "),
        "error": is_late.then_some("ETIMEDOUT"),
    });
    let mut truncation = Map::new();
    for (stream, most) in [Stream::Stdout, Stream::Stderr].into_iter().zip(most) {
        let (text, cut) = shown(job, stream, most)?;
        truncation.extend(cut.map(|cut| (stream.word().to_owned(), cut)));
        object[stream.word()] = text.into();
    }
    if !truncation.is_empty() {
        object["truncation"] = truncation.into();
    }
    Ok((without_nulls(object), is_success))
}

/// Reads one stream; of more than `most` lines, its beginning and its end. If not all is shown, it says how much is.
fn shown(job: &Job, stream: Stream, most: u64) -> io::Result<(String, Option<Value>)> {
    let mut output = Output::open(job)?;
    let start = output.start();
    let mut assembler = output.assembler_at(start)?;
    let (mut reading, mut sample) = (Reading::new(most), Vec::new());
    let mut total_bytes = 0;
    pieces(&mut output, start, |piece| {
        if let Piece::Output { stream: of, time, bytes, .. } = piece
            && of.unwrap_or(Stream::Stdout) == stream
        {
            total_bytes += bytes.len() as u64;
            sample.extend(bytes.iter().take(SAMPLE.saturating_sub(sample.len())));
            assembler.push(of, time, &bytes, |line| reading.push(&line));
        }
    })?;
    assembler.unfinished().iter().for_each(|line| reading.push(line));
    let omitted = if is_binary(&sample) {
        Some("[Binary output detected - content omitted]")
    } else if reading.has_long_lines {
        Some("[Output contains extremely long lines - content omitted]")
    } else {
        None
    };
    let is_truncated = omitted.is_some() || reading.total > most;
    let total_lines = reading.total;
    let (text, returned_lines) = match omitted {
        Some(words) => (words.to_owned(), 1),
        None => reading.finish(),
    };
    let truncation = is_truncated.then(|| {
        json!({
            "truncated": true,
            "totalLines": total_lines,
            "totalBytes": total_bytes,
            "returnedLines": returned_lines,
            "returnedBytes": text.len(),
        })
    });
    Ok((text, truncation))
}

/// A stream that is being read, of which the first and the last lines are kept.
struct Reading {
    fitter: Fitter<String>,
    total: u64,
    has_long_lines: bool,
}

impl Reading {
    /// Where lines are left out, four in ten of those that are shown are from the end.
    fn new(most: u64) -> Self {
        let tail = most * 4 / 10;
        Self { fitter: Fitter::head_and_tail(most - tail, tail), total: 0, has_long_lines: false }
    }

    fn push(&mut self, line: &Line) {
        self.total += 1;
        let text = String::from_utf8_lossy(&line.text);
        self.has_long_lines |= line.cut_bytes > 0 || text.chars().nth(LONGEST_LINE).is_some();
        if !self.has_long_lines {
            self.fitter.push(text.into_owned(), line.text.len() as u64, false);
        }
    }

    /// Returns the text, and how many lines it has.
    fn finish(self) -> (String, usize) {
        let fitted = self.fitter.finish();
        let omitted = fitted.omitted.map(|omitted| format!("[... {} lines omitted ...]", omitted.lines));
        let lines: Vec<String> = fitted.head.into_iter().chain(omitted).chain(fitted.tail).collect();
        (lines.join("\n"), lines.len())
    }
}

/// Tells whether an output that begins so is binary.
fn is_binary(sample: &[u8]) -> bool {
    let text = String::from_utf8_lossy(sample);
    let is_odd = |c: &char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    let odd = text.chars().filter(is_odd).count();
    sample.contains(&0) || odd * 10 > text.chars().count() * 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(total: u64, most: u64) -> (String, usize) {
        let mut reading = Reading::new(most);
        for number in 1..=total {
            let text = number.to_string().into_bytes();
            reading.push(&Line {
                number: 0,
                stream: None,
                time: None,
                text,
                repeated: 1,
                cut_bytes: 0,
                lost_bytes: 0,
                is_ended: true,
            });
        }
        reading.finish()
    }

    #[test]
    fn of_many_lines_the_first_and_the_last_are_shown() {
        assert_eq!(read(3, 3), ("1\n2\n3".to_owned(), 3));
        assert_eq!(read(0, 3), (String::new(), 0));
        assert_eq!(read(11, 10).0, "1\n2\n3\n4\n5\n6\n[... 1 lines omitted ...]\n8\n9\n10\n11");
        assert_eq!(read(100, 10).0, "1\n2\n3\n4\n5\n6\n[... 90 lines omitted ...]\n97\n98\n99\n100");
        assert_eq!(read(5, 1), ("1\n[... 4 lines omitted ...]".to_owned(), 2));
    }

    #[test]
    fn arguments_are_taken_as_they_are() {
        let read = |value: Value| arguments(Some(&value));
        assert_eq!(read(json!(["a,b", "", "c d"])).unwrap(), ["a,b", "", "c d"]);
        assert_eq!(read(json!("[\"a\", 1]")).unwrap(), ["a", "1"]);
        assert_eq!(read(json!("-la")).unwrap(), ["-la"]);
        assert!(read(json!([{}])).is_err() && read(json!(3)).is_err());
        assert_eq!(arguments(None).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn what_is_no_text_is_told_apart() {
        assert!(is_binary(b"\x7fELF\0\0") && is_binary(b"\x01\x02\x03abc"));
        assert!(!is_binary(b"a\tb\r\nc\n") && !is_binary(b"") && !is_binary("é\u{1b}[31mred".as_bytes()));
    }
}
