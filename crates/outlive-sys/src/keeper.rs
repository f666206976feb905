//! How a keeper is recognised from outside: by its program's name, and by the lock that it holds at a fixed descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::io::{DupFlags, dup3, fcntl_dupfd_cloexec};

use crate::{detach, tree};

/// The name that a keeper goes by in a process list: its first argument.
pub const PROGRAM: &str = "outlive-keeper";

/// The names by which the kernel knows a keeper and its guard, which have the same arguments. Keepers of earlier versions that end
/// their job spare what has one of these names, and no other.
pub const KEEPER_NAME: &std::ffi::CStr = c"outlive-keeper";
/// See [`KEEPER_NAME`].
pub const GUARD_NAME: &std::ffi::CStr = c"outlive";

/// The second argument of a keeper that may wait for long for its job.
pub const SPARE: &str = "spare";

/// The second argument of a keeper that an engine's script has become: its guard, which is the script's process, ends with the exit
/// status of the job.
pub const FOREGROUND: &str = "foreground";

/// The second argument of a program that is only to say which page it understands.
pub const PAGE: &str = "page";

/// The second arguments of a program that a keeper, or a guard, executes in its own place; the third is the page's descriptor.
pub const RESUME: &str = "resume";
/// See [`RESUME`].
pub const RESUME_GUARD: &str = "resume-guard";

/// The descriptor at which every keeper holds its job's lock: the one after the socket to its starter. Keepers of earlier
/// versions have it there too.
pub const LOCK_FD: RawFd = detach::FIRST_FD + 1;

/// The name of a job's lock file.
pub const LOCK_NAME: &str = "lock";

/// Holds the number [`LOCK_FD`] until the lock arrives, so that no other file gets it.
#[derive(Debug)]
pub struct LockPlace(OwnedFd);

impl LockPlace {
    /// Takes the number with a copy of `any` open descriptor. To be called before the program opens a file.
    ///
    /// # Errors
    ///
    /// If the number is in use.
    pub fn reserve(any: impl AsFd) -> io::Result<Self> {
        let place = fcntl_dupfd_cloexec(any, LOCK_FD)?;
        if place.as_raw_fd() == LOCK_FD { Ok(Self(place)) } else { Err(io::ErrorKind::AddrInUse.into()) }
    }

    /// Moves the lock to the number.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, which it does for no reason that is known.
    pub fn fill(mut self, lock: OwnedFd) -> io::Result<OwnedFd> {
        dup3(lock, &mut self.0, DupFlags::CLOEXEC)?;
        Ok(self.0)
    }
}

/// Tells whether a process holds the lock of the job in this directory where a keeper does.
pub fn holds_lock_in(pid: i32, dir: impl AsFd) -> bool {
    let held = rustix::fs::stat(format!("/proc/{pid}/fd/{LOCK_FD}"));
    let lock = rustix::fs::statat(dir, LOCK_NAME, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    matches!((held, lock), (Ok(held), Ok(lock)) if (held.st_dev, held.st_ino) == (lock.st_dev, lock.st_ino))
}

/// Tells whether a process is the keeper of a job.
pub fn is_keeper(pid: i32) -> bool {
    let has_name = tree::arguments(pid).first().is_some_and(|program| program == PROGRAM.as_bytes());
    has_name
        && tree::descriptor(pid, LOCK_FD)
            .is_some_and(|path| path.file_name().is_some_and(|name| name == LOCK_NAME))
}
