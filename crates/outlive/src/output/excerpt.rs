//! Excerpts of a job's output: its beginning and end, as plain text within a limit.

use std::io;

use outlive_core::index::Stream;
use outlive_core::plain::Plain;
use serde::Serialize;

use crate::job::Job;
use crate::output::{Output, Piece};

/// A log up to this size is read whole; only the ends of a longer one are.
const WHOLE: u64 = 256 << 10;

/// How much is read of each end of a longer log; control sequences take room.
const END: u64 = 64 << 10;

/// Factor by which [`tail_text`] reads more than it shows: control sequences are removed.
const MORE: u64 = 4;

/// The beginning and the end of a job's output, without control sequences.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Excerpt {
    /// The beginning; none if not requested, or if the tail is everything.
    pub head: Option<String>,
    /// Bytes of the log that were left out before the tail.
    pub omitted_bytes: u64,
    /// The end of the output.
    pub tail: String,
    /// Bytes before all this that are no longer kept.
    pub gone_bytes: u64,
}

impl Excerpt {
    /// Takes at most so many bytes of text from the beginning and the end. Cuts between lines if one ends nearby, else between
    /// characters. Skips what cannot be read.
    pub fn of(job: &Job, head: usize, tail: usize) -> Self {
        Output::open(job).and_then(|mut output| Self::take(&mut output, head, tail)).unwrap_or_default()
    }

    /// Takes the last characters, at most so many.
    pub fn last_characters(job: &Job, count: usize) -> String {
        let tail = Self::of(job, 0, count.saturating_mul(4)).tail;
        let skip = tail.chars().count().saturating_sub(count);
        tail.chars().skip(skip).collect()
    }

    fn take(output: &mut Output, head: usize, tail: usize) -> io::Result<Self> {
        let (start, end) = (output.start(), output.end());
        let ((head, head_end), (tail, tail_start)) = if end - start <= WHOLE {
            let text = Stripped::read(output, start, end, true)?;
            if text.bytes.len() <= head + tail {
                let tail = String::from_utf8_lossy(&text.bytes).into_owned();
                return Ok(Self { tail, gone_bytes: start, ..Self::default() });
            }
            (text.head(head), text.tail(tail))
        } else {
            let head = match head {
                0 => (String::new(), start),
                _ => Stripped::read(output, start, start + END, false)?.head(head),
            };
            (head, Stripped::read_end(output, end - END, end)?.tail(tail))
        };
        let omitted_bytes = tail_start.saturating_sub(head_end);
        Ok(Self { head: Some(head).filter(|head| !head.is_empty()), omitted_bytes, tail, gone_bytes: start })
    }
}

/// Plain text of a part of the log, with the log offset after each byte.
struct Stripped {
    start: u64,
    bytes: Vec<u8>,
    ends: Vec<u64>,
}

impl Stripped {
    fn read(output: &mut Output, start: u64, end: u64, is_last: bool) -> io::Result<Self> {
        let mut text = Self { start, bytes: Vec::new(), ends: Vec::new() };
        // Each stream has its own control sequences; the text keeps the order of arrival.
        let mut plain = <[Plain; 3]>::default();
        let mut place = start;
        while let Some(piece) = output.next_piece(&mut place, end)? {
            let Piece::Output { stream, offset, bytes, .. } = piece else { continue };
            let plain = &mut plain[stream.map_or(2, Stream::index)];
            for (byte, after) in bytes.into_iter().zip(offset + 1..) {
                plain.push(&[byte], &mut text.bytes);
                text.ends.resize(text.bytes.len(), after);
            }
        }
        if is_last {
            plain.iter_mut().for_each(|plain| plain.finish(&mut text.bytes));
            text.ends.resize(text.bytes.len(), place);
        }
        Ok(text)
    }

    /// Reads and strips the end of the log, from the first whole line if there is one nearby.
    fn read_end(output: &mut Output, start: u64, end: u64) -> io::Result<Self> {
        let mut place = start;
        while place < start + (end - start) / 2 {
            let Some(piece) = output.next_piece(&mut place, u64::MAX)? else { break };
            if let Piece::Output { offset, bytes, .. } = piece
                && let Some(newline) = memchr::memchr(b'\n', &bytes)
            {
                return Self::read(output, offset + newline as u64 + 1, end, true);
            }
        }
        Self::read(output, start, end, true)
    }

    /// Returns at most `limit` bytes of the beginning, and the log offset after them.
    fn head(&self, limit: usize) -> (String, u64) {
        let mut cut = limit.min(self.bytes.len());
        while cut > 0 && !self.is_border(cut) {
            cut -= 1;
        }
        if cut < self.bytes.len()
            && let Some(newline) = memchr::memrchr(b'\n', &self.bytes[..cut]).filter(|at| *at >= cut / 2)
        {
            cut = newline + 1;
        }
        (String::from_utf8_lossy(&self.bytes[..cut]).into_owned(), self.end_of(cut))
    }

    /// Returns at most `limit` bytes of the end, and their log offset.
    fn tail(&self, limit: usize) -> (String, u64) {
        let mut cut = self.bytes.len() - limit.min(self.bytes.len());
        while !self.is_border(cut) {
            cut += 1;
        }
        let is_line = cut == 0 || self.bytes[cut - 1] == b'\n';
        let half = cut + (self.bytes.len() - cut) / 2;
        if !is_line && let Some(newline) = memchr::memchr(b'\n', &self.bytes[cut..half]) {
            cut += newline + 1;
        }
        (String::from_utf8_lossy(&self.bytes[cut..]).into_owned(), self.end_of(cut))
    }

    /// Tells whether a cut here splits no character.
    fn is_border(&self, at: usize) -> bool {
        self.bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80)
    }

    /// Returns the log offset after the first `length` bytes of text.
    fn end_of(&self, length: usize) -> u64 {
        length.checked_sub(1).map_or(self.start, |last| self.ends[last])
    }
}

/// Returns the end of a job's output as plain text, about `bytes` of it, from the beginning of a line if possible.
pub fn tail_text(job: &Job, bytes: usize) -> io::Result<String> {
    let mut output = Output::open(job)?;
    let mut offset = output.end().saturating_sub(bytes as u64 * MORE).max(output.start());
    let is_whole = offset == output.start();
    let (mut raw, mut text) = (Vec::new(), Vec::new());
    while let Some(piece) = output.next_piece(&mut offset, u64::MAX)? {
        if let Piece::Output { bytes, .. } = piece {
            raw.extend_from_slice(&bytes);
        }
        // Output that arrives meanwhile is not read.
        if raw.len() as u64 > bytes as u64 * MORE * 2 {
            break;
        }
    }
    let mut plain = Plain::new();
    plain.push(&raw, &mut text);
    plain.finish(&mut text);
    Ok(last_of(&String::from_utf8_lossy(&text), bytes, is_whole))
}

/// Cuts a text to its last bytes, at the beginning of a line if there is one within the first quarter.
fn last_of(text: &str, bytes: usize, is_whole: bool) -> String {
    let mut from = text.len().saturating_sub(bytes);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let kept = &text[from..];
    let is_cut = from > 0 || !is_whole;
    let line = kept.find('\n').map(|at| at + 1).filter(|&at| is_cut && at <= bytes / 4 && at < kept.len());
    kept[line.unwrap_or(0)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_begins_with_a_line_where_it_can() {
        assert_eq!(last_of("one\ntwo\n", 100, true), "one\ntwo\n");
        assert_eq!(last_of("one\ntwo three four\n", 17, true), "two three four\n");
        assert_eq!(last_of("eins zwei\ndrei\n", 8, true), "ei\ndrei\n");
        assert_eq!(last_of(&"x".repeat(50), 10, true), "x".repeat(10));
        assert_eq!(last_of("äöü", 3, true), "ü");
        assert_eq!(last_of("e\ntwo three\n", 100, false), "two three\n");
        assert_eq!(last_of("", 10, true), "");
    }
}
