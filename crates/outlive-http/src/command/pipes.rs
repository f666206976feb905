//! A verb over standard input and output, without the server: most of what another machine is asked for by SSH is one verb, and to set up
//! the whole API, of which it uses one route, takes longer than many a verb itself.
//!
//! Only a request that is exactly as our own client writes it is answered here. Any other goes to the server, with the bytes that were
//! read. The verb's process is a copy of this one, which has one thread until then.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlive::{Failure, Store, TerminalSize};
use outlive_remote::websocket::{self, Message, Side};
use outlive_sys::poll;
use serde_json::json;
use tokio::sync::mpsc;
use tungstenite::handshake::derive_accept_key;

use super::process::{self, Process, Said, Started, Verb};
use super::{Call, HINT, Order, PING, SEND_LIMIT, confirmed, failed};
use crate::access::Caller;

/// The most that the head of a request may have here.
const HEAD: usize = 4 << 10;

/// Reads the head of the first request. Returns its key if a verb is called, and what is left of the input: all of it, where something
/// else is asked for.
///
/// # Errors
///
/// If the input cannot be read.
pub(crate) fn begin(mut input: Input) -> io::Result<(Option<String>, Input)> {
    let (mut read, mut buffer) = (Vec::new(), [0; HEAD]);
    loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let key = key_of(&read[..end]);
            if key.is_some() {
                read.drain(..end + 4);
            }
            return Ok((key, Input { read: io::Cursor::new(read), ..input }));
        }
        match input.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(count) => {
                read.extend_from_slice(&buffer[..count]);
                if count == 0 || read.len() >= HEAD {
                    return Ok((None, Input { read: io::Cursor::new(read), ..input }));
                }
            }
        }
    }
}

/// Returns the key of a request for a verb, if the head has what our client sends and nothing else: what a browser or a tunnel adds is
/// for the server to judge.
fn key_of(head: &[u8]) -> Option<String> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    if lines.next() != Some("GET /v1/command HTTP/1.1") {
        return None;
    }
    let mut key = None;
    let mut seen = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        match (name, value) {
            ("Host", "localhost")
            | ("Connection", "Upgrade")
            | ("Upgrade", "websocket")
            | ("Sec-WebSocket-Version", "13") => {}
            ("Sec-WebSocket-Key", value) => key = Some(value.to_owned()),
            _ => return None,
        }
        seen.push(name);
    }
    // Each of them, once.
    seen.sort_unstable();
    seen.dedup();
    key.filter(|_| seen.len() == 5)
}

/// Runs the verb that is called, and passes on its ends, until it ends or the client goes. In the process of the verb, returns the verb.
/// `greeting` comes before all else.
///
/// # Errors
///
/// If the client is gone, or does not keep to the protocol.
pub(crate) fn run(store: &Store, key: &str, greeting: &str, mut input: Input) -> io::Result<Option<Verb>> {
    let output = Output::take()?;
    let accept = derive_accept_key(key.as_bytes());
    let mut head = format!(
        "{greeting}HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {accept}\r\n\r\n"
    );
    // Our client does not wait for the head, which is sent once the verb is at work. One that waits gets it now.
    if !input.has_more() {
        output.write(std::mem::take(&mut head).as_bytes())?;
    }
    let call = match websocket::read(&mut input, Side::Client)? {
        Message::Text(text) => serde_json::from_str::<Call>(&text)
            .map_err(|error| Failure::usage(format!("command: {error}"), HINT)),
        _ => Err(Failure::usage("command: no call", HINT)),
    };
    let started = call.and_then(|call| process::fork(store, &Caller::user(), &call));
    let (mut process, waiting) = match started {
        Ok(Started::Runs(process, waiting)) => (process, waiting),
        Ok(Started::Is(verb)) => return Ok(Some(verb)),
        Err(failure) => {
            output.write(head.as_bytes())?;
            output.send_last(&Message::Text(failed(&failure)))?;
            return Ok(None);
        }
    };
    output.write(head.as_bytes())?;
    let (_, none) = mpsc::channel(1);
    let mut said = std::mem::replace(&mut process.said, none);
    // A client that takes no answers is gone, and so is what it asked for.
    let _ended = process.end();
    process::thread(move || waiting.run())?;
    let answers = output.clone();
    process::thread(move || receive(input, process, &answers))?;
    while let Some(said) = said.blocking_recv() {
        match said {
            Said::Bytes(bytes) => output.send(&Message::Binary(bytes))?,
            Said::Exit(code) => {
                output.send_last(&Message::Text(json!({ "exit": code }).to_string()))?;
                break;
            }
        }
    }
    Ok(None)
}

/// Takes what the client sends, until it goes; then the verb's process is dropped.
fn receive(mut input: Input, mut process: Process, output: &Output) {
    let (mut silent, mut taken) = (Duration::ZERO, 0);
    loop {
        if input.is_quiet() {
            // Where the connection was cut, what is written to it is what lets the system notice.
            match output.try_send(&Message::Ping(Vec::new())) {
                Some(true) => silent = Duration::ZERO,
                Some(false) => return,
                None => silent += PING,
            }
            if silent >= SEND_LIMIT {
                return;
            }
            continue;
        }
        match websocket::read(&mut input, Side::Client) {
            Ok(Message::Binary(bytes)) => {
                taken += bytes.len();
                let is_typed = process.is_typed_into();
                // One that reads no more takes none, which is its own business.
                if process.input.as_ref().is_some_and(|to| to.blocking_send(bytes).is_err()) {
                    process.input = None;
                }
                // After it: the verb is at work meanwhile.
                if is_typed && output.send(&Message::Text(confirmed(taken))).is_err() {
                    return;
                }
            }
            Ok(Message::Text(text)) => match serde_json::from_str(&text) {
                Ok(Order::Size(size)) => {
                    if let Ok(size) = TerminalSize::parse(&size) {
                        process.resize(size);
                    }
                }
                Ok(Order::Signal(name)) => process.interrupt(&name),
                Ok(Order::Eof(true)) => process.input = None,
                Ok(Order::Eof(false)) => {}
                Err(error) => {
                    if output.send(&Message::Text(failed(&super::misunderstood(&error)))).is_err() {
                        return;
                    }
                }
            },
            Ok(Message::Ping(_)) => {}
            Ok(Message::Close) | Err(_) => return,
        }
    }
}

/// Standard input, with what was already read of it.
pub(crate) struct Input {
    read: io::Cursor<Vec<u8>>,
    pipe: File,
}

impl Input {
    /// Takes hold of standard input; what is read here is not buffered elsewhere.
    ///
    /// # Errors
    ///
    /// If no more files may be open.
    pub(crate) fn take() -> io::Result<Self> {
        let pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Self { read: io::Cursor::default(), pipe })
    }

    /// Waits until there is something to read; true: there was nothing for as long as between two pings.
    fn is_quiet(&self) -> bool {
        !self.has_more_within(PING)
    }

    /// Tells whether there is something to read now.
    fn has_more(&self) -> bool {
        self.has_more_within(Duration::ZERO)
    }

    fn has_more_within(&self, limit: Duration) -> bool {
        let is_read = self.read.position() >= self.read.get_ref().len() as u64;
        !is_read || !matches!(poll::readable(self.pipe.as_fd(), Some(limit)), Ok(false))
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.read.read(buffer)? {
            0 => self.pipe.read(buffer),
            count => Ok(count),
        }
    }
}

/// Standard output, for messages of several threads; unbuffered, because each message is one write.
#[derive(Clone)]
struct Output(Arc<Mutex<File>>);

impl Output {
    fn take() -> io::Result<Self> {
        let pipe = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Self(Arc::new(Mutex::new(pipe))))
    }

    fn with(&self, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.with(|to| to.write_all(bytes))
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        self.with(|to| websocket::write(to, Side::Server, message))
    }

    /// Sends a message that is the last, and says so.
    fn send_last(&self, message: &Message) -> io::Result<()> {
        let mut both = Vec::new();
        websocket::write(&mut both, Side::Server, message)?;
        websocket::write(&mut both, Side::Server, &Message::Close)?;
        self.write(&both)
    }

    /// Sends, unless another message is being written: then the client takes nothing.
    fn try_send(&self, message: &Message) -> Option<bool> {
        let mut to = self.0.try_lock().ok()?;
        Some(websocket::write(&mut *to, Side::Server, message).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_our_client_writes_is_answered_here() {
        let head = "GET /v1/command HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a2V5";
        assert_eq!(key_of(head.as_bytes()).as_deref(), Some("a2V5"));
        for other in [
            head.replace("/v1/command", "/v1/jobs"),
            head.replace("localhost", "gpu1"),
            head.replace("Host: localhost\r\n", ""),
            format!("{head}\r\nOrigin: http://localhost"),
            format!("{head}\r\nSec-Fetch-Site: same-origin"),
        ] {
            assert_eq!(key_of(other.as_bytes()), None, "{other}");
        }
    }
}
