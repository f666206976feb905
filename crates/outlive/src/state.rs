//! How a job is doing, derived from what is in the store.
//!
//! Order of trust: outcome record, then the keeper's lock, then the identity of the recorded processes. Whoever finds a
//! job whose keeper is dead writes down what is known, once, under the job's lock.

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::meta::Meta;
use outlive_core::outcome::{
    CLOSED_AT, Cause, Closed, FILE_BYTES, NeverStarted, OUTCOME_AT, Outcome, SLOT_BYTES, WaitStatus,
};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::ProcessId;
use outlive_sys::{clock, durable, lock};

use crate::job::Job;
use crate::output::Output;
use crate::store::Store;

/// How a job is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// The native word.
    pub status: Status,
    /// What the snapshot says: the pids, the start.
    pub meta: Option<Meta>,
    /// How the main process ended.
    pub outcome: Option<Outcome>,
    /// When the last process was gone.
    pub closed: Option<Closed>,
    /// The main process has ended, and others of the job go on under their keeper.
    pub is_lingering: bool,
    /// The keeper died, and the command goes on without it.
    pub is_orphaned: bool,
    /// It was removed while it was looked at; the rest says nothing.
    pub is_removed: bool,
    /// Another host or pid namespace has it: nothing can be recovered or signalled from here.
    pub is_elsewhere: bool,
    /// Nobody keeps it any more. Of a job of another pid namespace that is all that can be said: its end was never
    /// recorded, and whoever could has gone.
    is_abandoned: bool,
}

impl State {
    /// Tells whether something of the job may still run, so that it counts against the limits and cannot be removed.
    pub fn is_live(&self) -> bool {
        !self.is_abandoned && (!self.status.has_ended() || self.is_lingering || self.is_orphaned)
    }

    /// Returns how long it has run, or ran.
    pub fn runtime_ms(&self) -> Option<u64> {
        match &self.outcome {
            Some(outcome) => outcome.runtime_ms,
            // Another machine's clock cannot be compared with ours.
            None if self.is_elsewhere => None,
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
        let (outcome, closed) = self.records();
        if let Some(outcome) = outcome {
            return self.ended(store, outcome, closed);
        }
        let (here, there) = (store.host(), &self.spec().host);
        if here.machine != there.machine
            || (here.boot == there.boot && here.pid_namespace != there.pid_namespace)
        {
            // A lock is the kernel's, whatever the namespace; another machine's may not be seen from here.
            let is_abandoned = here.machine == there.machine && !self.is_kept();
            return State { is_elsewhere: true, is_abandoned, ..self.running() };
        }
        if self.is_removed() {
            return State { status: Status::Lost, is_removed: true, ..self.running() };
        }
        if here.boot != there.boot {
            return self.recover(store, Cause::Lost { why: "the machine was restarted while it ran".into() });
        }
        if self.is_kept() {
            return self.running();
        }
        // Between the two looks the keeper may have written the outcome and gone, and somebody removed the job.
        if let (Some(outcome), closed) = self.records() {
            return self.ended(store, outcome, closed);
        }
        if self.is_removed() {
            return State { status: Status::Lost, is_removed: true, ..self.running() };
        }
        let Some(meta) = self.meta() else {
            let never = NeverStarted { step: "keeper".into(), ..NeverStarted::default() };
            return self.recover(store, Cause::NeverStarted(never));
        };
        let command =
            meta.command.map(|process| ProcessId { pid: process.pid, start_time: process.start_time });
        if command.is_some_and(ProcessId::is_alive) {
            self.tell_orphaned(store);
            return State { is_orphaned: true, ..self.running() };
        }
        self.recover(store, Cause::Lost { why: "its keeper died before it could record the end".into() })
    }

    /// Writes down, once, that the keeper of a job that goes on is gone.
    fn tell_orphaned(&self, store: &Store) {
        if durable::create_new(self.dir(), file::ORPHANED).is_ok() {
            store.append_event_of(self, Kind::Orphaned);
        }
    }

    fn running(&self) -> State {
        let meta = self.meta();
        let status = if meta.is_some() { Status::Running } else { Status::Starting };
        State {
            status,
            meta,
            outcome: None,
            closed: None,
            is_lingering: false,
            is_orphaned: false,
            is_removed: false,
            is_elsewhere: false,
            is_abandoned: false,
        }
    }

    fn ended(&self, store: &Store, outcome: Outcome, closed: Option<Closed>) -> State {
        // Looked at again after the lock: the keeper may close the job and go between the two looks.
        let is_lingering = closed.is_none() && store.host().boot == self.spec().host.boot && self.is_kept();
        let closed = closed.or_else(|| self.records().1);
        State {
            status: Status::of(&outcome),
            meta: self.meta(),
            is_lingering: is_lingering && closed.is_none(),
            outcome: Some(outcome),
            closed,
            is_orphaned: false,
            is_removed: false,
            is_elsewhere: false,
            is_abandoned: false,
        }
    }

    /// Writes the outcome of a job that nobody keeps.
    ///
    /// # Durability
    ///
    /// The outcome is synced before this returns, unless somebody else is writing it at the moment.
    fn recover(&self, store: &Store, cause: Cause) -> State {
        let now = Timestamp(clock::wall_us());
        let totals = Output::open(self).map(|output| output.totals()).unwrap_or_default();
        let outcome = Outcome {
            wait_status: WaitStatus::Unknown,
            cause,
            ended: now,
            runtime_ms: None,
            usage: None,
            totals,
        };
        let closed = Closed { closed: now, totals };
        let written = self.write_outcome(store, &outcome, &closed);
        // Somebody else may have been faster, with the same or better knowledge: what is in the store counts.
        let (found, found_closed) = self.records();
        let (outcome, closed) =
            if written { (outcome, Some(closed)) } else { (found.unwrap_or(outcome), found_closed) };
        let status = Status::of(&outcome);
        let mut meta = self.meta();
        if let Some(meta) = &mut meta {
            *meta = Meta { status, outcome: Some(outcome.clone()), closed, ..meta.clone() };
            fault::step(Point::RecoverMeta, || durable::replace(self.dir(), file::META, &meta.to_bytes()))
                .ok();
        }
        let mark = store.live().join(format!("{}@{}", self.id(), self.spec().session));
        fault::step(Point::RecoverMark, || std::fs::remove_file(mark)).ok();
        State {
            status,
            meta,
            outcome: Some(outcome),
            closed,
            is_lingering: false,
            is_orphaned: false,
            is_removed: false,
            is_elsewhere: false,
            is_abandoned: false,
        }
    }

    /// Writes both records if nobody has and nobody does.
    fn write_outcome(&self, store: &Store, outcome: &Outcome, closed: &Closed) -> bool {
        let Ok(guard) = durable::open_ro(self.dir(), file::LOCK) else { return false };
        let locked = fault::step(Point::RecoverLock, || lock::try_lock(&guard, lock::Kind::Exclusive));
        if !locked.unwrap_or(false) || self.records().0.is_some() {
            return false;
        }
        // First: whoever dies between the two leaves a job that is found again, and its event is then a repeat.
        let event = Event::of_outcome(self.id(), self.spec().nonce, outcome);
        if fault::step(Point::RecoverEvent, || Ok(())).is_ok() {
            store.append_event(&self.spec().session, &event);
        }
        let mut slots = [0; FILE_BYTES as usize];
        slots[..SLOT_BYTES].copy_from_slice(&outcome.to_slot());
        slots[CLOSED_AT as usize..].copy_from_slice(&closed.to_slot());
        durable::open_rw(self.dir(), file::OUTCOME)
            .and_then(|file| {
                fault::write_all_at(Point::RecoverWrite, &file, &slots, OUTCOME_AT)?;
                fault::step(Point::RecoverSync, || file.sync_data())
            })
            .is_ok()
    }
}
