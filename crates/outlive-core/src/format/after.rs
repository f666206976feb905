//! What a job waits for in another job before it is started: `db-3f9c@ready`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::JobId;

words! {
    /// How far a job has come.
    pub enum Milestone {
        /// Its command was executed.
        Started = "started",
        /// It is ready, by the condition that it was started with.
        Ready = "ready",
        /// It is ready, if it says when, and a check of its health has succeeded.
        Healthy = "healthy",
        /// It has ended, in whatever way.
        Completed = "completed",
        /// It has ended with 0.
        Succeeded = "succeeded",
    }
}

/// What is waited for before a job is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct After {
    /// The other job.
    pub job: JobId,
    /// What must hold of it.
    pub milestone: Milestone,
}

impl After {
    /// Reads `JOB@MILESTONE`; `None` if it is not that.
    pub fn parse(text: &str) -> Option<Self> {
        let (job, milestone) = text.split_once('@')?;
        Some(Self { job: JobId::parse(job).ok()?, milestone: Milestone::parse(milestone)? })
    }
}

impl fmt::Display for After {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.job, self.milestone.word())
    }
}

impl TryFrom<String> for After {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not JOB@MILESTONE"))
    }
}

impl From<After> for String {
    fn from(after: After) -> Self {
        after.to_string()
    }
}
