//! Fitting a job's output into an answer.

use std::collections::VecDeque;
use std::io;

use outlive::{
    Budget, Fitter, Form, Job, Line, Output, Piece, Search, Stream, Timestamp, View, ViewItem,
    looks_like_error,
};

use crate::reply::{MARK, push_line};

/// How many rows above the end control sequences may still change: rendering begins that much earlier.
const ROWS: u64 = 200;

/// The most bytes of an incomplete character or sequence that are held back at the end of a live job's output.
const LONGEST_SEQUENCE: usize = 64;

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    Offset(u64),
    Line(u64),
    /// This many lines before the end.
    Tail(u64),
    Since(Timestamp),
}

/// What to read.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) begin: Begin,
    /// The most lines.
    pub(crate) limit: Option<u64>,
    pub(crate) stream: Option<Stream>,
    pub(crate) form: Form,
    pub(crate) search: Search,
    /// The most bytes of text.
    pub(crate) bytes: usize,
    /// More may come: an incomplete character or sequence at the end is left for the next read.
    pub(crate) is_live: bool,
}

impl Selection {
    /// Selects what follows a byte offset.
    pub(crate) fn after(offset: u64, bytes: usize, is_live: bool) -> Self {
        Self {
            begin: Begin::Offset(offset),
            limit: None,
            stream: None,
            form: Form::Rendered,
            search: Search::default(),
            bytes,
            is_live,
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The lines, harmless, each with its newline.
    pub(crate) text: String,
    /// The numbers of the first and the last line.
    pub(crate) range: Option<(u64, u64)>,
    /// The number of all lines of the job.
    pub(crate) total: u64,
    /// The first line of the range that was left out, and how many were.
    pub(crate) omitted: Option<(u64, u64)>,
    /// The last line has no newline yet: more of it may come.
    pub(crate) is_unfinished: bool,
    /// Lines for the answer's footers, about lost output.
    pub(crate) notes: Vec<String>,
    /// The offset to continue at.
    pub(crate) end: u64,
}

impl Shown {
    /// Describes the range of lines, for a header.
    pub(crate) fn lines(&self) -> String {
        let unfinished = if self.is_unfinished { ", the last unfinished" } else { "" };
        match self.range {
            None => format!("no lines of {}", self.total),
            Some((first, last)) if first == last => {
                format!("line {first} of {}{unfinished}", self.total.max(last))
            }
            Some((first, last)) => format!("lines {first}-{last} of {}{unfinished}", self.total.max(last)),
        }
    }
}

/// Reads what was selected.
pub(crate) fn show(job: &Job, selection: &Selection) -> io::Result<Shown> {
    let mut output = Output::open(job)?;
    let end = output.end();
    let start = start(&output, selection);
    let mut shown = Shown { end, ..Shown::default() };
    let assembler = output.assembler_at(start.max(output.start()))?;
    // A rendered view counts lines from where it begins.
    let base = if selection.form == Form::Rendered { assembler.number() } else { 0 };
    let (mut from_line, mut since, mut tail) = (0, None, None);
    match selection.begin {
        Begin::Offset(_) => {}
        Begin::Line(line) => from_line = line.saturating_sub(base),
        Begin::Since(time) => since = Some(time),
        Begin::Tail(count) => tail = Some(count),
    }
    let mut view = View::new(selection.form, assembler)
        .stream(selection.stream)
        .from_line(from_line)
        .between(since, None)
        .search(selection.search.clone())
        .limit(selection.limit);
    let mut sink = Sink::new(selection, base, tail);
    let mut position = start;
    let mut last = None;
    while position < end && !view.is_full() {
        let Some(mut piece) = output.piece(position)? else { break };
        match &mut piece {
            Piece::Output { bytes, .. } => {
                bytes.truncate(usize::try_from(end - position).unwrap_or(usize::MAX));
                let is_last = position + bytes.len() as u64 >= end;
                if is_last && selection.is_live {
                    bytes.truncate(bytes.len() - unfinished(bytes));
                }
                position += bytes.len() as u64;
                last = bytes.last().copied();
                if bytes.is_empty() {
                    break;
                }
            }
            Piece::Gone { to, .. } => {
                position = *to;
                view.resume(output.assembler_at(position)?);
            }
        }
        view.push(&piece, |item| sink.take(item));
    }
    shown.end = position;
    if position > start {
        view.finish(|item| sink.take(item));
    } else {
        view.finish_ended(|item| sink.take(item));
    }
    let totals = output.totals();
    let ends_open = last.is_some_and(|byte| byte != b'\n');
    shown.is_unfinished = ends_open && selection.is_live;
    shown.total = totals.stdout_lines + totals.stderr_lines + u64::from(ends_open);
    sink.finish(&mut shown);
    let lost = output.lost_at_end();
    if lost > 0 {
        shown.notes.push(format!("{lost} bytes more were printed and could not be kept"));
    }
    Ok(shown)
}

/// Hands over each piece of an output from an offset to its present end.
pub(crate) fn pieces(output: &mut Output, mut from: u64, mut take: impl FnMut(Piece)) -> io::Result<()> {
    let end = output.end();
    while from < end
        && let Some(piece) = output.piece(from)?
    {
        match &piece {
            Piece::Output { bytes, .. } => from += bytes.len() as u64,
            Piece::Gone { to, .. } => from = *to,
        }
        take(piece);
    }
    Ok(())
}

fn start(output: &Output, selection: &Selection) -> u64 {
    match selection.begin {
        // A position beyond the end is not of this log: everything is unread.
        Begin::Offset(offset) if offset > output.end() => 0,
        Begin::Offset(offset) => offset,
        Begin::Line(line) => output.offset_before_line(line),
        Begin::Since(since) => output.offset_before_time(since),
        Begin::Tail(_) if !selection.search.is_everything() => output.start(),
        Begin::Tail(count) => {
            let above = if selection.form == Form::Rendered { ROWS } else { 0 };
            output.offset_before_tail(count.saturating_add(above), selection.stream)
        }
    }
}

/// Returns the length of the incomplete character or control sequence at the end.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(LONGEST_SEQUENCE)..];
    if let Some(escape) = tail.iter().rposition(|&byte| byte == 0x1b) {
        let sequence = &tail[escape + 1..];
        let is_whole = match sequence.first() {
            None => false,
            Some(b'[') => sequence[1..].iter().any(|byte| (0x40..=0x7e).contains(byte)),
            Some(b']' | b'P' | b'_' | b'^') => sequence.contains(&0x07),
            Some(b' '..=b'/') => sequence.iter().any(|byte| (0x30..=0x7e).contains(byte)),
            Some(_) => true,
        };
        if !is_whole {
            return tail.len() - escape;
        }
    }
    // After a carriage return the line may be overwritten: wait for that.
    if tail.ends_with(b"\r") {
        return 1;
    }
    let rest = tail.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let is_begun = std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
    if is_begun { rest.len() } else { 0 }
}

/// Collects lines, only the last ones if asked for, and fits them into the budget.
struct Sink {
    base: u64,
    widest: usize,
    tail: Option<(usize, VecDeque<Line>)>,
    fitter: Fitter<Line>,
    range: Option<(u64, u64)>,
    notes: Vec<String>,
}

impl Sink {
    fn new(selection: &Selection, base: u64, tail: Option<u64>) -> Self {
        let budget = Budget { bytes: Some(selection.bytes as u64), ..Budget::default() };
        Self {
            base,
            // So that one long line does not displace all others.
            widest: (selection.bytes / 4).max(200),
            tail: tail.map(|count| (usize::try_from(count).unwrap_or(usize::MAX), VecDeque::new())),
            fitter: Fitter::new(budget),
            range: None,
            notes: Vec::new(),
        }
    }

    fn take(&mut self, item: ViewItem) {
        match item {
            ViewItem::Line(line) => self.line(line),
            ViewItem::Gone { from, to } => self
                .notes
                .push(format!("{} bytes of older output are no longer kept", to.saturating_sub(from))),
            ViewItem::Lost(bytes) => self.notes.push(format!("{bytes} bytes could not be kept")),
            ViewItem::Break | ViewItem::Omitted(_) => {}
        }
    }

    fn line(&mut self, mut line: Line) {
        line.number += self.base;
        cut(&mut line, self.widest);
        match &mut self.tail {
            None => self.fit(line),
            Some((0, _)) => {}
            Some((count, lines)) => {
                if lines.len() >= *count {
                    lines.pop_front();
                }
                lines.push_back(line);
            }
        }
    }

    fn fit(&mut self, line: Line) {
        let last = line.number + u64::from(line.repeated.saturating_sub(1));
        self.range = Some((self.range.map_or(line.number, |(first, _)| first), last));
        let bytes = line.text.len() as u64 + 1 + suffix(&line).len() as u64;
        let is_error = looks_like_error(&line.text);
        self.fitter.push(line, bytes, is_error);
    }

    fn finish(mut self, shown: &mut Shown) {
        if let Some((_, lines)) = self.tail.take() {
            lines.into_iter().for_each(|line| self.fit(line));
        }
        let fitted = self.fitter.finish();
        let text = &mut shown.text;
        fitted.head.iter().for_each(|line| push(text, line, ""));
        if let Some(omitted) = fitted.omitted {
            let (first, last) = (omitted.first.number, omitted.last.number);
            shown.omitted = Some((first, omitted.lines));
            let has_errors = !omitted.rescued.is_empty();
            let errors = if has_errors { ", with these errors among them:" } else { "" };
            text.push_str(&format!("{MARK} {} lines left out: {first}-{last}{errors}\n", omitted.lines));
            for line in &omitted.rescued {
                push(text, line, &format!("{}: ", line.number));
            }
            if has_errors {
                text.push_str(&format!("{MARK} end of those left out\n"));
            }
        }
        fitted.tail.iter().for_each(|line| push(text, line, ""));
        shown.range = self.range;
        shown.notes.append(&mut self.notes);
    }
}

fn push(text: &mut String, line: &Line, prefix: &str) {
    let words = String::from_utf8_lossy(&line.text);
    push_line(text, &format!("{prefix}{words}{}", suffix(line)));
}

/// Says what of a line is not shown.
fn suffix(line: &Line) -> String {
    let mut suffix = String::new();
    if line.cut_bytes > 0 {
        suffix += &format!(" […{} more]", line.cut_bytes);
    }
    if line.repeated > 1 && !line.text.is_empty() {
        suffix += &format!(" [{} times]", line.repeated);
    }
    suffix
}

/// Cuts a line at the border of a character.
fn cut(line: &mut Line, widest: usize) {
    if line.text.len() <= widest {
        return;
    }
    let mut end = widest;
    while end > widest.saturating_sub(4) && line.text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    line.cut_bytes += (line.text.len() - end) as u64;
    line.text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_in_the_middle_waits_for_its_rest() {
        for (bytes, left) in [
            (&b"plain"[..], 0),
            (b"", 0),
            (b"a\xc3", 1),
            ("aé".as_bytes(), 0),
            (b"a\xf0\x9f\x98", 3),
            (b"a\xff", 0),
            (b"a\x80\x80\x80\x80", 0),
            (b"a\x1b", 1),
            (b"a\x1b[3", 3),
            (b"a\x1b[31m", 0),
            (b"a\x1b]0;title", 9),
            (b"a\x1b]0;title\x07", 0),
            (b"50%\r", 1),
            (b"50%\r\n", 0),
        ] {
            assert_eq!(unfinished(bytes), left, "{bytes:?}");
        }
    }

    #[test]
    fn a_line_is_cut_between_characters() {
        let mut line = Line {
            number: 1,
            stream: None,
            time: None,
            text: "é".repeat(100).into_bytes(),
            repeated: 1,
            cut_bytes: 0,
            is_ended: true,
        };
        cut(&mut line, 51);
        assert_eq!((String::from_utf8(line.text).unwrap().len(), line.cut_bytes), (50, 150));
    }
}
