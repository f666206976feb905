//! `bash_output`: output since the last read.

use std::io;

use outlive::{Blank, Job, Line, State, Stream, Unread, UnreadLines};
use serde_json::json;

use super::{BYTES, LINES, last_words, reader, roughly};
use crate::profiles::{without_nulls, word_of_four};
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

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let id = call.arguments.required("bash_id", "bash_output bash_id=\"shell-1700000000000-abcd\"")?;
    // An invalid pattern is ignored, as the design has it.
    let filter = call.arguments.text("filter")?.and_then(|text| outlive::pattern(&text, true).ok());
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
        stdout.retain(|line| filter.is_match(line.as_bytes()));
        stderr.retain(|line| filter.is_match(line.as_bytes()));
    }
    let object = without_nulls(json!({
        "id": job.id().as_str(),
        "status": word_of_four(state.status),
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

/// Reads the unread lines of a stream.
fn new(job: &Job, state: &State, stream: Stream) -> io::Result<UnreadLines> {
    job.unread(&Unread {
        stream,
        from: job.place(&reader(), stream),
        blank: Blank::Whitespace,
        window: LINES,
        lines: LINES,
        bytes: BYTES,
        // If a leftover child continues the last line, the rest is a line of its own.
        is_over: state.status.has_ended(),
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
