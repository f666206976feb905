//! A keeper below the process that an engine's script has become.
//!
//! That process is the first guard. The engine calls the job over when it ends, so it is never dismissed: it waits for its keeper's last
//! act, and ends with the exit status of that. What the engine asks for by a signal it passes on through the page.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use outlive_core::outcome::Cause;
use outlive_core::placement::Engine;
use outlive_sys::signal::{Caught, Signal};
use outlive_sys::spawn::WaitStatus;
use outlive_sys::{clock, poll};

use super::upgrade::tell_keeper;
use super::{Custody, Watched, Word};
use crate::start::Keeper;

/// The signals by which an engine asks for the end of a job.
const ASKING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// An engine mostly signals all processes of a job. Those that end of it have this long for that, and do not get the signal twice.
const OTHERS_US: u64 = 500_000;

/// An engine signals one process after the other, and a command that is the first may end before its keeper hears of it. For so long the
/// keeper waits before it says that the command has ended by itself; even a busy processor gives each process its turn within this.
const LATE: Duration = Duration::from_millis(100);

/// What the engine asks for.
pub(crate) struct Foreground {
    caught: Caught,
    /// When the job is to be ended.
    end_us: Option<u64>,
}

impl Foreground {
    /// Begins to listen; `None` for a job that no engine has begun, and without a descriptor: then the engine ends the job by force.
    pub(crate) fn new(custody: Custody) -> Option<Self> {
        let caught = custody.is_foreground().then(|| Caught::new(&ASKING).ok())??;
        Some(Self { caught, end_us: None })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.caught.as_fd().as_raw_fd()
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.caught.as_fd()
    }

    /// When [`Keeper::end_for_engine`] wants to be called.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.end_us
    }
}

/// Returns the signals that a guard passes on.
pub(super) fn signals_for_guard(custody: Custody, keeper: Watched) -> &'static [Signal] {
    // A guard below its keeper is none that the engine knows; what comes to it stays pending until it is the keeper.
    if custody.is_foreground() && matches!(keeper, Watched::Child(_)) { &ASKING } else { &[] }
}

/// Passes on, as the guard, what the engine asks for.
pub(super) fn pass_on(custody: Custody, signal: Signal) {
    custody.note_asked(signal);
    // What the keeper has become then has its own work to do, and ends soon.
    if custody.get(Word::Over) == 0 {
        tell_keeper(custody);
    }
}

/// Names the engine, if it has asked for the end of the job.
pub(crate) fn asked_by(custody: Custody) -> Option<String> {
    Some(format!("{} ({})", Engine::Slurm.word(), custody.asked()?.name()))
}

/// Returns the exit status of a keeper that does not become another program at its end: that of its job, for an engine.
pub(crate) fn exit_code(custody: Custody) -> u8 {
    if !custody.is_foreground() {
        return 0;
    }
    match custody.end().map(|main| main.status) {
        Some(WaitStatus::Exited(code)) => code as u8,
        Some(WaitStatus::Signaled { signal, .. }) => (128 + signal) as u8,
        None => 1,
    }
}

impl Keeper {
    /// Looks whether the engine asks for the end of the job.
    pub(crate) fn hear_engine(&mut self) {
        let Some(foreground) = &mut self.foreground else { return };
        while let Some(signal) = foreground.caught.next() {
            self.custody.note_asked(signal);
        }
        let is_new = foreground.end_us.is_none() && self.ending.killing.is_none();
        if is_new && self.custody.asked().is_some() {
            foreground.end_us = Some(clock::boot_us() + OTHERS_US);
        }
    }

    /// Ends the job, as the engine asks.
    pub(crate) fn end_for_engine(&mut self) {
        self.foreground.iter_mut().for_each(|foreground| foreground.end_us = None);
        if let Some(by) = asked_by(self.custody) {
            self.kill(Signal::TERM, None, Cause::Kill { by });
        }
    }

    /// Finds out, when the main process has ended, whether the engine has asked for that.
    pub(crate) fn hear_last_word(&mut self) {
        if self.ending.cause.is_some() || self.foreground.is_none() {
            return;
        }
        if self.custody.asked().is_none()
            && let Some(foreground) = &self.foreground
        {
            poll::readable(foreground.as_fd(), Some(LATE)).ok();
        }
        self.hear_engine();
        if let Some(by) = asked_by(self.custody) {
            let cause = Cause::Kill { by };
            self.custody.note_cause(&cause);
            self.forgo_next_run();
            self.ending.cause = Some(cause);
        }
    }
}
