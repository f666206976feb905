//! What this kernel can do of what outlive makes use of, found out by trying wherever that is possible.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::cgroup::{Group, Hierarchies};
use crate::identity::{Handle, ProcessId};
use crate::watch::Watch;
use crate::{clock, exit};

/// One thing that a kernel has or has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// A stable word.
    pub name: &'static str,
    /// This kernel has it, and this user may use it.
    pub is_there: bool,
    /// What is so where it is missing.
    pub without: &'static str,
}

/// Returns the kernel's release.
pub fn kernel() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// Returns how many files a process may open: now, and at most.
pub fn open_files() -> (Option<u64>, Option<u64>) {
    let limit = getrlimit(Resource::Nofile);
    (limit.current, limit.maximum)
}

/// Tells what there is. `directory` is one that may be watched.
pub fn probe(directory: &Path) -> Vec<Feature> {
    let is_since = |release: (u32, u32)| exit::release().is_some_and(|own| own >= release);
    let hierarchies = Hierarchies::discover();
    let me = ProcessId::current();
    let group = hierarchies.best_place().and_then(|place| Group::make(place, me).ok());
    let has_kill = group.as_ref().is_some_and(|group| group.has("cgroup.kill"));
    let has_group = group.is_some();
    if let Some(group) = group {
        group.remove();
    }
    let has_children = fs::exists(format!("/proc/{0}/task/{0}/children", me.pid)).unwrap_or(false);
    let feature = |name, is_there, without| Feature { name, is_there, without };
    vec![
        feature("pidfd", Handle::open(me).is_some(), "nothing can be signalled safely: kill does not work"),
        feature(
            "pidfd_exit",
            exit::can_tell(),
            "the exit status of a job whose keeper died is mostly unknown",
        ),
        feature(
            "pidfd_group",
            is_since((6, 9)),
            "a sweep cannot end a process group at once, and goes round more often",
        ),
        feature("cgroup2", has_group, "no control group of version 2 holds a job together"),
        feature("cgroup_kill", has_kill, "a control group is frozen and ended process by process"),
        feature(
            "clone_into_cgroup",
            has_group && is_since((5, 7)),
            "a command joins its control group before it is executed, which takes milliseconds",
        ),
        feature("proc_children", has_children, "all processes are looked at to find those of one job"),
        feature(
            "inotify",
            Watch::new(directory).is_pushed(),
            "the allowance of watches is used up: output is followed by looking ten times a second",
        ),
        feature(
            "boot_timer",
            clock::Alarm::at(u64::MAX / 2).is_ok(),
            "deadlines stand still while the machine sleeps",
        ),
    ]
}

/// Returns what the user's allowance of watches is: how many watchers, and how many watches.
pub fn watch_allowance() -> (Option<u64>, Option<u64>) {
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?.trim().parse::<u64>().ok()
    };
    (read("max_user_instances"), read("max_user_watches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name_of_its_own_and_a_consequence() {
        let directory = tempfile::tempdir().unwrap();
        let features = probe(directory.path());
        let names: std::collections::HashSet<_> = features.iter().map(|feature| feature.name).collect();
        assert_eq!(names.len(), features.len());
        assert!(features.iter().all(|feature| !feature.without.is_empty()));
        assert!(features.iter().any(|feature| feature.name == "pidfd" && feature.is_there));
        assert!(!kernel().is_empty());
    }
}
