//! Output counted in characters, for callers that know neither bytes nor lines.

use std::io;

use outlive_core::characters::{Decoder, Range};
use outlive_core::file;
use outlive_core::index::Stream;
use outlive_core::outcome::{CLOSED_AT, Closed};
use outlive_sys::durable;

use crate::output::{Output, Piece};

/// Most bytes of a UTF-8 character.
const WIDEST: u64 = 4;

impl Output {
    /// Returns `count` characters from number `from`, counted from the first that is kept, of one stream or of both. Invalid
    /// UTF-8 counts as U+FFFD. Characters are not in the index, so the log is read up to them.
    pub fn characters(&mut self, from: u64, count: u64, stream: Option<Stream>) -> io::Result<String> {
        let (mut decoder, mut range) = (Decoder::default(), Range::new(from, count));
        let mut offset = self.start();
        while let Some(piece) = self.next_piece(&mut offset, u64::MAX)? {
            if let Piece::Output { stream: of, bytes, .. } = piece
                && (stream.is_none() || of == stream)
                && !range.push(&decoder.push(&bytes))
            {
                return Ok(range.picked);
            }
        }
        range.push(&self.last_of(&mut decoder));
        Ok(range.picked)
    }

    /// Flushes a decoder. While more output may come, an incomplete character stays in it.
    pub(crate) fn last_of(&self, decoder: &mut Decoder) -> String {
        let rest = decoder.finish();
        if rest.is_empty() || self.is_over() { rest } else { String::new() }
    }

    /// Tells whether no more output can come.
    fn is_over(&self) -> bool {
        let closed = |bytes: Vec<u8>| Closed::from_slot(bytes.get(CLOSED_AT as usize..)?);
        durable::read(durable::CWD, self.path.join(file::OUTCOME)).ok().and_then(closed).is_some()
    }

    /// Returns the number of characters, as [`Output::characters`] counts them: reads the whole log.
    pub fn character_count(&mut self) -> io::Result<u64> {
        let mut count = 0;
        self.decode_from(self.start(), |text| count += text.chars().count() as u64)?;
        Ok(count)
    }

    /// Tells whether there are more characters than this, without reading all of a long log.
    pub fn has_more_characters_than(&mut self, limit: u64) -> io::Result<bool> {
        let bytes = self.end() - self.start();
        Ok(bytes > limit && (bytes / WIDEST > limit || self.character_count()? > limit))
    }

    /// Returns the last `count` characters of both streams, in the order of arrival. Invalid UTF-8 counts as U+FFFD.
    pub fn last_characters(&mut self, count: usize) -> io::Result<String> {
        // One character more, because the first may be cut.
        let bytes = (count as u64).saturating_add(1).saturating_mul(WIDEST);
        let mut text = String::new();
        self.decode_from(self.end().saturating_sub(bytes).max(self.start()), |more| text.push_str(more))?;
        let skip = text.chars().count().saturating_sub(count);
        Ok(text.chars().skip(skip).collect())
    }

    /// Decodes the log from `offset` to its current end.
    fn decode_from(&mut self, mut offset: u64, mut take: impl FnMut(&str)) -> io::Result<()> {
        let (mut decoder, end) = (Decoder::default(), self.end());
        while let Some(piece) = self.next_piece(&mut offset, end)? {
            if let Piece::Output { bytes, .. } = piece {
                take(&decoder.push(&bytes));
            }
        }
        take(&self.last_of(&mut decoder));
        Ok(())
    }
}
