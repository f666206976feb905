//! How a job's processes are held together, what they may use, and what happens to those that outlive the main one.

use serde::{Deserialize, Serialize};

use crate::newer::OrNewer;

words! {
    /// What holds a job's tree together, the best first.
    #[derive(PartialOrd, Ord)]
    pub enum Level {
        /// A control group of version 2, limits too.
        Cgroup2 = "cgroup2",
        /// A control group of version 2 holds the tree, and controllers of version 1 limit it.
        Hybrid = "hybrid",
        /// The freezer of version 1 holds the tree.
        Freezer = "freezer",
        /// The keeper adopts orphans, and looks for processes below itself.
        Sweep = "sweep",
        /// The process group; a process that leaves it is not reached.
        Group = "group",
    }
}

/// What holds one job together; written by its keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    /// The means.
    pub level: OrNewer<Level>,
    /// The directory of the control group that holds the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The directory of the one that counts its memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_group: Option<String>,
    /// The directory of the one that counts its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids_group: Option<String>,
    /// The directory of the one that limits its processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_group: Option<String>,
}

words! {
    /// How a limit is kept on this machine.
    pub enum Enforcement {
        /// By the kernel, at every moment.
        Enforced = "enforced",
        /// By the keeper, which measures at intervals and ends a job that is over it.
        Polled = "polled",
        /// Not at all.
        None = "none",
    }
}

/// How each limit that was asked for is kept; what was not asked for is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Enforcement>,
    /// Processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<Enforcement>,
    /// Processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Enforcement>,
    /// Open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<Enforcement>,
}

/// What happens to processes that outlive the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Survivors {
    /// They continue, and the job lingers.
    #[default]
    Keep,
    /// They are ended as by `kill`, after this time.
    KillAfter {
        /// How long they have before they are asked to end.
        ms: u64,
    },
}

/// A limit is near when this share of it is used.
pub const NEAR_PERCENT: u64 = 80;

/// Tells whether enough of a limit is used for a warning.
pub fn is_near(used: u64, limit: u64) -> bool {
    u128::from(used) * 100 >= u128::from(limit) * u128::from(NEAR_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for level in Level::ALL {
            assert_eq!(Level::parse(level.word()), Some(level));
        }
        assert_eq!(Level::parse("cgroup"), None);
    }

    #[test]
    fn near_is_four_fifths() {
        assert!(!is_near(79, 100));
        assert!(is_near(80, 100));
        assert!(is_near(u64::MAX, u64::MAX));
    }
}
