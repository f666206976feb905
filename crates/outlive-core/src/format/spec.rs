//! What was asked for: `spec.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{JobId, Nonce, SessionName};
use crate::label::{Labels, OwnLabel};
use crate::options::{JobOptions, Ready};
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
    /// A pipe that the keeper owns; it ends when somebody says so.
    Open,
}

/// Where a pid means something.
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

/// Who asked.
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
    /// Until it ends by itself or somebody ends it.
    #[default]
    Forever,
    /// Until this time of the wall clock.
    Until {
        /// When.
        #[serde(rename = "at_us")]
        at: Timestamp,
    },
    /// Until some time after the last front end of its session is gone.
    Session {
        /// How long after that.
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
    /// Always [`crate::FORMAT`].
    pub format: u32,
    /// The id.
    pub job: JobId,
    /// What no other job ever has.
    pub nonce: Nonce,
    /// Whose it is; a job that was given to another session says so in its file `session`.
    pub session: SessionName,
    /// Who started it, and is to be told of its end.
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
    /// How many of its last lines its starter wants to look back on; all of them are kept all the same.
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
    pub mode: Mode,
    /// What was decided of every option.
    #[serde(flatten)]
    pub options: JobOptions,
    /// When it was asked for.
    #[serde(rename = "created_us")]
    pub created: Timestamp,
    /// Where its pids mean something.
    pub host: Host,
    /// Who asked.
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
    /// Of another format version.
    #[error("spec.json has format {0}, and this version reads {format}", format = crate::FORMAT)]
    Format(u32),
    /// Copied or renamed by somebody else.
    #[error("spec.json is of job {0}, not of this directory")]
    Foreign(JobId),
}

impl Spec {
    /// Reads the contents of a job's `spec.json`.
    ///
    /// # Errors
    ///
    /// If it is damaged, of another format, or does not belong to `job`.
    pub fn parse(job: &JobId, bytes: &[u8]) -> Result<Self, SpecError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        // First the version alone: a later format may lack fields that this one needs.
        let version: Version = serde_json::from_slice(bytes)?;
        if version.format != crate::FORMAT {
            return Err(SpecError::Format(version.format));
        }
        let spec: Self = serde_json::from_slice(bytes)?;
        if spec.job != *job {
            return Err(SpecError::Foreign(spec.job));
        }
        Ok(spec)
    }

    /// Returns the value of a label that outlive sets itself.
    pub fn own_label(&self, label: OwnLabel) -> Option<&str> {
        self.labels.as_ref()?.get(label.name()).map(String::as_str)
    }

    /// Returns when it counts as ready, if that was asked.
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
    // Of a word that begins with = zsh makes the path of a program.
    if !word.is_empty() && !word.starts_with('=') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn another_format_is_told_apart_from_damage() {
        let job = JobId::parse("a-1").unwrap();
        assert!(matches!(Spec::parse(&job, br#"{"format":2,"new":1}"#), Err(SpecError::Format(2))));
        for bytes in [&b""[..], b"{", b"{}", b"null", b"\xff", br#"{"format":1}"#] {
            assert!(matches!(Spec::parse(&job, bytes), Err(SpecError::Json(_))), "{bytes:?}");
        }
    }
}
