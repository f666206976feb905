//! The snapshot for people and tools: `meta.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::awaits::Awaited;
use crate::containment::{Containment, Kept};
use crate::control::Versions;
use crate::id::{JobId, Nonce};
use crate::newer::{self, OrNewer};
use crate::outcome::{Closed, Outcome};
use crate::spec::Process;
use crate::status::Status;
use crate::timestamp::Timestamp;

/// What is known of a job that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// [`crate::FORMAT`], or that of a later version.
    pub format: u32,
    /// The id.
    pub job: JobId,
    /// As in the spec.
    pub nonce: Nonce,
    /// The word at the time of writing.
    pub status: OrNewer<Status>,
    /// The keeper; none in a snapshot that no keeper wrote.
    pub keeper: Option<Process>,
    /// The process that goes on if the keeper dies; none of a keeper that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guard: Option<Process>,
    /// The process that the control groups are named after; none: the keeper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Process>,
    /// The command as people read it: the line of a shell, else all arguments; its first KiB. None of a version before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// The main process; none if the command was never executed.
    pub command: Option<Process>,
    /// When it was started.
    #[serde(rename = "started_us")]
    pub started: Option<Timestamp>,
    /// The same by the boot clock.
    pub started_boot_us: Option<u64>,
    /// The versions of the control protocol that the keeper speaks.
    pub protocol: Versions,
    /// The version of outlive that the keeper is of; none of one that cannot be upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlive: Option<String>,
    /// What holds its processes together.
    #[serde(default)]
    pub containment: Option<Containment>,
    /// How each of its limits is enforced.
    #[serde(default)]
    pub kept: OrNewer<Kept>,
    /// Whether it is paused.
    #[serde(default)]
    pub paused: bool,
    /// The line or password that it waits for, while it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<OrNewer<Awaited>>,
    /// It has said on its socket that it is ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notified: bool,
    /// Its timeout was lifted: that of the spec no longer counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// The first limit that was nearly reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<Near>,
    /// When the keeper saw that a process of it was ended for want of memory.
    #[serde(default, rename = "out_of_memory_us", skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// When its last process was gone.
    pub closed: Option<Closed>,
    /// Fields that a later version added, kept for when this one writes the file again.
    #[serde(flatten)]
    pub newer: BTreeMap<String, serde_json::Value>,
}

/// A limit that was nearly reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Near {
    /// `memory` or `pids`.
    pub limit: String,
    /// When the keeper saw it.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
}

impl Meta {
    /// Reads the contents of `meta.json`, as far as they are understood; `None` if they are damaged or of another job.
    pub fn parse(nonce: Nonce, bytes: &[u8]) -> Option<Self> {
        let meta = serde_json::from_slice(bytes).ok().or_else(|| Self::of_later_format(bytes));
        meta.filter(|meta: &Self| meta.format >= crate::FORMAT && meta.nonce == nonce)
    }

    fn of_later_format(bytes: &[u8]) -> Option<Self> {
        let others = serde_json::json!({
            "status": null, "keeper": null, "command": null, "started_us": null, "started_boot_us": null,
            "protocol": { "min": 0, "max": 0 }, "outcome": null, "closed": null,
        });
        let (meta, _): (Self, _) = newer::understood(bytes, &["format", "job", "nonce"], others)?;
        (meta.format > crate::FORMAT).then_some(meta)
    }

    /// Returns the names of the fields that only a later version understands.
    pub fn newer(&self) -> Vec<&'static str> {
        let contained = self.containment.as_ref();
        let fields = [
            ("snapshot", self.format > crate::FORMAT),
            ("status", self.status.is_newer()),
            ("containment", contained.is_some_and(|containment| containment.level.is_newer())),
            ("kept", self.kept.is_newer()),
            ("awaits", self.awaits.as_ref().is_some_and(OrNewer::is_newer)),
        ];
        fields.into_iter().filter_map(|(name, is_newer)| is_newer.then_some(name)).collect()
    }

    /// Returns the contents of `meta.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a snapshot has only string keys and finite numbers");
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written() -> serde_json::Value {
        serde_json::json!({
            "format": 1, "job": "a-1", "nonce": "00".repeat(16), "status": "running", "keeper": { "pid": 1, "start_time": 2 },
            "command": { "pid": 3, "start_time": 4 }, "started_us": 5, "started_boot_us": 6,
            "protocol": { "min": 1, "max": 1 }, "containment": { "level": "sweep" }, "kept": { "memory": "polled" },
            "paused": false, "awaits": { "kind": "line", "known": "kernel", "since_us": 7 }, "outcome": null, "closed": null,
        })
    }

    fn parse(value: &serde_json::Value) -> Option<Meta> {
        Meta::parse(Nonce([0; 16]), &serde_json::to_vec(value).unwrap())
    }

    proptest! {
        #[test]
        fn what_a_later_version_wrote_comes_back(
            place in prop::sample::select(vec!["/status", "/containment/level", "/kept/memory", "/awaits/kind", "/added"]),
            value in newer::tests::values(),
        ) {
            let mut later = written();
            later["added"] = serde_json::Value::Null;
            *later.pointer_mut(place).unwrap() = value;
            let meta = parse(&later).unwrap();
            prop_assert_eq!(meta.newer().len(), usize::from(place != "/added"));
            prop_assert_eq!(meta.command.unwrap().pid, 3);
            let again: serde_json::Value = serde_json::from_slice(&meta.to_bytes()).unwrap();
            prop_assert_eq!(again, later);
        }
    }

    #[test]
    fn a_later_format_is_read_as_far_as_it_is_understood() {
        let mut later = written();
        (later["format"], later["protocol"], later["keeper"]) = (2.into(), "quic".into(), 9.into());
        let meta = parse(&later).unwrap();
        assert_eq!((meta.newer(), meta.command.unwrap().pid), (vec!["snapshot"], 3));
        later["format"] = 1.into();
        assert_eq!(parse(&later), None, "this format has no such snapshot: it is damaged");
    }
}
