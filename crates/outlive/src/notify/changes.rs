//! Wakes a front end that shows many jobs when the list of them may be another.
//!
//! A job that starts is a new name in `jobs/`; what happens to it later, to its removal, is an event of its session. What is
//! neither (a pause, the death of a keeper) shows when the job is looked at.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use outlive_core::id::SessionName;
use outlive_sys::watch::Watches;

use crate::notify::events::make_dir;
use crate::store::Store;

/// Tells when jobs of a store may have started, ended or gone.
#[derive(Debug)]
pub struct Changes {
    /// Of `jobs/` and `sessions/`, then of each session.
    watches: Watches,
    sessions: HashSet<SessionName>,
}

impl Store {
    /// Starts to watch for changes of the list of jobs; call it before the list that must not miss one.
    pub fn changes(&self) -> Changes {
        let mut watches = Watches::new();
        make_dir(&self.sessions_dir()).ok();
        watches.add(&self.jobs());
        watches.add(&self.sessions_dir());
        let mut changes = Changes { watches, sessions: HashSet::new() };
        changes.add_sessions(self);
        changes
    }
}

impl Changes {
    /// Returns what to poll for.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watches.fd()
    }

    /// Tells how long a change may go unnoticed: none where the kernel pushes all of them.
    pub fn nap(&self) -> Option<Duration> {
        self.watches.nap()
    }

    /// Tells whether there may have been a change since the last call, and forgets it.
    pub fn take(&mut self, store: &Store) -> bool {
        let changed = self.watches.changed();
        if changed[1] {
            self.add_sessions(store);
        }
        changed.contains(&true)
    }

    fn add_sessions(&mut self, store: &Store) {
        for session in store.sessions().unwrap_or_default() {
            if !self.sessions.contains(&session) {
                self.watches.add(&store.session_dir(&session));
                self.sessions.insert(session);
            }
        }
    }
}
