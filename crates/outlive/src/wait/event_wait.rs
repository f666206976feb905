//! Waits for the next event of a session, of some jobs, or of any.

use std::collections::{BTreeSet, HashSet};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use outlive_core::id::{Nonce, SessionName};
use outlive_sys::watch::Watches;

use crate::job::Job;
use crate::notify::events::{Events, Numbered};
use crate::notify::watched::WatchedOutput;
use crate::store::Store;
use crate::wait::conditions::{EventScope, WaitError};

/// A session in a wait for events.
struct WatchedSession {
    session: SessionName,
    events: Events,
    is_watched: bool,
}

impl WatchedSession {
    /// Watches the session's directory once it exists.
    fn watch(&mut self, watches: &mut Watches) {
        if !self.is_watched && self.events.directory().is_dir() {
            watches.add(self.events.directory());
            self.is_watched = true;
        }
    }
}

/// A wait for events.
pub(super) struct EventWait {
    /// Events before the wait count, too, after a sequence.
    has_since: bool,
    /// Only events of these jobs; none: of all.
    jobs: Option<HashSet<Nonce>>,
    sessions: Vec<WatchedSession>,
    /// Sessions that are made during the wait count, too.
    is_open: bool,
    /// The output of jobs that readers watch: a line that matches is an event.
    watched: WatchedOutput,
    /// First and last sequence of requested events that are no longer kept.
    pub(super) gap: Option<(u64, u64)>,
}

impl EventWait {
    pub(super) fn new(store: &Store, scope: &EventScope, jobs: &[Job], watches: &mut Watches) -> Self {
        let nonces = jobs.iter().map(|job| job.spec().nonce).collect();
        let mut awaited = Self {
            has_since: scope.since.is_some(),
            jobs: (!jobs.is_empty()).then_some(nonces),
            sessions: Vec::new(),
            is_open: false,
            watched: WatchedOutput::new(scope.session.clone()),
            gap: None,
        };
        let sessions: Vec<SessionName> = match &scope.session {
            Some(session) => vec![session.clone()],
            None if !jobs.is_empty() => {
                jobs.iter().map(Job::session).collect::<BTreeSet<_>>().into_iter().cloned().collect()
            }
            None => {
                awaited.is_open = true;
                store.sessions().unwrap_or_default()
            }
        };
        for session in sessions {
            awaited.add(store, session, scope.since, watches);
        }
        // The wait does not make the session: a watch of the parent reports its directory.
        if awaited.is_open || awaited.sessions.iter().any(|known| !known.is_watched) {
            crate::notify::events::make_dir(&store.sessions_dir()).ok();
            watches.add(&store.sessions_dir());
        }
        awaited
    }

    fn add(&mut self, store: &Store, session: SessionName, since: Option<u64>, watches: &mut Watches) {
        let events = store.events(&session, since.unwrap_or(0));
        let mut known = WatchedSession { session, events, is_watched: false };
        known.watch(watches);
        if since.is_none() {
            // Skips the events before the wait; a read error is reported by the first look.
            known.events.read().ok();
        }
        self.sessions.push(known);
    }

    /// Returns what to poll for, beside the watches.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watched.fd()
    }

    /// Returns how long it may sleep without a kernel event.
    pub(super) fn nap(&self) -> Option<Duration> {
        self.watched.nap()
    }

    pub(super) fn look(
        &mut self,
        store: &Store,
        watches: &mut Watches,
    ) -> Result<Option<(SessionName, Numbered)>, WaitError> {
        self.watched.look(store);
        if self.is_open {
            for session in store.sessions()? {
                if !self.sessions.iter().any(|known| known.session == session) {
                    // Every event of a session that was made during the wait is new.
                    self.add(store, session, Some(0), watches);
                }
            }
        }
        for known in &mut self.sessions {
            known.watch(watches);
            let unread = known.events.read()?;
            self.gap = known.events.take_gap().filter(|_| self.has_since).or(self.gap);
            let is_wanted =
                |event: &Numbered| self.jobs.as_ref().is_none_or(|jobs| jobs.contains(&event.event.nonce));
            if let Some(event) = unread.into_iter().find(is_wanted) {
                return Ok(Some((known.session.clone(), event)));
            }
        }
        Ok(None)
    }
}
