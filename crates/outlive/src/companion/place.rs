//! Ends a job whose engine has it no more on this node, or whose node cannot reach the engine.
//!
//! Whatever the engine loses or takes back it mostly ends itself. This is for a node that was cut off, and for an engine that leaves
//! processes alone.

use std::time::{Duration, Instant};

use crate::control::{Caller, Kill};
use crate::job::Job;
use crate::launch::engine::Allocation;
use crate::store::Store;

/// How often to ask the engine: seldom, for it has many to answer.
const ASK: Duration = Duration::from_secs(60);

/// Whether the engine still has the job here.
struct Place {
    cutoff: Option<Duration>,
    every: Duration,
    /// When the engine last said yes.
    held: Instant,
    /// How often in a row it said no.
    denials: u32,
}

impl Place {
    fn new(job: &Job) -> Self {
        let cutoff = job.spec().placement.as_ref().and_then(|placement| placement.cutoff_ms);
        let cutoff = cutoff.map(Duration::from_millis);
        let every = cutoff.map_or(ASK, |cutoff| (cutoff / 4).clamp(Duration::from_secs(1), ASK));
        Self { cutoff, every, held: Instant::now(), denials: 0 }
    }

    /// Takes the engine's answer; returns why the job has lost its place.
    fn lost(&mut self, allocation: Allocation) -> Option<String> {
        match allocation {
            Allocation::Held => (self.held, self.denials) = (Instant::now(), 0),
            Allocation::Lost => self.denials += 1,
            Allocation::Unknown => {}
        }
        // Twice: an engine that has just begun the job, or was just restarted, may not know it yet.
        if self.denials > 1 {
            return Some("outlive, because slurm has taken its place back".to_owned());
        }
        let cutoff = self
            .cutoff
            .filter(|cutoff| allocation == Allocation::Unknown && self.held.elapsed() > *cutoff)?;
        Some(format!("outlive, because its node has not reached slurm for {} s", cutoff.as_secs()))
    }
}

impl Store {
    /// Asks the engine now and then whether a job still has its place, and ends it if not; returns when the job has ended.
    pub(crate) fn keep_place(&self, job: &Job) {
        self.wait_begun(job);
        let mut place = Place::new(job);
        while self.sleep_while_live(job, Instant::now() + place.every) {
            if let Some(by) = place.lost(self.allocation(job)) {
                // What is left of it is looked at again.
                self.kill_by(Caller::Companion, job, &Kill { by, ..Kill::default() }).ok();
            }
        }
    }
}
