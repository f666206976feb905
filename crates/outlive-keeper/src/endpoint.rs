//! What connects the keeper with the command: its ends of the pipes, or the master of the command's terminal.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use outlive_core::index::Stream;
use outlive_core::options::Endpoint;
use outlive_core::spec::Stdin;
use outlive_core::terminal::query::Facts;
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::awaits::{self, Kind, Known};
use outlive_sys::fault::{self, Point};
use outlive_sys::pipe::{self, Attempt};
use outlive_sys::{clock, pty};

use crate::guard::{Custody, Word};
use crate::input::Input;
use crate::recorder::Transit;
use crate::terminal::answers::Answers;

/// After so many full reads in a row a stream is hot, and its pipe is grown: an unprivileged user has only so much
/// memory for pipes, so a quiet job must not take it.
const HOT_AFTER: u32 = 4;

/// What one read of a terminal gives at most.
const TERMINAL_READ: usize = 4096;

/// A terminal that gives less at once had no more a moment ago: the echo of a key is recorded without asking for another.
const SHORT_READ: usize = 64;

/// How long a size is kept for viewers whose keeper died; they are told at once.
const VIEWERS_RETURN_US: u64 = 2_000_000;

/// How long to leave a pipe alone that could not be read, so that the loop does not spin.
const FAILED_REST: Duration = Duration::from_millis(10);

/// What the command prints to, as the keeper reads it.
pub(crate) struct Output {
    pub(crate) stream: Stream,
    /// None once every writer is gone.
    fd: Option<OwnedFd>,
    kind: OutputKind,
    custody: Custody,
    full_reads: u32,
    is_grown: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OutputKind {
    Pipe,
    /// One read gives a page at most, however much there is.
    Terminal,
}

/// The command's terminal.
pub(crate) struct Terminal {
    master: OwnedFd,
    /// Held open: without any user the terminal would be hung up, and a command may close its last descriptor of it and open it
    /// again.
    command_side: OwnedFd,
    /// The size without viewers.
    pub(crate) own_size: TerminalSize,
    /// The size that its viewers wanted last.
    pub(crate) fitted: Option<TerminalSize>,
    /// Until then it is kept for viewers of a keeper that died, which come back.
    pub(crate) fitted_until_us: Option<u64>,
    /// The size that it has.
    size: TerminalSize,
    /// A program that gets no answer waits for seconds, or for ever. Viewers are shown a screen and not the questions, so they
    /// never answer as well.
    pub(crate) answers: Answers,
}

impl Terminal {
    /// Finds what the command asks its terminal, in output that ends at `log_end` of the log.
    pub(crate) fn look_through(&mut self, output: &[u8], log_end: u64) {
        self.answers.look_through(output, log_end, &Facts { size: self.size, is_light: false });
    }

    /// Makes it of its two ends, new ones or those that a program had which this one was executed in place of.
    pub(crate) fn new(master: OwnedFd, command_side: OwnedFd, size: TerminalSize) -> Self {
        let (own_size, answers) = (size, Answers::default());
        Self { master, command_side, own_size, fitted: None, fitted_until_us: None, size, answers }
    }

    /// Takes over what a keeper that died has left; `None` if the job has no terminal.
    pub(crate) fn inherit(custody: Custody) -> Option<Self> {
        let (master, side) = (custody.inherit(Word::Master)?, custody.inherit(Word::CommandSide)?);
        let mut terminal = Self::new(master, side, custody.size(Word::OwnSize));
        terminal.answers.set_program(custody.inherit(Word::Answers));
        Some(terminal)
    }

    /// Notes its descriptors for the guard.
    pub(crate) fn lend(&self, custody: Custody) {
        custody.lend(Word::Master, &self.master);
        custody.lend(Word::CommandSide, &self.command_side);
        self.answers.program().into_iter().for_each(|program| custody.lend(Word::Answers, program));
    }

    /// Returns the numbers of its own two descriptors.
    pub(crate) fn own_fds(&self) -> [RawFd; 2] {
        [self.master.as_raw_fd(), self.command_side.as_raw_fd()]
    }

    /// Returns the numbers of its descriptors.
    pub(crate) fn fds(&self) -> impl Iterator<Item = RawFd> {
        self.own_fds().into_iter().chain(self.answers.program_fd())
    }

    /// Takes the sizes that it had when its keeper died: without viewers, and now.
    pub(crate) fn resume(&mut self, own_size: TerminalSize, size: TerminalSize) {
        (self.own_size, self.size) = (own_size, size);
        self.fitted = Some(size).filter(|size| *size != own_size);
        self.fitted_until_us = self.fitted.map(|_| clock::boot_us() + VIEWERS_RETURN_US);
    }

    /// Sets the size; the kernel tells the programs in the foreground.
    pub(crate) fn resize(&mut self, size: TerminalSize) -> io::Result<()> {
        fault::step(Point::TerminalResize, || pty::resize(&self.master, size.columns(), size.rows()))?;
        self.size = size;
        Ok(())
    }

    /// Returns the size that it has.
    pub(crate) fn size(&self) -> TerminalSize {
        self.size
    }

    /// Tells what the programs in the foreground wait for.
    pub(crate) fn awaits(&self, pids: &[i32], is_prompted: bool) -> Option<(Kind, Known)> {
        awaits::of_terminal(&self.master, &self.command_side, pids, is_prompted)
    }

    /// Tells whether what is typed now is a line that is not shown, as a password is, or that cannot be told.
    pub(crate) fn hides_input(&self) -> bool {
        pty::input_modes(&self.master).map_or(true, |modes| modes.by_line && !modes.echo)
    }

    /// Tells why a secret that is typed now may be shown; `is_masked`: not by a program that reads key by key.
    pub(crate) fn shows_secret(&self, is_masked: bool) -> Option<&'static str> {
        match pty::input_modes(&self.master) {
            Err(_) => Some("it cannot be told whether its terminal shows what is typed"),
            Ok(modes) if modes.echo => Some("its terminal shows what is typed"),
            Ok(modes) if !modes.by_line && !is_masked => {
                Some("its program reads key by key, and may show what is typed")
            }
            // The kernel decides when the turn of a byte comes whether it is shown.
            Ok(_) if pipe::held(&self.command_side) > 0 => {
                Some("what was typed before has not been read yet")
            }
            Ok(_) => None,
        }
    }

    /// Returns what a person types who has no more input.
    pub(crate) fn end_of_file(&self) -> u8 {
        pty::end_of_file(&self.master)
    }
}

/// Both ends of the connection.
pub(crate) struct Ends {
    pub(crate) outputs: Vec<Output>,
    pub(crate) input: Input,
    pub(crate) terminal: Option<Terminal>,
    /// The command's standard input, output and error.
    pub(crate) stdio: [OwnedFd; 3],
}

/// Makes the connection; an error comes with what could not be made.
pub(crate) fn open(endpoint: Endpoint, custody: Custody) -> Result<Ends, (&'static str, io::Error)> {
    match endpoint {
        Endpoint::Pipes { stdin, merge } => open_pipes(stdin, merge, custody),
        Endpoint::Terminal { size } => open_terminal(size, custody).map_err(|error| ("a terminal", error)),
    }
}

fn open_terminal(size: TerminalSize, custody: Custody) -> io::Result<Ends> {
    let (master, side) = fault::step(Point::TerminalMake, || pty::open(size.columns(), size.rows()))?;
    let stdio = [side.try_clone()?, side.try_clone()?, side.try_clone()?];
    let output = Output::new(Stream::Stdout, Some(master.try_clone()?), OutputKind::Terminal, custody);
    let input = Input::new(Some(master.try_clone()?), custody);
    custody.note_size(Word::Size, size);
    custody.note_size(Word::OwnSize, size);
    let terminal = Terminal::new(master, side, size);
    Ok(Ends { outputs: vec![output], input, terminal: Some(terminal), stdio })
}

fn open_pipes(stdin: Stdin, merge: bool, custody: Custody) -> Result<Ends, (&'static str, io::Error)> {
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
    let input = Input::new(input, custody);
    Ok(Ends { outputs, input, terminal: None, stdio: [stdin_end, stdout_end, stderr_end] })
}

impl Output {
    fn new(stream: Stream, fd: Option<OwnedFd>, kind: OutputKind, custody: Custody) -> Self {
        if let Some(fd) = &fd {
            custody.lend(word(stream), fd);
        }
        Self { stream, fd, kind, custody, full_reads: 0, is_grown: false }
    }

    /// Takes over what a keeper that died has left.
    pub(crate) fn inherit(custody: Custody, is_terminal: bool) -> Vec<Self> {
        let kind = if is_terminal { OutputKind::Terminal } else { OutputKind::Pipe };
        Stream::ALL.map(|stream| Self::new(stream, custody.inherit(word(stream)), kind, custody)).into()
    }

    /// Makes a pipe; returns the command's end, too.
    fn pipe(stream: Stream, custody: Custody) -> io::Result<(Self, OwnedFd)> {
        let (reading, writing) = fault::step(Point::PipeMake, pipe::new)?;
        pipe::set_nonblocking(&reading)?;
        Ok((Self::new(stream, Some(reading), OutputKind::Pipe, custody), writing))
    }

    /// Returns what to poll, while any process may write to it.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns how much it can hold at this moment.
    pub(crate) fn capacity(&self) -> usize {
        match self.kind {
            OutputKind::Pipe => self.fd.as_ref().map_or(0, pipe::capacity),
            OutputKind::Terminal => pty::HELD,
        }
    }

    /// Moves what there is into the transit pipe; an end of file closes it.
    pub(crate) fn read(&mut self, transit: &Transit, most: usize) -> usize {
        if self.kind == OutputKind::Pipe {
            return self.read_once(transit, most);
        }
        // Recorded together, so that a flood costs a write for many pages and not for each.
        let mut count = 0;
        while count < most.min(pty::HELD) {
            let more = self.read_once(transit, TERMINAL_READ);
            count += more;
            if more < SHORT_READ {
                break;
            }
        }
        count
    }

    fn read_once(&mut self, transit: &Transit, most: usize) -> usize {
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
        let is_full = self.kind == OutputKind::Pipe && count >= pipe::DEFAULT_CAPACITY;
        self.full_reads = if is_full { self.full_reads + 1 } else { 0 };
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

/// Where a stream's descriptor is noted.
fn word(stream: Stream) -> Word {
    match stream {
        Stream::Stdout => Word::Stdout,
        Stream::Stderr => Word::Stderr,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_read_that_fails_is_tried_again_and_not_at_once() {
        // A directory is always ready, and cannot be read.
        let fd = Some(File::open("/").unwrap().into());
        let custody = Custody::new().unwrap();
        let mut output = Output::new(Stream::Stdout, fd, OutputKind::Pipe, custody);
        let begun = Instant::now();
        assert_eq!(output.read(&Transit::new().unwrap(), 16), 0);
        assert!(begun.elapsed() >= FAILED_REST, "the loop would spin");
        assert!(output.fd().is_some(), "the command would be hit by a broken pipe");
    }
}
