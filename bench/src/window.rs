//! A terminal window of a benchmark's own, with a program in it: what a person has in front of them.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use outlive_sys::pipe::{self, Attempt};
use outlive_sys::{poll, pty};

use crate::{Failure, beside, go_on};

/// How long a program may show nothing before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// A window. Dropping it ends its program and hangs it up.
pub struct Window {
    master: OwnedFd,
    /// Held open, so that reading never ends before the program has opened it.
    _side: OwnedFd,
    program: Child,
    buffer: Vec<u8>,
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Window {
    /// Opens a window of this size and runs a command in it, with the command's arguments and environment.
    ///
    /// # Errors
    ///
    /// If there is no terminal left, or the command cannot be started.
    pub fn open((columns, rows): (u16, u16), command: &Command) -> Result<Self, Failure> {
        let (master, side) = pty::open(columns, rows)?;
        let device = OsString::from_vec(rustix::pty::ptsname(&master, Vec::new())?.into_bytes());
        let mut starter = Command::new(beside("on-terminal")?);
        starter.arg(device).arg(command.get_program()).args(command.get_args());
        starter.env("TERM", "xterm-256color").env_remove("TMUX");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => starter.env(name, value),
                None => starter.env_remove(name),
            };
        }
        let program = starter.spawn()?;
        Ok(Self { master, _side: side, program, buffer: vec![0; 64 << 10] })
    }

    /// Types.
    ///
    /// # Errors
    ///
    /// If the window takes no key.
    pub fn press(&self, keys: &[u8]) -> Result<(), Failure> {
        match pipe::try_write(&self.master, keys) {
            Attempt::Moved(count) if count == keys.len() => Ok(()),
            other => Err(format!("a window takes no key: {other:?}").into()),
        }
    }

    /// Reads until this text is shown; returns how many bytes came.
    ///
    /// # Errors
    ///
    /// If it is not shown.
    pub fn shows(&mut self, text: &[u8]) -> Result<u64, Failure> {
        let (mut seen, mut bytes, begun) = (Vec::new(), 0, Instant::now());
        loop {
            let Some(count) = self.read(PATIENCE.saturating_sub(begun.elapsed()))? else {
                let text = String::from_utf8_lossy(text);
                return Err(format!("a window never showed {text:?}").into());
            };
            bytes += count as u64;
            seen.extend_from_slice(&self.buffer[..count]);
            if seen.windows(text.len()).any(|window| window == text) {
                return Ok(bytes);
            }
            // The text may have been cut by the read.
            seen.drain(..seen.len().saturating_sub(text.len() - 1));
        }
    }

    /// Reads until nothing comes for this long.
    ///
    /// # Errors
    ///
    /// If the window cannot be read.
    pub fn settle(&mut self, quiet: Duration) -> Result<(), Failure> {
        while self.read(quiet)?.is_some() {}
        Ok(())
    }

    /// Reads once; `None` if nothing comes in time.
    fn read(&mut self, limit: Duration) -> Result<Option<usize>, Failure> {
        go_on()?;
        if !poll::readable(self.master.as_fd(), Some(limit))? {
            return Ok(None);
        }
        match pipe::try_read(&self.master, &mut self.buffer) {
            Attempt::Moved(count) => Ok(Some(count)),
            other => Err(format!("a window cannot be read: {other:?}").into()),
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.program.kill().ok();
        self.program.wait().ok();
    }
}
