//! What connects the keeper with the command: its ends of the pipes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use outlive_core::index::Stream;
use outlive_core::options::Endpoint;
use outlive_core::spec::Stdin;
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{self, Attempt};

use crate::guard::{Custody, Word};
use crate::input::Input;
use crate::transit::Transit;

/// After so many full reads in a row a stream is hot, and its pipe is grown: an unprivileged user has only so much
/// memory for pipes, so a quiet job must not take it.
const HOT_AFTER: u32 = 4;

/// How long to leave a pipe alone that could not be read, so that the loop does not spin.
const FAILED_REST: Duration = Duration::from_millis(10);

/// What the command prints to, as the keeper reads it.
pub(crate) struct Output {
    pub(crate) stream: Stream,
    /// None once every writer is gone.
    fd: Option<OwnedFd>,
    custody: Custody,
    full_reads: u32,
    is_grown: bool,
}

/// Both ends of the connection.
pub(crate) struct Ends {
    pub(crate) outputs: Vec<Output>,
    pub(crate) input: Input,
    /// The command's standard input, output and error.
    pub(crate) stdio: [OwnedFd; 3],
}

/// Makes the connection; an error comes with what could not be made.
pub(crate) fn open(endpoint: Endpoint, custody: Custody) -> Result<Ends, (&'static str, io::Error)> {
    let Endpoint::Pipes { stdin, merge } = endpoint;
    let a_pipe = |error| ("a pipe", error);
    let (stdout, stdout_end) = Output::pipe(Stream::Stdout, custody).map_err(a_pipe)?;
    let mut outputs = vec![stdout];
    let stderr_end = if merge {
        stdout_end.try_clone().map_err(a_pipe)?
    } else {
        let (stderr, stderr_end) = Output::pipe(Stream::Stderr, custody).map_err(a_pipe)?;
        outputs.push(stderr);
        stderr_end
    };
    let (input, stdin_end) = match stdin {
        Stdin::Null => (None, File::open("/dev/null").map_err(|error| ("/dev/null", error))?.into()),
        Stdin::Open => {
            let (reading, writing) = pipe::new().map_err(a_pipe)?;
            pipe::set_nonblocking(&writing).map_err(a_pipe)?;
            (Some(writing), reading)
        }
    };
    Ok(Ends { outputs, input: Input::new(input, custody), stdio: [stdin_end, stdout_end, stderr_end] })
}

impl Output {
    /// Makes a pipe; returns the command's end, too.
    fn pipe(stream: Stream, custody: Custody) -> io::Result<(Self, OwnedFd)> {
        let (reading, writing) = fault::step(Point::PipeMake, pipe::new)?;
        pipe::set_nonblocking(&reading)?;
        custody.lend(word(stream), &reading);
        Ok((Self::of(stream, Some(reading), custody), writing))
    }

    fn of(stream: Stream, fd: Option<OwnedFd>, custody: Custody) -> Self {
        Self { stream, fd, custody, full_reads: 0, is_grown: false }
    }

    /// Takes over the pipes that a keeper which died has left.
    pub(crate) fn inherit(custody: Custody) -> Vec<Self> {
        Stream::ALL.map(|stream| Self::of(stream, custody.inherit(word(stream)), custody)).into()
    }

    /// Returns what to poll, while any process may write to it.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns how much it can hold at this moment.
    pub(crate) fn capacity(&self) -> usize {
        self.fd.as_ref().map_or(0, pipe::capacity)
    }

    /// Moves what there is into the transit pipe, once; an end of file closes it.
    pub(crate) fn read(&mut self, transit: &Transit, most: usize) -> usize {
        let Some(fd) = &self.fd else { return 0 };
        // A guard that finds bytes in the transit pipe finds out whose they are.
        self.custody.set(Word::Stream, self.stream.index() as u64);
        match fault::attempt(Point::OutputRead, || transit.fill(fd, most)) {
            Attempt::Moved(count) => count,
            Attempt::Closed => {
                self.custody.withdraw(word(self.stream));
                self.fd = None;
                0
            }
            // Nothing is known to make it fail. The pipe stays open, so that the command is not hit by a broken pipe, and is read
            // again after a moment.
            Attempt::Failed(_) => {
                std::thread::sleep(FAILED_REST);
                0
            }
            Attempt::WouldBlock => 0,
        }
    }

    /// Notes how much a read gave, and grows the pipe to `size` when the stream is hot; tells whether it grew.
    pub(crate) fn note_read(&mut self, count: usize, size: usize) -> bool {
        self.full_reads = if count >= pipe::DEFAULT_CAPACITY { self.full_reads + 1 } else { 0 };
        let Some(fd) = self.fd.as_ref().filter(|_| self.full_reads == HOT_AFTER && !self.is_grown) else {
            return false;
        };
        self.is_grown = pipe::resize(fd, size);
        self.is_grown
    }

    /// Gives the memory of a grown pipe back.
    pub(crate) fn shrink(&mut self) {
        if let Some(fd) = self.fd.as_ref().filter(|_| self.is_grown) {
            self.is_grown = !pipe::resize(fd, pipe::DEFAULT_CAPACITY);
        }
        self.full_reads = 0;
    }
}

/// Where a stream's pipe is noted.
fn word(stream: Stream) -> Word {
    match stream {
        Stream::Stdout => Word::Stdout,
        Stream::Stderr => Word::Stderr,
    }
}
