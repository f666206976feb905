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

const FILES: [&str; 2] = ["cgroup", "oom_score_adj"];

/// How many kinds of limits there are.
const RESOURCES: u32 = 16;

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
    for number in scheduling().into_iter().chain(limits()) {
        // A number as the kernel prints it takes it many times as long.
        text.extend(number.to_ne_bytes().map(char::from));
    }
    FILES.iter().for_each(|name| text.push_str(read(&thread, name, &mut room).unwrap_or_default()));
    for name in LINKS {
        let link = readlinkat(&thread, name, Vec::new()).unwrap_or_default();
        text.push_str(&link.to_string_lossy());
    }
    Some(text)
}

/// Returns the nice value, the policy and the real-time priority of this thread.
fn scheduling() -> [u64; 3] {
    // Not by the C library's functions: musl's answer nothing.
    // SAFETY: the kernel writes one structure.
    unsafe {
        let mut parameters = std::mem::zeroed::<libc::sched_param>();
        libc::syscall(libc::SYS_sched_getparam, 0, &raw mut parameters);
        let policy = libc::syscall(libc::SYS_sched_getscheduler, 0);
        [libc::getpriority(libc::PRIO_PROCESS, 0).into(), policy, parameters.sched_priority.into()]
            .map(i64::cast_unsigned)
    }
}

/// Returns the limits of this process, the soft and the hard one of each kind.
fn limits() -> impl Iterator<Item = u64> {
    (0..RESOURCES).flat_map(|resource| {
        // SAFETY: the kernel writes one structure.
        unsafe {
            let mut limit = std::mem::zeroed::<libc::rlimit>();
            libc::getrlimit(resource as _, &mut limit);
            [limit.rlim_cur, limit.rlim_max]
        }
    })
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
        assert!(before.contains("Umask:") && before.contains("net:["), "{before}");
        assert_eq!(describe().unwrap(), before);
    }

    #[test]
    fn a_nice_value_is_seen() {
        // A thread has one of its own.
        let seen = std::thread::spawn(|| {
            let before = describe().unwrap();
            // SAFETY: sets an attribute of this thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, libc::getpriority(libc::PRIO_PROCESS, 0) + 1) };
            describe().unwrap() != before
        });
        assert!(seen.join().unwrap());
    }
}
