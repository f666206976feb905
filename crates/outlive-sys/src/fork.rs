//! A second process that goes on in this program where it was made, without executing the program anew.
//!
//! Only for a program with one thread: another one may hold a lock, of the heap or of a stream, that nothing frees in the copy.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::vfork::errno;

/// Which of the two this is.
#[derive(Debug)]
pub enum Forked {
    /// The one that went on; the other is its child.
    Parent(Child),
    /// The new one.
    Child,
}

/// A child that has not been waited for.
#[derive(Debug)]
pub struct Child(i32);

impl Child {
    /// Takes over a child of this program that nothing else waits for.
    pub fn of(pid: i32) -> Self {
        Self(pid)
    }

    /// Returns its number, which is no other process's until it was waited for.
    pub fn pid(&self) -> i32 {
        self.0
    }

    /// Waits until it has ended; returns its exit code, or 128 and the number of the signal that ended it.
    ///
    /// # Errors
    ///
    /// If it is not our child.
    pub fn wait(self) -> io::Result<i32> {
        let mut status = 0;
        loop {
            // SAFETY: waits for a child of ours; the status is valid for writing.
            match unsafe { libc::waitpid(self.0, &raw mut status, 0) } {
                -1 if errno() == libc::EINTR => {}
                -1 => return Err(io::Error::last_os_error()),
                _ if libc::WIFSIGNALED(status) => return Ok(128 + libc::WTERMSIG(status)),
                _ => return Ok(libc::WEXITSTATUS(status)),
            }
        }
    }
}

/// What the new process has that this one has not.
#[derive(Debug)]
pub struct Setting<'a> {
    /// Standard input, output and error; none of them is one of this process's own three.
    pub stdio: [OwnedFd; 3],
    /// Its directory.
    pub directory: &'a Path,
    /// Variables of its environment that differ; none: it is not set.
    pub variables: Vec<(OsString, Option<OsString>)>,
}

/// Makes a process that goes on from here, in its own setting; one that cannot enter it ends with 127. What this process has open is open there, too: the caller drops it.
///
/// # Errors
///
/// If this program has several threads, or no more processes may be made.
pub fn fork(setting: Setting<'_>) -> io::Result<Forked> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: there is no other thread, so all that the copy finds is as this thread left it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            if enter(&setting).is_err() {
                // SAFETY: ends this process, without anything that its parent has registered for its own end.
                unsafe { libc::_exit(127) };
            }
            Ok(Forked::Child)
        }
        pid => Ok(Forked::Parent(Child(pid))),
    }
}

fn enter(setting: &Setting<'_>) -> io::Result<()> {
    for (fd, of) in setting.stdio.iter().zip(0..) {
        // SAFETY: replaces a descriptor of this process alone by a copy of an open one.
        if unsafe { libc::dup2(fd.as_raw_fd(), of) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    std::env::set_current_dir(setting.directory)?;
    for (name, value) in &setting.variables {
        set(name, value.as_deref());
    }
    Ok(())
}

fn set(name: &OsStr, value: Option<&OsStr>) {
    // SAFETY: this process has one thread, so no other one reads its environment.
    unsafe {
        match value {
            Some(value) => std::env::set_var(name, value),
            None => std::env::remove_var(name),
        }
    }
}
