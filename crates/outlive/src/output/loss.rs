//! What could not be stored.

use std::fmt;

use outlive_core::index::{Kind, Record};
use outlive_core::timestamp::Timestamp;

use super::Output;

/// Bytes that the keeper could not store, mostly because the disk was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// How many they were.
    pub bytes: u64,
    /// When the first of them was read.
    pub time: Option<Timestamp>,
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(out, "{bytes} {} could not be kept", if bytes == 1 { "byte" } else { "bytes" })?;
        self.time.map_or(Ok(()), |time| write!(out, " at {time}"))
    }
}

impl Output {
    /// Returns what could not be stored right before a record's offset. On a full disk one offset may have many records: empty
    /// chunks, and gaps.
    pub(super) fn lost_before(&self, record: &Record) -> Option<Loss> {
        let number = self.last_record(|earlier| earlier.offset < record.offset);
        let dropped_earlier = match number.and_then(|number| self.record(number)) {
            Some(earlier) => earlier.before.dropped,
            None if self.first_record == 0 => 0,
            // What is left of the index has only the total.
            None => return None,
        };
        let bytes = record.before.dropped.checked_sub(dropped_earlier).filter(|&bytes| bytes > 0)?;
        let here = number.map_or(0, |number| number + 1)..self.records.get();
        let mut gaps = here.map_while(|number| self.record(number)).filter(|record| record.kind == Kind::Gap);
        Some(Loss { bytes, time: gaps.next().map(|gap| gap.time) })
    }

    /// Returns what could not be stored after the last byte.
    pub fn lost_at_end(&self) -> Option<Loss> {
        self.lost_before(&self.newest_record().filter(|newest| newest.offset >= self.end())?)
    }
}
