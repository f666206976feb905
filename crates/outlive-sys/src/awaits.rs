//! Whether a process tree waits for input, as the kernel sees it.
//!
//! A thread that waits shows in `/proc` which call it is in and with which arguments: a read of the terminal, or a wait for
//! descriptors of which the terminal is one. The terminal's own modes tell what is wanted: a line, a password, or keys. To read
//! a call needs the right to trace the process, which an ancestor has; of a process that runs as another user only the modes
//! are known.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::fstat;
use rustix::termios::{tcgetpgrp, tcgetsid};

use crate::identity::Stat;
use crate::pty::{self, InputModes};

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A line of text.
    Line,
    /// A line that is not echoed.
    Password,
    /// Single keys: a shell's line editor, a full-screen program, a server with shortcuts.
    Keys,
}

/// How it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// A process is inside a call that waits for this input.
    Kernel,
    /// The terminal's modes and what was printed say so; the calls may not be read, or wait for other things as well.
    Likely,
}

/// What a process waits in at this moment, as far as it concerns the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Evidence {
    /// Something else, or nothing: it runs.
    Elsewhere,
    /// Its calls may not be read.
    Unreadable,
    /// The input, and other descriptors or threads as well.
    Shared,
    /// The input alone.
    Alone,
}

/// What input comes from.
enum Source {
    Terminal { device: u64 },
    Pipe { device: u64, inode: u64 },
}

/// The device that stands for the terminal of the process that opens it: `/dev/tty`.
const OWN_TERMINAL: u64 = 5 << 8;

/// The most descriptors of one wait that are looked at, so that a number in a register is never taken for a size.
const MAX_SET: u64 = 4096;

/// Tells what the processes of a terminal wait for, those of its foreground first. `side` is the command's side of `master`; `is_prompted` says
/// that the output ends as a question does, which decides where the kernel alone cannot.
pub fn of_terminal(
    master: impl AsFd,
    side: impl AsFd,
    pids: &[i32],
    is_prompted: bool,
) -> Option<(Kind, Known)> {
    let kind = match pty::input_modes(&master).ok()? {
        InputModes { by_line: true, echo: true } => Kind::Line,
        InputModes { by_line: true, echo: false } => Kind::Password,
        InputModes { by_line: false, .. } => Kind::Keys,
    };
    let foreground = tcgetpgrp(&master).ok()?.as_raw_nonzero().get();
    let source = Source::Terminal { device: fstat(&side).ok()?.st_rdev };
    let stats: Vec<Stat> = pids.iter().filter_map(|&pid| Stat::read(pid)).collect();
    let session = tcgetsid(&master).ok()?.as_raw_nonzero().get();
    // Job control is within the terminal's session: a process of another reads whenever it likes.
    let (free, background): (Vec<&Stat>, Vec<&Stat>) =
        stats.iter().partition(|stat| stat.group == foreground || stat.session != session);
    let sleeping = free.into_iter().filter(|stat| stat.state == 'S');
    let evidence = sleeping.map(|stat| evidence(stat.id.pid, &source)).max().unwrap_or(Evidence::Elsewhere);
    verdict(kind, evidence, is_prompted).or_else(|| {
        // A process in the background that reads is stopped, inside its read.
        let mut stopped = background.into_iter().filter(|stat| stat.state == 'T');
        stopped.any(|stat| is_in_read(stat.id.pid, &source)).then_some((kind, Known::Kernel))
    })
}

/// Tells whether one of these processes waits for what is written into a pipe.
pub fn of_pipe(pipe: impl AsFd, pids: &[i32], is_prompted: bool) -> Option<(Kind, Known)> {
    let file = fstat(pipe).ok()?;
    let source = Source::Pipe { device: file.st_dev, inode: file.st_ino };
    let evidence = pids.iter().map(|&pid| evidence(pid, &source)).max()?;
    // Of a process that may not be read it is not even known that it has the pipe.
    verdict(Kind::Line, evidence, is_prompted).filter(|_| evidence > Evidence::Unreadable)
}

fn verdict(kind: Kind, evidence: Evidence, is_prompted: bool) -> Option<(Kind, Known)> {
    match (evidence, kind) {
        (Evidence::Elsewhere, _) => None,
        (Evidence::Alone, _) | (Evidence::Shared, Kind::Keys | Kind::Password) => Some((kind, Known::Kernel)),
        (Evidence::Unreadable, Kind::Keys | Kind::Password) => Some((kind, Known::Likely)),
        // A line is what every terminal is set to from the start, and a server may listen for lines beside its work.
        (Evidence::Unreadable | Evidence::Shared, Kind::Line) => is_prompted.then_some((kind, Known::Likely)),
    }
}

/// Tells what a process's threads wait in; the strongest counts.
fn evidence(pid: i32, source: &Source) -> Evidence {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let threads = threads.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut strongest = Evidence::Elsewhere;
    for thread in threads {
        let found = match call(pid, thread) {
            // The first thread is the program; another may listen beside it.
            Ok(Some(call)) => match waits(pid, source, &call) {
                Evidence::Alone if thread != pid => Evidence::Shared,
                found => found,
            },
            Ok(None) => Evidence::Elsewhere,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Evidence::Unreadable,
            // It has ended, or the kernel has no such file.
            Err(_) => Evidence::Elsewhere,
        };
        strongest = strongest.max(found);
    }
    strongest
}

fn is_in_read(pid: i32, source: &Source) -> bool {
    matches!(call(pid, pid), Ok(Some(call)) if waits(pid, source, &call) == Evidence::Alone)
}

/// A system call: its number and arguments.
type Call = (i64, [u64; 6]);

/// Returns the call that a thread is in; none if it runs.
fn call(pid: i32, thread: i32) -> io::Result<Option<Call>> {
    Ok(parse_call(&fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"))?))
}

fn parse_call(text: &str) -> Option<Call> {
    let mut fields = text.split_ascii_whitespace();
    let number = fields.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
    let mut arguments = [0; 6];
    for place in &mut arguments {
        *place = argument()?;
    }
    Some((number, arguments))
}

/// Tells whether a call waits for the source.
fn waits(pid: i32, source: &Source, &(number, arguments): &Call) -> Evidence {
    let [first, second, ..] = arguments;
    let set = match number {
        libc::SYS_read | libc::SYS_readv => vec![first],
        // A wait that a stop interrupted goes on as this call, with the registers of the first.
        libc::SYS_ppoll | libc::SYS_restart_syscall => polled(pid, first, second),
        libc::SYS_pselect6 => selected(pid, first, second),
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => epolled(pid, first),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => polled(pid, first, second),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => selected(pid, first, second),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => epolled(pid, first),
        _ => Vec::new(),
    };
    match set.iter().any(|&fd| is_source(pid, source, fd)) {
        false => Evidence::Elsewhere,
        true if set.len() == 1 => Evidence::Alone,
        true => Evidence::Shared,
    }
}

/// Tells whether a descriptor of a process is the source.
fn is_source(pid: i32, source: &Source, fd: u64) -> bool {
    let Ok(file) = fs::metadata(format!("/proc/{pid}/fd/{fd}")) else { return false };
    match *source {
        Source::Terminal { device } => file.rdev() == device || file.rdev() == OWN_TERMINAL,
        Source::Pipe { device, inode } => (file.dev(), file.ino()) == (device, inode),
    }
}

/// Reads the descriptors of a `poll` that are waited for to become readable.
fn polled(pid: i32, address: u64, count: u64) -> Vec<u64> {
    const ENTRY: usize = size_of::<libc::pollfd>();
    if count > MAX_SET {
        return Vec::new();
    }
    let set = memory(pid, address, count as usize * ENTRY);
    let entry = |bytes: &[u8; ENTRY]| {
        let fd = i32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let events = i16::from_ne_bytes([bytes[4], bytes[5]]);
        u64::try_from(fd).ok().filter(|_| events & libc::POLLIN != 0)
    };
    set.as_chunks::<ENTRY>().0.iter().filter_map(entry).collect()
}

/// Reads the descriptors of a `select` that are waited for to become readable.
fn selected(pid: i32, count: u64, address: u64) -> Vec<u64> {
    if count > MAX_SET || address == 0 {
        return Vec::new();
    }
    let words = memory(pid, address, count.div_ceil(64) as usize * 8);
    let words: Vec<u64> = words.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    (0..count)
        .filter(|fd| words.get((fd / 64) as usize).is_some_and(|word| word >> (fd % 64) & 1 == 1))
        .collect()
}

/// Reads the descriptors of an epoll that are waited for to become readable.
fn epolled(pid: i32, epoll: u64) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")).unwrap_or_default();
    text.lines().filter_map(parse_epolled).collect()
}

/// Reads `tfd: 0 events: 19 …`.
fn parse_epolled(line: &str) -> Option<u64> {
    let mut fields = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let (fd, events) = (fields.next()?.parse().ok()?, u32::from_str_radix(fields.nth(1)?, 16).ok()?);
    (events & libc::EPOLLIN as u32 != 0).then_some(fd)
}

/// Reads a process's memory; nothing if that is not possible.
fn memory(pid: i32, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let read =
        File::open(format!("/proc/{pid}/mem")).and_then(|file| file.read_exact_at(&mut bytes, address));
    if read.is_ok() { bytes } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn calls_are_read_as_the_kernel_writes_them() {
        let text = "0 0x0 0x7f 0x1000 0x0 0x0 0xffffffffffffffff 0x7ffc 0x7f3\n";
        assert_eq!(parse_call(text), Some((0, [0, 0x7f, 0x1000, 0, 0, u64::MAX])));
        for other in ["running\n", "-1 0x7ffc 0x7f3\n", ""] {
            assert_eq!(parse_call(other), None, "{other}");
        }
        let line = "tfd:        0 events:       19 data:      7ffc  pos:0 ino:61 sdev:7";
        assert_eq!(parse_epolled(line), Some(0));
        assert_eq!(parse_epolled(&line.replace(" 19 ", " 1c ")), None, "it is waited for to be written to");
        assert_eq!(parse_epolled("pos:\t0"), None);
    }

    #[test]
    fn a_line_needs_more_than_that_nothing_speaks_against_it() {
        let line = |evidence, is_prompted| verdict(Kind::Line, evidence, is_prompted).map(|(_, known)| known);
        assert_eq!(line(Evidence::Alone, false), Some(Known::Kernel));
        for unsure in [Evidence::Shared, Evidence::Unreadable] {
            assert_eq!(line(unsure, false), None);
            assert_eq!(line(unsure, true), Some(Known::Likely));
        }
        let password = verdict(Kind::Password, Evidence::Unreadable, false);
        assert_eq!(password, Some((Kind::Password, Known::Likely)));
        assert_eq!(verdict(Kind::Keys, Evidence::Elsewhere, true), None);
    }

    #[test]
    fn a_child_that_reads_its_pipe_waits_and_one_that_sleeps_does_not() {
        let (reading, writing) = crate::pipe::new().unwrap();
        let mut sleeper =
            Command::new("sleep").arg("60").stdin(reading.try_clone().unwrap()).spawn().unwrap();
        let mut reader = Command::new("cat").stdin(reading).stdout(Stdio::null()).spawn().unwrap();
        let pid = |child: &std::process::Child| i32::try_from(child.id()).unwrap();
        while of_pipe(&writing, &[pid(&reader)], false) != Some((Kind::Line, Known::Kernel)) {
            std::thread::yield_now();
        }
        assert_eq!(of_pipe(&writing, &[pid(&sleeper)], true), None);
        assert_eq!(of_pipe(&writing, &[], true), None);
        for child in [&mut sleeper, &mut reader] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
