//! `read_output`: read what a job printed.

use std::time::{Duration, Instant};

use outlive::{Followed, Follower, Form, Job, Search, Stream, Timestamp};
use outlive_sys::clock::wall_us;
use regex::bytes::Regex;

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::jobs::{self, summary};
use crate::reading::{Begin, Selection, Shown, show};
use crate::reply::{Failure, Reply};

pub(crate) static TOOL: Tool = Tool {
    name: "read_output",
    title: "Read a job's output",
    description: "Read what a job printed (logs). With job alone: what is new since you last read it. Long output is cut in the middle, errors kept; the answer says how to get the rest. To wait for the end use wait.",
    parameters: &[
        Parameter::required("job", Kind::Text, "Id or name"),
        Parameter::new("lines", Kind::Number, "The last so many, or from from_line"),
        Parameter::new("from_line", Kind::Number, "First line, from 1"),
        Parameter::new("stream", Kind::Word(&["both", "stdout", "stderr"]), ""),
        Parameter::new("grep", Kind::Text, "Regex; ignores case unless it has capitals"),
        Parameter::new("context", Kind::Number, "Lines around each match"),
        Parameter::new("since_ms", Kind::Number, "Only the last so many ms"),
        Parameter::new("wait_ms", Kind::Number, "Wait so long for something new"),
        Parameter::new("form", Kind::Word(&["rendered", "plain", "raw"]), "plain: each progress frame"),
        Parameter::new("max_bytes", Kind::Number, ""),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: false, open_world: false },
    waits: true,
    call,
};

/// New output is shown once no more has come for this long.
const QUIET: Duration = Duration::from_millis(50);

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let reference = match call.arguments.text("job")? {
        Some(reference) => reference,
        // Naming the live jobs reads the whole store, so only for this error.
        None => call
            .arguments
            .required("job", &format!("read_output job=web; {}", jobs::live_ids(call.store, call.scope)))?,
    };
    let job = jobs::find(call, &reference)?;
    let longest_ms = call.longest_ms;
    let arguments = &mut call.arguments;
    let lines = arguments.number("lines", 1..=1_000_000)?;
    let from_line = arguments.number("from_line", 1..=u64::from(u32::MAX))?;
    let since = arguments.number("since_ms", 0..=366 * 86_400_000)?;
    let wait = arguments.number("wait_ms", 0..=longest_ms)?.unwrap_or(0);
    let context =
        arguments.number("context", 0..=100)?.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(0);
    let stream = match arguments.word("stream", &["both", "stdout", "stderr"])? {
        Some("stdout") => Some(Stream::Stdout),
        Some("stderr") => Some(Stream::Stderr),
        _ => None,
    };
    let form = match arguments.word("form", &["rendered", "plain", "raw"])? {
        Some("plain") => Form::Plain,
        Some("raw") => Form::Raw,
        _ => Form::Rendered,
    };
    let search = Search { include: grep(call)?, before: context, after: context, ..Search::default() };
    let is_new_only = lines.is_none() && from_line.is_none() && since.is_none() && search.is_everything();
    let cursor = job.cursor(&call.scope.reader, stream).unwrap_or(0);
    if wait > 0 {
        let from = if is_new_only { cursor } else { u64::MAX };
        await_output(call, &job, from, Instant::now() + Duration::from_millis(wait), QUIET)?;
    }
    let mut state = job.state(call.store);
    let question = jobs::question(call, &job, &mut state);
    let room = call.room()?;
    let begin = match (from_line, since, lines) {
        (Some(line), ..) => Begin::Line(line),
        (_, Some(since), _) => Begin::Since(Timestamp(wall_us().saturating_sub(since.saturating_mul(1000)))),
        (_, _, Some(lines)) => Begin::Tail(lines),
        _ if is_new_only => Begin::Offset(cursor),
        _ => Begin::Offset(0),
    };
    let limit = lines.filter(|_| from_line.is_some());
    let is_live = state.is_live() && is_new_only;
    let selection = Selection { begin, limit, stream, form, search, room, is_live };
    let shown = show(&job, &selection).map_err(|error| unreadable(call, &job, &error))?;
    let mut header = format!("{}; ", summary(&job, &state));
    match (is_new_only, shown.range) {
        (true, None) => header.push_str(&format!("nothing new after line {}", shown.total)),
        _ => header.push_str(&shown.lines()),
    }
    let end = shown.end;
    let mut reply = answer(&job, header, shown, &options(call)?);
    if let Some(question) = question {
        reply = reply.footer(question);
    } else if is_new_only && !state.status.has_ended() && reply.body.is_empty() {
        reply = reply.footer(format!(
            "to be told when there is more: read_output job={} wait_ms=30000, or wait",
            job.id()
        ));
    }
    let read = is_new_only.then_some((stream, end));
    Ok(jobs::delivers_output(call, reply, job, &state, read))
}

/// Makes an answer of what was read.
pub(crate) fn answer(job: &Job, header: String, shown: Shown, options: &str) -> Reply {
    let mut reply = Reply::new(header).body(shown.text);
    reply.footers.extend(shown.notes);
    if let Some((first, lines)) = shown.omitted {
        reply = reply.footer(format!(
            "left out: read_output job={}{options} from_line={first} lines={lines}",
            job.id()
        ));
    }
    reply
}

/// Repeats the options, for the call that reads what was left out.
fn options(call: &Call<'_>) -> Result<String, Failure> {
    let mut options = String::new();
    for name in ["stream", "grep", "context", "form"] {
        if let Some(value) = call.arguments.text(name)? {
            options += &format!(" {name}={}", serde_json::Value::from(value));
        }
    }
    Ok(options)
}

/// Compiles the parameter that holds a regular expression.
pub(crate) fn pattern(call: &Call<'_>, name: &str) -> Result<Option<Regex>, Failure> {
    let text = call.arguments.text(name)?;
    text.map(|text| compile(call, name, &text, false)).transpose()
}

/// Compiles what is searched for: in any case, unless it has capitals itself.
fn grep(call: &Call<'_>) -> Result<Option<Regex>, Failure> {
    let text = call.arguments.text("grep")?;
    text.map(|text| compile(call, "grep", &text, !has_capitals(&text))).transpose()
}

fn compile(call: &Call<'_>, name: &str, text: &str, ignore_case: bool) -> Result<Regex, Failure> {
    outlive::pattern(text, ignore_case).map_err(|error| jobs::failed(call, name, error))
}

/// Tells whether a regular expression has capital letters, apart from classes such as `\S`.
fn has_capitals(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c.is_uppercase() {
            return true;
        }
    }
    false
}

/// Waits until there is output after `from`, or none can come; then until no more comes for `quiet`. A `from` beyond the end of the
/// log means its end.
pub(crate) fn await_output(
    call: &Call<'_>,
    job: &Job,
    from: u64,
    deadline: Instant,
    quiet: Duration,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| unreadable(call, job, &error);
    let end = outlive::Output::open(job).map_err(failed)?.end();
    let mut follower = Follower::new(call.store, job, from.min(end)).map_err(failed)?.stopped_by(call.stop());
    let mut quiet_since = None;
    loop {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        let quiet_left = quiet_since.map(|since: Instant| (since + quiet).saturating_duration_since(now));
        if left.is_zero() || call.is_cancelled() || quiet_left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        match follower.next(Some(left.min(quiet_left.unwrap_or(left)))).map_err(failed)? {
            Followed::Piece(_) => quiet_since = Some(Instant::now()),
            Followed::End => return Ok(()),
            Followed::Nothing => {}
        }
    }
}

/// Words a failure to read, which may be because the job was removed meanwhile.
pub(crate) fn unreadable(call: &Call<'_>, job: &Job, error: &std::io::Error) -> Failure {
    if job.is_removed() {
        return jobs::failed(call, "", outlive::FindError::Unknown(job.id().to_string(), Vec::new()));
    }
    Failure::of("cannot read its output", error).next("call it again")
}
