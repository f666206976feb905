//! Asks the engine about jobs that it places, while they are waited for or their ends are to be told: one that is gone without a record
//! of ours would be waited for without end.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use outlive_core::id::{JobId, Nonce};

use crate::job::Job;
use crate::store::Store;

/// How often: seldom, for the engine has many to answer.
const EVERY: Duration = Duration::from_secs(15);

/// It is asked until this is dropped.
pub(crate) struct Asking<'a>(Option<Thread<'a>>);

/// The thread that asks.
struct Thread<'a> {
    store: &'a Store,
    asked: Vec<(JobId, Nonce)>,
    until: Sender<()>,
    handle: JoinHandle<()>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let Some(Thread { store, asked, until, handle }) = self.0.take() else { return };
        drop(until);
        // Once the record of a job is home, the wait is over and the program may end; the thread has yet to remove the record from
        // its node.
        let is_home = |job: Job| job.node_store().is_some() && !job.state(store).is_live();
        if asked.iter().any(|(id, nonce)| store.find_exactly(id, *nonce).is_some_and(is_home)) {
            handle.join().ok();
        }
    }
}

/// When the engine was last asked in passing.
#[derive(Debug, Default)]
pub(crate) struct LastAsked(Mutex<Option<Instant>>);

impl LastAsked {
    /// Tells whether it is time to ask again; then it counts as asked.
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl Store {
    /// Asks the engine about those of the jobs that it places, unless this program did so a moment ago: what is found out is written down.
    pub(crate) fn ask_now_and_then(&self, mut jobs: Vec<Job>) {
        jobs.retain(|job| job.spec().placement.is_some());
        if !jobs.is_empty() && self.last_asked.is_due() {
            let mut states: Vec<_> = jobs.iter().map(|job| job.state(self)).collect();
            self.ask_engine(&mut jobs.iter().zip(states.iter_mut()).collect::<Vec<_>>());
        }
    }

    /// Asks the engine now and then about those of the jobs that it places.
    pub(crate) fn ask_while_waiting(&self, jobs: &[Job]) -> Asking<'_> {
        let is_asked = |job: &&Job| job.spec().placement.is_some() && !job.state(self).status.has_ended();
        let asked: Vec<_> =
            jobs.iter().filter(is_asked).map(|job| (job.id().clone(), job.spec().nonce)).collect();
        if asked.is_empty() {
            return Asking(None);
        }
        // What is read is thrown away: the state of a job that is gone is written down, and that ends the wait.
        let Ok(store) = Self::open_at(self.root(), self.config().clone()) else { return Asking(None) };
        let (until, is_over) = mpsc::channel();
        let wanted = asked.clone();
        let handle = thread::spawn(move || {
            loop {
                let found = wanted.iter().filter_map(|(id, nonce)| store.find_exactly(id, *nonce));
                let found: Vec<Job> = found.collect();
                let mut states: Vec<_> = found.iter().map(|job| job.state(&store)).collect();
                store.ask_engine(&mut found.iter().zip(states.iter_mut()).collect::<Vec<_>>());
                if is_over.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
        });
        Asking(Some(Thread { store: self, asked, until, handle }))
    }
}
