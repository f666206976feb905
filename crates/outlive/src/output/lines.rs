//! Output as lines: where the last lines begin, and how lines are assembled from any offset.

use std::io;

use memchr::{memchr_iter, memrchr_iter};
use outlive_core::index::{Before, Kind, Record, Stream};
use outlive_core::lines::{Assembler, Line, MAX_LINE};
use outlive_core::timestamp::Timestamp;

use crate::output::{Output, PIECE, Piece};

/// How much is read at once to look back from the end: a hundred lines are mostly shorter.
const LOOK_BACK: usize = 32 << 10;

impl Output {
    /// Returns the offset at which the last `count` lines begin, of one stream or of both, unfinished lines included.
    pub fn offset_before_tail(&self, count: u64, stream: Option<Stream>) -> u64 {
        self.offset_in_last_chunk(count, stream).unwrap_or_else(|| self.offset_by_index(count, stream))
    }

    /// Finds where the last lines begin without counting those before them: by looking back from the end, no further than the
    /// last chunk, which is of one stream. `None` if they begin before it, or another stream may have one of them.
    fn offset_in_last_chunk(&self, count: u64, stream: Option<Stream>) -> Option<u64> {
        let Record { kind: Kind::Output(of), before, offset, .. } = self.newest_record()? else {
            return None;
        };
        let other = 1 - of.index();
        if stream.map_or(before.open[other].is_some(), |stream| stream != of) {
            return None;
        }
        let mut buffer = vec![0; LOOK_BACK];
        let (first, mut place) = (offset.max(self.start()), self.end());
        // The newline after which the wanted lines begin, counted from the end. That of the last line itself comes before it,
        // unless the last line is unfinished.
        let mut wanted = count;
        while place > first {
            let length = (place - first).min(LOOK_BACK as u64) as usize;
            let block = &mut buffer[..length];
            let from = place - length as u64;
            // A chunk is in one segment. What was cut short or removed meanwhile is left to the index.
            if self.read_at(block, from).ok()? != length {
                return None;
            }
            let is_finished = place == self.end() && block.ends_with(b"\n");
            wanted = wanted.saturating_add(u64::from(is_finished));
            for newline in memrchr_iter(b'\n', block) {
                wanted = wanted.checked_sub(1)?;
                if wanted == 0 {
                    return Some(from + newline as u64 + 1);
                }
            }
            place = from;
        }
        None
    }

    /// Finds where the last lines begin by the counts of the index, and those after its last record.
    fn offset_by_index(&self, count: u64, stream: Option<Stream>) -> u64 {
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
        let number = self.last_record(|record| lines_of(&record.before) <= skipped);
        match number.and_then(|number| self.record(number)).filter(|record| record.offset >= self.start()) {
            // Lines of the chunk that are not wanted are passed over, which costs far less than putting them together.
            Some(Record { kind: Kind::Output(of), before, offset, .. }) if is_wanted(of) => {
                self.offset_after_lines(offset, skipped - lines_of(&before))
            }
            record => record.map_or(self.start(), |record| record.offset),
        }
    }

    /// Returns the offset after so many newlines from `offset` on.
    fn offset_after_lines(&self, mut offset: u64, mut lines: u64) -> u64 {
        let mut buffer = vec![0; PIECE as usize];
        while lines > 0
            && let Ok(count @ 1..) = self.read_at(&mut buffer, offset)
        {
            let newlines = memchr_iter(b'\n', &buffer[..count]);
            match newlines.enumerate().find_map(|(before, at)| (before as u64 + 1 == lines).then_some(at)) {
                Some(last) => return offset + last as u64 + 1,
                None => lines -= memchr_iter(b'\n', &buffer[..count]).count() as u64,
            }
            offset += count as u64;
        }
        offset
    }

    /// Returns the last `count` lines, of one stream or of both, unfinished lines included.
    pub fn tail(&mut self, count: u64, stream: Option<Stream>) -> io::Result<Vec<Line>> {
        let mut lines =
            self.with_steady_index(|output| output.lines_from(output.offset_before_tail(count, stream)))?;
        lines.retain(|line| stream.is_none() || line.stream == stream);
        let surplus = lines.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        lines.drain(..surplus);
        Ok(lines)
    }

    /// Returns an assembler for the lines that end after `offset`; it has the beginnings of the unfinished ones.
    pub fn assembler_at(&mut self, offset: u64) -> io::Result<Assembler> {
        self.with_steady_index(|output| output.assembler_as_known(offset))
    }

    /// Repeats `act` if it discovers damage in the index: its result must rest on one view of the index.
    fn with_steady_index<T>(&mut self, mut act: impl FnMut(&mut Self) -> io::Result<T>) -> io::Result<T> {
        loop {
            let trusted = self.is_damaged.get().then(|| self.records.get());
            let done = act(self)?;
            if self.is_damaged.get().then(|| self.records.get()) == trusted {
                return Ok(done);
            }
        }
    }

    fn assembler_as_known(&mut self, offset: u64) -> io::Result<Assembler> {
        let number = self.last_record(|record| record.offset <= offset);
        let Some(record) = number.and_then(|number| self.record(number)) else {
            return Ok(Assembler::default());
        };
        let mut assembler = Assembler::at(&record.before);
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(open) = record.before.open[stream.index()] {
                let (bytes, cut, time) = self.stream_bytes(stream, open, record.offset)?;
                assembler.resume(stream, time, &bytes, cut);
            }
        }
        let mut place = record.offset;
        while let Some(Piece::Output { stream, time, lost_before, bytes, .. }) =
            self.next_piece(&mut place, offset)?
        {
            lost_before.inspect(|_| assembler.tear(|_| {}));
            assembler.pass_over(stream, time, &bytes);
        }
        Ok(assembler)
    }

    /// Returns all lines that end after `offset`, unfinished lines included.
    fn lines_from(&mut self, offset: u64) -> io::Result<Vec<Line>> {
        let mut lines = Vec::new();
        self.each_line(offset, |line| lines.push(line))?;
        Ok(lines)
    }

    /// Passes on all lines that end after `offset`, unfinished ones last. What is printed meanwhile is left to the next look: a job
    /// that prints faster than this reads would hold it for ever.
    pub fn each_line(&mut self, mut offset: u64, mut take: impl FnMut(Line)) -> io::Result<()> {
        let mut assembler = self.assembler_at(offset)?;
        let end = self.end();
        while let Some(piece) = self.next_piece(&mut offset, end)? {
            if let Piece::Output { stream, time, lost_before, bytes, .. } = piece {
                lost_before.inspect(|_| assembler.tear(&mut take));
                assembler.push(stream, time, &bytes, &mut take);
            }
        }
        assembler.unfinished().into_iter().for_each(take);
        Ok(())
    }

    /// Collects the bytes of one stream in a range, at most a line's worth; returns how many are missing, and when the last
    /// came.
    fn stream_bytes(
        &mut self,
        stream: Stream,
        from: u64,
        to: u64,
    ) -> io::Result<(Vec<u8>, u64, Option<Timestamp>)> {
        let (mut collected, mut cut, mut last) = (Vec::new(), 0, None);
        let mut offset = from;
        while let Some(piece) = self.next_piece(&mut offset, to)? {
            if matches!(piece, Piece::Output { lost_before: Some(_), .. }) {
                // What came before the loss is a line apart.
                (collected, cut) = (Vec::new(), 0);
            }
            match piece {
                Piece::Output { stream: of, time, bytes, .. } if of == Some(stream) => {
                    last = time;
                    let room = (MAX_LINE - collected.len()).min(bytes.len());
                    collected.extend_from_slice(&bytes[..room]);
                    cut += (bytes.len() - room) as u64;
                }
                Piece::Output { .. } => {}
                Piece::Gone { from, to: there } => {
                    let end = there.min(to);
                    // Without index records the line still counts as cut, by at most this much.
                    cut += match self.stream_length(stream, from, end) {
                        0 => end - from,
                        length => length,
                    };
                }
            }
        }
        Ok((collected, cut, last))
    }

    /// Returns the number of bytes of one stream in a range, from the index alone.
    fn stream_length(&self, stream: Stream, from: u64, to: u64) -> u64 {
        let mut number = self.last_record(|record| record.offset <= from);
        let mut length = 0;
        while let Some(record) =
            number.and_then(|number| self.record(number)).filter(|record| record.offset < to)
        {
            number = number.map(|number| number + 1);
            let end = number.and_then(|number| self.record(number)).map_or(to, |next| next.offset);
            if record.kind == Kind::Output(stream) {
                length += end.min(to).saturating_sub(record.offset.max(from));
            }
        }
        length
    }
}
