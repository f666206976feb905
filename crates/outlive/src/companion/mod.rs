//! What the process beside a job does, apart from looking whether it is ready and healthy: it passes on what another job prints,
//! watches files, and asks the engine that has placed the job whether its place is still its own.
//!
//! It is started with the job, and only where something is asked of it. If it is killed, the keeper or the next front end that reads the job starts another.

mod feed;
pub(crate) mod files;
mod place;

use crate::job::Job;

impl Job {
    /// Tells whether a process beside it has work to do for as long as it runs, apart from health.
    pub(crate) fn needs_companion(&self) -> bool {
        let spec = self.spec();
        !spec.restart_on_change.is_empty() || (spec.stdin_from.is_some() && !self.is_fed())
    }
}
