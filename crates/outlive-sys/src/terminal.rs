//! What a front end needs to know about its own terminal, and what it changes there for a time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{InputModes, LocalModes, OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};

/// Writes once; a signal that comes while it waits for the reader is an error of kind `Interrupted`.
///
/// # Errors
///
/// If the reader is gone, or a signal came.
pub fn write_once(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

/// Returns the terminal's width in columns, if `fd` is one that knows it.
pub fn columns(fd: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Returns the terminal's columns and rows, if `fd` is one that knows them.
pub fn size(fd: impl AsFd) -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// A terminal whose settings were changed; they are as before when this is dropped.
#[derive(Debug)]
pub struct Changed {
    terminal: OwnedFd,
    before: Termios,
}

impl Changed {
    /// Every byte that is typed is read as it is, none is shown, and none is a signal.
    ///
    /// # Errors
    ///
    /// If it is no terminal.
    pub fn raw(terminal: impl AsFd) -> io::Result<Self> {
        Self::with(terminal, Termios::make_raw)
    }

    /// What is typed is not shown.
    ///
    /// # Errors
    ///
    /// If it is no terminal.
    pub fn without_echo(terminal: impl AsFd) -> io::Result<Self> {
        Self::with(terminal, |settings| settings.local_modes.remove(LocalModes::ECHO))
    }

    fn with(terminal: impl AsFd, change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let terminal = terminal.as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut settings = before.clone();
        change(&mut settings);
        // What was typed before is for the program that reads next, so it is kept.
        tcsetattr(&terminal, OptionalActions::Drain, &settings)?;
        Ok(Self { terminal, before })
    }

    /// Sets the settings back now.
    pub fn restore(&self) {
        // A terminal that is gone needs no settings.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.before).ok();
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Tells whether a terminal is as [`Changed::raw`] makes it. No shell starts a program on such a one.
pub fn is_raw(terminal: impl AsFd) -> bool {
    tcgetattr(terminal).is_ok_and(|settings| {
        !settings.local_modes.intersects(LocalModes::ICANON | LocalModes::ISIG)
            && !settings.output_modes.contains(OutputModes::OPOST)
    })
}

/// Gives a terminal the settings that a person expects, whatever a program left there.
///
/// # Errors
///
/// If it is no terminal.
pub fn make_usable(terminal: impl AsFd) -> io::Result<()> {
    let mut settings = tcgetattr(&terminal)?;
    settings.input_modes.insert(InputModes::ICRNL | InputModes::IXON);
    settings.input_modes.remove(InputModes::INLCR | InputModes::IGNCR);
    settings.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
    settings.local_modes.insert(
        LocalModes::ICANON
            | LocalModes::ISIG
            | LocalModes::IEXTEN
            | LocalModes::ECHO
            | LocalModes::ECHOE
            | LocalModes::ECHOK,
    );
    Ok(tcsetattr(&terminal, OptionalActions::Now, &settings)?)
}

/// Begins a session of this process's own whose terminal this is: its keys become signals, and so does its end.
///
/// # Errors
///
/// If it is no terminal, or that of another session; or this process leads a group.
pub fn take(terminal: impl AsFd) -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(rustix::process::ioctl_tiocsctty(terminal)?)
}
