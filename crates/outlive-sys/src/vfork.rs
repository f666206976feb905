//! The one way in which outlive makes a process: share memory, stop the caller until the child executes or ends.
//!
//! Like `vfork`, but the child has a stack and a signal table of its own, so that it can call functions and set
//! dispositions. No page table is copied, which makes it fast, and a failure is told through shared memory.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use crate::region::Region;

/// Enough for the few system calls that a child makes, with a wide margin.
const STACK: usize = 64 * 1024;

/// A child that was made.
pub(crate) struct Made {
    pub(crate) pid: i32,
    pub(crate) pidfd: Option<OwnedFd>,
}

/// Makes a child that runs `child` on a stack of its own, and waits until it has executed a program or ended. With `group`, the
/// directory of a control group of version 2, it begins its life in there.
///
/// # Errors
///
/// With a group also where neither the kernel nor this build can do that: `Unsupported`.
///
/// # Safety
///
/// `child` must only make async-signal-safe calls (no allocation, no locks), must not panic and must end in `execve` or
/// `_exit`. What it writes through `argument` is seen by the caller when this returns. All signals must be blocked in
/// the calling thread, because a handler that ran in the child would run in the caller's memory.
pub(crate) unsafe fn vfork<T>(
    group: Option<BorrowedFd<'_>>,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: &mut T,
    exit_signal: c_int,
    want_pidfd: bool,
) -> io::Result<Made> {
    let mut stack = Region::new(STACK)?;
    let mut pidfd: c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK;
    let flags = if want_pidfd { flags | libc::CLONE_PIDFD } else { flags };
    // SAFETY: the stack is ours, page-aligned at its top and outlives the child's use of it, because CLONE_VFORK stops
    // this thread until the child has left this memory. `argument` and `pidfd` outlive it for the same reason.
    let pid = unsafe {
        let argument: *mut T = argument;
        match group {
            #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
            Some(_) => return Err(io::Error::from(io::ErrorKind::Unsupported)),
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            Some(group) => clone_into(
                group,
                &mut stack,
                flags,
                exit_signal,
                &raw mut pidfd,
                child,
                argument.cast::<c_void>(),
            )?,
            None => {
                let top = stack.as_mut_ptr().add(STACK);
                libc::clone(child, top.cast(), flags | exit_signal, argument.cast::<c_void>(), &raw mut pidfd)
            }
        }
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel put a new descriptor there, ours alone, when it was asked to.
    let pidfd = (want_pidfd && pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
    Ok(Made { pid, pidfd })
}

/// Makes the child with the one call that takes a control group, which the C library has no function for: the child comes
/// out of it on its new stack, and must not return into the caller's frame.
///
/// # Safety
///
/// As for [`vfork`]; `pidfd` must be valid for writing.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
unsafe fn clone_into(
    group: BorrowedFd<'_>,
    stack: &mut Region,
    flags: c_int,
    exit_signal: c_int,
    pidfd: *mut c_int,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<i32> {
    use std::os::fd::AsRawFd;
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut request: libc::clone_args = unsafe { std::mem::zeroed() };
    request.flags = flags as u64 | CLONE_INTO_CGROUP;
    request.pidfd = pidfd as u64;
    request.exit_signal = exit_signal as u64;
    request.stack = stack.as_mut_ptr() as u64;
    request.stack_size = stack.len() as u64;
    request.cgroup = group.as_raw_fd() as u64;
    // SAFETY: the caller promises what this asks for.
    unsafe { clone_by(&request, child, argument) }
}

/// Makes a child by the kernel's newest call, which comes out of it on its new stack; returns its pid.
///
/// # Errors
///
/// Where the kernel, or a filter of calls, does not have it: `ENOSYS` or `EPERM`.
///
/// # Safety
///
/// As for [`vfork`]; what the request points to must be there for as long as the kernel or the child uses it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) unsafe fn clone_by(
    request: &libc::clone_args,
    child: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<i32> {
    let result: i64;
    // SAFETY: the kernel reads `request` and no more. In the parent only the call's own registers change. The child has
    // nothing but registers and its own stack, calls `child` with the stack aligned as the ABI wants it, and never
    // comes back from there.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") request,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") child,
            in("r13") argument,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    Ok(result as i32)
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

/// Returns a list of strings as C has it, with null at its end. The strings must outlive its use.
pub(crate) fn pointers<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
    strings.into_iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Reaps a child that has ended or is about to.
pub(crate) fn reap(pid: i32) {
    // SAFETY: waits for our own child; the status is not asked for. ECHILD (another thread's wait was faster) is fine.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) } < 0 && errno() == libc::EINTR {}
}
