//! From the end of the main process to the end of the job.
//!
//! Exit is not end of file. When the main process is gone, what is in the pipes is drained, the outcome is written and
//! announced, whatever other processes still run. It is synced right after that, or before where the configuration says
//! so. The job is closed when its last process is gone.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use outlive_core::containment::Survivors;
use outlive_core::event::Event;
use outlive_core::launch::SyncOrder;
use outlive_core::outcome::{
    CLOSED_AT, Cause, Closed, FILE_BYTES, OUTCOME_AT, Outcome, SLOT_BYTES, Usage, WaitStatus,
};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::Handle;
use outlive_sys::spawn::{self, Reap, Reaped};
use outlive_sys::{clock, durable, lock, pipe};

use crate::guard::Word;
use crate::killing::Killing;
use crate::start::{Keeper, live_path};
use crate::turn;

/// How many children are reaped before the loop has its turn.
const REAPED_AT_ONCE: usize = 5000;

/// How often to look whether anything is left of a job that this process is not the parent of.
const LOOK_EVERY_US: u64 = 200_000;

/// How long to wait before a record that could not be written is tried again.
const RETRY: std::time::Duration = std::time::Duration::from_millis(2);

/// How far a job is on its way to its end, and why it ends.
pub(crate) struct Ending {
    main_pid: i32,
    pub(crate) phase: Phase,
    /// Why it was asked to end, if it was. The first cause stays.
    pub(crate) cause: Option<Cause>,
    /// The last signal that a client sent without asking for the end, and which client.
    pub(crate) last_signal: Option<(i32, String)>,
    pub(crate) killing: Option<Killing>,
    pub(crate) survivors: Survivors,
    /// When those that the main process left behind are to be ended.
    pub(crate) survivors_us: Option<u64>,
    /// Children have ended that are not reaped yet.
    pub(crate) has_more_to_reap: bool,
}

/// The phases of a job, in their order.
pub(crate) enum Phase {
    /// The main process was not reaped yet.
    Running,
    /// The outcome is written, and is being synced apart from the loop before it is announced; `finished` is readable when
    /// that is done.
    Syncing { main: Reaped, finished: OwnedFd },
    /// The outcome was announced, and processes are left.
    Lingering { main: Reaped, end_event: EndEvent },
    /// The last process is gone, and the closed record is written.
    Closed,
}

/// Whether the end of the job is among its session's events.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndEvent {
    Written,
    /// There was no room. The mark in `live/` stays, and makes the next front end write it.
    Missing,
}

impl Ending {
    pub(crate) fn new(main_pid: i32, survivors: Survivors) -> Self {
        Self {
            main_pid,
            phase: Phase::Running,
            cause: None,
            last_signal: None,
            killing: None,
            survivors,
            survivors_us: None,
            has_more_to_reap: false,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    pub(crate) fn syncing_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.phase {
            Phase::Syncing { finished, .. } => Some(finished.as_fd()),
            _ => None,
        }
    }

    fn cause_of(&self, main: &Reaped, was_out_of_memory: bool) -> Cause {
        let is_success = main.status == spawn::WaitStatus::Exited(0);
        match (&self.cause, &self.last_signal, main.status) {
            (Some(cause), ..) => cause.clone(),
            (None, Some((sent, by)), spawn::WaitStatus::Signaled { signal, .. }) if *sent == signal => {
                Cause::Kill { by: by.clone() }
            }
            // Whatever the exit status is, this is why.
            _ if was_out_of_memory && !is_success => Cause::Oom,
            _ => Cause::Natural,
        }
    }
}

impl Keeper {
    /// Reaps every child that has ended, and acts on it.
    pub(crate) fn reap(&mut self, buffer: &mut [u8]) {
        self.child_ends.clear();
        self.see_to_guard(buffer);
        if !self.is_parent {
            return self.look(buffer);
        }
        let (ended, has_children) = fault::around(Point::Reap, || self.reap_ended());
        // Children may be left that are other jobs' keepers only: they are not of this job.
        let is_tree_empty = |keeper: &Self| {
            !has_children
                || keeper.was_empty()
                || (!keeper.ending.has_more_to_reap && keeper.containment.is_surely_empty())
        };
        match (&self.ending.phase, ended) {
            (Phase::Running, Some(main)) => {
                self.drain(buffer);
                self.record_outcome(main, is_tree_empty(self));
            }
            (&Phase::Lingering { main, end_event }, _) if is_tree_empty(self) => {
                self.close_unless_followed(&main, end_event, buffer);
            }
            _ => {}
        }
    }

    /// Closes a job of which nothing is left, once its next run is made, if one is to follow.
    fn close_unless_followed(&mut self, main: &Reaped, end_event: EndEvent, buffer: &mut [u8]) {
        self.drain(buffer);
        if self.is_next_run_made() {
            self.close(main, end_event);
        }
    }

    /// Looks how a job is doing that this process is not the parent of: the kernel tells how the main process ended through a
    /// hold on it, and of the others nothing.
    fn look(&mut self, buffer: &mut [u8]) {
        self.ending.has_more_to_reap = false;
        self.reap_next_run();
        self.look_us = None;
        let is_over = self.main.as_ref().is_none_or(Handle::has_ended);
        match self.ending.phase {
            Phase::Running if is_over => {
                let known = self.custody.end().or_else(|| self.end_of_main());
                self.drain(buffer);
                match known {
                    Some(main) => {
                        self.custody.note_end(&main);
                        self.record_outcome(main, self.containment.is_empty());
                    }
                    // An outcome without a status is for front ends to write: they may know more.
                    None => std::process::exit(1),
                }
            }
            Phase::Lingering { main, end_event } if self.was_empty() || self.containment.is_empty() => {
                self.close_unless_followed(&main, end_event, buffer);
            }
            _ => {}
        }
        if matches!(self.ending.phase, Phase::Lingering { .. }) {
            self.look_us = Some(clock::boot_us() + LOOK_EVERY_US);
        }
    }

    fn end_of_main(&self) -> Option<Reaped> {
        let id = self.custody.main()?;
        let status = self.main.as_ref()?.wait_status(id)?;
        Some(Reaped { pid: id.pid, status, usage: spawn::Usage::default() })
    }

    /// Reaps the children that have ended. Returns the main process, if it was among them, and whether there are others.
    fn reap_ended(&mut self) -> (Option<Reaped>, bool) {
        self.ending.has_more_to_reap = false;
        // A keeper that died may have reaped it already.
        let mut main = self.custody.end().filter(|_| self.ending.is_running());
        // Children may end faster than they can be reaped, and a client may be waiting to end that.
        for _ in 0..REAPED_AT_ONCE {
            match spawn::find_ended() {
                Reap::Ended(ended) => {
                    if ended.pid == self.ending.main_pid && self.ending.is_running() && main.is_none() {
                        self.custody.note_end(&ended);
                        main = Some(ended);
                    }
                    spawn::reap(ended.pid);
                    self.note_next_run(&ended);
                    if self.containment.reaped(ended.pid) {
                        self.custody.remove_worker(ended.pid);
                    }
                }
                Reap::None => return (main, false),
                Reap::Running => return (main, true),
            }
        }
        self.ending.has_more_to_reap = true;
        (main, true)
    }

    /// Reads what the pipes hold at this moment. All that the main process wrote is among it; what a survivor writes
    /// without end is not waited for.
    fn drain(&mut self, buffer: &mut [u8]) {
        fault::around(Point::Drain, || {
            for index in 0..self.outputs.len() {
                let held = self.outputs[index].capacity();
                let mut drained = 0;
                while drained < held {
                    match self.read_output(index, buffer) {
                        0 => break,
                        count => drained += count,
                    }
                }
            }
        });
    }

    /// Writes the outcome, and sees to its announcement and sync.
    fn record_outcome(&mut self, main: Reaped, is_tree_empty: bool) {
        self.hear_last_word();
        let now = Timestamp(clock::wall_us());
        // The gap must be in the index before the totals claim it.
        self.recorder.record_gap();
        let usage = self.usage(&main);
        self.note_peaks(&usage, now);
        let outcome = Outcome {
            wait_status: match main.status {
                spawn::WaitStatus::Exited(code) => WaitStatus::Exited { code },
                spawn::WaitStatus::Signaled { signal, core } => WaitStatus::Signaled { signal, core },
            },
            cause: self.ending.cause_of(&main, usage.oom_kills.is_some()),
            ended: now,
            runtime_ms: Some(clock::boot_us().saturating_sub(self.started_boot_us) / 1000),
            usage: Some(usage),
            totals: self.recorder.totals(),
        };
        if is_tree_empty {
            (self.deadline_us, self.alarm) = (None, None);
        }
        // What is left of a run is ended before the next: both would want the same port.
        let is_followed = self.want_next_run(&outcome);
        let is_tree_empty = is_tree_empty && !is_followed;
        if is_followed {
            self.ending.survivors = Survivors::KillAfter { ms: 0 };
            self.ending.has_more_to_reap = true;
        }
        if let Survivors::KillAfter { ms } = self.ending.survivors {
            self.ending.survivors_us = Some(clock::boot_us().saturating_add(ms.saturating_mul(1000)));
            self.custody.set_moment(Word::SurvivorsDue, self.ending.survivors_us);
        }
        (self.meta.status, self.meta.awaits) = (Status::of(&outcome).into(), None);
        if is_tree_empty {
            let slots = both_slots(&outcome, now);
            self.meta.closed = Closed::from_slot(&slots[CLOSED_AT as usize..]);
            self.write_record(Point::OutcomeWrite, &slots, OUTCOME_AT);
            self.ending.phase = Phase::Closed;
            self.meta.outcome = Some(outcome);
            if self.sync == SyncOrder::Before {
                // Nothing is left to drain, and whatever process the sync holds up waits for the outcome anyway.
                sync(&self.ended_files());
            }
            self.announce();
        } else {
            self.write_record(Point::OutcomeWrite, &outcome.to_slot(), OUTCOME_AT);
            self.meta.outcome = Some(outcome);
            match self.sync {
                SyncOrder::After => drop(self.linger(main)),
                SyncOrder::Before => match sync_apart(self.ended_files()) {
                    Some(finished) => self.ending.phase = Phase::Syncing { main, finished },
                    None => {
                        sync(&self.ended_files());
                        self.linger(main);
                    }
                },
            }
        }
    }

    /// Announces the outcome while processes are left, and syncs apart from the loop: they go on writing.
    pub(crate) fn linger(&mut self, main: Reaped) -> EndEvent {
        let end_event = self.announce();
        self.ending.phase = Phase::Lingering { main, end_event };
        // Without room for a thread it is synced when the job is closed.
        sync_apart(self.unsynced());
        end_event
    }

    /// Returns the files without which there is no outcome: its own, and the intent, which was not synced at the start.
    fn ended_files(&self) -> Vec<(Point, File)> {
        let spec = durable::open_ro(&self.dir, outlive_core::file::SPEC).ok();
        spec.into_iter().chain(self.outcome.try_clone()).map(|file| (Point::OutcomeSync, file)).collect()
    }

    /// Returns the files that a loss of power may not take once the job has ended: those of the outcome, and the log.
    pub(crate) fn unsynced(&self) -> Vec<(Point, File)> {
        let log = self.recorder.files(&self.dir).into_iter().map(|file| (Point::LogSync, file));
        self.ended_files().into_iter().chain(log).collect()
    }

    /// Returns what the job used: by the kernel's count of its group, else what its children had.
    fn usage(&self, main: &Reaped) -> Usage {
        let children = spawn::children_usage();
        let (user_ms, system_ms) =
            self.containment.cpu_ms().unwrap_or((children.user_ms, children.system_ms));
        Usage {
            user_ms,
            system_ms,
            max_rss_bytes: children.max_rss_bytes.max(main.usage.max_rss_bytes),
            memory_peak_bytes: self.containment.memory_peak().or(self.limit_monitor.memory_peak()),
            pids_peak: self.containment.count_peak().or(self.limit_monitor.pids_peak()),
            oom_kills: self.containment.oom_kills(),
        }
    }

    /// The sync that was done apart is over.
    pub(crate) fn synced(&mut self, buffer: &mut [u8]) {
        let Phase::Syncing { main, .. } = self.ending.phase else { return };
        let end_event = self.linger(main);
        if self.containment.is_surely_empty() {
            self.close_unless_followed(&main, end_event, buffer);
        }
    }

    /// Lets readers and waiters know of the outcome.
    pub(crate) fn announce(&mut self) -> EndEvent {
        // First: a mark without a keeper is looked at by the next front end, which writes the event if it is missing.
        let event =
            self.meta.outcome.as_ref().map(|end| Event::of_outcome(&self.meta.job, self.meta.nonce, end));
        let is_written = event.is_some_and(|event| self.write_event(&event));
        let end_event = if is_written { EndEvent::Written } else { EndEvent::Missing };
        self.custody.set(Word::HasEndEvent, u64::from(is_written));
        if self.ending.is_closed() {
            self.remove_mark(end_event);
        }
        if let Some(done) = self.done.take() {
            self.custody.withdraw(Word::Done);
            // It is freed in any case when it is closed.
            fault::step(Point::DoneRelease, || lock::unlock(&done)).ok();
            // A waiter that the kernel woke on this processor goes first: the rest, which ends in a sync, is awaited by none.
            std::thread::yield_now();
        }
        turn::release_slot(self.custody);
        // Last: waiters go by the outcome, and need not wait for the snapshot.
        self.write_meta(Replacing::META_END);
        end_event
    }

    /// Writes the closed record: the last process of the job is gone.
    fn close(&mut self, main: &Reaped, end_event: EndEvent) {
        let now = Timestamp(clock::wall_us());
        self.recorder.record_gap();
        let usage = self.usage(main);
        self.note_peaks(&usage, now);
        let closed = Closed { closed: now, usage: Some(usage), totals: self.recorder.totals() };
        self.write_record(Point::ClosedWrite, &closed.to_slot(), CLOSED_AT);
        self.meta.closed = Some(closed);
        self.remove_mark(end_event);
        self.write_meta(Replacing::META_END);
        self.ending.phase = Phase::Closed;
    }

    /// Writes a record, and tries again if that fails: its room was reserved, so whatever it is may pass. A disk that takes not
    /// even this leaves the job without the record, and readers will say `lost`.
    fn write_record(&self, point: Point, record: &[u8], at: u64) {
        const ATTEMPTS: usize = 5;
        for _ in 0..ATTEMPTS {
            if fault::write_all_at(point, &self.outcome, record, at).is_ok() {
                return;
            }
            std::thread::sleep(RETRY);
        }
    }

    /// Removes the mark by which the job counts as live: of its first session, or of the one that it was given to.
    pub(crate) fn remove_mark(&self, end_event: EndEvent) {
        if end_event == EndEvent::Missing {
            return;
        }
        let given = durable::read_line(&self.dir, outlive_core::file::SESSION);
        let mark = given.map(|session| format!("{}@{session}", self.meta.job));
        for mark in mark.iter().chain([&self.live_mark]) {
            fault::step(Point::LiveRemove, || durable::remove(&self.dir, &live_path(mark))).ok();
        }
    }

    /// Replaces the snapshot. It is a convenience: a full disk costs the snapshot and nothing else.
    pub(crate) fn write_meta(&self, at: Replacing) {
        durable::replace(at, &self.dir, outlive_core::file::META, &self.meta.to_bytes()).ok();
    }
}

/// Returns the whole outcome file of a job that ended and is closed.
pub(crate) fn both_slots(outcome: &Outcome, now: Timestamp) -> [u8; FILE_BYTES as usize] {
    let mut slots = [0; FILE_BYTES as usize];
    slots[..SLOT_BYTES].copy_from_slice(&outcome.to_slot());
    slots[CLOSED_AT as usize..]
        .copy_from_slice(&Closed { closed: now, usage: None, totals: outcome.totals }.to_slot());
    slots
}

/// Syncs files, one after the other. A disk that fails costs what it did not take; there is no other copy to write.
pub(crate) fn sync(files: &[(Point, File)]) {
    for (point, file) in files {
        fault::step(*point, || file.sync_data()).ok();
    }
}

/// Syncs files in a short-lived thread: a disk may take seconds. Returns a descriptor that becomes readable when it is done;
/// `None` if there is no room for a thread.
fn sync_apart(files: Vec<(Point, File)>) -> Option<OwnedFd> {
    let (finished, mut finish) = pipe::new().ok().map(|(reading, writing)| (reading, File::from(writing)))?;
    std::thread::Builder::new()
        .stack_size(64 << 10)
        .spawn(move || {
            sync(&files);
            finish.write_all(b".").ok();
        })
        .ok()?;
    Some(finished)
}
