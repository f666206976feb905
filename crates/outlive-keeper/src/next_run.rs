//! Making the next run of a job that is to be started again.
//!
//! The keeper decides nothing but whether a next run is wanted. It starts `outlive next-run`, with the job's environment, which finds
//! out when the run may start, makes it with a keeper of its own, and ends. Until then the job is not closed, so that it counts as
//! live: it can be stopped, and no other program takes it for over. A program that was killed is started again; it makes no second
//! run where there is one. If the keeper is killed, its guard goes on with this as with all else.
//!
//! The process beside a job asks for the same while the job runs. What it asks for is written into the job's directory, and is
//! removed if a client stops the job after that.

use outlive_core::control::{ENDING, Reply};
use outlive_core::file;
use outlive_core::outcome::{Cause, Outcome};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::{ProcessId, Stat};
use outlive_sys::signal::Signal;
use outlive_sys::spawn::{self, Reap, Reaped, WaitStatus};
use outlive_sys::{clock, durable};

use crate::guard::Word;
use crate::on_exit::OnExit;
use crate::start::Keeper;

/// A next run is wanted.
const WANTED: u64 = 1;

/// It was made, or will not be.
const SETTLED: u64 = 2;

/// The job was stopped, and no run follows it.
const FORGONE: u64 = 3;

/// The process beside the job has asked for another run in its place.
const ASKED: u64 = 4;

/// Nothing of the job is left, and its next run is being made.
const MAKING: u64 = 5;

/// How long to wait before the program is started once more: another front end may hold the name of the job, to restart it.
const PAUSE_US: u64 = 100_000;

/// How often the program is started at most: for a minute, as long as another front end may take.
const ATTEMPTS: u32 = 600;

impl Keeper {
    /// Notes whether another run is to follow a run that ended so.
    pub(crate) fn want_next_run(&mut self, outcome: &Outcome) -> bool {
        let is_possible = self.on_exit.as_ref().is_some_and(OnExit::can_run_again);
        let decided = self.custody.get(Word::NextRun);
        // A keeper that died may have come as far as this before it wrote the outcome.
        let is_asked = [ASKED, WANTED].contains(&decided) && matches!(outcome.cause, Cause::Kill { .. });
        let is_wanted = is_possible
            && decided != FORGONE
            && (is_asked || self.restart.is_wanted_after(outcome) || self.is_due_again(outcome));
        if is_wanted {
            self.custody.set(Word::NextRun, WANTED);
        }
        is_wanted
    }

    /// Tells whether its schedule has another time. A run that was stopped is the last.
    fn is_due_again(&self, outcome: &Outcome) -> bool {
        self.is_scheduled && !matches!(outcome.cause, Cause::Kill { .. })
    }

    /// Lets no run follow: the job was stopped. One that is being made is for the front end to stop.
    pub(crate) fn forgo_next_run(&self) {
        if self.custody.get(Word::NextRun) != SETTLED {
            self.custody.set(Word::NextRun, FORGONE);
        }
        if self.on_exit.as_ref().is_some_and(OnExit::can_run_again) {
            fault::step(Point::NextRunForgo, || durable::remove(&self.dir, file::NEXT_RUN)).ok();
        }
    }

    /// Ends the job and lets another run follow, as the process beside it asks for: `next_run` says what that run is made from.
    pub(crate) fn replace(&mut self, by: String, next_run: &[u8]) -> Reply {
        if !self.on_exit.as_ref().is_some_and(OnExit::can_run_again) {
            return Reply::refused("no_helper", "the keeper has no program that makes the next run");
        }
        if !self.ending.is_running() || self.custody.get(Word::NextRun) == FORGONE {
            return Reply::refused(ENDING, "the job is being ended");
        }
        // Before it is decided: the program that makes the run reads it.
        if let Err(error) = durable::replace(Replacing::NEXT_RUN, &self.dir, file::NEXT_RUN, next_run) {
            return Reply::refused("not_written", error.to_string());
        }
        self.custody.set(Word::NextRun, ASKED);
        self.end_tree(Signal::TERM, None, Cause::Kill { by });
        Reply::Accepted
    }

    /// Tells whether the program runs that makes the next run.
    pub(crate) fn makes_next_run(&self) -> bool {
        self.custody.get(Word::NextRunPid) != 0
    }

    /// Tells whether nothing of the job was left when its next run was made: what this process has adopted since, such as the process beside
    /// that run, is no part of the job.
    pub(crate) fn was_empty(&self) -> bool {
        [MAKING, SETTLED].contains(&self.custody.get(Word::NextRun))
    }

    /// Tells whether the job can be closed. Starts the program that makes the next run, if that is to be done.
    pub(crate) fn is_next_run_made(&mut self) -> bool {
        // Whatever was decided since, the program that was started is waited for: it may have made the run.
        if self.makes_next_run() {
            return false;
        }
        if ![WANTED, MAKING].contains(&self.custody.get(Word::NextRun)) {
            return true;
        }
        if self.next_run_us.is_some_and(|next_us| clock::boot_us() < next_us) {
            return false;
        }
        // What the run had left behind is gone. Whatever comes now, such as the keeper of the next run, is not to be ended.
        (self.ending.killing, self.ending.survivors_us) = (None, None);
        self.custody.set_moment(Word::HardFrom, None);
        self.custody.set_moment(Word::SurvivorsDue, None);
        self.next_run_attempts += 1;
        let Some(program) = self.on_exit.as_ref().filter(|_| self.next_run_attempts <= ATTEMPTS) else {
            return true;
        };
        self.custody.set(Word::NextRun, MAKING);
        let start = || program.start_next_run().ok_or(std::io::ErrorKind::Other.into());
        match fault::step(Point::NextRunExec, start) {
            Ok(id) => {
                self.containment.except(id.pid.cast_unsigned());
                self.custody.set(Word::NextRunPid, u64::from(id.pid.cast_unsigned()));
            }
            Err(_) => self.next_run_us = Some(clock::boot_us() + PAUSE_US),
        }
        false
    }

    /// Notes the end of the program that makes the next run, if this is it.
    pub(crate) fn note_next_run(&mut self, ended: &Reaped) {
        if self.custody.get(Word::NextRunPid) != u64::from(ended.pid.cast_unsigned()) {
            return;
        }
        if ended.status == WaitStatus::Exited(0) {
            self.custody.set(Word::NextRun, SETTLED);
        } else {
            self.next_run_us = Some(clock::boot_us() + PAUSE_US);
        }
        self.custody.set(Word::NextRunPid, 0);
    }

    /// Reaps the program in a keeper that is not the parent of the command: it has no other child to reap.
    pub(crate) fn reap_next_run(&mut self) {
        while let Reap::Ended(ended) = spawn::find_ended() {
            spawn::reap(ended.pid);
            self.containment.reaped(ended.pid);
            self.note_next_run(&ended);
        }
    }

    /// Goes on in place of a keeper that died: the program that it had started is a child of this process now, or of init.
    pub(crate) fn resume_next_run(&mut self) {
        let pid = self.custody.get(Word::NextRunPid) as u32;
        if pid == 0 {
            return;
        }
        let me = ProcessId::current().pid;
        if Stat::read(pid.cast_signed()).is_some_and(|stat| stat.parent == me) {
            self.containment.except(pid);
        } else {
            // Another one is started; it waits for the first, and makes no second run.
            self.custody.set(Word::NextRunPid, 0);
        }
    }
}
