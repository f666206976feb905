//! Resource use of a job: from its control groups if it has any, else from its processes; after the end, from its outcome.

use std::fs;
use std::path::Path;

use outlive_core::containment::{Containment, is_near};
use outlive_core::duration::format_size;
use outlive_core::outcome::Cause;
use outlive_sys::figures::Figures;
use serde::Serialize;

use crate::control::tree::Tree;
use crate::job::Job;
use crate::job::state::State;

/// Origin of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Source {
    /// The kernel's count for the whole job, complete.
    Cgroup,
    /// The sum over its processes; processes that ended unobserved are missing.
    Tree,
    /// The record of the ended job.
    Outcome,
}

/// Resource use of a job. Unknown is none, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    /// Processor time since the start.
    pub cpu_ms: Option<u64>,
    /// Current memory of all its processes together.
    pub memory_bytes: Option<u64>,
    /// Highest `memory_bytes`, if a control group counts it.
    pub memory_peak_bytes: Option<u64>,
    /// Current number of processes.
    pub processes: Option<u64>,
    /// Highest number of processes and threads, if a control group counts them.
    pub processes_peak: Option<u64>,
    /// Highest resident memory of a single process; known after the end.
    pub max_rss_bytes: Option<u64>,
    /// Origin of both processor time and memory.
    pub source: Option<Source>,
}

impl Job {
    /// Returns the job's resource use; `tree` is the result of [`Job::tree`].
    pub fn usage(&self, state: &State, tree: Option<&Tree>) -> Usage {
        match &state.outcome {
            _ if state.is_live() => tree.map(|tree| now(tree, containment(state))).unwrap_or_default(),
            // A lost job has no record of its use.
            Some(outcome) if !matches!(outcome.cause, Cause::Lost { .. }) => {
                // The closed record includes processes that survived the main process.
                let used = state.closed.and_then(|closed| closed.usage).or(outcome.usage);
                Usage {
                    cpu_ms: used.map(|used| used.user_ms + used.system_ms),
                    memory_bytes: tree.map(|_| 0),
                    memory_peak_bytes: used.and_then(|used| used.memory_peak_bytes),
                    processes: tree.map(|_| 0),
                    processes_peak: used.and_then(|used| used.pids_peak),
                    max_rss_bytes: used.map(|used| used.max_rss_bytes),
                    source: Some(Source::Outcome),
                }
            }
            _ => Usage::default(),
        }
    }

    /// Returns a sentence for each limit that is or was nearly reached.
    pub fn warnings(&self, state: &State, usage: &Usage) -> Vec<String> {
        let limits = &self.spec().options.limits;
        let mut warnings = Vec::new();
        let job = self.id();
        let near = state.meta.as_ref().and_then(|meta| meta.near.as_ref());
        let was_near = |limit: &str| near.filter(|near| near.limit == limit).map(|near| near.at);
        if let Some(limit) = limits.memory_bytes {
            let used = usage.memory_bytes.filter(|&used| is_near(used, limit)).map(format_size);
            let limit = format_size(limit);
            let before =
                || Some(format!("{job} came near its limit of {limit} of memory at {}", was_near("memory")?));
            let now = used.map(|used| format!("{job} uses {used} of memory, and its limit is {limit}"));
            warnings.extend(now.or_else(before));
        }
        if let Some(limit) = limits.pids {
            // The limit counts threads, too, and so does the kernel's figure.
            let groups = containment(state).filter(|_| state.is_live());
            let tasks = groups.and_then(|groups| number(groups.pids_group.as_deref()?, "pids.current"));
            let used = tasks.or(usage.processes).filter(|&used| is_near(used, limit));
            let before =
                || Some(format!("{job} came near its limit of {limit} processes at {}", was_near("pids")?));
            let now = used.map(|used| format!("{job} has {used} processes, and its limit is {limit}"));
            warnings.extend(now.or_else(before));
        }
        warnings
    }
}

impl std::ops::AddAssign for Usage {
    /// Adds the known figures. Peaks of several jobs were at different times, and have no sum.
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut Option<u64>, more: Option<u64>| {
            *sum = more.map_or(*sum, |more| Some(sum.unwrap_or(0).saturating_add(more)));
        };
        add(&mut self.cpu_ms, other.cpu_ms);
        add(&mut self.memory_bytes, other.memory_bytes);
        add(&mut self.processes, other.processes);
        (self.memory_peak_bytes, self.processes_peak, self.max_rss_bytes) = (None, None, None);
        self.source = None;
    }
}

fn containment(state: &State) -> Option<&Containment> {
    state.meta.as_ref()?.containment.as_ref()
}

/// Measures a live job.
fn now(tree: &Tree, groups: Option<&Containment>) -> Usage {
    let memory_group = groups.and_then(|groups| groups.memory_group.as_deref());
    let pids_group = groups.and_then(|groups| groups.pids_group.as_deref());
    let cpu = groups.and_then(group_cpu_ms);
    let memory = first_number(memory_group, ["memory.current", "memory.usage_in_bytes"]);
    let counted = tree.members.iter().filter_map(|member| Figures::of(member.id));
    let (mut tree_cpu, mut tree_memory) = (0, 0);
    if cpu.is_none() || memory.is_none() {
        for figures in counted {
            tree_cpu += figures.cpu_ms + figures.children_cpu_ms;
            tree_memory += figures.share_bytes;
        }
        // The keeper reaps processes whose parent did not.
        let reaped = tree.keeper.and_then(Figures::of).map(|keeper| keeper.children_cpu_ms);
        tree_cpu += reaped.unwrap_or(0);
    }
    Usage {
        cpu_ms: Some(cpu.unwrap_or(tree_cpu)),
        memory_bytes: Some(memory.unwrap_or(tree_memory)),
        memory_peak_bytes: first_number(memory_group, ["memory.peak", "memory.max_usage_in_bytes"]),
        processes: Some(tree.len() as u64),
        processes_peak: pids_group.and_then(|group| number(group, "pids.peak")),
        max_rss_bytes: None,
        source: Some(if cpu.is_some() && memory.is_some() { Source::Cgroup } else { Source::Tree }),
    }
}

fn group_cpu_ms(groups: &Containment) -> Option<u64> {
    let of_version_2 = || {
        let text = fs::read_to_string(Path::new(groups.group.as_deref()?).join("cpu.stat")).ok()?;
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(micros.trim().parse::<u64>().ok()? / 1000)
    };
    let of_version_1 =
        || number(groups.cpu_group.as_deref()?, "cpuacct.usage").map(|nanos| nanos / 1_000_000);
    of_version_2().or_else(of_version_1)
}

/// Reads a number that has one file name in version 2 of control groups and another in version 1.
fn first_number(group: Option<&str>, names: [&str; 2]) -> Option<u64> {
    names.into_iter().find_map(|name| number(group?, name))
}

/// Reads a control group's file with a single number.
fn number(group: &str, name: &str) -> Option<u64> {
    fs::read_to_string(Path::new(group).join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive_core::containment::Level;
    use outlive_sys::identity::ProcessId;
    use outlive_sys::tree::Member;

    fn own_tree() -> Tree {
        let member = Member { id: ProcessId::current(), parent: 1, state: 'R' };
        Tree { members: vec![member], keeper: None }
    }

    fn groups(path: &Path) -> Containment {
        let path = Some(path.to_str().unwrap().to_owned());
        Containment {
            level: Level::Cgroup2.into(),
            group: path.clone(),
            memory_group: path.clone(),
            pids_group: path.clone(),
            cpu_group: path,
        }
    }

    #[test]
    fn both_versions_of_control_groups_are_read() {
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        write("cpu.stat", "usage_usec 1234567\nuser_usec 1\n");
        write("memory.current", "4096\n");
        write("memory.peak", "8192\n");
        let usage = now(&own_tree(), Some(&groups(group.path())));
        assert_eq!((usage.cpu_ms, usage.memory_bytes), (Some(1234), Some(4096)));
        assert_eq!((usage.memory_peak_bytes, usage.source), (Some(8192), Some(Source::Cgroup)));
        assert_eq!((usage.processes, usage.processes_peak), (Some(1), None));

        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(group.path().join(name), text).unwrap();
        write("cpu.stat", "nr_periods 0\n");
        write("cpuacct.usage", "5000000\n");
        write("memory.usage_in_bytes", "4096\n");
        write("memory.max_usage_in_bytes", "12288\n");
        let usage = now(&own_tree(), Some(&groups(group.path())));
        assert_eq!((usage.cpu_ms, usage.memory_bytes), (Some(5), Some(4096)));
        assert_eq!((usage.memory_peak_bytes, usage.source), (Some(12288), Some(Source::Cgroup)));
    }

    #[test]
    fn without_groups_processes_are_counted() {
        let gone = tempfile::tempdir().unwrap();
        for groups in [None, Some(groups(gone.path()))] {
            let usage = now(&own_tree(), groups.as_ref());
            assert!(usage.memory_bytes.unwrap() > 0, "{usage:?}");
            assert_eq!((usage.memory_peak_bytes, usage.source), (None, Some(Source::Tree)));
        }
    }

    #[test]
    fn sums_have_what_is_known() {
        let mut sum = Usage::default();
        sum += Usage::default();
        assert_eq!(sum.cpu_ms, None, "nothing is not 0");
        sum += Usage { cpu_ms: Some(2), memory_peak_bytes: Some(9), ..Usage::default() };
        sum += Usage { cpu_ms: Some(3), processes: Some(1), ..Usage::default() };
        assert_eq!((sum.cpu_ms, sum.processes, sum.memory_peak_bytes), (Some(5), Some(1), None));
    }
}
