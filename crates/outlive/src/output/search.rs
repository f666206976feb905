//! Searches for lines.
//!
//! The common case (one pattern, no context) runs over whole chunks of the log, not line by line: a log of a gigabyte is
//! searched about as fast as `grep` does.

use std::io;

use memchr::{memchr, memchr_iter, memrchr};
use outlive_core::index::Stream;
use outlive_core::lines::Line;
use outlive_core::timestamp::Timestamp;
use regex::bytes::{Regex, RegexBuilder};

use crate::failure::cut;
use crate::output::{Output, Piece};

/// Which lines to return.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Lines that match this.
    pub include: Option<Regex>,
    /// Not lines that match this.
    pub exclude: Option<Regex>,
    /// Lines of context before each.
    pub before: usize,
    /// Lines of context after each.
    pub after: usize,
}

/// Compiles a pattern for lines.
///
/// # Errors
///
/// If it is not a valid regular expression.
pub fn pattern(text: &str, ignore_case: bool) -> Result<Regex, PatternError> {
    let built = RegexBuilder::new(text).case_insensitive(ignore_case).multi_line(true).crlf(true).build();
    built.map_err(|error| {
        // The earlier lines of the message show the place.
        let error = error.to_string();
        let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        PatternError { pattern: cut(text), why }
    })
}

/// An invalid regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pattern:?} is no regular expression: {why}")]
pub struct PatternError {
    pattern: String,
    why: String,
}

impl Search {
    /// Tells whether every line is returned.
    pub fn is_everything(&self) -> bool {
        self.include.is_none() && self.exclude.is_none()
    }

    /// Tells whether a line matches, apart from context.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(line))
            && self.exclude.as_ref().is_none_or(|exclude| !exclude.is_match(line))
    }
}

impl Output {
    /// Passes on every matching line after `offset`, of one stream or of both, unfinished lines included. What is printed
    /// meanwhile is left to the next search: a job that prints faster than this reads would hold it for ever.
    pub fn find_lines(
        &mut self,
        mut offset: u64,
        pattern: &Regex,
        stream: Option<Stream>,
        mut emit: impl FnMut(Line),
    ) -> io::Result<()> {
        let mut assembler = self.assembler_at(offset)?;
        let is_wanted = |of: Option<Stream>| stream.is_none() || of == stream;
        let is_match = |line: &Line| is_wanted(line.stream) && pattern.is_match(&line.text);
        let end = self.end();
        while let Some(piece) = self.next_piece(&mut offset, end)? {
            let Piece::Output { stream: of, time, lost_before, bytes, .. } = piece else {
                assembler = self.assembler_at(offset)?;
                continue;
            };
            let mut judge = |line: Line| {
                if is_match(&line) {
                    emit(line);
                }
            };
            lost_before.inspect(|_| assembler.tear(&mut judge));
            let mut rest = bytes.as_slice();
            if assembler.is_open(of) {
                let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
                assembler.push(of, time, &rest[..end], &mut judge);
                rest = &rest[end..];
            }
            let whole = memrchr(b'\n', rest).map_or(0, |at| at + 1);
            let lines = if is_wanted(of) {
                find_in(&rest[..whole], pattern, assembler.number(), of, time, &mut emit)
            } else {
                memchr_iter(b'\n', &rest[..whole]).count() as u64
            };
            assembler.skip(lines);
            assembler.push(of, time, &rest[whole..], |_| {});
        }
        assembler.unfinished().into_iter().filter(is_match).for_each(emit);
        Ok(())
    }
}

/// Searches whole lines of one stream; returns their number.
fn find_in(
    bytes: &[u8],
    pattern: &Regex,
    before: u64,
    stream: Option<Stream>,
    time: Option<Timestamp>,
    emit: &mut impl FnMut(Line),
) -> u64 {
    let (mut place, mut counted, mut lines) = (0, 0, 0);
    let mut emit = |number: u64, text: &[u8]| {
        let (number, text) = (before + number, text.to_vec());
        emit(Line { number, stream, time, text, repeated: 1, cut_bytes: 0, lost_bytes: 0, is_ended: true });
    };
    // Anchors to the whole text mean the line here, so each line is matched alone.
    if ["\\A", "\\z"].iter().any(|anchor| pattern.as_str().contains(anchor)) {
        for text in bytes.split_inclusive(|&byte| byte == b'\n').map(|line| &line[..line.len() - 1]) {
            lines += 1;
            if pattern.is_match(text) {
                emit(lines, text);
            }
        }
        return lines;
    }
    while place < bytes.len() {
        let Some(found) = pattern.find_at(bytes, place) else { break };
        let start = memrchr(b'\n', &bytes[..found.start()]).map_or(0, |at| at + 1);
        let end = memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |at| start + at);
        place = end + 1;
        // A match after the last newline has no line; a match over several lines is checked line by line.
        if start >= bytes.len() {
            break;
        }
        let text = &bytes[start..end];
        if found.end() > end && !pattern.is_match(text) {
            continue;
        }
        lines += memchr_iter(b'\n', &bytes[counted..start]).count() as u64;
        counted = start;
        emit(lines + 1, text);
    }
    lines + memchr_iter(b'\n', &bytes[counted..]).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_with_their_numbers() {
        let find = |text: &str, wanted: &str| {
            let mut found = Vec::new();
            let pattern = pattern(wanted, false).unwrap();
            let count = find_in(text.as_bytes(), &pattern, 10, None, None, &mut |line| {
                found.push((line.number, String::from_utf8(line.text).unwrap()));
            });
            (count, found)
        };
        let line = |number, text: &str| (number, text.to_owned());
        assert_eq!(find("a\nb\nab\n", "a"), (3, vec![line(11, "a"), line(13, "ab")]));
        assert_eq!(find("a\nb\nab\n", "^b$"), (3, vec![line(12, "b")]));
        assert_eq!(find("x\n\n\ny\n", "^$"), (4, vec![line(12, ""), line(13, "")]));
        assert_eq!(find("a\nb\n", r"a\nb"), (2, vec![]));
        assert_eq!(find("a\nb\n", r"\s*b"), (2, vec![line(12, "b")]));
        assert_eq!(find("", "x"), (0, vec![]));
        assert_eq!(find("", r"\Ax"), (0, vec![]));
        assert_eq!(find("a\nba\nac\n", r"\Aa"), (3, vec![line(11, "a"), line(13, "ac")]));
    }
}
