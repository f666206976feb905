//! What a job that runs waits for from its user, as its keeper saw it.

use serde::{Deserialize, Serialize};

use crate::timestamp::Timestamp;

words! {
    /// What is wanted.
    pub enum AwaitedKind {
        /// A line of text.
        Line = "line",
        /// A line that is not echoed.
        Password = "password",
        /// Single keys: it may be a prompt, and as well a server that takes shortcuts.
        Keys = "keys",
    }
}

words! {
    /// How it is known.
    pub enum KnownBy {
        /// A process is inside a call that waits for this input.
        Kernel = "kernel",
        /// The terminal's modes and what was printed say so.
        Likely = "likely",
    }
}

/// The input that a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// What is wanted.
    pub kind: AwaitedKind,
    /// How it is known.
    pub known: KnownBy,
    /// When the keeper saw it first.
    #[serde(rename = "since_us")]
    pub since: Timestamp,
}

impl AwaitedKind {
    /// Tells whether the job goes on only when it is answered, as far as can be told: a program that takes keys may be busy.
    pub fn is_question(self) -> bool {
        matches!(self, Self::Line | Self::Password)
    }
}
