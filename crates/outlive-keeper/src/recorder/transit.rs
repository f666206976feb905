//! The pipe between the command's pipes and the log, which only the keeper fills.
//!
//! It makes every step of recording exact: bytes are moved from pipe to pipe and from the pipe to the log by the kernel, so that a
//! keeper can be killed at any moment, and its guard finds each byte once. The command never waits for the disk, as it would if its own
//! pipe were moved to the log: the kernel holds a pipe's lock meanwhile.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use outlive_core::index::Stream;
use outlive_sys::pipe::{self, Attempt};

pub(crate) struct Transit {
    reading: OwnedFd,
    writing: OwnedFd,
}

/// All that the pipe holds, which is of one stream. Only the keeper fills it, and knows how much that is.
pub(crate) struct Taken<'a> {
    pub(crate) transit: &'a Transit,
    pub(crate) stream: Stream,
    pub(crate) count: usize,
}

impl Transit {
    pub(crate) fn new() -> io::Result<Self> {
        let (reading, writing) = pipe::new()?;
        pipe::set_nonblocking(&reading)?;
        pipe::set_nonblocking(&writing)?;
        Ok(Self { reading, writing })
    }

    /// Takes over the pipe of the program that this one was executed in place of.
    pub(crate) fn inherited(reading: OwnedFd, writing: OwnedFd) -> Self {
        Self { reading, writing }
    }

    /// Moves what a pipe holds into this one, at most so much.
    pub(crate) fn fill(&self, from: impl AsFd, most: usize) -> Attempt {
        pipe::try_move(from, &self.writing, most)
    }

    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }

    /// Returns how many bytes are in it.
    pub(crate) fn held(&self) -> usize {
        pipe::held(&self.reading)
    }

    /// Throws away what is in it.
    pub(crate) fn discard(&self, buffer: &mut [u8], mut seen: impl FnMut(&[u8])) {
        while let Attempt::Moved(count) = pipe::try_read(&self.reading, buffer) {
            seen(&buffer[..count]);
        }
    }

    /// Grows or shrinks it with a pipe of the command.
    pub(crate) fn resize(&self, bytes: usize) {
        pipe::resize(&self.writing, bytes);
    }

    pub(crate) fn fds(&self) -> [RawFd; 2] {
        [self.reading.as_raw_fd(), self.writing.as_raw_fd()]
    }

    #[cfg(test)]
    pub(crate) fn put(&self, bytes: &[u8]) {
        assert!(
            matches!(pipe::try_write(&self.writing, bytes), Attempt::Moved(count) if count == bytes.len())
        );
    }
}
