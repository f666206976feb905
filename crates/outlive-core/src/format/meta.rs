//! The snapshot for people and tools: `meta.json`.

use serde::{Deserialize, Serialize};

use crate::containment::{Containment, Kept};
use crate::control::Versions;
use crate::id::{JobId, Nonce};
use crate::outcome::{Closed, Outcome};
use crate::spec::Process;
use crate::status::Status;
use crate::timestamp::Timestamp;

/// What is known of a job that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Always [`crate::FORMAT`].
    pub format: u32,
    /// The id.
    pub job: JobId,
    /// As in the spec.
    pub nonce: Nonce,
    /// The word at the time of writing.
    pub status: Status,
    /// The keeper; none if it never came to write this.
    pub keeper: Option<Process>,
    /// The main process; none if the command was never executed.
    pub command: Option<Process>,
    /// When it was started.
    #[serde(rename = "started_us")]
    pub started: Option<Timestamp>,
    /// The same by the boot clock.
    pub started_boot_us: Option<u64>,
    /// What the keeper speaks.
    pub protocol: Versions,
    /// What holds it together.
    #[serde(default)]
    pub containment: Option<Containment>,
    /// How each of its limits is kept.
    #[serde(default)]
    pub kept: Kept,
    /// It is paused.
    #[serde(default)]
    pub paused: bool,
    /// Its timeout was lifted: what the spec says of it no longer counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// When so much of a limit was first seen used that somebody should know, and of which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<Near>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// When its last process was gone.
    pub closed: Option<Closed>,
}

/// A limit that was nearly reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Near {
    /// Which: `memory` or `pids`.
    pub limit: String,
    /// When that was seen.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
}

impl Meta {
    /// Reads the contents of `meta.json`; `None` if they are damaged or of another job or format.
    pub fn parse(nonce: Nonce, bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes)
            .ok()
            .filter(|meta| meta.format == crate::FORMAT && meta.nonce == nonce)
    }

    /// Returns the contents of `meta.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a snapshot has only string keys and finite numbers");
        bytes.push(b'\n');
        bytes
    }
}
