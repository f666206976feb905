//! The engine of all waits.
//!
//! Each turn examines the jobs with a kernel event or an expired timer, decides, and sleeps in one `poll` over all sources:
//! pidfds for exits, inotify for output and events, a timer for probes, and the descriptor that cancels the wait. It holds no
//! thread and no lock meanwhile, so any number of waits run side by side.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_sys::fault::{self, Point};
use outlive_sys::poll::{PollFd, PollFlags, poll, readable};
use outlive_sys::watch::Watches;

use crate::job::Job;
use crate::store::Store;
use crate::wait::conditions::{Until, WaitError, WaitFor, WaitReason, WaitResult};
use crate::wait::event_wait::EventWait;
use crate::wait::job_wait::JobWait;

/// How long to sleep if the kernel has no memory for a `poll`.
const AGAIN: Duration = Duration::from_millis(100);

/// The reason, the index of the job, and whether the wait succeeded.
type Decision = (WaitReason, Option<usize>, bool);

impl Store {
    /// Waits until the main process of any or all of `jobs` has ended, at most `limit`.
    pub fn wait(&self, jobs: &[Job], until: Until, limit: Option<Duration>) -> WaitResult {
        let wanted = WaitFor { until, limit, ..WaitFor::exits(jobs) };
        self.wait_for(&wanted).expect("only conditions and events can fail")
    }

    /// Waits until any or all jobs meet a condition, an event comes, or the limit is reached.
    ///
    /// # Errors
    ///
    /// If a job has no readiness condition, the output or the events cannot be read, or no thread can be started for an HTTP
    /// probe.
    pub fn wait_for(&self, wanted: &WaitFor<'_>) -> Result<WaitResult, WaitError> {
        let deadline = wanted.limit.and_then(|limit| Instant::now().checked_add(limit));
        let _asking = self.ask_while_waiting(wanted.jobs);
        let mut watches = Watches::new();
        let jobs = wanted.jobs.iter().map(|job| JobWait::new(job, &wanted.conditions, &mut watches));
        let mut jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let mut events =
            wanted.events.as_ref().map(|scope| EventWait::new(self, scope, wanted.jobs, &mut watches));
        let mut signalled = vec![true; jobs.len()];
        loop {
            let changed = watches.changed();
            let now = Instant::now();
            for (job, is_signalled) in jobs.iter_mut().zip(signalled) {
                job.look(self, &mut watches, (is_signalled, &changed), now)?;
            }
            // After the jobs: the event of an end is written before the end is announced.
            let event = match &mut events {
                Some(events) => events.look(self, &mut watches)?,
                None => None,
            };
            let decided = match event {
                Some((session, event)) => {
                    let job = wanted.jobs.iter().position(|job| job.spec().nonce == event.event.nonce);
                    Some((WaitReason::Event(session, Box::new(event)), job, true))
                }
                None => decide(&jobs, wanted),
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let is_stopped =
                || wanted.stop.is_some_and(|stop| readable(stop, Some(Duration::ZERO)).unwrap_or(false));
            let can_still_come = decided.is_none();
            let is_over = left.is_some_and(|left| left.is_zero()) || is_stopped();
            let timed_out = || {
                let job = jobs.iter().position(|job| job.reason.is_none());
                is_over.then_some((WaitReason::Timeout, job, false))
            };
            if let Some((reason, job, is_reached)) = decided.or_else(timed_out) {
                let states = jobs.iter().map(|job| job.state(self)).collect();
                let missing = jobs.iter().map(JobWait::missing).collect();
                let each = jobs.into_iter().map(|job| job.reason).collect();
                let gap = events.and_then(|events| events.gap);
                return Ok(WaitResult {
                    reason,
                    job,
                    is_reached,
                    can_still_come,
                    states,
                    each,
                    missing,
                    gap,
                });
            }
            // Where nothing but the end of one job can end the wait, its lock wakes once, and at the very moment.
            let is_only_end = left.is_none() && wanted.stop.is_none() && wanted.events.is_none();
            let mut open = jobs.iter_mut().filter(|job| job.reason.is_none());
            let last = open.next().filter(|_| is_only_end && open.next().is_none());
            signalled = match last.is_some_and(JobWait::wait_done) {
                true => vec![true; jobs.len()],
                false => sleep(&jobs, (&watches, events.as_ref()), wanted.stop, left),
            };
        }
    }
}

/// Decides whether the wait is over.
fn decide(jobs: &[JobWait<'_>], wanted: &WaitFor<'_>) -> Option<Decision> {
    if jobs.is_empty() {
        // Without jobs, `All` succeeds and `Any` fails at once; a wait for events goes on.
        return wanted.events.is_none().then_some((WaitReason::Exit, None, wanted.until == Until::All));
    }
    let came = || jobs.iter().enumerate().filter_map(|(at, job)| Some((at, job.reason.as_ref()?, job.order)));
    // With only `fail_matches`, the end is a success. With events it decides nothing: it is an event itself.
    let is_end_a_goal = !wanted.conditions.has_goal() && wanted.events.is_none();
    let is_goal = |reason: &WaitReason| match reason {
        WaitReason::Exit => is_end_a_goal,
        WaitReason::Timeout => false,
        _ => true,
    };
    let decided = |(at, reason, _): (usize, &WaitReason, _), is_reached: bool| {
        Some((reason.clone(), Some(at), is_reached))
    };
    if let Some(failed) = came().find(|(_, reason, _)| matches!(reason, WaitReason::FailMatch(_))) {
        return decided(failed, false);
    }
    let all_came = jobs.iter().all(|job| job.reason.is_some());
    let first_goal = came().filter(|(_, reason, _)| is_goal(reason)).min_by_key(|&(.., order)| order);
    let missed = came().find(|(_, reason, _)| !is_goal(reason));
    match (wanted.until, first_goal, missed) {
        (Until::Any, Some(goal), _) => decided(goal, true),
        // The other jobs may still have events.
        (Until::All, _, Some(missed)) if all_came || wanted.events.is_none() => decided(missed, false),
        _ if all_came => decided(came().max_by_key(|&(.., order)| order)?, wanted.until == Until::All),
        _ => None,
    }
}

/// Sleeps until there may be something new; returns which jobs had a kernel event.
fn sleep(
    jobs: &[JobWait<'_>],
    (watches, events): (&Watches, Option<&EventWait>),
    stop: Option<BorrowedFd<'_>>,
    left: Option<Duration>,
) -> Vec<bool> {
    let now = Instant::now();
    let open = || jobs.iter().enumerate().filter(|(_, job)| job.reason.is_none());
    let due = open().filter_map(|(_, job)| job.due()).min().map(|due| due.saturating_duration_since(now));
    let nap = [left, due, watches.nap(), events.and_then(EventWait::nap)].into_iter().flatten().min();
    let of_jobs = open().flat_map(|(at, job)| job.fds().map(move |fd| (at, fd)));
    let others =
        [watches.fd(), events.and_then(EventWait::fd), stop].into_iter().flatten().map(|fd| (jobs.len(), fd));
    let (owners, mut fds): (Vec<usize>, Vec<PollFd<'_>>) =
        of_jobs.chain(others).map(|(at, fd)| (at, PollFd::from_borrowed_fd(fd, PollFlags::IN))).unzip();
    if fault::step(Point::WaitPoll, || poll(&mut fds, nap)).is_err() {
        std::thread::sleep(nap.map_or(AGAIN, |nap| nap.min(AGAIN)));
        return vec![true; jobs.len()];
    }
    let mut signalled = vec![false; jobs.len() + 1];
    for (owner, fd) in owners.into_iter().zip(&fds) {
        signalled[owner] |= !fd.revents().is_empty();
    }
    signalled
}
