//! A handle on a job's main process.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use outlive_core::file;
use outlive_core::meta::Meta;
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::{durable, lock};

use super::{Asked, Seen};
use crate::control::tree::identity;
use crate::job::Job;
use crate::store::Store;

/// A handle on a job's main process, which observes its end and exit status.
#[derive(Debug)]
pub(crate) struct MainHandle {
    id: ProcessId,
    handle: Handle,
}

impl MainHandle {
    /// Opens the main process of a job of this host; `None` if it has ended or is unknown.
    pub(crate) fn of(store: &Store, job: &Job) -> Option<Self> {
        Self::open(&job.meta().filter(|_| *store.host() == job.spec().host)?)
    }

    /// Opens the main process that a job's `meta.json` names; the job is of this host.
    pub(crate) fn open(meta: &Meta) -> Option<Self> {
        let id = meta.command.map(identity)?;
        Some(Self { id, handle: Handle::open(id)? })
    }

    /// Records how the main process ended, if it has and there is no keeper. To be called before [`Job::state`], which knows
    /// less.
    pub(crate) fn record_end(&self, store: &Store, job: &Job) {
        self.record_asked_end(store, job, false, None);
    }

    /// As `record_end`, for a caller that saw the end, just now if `is_now`, and may have requested it.
    pub(super) fn record_asked_end(&self, store: &Store, job: &Job, is_now: bool, asked: Option<&Asked>) {
        if self.has_ended() && job.records().0.is_none() && !job.is_kept() && !job.is_removed() {
            let status = self.handle.wait_status(self.id);
            let seen = Seen { status, is_now, asked: asked.cloned() };
            job.end_unkept(store, job.meta().as_ref(), Some(seen));
        }
    }

    /// Records that the job is an orphan, and holds its main process for as long as the result lives.
    pub(crate) fn hold(&self, store: &Store, job: &Job) -> Option<File> {
        job.tell_orphaned(store);
        hold(job)
    }

    /// Returns a descriptor that is readable once the main process has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }
}

/// Locks the orphan's mark: a front end without the exit status then waits briefly for this process to record it.
pub(super) fn hold(job: &Job) -> Option<File> {
    let file = durable::open_ro(job.dir(), file::ORPHANED).ok()?;
    let locked = fault::step(Point::OrphanHold, || lock::try_lock(&file, lock::Kind::Shared));
    locked.ok()?.then_some(file)
}
