//! What one process uses, as `/proc` says.

use std::fs;

use rustix::param::clock_ticks_per_second;

use crate::identity::ProcessId;
use crate::tree;

/// What a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Its own processor time.
    pub cpu_ms: u64,
    /// The processor time of its children that have ended and that it waited for, and of theirs.
    pub children_cpu_ms: u64,
    /// What of it is in memory.
    pub resident_bytes: u64,
    /// Its share of the memory in use: the sum over several counts nothing twice.
    pub share_bytes: u64,
}

impl Figures {
    /// Reads them; `None` if this very process is gone.
    pub fn of(id: ProcessId) -> Option<Self> {
        let resident_bytes = tree::resident(id.pid)?;
        // Looked at after the other: whose start time is right now was the right one before, too.
        let stat = fs::read(format!("/proc/{}/stat", id.pid)).ok()?;
        let (own, children) = times(&String::from_utf8_lossy(&stat), id.start_time)?;
        let ticks = clock_ticks_per_second().max(1);
        Some(Self {
            cpu_ms: own * 1000 / ticks,
            children_cpu_ms: children * 1000 / ticks,
            resident_bytes,
            share_bytes: tree::memory(id.pid)?,
        })
    }
}

/// Reads the ticks of a process and of its ended children; `None` if it was started at another time.
fn times(stat: &str, start_time: u64) -> Option<(u64, u64)> {
    // The command's name may hold anything: what follows starts after the last parenthesis, with field 3.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    (field(22)? == start_time).then_some(())?;
    Some((field(14)? + field(15)?, field(16)? + field(17)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_uses_something() {
        let figures = Figures::of(ProcessId::current()).unwrap();
        assert!(figures.resident_bytes > 100_000, "{figures:?}");
        assert!(figures.share_bytes > 0, "{figures:?}");
    }

    #[test]
    fn a_stranger_with_the_same_pid_is_not_counted() {
        let me = ProcessId::current();
        assert_eq!(Figures::of(ProcessId { start_time: me.start_time + 1, ..me }), None);
    }

    #[test]
    fn times_are_read_past_any_name() {
        let text = "42 (a) b) S 7 8 9 0 -1 4194560 1 2 3 4 50 6 70 8 20 0 1 0 98765 1 2 3";
        assert_eq!(times(text, 98765), Some((56, 78)));
        assert_eq!(times(text, 1), None);
        assert_eq!(times("", 1), None);
    }
}
