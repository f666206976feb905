//! Giving a job another name.
//!
//! The spec never changes: the new name is a file of its own, and whoever opens the job sees it.

use std::io;

use outlive_core::file;
use outlive_core::id::JobId;
use outlive_sys::durable;
use outlive_sys::fault::Replacing;

use crate::job::Job;
use crate::launch::request::is_showable;
use crate::store::Store;

/// Why a job was not renamed.
#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    /// It could not be shown in one line.
    #[error("the name must be 1 to 100 characters without control characters")]
    Name,
    /// The store cannot be written, or the job was removed.
    #[error("cannot rename job {job}")]
    Store {
        /// Which job.
        job: JobId,
        /// Why not.
        source: io::Error,
    },
}

impl Store {
    /// Gives a job another name. Its id stays, and `job` itself as it was opened.
    ///
    /// # Durability
    ///
    /// Written, not synced: after a loss of power it may have its old name.
    ///
    /// # Errors
    ///
    /// If the name cannot be shown in one line, the store cannot be written, or the job was removed.
    pub fn rename(&self, job: &Job, name: &str) -> Result<(), RenameError> {
        // The spaces around it would be lost when it is read.
        let name = name.trim();
        if !is_showable(name) {
            return Err(RenameError::Name);
        }
        let failed = |source| RenameError::Store { job: job.id().clone(), source };
        if job.is_removed() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        durable::replace(Replacing::NAME, job.dir(), file::NAME, format!("{name}\n").as_bytes())
            .map_err(failed)
    }
}
