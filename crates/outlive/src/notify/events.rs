//! What happened to jobs, session by session, in the order in which it was written down.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use outlive_core::event::{Event, Fact, Kind, read_records};
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
    /// Only what comes after this.
    after: u64,
    next: u64,
    /// What was read, to drop repeats; of what came before the first that is wanted, too.
    known: HashSet<Fact>,
    /// What was asked for and is no longer kept.
    gap: Option<(u64, u64)>,
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

    /// Reads a session's events after a sequence; 0: all that are kept.
    pub fn events(&self, session: &SessionName, since: u64) -> Events {
        Events {
            directory: self.session_dir(session),
            after: since,
            next: 0,
            known: HashSet::new(),
            gap: None,
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
        let mut unread = Vec::new();
        let kept_from = durable::first_data(&file, self.next).unwrap_or(self.next);
        if kept_from > self.next {
            let wanted_from = self.next.max(self.after);
            if kept_from > wanted_from {
                self.gap = Some((wanted_from, kept_from));
            }
            self.next = kept_from;
        }
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = file.read_at(&mut buffer, self.next)?;
            let (records, end) = read_records(&buffer[..count], self.next);
            for (seq, event) in records {
                let is_new = event.fact().is_none_or(|fact| self.known.insert(fact));
                if is_new && seq > self.after {
                    unread.push(Numbered { seq, event });
                }
            }
            if end == self.next {
                // Either there is no more, or somebody is in the middle of a line.
                return Ok(unread);
            }
            self.next = end;
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

    /// Returns the sequences that were asked for and are no longer kept, once.
    pub fn take_gap(&mut self) -> Option<(u64, u64)> {
        self.gap.take()
    }

    /// Starts to watch, before a look that must not miss anything.
    pub fn watch(&self) -> Watch {
        make_dir(&self.directory).ok();
        Watch::new(&self.directory)
    }
}
