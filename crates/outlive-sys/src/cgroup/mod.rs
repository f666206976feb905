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

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::identity::ProcessId;
use crate::socket::own_uid;
use crate::tree;

pub use group::Group;
use group::groups_below;
pub use hierarchies::{CONTROLLERS, Hierarchies};

/// The name of the group in which this user's groups are.
fn parent_name() -> String {
    format!("outlive-{}", own_uid())
}

/// Older groups of other pid namespaces that are empty are left from a container that is gone.
const STALE: Duration = Duration::from_secs(3600);

/// The group of keepers that were started from inside a job.
const KEEPERS: &str = "keepers";

/// How often the group for keepers is made anew that others remove: each time another keeper has come and gone.
const ENTER_ATTEMPTS: usize = 1000;

/// Moves this program out of the groups of a job that it was started from, into the one for keepers: it is no part of that
/// job. Takes milliseconds.
pub fn leave_job(hierarchies: &Hierarchies) {
    for place in &hierarchies.in_job {
        let path = place.join(parent_name()).join(KEEPERS);
        for _ in 0..ENTER_ATTEMPTS {
            fs::create_dir_all(&path).ok();
            // Where it may not, it stays, and ends with that job.
            let entered = Group::at(path.clone()).set("cgroup.procs", "0");
            let is_gone =
                |error: io::Error| matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV));
            // The last keeper in it has removed it between the two steps.
            if !entered.is_err_and(is_gone) {
                break;
            }
        }
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

/// Removes groups of jobs whose keepers are gone, if nothing is in them. A keeper of another pid namespace is gone if no process
/// of that namespace can be seen, and its group is empty for so long that the keeper cannot just have made it: the keeper may be
/// in a namespace that is not below this one.
pub fn sweep(hierarchies: &Hierarchies) {
    // All processes are looked at only if there is such a group.
    let mut seen: Option<HashSet<u64>> = None;
    for place in hierarchies.unified.iter().chain(hierarchies.v1.iter().flatten()) {
        let parent = place.join(parent_name());
        for path in groups_below(&parent) {
            let owner = path.file_name().and_then(|name| owner_of(name.to_str()?));
            let is_gone = owner.is_some_and(|(namespace, owner)| match namespace == pid_namespace(0) {
                true => !owner.is_alive(),
                false => is_stale(&path) && !seen.get_or_insert_with(pid_namespaces).contains(&namespace),
            });
            let group = Group::at(path);
            if is_gone && !group.is_populated() {
                group.remove();
            }
        }
        fs::remove_dir(parent.join(KEEPERS)).ok();
        fs::remove_dir(parent).ok();
    }
}

/// Returns the keeper whose group has this name, and its pid namespace: in another one its pid means nothing.
fn owner_of(name: &str) -> Option<(u64, ProcessId)> {
    let mut parts = name.strip_prefix("job-")?.split('-').map(|part| part.parse::<u64>().ok());
    let (namespace, pid, start_time) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some((namespace, ProcessId { pid: i32::try_from(pid).ok()?, start_time }))
}

/// Returns the number of a process's pid namespace, where this program may know it; 0 stands for this program.
fn pid_namespace(pid: i32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let process = if pid == 0 { "self".to_owned() } else { pid.to_string() };
    fs::metadata(format!("/proc/{process}/ns/pid")).map_or(0, |data| data.ino())
}

fn pid_namespaces() -> HashSet<u64> {
    tree::all_pids().into_iter().map(pid_namespace).collect()
}

fn is_stale(path: &Path) -> bool {
    let made = fs::metadata(path).and_then(|data| data.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age >= STALE))
}
