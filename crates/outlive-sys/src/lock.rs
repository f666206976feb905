//! Advisory locks on whole files (`flock`).
//!
//! A lock belongs to the open file description, so it passes to a process that inherits the descriptor and is freed by
//! the kernel when the last holder is gone, however it died. That is what makes it the truth about a keeper's life.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any number of holders, none exclusive.
    Shared,
    /// One holder.
    Exclusive,
}

/// Takes the lock without waiting; `false` if another process holds it.
///
/// # Errors
///
/// If the file system does not support locks.
pub fn try_lock(file: impl AsFd, kind: Kind) -> io::Result<bool> {
    let operation = match kind {
        Kind::Shared => FlockOperation::NonBlockingLockShared,
        Kind::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match retry_on_intr(|| flock(&file, operation)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Interprets the result of a try-lock: whether another process holds the lock.
///
/// An attempt that failed for want of descriptors or memory counts as held: a living holder must not be taken for dead. A
/// file that is not there is not held.
pub fn is_held(tried: io::Result<bool>) -> bool {
    match tried {
        Ok(is_free) => !is_free,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Waits, without limit, until a shared lock is had.
///
/// # Errors
///
/// If the file system does not support locks.
pub fn wait_shared(file: impl AsFd) -> io::Result<()> {
    Ok(retry_on_intr(|| flock(&file, FlockOperation::LockShared))?)
}

/// Takes the lock exclusively, waiting at most `limit`; `false` if it was not to be had.
///
/// The kernel offers no lock with a deadline, so this tries again, ever less often. Only locks that are held for a moment
/// are taken in this way.
///
/// # Errors
///
/// If the file system does not support locks.
pub fn lock_within(file: &File, limit: Duration) -> io::Result<bool> {
    within(file, Kind::Exclusive, limit)
}

/// Takes the lock shared, waiting at most `limit`; `false` if it was not to be had.
///
/// # Errors
///
/// If the file system does not support locks.
pub fn share_within(file: &File, limit: Duration) -> io::Result<bool> {
    within(file, Kind::Shared, limit)
}

fn within(file: &File, kind: Kind, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_micros(100);
    while !try_lock(file, kind)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
    Ok(true)
}

/// Frees the lock, for all processes that share this open file description.
///
/// # Errors
///
/// If the descriptor is not one that can be locked.
pub fn unlock(file: impl AsFd) -> io::Result<()> {
    Ok(flock(&file, FlockOperation::Unlock)?)
}
