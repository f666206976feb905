//! Lifts a job's timeout, for a job that goes on in the background after a wait.
//!
//! The keeper has the deadline from the start, so it holds even if the waiting front end dies; only the keeper can lift it.

use outlive_core::control::Request;

use crate::control::ControlError;
use crate::job::Job;
use crate::store::Store;

impl Store {
    /// Lets a job run beyond its timeout. Does nothing for a job without a timeout.
    ///
    /// # Errors
    ///
    /// If the job has ended or is being killed, or its keeper cannot be reached.
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
