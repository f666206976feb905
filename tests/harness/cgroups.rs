//! The control groups of outlive on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How deep below a mount they are looked for: a session, a service and a container may lie above ours.
const DEPTH: usize = 8;

/// Lists the directories of control groups below those that are named as outlive names them, in every hierarchy that is mounted.
pub fn cgroups() -> BTreeSet<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let places = mounts.lines().filter_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        back.starts_with("cgroup").then(|| front.split(' ').nth(4)).flatten()
    });
    let mut found = BTreeSet::new();
    for place in places {
        collect(Path::new(place), DEPTH, false, &mut found);
    }
    found
}

fn collect(directory: &Path, depth: usize, is_ours: bool, found: &mut BTreeSet<PathBuf>) {
    // A group that goes away meanwhile does not matter.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        // The parent of the jobs' groups stays for the next job.
        if is_ours {
            found.insert(path.clone());
        }
        let is_ours = is_ours || entry.file_name().as_encoded_bytes().starts_with(b"outlive");
        if depth > 0 {
            collect(&path, depth - 1, is_ours, found);
        }
    }
}
