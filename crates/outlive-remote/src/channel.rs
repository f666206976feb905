//! A verb of the command line that runs where the store is: what it prints, and its exit status.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlive::{Failure, RawText};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::connection::{Carrier, Connection, Problem};
use crate::error::RemoteError;
use crate::http::Reader;
use crate::websocket::{self, Message, Side};

const PATH: &str = "/v1/command";

/// What is to be run, and for whom.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Call {
    /// The words after `outlive`.
    pub arguments: Vec<RawText>,
    /// The directory; none: the home of the user there.
    pub directory: Option<RawText>,
    /// Variables of the caller that the command line looks at.
    pub variables: BTreeMap<String, String>,
    /// What the caller has for the verb to read from.
    pub stdin: End,
    /// What the caller has for the verb to print to.
    pub stdout: End,
    /// As `stdout`, for standard error.
    pub stderr: End,
    /// Of the caller's terminal, as `120x40`.
    pub size: Option<String>,
    /// What the caller calls the other machine, for hints.
    pub host: Option<String>,
    /// The reader, where the words name none.
    pub reader: Option<String>,
    /// What begins a mark; none: no marks are wanted.
    pub mark: Option<String>,
    /// The last marks of standard output and standard error: the verb goes on from there.
    pub places: [Option<String>; 2],
    /// The time since the first call, which counts for a limit.
    pub elapsed_ms: u64,
    /// What a viewer of a terminal shows its user first.
    pub notice: Option<String>,
}

/// What is at one of the three ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Nothing.
    #[default]
    None,
    /// A pipe or a file.
    Pipe,
    /// A terminal.
    Terminal,
}

/// What came from the verb.
#[derive(Debug)]
pub enum Said {
    /// It printed this.
    Stdout(Vec<u8>),
    /// It printed this to standard error.
    Stderr(Vec<u8>),
    /// It has ended, and all that it printed came before.
    Exit(u8),
    /// It was not run.
    Failed(Failure),
}

/// A verb that runs somewhere else.
pub struct Channel {
    reader: Reader,
    sender: Sender,
    name: String,
    carrier: Carrier,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Channel").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Sends input and orders to a verb; for another thread.
#[derive(Clone)]
pub struct Sender {
    to: Arc<Mutex<Box<dyn Write + Send>>>,
    input: Arc<Input>,
}

/// How much input was sent, and how much of it has arrived, in bytes.
#[derive(Default)]
struct Input {
    sent: AtomicU64,
    taken: AtomicU64,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Sender")
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Exit(i32),
    Error(Problem),
    /// So many bytes of the input have arrived.
    Taken(u64),
}

impl Channel {
    /// Calls a verb.
    ///
    /// # Errors
    ///
    /// If the connection breaks off, or the server refuses.
    pub fn open(connection: Connection, call: &Call) -> Result<Self, RemoteError> {
        let call = Message::Text(serde_json::to_string(call).unwrap_or_default());
        let (reader, writer, carrier, name) = connection.upgrade(PATH, &call)?;
        let sender = Sender { to: Arc::new(Mutex::new(writer)), input: Arc::default() };
        Ok(Self { reader, sender, name, carrier })
    }

    /// Returns what sends to the verb.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Waits for what the verb prints, or for its end.
    ///
    /// # Errors
    ///
    /// If the connection breaks off: what became of the verb is not known.
    pub fn receive(&mut self) -> Result<Said, RemoteError> {
        loop {
            let message = match websocket::read(&mut self.reader, Side::Server) {
                Ok(message) => message,
                Err(error) => return Err(self.lost(error)),
            };
            match message {
                // A server that has ended takes no answer, and its last words are still to be read.
                Message::Ping(bytes) => {
                    self.sender.with(|to| websocket::write_pong(to, &bytes)).ok();
                }
                Message::Binary(bytes) => match bytes.split_first() {
                    Some((1, bytes)) => return Ok(Said::Stdout(bytes.to_vec())),
                    Some((2, bytes)) => return Ok(Said::Stderr(bytes.to_vec())),
                    _ => {}
                },
                Message::Text(text) => match serde_json::from_str(&text) {
                    Ok(Told::Exit(code)) => return Ok(Said::Exit(u8::try_from(code).unwrap_or(1))),
                    Ok(Told::Error(problem)) => return Ok(Said::Failed(problem.failure())),
                    Ok(Told::Taken(bytes)) => self.sender.input.taken.store(bytes, Ordering::SeqCst),
                    // A later version may tell more.
                    Err(_) => {}
                },
                Message::Close => return Err(self.lost(std::io::ErrorKind::UnexpectedEof.into())),
            }
        }
    }

    /// Leaves a verb that has ended, for a program that ends now: what carries the connection ends by itself, and is not waited for.
    pub fn leave(mut self) {
        self.carrier.leave();
    }

    fn lost(&mut self, error: std::io::Error) -> RemoteError {
        match self.carrier.last_words() {
            Some((_, said)) if !said.is_empty() => {
                RemoteError::Ssh(self.name.clone(), outlive::one_line(&said))
            }
            _ => RemoteError::Lost(self.name.clone(), error),
        }
    }
}

impl Sender {
    fn with(
        &self,
        write: impl FnOnce(&mut Box<dyn Write + Send>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        write(&mut self.to.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends input.
    ///
    /// # Errors
    ///
    /// If the connection broke off.
    pub fn input(&self, bytes: &[u8]) -> std::io::Result<()> {
        // Counted first: what arrives is never more than what was sent.
        self.input.sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        self.with(|to| websocket::write(to, Side::Client, &Message::Binary(bytes.to_vec())))
    }

    /// Tells whether all input that was sent is known to have arrived. Where a connection has broken off, it is not known of the rest.
    pub fn is_confirmed(&self) -> bool {
        self.input.taken.load(Ordering::SeqCst) >= self.input.sent.load(Ordering::SeqCst)
    }

    /// Says that the input has ended.
    ///
    /// # Errors
    ///
    /// If the connection broke off.
    pub fn end_of_input(&self) -> std::io::Result<()> {
        self.order(&json!({ "eof": true }))
    }

    /// Says the size of the caller's terminal, as `120x40`.
    ///
    /// # Errors
    ///
    /// If the connection broke off.
    pub fn size(&self, size: &str) -> std::io::Result<()> {
        self.order(&json!({ "size": size }))
    }

    /// Passes on a signal that the caller's user sent: `INT`.
    ///
    /// # Errors
    ///
    /// If the connection broke off.
    pub fn signal(&self, name: &str) -> std::io::Result<()> {
        self.order(&json!({ "signal": name }))
    }

    fn order(&self, order: &serde_json::Value) -> std::io::Result<()> {
        self.with(|to| websocket::write(to, Side::Client, &Message::Text(order.to_string())))
    }
}
