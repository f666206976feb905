//! What holds the job's tree together, and what limits it.
//!
//! A ladder: a control group where there is one and this user may make it, else a sweep of all that is below the keeper, which
//! adopts orphans. On every rung the sweep is done too: a process that was moved out of its group is still
//! below its keeper.

mod members;
mod preparation;
mod signals;
mod usage;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use outlive_core::containment::{Enforcement, Kept, Level};
use outlive_core::options::JobLimits;
use outlive_core::outcome::NeverStarted;
use outlive_sys::cgroup::{self, Group, Hierarchies};
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::{Handle, ProcessId};

pub(crate) use members::survivor;
pub(crate) use preparation::Preparation;
pub(crate) use signals::Sent;

/// How long processes may take to stop before the client is answered that they have not.
const STOP_LIMIT: Duration = Duration::from_millis(100);

/// The period in which a share of processor time is counted.
const CPU_PERIOD_US: u64 = 100_000;

/// A job's containment.
pub(crate) struct Containment {
    pub(crate) level: Level,
    /// Holds the tree.
    group: Option<Group>,
    /// Count and limit; the same as `group` in version 2.
    memory: Option<Group>,
    pids: Option<Group>,
    cpu: Option<Group>,
    /// The main process, which leads the first process group.
    main: Option<(i32, Handle)>,
    pub(crate) is_paused: bool,
    /// The process below which those of the job are; none: the keeper.
    root: Option<ProcessId>,
    /// Where the keeper stands in the group for keepers, because it was started from inside a job.
    nested: Option<Hierarchies>,
    /// Children of the keeper that work for it, and are no members.
    workers: Vec<i32>,
}

/// The control groups of a command, open while it is started.
pub(crate) struct CgroupFds<'a> {
    /// The group of version 2 in which the command is started.
    pub(crate) directory: Option<BorrowedFd<'a>>,
    procs: Vec<File>,
}

impl Containment {
    /// Contains a command: makes what is needed for the best rung, and lets `execute` start it there. Where the kernel or the
    /// user's rights do not allow that, the next rung is tried.
    pub(crate) fn start<T>(
        preparation: Preparation,
        asked: Option<Level>,
        limits: &JobLimits,
        mut execute: impl FnMut(Level, &CgroupFds<'_>) -> Result<T, (bool, NeverStarted)>,
    ) -> Result<(Self, Kept, T), NeverStarted> {
        let levels = preparation.levels(asked);
        let mut failure = unavailable(asked);
        for level in levels {
            let Some(containment) = Self::make(&preparation, level, limits) else { continue };
            let (kept, cgroup_fds) = match containment.cgroup_fds(limits, preparation.unified_dir.as_ref()) {
                Ok(ready) => ready,
                Err(_) => {
                    containment.remove_but(preparation.unified.as_ref());
                    continue;
                }
            };
            match execute(level, &cgroup_fds) {
                Ok(started) => {
                    if let Some(unused) = preparation.unified.filter(|_| !containment.holds_by_v2()) {
                        unused.remove();
                    }
                    return Ok((containment, kept, started));
                }
                Err((is_about_group, never)) => {
                    containment.remove_but(preparation.unified.as_ref());
                    failure = never;
                    if !is_about_group || asked.is_some() {
                        break;
                    }
                }
            }
        }
        preparation.discard();
        Err(failure)
    }

    /// Takes over the containment of a command that runs on this rung; `None` if it cannot be found.
    ///
    /// Nothing is left open of the preparation: the process that goes on soon forks another with the same table of descriptors, and
    /// what both would close has another meaning by the time that the second does.
    pub(crate) fn take_over(
        mut preparation: Preparation,
        level: Level,
        limits: &JobLimits,
    ) -> Option<(Self, Kept)> {
        let containment = Self::make(&preparation, level, limits)?;
        let directory = preparation.unified_dir.take();
        let directory =
            directory.or_else(|| preparation.unified.as_ref().and_then(|group| group.open().ok()));
        // The groups are gone where the keeper died after the end of the job; then there is nothing to limit.
        let kept =
            containment.cgroup_fds(limits, directory.as_ref()).map_or_else(|_| Kept::default(), |set| set.0);
        Some((containment, kept))
    }

    fn make(preparation: &Preparation, level: Level, limits: &JobLimits) -> Option<Self> {
        let v1 =
            |controller: &str| Group::make(preparation.hierarchies.of(controller)?, preparation.owner).ok();
        let has_v1 = preparation.hierarchies.v1.iter().any(Option::is_some);
        let group = match level {
            Level::Cgroup2 => Some(preparation.unified.clone()?),
            Level::Hybrid => Some(preparation.unified.clone().filter(|_| has_v1)?),
            Level::Freezer => Some(v1("freezer")?),
            Level::Sweep | Level::Group => None,
        };
        let limiter = |is_asked: bool, controller: &str, file: &str| match level {
            _ if !is_asked => None,
            Level::Cgroup2 => group.clone().filter(|group| group.has(file)),
            Level::Hybrid | Level::Freezer => v1(controller),
            Level::Sweep | Level::Group => None,
        };
        Some(Self {
            level,
            memory: limiter(limits.memory_bytes.is_some(), "memory", "memory.max"),
            pids: limiter(limits.pids.is_some(), "pids", "pids.max"),
            cpu: limiter(limits.cpu_milli.is_some(), "cpu", "cpu.max"),
            group,
            main: None,
            is_paused: false,
            root: None,
            workers: Vec::new(),
            nested: preparation.hierarchies.is_in_job().then(|| preparation.hierarchies.clone()),
        })
    }

    /// Sets the limits and opens what the command joins.
    fn cgroup_fds<'a>(
        &self,
        limits: &JobLimits,
        unified: Option<&'a File>,
    ) -> io::Result<(Kept, CgroupFds<'a>)> {
        let is_v2 = self.level == Level::Cgroup2;
        let mut kept = Kept::default();
        let else_polled = |is_set: bool| if is_set { Enforcement::Enforced } else { Enforcement::Polled };
        if let Some(bytes) = limits.memory_bytes {
            kept.memory = Some(else_polled(self.memory.as_ref().is_some_and(|group| {
                let bytes = bytes.to_string();
                // Memory that went to swap is memory all the same.
                let (most, swap, none) = match is_v2 {
                    true => ("memory.max", "memory.swap.max", "0"),
                    false => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes.as_str()),
                };
                let is_set = group.set(most, &bytes).is_ok();
                group.set(swap, none).ok();
                is_set
            })));
        }
        if let Some(count) = limits.pids {
            let set = |group: &Group| group.set("pids.max", &count.to_string()).is_ok();
            kept.pids = Some(else_polled(self.pids.as_ref().is_some_and(set)));
        }
        if let Some(milli) = limits.cpu_milli {
            // The kernel takes no less than a millisecond of each period.
            let quota = (milli.saturating_mul(CPU_PERIOD_US) / 1000).max(1000);
            let is_set = self.cpu.as_ref().is_some_and(|group| match is_v2 {
                true => group.set("cpu.max", &format!("{quota} {CPU_PERIOD_US}")).is_ok(),
                false => {
                    group.set("cpu.cfs_period_us", &CPU_PERIOD_US.to_string()).is_ok()
                        && group.set("cpu.cfs_quota_us", &quota.to_string()).is_ok()
                }
            });
            // Stopping and continuing it would disturb it more than it would limit it.
            kept.cpu = Some(if is_set { Enforcement::Enforced } else { Enforcement::None });
        }
        kept.open_files = limits.open_files.map(|_| Enforcement::Enforced);
        let limiters = [&self.memory, &self.pids, &self.cpu].into_iter().flatten().filter(|_| !is_v2);
        let freezer = self.group.iter().filter(|_| self.level == Level::Freezer);
        let procs = freezer.chain(limiters).map(Group::open_procs).collect::<io::Result<_>>()?;
        let directory = match self.holds_by_v2() {
            true => Some(unified.ok_or(io::ErrorKind::NotFound)?.as_fd()),
            false => None,
        };
        Ok((kept, CgroupFds { directory, procs }))
    }

    fn holds_by_v2(&self) -> bool {
        matches!(self.level, Level::Cgroup2 | Level::Hybrid)
    }

    /// Takes over the containment that the program had which this one was executed in place of.
    pub(crate) fn inherited(level: Level, groups: [Option<PathBuf>; 4], nested: Vec<PathBuf>) -> Self {
        let [group, memory, pids, cpu] = groups.map(|group| group.map(Group::at));
        let nested = (!nested.is_empty()).then(|| Hierarchies::inherited(nested));
        let (main, root, workers) = (None, None, Vec::new());
        Self { level, group, memory, pids, cpu, main, is_paused: false, root, nested, workers }
    }

    /// Returns what [`Containment::inherited`] needs: the groups, and where the keeper stands in that for keepers.
    pub(crate) fn places(&self) -> ([Option<PathBuf>; 4], Vec<PathBuf>) {
        let groups = [&self.group, &self.memory, &self.pids, &self.cpu];
        let groups = groups.map(|group| group.as_ref().map(|group| group.path().to_owned()));
        (groups, self.nested.as_ref().map(|nested| nested.in_job().to_owned()).unwrap_or_default())
    }

    /// The command runs, as this process.
    pub(crate) fn began(&mut self, id: ProcessId, handle: Option<Handle>) {
        // Where a control group holds the tree, the process group is of no use.
        self.main = handle.filter(|_| self.group.is_none()).map(|handle| (id.pid, handle));
    }

    /// Returns the number of the descriptor that holds the main process, where that is needed.
    pub(crate) fn fd(&self) -> Option<RawFd> {
        self.main.as_ref().map(|(_, handle)| handle.as_fd().as_raw_fd())
    }

    /// Looks for the job's processes below this one from now on: the keeper is not their parent.
    pub(crate) fn search_below(&mut self, main: ProcessId) {
        self.root = Some(main);
    }

    /// Returns what readers should know.
    pub(crate) fn describe(&self) -> outlive_core::containment::Containment {
        let path =
            |group: &Option<Group>| group.as_ref().map(|group| group.path().to_string_lossy().into_owned());
        outlive_core::containment::Containment {
            level: self.level.into(),
            group: path(&self.group),
            memory_group: path(&self.memory),
            pids_group: path(&self.pids),
            cpu_group: path(&self.cpu),
        }
    }

    /// Removes the groups; they are empty.
    pub(crate) fn remove(&self) {
        let until = Instant::now() + STOP_LIMIT;
        fault::around(Point::GroupRemove, || {
            // A process that has ended is a member until the kernel has put it away.
            while !self.groups().all(|group| group.remove()) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    /// Leaves the group for keepers, which then can go.
    pub(crate) fn leave(&self) {
        if let Some(hierarchies) = &self.nested {
            cgroup::leave_keepers(hierarchies);
        }
    }

    fn remove_but(&self, spared: Option<&Group>) {
        for group in self.groups().filter(|group| Some(*group) != spared) {
            group.remove();
        }
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        [&self.memory, &self.pids, &self.cpu, &self.group].into_iter().flatten()
    }
}

impl CgroupFds<'_> {
    /// The `cgroup.procs` of the groups of version 1 that the command joins.
    pub(crate) fn procs(&self) -> Vec<BorrowedFd<'_>> {
        self.procs.iter().map(AsFd::as_fd).collect()
    }
}

fn unavailable(asked: Option<Level>) -> NeverStarted {
    let detail = asked.map(|level| {
        format!(
            "there is no {} here that this user may use; outlive doctor tells what there is",
            level.word()
        )
    });
    NeverStarted { step: "containment".into(), detail, ..NeverStarted::default() }
}
