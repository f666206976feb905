//! Starting a program that is detached from its caller.
//!
//! The program is no descendant of the caller (its parent ends at once) and leads its own session: of all forms, only
//! this one survives every agent client that was tried. It inherits nothing but the descriptors that it is handed.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::region::Region;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::vfork::clone_by;
use crate::vfork::{SignalsBlocked, errno, pointers, reap, vfork};

/// The first descriptor that is handed over; 0, 1 and 2 are `/dev/null`.
pub const FIRST_FD: RawFd = 3;

/// The most descriptors that can be handed over.
pub const MAX_FDS: usize = 8;

/// Sources lie from here on, so that no `dup2` hits a source that is still needed.
const SOURCES_FROM: RawFd = FIRST_FD + MAX_FDS as RawFd;

#[derive(Debug)]
struct Plan {
    program: *const c_char,
    argv: *const *const c_char,
    environment: *const *const c_char,
    null: RawFd,
    sources: [RawFd; MAX_FDS],
    count: usize,
    inner_stack: *mut c_void,
    pid: AtomicI32,
    error: AtomicI32,
    /// 1 as long as the process that executes the program has this memory; the kernel clears it.
    shares: AtomicU32,
}

/// A program that is being executed. It is when this is dropped, or cannot be.
#[derive(Debug)]
pub struct Execution {
    plan: Box<Plan>,
    // What the plan points to.
    _program: CString,
    _strings: [Vec<CString>; 2],
    _lists: [Vec<*const c_char>; 2],
    _stack: Region,
}

// SAFETY: what the pointers point to belongs to this value, is on the heap or mapped, and is not changed.
unsafe impl Send for Execution {}

impl Execution {
    /// Waits until the program has been executed, and returns its pid; it may have ended by then.
    ///
    /// # Errors
    ///
    /// If it cannot be executed.
    pub fn finish(self) -> io::Result<i32> {
        self.wait();
        match self.plan.error.load(Ordering::Acquire) {
            0 => Ok(self.plan.pid.load(Ordering::Acquire)),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    #[cfg(target_os = "linux")]
    fn wait(&self) {
        use rustix::thread::futex;
        while self.plan.shares.load(Ordering::Acquire) != 0 {
            // A wait that fails is tried again: the word decides.
            futex::wait(&self.plan.shares, futex::Flags::empty(), 1, None).ok();
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn wait(&self) {}
}

impl Drop for Execution {
    fn drop(&mut self) {
        self.wait();
    }
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
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    fds: &[BorrowedFd<'_>],
) -> io::Result<i32> {
    begin(program, arguments, environment, fds)?.finish()
}

/// As [`start`], but returns while the program is being executed, where the system allows that: a kernel takes longer for it than many a
/// caller has other things to do.
///
/// # Errors
///
/// If no process can be made.
///
/// # Panics
///
/// If more than [`MAX_FDS`] descriptors are given.
pub fn begin(
    program: CString,
    arguments: Vec<CString>,
    #[cfg_attr(not(feature = "fault"), expect(unused_mut, reason = "fault points are passed on"))]
    mut environment: Vec<CString>,
    fds: &[BorrowedFd<'_>],
) -> io::Result<Execution> {
    assert!(fds.len() <= MAX_FDS, "at most {MAX_FDS} descriptors can be handed over");
    #[cfg(feature = "fault")]
    environment.extend(crate::fault::keeper_environment());
    let lists = [pointers(&arguments), pointers(&environment)];
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let null = duplicate(null.as_raw_fd(), SOURCES_FROM)?;
    let moved =
        fds.iter().map(|fd| duplicate(fd.as_raw_fd(), SOURCES_FROM)).collect::<io::Result<Vec<_>>>()?;
    let mut stack = Region::new(INNER_STACK)?;
    let mut plan = Box::new(Plan {
        program: program.as_ptr(),
        argv: lists[0].as_ptr(),
        environment: lists[1].as_ptr(),
        null: null.as_raw_fd(),
        sources: sources_of(&moved),
        count: fds.len(),
        inner_stack: stack.as_mut_ptr().cast(),
        pid: AtomicI32::new(0),
        error: AtomicI32::new(0),
        shares: AtomicU32::new(0),
    });
    let blocked = SignalsBlocked::new();
    // No signal is sent to the caller when the go-between ends: a library must not disturb its host's SIGCHLD.
    // SAFETY: `go_between` only makes system calls and ends in `_exit`; signals are blocked.
    let made = unsafe { vfork(None, go_between, &mut *plan, 0, false) };
    drop(blocked);
    // From here on `plan` and what it points to stay until the other process has left this memory.
    let execution = Execution {
        plan,
        _program: program,
        _strings: [arguments, environment],
        _lists: lists,
        _stack: stack,
    };
    reap(made?.pid);
    // A kernel takes the processor of a caller that is stopped for an idle one, and may have put the new process there. It goes to
    // another one as soon as it begins to execute the program.
    std::thread::yield_now();
    Ok(execution)
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
    // SAFETY: `plan` is the caller's, which waits, and which keeps it and the stack until the inner child has left this memory. The stack is
    // given for this one use. The descriptor table is this process's own copy. Only system calls are made.
    unsafe {
        let sources = &(&(*plan).sources)[..(*plan).count];
        if !hand_over((*plan).null, sources) {
            (*plan).error.store(errno(), Ordering::Release);
            libc::_exit(0);
        }
        let pid = begin_beside(plan).unwrap_or_else(|| {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let top = (*plan).inner_stack.byte_add(INNER_STACK);
            libc::clone(become_program, top, flags, plan.cast())
        });
        (*plan).pid.store(pid, Ordering::Release);
        if pid < 0 {
            (*plan).error.store(errno(), Ordering::Release);
        }
        libc::_exit(0)
    }
}

/// Makes the process that executes the program, and goes on beside it; `None` where the kernel does not know how, or another process's failed
/// call could meet the caller's `errno`.
///
/// # Safety
///
/// Only for [`go_between`], with the plan that it was given.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
unsafe fn begin_beside(plan: *mut Plan) -> Option<c_int> {
    // SAFETY: all zeros is a valid value of this plain structure. The plan and the stack stay until the kernel has cleared the word.
    unsafe {
        let shares = (*plan).shares.as_ptr();
        let mut request: libc::clone_args = std::mem::zeroed();
        request.flags = (libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID) as u64;
        request.exit_signal = libc::SIGCHLD as u64;
        request.child_tid = shares as u64;
        request.stack = (*plan).inner_stack as u64;
        request.stack_size = INNER_STACK as u64;
        shares.write(1);
        let made = clone_by(&request, become_program, plan.cast());
        if made.is_err() {
            shares.write(0);
        }
        made.ok()
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
unsafe fn begin_beside(_plan: *mut Plan) -> Option<c_int> {
    None
}

extern "C" fn become_program(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan>();
    // SAFETY: `plan` and what it points to outlive this, because the caller keeps them. Only system calls are made, of which the first
    // cannot fail for a process that is new.
    unsafe {
        libc::setsid();
        let errno = execute((*plan).program, (*plan).argv, (*plan).environment);
        (*plan).error.store(errno, Ordering::Release);
        libc::_exit(127)
    }
}

/// Executes a program without a look at the C library's `errno`, which the caller's thread may be using; returns the error.
///
/// # Safety
///
/// As for `execve`.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
unsafe fn execute(
    program: *const c_char,
    argv: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    let result: i64;
    // SAFETY: a system call with the arguments that it takes; it returns only if it fails.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_execve => result,
            in("rdi") program,
            in("rsi") argv,
            in("rdx") environment,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    -result as c_int
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
unsafe fn execute(
    program: *const c_char,
    argv: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: see above; the caller is stopped.
    unsafe { libc::execve(program, argv, environment) };
    errno()
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
