//! Control groups: a named set of processes that none of them can leave by forking.
//!
//! Where they are mounted and where this program stands in them is read from `/proc/self/mountinfo` and `/proc/self/cgroup`;
//! nothing is assumed. Groups are made below the place where this program stands, never elsewhere: limits that
//! are set for it go on to hold.
//!
//! To put a running process into a group takes milliseconds, because the kernel waits until no processor can be forking.
//! To make a process in a group takes nothing extra ([`crate::spawn`]), but only version 2 has that.

mod group;
mod hierarchies;

use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::identity::ProcessId;
use crate::socket::own_uid;

pub use group::Group;
use group::groups_below;
pub use hierarchies::{CONTROLLERS, Hierarchies};

/// The name of the group in which this user's groups are.
fn parent_name() -> String {
    format!("outlive-{}", own_uid())
}

/// The group of keepers that were started from inside a job.
const KEEPERS: &str = "keepers";

/// Moves this program out of the groups of a job that it was started from, into the one for keepers: it is no part of that
/// job. Takes milliseconds.
pub fn leave_job(hierarchies: &Hierarchies) {
    for place in &hierarchies.in_job {
        let path = place.join(parent_name()).join(KEEPERS);
        fs::create_dir(&path).ok();
        // Where it may not, it stays, and ends with that job.
        Group::at(path).set("cgroup.procs", "0").ok();
    }
}

/// Moves this program, which is about to end, out of the group for keepers, so that the group can go with it.
pub fn leave_keepers(hierarchies: &Hierarchies) {
    for place in &hierarchies.in_job {
        let parent = place.join(parent_name());
        // Where it may not stand, the empty group stays until the next one is removed.
        Group::at(place).set("cgroup.procs", "0").ok();
        fs::remove_dir(parent.join(KEEPERS)).ok();
        fs::remove_dir(parent).ok();
    }
}

/// Tells whether a process stands in the group of a job, and in another one than this.
pub fn is_in_other_job(pid: i32, group: &Group) -> bool {
    let Some(own) = group.path().file_name() else { return false };
    let text = fs::read(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let parent_name = parent_name();
    text.split(|&byte| byte == b'\n').any(|line| {
        let mut parts =
            line.split(|&byte| byte == b'/').skip_while(|part| *part != parent_name.as_bytes()).skip(1);
        parts.next().is_some_and(|name| name.starts_with(b"job-") && name != own.as_bytes())
    })
}

/// Removes groups of jobs whose keepers are gone, if nothing is in them.
pub fn sweep(hierarchies: &Hierarchies) {
    for place in hierarchies.unified.iter().chain(hierarchies.v1.iter().flatten()) {
        let parent = place.join(parent_name());
        for path in groups_below(&parent) {
            let owner = path.file_name().and_then(|name| owner_of(name.to_str()?, pid_namespace()));
            if owner.is_some_and(|owner| !owner.is_alive()) {
                Group::at(path).remove();
            }
        }
        fs::remove_dir(parent.join(KEEPERS)).ok();
        fs::remove_dir(parent).ok();
    }
}

/// Returns the keeper whose group has this name, if it is of this pid namespace: pids of another one mean nothing here.
fn owner_of(name: &str, pid_namespace: u64) -> Option<ProcessId> {
    let (namespace, owner) = name.strip_prefix("job-")?.split_once('-')?;
    let (pid, start_time) = owner.split_once('-').filter(|_| namespace.parse() == Ok(pid_namespace))?;
    Some(ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

/// Returns the number of this program's pid namespace.
fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.ino())
}
