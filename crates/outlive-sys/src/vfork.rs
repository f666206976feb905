//! The one way in which outlive makes a process: share memory, stop the caller until the child executes or ends.
//!
//! Like `vfork`, but the child has a stack and a signal table of its own, so that it can call functions and set
//! dispositions. No page table is copied, which makes it fast, and a failure is told through shared memory.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::region::Region;

/// Enough for the few system calls that a child makes, with a wide margin.
const STACK: usize = 64 * 1024;

/// A child that was made.
pub(crate) struct Made {
    pub(crate) pid: i32,
    pub(crate) pidfd: Option<OwnedFd>,
}

/// Makes a child that runs `child` on a stack of its own, and waits until it has executed a program or ended.
///
/// # Safety
///
/// `child` must only make async-signal-safe calls (no allocation, no locks), must not panic and must end in `execve` or
/// `_exit`. What it writes through `argument` is seen by the caller when this returns. All signals must be blocked in
/// the calling thread, because a handler that ran in the child would run in the caller's memory.
pub(crate) unsafe fn vfork<T>(
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: &mut T,
    exit_signal: c_int,
    want_pidfd: bool,
) -> io::Result<Made> {
    let mut stack = Region::new(STACK)?;
    let mut pidfd: c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | exit_signal;
    let flags = if want_pidfd { flags | libc::CLONE_PIDFD } else { flags };
    // SAFETY: the stack is ours, page-aligned at its top and outlives the child's use of it, because CLONE_VFORK stops
    // this thread until the child has left this memory. `argument` and `pidfd` outlive it for the same reason.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(STACK);
        let argument: *mut T = argument;
        libc::clone(child, top.cast(), flags, argument.cast::<c_void>(), &raw mut pidfd)
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel put a new descriptor there, ours alone, when it was asked to.
    let pidfd = (want_pidfd && pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    Ok(Made { pid, pidfd })
}

/// All signals blocked in this thread, and the old mask again on drop.
pub(crate) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(crate) fn new() -> Self {
        // SAFETY: `sigfillset` initialises the new mask, `pthread_sigmask` the old one.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut old = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
            Self(old)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the mask was initialised by the kernel in `new`.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}

/// The calling thread's errno.
pub(crate) fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
