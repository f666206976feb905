//! Pseudo-terminals: the pair that a command and its keeper talk through.
//!
//! The keeper has the master, from which it reads what the command prints and into which it writes what is typed; the command has
//! the other side as its terminal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
use rustix::termios::{LocalModes, SpecialCodeIndex, Winsize, tcgetattr, tcsetwinsize};

/// What a terminal holds at most of what was printed and not yet read: the kernel's buffer between the two sides, and that of the
/// reading side.
pub const HELD: usize = (64 << 10) + (4 << 10);

/// Makes a terminal of this size, close-on-exec at both ends; `(master, the command's side)`. The master does not block.
///
/// # Errors
///
/// If there are no terminals or descriptors left.
pub fn open(columns: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let side = command_side(&master)?;
    resize(&master, columns, rows)?;
    crate::pipe::set_nonblocking(&master)?;
    Ok((master, side))
}

/// Opens the other side of a master: by the master itself, because its name may mean another terminal in a container.
#[cfg(target_os = "linux")]
fn command_side(master: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    Ok(rustix::pty::ioctl_tiocgptpeer(master, flags)?)
}

/// Opens the other side of a master.
#[cfg(not(target_os = "linux"))]
fn command_side(master: &OwnedFd) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let name = rustix::pty::ptsname(master, Vec::new())?;
    Ok(rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Sets the size; the kernel tells the programs in the foreground.
///
/// # Errors
///
/// If it is no terminal.
pub fn resize(terminal: impl AsFd, columns: u16, rows: u16) -> io::Result<()> {
    Ok(tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?)
}

/// Returns the character that ends the input at this moment, usually Ctrl-D.
pub fn end_of_file(terminal: impl AsFd) -> u8 {
    const CONTROL_D: u8 = 4;
    tcgetattr(terminal).map_or(CONTROL_D, |attributes| attributes.special_codes[SpecialCodeIndex::VEOF])
}

/// What a terminal does with what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputModes {
    /// The program gets whole lines, not single keys.
    pub by_line: bool,
    /// The terminal shows what is typed.
    pub echo: bool,
}

/// Returns what a terminal does at this moment with what is typed.
///
/// # Errors
///
/// If it is no terminal.
pub fn input_modes(terminal: impl AsFd) -> io::Result<InputModes> {
    let modes = tcgetattr(terminal)?.local_modes;
    Ok(InputModes { by_line: modes.contains(LocalModes::ICANON), echo: modes.contains(LocalModes::ECHO) })
}

#[cfg(test)]
mod tests {
    use rustix::termios::{OptionalActions, tcsetattr};

    use super::*;
    use crate::pipe::{Attempt, try_read, try_write};

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let (master, side) = open(80, 24).unwrap();
        assert_eq!(crate::terminal::columns(&side), Some(80));
        resize(&master, 132, 50).unwrap();
        assert_eq!(crate::terminal::columns(&side), Some(132));
        assert_eq!(end_of_file(&master), 4);
        assert_eq!(input_modes(&master).unwrap(), InputModes { by_line: true, echo: true });
        let mut modes = tcgetattr(&side).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&side, OptionalActions::Now, &modes).unwrap();
        assert_eq!(input_modes(&master).unwrap(), InputModes { by_line: true, echo: false });
        modes.local_modes.remove(LocalModes::ICANON);
        tcsetattr(&side, OptionalActions::Now, &modes).unwrap();
        assert_eq!(input_modes(&master).unwrap(), InputModes { by_line: false, echo: false });
        let (no_terminal, _) = crate::pipe::new().unwrap();
        assert!(input_modes(no_terminal).is_err());
        assert!(matches!(try_write(&side, b"hello\n"), Attempt::Moved(6)));
        let mut buffer = [0; 32];
        let Attempt::Moved(count) = try_read(&master, &mut buffer) else { panic!("nothing was read") };
        assert_eq!(&buffer[..count], b"hello\r\n");
        assert!(matches!(try_read(&master, &mut buffer), Attempt::WouldBlock));
        drop(side);
        assert!(matches!(try_read(&master, &mut buffer), Attempt::Closed));
    }
}
