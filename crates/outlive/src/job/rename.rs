//! Gives a job another display name.
//!
//! The spec never changes: the new name is a file of its own, which overrides it.

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
    /// The name cannot be shown in one line.
    #[error("the name must be 1 to 100 characters without control characters")]
    Name,
    /// The store cannot be written, or the job was removed.
    #[error("cannot rename job {job}")]
    Store {
        /// The job.
        job: JobId,
        /// The system's error.
        source: io::Error,
    },
}

impl Store {
    /// Gives a job another display name. Its id stays, and `job` keeps the name that it was opened with.
    ///
    /// # Durability
    ///
    /// Written, not synced: after a power loss it may have its old name.
    ///
    /// # Errors
    ///
    /// If the name cannot be shown in one line, the store cannot be written, or the job was removed.
    pub fn rename(&self, job: &Job, name: &str) -> Result<(), RenameError> {
        // A read trims the file's content.
        let name = name.trim();
        if !is_showable(name) {
            return Err(RenameError::Name);
        }
        let failed = |source| RenameError::Store { job: job.id().clone(), source };
        if job.is_removed() {
            return Err(failed(io::Error::from(io::ErrorKind::NotFound)));
        }
        job.dir()
            .and_then(|dir| {
                durable::replace(Replacing::NAME, dir, file::NAME, format!("{name}\n").as_bytes())
            })
            .map_err(failed)
    }
}
