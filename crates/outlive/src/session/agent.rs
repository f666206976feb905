//! Background agents: work outside outlive that the store keeps notes of.
//!
//! A front end registers an agent with its output file, and reports when it is done. Nothing here starts, watches or ends
//! agents: a note holds the last report, for every program that opens the store.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::FORMAT;
use outlive_core::id::SessionName;
use outlive_core::rawtext::RawText;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{clock, durable};
use serde::{Deserialize, Serialize};

use crate::notify::events::make_dir;
use crate::store::{Store, age};

const DIRECTORY: &str = "agents";

const SUFFIX: &str = ".json";

/// Longest id in bytes: with every byte escaped it still fits a file name.
const LONGEST_ID: usize = 64;

/// Longest type in characters; types are a word or two.
const LONGEST_TYPE: usize = 100;

/// How much of an output file is read, from its end.
const OUTPUT: u64 = 1 << 20;

/// Status of an agent, as last reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// Not reported as done.
    Running,
    /// Done, with success.
    Completed,
    /// Done without success, or stopped.
    Failed,
}

impl AgentStatus {
    /// Returns the word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// A registered agent; serialized as its note in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Unique in its session.
    pub id: String,
    /// The session that it was registered in; the note's directory says which.
    #[serde(skip)]
    pub session: SessionName,
    /// The type of agent, in its starter's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Path of the file that the agent writes to.
    pub output_file: RawText,
    /// Time of the registration.
    #[serde(rename = "started_us")]
    pub started: Timestamp,
    /// As last reported.
    pub status: AgentStatus,
}

/// The documented JSON object of an agent.
#[derive(Debug, Serialize)]
pub struct AgentObject {
    /// The agent's id.
    pub agent: String,
    /// The session that it was registered in.
    pub session: SessionName,
    /// The type of agent, in its starter's words.
    #[serde(rename = "type")]
    pub kind: String,
    /// `running`, `completed` or `failed`.
    pub status: AgentStatus,
    /// The file that the agent writes to.
    pub output_file: String,
    /// Time of the registration.
    pub started_at: String,
}

/// Why a request about an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// An invalid id.
    #[error("the id of an agent must be 1 to {LONGEST_ID} bytes without control characters")]
    Id,
    /// An invalid type.
    #[error("the type of an agent must be 1 to {LONGEST_TYPE} characters without control characters")]
    Kind,
    /// No session that was searched has the agent.
    #[error("Agent not found: {0}")]
    Unknown(String),
    /// Several sessions have an agent with this id.
    #[error("several sessions have an agent {0}: {names}", names = .1.iter().map(SessionName::as_str).collect::<Vec<_>>().join(", "))]
    Ambiguous(String, Vec<SessionName>),
    /// The agent is done already.
    #[error("Agent already {}", .0.word())]
    Over(AgentStatus),
    /// The store cannot be read or written.
    #[error("cannot use the agents in the store")]
    Store(#[from] io::Error),
}

/// The content of a note's file.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    format: u32,
    #[serde(flatten)]
    agent: Agent,
}

impl Store {
    /// Registers an agent as running, and replaces an earlier agent with the same id.
    ///
    /// # Durability
    ///
    /// Written, not synced.
    ///
    /// # Errors
    ///
    /// If the id or the type is invalid, or the store cannot be written.
    pub fn register_agent(
        &self,
        session: &SessionName,
        id: &str,
        kind: &str,
        output_file: &Path,
    ) -> Result<Agent, AgentError> {
        if id.is_empty() || id.len() > LONGEST_ID || id.contains(char::is_control) {
            return Err(AgentError::Id);
        }
        if kind.is_empty() || kind.chars().count() > LONGEST_TYPE || kind.contains(char::is_control) {
            return Err(AgentError::Kind);
        }
        let _lock = self.lock()?;
        self.make_session(session)?;
        let directory = self.agents_dir(session);
        fault::step(Point::AgentsMake, || make_dir(&directory))?;
        self.sweep_agents(session);
        let agent = Agent {
            id: id.to_owned(),
            session: session.clone(),
            kind: kind.to_owned(),
            // A later reader has another working directory.
            output_file: RawText::from(std::path::absolute(output_file)?.as_os_str().as_bytes()),
            started: Timestamp(clock::wall_us()),
            status: AgentStatus::Running,
        };
        self.write_agent(&agent)?;
        Ok(agent)
    }

    /// Lists the agents of a session, or of all, in the order of registration. Damaged notes are skipped.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn agents(&self, session: Option<&SessionName>) -> Result<Vec<Agent>, AgentError> {
        let mut agents = Vec::new();
        for session in self.sessions_seen(session)? {
            let entries = match fs::read_dir(self.agents_dir(&session)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            let files =
                entries.flatten().filter(|entry| entry.file_name().as_bytes().ends_with(SUFFIX.as_bytes()));
            agents.extend(files.filter_map(|entry| read_note(&entry.path(), &session)));
        }
        agents.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
        Ok(agents)
    }

    /// Finds an agent in a session, or in all.
    ///
    /// # Errors
    ///
    /// If no session, or several sessions, have an agent with this id.
    pub fn agent(&self, id: &str, session: Option<&SessionName>) -> Result<Agent, AgentError> {
        let unknown = || AgentError::Unknown(id.to_owned());
        if id.is_empty() || id.len() > LONGEST_ID {
            return Err(unknown());
        }
        let mut found: Vec<Agent> = self
            .sessions_seen(session)?
            .iter()
            .filter_map(|session| read_note(&self.agents_dir(session).join(file_name(id)), session))
            .collect();
        if found.len() > 1 {
            let sessions = found.into_iter().map(|agent| agent.session).collect();
            return Err(AgentError::Ambiguous(id.to_owned(), sessions));
        }
        found.pop().ok_or_else(unknown)
    }

    /// Reports an agent as done, whatever its status was.
    ///
    /// # Errors
    ///
    /// If there is no such agent, or the store cannot be written.
    pub fn finish_agent(
        &self,
        id: &str,
        session: Option<&SessionName>,
        has_succeeded: bool,
    ) -> Result<Agent, AgentError> {
        let _lock = self.lock()?;
        let status = if has_succeeded { AgentStatus::Completed } else { AgentStatus::Failed };
        let agent = Agent { status, ..self.agent(id, session)? };
        self.write_agent(&agent)?;
        Ok(agent)
    }

    /// Marks a running agent as failed, because its result is no longer wanted. The agent itself is not touched.
    ///
    /// # Errors
    ///
    /// If there is no such agent, it is done, or the store cannot be written.
    pub fn stop_agent(&self, id: &str, session: Option<&SessionName>) -> Result<Agent, AgentError> {
        let _lock = self.lock()?;
        let agent = self.agent(id, session)?;
        if agent.status != AgentStatus::Running {
            return Err(AgentError::Over(agent.status));
        }
        let agent = Agent { status: AgentStatus::Failed, ..agent };
        self.write_agent(&agent)?;
        Ok(agent)
    }

    fn agents_dir(&self, session: &SessionName) -> PathBuf {
        self.session_dir(session).join(DIRECTORY)
    }

    fn sessions_seen(&self, session: Option<&SessionName>) -> io::Result<Vec<SessionName>> {
        session.map_or_else(|| self.sessions(), |session| Ok(vec![session.clone()]))
    }

    fn write_agent(&self, agent: &Agent) -> Result<(), AgentError> {
        let note = Note { format: FORMAT, agent: agent.clone() };
        let mut bytes = serde_json::to_vec(&note).map_err(io::Error::from)?;
        bytes.push(b'\n');
        let directory = durable::open_dir(&self.agents_dir(&agent.session))?;
        Ok(durable::replace(Replacing::AGENT, &directory, &file_name(&agent.id), &bytes)?)
    }

    /// Removes finished agents that were registered longer ago than any job is kept.
    fn sweep_agents(&self, session: &SessionName) {
        let kept = u64::try_from(self.config().retention.longest().as_micros()).unwrap_or(u64::MAX);
        let oldest = clock::wall_us().saturating_sub(kept);
        for agent in self.agents(Some(session)).unwrap_or_default() {
            if agent.status != AgentStatus::Running && agent.started.0 < oldest {
                fs::remove_file(self.agents_dir(session).join(file_name(&agent.id))).ok();
            }
        }
        // Temporary files of a crash during a replacement.
        for entry in fs::read_dir(self.agents_dir(session)).into_iter().flatten().flatten() {
            let is_left = entry.file_name().as_bytes().ends_with(b".tmp");
            if is_left && age(&entry.path()).is_some_and(|age| age > STALE) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}

/// Age at which such a file is left from a crash.
const STALE: Duration = Duration::from_secs(3600);

impl Agent {
    /// Returns the last MiB of the agent's output, or a remark in parentheses if there is nothing to read.
    pub fn output(&self) -> String {
        match read_end(Path::new(OsStr::from_bytes(&self.output_file.0))) {
            Ok((bytes, 0)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok((bytes, left_out)) => {
                // The first character may be incomplete.
                let begin = bytes.iter().take(4).position(|byte| byte & 0xc0 != 0x80).unwrap_or(0);
                format!(
                    "({} bytes before this are left out)\n{}",
                    left_out + begin as u64,
                    String::from_utf8_lossy(&bytes[begin..])
                )
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => "(no output yet)".to_owned(),
            Err(_) => "(failed to read output file)".to_owned(),
        }
    }

    /// Returns the object for scripts.
    pub fn object(&self) -> AgentObject {
        AgentObject {
            agent: self.id.clone(),
            session: self.session.clone(),
            kind: self.kind.clone(),
            status: self.status,
            output_file: self.output_file.to_lossy(),
            started_at: self.started.to_string(),
        }
    }
}

/// Reads the end of a file; also returns how many bytes precede it.
fn read_end(path: &Path) -> io::Result<(Vec<u8>, u64)> {
    let mut file = durable::open_foreign(path)?;
    let left_out = file.metadata()?.len().saturating_sub(OUTPUT);
    file.seek(SeekFrom::Start(left_out))?;
    let mut bytes = Vec::new();
    // The file may be growing.
    file.take(OUTPUT).read_to_end(&mut bytes)?;
    Ok((bytes, left_out))
}

fn read_note(path: &Path, session: &SessionName) -> Option<Agent> {
    let bytes = durable::read(durable::CWD, path).ok()?;
    let Note { format, agent } = serde_json::from_slice(&bytes).ok()?;
    // A note that was moved or copied does not count.
    let is_own = path.file_name().is_some_and(|name| name.as_bytes() == file_name(&agent.id).as_bytes());
    (format == FORMAT && is_own).then(|| Agent { session: session.clone(), ..agent })
}

/// Returns the file name for an id: unique, and escaped so that it is neither hidden nor a path.
fn file_name(id: &str) -> String {
    let mut name = String::new();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name + SUFFIX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leads_elsewhere_and_no_two_have_one_file() {
        let ids =
            ["a", "A", "..", ".", "../x", "a/b", "a%2fb", "%", "é", " ", "a.json", "x".repeat(64).as_str()]
                .map(str::to_owned);
        let names: std::collections::BTreeSet<String> = ids.iter().map(|id| file_name(id)).collect();
        assert_eq!(names.len(), ids.len());
        for name in names {
            assert!(!name.contains('/') && !name.starts_with('.') && name.len() < 240, "{name}");
        }
        assert!(file_name(&"/".repeat(LONGEST_ID)).len() < 240);
    }
}
