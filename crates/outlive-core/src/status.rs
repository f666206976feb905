//! The native words for how a job is doing.
//!
//! Files hold facts. Words are derived from them: these from an outcome's two facts, and each profile has its own.

use serde::{Deserialize, Serialize};

use crate::outcome::{Cause, Outcome, WaitStatus};

/// How a job is doing, in outlive's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Its keeper is about to execute the command.
    Starting,
    /// The command runs.
    Running,
    /// It exited by itself with 0.
    Completed,
    /// It ended by itself in any other way, or never started.
    Failed,
    /// A front end was asked to stop it.
    Killed,
    /// Its deadline stopped it.
    TimedOut,
    /// Its keeper died before its end, or only a later version knows why it ended. The exit status may be unknown.
    Lost,
}

impl Status {
    /// Chooses the word for an outcome.
    pub fn of(outcome: &Outcome) -> Self {
        match (&outcome.cause, outcome.wait_status) {
            (Cause::Natural, WaitStatus::Exited { code: 0 }) => Self::Completed,
            (Cause::Natural | Cause::NeverStarted(_) | Cause::Oom, _) => Self::Failed,
            (Cause::Timeout, _) => Self::TimedOut,
            (Cause::Kill { .. }, _) => Self::Killed,
            (Cause::Lost { .. } | Cause::Newer(_), _) => Self::Lost,
        }
    }

    /// Returns the word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Killed => "killed",
            Self::TimedOut => "timed_out",
            Self::Lost => "lost",
        }
    }

    /// Tells whether the main process has ended.
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::Starting | Self::Running)
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.word())
    }
}
