//! The objects of the API, as far as a client needs them by name. What else there is, in this version or a later one, is in `more`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A job, as `outlive show --json` and the list have it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Its id, on that machine.
    pub job: String,
    /// Its status, by its word: `running`, `completed`, `failed`, …
    pub status: String,
    /// The name that its starter gave it.
    #[serde(default)]
    pub name: Option<String>,
    /// The command for people.
    #[serde(default)]
    pub command: String,
    /// Its directory.
    #[serde(default)]
    pub cwd: String,
    /// The session that owns it.
    #[serde(default)]
    pub session: String,
    /// When it was started, in RFC 3339.
    #[serde(default)]
    pub started_at: Option<String>,
    /// When its main process ended.
    #[serde(default)]
    pub ended_at: Option<String>,
    /// The exit code of the main process.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// Why it ended, in a sentence.
    #[serde(default)]
    pub reason: Option<String>,
    /// From the start to the end, or until now.
    #[serde(default)]
    pub runtime_ms: Option<u64>,
    /// All else that is said of it.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A page of the list.
#[derive(Debug, Clone, Deserialize)]
pub struct Jobs {
    /// The newest first.
    pub jobs: Vec<Job>,
    /// Where the next page begins; none: this is the last.
    pub next: Option<String>,
    /// How many jobs fit the filter in all.
    pub total: usize,
}

/// What a wait came to.
#[derive(Debug, Clone, Deserialize)]
pub struct Waited {
    /// `exit`, `ready`, `match`, …, or `timeout`.
    pub outcome: String,
    /// Whether what was waited for came.
    pub reached: bool,
    /// Whether it may still come.
    pub can_still_come: bool,
    /// The end of the output.
    pub tail: Option<String>,
    /// The job as it is now.
    pub job: Job,
}

/// What a kill came to.
#[derive(Debug, Clone, Deserialize)]
pub struct Killed {
    /// The job.
    pub job: String,
    /// Its status, by its word.
    pub status: String,
    /// It had ended before.
    pub already_ended: bool,
    /// The processes that are left, with the reason for each.
    pub survivors: Vec<Value>,
}

/// A session.
#[derive(Debug, Clone, Deserialize)]
pub struct Session {
    /// Its name.
    pub session: String,
    /// `open` or `closed`.
    pub state: String,
    /// How many of its jobs are live.
    pub live: usize,
    /// How many have ended.
    pub ended: usize,
}

/// What is new for a reader.
#[derive(Debug, Clone, Deserialize)]
pub struct Inbox {
    /// The oldest first.
    pub notices: Vec<Value>,
    /// For the acknowledgement.
    pub up_to: u64,
    /// How many come with the next look.
    pub left: usize,
}

/// Something that happened, or a gap where some of it is no longer kept.
#[derive(Debug, Clone)]
pub struct Event {
    /// `start`, `event` or `gap`.
    pub kind: String,
    /// The place after it: to go on from there.
    pub id: String,
    /// The object.
    pub object: Value,
}
