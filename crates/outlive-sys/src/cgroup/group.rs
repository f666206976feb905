//! One group: making it, reading and writing its files, removing it.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{owner_of, parent_name, pid_namespace};
use crate::identity::ProcessId;

/// How long the freezer may take before what it holds is ended all the same.
const FREEZE_LIMIT: Duration = Duration::from_millis(50);

/// How long the freezer of version 1 may take before it is tried anew.
const FREEZE_AGAIN: Duration = Duration::from_millis(5);

/// A group that was made for one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group below `place`, for the job of the keeper with this identity: its name shows later whether that
    /// keeper still lives.
    ///
    /// # Errors
    ///
    /// If this user may not, or the kernel has no room.
    pub fn make(place: &Path, owner: ProcessId) -> io::Result<Self> {
        let named = Self::named(place, owner);
        let parent = place.join(parent_name());
        for _ in 0..100 {
            match fs::create_dir(&named.path) {
                Ok(()) => return Ok(named),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(named),
                // The parent was not made yet, or was just removed with its last group.
                Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::create_dir(&parent) {
                    Ok(()) => offer_controllers(place, &parent),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    /// Names the group that [`Group::make`] makes.
    pub fn named(place: &Path, owner: ProcessId) -> Self {
        let name = format!("job-{}-{}-{}", pid_namespace(0), owner.pid, owner.start_time);
        Self { path: place.join(parent_name()).join(name) }
    }

    /// Takes a group that was made before, by its directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Tells whether it was made for the job of this keeper: its name says so, and it is where this user's groups are.
    pub fn is_of(&self, owner: ProcessId, uid: u32) -> bool {
        let named = self.path.file_name().and_then(|name| owner_of(name.to_str()?));
        let parent = self.path.parent().and_then(Path::file_name);
        named == Some((pid_namespace(0), owner))
            && parent.is_some_and(|name| name.as_bytes() == format!("outlive-{uid}").as_bytes())
    }

    /// Returns its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory, to make a process in it.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub fn open(&self) -> io::Result<fs::File> {
        fs::File::open(&self.path)
    }

    /// Opens the file through which a process joins.
    ///
    /// # Errors
    ///
    /// If it is gone, or this user may not write to it.
    pub fn open_procs(&self) -> io::Result<fs::File> {
        fs::OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))
    }

    /// Tells whether it has a file of this name: whether a controller is there.
    pub fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Sets a value.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it.
    pub fn set(&self, name: &str, value: &str) -> io::Result<()> {
        // Not created: a controller that is not there must not look as if it were.
        let mut file = fs::OpenOptions::new().write(true).open(self.path.join(name))?;
        io::Write::write_all(&mut file, value.as_bytes())
    }

    /// Reads a file that holds one number.
    pub fn number(&self, name: &str) -> Option<u64> {
        fs::read_to_string(self.path.join(name)).ok()?.trim().parse().ok()
    }

    /// Reads one number of a file that holds a table of words and numbers.
    pub fn entry(&self, name: &str, key: &str) -> Option<u64> {
        let [entry] = self.entries(name, [key]);
        entry
    }

    /// Reads several numbers of such a file at one moment. For each look the kernel adds up what all processors have
    /// counted, which takes its time on a busy machine.
    pub fn entries<const N: usize>(&self, name: &str, keys: [&str; N]) -> [Option<u64>; N] {
        let mut bytes = [0; 1024];
        // One call: the kernel makes such a file as a whole, and it is short.
        let read = fs::File::open(self.path.join(name)).and_then(|mut file| file.read(&mut bytes));
        let Some(text) = read.ok().and_then(|count| std::str::from_utf8(bytes.get(..count)?).ok()) else {
            return [None; N];
        };
        let find = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(word, _)| *word == key)?.1.trim().parse().ok()
        };
        keys.map(find)
    }

    /// Lists the processes in it and in the groups below it.
    pub fn members(&self) -> HashSet<i32> {
        let mut found = HashSet::new();
        let mut open = vec![self.path.clone()];
        while let Some(path) = open.pop() {
            let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            // 0 is a process of another pid namespace, which has no number here.
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 0));
            open.extend(groups_below(&path));
        }
        found
    }

    /// Tells whether a process is in it or in a group below it, of whatever pid namespace.
    pub fn is_populated(&self) -> bool {
        match self.entry("cgroup.events", "populated") {
            Some(populated) => populated > 0,
            // Version 1 has only the lists.
            None => {
                let is_empty = |path: PathBuf| fs::read(path).is_ok_and(|list| list.is_empty());
                !is_empty(self.path.join("cgroup.procs"))
                    || groups_below(&self.path).any(|path| Self::at(path).is_populated())
            }
        }
    }

    /// Ends everything in it at once (version 2, Linux 5.14).
    ///
    /// # Errors
    ///
    /// If the kernel has no such thing.
    pub fn kill(&self) -> io::Result<()> {
        self.set("cgroup.kill", "1")
    }

    /// Stops everything in it where it is, or lets it go on; in version 2 the kernel does it in its own time.
    ///
    /// # Errors
    ///
    /// If there is no freezer.
    pub fn freeze(&self, is_frozen: bool) -> io::Result<()> {
        if self.has("cgroup.freeze") {
            return self.set("cgroup.freeze", if is_frozen { "1" } else { "0" });
        }
        self.set("freezer.state", if is_frozen { "FROZEN" } else { "THAWED" })
    }

    /// Waits a moment until everything in it has stopped; `false` if it has not.
    pub fn wait_frozen(&self) -> bool {
        let deadline = Instant::now() + FREEZE_LIMIT;
        let is_v2 = self.has("cgroup.events");
        let mut again = Instant::now() + FREEZE_AGAIN;
        loop {
            let is_frozen = if is_v2 {
                self.entry("cgroup.events", "frozen") == Some(1)
            } else {
                fs::read_to_string(self.path.join("freezer.state"))
                    .is_ok_and(|state| state.trim() == "FROZEN")
            };
            if is_frozen || Instant::now() >= deadline {
                return is_frozen;
            }
            // Version 1 may wait for ever for a process that waits for a child which is frozen already. Thawing for a moment
            // lets it go on.
            if !is_v2 && Instant::now() >= again {
                self.freeze(false).and_then(|()| self.freeze(true)).ok();
                again = Instant::now() + FREEZE_AGAIN;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Removes it with the groups below it; `false` if something is still in it. The group that it is in stays, for the next one:
    /// to make it takes as long as to make this one.
    pub fn remove(&self) -> bool {
        remove_below(&self.path)
    }
}

/// Lets the groups to be made have the controllers that limit (version 2), as far as this user may and the kernel can.
fn offer_controllers(place: &Path, parent: &Path) {
    for group in [place, parent] {
        let group = Group::at(group);
        for controller in ["+memory", "+pids", "+cpu"] {
            group.set("cgroup.subtree_control", controller).ok();
        }
    }
}

pub(super) fn groups_below(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn remove_below(path: &Path) -> bool {
    match fs::remove_dir(path) {
        Ok(()) => return true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
        Err(_) => {}
    }
    groups_below(path).for_each(|below| {
        remove_below(&below);
    });
    fs::remove_dir(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner() {
        let owner = ProcessId { pid: 42, start_time: 777 };
        assert_eq!(owner_of("job-7-42-777"), Some((7, owner)));
        for name in ["keepers", "job-", "job-1", "job-7-1", "job-7-a-b", "job-7-42-777-1", "7-42-777"] {
            assert_eq!(owner_of(name), None, "{name}");
        }
        let is_of = |path: &str, uid| Group::at(path).is_of(owner, uid);
        let place = "/sys/fs/cgroup/outlive-0";
        let here = pid_namespace(0);
        assert!(is_of(&format!("{place}/job-{here}-42-777"), 0));
        let others = [
            format!("{place}/job-{here}-42-778"),
            format!("{place}/job-{}-42-777", here + 1),
            format!("/sys/fs/cgroup/job-{here}-42-777"),
            "/".to_owned(),
            String::new(),
        ];
        for path in &others {
            assert!(!is_of(path, 0), "{path}");
        }
        assert!(!is_of("/sys/fs/cgroup/outlive-0/job-42-777", 1));
    }
}
