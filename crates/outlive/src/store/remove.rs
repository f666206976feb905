//! Removing a job from the store.

use std::fs;
use std::io;
use std::path::PathBuf;

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
    /// Something of it still runs.
    #[error("job {0} is still live")]
    Live(JobId),
    /// Another host or pid namespace has it.
    #[error("job {0} belongs to another host or pid namespace")]
    Elsewhere(JobId),
    /// The store cannot be written.
    #[error("cannot remove {path}")]
    Io {
        /// What.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Store {
    /// Removes a job that has ended, with its output; no reader ever sees half of it. One that is gone is a success.
    ///
    /// # Errors
    ///
    /// If something of it still runs, or the store cannot be written.
    pub fn remove(&self, job: &Job) -> Result<(), RemoveError> {
        let state = job.state(self);
        if state.is_elsewhere() && state.is_live() {
            return Err(RemoveError::Elsewhere(job.id().clone()));
        }
        if state.is_live() {
            return Err(RemoveError::Live(job.id().clone()));
        }
        // Whoever tells of its end reads it first; mostly that was long ago.
        self.await_completion(job, &state)
            .map_err(|source| RemoveError::Io { path: self.spool(), source })?;
        // A keeper that died may have left its end untold.
        if self.live().join(job.live_mark()).exists() {
            self.reconcile_job(job, &state);
        }
        let untold = job.undelivered();
        // The nonce makes the place new, even if an earlier attempt was cut short.
        let gone = self.new_dir().join(format!("{}.{}.gone", job.id(), job.spec().nonce));
        let failed = |source| RemoveError::Io { path: job.path().to_owned(), source };
        match fault::step(Point::RemoveRename, || durable::rename_new(job.path(), &gone)) {
            Ok(true) => {}
            // Two who remove at the same time: the other one has it.
            Ok(false) => return Ok(()),
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
        let mark = self.live().join(job.live_mark());
        fault::step(Point::RemoveMark, || fs::remove_file(mark)).ok();
        let removed = Event::new(Kind::Removed, job.id(), job.spec().nonce, Timestamp(clock::wall_us()));
        self.append_event(Appending::REMOVE_EVENT, job.session(), &Event { untold, ..removed });
        // Somebody who still has the directory open may make a file in it meanwhile.
        let mut removed = fault::step(Point::RemoveDelete, || fs::remove_dir_all(&gone));
        for _ in 0..10 {
            if !removed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {
                break;
            }
            removed = fs::remove_dir_all(&gone);
        }
        removed.map_err(failed)
    }
}
