//! How a job ended: two facts, and the record that holds them on disk.

mod slot;

use serde::{Deserialize, Serialize};

use crate::rawtext::RawText;
use crate::timestamp::Timestamp;
use slot::Flat;

pub use slot::{CLOSED_AT, FILE_BYTES, OUTCOME_AT, SLOT_BYTES};

/// What the kernel said of the main process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitStatus {
    /// It exited with this code.
    Exited {
        /// 0 to 255.
        code: i32,
    },
    /// A signal ended it.
    Signaled {
        /// Its number.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
    /// Not known. Never to be read as 0.
    Unknown,
}

/// Why it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    Natural,
    /// Its deadline was over.
    Timeout,
    /// A kill was asked for.
    Kill {
        /// On whose behalf, in words.
        by: String,
    },
    /// The next run of its schedule was due.
    Overlap,
    /// The kernel ended it for want of memory.
    Oom,
    /// Its program was never executed.
    NeverStarted(NeverStarted),
    /// Its keeper was gone when it ended, or with it.
    Lost {
        /// What is known, in words.
        why: String,
    },
    /// Something that a later version knows, by its word.
    Newer(String),
}

impl Cause {
    /// Returns the word.
    pub fn word(&self) -> &str {
        match self {
            Self::Natural => "natural",
            Self::Timeout => "timeout",
            Self::Kill { .. } => "kill",
            Self::Overlap => "overlap",
            Self::Oom => "oom",
            Self::NeverStarted(_) => "never_started",
            Self::Lost { .. } => "lost",
            Self::Newer(word) => word,
        }
    }
}

/// Why a command was never executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NeverStarted {
    /// The step that failed: `keeper`, `store`, `after`, `queue`, `containment`, `group`, `fork`, `session`, `stdio`, `directory`, `exec`.
    pub step: String,
    /// The kernel's reason, if it gave one.
    pub errno: Option<i32>,
    /// The program or directory concerned.
    pub path: Option<RawText>,
    /// More in words, such as the interpreter that is missing.
    pub detail: Option<String>,
}

impl NeverStarted {
    /// Tells what failed in a sentence that names the step, the path and the cause.
    pub fn sentence(&self) -> String {
        let path = self.path.as_ref().map_or_else(|| "?".to_owned(), RawText::to_lossy);
        let reason = self.errno.map_or_else(|| "for an unknown reason".to_owned(), errno_text);
        let detail = self.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
        match self.step.as_str() {
            "exec" => format!("could not execute {path}: {reason}{detail}"),
            "directory" => format!("could not enter the directory {path}: {reason}{detail}"),
            "keeper" => format!("its keeper ended before the command was started{detail}"),
            "store" => format!("could not prepare {path} in the store: {reason}{detail}"),
            "fork" => format!("could not make a process: {reason}{detail}"),
            "group" => format!("could not put it into its control group {path}: {reason}{detail}"),
            "after" | "queue" => format!("it was not started{detail}"),
            "containment" => format!("could not contain it as asked{detail}"),
            step => format!("could not set up the {step} of the process: {reason}{detail}"),
        }
    }

    /// Returns the reason alone, in a few words: `no such file`.
    pub fn cause(&self) -> String {
        match self.errno {
            Some(2) if self.step == "directory" => "no such directory".to_owned(),
            Some(2) => "no such file".to_owned(),
            Some(errno) => errno_text(errno),
            None => self.detail.clone().unwrap_or_else(|| self.step.clone()),
        }
    }

    /// Tells whether the program is simply not there, which shells report as 127; all else is 126.
    pub fn is_not_found(&self) -> bool {
        self.step == "exec" && self.errno == Some(2) && self.detail.is_none()
    }
}

/// Returns the system's words for an error number, without its "(os error 2)".
pub fn errno_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// What the job printed, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// All bytes, kept or since gone.
    pub bytes: u64,
    /// Newlines of standard output.
    pub stdout_lines: u64,
    /// Newlines of standard error.
    pub stderr_lines: u64,
    /// Bytes that could not be kept.
    pub dropped_bytes: u64,
    /// Records in the index: if there are fewer, the index is damaged.
    #[serde(default)]
    pub index_records: u64,
}

/// What it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_ms: u64,
    /// Processor time in the kernel.
    pub system_ms: u64,
    /// The largest resident set of a process in it.
    pub max_rss_bytes: u64,
    /// The most memory of all its processes together, where a control group counted it.
    pub memory_peak_bytes: Option<u64>,
    /// The most processes at a time, where a control group counted them.
    pub pids_peak: Option<u64>,
    /// How many of its processes the kernel ended for want of memory; none if it ended none, or did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Flat", into = "Flat")]
pub struct Outcome {
    /// What the kernel said.
    pub wait_status: WaitStatus,
    /// Why it ended.
    pub cause: Cause,
    /// When its main process ended; of a lost job, when that was found out.
    pub ended: Timestamp,
    /// How long it ran, by a clock that does not jump; none if no process of outlive saw its end.
    pub runtime_ms: Option<u64>,
    /// What it used; none if the keeper was gone.
    pub usage: Option<Usage>,
    /// What it had printed by then.
    pub totals: Totals,
}

impl Outcome {
    /// Tells whether only a later version understands it: its cause, or the whole of it.
    pub fn is_newer(&self) -> bool {
        matches!(self.cause, Cause::Newer(_))
    }
}

/// The second record: the last process of the job is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    /// When the last process was found gone.
    #[serde(rename = "closed_us")]
    pub closed: Timestamp,
    /// All it ever used, with the processes that outlived the main one; none if there were none, or the keeper was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// All it ever printed.
    #[serde(flatten)]
    pub totals: Totals,
}
