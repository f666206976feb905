//! The main process of a job, held so that its end is seen.

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

/// The main process of a job, held so that its end is seen and its exit status known.
#[derive(Debug)]
pub(crate) struct MainHandle {
    id: ProcessId,
    handle: Handle,
}

impl MainHandle {
    /// Takes hold of the main process of a job of this host; `None` if it has ended or is not known.
    pub(crate) fn of(store: &Store, job: &Job) -> Option<Self> {
        Self::open(&job.meta().filter(|_| *store.host() == job.spec().host)?)
    }

    /// Takes hold of the main process that the snapshot of a job of this host names.
    pub(crate) fn open(meta: &Meta) -> Option<Self> {
        let id = meta.command.map(identity)?;
        Some(Self { id, handle: Handle::open(id)? })
    }

    /// Writes down how the main process ended, if it has and nobody else will. To be called before the job is looked at:
    /// whoever looks knows less.
    pub(crate) fn tell(&self, store: &Store, job: &Job) {
        self.tell_asked(store, job, false, None);
    }

    /// Writes it down for whoever saw it end, just now if `is_now`, and perhaps asked for it.
    pub(super) fn tell_asked(&self, store: &Store, job: &Job, is_now: bool, asked: Option<&Asked>) {
        if self.has_ended() && job.records().0.is_none() && !job.is_kept() && !job.is_removed() {
            let status = self.handle.wait_status(self.id);
            let seen = Seen { status, is_now, asked: asked.cloned() };
            job.end_unkept(store, job.meta().as_ref(), Some(seen));
        }
    }

    /// Says that nobody keeps the job and that its main process is held here, for as long as the result lives.
    pub(crate) fn hold(&self, store: &Store, job: &Job) -> Option<File> {
        job.tell_orphaned(store);
        hold(job)
    }

    /// Returns what is readable once the main process has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Tells whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }
}

/// Says to others that the main process is held here: whoever does not know how it ended waits a moment for us.
pub(super) fn hold(job: &Job) -> Option<File> {
    let file = durable::open_ro(job.dir(), file::ORPHANED).ok()?;
    let locked = fault::step(Point::OrphanHold, || lock::try_lock(&file, lock::Kind::Shared));
    locked.ok()?.then_some(file)
}
