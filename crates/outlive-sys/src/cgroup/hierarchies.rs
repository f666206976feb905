//! Where this program stands in the hierarchies of control groups.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Group, KEEPERS, parent_name};
use crate::region::Region;

/// The controllers of version 1 that are of use here.
pub const CONTROLLERS: [&str; 4] = ["freezer", "memory", "pids", "cpu"];

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
    pub(super) in_job: Vec<PathBuf>,
}

impl Hierarchies {
    /// Reads them from `/proc`.
    pub fn discover() -> Self {
        let Ok(mut room) = Region::new(LONGEST_LIST) else { return Self::default() };
        let own = read_proc("/proc/self/cgroup", &mut room);
        let (own, room) = room.split_at_mut(own);
        let mounts = read_proc("/proc/self/mountinfo", room);
        Self::parse(&room[..mounts], own, &parent_name())
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
    pub fn enter_leaf(&self) {
        let Some(scope) = &self.unified else { return };
        let own = scope.join("keeper");
        fs::create_dir(&own).ok();
        Group::at(own).set("cgroup.procs", "0").ok();
    }

    /// Makes those of a program that stands in the group for keepers of these places, and no more.
    pub fn inherited(in_job: Vec<PathBuf>) -> Self {
        Self { in_job, ..Self::default() }
    }

    /// Returns the places at which this program stands in the group of a job.
    pub fn in_job(&self) -> &[PathBuf] {
        &self.in_job
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

/// Reads a file of the kernel's, which says nothing of its length, in as few calls as it takes; returns how long it is.
fn read_proc(path: &str, room: &mut [u8]) -> usize {
    let Ok(mut file) = fs::File::open(path) else { return 0 };
    let mut length = 0;
    while let Ok(count @ 1..) = file.read(&mut room[length..]) {
        length += count;
    }
    length
}

/// More than both lists take; what is not used takes nothing. Neither the stack nor the heap keeps what it took: a keeper lives long, and
/// counts its pages.
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
}
