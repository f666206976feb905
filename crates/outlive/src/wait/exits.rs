//! Watching for the end of one job.
//!
//! While the main process runs, the kernel tells of its end, and of its keeper's, by a pidfd each. Once it has ended, only the
//! keeper's work is left (drain, write, sync, announce): the `done` lock, which the keeper frees last, is tried with short pauses.
//! A job whose processes are not known yet, or belong to another pid namespace, is watched by its directory.

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

/// The first pause between two looks, about the time that a keeper needs where the disk is fast, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_micros(30), Duration::from_millis(500));

/// Pauses grow with the time already waited, so that a late look adds at most this part of it.
const LATENESS: u32 = 8;

/// Watches for the end of one job.
#[derive(Debug, Default)]
pub(crate) struct ExitWatch {
    /// The place of the job's directory among the watches, where it is watched.
    watch: Option<usize>,
    /// The snapshot names a main process that can be seen from here.
    is_known: bool,
    main: Option<MainHandle>,
    keeper: Option<Handle>,
    /// The keeper is dead; other front ends see by this lock that the main process is held here.
    held: Option<Option<File>>,
    pause: Option<Pause>,
}

/// The kernel does not tell: the job is looked at again, ever less often.
#[derive(Debug)]
struct Pause {
    since: Instant,
    until: Instant,
}

impl ExitWatch {
    /// Watches the job's directory, too, if it is one of the watches already.
    pub(crate) fn new(watch: Option<usize>) -> Self {
        Self { watch, ..Self::default() }
    }

    /// Tells whether the job's directory has changed.
    pub(crate) fn has_changed(&self, changed: &[bool]) -> bool {
        self.watch.is_some_and(|watch| changed.get(watch) == Some(&true))
    }

    /// Takes hold of what tells of the end, and writes down how a main process without keeper ended. To be called before the job
    /// is looked at: then nothing is missed between the look and the sleep.
    pub(crate) fn prepare(&mut self, store: &Store, job: &Job, watches: &mut Watches) {
        if self.main.is_none() {
            self.open(store, job);
            if !self.is_known && self.watch.is_none() {
                self.watch = Some(watches.add(job.path()));
                self.open(store, job);
            }
        }
        if let Some(main) = &self.main {
            main.tell(store, job);
        }
    }

    fn open(&mut self, store: &Store, job: &Job) {
        let Some(meta) = job.meta().filter(|_| *store.host() == job.spec().host) else { return };
        self.is_known = meta.command.is_some();
        self.main = MainHandle::open(&meta);
        self.keeper = meta.keeper.map(identity).and_then(Handle::open);
    }

    /// Decides, by the state that was seen, what tells of the end from here on.
    pub(crate) fn note(&mut self, store: &Store, job: &Job, state: &State, now: Instant) {
        if state.is_orphaned() && !state.status.has_ended() && self.held.is_none() {
            self.held = self.main.as_ref().map(|main| main.hold(store, job));
        }
        self.keeper = self.keeper.take().filter(|keeper| !keeper.has_ended());
        let is_running = self.main.as_ref().is_some_and(|main| !main.has_ended());
        let is_kept_or_held = self.keeper.is_some() || self.held.is_some();
        let is_here = store.host().machine == job.spec().host.machine;
        let is_unknown = !self.is_known && is_here && !state.status.has_ended() && !state.is_orphaned();
        if (is_running && is_kept_or_held) || is_unknown {
            self.pause = None;
        } else {
            self.pause(now);
        }
    }

    /// Puts the next look off. The keeper's end no longer matters: its descriptor may be what the next look lacks.
    pub(crate) fn pause(&mut self, now: Instant) {
        self.keeper = None;
        let since = self.pause.as_ref().map_or(now, |pause| pause.since);
        let pause = (now.saturating_duration_since(since) / LATENESS).clamp(PAUSES.0, PAUSES.1);
        self.pause = Some(Pause { since, until: now + pause });
    }

    /// Tells whether the main process has ended, or may have.
    pub(crate) fn is_ending(&self) -> bool {
        self.pause.is_some() || self.main.as_ref().is_some_and(MainHandle::has_ended)
    }

    /// Tells whether the main process is held here, and so its end will be known.
    pub(crate) fn holds_main(&self) -> bool {
        self.main.is_some()
    }

    /// Returns when to look again though the kernel told nothing.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.pause.as_ref().map(|pause| pause.until)
    }

    /// Returns what to poll for, beside the watches.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let main = self.main.as_ref().map(MainHandle::fd);
        let keeper = self.keeper.as_ref().filter(|_| self.held.is_none()).map(AsFd::as_fd);
        main.into_iter().chain(keeper).filter(|_| self.pause.is_none())
    }
}
