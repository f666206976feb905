//! What was asked for: `spec.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::containment::{JobLimits, Level, Survivors};
use crate::id::{JobId, Nonce, SessionName};
use crate::newer::{self, OrNewer};
use crate::rawtext::RawText;
use crate::timestamp::Timestamp;

/// How the command is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Output and errors through two pipes.
    #[default]
    Pipe,
}

/// What the command reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// `/dev/null`: it ends at once.
    #[default]
    Null,
    /// A pipe that the keeper owns; it ends when a front end asks for it.
    Open,
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

/// When a job counts as ready: as soon as all that is asked for here holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Ready {
    /// A line of its output matches this regular expression.
    pub on: Option<String>,
    /// A process of its tree listens on this TCP port.
    pub port: Option<u16>,
    /// This address answers with a status below 400.
    pub http: Option<String>,
    /// How long these are checked after the start; none: until its end.
    pub timeout_ms: Option<u64>,
    /// Conditions that a later version knows. This one cannot tell whether they hold.
    #[serde(flatten)]
    pub newer: BTreeMap<String, serde_json::Value>,
}

/// What is done when the job has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Completion {
    /// A line for the shell that is run.
    pub on_exit: Option<RawText>,
    /// An address that the notice is sent to.
    pub webhook: Option<String>,
}

impl Completion {
    /// Tells whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
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
    /// What people call it.
    pub name: Option<String>,
    /// The session it was started in; its file `session` names another that it was given to.
    pub session: SessionName,
    /// The reader that started it and gets the notice of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<SessionName>,
    /// A name by which jobs of a session are handled together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
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
    /// What it reads.
    pub stdin: OrNewer<Stdin>,
    /// How long it may run.
    pub timeout_ms: Option<u64>,
    /// Time between the first signal of a kill and SIGKILL.
    pub grace_ms: u64,
    /// How much of its output is kept.
    pub output_cap_bytes: Option<u64>,
    /// What should hold its processes together; none: the best that the machine has.
    #[serde(default)]
    pub containment: Option<OrNewer<Level>>,
    /// What it may use.
    #[serde(default)]
    pub limits: JobLimits,
    /// What happens to processes that outlive the main one.
    #[serde(default)]
    pub survivors: OrNewer<Survivors>,
    /// How long it may live.
    #[serde(default)]
    pub lifetime: OrNewer<Lifetime>,
    /// When it counts as ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// What is done when it has ended. The file keeps the name that earlier versions gave it.
    #[serde(default, rename = "parting", skip_serializing_if = "Completion::is_empty")]
    pub completion: Completion,
    /// When it was asked for.
    #[serde(rename = "created_us")]
    pub created: Timestamp,
    /// Where its pids are valid.
    pub host: Host,
    /// The process that asked for it.
    pub starter: Starter,
    /// The job that it was started from.
    pub parent: Option<JobId>,
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
        // First the version alone: a later format may lack fields that this one needs.
        let version: Version = serde_json::from_slice(bytes)?;
        let spec: Self = match version.format {
            crate::FORMAT => serde_json::from_slice(bytes)?,
            format if format > crate::FORMAT => {
                Self::of_later_format(bytes).ok_or(SpecError::Format(format))?
            }
            format => return Err(SpecError::Format(format)),
        };
        if spec.job != *job {
            return Err(SpecError::Foreign(spec.job));
        }
        Ok(spec)
    }

    fn of_later_format(bytes: &[u8]) -> Option<Self> {
        let others = serde_json::json!({
            "name": null, "session": "default", "argv": [], "shell_line": null, "cwd": "", "mode": null, "stdin": null,
            "timeout_ms": null, "grace_ms": 0, "output_cap_bytes": null, "created_us": 0,
            "starter": { "pid": 0, "start_time": 0, "uid": 0 }, "parent": null, "outlive": "",
        });
        newer::understood(bytes, &["format", "job", "nonce", "host"], others)
    }

    /// Returns the names of the fields that only a later version understands.
    pub fn newer(&self) -> Vec<&'static str> {
        let fields = [
            ("format", self.format > crate::FORMAT),
            ("mode", self.mode.is_newer()),
            ("stdin", self.stdin.is_newer()),
            ("containment", self.containment.as_ref().is_some_and(OrNewer::is_newer)),
            ("survivors", self.survivors.is_newer()),
            ("lifetime", self.lifetime.is_newer()),
            ("ready", self.ready.as_ref().is_some_and(|ready| !ready.newer.is_empty())),
        ];
        fields.into_iter().filter_map(|(name, is_newer)| is_newer.then_some(name)).collect()
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

    fn written() -> serde_json::Value {
        serde_json::json!({
            "format": 1, "job": "a-1", "nonce": "00".repeat(16), "name": "a", "session": "s", "argv": ["x"],
            "shell_line": null, "cwd": "/", "mode": "pipe", "stdin": "null", "timeout_ms": null, "grace_ms": 5,
            "output_cap_bytes": null, "containment": "sweep", "survivors": "keep", "lifetime": "forever",
            "ready": { "port": 80 }, "created_us": 7, "host": { "machine": "m", "boot": "b", "pid_namespace": "p" },
            "starter": { "pid": 1, "start_time": 2, "uid": 3 }, "parent": null, "outlive": "9.0.0",
        })
    }

    fn parse(value: &serde_json::Value) -> Result<Spec, SpecError> {
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
            prop_assert_eq!(&serde_json::to_value(&spec).unwrap()[field], &value);
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
            prop_assert_eq!(spec.newer()[0], "format");
            prop_assert_eq!((spec.session.as_str(), &spec.host.machine[..], spec.job.as_str()), ("s", "m", "a-1"));
        }
    }

    #[test]
    fn what_is_written_today_has_nothing_newer() {
        let spec = parse(&written()).unwrap();
        assert_eq!(spec.newer(), [""; 0]);
        assert!(spec.stdin == Stdin::Null && spec.containment == Some(Level::Sweep.into()));
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
