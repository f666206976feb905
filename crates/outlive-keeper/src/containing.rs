//! What holds the job's tree together, and what limits it.
//!
//! A ladder: a control group where there is one and this user may make it, else a sweep of all that is below the keeper, which
//! adopts orphans. Whatever rung it is, the sweep goes along: a process that somebody moved out of its group is still
//! below its keeper.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use outlive_core::containment::{Containment, Enforcement, JobLimits, Kept, Level};
use outlive_core::control::Survivor;
use outlive_core::outcome::NeverStarted;
use outlive_sys::cgroup::{self, Group, Hierarchies};
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::scope;
use outlive_sys::signal::Signal;
use outlive_sys::spawn;
use outlive_sys::tree::{self, Member};

/// A sweep goes round at once while it still finds somebody, for this long at most; then the loop has its turn.
const SWEEP_LIMIT: Duration = Duration::from_millis(3);

/// How long processes may take to stop before the one who asked for it is told that they have not.
const STOP_LIMIT: Duration = Duration::from_millis(100);

/// The period in which a share of processor time is counted.
const CPU_PERIOD_US: u64 = 100_000;

/// What is found out and made before the keeper knows its job: while the starter prepares it.
pub(crate) struct Ahead {
    hierarchies: Hierarchies,
    /// Made already, because most jobs need it.
    unified: Option<Group>,
}

impl Ahead {
    pub(crate) fn prepare() -> Self {
        let mut hierarchies = Hierarchies::discover();
        let me = ProcessId::current();
        let is_in_scope = hierarchies.is_pure_v2() && enter_scope(me);
        if is_in_scope {
            hierarchies = Hierarchies::discover();
            hierarchies.settle_in_scope();
        } else if hierarchies.is_in_job() {
            // This keeper was started from inside a job, and must not end with it.
            cgroup::leave_job(&hierarchies);
        }
        let place = if is_in_scope { hierarchies.unified.as_deref() } else { hierarchies.best_place() };
        let make = |place| fault::step(Point::GroupMake, || Group::make(place, me)).ok();
        let unified = place.and_then(make);
        Self { hierarchies, unified }
    }

    /// There is nothing to contain after all.
    pub(crate) fn discard(self) {
        if let Some(group) = self.unified {
            group.remove();
        }
        if self.hierarchies.is_in_job() {
            cgroup::leave_keepers(&self.hierarchies);
        }
    }

    /// Lists the rungs to try, the best first.
    fn levels(&self, asked: Option<Level>) -> Vec<Level> {
        match asked {
            Some(level) => vec![level],
            None => {
                let has_v1 = self.hierarchies.v1.iter().any(Option::is_some);
                vec![if has_v1 { Level::Hybrid } else { Level::Cgroup2 }, Level::Freezer, Level::Sweep]
            }
        }
    }
}

/// Lets systemd, where it runs this machine, take the keeper out of whatever it was started from: a service or a terminal that
/// is stopped takes all of its own group along.
fn enter_scope(me: ProcessId) -> bool {
    let name = format!("outlive-{}-{}", me.pid, me.start_time);
    scope::manager().is_some_and(|manager| scope::enter(&manager, &name).is_ok())
}

/// A job's containment.
pub(crate) struct Contained {
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
    /// Where the keeper stands in the group for keepers, because it was started from inside a job.
    nested: Option<Hierarchies>,
}

/// What must be open while the command is made.
pub(crate) struct Doors {
    pub(crate) group: Option<File>,
    pub(crate) files: Vec<File>,
}

impl Contained {
    /// Contains a command: makes what is needed for the best rung, and lets `execute` start it there. Where the kernel or the
    /// user's rights do not allow that, the next rung is tried.
    pub(crate) fn start<T>(
        ahead: Ahead,
        asked: Option<Level>,
        limits: &JobLimits,
        mut execute: impl FnMut(&Doors) -> Result<T, (bool, NeverStarted)>,
    ) -> Result<(Self, Kept, T), NeverStarted> {
        let levels = ahead.levels(asked);
        let mut failure = unavailable(asked);
        for level in levels {
            let Some(contained) = Self::make(&ahead, level, limits) else { continue };
            let (kept, doors) = match contained.doors(limits) {
                Ok(ready) => ready,
                Err(_) => {
                    contained.remove_but(ahead.unified.as_ref());
                    continue;
                }
            };
            match execute(&doors) {
                Ok(started) => {
                    if let Some(unused) = ahead.unified.filter(|_| !contained.holds_by_v2()) {
                        unused.remove();
                    }
                    return Ok((contained, kept, started));
                }
                Err((is_about_group, never)) => {
                    contained.remove_but(ahead.unified.as_ref());
                    failure = never;
                    if !is_about_group || asked.is_some() {
                        break;
                    }
                }
            }
        }
        ahead.discard();
        Err(failure)
    }

    fn make(ahead: &Ahead, level: Level, limits: &JobLimits) -> Option<Self> {
        let v1 = |controller: &str| Group::make(ahead.hierarchies.of(controller)?, ProcessId::current()).ok();
        let has_v1 = ahead.hierarchies.v1.iter().any(Option::is_some);
        let group = match level {
            Level::Cgroup2 => Some(ahead.unified.clone()?),
            Level::Hybrid => Some(ahead.unified.clone().filter(|_| has_v1)?),
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
            nested: ahead.hierarchies.is_in_job().then(|| ahead.hierarchies.clone()),
        })
    }

    /// Sets the limits and opens what the command joins.
    fn doors(&self, limits: &JobLimits) -> io::Result<(Kept, Doors)> {
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
        let files = freezer.chain(limiters).map(Group::open_door).collect::<io::Result<_>>()?;
        let group = match self.level {
            Level::Cgroup2 | Level::Hybrid => self.group.as_ref().map(Group::open).transpose()?,
            _ => None,
        };
        Ok((kept, Doors { group, files }))
    }

    fn holds_by_v2(&self) -> bool {
        matches!(self.level, Level::Cgroup2 | Level::Hybrid)
    }

    /// The command runs, as this process.
    pub(crate) fn began(&mut self, id: ProcessId, handle: Handle) {
        // Where a control group holds the tree, the process group is of no use.
        self.main = self.group.is_none().then_some((id.pid, handle));
    }

    /// Returns what readers should know.
    pub(crate) fn describe(&self) -> Containment {
        let path =
            |group: &Option<Group>| group.as_ref().map(|group| group.path().to_string_lossy().into_owned());
        Containment {
            level: self.level.into(),
            group: path(&self.group),
            memory_group: path(&self.memory),
            pids_group: path(&self.pids),
            cpu_group: path(&self.cpu),
        }
    }

    /// Lists the live processes of the job. Another keeper below is a job of its own, and so is all below it.
    pub(crate) fn members(&self) -> Vec<Member> {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let mut found = tree::below(me, |member| !is_keeper(member.id.pid));
        let Some(group) = &self.group else { return found };
        let inside = group.members();
        // An inner job whose keeper died is below this one now, and is not of this job.
        found.retain(|member| {
            inside.contains(&member.id.pid) || !cgroup::is_in_other_job(member.id.pid, group)
        });
        for pid in inside {
            if pid == me || found.iter().any(|member| member.id.pid == pid) || is_keeper(pid) {
                continue;
            }
            if let Some(stat) = Stat::read(pid).filter(|stat| !stat.has_ended()) {
                found.push(Member { id: stat.id, parent: stat.parent, state: stat.state });
            }
        }
        found
    }

    /// Tells whether nothing of the job runs any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.members().is_empty()
    }

    /// Tells whether nothing of the job runs any more, beyond doubt. Looking takes time, and whoever forks and exits meanwhile
    /// is not found; but then the keeper has a child that is his, or was.
    pub(crate) fn is_surely_empty(&self) -> bool {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let is_other_job = |pid| {
            is_keeper(pid) || self.group.as_ref().is_some_and(|group| cgroup::is_in_other_job(pid, group))
        };
        // The kernel's list is made while the chain goes on, and may miss a link; not twice in a row, and never all.
        let are_others = || (0..2).all(|_| tree::all_children(me, is_other_job));
        self.is_empty() && (!spawn::has_children() || are_others())
    }

    /// Sends a signal to every process of the job.
    pub(crate) fn send(&self, signal: Signal) -> Sent {
        let mut sent = Sent::default();
        for member in self.members() {
            if !self.reaches(member.id.pid) {
                sent.refused
                    .push(survivor(&member, "it has left the process group, and nothing else holds it"));
                continue;
            }
            match tree::signal(&member, signal) {
                Ok(true) => sent.count += 1,
                Ok(false) => {}
                Err(error) => {
                    let why = outlive_core::outcome::errno_text(error.raw_os_error().unwrap_or(0));
                    sent.refused.push(survivor(&member, &format!("it may not be signalled: {why}")));
                }
            }
        }
        sent
    }

    /// Does one round of ending everything.
    pub(crate) fn end(&mut self) -> Sent {
        match self.level {
            Level::Cgroup2 | Level::Hybrid => {
                let count = self.members().len();
                let is_killed = self.group.as_ref().is_some_and(|group| group.kill().is_ok());
                if !is_killed {
                    return self.end_frozen();
                }
                self.is_paused = false;
                // Whoever was moved out of the group is still below.
                let mut sent = self.send(Signal::KILL);
                sent.count = sent.count.max(u32::try_from(count).unwrap_or(u32::MAX));
                sent
            }
            Level::Freezer => self.end_frozen(),
            Level::Sweep => self.sweep(),
            Level::Group => self.send(Signal::KILL),
        }
    }

    /// Stops everything, so that nobody can fork, then ends everybody.
    fn end_frozen(&mut self) -> Sent {
        let Some(group) = self.group.clone() else { return self.sweep() };
        group.freeze(true).ok();
        group.wait_frozen();
        let sent = self.send(Signal::KILL);
        group.freeze(false).ok();
        self.is_paused = false;
        sent
    }

    /// Goes round until nobody is found: whoever forks faster than one round is met by the next.
    fn sweep(&mut self) -> Sent {
        self.is_paused = false;
        let until = Instant::now() + SWEEP_LIMIT;
        let mut all = Sent::default();
        loop {
            // The whole first group at once: nobody in it can fork his way out of that.
            if let Some((_, main)) = &self.main {
                main.signal_group(Signal::KILL).ok();
            }
            let hit = self.end_children();
            let sent = self.send(Signal::KILL);
            let is_over = sent.count == 0 && hit == 0;
            all.count = all.count.max(sent.count.saturating_add(hit));
            all.refused = sent.refused;
            if is_over || Instant::now() >= until {
                return all;
            }
        }
    }

    /// Ends the keeper's own children without a second look. Nobody else can reap them, so their numbers cannot mean
    /// anybody else; and whoever forks and exits as fast as it can is gone before a second look is over.
    fn end_children(&self) -> u32 {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let is_other =
            |pid| tree::name(pid).is_none_or(|name| name == crate::PROGRAM.as_bytes() && is_keeper(pid));
        tree::signal_own_children(me, Signal::KILL, is_other)
    }

    /// Tells whether a process of the job is one that this rung can do something about.
    fn reaches(&self, pid: i32) -> bool {
        let leader = self.main.as_ref().map(|(pid, _)| *pid);
        self.level != Level::Group || Stat::read(pid).is_some_and(|stat| Some(stat.group) == leader)
    }

    fn is_to_stop(&self, member: &Member) -> bool {
        !matches!(member.state, 'T' | 't') && self.reaches(member.id.pid)
    }

    /// Stops every process where it is.
    ///
    /// # Errors
    ///
    /// In words, if somebody has not stopped in time; he may yet.
    pub(crate) fn pause(&mut self) -> Result<(), String> {
        self.is_paused = true;
        let late =
            || Err("not all processes have stopped yet; they will when the kernel lets them".to_owned());
        if let Some(group) = &self.group {
            group.freeze(true).map_err(|error| format!("the control group cannot be frozen: {error}"))?;
            let is_frozen = group.wait_frozen();
            // Whoever was moved out of the group is still below.
            self.signal_strays(Signal::STOP);
            return if is_frozen { Ok(()) } else { late() };
        }
        let until = Instant::now() + STOP_LIMIT;
        let mut still = 0;
        let mut told: Vec<ProcessId> = Vec::new();
        while still < 2 {
            // Whoever waits in the kernel, such as for a child that stopped before it had executed its program, stops before he
            // does anything else.
            let is_running = |member: &Member| {
                self.is_to_stop(member) && !(member.state == 'D' && told.contains(&member.id))
            };
            let running: Vec<Member> = self.members().into_iter().filter(is_running).collect();
            still = if running.is_empty() { still + 1 } else { 0 };
            for member in &running {
                tree::signal(member, Signal::STOP).ok();
                told.push(member.id);
            }
            if Instant::now() >= until {
                return late();
            }
        }
        if self.members().iter().any(|member| !self.reaches(member.id.pid)) {
            return Err("some have left the process group, which is all that holds it, and go on".to_owned());
        }
        Ok(())
    }

    /// Sends a signal to those of the job that are not in its group.
    fn signal_strays(&self, signal: Signal) {
        let inside = self.group.as_ref().map(Group::members).unwrap_or_default();
        for member in self.members().iter().filter(|member| !inside.contains(&member.id.pid)) {
            tree::signal(member, signal).ok();
        }
    }

    /// Lets them go on.
    pub(crate) fn resume(&mut self) {
        if !std::mem::replace(&mut self.is_paused, false) {
            return;
        }
        match &self.group {
            Some(group) => {
                group.freeze(false).ok();
                self.signal_strays(Signal::CONT);
            }
            None => {
                self.send(Signal::CONT);
            }
        }
    }

    /// Returns what the job uses of its memory now: by the kernel's count, else by the shares of its processes. Of less than
    /// `enough` it is only told that it is less.
    pub(crate) fn memory(&self, enough: u64) -> u64 {
        let counted = self.memory.as_ref().and_then(|group| {
            group.number("memory.current").or_else(|| group.number("memory.usage_in_bytes"))
        });
        counted.unwrap_or_else(|| {
            let members = self.members();
            let sum = |of: fn(i32) -> Option<u64>| {
                members.iter().filter_map(|member| of(member.id.pid)).sum::<u64>()
            };
            // The quick sum counts what is shared more than once; only when it says enough is it worth looking closer.
            let most = sum(tree::resident);
            if most < enough { most } else { sum(tree::memory) }
        })
    }

    /// Returns the most memory that it used, where the kernel counts that.
    pub(crate) fn memory_peak(&self) -> Option<u64> {
        self.counter(self.memory.as_ref())?.number(if self.counts_by_v2() {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        })
    }

    /// Returns how many processes there are.
    pub(crate) fn count(&self) -> u64 {
        let counted = self.pids.as_ref().and_then(|group| group.number("pids.current"));
        counted.unwrap_or_else(|| self.members().len() as u64)
    }

    /// Returns the most processes that there were, where the kernel counts that.
    pub(crate) fn count_peak(&self) -> Option<u64> {
        self.counter(self.pids.as_ref())?.number("pids.peak")
    }

    /// Returns the group that counts: the one that limits. In version 2 the tree's own group may count without a limit; where
    /// version 1 has the controllers it has no such files, and somebody waits while they are looked for.
    fn counter<'a>(&'a self, limiter: Option<&'a Group>) -> Option<&'a Group> {
        limiter.or(self.group.as_ref().filter(|_| self.counts_by_v2()))
    }

    fn counts_by_v2(&self) -> bool {
        self.level == Level::Cgroup2
    }

    /// Returns the processor time of everything that was ever in it, in user mode and in the kernel, where that is counted.
    pub(crate) fn cpu_ms(&self) -> Option<(u64, u64)> {
        let group = self.group.as_ref()?;
        let [user, system] = group.entries("cpu.stat", ["user_usec", "system_usec"]);
        Some((user? / 1000, system? / 1000))
    }

    /// Tells whether the kernel ended one of its processes for want of memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        let killed = self.memory.as_ref().and_then(|group| {
            group.entry("memory.events", "oom_kill").or_else(|| group.entry("memory.oom_control", "oom_kill"))
        });
        killed.is_some_and(|count| count > 0)
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

impl Doors {
    /// The group of version 2 to be made in.
    pub(crate) fn group(&self) -> Option<BorrowedFd<'_>> {
        self.group.as_ref().map(AsFd::as_fd)
    }

    /// The groups to join.
    pub(crate) fn files(&self) -> Vec<BorrowedFd<'_>> {
        self.files.iter().map(AsFd::as_fd).collect()
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

/// What a signal to the tree came to.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) count: u32,
    pub(crate) refused: Vec<Survivor>,
}

/// Names a process that is left.
pub(crate) fn survivor(member: &Member, why: &str) -> Survivor {
    let words = tree::arguments(member.id.pid);
    let words: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    Survivor { pid: member.id.pid, command: words.join(" "), why: why.to_owned() }
}

/// Tells whether a process is the keeper of another job: it says so, and holds a job's lock where a keeper does.
fn is_keeper(pid: i32) -> bool {
    let says_so = tree::arguments(pid).first().is_some_and(|program| program == crate::PROGRAM.as_bytes());
    says_so
        && tree::descriptor(pid, crate::start::LOCK_FD)
            .is_some_and(|path| path.file_name().is_some_and(|name| name == outlive_core::file::LOCK))
}
