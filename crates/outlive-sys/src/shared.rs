//! What a process shares with one that it forks, so that either can go on when the other dies: a page of memory, and all open
//! descriptors. Either can also execute another program in its own place, which then has the page and the descriptors by their numbers.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::identity::ProcessId;
use crate::region::Region;
use crate::signal::{Signal, set_of};
use crate::vfork::pointers;

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

/// Where in the file behind the page the two places for a text of any length begin. The file takes room only where it is written to.
const PLACES: [u64; 2] = [1 << 16, 1 << 30];

/// Where the room begins for what is too long to stand between the page and the first of them.
const FAR_ROOM: u64 = 1 << 27;

/// The page: numbers and short texts. It is never unmapped, and the file behind it, which has no name, is never closed.
#[derive(Clone, Copy)]
pub struct Shared {
    page: &'static Page,
    file: RawFd,
}

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
    /// If the kernel has no memory, or no descriptor.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create("outlive", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, size_of::<Page>() as u64)?;
        Self::map(file)
    }

    /// Maps the page that the program had which this one was executed in place of.
    ///
    /// # Errors
    ///
    /// If this is no such descriptor.
    pub fn inherited(file: RawFd) -> io::Result<Self> {
        let file = take(file).ok_or(io::ErrorKind::NotFound)?;
        if rustix::fs::fstat(&file)?.st_size < size_of::<Page>() as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Self::map(file)
    }

    fn map(file: OwnedFd) -> io::Result<Self> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing. It is never unmapped, the file is as large as
        // the structure and never made smaller, and any bytes are a valid one. Other processes change it through atomics alone.
        let page = unsafe {
            let start = mmap(std::ptr::null_mut(), size_of::<Page>(), access, flags, &file, 0)?;
            &*start.cast::<Page>()
        };
        Ok(Self { page, file: file.into_raw_fd() })
    }

    /// Returns the number of the descriptor behind it.
    pub fn fd(&self) -> RawFd {
        self.file
    }

    /// Writes a text of any length behind the page, at one of two places.
    ///
    /// # Errors
    ///
    /// If the kernel has no memory.
    pub fn write_behind(&self, place: usize, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: the descriptor is open as long as this program runs; it is not closed here.
        let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(self.file) });
        file.write_all_at(&(bytes.len() as u64).to_le_bytes(), PLACES[place])?;
        file.write_all_at(bytes, PLACES[place] + 8)
    }

    /// Reads what was written behind the page.
    ///
    /// # Errors
    ///
    /// If nothing was, or it is longer than `most`.
    pub fn read_behind(&self, place: usize, most: usize) -> io::Result<Vec<u8>> {
        // SAFETY: as above.
        let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(self.file) });
        let mut length = [0; 8];
        file.read_exact_at(&mut length, PLACES[place])?;
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, PLACES[place] + 8)?;
        Ok(bytes)
    }

    /// Maps room for so many bytes behind the page. It is there once, so that the process that goes on finds in it what the other one
    /// has left. Only one of the two may have it mapped at a time.
    ///
    /// # Errors
    ///
    /// If the kernel has no memory.
    pub fn room(&self, len: usize) -> io::Result<Region> {
        // SAFETY: the descriptor is open as long as this program runs.
        let file = unsafe { BorrowedFd::borrow_raw(self.file) };
        let near = rustix::param::page_size().max(size_of::<Page>()) as u64;
        // Near, where it fits: a limit on the size of files counts here as well.
        let at = if near + len as u64 <= PLACES[0] { near } else { FAR_ROOM };
        let end = at + len as u64;
        if (rustix::fs::fstat(file)?.st_size as u64) < end {
            rustix::fs::ftruncate(file, end)?;
        }
        // SAFETY: the other process does not write there, and the file is never made shorter.
        unsafe { Region::of_file(file, at, len) }
    }

    /// Replaces a number if it is the one that is expected; tells whether it was.
    pub fn exchange(&self, word: usize, expected: u64, value: u64) -> bool {
        let word = &self.page.words[word];
        word.compare_exchange(expected, value, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Returns a number.
    pub fn get(&self, word: usize) -> u64 {
        self.page.words[word].load(Ordering::SeqCst)
    }

    /// Sets a number.
    pub fn set(&self, word: usize, value: u64) {
        self.page.words[word].store(value, Ordering::SeqCst);
    }

    /// Returns a text; `None` if none was set.
    pub fn text(&self, place: usize) -> Option<String> {
        let text = &self.page.texts[place];
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
        let text = &self.page.texts[place];
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
        take(self.lent(word)?)
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
            hear_of_parent(parent.cast_signed());
            Ok(Forked::Child)
        }
        child => Ok(Forked::Parent { child: i32::try_from(child).unwrap_or(0) }),
    }
}

/// Asks for the signal of the end of this process's parent, which has this pid.
pub fn hear_of_parent(parent: i32) {
    // SAFETY: sets an attribute of this process. A parent that died before is seen by its number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, PEER_ENDED) };
    if !is_parent(parent) {
        // SAFETY: sends this process the signal that it would have had. Not by `raise`: a C library may remember the thread that it was
        // before the fork.
        unsafe { libc::kill(libc::getpid(), PEER_ENDED) };
    }
}

/// Waits until a child ends, another process calls ([`tell`]), one of these signals comes, or the time is over; returns the signal, if
/// that was it. All signals must be blocked.
pub fn wait_for_call(limit: Option<Duration>, or: &[Signal]) -> Option<Signal> {
    let set = set_of([libc::SIGCHLD, PEER_ENDED].into_iter().chain(or.iter().map(|signal| signal.number())));
    // SAFETY: the set is initialised; no information is asked for.
    let came = unsafe {
        match limit {
            None => libc::sigwaitinfo(&set, std::ptr::null_mut()),
            Some(limit) => {
                // Seventy years are as good as more.
                let seconds = i32::try_from(limit.as_secs()).unwrap_or(i32::MAX);
                let limit = libc::timespec { tv_sec: seconds.into(), tv_nsec: limit.subsec_nanos().into() };
                libc::sigtimedwait(&set, std::ptr::null_mut(), &limit)
            }
        }
    };
    or.iter().copied().find(|signal| signal.number() == came)
}

/// Wakes a process that waits for a call, or a keeper; nothing if it has ended.
pub fn tell(id: ProcessId) {
    let signal = Signal::from_number(PEER_ENDED);
    if let Some((handle, signal)) = crate::identity::Handle::open(id).zip(signal) {
        handle.signal(signal).ok();
    }
}

/// Makes the table of descriptors this process's own: a copy of the one that it shared.
///
/// # Errors
///
/// If the kernel has no memory.
pub fn own_files() -> io::Result<()> {
    // SAFETY: descriptors stay open at their numbers, in both tables.
    if unsafe { libc::unshare(libc::CLONE_FILES) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Executes a program in place of this one, with these arguments, and with these descriptors open at their numbers. The table must be
/// this process's own. Returns only if that is not possible.
pub fn execute(program: &CString, arguments: &[CString], kept: &[RawFd]) -> io::Error {
    #[cfg(feature = "fault")]
    let environment = crate::fault::own_environment();
    #[cfg(not(feature = "fault"))]
    let environment: [CString; 0] = [];
    let (arguments, environment) = (pointers(arguments), pointers(&environment));
    let flag = |flags: libc::c_int| {
        for fd in kept {
            // SAFETY: sets a flag of a descriptor of this process alone.
            unsafe { libc::fcntl(*fd, libc::F_SETFD, flags) };
        }
    };
    flag(0);
    // SAFETY: both lists end with null and point to strings that outlive the call, which does not return if it succeeds.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    let error = io::Error::last_os_error();
    flag(libc::FD_CLOEXEC);
    error
}

/// Takes over a descriptor that a dead process has left in the table that both had, or that was open when this program was executed;
/// `None` if it is not open. Once for each.
pub fn take(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: asks whether the number is open, and sets a flag.
    let is_open = fd >= 0 && unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    // SAFETY: it is open, and its owner is gone.
    is_open.then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Tells whether this is the pid of the process's parent.
pub fn is_parent(pid: i32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == pid)
}

/// Tells whether a child has ended, also one that a plain wait does not find, and reaps it then.
pub fn has_child_ended(pid: i32) -> bool {
    end_of_child(pid).is_some()
}

/// As [`has_child_ended`]; returns its exit code, of one that a signal ended the code that shells give it. Of what is no child of this
/// process the code is not known, and not 0.
pub fn end_of_child(pid: i32) -> Option<u8> {
    let mut status = 0;
    // SAFETY: waits, without waiting, for a child of this process; the status is written to a local variable.
    match unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::WNOHANG) } {
        0 => None,
        -1 => Some(1),
        _ if libc::WIFSIGNALED(status) => Some((128 + libc::WTERMSIG(status)) as u8),
        _ => Some(libc::WEXITSTATUS(status) as u8),
    }
}

/// Ends a process that is known by its identity, at once.
pub fn end(id: ProcessId) {
    if let Some(handle) = crate::identity::Handle::open(id) {
        handle.signal(Signal::KILL).ok();
    }
}

/// Ends a child, also one that a plain wait does not find, and reaps it.
pub fn end_child(pid: i32) {
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

/// Lists the descriptors that are open.
pub fn open_files() -> Vec<RawFd> {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let listed: Vec<RawFd> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // Without the one that it was found out with: its number is the next file's.
    // SAFETY: asks for a flag of a descriptor, and tells of a number that is not open.
    listed.into_iter().filter(|fd| unsafe { libc::fcntl(*fd, libc::F_GETFD) } >= 0).collect()
}

/// Closes every descriptor but the standard ones and those that are `kept`.
pub fn close_all_but(kept: &[RawFd]) {
    for fd in open_files().into_iter().filter(|fd| *fd > 2 && !kept.contains(fd)) {
        // SAFETY: the process that owned it is dead, and this one has no use for it.
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
        assert!(shared.exchange(3, u64::MAX, 7) && !shared.exchange(3, u64::MAX, 8) && shared.get(3) == 7);
    }

    #[test]
    fn the_next_file_is_none_of_those_that_were_open() {
        let open = open_files();
        let file = File::open("/dev/null").unwrap();
        assert!(!open.contains(&file.as_raw_fd()) && open_files().contains(&file.as_raw_fd()), "{open:?}");
    }

    #[test]
    fn what_is_behind_the_page_comes_back_from_its_place() {
        let shared = Shared::new().unwrap();
        assert!(shared.read_behind(0, 100).is_err());
        for (place, bytes) in [(0, vec![1; 70_000]), (1, vec![2; 9]), (0, Vec::new())] {
            shared.write_behind(place, &bytes).unwrap();
            assert_eq!(shared.read_behind(place, 100_000).unwrap(), bytes);
        }
        assert!(shared.read_behind(1, 8).is_err(), "it is too long");
        assert_eq!(Shared::inherited(shared.fd()).unwrap().read_behind(1, 9).unwrap(), [2; 9]);
    }
}
