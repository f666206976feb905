//! How a job is doing, derived from what is in the store.
//!
//! Order of trust: outcome record, then the keeper's lock, then the identity of the recorded processes. Whoever finds a
//! job whose keeper is dead writes down what is known, once, under the job's lock (`recovery.rs`).

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use outlive_core::awaits::AwaitedKind;
use outlive_core::duration::format_duration;
use outlive_core::meta::Meta;
use outlive_core::outcome::{Cause, Closed, Outcome, WaitStatus};
use outlive_core::status::Status;
use outlive_sys::clock;
use outlive_sys::identity::is_pid_namespace_gone;

use crate::companion::files::CHANGE_OF;
use crate::control::orphan::Remnants;
use crate::control::tree::identity;
use crate::job::Job;
use crate::job::object::signal_name;
use crate::job::recovery::Found;
use crate::launch::schedule;
use crate::notify::notice::one_line;
use crate::store::Store;

/// Which process, if any, looks after what is left of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Custody {
    /// Its keeper; or nothing is left.
    #[default]
    Keeper,
    /// Its keeper; the main process has ended, and others of the job go on.
    Lingering,
    /// None: the keeper died, and the command, or others of the job where that has ended, go on without it.
    Orphaned,
    /// A process of another host or pid namespace: nothing can be recovered or signalled from here.
    Elsewhere,
    /// None: it was removed while it was looked at, and the rest of its state says nothing.
    Removed,
}

/// How a job is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The native word.
    pub status: Status,
    /// What the snapshot says: the pids, the start.
    pub meta: Option<Arc<Meta>>,
    /// How the main process ended.
    pub outcome: Option<Outcome>,
    /// When the last process was gone.
    pub closed: Option<Closed>,
    /// Which process looks after what is left of it.
    pub custody: Custody,
    /// What a newer outlive wrote of it that this one does not understand: names of fields.
    pub newer: Vec<String>,
    /// Why it is not started again, though it was to be: it has ended, or is unhealthy and goes on. None: that was not to be, or
    /// another run followed.
    pub gave_up: Option<String>,
    /// When a job that waits is started, by the boot clock.
    pub due_boot_us: Option<u64>,
    /// What else a job waits for that is not started yet, in words: `after db-3f9c@ready`, `in build`.
    pub waits_for: Option<String>,
    /// Why a job that runs is unhealthy; none: it is not, or nothing says when it would be.
    pub unhealthy: Option<String>,
}

impl State {
    /// Returns the word for its status, with what is special about it: `completed, lingering`.
    pub fn words(&self) -> String {
        self.status.to_string() + &self.special()
    }

    /// Returns what is special about it, each after a comma.
    fn special(&self) -> String {
        let mut text = String::new();
        for (holds, word) in [
            (self.has_run_out_of_memory() && !self.is_oom(), "a process ran out of memory"),
            (self.gave_up.is_some(), "gave up"),
            (self.unhealthy.is_some(), "unhealthy"),
            (self.is_lingering(), "lingering"),
            (self.is_orphaned(), "orphaned"),
            (self.is_elsewhere(), "elsewhere"),
            (self.is_live() && self.meta.as_ref().is_some_and(|meta| meta.paused), "paused"),
            (self.asks_for(AwaitedKind::Line), "asks"),
            (self.asks_for(AwaitedKind::Password), "asks for a password"),
            (!self.newer.is_empty(), "newer"),
        ] {
            if holds {
                text.push_str(", ");
                text.push_str(word);
            }
        }
        text
    }

    /// Tells how it is doing in a few words, for people: `running, paused`, `failed: 3`, `never started: no such file`.
    pub fn summary(&self) -> String {
        let outcome = self.outcome.as_ref();
        let status = match outcome.map(|outcome| (&outcome.cause, outcome.wait_status)) {
            Some((Cause::NeverStarted(never), _)) => format!("never started: {}", never.cause()),
            Some((Cause::Oom, _)) => "failed: out of memory".to_owned(),
            Some((Cause::Natural, WaitStatus::Exited { code: code @ 1.. })) => format!("failed: {code}"),
            Some((Cause::Natural, WaitStatus::Signaled { signal, .. })) => {
                format!("failed: {}", signal_name(signal))
            }
            // Another run has taken its place.
            Some((Cause::Kill { by }, _)) if by == "outlive restart" => "restarted".to_owned(),
            Some((Cause::Kill { by }, _)) if by.starts_with(CHANGE_OF) => {
                format!("restarted: {} changed", &by[CHANGE_OF.len()..])
            }
            None if self.due_boot_us.is_some() => {
                let left_us = self.due_boot_us.unwrap_or(0).saturating_sub(clock::boot_us());
                match left_us.div_ceil(1_000_000) {
                    0 => "queued: starts now".to_owned(),
                    seconds => format!("queued: starts in {}", format_duration(seconds * 1000)),
                }
            }
            None if self.waits_for.is_some() => {
                let status = if self.status == Status::Running { Status::Running } else { Status::Queued };
                format!("{status}: {}", self.waits_for.as_deref().unwrap_or_default())
            }
            _ => self.status.word().replace('_', " "),
        };
        one_line(&(status + &self.special()))
    }

    fn asks_for(&self, kind: AwaitedKind) -> bool {
        self.awaits().is_some_and(|awaited| awaited.kind == kind)
    }

    /// Tells whether something of the job may still run, so that it counts against the limits and cannot be removed.
    pub fn is_live(&self) -> bool {
        match self.custody {
            Custody::Lingering | Custody::Orphaned => true,
            Custody::Keeper | Custody::Elsewhere | Custody::Removed => !self.status.has_ended(),
        }
    }

    /// Tells whether the main process has ended, and others of the job go on under their keeper.
    pub fn is_lingering(&self) -> bool {
        self.custody == Custody::Lingering
    }

    /// Tells whether the keeper died, and something of the job goes on.
    pub fn is_orphaned(&self) -> bool {
        self.custody == Custody::Orphaned
    }

    /// Tells whether it belongs to another host or pid namespace.
    pub fn is_elsewhere(&self) -> bool {
        self.custody == Custody::Elsewhere
    }

    /// Tells whether a process of it was ended for want of memory, the main one or another.
    pub fn has_run_out_of_memory(&self) -> bool {
        let usages = [
            self.outcome.as_ref().and_then(|outcome| outcome.usage),
            self.closed.and_then(|closed| closed.usage),
        ];
        self.is_oom()
            || self.meta.as_ref().is_some_and(|meta| meta.out_of_memory.is_some())
            || usages.into_iter().flatten().any(|usage| usage.oom_kills.is_some())
    }

    /// Tells whether it ended for want of memory.
    fn is_oom(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.cause == Cause::Oom)
    }

    /// Tells whether it was removed while it was looked at.
    pub fn is_removed(&self) -> bool {
        self.custody == Custody::Removed
    }

    /// Returns the code that its main process exited with; none while it runs, and of one that a signal ended.
    pub fn exit_code(&self) -> Option<i32> {
        match self.outcome.as_ref()?.wait_status {
            WaitStatus::Exited { code } => Some(code),
            WaitStatus::Signaled { .. } | WaitStatus::Unknown => None,
        }
    }

    /// Returns how long it has run, or ran.
    pub fn runtime_ms(&self) -> Option<u64> {
        match &self.outcome {
            Some(outcome) => outcome.runtime_ms,
            // Another machine's clock cannot be compared with ours.
            None if self.is_elsewhere() => None,
            None => {
                let started = self.meta.as_ref()?.started_boot_us?;
                Some(clock::boot_us().saturating_sub(started) / 1000)
            }
        }
    }
}

impl Job {
    /// Finds out how the job is doing. A job whose keeper died without a word gets its outcome written here.
    pub fn state(&self, store: &Store) -> State {
        self.state_when(store, None)
    }

    /// As [`Job::state`], for a job whose directory was looked at a moment ago: what was read under its stamp then is not looked at
    /// again. It is the state that the job had at that moment or later. `jobs` is the directory of jobs.
    pub(crate) fn state_when_listed(&self, store: &Store, jobs: BorrowedFd<'_>) -> State {
        self.state_when(store, Some(jobs))
    }

    fn state_when(&self, store: &Store, listed: Option<BorrowedFd<'_>>) -> State {
        // An end that comes between the two looks is seen with the snapshot of that end, or of a later moment.
        let is_final = listed.is_some() && self.known.has_ended();
        let (outcome, closed) = self.records_when(listed);
        if let Some(outcome) = outcome {
            if is_final {
                let meta = self.snapshot(true);
                return State { closed, ..self.state_of(Status::of(&outcome), meta, Some(outcome)) };
            }
            return self.ended(store, outcome, closed);
        }
        if let Some(status) = self.unplaced() {
            return self.submitted(store, status);
        }
        // Mostly that is so, and nothing else has to be found out.
        if self.is_here(store) && self.is_kept_when(listed) {
            return self.running_with(self.snapshot(listed.is_some()));
        }
        let placed = self.host();
        let (here, there) = (store.host(), &*placed);
        let is_other_namespace = here.boot == there.boot && here.pid_namespace != there.pid_namespace;
        // A lock is the kernel's, whatever the namespace; another machine's may not be seen from here.
        if here.machine != there.machine || (is_other_namespace && self.is_kept()) {
            return State { custody: Custody::Elsewhere, ..self.running() };
        }
        if self.is_removed() {
            return State { status: Status::Lost, custody: Custody::Removed, ..self.running() };
        }
        if here.boot != there.boot {
            return self.recover(store, Found::lost("the machine was restarted while it ran"));
        }
        // Between the two looks the keeper may have written the outcome and gone, and somebody removed the job.
        if let (Some(outcome), closed) = self.records() {
            return self.ended(store, outcome, closed);
        }
        if self.is_removed() {
            return State { status: Status::Lost, custody: Custody::Removed, ..self.running() };
        }
        if is_other_namespace {
            // While the namespace lives, the command may go on without its keeper, and is seen from inside it alone.
            return match is_pid_namespace_gone(&there.pid_namespace) {
                true => self.recover(store, Found::lost("its container or pid namespace ended while it ran")),
                false => State { custody: Custody::Elsewhere, ..self.running() },
            };
        }
        let meta = self.meta();
        let command = meta.as_ref().and_then(|meta| meta.command).map(identity);
        // A keeper may die before it has written down whom it started.
        let is_running = match command {
            Some(command) => command.is_alive(),
            None => meta.is_none() && !Remnants::of(store, self, None).is_empty(),
        };
        if is_running {
            self.tell_orphaned(store);
            return State { status: Status::Running, custody: Custody::Orphaned, ..self.running() };
        }
        self.end_unkept(store, meta.as_deref(), None)
    }

    /// Returns the state of a job that an engine has, and no keeper yet.
    fn submitted(&self, store: &Store, status: Status) -> State {
        // Between the two looks it may have ended.
        if let (Some(outcome), closed) = self.records() {
            return self.ended(store, outcome, closed);
        }
        if self.is_removed() {
            return State { status: Status::Lost, custody: Custody::Removed, ..self.running() };
        }
        let given_up = match status {
            Status::Queued => self.give_up_unsubmitted(),
            _ => self.is_cancelled().then(|| self.why_cancelled()),
        };
        if let Some(cause) = given_up {
            return self.recover(store, Found { cause, ..Found::lost("") });
        }
        let engine = self.spec().placement.as_ref().map(|placement| placement.engine.word().to_owned());
        State { waits_for: engine, ..self.state_of(status, None, None) }
    }

    fn running(&self) -> State {
        self.running_with(self.meta())
    }

    fn running_with(&self, mut meta: Option<Arc<Meta>>) -> State {
        let spec = self.spec();
        // What another job prints comes by itself; no client has to answer.
        if let Some(meta) = meta.as_mut().filter(|meta| spec.stdin_from.is_some() && meta.awaits.is_some()) {
            Arc::make_mut(meta).awaits = None;
        }
        let has_command = meta.as_ref().is_some_and(|meta| meta.command.is_some());
        let status = match &meta {
            _ if spec.waits() && !has_command => Status::Queued,
            Some(_) => Status::Running,
            // Its snapshot is on its node.
            None if self.node_store().is_some() => Status::Running,
            None => Status::Starting,
        };
        let mut state = self.state_of(status, meta, None);
        state.unhealthy = self.unhealthy().filter(|_| status == Status::Running);
        // One that has ended says it in any case.
        state.gave_up = state.unhealthy.as_ref().and_then(|_| self.gave_up());
        if status == Status::Queued {
            let due_boot_us = match spec.options.schedule.is_set() {
                true => self.planned().map(|planned| clock::boot_us() + planned.left_us(schedule::now())),
                false => spec.rerun.as_ref().map(|rerun| rerun.due_boot_us),
            };
            // A job whose time has come may still wait for its turn.
            let has_turn = spec.options.queue.is_none() && spec.after.is_empty();
            state.due_boot_us = due_boot_us.filter(|due| has_turn || *due > clock::boot_us());
            let after: Vec<String> = spec.after.iter().map(ToString::to_string).collect();
            let after = (!after.is_empty()).then(|| format!("after {}", after.join(", ")));
            let queue = spec.options.queue.as_ref().map(|queue| format!("in {queue}"));
            state.waits_for = Some(after.into_iter().chain(queue).collect::<Vec<_>>().join(", "))
                .filter(|text| !text.is_empty());
        }
        state
    }

    /// Returns a state with nothing special about it.
    pub(super) fn state_of(
        &self,
        status: Status,
        meta: Option<Arc<Meta>>,
        outcome: Option<Outcome>,
    ) -> State {
        let mut newer = self.spec().newer();
        // Both files have a containment: what was asked for, and what there is.
        for name in meta.iter().flat_map(|meta| meta.newer()) {
            if !newer.iter().any(|known| known == name) {
                newer.push(name.to_owned());
            }
        }
        newer.extend(outcome.iter().filter(|outcome| outcome.is_newer()).map(|_| "outcome".to_owned()));
        let gave_up = outcome.as_ref().and_then(|_| self.gave_up());
        let custody = Custody::default();
        State {
            status,
            meta,
            outcome,
            newer,
            closed: None,
            custody,
            gave_up,
            due_boot_us: None,
            waits_for: None,
            unhealthy: None,
        }
    }

    /// Tells how a job is doing whose outcome is known.
    pub(crate) fn ended(&self, store: &Store, outcome: Outcome, closed: Option<Closed>) -> State {
        // Looked at again after the lock: the keeper may close the job and go between the two looks.
        let is_lingering = closed.is_none() && store.host().boot == self.host().boot && self.is_kept();
        let closed = closed.or_else(|| self.records().1);
        let meta = self.meta();
        let is_orphaned = closed.is_none()
            && !is_lingering
            && self.is_here(store)
            && !self.is_removed()
            && !Remnants::of(store, self, meta.as_deref()).is_empty();
        if is_orphaned {
            self.tell_orphaned(store);
        }
        let closed = if is_orphaned || is_lingering { closed } else { closed.or_else(|| self.close(store)) };
        let custody = match (is_orphaned, is_lingering && closed.is_none()) {
            (true, _) => Custody::Orphaned,
            (false, true) => Custody::Lingering,
            (false, false) => Custody::Keeper,
        };
        State { custody, closed, ..self.state_of(Status::of(&outcome), meta, Some(outcome)) }
    }
}
