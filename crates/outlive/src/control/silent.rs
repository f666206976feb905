//! Keepers that do not answer: one that is stopped is continued, and where a job is to be killed, one that stays silent is
//! ended, so that the job can be killed without it.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::keeper;
use outlive_sys::poll::readable;
use outlive_sys::signal::Signal;

use crate::control::tree::identity;
use crate::job::Job;

/// When a silent keeper is first looked at; each later look comes after twice as long. A keeper answers within microseconds,
/// and on a busy machine within milliseconds.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(100);

/// So often a keeper may be found stopped before it is taken for one that cannot be continued: another process stops it
/// again and again.
pub(super) const STOPS: u32 = 3;

/// How long the kernel may take to put an ended keeper away.
const LIMIT: Duration = Duration::from_secs(2);

/// How long one may take that waits for a disk: the kernel ends it when the disk has answered, and a busy one takes many seconds to sync.
const DISK_LIMIT: Duration = Duration::from_secs(60);

/// Takes hold of the keeper of a job. The process must hold the job's lock: a snapshot may be old.
fn hold(job: &Job, id: ProcessId) -> Option<Handle> {
    let handle = Handle::open(id)?;
    keeper::holds_lock_in(id.pid, job.dir().ok()?).then_some(handle)
}

/// Continues the keeper of a job if it is stopped; tells whether it was. One that a tracer holds is left to the tracer: it may only
/// be slow.
pub(super) fn continue_stopped(job: &Job, id: ProcessId) -> bool {
    let is_stopped = Stat::read(id.pid).is_some_and(|stat| stat.id == id && stat.state == 'T');
    // Another user's keeper is not continued, and stays silent.
    is_stopped && hold(job, id).is_some_and(|handle| handle.signal(Signal::CONT).is_ok())
}

/// Ends the keeper of a job, which does not answer; tells whether it is gone: the job has no keeper now, or its guard is the keeper.
pub(super) fn end(job: &Job, id: ProcessId) -> bool {
    let Some(handle) = hold(job, id) else { return !job.is_kept() };
    if handle.signal(Signal::KILL).is_err() {
        return false;
    }
    let asked = Instant::now();
    loop {
        let has_ended = readable(handle.as_fd(), Some(LIMIT)).unwrap_or(true);
        if has_ended || !waits_for_disk(id) || asked.elapsed() > DISK_LIMIT {
            break;
        }
    }
    let until = Instant::now() + LIMIT;
    let is_named = || job.meta().and_then(|meta| meta.keeper).map(identity) == Some(id);
    // The lock is freed when the kernel has closed its files; a guard writes another snapshot.
    while job.is_kept() && is_named() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn waits_for_disk(id: ProcessId) -> bool {
    Stat::read(id.pid).is_some_and(|stat| stat.id == id && stat.state == 'D')
}
