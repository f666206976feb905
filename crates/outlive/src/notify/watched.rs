//! Looks at the output of watched jobs as it comes, for a front end that stays and waits for events.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_core::id::SessionName;
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock;
use outlive_sys::watch::Watches;

use crate::notify::events::make_dir;
use crate::store::Store;

/// The shortest time between two looks: a job that prints all the time wakes the front end with every write.
const PAUSE: Duration = Duration::from_millis(50);

/// The output of watched jobs, of a session or of all. Call [`WatchedOutput::look`] whenever [`WatchedOutput::fd`] is readable or
/// [`WatchedOutput::nap`] is over; the events are then in the session's log.
#[derive(Debug)]
pub struct WatchedOutput {
    session: Option<SessionName>,
    /// Of the store's `watches/`, then of each watched job; none before the first look.
    watches: Option<Watches>,
    /// The last look, and whether something changed since that was not looked at.
    looked: Option<Instant>,
    is_late: bool,
    /// When lines can be told that were held back.
    due: Option<Timestamp>,
}

impl WatchedOutput {
    /// Watches the jobs of a session, or of all, from the first look on.
    pub fn new(session: Option<SessionName>) -> Self {
        Self { session, watches: None, looked: None, is_late: false, due: None }
    }

    /// Returns what to poll for.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watches.as_ref().and_then(Watches::fd)
    }

    /// Returns how long to sleep at most.
    pub fn nap(&self) -> Option<Duration> {
        let due = self.due.map(|due| Duration::from_micros(due.0.saturating_sub(clock::wall_us())));
        let late = self.looked.filter(|_| self.is_late).map(|looked| PAUSE.saturating_sub(looked.elapsed()));
        [due, late, self.watches.as_ref().and_then(Watches::nap)].into_iter().flatten().min()
    }

    /// Appends the events of lines that match and were not looked at yet.
    pub fn look(&mut self, store: &Store) {
        let changed = self.watches.as_ref().map(Watches::changed);
        let is_first = changed.is_none();
        let has_other_jobs = changed.as_ref().is_none_or(|changed| changed.first() == Some(&true));
        self.is_late |= is_first || changed.is_some_and(|changed| changed.contains(&true));
        self.is_late |= self.due.is_some_and(|due| due.0 <= clock::wall_us());
        if has_other_jobs {
            // Watching begins before the look, so that nothing is missed between the two.
            self.watch(store);
        }
        if self.is_late && self.looked.is_none_or(|looked| looked.elapsed() >= PAUSE) {
            self.due = store.examine_watched(self.session.as_ref());
            (self.is_late, self.looked) = (false, Some(Instant::now()));
        }
    }

    fn watch(&mut self, store: &Store) {
        let mut watches = Watches::new();
        // Where it cannot be made, there is nothing to watch for.
        if make_dir(&store.watches_dir()).is_ok() {
            watches.add(&store.watches_dir());
        }
        for (id, _) in store.watched() {
            watches.add(&store.jobs().join(id.as_str()));
        }
        self.watches = Some(watches);
    }
}
