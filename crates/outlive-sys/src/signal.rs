//! Signals: their names, and how a single-threaded program hears of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The signals with a name, without their `SIG`.
///
/// Real-time signals have no name of their own; they are given by number.
const NAMES: &[(&str, libc::c_int)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    #[cfg(target_os = "linux")]
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    #[cfg(target_os = "linux")]
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// The highest signal number that can be sent.
pub const MAX: i32 = 64;

/// The size of the kernel's set of signals.
#[cfg(target_os = "linux")]
const MASK_BYTES: usize = size_of::<u64>();

/// A signal that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal(i32);

impl Signal {
    /// Ctrl-C.
    pub const INT: Self = Self(libc::SIGINT);
    /// Asks a process to end.
    pub const TERM: Self = Self(libc::SIGTERM);
    /// Ends a process.
    pub const KILL: Self = Self(libc::SIGKILL);
    /// Says that the window has another size.
    pub const WINCH: Self = Self(libc::SIGWINCH);
    /// Says that the terminal is gone.
    pub const HUP: Self = Self(libc::SIGHUP);
    /// Lets a stopped process go on.
    pub const CONT: Self = Self(libc::SIGCONT);
    /// Stop where it is; no process can refuse.
    pub const STOP: Self = Self(libc::SIGSTOP);

    /// Takes a number from 1 to [`MAX`].
    pub fn from_number(number: i32) -> Option<Self> {
        (1..=MAX).contains(&number).then_some(Self(number))
    }

    /// Takes a name (`TERM`, `SIGTERM`, `term`) or a number.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return Self::from_number(number);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        let name = match name {
            "IOT" => "ABRT",
            "POLL" => "IO",
            "CLD" => "CHLD",
            other => other,
        };
        let known = NAMES.iter().find(|(known, _)| *known == name).map(|&(_, number)| Self(number));
        known.or_else(|| Self::real_time(name))
    }

    /// Reads `RTMIN`, `RTMIN+3`, `RTMAX-1` and the like.
    fn real_time(name: &str) -> Option<Self> {
        #[cfg(target_os = "linux")]
        let (least, most) = (libc::SIGRTMIN(), libc::SIGRTMAX());
        #[cfg(not(target_os = "linux"))]
        let (least, most) = (1, 0);
        let offset = |text: &str| match text.strip_prefix(['+', '-']) {
            Some(digits) => digits.parse::<i32>().ok().filter(|offset| *offset >= 0),
            None => text.is_empty().then_some(0),
        };
        let number = if let Some(rest) = name.strip_prefix("RTMIN").filter(|rest| !rest.starts_with('-')) {
            least.checked_add(offset(rest)?)?
        } else {
            let rest = name.strip_prefix("RTMAX").filter(|rest| !rest.starts_with('+'))?;
            most.checked_sub(offset(rest)?)?
        };
        (least..=most).contains(&number).then_some(Self(number))
    }

    /// Returns the number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Returns `SIGTERM` and the like; a real-time signal is `signal 40`.
    pub fn name(self) -> String {
        match NAMES.iter().find(|&&(_, number)| number == self.0) {
            Some((name, _)) => format!("SIG{name}"),
            None => format!("signal {}", self.0),
        }
    }
}

/// Returns all names that [`Signal::parse`] knows, without `SIG`.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|&(name, _)| name)
}

/// Blocks all signals in this thread; what is to be heard is read from [`ChildEnds`].
pub fn block_all() {
    // For good: the old mask is never set again.
    std::mem::forget(crate::vfork::SignalsBlocked::new());
}

/// Lets all signals through again; for a program that was started with all of them blocked.
pub fn unblock_all() {
    // SAFETY: `sigemptyset` initialises the set that `pthread_sigmask` then reads; the old mask is not asked for.
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Gives every signal but SIGPIPE its default action. A program that starts others does this once, ahead of need: what its own
/// starter ignored they would inherit, and with SIGCHLD ignored the kernel would throw their ends away. SIGPIPE stays ignored here,
/// or it would be pending after a broken pipe.
pub fn default_actions() {
    (1..=MAX).filter(|&number| number != libc::SIGPIPE).for_each(default_action);
}

/// Gives a signal its default action, by the kernel's own call: the C library keeps two signals to itself, and the starter may have
/// left them ignored.
#[cfg(target_os = "linux")]
pub(crate) fn default_action(number: i32) {
    /// The kernel's action structure, which begins with the handler; all zeros is the default action.
    const DEFAULT: [u64; 4] = [0; 4];
    let old = std::ptr::null::<u64>();
    // SAFETY: the kernel reads no more than the given structure, which is as large as its own, and writes nothing. Numbers that may
    // not be set (KILL, STOP) are refused, which is what we want.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, number, DEFAULT.as_ptr(), old, MASK_BYTES) };
}

/// As [`unblock_all`], and the two signals as well that the C library keeps to itself.
#[cfg(target_os = "linux")]
pub(crate) fn unblock_every() {
    let none = 0u64;
    // SAFETY: the kernel reads no more than the given mask, and writes nothing.
    unsafe {
        let old = std::ptr::null::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const none, old, MASK_BYTES);
    }
}

/// Gives a signal its default action.
#[cfg(not(target_os = "linux"))]
pub(crate) fn default_action(number: i32) {
    // SAFETY: sets a default disposition; no handler runs.
    unsafe { libc::signal(number, libc::SIG_DFL) };
}

/// As [`unblock_all`].
#[cfg(not(target_os = "linux"))]
pub(crate) fn unblock_every() {
    unblock_all();
}

/// Lets a file that grows beyond the user's limit be an error and not the end of this program.
pub fn survive_file_limit() {
    // SAFETY: ignores a signal; no handler runs.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Ends the process group that a child of this program leads. The child must not have been waited for: until then no other
/// group can have its number.
///
/// # Errors
///
/// If there is no such group.
pub fn kill_group_of_child(pid: i32) -> io::Result<()> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)?)
}

/// Takes [`survive_file_limit`] back, for a program that is about to start others: what is ignored they would inherit.
pub fn end_at_file_limit() {
    // SAFETY: sets a default disposition; no handler runs.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
    }
}

pub(crate) fn set_of(signals: impl IntoIterator<Item = libc::c_int>) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set before anything else is done with it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Opens a descriptor from which these signals, which are blocked, are read.
fn descriptor_of(set: &libc::sigset_t) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised; a descriptor that `signalfd` returns is new and ours.
    unsafe {
        let fd = libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Says when a child has ended, or the guard: a descriptor that becomes readable.
#[derive(Debug)]
pub struct ChildEnds(OwnedFd);

impl ChildEnds {
    /// Starts to listen. All signals must be blocked (see [`block_all`]).
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        let set = set_of([libc::SIGCHLD, crate::shared::PEER_ENDED]);
        descriptor_of(&set).map(Self)
    }

    /// Empties the descriptor; the caller then reaps until nothing is left.
    pub fn clear(&self) {
        let mut buffer = [0u8; 128];
        while let crate::pipe::Attempt::Moved(_) = crate::pipe::try_read(&self.0, &mut buffer) {}
    }
}

impl AsFd for ChildEnds {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Signals that are read from a descriptor in place of what they would do.
#[derive(Debug)]
pub struct Caught(OwnedFd);

impl Caught {
    /// Catches these signals in this thread and in those that it starts.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = set_of(signals.iter().map(|signal| signal.0));
        // SAFETY: the set is initialised, and the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        descriptor_of(&set).map(Self)
    }

    /// Returns the next one that has come.
    pub fn next(&self) -> Option<Signal> {
        let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
        match crate::pipe::try_read(&self.0, &mut buffer) {
            // The number is the first field.
            crate::pipe::Attempt::Moved(_) => {
                Signal::from_number(i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]))
            }
            _ => None,
        }
    }
}

impl AsFd for Caught {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets Ctrl-C be noted in place of ending this program; it is asked for with [`interrupted`], and wakes a wait with
/// [`crate::watch::Watch`]. The second Ctrl-C ends the program as ever.
pub fn catch_interrupt() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
        let fd = WAKE.load(Ordering::SeqCst);
        // SAFETY: `write` is async-signal-safe; the pipe is never closed. If it is full, it is readable, which is all.
        unsafe {
            libc::write(fd, b".".as_ptr().cast(), 1);
        }
    }
    INTERRUPT.get_or_init(|| {
        let (reading, writing) = crate::pipe::new().ok()?;
        WAKE.store(writing.into_raw_fd(), Ordering::SeqCst);
        Some(reading)
    });
    // SAFETY: the handler only stores to atomics and writes to a pipe; the struct is fully initialised.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
    }
}

/// Tells whether Ctrl-C came since [`catch_interrupt`].
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Returns a descriptor that is readable once Ctrl-C came; none if it is not caught.
pub fn interrupt_fd() -> Option<BorrowedFd<'static>> {
    INTERRUPT.get()?.as_ref().map(AsFd::as_fd)
}

/// Ends this program as Ctrl-C does where it is not caught. A shell that sees a program end by SIGINT ends its script as well; one that
/// exits with 130 has dealt with it, and the script goes on.
pub fn end_by_interrupt() -> ! {
    // SAFETY: plain calls; the set is initialised by `sigemptyset` before it is used.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(libc::SIGINT);
    }
    // Init of a container does not die of its own signals.
    std::process::exit(128 + libc::SIGINT)
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INTERRUPT: OnceLock<Option<OwnedFd>> = OnceLock::new();
/// The writing end of the pipe behind [`interrupt_fd`].
static WAKE: AtomicI32 = AtomicI32::new(-1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_signals_have_names_too() {
        let number = |name: &str| Signal::parse(name).map(Signal::number);
        assert_eq!(number("SIGRTMIN"), Some(libc::SIGRTMIN()));
        assert_eq!(number("rtmin+3"), Some(libc::SIGRTMIN() + 3));
        assert_eq!(number("RTMAX-1"), Some(libc::SIGRTMAX() - 1));
        for name in ["RTMIN-1", "RTMAX+1", "RTMIN+99", "RTMIN€", "RTMIN+", "RT", "RTMIN+-1"] {
            assert_eq!(number(name), None, "{name}");
        }
    }

    #[test]
    fn names_and_numbers_agree() {
        for (name, number) in NAMES {
            for text in [name.to_string(), format!("SIG{name}"), name.to_lowercase(), number.to_string()] {
                assert_eq!(Signal::parse(&text), Some(Signal(*number)), "{text}");
            }
            assert_eq!(Signal(*number).name(), format!("SIG{name}"));
        }
    }

    #[test]
    fn what_is_no_signal_is_refused() {
        for text in ["", "0", "-1", "65", "SIG", "TERMINATE", "9x"] {
            assert_eq!(Signal::parse(text), None, "{text}");
        }
    }
}
