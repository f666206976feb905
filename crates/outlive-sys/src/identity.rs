//! Which process is meant, beyond doubt.
//!
//! A pid alone names the process that has that number now. A process is identified by the host, the boot and the pid namespace
//! in which the pid was seen, and by its start time; before a signal, a pidfd pins it.

use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::clock;
use crate::poll::readable;
use crate::signal::Signal;

/// Where a pid means something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The machine, as `/etc/machine-id` says, else its host name.
    pub machine: String,
    /// The boot: a new one after each restart of the kernel.
    pub boot: String,
    /// The pid namespace, as the kernel numbers it.
    pub pid_namespace: String,
}

impl Host {
    /// Returns where this program runs.
    pub fn current() -> Self {
        let read = |path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let machine = read("/etc/machine-id")
            .filter(|id| !id.is_empty())
            .or_else(|| read("/proc/sys/kernel/hostname"))
            .unwrap_or_else(|| "unknown".to_owned());
        // Start times are compared with those that other time namespaces wrote down. Where the offset is no whole tick they may
        // differ by one, so such a namespace counts as a machine of its own: what it did not start is never taken for ended.
        let machine = match clock::offset_ns() % tick_ns() {
            0 => machine,
            _ => format!("{machine} {}", clock::namespace().unwrap_or_default()),
        };
        let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|| "unknown".to_owned());
        let pid_namespace = fs::read_link("/proc/self/ns/pid")
            .map_or_else(|_| "unknown".to_owned(), |link| link.to_string_lossy().into_owned());
        Self { machine, boot, pid_namespace }
    }
}

/// Number of the pid namespace that the machine starts with, which ends with the boot.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Tells whether a pid namespace of this boot is gone for certain, and every process in it: no process that can be seen from
/// here is in it. A namespace beside or around this one cannot be seen, and counts as gone if it can end before the boot does.
pub fn is_pid_namespace_gone(namespace: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_known =
        namespace.strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']')).is_some_and(is_number);
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let is_in = |process: fs::DirEntry| {
        fs::read_link(process.path().join("ns/pid")).is_ok_and(|link| link.as_os_str() == namespace)
    };
    is_known && namespace != FIRST_PID_NAMESPACE && !processes.flatten().any(is_in)
}

/// A process of this host, boot and pid namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The number.
    pub pid: i32,
    /// When it was started, in clock ticks since boot, the same in every time namespace.
    pub start_time: u64,
}

impl ProcessId {
    /// Returns this program's own.
    pub fn current() -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Self::of(pid).unwrap_or(Self { pid, start_time: 0 })
    }

    /// Looks up the process that has `pid` now.
    pub fn of(pid: i32) -> Option<Self> {
        Stat::read(pid).map(|stat| stat.id)
    }

    /// Tells whether this very process still runs. One that has ended but was not reaped does not.
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.id == self && !stat.has_ended())
    }
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The pid, and when the process was started.
    pub id: ProcessId,
    /// The state letter: R, S, D, T, Z…
    pub state: char,
    /// The parent's pid.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The session.
    pub session: i32,
}

impl Stat {
    /// Reads it; `None` if there is no such process.
    pub fn read(pid: i32) -> Option<Self> {
        // One read: the kernel makes the whole text anew for each.
        let mut text = [0; 1024];
        let count = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut text).ok()?;
        Self::parse(&String::from_utf8_lossy(&text[..count]))
    }

    /// Tells whether the process has ended and only waits to be reaped.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    fn parse(text: &str) -> Option<Self> {
        // The command's name may hold anything, blanks and parentheses too: what follows starts after the last one.
        let (head, tail) = (text.split(' ').next()?, &text[text.rfind(')')? + 1..]);
        let mut fields = tail.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse::<i64>().ok();
        let (parent, group, session) = (number()?, number()?, number()?);
        // Fields 7 to 21 lie between the session and the start time.
        let start_time = fields.nth(15)?.parse::<u64>().ok()?;
        let start_time = start_time.saturating_add_signed(-clock::offset_ns().div_euclid(tick_ns()));
        Some(Self {
            id: ProcessId { pid: head.parse().ok()?, start_time },
            state,
            parent: i32::try_from(parent).ok()?,
            group: i32::try_from(group).ok()?,
            session: i32::try_from(session).ok()?,
        })
    }
}

/// Returns the processes that this program was started by, the nearest first.
pub fn ancestors() -> Vec<ProcessId> {
    let mut found: Vec<ProcessId> = Vec::new();
    let mut next = Stat::read(ProcessId::current().pid).map(|stat| stat.parent);
    while let Some(stat) = next.filter(|&pid| pid > 0).and_then(Stat::read) {
        // A parent that ended meanwhile may have made place for another process of its number.
        if found.contains(&stat.id) {
            break;
        }
        next = Some(stat.parent);
        found.push(stat.id);
    }
    found
}

/// Returns the length of a clock tick, the kernel's unit of start times.
fn tick_ns() -> i64 {
    1_000_000_000 / i64::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100).max(1)
}

/// A process held so that its pid cannot come to mean another one.
#[derive(Debug)]
pub struct Handle(OwnedFd);

impl Handle {
    /// Takes hold of a process, checking that it is still the one meant; `None` if it has ended.
    pub fn open(id: ProcessId) -> Option<Self> {
        let handle = Self(pidfd_open(Pid::from_raw(id.pid)?, PidfdFlags::empty()).ok()?);
        // Looked at after the pidfd exists: from here on the number cannot be given to another process unnoticed. The state that
        // `/proc` tells is that of the first thread, which may end before the others.
        (ProcessId::of(id.pid) == Some(id) && !handle.has_ended()).then_some(handle)
    }

    /// Tells whether the process has ended, all of its threads.
    pub fn has_ended(&self) -> bool {
        readable(self.as_fd(), Some(Duration::ZERO)).unwrap_or(false)
    }

    /// Takes over a hold that the program had which this one was executed in place of.
    pub fn inherited(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Takes over a pidfd that the kernel gave when the process was made.
    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends a signal.
    ///
    /// # Errors
    ///
    /// If the process is gone, or belongs to another user.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        // SAFETY: the number is a valid signal number of this system, checked when `Signal` was made.
        let signal = unsafe { rustix::process::Signal::from_raw_unchecked(signal.number()) };
        Ok(pidfd_send_signal(&self.0, signal)?)
    }

    /// Sends a signal to the process group that this process leads or led, if it has members.
    ///
    /// # Errors
    ///
    /// If it has none, or the kernel (before Linux 6.9) cannot do this through a handle: then it is not done at all, because a
    /// bare number may mean another group by now.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        const PIDFD_SIGNAL_PROCESS_GROUP: libc::c_uint = 4;
        // SAFETY: the descriptor is open, no information is passed along, and the kernel checks the rest.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal.number(),
                std::ptr::null::<libc::siginfo_t>(),
                PIDFD_SIGNAL_PROCESS_GROUP,
            )
        };
        if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for Handle {
    /// Readable once the process has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_past_any_name() {
        let text = "42 (a) b) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(stat.id, ProcessId { pid: 42, start_time: 98765 });
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('S', 7, 8, 9));
    }

    #[test]
    fn a_pid_with_another_start_time_is_another_process() {
        let me = ProcessId::current();
        assert!(me.is_alive());
        let stranger = ProcessId { start_time: me.start_time + 1, ..me };
        assert!(!stranger.is_alive());
        assert!(Handle::open(stranger).is_none());
    }
}
