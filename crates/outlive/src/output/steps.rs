//! What happened on a job's terminal, in order: bytes, and changes of its size between them.

use std::io;

use outlive_core::index::{Kind, Record};
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;

use super::{Output, Piece, Slot};

/// One thing that happened on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It printed.
    Bytes {
        /// When; none if the index record is lost.
        time: Option<Timestamp>,
        /// As they were printed.
        bytes: Vec<u8>,
    },
    /// It has this size from here on.
    Resize {
        /// When.
        time: Timestamp,
        /// The size.
        size: TerminalSize,
    },
    /// What it printed here was dropped for the cap, up to this offset.
    Gone(u64),
}

/// How far a reader of steps is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepPlace {
    /// Offset of the next byte.
    pub offset: u64,
    /// The next record that may be a size.
    record: u64,
}

impl Output {
    /// Returns the place of what happens at an offset and later, sizes at that offset included.
    pub fn place_at(&self, offset: u64) -> StepPlace {
        let before = self.last_record(|record| record.offset < offset);
        StepPlace { offset, record: before.map_or(self.first_record, |number| number + 1) }
    }

    /// Returns the next step, and moves `place` after it; `None` at the end of the log.
    pub fn step(&mut self, place: &mut StepPlace) -> io::Result<Option<Step>> {
        loop {
            match self.slot(place.record) {
                Slot::Record(Record { offset, kind, time, .. }) if offset <= place.offset => {
                    place.record += 1;
                    if let Kind::Resize(size) = kind {
                        return Ok(Some(Step::Resize { time, size }));
                    }
                }
                Slot::Forgotten => place.record = self.first_record.max(place.record + 1),
                Slot::Record(_) | Slot::Beyond => break,
            }
        }
        Ok(self.next_piece(&mut place.offset, u64::MAX)?.map(|piece| match piece {
            Piece::Output { time, bytes, .. } => Step::Bytes { time, bytes },
            Piece::Gone { to, .. } => Step::Gone(to),
        }))
    }
}
