//! Output counted in characters, for callers that know no bytes and no lines.

use std::io;

use outlive_core::characters::Decoder;

use crate::output::{Output, Piece};

/// The most bytes that a character has.
const WIDEST: u64 = 4;

impl Output {
    /// Returns how many characters there are, counted as [`Output::characters`] counts them: the log is read for it.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn character_count(&mut self) -> io::Result<u64> {
        let mut count = 0;
        self.decode_from(self.start(), |text| count += text.chars().count() as u64)?;
        Ok(count)
    }

    /// Tells whether there are more characters than this; a long log is not read for it.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn has_more_characters_than(&mut self, limit: u64) -> io::Result<bool> {
        let bytes = self.end() - self.start();
        Ok(bytes > limit && (bytes / WIDEST > limit || self.character_count()? > limit))
    }

    /// Returns the last `count` characters, of both streams as they came. Bytes that are not UTF-8 count as U+FFFD.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn last_characters(&mut self, count: usize) -> io::Result<String> {
        // One more than is wanted: the first may be cut.
        let bytes = (count as u64).saturating_add(1).saturating_mul(WIDEST);
        let mut text = String::new();
        self.decode_from(self.end().saturating_sub(bytes).max(self.start()), |more| text.push_str(more))?;
        let skip = text.chars().count().saturating_sub(count);
        Ok(text.chars().skip(skip).collect())
    }

    /// Decodes what there is from `offset` on, up to what is the end now.
    fn decode_from(&mut self, mut offset: u64, mut take: impl FnMut(&str)) -> io::Result<()> {
        let (mut decoder, end) = (Decoder::default(), self.end());
        while offset < end {
            match self.piece(offset)? {
                Some(Piece::Output { bytes, .. }) => {
                    let length = bytes.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
                    offset += length as u64;
                    take(&decoder.push(&bytes[..length]));
                }
                Some(Piece::Gone { to, .. }) => offset = to,
                None => break,
            }
        }
        take(&self.last_of(&mut decoder));
        Ok(())
    }
}
