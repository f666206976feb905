//! The live processes of a job as a front end sees them, and whether the caller is one of them.
//!
//! They are found anew each time: below the recorded keeper, and in the control group if there is one. Every recorded pid is
//! compared with its start time first. Nothing here sends signals.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use outlive_core::file;
use outlive_core::meta::Meta;
use outlive_core::outcome::{Cause, Outcome};
use outlive_core::spec::{self, quote};
use outlive_sys::cgroup::Group;
use outlive_sys::durable;
use outlive_sys::figures::Figures;
use outlive_sys::identity::{ProcessId, Stat};
use outlive_sys::keeper::{LOCK_FD, is_keeper};
use outlive_sys::ports::{Listener, Listeners};
use outlive_sys::tree::{self, Member};
use serde::Serialize;

use crate::control::orphan::Remnants;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// A snapshot of the live processes of a job.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Each parent directly before its children.
    pub(crate) members: Vec<Member>,
    /// The keeper, while it is alive.
    pub(crate) keeper: Option<ProcessId>,
}

/// A process of a job.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Process {
    /// Process id.
    pub pid: i32,
    /// Pid of the parent; orphaned processes have the keeper as parent.
    pub parent: i32,
    /// The command line, quoted for a shell.
    pub command: String,
    /// The kernel's letter for the state: R, S, D, T.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub state: char,
    /// Processor time of this process alone; none if it has just ended.
    pub cpu_ms: Option<u64>,
    /// Resident memory, including shared pages.
    pub rss_bytes: Option<u64>,
    /// The ports that it listens on.
    pub ports: Vec<Port>,
}

/// A port that a process listens on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Port {
    /// The port number.
    pub port: u16,
    /// The address that the socket is bound to.
    pub address: String,
    /// The process that listens.
    pub pid: i32,
    /// An address to open if it speaks HTTP.
    pub url: String,
}

impl From<Listener> for Port {
    fn from(listener: Listener) -> Self {
        Self {
            port: listener.port,
            address: listener.address.to_string(),
            pid: listener.pid,
            url: listener.url(),
        }
    }
}

impl Job {
    /// Finds the live processes of the job; `None` if they cannot be known: the job is elsewhere or still starting, or its
    /// keeper died before it recorded that all are gone.
    pub fn tree(&self, store: &Store, state: &State) -> Option<Tree> {
        if !state.is_live() {
            let is_lost = |outcome: &Outcome| matches!(outcome.cause, Cause::Lost { .. });
            // A job whose end was not observed may still have processes.
            let is_over = state.closed.is_some() && !state.outcome.as_ref().is_some_and(is_lost);
            return is_over.then(|| Tree { members: Vec::new(), keeper: None });
        }
        if !is_here(store, self, state) {
            return None;
        }
        if state.is_orphaned() {
            let members = Remnants::of(store, self, state.meta.as_deref()).members;
            return Some(Tree { members: in_order(members), keeper: None });
        }
        let meta = state.meta.as_ref()?;
        let keeper = meta.keeper.map(identity).filter(|keeper| keeper.is_alive());
        let mut members = below(keeper?.pid);
        // Valid only if the pid was the keeper's all the time.
        if !keeper?.is_alive() {
            return None;
        }
        add_group(&mut members, meta);
        Some(Tree { members: in_order(members), keeper })
    }
}

impl Tree {
    /// Returns the number of processes.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Lists the pids, each parent before its children.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.members.iter().map(|member| member.id.pid)
    }

    /// Tells whether no process of the job runs.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Describes each process, each parent before its children. `listeners` can be reused for the next job.
    pub fn processes(&self, listeners: &mut Listeners) -> Vec<Process> {
        let describe = |member: &Member| {
            let figures = Figures::of(member.id);
            Process {
                pid: member.id.pid,
                parent: member.parent,
                command: command(member.id.pid),
                state: member.state,
                cpu_ms: figures.map(|figures| figures.cpu_ms),
                rss_bytes: figures.map(|figures| figures.resident_bytes),
                ports: listeners.of(member.id.pid).into_iter().map(Port::from).collect(),
            }
        };
        self.members.iter().map(describe).collect()
    }

    /// Lists the ports that the job listens on, each once, with the first process that listens.
    pub fn ports(&self, listeners: &mut Listeners) -> Vec<Port> {
        let mut found = BTreeMap::new();
        for listener in self.members.iter().flat_map(|member| listeners.of(member.id.pid)) {
            found.entry((listener.port, listener.address)).or_insert(listener);
        }
        found.into_values().map(Port::from).collect()
    }
}

/// Tells whether this program runs inside a job, so that killing the job would kill it.
///
/// A job that was started from inside another is not inside it: killing the outer job does not reach it.
pub(crate) fn is_inside(store: &Store, job: &Job, state: &State) -> bool {
    if !is_here(store, job, state) {
        return false;
    }
    let me = ProcessId::current();
    let meta = state.meta.as_ref();
    if meta.is_some_and(|meta| group_pids(meta).contains(&me.pid)) {
        return true;
    }
    let recorded = meta.map_or([None; 2], |meta| [meta.keeper, meta.command].map(|who| who.map(identity)));
    let mut seen = HashSet::new();
    let mut next = Some(me.pid);
    while let Some(stat) = next.filter(|&pid| pid > 0 && seen.insert(pid)).and_then(Stat::read) {
        if recorded.contains(&Some(stat.id)) {
            return true;
        }
        // The nearest keeper above is that of the job this program runs in. It may not have written `meta.json` yet, but it has
        // held the lock since before the command started.
        if is_keeper(stat.id.pid) {
            return keeps(stat.id.pid, job);
        }
        next = Some(stat.parent);
    }
    false
}

/// Tells whether a keeper is this job's: it holds the lock file itself.
fn keeps(keeper: i32, job: &Job) -> bool {
    let held = format!("/proc/{keeper}/fd/{LOCK_FD}");
    job.open_file(file::LOCK).is_ok_and(|lock| durable::is_at(lock, Path::new(&held)))
}

/// Tells whether the job's pids are valid in this pid namespace.
fn is_here(store: &Store, job: &Job, state: &State) -> bool {
    !state.is_elsewhere() && *store.host() == *job.host()
}

pub(crate) fn identity(process: spec::Process) -> ProcessId {
    ProcessId { pid: process.pid, start_time: process.start_time }
}

/// Lists the descendants of a process, without other keepers and their descendants: those are other jobs.
fn below(pid: i32) -> Vec<Member> {
    tree::below(pid, |member| !is_keeper(member.id.pid))
}

/// Lists a process and its descendants; `None` if it is gone.
pub(crate) fn with_root(root: ProcessId) -> Option<Vec<Member>> {
    let stat = Stat::read(root.pid).filter(|stat| stat.id == root && !stat.has_ended())?;
    let mut members = vec![Member { id: stat.id, parent: stat.parent, state: stat.state }];
    members.extend(below(root.pid));
    root.is_alive().then_some(members)
}

/// Adds the processes that are in the control group but not below the keeper.
fn add_group(members: &mut Vec<Member>, meta: &Meta) {
    let known: HashSet<i32> = members.iter().map(|member| member.id.pid).collect();
    let pids = group_pids(meta).into_iter().filter(|pid| !known.contains(pid) && !is_keeper(*pid));
    let stats = pids.filter_map(Stat::read).filter(|stat| !stat.has_ended());
    members.extend(stats.map(|stat| Member { id: stat.id, parent: stat.parent, state: stat.state }));
}

fn group_pids(meta: &Meta) -> HashSet<i32> {
    let group = meta.containment.as_ref().and_then(|containment| containment.group.as_deref());
    group.map(|group| Group::at(group).members()).unwrap_or_default()
}

/// Sorts each parent directly before its children, siblings by pid.
fn in_order(mut members: Vec<Member>) -> Vec<Member> {
    members.sort_by_key(|member| member.id.pid);
    members.dedup_by_key(|member| member.id.pid);
    let pids: HashSet<i32> = members.iter().map(|member| member.id.pid).collect();
    let mut children: HashMap<i32, Vec<Member>> = HashMap::new();
    for member in members {
        let parent = if pids.contains(&member.parent) { member.parent } else { 0 };
        children.entry(parent).or_default().push(member);
    }
    let mut ordered = Vec::with_capacity(pids.len());
    let mut open: Vec<Member> = children.remove(&0).unwrap_or_default().into_iter().rev().collect();
    while let Some(member) = open.pop() {
        open.extend(children.remove(&member.id.pid).unwrap_or_default().into_iter().rev());
        ordered.push(member);
    }
    ordered
}

/// Returns the command line of a process, or its name if it has no arguments.
fn command(pid: i32) -> String {
    let words = tree::arguments(pid);
    if words.iter().all(Vec::is_empty) {
        let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        return format!("[{}]", String::from_utf8_lossy(&name).trim_end());
    }
    words.iter().map(|word| quote(&String::from_utf8_lossy(word))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(pid: i32, parent: i32) -> Member {
        Member { id: ProcessId { pid, start_time: 1 }, parent, state: 'S' }
    }

    #[test]
    fn children_come_right_after_their_parent() {
        // 9 is the keeper; 4's parent is outside the job; 20 is listed twice.
        let found = vec![member(30, 20), member(20, 9), member(4, 1), member(25, 20), member(20, 9)];
        let pids: Vec<i32> = in_order(found).iter().map(|member| member.id.pid).collect();
        assert_eq!(pids, [4, 20, 25, 30]);
    }

    #[test]
    fn groups_are_read_with_those_inside_them() {
        let group = tempfile::tempdir().unwrap();
        std::fs::create_dir(group.path().join("inner")).unwrap();
        std::fs::write(group.path().join("cgroup.procs"), "12\n0\n").unwrap();
        std::fs::write(group.path().join("inner/cgroup.procs"), "13\n").unwrap();
        assert_eq!(Group::at(group.path()).members(), [12, 13].into());
        assert!(Group::at(group.path().join("gone")).members().is_empty());
    }
}
