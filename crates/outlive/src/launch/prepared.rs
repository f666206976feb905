//! A job in the store before a keeper has it.

use std::fs::File;
use std::io;
use std::time::Duration;

use outlive_core::{file, segment};
use outlive_sys::{durable, lock};

use crate::job::Job;

/// How long the locks of a job are waited for: a front end that only looks holds one for an instant.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// A job in the store whose locks this process holds.
pub(crate) struct Prepared {
    pub(super) job: Job,
    pub(super) lock: File,
    pub(super) done: File,
    pub(super) outcome: File,
    pub(super) index: File,
    pub(super) log: File,
}

impl Prepared {
    /// Takes the locks of a job that another process has prepared.
    pub(crate) fn reopen(job: Job) -> io::Result<Self> {
        let open = |name: &str| durable::open_rw(job.dir()?, name);
        let (lock, done) = (open(file::LOCK)?, open(file::DONE)?);
        for held in [&lock, &done] {
            if !lock::lock_within(held, LOCK_LIMIT)? {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
        }
        let (outcome, index, log) = (open(file::OUTCOME)?, open(file::INDEX)?, open(&segment::name(0))?);
        Ok(Self { job, lock, done, outcome, index, log })
    }

    /// Frees the locks, where no keeper has them too.
    pub(crate) fn into_job(self) -> Job {
        self.job
    }
}
