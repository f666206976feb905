//! What a process shares with one that it forks, so that either can go on when the other dies: a page of memory, and all open
//! descriptors.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::identity::ProcessId;
use crate::signal::{Signal, set_of};

/// How many numbers the page holds; half of it is for texts.
pub const WORDS: usize = 256;

/// The longest text, and how many there are.
const TEXT_BYTES: usize = 496;
const TEXTS: usize = 4;

/// The signal by which a keeper and its guard learn of each other's end; blocked, and read from a descriptor.
pub(crate) const PEER_ENDED: i32 = libc::SIGUSR2;

#[repr(C)]
struct Page {
    words: [AtomicU64; WORDS],
    texts: [Text; TEXTS],
}

#[repr(C)]
struct Text {
    /// 0: none; else the length and 1. It is set last.
    length: AtomicU64,
    bytes: [AtomicU64; TEXT_BYTES / 8],
}

/// The page: numbers and short texts. It is never unmapped.
#[derive(Clone, Copy)]
pub struct Shared(&'static Page);

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shared")
    }
}

impl Shared {
    /// Maps a page of zeros.
    ///
    /// # Errors
    ///
    /// If the kernel has no memory.
    pub fn new() -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing. It is never unmapped, it is as
        // large as the structure, and all zeros is a valid one. Other processes change it through atomics alone.
        unsafe {
            let start = mmap_anonymous(std::ptr::null_mut(), size_of::<Page>(), access, flags)?;
            Ok(Self(&*start.cast::<Page>()))
        }
    }

    /// Returns a number.
    pub fn get(&self, word: usize) -> u64 {
        self.0.words[word].load(Ordering::SeqCst)
    }

    /// Sets a number.
    pub fn set(&self, word: usize, value: u64) {
        self.0.words[word].store(value, Ordering::SeqCst);
    }

    /// Returns a text; `None` if none was set.
    pub fn text(&self, place: usize) -> Option<String> {
        let text = &self.0.texts[place];
        let length = usize::try_from(text.length.load(Ordering::SeqCst)).ok()?.checked_sub(1)?;
        let bytes: Vec<u8> = text
            .bytes
            .iter()
            .flat_map(|word| word.load(Ordering::SeqCst).to_le_bytes())
            .take(length)
            .collect();
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sets a text, cut to the room that there is. One that a death cuts short is as if it were not set.
    pub fn set_text(&self, place: usize, value: &str) {
        let text = &self.0.texts[place];
        let mut bytes = value.as_bytes().to_vec();
        bytes.truncate(TEXT_BYTES);
        text.length.store(0, Ordering::SeqCst);
        for (word, chunk) in text.bytes.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(whole), Ordering::SeqCst);
        }
        text.length.store(bytes.len() as u64 + 1, Ordering::SeqCst);
    }

    /// Notes at a number of the page which descriptor the other process has to go on with.
    pub fn lend(&self, word: usize, fd: BorrowedFd<'_>) {
        self.set(word, fd.as_raw_fd() as u64 + 1);
    }

    /// Takes that back; to be called before the descriptor is closed, because its number may then mean another file.
    pub fn withdraw(&self, word: usize) {
        self.set(word, 0);
    }

    /// Returns the number of a descriptor that was noted.
    pub fn lent(&self, word: usize) -> Option<RawFd> {
        RawFd::try_from(self.get(word).checked_sub(1)?).ok()
    }

    /// Takes over a descriptor that the process noted which has died; `None` if it had none. Only the process that goes on in its
    /// place may call this, once for each.
    pub fn inherit(&self, word: usize) -> Option<OwnedFd> {
        let fd = self.lent(word)?;
        // SAFETY: asks whether the number is an open descriptor.
        let is_open = unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
        // SAFETY: it is open. Its owner is dead, and left it in the table that both had.
        is_open.then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Which of the two processes this is, after a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forked {
    /// The one that was there before.
    Parent {
        /// The pid of the other.
        child: i32,
    },
    /// The new one.
    Child,
}

/// Forks, with one table of descriptors for both: what either opens or closes, both have open or closed, and a death closes nothing.
/// The new process is told of its parent's end by the signal that [`crate::signal::ChildEnds`] hears too.
///
/// With `is_apart` the child is none of those that a plain wait finds, and its end is the same signal.
///
/// # Errors
///
/// If no process can be made.
pub fn fork_sharing_files(is_apart: bool) -> io::Result<Forked> {
    let parent = std::process::id();
    let exit_signal = if is_apart { PEER_ENDED } else { libc::SIGCHLD };
    let flags = (libc::CLONE_FILES | exit_signal) as libc::c_ulong;
    // SAFETY: without a stack of its own the child goes on in a copy of this memory, as after `fork`. Only for programs with one
    // thread, so that no lock can be held by another.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: sets an attribute of this process. A parent that died before is seen by its number.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, PEER_ENDED) };
            if rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
                != Some(parent)
            {
                // SAFETY: sends this process the signal that it would have had.
                unsafe { libc::raise(PEER_ENDED) };
            }
            Ok(Forked::Child)
        }
        child => Ok(Forked::Parent { child: i32::try_from(child).unwrap_or(0) }),
    }
}

/// Waits until a child has ended, and reaps it.
pub fn wait_for_child(pid: i32) {
    crate::vfork::reap(pid);
}

/// Waits until the parent of this process, which has this pid, has ended. All signals must be blocked.
pub fn wait_for_end_of(parent: i32) {
    while is_parent(parent) {
        // SAFETY: the set is initialised; no information is asked for.
        unsafe { libc::sigwaitinfo(&set_of([PEER_ENDED]), std::ptr::null_mut()) };
    }
}

/// Tells whether this is the pid of the process's parent.
pub fn is_parent(pid: i32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == pid)
}

/// Returns the pid of the process's parent; 0 if that is in another pid namespace.
pub fn parent() -> i32 {
    rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get())
}

/// Tells whether a child that a plain wait does not find has ended, and reaps it then.
pub fn has_child_apart_ended(pid: i32) -> bool {
    // SAFETY: waits, without waiting, for a child of this process; the status is not asked for.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) != 0 }
}

/// Ends a process that is known by its identity, at once.
pub fn end(id: ProcessId) {
    if let Some(handle) = crate::identity::Handle::open(id) {
        handle.signal(Signal::KILL).ok();
    }
}

/// Ends a child that a plain wait does not find, and reaps it.
pub fn end_child_apart(pid: i32) {
    // SAFETY: sends a signal to a child of this process, which alone can reap it.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    crate::vfork::reap(pid);
}

/// Lets no end of a parent or of a child that was forked apart concern this process any more, nor any program that it executes.
pub fn forget_peers() {
    // SAFETY: sets attributes of this process; what is ignored is no longer pending.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        libc::signal(PEER_ENDED, libc::SIG_IGN);
    }
}

/// Starts a session for this process.
pub fn lead_session() {
    rustix::process::setsid().ok();
}

/// Sets the name by which the kernel knows this process; its arguments stay.
pub fn set_name(name: &std::ffi::CStr) {
    rustix::thread::set_name(name).ok();
}

/// Lists the descriptors that are open. The one that it was found out with is among them, and closed.
pub fn open_files() -> Vec<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Closes every descriptor but the standard ones and those that are `kept`.
pub fn close_all_but(kept: &[RawFd]) {
    for fd in open_files().into_iter().filter(|fd| *fd > 2 && !kept.contains(fd)) {
        // SAFETY: the process that owned it is dead, and this one has no use for it. The directory above is closed already,
        // which is no harm.
        unsafe { libc::close(fd) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_come_back() {
        let shared = Shared::new().unwrap();
        assert_eq!((shared.get(3), shared.text(1)), (0, None));
        shared.set(3, u64::MAX);
        shared.set_text(1, "");
        assert_eq!((shared.get(3), shared.text(1).as_deref()), (u64::MAX, Some("")));
        shared.set_text(1, "outlive kill");
        assert_eq!(shared.text(1).as_deref(), Some("outlive kill"));
        shared.set_text(1, &"x".repeat(600));
        assert_eq!(shared.text(1).map(|text| text.len()), Some(TEXT_BYTES));
    }
}
