//! What happened to jobs, session by session, in the order in which it was written down.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use outlive_core::event::{Event, Fact, Kind, LONGEST, Piece, SHORTEST, read_pieces};
use outlive_core::id::{Nonce, SessionName};
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point};
use outlive_sys::watch::Watch;
use outlive_sys::{clock, durable};

use crate::job::Job;
use crate::store::Store;

/// So much of a session's events is kept when the store is collected.
const KEPT_BYTES: u64 = 1 << 20;

/// An event with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// Its sequence within its session: it only ever grows.
    pub seq: u64,
    /// What happened.
    pub event: Event,
}

/// Reads one session's events, each fact once.
#[derive(Debug)]
pub struct Events {
    directory: PathBuf,
    /// Only events after this sequence are returned.
    after: u64,
    /// The offset that reading goes on from.
    next: u64,
    /// What was read, to drop repeats; of what came before the first that is wanted, too.
    known: HashSet<Fact>,
    /// Damage since the last whole record.
    damage: Option<Range<u64>>,
    /// What was asked for and is not there.
    gaps: VecDeque<(u64, u64)>,
}

impl Store {
    /// Returns where the sessions are.
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.root().join("sessions")
    }

    /// Returns where a session has its files.
    pub(crate) fn session_dir(&self, session: &SessionName) -> PathBuf {
        self.root().join("sessions").join(session.as_str())
    }

    /// Makes the place where a session's events are written.
    pub(crate) fn make_session(&self, session: &SessionName) -> io::Result<()> {
        make_dir(&self.session_dir(session))
    }

    /// Lists the sessions that have ever had a job.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn sessions(&self) -> io::Result<Vec<SessionName>> {
        let entries = match fs::read_dir(self.root().join("sessions")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names =
            entries.flatten().filter_map(|entry| SessionName::parse(entry.file_name().to_str()?).ok());
        let mut names: Vec<SessionName> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Reads a session's events after a sequence; 0: all that are kept. What stands before is read as well, to drop repeats.
    pub fn events(&self, session: &SessionName, since: u64) -> Events {
        Events { next: 0, ..self.events_from(session, since) }
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

    /// Writes an event down. One that cannot be written is lost; what it tells is in the job's own files. `false` if it is.
    pub(crate) fn append_event(&self, at: Appending, session: &SessionName, event: &Event) -> bool {
        let append = || {
            let dir = durable::open_dir(&self.session_dir(session))?;
            durable::append(at, &dir, EVENTS, &event.to_record())
        };
        append().or_else(|_| self.make_session(session).and_then(|()| append())).is_ok()
    }

    /// Tells whether the end of a job is among the events that are kept of a session.
    pub(crate) fn has_ending(&self, session: &SessionName, nonce: Nonce) -> bool {
        let events = self.events(session, 0).read().unwrap_or_default();
        events.iter().any(|known| known.event.nonce == nonce && known.event.is_end())
    }

    /// Writes down what a front end found out or did about a job; `false` if that is not possible.
    pub(crate) fn append_event_of(&self, at: Appending, job: &Job, kind: Kind) -> bool {
        let now = Timestamp(clock::wall_us());
        self.append_event(at, job.session(), &Event::new(kind, job.id(), job.spec().nonce, now))
    }

    /// Gives the room of old events back.
    pub(crate) fn sweep_events(&self) {
        for session in self.sessions().unwrap_or_default() {
            let open =
                durable::open_dir(&self.session_dir(&session)).and_then(|dir| durable::open_rw(&dir, EVENTS));
            let Ok(file) = open else { continue };
            let length = file.metadata().map_or(0, |data| data.len());
            // The hole ends at a block: what is cut there is passed over by readers.
            let surplus = length.saturating_sub(KEPT_BYTES) / 4096 * 4096;
            if surplus > 0 {
                fault::step(Point::EventsForget, || durable::forget_front(&file, surplus)).ok();
            }
        }
    }
}

/// Makes a directory for its owner only.
pub(crate) fn make_dir(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        // Mostly it is there, and this one call is all.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
        }
        made => made,
    }
}

/// The file in a session's directory.
pub(crate) const EVENTS: &str = outlive_core::file::EVENTS;

impl Events {
    /// Returns what is new since the last call, or since the beginning.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn read(&mut self) -> io::Result<Vec<Numbered>> {
        let file = match File::open(self.directory.join(EVENTS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        if file.metadata()?.len() < self.next {
            // The file was begun anew.
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
                    Piece::Record(seq, event) => (seq, event),
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
                // There is no more, or a writer is in the middle of a line.
                self.end_damage();
                return Ok(unread);
            }
        }
    }

    /// Tells of damage that is long enough to hide a record.
    fn end_damage(&mut self) {
        if let Some(Range { start, end }) = self.damage.take()
            && end - start >= SHORTEST
            && end > self.after
        {
            self.gaps.push_back((start.max(self.after), end));
        }
    }

    /// Returns where they are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns where the next call goes on: what to give as `since` the next time.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Returns the next range of sequences that were asked for and are no longer kept or are damaged, once each.
    pub fn take_gap(&mut self) -> Option<(u64, u64)> {
        self.gaps.pop_front()
    }

    /// Starts to watch, before a look that must not miss anything.
    pub fn watch(&self) -> Watch {
        make_dir(&self.directory).ok();
        Watch::new(&self.directory)
    }
}
