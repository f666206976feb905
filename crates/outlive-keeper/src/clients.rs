//! Front ends that are connected to the keeper's socket.
//!
//! None of them can hold the keeper up: sockets do not block, buffers are bounded, and a connection that asks nothing
//! gives way when there are too many.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use outlive_core::control::{Hello, MAX_INPUT, Reply, Request};
use outlive_core::wire::{HEADER, first_frame};
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{Attempt, try_read, try_write};
use outlive_sys::socket;

/// As many as may be connected at a time.
pub(crate) const MAX_CLIENTS: usize = 64;

/// The longest request: a full piece of input and its framing.
const MAX_REQUEST: usize = MAX_INPUT + 64;

/// What a client waits for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Nothing: it may ask.
    No,
    /// The end of the tree.
    Killed,
    /// Room for this input.
    Room(Vec<u8>),
}

pub(crate) struct Client {
    stream: UnixStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    pub(crate) waiting: Waiting,
    pub(crate) is_gone: bool,
}

impl Client {
    /// Greets a new connection; `None` if it is of another user.
    pub(crate) fn new(stream: UnixStream, hello: &Hello) -> Option<Self> {
        let peer = socket::peer_uid(&stream)?;
        if peer != socket::own_uid() && peer != 0 {
            return None;
        }
        let mut client = Self {
            stream,
            received: Vec::new(),
            unsent: hello.to_frame(),
            waiting: Waiting::No,
            is_gone: false,
        };
        client.flush();
        Some(client)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Reads what has come.
    pub(crate) fn receive(&mut self) {
        let mut buffer = [0; 4096];
        while self.received.len() < MAX_REQUEST {
            match fault::attempt(Point::ClientReceive, || try_read(&self.stream, &mut buffer)) {
                Attempt::Moved(count) => self.received.extend_from_slice(&buffer[..count]),
                Attempt::WouldBlock => return,
                Attempt::Closed | Attempt::Failed(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }

    /// Takes the next whole request, if the one before was answered.
    pub(crate) fn next_request(&mut self) -> Option<Request> {
        if self.waiting != Waiting::No {
            return None;
        }
        match first_frame(&self.received) {
            Ok(Some((contents, length))) => {
                let request = Request::parse(contents);
                self.received.drain(..length);
                match request {
                    Ok(request) => Some(request),
                    Err(error) => {
                        let code = "unknown_request".to_owned();
                        self.reply(&Reply::Refused { code, message: error.to_string() });
                        None
                    }
                }
            }
            Ok(None) if self.received.len() < MAX_REQUEST + HEADER => None,
            // It is too long to be a request of ours: there is no way to find the next one.
            Ok(None) | Err(_) => {
                self.is_gone = true;
                None
            }
        }
    }

    /// Answers.
    pub(crate) fn reply(&mut self, reply: &Reply) {
        self.waiting = Waiting::No;
        self.unsent.extend(reply.to_frame());
        self.flush();
    }

    /// Sends what the socket takes now.
    pub(crate) fn flush(&mut self) {
        while !self.unsent.is_empty() {
            let send = || try_write(&self.stream, fault::shortened(Point::ClientReply, &self.unsent));
            match fault::attempt(Point::ClientReply, send) {
                Attempt::Moved(count) => {
                    self.unsent.drain(..count);
                }
                Attempt::WouldBlock => return,
                Attempt::Closed | Attempt::Failed(_) => {
                    self.is_gone = true;
                    return;
                }
            }
        }
    }
}
