//! Jobs whose keeper died while their processes run.
//!
//! Front ends do what is possible without a keeper: find the remaining processes, signal them, and observe how the main process
//! ends. Processes are recognised by control group, by descent from the recorded command, and by the environment that it was
//! started with; never by name. Reasons: `docs/design/orphans.md`.

mod remnants;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use outlive_core::control::{STILL_STOPPING, Survivor};
use outlive_core::file;
use outlive_core::meta::Meta;
use outlive_core::outcome::{Cause, NeverStarted, WaitStatus};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::signal::Signal;
use outlive_sys::tree::Member;
use outlive_sys::{durable, exit, lock, spawn};
use serde::{Deserialize, Serialize};

use crate::control::tree::identity;
use crate::control::{ControlError, Kill, Killed, STOP_LIMIT};
use crate::job::Job;
use crate::job::recovery::Found;
use crate::job::state::State;
use crate::store::Store;
use remnants::{all_groups, survivor};

pub(crate) use remnants::Remnants;

/// How long SIGKILL is repeated before the remaining processes are reported.
const PATIENCE: Duration = Duration::from_secs(2);

/// Longest wait between two rounds: new processes may have been forked.
const ROUND: Duration = Duration::from_millis(50);

/// How long to wait for a process that holds the main process, and so may know the exit status.
const HOLDER_LIMIT: Duration = Duration::from_secs(1);

/// Warning for an orphan without a control group.
const UNTRACED: &str = "its keeper is gone and no control group holds it: a process of it that left its parent and \
                        cleared its environment cannot be traced";

/// The requester of an orphan's end: the file `asked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    by: String,
    /// The only signal that was sent; none if a kill was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
}

/// What a holder of the main process knows of its end.
pub(crate) struct Seen {
    status: Option<spawn::WaitStatus>,
    /// The end was observed just now.
    is_now: bool,
    /// The requester of the end, in case a full disk prevented the file.
    asked: Option<Asked>,
}

impl Job {
    /// Records the end of a job whose keeper is dead and whose main process has ended; `seen` comes from a holder of it.
    pub(crate) fn end_unkept(&self, store: &Store, meta: Option<&Meta>, seen: Option<Seen>) -> State {
        let command = meta.and_then(|meta| meta.command).map(identity);
        let (is_holder, is_now) = (seen.is_some(), seen.as_ref().is_some_and(|seen| seen.is_now));
        let asked = self.asked().or_else(|| seen.as_ref()?.asked.clone());
        let status = seen.and_then(|seen| seen.status).or_else(|| exit::unreaped_status(command?));
        if status.is_none()
            && !is_holder
            && let Ok(held) = self.open_file(file::ORPHANED)
        {
            // A holder may know the exit status, and is about to record it.
            lock::lock_within(&held, HOLDER_LIMIT).ok();
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
            // Without `meta.json`, or with that of a job that waits, and without an orphan's mark, it never ran.
            (_, meta) if meta.is_none_or(|meta| meta.command.is_none()) && !self.was_orphaned() => {
                Cause::NeverStarted(NeverStarted { step: "keeper".into(), ..NeverStarted::default() })
            }
            _ => Cause::Lost { why: "its keeper died before it could record the end".into() },
        };
        let is_closed = Remnants::of(store, self, meta).is_empty();
        self.recover(store, Found { cause, wait_status, is_closed, is_now })
    }

    /// Tells whether a front end found it running without a keeper.
    pub(crate) fn was_orphaned(&self) -> bool {
        self.open_file(file::ORPHANED).is_ok()
    }

    fn asked(&self) -> Option<Asked> {
        serde_json::from_slice(&durable::read(self.dir().ok()?, file::ASKED).ok()?).ok()
    }

    /// Records who asked for a kill before the silent keeper is ended.
    pub(super) fn note_kill(&self, by: &str) -> io::Result<()> {
        self.note_asked(&Asked { by: by.to_owned(), signal: None })
    }

    /// Records the requester before anything is done, for the outcome. The first request for a kill stays.
    fn note_asked(&self, asked: &Asked) -> io::Result<()> {
        if self.asked().is_some_and(|known| known.signal.is_none()) {
            return Ok(());
        }
        let mut bytes = serde_json::to_vec(asked)?;
        bytes.push(b'\n');
        durable::replace(Replacing::ORPHAN_ASKED, self.dir()?, file::ASKED, &bytes)
    }
}

impl Store {
    /// Kills the remaining processes of an orphan, as its keeper would have done.
    pub(crate) fn kill_orphan(&self, job: &Job, state: &State, kill: &Kill) -> Result<Killed, ControlError> {
        let meta = state.meta.as_deref();
        let own_meta = job.meta().filter(|_| *self.host() == *job.host());
        let main = own_meta.as_deref().and_then(MainHandle::open);
        let held = hold(job);
        let remnants = self.traced(job, meta)?;
        // Now: an empty group is removed by the next process that finds it.
        let untraced = remnants.untraced();
        let asked = Asked { by: kill.by.clone(), signal: None };
        // On a full disk the job is killed all the same, and the outcome has the requester from memory.
        job.note_asked(&asked).ok();
        let signal = if kill.force { Signal::KILL } else { kill.signal.unwrap_or(Signal::TERM) };
        let mut signalled = 0;
        if signal != Signal::KILL {
            let grace = kill.grace.unwrap_or(Duration::from_millis(job.spec().options.grace_ms));
            (signalled, _) = remnants.send(signal);
            // A stopped process handles no signal before it is resumed.
            if let Some(group) = &remnants.group {
                group.freeze(false).ok();
            }
            remnants.send(Signal::CONT);
            let until = Instant::now().checked_add(grace);
            let mut left = remnants;
            while !left.is_empty() {
                let rest = until.map_or(grace, |until| until.saturating_duration_since(Instant::now()));
                if rest.is_zero() {
                    break;
                }
                left.wait_any(rest);
                if let Some(main) = &main {
                    main.record_asked_end(self, job, true, Some(&asked));
                }
                left = Remnants::of(self, job, meta);
            }
        }
        let (count, survivors) = self.end_all(job, meta);
        if let Some(main) = &main {
            main.record_asked_end(self, job, true, Some(&asked));
        }
        drop(held);
        // The state closes the job if it records the end.
        let after = job.state(self);
        if survivors.is_empty()
            && !after.is_live()
            && let Some(meta) = meta
        {
            all_groups(job, meta).iter().for_each(|group| {
                group.remove();
            });
        }
        Ok(Killed { was_over: false, signalled: signalled.max(count), survivors, untraced, next_run: None })
    }

    /// Repeats until two rounds find no process; returns how many were killed, and which are left.
    fn end_all(&self, job: &Job, meta: Option<&Meta>) -> (u32, Vec<Survivor>) {
        let until = Instant::now() + PATIENCE;
        let (mut most, mut empty) = (0, 0);
        loop {
            let remnants = Remnants::of(self, job, meta);
            if remnants.is_empty() {
                empty += 1;
                if empty == 2 {
                    return (most, Vec::new());
                }
                continue;
            }
            empty = 0;
            let (count, refused) = remnants.end();
            most = most.max(count);
            if Instant::now() >= until {
                let explain = |member: &Member| {
                    let known = refused.iter().find(|refused| refused.pid == member.id.pid).cloned();
                    known.unwrap_or_else(|| {
                        survivor(member, &format!("it is still there, in state {}", member.state))
                    })
                };
                return (most, remnants.members.iter().map(explain).collect());
            }
            remnants.wait_any(ROUND);
        }
    }

    /// Sends a signal to the remaining processes of an orphan.
    pub(crate) fn signal_orphan(
        &self,
        job: &Job,
        state: &State,
        signal: Signal,
        by: &str,
    ) -> Result<Killed, ControlError> {
        let remnants = self.traced(job, state.meta.as_deref())?;
        let asked = Asked { by: by.to_owned(), signal: Some(signal.number()) };
        job.note_asked(&asked).ok();
        let (signalled, survivors) = remnants.send(signal);
        Ok(Killed { was_over: false, signalled, survivors, untraced: remnants.untraced(), next_run: None })
    }

    /// Stops or resumes the remaining processes of an orphan.
    pub(crate) fn freeze_orphan(
        &self,
        job: &Job,
        state: &State,
        is_paused: bool,
    ) -> Result<(), ControlError> {
        let remnants = self.traced(job, state.meta.as_deref())?;
        let refused = |(code, message): (&str, &str)| {
            Err(ControlError::Refused { code: code.to_owned(), message: message.to_owned() })
        };
        match &remnants.group {
            Some(group) => {
                if let Err(error) = group.freeze(is_paused) {
                    return refused(("not_paused", &format!("the control group cannot be frozen: {error}")));
                }
                let until = Instant::now() + STOP_LIMIT;
                while is_paused && !group.wait_frozen() {
                    if Instant::now() >= until {
                        return refused(STILL_STOPPING);
                    }
                }
            }
            None if is_paused => {
                let until = Instant::now() + STOP_LIMIT;
                let mut stopped: Vec<ProcessId> = Vec::new();
                loop {
                    let remnants = Remnants::of(self, job, state.meta.as_deref());
                    // A task in uninterruptible sleep, such as a vfork parent, stops when it leaves the kernel.
                    let is_still = |member: &Member| {
                        matches!(member.state, 'T' | 't')
                            || (member.state == 'D' && stopped.contains(&member.id))
                    };
                    if remnants.members.iter().all(is_still) {
                        break;
                    }
                    remnants.send(Signal::STOP);
                    stopped.extend(remnants.members.iter().map(|member| member.id));
                    if Instant::now() >= until {
                        return refused(STILL_STOPPING);
                    }
                }
            }
            None => drop(remnants.send(Signal::CONT)),
        }
        if let Some(meta) = &state.meta {
            let meta = Meta { paused: is_paused, ..Meta::clone(meta) };
            job.replace_meta(Replacing::ORPHAN_PAUSE, &meta)
                .map_err(|error| ControlError::Store(job.id().clone(), error))?;
        }
        Ok(())
    }

    /// Finds the remaining processes; fails if the caller is among them.
    fn traced(&self, job: &Job, meta: Option<&Meta>) -> Result<Remnants, ControlError> {
        let remnants = Remnants::of(self, job, meta);
        let own = ProcessId::current().pid;
        match remnants.members.iter().any(|member| member.id.pid == own) {
            true => Err(ControlError::OwnAncestor(job.id().clone())),
            false => Ok(remnants),
        }
    }
}

/// A handle on a job's main process, which observes its end and exit status.
#[derive(Debug)]
pub(crate) struct MainHandle {
    id: ProcessId,
    handle: Handle,
}

impl MainHandle {
    /// Opens the main process that a job's `meta.json` names; the job is of this host.
    pub(crate) fn open(meta: &Meta) -> Option<Self> {
        let id = meta.command.map(identity)?;
        Some(Self { id, handle: Handle::open(id)? })
    }

    /// Records how the main process ended, if it has and there is no keeper. To be called before [`Job::state`], which knows
    /// less.
    pub(crate) fn record_end(&self, store: &Store, job: &Job) {
        self.record_asked_end(store, job, false, None);
    }

    /// As `record_end`, for a caller that saw the end, just now if `is_now`, and may have requested it.
    fn record_asked_end(&self, store: &Store, job: &Job, is_now: bool, asked: Option<&Asked>) {
        if self.has_ended() && job.records().0.is_none() && !job.is_kept() && !job.is_removed() {
            let status = self.handle.wait_status(self.id);
            let seen = Seen { status, is_now, asked: asked.cloned() };
            job.end_unkept(store, job.meta().as_deref(), Some(seen));
        }
    }

    /// Records that the job is an orphan, and holds its main process for as long as the result lives.
    pub(crate) fn hold(&self, store: &Store, job: &Job) -> Option<File> {
        job.tell_orphaned(store);
        hold(job)
    }

    /// Returns a descriptor that is readable once the main process has ended.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.handle.has_ended()
    }
}

/// Locks the orphan's mark: a front end without the exit status then waits briefly for this process to record it.
fn hold(job: &Job) -> Option<File> {
    let file = job.open_file(file::ORPHANED).ok()?;
    let locked = fault::step(Point::OrphanHold, || lock::try_lock(&file, lock::Kind::Shared));
    locked.ok()?.then_some(file)
}
