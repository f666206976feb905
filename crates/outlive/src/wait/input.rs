//! Waits until a job waits for input.

use std::time::{Duration, Instant};

use outlive_core::awaits::Awaited;

use crate::control::awaits::AwaitedObject;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;
use crate::wait::conditions::InputWanted;

/// How often the keeper is asked: it looks by itself only after output, and a program may begin to read without any.
const EVERY: Duration = Duration::from_secs(1);

/// Asks the keeper of a job what the job waits for.
pub(super) struct InputProbe {
    wanted: InputWanted,
    next: Option<Instant>,
}

impl InputProbe {
    pub(super) fn new(wanted: InputWanted) -> Self {
        Self { wanted, next: None }
    }

    /// Asks, if it is time or the keeper has written something down.
    pub(super) fn look(
        &mut self,
        store: &Store,
        job: &Job,
        state: &State,
        now: Instant,
    ) -> Option<AwaitedObject> {
        if state.awaits().is_none() && self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + EVERY);
        let mut state = state.clone();
        store.look_for_input_wait(job, &mut state);
        let is_wanted = |awaited: &Awaited| self.wanted == InputWanted::Any || awaited.kind.is_question();
        state.awaits().filter(is_wanted).map(|awaited| AwaitedObject::new(job, awaited))
    }

    /// Returns when to ask again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }
}
