//! What a process that a thread starts inherits, as far as the kernel tells: for processes that are started ahead of need.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};

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

/// Opens the directory below `/proc` that tells of the calling thread. Another process that has it can describe this thread, under
/// whatever number it sees it.
///
/// # Errors
///
/// If `/proc` is not mounted, or there are no descriptors left.
pub fn this_thread() -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, "/proc/thread-self", flags, Mode::empty())?)
}

/// Describes what a process inherits that this thread starts: two descriptions that differ are of different inheritances. `None`
/// where the kernel does not tell.
///
/// Restrictions by Landlock are not among it, nor is the I/O priority: the kernel does not show them.
pub fn describe(thread: impl AsFd) -> Option<String> {
    let read = |name: &str| {
        let file = openat(&thread, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        // Room for most of them at once: the kernel does not tell how long they are.
        let mut text = String::with_capacity(4096);
        File::from(file).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let status = read("status")?;
    let status = status.lines().filter(|line| STATUS.iter().any(|name| line.starts_with(name)));
    let mut text: String = status.collect::<Vec<_>>().join("\n");
    let stat = read("stat")?;
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    SCHEDULING.iter().for_each(|&field| text.push_str(fields.get(field).unwrap_or(&"")));
    FILES.iter().for_each(|name| text.push_str(&read(name).unwrap_or_default()));
    for name in LINKS {
        let link = readlinkat(&thread, name, Vec::new()).unwrap_or_default();
        text.push_str(&link.to_string_lossy());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_as_long_as_nothing_is_set() {
        let describe = || describe(this_thread().unwrap()).unwrap();
        let before = describe();
        assert!(before.contains("Umask:") && before.contains("Max open files"), "{before}");
        assert_eq!(describe(), before);
    }
}
