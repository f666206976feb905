//! Polls a port: the kernel does not report when a process begins to listen.

use std::time::{Duration, Instant};

use outlive_sys::ports::Listeners;

use crate::control::tree::Port;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;
use crate::wait::http::PAUSES;

/// A job that prints may have begun to listen; this pause bounds the checks during a flood of output.
const AFTER_OUTPUT: Duration = Duration::from_millis(50);

/// Checks whether a process of a job listens on a port, ever less often.
#[derive(Debug)]
pub(crate) struct PortProbe {
    port: u16,
    last: Option<Instant>,
    pause: Duration,
}

impl PortProbe {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, last: None, pause: PAUSES.0 }
    }

    /// Checks, if the pause is over or the job has changed.
    pub(crate) fn look(
        &mut self,
        store: &Store,
        job: &Job,
        state: &State,
        now: Instant,
        has_changed: bool,
    ) -> Option<Port> {
        let pause = if has_changed { self.pause.min(AFTER_OUTPUT) } else { self.pause };
        if self.last.is_some_and(|last| now < last + pause) {
            return None;
        }
        if self.last.is_some() {
            self.pause = (self.pause * 3 / 2).min(PAUSES.1);
        }
        self.last = Some(now);
        let ports = job.tree(store, state)?.ports(&mut Listeners::new());
        // 0 stands for any.
        ports.into_iter().find(|listened| self.port == 0 || listened.port == self.port)
    }

    /// Returns when to check again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.last.map(|last| last + self.pause)
    }
}
