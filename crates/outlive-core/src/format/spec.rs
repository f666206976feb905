//! What was asked for: `spec.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::after::After;
use crate::id::{JobId, Nonce, SessionName};
use crate::index::Stream;
use crate::label::{Labels, OwnLabel};
use crate::newer::{self, OrNewer};
use crate::options::{JobOptions, OPTIONS, Ready};
use crate::placement::Placement;
use crate::rawtext::RawText;
use crate::restart::Rerun;
use crate::timestamp::Timestamp;

/// How the command is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Output and errors through two pipes.
    #[default]
    Pipe,
}

words! {
    /// What the command reads.
    #[derive(Default)]
    pub enum Stdin {
        /// `/dev/null`: it ends at once.
        #[default]
        Null = "null",
        /// A pipe that the keeper owns; it ends when a front end asks for it.
        Open = "open",
    }
}

/// What a command reads that another job prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StdinFrom {
    /// The other job.
    pub job: JobId,
    /// Which of its streams.
    pub stream: Stream,
    /// The offset of its log to begin at.
    #[serde(default)]
    pub from: u64,
}

impl std::fmt::Display for StdinFrom {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.job, self.stream.word())
    }
}

/// The scope in which a pid names one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The machine.
    pub machine: String,
    /// Its boot.
    pub boot: String,
    /// The pid namespace.
    pub pid_namespace: String,
}

/// A process of that host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The number.
    pub pid: i32,
    /// When it was started, in clock ticks since boot: without it the number means nothing.
    pub start_time: u64,
}

/// The process that asked for the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starter {
    /// The process.
    pub pid: i32,
    /// When that was started.
    pub start_time: u64,
    /// Its user.
    pub uid: u32,
}

/// How long a job may live, apart from its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// Until it ends by itself or is killed.
    #[default]
    Forever,
    /// Until this time of the wall clock.
    Until {
        /// The end of its time.
        #[serde(rename = "at_us")]
        at: Timestamp,
    },
    /// Until the last front end of its session is gone, and some time more.
    Session {
        /// Time for another front end to come.
        lease_ms: u64,
    },
}

impl Lifetime {
    /// Until some time after the last front end of its session is gone; the configuration says how long.
    pub const SESSION: Self = Self::Session { lease_ms: 0 };
}

/// What was asked for. Never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// [`crate::FORMAT`], or that of a later version.
    pub format: u32,
    /// The id.
    pub job: JobId,
    /// Unlike the id, never used again.
    pub nonce: Nonce,
    /// The session it was started in; its file `session` names another that it was given to.
    pub session: SessionName,
    /// The reader that started it and gets the notice of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<SessionName>,
    /// What else it belongs to; none: a version without labels wrote this.
    #[serde(default)]
    pub labels: Option<Labels>,
    /// The program and its arguments, as executed.
    pub argv: Vec<RawText>,
    /// The line, where a shell runs it.
    pub shell_line: Option<RawText>,
    /// The words that the line was made of, where it was given so: the command as it stands, then arguments that were quoted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<RawText>,
    /// How many of its last lines its starter wants to be shown; it does not limit what is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_lines: Option<u64>,
    /// The directory, absolute.
    pub cwd: RawText,
    /// Additions to the starter's environment.
    #[serde(default)]
    pub env_set: BTreeMap<String, RawText>,
    /// Removals from it.
    #[serde(default)]
    pub env_unset: Vec<String>,
    /// How the command is connected.
    pub mode: OrNewer<Mode>,
    /// What was decided of every option.
    #[serde(flatten)]
    pub options: JobOptions,
    /// What a later version wrote and this one does not understand: each field as it stands in the file. It is kept apart, because
    /// the file is never written again.
    #[serde(skip)]
    pub newer: BTreeMap<String, Value>,
    /// When it was asked for.
    #[serde(rename = "created_us")]
    pub created: Timestamp,
    /// Where its pids are valid.
    pub host: Host,
    /// The process that asked for it.
    pub starter: Starter,
    /// The job that it was started from.
    pub parent: Option<JobId>,
    /// The run before it, where it is a job that was started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<JobId>,
    /// Of a run that followed another by itself: when it may start, and the restarts before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
    /// What had to hold of other jobs before its command was executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<After>,
    /// The job whose output it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_from: Option<StdinFrom>,
    /// Patterns of files: when one changes, the job is restarted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_on_change: Vec<String>,
    /// Why it was started in place of the run before it, where outlive decided that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Of a job that an engine places: what it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// The version that wrote this.
    pub outlive: String,
}

/// Why a `spec.json` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// Not the JSON that it should be.
    #[error("spec.json cannot be read")]
    Json(#[from] serde_json::Error),
    /// Of another format version, and not even what belongs to every format can be read.
    #[error("spec.json has format {0}, and this version reads {format}", format = crate::FORMAT)]
    Format(u32),
    /// Of another job: the directory was copied or renamed.
    #[error("spec.json is of job {0}, not of this directory")]
    Foreign(JobId),
}

impl Spec {
    /// Reads the contents of a job's `spec.json`.
    ///
    /// # Errors
    ///
    /// If it is damaged, or does not belong to `job`. One of a later format is read as far as it is understood.
    pub fn parse(job: &JobId, bytes: &[u8]) -> Result<Self, SpecError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let parsed = serde_json::from_slice::<Self>(bytes);
        // A later format may lack fields that this one needs: then the version alone.
        let format = match &parsed {
            Ok(spec) => spec.format,
            Err(_) => serde_json::from_slice::<Version>(bytes)?.format,
        };
        let spec = match format {
            // Only options can have values that are not known yet: whatever else is not understood is damage.
            crate::FORMAT => parsed.or_else(|error| {
                let is_option = |name: &String| OPTIONS.iter().any(|option| option.field[0] == name);
                Self::of_later_version(bytes).filter(|spec| spec.newer.keys().all(is_option)).ok_or(error)
            })?,
            format if format > crate::FORMAT => {
                Self::of_later_version(bytes).ok_or(SpecError::Format(format))?
            }
            format => return Err(SpecError::Format(format)),
        };
        if spec.job != *job {
            return Err(SpecError::Foreign(spec.job));
        }
        Ok(spec)
    }

    /// Returns the value of a label that outlive sets itself.
    pub fn own_label(&self, label: OwnLabel) -> Option<&str> {
        self.labels.as_ref()?.get(label.name()).map(String::as_str)
    }

    /// Reads as much as this version understands of what a later one wrote.
    fn of_later_version(bytes: &[u8]) -> Option<Self> {
        let others = serde_json::json!({
            "session": "default", "argv": [], "shell_line": null, "cwd": "", "mode": null, "created_us": 0,
            "starter": { "pid": 0, "start_time": 0, "uid": 0 }, "parent": null, "outlive": "",
        });
        let (spec, newer): (Self, _) = newer::understood(bytes, &["format", "job", "nonce", "host"], others)?;
        Some(Self { newer, ..spec })
    }

    /// Returns the names of the fields that only a later version understands.
    pub fn newer(&self) -> Vec<String> {
        // A list asks it of every job.
        if self.format <= crate::FORMAT && !self.mode.is_newer() && self.newer.is_empty() {
            return Vec::new();
        }
        let format = (self.format > crate::FORMAT).then(|| "format".to_owned());
        let mode = self.mode.is_newer().then(|| "mode".to_owned());
        format.into_iter().chain(mode).chain(self.newer.keys().cloned()).collect()
    }

    /// Returns a field as it stands in the file, if this version does not understand it.
    pub fn newer_word(&self, field: &str) -> Option<String> {
        self.newer.get(field).map(|value| OrNewer::<()>::Newer(value.clone()).word())
    }

    /// Tells whether its command is executed only when something has come that its keeper waits for.
    pub fn waits(&self) -> bool {
        self.rerun.is_some()
            || self.options.schedule.is_set()
            || self.options.queue.is_some()
            || !self.after.is_empty()
    }

    /// Tells whether it was said when it counts as ready, be that understood or not.
    pub fn can_be_ready(&self) -> bool {
        self.ready().is_some() || self.newer.contains_key("ready")
    }

    /// Returns when it counts as ready, if that was said and is understood.
    pub fn ready(&self) -> Option<&Ready> {
        Some(&self.options.ready).filter(|ready| **ready != Ready::default())
    }

    /// Returns the command for people: the shell line, or the arguments, quoted where needed.
    pub fn command_line(&self) -> String {
        match &self.shell_line {
            Some(line) => line.to_lossy(),
            None => {
                self.argv.iter().map(|argument| quote(&argument.to_lossy())).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// Quotes a word for a shell where it needs it.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+^".contains(c);
    // zsh replaces a word that begins with = by the path of a program.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::containment::Level;
    use proptest::prelude::*;

    #[test]
    fn words_are_quoted_only_where_needed() {
        for (word, quoted) in [
            ("a", "a"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("--x=1", "--x=1"),
            ("=x", "'=x'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }

    fn written() -> Value {
        serde_json::json!({
            "format": 1, "job": "a-1", "nonce": "00".repeat(16), "name": "a", "session": "s", "argv": ["x"],
            "shell_line": null, "cwd": "/", "mode": "pipe", "stdin": "null", "timeout_ms": null, "grace_ms": 5,
            "output_cap_bytes": null, "containment": "sweep", "survivors": "keep", "lifetime": "forever",
            "ready": { "port": 80 }, "created_us": 7, "host": { "machine": "m", "boot": "b", "pid_namespace": "p" },
            "starter": { "pid": 1, "start_time": 2, "uid": 3 }, "parent": null, "outlive": "9.0.0",
        })
    }

    fn parse(value: &Value) -> Result<Spec, SpecError> {
        Spec::parse(&JobId::parse("a-1").unwrap(), &serde_json::to_vec(value).unwrap())
    }

    proptest! {
        #[test]
        fn a_word_of_a_later_version_is_read_and_comes_back(
            field in prop::sample::select(vec!["mode", "stdin", "containment", "survivors", "lifetime"]),
            value in newer::tests::values(),
        ) {
            let mut later = written();
            later[field] = value.clone();
            let spec = parse(&later).unwrap();
            prop_assert_eq!(spec.newer(), [field]);
            let kept = if field == "mode" { serde_json::to_value(&spec.mode).unwrap() } else { spec.newer[field].clone() };
            prop_assert_eq!(kept, value);
        }

        #[test]
        fn of_a_later_format_is_read_what_is_understood(
            field in prop::sample::select(vec!["name", "argv", "cwd", "mode", "grace_ms", "created_us", "starter", "parent"]),
            value in prop::option::of(newer::tests::values()),
        ) {
            let mut later = written();
            later["format"] = 2.into();
            match value {
                Some(value) => later[field] = value,
                None => { later.as_object_mut().unwrap().remove(field); }
            }
            let spec = parse(&later).unwrap();
            prop_assert_eq!(&spec.newer()[0], "format");
            prop_assert_eq!((spec.session.as_str(), &spec.host.machine[..], spec.job.as_str()), ("s", "m", "a-1"));
        }
    }

    #[test]
    fn what_is_written_today_has_nothing_newer() {
        let spec = parse(&written()).unwrap();
        assert!(spec.newer().is_empty());
        assert_eq!((spec.options.stdin, spec.options.containment), (Stdin::Null, Some(Level::Sweep)));
    }

    #[test]
    fn a_condition_of_a_later_version_is_not_taken_for_none() {
        let mut later = written();
        later["ready"] = serde_json::json!({ "unix": "/socket" });
        assert_eq!(parse(&later).unwrap().newer(), ["ready"]);
    }

    #[test]
    fn another_format_is_told_apart_from_damage() {
        let job = JobId::parse("a-1").unwrap();
        assert!(matches!(Spec::parse(&job, br#"{"format":2,"new":1}"#), Err(SpecError::Format(2))));
        for bytes in [&b""[..], b"{", b"{}", b"null", b"\xff", br#"{"format":1}"#] {
            assert!(matches!(Spec::parse(&job, bytes), Err(SpecError::Json(_))), "{bytes:?}");
        }
    }
}
