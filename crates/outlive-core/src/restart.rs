//! Restart policies: whether another run follows a run that has ended, and when.
//!
//! Pure: the keeper asks whether a next run is wanted at all, and the program that makes it how long it has to wait. Times are of the
//! boot clock, so that a clock that is set neither hastens nor delays a run.

use serde::{Deserialize, Serialize};

use crate::options::Restart;
use crate::outcome::{Cause, Outcome, WaitStatus};

words! {
    /// When a job is started again.
    #[derive(Default)]
    pub enum RestartWhen {
        /// Never.
        #[default]
        No = "no",
        /// When it has ended by itself in any way but with 0, or its time was over.
        OnFailure = "on-failure",
        /// Whenever it was not stopped.
        Always = "always",
    }
}

/// How many restarts within the window are too many, where the job does not say.
pub const TRIES: u64 = 5;

/// The window, where the job does not say.
pub const WINDOW_MS: u64 = 60_000;

/// The wait before the first restart, where the job does not say; it doubles with each one after that.
const FIRST_MS: u64 = 500;

/// The longest wait: a service that comes back on its own, such as a database, is found soon enough.
const LONGEST_MS: u64 = 60_000;

/// How much of a wait chance decides, as a part of it: jobs that failed together do not come back together.
const JITTER: u64 = 4;

/// What a run that followed another by itself has from those before it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rerun {
    /// When it may start, by the boot clock.
    pub due_boot_us: u64,
    /// When the runs since the last healthy one ended, this run's predecessor last; those that are out of the window are left out.
    pub ends_boot_us: Vec<u64>,
    /// How many runs in a row were not healthy, so that each waits longer than the one before.
    pub in_a_row: u32,
}

/// What follows a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Another run.
    Run(Rerun),
    /// None: there were so many restarts within the window.
    GiveUp {
        /// How many.
        tries: u64,
        /// The window.
        window_ms: u64,
    },
}

impl Restart {
    /// Tells whether a run that ended so is to be followed by another. One that was stopped is not, nor one that could not be
    /// executed: it could not be the next time.
    pub fn is_wanted_after(&self, outcome: &Outcome) -> bool {
        let has_failed = match outcome.cause {
            Cause::Natural => outcome.wait_status != WaitStatus::Exited { code: 0 },
            Cause::Timeout | Cause::Oom => true,
            Cause::Kill { .. }
            | Cause::Overlap
            | Cause::NeverStarted(_)
            | Cause::Lost { .. }
            | Cause::Newer(_) => return false,
        };
        match self.when {
            RestartWhen::No => false,
            RestartWhen::OnFailure => has_failed,
            RestartWhen::Always => true,
        }
    }

    /// Decides what follows a run that ended now, after `runtime_ms`; `before` is what it had itself. `chance` decides the jitter.
    pub fn after(&self, before: Option<&Rerun>, runtime_ms: u64, now_boot_us: u64, chance: u32) -> Next {
        let (tries, window_ms) = (self.tries.unwrap_or(TRIES), self.window_ms.unwrap_or(WINDOW_MS));
        // A run that lasted that long was healthy: what came before it does not count.
        let before = before.filter(|_| runtime_ms < window_ms).cloned().unwrap_or_default();
        let oldest = now_boot_us.saturating_sub(window_ms.saturating_mul(1000));
        let mut ends_boot_us = before.ends_boot_us;
        ends_boot_us.retain(|end| *end >= oldest);
        if ends_boot_us.len() as u64 >= tries {
            return Next::GiveUp { tries, window_ms };
        }
        ends_boot_us.push(now_boot_us);
        let first_ms = self.delay_ms.unwrap_or(FIRST_MS);
        let wait_ms = first_ms.saturating_mul(1 << before.in_a_row.min(16)).min(LONGEST_MS.max(first_ms));
        let wait_us = wait_ms.saturating_mul(1000);
        // From three quarters of it to the whole: never longer than is said.
        let jitter_us = (u128::from(wait_us / JITTER) * u128::from(chance) / u128::from(u32::MAX)) as u64;
        let due_boot_us = now_boot_us.saturating_add(wait_us - jitter_us);
        Next::Run(Rerun { due_boot_us, ends_boot_us, in_a_row: before.in_a_row.saturating_add(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{NeverStarted, Totals};
    use crate::timestamp::Timestamp;

    fn outcome(cause: Cause, wait_status: WaitStatus) -> Outcome {
        let totals = Totals::default();
        Outcome { wait_status, cause, ended: Timestamp(1), runtime_ms: Some(1), usage: None, totals }
    }

    #[test]
    fn a_stop_that_was_asked_for_is_never_a_failure() {
        let exited = |code| WaitStatus::Exited { code };
        let killed = || Cause::Kill { by: "me".into() };
        for (cause, status, on_failure, always) in [
            (Cause::Natural, exited(0), false, true),
            (Cause::Natural, exited(1), true, true),
            (Cause::Natural, WaitStatus::Signaled { signal: 11, core: false }, true, true),
            (Cause::Timeout, exited(0), true, true),
            (Cause::Oom, WaitStatus::Signaled { signal: 9, core: false }, true, true),
            (killed(), exited(1), false, false),
            (killed(), WaitStatus::Signaled { signal: 15, core: false }, false, false),
            (Cause::Lost { why: String::new() }, WaitStatus::Unknown, false, false),
            (Cause::NeverStarted(NeverStarted::default()), WaitStatus::Unknown, false, false),
        ] {
            let outcome = outcome(cause, status);
            let wanted = |when| Restart { when, ..Restart::default() }.is_wanted_after(&outcome);
            let found = [RestartWhen::No, RestartWhen::OnFailure, RestartWhen::Always].map(wanted);
            assert_eq!(found, [false, on_failure, always], "{outcome:?}");
        }
    }

    /// Plays runs that last so long each; returns the waits before the next ones, in milliseconds, until it gives up.
    fn play(restart: &Restart, runtime_ms: u64, chance: u32) -> Vec<u64> {
        let (mut now, mut before, mut waits) = (1_000_000, None, Vec::new());
        while waits.len() < 30 {
            now += runtime_ms * 1000;
            let Next::Run(rerun) = restart.after(before.as_ref(), runtime_ms, now, chance) else { break };
            waits.push((rerun.due_boot_us - now) / 1000);
            now = rerun.due_boot_us;
            before = Some(rerun);
        }
        waits
    }

    #[test]
    fn waits_double_and_after_too_many_it_gives_up() {
        let restart = Restart::default();
        assert_eq!(play(&restart, 0, 0), [500, 1000, 2000, 4000, 8000]);
        let shortest = play(&restart, 0, u32::MAX);
        assert_eq!(shortest, [375, 750, 1500, 3000, 6000], "chance takes a quarter at most");
        assert_eq!(play(&Restart { tries: Some(2), ..restart }, 10, 0), [500, 1000]);
        let slow = Restart { delay_ms: Some(40_000), tries: Some(3), window_ms: Some(3_600_000), ..restart };
        assert_eq!(play(&slow, 10, 0), [40_000, 60_000, 60_000]);
        let slower = Restart { delay_ms: Some(300_000), tries: Some(2), ..slow };
        assert_eq!(play(&slower, 10, 0), [300_000; 2]);
    }

    #[test]
    fn restarts_out_of_the_window_do_not_count_and_a_healthy_run_starts_anew() {
        let restart = Restart::default();
        let waits = play(&restart, 20_000, 0);
        assert_eq!((waits.len(), waits[29]), (30, 60_000), "never five within a minute");
        assert_eq!(play(&restart, 60_000, 0), [500; 30], "each run was healthy");
    }
}
