//! Taking a job's timeout back: for one that somebody waited for and that is to go on without.
//!
//! The keeper has the deadline from the start, so it counts whatever becomes of who waits; and only the keeper can forget it.

use outlive_core::control::Request;

use crate::control::ControlError;
use crate::job::Job;
use crate::store::Store;

impl Store {
    /// Lets a job go on beyond its timeout. One without is as before.
    ///
    /// # Errors
    ///
    /// If the job has ended or is being ended, or its keeper cannot be reached.
    pub fn lift_timeout(&self, job: &Job) -> Result<(), ControlError> {
        let state = job.state(self);
        if !state.is_live() {
            return Err(ControlError::Ended(job.id().clone()));
        }
        if job.spec().options.timeout_ms.is_none() {
            return Ok(());
        }
        self.ask_to_accept(job, &state, &Request::LiftTimeout)
    }
}
