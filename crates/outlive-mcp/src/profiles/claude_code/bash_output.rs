//! `bash_output`: output since the last read.

use std::io;

use fancy_regex::{Regex, RegexBuilder};
use outlive::{Blank, Job, Line, State, Stream, Unread, UnreadLines};
use serde_json::json;

use super::{BYTES, LINES, last_words, reader, roughly, word};
use crate::profiles::without_nulls;
use crate::reply::{Failure, Reply};
use crate::tools::{Call, Hints, Kind, Parameter, Tool};

pub(super) static TOOL: Tool = Tool {
    name: "bash_output",
    title: "Read the output of a shell",
    description: "Read output from a running or completed background shell process. Returns only NEW output since the last read.",
    parameters: &[
        Parameter::required(
            "bash_id",
            Kind::Text,
            "The process ID returned when starting the background process",
        ),
        Parameter::new(
            "filter",
            Kind::Text,
            "Optional regex to filter output lines (only matching lines returned)",
        ),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: false, open_world: false },
    waits: false,
    call,
};

/// How many steps back a pattern may take on a line: milliseconds, whatever the pattern.
const BACKTRACKS: usize = 100_000;

/// How long an unfinished line must stand to be shown, in microseconds.
const RESTING_US: u64 = 100_000;

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let id = call.arguments.required("bash_id", "bash_output bash_id=\"shell-1700000000000-abcd\"")?;
    let filter = call.arguments.text("filter")?.and_then(|text| pattern(&text));
    let Some((job, state)) = roughly(call, &id)? else {
        let message = format!("Process not found: {id}. Use list_shells to see available processes.");
        return Ok(Reply::refusal(json!({"error": message}).to_string()));
    };
    let failed = |error: io::Error| Failure::of("its output cannot be read", &error);
    let output = new(&job, &state, Stream::Stdout).map_err(failed)?;
    let errors = new(&job, &state, Stream::Stderr).map_err(failed)?;
    let (mut stdout, mut stderr) = (texts(&output.lines), texts(&errors.lines));
    if state.status.has_ended() && errors.is_all && !job.place(&reader(), Stream::Stderr).is_past_open {
        stderr.extend(last_words(&job, &state));
    }
    if let Some(filter) = filter {
        stdout.retain(|line| is_match(&filter, line));
        stderr.retain(|line| is_match(&filter, line));
    }
    let object = without_nulls(json!({
        "id": job.id().as_str(),
        "status": word(&job, &state),
        "newOutput": stdout.join("\n"),
        "newErrors": stderr.join("\n"),
        "exitCode": state.exit_code(),
    }));
    let told_to = call.scope.reader.clone();
    let places = [(Stream::Stdout, output.place), (Stream::Stderr, errors.place)];
    let has_ended = state.status.has_ended();
    Ok(Reply::json(&object).tells(&job, &state).after(move || {
        for (stream, place) in places {
            // Where the store cannot be written, the output is shown again.
            job.set_place(&reader(), stream, place).ok();
        }
        if has_ended {
            job.mark_delivered(&told_to);
        }
    }))
}

/// Reads a pattern as the design's language does: without regard to case, and with look-around. An invalid one is ignored, as the
/// design has it.
fn pattern(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).case_insensitive(true).backtrack_limit(BACKTRACKS).build().ok()
}

/// A line on which the pattern gives up is shown: it may be the one that is wanted.
fn is_match(filter: &Regex, line: &str) -> bool {
    filter.is_match(line).unwrap_or(true)
}

/// Tells whether an unfinished line of a stream has stood for a while, as a prompt does: the program is not in the midst of writing
/// it. A line that ends in half a character is.
fn is_resting(job: &Job, stream: Stream) -> bool {
    let last = crate::profiles::read(job, |output| {
        let (from, mut last) = (output.offset_before_tail(1, Some(stream)), None);
        output.each_line(from, |line| {
            if !line.is_ended && line.stream.unwrap_or(Stream::Stdout) == stream {
                last = Some(line);
            }
        })?;
        Ok(last)
    });
    let Some(line) = last else { return false };
    let is_whole = std::str::from_utf8(&line.text).map_or_else(|error| error.error_len().is_some(), |_| true);
    let now = outlive_sys::clock::wall_us();
    is_whole && line.time.is_some_and(|time| now.saturating_sub(time.0) >= RESTING_US)
}

/// Reads the unread lines of a stream.
fn new(job: &Job, state: &State, stream: Stream) -> io::Result<UnreadLines> {
    job.unread(&Unread {
        stream,
        from: job.place(&reader(), stream),
        blank: Blank::Whitespace,
        window: LINES,
        lines: LINES,
        bytes: BYTES,
        // If the last line is continued all the same, the rest is a line of its own.
        is_over: state.status.has_ended() || is_resting(job, stream),
    })
}

/// Makes texts of lines; a line that was cut says how much is missing.
pub(super) fn texts(lines: &[Line]) -> Vec<String> {
    let text = |line: &Line| {
        let text = String::from_utf8_lossy(&line.text);
        match line.cut_bytes {
            0 => text.into_owned(),
            more => format!("{text}… [{more} more bytes]"),
        }
    };
    lines.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_javascript() {
        for (text, matches, others) in [
            ("error(?!s)", "1 ERROR", "no errors"),
            ("(?<=port )\\d+", "on port 3000", "on 3000"),
            ("^(?!.*debug).*ready", "ready", "debug: ready"),
            ("(\\w)\\1", "aa", "ab"),
            ("a\\/b", "a/b", "a b"),
            ("(?<word>x)", "X", "y"),
        ] {
            let filter = pattern(text).unwrap_or_else(|| panic!("{text}"));
            assert!(is_match(&filter, matches) && !is_match(&filter, others), "{text}");
        }
        assert!(pattern("(").is_none() && pattern("*").is_none());
    }

    #[test]
    fn a_pattern_that_takes_too_long_gives_up() {
        let filter = pattern("(?=(a+)+$)b").expect("it is a pattern");
        let began = std::time::Instant::now();
        is_match(&filter, &"a".repeat(5000));
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }
}
