//! The event log of each session: what happened to its jobs, in the order of writing.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use outlive_core::event::{Event, Fact, Kind, LONGEST, Piece, SHORTEST, read_pieces};
use outlive_core::file::EVENTS;
use outlive_core::id::{Nonce, SessionName};
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point};
use outlive_sys::watch::Watch;
use outlive_sys::{clock, durable};

use crate::job::Job;
use crate::store::Store;

/// How much of each session's log survives a collection.
const KEPT_BYTES: u64 = 1 << 20;

/// An event with its sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// Position in the session's log; it only ever grows.
    pub seq: u64,
    /// The fact that was recorded.
    pub event: Event,
}

/// Reads one session's events and drops repeats.
#[derive(Debug)]
pub struct Events {
    directory: PathBuf,
    /// Events up to this sequence are read but not returned.
    after: u64,
    /// Offset of the next read.
    next: u64,
    /// Facts that were read, including those before `after`, to drop repeats.
    known: HashSet<Fact>,
    /// Bytes since the last whole record that are no record.
    damage: Option<Range<u64>>,
    /// Ranges that were requested and are not in the log.
    gaps: VecDeque<(u64, u64)>,
}

impl Store {
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.root().join("sessions")
    }

    /// Returns a session's directory, which exists once something was started or set in it.
    pub fn session_dir(&self, session: &SessionName) -> PathBuf {
        self.sessions_dir().join(session.as_str())
    }

    /// Makes a session's directory, for its events.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn make_session(&self, session: &SessionName) -> io::Result<()> {
        make_dir(&self.session_dir(session))
    }

    /// Lists the sessions that have ever had a job.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn sessions(&self) -> io::Result<Vec<SessionName>> {
        let entries = match fs::read_dir(self.sessions_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names =
            entries.flatten().filter_map(|entry| SessionName::parse(entry.file_name().to_str()?).ok());
        let mut names: Vec<SessionName> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Reads a session's events after a sequence; 0: all that are kept. Earlier events are read as well, to drop repeats.
    pub fn events(&self, session: &SessionName, since: u64) -> Events {
        Events { next: 0, ..self.events_from(session, since) }
    }

    /// Returns how long a session's events are: no event has a sequence beyond it.
    pub fn events_length(&self, session: &SessionName) -> u64 {
        fs::metadata(self.session_dir(session).join(EVENTS)).map_or(0, |data| data.len())
    }

    /// Reads a session's events after a sequence, and nothing before it: a repeat of an earlier event counts as new.
    pub(crate) fn events_from(&self, session: &SessionName, after: u64) -> Events {
        Events {
            directory: self.session_dir(session),
            after,
            next: after,
            known: HashSet::new(),
            damage: None,
            gaps: VecDeque::new(),
        }
    }

    /// Appends an event; `false` if it could not be written. Nothing is lost then but the event: the facts are in the job's
    /// files.
    pub(crate) fn append_event(&self, at: Appending, session: &SessionName, event: &Event) -> bool {
        let append = || {
            let dir = durable::open_dir(&self.session_dir(session))?;
            durable::append(at, &dir, EVENTS, &event.to_record())
        };
        append().or_else(|_| self.make_session(session).and_then(|()| append())).is_ok()
    }

    /// Returns the sequence of a job's end in a session's log, if it is there.
    pub(crate) fn ending_in(&self, session: &SessionName, nonce: Nonce) -> Option<u64> {
        let events = self.events(session, 0).read().unwrap_or_default();
        let is_end = |known: &&Numbered| known.event.nonce == nonce && known.event.is_end();
        events.iter().find(is_end).map(|known| known.seq)
    }

    /// Appends an event that a front end found out or caused; `false` if it could not be written.
    pub(crate) fn append_event_of(&self, at: Appending, job: &Job, kind: Kind) -> bool {
        let now = Timestamp(clock::wall_us());
        self.append_event(at, job.session(), &Event::new(kind, job.id(), job.spec().nonce, now))
    }

    /// Punches out the oldest events of each session.
    pub(crate) fn sweep_events(&self) {
        for session in self.sessions().unwrap_or_default() {
            let open =
                durable::open_dir(&self.session_dir(&session)).and_then(|dir| durable::open_rw(&dir, EVENTS));
            let Ok(file) = open else { continue };
            let length = file.metadata().map_or(0, |data| data.len());
            // The hole ends at a block boundary; readers skip the record that it cuts.
            let surplus = length.saturating_sub(KEPT_BYTES) / 4096 * 4096;
            if surplus > 0 {
                fault::step(Point::EventsForget, || durable::forget_front(&file, surplus)).ok();
            }
        }
    }
}

/// Makes a directory that only its owner may use.
pub(crate) fn make_dir(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        // The usual case, and this call is the only one.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
        }
        made => made,
    }
}

/// An event, or the range of sequences of a gap.
pub type EventOrGap = Result<Numbered, (u64, u64)>;

impl Events {
    /// Returns the events since the last call, or since the beginning.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<Numbered>> {
        let file = match durable::open_trusted(durable::CWD, self.directory.join(EVENTS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        if file.metadata()?.len() < self.next {
            // The log was started over.
            (self.after, self.next) = (0, 0);
            self.known.clear();
        }
        let mut unread = Vec::new();
        let kept_from = durable::first_data(&file, self.next).unwrap_or(self.next);
        if kept_from > self.next {
            self.damage = Some(self.next..kept_from);
            self.next = kept_from;
        }
        let mut buffer = vec![0; LONGEST];
        loop {
            let count = file.read_at(&mut buffer, self.next)?;
            let (pieces, end) = read_pieces(&buffer[..count], self.next);
            for piece in pieces {
                let (seq, event) = match piece {
                    Piece::Record(seq, event) => (seq, *event),
                    Piece::Damage(Range { start, end }) => {
                        self.damage = Some(self.damage.take().map_or(start, |damage| damage.start)..end);
                        continue;
                    }
                };
                self.end_damage();
                let is_new = event.fact().is_none_or(|fact| self.known.insert(fact));
                if is_new && seq > self.after {
                    unread.push(Numbered { seq, event });
                }
            }
            self.next = end;
            if count < LONGEST {
                // The end of the log, or a writer in the middle of a line.
                self.end_damage();
                return Ok(unread);
            }
        }
    }

    /// As [`Events::read`], with the gaps among the events, each by its sequence, that of a gap being its end: a reader that breaks off
    /// after any of them has missed nothing before it. Gaps that reach back to the beginning are left out where `is_from_start`: that
    /// the front is given back in time is told only to a reader that asked for it.
    ///
    /// # Errors
    ///
    /// As [`Events::read`].
    pub fn read_with_gaps(&mut self, is_from_start: bool) -> io::Result<Vec<(u64, EventOrGap)>> {
        let mut all: Vec<_> = self.read()?.into_iter().map(|event| (event.seq, Ok(event))).collect();
        let gaps = self.gaps.drain(..).filter(|(from, _)| *from > 0 || !is_from_start);
        all.extend(gaps.map(|gap| (gap.1, Err(gap))));
        all.sort_by_key(|(seq, _)| *seq);
        Ok(all)
    }

    /// Reports damage that is long enough to hide a record as a gap.
    fn end_damage(&mut self) {
        if let Some(Range { start, end }) = self.damage.take()
            && end - start >= SHORTEST
            && end > self.after
        {
            self.gaps.push_back((start.max(self.after), end));
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns how far the log was read: the next `since`.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Returns the next range of requested sequences that are damaged or no longer kept, each range once.
    pub fn take_gap(&mut self) -> Option<(u64, u64)> {
        self.gaps.pop_front()
    }

    /// Starts a watch; call it before the read that must not miss an event.
    pub fn watch(&self) -> Watch {
        make_dir(&self.directory).ok();
        Watch::new(&self.directory)
    }
}
