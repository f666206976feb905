//! Seeing to the process that checks whether a job is ready and healthy, and watches its files.
//!
//! The front end that starts the job starts that process, which holds the lock of the job's file `probe`. Where it was killed, the keeper finds
//! the lock free, and starts another: a bounded number of times, each after twice as long.

use std::os::fd::AsFd;

use outlive_core::file;
use outlive_core::options::{JobOptions, Ready};
use outlive_sys::fault::{self, Point};
use outlive_sys::{clock, durable, lock};

use crate::start::Keeper;

/// How often the lock is looked at: a health check is made every ten seconds, where the job does not say.
const EVERY_US: u64 = 3_000_000;

/// How often the process is started at most; what ends one may end them all. Front ends that look at the job start others.
const MOST: u32 = 8;

/// When to look at the lock.
pub(crate) struct ProberWatch {
    /// Its health is checked, or files are watched: for as long as it runs.
    is_lasting: bool,
    next_us: Option<u64>,
    starts: u32,
}

impl ProberWatch {
    pub(crate) fn new(options: &JobOptions, is_watching: bool) -> Self {
        let is_lasting = options.health.is_checked() || is_watching;
        let is_wanted = is_lasting || options.ready != Ready::default();
        Self { is_lasting, next_us: is_wanted.then(|| clock::boot_us() + EVERY_US), starts: 0 }
    }

    /// When [`Keeper::check_prober`] wants to be called.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.next_us
    }

    /// Tells whether there is still something to check.
    fn is_needed(&self, dir: impl AsFd) -> bool {
        self.is_lasting || durable::open_ro(dir, file::READY).is_err()
    }
}

/// Tells whether a process checks the job.
fn is_checked(dir: impl AsFd) -> bool {
    let Ok(held) = durable::open_ro(dir, file::PROBE) else { return false };
    let is_free = lock::try_lock(&held, lock::Kind::Shared).unwrap_or(false);
    lock::unlock(&held).ok();
    !is_free
}

impl Keeper {
    /// Starts the process that checks the job, if it is gone.
    pub(crate) fn check_prober(&mut self, now_us: u64) {
        let is_over =
            !self.ending.is_running() || self.prober.starts >= MOST || !self.prober.is_needed(&self.dir);
        if is_over {
            self.prober.next_us = None;
            return;
        }
        self.prober.next_us = Some(now_us + (EVERY_US << self.prober.starts));
        let Some(program) = self.on_exit.as_ref().filter(|_| !is_checked(&self.dir)) else { return };
        self.prober.starts += 1;
        let start = || program.start_next_run().ok_or(std::io::ErrorKind::Other.into());
        if let Ok(id) = fault::step(Point::ProberExec, start) {
            self.custody.add_worker(id.pid.cast_unsigned());
            self.containment.except(id.pid.cast_unsigned());
        }
    }
}
