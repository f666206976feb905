//! Starting a program that is detached from its caller.
//!
//! The program is no descendant of the caller (its parent ends at once) and leads its own session: of all forms, only
//! this one survives every agent client that was tried. It inherits nothing but the descriptors that it is handed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::region::Region;
use crate::vfork::{SignalsBlocked, errno, pointers, reap, vfork};

/// The first descriptor that is handed over; 0, 1 and 2 are `/dev/null`.
pub const FIRST_FD: RawFd = 3;

/// The most descriptors that can be handed over.
pub const MAX_FDS: usize = 8;

/// Sources lie from here on, so that no `dup2` hits a source that is still needed.
const SOURCES_FROM: RawFd = FIRST_FD + MAX_FDS as RawFd;

struct Plan {
    program: *const c_char,
    argv: *const *const c_char,
    environment: *const *const c_char,
    null: RawFd,
    sources: [RawFd; MAX_FDS],
    count: usize,
    inner_stack: *mut c_void,
    pid: c_int,
    error: c_int,
}

/// Starts `program` with `arguments` (its own name first), just this `environment`, and `fds` as descriptors 3, 4, 5…
///
/// Returns its pid when the program has been executed; it may have ended by then. All signals are blocked in it; the caller's directory, umask and limits
/// are inherited.
///
/// # Errors
///
/// If the program cannot be executed, or no process can be made.
///
/// # Panics
///
/// If more than [`MAX_FDS`] descriptors are given.
pub fn start(
    program: &CStr,
    arguments: &[CString],
    environment: &[CString],
    fds: &[BorrowedFd<'_>],
) -> io::Result<i32> {
    assert!(fds.len() <= MAX_FDS, "at most {MAX_FDS} descriptors can be handed over");
    let argv = pointers(arguments);
    #[cfg(feature = "fault")]
    let variables = crate::fault::keeper_environment();
    #[cfg(not(feature = "fault"))]
    let variables: [CString; 0] = [];
    let environment = pointers(environment.iter().chain(&variables));
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let null = duplicate(null.as_raw_fd(), SOURCES_FROM)?;
    let moved =
        fds.iter().map(|fd| duplicate(fd.as_raw_fd(), SOURCES_FROM)).collect::<io::Result<Vec<_>>>()?;
    let sources = sources_of(&moved);
    let mut stack = Region::new(INNER_STACK)?;
    // SAFETY: one past the end of our own mapping; only used as the top of a stack that grows down.
    let inner_stack = unsafe { stack.as_mut_ptr().add(INNER_STACK) };
    let mut plan = Plan {
        program: program.as_ptr(),
        argv: argv.as_ptr(),
        environment: environment.as_ptr(),
        null: null.as_raw_fd(),
        sources,
        count: fds.len(),
        inner_stack: inner_stack.cast(),
        pid: 0,
        error: 0,
    };
    let blocked = SignalsBlocked::new();
    // No signal is sent to the caller when the go-between ends: a library must not disturb its host's SIGCHLD.
    // SAFETY: `go_between` only makes system calls and ends in `_exit`; signals are blocked.
    let made = unsafe { vfork(None, go_between, &mut plan, 0, false) };
    drop(blocked);
    let made = made?;
    reap(made.pid);
    match plan.error {
        0 => Ok(plan.pid),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Returns the numbers of descriptors.
fn sources_of(fds: &[OwnedFd]) -> [RawFd; MAX_FDS] {
    let mut sources = [-1; MAX_FDS];
    for (source, fd) in sources.iter_mut().zip(fds) {
        *source = fd.as_raw_fd();
    }
    sources
}

/// Becomes the first of these programs that can be executed, as [`start`] would start it, but that it keeps this process's pid, parent
/// and session. Returns only if none can be; then this process has no descriptors any more.
///
/// # Panics
///
/// If more than [`MAX_FDS`] descriptors are given.
pub fn become_one_of(programs: &[CString], arguments: &[CString], fds: &[BorrowedFd<'_>]) -> io::Error {
    assert!(fds.len() <= MAX_FDS, "at most {MAX_FDS} descriptors can be handed over");
    let argv = pointers(arguments);
    #[cfg(feature = "fault")]
    let variables = crate::fault::keeper_environment();
    #[cfg(not(feature = "fault"))]
    let variables: [CString; 0] = [];
    let environment = pointers(&variables);
    let opened = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let moved = opened.and_then(|null| {
        let null = duplicate(null.as_raw_fd(), SOURCES_FROM)?;
        let fds = fds.iter().map(|fd| duplicate(fd.as_raw_fd(), SOURCES_FROM));
        Ok((null, fds.collect::<io::Result<Vec<_>>>()?))
    });
    let (null, moved) = match moved {
        Ok(moved) => moved,
        Err(error) => return error,
    };
    let sources = sources_of(&moved);
    // No signal ends this process any more: those that have come stay pending for the program.
    std::mem::forget(SignalsBlocked::new());
    // SAFETY: the descriptors that are closed are this process's own, which has no use for them any more. The lists end with null and
    // point to strings that outlive the calls, which do not return if they succeed.
    unsafe {
        if !hand_over(null.as_raw_fd(), &sources[..moved.len()]) {
            return io::Error::last_os_error();
        }
        for program in programs {
            libc::execve(program.as_ptr(), argv.as_ptr(), environment.as_ptr());
        }
    }
    // Their numbers mean nothing any more.
    std::mem::forget((null, moved));
    io::Error::last_os_error()
}

const INNER_STACK: usize = 32 * 1024;

/// The go-between: makes the real process and ends, which leaves that process without a parent.
extern "C" fn go_between(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan>();
    // SAFETY: `plan` is the caller's, which waits. The stack is given for this one use. The inner child shares memory
    // and stops this process until it has executed or ended. Only system calls are made.
    unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        (*plan).pid = libc::clone(become_program, (*plan).inner_stack, flags, plan.cast());
        if (*plan).pid < 0 {
            (*plan).error = errno();
        }
        libc::_exit(0)
    }
}

extern "C" fn become_program(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan>();
    // SAFETY: `plan` and what it points to outlive this, because the caller waits. Only system calls are made, and the
    // descriptor table is this process's own copy.
    unsafe {
        libc::setsid();
        let sources = &(&(*plan).sources)[..(*plan).count];
        if !hand_over((*plan).null, sources) {
            return fail(plan);
        }
        libc::execve((*plan).program, (*plan).argv, (*plan).environment);
        fail(plan)
    }
}

/// Puts descriptors where the program expects them, and closes all others; `false` if the kernel refuses. Only system calls are made.
///
/// # Safety
///
/// Nothing may use the descriptors that are closed, unless a program is executed next.
unsafe fn hand_over(null: RawFd, sources: &[RawFd]) -> bool {
    let mut next = FIRST_FD;
    // SAFETY: plain calls with numbers; see above for what they close.
    unsafe {
        for target in 0..FIRST_FD {
            if libc::dup2(null, target) < 0 {
                return false;
            }
        }
        for source in sources {
            if libc::dup2(*source, next) < 0 {
                return false;
            }
            next += 1;
        }
    }
    close_from(next);
    true
}

/// # Safety
///
/// Only for [`become_program`], with the plan that it was given.
unsafe fn fail(plan: *mut Plan) -> c_int {
    // SAFETY: see `become_program`.
    unsafe {
        (*plan).error = errno();
        libc::_exit(127)
    }
}

/// Closes all descriptors from `first` on.
fn close_from(first: RawFd) {
    // SAFETY: closing descriptors of this process, which owns nothing but what lies below `first`.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        let mut limit = std::mem::zeroed::<libc::rlimit>();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let limit = c_int::try_from(limit.rlim_cur).unwrap_or(65_536).min(1 << 20);
        for fd in first..limit {
            libc::close(fd);
        }
    }
}

/// Duplicates whatever is open with this number, close-on-exec, with a number of at least `least`.
///
/// # Errors
///
/// If nothing is open with this number, or there are no numbers left.
pub fn duplicate(fd: RawFd, least: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: duplicates a descriptor or fails; the result is new and ours.
    unsafe {
        let copy = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least);
        if copy < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Takes over the `N` descriptors that [`start`] handed to this program; `None` if they are not all open, or were
/// taken before.
///
/// They are made close-on-exec, so that they go no further. To be called first thing: until then nothing else may have
/// been opened, so that the numbers can only be the starter's.
pub fn inherited<const N: usize>() -> Option<[OwnedFd; N]> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::SeqCst) {
        return None;
    }
    let fds: [RawFd; N] = std::array::from_fn(|index| FIRST_FD + index as RawFd);
    // SAFETY: only asks whether each number is an open descriptor, and sets a flag on it.
    let open = fds.iter().all(|&fd| unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0);
    // SAFETY: the descriptors are open and were handed to this program; the flag above makes sure they are taken once.
    open.then(|| fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}
