//! Writing output to the log and its index.
//!
//! Order: first the index record, then the bytes, so that a byte in the log always has its stream. What cannot be written
//! is counted and recorded as a gap as soon as there is room again; the command is never made to wait for the disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use outlive_core::index::{Chunker, RECORD_BYTES, Record, Stream};
use outlive_core::outcome::Totals;
use outlive_core::segment;
use outlive_core::timestamp::Timestamp;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

/// A cap is kept in this many segments, so that dropping the oldest costs at most this part of it.
const SEGMENTS: u64 = 8;

/// Segments are not made smaller than this, however small the cap.
const SMALLEST_SEGMENT: u64 = 4 << 10;

pub(crate) struct Recorder {
    index: File,
    index_end: u64,
    log: File,
    /// The segments that are there, the current one last.
    segments: VecDeque<Segment>,
    chunker: Chunker,
    cap: Option<u64>,
    /// Bytes that were lost and of which the index does not yet say so.
    unrecorded: u64,
    /// Whether output was dropped for the cap, and somebody told of it.
    flood: Flood,
}

/// Whether output was dropped for the cap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flood {
    No,
    /// It was, and nobody was told.
    Unreported,
    Reported,
}

/// A segment of the log.
#[derive(Clone, Copy)]
struct Segment {
    /// The offset of its first byte.
    start: u64,
    /// Where in the index its first record is.
    index_start: u64,
}

/// Room in the index is taken in such steps ahead of need, so that a gap can be recorded on a full disk.
const INDEX_STEP: u64 = 4096;

impl Recorder {
    /// Takes over the empty index and first segment.
    pub(crate) fn new(index: File, log: File, cap: Option<u64>) -> Self {
        durable::reserve(&index, 0, INDEX_STEP);
        Self {
            index,
            index_end: 0,
            log,
            segments: VecDeque::from([Segment { start: 0, index_start: 0 }]),
            chunker: Chunker::default(),
            cap,
            unrecorded: 0,
            flood: Flood::No,
        }
    }

    /// Records what was read from a stream.
    pub(crate) fn record(&mut self, dir: impl AsFd, stream: Stream, mut bytes: &[u8], now: Timestamp) {
        while !bytes.is_empty() {
            let room = usize::try_from(self.segment_room(&dir)).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            let kept = self.keep(stream, part, now);
            self.unrecorded += (part.len() - kept) as u64;
            bytes = rest;
        }
    }

    /// Returns how many of the bytes could be kept.
    fn keep(&mut self, stream: Stream, bytes: &[u8], now: Timestamp) -> usize {
        if !self.record_gap(now) {
            return 0;
        }
        if let Some(record) = self.chunker.record_for(stream, now)
            && !self.append(&record)
        {
            return 0;
        }
        let mut kept = 0;
        while kept < bytes.len() {
            let place = self.chunker.end - self.segment_start();
            let written = fault::step(Point::LogAppend, || {
                self.log.write_at(fault::shortened(Point::LogAppend, &bytes[kept..]), place)
            });
            match written {
                Ok(0) => break,
                Ok(written) => {
                    self.chunker.wrote(stream, &bytes[kept..kept + written]);
                    kept += written;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        kept
    }

    /// Writes the record of what was lost, if anything was; `false` if there is still no room.
    pub(crate) fn record_gap(&mut self, now: Timestamp) -> bool {
        if self.unrecorded == 0 {
            return true;
        }
        let gap = self.chunker.gap(self.unrecorded, now);
        let recorded = self.append(&gap);
        if recorded {
            self.unrecorded = 0;
        }
        recorded
    }

    /// Appends a record to the index; `false` if there is no room. A part of a record that was written is overwritten
    /// by the next attempt, and ignored by readers until then.
    fn append(&mut self, record: &Record) -> bool {
        let bytes = record.to_bytes();
        let appended = fault::write_all_at(Point::IndexAppend, &self.index, &bytes, self.index_end).is_ok();
        if appended {
            self.index_end += RECORD_BYTES as u64;
            if self.index_end.is_multiple_of(INDEX_STEP) {
                durable::reserve(&self.index, self.index_end, INDEX_STEP);
            }
            self.chunker.began(record);
        }
        appended
    }

    fn segment_start(&self) -> u64 {
        self.segments.back().map_or(0, |segment| segment.start)
    }

    /// Returns how much the current segment takes, after beginning a new one where it is full and dropping the oldest
    /// ones beyond the cap.
    fn segment_room(&mut self, dir: impl AsFd) -> u64 {
        let Some(cap) = self.cap else { return u64::MAX };
        let size = (cap / SEGMENTS).max(SMALLEST_SEGMENT);
        let (end, current) = (self.chunker.end, self.segment_start());
        if end - current < size {
            return size - (end - current);
        }
        // Without room for a new segment the current one grows on: a cap passed is better than output lost.
        if !self.begin_segment(&dir) {
            return u64::MAX;
        }
        let surplus = self.segments.iter().take_while(|segment| end - segment.start > cap).count();
        let surplus = surplus.min(self.segments.len() - 2);
        if surplus > 0 {
            self.drop_segments(&dir, surplus);
            self.forget_index();
            if self.flood == Flood::No {
                self.flood = Flood::Unreported;
            }
        }
        size
    }

    /// Tells, once, that the first output was dropped for the cap.
    pub(crate) fn take_flood(&mut self) -> bool {
        let is_new = self.flood == Flood::Unreported;
        if is_new {
            self.flood = Flood::Reported;
        }
        is_new
    }

    /// Begins a new segment; `false` if there is no room for one.
    fn begin_segment(&mut self, dir: impl AsFd) -> bool {
        let start = self.chunker.end;
        let made = fault::step(Point::SegmentMake, || durable::create_new(&dir, &segment::name(start)));
        let Ok(next) = made else { return false };
        self.log = next;
        self.segments.push_back(Segment { start, index_start: self.index_end });
        // A chunk begins with its segment, so that whoever reads from the first segment that is left knows where it is.
        self.chunker.interrupt();
        true
    }

    /// Drops the oldest segments.
    fn drop_segments(&mut self, dir: impl AsFd, count: usize) {
        for _ in 0..count {
            let Some(oldest) = self.segments.front() else { break };
            let name = segment::name(oldest.start);
            if fault::step(Point::SegmentDrop, || durable::remove(&dir, &name)).is_err() {
                break;
            }
            self.segments.pop_front();
        }
    }

    /// Gives back the part of the index that is about what was dropped.
    fn forget_index(&self) {
        if let Some(oldest) = self.segments.front().filter(|oldest| oldest.index_start > 0) {
            // Where that cannot be done it only takes room.
            fault::step(Point::IndexForget, || durable::forget_front(&self.index, oldest.index_start)).ok();
        }
    }

    /// Forgets the output so far. Offsets and line numbers go on.
    pub(crate) fn clear(&mut self, dir: impl AsFd, now: Timestamp) {
        if self.chunker.end > self.segment_start() && !self.begin_segment(&dir) {
            return;
        }
        self.drop_segments(&dir, self.segments.len() - 1);
        // A gap of nothing keeps the counts, which go with the records of what is forgotten. On a full disk there may be
        // room for it only now.
        let counts = self.chunker.gap(0, now);
        let index_start = self.index_end;
        if self.append(&counts) {
            if let Some(current) = self.segments.back_mut() {
                current.index_start = index_start;
            }
            self.forget_index();
        }
    }

    /// Returns what was printed so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.chunker.before.totals(self.chunker.end, self.index_end / RECORD_BYTES as u64);
        totals.dropped_bytes += self.unrecorded;
        totals
    }

    /// Opens all that must be synced: the index and every segment.
    pub(crate) fn files(&self, dir: impl AsFd) -> Vec<File> {
        let open = |segment: &Segment| durable::open_ro(&dir, &segment::name(segment.start)).ok();
        let segments = self.segments.iter().filter_map(open);
        self.index.try_clone().into_iter().chain(segments).collect()
    }
}
