//! Waiting for several descriptors at once.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::Timespec;
pub use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Waits until a descriptor is ready or `limit` is over; `None` waits without limit.
///
/// Returns how many descriptors are ready; after an interruption by a signal, none.
///
/// # Errors
///
/// If the kernel is out of memory or a descriptor is invalid.
pub fn poll(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> io::Result<usize> {
    let limit = limit.map(|limit| Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    match rustix::event::poll(fds, limit.as_ref()) {
        Ok(ready) => Ok(ready),
        Err(Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Waits until `fd` can be read or is closed; `false` if `limit` was over first.
///
/// # Errors
///
/// As [`poll`].
pub fn readable(fd: BorrowedFd<'_>, limit: Option<Duration>) -> io::Result<bool> {
    Ok(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], limit)? > 0)
}

/// Waits until nothing can read what is written to `fd`: the other end of the pipe or connection is closed, or the terminal is gone. What
/// has no reader, such as a file, is never so.
///
/// # Errors
///
/// As [`poll`].
pub fn unread(fd: BorrowedFd<'_>, limit: Option<Duration>) -> io::Result<bool> {
    // Without a wish, only an error or a hang-up is told.
    Ok(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::empty())], limit)? > 0)
}

/// Waits until one of several descriptors can be read or is closed; `false` if `limit` was over first.
///
/// # Errors
///
/// As [`poll`].
pub fn any_readable<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
    limit: Option<Duration>,
) -> io::Result<bool> {
    let fds = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    Ok(poll(&mut fds.collect::<Vec<_>>(), limit)? > 0)
}

/// Waits until one of several descriptors can be read or is closed; returns which can, and none if `limit` was over first.
///
/// # Errors
///
/// As [`poll`].
pub fn which_readable<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    poll(&mut fds, limit)?;
    Ok(fds.map(|fd| !fd.revents().is_empty()))
}
