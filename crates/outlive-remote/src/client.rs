//! The API as functions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::address::Address;
use crate::connection::{Answer, Connection};
use crate::error::RemoteError;
use crate::objects::{Event, Inbox, Job, Jobs, Killed, Session, Waited};
use crate::ssh::{Machine, Ssh};
use crate::sync;

/// A server answers a wait for more output after this time at the latest.
const LOOK_MS: u64 = 25_000;

/// How much of a log is asked for at once.
const PIECE: u64 = 1 << 20;

/// Another outlive. Each call is a connection of its own, so it can be used from several threads.
#[derive(Debug, Clone)]
pub struct Client {
    address: Address,
    token: Option<String>,
    ssh: Ssh,
}

/// What to start.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Start {
    /// A line for the shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, in place of a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// The directory there; none: the session's, else the user's home.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables to set. The caller's own are not passed on.
    pub env: BTreeMap<String, String>,
    /// The session; none: the token's, else `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Options of `outlive run`, by their names.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

impl Start {
    /// A line for the shell.
    pub fn line(line: &str) -> Self {
        Self { command: Some(line.to_owned()), ..Self::default() }
    }
}

/// Which jobs are meant.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this session.
    pub session: Option<String>,
    /// Only those of which something runs.
    pub is_live: bool,
    /// At most so many.
    pub limit: Option<usize>,
    /// Only those older than this one: `next` of the page before.
    pub after: Option<String>,
}

impl Client {
    /// Makes a client; nothing is connected yet.
    pub fn new(address: Address) -> Self {
        Self { address, token: None, ssh: Ssh::default() }
    }

    /// Sends this token with each request; for TCP.
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self }
    }

    /// Returns where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Uses SSH in this way.
    pub fn with_ssh(self, ssh: Ssh) -> Self {
        Self { ssh, ..self }
    }

    /// Lets `ssh` fail where it would ask at the terminal.
    pub fn unasked(mut self) -> Self {
        self.ssh.asks = false;
        self
    }

    /// Copies a directory to the machine; returns its path there. What git ignores stays here.
    ///
    /// # Errors
    ///
    /// If it cannot be reached by SSH, or the directory not be read or copied.
    pub fn copy_directory(&self, from: &Path) -> Result<String, RemoteError> {
        match &self.address {
            Address::Ssh { destination, port } => sync::copy(&Machine::new(destination, *port), from),
            other => Err(RemoteError::NotSsh(other.to_string())),
        }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub fn connect(&self) -> Result<Connection, RemoteError> {
        Connection::open(&self.address, self.token.as_deref(), &self.ssh)
    }

    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, RemoteError> {
        let connection = self.connect()?;
        let name = connection.name().to_owned();
        let text = connection.ask(method, path, &[], body)?.1.text()?;
        serde_json::from_str(&text).map_err(|error| RemoteError::Strange(name, error.to_string()))
    }

    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
    ) -> Result<T, RemoteError> {
        self.ask("GET", &with_query(path, query), None)
    }

    pub(crate) fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, RemoteError> {
        self.ask("POST", path, Some(body))
    }

    /// Lists jobs, the newest first.
    ///
    /// # Errors
    ///
    /// If there is no answer, or a failure.
    pub fn jobs(&self, filter: &Filter) -> Result<Jobs, RemoteError> {
        let mut query = Vec::new();
        query.extend(filter.session.clone().map(|session| ("session", session)));
        query.extend(filter.is_live.then(|| ("live", "true".to_owned())));
        query.extend(filter.limit.map(|limit| ("limit", limit.to_string())));
        query.extend(filter.after.clone().map(|after| ("after", after)));
        self.get("/v1/jobs", &query)
    }

    /// Shows a job.
    ///
    /// # Errors
    ///
    /// If there is no answer, or no such job.
    pub fn job(&self, job: &str) -> Result<Job, RemoteError> {
        self.get(&of(job, ""), &[])
    }

    /// Starts a job.
    ///
    /// # Errors
    ///
    /// If there is no answer, or it could not be started. After [`RemoteError::Lost`] it is not known whether it was.
    pub fn start(&self, start: &Start) -> Result<Job, RemoteError> {
        self.post("/v1/jobs", &json!(start))
    }

    /// Waits for the end of a job. A connection that breaks off changes nothing there: call it again.
    ///
    /// # Errors
    ///
    /// If there is no such job, or no answer.
    pub fn wait(&self, job: &str, limit: Option<Duration>) -> Result<Waited, RemoteError> {
        self.wait_until(job, false, limit)
    }

    /// Waits until a job is ready, or for its end.
    ///
    /// # Errors
    ///
    /// As [`Client::wait`].
    pub fn wait_until(
        &self,
        job: &str,
        is_ready: bool,
        limit: Option<Duration>,
    ) -> Result<Waited, RemoteError> {
        let limit = limit.map(|limit| ("timeout_ms", limit.as_millis().to_string()));
        let ready = is_ready.then(|| ("ready", "true".to_owned()));
        let query: Vec<_> = limit.into_iter().chain(ready).collect();
        self.get(&of(job, "/wait"), &query)
    }

    /// Ends a job with everything that it started.
    ///
    /// # Errors
    ///
    /// If there is no answer, or a failure.
    pub fn kill(&self, job: &str) -> Result<Killed, RemoteError> {
        self.post(&of(job, "/kill"), &json!({}))
    }

    /// Does `pause`, `resume`, `clear` or `restart` to a job.
    ///
    /// # Errors
    ///
    /// If there is no answer, or a failure.
    pub fn act(&self, job: &str, verb: &str) -> Result<Value, RemoteError> {
        self.post(&of(job, &format!("/{}", encoded(verb))), &json!({}))
    }

    /// Removes an ended job.
    ///
    /// # Errors
    ///
    /// If there is no answer, or it still runs.
    pub fn remove(&self, job: &str) -> Result<(), RemoteError> {
        self.ask::<Value>("DELETE", &of(job, ""), None).map(drop)
    }

    /// Writes a line to a job's standard input or terminal.
    ///
    /// # Errors
    ///
    /// If there is no answer, or its input is not open.
    pub fn send(&self, job: &str, text: &str) -> Result<(), RemoteError> {
        self.post::<Value>(&of(job, "/input"), &json!({ "text": text })).map(drop)
    }

    /// Lists the sessions.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn sessions(&self) -> Result<Vec<Session>, RemoteError> {
        self.get("/v1/sessions", &[])
    }

    /// Looks for what a reader has not acknowledged.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn inbox(&self, session: &str, reader: &str) -> Result<Inbox, RemoteError> {
        self.get("/v1/inbox", &[("session", session.to_owned()), ("reader", reader.to_owned())])
    }

    /// Says what a reader has received.
    ///
    /// # Errors
    ///
    /// If there is no answer: then it is told again.
    pub fn acknowledge(&self, session: &str, reader: &str, up_to: u64) -> Result<(), RemoteError> {
        let body = json!({ "session": session, "reader": reader, "up_to": up_to });
        self.post::<Value>("/v1/inbox/acknowledge", &body).map(drop)
    }

    /// Follows what happens to jobs, after this id; none: from now on.
    ///
    /// # Errors
    ///
    /// If there is no answer.
    pub fn events(&self, after: Option<&str>) -> Result<EventStream, RemoteError> {
        let query: Vec<_> = after.map(|after| ("after", after.to_owned())).into_iter().collect();
        let connection = self.connect()?;
        let name = connection.name().to_owned();
        let (_, answer) = connection.ask("GET", &with_query("/v1/events", &query), &[], None)?;
        Ok(EventStream { lines: BufReader::new(answer), name })
    }

    /// Returns the offset after the last byte that a job has printed.
    ///
    /// # Errors
    ///
    /// If there is no answer, or no such job.
    pub fn end_of_output(&self, job: &str) -> Result<u64, RemoteError> {
        let state: Value = self.get(&of(job, "/output"), &[("lines", "1".to_owned())])?;
        Ok(state["end"].as_u64().unwrap_or(0))
    }

    /// Follows what a job prints, from this offset on.
    pub fn follow(&self, job: &str, from: u64) -> Follow {
        Follow { client: self.clone(), job: job.to_owned(), position: from }
    }
}

/// What happens to jobs, as it happens.
pub struct EventStream {
    lines: BufReader<Answer>,
    name: String,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EventStream").field("name", &self.name).finish_non_exhaustive()
    }
}

impl EventStream {
    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If the connection breaks off; [`Client::events`] with the last id goes on exactly there.
    pub fn receive(&mut self) -> Result<Event, RemoteError> {
        let (mut kind, mut id, mut data) = (String::new(), String::new(), String::new());
        loop {
            let mut line = String::new();
            let lost = |error| RemoteError::Lost(self.name.clone(), error);
            if self.lines.read_line(&mut line).map_err(lost)? == 0 {
                return Err(lost(std::io::ErrorKind::UnexpectedEof.into()));
            }
            let line = line.trim_end_matches(['\r', '\n']);
            match line.split_once(": ") {
                Some(("event", value)) => kind = value.to_owned(),
                Some(("id", value)) => id = value.to_owned(),
                Some(("data", value)) => data = value.to_owned(),
                _ if line.is_empty() && !data.is_empty() => {
                    let strange =
                        |error: serde_json::Error| RemoteError::Strange(self.name.clone(), error.to_string());
                    return Ok(Event { kind, id, object: serde_json::from_str(&data).map_err(strange)? });
                }
                _ => {}
            }
        }
    }
}

/// What a job printed, by offset.
#[derive(Debug, PartialEq, Eq)]
pub enum Followed {
    /// These bytes, which begin at this offset.
    Bytes(u64, Vec<u8>),
    /// What lies between these offsets is no longer kept.
    Gone(u64, u64),
    /// The job is closed, and all was read.
    End,
}

/// Follows a job's output. After an error the next call goes on exactly where it was: the offset is the only state.
#[derive(Debug, Clone)]
pub struct Follow {
    client: Client,
    job: String,
    position: u64,
}

impl Follow {
    /// Returns the offset after the last byte that was returned.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Waits for more.
    ///
    /// # Errors
    ///
    /// If there is no answer: call it again when there may be.
    pub fn receive(&mut self) -> Result<Followed, RemoteError> {
        loop {
            let query = [
                ("after", self.position.to_string()),
                ("wait_ms", LOOK_MS.to_string()),
                ("lines", "1".to_owned()),
                ("from_byte", self.position.to_string()),
            ];
            let state: Value = self.client.get(&of(&self.job, "/output"), &query)?;
            let offset = |name: &str| state[name].as_u64().unwrap_or(0);
            let (start, end) = (offset("start"), offset("end"));
            if self.position < start {
                let from = std::mem::replace(&mut self.position, start);
                return Ok(Followed::Gone(from, start));
            }
            if self.position < end {
                return self.read(end);
            }
            if state["live"] == false {
                return Ok(Followed::End);
            }
        }
    }

    fn read(&mut self, end: u64) -> Result<Followed, RemoteError> {
        let to = end.min(self.position + PIECE);
        let range = format!("bytes={}-{}", self.position, to - 1);
        let connection = self.client.connect()?;
        let name = connection.name().to_owned();
        let (head, mut answer) = connection.ask("GET", &of(&self.job, "/log"), &[("Range", &range)], None)?;
        let begins = head
            .header("content-range")
            .and_then(|range| range.strip_prefix("bytes ")?.split('-').next()?.parse::<u64>().ok());
        let mut bytes = Vec::new();
        answer.read_to_end(&mut bytes).map_err(|error| RemoteError::Lost(name, error))?;
        let begin = begins.unwrap_or(self.position);
        if begin > self.position {
            // It was dropped between the two questions.
            let from = std::mem::replace(&mut self.position, begin);
            return Ok(Followed::Gone(from, begin));
        }
        self.position += bytes.len() as u64;
        Ok(Followed::Bytes(begin, bytes))
    }
}

fn of(job: &str, what: &str) -> String {
    format!("/v1/jobs/{}{what}", encoded(job))
}

pub(crate) fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// Writes a text as a part of a path or query.
pub(crate) fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_part_of_a_path() {
        assert_eq!(of("a/../b c", "/kill"), "/v1/jobs/a%2F..%2Fb%20c/kill");
        assert_eq!(
            with_query("/v1/events", &[("after", "a:1,b:2".to_owned())]),
            "/v1/events?after=a%3A1%2Cb%3A2"
        );
    }
}
