//! Fitting a job's output into an answer.

mod fit;
mod fold;

use std::io;

use outlive::{Form, Job, Output, Piece, Search, Stream, Timestamp, View};

use self::fit::Sink;

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
    pub(crate) room: Room,
    /// More may come: an incomplete character or sequence at the end is left for the next read.
    pub(crate) is_live: bool,
}

/// How many bytes of text there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Text that fits into this is shown whole.
    pub(crate) whole: usize,
    /// Longer text is cut to this.
    pub(crate) cut: usize,
}

impl Room {
    pub(crate) fn of(bytes: usize) -> Self {
        Self { whole: bytes, cut: bytes }
    }
}

impl Selection {
    /// Selects what follows a byte offset.
    pub(crate) fn after(offset: u64, room: Room, is_live: bool) -> Self {
        Self {
            begin: Begin::Offset(offset),
            limit: None,
            stream: None,
            form: Form::Rendered,
            search: Search::default(),
            room,
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
    /// How many lines match what was searched for; none: nothing was.
    pub(crate) matches: Option<u64>,
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
        if let Some(matches) = self.matches {
            let of = format!("in {} {}", self.total, if self.total == 1 { "line" } else { "lines" });
            return match matches {
                0 => format!("no match {of}"),
                1 => format!("1 match {of}"),
                _ => format!("{matches} matches {of}"),
            };
        }
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
    let ends_open = last.is_some_and(|byte| byte != b'\n');
    shown.is_unfinished = ends_open && selection.is_live;
    shown.total = output.line_count();
    sink.finish(&mut shown);
    shown.notes.extend(output.lost_at_end().map(|loss| format!("after this, {loss}")));
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
}
