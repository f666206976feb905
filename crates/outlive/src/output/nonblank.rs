//! Output without blank lines, renumbered, for profiles whose originals never kept them.

use std::collections::VecDeque;
use std::io;

use memchr::memchr_iter;
use outlive_core::index::Stream;
use outlive_core::lines::Line;

use crate::job::Job;
use crate::output::{Output, Piece};

/// Which lines are blank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// Lines without any character.
    Empty,
    /// Lines of only whitespace.
    Whitespace,
}

impl Blank {
    pub(crate) fn is_blank(self, text: &[u8]) -> bool {
        match self {
            Self::Empty => text.is_empty(),
            Self::Whitespace => String::from_utf8_lossy(text).trim().is_empty(),
        }
    }
}

/// Counts the lines that are not empty, incrementally: nothing is read twice.
///
/// Lines that were dropped or cleared all count, because it is unknown how many of them were empty. So the count never
/// decreases, and no reader waits for a line number that was reached before.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Offset up to which the log was counted; none: not at all.
    read: Option<u64>,
    /// Number of ended lines.
    newlines: u64,
    /// How many of them were not empty.
    ended: u64,
    /// Whether standard output, standard error and the unknown stream have an unfinished line.
    is_open: [bool; 3],
}

impl Tally {
    /// Returns the number of finished lines.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns the number of lines, unfinished ones included.
    pub fn total(&self) -> u64 {
        self.ended + self.is_open.iter().filter(|&&is_open| is_open).count() as u64
    }

    /// Counts the output since the last call.
    pub fn advance(&mut self, job: &Job) -> io::Result<()> {
        self.advance_in(&mut Output::open(job)?)
    }

    fn advance_in(&mut self, output: &mut Output) -> io::Result<()> {
        let mut offset = match self.read {
            Some(read) => read,
            None => self.begin(output)?,
        };
        while let Some(piece) = output.next_piece(&mut offset, u64::MAX)? {
            match piece {
                Piece::Output { stream, bytes, .. } => self.push(stream, &bytes),
                Piece::Gone { .. } => offset = self.begin(output)?,
            }
            self.read = Some(offset);
        }
        Ok(())
    }

    /// Starts at the first byte that is kept; every line before it counts.
    fn begin(&mut self, output: &mut Output) -> io::Result<u64> {
        let start = output.start();
        let assembler = output.assembler_at(start)?;
        // If the last chunk is gone, the index has fewer lines than were counted.
        let newlines = assembler.number().max(self.newlines);
        self.ended += newlines - self.newlines;
        self.newlines = newlines;
        self.is_open = [Some(Stream::Stdout), Some(Stream::Stderr), None].map(|lane| assembler.is_open(lane));
        Ok(start)
    }

    fn push(&mut self, stream: Option<Stream>, bytes: &[u8]) {
        let is_open = &mut self.is_open[stream.map_or(2, Stream::index)];
        let mut line = 0;
        for newline in memchr_iter(b'\n', bytes) {
            self.newlines += 1;
            self.ended += u64::from(*is_open || newline > line);
            *is_open = false;
            line = newline + 1;
        }
        *is_open |= line < bytes.len();
    }
}

/// Lines that are not empty.
#[derive(Debug, Default)]
pub struct Nonblank {
    /// Number of such lines, unfinished ones included, as far as the log goes back.
    pub total: u64,
    /// The last of them; numbers start at 1 and skip empty lines.
    pub lines: VecDeque<Line>,
}

impl Job {
    /// Returns the last `window` lines that are not empty, of both streams, unfinished lines included. They are found from the
    /// end; `tally`, which must be this job's, counts the earlier ones.
    pub fn nonblank_tail(&self, tally: &mut Tally, window: usize) -> io::Result<Nonblank> {
        let mut output = Output::open(self)?;
        tally.advance_in(&mut output)?;
        let wanted = |tally: &Tally| window.min(usize::try_from(tally.total()).unwrap_or(window));
        let seen = output.end();
        let mut lines = last_lines(&mut output, wanted(tally))?;
        if output.end() != seen {
            // A drop caused a refresh: there is more than was counted.
            tally.advance_in(&mut output)?;
            lines = last_lines(&mut output, wanted(tally))?;
        }
        let first = (tally.total() + 1).saturating_sub(lines.len() as u64);
        lines.iter_mut().zip(first..).for_each(|(line, number)| line.number = number);
        Ok(Nonblank { total: tally.total(), lines })
    }
}

/// Returns the last `wanted` lines that are not empty, or all.
fn last_lines(output: &mut Output, wanted: usize) -> io::Result<VecDeque<Line>> {
    let mut lines = VecDeque::new();
    if wanted == 0 {
        return Ok(lines);
    }
    // Usually few lines are empty; if many are, the search goes further back.
    let mut reach = wanted as u64 + 16;
    loop {
        let offset = output.offset_before_tail(reach, None);
        let is_all = offset <= output.start();
        lines.clear();
        output.each_line(offset, |line| {
            if line.text.is_empty() {
                return;
            }
            if lines.len() == wanted {
                lines.pop_front();
            }
            lines.push_back(line);
        })?;
        if is_all || lines.len() == wanted {
            return Ok(lines);
        }
        reach = reach.saturating_mul(8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pieces: &[(Stream, &str)]) -> u64 {
        let mut tally = Tally::default();
        pieces.iter().for_each(|(stream, text)| tally.push(Some(*stream), text.as_bytes()));
        tally.total()
    }

    #[test]
    fn empty_lines_do_not_count() {
        use Stream::{Stderr, Stdout};
        for (pieces, lines) in [
            (&[][..], 0),
            (&[(Stdout, "\n\n\n")], 0),
            (&[(Stdout, "a\n\nb")], 2),
            (&[(Stdout, "a"), (Stdout, "\n"), (Stdout, "\n")], 1),
            (&[(Stdout, "a"), (Stderr, "\n"), (Stdout, "b\n")], 1),
            (&[(Stdout, "a"), (Stderr, "e"), (Stdout, "\n \n")], 3),
        ] {
            assert_eq!(count(pieces), lines, "{pieces:?}");
        }
    }
}
