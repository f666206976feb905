//! Control groups: a named set of processes that none of them can leave by forking.
//!
//! Where they are mounted and where this program stands in them is read from `/proc/self/mountinfo` and `/proc/self/cgroup`;
//! nothing is assumed. Groups are made below the place where this program stands, never elsewhere: whatever limits
//! somebody set for it go on to hold.
//!
//! To put a running process into a group takes milliseconds, because the kernel waits until no processor can be forking.
//! To make a process in a group takes nothing extra ([`crate::spawn`]), but only version 2 has that.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::region::Region;
use crate::socket::own_uid;

/// The controllers of version 1 that are of use here.
pub const CONTROLLERS: [&str; 4] = ["freezer", "memory", "pids", "cpu"];

/// How long the freezer may take before what it holds is ended all the same.
const FREEZE_LIMIT: Duration = Duration::from_millis(50);

/// How long the freezer of version 1 may take before it is tried anew.
const FREEZE_AGAIN: Duration = Duration::from_millis(5);

/// Where this program stands in the hierarchies of this machine: absolute directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hierarchies {
    /// In the one of version 2.
    pub unified: Option<PathBuf>,
    /// Where that one is mounted.
    unified_top: PathBuf,
    /// In those of version 1, as [`CONTROLLERS`] lists them.
    pub v1: [Option<PathBuf>; CONTROLLERS.len()],
    /// Those of all these in which this program stands in the group of a job.
    in_job: Vec<PathBuf>,
}

impl Hierarchies {
    /// Finds out.
    pub fn discover() -> Self {
        let (mounts, own) = (read_proc("/proc/self/mountinfo"), read_proc("/proc/self/cgroup"));
        Self::parse(text_of(&mounts), text_of(&own), &parent_name())
    }

    /// Returns where this program stands in the hierarchy of a controller of version 1.
    pub fn of(&self, controller: &str) -> Option<&Path> {
        let at = CONTROLLERS.iter().position(|known| *known == controller)?;
        self.v1[at].as_deref()
    }

    /// Returns where in version 2 a job's group is best made: the nearest place from here upwards that this user may use and
    /// whose groups have the memory controller; else right here. A group with processes of its own cannot pass
    /// controllers on, so the place where a program stands rarely has them.
    pub fn best_place(&self) -> Option<&Path> {
        let here = self.unified.as_deref()?;
        let limits = |place: &Path| {
            fs::read_to_string(place.join("cgroup.subtree_control")).is_ok_and(|list| list.contains("memory"))
        };
        let may_use =
            |place: &Path| fs::OpenOptions::new().write(true).open(place.join("cgroup.procs")).is_ok();
        let mut upwards = here.ancestors().take_while(|place| place.starts_with(&self.unified_top));
        upwards.find(|place| limits(place) && may_use(place)).or(Some(here))
    }

    /// Tells whether version 2 is all there is.
    pub fn is_pure_v2(&self) -> bool {
        self.unified.is_some() && self.v1.iter().all(Option::is_none)
    }

    /// Moves this program into a group of its own below the scope that it was just given, so that the scope can pass its
    /// controllers on to the job's group beside it.
    pub fn settle_in_scope(&self) {
        let Some(scope) = &self.unified else { return };
        let own = scope.join("keeper");
        fs::create_dir(&own).ok();
        Group { path: own }.set("cgroup.procs", "0").ok();
    }

    /// Tells whether this program stands in the group of a job.
    pub fn is_in_job(&self) -> bool {
        !self.in_job.is_empty()
    }

    fn parse(mounts: &[u8], own: &[u8], parent_name: &str) -> Self {
        let mut found = Self::default();
        let own: Vec<(&str, &[u8])> = own
            .split(|&byte| byte == b'\n')
            .filter_map(|line| {
                let mut fields = line.splitn(3, |&byte| byte == b':');
                let (_, controllers) = (fields.next()?, fields.next()?);
                Some((std::str::from_utf8(controllers).ok()?, fields.next()?))
            })
            .collect();
        for line in mounts.split(|&byte| byte == b'\n') {
            let Some(mount) = Mount::parse(line) else { continue };
            let mut stands = |path: &[u8]| {
                let (place, is_in_job) = mount.place_of(path, parent_name)?;
                if is_in_job && !found.in_job.contains(&place) {
                    found.in_job.push(place.clone());
                }
                Some(place)
            };
            if mount.kind == b"cgroup2" {
                let path = own.iter().find(|(controllers, _)| controllers.is_empty());
                if let Some(place) = path.and_then(|(_, path)| stands(path))
                    && found.unified.is_none()
                {
                    found.unified = Some(place);
                    found.unified_top = PathBuf::from(std::ffi::OsStr::from_bytes(&mount.point));
                }
            } else if mount.kind == b"cgroup" {
                let has = |list: &[u8], name: &str| {
                    list.split(|&byte| byte == b',').any(|one| one == name.as_bytes())
                };
                for (at, name) in CONTROLLERS.iter().enumerate().filter(|(_, name)| has(mount.options, name))
                {
                    let path = own.iter().find(|(controllers, _)| has(controllers.as_bytes(), name));
                    if let Some(place) = path.and_then(|(_, path)| stands(path)) {
                        found.v1[at].get_or_insert(place);
                    }
                }
            }
        }
        found
    }
}

/// One line of `mountinfo`.
struct Mount<'a> {
    root: Vec<u8>,
    point: Vec<u8>,
    kind: &'a [u8],
    options: &'a [u8],
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|&byte| byte == b' ');
        let (root, point) = (fields.nth(3)?, fields.next()?);
        // Optional fields follow, up to a lone dash.
        let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
        let (kind, options) = (rest.next()?, rest.nth(1)?);
        matches!(kind, b"cgroup" | b"cgroup2").then(|| Self {
            root: unescape(root),
            point: unescape(point),
            kind,
            options,
        })
    }

    /// Returns the directory for a path in this hierarchy, outside of any job's group, and whether the path was in one.
    fn place_of(&self, path: &[u8], parent_name: &str) -> Option<(PathBuf, bool)> {
        // A path above the mount's root is not to be seen here.
        let below = if self.root == b"/" { Some(path) } else { path.strip_prefix(self.root.as_slice()) };
        let below = below.filter(|below| below.is_empty() || below.starts_with(b"/"))?;
        let below = Path::new(std::ffi::OsStr::from_bytes(below));
        let mut place = PathBuf::from(std::ffi::OsStr::from_bytes(&self.point));
        let mut is_in_job = false;
        for part in below.components() {
            match part {
                std::path::Component::Normal(name) if name.as_bytes() == parent_name.as_bytes() => {
                    is_in_job = !below.ends_with(KEEPERS);
                    break;
                }
                std::path::Component::Normal(name) => place.push(name),
                std::path::Component::ParentDir => return None,
                _ => {}
            }
        }
        Some((place, is_in_job))
    }
}

/// Reads a file of the kernel's, which says nothing of its length, in as few calls as it takes. Neither the stack nor the heap
/// keeps what it took: a keeper lives long, and counts its pages.
fn read_proc(path: &str) -> Option<Region> {
    let mut contents = Region::new(LONGEST_LIST).ok()?;
    let mut file = fs::File::open(path).ok()?;
    let mut length = 0;
    while let Ok(count @ 1..) = file.read(&mut contents[length..]) {
        length += count;
    }
    Some(contents)
}

/// Returns what was read.
fn text_of(contents: &Option<Region>) -> &[u8] {
    let Some(contents) = contents else { return &[] };
    let end = contents.iter().position(|&byte| byte == 0).unwrap_or(contents.len());
    &contents[..end]
}

/// More than any list of mounts takes; what is not used takes nothing. Zeros follow the text.
const LONGEST_LIST: usize = 1 << 20;

/// Undoes the octal escapes of `mountinfo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// The name of the group in which this user's groups are.
fn parent_name() -> String {
    format!("outlive-{}", own_uid())
}

/// The group of keepers that were started from inside a job.
const KEEPERS: &str = "keepers";

/// A group that was made for one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group below `place`, for the job of the keeper with this identity: whoever finds it later can tell whether
    /// its keeper still lives.
    ///
    /// # Errors
    ///
    /// If this user may not, or the kernel has no room.
    pub fn make(place: &Path, owner: crate::identity::ProcessId) -> io::Result<Self> {
        let parent = place.join(parent_name());
        let path = parent.join(format!("job-{}-{}-{}", pid_namespace(), owner.pid, owner.start_time));
        for _ in 0..100 {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Self { path }),
                // Nobody has made the parent yet, or somebody has just removed it with his last group.
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

    /// Takes a group that was made before, by its directory.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Tells whether it was made for the job of this keeper: its name says so, and it is where this user's groups are.
    pub fn is_of(&self, owner: crate::identity::ProcessId, uid: u32) -> bool {
        let named = self.path.file_name().and_then(|name| owner_of(name.to_str()?, pid_namespace()));
        let parent = self.path.parent().and_then(Path::file_name);
        named == Some(owner)
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
    pub fn open_door(&self) -> io::Result<fs::File> {
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
    pub fn members(&self) -> Vec<i32> {
        let mut found = Vec::new();
        let mut open = vec![self.path.clone()];
        while let Some(path) = open.pop() {
            let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
            // 0 is a process of another pid namespace, which has no number here.
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 0));
            open.extend(groups_below(&path));
        }
        found
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
            // Version 1 may wait for ever for one who waits for a child that is frozen already. Another moment is another
            // chance.
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

/// Moves this program out of the groups of a job that it was started from, into the one for keepers: it is no part of that
/// job. Takes milliseconds.
pub fn leave_job(hierarchies: &Hierarchies) {
    for place in &hierarchies.in_job {
        let path = place.join(parent_name()).join(KEEPERS);
        fs::create_dir(&path).ok();
        // Where it may not, it stays, and ends with that job.
        Group { path }.set("cgroup.procs", "0").ok();
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
    let Some(own) = group.path.file_name() else { return false };
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
                Group { path }.remove();
            }
        }
        fs::remove_dir(parent.join(KEEPERS)).ok();
        fs::remove_dir(parent).ok();
    }
}

/// Returns whose group has this name, if he is of this pid namespace: another one's numbers mean nothing here.
fn owner_of(name: &str, pid_namespace: u64) -> Option<crate::identity::ProcessId> {
    let (namespace, owner) = name.strip_prefix("job-")?.split_once('-')?;
    let (pid, start_time) = owner.split_once('-').filter(|_| namespace.parse() == Ok(pid_namespace))?;
    Some(crate::identity::ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

/// Returns the number of this program's pid namespace.
fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.ino())
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

fn groups_below(path: &Path) -> impl Iterator<Item = PathBuf> {
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

    const MOUNTS: &[u8] = b"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        41 31 0:38 / /sys/fs/cgroup/with\\040blank rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_hybrid_machine_is_understood() {
        let own = b"4:memory:/agent/7\n2:cpu,cpuacct:/\n0::/user.slice\n";
        let found = Hierarchies::parse(MOUNTS, own, "outlive-0");
        assert_eq!(found.unified.as_deref(), Some(Path::new("/sys/fs/cgroup/with blank/user.slice")));
        assert_eq!(found.of("memory"), Some(Path::new("/sys/fs/cgroup/memory/agent/7")));
        assert_eq!(found.of("cpu"), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(found.of("freezer"), None);
        assert!(!found.is_in_job());
    }

    #[test]
    fn inside_a_job_the_place_is_outside_of_it() {
        let own = b"4:memory:/agent/outlive-0/job-1-2\n0::/outlive-0/job-1-2/deeper\n";
        let found = Hierarchies::parse(MOUNTS, own, "outlive-0");
        assert_eq!(found.unified.as_deref(), Some(Path::new("/sys/fs/cgroup/with blank")));
        assert_eq!(found.of("memory"), Some(Path::new("/sys/fs/cgroup/memory/agent")));
        assert!(found.is_in_job());
        let keepers = Hierarchies::parse(MOUNTS, b"0::/outlive-0/keepers\n", "outlive-0");
        assert!(!keepers.is_in_job());
    }

    #[test]
    fn what_is_above_the_mount_is_not_seen() {
        let mounts = b"41 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let inside = Hierarchies::parse(mounts, b"0::/docker/abc/x\n", "outlive-0");
        assert_eq!(inside.unified.as_deref(), Some(Path::new("/sys/fs/cgroup/x")));
        for outside in [&b"0::/docker/abcd\n"[..], b"0::/\n", b"0::/../x\n", b"", b"nonsense"] {
            assert_eq!(Hierarchies::parse(mounts, outside, "outlive-0").unified, None);
        }
    }

    #[test]
    fn a_name_tells_its_owner() {
        let owner = owner_of("job-7-42-777", 7).unwrap();
        assert_eq!((owner.pid, owner.start_time), (42, 777));
        for name in ["keepers", "job-", "job-1", "job-7-1", "job-7-a-b", "job-8-42-777", "7-42-777"] {
            assert_eq!(owner_of(name, 7), None, "{name}");
        }
        let is_of = |path: &str, uid| Group::at(path).is_of(owner, uid);
        let place = "/sys/fs/cgroup/outlive-0";
        let here = pid_namespace();
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
