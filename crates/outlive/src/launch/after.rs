//! What a job is to be started after. Whether that can come at all is found out before the job is made; its keeper waits for it.

use outlive_core::after::{After, Milestone};
use outlive_core::id::JobId;
use outlive_core::outcome::Cause;
use outlive_core::status::Status;

use crate::job::object::reason;
use crate::store::Store;

/// Why a job that is to be started after something would never be.
#[derive(Debug, thiserror::Error)]
pub enum AfterError {
    /// There is no such job.
    #[error("there is no job {0} to start it after")]
    Unknown(JobId),
    /// The other job was started without saying when it is ready.
    #[error("{0} never says when it is ready")]
    NoReady(JobId),
    /// Nothing says when the other job would be healthy.
    #[error("{0} was started without a health condition")]
    NoHealth(JobId),
    /// The other job has ended without coming to it.
    #[error("{after} can no longer come: {why}")]
    Never {
        /// What was to be waited for.
        after: After,
        /// How the other job ended.
        why: String,
    },
    /// The other job is of another host or pid namespace, whose end cannot be seen from here.
    #[error("{0} belongs to another host or pid namespace")]
    Elsewhere(JobId),
}

impl Store {
    /// Checks that what a job is to be started after has come or can still come.
    pub(crate) fn check_after(&self, after: &[After]) -> Result<(), AfterError> {
        after.iter().try_for_each(|after| {
            let id = || after.job.clone();
            let job = self.open_job(&after.job).ok().flatten().ok_or_else(|| AfterError::Unknown(id()))?;
            let state = job.state(self);
            if state.is_elsewhere() {
                return Err(AfterError::Elsewhere(id()));
            }
            let ended = state.outcome.as_ref();
            let is_never_started = ended.is_some_and(|end| matches!(end.cause, Cause::NeverStarted(_)));
            let can_come = match after.milestone {
                Milestone::Started => !is_never_started,
                Milestone::Ready if !job.spec().can_be_ready() => return Err(AfterError::NoReady(id())),
                Milestone::Healthy if !job.spec().options.health.is_checked() => {
                    return Err(AfterError::NoHealth(id()));
                }
                Milestone::Ready | Milestone::Healthy => ended.is_none(),
                Milestone::Completed => true,
                Milestone::Succeeded => ended.is_none() || state.status == Status::Completed,
            };
            match can_come {
                true => Ok(()),
                false => {
                    let why = reason(&state).unwrap_or_else(|| state.words());
                    Err(AfterError::Never { after: after.clone(), why })
                }
            }
        })
    }
}
