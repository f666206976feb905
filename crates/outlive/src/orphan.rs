//! Jobs whose keeper died while something of them runs.
//!
//! Nobody keeps them, so front ends do what can be done without a keeper: find what is left, signal it, and learn how the
//! main process ends. What belongs to the job is known by its control group, by descent from the recorded command, and by
//! the environment that the command was started with; never by name. Why it is so: `docs/design/orphans.md`.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive_core::control::Survivor;
use outlive_core::id::JobId;
use outlive_core::meta::Meta;
use outlive_core::outcome::{Cause, NeverStarted, WaitStatus, errno_text};
use outlive_core::{file, spec};
use outlive_sys::cgroup::{self, Group};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::keeper::is_keeper;
use outlive_sys::poll::{self, PollFd, PollFlags};
use outlive_sys::signal::Signal;
use outlive_sys::tree::{self as processes, Member};
use outlive_sys::{durable, exit, lock, spawn};
use serde::{Deserialize, Serialize};

use crate::control::{ControlError, Kill, Killed};
use crate::job::Job;
use crate::state::{Found, State};
use crate::store::Store;
use crate::tree::{identity, with_root};

/// How long the hard kill goes on before what is left is named.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to wait for the end of anybody between two rounds: somebody new may have come meanwhile.
const ROUND: Duration = Duration::from_millis(50);

/// How long processes may take to stop. Nobody but the caller waits meanwhile.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// How long somebody who holds the main process, and so may know how it ended, is waited for.
const WITNESS_LIMIT: Duration = Duration::from_secs(1);

/// Said where they take longer.
const LATE: &str = "not all processes have stopped yet; they will when the kernel lets them";

/// Said where no control group holds an orphan.
const UNTRACED: &str = "its keeper is gone and no control group holds it: a process of it that left its parent and \
                        cleared its environment cannot be traced";

/// What is left of a job that nobody keeps.
pub(crate) struct Trace {
    pub(crate) members: Vec<Member>,
    /// The control group that holds it, if the recorded one is its own beyond doubt.
    group: Option<Group>,
}

/// Who asked for the end of an orphan: the file `asked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    by: String,
    /// Only this signal was sent, and the end was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
}

/// What whoever held the main process knows of its end.
pub(crate) struct Seen {
    /// What the kernel said.
    status: Option<spawn::WaitStatus>,
    /// It ended just now.
    is_now: bool,
    /// Who asked for it; a full disk may have kept that from being noted.
    asked: Option<Asked>,
}

/// The main process of a job, held so that its end is seen and its exit status known.
#[derive(Debug)]
pub(crate) struct Witness {
    id: ProcessId,
    handle: Handle,
}

impl Trace {
    /// Looks for what is left. To be called only where the pids of the job mean something.
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
        // Whoever left his parent, and was moved out of the group or never was in one.
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

    /// Says what cannot be known for want of a control group.
    fn untraced(&self) -> Option<String> {
        self.group.is_none().then(|| UNTRACED.to_owned())
    }

    /// Sends a signal to everybody; returns to how many, and who could not be reached.
    fn send(&self, signal: Signal) -> (u32, Vec<Survivor>) {
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

    /// Does one round of ending everybody.
    fn end(&self) -> (u32, Vec<Survivor>) {
        match &self.group {
            Some(group) if group.kill().is_ok() => {
                // Whoever is not in the group.
                let (_, refused) = self.send(Signal::KILL);
                (u32::try_from(self.members.len()).unwrap_or(u32::MAX), refused)
            }
            Some(group) => {
                // Stopped, so that nobody can fork meanwhile.
                group.freeze(true).ok();
                group.wait_frozen();
                let sent = self.send(Signal::KILL);
                group.freeze(false).ok();
                sent
            }
            None => self.send(Signal::KILL),
        }
    }

    /// Waits until one of them has ended; returns at once if one is gone already.
    fn wait_any(&self, limit: Duration) {
        let handles: Vec<Handle> = self.members.iter().filter_map(|member| Handle::open(member.id)).collect();
        if handles.len() < self.members.len() || handles.is_empty() {
            // At most as often as a process needs to be put away.
            std::thread::sleep(Duration::from_millis(1).min(limit));
            return;
        }
        let mut fds: Vec<PollFd<'_>> =
            handles.iter().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
        poll::poll(&mut fds, Some(limit)).ok();
    }
}

/// Collects what belongs to one job.
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

    /// Adds one that was found by descent. An inner job whose keeper died may be below; it is a job of its own.
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

/// Returns the job's control group. The recorded path is believed only if its name is that of the recorded keeper: no
/// other job's group has that, and none of a stranger.
fn own_group(job: &Job, meta: Option<&Meta>) -> Option<Group> {
    let meta = meta?;
    let group = Group::at(meta.containment.as_ref()?.group.as_deref()?);
    let keeper = meta.keeper.map(identity)?;
    (group.is_of(keeper, job.spec().starter.uid) && group.path().is_dir()).then_some(group)
}

/// Returns all control groups of the job.
fn all_groups(job: &Job, meta: &Meta) -> Vec<Group> {
    let (Some(contained), Some(keeper)) = (&meta.containment, meta.keeper.map(identity)) else {
        return Vec::new();
    };
    let paths =
        [&contained.group, &contained.memory_group, &contained.pids_group, &contained.cpu_group].into_iter();
    let groups = paths.flatten().map(Group::at);
    groups.filter(|group| group.is_of(keeper, job.spec().starter.uid)).collect()
}

/// Tells whether a process was started with the environment of this job: its id and its store, by the job's user, not
/// before the job.
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

/// Tells whether an environment leads to this store: another one may have a job of the same id.
fn names_store(store: &Store, spec: &spec::Spec, environment: &[Vec<u8>]) -> bool {
    let home = value_of(environment, b"OUTLIVE_HOME").filter(|home| !home.is_empty());
    if let (Some(home), Some(given)) = (home, spec.env_set.get("OUTLIVE_HOME")) {
        return home == given.0.as_slice();
    }
    let path = |value: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(value));
    let state = value_of(environment, b"XDG_STATE_HOME").map(path).filter(|path| path.is_absolute());
    let own = value_of(environment, b"HOME").map(path).map(|home| home.join(".local/state"));
    let root = home.map(path).or_else(|| state.or(own).map(|state| state.join("outlive")));
    root.is_some_and(|root| is_same(&root, store.root()))
}

fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    one == other || identity(one).is_some_and(|one| Some(one) == identity(other))
}

fn value_of<'a>(environment: &'a [Vec<u8>], name: &[u8]) -> Option<&'a [u8]> {
    environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
}

fn survivor(member: &Member, why: &str) -> Survivor {
    Survivor::new(member.id.pid, &processes::arguments(member.id.pid), why)
}

impl Witness {
    /// Takes hold of a job's main process; `None` if it has ended or is not known.
    pub(crate) fn of(store: &Store, job: &Job) -> Option<Self> {
        if *store.host() != job.spec().host {
            return None;
        }
        let id = job.meta()?.command.map(identity)?;
        Some(Self { id, handle: Handle::open(id)? })
    }

    /// Waits until the main process of a job without keeper has ended, at most `limit`, and writes that down. Returns
    /// earlier when a signal came.
    pub(crate) fn wait(&self, store: &Store, job: &Job, limit: Option<Duration>) {
        let is_running = !self.has_ended();
        if is_running {
            job.tell_orphaned(store);
        }
        let _held = hold(job);
        poll::readable(self.handle.as_fd(), limit).ok();
        self.tell_asked(store, job, is_running, None);
    }

    /// Writes down how the main process ended, if it has and nobody else will. To be called before the job is looked at:
    /// whoever looks knows less.
    pub(crate) fn tell(&self, store: &Store, job: &Job) {
        self.tell_asked(store, job, false, None);
    }

    /// Writes it down for whoever saw it end, just now if `is_now`, and perhaps asked for it.
    fn tell_asked(&self, store: &Store, job: &Job, is_now: bool, asked: Option<&Asked>) {
        if self.has_ended() && !job.is_kept() && job.records().0.is_none() && !job.is_removed() {
            let status = self.handle.wait_status(self.id);
            let seen = Seen { status, is_now, asked: asked.cloned() };
            job.end_unkept(store, job.meta().as_ref(), Some(seen));
        }
    }

    /// Says that nobody keeps the job and that its main process is held here, for as long as the result lives.
    pub(crate) fn hold(&self, store: &Store, job: &Job) -> Option<File> {
        job.tell_orphaned(store);
        hold(job)
    }

    /// Returns what is readable once the main process has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    fn has_ended(&self) -> bool {
        poll::readable(self.handle.as_fd(), Some(Duration::ZERO)).unwrap_or(false)
    }
}

/// Says to others that the main process is held here: whoever does not know how it ended waits a moment for us.
fn hold(job: &Job) -> Option<File> {
    let file = durable::open_ro(job.dir(), file::ORPHANED).ok()?;
    let locked = fault::step(Point::OrphanHold, || lock::try_lock(&file, lock::Kind::Shared));
    locked.ok()?.then_some(file)
}

impl Job {
    /// Writes down the end of a job whose keeper is dead and whose main process has ended; `seen` is by whoever held it.
    pub(crate) fn end_unkept(&self, store: &Store, meta: Option<&Meta>, seen: Option<Seen>) -> State {
        let command = meta.and_then(|meta| meta.command).map(identity);
        let (is_witness, is_now) = (seen.is_some(), seen.as_ref().is_some_and(|seen| seen.is_now));
        let asked = self.asked().or_else(|| seen.as_ref()?.asked.clone());
        let status = seen.and_then(|seen| seen.status).or_else(|| exit::unreaped_status(command?));
        if status.is_none()
            && !is_witness
            && let Ok(held) = durable::open_ro(self.dir(), file::ORPHANED)
        {
            // Somebody else may know more, and then is about to say it.
            lock::lock_within(&held, WITNESS_LIMIT).ok();
        }
        let wait_status = match status {
            Some(spawn::WaitStatus::Exited(code)) => WaitStatus::Exited { code },
            Some(spawn::WaitStatus::Signaled { signal, core }) => WaitStatus::Signaled { signal, core },
            None => WaitStatus::Unknown,
        };
        let cause = match (asked, meta) {
            (Some(Asked { by, signal: None }), _) => Cause::Kill { by },
            (Some(Asked { by, signal: Some(sent) }), _) if matches!(wait_status, WaitStatus::Signaled { signal, .. } if signal == sent) => {
                Cause::Kill { by }
            }
            // It ran without a snapshot, for somebody saw it.
            (_, None) if !self.was_orphaned() => {
                Cause::NeverStarted(NeverStarted { step: "keeper".into(), ..NeverStarted::default() })
            }
            _ => Cause::Lost { why: "its keeper died before it could record the end".into() },
        };
        let is_closed = Trace::of(store, self, meta).is_empty();
        self.recover(store, Found { cause, wait_status, is_closed, is_now })
    }

    /// Tells whether somebody saw that it goes on without a keeper.
    pub(crate) fn was_orphaned(&self) -> bool {
        durable::open_ro(self.dir(), file::ORPHANED).is_ok()
    }

    fn asked(&self) -> Option<Asked> {
        let mut bytes = Vec::new();
        durable::open_ro(self.dir(), file::ASKED).ok()?.read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Notes who asks, before anything is done: whoever writes down the end then knows. The first who asked for the end
    /// stays.
    fn note_asked(&self, asked: &Asked) -> io::Result<()> {
        if self.asked().is_some_and(|known| known.signal.is_none()) {
            return Ok(());
        }
        let mut bytes = serde_json::to_vec(asked)?;
        bytes.write_all(b"\n")?;
        durable::replace(Replacing::ORPHAN_ASKED, self.dir(), file::ASKED, &bytes)
    }
}

impl Store {
    /// Ends what is left of a job that nobody keeps, as its keeper would have done.
    pub(crate) fn kill_orphan(&self, job: &Job, state: &State, kill: &Kill) -> Result<Killed, ControlError> {
        let meta = state.meta.as_ref();
        let witness = Witness::of(self, job);
        let held = hold(job);
        let trace = self.traced(job, meta)?;
        // Now: an empty group is removed by whoever meets it.
        let untraced = trace.untraced();
        let asked = Asked { by: kill.by.clone(), signal: None };
        // On a full disk it is ended all the same, and whoever ends it records why.
        job.note_asked(&asked).ok();
        let signal = if kill.force { Signal::KILL } else { kill.signal.unwrap_or(Signal::TERM) };
        let mut signalled = 0;
        if signal != Signal::KILL {
            let grace = kill.grace.unwrap_or(Duration::from_millis(job.spec().grace_ms));
            (signalled, _) = trace.send(signal);
            // A stopped process hears nothing before it goes on.
            if let Some(group) = &trace.group {
                group.freeze(false).ok();
            }
            trace.send(Signal::CONT);
            let until = Instant::now().checked_add(grace);
            let mut left = trace;
            while !left.is_empty() {
                let rest = until.map_or(grace, |until| until.saturating_duration_since(Instant::now()));
                if rest.is_zero() {
                    break;
                }
                left.wait_any(rest);
                if let Some(witness) = &witness {
                    witness.tell_asked(self, job, true, Some(&asked));
                }
                left = Trace::of(self, job, meta);
            }
        }
        let (count, survivors) = self.end_all(job, meta);
        if let Some(witness) = &witness {
            witness.tell_asked(self, job, true, Some(&asked));
        }
        drop(held);
        // Whoever writes down the end sees to the closing, too.
        let after = job.state(self);
        if survivors.is_empty()
            && !after.is_live()
            && let Some(meta) = meta
        {
            all_groups(job, meta).iter().for_each(|group| {
                group.remove();
            });
        }
        Ok(Killed { was_over: false, signalled: signalled.max(count), survivors, untraced })
    }

    /// Goes round until nobody is found, twice; returns how many there were, and who is left.
    fn end_all(&self, job: &Job, meta: Option<&Meta>) -> (u32, Vec<Survivor>) {
        let until = Instant::now() + PATIENCE;
        let (mut most, mut empty) = (0, 0);
        loop {
            let trace = Trace::of(self, job, meta);
            if trace.is_empty() {
                empty += 1;
                if empty == 2 {
                    return (most, Vec::new());
                }
                continue;
            }
            empty = 0;
            let (count, refused) = trace.end();
            most = most.max(count);
            if Instant::now() >= until {
                let explain = |member: &Member| {
                    let known = refused.iter().find(|refused| refused.pid == member.id.pid).cloned();
                    known.unwrap_or_else(|| {
                        survivor(member, &format!("it is still there, in state {}", member.state))
                    })
                };
                return (most, trace.members.iter().map(explain).collect());
            }
            trace.wait_any(ROUND);
        }
    }

    /// Sends one signal to what is left of a job that nobody keeps.
    pub(crate) fn signal_orphan(
        &self,
        job: &Job,
        state: &State,
        signal: Signal,
        by: &str,
    ) -> Result<Killed, ControlError> {
        let trace = self.traced(job, state.meta.as_ref())?;
        let asked = Asked { by: by.to_owned(), signal: Some(signal.number()) };
        job.note_asked(&asked).ok();
        let (signalled, survivors) = trace.send(signal);
        Ok(Killed { was_over: false, signalled, survivors, untraced: trace.untraced() })
    }

    /// Stops what is left of a job that nobody keeps, or lets it go on.
    pub(crate) fn freeze_orphan(
        &self,
        job: &Job,
        state: &State,
        is_paused: bool,
    ) -> Result<(), ControlError> {
        let trace = self.traced(job, state.meta.as_ref())?;
        let refused = |message: String| Err(ControlError::Refused { code: "not_paused".to_owned(), message });
        match &trace.group {
            Some(group) => {
                if let Err(error) = group.freeze(is_paused) {
                    return refused(format!("the control group cannot be frozen: {error}"));
                }
                let until = Instant::now() + STOP_LIMIT;
                while is_paused && !group.wait_frozen() {
                    if Instant::now() >= until {
                        return refused(LATE.to_owned());
                    }
                }
            }
            None if is_paused => {
                let until = Instant::now() + STOP_LIMIT;
                let mut told: Vec<ProcessId> = Vec::new();
                loop {
                    let trace = Trace::of(self, job, state.meta.as_ref());
                    // Whoever waits in the kernel, such as for a child that stopped before it had executed its program, stops
                    // before he does anything else.
                    let is_still = |member: &Member| {
                        matches!(member.state, 'T' | 't')
                            || (member.state == 'D' && told.contains(&member.id))
                    };
                    if trace.members.iter().all(is_still) {
                        break;
                    }
                    trace.send(Signal::STOP);
                    told.extend(trace.members.iter().map(|member| member.id));
                    if Instant::now() >= until {
                        return refused(LATE.to_owned());
                    }
                }
            }
            None => drop(trace.send(Signal::CONT)),
        }
        if let Some(meta) = &state.meta {
            let meta = Meta { paused: is_paused, ..meta.clone() };
            durable::replace(Replacing::ORPHAN_PAUSE, job.dir(), file::META, &meta.to_bytes())
                .map_err(|error| unwritten(job, error))?;
        }
        Ok(())
    }

    /// Looks for what is left, and refuses where the caller is part of it.
    fn traced(&self, job: &Job, meta: Option<&Meta>) -> Result<Trace, ControlError> {
        let trace = Trace::of(self, job, meta);
        let pids: HashSet<i32> = trace.members.iter().map(|member| member.id.pid).collect();
        match pids.contains(&ProcessId::current().pid) {
            true => Err(ControlError::OwnAncestor(job.id().clone())),
            false => Ok(trace),
        }
    }
}

fn unwritten(job: &Job, source: io::Error) -> ControlError {
    ControlError::Store { job: job.id().clone(), source }
}
