//! The endings that a reader has not received yet, of the jobs that it started, and on request their open questions and the lines that
//! it watches for.
//!
//! An inbox is derived from the session's events; only the reader's position is stored. Delivery comes before the position: a
//! crash between the two causes a repeat with the same sequence, never a loss.

use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use outlive_core::FORMAT;
use outlive_core::event::Kind;
use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{durable, lock};
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::job::state::State;
use crate::notify::events::{Numbered, make_dir};
use crate::notify::notice::Notice;
use crate::store::Store;

/// How many endings one answer has at most; the rest come with the next.
const AT_ONCE: usize = 100;

/// How many deferred endings are stored; the oldest are dropped.
const MAX_DEFERRED: usize = 1000;

/// The position is written without a delivery after so many bytes of events: a fraction of one read.
const FAR: u64 = 16 << 10;

/// How long to wait for a front end that is about to write an outcome.
const RECOVERY_LIMIT: Duration = Duration::from_secs(1);

/// Why an inbox cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InboxError {
    /// Another program is delivering to this reader.
    #[error("another program delivers to reader {0} at the moment")]
    Busy(SessionName),
    /// The store cannot be read or written.
    #[error("cannot use the inbox")]
    Store(#[from] io::Error),
}

/// A reader's position: `readers/<name>` in the session's directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    format: u32,
    /// Every event up to this sequence was examined.
    cursor: u64,
    /// Endings up to the cursor whose starter may still fetch them first.
    #[serde(default)]
    deferred: Vec<u64>,
}

impl Progress {
    /// Returns the sequence up to which nothing is pending.
    fn position(&self) -> u64 {
        let first = self.deferred.iter().min();
        first.map_or(self.cursor, |first| self.cursor.min(first.saturating_sub(1)))
    }
}

/// The endings that a reader receives now.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Pending {
    /// Oldest first.
    pub notices: Vec<Notice>,
    /// The sequence for [`Inbox::acknowledge`] after the delivery.
    pub up_to: u64,
    /// How many more will come with the next call.
    pub left: usize,
}

/// A reader's inbox, locked: no other program delivers to the same reader meanwhile.
#[derive(Debug)]
pub struct Inbox {
    store: Store,
    session: SessionName,
    reader: SessionName,
    progress: Progress,
    /// The position on disk.
    written: Option<Progress>,
    found: Found,
    with_questions: bool,
    with_matches: bool,
    /// The reader's lock; none for a look that acknowledges nothing.
    held: Option<File>,
}

/// What the events hold for this reader.
#[derive(Debug, Default)]
struct Found {
    /// Endings to deliver, each with its job and state if the job is still in the store.
    mine: Vec<(Numbered, Option<(Job, State)>)>,
    /// Jobs whose end reached this reader in another way.
    delivered: Vec<Job>,
    deferred: Vec<u64>,
}

/// Which reader an ending is for.
enum Whose {
    /// For this reader.
    Mine,
    /// For this reader, which has it already.
    Delivered,
    /// For another reader, which may still fetch it.
    Others,
    /// For no reader any more.
    NoReader,
}

impl Store {
    /// Opens a reader's inbox for a delivery, and waits at most `patience` for another program that delivers to it.
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
        // A look does not create the directory of an unused session.
        if self.session_dir(session).is_dir() {
            let directory = self.readers_dir(session);
            fault::step(Point::ReadersMake, || make_dir(&directory))?;
            let file = durable::open_or_create(durable::open_dir(&directory)?, format!("{reader}@lock"))?;
            if !fault::step(Point::InboxLock, || lock::lock_within(&file, patience))? {
                return Err(InboxError::Busy(reader.clone()));
            }
            held = Some(file);
        }
        Ok(self.look_into(session, reader, held))
    }

    /// Opens a reader's inbox for a look: nothing is acknowledged.
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
            with_questions: false,
            with_matches: false,
            held,
        }
    }

    /// Reads a reader's position. A damaged file counts as none: only endings that were not marked as delivered are repeated.
    fn progress(&self, session: &SessionName, reader: &SessionName) -> Option<Progress> {
        let text = durable::read(durable::CWD, self.readers_dir(session).join(reader.as_str())).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Inbox {
    /// Tells also of jobs that wait for an answer, while they do.
    pub fn with_questions(self) -> Self {
        Self { with_questions: true, ..self }
    }

    /// Tells also of lines that the reader watches for.
    pub fn with_matches(self) -> Self {
        Self { with_matches: true, ..self }
    }

    /// Returns the endings to deliver; all that are there come together.
    ///
    /// # Errors
    ///
    /// If the session's events cannot be read.
    pub fn pending(&mut self) -> io::Result<Pending> {
        self.pending_unless(|_| false)
    }

    /// As [`Inbox::pending`], without the jobs that another answer has claimed. Their endings stay pending.
    pub fn pending_unless(&mut self, is_claimed: impl Fn(&JobId) -> bool) -> io::Result<Pending> {
        self.store.reconcile(Some(&self.session));
        if self.with_matches {
            self.store.examine_watched(Some(&self.session));
        }
        let mut events = self.store.events_from(&self.session, self.progress.position());
        let mut known = events.read()?;
        if events.position() < self.progress.cursor {
            // The log was started over.
            self.progress = Progress::default();
            events = self.store.events_from(&self.session, 0);
            known = events.read()?;
        }
        let mut has_gap = false;
        while let Some((_, to)) = events.take_gap() {
            has_gap |= to > self.progress.cursor;
        }
        if has_gap && self.append_missing(&known) {
            known.extend(events.read()?);
        }
        self.sort_out(&known, is_claimed);
        let left = self.found.mine.len().saturating_sub(AT_ONCE);
        let last = known.last().map_or(0, |last| last.seq).max(self.progress.cursor);
        let now = self.found.mine.iter().take(AT_ONCE);
        let notices = now.map(|(Numbered { seq, event }, job)| match job {
            Some((job, state)) if event.event == Kind::Matched => Notice::of_match(job, state, event, *seq),
            Some((job, state)) => Notice::of(job, state, *seq),
            None => Notice::of_event(&self.session, event, *seq),
        });
        let notices: Vec<Notice> = notices.collect();
        let up_to = if left == 0 { last } else { notices.last().map_or(last, |notice| notice.seq) };
        Ok(Pending { notices, up_to, left })
    }

    /// Acknowledges what [`Inbox::pending`] returned, up to this sequence. Does nothing for an inbox from [`Store::peek`].
    ///
    /// # Durability
    ///
    /// Written, not synced: after a power loss an ending may be delivered twice.
    ///
    /// # Errors
    ///
    /// If the store cannot be written. The same endings are then delivered again.
    pub fn acknowledge(&mut self, up_to: u64) -> io::Result<()> {
        self.note(up_to, |seq| seq <= up_to)
    }

    /// Acknowledges these sequences and no others, for an answer that had no room for the rest.
    pub fn acknowledge_these(&mut self, sequences: &[u64]) -> io::Result<()> {
        let last = sequences.iter().copied().max().unwrap_or(0);
        self.note(last, |seq| sequences.contains(&seq))
    }

    /// Tells whether the position is worth writing without a delivery, because many events were examined.
    pub fn is_far_behind(&self, up_to: u64) -> bool {
        up_to.saturating_sub(self.progress.cursor) > FAR
    }

    fn note(&mut self, up_to: u64, is_delivered: impl Fn(u64) -> bool) -> io::Result<()> {
        if self.held.is_none() {
            return Ok(());
        }
        let (delivered, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.found.mine)
            .into_iter()
            .partition(|(ending, _)| is_delivered(ending.seq));
        let cursor = self.progress.cursor.max(up_to);
        // An undelivered ending stays deferred; later events are read again from the cursor.
        let deferred = self.found.deferred.iter().copied().chain(later.iter().map(|(ending, _)| ending.seq));
        let mut deferred: Vec<u64> = deferred.filter(|&seq| seq <= cursor).collect();
        deferred.sort_unstable();
        let surplus = deferred.len().saturating_sub(MAX_DEFERRED);
        deferred.drain(..surplus);
        self.progress = Progress { format: FORMAT, cursor, deferred };
        self.write()?;
        // Last: a crash before this loses only the marks; the position decides.
        let endings = delivered.iter().filter(|(event, _)| event.event.is_end());
        let delivered = endings.filter_map(|(_, found)| found.as_ref());
        for job in delivered.map(|(job, _)| job).chain(&self.found.delivered) {
            job.mark_delivered(&self.reader);
            job.mark_seen();
        }
        self.found = Found { mine: later, ..Found::default() };
        Ok(())
    }

    /// Writes the reader's position, or only the time of the visit if the position is unchanged.
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

    /// Decides which reader each new or deferred ending is for.
    fn sort_out(&mut self, known: &[Numbered], is_claimed: impl Fn(&JobId) -> bool) {
        let untold: HashMap<Nonce, Option<SessionName>> = known
            .iter()
            .filter(|known| known.event.event == Kind::Removed)
            .map(|known| (known.event.nonce, known.event.untold.clone()))
            .collect();
        let put_off: HashSet<u64> = self.progress.deferred.iter().copied().collect();
        // For a job that is gone, the whole log decides whether its ending is a repeat.
        let facts = LazyCell::new(|| self.store.events(&self.session, 0).read().unwrap_or_default());
        let is_repeat = |seq: u64| !facts.iter().any(|known| known.seq == seq);
        let mut found = Found::default();
        let is_question = |known: &Numbered| self.with_questions && known.event.event == Kind::AwaitsInput;
        let is_match = |known: &Numbered| self.with_matches && known.event.event == Kind::Matched;
        let mut matched = HashSet::new();
        let is_due = |known: &&Numbered| {
            (known.event.is_end() || is_question(known) || is_match(known))
                && (known.seq > self.progress.cursor || put_off.contains(&known.seq))
        };
        for ending @ Numbered { seq, event } in known.iter().filter(is_due) {
            if is_match(ending) {
                let job = self.store.find_exactly(&event.job, event.nonce);
                // A line of a job that is gone explains nothing; a front end that died may have written it twice.
                let Some(job) = job.filter(|_| matched.insert(event.fact())) else { continue };
                match self.whose(event.reader.as_ref(), Some(&job), ending) {
                    Whose::Mine if event.line.is_some_and(|line| job.has_shown_line(&self.reader, line)) => {}
                    Whose::Mine => {
                        let state = job.state(&self.store);
                        found.mine.push((ending.clone(), Some((job, state))));
                    }
                    Whose::Others => found.deferred.push(*seq),
                    Whose::Delivered | Whose::NoReader => {}
                }
                continue;
            }
            // Checked first: a claim ends after its job is marked as delivered.
            if is_claimed(&event.job) {
                found.deferred.push(*seq);
                continue;
            }
            let job = self.store.find_exactly(&event.job, event.nonce);
            let whose = match (&job, untold.get(&event.nonce)) {
                (Some(job), _) => self.whose(job.spec().reader.as_ref(), Some(job), ending),
                (None, Some(Some(owner))) => self.whose(Some(owner), None, ending),
                (None, Some(None)) => Whose::NoReader,
                (None, None) if is_repeat(*seq) => Whose::NoReader,
                // Damaged, or removed without an event: a needless delivery is better than none.
                (None, None) => Whose::Mine,
            };
            match (whose, job) {
                (Whose::Mine, Some(job)) if is_question(ending) => {
                    let mut state = job.state(&self.store);
                    self.store.look_at_question(&job, &mut state);
                    // One that is answered is over.
                    if state.awaits().is_some_and(|awaited| awaited.since == event.at) {
                        found.mine.push((ending.clone(), Some((job, state))));
                    }
                }
                (_, None) if is_question(ending) => {}
                (Whose::Mine, None) => found.mine.push((ending.clone(), None)),
                (Whose::Mine, Some(job)) => match self.final_state(&job) {
                    Some(state) => found.mine.push((ending.clone(), Some((job, state)))),
                    None => found.deferred.push(*seq),
                },
                (Whose::Delivered, job) => found.delivered.extend(job),
                (Whose::Others, _) => found.deferred.push(*seq),
                (Whose::NoReader, _) => {}
            }
        }
        found.mine.sort_unstable_by_key(|(ending, _)| ending.seq);
        self.found = found;
    }

    fn whose(&self, owner: Option<&SessionName>, job: Option<&Job>, ending: &Numbered) -> Whose {
        if job.is_some_and(|job| job.is_delivered(&self.reader)) {
            return Whose::Delivered;
        }
        let Some(owner) = owner.filter(|owner| **owner != self.reader) else { return Whose::Mine };
        let progress = self.store.progress(&self.session, owner);
        let is_past =
            |progress: Progress| progress.cursor >= ending.seq && !progress.deferred.contains(&ending.seq);
        let is_past = progress.is_some_and(is_past);
        if self.store.heir_of(&self.session, owner).is_some_and(|heir| heir == self.reader) {
            let is_delivered = is_past || job.is_some_and(|job| job.is_delivered(owner));
            return if is_delivered { Whose::NoReader } else { Whose::Mine };
        }
        if is_past || job.is_some_and(Job::is_delivered_to_any) {
            Whose::NoReader
        } else if self.store.has_seat(owner) && self.store.has_seat(&self.reader) {
            // What a connection left is for the next new one, not for one that has its own.
            Whose::Others
        } else if self.store.is_absent(&self.session, owner, ending.event.at) {
            Whose::Mine
        } else {
            Whose::Others
        }
    }

    /// Returns how a job ended, and waits for the front end that recovers it: the event is written a moment before the outcome.
    /// `None` if that takes too long.
    fn final_state(&self, job: &Job) -> Option<State> {
        let state = job.state(&self.store);
        if state.status.has_ended() {
            return Some(state);
        }
        let guard = job.open_file(outlive_core::file::LOCK).ok()?;
        lock::lock_within(&guard, RECOVERY_LIMIT).ok()?;
        drop(guard);
        Some(job.state(&self.store)).filter(|state| state.status.has_ended())
    }

    /// Appends the endings of this reader's jobs whose events are no longer kept; `false` if there are none.
    fn append_missing(&self, known: &[Numbered]) -> bool {
        let jobs = self.store.list(Some(&self.session)).map(|listing| listing.jobs).unwrap_or_default();
        let is_known = |job: &Job| {
            known.iter().any(|known| known.event.is_end() && known.event.nonce == job.spec().nonce)
        };
        let is_heir = |reader: &SessionName| {
            self.store.heir_of(&self.session, reader).is_some_and(|heir| heir == self.reader)
        };
        let is_mine = |job: &Job| {
            job.spec().reader.as_ref().is_none_or(|reader| *reader == self.reader || is_heir(reader))
        };
        let is_missing = |job: &&Job| is_mine(job) && !job.is_delivered(&self.reader) && !is_known(job);
        // A keeper that has announced the end has written its event, though it may still be syncing.
        let has_ended = |job: &&Job| job.is_announced() && job.state(&self.store).status.has_ended();
        let missing = jobs.iter().filter(is_missing).filter(has_ended);
        missing.filter(|job| self.store.tell_ending(job)).count() > 0
    }
}
