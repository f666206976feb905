//! The index of a log: which stream, when, how many lines before.
//!
//! Records are only ever appended, each before the first byte of its chunk; see `docs/on-disk-format.md`.

use memchr::{memchr_iter, memrchr};

use super::checksum::crc32;
use crate::outcome::Totals;
use crate::terminal::size::TerminalSize;
use crate::timestamp::Timestamp;

/// Size of a record.
pub const RECORD_BYTES: usize = 64;

/// A chunk spans at most this time, so the time of a byte is exact to this.
pub const CHUNK_MICROS: u64 = 10_000;

/// A chunk has at most this many bytes, which bounds what a reader scans to find a line.
pub const CHUNK_BYTES: u64 = 1 << 20;

words! {
    /// One of the two streams of a command.
    pub enum Stream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

impl Stream {
    /// Returns 0 or 1.
    pub fn index(self) -> usize {
        match self {
            Self::Stdout => 0,
            Self::Stderr => 1,
        }
    }
}

/// What a record stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a stream.
    Output(Stream),
    /// Bytes that could not be kept.
    Gap,
    /// No bytes: from here on the terminal has this size.
    Resize(TerminalSize),
    /// Something that a later version knows; of the bytes that follow, the stream is not known.
    Newer(u8),
}

/// What came before a place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Before {
    /// Newlines of each stream.
    pub lines: [u64; 2],
    /// Where each stream's unfinished line begins, if it has one.
    pub open: [Option<u64>; 2],
    /// Bytes that could not be kept.
    pub dropped: u64,
}

impl Before {
    /// Returns the newlines of both streams.
    pub fn all_lines(&self) -> u64 {
        self.lines[0] + self.lines[1]
    }

    /// Takes account of `bytes` of `stream` that begin at `offset`.
    pub fn advance(&mut self, stream: Stream, offset: u64, bytes: &[u8]) {
        let place = stream.index();
        if let Some(last) = memrchr(b'\n', bytes) {
            self.lines[place] += memchr_iter(b'\n', &bytes[..last]).count() as u64 + 1;
            let rest = offset + last as u64 + 1;
            self.open[place] = (last + 1 < bytes.len()).then_some(rest);
        } else if !bytes.is_empty() && self.open[place].is_none() {
            self.open[place] = Some(offset);
        }
    }

    /// Returns the totals of a log that ends at `end` and has so many index records.
    pub fn totals(&self, end: u64, index_records: u64) -> Totals {
        Totals {
            bytes: end,
            stdout_lines: self.lines[0],
            stderr_lines: self.lines[1],
            dropped_bytes: self.dropped,
            index_records,
        }
    }
}

/// The beginning of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Where the chunk begins.
    pub offset: u64,
    /// When its first byte was read.
    pub time: Timestamp,
    /// What came before it.
    pub before: Before,
    /// What it is.
    pub kind: Kind,
}

impl Record {
    /// Returns the bytes on disk.
    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let open = |place: usize| self.before.open[place].unwrap_or(u64::MAX);
        let words = [
            self.offset,
            self.time.0,
            self.before.lines[0],
            self.before.lines[1],
            open(0),
            open(1),
            self.before.dropped,
        ];
        for (place, word) in words.into_iter().enumerate() {
            bytes[place * 8..place * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[56] = match self.kind {
            Kind::Output(Stream::Stdout) => 1,
            Kind::Output(Stream::Stderr) => 2,
            Kind::Gap => 3,
            Kind::Resize(size) => {
                bytes[57..60].copy_from_slice(&size.to_bytes());
                4
            }
            Kind::Newer(number) => number,
        };
        let checksum = crc32(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a record; `None` if it is damaged.
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        if crc32(&bytes[..60]).to_le_bytes() != bytes[60..] {
            return None;
        }
        let word = |place: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[place * 8..place * 8 + 8]);
            u64::from_le_bytes(word)
        };
        let open = |place: usize| Some(word(place)).filter(|&offset| offset != u64::MAX);
        Some(Self {
            offset: word(0),
            time: Timestamp(word(1)),
            before: Before { lines: [word(2), word(3)], open: [open(4), open(5)], dropped: word(6) },
            kind: match bytes[56] {
                1 => Kind::Output(Stream::Stdout),
                2 => Kind::Output(Stream::Stderr),
                3 => Kind::Gap,
                4 => Kind::Resize(TerminalSize::from_bytes([bytes[57], bytes[58], bytes[59]])),
                // No version writes this: it is not a record.
                0 => return None,
                number => Kind::Newer(number),
            },
        })
    }
}

/// Decides where chunks begin while output comes in.
#[derive(Debug, Clone, Default)]
pub struct Chunker {
    /// Where the next byte goes.
    pub end: u64,
    /// What came before it.
    pub before: Before,
    current: Option<(Stream, u64, Timestamp)>,
}

impl Chunker {
    /// Returns the record that must be written before a byte of `stream` that is read `now`, if one must.
    pub fn record_for(&self, stream: Stream, now: Timestamp) -> Option<Record> {
        let same = self.current.is_some_and(|(current, start, time)| {
            current == stream && now.0.abs_diff(time.0) < CHUNK_MICROS && self.end - start < CHUNK_BYTES
        });
        (!same).then_some(Record {
            offset: self.end,
            time: now,
            before: self.before,
            kind: Kind::Output(stream),
        })
    }

    /// Notes that this record was written.
    pub fn began(&mut self, record: &Record) {
        self.current = match record.kind {
            Kind::Output(stream) => Some((stream, record.offset, record.time)),
            Kind::Gap | Kind::Resize(_) | Kind::Newer(_) => None,
        };
        self.before.dropped = record.before.dropped;
    }

    /// Goes on after the last record of an index, of whose chunk no byte was counted yet.
    pub fn resume(&mut self, record: &Record) {
        (self.end, self.before) = (record.offset, record.before);
        self.began(record);
    }

    /// Returns the stream of the chunk that goes on.
    pub fn stream(&self) -> Option<Stream> {
        self.current.map(|(stream, ..)| stream)
    }

    /// Makes the next byte begin a chunk, whatever came before it.
    pub fn interrupt(&mut self) {
        self.current = None;
    }

    /// Notes that these bytes were written.
    pub fn wrote(&mut self, stream: Stream, bytes: &[u8]) {
        self.before.advance(stream, self.end, bytes);
        self.end += bytes.len() as u64;
    }

    /// Returns the record that says that `bytes` could not be kept.
    pub fn gap(&self, bytes: u64, now: Timestamp) -> Record {
        let before = Before { dropped: self.before.dropped + bytes, ..self.before };
        Record { offset: self.end, time: now, before, kind: Kind::Gap }
    }

    /// Returns the record that says that the terminal has this size from here on.
    pub fn resize(&self, size: TerminalSize, now: Timestamp) -> Record {
        Record { offset: self.end, time: now, before: self.before, kind: Kind::Resize(size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> impl Strategy<Value = Record> {
        let kind = prop_oneof![
            Just(Kind::Output(Stream::Stdout)),
            Just(Kind::Output(Stream::Stderr)),
            Just(Kind::Gap),
            (1u16..=1000, 1u16..=500)
                .prop_map(|(columns, rows)| Kind::Resize(TerminalSize::new(columns, rows))),
            (5..=u8::MAX).prop_map(Kind::Newer),
        ];
        let open = prop::option::of(0..u64::MAX);
        (any::<[u64; 5]>(), open.clone(), open, kind).prop_map(|(words, out, err, kind)| Record {
            offset: words[0],
            time: Timestamp(words[1]),
            before: Before { lines: [words[2], words[3]], open: [out, err], dropped: words[4] },
            kind,
        })
    }

    proptest! {
        #[test]
        fn a_record_comes_back(record in records()) {
            prop_assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }

        #[test]
        fn a_flipped_bit_is_noticed(record in records(), bit in 0usize..RECORD_BYTES * 8) {
            let mut bytes = record.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Record::from_bytes(&bytes), None);
        }

        #[test]
        fn any_split_counts_the_same(text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'x')], 0..60), cuts in prop::collection::vec(0usize..60, 0..8)) {
            let mut whole = Before::default();
            whole.advance(Stream::Stdout, 100, &text);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut split = Before::default();
            for pair in cuts.windows(2) {
                split.advance(Stream::Stdout, 100 + pair[0] as u64, &text[pair[0]..pair[1]]);
            }
            prop_assert_eq!(split, whole);
        }
    }

    #[test]
    fn a_chunk_begins_with_another_stream_time_or_size() {
        let mut chunker = Chunker::default();
        let at = Timestamp;
        let first = chunker.record_for(Stream::Stdout, at(1000)).expect("the first byte begins a chunk");
        chunker.began(&first);
        chunker.wrote(Stream::Stdout, b"one\ntw");
        assert_eq!(chunker.record_for(Stream::Stdout, at(1000 + CHUNK_MICROS - 1)), None);
        assert!(chunker.record_for(Stream::Stdout, at(1000 + CHUNK_MICROS)).is_some());
        let other = chunker.record_for(Stream::Stderr, at(1001)).expect("another stream begins a chunk");
        assert_eq!(other.offset, 6);
        assert_eq!(other.before, Before { lines: [1, 0], open: [Some(4), None], dropped: 0 });
        chunker.wrote(Stream::Stdout, &vec![b'x'; CHUNK_BYTES as usize]);
        assert!(chunker.record_for(Stream::Stdout, at(1001)).is_some());
    }
}
