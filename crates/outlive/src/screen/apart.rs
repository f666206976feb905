//! The screen of a job, derived by another process.
//!
//! What a job prints is hostile, and an emulator is a large machine: a program that must go on whatever it meets, as an MCP server,
//! lets another process run it, which costs at most that process.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outlive_core::terminal::keys::KeyModes;
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::poll;
use serde::Deserialize;

use crate::job::Job;
use crate::store::Store;

/// A screen of the largest size takes less.
const MAX_ANSWER: usize = 16 << 20;

/// How long the other process may take; a long log that was never looked at takes seconds.
const LIMIT: Duration = Duration::from_secs(30);

/// A job's screen, as far as most programs need it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ScreenText {
    /// The text of each row, without blanks at its end.
    pub rows: Vec<String>,
    /// Its size.
    pub size: TerminalSize,
    /// Where the cursor is.
    pub cursor: ScreenCursor,
    /// The title of the window.
    pub title: Option<String>,
    /// The offset from which it is derived: 0, unless earlier output was dropped.
    pub derived_from: u64,
    /// The offset up to which it is derived.
    pub offset: u64,
    /// The rows, from 1, that are others than they were at the offset that was asked for.
    #[serde(default)]
    pub changed_rows: Option<Vec<usize>>,
    modes: Modes,
}

/// A cursor; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct ScreenCursor {
    /// Its row.
    pub row: u16,
    /// Its column.
    pub column: u16,
    /// Whether it is shown.
    pub visible: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Modes {
    application_cursor: bool,
    application_keypad: bool,
    bracketed_paste: bool,
}

impl ScreenText {
    /// Returns what the bytes of keys depend on.
    pub fn key_modes(&self) -> KeyModes {
        let Modes { application_cursor, application_keypad, bracketed_paste } = self.modes;
        KeyModes { application_cursor, application_keypad, bracketed_paste }
    }
}

impl Store {
    /// Lets `outlive screen` derive the screen of a job that runs in a terminal, and compare it with what it was when the output had
    /// come to an offset.
    ///
    /// # Errors
    ///
    /// If that program is not there, fails, or takes too long.
    pub fn screen_apart(&self, job: &Job, since: Option<u64>) -> io::Result<ScreenText> {
        let arguments: Vec<String> =
            since.map(|offset| format!("--changes-since={offset}")).into_iter().collect();
        serde_json::from_slice(&self.screen_json_apart(job, &arguments)?).map_err(io::Error::other)
    }

    /// Lets `outlive screen --json` describe the screen of a job that runs in a terminal, with these options.
    ///
    /// # Errors
    ///
    /// If that program is not there, fails, or takes too long.
    pub fn screen_json_apart(&self, job: &Job, arguments: &[String]) -> io::Result<Vec<u8>> {
        let mut command = self.helper_command()?;
        command.args(["--json", "screen", job.id().as_str()]).args(arguments);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let answer = child.stdout.take().ok_or_else(|| io::ErrorKind::BrokenPipe.into()).and_then(|pipe| {
            let pipe: std::os::fd::OwnedFd = pipe.into();
            read_within(&mut File::from(pipe), LIMIT)
        });
        if answer.is_err() {
            // It may have ended by itself.
            child.kill().ok();
        }
        let status = child.wait()?;
        let answer = answer?;
        if !status.success() {
            return Err(io::Error::other(format!("the process that derives the screen ended with {status}")));
        }
        Ok(answer)
    }
}

impl Store {
    /// Lets another process follow the screen of a job that runs in a terminal: each line of its standard output is a JSON object with
    /// the rows that have changed. It ends when its standard input is closed.
    ///
    /// # Errors
    ///
    /// If that program is not there, or no more processes may be made.
    pub fn follow_screen_apart(&self, job: &Job) -> io::Result<Child> {
        let mut command = self.helper_command()?;
        command.args(["rows", job.id().as_str()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }
}

/// Reads to the end, within a time and an amount.
fn read_within(pipe: &mut File, limit: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + limit;
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while answer.len() < MAX_ANSWER {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || !poll::readable(pipe.as_fd(), Some(left))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match pipe.read(&mut buffer)? {
            0 => return Ok(answer),
            count => answer.extend_from_slice(&buffer[..count]),
        }
    }
    Err(io::Error::other("the screen is too large"))
}
