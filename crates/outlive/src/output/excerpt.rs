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
        if end - start <= WHOLE {
            let text = Stripped::read(output, start, end, true)?;
            if text.bytes.len() <= head + tail {
                return Ok(Self { tail: text.all(), gone_bytes: start, ..Self::default() });
            }
            let (head, head_end) = text.head(head);
            let (tail, tail_start) = text.tail(tail);
            return Ok(Self::between(start, head, head_end, tail, tail_start));
        }
        let (head, head_end) = match head {
            0 => (String::new(), start),
            _ => Stripped::read(output, start, start + END, false)?.head(head),
        };
        let (tail, tail_start) = Stripped::read_end(output, end - END, end)?.tail(tail);
        Ok(Self::between(start, head, head_end, tail, tail_start))
    }

    fn between(start: u64, head: String, head_end: u64, tail: String, tail_start: u64) -> Self {
        let omitted_bytes = tail_start.saturating_sub(head_end);
        Self { head: Some(head).filter(|head| !head.is_empty()), omitted_bytes, tail, gone_bytes: start }
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
        let mut offset = start;
        while offset < end {
            match output.piece(offset)? {
                Some(Piece::Output { stream, bytes, .. }) => {
                    let plain = &mut plain[stream.map_or(2, Stream::index)];
                    let length = bytes.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
                    for byte in &bytes[..length] {
                        offset += 1;
                        plain.push(&[*byte], &mut text.bytes);
                        text.ends.resize(text.bytes.len(), offset);
                    }
                }
                Some(Piece::Gone { to, .. }) => offset = to,
                None => break,
            }
        }
        if is_last {
            plain.iter_mut().for_each(|plain| plain.finish(&mut text.bytes));
            text.ends.resize(text.bytes.len(), offset);
        }
        Ok(text)
    }

    /// Reads and strips the end of the log, from the first whole line if there is one nearby.
    fn read_end(output: &mut Output, start: u64, end: u64) -> io::Result<Self> {
        let mut place = start;
        while place < start + (end - start) / 2 {
            match output.piece(place)? {
                Some(Piece::Output { bytes, .. }) => match memchr::memchr(b'\n', &bytes) {
                    Some(newline) => return Self::read(output, place + newline as u64 + 1, end, true),
                    None => place += bytes.len() as u64,
                },
                Some(Piece::Gone { to, .. }) => place = to,
                None => break,
            }
        }
        Self::read(output, start, end, true)
    }

    fn all(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
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
