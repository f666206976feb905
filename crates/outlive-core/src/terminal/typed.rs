//! What was typed into a job's terminal, as the file `input` has it.

use crate::checksum::crc32;
use crate::control::MAX_INPUT;
use crate::timestamp::Timestamp;

/// When the file has so much, nothing is added any more.
pub const LIMIT: u64 = 16 << 20;

/// What comes before the bytes of a record.
const HEADER: usize = 24;

/// The part of it that the checksum is of.
const CHECKED: usize = 20;

/// A piece of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Typed<'a> {
    /// When the keeper took it.
    pub time: Timestamp,
    /// Where the log ended then.
    pub offset: u64,
    /// As it was typed.
    pub bytes: &'a [u8],
}

impl<'a> Typed<'a> {
    /// Returns the record. A piece has at most [`MAX_INPUT`] bytes.
    pub fn to_record(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(HEADER + self.bytes.len());
        record.extend(self.time.0.to_le_bytes());
        record.extend(self.offset.to_le_bytes());
        record.extend((self.bytes.len() as u32).to_le_bytes());
        record.extend(self.bytes);
        // It goes between the two, and is of all but itself.
        let checksum = crc32(&record).to_le_bytes();
        record.splice(CHECKED..CHECKED, checksum);
        record
    }

    /// Takes the first record; `None` if it is not whole.
    fn first(file: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = file.split_first_chunk::<HEADER>()?;
        let (checked, checksum) = header.split_at(CHECKED);
        let length = u32::from_le_bytes(*checked.last_chunk()?) as usize;
        let (bytes, rest) = rest.split_at_checked(length).filter(|_| length <= MAX_INPUT)?;
        if crc32(&[checked, bytes].concat()).to_le_bytes() != checksum {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(*checked.get(at..)?.first_chunk()?));
        Some((Self { time: Timestamp(number(0)?), offset: number(8)?, bytes }, rest))
    }
}

/// Returns the records of a file, as far as they are whole.
pub fn records(mut file: &[u8]) -> impl Iterator<Item = Typed<'_>> {
    std::iter::from_fn(move || {
        let (typed, rest) = Typed::first(file)?;
        file = rest;
        Some(typed)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_comes_back_as_far_as_it_is_whole(
            pieces in prop::collection::vec((any::<u64>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 0..8),
            cut in any::<prop::sample::Index>(),
            bit in 0..8u32,
        ) {
            let all: Vec<Typed<'_>> = pieces
                .iter()
                .map(|(time, offset, bytes)| Typed { time: Timestamp(*time), offset: *offset, bytes })
                .collect();
            let mut file: Vec<u8> = all.iter().flat_map(Typed::to_record).collect();
            prop_assert_eq!(records(&file).collect::<Vec<_>>(), all.clone());
            if file.is_empty() {
                return Ok(());
            }
            let at = cut.index(file.len());
            let mut end = 0;
            let whole = all.iter().take_while(|typed| {
                end += typed.to_record().len();
                end <= at
            });
            let whole: Vec<Typed<'_>> = whole.copied().collect();
            prop_assert_eq!(records(&file[..at]).collect::<Vec<_>>(), whole.clone());
            file[at] ^= 1 << bit;
            prop_assert_eq!(records(&file).collect::<Vec<_>>(), whole);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(records(&bytes).count() <= bytes.len() / HEADER);
        }
    }

    #[test]
    fn a_record_is_as_documented() {
        let record = Typed { time: Timestamp(0x0102), offset: 0x0304, bytes: b"ls\r" }.to_record();
        assert_eq!(record[..20], [2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(record[20..24], crc32(&[&record[..20], b"ls\r"].concat()).to_le_bytes());
        assert_eq!(&record[24..], b"ls\r");
        let long =
            Typed { bytes: &vec![b'x'; MAX_INPUT], ..Typed { time: Timestamp(1), offset: 2, bytes: b"" } };
        assert_eq!(records(&long.to_record()).collect::<Vec<_>>(), [long]);
    }
}
