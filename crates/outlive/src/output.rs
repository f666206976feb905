//! Reading what a job printed.
//!
//! The log holds raw bytes once, the index says which stream they are of and when they came; everything else is derived
//! here. Nothing that a reader does is noticed by the keeper.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use outlive_core::index::{Before, Kind, RECORD_BYTES, Record, Stream};
use outlive_core::lines::{Assembler, Line, MAX_LINE};
use outlive_core::outcome::Totals;
use outlive_core::timestamp::Timestamp;
use outlive_core::{file, segment};

use crate::job::Job;

/// How much is read at a time.
const PIECE: u64 = 256 << 10;

/// A job's output as it stands; [`Output::refresh`] takes a new look.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    index: Option<File>,
    records: u64,
    /// First offset and length of each segment, in order.
    segments: Vec<(u64, u64)>,
    /// The segment that was read last.
    open: Option<(u64, File)>,
}

/// A piece of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of one stream.
    Output {
        /// Which stream; unknown where the index is lost.
        stream: Option<Stream>,
        /// When they came.
        time: Option<Timestamp>,
        /// Where they begin.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// What is no longer there: it was dropped for the cap.
    Gone {
        /// The first missing byte.
        from: u64,
        /// The first byte that is there again.
        to: u64,
    },
}

impl Output {
    /// Looks at a job's output.
    ///
    /// # Errors
    ///
    /// If the job's directory cannot be read.
    pub fn open(job: &Job) -> io::Result<Self> {
        let mut output =
            Self { path: job.path().to_owned(), index: None, records: 0, segments: Vec::new(), open: None };
        output.refresh()?;
        Ok(output)
    }

    /// Takes a new look.
    ///
    /// # Errors
    ///
    /// If the job's directory cannot be read.
    pub fn refresh(&mut self) -> io::Result<()> {
        // The log first: an index record is written before its bytes, so every byte seen here has its record.
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
        if self.index.is_none() {
            self.index = File::open(self.path.join(file::INDEX)).ok();
        }
        let length = self.index.as_ref().and_then(|index| index.metadata().ok()).map_or(0, |data| data.len());
        self.records = length / RECORD_BYTES as u64;
        // The last records may be torn or damaged; those before them are good.
        while self.records > 0 && self.record(self.records - 1).is_none() {
            self.records -= 1;
        }
        Ok(())
    }

    /// Returns the offset of the first byte that is there.
    pub fn start(&self) -> u64 {
        self.segments.first().map_or(0, |&(start, _)| start)
    }

    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, |&(start, length)| start + length)
    }

    /// Counts what was printed.
    pub fn totals(&self) -> Totals {
        self.before_end().totals(self.end(), self.records)
    }

    /// Returns what came before the end.
    fn before_end(&self) -> Before {
        let Some(last) = self.records.checked_sub(1).and_then(|last| self.record(last)) else {
            return self.count_from(Before::default(), Stream::Stdout, self.start());
        };
        match last.kind {
            Kind::Output(stream) => self.count_from(last.before, stream, last.offset),
            Kind::Gap => last.before,
        }
    }

    /// Counts the bytes from `offset` to the end as bytes of `stream`.
    fn count_from(&self, mut before: Before, stream: Stream, mut offset: u64) -> Before {
        let mut buffer = vec![0; PIECE as usize];
        while offset < self.end() {
            match self.read_at(&mut buffer, offset) {
                Ok(count @ 1..) => {
                    before.advance(stream, offset, &buffer[..count]);
                    offset += count as u64;
                }
                _ => break,
            }
        }
        before
    }

    /// Reads the index record with this number; `None` if it is damaged.
    fn record(&self, number: u64) -> Option<Record> {
        let mut bytes = [0; RECORD_BYTES];
        self.index.as_ref()?.read_exact_at(&mut bytes, number * RECORD_BYTES as u64).ok()?;
        Record::from_bytes(&bytes)
    }

    /// Returns the number of the last record for which `is_before` holds, given that it holds for all before it.
    fn last_record(&self, is_before: impl Fn(&Record) -> bool) -> Option<u64> {
        let (mut low, mut high) = (0, self.records);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.record(middle).is_some_and(|record| is_before(&record)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    /// Reads bytes of the log from one segment.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(&(start, length)) = self.segments.iter().rev().find(|&&(start, _)| start <= offset) else {
            return Ok(0);
        };
        let room =
            usize::try_from((start + length).saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        let reopened;
        let file = match &self.open {
            Some((open, file)) if *open == start => file,
            _ => {
                reopened = File::open(self.path.join(segment::name(start)))?;
                &reopened
            }
        };
        file.read_at(&mut buffer[..room], offset - start)
    }

    /// Reads the piece at `offset`: bytes of one stream, as many as there are in one chunk and one read, or the hole that
    /// is there. `None` at the end.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn piece(&mut self, offset: u64) -> io::Result<Option<Piece>> {
        if offset < self.start() {
            return Ok(Some(Piece::Gone { from: offset, to: self.start() }));
        }
        if offset >= self.end() {
            return Ok(None);
        }
        let number = self.last_record(|record| record.offset <= offset);
        let record = number.and_then(|number| self.record(number)).filter(|record| record.kind != Kind::Gap);
        let next = number.map_or(0, |number| number + 1);
        let chunk_end =
            if next < self.records { self.record(next).map(|record| record.offset) } else { None };
        let length = chunk_end.unwrap_or(self.end()).min(self.end()).saturating_sub(offset).min(PIECE);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.keep_open(offset);
        let count = match self.read_at(&mut bytes, offset) {
            Ok(count) => count,
            // The segment was dropped since the last look.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.refresh()?;
                return Ok((offset < self.start()).then(|| Piece::Gone { from: offset, to: self.start() }));
            }
            Err(error) => return Err(error),
        };
        if count == 0 {
            return Ok(None);
        }
        bytes.truncate(count);
        let stream = record.and_then(|record| match record.kind {
            Kind::Output(stream) => Some(stream),
            Kind::Gap => None,
        });
        Ok(Some(Piece::Output { stream, time: record.map(|record| record.time), offset, bytes }))
    }

    /// Keeps the segment with `offset` open between reads.
    fn keep_open(&mut self, offset: u64) {
        let start = self.segments.iter().rev().find(|&&(start, _)| start <= offset).map(|&(start, _)| start);
        if let Some(start) = start
            && self.open.as_ref().is_none_or(|&(open, _)| open != start)
        {
            self.open = File::open(self.path.join(segment::name(start))).ok().map(|file| (start, file));
        }
    }

    /// Returns the last `count` lines, of one stream or of both, unfinished ones included.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn tail(&mut self, count: u64, stream: Option<Stream>) -> io::Result<Vec<Line>> {
        let before = self.before_end();
        let lines_of = |before: &Before| match stream {
            Some(stream) => before.lines[stream.index()],
            None => before.all_lines(),
        };
        let is_wanted = |candidate: Stream| stream.is_none_or(|stream| stream == candidate);
        let unfinished = [Stream::Stdout, Stream::Stderr]
            .into_iter()
            .filter(|&open| is_wanted(open) && before.open[open.index()].is_some())
            .count() as u64;
        let skipped = (lines_of(&before) + unfinished).saturating_sub(count);
        let from = self.last_record(|record| lines_of(&record.before) <= skipped).unwrap_or(0);
        let mut lines = self.lines_from_record(from)?;
        lines.retain(|line| is_wanted(line.stream));
        let surplus = lines.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        lines.drain(..surplus);
        Ok(lines)
    }

    /// Returns what puts together the lines that end after `offset`, with the beginnings of those that are unfinished
    /// there.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn assembler_at(&mut self, offset: u64) -> io::Result<Assembler> {
        let Some(record) =
            self.last_record(|record| record.offset <= offset).and_then(|number| self.record(number))
        else {
            return Ok(Assembler::default());
        };
        let mut assembler = self.assembler_before(&record)?;
        let mut place = record.offset;
        while place < offset {
            let Some(Piece::Output { stream, time, bytes, .. }) = self.piece(place)? else { break };
            let length = (bytes.len() as u64).min(offset - place);
            let part = &bytes[..usize::try_from(length).unwrap_or(0)];
            assembler.push(stream.unwrap_or(Stream::Stdout), time, part, |_| {});
            place += length;
        }
        Ok(assembler)
    }

    fn assembler_before(&mut self, record: &Record) -> io::Result<Assembler> {
        let mut assembler = Assembler::at(&record.before);
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(open) = record.before.open[stream.index()] {
                let (bytes, cut) = self.stream_bytes(stream, open, record.offset)?;
                assembler.resume(stream, &bytes, cut);
            }
        }
        Ok(assembler)
    }

    /// Returns all lines that end at or after the record with this number, unfinished ones included.
    fn lines_from_record(&mut self, number: u64) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        let (mut assembler, mut offset) = match self.record(number) {
            Some(record) => (self.assembler_before(&record)?, record.offset),
            None => (Assembler::default(), self.start()),
        };
        while let Some(piece) = self.piece(offset)? {
            match piece {
                Piece::Output { stream, time, bytes, .. } => {
                    offset += bytes.len() as u64;
                    assembler.push(stream.unwrap_or(Stream::Stdout), time, &bytes, |line| lines.push(line));
                }
                Piece::Gone { to, .. } => offset = to,
            }
        }
        lines.extend(assembler.unfinished());
        Ok(lines)
    }

    /// Collects the bytes of one stream in a range, at most a line's worth; returns how many more there are, too.
    fn stream_bytes(&mut self, stream: Stream, from: u64, to: u64) -> io::Result<(Vec<u8>, u64)> {
        let (mut collected, mut cut) = (Vec::new(), 0);
        let mut offset = from;
        while offset < to {
            match self.piece(offset)? {
                Some(Piece::Output { stream: of, bytes, .. }) => {
                    let length = (bytes.len() as u64).min(to - offset);
                    if of == Some(stream) {
                        let room = (MAX_LINE - collected.len()).min(length as usize);
                        collected.extend_from_slice(&bytes[..room]);
                        cut += length - room as u64;
                    }
                    offset += length;
                }
                Some(Piece::Gone { to, .. }) => offset = to,
                None => break,
            }
        }
        Ok((collected, cut))
    }
}
