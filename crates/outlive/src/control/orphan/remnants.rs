//! Remaining processes of a job whose keeper died: found by control group, descent and environment.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use outlive_core::control::Survivor;
use outlive_core::id::JobId;
use outlive_core::meta::Meta;
use outlive_core::outcome::errno_text;
use outlive_core::spec;
use outlive_sys::cgroup::{self, Group};
use outlive_sys::durable;
use outlive_sys::identity::{Handle, Stat};
use outlive_sys::keeper::is_keeper;
use outlive_sys::poll::{self, PollFd, PollFlags};
use outlive_sys::signal::Signal;
use outlive_sys::tree::{self as processes, Member};

use super::UNTRACED;
use crate::control::tree::{identity, with_root};
use crate::job::Job;
use crate::store::Store;

/// The remaining processes of an orphan.
pub(crate) struct Remnants {
    pub(crate) members: Vec<Member>,
    /// The job's control group, if the recorded path is certainly its own.
    pub(super) group: Option<Group>,
}

impl Remnants {
    /// Finds the remaining processes. Only for jobs of this pid namespace.
    pub(crate) fn of(store: &Store, job: &Job, meta: Option<&Meta>) -> Self {
        let group = own_group(job, meta);
        let mut found = Finding { job, store, group: group.as_ref(), members: HashMap::new() };
        if let Some(group) = &group {
            group.members().into_iter().for_each(|pid| found.add(pid));
        }
        let command = meta.and_then(|meta| meta.command).map(identity);
        for member in command.and_then(with_root).unwrap_or_default() {
            found.add_unless_other(&member);
        }
        // Processes that left their parent, and are outside the group or never had one.
        let oldest = command.map_or(job.spec().starter.start_time, |command| command.start_time);
        for root in processes::all_pids() {
            if !found.members.contains_key(&root) && is_marked(store, job, root, oldest) {
                found.add(root);
                for member in processes::below(root, |member| !is_keeper(member.id.pid)) {
                    found.add_unless_other(&member);
                }
            }
        }
        let mut members: Vec<Member> = found.members.into_values().collect();
        members.sort_by_key(|member| member.id.pid);
        Self { members, group }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns a warning if there is no control group.
    pub(super) fn untraced(&self) -> Option<String> {
        self.group.is_none().then(|| UNTRACED.to_owned())
    }

    /// Sends a signal to every process; returns how many got it, and those that could not be signalled.
    pub(super) fn send(&self, signal: Signal) -> (u32, Vec<Survivor>) {
        let (mut count, mut refused) = (0, Vec::new());
        for member in &self.members {
            match processes::signal(member, signal) {
                Ok(true) => count += 1,
                Ok(false) => {}
                Err(error) => {
                    let why = errno_text(error.raw_os_error().unwrap_or(0));
                    refused.push(survivor(member, &format!("it may not be signalled: {why}")));
                }
            }
        }
        (count, refused)
    }

    /// Kills every process once.
    pub(super) fn end(&self) -> (u32, Vec<Survivor>) {
        match &self.group {
            Some(group) if group.kill().is_ok() => {
                // For processes outside the group.
                let (_, refused) = self.send(Signal::KILL);
                (u32::try_from(self.members.len()).unwrap_or(u32::MAX), refused)
            }
            Some(group) => {
                // Frozen, so that no process can fork meanwhile.
                group.freeze(true).ok();
                group.wait_frozen();
                let sent = self.send(Signal::KILL);
                group.freeze(false).ok();
                sent
            }
            None => self.send(Signal::KILL),
        }
    }

    /// Waits until a process has ended; returns at once if one is gone already.
    pub(super) fn wait_any(&self, limit: Duration) {
        let handles: Vec<Handle> = self.members.iter().filter_map(|member| Handle::open(member.id)).collect();
        if handles.len() < self.members.len() || handles.is_empty() {
            // Gives an ended process time to be reaped, and bounds the rate of rounds.
            std::thread::sleep(Duration::from_millis(1).min(limit));
            return;
        }
        let mut fds: Vec<PollFd<'_>> =
            handles.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        poll::poll(&mut fds, Some(limit)).ok();
    }
}

/// Collects the processes of one job.
struct Finding<'a> {
    job: &'a Job,
    store: &'a Store,
    group: Option<&'a Group>,
    members: HashMap<i32, Member>,
}

impl Finding<'_> {
    fn add(&mut self, pid: i32) {
        if is_keeper(pid) {
            return;
        }
        if let Some(stat) = Stat::read(pid).filter(|stat| !stat.has_ended()) {
            let member = Member { id: stat.id, parent: stat.parent, state: stat.state };
            self.members.insert(pid, member);
        }
    }

    /// Adds a process that was found by descent, unless it belongs to a nested job whose keeper died.
    fn add_unless_other(&mut self, member: &Member) {
        let pid = member.id.pid;
        let is_in_other = self.group.is_some_and(|group| cgroup::is_in_other_job(pid, group));
        if !is_in_other && !self.names_other(pid) {
            self.members.insert(pid, member.clone());
        }
    }

    fn names_other(&self, pid: i32) -> bool {
        let environment = processes::environment(pid).unwrap_or_default();
        let named = value_of(&environment, b"OUTLIVE_JOB").and_then(|id| std::str::from_utf8(id).ok());
        let other = named.filter(|id| *id != self.job.id().as_str()).and_then(|id| JobId::parse(id).ok());
        other.is_some_and(|id| matches!(self.store.open_job(&id), Ok(Some(_))))
    }
}

/// Returns the job's control group. The recorded path counts only if its name is that of the recorded keeper, which is unique.
fn own_group(job: &Job, meta: Option<&Meta>) -> Option<Group> {
    let meta = meta?;
    let group = Group::at(meta.containment.as_ref()?.group.as_deref()?);
    let owner = meta.owner.or(meta.keeper).map(identity)?;
    (group.is_of(owner, job.spec().starter.uid) && group.path().is_dir()).then_some(group)
}

/// Returns all control groups of the job, of every hierarchy.
pub(super) fn all_groups(job: &Job, meta: &Meta) -> Vec<Group> {
    let (Some(contained), Some(owner)) = (&meta.containment, meta.owner.or(meta.keeper).map(identity)) else {
        return Vec::new();
    };
    let paths =
        [&contained.group, &contained.memory_group, &contained.pids_group, &contained.cpu_group].into_iter();
    let groups = paths.flatten().map(Group::at);
    groups.filter(|group| group.is_of(owner, job.spec().starter.uid)).collect()
}

/// Tells whether a process has this job's environment: its id and its store, the same user, and not started before the job.
fn is_marked(store: &Store, job: &Job, pid: i32, oldest: u64) -> bool {
    let is_young = || Stat::read(pid).is_some_and(|stat| stat.id.start_time >= oldest && !stat.has_ended());
    if processes::user(pid) != Some(job.spec().starter.uid) {
        return false;
    }
    let Some(environment) = processes::environment(pid) else { return false };
    value_of(&environment, b"OUTLIVE_JOB") == Some(job.id().as_str().as_bytes())
        && is_young()
        && names_store(store, job.spec(), &environment)
}

/// Tells whether an environment names this store: another store may have a job with the same id.
fn names_store(store: &Store, spec: &spec::Spec, environment: &[Vec<u8>]) -> bool {
    let home = value_of(environment, b"OUTLIVE_HOME").filter(|home| !home.is_empty());
    if let (Some(home), Some(given)) = (home, spec.env_set.get("OUTLIVE_HOME")) {
        return home == given.0.as_slice();
    }
    let path = |value: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(value));
    let state = value_of(environment, b"XDG_STATE_HOME").map(path).filter(|path| path.is_absolute());
    let own = value_of(environment, b"HOME").map(path).map(|home| home.join(".local/state"));
    let root = home.map(path).or_else(|| state.or(own).map(|state| state.join("outlive")));
    let is_store =
        |root: &PathBuf| durable::open_dir(root).is_ok_and(|dir| durable::is_at(dir, store.root()));
    root.is_some_and(|root| root == store.root() || is_store(&root))
}

fn value_of<'a>(environment: &'a [Vec<u8>], name: &[u8]) -> Option<&'a [u8]> {
    environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
}

pub(super) fn survivor(member: &Member, why: &str) -> Survivor {
    Survivor::new(member.id.pid, &processes::arguments(member.id.pid), why)
}
