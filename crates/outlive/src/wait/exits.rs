//! Watches for the end of one job.
//!
//! While the main process runs, a pidfd each reports its end and its keeper's. After its end the keeper still drains, writes,
//! syncs and announces: the `done` lock, which it releases last, is tried with short pauses. A job whose processes are not
//! known yet is watched through its directory; one whose processes are in another pid namespace is looked at now and then.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use outlive_sys::identity::Handle;
use outlive_sys::watch::Watches;

use crate::control::orphan::MainHandle;
use crate::control::tree::identity;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// The first pause between two tries, about the time of a keeper on a fast disk, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_micros(30), Duration::from_millis(500));

/// Pauses grow with the time waited, so that a late try adds at most this fraction of it.
const LATENESS: u32 = 8;

#[derive(Debug, Default)]
pub(crate) struct ExitWatch {
    /// Index of the job's directory among the watches, if it is watched.
    watch: Option<usize>,
    /// `meta.json` names a main process that is visible from here.
    is_known: bool,
    main: Option<MainHandle>,
    keeper: Option<Handle>,
    /// The keeper is dead; by this lock other front ends see that this process holds the main process.
    held: Option<Option<File>>,
    /// Since when the job is polled, ever less often, because the kernel reports nothing; and the time of the next try.
    pause: Option<(Instant, Instant)>,
}

impl ExitWatch {
    /// Uses the watch of the job's directory, if there is one.
    pub(crate) fn new(watch: Option<usize>) -> Self {
        Self { watch, ..Self::default() }
    }

    /// Tells whether the job's directory has changed.
    pub(crate) fn has_changed(&self, changed: &[bool]) -> bool {
        self.watch.is_some_and(|watch| changed.get(watch) == Some(&true))
    }

    /// Opens what reports the end, and records how a main process without a keeper ended. To be called before the job's state
    /// is read, so that nothing is missed before the sleep.
    pub(crate) fn prepare(&mut self, store: &Store, job: &Job, watches: &mut Watches) {
        if self.main.is_none() {
            self.open(store, job);
            if !self.is_known && self.watch.is_none() {
                self.watch = Some(watches.add(job.path()));
                self.open(store, job);
            }
        } else if self.keeper.is_none() && self.held.is_none() && self.is_known {
            // A guard that has become the keeper is named by the next snapshot.
            self.keeper = job.meta().and_then(|meta| meta.keeper).map(identity).and_then(Handle::open);
        }
        if let Some(main) = &self.main {
            main.record_end(store, job);
        }
    }

    fn open(&mut self, store: &Store, job: &Job) {
        let Some(meta) = job.meta().filter(|_| *store.host() == *job.host()) else { return };
        self.is_known = meta.command.is_some();
        self.main = MainHandle::open(&meta);
        self.keeper = meta.keeper.map(identity).and_then(Handle::open);
    }

    /// Decides from the state what reports the end from here on.
    pub(crate) fn note(&mut self, store: &Store, job: &Job, state: &State, now: Instant) {
        if state.is_orphaned() && !state.status.has_ended() && self.held.is_none() {
            self.held = self.main.as_ref().map(|main| main.hold(store, job));
        }
        self.keeper = self.keeper.take().filter(|keeper| !keeper.has_ended());
        let is_running = self.main.as_ref().is_some_and(|main| !main.has_ended());
        let is_kept_or_held = self.keeper.is_some() || self.held.is_some();
        // Of a job elsewhere no file tells that its pid namespace has ended.
        // A node may begin one that an engine has, and this machine hears nothing of it.
        let is_here = !state.is_elsewhere() && job.unplaced().is_none();
        let is_unknown = !self.is_known && is_here && !state.status.has_ended() && !state.is_orphaned();
        if (is_running && is_kept_or_held) || is_unknown {
            self.pause = None;
        } else {
            self.pause(now);
        }
    }

    /// Postpones the next try. Closes the keeper's pidfd, which is no longer needed, to save a descriptor.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.keeper = None;
        let since = self.pause.map_or(now, |(since, _)| since);
        let pause = (now.saturating_duration_since(since) / LATENESS).clamp(PAUSES.0, PAUSES.1);
        self.pause = Some((since, now + pause));
    }

    /// Tells whether the main process has ended, or may have.
    pub(crate) fn is_ending(&self) -> bool {
        self.pause.is_some() || self.main.as_ref().is_some_and(MainHandle::has_ended)
    }

    /// Tells whether the main process is held here, so that its exit status will be known.
    pub(crate) fn holds_main(&self) -> bool {
        self.main.is_some()
    }

    /// Returns when to try again without a kernel event.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pause.map(|(_, until)| until)
    }

    /// Returns the descriptors to poll, beside the watches.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let main = self.main.as_ref().map(MainHandle::fd);
        let keeper = self.keeper.as_ref().filter(|_| self.held.is_none()).map(AsFd::as_fd);
        main.into_iter().chain(keeper).filter(|_| self.pause.is_none())
    }
}
