//! What a process that a thread starts inherits, as far as the kernel tells: for processes that are started ahead of need.

use std::os::fd::AsFd;

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

/// Lines of `status` about rights, filters, processors and the umask.
const STATUS: [&str; 15] = [
    "Umask:",
    "Uid:",
    "Gid:",
    "Groups:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "CapAmb:",
    "NoNewPrivs:",
    "Seccomp:",
    "Seccomp_filters:",
    "Cpus_allowed:",
    "Mems_allowed:",
    "SigIgn:",
];

/// Fields of `stat` from the state on: priority, nice value, real-time priority and policy.
const SCHEDULING: [usize; 4] = [15, 16, 37, 38];

const FILES: [&str; 3] = ["limits", "cgroup", "oom_score_adj"];

const LINKS: [&str; 9] = [
    "root",
    "ns/mnt",
    "ns/net",
    "ns/ipc",
    "ns/uts",
    "ns/user",
    "ns/cgroup",
    "ns/pid_for_children",
    "ns/time_for_children",
];

/// Room for most such files, and for a description.
const MOST: usize = 8192;

/// Describes what a process inherits that the calling thread starts: two descriptions that differ are of different inheritances. `None`
/// where the kernel does not tell.
///
/// Restrictions by Landlock are not among it, nor is the I/O priority: the kernel does not show them.
pub fn describe() -> Option<String> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let thread = openat(CWD, "/proc/thread-self", flags, Mode::empty()).ok()?;
    // One room for all of them, one after the other: a job waits for this.
    let mut room = vec![0; MOST];
    let mut text = String::with_capacity(MOST);
    let status = read(&thread, "status", &mut room)?;
    for line in status.lines().filter(|line| STATUS.iter().any(|name| line.starts_with(name))) {
        text.push_str(line);
        text.push('\n');
    }
    let stat = read(&thread, "stat", &mut room)?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    SCHEDULING.iter().for_each(|&field| text.push_str(fields.get(field).unwrap_or(&"")));
    FILES.iter().for_each(|name| text.push_str(read(&thread, name, &mut room).unwrap_or_default()));
    for name in LINKS {
        let link = readlinkat(&thread, name, Vec::new()).unwrap_or_default();
        text.push_str(&link.to_string_lossy());
    }
    Some(text)
}

/// Reads a file of the thread's as a whole, into this room; the kernel does not tell how long it is.
fn read<'a>(thread: &impl AsFd, name: &str, room: &'a mut Vec<u8>) -> Option<&'a str> {
    let file = openat(thread, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut length = 0;
    loop {
        match rustix::io::read(&file, &mut room[length..]) {
            Ok(0) => return std::str::from_utf8(&room[..length]).ok(),
            Ok(count) => length += count,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        if length == room.len() {
            room.resize(2 * length, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_as_long_as_nothing_is_set() {
        let before = describe().unwrap();
        assert!(before.contains("Umask:") && before.contains("Max open files"), "{before}");
        assert_eq!(describe().unwrap(), before);
    }
}
