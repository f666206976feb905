//! What a reader has not been told: the endings of the jobs that it started.
//!
//! An inbox is derived from the session's events; all that is stored is how far its reader is. Telling comes before noting: a
//! crash between the two makes a repeat, with the same sequence, and nothing is ever missed.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use outlive_core::FORMAT;
use outlive_core::event::{Event, Kind};
use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{durable, lock};
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::job::state::State;
use crate::notify::events::{Numbered, make_dir};
use crate::notify::notice::Notice;
use crate::store::Store;

/// So many endings are told at a time; the rest come next.
const AT_ONCE: usize = 100;

/// How many deferred endings are noted, the newest.
const MAX_DEFERRED: usize = 1000;

/// So many bytes of events are looked at again rather than noted: a fraction of what one read takes.
const FAR: u64 = 16 << 10;

/// How long a front end that is about to write an outcome is waited for.
const RECOVERY_LIMIT: Duration = Duration::from_secs(1);

/// Why an inbox cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// Another program is telling this reader at the moment.
    #[error("reader {0} is being told by another program")]
    Busy(SessionName),
    /// The store cannot be read or written.
    #[error("cannot use the inbox")]
    Store(#[from] io::Error),
}

/// How far a reader is: `readers/<name>` in the session's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    format: u32,
    /// All events up to this sequence were looked at.
    cursor: u64,
    /// Those of them that are for others first: endings of jobs whose starter may yet come.
    #[serde(default)]
    deferred: Vec<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { format: FORMAT, cursor: 0, deferred: Vec::new() }
    }
}

impl Progress {
    /// Returns the sequence that all events up to are done with.
    fn position(&self) -> u64 {
        let first = self.deferred.iter().min();
        first.map_or(self.cursor, |first| self.cursor.min(first.saturating_sub(1)))
    }
}

/// What a reader is to be told now.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pending {
    /// The endings, the oldest first.
    pub notices: Vec<Notice>,
    /// What to acknowledge once they were told.
    pub up_to: u64,
    /// So many are left, and will come next.
    pub left: usize,
}

/// A reader's inbox, held for as long as it is being told: no other program tells the same meanwhile.
#[derive(Debug)]
pub struct Inbox {
    store: Store,
    session: SessionName,
    reader: SessionName,
    progress: Progress,
    /// As it is on the disk.
    written: Option<Progress>,
    /// What was found by the last look.
    found: Found,
    /// None: it is only looked at.
    held: Option<File>,
}

/// What a look at the events found.
#[derive(Debug, Default)]
struct Found {
    /// What is to be told, with its job as it was found.
    mine: Vec<(u64, Option<(Job, State)>)>,
    /// What this reader was told in another way.
    delivered: Vec<Job>,
    deferred: Vec<u64>,
}

/// For whom an ending is.
enum Whose {
    /// For this reader.
    Mine,
    /// For this reader, which was told in another way.
    Delivered,
    /// For another reader, which may yet look.
    Others,
    /// For no reader any more.
    Nobodys,
}

impl Store {
    /// Opens the inbox of a reader of a session, to tell it. At most `patience` is waited for another program that tells the same
    /// reader.
    ///
    /// # Errors
    ///
    /// If another program takes longer, or the store cannot be written.
    pub fn inbox(
        &self,
        session: &SessionName,
        reader: &SessionName,
        patience: Duration,
    ) -> Result<Inbox, InboxError> {
        let mut held = None;
        // A session that was never used has nothing to tell, and looking does not make it.
        if self.session_dir(session).is_dir() {
            let directory = self.readers_dir(session);
            fault::step(Point::ReadersMake, || make_dir(&directory))?;
            let file = durable::open_or_create(durable::open_dir(&directory)?, &format!("{reader}@lock"))?;
            if !fault::step(Point::InboxLock, || lock::lock_within(&file, patience))? {
                return Err(InboxError::Busy(reader.clone()));
            }
            held = Some(file);
        }
        Ok(self.look_into(session, reader, held))
    }

    /// Opens the inbox of a reader only to look: nothing is noted.
    pub fn peek(&self, session: &SessionName, reader: &SessionName) -> Inbox {
        self.look_into(session, reader, None)
    }

    fn look_into(&self, session: &SessionName, reader: &SessionName, held: Option<File>) -> Inbox {
        let written = self.progress(session, reader);
        Inbox {
            store: self.reopen(),
            session: session.clone(),
            reader: reader.clone(),
            progress: written.clone().unwrap_or_default(),
            written,
            found: Found::default(),
            held,
        }
    }

    /// Reads how far a reader is. A damaged file is none: the reader is then told again what it was not told otherwise.
    fn progress(&self, session: &SessionName, reader: &SessionName) -> Option<Progress> {
        let text = std::fs::read(self.readers_dir(session).join(reader.as_str())).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Inbox {
    /// Returns what is to be told. Endings that are there at the same time come together.
    ///
    /// # Errors
    ///
    /// If the session's events cannot be read.
    pub fn pending(&mut self) -> io::Result<Pending> {
        self.pending_unless(|_| false)
    }

    /// As [`Inbox::pending`], without the endings of jobs that are claimed: another answer is about to tell them. They stay pending.
    ///
    /// # Errors
    ///
    /// As [`Inbox::pending`].
    pub fn pending_unless(&mut self, is_claimed: impl Fn(&JobId) -> bool) -> io::Result<Pending> {
        self.store.reconcile(Some(&self.session));
        let mut events = self.store.events_from(&self.session, self.progress.position());
        let mut known = events.read()?;
        if events.position() < self.progress.cursor {
            // The file was begun anew.
            self.progress = Progress::default();
            events = self.store.events_from(&self.session, 0);
            known = events.read()?;
        }
        let mut has_gap = false;
        while let Some((_, to)) = events.take_gap() {
            has_gap |= to > self.progress.cursor;
        }
        if has_gap && self.tell_again(&known) {
            known.extend(events.read()?);
        }
        self.sort_out(&known, is_claimed);
        let left = self.found.mine.len().saturating_sub(AT_ONCE);
        let last = known.last().map_or(0, |last| last.seq).max(self.progress.cursor);
        let by_seq: HashMap<u64, &Event> = known.iter().map(|known| (known.seq, &known.event)).collect();
        let now = self.found.mine.iter().take(AT_ONCE);
        let notices: Vec<Notice> = now
            .filter_map(|(seq, job)| {
                Some(match job {
                    Some((job, state)) => Notice::of(&self.store, job, state, *seq),
                    None => Notice::of_event(&self.session, by_seq.get(seq)?, *seq),
                })
            })
            .collect();
        let up_to = if left == 0 { last } else { notices.last().map_or(last, |notice| notice.seq) };
        Ok(Pending { notices, up_to, left })
    }

    /// Notes that what [`Inbox::pending`] returned was told, up to this sequence. Of a reader that is only looked at, nothing is
    /// noted.
    ///
    /// # Durability
    ///
    /// Written, not synced: after a loss of power a reader may be told something twice.
    ///
    /// # Errors
    ///
    /// If the store cannot be written. What was told will then be told again.
    pub fn acknowledge(&mut self, up_to: u64) -> io::Result<()> {
        self.note(up_to, |seq| seq <= up_to)
    }

    /// Notes that these were told, and no others: an answer may have had no room for the rest.
    ///
    /// # Errors
    ///
    /// As [`Inbox::acknowledge`].
    pub fn acknowledge_these(&mut self, sequences: &[u64]) -> io::Result<()> {
        let last = sequences.iter().copied().max().unwrap_or(0);
        self.note(last, |seq| sequences.contains(&seq))
    }

    /// Tells whether so many events were looked at, up to this sequence, that it is worth noting without anything to tell.
    pub fn is_far_behind(&self, up_to: u64) -> bool {
        up_to.saturating_sub(self.progress.cursor) > FAR
    }

    fn note(&mut self, up_to: u64, is_told: impl Fn(u64) -> bool) -> io::Result<()> {
        if self.held.is_none() {
            return Ok(());
        }
        let (told, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.found.mine).into_iter().partition(|&(seq, _)| is_told(seq));
        let before = self.progress.cursor;
        let cursor = before.max(up_to);
        // What was deferred before and is not told yet stays so; what is new comes again by the cursor.
        let mut deferred: Vec<u64> =
            self.found.deferred.iter().copied().filter(|&seq| seq <= cursor).collect();
        deferred.extend(later.iter().map(|&(seq, _)| seq).filter(|&seq| seq <= cursor));
        deferred.sort_unstable();
        let surplus = deferred.len().saturating_sub(MAX_DEFERRED);
        deferred.drain(..surplus);
        self.progress = Progress { format: FORMAT, cursor, deferred };
        self.write()?;
        // Last: a crash before this loses only the marks, and the position decides.
        for job in told
            .iter()
            .filter_map(|(_, found)| found.as_ref().map(|(job, _)| job))
            .chain(&self.found.delivered)
        {
            job.mark_delivered(&self.reader);
            job.mark_seen();
        }
        self.found = Found { mine: later, ..Found::default() };
        Ok(())
    }

    /// Writes down how far the reader is; if that has not changed, that it was here.
    fn write(&mut self) -> io::Result<()> {
        let directory = durable::open_dir(&self.store.readers_dir(&self.session))?;
        let name = self.reader.as_str();
        if self.written.as_ref() == Some(&self.progress) {
            return durable::open_rw(&directory, name)?.set_modified(SystemTime::now());
        }
        let mut bytes = serde_json::to_vec(&self.progress)?;
        bytes.push(b'\n');
        durable::replace(Replacing::INBOX, &directory, name, &bytes)?;
        self.written = Some(self.progress.clone());
        Ok(())
    }

    /// Finds out for whom each ending is that this reader has not looked at, or has put off.
    fn sort_out(&mut self, known: &[Numbered], is_claimed: impl Fn(&JobId) -> bool) {
        let untold: HashMap<Nonce, Option<SessionName>> = known
            .iter()
            .filter(|known| known.event.event == Kind::Removed)
            .map(|known| (known.event.nonce, known.event.untold.clone()))
            .collect();
        let put_off: HashSet<u64> = self.progress.deferred.iter().copied().collect();
        // Of a job that is gone without a word, the whole log tells whether its ending is a repeat.
        let facts = LazyCell::new(|| self.store.events(&self.session, 0).read().unwrap_or_default());
        let is_repeat = |seq: u64| !facts.iter().any(|known| known.seq == seq);
        let mut found = Found::default();
        let is_due = |known: &&Numbered| {
            known.event.is_end() && (known.seq > self.progress.cursor || put_off.contains(&known.seq))
        };
        for Numbered { seq, event } in known.iter().filter(is_due) {
            // Asked first: a claim ends after its job is marked as delivered.
            if is_claimed(&event.job) {
                found.deferred.push(*seq);
                continue;
            }
            let job = self.store.find_exactly(&event.job, event.nonce);
            let whose = match (&job, untold.get(&event.nonce)) {
                (Some(job), _) => self.whose(job.spec().reader.as_ref(), Some(job), *seq, event),
                (None, Some(untold)) => match untold {
                    Some(owner) => self.whose(Some(owner), None, *seq, event),
                    None => Whose::Nobodys,
                },
                (None, None) if is_repeat(*seq) => Whose::Nobodys,
                // Damaged, or removed without an event: better told to one too many.
                (None, None) => Whose::Mine,
            };
            match (whose, job) {
                (Whose::Mine, None) => found.mine.push((*seq, None)),
                (Whose::Mine, Some(job)) => match self.final_state(&job) {
                    Some(state) => found.mine.push((*seq, Some((job, state)))),
                    None => found.deferred.push(*seq),
                },
                (Whose::Delivered, job) => found.delivered.extend(job),
                (Whose::Others, _) => found.deferred.push(*seq),
                (Whose::Nobodys, _) => {}
            }
        }
        found.mine.sort_unstable_by_key(|&(seq, _)| seq);
        self.found = found;
    }

    fn whose(&self, owner: Option<&SessionName>, job: Option<&Job>, seq: u64, event: &Event) -> Whose {
        if job.is_some_and(|job| job.is_delivered(&self.reader)) {
            return Whose::Delivered;
        }
        let Some(owner) = owner.filter(|owner| **owner != self.reader) else { return Whose::Mine };
        let progress = self.store.progress(&self.session, owner);
        let is_past = progress.is_some_and(|progress| progress.cursor >= seq);
        if is_past || job.is_some_and(Job::is_delivered_to_any) {
            Whose::Nobodys
        } else if self.store.is_absent(&self.session, owner, event.at) {
            Whose::Mine
        } else {
            Whose::Others
        }
    }

    /// Returns how a job ended. The front end that recovers a job without a keeper writes the event first and the outcome a moment
    /// later, which is waited for. `None` if it takes longer.
    fn final_state(&self, job: &Job) -> Option<State> {
        let state = job.state(&self.store);
        if state.status.has_ended() {
            return Some(state);
        }
        let guard = durable::open_ro(job.dir(), outlive_core::file::LOCK).ok()?;
        lock::lock_within(&guard, RECOVERY_LIMIT).ok()?;
        drop(guard);
        Some(job.state(&self.store)).filter(|state| state.status.has_ended())
    }

    /// Writes the endings of this reader's jobs down again whose events are no longer kept; `false` if there are none.
    fn tell_again(&self, known: &[Numbered]) -> bool {
        let jobs = self.store.list(Some(&self.session)).map(|listing| listing.jobs).unwrap_or_default();
        let is_known = |job: &Job| {
            known.iter().any(|known| known.event.is_end() && known.event.nonce == job.spec().nonce)
        };
        let is_mine = |job: &Job| job.spec().reader.as_ref().is_none_or(|reader| *reader == self.reader);
        let mut has_told = false;
        for job in jobs.iter().filter(|job| is_mine(job) && !job.is_delivered(&self.reader) && !is_known(job))
        {
            if !job.is_kept() && job.state(&self.store).status.has_ended() {
                has_told |= self.store.tell_ending(job);
            }
        }
        has_told
    }
}
