//! Pipes between the keeper and its command.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

/// Makes a pipe, close-on-exec at both ends; `(reading end, writing end)`.
///
/// # Errors
///
/// If there are no descriptors left.
pub fn new() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// As [`new`], with both ends non-blocking: for a pipe that no other program gets.
///
/// # Errors
///
/// As [`new`].
pub fn own() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}

/// Makes our end non-blocking. The other end, in the command, stays blocking: the flag belongs to the end.
///
/// # Errors
///
/// If the descriptor is invalid.
pub fn set_nonblocking(fd: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&fd)?;
    Ok(fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?)
}

/// Asks for a larger (or smaller) kernel buffer; `false` where the user's allowance or the kernel does not permit it.
pub fn resize(fd: impl AsFd, bytes: usize) -> bool {
    #[cfg(target_os = "linux")]
    return rustix::pipe::fcntl_setpipe_size(fd, bytes).is_ok();
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (fd, bytes);
        false
    }
}

/// What one attempt to read or write without blocking came to.
#[derive(Debug)]
pub enum Attempt {
    /// So many bytes were moved.
    Moved(usize),
    /// Nothing can be moved now.
    WouldBlock,
    /// The other side is gone: end of file when reading, a broken pipe when writing.
    Closed,
    /// Anything else.
    Failed(io::Error),
}

/// Reads once from a non-blocking descriptor.
pub fn try_read(fd: impl AsFd, buffer: &mut [u8]) -> Attempt {
    match retry_on_intr(|| rustix::io::read(&fd, &mut *buffer)) {
        Ok(0) => Attempt::Closed,
        Ok(n) => Attempt::Moved(n),
        Err(Errno::WOULDBLOCK) => Attempt::WouldBlock,
        // A terminal's master says EIO when its last user is gone.
        Err(Errno::IO | Errno::CONNRESET) => Attempt::Closed,
        Err(error) => Attempt::Failed(error.into()),
    }
}

/// Moves bytes from one pipe to another, inside the kernel: at each moment a byte is in one of them.
pub fn try_move(from: impl AsFd, to: impl AsFd, most: usize) -> Attempt {
    use rustix::pipe::{SpliceFlags, splice};
    match retry_on_intr(|| splice(&from, None, &to, None, most, SpliceFlags::NONBLOCK)) {
        Ok(0) => Attempt::Closed,
        Ok(count) => Attempt::Moved(count),
        Err(Errno::WOULDBLOCK) => Attempt::WouldBlock,
        // A terminal's master says EIO when its last user is gone.
        Err(Errno::PIPE | Errno::IO) => Attempt::Closed,
        Err(error) => Attempt::Failed(error.into()),
    }
}

/// Moves bytes from a pipe into a file, inside the kernel; returns how many.
///
/// # Errors
///
/// If the file system is full or cannot do that; what was not moved is still in the pipe.
pub fn move_to_file(from: impl AsFd, file: impl AsFd, offset: u64, most: usize) -> io::Result<usize> {
    use rustix::pipe::{SpliceFlags, splice};
    Ok(splice(from, None, file, Some(&mut offset.clone()), most, SpliceFlags::NONBLOCK)?)
}

/// Returns how many bytes there are to read: in a pipe, or of what was typed into a terminal.
pub fn held(fd: impl AsFd) -> usize {
    rustix::io::ioctl_fionread(fd).ok().and_then(|held| usize::try_from(held).ok()).unwrap_or(0)
}

/// Writes once to a non-blocking descriptor.
pub fn try_write(fd: impl AsFd, bytes: &[u8]) -> Attempt {
    match retry_on_intr(|| rustix::io::write(&fd, bytes)) {
        Ok(n) => Attempt::Moved(n),
        Err(Errno::WOULDBLOCK) => Attempt::WouldBlock,
        Err(Errno::PIPE | Errno::CONNRESET) => Attempt::Closed,
        Err(error) => Attempt::Failed(error.into()),
    }
}

/// Returns how many bytes the kernel holds for this pipe at most.
pub fn capacity(fd: impl AsFd) -> usize {
    #[cfg(target_os = "linux")]
    return rustix::pipe::fcntl_getpipe_size(fd).unwrap_or(DEFAULT_CAPACITY);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = fd;
        DEFAULT_CAPACITY
    }
}

/// What a new pipe holds.
pub const DEFAULT_CAPACITY: usize = 64 << 10;
