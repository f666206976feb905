//! What happened to a session's jobs: the records of `sessions/<name>/events`.
//!
//! Every writer appends whole records with one write, so that none is cut by another. A record begins and ends with a newline:
//! whatever a full disk or a crash left of the one before, the next one stands alone. A fact has a key, and readers
//! drop repeats. The sequence of an event is the offset of its record, which never changes; the front of a long file is
//! given back to the disk and reads as zeros. After zeros or garbage reading goes on with the next whole record.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::awaits::AwaitedKind;
use crate::id::{JobId, Nonce, SessionName};
use crate::newer::OrNewer;
use crate::outcome::{Outcome, WaitStatus};
use crate::status::Status;
use crate::timestamp::Timestamp;

words! {
    /// What happened.
    pub enum Kind {
        /// Its command runs.
        Started = "started",
        /// All conditions hold under which it counts as ready.
        Ready = "ready",
        /// The check of its health has failed too often.
        Unhealthy = "unhealthy",
        /// It holds again.
        Healthy = "healthy",
        /// A file has changed, and it is restarted.
        Changed = "changed",
        /// Its files are not watched any more; the text says why.
        Unwatched = "unwatched",
        /// It printed more than its cap, and the oldest output was dropped.
        OutputFlood = "output_flood",
        /// A limit is nearly reached.
        LimitNear = "limit_near",
        /// One of its processes was ended for want of memory; the others may go on.
        OutOfMemory = "out_of_memory",
        /// It waits for an answer: a line, or a password.
        AwaitsInput = "awaits_input",
        /// A line of its output matches what a reader watches for.
        Matched = "matched",
        /// Its main process has ended, or never started.
        Exited = "exited",
        /// It is not started again, after too many restarts or because that is not possible.
        GaveUp = "gave_up",
        /// The time of a run passed while the machine slept or was off.
        Missed = "missed",
        /// The time of a run came while the one before it still ran.
        Overlapped = "overlapped",
        /// Its keeper died, and its guard goes on as the keeper; nothing was lost.
        KeeperReplaced = "keeper_replaced",
        /// Its keeper goes on in another version of its program.
        KeeperUpgraded = "keeper_upgraded",
        /// Its keeper died and its guard with it, and the command continues.
        Orphaned = "orphaned",
        /// It ended without a keeper; how may be unknown.
        Lost = "lost",
        /// It was given to another session, where its later events are.
        Transferred = "transferred",
        /// It is no longer in the store.
        Removed = "removed",
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    pub event: OrNewer<Kind>,
    /// The job.
    pub job: JobId,
    /// As in its spec: an id may be used again.
    pub nonce: Nonce,
    /// When it happened, by the wall clock.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// The job's status right after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<OrNewer<Status>>,
    /// The code that it exited with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of the signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Which limit is near.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<OrNewer<AwaitedKind>>,
    /// Where a job that is ready answers, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The number of the line that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// That line, as a terminal shows it; only its beginning if it is long. Of a run that was missed or overlapped what became of it, of a
    /// change the file, of files that are not watched why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How many lines before it matched and have no event of their own, because there were too many; or how many runs are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// The reader that watches for it; absent: every reader of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<SessionName>,
    /// Of a job that was removed: the reader that started it, if its end was not delivered to that reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold: Option<SessionName>,
}

/// What an event is about: whatever else two records of it say, they are one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fact {
    nonce: Nonce,
    event: Kind,
    limit: Option<String>,
    /// Of what may happen more than once.
    at: Option<Timestamp>,
    /// Of a line that matches: its number, and the reader that watches for it.
    line: Option<(u64, Option<SessionName>)>,
}

impl Event {
    /// Makes an event without optional fields.
    pub fn new(event: Kind, job: &JobId, nonce: Nonce, at: Timestamp) -> Self {
        let (status, exit_code, signal, limit, awaits, url) = Default::default();
        let (line, text, skipped, reader, untold) = Default::default();
        let (event, job) = (event.into(), job.clone());
        Self {
            event,
            job,
            nonce,
            at,
            status,
            exit_code,
            signal,
            limit,
            awaits,
            url,
            line,
            text,
            skipped,
            reader,
            untold,
        }
    }

    /// Makes the event of a job's end.
    pub fn of_outcome(job: &JobId, nonce: Nonce, outcome: &Outcome) -> Self {
        let status = Status::of(outcome);
        let kind = if status == Status::Lost { Kind::Lost } else { Kind::Exited };
        let (exit_code, signal) = match outcome.wait_status {
            WaitStatus::Exited { code } => (Some(code), None),
            WaitStatus::Signaled { signal, .. } => (None, Some(signal)),
            WaitStatus::Unknown => (None, None),
        };
        Self { status: Some(status.into()), exit_code, signal, ..Self::new(kind, job, nonce, outcome.ended) }
    }

    /// Tells whether it is the end of a job's main process.
    pub fn is_end(&self) -> bool {
        matches!(self.event.known(), Some(Kind::Exited | Kind::Lost))
    }

    /// Returns what it is about. A job ends once, however often that is written down. `None` of something that a later
    /// version knows: two of them need not be the same.
    pub fn fact(&self) -> Option<Fact> {
        let event = match *self.event.known()? {
            Kind::Lost => Kind::Exited,
            kind => kind,
        };
        let recurs = matches!(
            event,
            Kind::AwaitsInput
                | Kind::Unhealthy
                | Kind::Healthy
                | Kind::Missed
                | Kind::Overlapped
                | Kind::Changed
        );
        let at = recurs.then_some(self.at);
        let line = self.line.map(|number| (number, self.reader.clone()));
        Some(Fact { nonce: self.nonce, event, limit: self.limit.clone(), at, line })
    }

    /// Returns the record.
    pub fn to_record(&self) -> Vec<u8> {
        let mut record = vec![b'\n'];
        serde_json::to_writer(&mut record, self).expect("an event has only string keys and numbers");
        record.push(b'\n');
        record
    }
}

/// The longest line that is read as a record; what is written is a fraction of it. Reading so much at a time gets past any damage.
pub const LONGEST: usize = 64 << 10;

/// The shortest record there is: damage of fewer bytes hides none.
pub const SHORTEST: u64 = 79;

/// What stands in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A record, with its sequence.
    Record(u64, Box<Event>),
    /// Bytes that were written as something else: zeros where a part was given back or lost, or garbage.
    Damage(Range<u64>),
}

/// Reads the pieces in `bytes`, which begin at offset `from` of the file. The beginning of a record that was cut short is passed
/// over: its writer knows of it. Returns also where reading goes on, which is where a line begins that has no end yet.
pub fn read_pieces(bytes: &[u8], from: u64) -> (Vec<Piece>, u64) {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        let rest = &bytes[at..];
        // Zeros end a line as well: what follows a hole may be whole.
        let length = match first {
            b'\n' => 1,
            0 => rest.iter().take_while(|&&byte| byte == 0).count(),
            _ => match rest.iter().position(|byte| matches!(byte, b'\n' | 0)) {
                Some(length) => length,
                None if rest.len() < LONGEST => break,
                None => rest.len(),
            },
        };
        let begin = from + at as u64;
        match first {
            b'\n' => {}
            b'{' if length < LONGEST => pieces
                .extend(serde_json::from_slice(&rest[..length]).map(|event| Piece::Record(begin, event))),
            _ => pieces.push(Piece::Damage(begin..begin + length as u64)),
        }
        at += length;
    }
    (pieces, from + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(number: u64) -> Event {
        let job = JobId::parse("a-1").unwrap();
        Event { exit_code: Some(7), ..Event::new(Kind::Exited, &job, Nonce([3; 16]), Timestamp(number)) }
    }

    fn records(bytes: &[u8], from: u64) -> Vec<(u64, Event)> {
        let record = |piece| match piece {
            Piece::Record(seq, event) => Some((seq, *event)),
            Piece::Damage(_) => None,
        };
        read_pieces(bytes, from).0.into_iter().filter_map(record).collect()
    }

    #[test]
    fn records_come_back_with_their_offsets() {
        let (first, second) = (event(1), event(2));
        let bytes = [first.to_record(), second.to_record()].concat();
        let at = 101 + first.to_record().len() as u64;
        assert_eq!(records(&bytes, 100), [(101, first), (at, second)]);
        assert_eq!(read_pieces(&bytes, 100).1, 100 + bytes.len() as u64);
    }

    #[test]
    fn no_record_is_shorter_than_the_shortest() {
        let job = JobId::parse("a").unwrap();
        let shortest = Event::new(Kind::Lost, &job, Nonce([3; 16]), Timestamp(0)).to_record();
        assert_eq!(shortest.trim_ascii().len() as u64, SHORTEST);
    }

    #[test]
    fn zeros_are_damage_and_the_beginning_of_a_record_is_not() {
        let torn = &event(1).to_record()[..50];
        let bytes = [torn, &[0; 100], b"rest}\n", &event(2).to_record()].concat();
        let damage = [Piece::Damage(50..150), Piece::Damage(150..155)];
        assert_eq!(read_pieces(&bytes, 0).0, [&damage[..], &[Piece::Record(157, event(2).into())]].concat());
        let unfinished = [&[0; 100], torn.trim_ascii()].concat();
        assert_eq!(read_pieces(&unfinished, 0), (vec![Piece::Damage(0..100)], 100));
    }

    #[test]
    fn a_job_ends_once() {
        let lost = Event { event: Kind::Lost.into(), exit_code: None, ..event(9) };
        assert_eq!(event(1).fact(), lost.fact());
        assert_ne!(event(1).fact(), Event { nonce: Nonce([4; 16]), ..event(1) }.fact());
        assert_ne!(event(1).fact(), Event { event: Kind::Removed.into(), ..event(1) }.fact());
    }

    #[test]
    fn a_job_may_ask_more_than_once() {
        let ask = |number| Event { event: Kind::AwaitsInput.into(), ..event(number) };
        assert_ne!(ask(1).fact(), ask(2).fact());
        assert_eq!(ask(1).fact(), ask(1).fact());
    }

    #[test]
    fn each_line_that_a_reader_watches_for_is_a_fact() {
        let reader = |name| SessionName::parse(name).ok();
        let line =
            |number, reader| Event { event: Kind::Matched.into(), line: Some(number), reader, ..event(1) };
        assert_ne!(line(1, reader("a")).fact(), line(2, reader("a")).fact());
        assert_ne!(line(1, reader("a")).fact(), line(1, reader("b")).fact());
        assert_eq!(line(1, reader("a")).fact(), Event { at: Timestamp(9), ..line(1, reader("a")) }.fact());
    }

    proptest! {
        #[test]
        fn a_word_of_a_later_version_is_read_and_comes_back(
            field in prop::sample::select(vec!["event", "status"]),
            value in crate::newer::tests::values(),
        ) {
            let mut later = serde_json::to_value(event(1)).unwrap();
            later[field] = value.clone();
            let bytes = [later.to_string().as_bytes(), b"\n", &event(2).to_record()].concat();
            let events = records(&bytes, 0);
            prop_assert_eq!((events.len(), read_pieces(&bytes, 0).1), (2, bytes.len() as u64));
            let read = &events[0].1;
            prop_assert_eq!(serde_json::to_value(read).unwrap(), later);
            prop_assert_eq!(read.fact().is_none(), field == "event", "two of a later kind need not be the same");
        }

        #[test]
        fn whatever_is_cut_or_given_back_costs_no_other_record(cut in 0usize..300, zeros in 0usize..300) {
            let mut bytes = event(1).to_record();
            bytes.truncate(cut);
            bytes.extend(event(2).to_record());
            bytes.extend(event(3).to_record());
            let zeros = zeros.min(bytes.len());
            bytes[..zeros].fill(0);
            let events = records(&bytes, 0);
            let last = event(3).to_record().len();
            if zeros <= bytes.len() - last {
                prop_assert_eq!(&events.last().unwrap().1, &event(3));
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let (_, end) = read_pieces(&bytes, 5);
            prop_assert!(end <= 5 + bytes.len() as u64);
        }

        #[test]
        fn whatever_stands_between_records_all_whole_ones_are_found(
            garbage in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6),
            zeros in 0usize..200,
        ) {
            let (mut bytes, mut written) = (Vec::new(), Vec::new());
            for (number, garbage) in garbage.iter().enumerate() {
                bytes.extend(garbage);
                bytes.resize(bytes.len() + zeros, 0);
                let event = event(number as u64);
                written.push((bytes.len() as u64 + 1, event.clone()));
                bytes.extend(event.to_record());
            }
            prop_assert_eq!(records(&bytes, 0), written);
        }

        #[test]
        fn a_line_that_no_record_can_be_is_passed(byte in 1u8..255) {
            prop_assume!(byte != b'\n');
            let end = LONGEST as u64;
            prop_assert_eq!(read_pieces(&vec![byte; LONGEST], 0), (vec![Piece::Damage(0..end)], end));
        }
    }
}
