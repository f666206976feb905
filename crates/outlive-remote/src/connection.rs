//! A connection to another outlive: two halves that carry bytes, whatever is between.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use outlive::{Code, Failure};
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{self, Attempt};
use outlive_sys::socket;
use serde::Deserialize;

use crate::address::Address;
use crate::error::RemoteError;
use crate::http::{self, Body, Head, Reader};
use crate::ssh::shared::Session;
use crate::ssh::{Greeting, Ssh};
use crate::websocket::{self, Message, Side};

/// A server on this machine, or behind a tunnel, takes a connection within this time.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A path of a socket that is longer goes through its directory.
const LONGEST_SOCKET: usize = 100;

/// A connection to another outlive; for one request.
pub struct Connection {
    reader: Reader,
    writer: Box<dyn Write + Send>,
    /// What the server is called in a request.
    host: String,
    token: Option<String>,
    /// What it is called in messages.
    name: String,
    carrier: Carrier,
    /// What comes before the API, where `ssh` carries it.
    greeting: Option<Greeting>,
    /// There may be a proxy in between, which takes nothing of a protocol that was not agreed on yet.
    is_proxied: bool,
}

/// How a program on another machine ended: its exit status, none if there is none, and what was written to standard error.
pub(crate) type LastWords = (Option<i32>, String);

/// What carries a connection; it ends with it.
#[derive(Default)]
pub(crate) enum Carrier {
    /// The system alone.
    #[default]
    Nothing,
    /// A process of ours.
    Process(Child),
    /// The process that has a connection which is shared.
    Session(Session),
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Self::Process(child) = self {
            // It may have ended by itself.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Carrier {
    /// Leaves a process that is about to end by itself, because the other end of its connection has. The caller ends, too: nothing waits
    /// for the process here.
    pub(crate) fn leave(&mut self) {
        std::mem::forget(std::mem::take(self));
    }

    /// Returns the exit status of a program that has closed its output, and what it wrote to standard error.
    pub(crate) fn last_words(&mut self) -> Option<LastWords> {
        match self {
            Self::Nothing => None,
            Self::Session(session) => Some(session.last_words()),
            Self::Process(child) => {
                let status = child.wait().ok()?;
                let said = child.stderr.as_ref().map(said_until_now).unwrap_or_default();
                Some((status.code(), said))
            }
        }
    }
}

/// Reads what was written to standard error. Another process may hold the other end, so its close is not waited for.
pub(crate) fn said_until_now(stderr: &impl AsFd) -> String {
    pipe::set_nonblocking(stderr).ok();
    let (mut said, mut buffer) = (Vec::new(), [0; 4096]);
    while let Attempt::Moved(count) = pipe::try_read(stderr, &mut buffer) {
        said.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&said).trim().to_owned()
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the token.
        formatter.debug_struct("Connection").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A failure as the server tells it.
#[derive(Debug, Deserialize)]
pub(crate) struct Problem {
    code: String,
    detail: String,
    hint: Option<String>,
}

impl Problem {
    pub(crate) fn failure(self) -> Failure {
        let code = Code::ALL.iter().copied().find(|code| code.word() == self.code).unwrap_or(Code::Failed);
        match self.hint {
            // The detail ends with the hint, which has a line of its own here.
            Some(hint) => {
                let detail = self
                    .detail
                    .strip_suffix(&hint)
                    .map_or(&*self.detail, |detail| detail.trim_end_matches("; "));
                Failure::new(code, detail).hint(hint)
            }
            None => Failure::new(code, self.detail),
        }
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    ///
    /// If it cannot be reached.
    pub fn open(address: &Address, token: Option<&str>, ssh: &Ssh) -> Result<Self, RemoteError> {
        let unreachable = |error: io::Error| RemoteError::Unreachable(address.to_string(), error);
        let token = token.map(str::to_owned);
        let name = address.to_string();
        match address {
            Address::Unix(path) => {
                let stream = connect_unix(path).map_err(unreachable)?;
                let reader = stream.try_clone().map_err(unreachable)?;
                Ok(Self { token: None, ..Self::over(reader, stream, &name) })
            }
            Address::Http(host) => {
                let stream = connect_tcp(host).map_err(unreachable)?;
                let reader = stream.try_clone().map_err(unreachable)?;
                let connection = Self::over(reader, stream, &name);
                Ok(Self { host: host.clone(), token, is_proxied: true, ..connection })
            }
            Address::Ssh { destination, port } => ssh.connect(destination, *port),
            Address::Command { name, words } => {
                let (program, arguments) =
                    words.split_first().ok_or_else(|| unreachable(io::ErrorKind::InvalidInput.into()))?;
                let mut command = Command::new(program);
                let piped = command
                    .args(arguments)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
                let mut child = piped.spawn().map_err(unreachable)?;
                let (Some(writer), Some(reader)) = (child.stdin.take(), child.stdout.take()) else {
                    return Err(unreachable(io::ErrorKind::BrokenPipe.into()));
                };
                Ok(Self::over(reader, writer, name).carried_by(Carrier::Process(child)))
            }
        }
    }

    /// Makes one of any pair of pipes, such as those of `outlive rpc`.
    pub fn over(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static, name: &str) -> Self {
        Self {
            reader: BufReader::new(Box::new(reader)),
            writer: Box::new(writer),
            host: "localhost".to_owned(),
            token: None,
            name: name.to_owned(),
            carrier: Carrier::default(),
            greeting: None,
            is_proxied: false,
        }
    }

    pub(crate) fn carried_by(self, carrier: Carrier) -> Self {
        Self { carrier, ..self }
    }

    pub(crate) fn greeted_by(self, greeting: Greeting) -> Self {
        Self { greeting: Some(greeting), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a request, and reads the head of the answer.
    fn send(
        &mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Head, RemoteError> {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Host", self.host.as_str())];
        headers.extend(bearer.as_deref().map(|bearer| ("Authorization", bearer)));
        headers.extend(more);
        let mut request = Vec::new();
        http::write_head(&mut request, method, path, &headers).map_err(|error| self.lost(error))?;
        request.extend_from_slice(body);
        let mut written = self.write(&request);
        // The request has not waited for the greeting: that would be a round trip more. A machine without the program has not taken it.
        while let Some(greeting) = self.greeting.take() {
            if written.is_err() {
                // The program there greets when it has a request, or when none can come any more.
                self.writer = Box::new(io::sink());
            }
            if let Err(error) = greeting.read(&mut self.reader) {
                // Where it waits for more, it ends.
                self.writer = Box::new(io::sink());
                *self = greeting.missed(error, self.carrier.last_words())?;
                written = self.write(&request);
            }
        }
        written.map_err(|error| self.lost(error))?;
        http::read_head(&mut self.reader).map_err(|error| self.lost(error))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        fault::write_all(Point::CallSend, &mut self.writer, bytes)?;
        self.writer.flush()
    }

    /// Explains why there was no answer: what carries the connection may know more.
    fn lost(&mut self, error: io::Error) -> RemoteError {
        if error.kind() == io::ErrorKind::InvalidData {
            return RemoteError::Strange(self.name.clone(), error.to_string());
        }
        // What waits for the rest of a request ends.
        self.writer = Box::new(io::sink());
        match self.carrier.last_words() {
            Some((_, said)) if !said.is_empty() => {
                RemoteError::Ssh(self.name.clone(), outlive::one_line(&said))
            }
            _ => RemoteError::Lost(self.name.clone(), error),
        }
    }

    /// Asks, and returns the body of the answer as it comes.
    pub(crate) fn ask(
        mut self,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: Option<&serde_json::Value>,
    ) -> Result<(Head, Answer), RemoteError> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let length = body.len().to_string();
        let mut headers = vec![("Connection", "close"), ("Content-Length", length.as_str())];
        if method != "GET" {
            headers.push(("Content-Type", "application/json"));
        }
        headers.extend(more);
        let head = self.send(method, path, &headers, body.as_bytes())?;
        let is_good = (200..300).contains(&head.status);
        let strange =
            |error: &dyn std::error::Error| RemoteError::Strange(self.name.clone(), error.to_string());
        let mut answer = Body::new(&head, self.reader).map_err(|error| strange(&error))?;
        if is_good {
            let (name, carrier, writer) = (self.name, self.carrier, self.writer);
            return Ok((head, Answer { body: answer, name, _carrier: carrier, _writer: writer }));
        }
        let mut text = String::new();
        answer.read_to_string(&mut text).map_err(|error| RemoteError::Lost(self.name.clone(), error))?;
        Err(refused(&self.name, &head, &text))
    }

    /// Becomes a WebSocket with this first message: both halves.
    pub(crate) fn upgrade(
        mut self,
        path: &str,
        first: &Message,
    ) -> Result<(Reader, Box<dyn Write + Send>, Carrier, String), RemoteError> {
        let key = websocket::key();
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", key.as_str()),
        ];
        let mut message = Vec::new();
        websocket::write(&mut message, Side::Client, first).map_err(|error| self.lost(error))?;
        // Our server reads the message after it has agreed.
        let early: &[u8] = if self.is_proxied { b"" } else { &message };
        let head = self.send("GET", path, &headers, early)?;
        if head.status == 101 {
            if self.is_proxied {
                self.write(&message).map_err(|error| self.lost(error))?;
            }
            return Ok((self.reader, self.writer, self.carrier, self.name));
        }
        let mut text = String::new();
        let body = Body::new(&head, self.reader);
        body.and_then(|mut body| body.read_to_string(&mut text))
            .map_err(|error| RemoteError::Lost(self.name.clone(), error))?;
        Err(refused(&self.name, &head, &text))
    }
}

fn refused(name: &str, head: &Head, text: &str) -> RemoteError {
    match serde_json::from_str::<Problem>(text) {
        Ok(problem) => RemoteError::Refused(Box::new(problem.failure())),
        Err(_) => RemoteError::Strange(name.to_owned(), format!("it answers with {}", head.status)),
    }
}

/// The body of an answer, as it comes.
pub(crate) struct Answer {
    body: Body,
    name: String,
    _carrier: Carrier,
    /// Held: to close this half tells some carriers to end.
    _writer: Box<dyn Write + Send>,
}

impl Answer {
    /// Reads all of it.
    pub(crate) fn text(mut self) -> Result<String, RemoteError> {
        let mut text = String::new();
        self.body.read_to_string(&mut text).map_err(|error| RemoteError::Lost(self.name, error))?;
        Ok(text)
    }
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer)
    }
}

/// Connects to a socket, or to the one of a store.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let path = if path.is_dir() { path.join("serve/socket") } else { path.to_owned() };
    if path.as_os_str().len() < LONGEST_SOCKET {
        return UnixStream::connect(path);
    }
    let (dir, name) = (path.parent(), path.file_name().and_then(|name| name.to_str()));
    let (Some(dir), Some(name)) = (dir, name) else { return Err(io::ErrorKind::NotFound.into()) };
    let stream = socket::connect_in(File::open(dir)?, name, CONNECT_LIMIT)?;
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)?;
    Ok(stream)
}

fn connect_tcp(host: &str) -> io::Result<TcpStream> {
    use std::net::ToSocketAddrs;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(stream) => {
                // Keys are small, and must not wait for more.
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
