//! The native words for how a job is doing.
//!
//! Files hold facts. Words are derived from them: these from an outcome's two facts, and each profile has its own.

use crate::outcome::{Cause, Outcome, WaitStatus};

words! {
    /// How a job is doing, in outlive's own words.
    pub enum Status {
        /// It waits for its time to be started.
        Queued = "queued",
        /// Its keeper is about to execute the command.
        Starting = "starting",
        /// The command runs.
        Running = "running",
        /// It exited by itself with 0.
        Completed = "completed",
        /// It ended by itself in any other way, or never started.
        Failed = "failed",
        /// A front end was asked to stop it.
        Killed = "killed",
        /// Its deadline stopped it.
        TimedOut = "timed_out",
        /// Its keeper died before its end, or only a later version knows why it ended. The exit status may be unknown.
        Lost = "lost",
    }
}

impl Status {
    /// Chooses the word for an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        match (&outcome.cause, outcome.wait_status) {
            (Cause::Natural, WaitStatus::Exited { code: 0 }) => Self::Completed,
            (Cause::Natural | Cause::NeverStarted(_) | Cause::Oom, _) => Self::Failed,
            (Cause::Timeout, _) => Self::TimedOut,
            (Cause::Kill { .. } | Cause::Overlap, _) => Self::Killed,
            (Cause::Lost { .. } | Cause::Newer(_), _) => Self::Lost,
        }
    }

    /// Tells whether the main process has ended.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Starting | Self::Running)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.word())
    }
}
