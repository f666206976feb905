//! Waits until a job prints nothing for a while.

use std::time::{Duration, Instant};

use outlive_sys::clock;

use crate::job::state::State;
use crate::output::Output;

/// The silence of a job.
pub(super) struct Silence {
    wanted: Duration,
    /// Length of the output at the last look.
    length: u64,
    /// When the silence is long enough; none: never.
    until: Option<Instant>,
}

impl Silence {
    /// Starts from the record: silent since the last output, or since the start.
    pub(super) fn so_far(output: &Output, state: &State, now: Instant, wanted: Duration) -> Self {
        let started = state.meta.as_ref().and_then(|meta| meta.started);
        let last = output.last_time().max(started).map_or(u64::MAX, |time| time.0);
        let silent = Duration::from_micros(clock::wall_us().saturating_sub(last));
        // The wall clock may have been set; a job is silent for at most its runtime.
        let silent = silent.min(Duration::from_millis(state.runtime_ms().unwrap_or(0)));
        Self { wanted, length: output.end(), until: now.checked_add(wanted.saturating_sub(silent)) }
    }

    /// Tells whether the silence was long enough.
    pub(super) fn look(&mut self, output: &Output, now: Instant) -> bool {
        if output.end() != self.length {
            self.length = output.end();
            self.until = now.checked_add(self.wanted);
        }
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns when to look again without output.
    pub(super) fn due(&self) -> Option<Instant> {
        self.until
    }
}
