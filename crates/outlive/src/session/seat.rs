//! Seats: who a client is that names no conversation. The connection is it, for as long as it lives.
//!
//! A connection holds a lock on the file of its seat, which the kernel releases at its end. A seat that is not locked is free: the
//! next new connection of the same kind takes it, and with it the name under which its jobs, positions and endings are kept.
//! Where several are free, it takes the latest and inherits the others.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use outlive_core::id::SessionName;
use outlive_core::spec::{Host, Process};
use outlive_sys::fault::Replacing;
use outlive_sys::identity::ProcessId;
use outlive_sys::{durable, lock};
use serde::{Deserialize, Serialize};

use crate::control::tree::identity;
use crate::notify::events::make_dir;
use crate::output::cursor;
use crate::session::SessionError;
use crate::store::Store;

pub(crate) const DIRECTORY: &str = "seats";
const LOCK: &str = "lock";

/// Longest wait for another connection that is choosing its seat.
const LOCK_LIMIT: Duration = Duration::from_secs(1);

/// How long a process that a dead server was making may take to execute its program. It is a moment, unless the machine is very busy.
const LEFT_LIMIT: Duration = Duration::from_secs(3);

/// The pause between two looks for that.
const LEFT_PAUSE: Duration = Duration::from_millis(5);

/// How many heirs are followed. Each has a seat, so that more are a mistake in the store.
const MOST_HEIRS: usize = 100;

/// What belongs to a session and moves with its jobs.
const NOTES: [&str; 2] = ["agents", "tasks"];

/// A seat, held until it is dropped.
#[derive(Debug)]
pub struct Seat {
    name: SessionName,
    file_name: String,
    held: File,
}

/// The process that holds a seat, as it is noted in the seat's file.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    process: Process,
    host: Host,
}

impl Holder {
    /// Names this process.
    fn new(store: &Store) -> Self {
        let me = ProcessId::current();
        let process = Process { pid: me.pid, start_time: me.start_time };
        Self { process, host: store.host().clone() }
    }

    /// Reads who holds a seat; `None` where an earlier version took it.
    fn of(seat: &File) -> Option<Self> {
        serde_json::from_slice(&durable::read_open(seat).ok()?).ok()
    }

    fn is_dead(&self, store: &Store) -> bool {
        self.host == *store.host() && !identity(self.process).is_alive()
    }
}

/// What a new connection has found.
#[derive(Debug)]
pub struct Seats {
    /// Its own.
    pub own: Seat,
    /// Those of other connections that are gone, the latest first.
    pub free: Vec<Seat>,
}

impl Seat {
    /// Returns the name under which its connection is known.
    pub fn name(&self) -> &SessionName {
        &self.name
    }
}

impl Store {
    /// Takes a seat for a new connection of a kind at a session: the one that was taken last of those that are free, else a new one
    /// of this name.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or other connections take longer than a second to choose.
    pub fn take_seat(&self, session: &SessionName, kind: &str, new: SessionName) -> io::Result<Seats> {
        let path = self.seats_dir();
        make_dir(&path)?;
        let directory = durable::open_dir(&path)?;
        let choosing = durable::open_or_create(&directory, LOCK)?;
        let prefix = format!("{session}@{kind}@");
        let patience = Instant::now() + LEFT_LIMIT;
        let free = loop {
            if !lock::lock_within(&choosing, LOCK_LIMIT)? {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            let (free, is_any_left) = self.free_seats(&directory, &prefix)?;
            if !is_any_left || Instant::now() >= patience {
                break free;
            }
            // Other connections may choose meanwhile.
            drop(free);
            lock::unlock(&choosing)?;
            std::thread::sleep(LEFT_PAUSE);
        };
        let mut free = free.into_iter();
        let own = match free.next() {
            Some(seat) => seat,
            None => {
                let file_name = format!("{prefix}{new}");
                let held = durable::open_or_create(&directory, file_name.as_str())?;
                lock::try_lock(&held, lock::Kind::Exclusive)?;
                Seat { name: new, file_name, held }
            }
        };
        // Also says when it was taken.
        own.held.set_len(0)?;
        own.held.write_all_at(&serde_json::to_vec(&Holder::new(self))?, 0)?;
        Ok(Seats { own, free: free.collect() })
    }

    /// Takes the locks of the seats that are free, the one that was taken last first. Also tells whether there is a seat whose holder is dead and whose lock
    /// is held: by a process that the holder was making, until that executes its program.
    fn free_seats(&self, directory: &OwnedFd, prefix: &str) -> io::Result<(Vec<Seat>, bool)> {
        let (mut free, mut is_any_left) = (Vec::new(), false);
        for file_name in durable::names(directory)? {
            let name = file_name.strip_prefix(prefix).and_then(|name| SessionName::parse(name).ok());
            let Some(name) = name else { continue };
            let held = durable::open_rw(directory, &file_name)?;
            if lock::try_lock(&held, lock::Kind::Exclusive)? {
                let taken = held.metadata()?.modified()?;
                free.push((taken, Seat { name, file_name, held }));
            } else {
                is_any_left |= Holder::of(&held).is_some_and(|holder| holder.is_dead(self));
            }
        }
        free.sort_by_key(|(taken, _)| std::cmp::Reverse(*taken));
        Ok((free.into_iter().map(|(_, seat)| seat).collect(), is_any_left))
    }

    /// Gives up a free seat for good, once all that it had was inherited.
    pub fn remove_seat(&self, seat: Seat) {
        // A seat that stays is inherited once more, with nothing in it.
        fs::remove_file(self.seats_dir().join(&seat.file_name)).ok();
    }

    /// Gives what a reader had in a session to another reader: positions, endings that were not delivered, and, if the heir is in
    /// another session, the jobs and notes. May be repeated after a crash.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn inherit(
        &self,
        (session, reader): (&SessionName, &SessionName),
        (new_session, heir): (&SessionName, &SessionName),
    ) -> Result<(), SessionError> {
        let readers = self.readers_dir(new_session);
        make_dir(&readers)?;
        let line = format!("{heir}\n");
        durable::replace(
            Replacing::INBOX,
            durable::open_dir(&readers)?,
            &heir_file(reader),
            line.as_bytes(),
        )?;
        for job in self.list(Some(session))?.jobs {
            let positions = fs::read_dir(job.path().join(cursor::DIRECTORY)).into_iter().flatten().flatten();
            for position in positions {
                let Some(name) = position.file_name().to_str().map(str::to_owned) else { continue };
                let rest = name.strip_prefix(reader.as_str());
                if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('@')) {
                    // A position of the heir's own stays.
                    fs::hard_link(position.path(), position.path().with_file_name(format!("{heir}{rest}")))
                        .ok();
                }
            }
            if session != new_session {
                match self.transfer(&job, new_session) {
                    // It cannot be used from here by any reader.
                    Ok(()) | Err(SessionError::Elsewhere(_)) => {}
                    Err(error) => return Err(error),
                }
                let moved = self.find_exactly(job.id(), job.spec().nonce);
                if let Some(job) = moved.filter(|job| !job.is_delivered(reader)) {
                    self.tell_ending(&job);
                }
            }
        }
        if session != new_session {
            NOTES.into_iter().try_for_each(|kind| self.move_notes(kind, session, new_session))?;
        }
        Ok(())
    }

    fn move_notes(&self, kind: &str, from: &SessionName, to: &SessionName) -> io::Result<()> {
        let (from, to) = (self.session_dir(from).join(kind), self.session_dir(to).join(kind));
        for entry in fs::read_dir(&from).into_iter().flatten().flatten() {
            make_dir(&to)?;
            durable::rename_new(&entry.path(), &to.join(entry.file_name()))?;
        }
        Ok(())
    }

    /// Returns the reader that has inherited the endings of a reader, if any.
    pub(crate) fn heir_of(&self, session: &SessionName, reader: &SessionName) -> Option<SessionName> {
        let directory = self.readers_dir(session);
        let next = |reader: &SessionName| {
            let line = durable::read_rare_line(durable::open_dir(&directory).ok()?, &heir_file(reader))?;
            SessionName::parse(&line).ok()
        };
        std::iter::successors(next(reader), next).take(MOST_HEIRS).last()
    }

    /// Tells whether a reader is a connection that has a seat, present or gone.
    pub(crate) fn has_seat(&self, reader: &SessionName) -> bool {
        let names = durable::open_dir(&self.seats_dir()).and_then(durable::names).unwrap_or_default();
        names.iter().any(|name| name.rsplit('@').next() == Some(reader.as_str()))
    }

    fn seats_dir(&self) -> PathBuf {
        self.root().join(DIRECTORY)
    }
}

/// Names the file that says who inherited from a reader; a reader's name has no `@`.
fn heir_file(reader: &SessionName) -> String {
    format!("{reader}@heir")
}
