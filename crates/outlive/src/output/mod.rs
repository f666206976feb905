//! Reads a job's output.
//!
//! The log holds the raw bytes once, the index their stream and time; everything else is derived here. Readers do not affect
//! the keeper.

pub(crate) mod characters;
pub(crate) mod clear;
pub(crate) mod cursor;
pub(crate) mod excerpt;
pub(crate) mod follow;
mod lines;
mod loss;
pub(crate) mod nonblank;
pub(crate) mod object;
pub(crate) mod scan;
pub(crate) mod search;
pub(crate) mod steps;
pub(crate) mod unread;
pub(crate) mod view;

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use outlive_core::index::{Before, Kind, RECORD_BYTES, Record, Stream};
use outlive_core::outcome::Totals;
use outlive_core::timestamp::Timestamp;
use outlive_core::{file, segment};
use outlive_sys::durable::{self, CWD};
use outlive_sys::stamp::Stamp;

pub use self::loss::Loss;
use crate::job::Job;

/// How much is read at a time.
const PIECE: u64 = 256 << 10;

/// How many index records are read at a time. A job that prints line by line has one for each, and a reader needs each several times.
const BLOCK: u64 = 64;

/// A job's output at one moment; [`Output::refresh`] updates it. Its methods fail only if the log, or the job's directory, cannot
/// be read.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    index: Option<File>,
    /// Number of index records that are good as far as known: the first bad one ends them.
    records: Cell<u64>,
    /// The first record that exists: those of dropped output are punched out, and read as zeros.
    first_record: u64,
    /// Records are missing or bad: the end of the last good chunk is unknown.
    is_damaged: Cell<bool>,
    /// First offset and length of each segment, in order.
    segments: Vec<(u64, u64)>,
    /// The stamp of the directory when they were listed, from which on a change gives another.
    listed: Option<Stamp>,
    /// The record that was found last: a sequential read needs it or the next.
    found: Cell<u64>,
    /// The block of index records that was read last, as it was then, with the number of its first.
    block: RefCell<(u64, Vec<u8>)>,
    /// The segment that was read last, with its first offset.
    open: RefCell<Option<(u64, File)>>,
}

/// A piece of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Output of one stream.
    Output {
        /// None if the index record is lost.
        stream: Option<Stream>,
        /// Time of arrival at the keeper.
        time: Option<Timestamp>,
        /// Offset of the first byte.
        offset: u64,
        /// What the keeper could not store right before these bytes.
        lost_before: Option<Loss>,
        /// As they were printed.
        bytes: Vec<u8>,
    },
    /// Output that was dropped for the cap.
    Gone {
        /// Offset of the first missing byte.
        from: u64,
        /// Offset of the first byte that is kept again.
        to: u64,
    },
}

impl Output {
    /// Opens a job's output.
    pub fn open(job: &Job) -> io::Result<Self> {
        let mut output = Self {
            path: job.path().to_owned(),
            index: None,
            records: Cell::new(0),
            first_record: 0,
            is_damaged: Cell::new(false),
            segments: Vec::new(),
            listed: None,
            found: Cell::new(0),
            block: RefCell::default(),
            open: RefCell::default(),
        };
        output.refresh()?;
        let (outcome, closed) = job.records();
        let totals = closed.map(|closed| closed.totals).or(outcome.map(|outcome| outcome.totals));
        if totals.is_some_and(|totals| totals.index_records > output.records.get()) {
            output.is_damaged.set(true);
        }
        Ok(output)
    }

    /// Looks which segments there are, and how long they are.
    fn look_for_segments(&mut self) -> io::Result<()> {
        let stamp = Stamp::at(&self.path).ok();
        if stamp.is_some() && stamp == self.listed && self.measure_last().is_some() {
            return Ok(());
        }
        self.listed = stamp.filter(|stamp| stamp.is_settled());
        self.segments.clear();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Some(start) = entry.file_name().to_str().and_then(segment::offset)
                && let Ok(data) = entry.metadata()
            {
                self.segments.push((start, data.len()));
            }
        }
        self.segments.sort_unstable();
        Ok(())
    }

    /// Looks how long the last segment is: where no file came or went, only that one grows.
    fn measure_last(&mut self) -> Option<()> {
        let (start, length) = self.segments.last_mut()?;
        let data = match self.open.get_mut() {
            Some((open, file)) if open == start => file.metadata(),
            _ => fs::metadata(self.path.join(segment::name(*start))),
        };
        *length = data.ok()?.len();
        Some(())
    }

    /// Updates it to the current state of the log.
    pub fn refresh(&mut self) -> io::Result<()> {
        // The log first: an index record is written before its bytes, so every byte seen here has its record.
        self.look_for_segments()?;
        self.look_at_index();
        Ok(())
    }

    /// As [`Output::refresh`], where files of the log were written to, and none came or went.
    pub(crate) fn refresh_grown(&mut self) -> io::Result<()> {
        if self.measure_last().is_none() {
            self.look_for_segments()?;
        }
        self.look_at_index();
        Ok(())
    }

    fn look_at_index(&mut self) {
        if self.index.is_none() {
            self.index = durable::open_trusted(CWD, self.path.join(file::INDEX)).ok();
        }
        let length = self.index.as_ref().and_then(|index| index.metadata().ok()).map_or(0, |data| data.len());
        let records = length / RECORD_BYTES as u64;
        self.block.take();
        if !self.is_damaged.get() || records < self.records.get() {
            self.records.set(records);
        }
        // The last record may be incomplete; then none of its bytes were in the log.
        if records > 0
            && !self.is_damaged.get()
            && self.read_bytes(records - 1).as_ref().and_then(Record::from_bytes).is_none()
        {
            self.records.set(records - 1);
        }
        self.first_record = if self.start() > 0 { self.find_first_record() } else { 0 };
    }

    /// Finds the first record that is not punched out.
    fn find_first_record(&self) -> u64 {
        let is_forgotten = |number: u64| self.read_bytes(number) == Some([0; RECORD_BYTES]);
        first_failing(self.first_record, self.records.get(), self.first_record, is_forgotten)
    }

    /// Returns the offset of the first byte that is kept.
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(0, |&(start, _)| start)
    }

    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |&(start, length)| start + length)
    }

    pub(crate) fn segment_starts(&self) -> impl Iterator<Item = u64> {
        self.segments.iter().map(|&(start, _)| start)
    }

    /// Returns the offset from which to read the line with this number.
    pub fn offset_before_line(&self, number: u64) -> u64 {
        self.offset_of_last(|record| record.before.all_lines() < number)
    }

    /// Returns the offset from which to read the output since this time.
    pub fn offset_before_time(&self, time: Timestamp) -> u64 {
        self.offset_of_last(|record| record.time < time)
    }

    /// Returns the offset of the last record that meets the condition, or the start.
    fn offset_of_last(&self, is_before: impl Fn(&Record) -> bool) -> u64 {
        let record = self.last_record(is_before).and_then(|number| self.record(number));
        record.map_or(self.start(), |record| record.offset.max(self.start()))
    }

    fn newest_record(&self) -> Option<Record> {
        self.record(self.records.get().checked_sub(1)?)
    }

    /// Returns the time of the last recorded output; `None` if there is none.
    pub fn last_time(&self) -> Option<Timestamp> {
        self.newest_record().map(|record| record.time)
    }

    /// Counts the whole output.
    pub fn totals(&self) -> Totals {
        self.before_end().totals(self.end(), self.records.get())
    }

    /// Counts the lines of the whole output, unfinished ones included.
    pub fn line_count(&self) -> u64 {
        let before = self.before_end();
        before.all_lines() + before.open.iter().flatten().count() as u64
    }

    /// Returns the counts at the end of the log.
    fn before_end(&self) -> Before {
        match self.newest_record() {
            None => self.count_from(Before::default(), Stream::Stdout, self.start()),
            Some(Record { kind: Kind::Gap | Kind::Resize(_), before, .. }) => before,
            Some(Record { kind, before, offset, .. }) => {
                self.count_from(before, stream_of(kind).unwrap_or(Stream::Stdout), offset)
            }
        }
    }

    /// Counts the bytes from `offset` to the end as bytes of `stream`.
    fn count_from(&self, mut before: Before, stream: Stream, mut offset: u64) -> Before {
        let mut buffer = vec![0; PIECE as usize];
        while let Ok(count @ 1..) = self.read_at(&mut buffer, offset) {
            before.advance(stream, offset, &buffer[..count]);
            offset += count as u64;
        }
        before
    }

    /// Reads an index record. A bad record ends the index: later ones cannot be trusted.
    fn record(&self, number: u64) -> Option<Record> {
        match self.slot(number) {
            Slot::Record(record) => Some(record),
            Slot::Forgotten | Slot::Beyond => None,
        }
    }

    fn slot(&self, number: u64) -> Slot {
        if number < self.first_record {
            return Slot::Forgotten;
        }
        if number >= self.records.get() {
            return Slot::Beyond;
        }
        match self.read_bytes(number) {
            // Its output was dropped since the last refresh.
            Some(bytes) if bytes == [0; RECORD_BYTES] => Slot::Forgotten,
            bytes => match bytes.as_ref().and_then(Record::from_bytes) {
                Some(record) => Slot::Record(record),
                None => {
                    self.records.set(number);
                    self.is_damaged.set(true);
                    Slot::Beyond
                }
            },
        }
    }

    fn read_bytes(&self, number: u64) -> Option<[u8; RECORD_BYTES]> {
        let (mut block, first) = (self.block.borrow_mut(), number - number % BLOCK);
        let at = usize::try_from(number % BLOCK).ok()? * RECORD_BYTES;
        if block.0 != first || block.1.len() < at + RECORD_BYTES {
            let index = self.index.as_ref()?;
            let mut bytes = vec![0; BLOCK as usize * RECORD_BYTES];
            let count = index.read_at(&mut bytes, first * RECORD_BYTES as u64).ok()?;
            bytes.truncate(count);
            *block = (first, bytes);
        }
        block.1.get(at..at + RECORD_BYTES)?.try_into().ok()
    }

    /// Returns the last record that meets the condition, which all earlier ones meet, too.
    fn last_record(&self, is_before: impl Fn(&Record) -> bool) -> Option<u64> {
        let goes_on = |number: u64| match self.slot(number) {
            Slot::Record(record) => is_before(&record),
            Slot::Forgotten => true,
            Slot::Beyond => false,
        };
        let low = first_failing(self.first_record, self.records.get(), self.found.get(), goes_on);
        self.found.set(low.saturating_sub(1));
        low.checked_sub(1).filter(|&last| last >= self.first_record)
    }

    /// Reads bytes of the log from one segment.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let segment = self.segments.iter().rev().find(|&&(start, _)| start <= offset);
        let Some(&(start, length)) = segment.filter(|&&(start, length)| offset < start + length) else {
            return Ok(0);
        };
        let room = usize::try_from(start + length - offset).unwrap_or(usize::MAX).min(buffer.len());
        let mut open = self.open.borrow_mut();
        let (_, file) = match open.take_if(|(known, _)| *known == start) {
            Some(known) => open.insert(known),
            None => open.insert((start, durable::open_trusted(CWD, self.path.join(segment::name(start)))?)),
        };
        file.read_at(&mut buffer[..room], offset - start)
    }

    /// Reads the piece at `offset`: bytes of one stream up to the end of their chunk, or the hole. `None` at the end of the
    /// log.
    pub fn piece(&mut self, offset: u64) -> io::Result<Option<Piece>> {
        if (self.start()..self.end()).contains(&offset) && self.is_forgotten(offset) {
            // Its output was dropped since the last refresh, though the bytes may still be readable.
            self.refresh()?;
        }
        if offset < self.start() || offset >= self.end() {
            return Ok(self.gone(offset));
        }
        let (chunk_end, stream, time, lost_before) = self.chunk_at(offset);
        let mut bytes = vec![0; usize::try_from((chunk_end - offset).min(PIECE)).unwrap_or(0)];
        let count = match self.read_at(&mut bytes, offset) {
            // The segment was dropped since the last refresh.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.refresh()?;
                return Ok(self.gone(offset));
            }
            count => count?,
        };
        bytes.truncate(count);
        Ok((count > 0).then_some(Piece::Output { stream, time, offset, lost_before, bytes }))
    }

    /// Returns the hole at `offset`, if it is before the start.
    fn gone(&self, offset: u64) -> Option<Piece> {
        (offset < self.start()).then(|| Piece::Gone { from: offset, to: self.start() })
    }

    /// Reads the piece at `offset`, up to `end`, and moves `offset` after it.
    pub(crate) fn next_piece(&mut self, offset: &mut u64, end: u64) -> io::Result<Option<Piece>> {
        if *offset >= end {
            return Ok(None);
        }
        let mut piece = self.piece(*offset)?;
        match &mut piece {
            Some(Piece::Output { bytes, .. }) => {
                bytes.truncate(usize::try_from(end - *offset).unwrap_or(usize::MAX));
                *offset += bytes.len() as u64;
            }
            Some(Piece::Gone { to, .. }) => *offset = *to,
            None => {}
        }
        Ok(piece)
    }

    /// Tells whether the record of the byte at `offset` is punched out, or the next, which says where its chunk ends: the two may have
    /// been read at different times.
    fn is_forgotten(&self, offset: u64) -> bool {
        let number = self.last_record(|record| record.offset <= offset);
        let is_forgotten = |number| matches!(self.slot(number), Slot::Forgotten);
        number.is_some_and(|number| is_forgotten(number) || is_forgotten(number + 1))
    }

    /// Returns what the index says about the byte at `offset`, which is in the log: the end of its chunk, its stream and time,
    /// and what could not be stored right before it.
    fn chunk_at(&self, offset: u64) -> (u64, Option<Stream>, Option<Timestamp>, Option<Loss>) {
        let number = self.last_record(|record| record.offset <= offset);
        let next = number.map_or(self.first_record, |number| number + 1);
        let chunk_end = self.record(next).map(|record| record.offset);
        let end = chunk_end.unwrap_or(self.end()).clamp(offset + 1, self.end());
        // The next record may have proved the index damaged; then the end of this chunk is unknown.
        let is_trusted = chunk_end.is_some() || !self.is_damaged.get();
        match number.and_then(|number| self.record(number)) {
            Some(record) if is_trusted => {
                let lost_before = if record.offset == offset { self.lost_before(&record) } else { None };
                (end, stream_of(record.kind), Some(record.time), lost_before)
            }
            _ => (end, None, None, None),
        }
    }
}

fn stream_of(kind: Kind) -> Option<Stream> {
    match kind {
        Kind::Output(stream) => Some(stream),
        Kind::Gap | Kind::Resize(_) | Kind::Newer(_) => None,
    }
}

/// State of an index record.
enum Slot {
    Record(Record),
    /// Punched out with its output.
    Forgotten,
    Beyond,
}

/// Returns the first number in `low..high` for which `goes_on` fails, or `high`; it holds for all before. Gallops from `guess`,
/// which is usually right.
fn first_failing(mut low: u64, mut high: u64, guess: u64, goes_on: impl Fn(u64) -> bool) -> u64 {
    if low >= high {
        return low;
    }
    let (from, mut step) = (guess.clamp(low, high - 1), 1);
    if goes_on(from) {
        low = from + 1;
        while low + step <= high && goes_on(low + step - 1) {
            low += step;
            step *= 2;
        }
        high = high.min(low + step - 1);
    } else {
        high = from;
        while high - low >= step && !goes_on(high - step) {
            high -= step;
            step *= 2;
        }
        low = low.max((high + 1).saturating_sub(step));
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if goes_on(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_guessed_the_same_is_found() {
        for (low, high) in [(0, 0), (0, 1), (3, 3), (0, 40), (7, 50)] {
            for first in low..=high {
                for guess in 0..60 {
                    let asked = Cell::new(0);
                    let goes_on = |number| {
                        assert!((low..high).contains(&number), "{number} is not among them");
                        asked.set(asked.get() + 1);
                        number < first
                    };
                    assert_eq!(first_failing(low, high, guess, goes_on), first, "{low} {high} {guess}");
                    let is_near = first.abs_diff(guess) <= 1;
                    assert!(!is_near || asked.get() <= 4, "{} looks", asked.get());
                }
            }
        }
    }
}
