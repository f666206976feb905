//! Removes a job from the store.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use outlive_core::event::{Event, Kind};
use outlive_core::id::JobId;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point};
use outlive_sys::{clock, durable};

use crate::job::Job;
use crate::store::Store;

/// Why a job was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// A process of the job still runs.
    #[error("job {0} is still live")]
    Live(JobId),
    /// The job belongs to another host or pid namespace.
    #[error("job {0} belongs to another host or pid namespace")]
    Elsewhere(JobId),
    /// The store cannot be written.
    #[error("cannot remove {path}")]
    Io {
        /// The path that failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Store {
    /// Removes an ended job with its output, so that no reader sees half of it. Success if it is gone already.
    ///
    /// # Errors
    ///
    /// If a process of it still runs, or the store cannot be written.
    pub fn remove(&self, job: &Job) -> Result<(), RemoveError> {
        match self.take_out(job)? {
            Some(gone) => delete(&gone).map_err(|source| RemoveError::Io { path: gone, source }),
            None => Ok(()),
        }
    }

    /// Takes an ended job out of the store in one step; returns the directory that is left to [`delete`], which may take long.
    /// `None` if another process has taken it out.
    pub(crate) fn take_out(&self, job: &Job) -> Result<Option<PathBuf>, RemoveError> {
        let state = job.state(self);
        if state.is_elsewhere() && state.is_live() {
            return Err(RemoveError::Elsewhere(job.id().clone()));
        }
        if state.is_live() {
            return Err(RemoveError::Live(job.id().clone()));
        }
        // The on-exit process reads the job first; usually it is long done.
        self.await_completion(job, &state)
            .map_err(|source| RemoveError::Io { path: self.spool(), source })?;
        // A keeper that died may have left the end unrecorded.
        if self.live().join(job.live_mark()).exists() {
            self.reconcile_job(job, &state);
        }
        let untold = job.undelivered();
        let gone = self.gone_path(job);
        let failed = |source| RemoveError::Io { path: job.path().to_owned(), source };
        match fault::step(Point::RemoveRename, || durable::rename_new(job.path(), &gone)) {
            Ok(true) => {}
            // Another process removes it at the same time.
            Ok(false) => return Ok(None),
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        self.remove_live_mark(Point::RemoveMark, job);
        let removed = Event::new(Kind::Removed, job.id(), job.spec().nonce, Timestamp(clock::wall_us()));
        self.append_event(Appending::REMOVE_EVENT, job.session(), &Event { untold, ..removed });
        Ok(Some(gone))
    }

    /// Names the place to delete a job from. Unique by its nonce, even if an earlier removal was cut short.
    pub(crate) fn gone_path(&self, job: &Job) -> PathBuf {
        self.new_dir().join(format!("{}.{}.gone", job.id(), job.spec().nonce))
    }
}

/// Deletes a directory that was taken out of the store. The store's lock is not to be held meanwhile.
pub(crate) fn delete(gone: &Path) -> io::Result<()> {
    let mut deleted = fault::step(Point::RemoveDelete, || fs::remove_dir_all(gone));
    // A process that has the directory open may create a file in it meanwhile.
    for _ in 0..10 {
        if !deleted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {
            break;
        }
        deleted = fs::remove_dir_all(gone);
    }
    deleted
}
