//! A terminal of a test's own.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::{Home, LIMIT, binary, end_within};

/// A terminal; dropping it hangs it up, as when its window is closed.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    device: PathBuf,
    /// All that was shown so far.
    shown: Vec<u8>,
}

impl Terminal {
    /// Opens one that is so many columns wide.
    pub fn open(columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let device = ptsname(&master, Vec::new()).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let device = PathBuf::from(OsStr::from_bytes(device.to_bytes()));
        Self { master: File::from(master), device, shown: Vec::new() }
    }

    /// Starts a program with this as its controlling terminal, with the environment of a home and more.
    pub fn start<T: AsRef<OsStr>>(
        &self,
        home: &Home,
        variables: &[(&str, &str)],
        argv: impl IntoIterator<Item = T>,
    ) -> Child {
        let mut command: Command = home.command(binary("on-terminal"));
        command.env("TERM", "xterm").envs(variables.iter().copied()).arg(&self.device).args(argv);
        command.spawn().unwrap()
    }

    /// Types.
    pub fn write(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Reads until this text was shown.
    pub fn read_until(&mut self, text: &str) {
        let deadline = Instant::now() + LIMIT;
        while !String::from_utf8_lossy(&self.shown).contains(text) {
            let has_more = self.read(deadline);
            assert!(has_more, "the terminal never showed {text:?}: {}", String::from_utf8_lossy(&self.shown));
        }
    }

    /// Reads until no program has the terminal any more, and returns all that was shown.
    pub fn read_to_end(mut self) -> String {
        let deadline = Instant::now() + LIMIT;
        while self.read(deadline) {}
        String::from_utf8(self.shown).unwrap()
    }

    /// Reads some; `false` at the end.
    fn read(&mut self, deadline: Instant) -> bool {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap();
        let is_ready = poll(&mut [PollFd::new(&self.master, PollFlags::IN)], Some(&left)).unwrap() > 0;
        assert!(is_ready, "the terminal shows nothing within {LIMIT:?}");
        let mut buffer = [0; 4096];
        // Linux says EIO when the last program has closed it.
        let count = self.master.read(&mut buffer).unwrap_or(0);
        self.shown.extend_from_slice(&buffer[..count]);
        count > 0
    }
}

/// Runs `outlive` on a terminal and returns what it showed; it must succeed.
pub fn on_terminal(home: &Home, columns: u16, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let terminal = Terminal::open(columns);
    let mut child = terminal.start(home, variables, [&["outlive"], arguments].concat());
    let shown = terminal.read_to_end();
    assert_eq!(end_within(&mut child, LIMIT), Some(0), "{shown}");
    shown.replace("\r\n", "\n")
}
