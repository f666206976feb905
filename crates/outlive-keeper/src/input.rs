//! The command's standard input.
//!
//! The keeper owns the writing end, so input survives every front end. What the command does not read yet is held in a
//! bounded queue; the keeper never waits for it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use outlive_sys::awaits::{self, Kind, Known};
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{Attempt, try_write};

/// How much input is held for a command that does not read; beyond it, writers wait.
const QUEUE: usize = 256 << 10;

#[derive(Default)]
pub(crate) struct Input {
    pipe: Option<OwnedFd>,
    queue: VecDeque<u8>,
    /// The pipe is to be closed when the queue is empty.
    is_ending: bool,
}

impl Input {
    pub(crate) fn new(pipe: Option<OwnedFd>) -> Self {
        Self { pipe, ..Self::default() }
    }

    /// Tells whether more can be written.
    pub(crate) fn is_open(&self) -> bool {
        self.pipe.is_some() && !self.is_ending
    }

    /// Tells whether this many bytes more fit into the queue.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.queue.is_empty() || self.queue.len() + bytes <= QUEUE
    }

    /// Takes input; the caller has made sure of room.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.queue.extend(bytes);
        self.flush();
    }

    /// Closes the pipe once all is written.
    pub(crate) fn end(&mut self) {
        self.is_ending = true;
        self.flush();
    }

    /// Tells whether a process waits for what is written here.
    pub(crate) fn awaits(&self, pids: &[i32], is_prompted: bool) -> Option<(Kind, Known)> {
        awaits::of_pipe(self.pipe.as_ref().filter(|_| self.queue.is_empty())?, pids, is_prompted)
    }

    /// Returns the pipe if something waits to be written to it.
    pub(crate) fn waiting(&self) -> Option<&OwnedFd> {
        self.pipe.as_ref().filter(|_| !self.queue.is_empty())
    }

    /// Writes what the pipe takes now.
    pub(crate) fn flush(&mut self) {
        while let Some(pipe) = &self.pipe {
            let (front, _) = self.queue.as_slices();
            if front.is_empty() {
                if self.is_ending {
                    self.close();
                }
                // What was queued is gone for good; so is the memory.
                self.queue = VecDeque::new();
                return;
            }
            let write = || try_write(pipe, fault::shortened(Point::InputWrite, front));
            match fault::attempt(Point::InputWrite, write) {
                Attempt::Moved(count) => {
                    self.queue.drain(..count);
                }
                Attempt::WouldBlock => return,
                // The command has closed its end.
                Attempt::Closed | Attempt::Failed(_) => self.close(),
            }
        }
    }

    pub(crate) fn close(&mut self) {
        self.pipe = None;
        self.queue = VecDeque::new();
    }
}
