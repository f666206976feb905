//! What a front end needs to know about its own terminal.

use std::os::fd::AsFd;

/// Writes once; a signal that comes while it waits for the reader is an error of kind `Interrupted`.
///
/// # Errors
///
/// If the reader is gone, or a signal came.
pub fn write_once(fd: impl AsFd, bytes: &[u8]) -> std::io::Result<usize> {
    Ok(rustix::io::write(fd, bytes)?)
}

/// Returns the terminal's width in columns, if `fd` is one that knows it.
pub fn columns(fd: impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
