//! What the job uses, by the kernel's count where there is one.

use outlive_core::containment::Level;
use outlive_sys::cgroup::Group;
use outlive_sys::tree;

use super::Containment;

impl Containment {
    /// Returns how much memory the job uses: by the kernel's count, else by the shares of its processes. A value below
    /// `enough` may be too high.
    pub(crate) fn memory(&self, enough: u64) -> u64 {
        let counted = self.memory.as_ref().and_then(|group| {
            group.number("memory.current").or_else(|| group.number("memory.usage_in_bytes"))
        });
        counted.unwrap_or_else(|| {
            let members = self.members();
            let sum = |of: fn(i32) -> Option<u64>| {
                members.iter().filter_map(|member| of(member.id.pid)).sum::<u64>()
            };
            // The quick sum counts what is shared more than once; only when it says enough is it worth looking closer.
            let most = sum(tree::resident);
            if most < enough { most } else { sum(tree::memory) }
        })
    }

    /// Returns the most memory that it used, where the kernel counts that.
    pub(crate) fn memory_peak(&self) -> Option<u64> {
        self.counter(self.memory.as_ref())?.number(if self.counts_by_v2() {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        })
    }

    /// Returns how many processes there are.
    pub(crate) fn count(&self) -> u64 {
        let counted = self.pids.as_ref().and_then(|group| group.number("pids.current"));
        counted.unwrap_or_else(|| self.members().len() as u64)
    }

    /// Returns the most processes that there were, where the kernel counts that.
    pub(crate) fn count_peak(&self) -> Option<u64> {
        self.counter(self.pids.as_ref())?.number("pids.peak")
    }

    /// Returns the group that counts: the one that limits. In version 2 the tree's own group may count without a limit; where
    /// version 1 has the controllers it has no such files, and waiters are held up while they are looked for.
    fn counter<'a>(&'a self, limiter: Option<&'a Group>) -> Option<&'a Group> {
        limiter.or(self.group.as_ref().filter(|_| self.counts_by_v2()))
    }

    fn counts_by_v2(&self) -> bool {
        self.level == Level::Cgroup2
    }

    /// Returns the processor time of everything that was ever in it, in user mode and in the kernel, where that is counted.
    pub(crate) fn cpu_ms(&self) -> Option<(u64, u64)> {
        let group = self.group.as_ref()?;
        let [user, system] = group.entries("cpu.stat", ["user_usec", "system_usec"]);
        Some((user? / 1000, system? / 1000))
    }

    /// Returns how many of its processes the kernel ended for want of memory; none if it ended none, or does not count them.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let group = self.memory.as_ref()?;
        let killed = group
            .entry("memory.events", "oom_kill")
            .or_else(|| group.entry("memory.oom_control", "oom_kill"));
        killed.filter(|&count| count > 0)
    }
}
