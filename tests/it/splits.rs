//! Logs that are cut anywhere: any split reads the same, and what is left of one is a beginning of it.
//!
//! Proves S0-120 and S0-156 (accurate, nothing lost) on files as they could be: written in any pieces, torn anywhere. The
//! files are made by a writer of the test's own, with the order and the chunks of the keeper's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::path::PathBuf;

use outlive::{Job, Line, Output, Piece, Store, Stream, Timestamp, Totals};
use outlive_core::index::{Chunker, RECORD_BYTES};
use outlive_core::outcome::{Cause, Outcome, WaitStatus};
use outlive_core::segment;
use outlive_tests::Home;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::output::{json_lines, say, start_puppet, texts};

/// A piece that the keeper read: its stream, the time since the last piece, its bytes.
type Read = (Stream, u64, Vec<u8>);

/// A log as it stands on the disk.
#[derive(Debug, Clone, Default)]
struct Written {
    log: Vec<u8>,
    index: Vec<u8>,
    /// The stream of each byte.
    owners: Vec<Stream>,
    totals: Option<Totals>,
}

fn write(reads: &[Read]) -> Written {
    let mut written = Written::default();
    let mut chunker = Chunker::default();
    let mut now = 1_000_000;
    for (stream, later, bytes) in reads.iter().filter(|(.., bytes)| !bytes.is_empty()) {
        now += later;
        if let Some(record) = chunker.record_for(*stream, Timestamp(now)) {
            written.index.extend_from_slice(&record.to_bytes());
            chunker.began(&record);
        }
        written.log.extend_from_slice(bytes);
        written.owners.extend(bytes.iter().map(|_| *stream));
        chunker.wrote(*stream, bytes);
    }
    written.totals = Some(chunker.before.totals(chunker.end, (written.index.len() / RECORD_BYTES) as u64));
    written
}

/// A job with replaced files.
struct Fake {
    directory: PathBuf,
    store: Store,
    job: Job,
    _home: Home,
}

impl Fake {
    fn new() -> Self {
        let home = Home::new();
        let id = home.start(["true"]);
        home.wait(&id);
        let store = home.open();
        let job = store.find(&id, None).unwrap();
        Self { directory: home.job_dir(&id), store, job, _home: home }
    }

    /// Puts files in the job's place; `totals` are those of its outcome, and without them it has none.
    fn put(&self, log: &[u8], index: &[u8], totals: Option<Totals>) {
        fs::write(self.directory.join(segment::name(0)), log).unwrap();
        fs::write(self.directory.join("out.idx"), index).unwrap();
        let mut slots = vec![0; 4096];
        if let Some(totals) = totals {
            let outcome = Outcome {
                wait_status: WaitStatus::Exited { code: 0 },
                cause: Cause::Natural,
                ended: Timestamp(2_000_000),
                runtime_ms: Some(1),
                usage: None,
                totals,
            };
            slots[..2048].copy_from_slice(&outcome.to_slot());
        }
        fs::write(self.directory.join("outcome"), slots).unwrap();
    }

    fn lines(&self) -> Vec<Line> {
        Output::open(&self.job).unwrap().tail(u64::MAX, None).unwrap()
    }

    /// Returns every byte that is read, with its reported stream.
    fn bytes(&self) -> Vec<(u8, Option<Stream>)> {
        let mut output = Output::open(&self.job).unwrap();
        let mut all = Vec::new();
        while let Some(piece) = output.piece(all.len() as u64).unwrap() {
            let Piece::Output { stream, offset, bytes, .. } = piece else {
                panic!("nothing is gone: {piece:?}")
            };
            assert_eq!(offset, all.len() as u64);
            all.extend(bytes.into_iter().map(|byte| (byte, stream)));
        }
        all
    }
}

fn reads() -> impl Strategy<Value = Vec<Read>> {
    let stream = prop_oneof![Just(Stream::Stdout), Just(Stream::Stderr)];
    let bytes = prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'x'), any::<u8>()], 0..40);
    prop::collection::vec((stream, prop_oneof![Just(0), 0u64..30_000], bytes), 0..12)
}

fn check<S: Strategy>(strategy: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&strategy, test).unwrap();
}

/// What a line is but for its time, which a split may change by the length of a chunk.
fn timeless(lines: Vec<Line>) -> Vec<Line> {
    lines.into_iter().map(|line| Line { time: None, ..line }).collect()
}

/// The lines as they are defined: by their newlines, each with the bytes of its stream.
fn expected(written: &Written) -> Vec<Line> {
    let (mut open, mut lines, mut number) = ([Vec::new(), Vec::new()], Vec::new(), 0);
    let line = |number, stream, text, is_ended| Line {
        number,
        stream: Some(stream),
        time: None,
        text,
        repeated: 1,
        cut_bytes: 0,
        is_ended,
    };
    for (&byte, &stream) in written.log.iter().zip(&written.owners) {
        if byte == b'\n' {
            number += 1;
            lines.push(line(number, stream, std::mem::take(&mut open[stream.index()]), true));
        } else {
            open[stream.index()].push(byte);
        }
    }
    for (stream, text) in [Stream::Stdout, Stream::Stderr].into_iter().zip(open) {
        if !text.is_empty() {
            number += 1;
            lines.push(line(number, stream, text, false));
        }
    }
    lines
}

#[test]
fn any_split_gives_the_same_lines() {
    let fake = Fake::new();
    check((reads(), 1usize..9, 0u64..20_000), |(reads, size, later)| {
        let split: Vec<Read> = reads
            .iter()
            .flat_map(|(stream, first, bytes)| {
                let piece = |(at, part): (usize, &[u8])| {
                    (*stream, if at == 0 { *first } else { later }, part.to_vec())
                };
                bytes.chunks(size).enumerate().map(piece)
            })
            .collect();
        for reads in [&reads, &split] {
            let written = write(reads);
            for totals in [None, written.totals] {
                fake.put(&written.log, &written.index, totals);
                prop_assert_eq!(timeless(fake.lines()), expected(&written));
            }
            prop_assert_eq!(Some(Output::open(&fake.job).unwrap().totals()), written.totals);
        }
        Ok(())
    });
}

#[test]
fn every_way_to_a_line_gives_the_same_line() {
    let fake = Fake::new();
    check((reads(), 0u64..30), |(reads, count)| {
        let written = write(&reads);
        fake.put(&written.log, &written.index, written.totals);
        let all = expected(&written);
        let mut output = Output::open(&fake.job).unwrap();
        for stream in [None, Some(Stream::Stdout), Some(Stream::Stderr)] {
            let of: Vec<Line> =
                all.iter().filter(|line| stream.is_none() || line.stream == stream).cloned().collect();
            let tail = timeless(output.tail(count, stream).unwrap());
            prop_assert_eq!(&tail[..], &of[of.len().saturating_sub(usize::try_from(count).unwrap())..]);
            let everything = outlive::pattern("", false).unwrap();
            let mut found = Vec::new();
            output.find_lines(0, &everything, stream, |line| found.push(line)).unwrap();
            prop_assert_eq!(timeless(found), of);
        }
        // From each line's place on come this line and all after it.
        for line in all.iter().filter(|line| line.is_ended) {
            let mut place = output.offset_before_line(line.number);
            let mut assembler = output.assembler_at(place).unwrap();
            let mut lines = Vec::new();
            while let Some(Piece::Output { stream, time, bytes, .. }) = output.piece(place).unwrap() {
                place += bytes.len() as u64;
                assembler.push(stream, time, &bytes, |line| lines.push(line));
            }
            lines.retain(|found| found.number >= line.number);
            lines.extend(assembler.unfinished());
            let first = usize::try_from(line.number).unwrap() - 1;
            prop_assert_eq!(timeless(lines), &all[first..]);
        }
        Ok(())
    });
}

/// A crash leaves a beginning of the log, of the records that stand before it, and perhaps a part of one more.
#[test]
fn a_torn_log_reads_as_its_beginning() {
    let fake = Fake::new();
    check((reads(), any::<prop::sample::Index>(), 0usize..200), |(reads, at, more)| {
        let whole = write(&reads);
        let at = at.index(whole.log.len() + 1);
        // The records of all bytes that are there, and some that came before their bytes.
        let records = whole.index.as_chunks::<RECORD_BYTES>().0;
        let needed = records.iter().take_while(|record| offset(record) < at as u64);
        let index_end = (needed.count() * RECORD_BYTES + more).min(whole.index.len());
        fake.put(&whole.log[..at], &whole.index[..index_end], None);
        let read: Vec<_> =
            whole.log.iter().copied().zip(whole.owners.iter().copied().map(Some)).take(at).collect();
        prop_assert_eq!(fake.bytes(), read);
        let torn = Written {
            log: whole.log[..at].to_vec(),
            owners: whole.owners[..at].to_vec(),
            ..Written::default()
        };
        prop_assert_eq!(timeless(fake.lines()), expected(&torn));
        Ok(())
    });
}

fn offset(record: &[u8; RECORD_BYTES]) -> u64 {
    u64::from_le_bytes(record[..8].try_into().unwrap())
}

/// Damage takes any part of the index: the bytes are never in doubt, and none is said to be of a stream that it is not of.
#[test]
fn no_truncation_or_damage_gives_a_byte_to_another_stream() {
    let fake = Fake::new();
    let places = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::option::of(any::<prop::sample::Index>()),
    );
    check((reads(), places), |(reads, (log_end, index_end, flipped))| {
        let whole = write(&reads);
        let log_end = log_end.index(whole.log.len() + 1);
        let mut index = whole.index[..index_end.index(whole.index.len() + 1)].to_vec();
        if let (Some(flipped), false) = (flipped, index.is_empty()) {
            let place = flipped.index(index.len());
            index[place] ^= 0x40;
        }
        fake.put(&whole.log[..log_end], &index, whole.totals);
        let read = fake.bytes();
        prop_assert_eq!(read.iter().map(|&(byte, _)| byte).collect::<Vec<_>>(), &whole.log[..log_end]);
        for (place, ((_, said), owner)) in read.iter().zip(&whole.owners).enumerate() {
            prop_assert!(said.is_none_or(|said| said == *owner), "byte {place} is said to be of {said:?}");
        }
        // All of them are in the lines too, whatever is known about them.
        let lines = fake.lines();
        let newlines = whole.log[..log_end].iter().filter(|&&byte| byte == b'\n').count();
        prop_assert_eq!(lines.iter().filter(|line| line.is_ended).count(), newlines);
        let length: usize = lines.iter().map(|line| line.text.len()).sum();
        prop_assert_eq!(length + newlines, log_end);
        prop_assert!(lines.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
        Ok(())
    });
    // It is a job like any other for all that.
    assert_eq!(fake.store.list(None).unwrap().jobs.len(), 1);
}

#[test]
fn a_log_without_index_is_read_with_nothing_known_but_its_bytes() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\n", "one");
    say(&home, &job, "err two\\n", "two");
    home.run(["send", "--eof", &job, "out three"]).ok();
    home.wait(&job);
    let raw = home.logs(&job);
    fs::remove_file(home.job_dir(&job).join("out.idx")).unwrap();
    assert_eq!(home.logs(&job), raw);
    let lines = json_lines(&home, &[&job]);
    assert_eq!(texts(&lines), ["one", "two", "three"]);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(
            (&line["line"], &line["stream"], &line["time"]),
            (&(number + 1).into(), &().into(), &().into())
        );
    }
    assert_eq!(home.run(["logs", "-n", "1", &job]).ok().text(), "three");
    assert_eq!(home.run(["logs", "--from-line", "2", "-n", "1", &job]).ok().text(), "two\n");
    assert_eq!(home.run(["logs", "--grep", "^t", &job]).ok().text(), "two\nthree");
}
