//! What a job printed: as lines here, beside it as bytes and as a screen.

pub(super) mod export;
pub(super) mod log;
pub(super) mod screen;
pub(super) mod terminal;

use std::io;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use outlive::{
    Budget, Cancel, Failure, Fit, Follower, Form, Job, JobId, Line, LineObject, Output, Piece, Search, Store,
    Stream, Timestamp, View, ViewItem,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::access::Caller;
use crate::api::{find, not_found};
use crate::extract::Params;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// So many lines come unless another number is asked for, and the most that can be.
const LINES: u64 = 1000;
const MOST_LINES: u64 = 10_000;

/// A page ends after so much text.
const MOST_BYTES: usize = 4 << 20;

/// The longest that a request waits for more output: proxies give up after a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(50);

/// How much of the log's end a terminal's page is made of, where only its end is wanted.
const RENDERED_TAIL: u64 = 4 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Choice {
    /// From this line on; numbers begin with 1 and never shift
    from_line: Option<u64>,
    /// The most lines, up to 10000; else 1000
    lines: Option<u64>,
    /// So many lines from the end, in place of `from_line`
    tail: Option<u64>,
    /// Lines of this time and later, RFC 3339
    since: Option<String>,
    /// Lines of this time and earlier, RFC 3339
    until: Option<String>,
    /// From this offset in bytes on
    from_byte: Option<u64>,
    /// `stdout` or `stderr`
    stream: Option<String>,
    /// `raw` as it was printed; `plain` without control sequences, which is the default; `display` line by line as a terminal shows
    /// it, with colours; `rendered` as a terminal would show all of it at the end
    form: Option<String>,
    /// Only lines that match this regular expression
    search: Option<String>,
    /// The expression is for small and capital letters alike
    #[serde(default)]
    ignore_case: bool,
    /// Only lines that do not match
    #[serde(default)]
    invert: bool,
    /// So many lines around each match
    #[serde(default)]
    context: usize,
    /// Cut lines after so many bytes; `cut_bytes` tells what is left out
    cut: Option<usize>,
    /// Wait until the output is longer than this many bytes, `end` of the answer before, or ends
    after: Option<u64>,
    /// With `after`: wait at most so long, up to 50000
    wait_ms: Option<u64>,
}

/// Lines of output.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutputPage<'a> {
    #[schema(value_type = String)]
    job: &'a JobId,
    lines: Vec<LineObject<'a>>,
    /// There are more lines after these.
    more: bool,
    /// The offset of the first byte that is kept: what came before was dropped.
    start: u64,
    /// The offset after the last byte.
    end: u64,
    /// How many lines the output has in all, unfinished ones included.
    total_lines: u64,
    /// The job may print more.
    live: bool,
}

/// What is asked for, understood.
struct Wanted {
    form: Form,
    stream: Option<Stream>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    search: Search,
    choice: Choice,
}

impl Wanted {
    fn new(choice: Choice) -> Result<Self, Failure> {
        let form = match choice.form.as_deref() {
            None | Some("plain") => Form::Plain,
            Some("raw") => Form::Raw,
            Some("display") => Form::Display { has_colour: true },
            Some("rendered") => Form::Rendered,
            Some(other) => {
                return Err(Failure::usage(
                    format!("there is no form {other:?}"),
                    "raw, plain, display or rendered",
                ));
            }
        };
        let stream = match choice.stream.as_deref() {
            None | Some("") => None,
            Some("stdout") => Some(Stream::Stdout),
            Some("stderr") => Some(Stream::Stderr),
            Some(other) => {
                return Err(Failure::usage(format!("there is no stream {other:?}"), "stdout or stderr"));
            }
        };
        let time = |text: Option<&str>| {
            let parse = |text: &str| {
                Timestamp::parse(text)
                    .map_err(|error| Failure::usage(error.to_string(), "such as 2026-11-16T11:47:00Z"))
            };
            text.map(parse).transpose()
        };
        let mut search = Search { before: choice.context, after: choice.context, ..Search::default() };
        if let Some(text) = choice.search.as_deref().filter(|text| !text.is_empty()) {
            let pattern = outlive::pattern(text, choice.ignore_case)?;
            *(if choice.invert { &mut search.exclude } else { &mut search.include }) = Some(pattern);
        }
        let (since, until) = (time(choice.since.as_deref())?, time(choice.until.as_deref())?);
        Ok(Self { form, stream, since, until, search, choice })
    }

    /// Finds where to begin, by the index alone where it can tell.
    fn start(&self, output: &Output) -> u64 {
        let choice = &self.choice;
        if let Some(offset) = choice.from_byte {
            return offset;
        }
        if let Some(line) = choice.from_line.filter(|_| self.form != Form::Rendered) {
            return output.offset_before_line(line.saturating_sub(choice.context as u64));
        }
        if let Some(since) = self.since {
            return output.offset_before_time(since);
        }
        match choice.tail {
            Some(_) if self.form == Form::Rendered => output.end().saturating_sub(RENDERED_TAIL),
            Some(count) if self.search.is_everything() && self.until.is_none() => {
                output.offset_before_tail(count, self.stream)
            }
            _ => 0,
        }
    }

    fn view(&self, output: &mut Output, begin: u64) -> io::Result<View> {
        let choice = &self.choice;
        let tail = choice.tail.map(|count| {
            let lines = Some(count.clamp(1, MOST_LINES));
            Fit::End(Budget { lines, bytes: Some(MOST_BYTES as u64), tokens: None })
        });
        // One more than is shown tells whether there are more.
        let limit = choice.lines.unwrap_or(LINES).clamp(1, MOST_LINES) + 1;
        Ok(View::new(self.form, output.assembler_at(begin)?)
            .stream(self.stream)
            .from_line(choice.from_line.unwrap_or(0))
            .between(self.since, self.until)
            .search(self.search.clone())
            .limit(tail.is_none().then_some(limit))
            .cut(choice.cut)
            .fit(tail))
    }

    /// Reads the lines; and whether there are more.
    fn read(&self, output: &mut Output, cancel: &Cancel) -> io::Result<(Vec<Line>, bool)> {
        let begin = self.start(output).max(output.start());
        let (mut view, mut position, end) = (self.view(output, begin)?, begin, output.end());
        let (mut lines, mut bytes, mut has_more) = (Vec::new(), 0, false);
        let mut take = |item: ViewItem, lines: &mut Vec<Line>| {
            if let ViewItem::Line(line) = item {
                bytes += line.text.len();
                match bytes <= MOST_BYTES || lines.is_empty() {
                    true => lines.push(line),
                    false => has_more = true,
                }
            }
        };
        while position < end && !view.is_full() && !cancel.is_cancelled() {
            let Some(mut piece) = output.piece(position)? else { break };
            if let Piece::Output { bytes, .. } = &mut piece {
                bytes.truncate(usize::try_from(end - position).unwrap_or(usize::MAX));
            }
            if let (Some(until), Piece::Output { time: Some(time), .. }) = (self.until, &piece)
                && time.0 / 1000 > until.0 / 1000
            {
                break;
            }
            position = match &piece {
                Piece::Output { offset, bytes, .. } => offset + bytes.len() as u64,
                Piece::Gone { to, .. } => *to,
            };
            if let Piece::Gone { to, .. } = piece {
                view.resume(output.assembler_at(to)?);
            }
            view.push(&piece, |item| take(item, &mut lines));
        }
        if !view.is_full() {
            view.finish(|item| take(item, &mut lines));
        }
        let limit = self.choice.lines.unwrap_or(LINES).clamp(1, MOST_LINES) as usize;
        if self.choice.tail.is_none() && lines.len() > limit {
            lines.truncate(limit);
            has_more = true;
        }
        Ok((lines, has_more))
    }
}

/// Reads what a job printed: by line, byte or time, of one stream or both, searched, in four forms.
#[utoipa::path(get, path = "/v1/jobs/{job}/output", tag = "output", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id"), Choice),
    responses((status = 200, description = "Lines", body = OutputPage)))]
pub(crate) async fn output(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(choice): Params<Choice>,
) -> Result<Response, Problem> {
    let wanted = Wanted::new(choice)?;
    let page = work::long(&shared, move |store, cancel| {
        let job = find(store, &caller, &job)?;
        page(store, &job, &wanted, cancel).map_err(|error| gone(&job, &error))
    });
    Ok(([(CONTENT_TYPE, "application/json")], page.await?).into_response())
}

fn page(store: &Store, job: &Job, wanted: &Wanted, cancel: &Cancel) -> io::Result<String> {
    use std::os::fd::AsFd;
    if let (Some(after), Some(wait)) = (wanted.choice.after, wanted.choice.wait_ms) {
        let limit = Duration::from_millis(wait).min(LONGEST_WAIT);
        let mut follower = Follower::new(store, job, after)?.stopped_by(Some(cancel.as_fd()));
        follower.wait_beyond(after, Some(limit))?;
    }
    // The state first, then the log: nothing is written after the job is closed, so an answer that is the last has everything.
    let live = job.state(store).is_live();
    let mut output = Output::open(job)?;
    let (lines, more) = wanted.read(&mut output, cancel)?;
    let page = OutputPage {
        job: job.id(),
        lines: lines.iter().map(|line| LineObject::new(None, line)).collect(),
        more,
        start: output.start(),
        end: output.end(),
        total_lines: output.line_count(),
        live,
    };
    Ok(serde_json::to_string(&page)?)
}

/// Another program may remove the job while it is read.
fn gone(job: &Job, error: &io::Error) -> Failure {
    match job.is_removed() {
        true => not_found(outlive::FindError::Unknown(job.id().to_string(), Vec::new())),
        false => Failure::other("output", error),
    }
}
