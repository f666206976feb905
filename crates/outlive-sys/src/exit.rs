//! How a process ended that is not a child of this program.
//!
//! Only a parent may wait for a process. Others learn its exit status in two ways: through a pidfd that was open when it
//! was reaped (Linux 6.15), and from `/proc` while it has ended and is not reaped. Where neither can tell, it is
//! unknown, and never 0.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use crate::identity::{Handle, ProcessId};
use crate::poll::{PollFd, PollFlags, poll};
use crate::spawn::WaitStatus;

/// What the kernel fills in: the first version of its structure, 64 bytes.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    control_group: u64,
    /// Process, thread group, parent, and the eight user and group ids.
    ids: [u32; 11],
    exit_code: i32,
}

/// Asked for and given: the exit status.
const INFO_EXIT: u64 = 1 << 3;

/// Always given.
const INFO_PID: u64 = 1;

/// `_IOWR(0xFF, 11, struct pidfd_info)`.
const PIDFD_GET_INFO: libc::c_ulong = 0xC040_FF0B;

/// How long a parent may take to reap a process before the status counts as unknown.
const REAPING_LIMIT: Duration = Duration::from_secs(1);

impl Handle {
    /// Returns how the process ended; `None` if it has not, or the kernel cannot tell.
    ///
    /// `id` is the process that this handle was opened for. One that has only just ended is waited for, a moment, until
    /// its parent has reaped it: before that only `/proc` can tell.
    pub fn wait_status(&self, id: ProcessId) -> Option<WaitStatus> {
        let has_ended = crate::poll::readable(self.as_fd(), Some(Duration::ZERO)).unwrap_or(false);
        if !has_ended {
            return None;
        }
        if let Some(status) = self.reaped_status().or_else(|| unreaped_status(id)) {
            return Some(status);
        }
        // Nothing is asked for: the kernel tells all the same when it was reaped.
        poll(&mut [PollFd::from_borrowed_fd(self.as_fd(), PollFlags::empty())], Some(REAPING_LIMIT)).ok();
        self.reaped_status()
    }

    fn reaped_status(&self) -> Option<WaitStatus> {
        let info = self.info(INFO_EXIT).ok()?;
        (info.mask & INFO_EXIT != 0).then(|| WaitStatus::from_raw(info.exit_code))
    }

    fn info(&self, mask: u64) -> io::Result<Info> {
        let mut info = Info { mask, ..Info::default() };
        // SAFETY: the descriptor is open, and the structure is as long as the request says. Another kernel refuses.
        let result = unsafe { libc::ioctl(self.as_fd().as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
        if result == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
    }
}

/// Tells whether this kernel tells the exit status of a process through a pidfd.
pub fn can_tell() -> bool {
    let me = Handle::open(ProcessId::current());
    // A running process has no exit status: a kernel that knows the request answers the rest of it. Before 6.15 the answer
    // had no exit status, which only the kernel's version shows.
    me.is_some_and(|me| me.info(INFO_PID | INFO_EXIT).is_ok())
        && release().is_some_and(|release| release >= (6, 15))
}

/// Returns the first two numbers of the kernel's release.
pub fn release() -> Option<(u32, u32)> {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = text.split(|character: char| !character.is_ascii_digit()).map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns how a process ended that is not reaped yet; `None` if it runs or is reaped, or this user may not know.
pub fn unreaped_status(id: ProcessId) -> Option<WaitStatus> {
    let status = zombie_status(id)?;
    // Without ptrace permission the kernel reports 0. Reading this link needs the same permission.
    let link = fs::read_link(format!("/proc/{}/exe", id.pid));
    let is_allowed = !link.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
    // Read again: had the process been reaped meanwhile, the link would be missing as well, which is no refusal.
    (is_allowed && zombie_status(id) == Some(status)).then(|| WaitStatus::from_raw(status))
}

/// Reads the exit status in `/proc/PID/stat`.
fn zombie_status(id: ProcessId) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{}/stat", id.pid)).ok()?;
    parse(&text, id.start_time)
}

fn parse(text: &str, start_time: u64) -> Option<i32> {
    // After the name: the state is field 3.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    // One whose first thread has ended and whose others go on looks the same but for their number.
    let is_over =
        matches!(field(3)?, "Z" | "X") && field(20)?.parse::<u32>().is_ok_and(|threads| threads <= 1);
    (is_over && field(22)?.parse() == Ok(start_time)).then(|| field(52)?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Signal;

    /// Starts something and takes hold of it. It ends with its standard input.
    fn held(line: &str) -> (std::process::Child, ProcessId, Handle) {
        let mut command = std::process::Command::new("sh");
        let child = command.args(["-c", line]).stdin(std::process::Stdio::piped()).spawn().unwrap();
        let id = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        let handle = Handle::open(id).unwrap();
        (child, id, handle)
    }

    #[test]
    fn the_status_is_known_before_and_after_it_was_reaped() {
        let (mut child, id, handle) = held("read x; exit 7");
        assert_eq!(handle.wait_status(id), None, "it runs");
        drop(child.stdin.take());
        assert!(crate::poll::readable(handle.as_fd(), None).unwrap());
        assert_eq!(unreaped_status(id), Some(WaitStatus::Exited(7)));
        assert_eq!(handle.wait_status(id), Some(WaitStatus::Exited(7)));
        child.wait().unwrap();
        assert_eq!(unreaped_status(id), None);
        let expected = can_tell().then_some(WaitStatus::Exited(7));
        assert_eq!(handle.wait_status(id), expected);
    }

    #[test]
    fn a_signal_is_told_apart_from_a_code() {
        let (mut child, id, handle) = held("read x");
        handle.signal(Signal::KILL).unwrap();
        child.wait().unwrap();
        let expected = can_tell().then_some(WaitStatus::Signaled { signal: 9, core: false });
        assert_eq!(handle.wait_status(id), expected);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let tail = "0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 ";
        let rest = vec!["0"; 29].join(" ");
        let zombie = format!("42 (a) b) Z 7 8 9 {tail}{rest} 1792");
        assert_eq!(parse(&zombie, 98765), Some(1792));
        assert_eq!(parse(&zombie, 98766), None);
        assert_eq!(parse(&zombie.replace(") Z", ") S"), 98765), None);
        assert_eq!(parse(&zombie.replace(" 20 0 1 0 ", " 20 0 2 0 "), 98765), None);
    }
}
