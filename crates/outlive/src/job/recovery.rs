//! The end of a job whose keeper died before it could record it: what is known is written down, once, under the job's lock.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::meta::Meta;
use outlive_core::outcome::{
    CLOSED_AT, Cause, Closed, FILE_BYTES, OUTCOME_AT, Outcome, SLOT_BYTES, WaitStatus,
};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point, Replacing};
use outlive_sys::{clock, durable, lock};

use crate::job::Job;
use crate::job::state::{Custody, State};
use crate::output::Output;
use crate::store::Store;

/// How long the job's lock is waited for by whoever has to write down its end.
const LOCK_LIMIT: Duration = Duration::from_secs(1);

/// What was found out about the end of a job that nobody keeps.
pub(crate) struct Found {
    pub(crate) cause: Cause,
    pub(crate) wait_status: WaitStatus,
    /// Nothing of it is left.
    pub(crate) is_closed: bool,
    /// Somebody saw it end, just now.
    pub(crate) is_now: bool,
}

impl Found {
    /// The end of a job with all that it had, which no process saw.
    pub(super) fn lost(why: &str) -> Self {
        let cause = Cause::Lost { why: why.into() };
        Self { cause, wait_status: WaitStatus::Unknown, is_closed: true, is_now: false }
    }
}

impl Job {
    /// Writes down, once, that the keeper of a job that goes on is gone.
    pub(crate) fn tell_orphaned(&self, store: &Store) {
        if fault::step(Point::OrphanMark, || durable::create_new(self.dir()?, file::ORPHANED)).is_ok() {
            store.append_event_of(Appending::ORPHAN_EVENT, self, Kind::Orphaned);
        }
    }

    /// Writes the outcome of a job that nobody keeps.
    ///
    /// # Durability
    ///
    /// The outcome is synced before this returns, unless somebody else is writing it at the moment.
    pub(crate) fn recover(&self, store: &Store, found: Found) -> State {
        let now = Timestamp(clock::wall_us());
        let totals = Output::open(self).map(|output| output.totals()).unwrap_or_default();
        let mut meta = self.meta();
        let started = meta.as_ref().and_then(|meta| meta.started_boot_us).filter(|_| found.is_now);
        let outcome = Outcome {
            wait_status: found.wait_status,
            cause: found.cause,
            ended: now,
            runtime_ms: started.map(|started| clock::boot_us().saturating_sub(started) / 1000),
            usage: None,
            totals,
        };
        let closed = found.is_closed.then_some(Closed { closed: now, usage: None, totals });
        let written = self.write_outcome(store, &outcome, closed.as_ref());
        // Somebody else may have been faster, with the same or better knowledge: what is in the store counts.
        let (known, known_closed) = self.records();
        let (outcome, closed) =
            if written { (outcome, closed) } else { (known.unwrap_or(outcome), known_closed) };
        let status = Status::of(&outcome);
        if let Some(meta) = &mut meta {
            let meta = Arc::make_mut(meta);
            (meta.status, meta.outcome, meta.closed) = (status.into(), Some(outcome.clone()), closed);
            self.replace_meta(Replacing::RECOVER_META, meta).ok();
        }
        let is_orphaned = closed.is_none() && !found.is_closed;
        if is_orphaned {
            self.tell_orphaned(store);
        } else {
            self.unmark(Point::RecoverMark, store);
        }
        let custody = if is_orphaned { Custody::Orphaned } else { Custody::Keeper };
        let state = State { closed, custody, ..self.state_of(status, meta, Some(outcome)) };
        if written {
            store.part_for_dead_keeper(self, &state);
            store.revive_schedule(self, &state);
        }
        state
    }

    /// Writes the outcome that was recorded in another store; false if that cannot be written, or is known already.
    ///
    /// # Durability
    ///
    /// The outcome is synced before this returns.
    pub(crate) fn record_brought(&self, store: &Store, outcome: &Outcome, closed: Option<&Closed>) -> bool {
        let written = self.write_outcome(store, outcome, closed);
        if written {
            self.unmark(Point::RecoverMark, store);
            // Those who are to be told were told there.
            store.unmark_pending(self.spec());
        }
        written
    }

    /// Removes the mark by which it counts as live, if its end is among the events: else the next who looks will tell of it.
    fn unmark(&self, point: Point, store: &Store) {
        if store.tell_ending(self) {
            store.remove_live_mark(point, self);
        }
    }

    /// Writes the closed record of a job whose keeper died before it could; nothing is left of it.
    pub(super) fn close(&self, store: &Store) -> Option<Closed> {
        // Of another boot or machine it is known without a record.
        if !self.is_here(store) || self.is_removed() {
            return None;
        }
        let totals = Output::open(self).map(|output| output.totals()).unwrap_or_default();
        let closed = Closed { closed: Timestamp(clock::wall_us()), usage: None, totals };
        let _lock = self.take_lock(Point::CloseLock)?;
        if let Some(known) = self.records().1 {
            return Some(known);
        }
        let file = durable::open_rw(self.dir().ok()?, file::OUTCOME).ok()?;
        fault::write_all_at(Point::CloseWrite, &file, &closed.to_slot(), CLOSED_AT).ok()?;
        if let Some(meta) = self.meta() {
            let meta = Meta { closed: Some(closed), ..Meta::clone(&meta) };
            self.replace_meta(Replacing::CLOSE_META, &meta).ok();
        }
        self.unmark(Point::CloseMark, store);
        Some(closed)
    }

    /// Takes the job's lock in place of its keeper. Waits a moment: a front end that only looks holds it briefly, too.
    fn take_lock(&self, point: Point) -> Option<File> {
        let file = self.open_file(file::LOCK).ok()?;
        fault::step(point, || lock::lock_within(&file, LOCK_LIMIT)).ok()?.then_some(file)
    }

    /// Writes the outcome, and the closed record if nothing is left, if nobody has and nobody does.
    fn write_outcome(&self, store: &Store, outcome: &Outcome, closed: Option<&Closed>) -> bool {
        let Some(_lock) = self.take_lock(Point::RecoverLock) else { return false };
        if self.records().0.is_some() {
            return false;
        }
        // First: whoever dies between the two leaves a job that is found again, and its event is then a repeat.
        let event = Event::of_outcome(self.id(), self.spec().nonce, outcome);
        store.append_event(Appending::RECOVER_EVENT, self.session(), &event);
        let mut slots = [0; FILE_BYTES as usize];
        slots[..SLOT_BYTES].copy_from_slice(&outcome.to_slot());
        if let Some(closed) = closed {
            slots[CLOSED_AT as usize..].copy_from_slice(&closed.to_slot());
        }
        self.dir()
            .and_then(|dir| durable::open_rw(dir, file::OUTCOME))
            .and_then(|file| {
                fault::write_all_at(Point::RecoverWrite, &file, &slots, OUTCOME_AT)?;
                fault::step(Point::RecoverSync, || file.sync_data())
            })
            .is_ok()
    }
}
