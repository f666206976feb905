//! Going on with a recording that a dead keeper left: from the index and the log.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use outlive_core::index::{RECORD_BYTES, Record};
use outlive_core::segment;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_sys::durable;

use super::{Flood, Recorder, Segment};
use crate::guard::{Custody, Word};

impl Recorder {
    /// Goes on where a keeper that died left off: the index and the log tell where that is.
    ///
    /// # Errors
    ///
    /// If the log cannot be opened.
    pub(crate) fn resume(
        dir: impl AsFd,
        index: File,
        cap: Option<u64>,
        custody: Custody,
    ) -> io::Result<Self> {
        let records = index.metadata()?.len() / RECORD_BYTES as u64;
        let record = |number: u64| {
            let mut bytes = [0; RECORD_BYTES];
            index.read_exact_at(&mut bytes, number * RECORD_BYTES as u64).ok()?;
            Record::from_bytes(&bytes)
        };
        // The last record may have been written in part.
        let last =
            (records.saturating_sub(2)..records).rev().find_map(|number| Some((number, record(number)?)));
        let index_end = last.as_ref().map_or(0, |(number, _)| (number + 1) * RECORD_BYTES as u64);
        let mut starts: Vec<u64> =
            durable::names(&dir)?.iter().filter_map(|name| segment::offset(name)).collect();
        starts.sort_unstable();
        // Records are in the order of their offsets; those that were given back read as zeros, and come first.
        let first_from = |offset: u64| {
            let (mut low, mut high) = (0, index_end / RECORD_BYTES as u64);
            while low < high {
                let middle = low + (high - low) / 2;
                if record(middle).is_some_and(|record| record.offset >= offset) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low * RECORD_BYTES as u64
        };
        let segments: VecDeque<Segment> =
            starts.iter().map(|&start| Segment { start, index_start: first_from(start) }).collect();
        let current = *starts.last().ok_or(io::ErrorKind::NotFound)?;
        let log = durable::open_rw(&dir, &segment::name(current))?;
        let mut recorder = Self { segments, index_end, ..Self::new(index, log, cap, custody) };
        recorder.forgotten = recorder.segments.front().map_or(0, |oldest| oldest.index_start);
        if let Some((_, record)) = last {
            recorder.chunker.resume(&record);
            // The bytes of the last chunk, which the index has no record after.
            if let Some(stream) = recorder.chunker.stream() {
                let mut chunker = recorder.chunker.clone();
                recorder.read_from(&dir, chunker.end, |bytes, _| chunker.wrote(stream, bytes))?;
                recorder.chunker = chunker;
            }
        }
        recorder.unrecorded = custody.get(Word::Unrecorded);
        recorder.lost_since = Timestamp(custody.get(Word::LostSince));
        recorder.flood = match custody.get(Word::Flood) {
            0 => Flood::No,
            1 => Flood::Unreported,
            _ => Flood::Reported,
        };
        Ok(recorder)
    }

    /// Does the same in a process that was forked from the keeper that died, while that was recording.
    ///
    /// # Errors
    ///
    /// As [`Recorder::resume`].
    pub(crate) fn reopen(&mut self, dir: impl AsFd) -> io::Result<()> {
        let resumed = Self::resume(dir, self.index.try_clone()?, self.cap, self.custody)?;
        // The number of the old segment may mean another file since.
        std::mem::forget(std::mem::replace(self, resumed).log);
        Ok(())
    }

    pub(crate) fn index_fd(&self) -> RawFd {
        self.index.as_raw_fd()
    }

    /// Reads the log from an offset to its end; `each` gets the bytes, and where they end.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) fn read_from(
        &self,
        dir: impl AsFd,
        offset: u64,
        mut each: impl FnMut(&[u8], u64),
    ) -> io::Result<()> {
        let (mut buffer, mut at) = (vec![0; 64 << 10], offset);
        for &Segment { start, .. } in &self.segments {
            let file = durable::open_ro(&dir, segment::name(start))?;
            at = at.max(start);
            loop {
                let count = file.read_at(&mut buffer, at - start)?;
                if count == 0 {
                    break;
                }
                at += count as u64;
                each(&buffer[..count], at);
            }
        }
        Ok(())
    }

    /// Takes the size that the terminal has; it is recorded already.
    pub(crate) fn resume_size(&mut self, size: TerminalSize) {
        self.size = Some(size);
    }
}
