//! Waiting for jobs to end.
//!
//! The keeper holds a job's `done` lock until the outcome is written, and the kernel frees it should the keeper die: a
//! waiter blocks on that lock. A lock cannot be waited for with a deadline or together with others, so a thread waits for
//! it, one per job and program however many callers wait, and wakes them all.

pub(crate) mod auto_background;
pub(crate) mod http;
pub(crate) mod probe;
pub(crate) mod ready;
pub(crate) mod shell_words;
pub(crate) mod wait_for;

use std::collections::HashSet;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outlive_core::id::Nonce;
use outlive_sys::fault::{self, Point};
use outlive_sys::lock;

use crate::control::orphan::MainHandle;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The first of the jobs has ended.
    Any,
    /// All of them have.
    All,
}

/// What waiting came to.
#[derive(Debug)]
pub struct Waited {
    /// The state of each job, in the order given.
    pub states: Vec<State>,
    /// False if the time was over first.
    pub is_reached: bool,
}

/// Jobs that a thread of this program watches.
static WATCHED: LazyLock<(Mutex<HashSet<Nonce>>, Condvar)> = LazyLock::new(Default::default);

/// Where no thread could be made, or a lock not be waited for, it is looked again now and then.
const AGAIN: Duration = Duration::from_millis(100);

/// A thread that waits on a lock, and may have to write down an end, needs little.
const STACK: usize = 256 << 10;

impl Store {
    /// Waits until the main process of any or all of `jobs` has ended, at most `limit`.
    pub fn wait(&self, jobs: &[Job], until: Until, limit: Option<Duration>) -> Waited {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        if let ([job], None) = (jobs, limit) {
            return Waited { states: vec![self.wait_here(job)], is_reached: true };
        }
        let (watched, changed) = &*WATCHED;
        let mut guard = watched.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let states: Vec<State> = jobs.iter().map(|job| job.state(self)).collect();
            // Looked at once: a job that ends between two looks would be neither reached nor watched.
            let ended: Vec<bool> =
                jobs.iter().zip(&states).map(|(job, state)| has_ended(job, state)).collect();
            let is_reached = match until {
                Until::Any => ended.contains(&true),
                Until::All => !ended.contains(&false),
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if is_reached || left.is_some_and(|left| left.is_zero()) {
                return Waited { states, is_reached };
            }
            let mut is_watched = true;
            for (job, _) in jobs.iter().zip(&ended).filter(|(_, has_ended)| !**has_ended) {
                if guard.insert(job.spec().nonce) && !watch(self, job) {
                    guard.remove(&job.spec().nonce);
                    is_watched = false;
                }
            }
            let nap = if is_watched { Duration::from_secs(3600) } else { AGAIN };
            let nap = left.map_or(nap, |left| left.min(nap));
            (guard, _) = changed.wait_timeout(guard, nap).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for one job without limit, in this thread.
    fn wait_here(&self, job: &Job) -> State {
        loop {
            let state = job.state(self);
            if has_ended(job, &state) {
                return state;
            }
            if let Some(state) = block(self, job) {
                return state;
            }
        }
    }
}

/// Tells whether a job has ended and all that comes with it is done: its outcome is on the disk, and so is its event.
fn has_ended(job: &Job, state: &State) -> bool {
    state.status.has_ended() && (state.is_removed || job.is_announced())
}

/// Watches a job in a thread of its own; `false` if there is none to be had.
fn watch(store: &Store, job: &Job) -> bool {
    let Ok(Some(job)) = Job::open(job.path().to_owned(), job.id()) else { return false };
    let store = store.reopen();
    let thread = std::thread::Builder::new().name(format!("wait {}", job.id())).stack_size(STACK);
    let watched = thread.spawn(move || {
        block(&store, &job);
        let (watched, changed) = &*WATCHED;
        watched.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.spec().nonce);
        changed.notify_all();
    });
    watched.is_ok()
}

/// Blocks until the job's main process may have ended. Returns how it did where its keeper has said so: whoever has the lock
/// knows that all that comes with the end is done.
fn block(store: &Store, job: &Job) -> Option<State> {
    // Held while it lives: if its keeper dies, the kernel still tells its end to whoever holds it.
    let main = MainHandle::of(store, job);
    let waited = fault::step(Point::DoneWait, || lock::wait_shared(job.done_file()?));
    if waited.is_err() && job.is_kept() {
        // For want of a descriptor, say: the keeper lives, and nothing is known but that.
        std::thread::sleep(AGAIN);
        return None;
    }
    if let (Some(outcome), closed) = job.records() {
        return waited.is_ok().then(|| job.ended(store, outcome, closed));
    }
    // The keeper is dead and has said nothing; its command may go on. It may still hold its other lock: the kernel frees one
    // after the other.
    match main.or_else(|| MainHandle::of(store, job)) {
        Some(main) => main.wait(store, job, None),
        // Somebody else is about to write down what is known.
        None => std::thread::sleep(Duration::from_millis(1)),
    }
    None
}
