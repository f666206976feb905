//! Starting the command of a job.
//!
//! The command gets a session of its own, the three descriptors it is given, every signal at its default (a keeper that
//! was started under `nohup` has some ignored, and the standard library would pass that on), and nothing else.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::identity::{Handle, ProcessId};
use crate::signal;
use crate::vfork::{SignalsBlocked, errno, pointers, vfork};

/// What is to be started.
#[derive(Debug)]
pub struct Command<'a> {
    /// The places where the program may be, tried in this order as `execvp` does.
    pub candidates: &'a [CString],
    /// The arguments, the program's name first.
    pub argv: &'a [CString],
    /// The environment, `NAME=value` each.
    pub environment: &'a [CString],
    /// The directory that the command starts in.
    pub directory: &'a CString,
    /// Standard input, output and error.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Standard input is a terminal, which becomes the one that controls the command's session.
    pub has_terminal: bool,
    /// The file mode creation mask.
    pub umask: u32,
    /// The user's limits, which the keeper lifted for itself.
    pub limits: &'a Limits,
    /// The directory of the control group of version 2 that it begins in.
    pub group: Option<BorrowedFd<'a>>,
    /// Files of control groups that it joins before it executes its program.
    pub cgroup_procs: &'a [BorrowedFd<'a>],
    /// At most so many open files, in place of the user's limit.
    pub open_files: Option<u64>,
    /// Its nice value, in place of the caller's.
    pub nice: Option<i32>,
}

/// The number of a limit; C libraries differ in its type.
#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = c_int;

/// Limits of this program that would end it or keep it from its work, as they were.
#[derive(Debug, Clone, Copy)]
pub struct Limits([(Resource, libc::rlimit); 3]);

impl Limits {
    /// Lifts them as far as this user may: a job's limits are the command's, not its keeper's.
    pub fn lift() -> Self {
        Self([libc::RLIMIT_CPU, libc::RLIMIT_FSIZE, libc::RLIMIT_NOFILE].map(|resource| {
            // SAFETY: the structure is valid for reading and writing; a refused change leaves the limit as it is.
            unsafe {
                let mut old = std::mem::zeroed::<libc::rlimit>();
                libc::getrlimit(resource, &mut old);
                let most = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
                let hard = libc::rlimit { rlim_cur: old.rlim_max, ..old };
                let lifted = resource != libc::RLIMIT_NOFILE && libc::setrlimit(resource, &most) == 0;
                if !lifted {
                    libc::setrlimit(resource, &hard);
                }
                (resource, old)
            }
        }))
    }

    /// Returns the limits as numbers, for the program that is executed in place of this one.
    pub fn values(&self) -> [u64; 6] {
        let [cpu, size, files] = self.0.map(|(_, limit)| [limit.rlim_cur, limit.rlim_max]);
        [cpu[0], cpu[1], size[0], size[1], files[0], files[1]]
    }

    /// Makes them from these numbers.
    pub fn of(values: [u64; 6]) -> Self {
        let limit = |at: usize| libc::rlimit { rlim_cur: values[at], rlim_max: values[at + 1] };
        Self([(libc::RLIMIT_CPU, limit(0)), (libc::RLIMIT_FSIZE, limit(2)), (libc::RLIMIT_NOFILE, limit(4))])
    }

    /// Gives this program its limits back.
    pub fn restore(&self) {
        for (resource, old) in &self.0 {
            // SAFETY: the structure is valid for reading; a refused change leaves the limit as it is.
            unsafe { libc::setrlimit(*resource, old) };
        }
    }
}

/// Returns how many files this program may have open.
pub fn most_open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// The step at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// No process could be made.
    Fork,
    /// Its control groups.
    Group,
    /// Its own session.
    Session,
    /// Standard input, output and error.
    Stdio,
    /// Its nice value.
    Priority,
    /// The working directory.
    Directory,
    /// Executing the program.
    Exec,
}

/// Why a command could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The step that failed.
    pub step: Step,
    /// The kernel's reason.
    pub errno: i32,
    /// For [`Step::Exec`]: which of the candidates the reason is about.
    pub candidate: usize,
}

/// A command that was started.
#[derive(Debug)]
pub struct Child {
    /// Its identity.
    pub id: ProcessId,
    /// Held so that a signal reaches this process and no other.
    pub handle: Handle,
}

/// The most control groups that a command joins by writing to them.
pub const MAX_CGROUP_PROCS: usize = 4;

struct Plan {
    candidates: *const *const c_char,
    candidate_count: usize,
    argv: *const *const c_char,
    environment: *const *const c_char,
    directory: *const c_char,
    stdio: [RawFd; 3],
    has_terminal: bool,
    umask: libc::mode_t,
    limits: *const Limits,
    cgroup_procs: [RawFd; MAX_CGROUP_PROCS],
    open_files: Option<u64>,
    nice: Option<i32>,
    failure: Option<Failure>,
}

/// Starts a command; returns when its program has been executed. This program must have called [`signal::default_actions`]: the
/// command inherits them.
///
/// # Errors
///
/// The step at which it failed; then nothing runs and nothing is left to reap.
pub fn start(command: &Command<'_>) -> Result<Child, Failure> {
    let fork_failure = |error: &io::Error| Failure {
        step: Step::Fork,
        errno: error.raw_os_error().unwrap_or(libc::EAGAIN),
        candidate: 0,
    };
    let candidates = pointers(command.candidates);
    let argv = pointers(command.argv);
    let environment = pointers(command.environment);
    let mut cgroup_procs = [-1; MAX_CGROUP_PROCS];
    for (procs, fd) in cgroup_procs.iter_mut().zip(command.cgroup_procs) {
        *procs = fd.as_raw_fd();
    }
    let mut plan = Plan {
        candidates: candidates.as_ptr(),
        candidate_count: command.candidates.len(),
        argv: argv.as_ptr(),
        environment: environment.as_ptr(),
        directory: command.directory.as_ptr(),
        stdio: command.stdio.map(|fd| fd.as_raw_fd()),
        has_terminal: command.has_terminal,
        umask: command.umask,
        limits: command.limits,
        cgroup_procs,
        open_files: command.open_files,
        nice: command.nice,
        failure: None,
    };
    let blocked = SignalsBlocked::new();
    // SAFETY: `become_command` only makes system calls and ends in `execve` or `_exit`; signals are blocked.
    let made = unsafe { vfork(command.group, become_command, &mut plan, libc::SIGCHLD, true) };
    drop(blocked);
    let made = made.map_err(|error| match command.group {
        // The kernel does not say which of the two it could not do; without the group it may still make a process.
        Some(_) => Failure { step: Step::Group, ..fork_failure(&error) },
        None => fork_failure(&error),
    })?;
    if let Some(failure) = plan.failure {
        reap(made.pid);
        return Err(failure);
    }
    // The child cannot be reaped before we do it, so its pid still means it and `/proc` still knows it.
    let id = ProcessId::of(made.pid).unwrap_or(ProcessId { pid: made.pid, start_time: 0 });
    let handle = match made.pidfd {
        Some(fd) => Handle::from_fd(fd),
        None => return Err(Failure { step: Step::Fork, errno: libc::ENOSYS, candidate: 0 }),
    };
    Ok(Child { id, handle })
}

extern "C" fn become_command(plan: *mut c_void) -> c_int {
    let plan = plan.cast::<Plan>();
    // SAFETY: `plan` and what it points to outlive this, because the caller is stopped until this process executes or
    // ends. Only system calls are made. Descriptors, directory, umask and signal table are this process's own copies.
    unsafe {
        for &procs in (*plan).cgroup_procs.iter().filter(|procs| **procs >= 0) {
            // 0 means the process that writes it.
            if libc::write(procs, c"0".as_ptr().cast(), 1) < 0 {
                fail(plan, Step::Group, 0)
            }
        }
        if libc::setsid() < 0 {
            fail(plan, Step::Session, 0)
        }
        // The sources are close-on-exec descriptors above 2 (the keeper's own 0, 1 and 2 are /dev/null), so no
        // `dup2` overwrites one that is still needed.
        for target in 0..3 {
            if libc::dup2((*plan).stdio[target as usize], target) < 0 {
                fail(plan, Step::Stdio, 0)
            }
        }
        if (*plan).has_terminal && libc::ioctl(0, libc::TIOCSCTTY as _, 0) < 0 {
            fail(plan, Step::Stdio, 0)
        }
        signal::default_action(libc::SIGPIPE);
        signal::unblock_every();
        libc::umask((*plan).umask);
        for (resource, limit) in &(*(*plan).limits).0 {
            libc::setrlimit(*resource, limit);
        }
        if let Some(count) = (*plan).open_files {
            let mut limit = std::mem::zeroed::<libc::rlimit>();
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            limit.rlim_max = limit.rlim_max.min(count);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
        if let Some(nice) = (*plan).nice
            && libc::setpriority(libc::PRIO_PROCESS, 0, nice) < 0
        {
            fail(plan, Step::Priority, 0)
        }
        if libc::chdir((*plan).directory) < 0 {
            fail(plan, Step::Directory, 0)
        }
        execute(plan)
    }
}

/// # Safety
///
/// Only for [`become_command`].
unsafe fn execute(plan: *mut Plan) -> ! {
    // As `execvp` does: a candidate that is not there is passed over, one that may not be executed is remembered.
    let mut remembered = (libc::ENOENT, 0);
    // SAFETY: see `become_command`; the candidates are `candidate_count` pointers to strings.
    unsafe {
        for index in 0..(*plan).candidate_count {
            libc::execve(*(*plan).candidates.add(index), (*plan).argv, (*plan).environment);
            match errno() {
                libc::ENOENT | libc::ENOTDIR if (*plan).candidate_count > 1 => {}
                libc::EACCES if (*plan).candidate_count > 1 => remembered = (libc::EACCES, index),
                other => {
                    remembered = (other, index);
                    break;
                }
            }
        }
        (*plan).failure = Some(Failure { step: Step::Exec, errno: remembered.0, candidate: remembered.1 });
        libc::_exit(127)
    }
}

/// # Safety
///
/// Only for [`become_command`].
unsafe fn fail(plan: *mut Plan, step: Step, candidate: usize) -> ! {
    // SAFETY: see `become_command`.
    unsafe {
        (*plan).failure = Some(Failure { step, errno: errno(), candidate });
        libc::_exit(127)
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStatus {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signaled {
        /// Its number.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
}

impl WaitStatus {
    /// Reads the status that `wait` returns.
    pub(crate) fn from_raw(status: i32) -> Self {
        if libc::WIFEXITED(status) {
            Self::Exited(libc::WEXITSTATUS(status))
        } else {
            Self::Signaled { signal: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
        }
    }
}

/// What a process and its reaped children used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_ms: u64,
    /// Processor time in the kernel.
    pub system_ms: u64,
    /// The largest resident set of any one of them.
    pub max_rss_bytes: u64,
}

/// A child that was reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Its pid, which from now on may mean another process.
    pub pid: i32,
    /// How it ended.
    pub status: WaitStatus,
    /// What it used.
    pub usage: Usage,
}

/// Whether any child is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reap {
    /// One that has ended.
    Ended(Reaped),
    /// There are children, and none of them has ended.
    Running,
    /// There are no children.
    None,
}

/// Finds a child that has ended, adopted ones too, without waiting; it is then to be reaped by [`reap`]. In between this program
/// may die, and the process that adopts the child finds it again.
pub fn find_ended() -> Reap {
    loop {
        // SAFETY: both out-parameters are valid for writing, and all zeros is a valid one of each. The call of the kernel takes one
        // more argument than the C library's function.
        let (found, info, usage) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let mut usage: libc::rusage = std::mem::zeroed();
            let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            let found =
                libc::syscall(libc::SYS_waitid, libc::P_ALL, 0, &raw mut info, options, &raw mut usage);
            (found, info, usage)
        };
        if found < 0 {
            if errno() == libc::EINTR {
                continue;
            }
            return Reap::None;
        }
        // SAFETY: the kernel has filled in the fields of a child's end, or left zeros.
        let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
        if pid == 0 {
            return Reap::Running;
        }
        let status = match info.si_code {
            libc::CLD_EXITED => WaitStatus::Exited(status),
            code => WaitStatus::Signaled { signal: status, core: code == libc::CLD_DUMPED },
        };
        return Reap::Ended(Reaped { pid, status, usage: convert(&usage) });
    }
}

/// Reaps a child that [`find_ended`] has found.
pub fn reap(pid: i32) {
    crate::vfork::reap(pid);
}

/// Returns what all children used that were reaped, with what theirs had.
pub fn children_usage() -> Usage {
    // SAFETY: the structure is valid for writing, and all zeros is a valid one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    convert(&usage)
}

/// Tells whether there are children, running or ended and not reaped.
pub fn has_children() -> bool {
    // SAFETY: the structure is valid for writing, and all zeros is a valid one; nothing is reaped.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) == 0
    }
}

fn convert(usage: &libc::rusage) -> Usage {
    let millis = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1000 + u64::try_from(time.tv_usec).unwrap_or(0) / 1000
    };
    // Linux counts kilobytes, macOS bytes.
    let unit = if cfg!(target_os = "linux") { 1024 } else { 1 };
    Usage {
        user_ms: millis(usage.ru_utime),
        system_ms: millis(usage.ru_stime),
        max_rss_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * unit,
    }
}

/// Becomes the program that `file` is, with no signal blocked. Returns only if that is not possible. As for [`start`], this program
/// must have called [`signal::default_actions`].
pub fn become_program(file: impl AsFd, arguments: &[CString], environment: &[CString]) -> io::Error {
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    signal::default_action(libc::SIGPIPE);
    signal::unblock_every();
    // SAFETY: both lists end with null and point to strings that outlive the call, which does not return if it succeeds.
    unsafe { libc::fexecve(file.as_fd().as_raw_fd(), arguments.as_ptr(), environment.as_ptr()) };
    io::Error::last_os_error()
}

/// Makes this program the parent of all its descendants whose own parent ends; `false` where the system has no such thing.
pub fn adopt_orphans() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Sets the file mode creation mask and returns the old one.
pub fn set_umask(mask: u32) -> u32 {
    // SAFETY: `umask` cannot fail.
    unsafe { libc::umask(mask) }
}

/// Leaves the directory that this program was started in.
pub fn leave_directory() {
    let left = rustix::process::chdir("/");
    debug_assert!(left.is_ok());
}
