//! Unread lines of one stream: whole lines that are not blank, from a reader's position.
//!
//! An unfinished line waits for the next time. Once it is final, it is returned as it is. Positions are byte offsets, so a
//! partial line that was shown is remembered.

use std::collections::VecDeque;
use std::io;

use memchr::memchr_iter;
use outlive_core::id::SessionName;
use outlive_core::index::Stream;
use outlive_core::lines::{Assembler, Line};

use crate::job::Job;
use crate::output::nonblank::Blank;
use crate::output::{Output, Piece};

/// Flag in a cursor that is past a partial line; no log is so long.
const PAST_OPEN: u64 = 1 << 63;

/// A position in one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Offset of the next byte.
    pub offset: u64,
    /// The partial line before the offset was shown, too.
    pub is_past_open: bool,
}

/// A request for unread lines.
#[derive(Debug, Clone, Copy)]
pub struct Unread {
    /// The stream; bytes of an unknown stream count as standard output.
    pub stream: Stream,
    /// The reader's position.
    pub from: Place,
    /// Lines to skip.
    pub blank: Blank,
    /// Only the newest lines, so many.
    pub window: usize,
    /// At most so many of those, oldest first.
    pub lines: usize,
    /// At most so many bytes, but always one line.
    pub bytes: usize,
    /// An unfinished line is final.
    pub is_over: bool,
}

/// Result of a read.
#[derive(Debug, Default)]
pub struct UnreadLines {
    /// Their numbers are meaningless.
    pub lines: Vec<Line>,
    /// Number of lines in the window.
    pub total: usize,
    /// Position for the next read.
    pub place: Place,
    /// No line is left.
    pub is_all: bool,
}

impl Job {
    /// Returns a reader's position in a stream; its beginning if it has not read yet.
    pub fn place(&self, reader: &SessionName, stream: Stream) -> Place {
        let cursor = self.cursor(reader, Some(stream)).unwrap_or(0);
        Place { offset: cursor & !PAST_OPEN, is_past_open: cursor & PAST_OPEN != 0 }
    }

    /// Stores a reader's position in a stream. Of two concurrent answers the farther counts.
    pub fn set_place(&self, reader: &SessionName, stream: Stream, place: Place) -> io::Result<()> {
        if self.cursor(reader, Some(stream)).is_some() && self.place(reader, stream) >= place {
            return Ok(());
        }
        let mark = if place.is_past_open { PAST_OPEN } else { 0 };
        self.set_cursor(reader, Some(stream), place.offset | mark)
    }

    /// Reads the unread lines of a stream.
    pub fn unread(&self, wanted: &Unread) -> io::Result<UnreadLines> {
        let mut output = Output::open(self)?;
        let end = output.end();
        let mut from = wanted.from;
        if from.offset > end {
            // Not a position of this log: everything is unread.
            from = Place::default();
        }
        let (total, begin) = window(&mut output, wanted, from, end)?;
        from = begin;
        let mut unread = UnreadLines { total, place: from, ..UnreadLines::default() };
        let (mut bytes, mut last) = (0, None);
        unread.is_all = walk(&mut output, wanted, from, end, |line, after| {
            bytes += line.text.len() + 1;
            if unread.lines.len() >= wanted.lines || (!unread.lines.is_empty() && bytes > wanted.bytes) {
                return false;
            }
            unread.lines.push(line);
            last = Some(after);
            true
        })?;
        unread.place = match (unread.is_all, last) {
            (true, _) => Place {
                offset: end,
                is_past_open: wanted.is_over || (from.is_past_open && from.offset == end),
            },
            (false, Some(after)) => Place { offset: after, is_past_open: false },
            (false, None) => from,
        };
        Ok(unread)
    }

    /// Counts the lines of both streams that are not blank, unfinished ones included, up to a limit, and stops reading there.
    pub fn count_nonblank(&self, blank: Blank, limit: u64) -> io::Result<[u64; 2]> {
        let mut output = Output::open(self)?;
        let end = output.end();
        let totals = output.totals();
        let all = [totals.stdout_lines, totals.stderr_lines];
        let (mut seen, mut counted) = ([0; 2], [0; 2]);
        let mut at = output.start();
        let mut assembler = output.assembler_at(at)?;
        while (0..2).any(|stream| counted[stream] < limit && seen[stream] < all[stream]) {
            match output.next_piece(&mut at, end)? {
                Some(Piece::Output { stream, time, bytes, .. }) => {
                    assembler.push(stream, time, &bytes, |line| {
                        let stream = line.stream.map_or(0, Stream::index);
                        seen[stream] += 1;
                        counted[stream] += u64::from(!blank.is_blank(&line.text));
                    });
                }
                Some(Piece::Gone { .. }) => assembler = output.assembler_at(at)?,
                None => break,
            }
        }
        for line in output.assembler_at(end)?.unfinished() {
            counted[line.stream.map_or(0, Stream::index)] += u64::from(!blank.is_blank(&line.text));
        }
        Ok(counted.map(|count| count.min(limit)))
    }
}

/// Finds where the newest lines begin, and counts them.
fn window(output: &mut Output, wanted: &Unread, from: Place, end: u64) -> io::Result<(usize, Place)> {
    // The index counts blank lines, too: first the last `2 * window` lines are searched, then 64 times as many.
    let totals = output.totals();
    let all = if wanted.stream == Stream::Stdout { totals.stdout_lines } else { totals.stderr_lines };
    let mut near = (wanted.window as u64).saturating_mul(2);
    loop {
        let offset = if near < all { output.offset_before_tail(near, Some(wanted.stream)) } else { 0 };
        let begin = if offset > from.offset { Place { offset, is_past_open: false } } else { from };
        // Offsets after the lines of the window, and after the line before it.
        let mut ends: VecDeque<u64> = VecDeque::new();
        walk(output, wanted, begin, end, |_, after| {
            if ends.len() > wanted.window {
                ends.pop_front();
            }
            ends.push_back(after);
            true
        })?;
        match ends.front() {
            Some(&before) if ends.len() > wanted.window => {
                return Ok((wanted.window, Place { offset: before, is_past_open: false }));
            }
            _ if begin == from => return Ok((ends.len(), from)),
            _ => near = near.saturating_mul(64),
        }
    }
}

/// Passes on each requested line with the offset after it, until `take` returns `false`; returns whether the end was reached.
fn walk(
    output: &mut Output,
    wanted: &Unread,
    from: Place,
    end: u64,
    mut take: impl FnMut(Line, u64) -> bool,
) -> io::Result<bool> {
    let stream = Some(wanted.stream);
    let is_wanted = |of: Option<Stream>| of.unwrap_or(Stream::Stdout) == wanted.stream;
    let mut at = from.offset;
    let mut assembler =
        if from.is_past_open { Assembler::default() } else { output.assembler_at(at.max(output.start()))? };
    // The beginning of the current line is gone; the rest of it is skipped.
    let mut is_torn = false;
    let mut hand_on = |line: Line, after: u64| wanted.blank.is_blank(&line.text) || take(line, after);
    while let Some(piece) = output.next_piece(&mut at, end)? {
        match piece {
            Piece::Output { stream: of, time, offset, bytes, .. } if is_wanted(of) => {
                let mut begin = 0;
                for newline in memchr_iter(b'\n', &bytes) {
                    let after = offset + newline as u64 + 1;
                    let (is_whole, mut is_taken) = (!std::mem::take(&mut is_torn), true);
                    assembler.push(stream, time, &bytes[begin..=newline], |line| {
                        is_taken = !is_whole || hand_on(line, after);
                    });
                    if !is_taken {
                        return Ok(false);
                    }
                    begin = newline + 1;
                }
                assembler.push(stream, time, &bytes[begin..], |_| {});
            }
            Piece::Output { .. } => {}
            Piece::Gone { .. } => {
                assembler = output.assembler_at(at)?;
                is_torn = assembler.is_open(stream);
            }
        }
    }
    let mut last = assembler.unfinished().into_iter().filter(|line| wanted.is_over && is_wanted(line.stream));
    Ok(last.all(|line| hand_on(line, end)))
}
