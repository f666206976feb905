//! The processes below another one.
//!
//! A keeper adopts orphans, so every process of its job is below it for as long as it lives. Between looking and
//! signalling a process may end and its pid be given away; each one is therefore pinned and looked at again first.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read};

use crate::identity::{Handle, ProcessId, Stat};
use crate::signal::Signal;

/// One process of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The pid, and when the process was started.
    pub id: ProcessId,
    /// The parent's pid.
    pub parent: i32,
    /// The state letter of `/proc`.
    pub state: char,
}

/// Lists all live processes below `root` (without it), parents before children.
///
/// `enter` says of each whether it belongs; where it does not, neither does anything below it.
pub fn below(root: i32, mut enter: impl FnMut(&Member) -> bool) -> Vec<Member> {
    let mut everyone: Option<HashMap<i32, Vec<i32>>> = None;
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let mut open = vec![root];
    while let Some(parent) = open.pop() {
        let children = match children_of(parent) {
            Some(children) => children,
            // A kernel without /proc/PID/task/TID/children: look at every process, once.
            None => everyone.get_or_insert_with(all_by_parent).get(&parent).cloned().unwrap_or_default(),
        };
        for pid in children {
            let Some(stat) = Stat::read(pid) else { continue };
            let member = Member { id: stat.id, parent: stat.parent, state: stat.state };
            // The list may be older than the process: only one whose parent is still here belongs.
            if stat.parent != parent || known.contains(&pid) {
                continue;
            }
            if stat.has_ended() {
                // It no longer runs, but its own children may not have been handed on yet.
                open.push(pid);
            } else if enter(&member) {
                open.push(pid);
                known.insert(pid);
                found.push(member);
            }
        }
    }
    found
}

/// Sends `signal` to a member if it is still the same process; `false` if it is gone.
///
/// # Errors
///
/// If it may not be signalled: it runs as another user.
pub fn signal(member: &Member, signal: Signal) -> io::Result<bool> {
    let Some(handle) = Handle::open(member.id) else { return Ok(false) };
    match handle.signal(signal) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// How much of a command line is read: enough to recognise a process by. It may have megabytes, and its process may change it.
const COMMAND_LINE: usize = 4096;

/// How much of an environment is read: more than the kernel takes for arguments and environment together.
const ENVIRONMENT: u64 = 8 << 20;

/// Returns the arguments that a process was started with: the first 4 KiB of them.
pub fn arguments(pid: i32) -> Vec<Vec<u8>> {
    let mut bytes = [0; COMMAND_LINE];
    // One call reads it all; of a process that has ended there is nothing.
    let read = File::open(format!("/proc/{pid}/cmdline")).and_then(|mut file| file.read(&mut bytes));
    let bytes = &bytes[..read.unwrap_or(0)];
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() { Vec::new() } else { bytes.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect() }
}

/// Lists all processes that this program can see.
pub fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns the environment that a process was started with, `NAME=value` each; `None` if it is gone or another user's.
pub fn environment(pid: i32) -> Option<Vec<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/environ")).ok()?.take(ENVIRONMENT).read_to_end(&mut bytes).ok()?;
    Some(bytes.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()).map(<[u8]>::to_vec).collect())
}

/// Returns the user that a process runs as.
pub fn user(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|data| data.uid())
}

/// Returns a process's share of the memory in use: what it shares with others counts by parts, so that a sum over all
/// counts nothing twice. The kernel takes a while for that; [`resident`] is quick.
pub fn memory(pid: i32) -> Option<u64> {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return resident(pid) };
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Returns how much memory a process has resident, shared or not: never less than [`memory`].
pub fn resident(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// Makes the kernel kill a process, or one that it starts, before this program when memory runs out.
pub fn raise_oom_score(pid: i32) {
    const MORE: i32 = 100;
    const MOST: i32 = 1000;
    let path = format!("/proc/{pid}/oom_score_adj");
    let own =
        fs::read_to_string("/proc/self/oom_score_adj").ok().and_then(|text| text.trim().parse::<i32>().ok());
    // A process that has ended meanwhile needs no score.
    fs::write(path, (own.unwrap_or(0) + MORE).min(MOST).to_string()).ok();
}

/// Returns what a descriptor of another process of ours refers to.
pub fn descriptor(pid: i32, fd: i32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()
}

/// Returns the name that a process goes by, at most 15 bytes long; none if it has ended.
fn name(pid: i32) -> Option<Vec<u8>> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, parentheses too: what follows starts after the last one.
    let (from, to) =
        (line.iter().position(|&byte| byte == b'(')?, line.iter().rposition(|&byte| byte == b')')?);
    let has_ended = matches!(line.get(to + 2), Some(b'Z' | b'X') | None);
    if has_ended { None } else { line.get(from + 1..to).map(<[u8]>::to_vec) }
}

/// Returns a child of this program, running or not yet reaped.
pub fn any_child() -> Option<i32> {
    children_of(i32::try_from(std::process::id()).ok()?)?.first().copied()
}

/// Tells whether a process has executed a program since it was forked; `None` if it is gone.
pub fn has_executed(pid: i32) -> Option<bool> {
    const FORKED_AND_NOT_EXECUTED: u64 = 0x40;
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // After the name: the state is field 3, the flags are field 9.
    let flags = text[text.rfind(')')? + 1..].split_ascii_whitespace().nth(6)?.parse::<u64>().ok()?;
    Some(flags & FORKED_AND_NOT_EXECUTED == 0)
}

/// Sends a signal to the children of this program that run, but for those that are `spared` by pid and name; returns to which.
/// Only for a program that reaps no child meanwhile.
pub fn signal_own_children(me: i32, signal: Signal, mut spared: impl FnMut(i32, &[u8]) -> bool) -> Vec<i32> {
    let mut children = children_of(me).unwrap_or_default();
    children.retain(|&pid| {
        let is_meant = name(pid).is_some_and(|name| !spared(pid, &name));
        // SAFETY: sends a signal to a child of this program. It was one when the list was made, and this program has not
        // reaped it since, so that the number is still its own.
        is_meant && unsafe { libc::kill(pid, signal.number()) } == 0
    });
    children
}

/// Tells whether a process has children and all of them pass; one that has ended and was not reaped does not, because its own
/// children may be handed on at this moment.
pub fn all_children(pid: i32, mut passes: impl FnMut(i32) -> bool) -> bool {
    let children = children_of(pid).unwrap_or_else(|| all_by_parent().remove(&pid).unwrap_or_default());
    let is_alive = |pid| Stat::read(pid).is_some_and(|stat| !stat.has_ended());
    !children.is_empty() && children.into_iter().all(|pid| is_alive(pid) && passes(pid))
}

fn children_of(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Some(children);
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(text) => {
                children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()))
            }
            // The thread ended meanwhile, or the kernel does not have the file at all.
            Err(_) if thread.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(children)
}

fn all_by_parent() -> HashMap<i32, Vec<i32>> {
    let mut by_parent: HashMap<i32, Vec<i32>> = HashMap::new();
    for pid in all_pids() {
        if let Some(stat) = Stat::read(pid) {
            by_parent.entry(stat.parent).or_default().push(pid);
        }
    }
    by_parent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found_and_signalled_and_then_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        let found = below(me, |_| true);
        let member = found.iter().find(|member| member.id.pid == pid).expect("the child is listed").clone();
        assert!(all_by_parent()[&me].contains(&pid));
        assert!(signal(&member, Signal::KILL).unwrap());
        child.wait().unwrap();
        assert!(!signal(&member, Signal::KILL).unwrap());
    }

    #[test]
    fn of_a_long_command_line_the_beginning_is_read() {
        let long = "x".repeat(100_000);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "read wait", &long, &long]).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // A process has no arguments at the very beginning of its program.
        let read = std::iter::repeat_with(|| arguments(pid)).find(|read| !read.is_empty()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read[..3], [b"sh".to_vec(), b"-c".to_vec(), b"read wait".to_vec()]);
        assert!(read.concat().len() < COMMAND_LINE);
    }

    #[test]
    fn what_is_not_entered_is_not_listed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(!below(me, |member| member.id.pid != pid).iter().any(|member| member.id.pid == pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
