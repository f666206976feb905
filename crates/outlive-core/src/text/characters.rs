//! Counting and cutting by characters, for callers that know no bytes.
//!
//! Bytes are decoded as UTF-8 across any borders; what is not UTF-8 counts as U+FFFD.

/// Decodes bytes that come in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The beginning of a character whose end has not come yet; at most three bytes.
    rest: Vec<u8>,
}

impl Decoder {
    /// Decodes the next bytes as far as they are whole characters.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let joined = [self.rest.as_slice(), bytes].concat();
        let end = joined.len() - unfinished(&joined);
        self.rest = joined[end..].to_vec();
        String::from_utf8_lossy(&joined[..end]).into_owned()
    }

    /// Returns what is left when nothing more comes.
    pub fn finish(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        String::from_utf8_lossy(&rest).into_owned()
    }
}

/// Returns how many bytes at the end are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - length..];
        if let Err(error) = std::str::from_utf8(tail)
            && error.valid_up_to() == 0
            && error.error_len().is_none()
        {
            return length;
        }
    }
    0
}

/// Picks a range of characters while text comes.
#[derive(Debug)]
pub struct Range {
    skip: u64,
    left: u64,
    /// What was picked.
    pub picked: String,
}

impl Range {
    /// Asks for `count` characters from the one with number `from`, counted from 0.
    pub fn new(from: u64, count: u64) -> Self {
        Self { skip: from, left: count, picked: String::new() }
    }

    /// Takes the next text; `false` once nothing more is wanted.
    pub fn push(&mut self, text: &str) -> bool {
        for c in text.chars() {
            if self.skip > 0 {
                self.skip -= 1;
            } else if self.left > 0 {
                self.left -= 1;
                self.picked.push(c);
            }
        }
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_split_decodes_the_same(bytes in prop::collection::vec(any::<u8>(), 0..60), text in ".{0,10}", cut in 1usize..5) {
            let bytes = [&bytes[..], text.as_bytes(), &bytes].concat();
            let mut decoder = Decoder::default();
            let mut split: String = bytes.chunks(cut).map(|part| decoder.push(part)).collect();
            split += &decoder.finish();
            prop_assert_eq!(split, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_range_is_what_it_says(text in ".{0,30}", from in 0u64..40, count in 0u64..40) {
            let mut range = Range::new(from, count);
            range.push(&text);
            let expected: String = text.chars().skip(from as usize).take(count as usize).collect();
            prop_assert_eq!(range.picked, expected);
        }
    }
}
