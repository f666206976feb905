//! Writing output to the log and its index.
//!
//! Order: first the index record, then the bytes, so that a byte in the log always has its stream. What cannot be written
//! is counted and recorded as a gap as soon as there is room again; the command is never made to wait for the disk.
//!
//! The bytes go from the command's pipe to one that only the keeper fills, and from there into the log, inside the kernel: a keeper
//! that is killed between any two instructions loses none and repeats none. What is in the log is read back to be counted.

mod resume;
mod transit;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use outlive_core::index::{Chunker, RECORD_BYTES, Record, Stream};
use outlive_core::outcome::Totals;
use outlive_core::segment;
use outlive_core::terminal::size::TerminalSize;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point};
use outlive_sys::{durable, pipe};

pub(crate) use transit::{Taken, Transit};

use crate::guard::{Custody, Word};

/// A cap is kept in this many segments, so that dropping the oldest costs at most this part of it.
const SEGMENTS: u64 = 8;

/// Segments are not made smaller than this, however small the cap.
const SMALLEST_SEGMENT: u64 = 4 << 10;

pub(crate) struct Recorder {
    index: File,
    index_end: u64,
    /// How much of its front was given back.
    forgotten: u64,
    log: File,
    /// The segments that are there, the current one last.
    segments: VecDeque<Segment>,
    chunker: Chunker,
    cap: Option<u64>,
    /// Bytes that were lost and have no gap in the index yet, and when the first of them was.
    unrecorded: u64,
    lost_since: Timestamp,
    /// The size of the terminal.
    size: Option<TerminalSize>,
    /// Whether output was dropped for the cap, and the event of it written.
    flood: Flood,
    custody: Custody,
}

/// Whether output was dropped for the cap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flood {
    No,
    /// It was, and there is no event of it yet.
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

/// The front of the index is given back once it is this part of a segment: a file system may write all of the index out
/// before, which a fast command would have to wait for at each segment.
const FORGET_PART: u64 = 64;

/// Room in the index is taken in such steps ahead of need, so that a gap can be recorded on a full disk.
const INDEX_STEP: u64 = 4096;

impl Recorder {
    /// Takes over the empty index and first segment.
    pub(crate) fn new(index: File, log: File, cap: Option<u64>, custody: Custody) -> Self {
        durable::reserve(&index, 0, INDEX_STEP);
        Self {
            index,
            index_end: 0,
            forgotten: 0,
            log,
            segments: VecDeque::from([Segment { start: 0, index_start: 0 }]),
            chunker: Chunker::default(),
            cap,
            unrecorded: 0,
            lost_since: Timestamp(0),
            size: None,
            flood: Flood::No,
            custody,
        }
    }

    /// Records what the transit pipe holds. `seen` gets the bytes, and where the log ends after them.
    pub(crate) fn record(
        &mut self,
        dir: impl AsFd,
        Taken { transit, stream, mut count }: Taken<'_>,
        buffer: &mut [u8],
        now: Timestamp,
        mut seen: impl FnMut(&[u8], u64),
    ) {
        while count > 0 {
            let room = usize::try_from(self.segment_room(&dir, now)).unwrap_or(usize::MAX);
            let part = count.min(room);
            if self.keep(stream, transit, part, buffer, now, &mut seen) {
                count -= part;
                continue;
            }
            // There is no room: what is left cannot be kept.
            if self.unrecorded == 0 {
                self.lost_since = now;
                self.custody.set(Word::LostSince, now.0);
            }
            self.custody.set(Word::Discarding, self.unrecorded + transit.held() as u64);
            self.discard(transit, buffer, seen);
            return;
        }
    }

    /// Throws away what the transit pipe holds, and counts it: the count that is then to be reached was noted before.
    pub(crate) fn discard(&mut self, transit: &Transit, buffer: &mut [u8], mut seen: impl FnMut(&[u8], u64)) {
        transit.discard(buffer, |bytes| seen(bytes, self.chunker.end));
        self.unrecorded = self.custody.get(Word::Discarding);
        self.custody.set(Word::Unrecorded, self.unrecorded);
        self.custody.set(Word::Discarding, 0);
    }

    /// Moves so many bytes into the log; `false` if not all of them could be kept.
    fn keep(
        &mut self,
        stream: Stream,
        transit: &Transit,
        count: usize,
        buffer: &mut [u8],
        now: Timestamp,
        seen: &mut impl FnMut(&[u8], u64),
    ) -> bool {
        if !self.record_gap() {
            return false;
        }
        if let Some(record) = self.chunker.record_for(stream, now)
            && !self.append(&record)
        {
            return false;
        }
        let mut kept = 0;
        while kept < count {
            let place = self.chunker.end - self.segment_start();
            let most = fault::shortened(Point::LogAppend, &buffer[..(count - kept).min(buffer.len())]).len();
            let written =
                fault::step(Point::LogAppend, || pipe::move_to_file(transit.end(), &self.log, place, most));
            match written {
                Ok(0) => return false,
                Ok(written) => {
                    // Without being read it would not be counted.
                    let read = self.log.read_exact_at(&mut buffer[..written], place);
                    let bytes = if read.is_ok() { &buffer[..written] } else { &[] };
                    self.chunker.wrote(stream, bytes);
                    seen(bytes, self.chunker.end);
                    kept += written;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Writes the record of what was lost, if anything was; `false` if there is still no room.
    pub(crate) fn record_gap(&mut self) -> bool {
        if self.unrecorded == 0 {
            return true;
        }
        let gap = self.chunker.gap(self.unrecorded, self.lost_since);
        let recorded = self.append(&gap);
        if recorded {
            self.unrecorded = 0;
            self.custody.set(Word::Unrecorded, 0);
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
    fn segment_room(&mut self, dir: impl AsFd, now: Timestamp) -> u64 {
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
        self.record_size(now);
        let surplus = self.segments.iter().take_while(|segment| end - segment.start > cap).count();
        let surplus = surplus.min(self.segments.len() - 2);
        if surplus > 0 {
            self.drop_segments(&dir, surplus);
            self.forget_index(size / FORGET_PART);
            if self.flood == Flood::No {
                self.flood = Flood::Unreported;
                self.custody.set(Word::Flood, 1);
            }
        }
        size
    }

    /// Tells, once, that the first output was dropped for the cap.
    pub(crate) fn take_flood(&mut self) -> bool {
        let is_new = self.flood == Flood::Unreported;
        if is_new {
            self.flood = Flood::Reported;
            self.custody.set(Word::Flood, 2);
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
        // A chunk begins with its segment, so that a reader that begins with the oldest segment left has a record for it.
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

    /// Gives back the part of the index that is about what was dropped, if that is `least` bytes or more.
    fn forget_index(&mut self, least: u64) {
        let Some(oldest) = self.segments.front() else { return };
        if oldest.index_start >= self.forgotten + least {
            self.forgotten = oldest.index_start;
            // Where that cannot be done it only takes room.
            fault::step(Point::IndexForget, || durable::forget_front(&self.index, self.forgotten)).ok();
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
            self.forget_index(1);
        }
        self.record_size(now);
    }

    /// Records that the terminal has this size from now on.
    pub(crate) fn resize(&mut self, size: TerminalSize, now: Timestamp) {
        self.size = Some(size);
        self.record_size(now);
    }

    /// Records the size of the terminal again where earlier records of it may be forgotten. Without room for it, readers take the
    /// size that they know.
    fn record_size(&mut self, now: Timestamp) {
        if let Some(size) = self.size {
            self.append(&self.chunker.resize(size, now));
        }
    }

    /// Returns how much of the output is kept; none: all of it.
    pub(crate) fn cap(&self) -> Option<u64> {
        self.cap
    }

    /// Returns the offset of the end of the log.
    pub(crate) fn end(&self) -> u64 {
        self.chunker.end
    }

    /// Returns what was printed so far.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.chunker.before.totals(self.chunker.end, self.index_end / RECORD_BYTES as u64);
        totals.dropped_bytes += self.unrecorded;
        totals
    }

    /// Opens all that must be synced: the index and every segment.
    pub(crate) fn files(&self, dir: impl AsFd) -> Vec<File> {
        let open = |segment: &Segment| durable::open_ro(&dir, segment::name(segment.start)).ok();
        let segments = self.segments.iter().filter_map(open);
        self.index.try_clone().into_iter().chain(segments).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use outlive_core::index::{CHUNK_MICROS, Kind};

    const INDEX: &str = "index";

    fn recorder(home: &Path, cap: Option<u64>) -> (Recorder, OwnedFd) {
        let dir = durable::open_dir(home).unwrap();
        let create = |name: &str| durable::create_new(&dir, name).unwrap();
        (Recorder::new(create(INDEX), create(&segment::name(0)), cap, Custody::new().unwrap()), dir)
    }

    /// Records these bytes, as if a stream had printed them.
    fn record(recorder: &mut Recorder, dir: &OwnedFd, stream: Stream, bytes: &[u8], now: Timestamp) {
        let transit = Transit::new().unwrap();
        for part in bytes.chunks(pipe::DEFAULT_CAPACITY) {
            transit.put(part);
            let taken = Taken { transit: &transit, stream, count: part.len() };
            recorder.record(dir, taken, &mut [0; 4096], now, |_, _| ());
        }
    }

    /// Reads the records that the index has; those that were given back are zeros.
    fn records(home: &Path) -> Vec<(u64, Kind)> {
        let bytes = std::fs::read(home.join(INDEX)).unwrap();
        let records = bytes.as_chunks::<RECORD_BYTES>().0.iter().filter_map(Record::from_bytes);
        records.map(|record| (record.offset, record.kind)).collect()
    }

    /// Returns the segments that are there, the oldest first: where each begins, and its bytes.
    fn segments(home: &Path) -> Vec<(u64, Vec<u8>)> {
        let names =
            std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut starts: Vec<u64> = names.filter_map(|name| segment::offset(&name)).collect();
        starts.sort_unstable();
        starts.iter().map(|&start| (start, std::fs::read(home.join(segment::name(start))).unwrap())).collect()
    }

    /// A file that takes no byte, as on a full disk.
    fn full() -> File {
        File::open("/dev/null").unwrap()
    }

    const OUT: Kind = Kind::Output(Stream::Stdout);
    const ERR: Kind = Kind::Output(Stream::Stderr);

    #[test]
    fn a_chunk_begins_with_another_stream_or_a_later_time() {
        let home = tempfile::tempdir().unwrap();
        let (mut recorder, dir) = recorder(home.path(), None);
        let later = Timestamp(CHUNK_MICROS);
        for (stream, text, now) in [
            (Stream::Stdout, "one\n", Timestamp(0)),
            (Stream::Stdout, "two\n", Timestamp(0)),
            (Stream::Stderr, "three\n", Timestamp(0)),
            (Stream::Stdout, "four", later),
            (Stream::Stdout, "", later),
            (Stream::Stdout, "five", Timestamp(2 * CHUNK_MICROS)),
        ] {
            record(&mut recorder, &dir, stream, text.as_bytes(), now);
        }
        assert_eq!(records(home.path()), [(0, OUT), (8, ERR), (14, OUT), (18, OUT)]);
        assert_eq!(segments(home.path()), [(0, b"one\ntwo\nthree\nfourfive".to_vec())]);
        let totals = recorder.totals();
        assert_eq!((totals.bytes, totals.stdout_lines, totals.stderr_lines), (22, 2, 1));
        assert_eq!((totals.index_records, totals.dropped_bytes), (4, 0));
    }

    #[test]
    fn the_oldest_segments_go_when_the_cap_is_reached() {
        let home = tempfile::tempdir().unwrap();
        let cap = SEGMENTS * SMALLEST_SEGMENT;
        let (mut recorder, dir) = recorder(home.path(), Some(cap));
        let printed: Vec<u8> = (0..3 * cap).map(|at| (at / 100) as u8).collect();
        let mut floods = 0;
        for part in printed.chunks(1000) {
            record(&mut recorder, &dir, Stream::Stdout, part, Timestamp(0));
            floods += u32::from(recorder.take_flood());
        }
        let left = segments(home.path());
        let kept: u64 = left.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        assert!((cap - SMALLEST_SEGMENT..=cap + SMALLEST_SEGMENT).contains(&kept), "{kept} of {cap}");
        for (start, bytes) in &left {
            let start = usize::try_from(*start).unwrap();
            assert!(bytes[..] == printed[start..start + bytes.len()], "each byte is where it belongs");
        }
        // The index begins with the oldest segment that is left, and each segment with a record.
        let records = records(home.path());
        let starts: Vec<u64> = left.iter().map(|(start, _)| *start).collect();
        assert!(starts.iter().all(|&start| records.contains(&(start, OUT))), "{starts:?} {records:?}");
        assert_eq!(floods, 1, "it is reported once");
        assert_eq!(recorder.totals().bytes, 3 * cap);
        assert_eq!(recorder.totals().dropped_bytes, 0, "dropped for the cap is not lost");
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_counted_and_becomes_a_gap() {
        let home = tempfile::tempdir().unwrap();
        let (mut recorder, dir) = recorder(home.path(), None);
        let now = Timestamp(0);
        record(&mut recorder, &dir, Stream::Stdout, b"kept\n", now);
        // First only the log has no room, then the index has none either.
        let log = std::mem::replace(&mut recorder.log, full());
        record(&mut recorder, &dir, Stream::Stdout, b"lost\n", Timestamp(50));
        let index = std::mem::replace(&mut recorder.index, full());
        record(&mut recorder, &dir, Stream::Stderr, b"lost too\n", Timestamp(60));
        assert_eq!((recorder.totals().dropped_bytes, recorder.totals().bytes), (14, 5));
        assert!(!recorder.record_gap(), "there is no room for the gap");
        (recorder.index, recorder.log) = (index, log);
        record(&mut recorder, &dir, Stream::Stdout, b"back\n", Timestamp(70));
        assert_eq!(records(home.path()), [(0, OUT), (5, Kind::Gap), (5, OUT)]);
        let gap = std::fs::read(home.path().join(INDEX)).unwrap()[RECORD_BYTES..][..RECORD_BYTES].try_into();
        let gap = Record::from_bytes(&gap.unwrap()).unwrap();
        assert_eq!(gap.time, Timestamp(50), "the gap has the time at which the loss began");
        assert_eq!(segments(home.path()), [(0, b"kept\nback\n".to_vec())]);
        let totals = recorder.totals();
        assert_eq!((totals.dropped_bytes, totals.bytes, totals.stdout_lines), (14, 10, 2));
        assert!(recorder.record_gap() && records(home.path()).len() == 3, "there is no second gap");
    }

    #[test]
    fn without_room_for_a_segment_the_current_one_grows() {
        let home = tempfile::tempdir().unwrap();
        let (mut recorder, dir) = recorder(home.path(), Some(SMALLEST_SEGMENT));
        let part = vec![b'x'; usize::try_from(SMALLEST_SEGMENT).unwrap()];
        // The next segment's name is taken.
        std::fs::write(home.path().join(segment::name(SMALLEST_SEGMENT)), "").unwrap();
        record(&mut recorder, &dir, Stream::Stdout, &part, Timestamp(0));
        record(&mut recorder, &dir, Stream::Stdout, &part, Timestamp(0));
        assert_eq!(segments(home.path())[0].1.len(), 2 * part.len());
        assert_eq!(recorder.totals().dropped_bytes, 0);
    }

    #[test]
    fn clearing_forgets_bytes_and_keeps_counts() {
        let home = tempfile::tempdir().unwrap();
        let (mut recorder, dir) = recorder(home.path(), None);
        record(&mut recorder, &dir, Stream::Stdout, b"one\ntwo\n", Timestamp(0));
        recorder.clear(&dir, Timestamp(0));
        recorder.clear(&dir, Timestamp(0));
        record(&mut recorder, &dir, Stream::Stdout, b"three\n", Timestamp(0));
        assert_eq!(segments(home.path()), [(8, b"three\n".to_vec())]);
        assert_eq!((recorder.totals().bytes, recorder.totals().stdout_lines), (14, 3));
        assert_eq!(recorder.files(&dir).len(), 2, "the index and one segment");
    }
}
