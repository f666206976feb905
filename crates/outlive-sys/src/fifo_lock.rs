//! Locks whose release can be polled for.
//!
//! A `flock` can be waited for only by a call that does nothing else. So the locked file is a FIFO, and its holder has it open for
//! writing: a process that has it open for reading sees it hung up (`POLLHUP`) when the last holder is gone, however it died. The
//! kernel frees the lock before it closes the FIFO, so a process that is woken finds the lock free.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};

use crate::lock;

/// Makes a lock that no process holds; success if it is there already.
///
/// # Errors
///
/// If the file system is full, read-only or has no FIFOs.
pub fn make(dir: impl AsFd, name: &str) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match rustix::fs::mkfifoat(dir, name, Mode::RUSR | Mode::WUSR) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (dir, name);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Takes the lock without waiting; `None` if another process holds it. It is held until all copies of the descriptor are closed.
///
/// # Errors
///
/// If it is not there, or there is no descriptor for it.
pub fn try_hold(dir: impl AsFd, name: &str) -> io::Result<Option<OwnedFd>> {
    // For reading, too: to open a FIFO for writing alone would need a reader. An attempt that fails has it open for a moment, and
    // closing it wakes watchers that saw this attempt in place of a holder.
    let fd = open(dir, name, OFlags::RDWR)?;
    Ok(lock::try_lock(&fd, lock::Kind::Exclusive)?.then_some(fd))
}

/// Returns a descriptor that hangs up when the lock is free again. A lock that was free already when this was called does not wake it,
/// so the caller tries the lock afterwards, and waits if it is held.
///
/// # Errors
///
/// If it is not there, or there is no descriptor for it.
pub fn watch(dir: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    open(dir, name, OFlags::RDONLY)
}

fn open(dir: impl AsFd, name: &str, access: OFlags) -> io::Result<OwnedFd> {
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable;
    use crate::poll::{PollFd, PollFlags, poll};
    use std::time::Duration;

    fn is_hung_up(fd: &OwnedFd, limit: Duration) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::empty())];
        poll(&mut fds, Some(limit)).unwrap();
        fds[0].revents().contains(PollFlags::HUP)
    }

    #[test]
    fn a_watcher_is_woken_when_the_last_holder_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let dir = durable::open_dir(directory.path()).unwrap();
        assert!(try_hold(&dir, "a").is_err());
        make(&dir, "a").unwrap();
        make(&dir, "a").unwrap();
        // One that watches before the lock is taken, and one after.
        let early = watch(&dir, "a").unwrap();
        let held = try_hold(&dir, "a").unwrap().unwrap();
        let late = watch(&dir, "a").unwrap();
        assert!(try_hold(&dir, "a").unwrap().is_none());
        let copy = held.try_clone().unwrap();
        drop(held);
        assert!(!is_hung_up(&early, Duration::ZERO) && !is_hung_up(&late, Duration::ZERO));
        drop(copy);
        assert!(is_hung_up(&early, Duration::from_secs(9)) && is_hung_up(&late, Duration::from_secs(9)));
        assert!(try_hold(&dir, "a").unwrap().is_some());
    }
}
