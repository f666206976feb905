//! Follows output as it comes.
//!
//! The kernel wakes a follower when the log is written; a timer is used only when the user's inotify watches are used up.
//! Followers cost the keeper nothing.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_sys::poll;
use outlive_sys::watch::Watches;

use crate::job::Job;
use crate::job::state::State;
use crate::output::{Output, Piece};
use crate::store::Store;
use crate::wait::exits::ExitWatch;

/// Follows one job's output from an offset of its log.
#[derive(Debug)]
pub struct Follower<'a> {
    store: &'a Store,
    job: &'a Job,
    output: Output,
    watches: Watches,
    /// Offset of the next piece.
    position: u64,
    /// Ends with the main process, even if other processes of the job go on.
    exit: Option<ExitWatch>,
    /// Readable to cancel.
    stop: Option<BorrowedFd<'a>>,
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// More output.
    Piece(Piece),
    /// No more output will come: the last process of the job is gone, or the keeper that recorded it.
    End,
    /// Nothing came within the limit, or before the follower was cancelled.
    Nothing,
}

impl<'a> Follower<'a> {
    /// Starts at an offset of the log.
    pub fn new(store: &'a Store, job: &'a Job, position: u64) -> io::Result<Self> {
        // The watch starts before the first look, so that nothing is missed in between.
        let mut watches = Watches::new();
        watches.add(job.path());
        Ok(Self { store, job, output: Output::open(job)?, watches, position, exit: None, stop: None })
    }

    /// Ends with the main process: later output of other processes is ignored.
    pub fn until_exit(mut self) -> Self {
        let exit = self.exit.insert(ExitWatch::new(Some(0)));
        exit.prepare(self.store, self.job, &mut self.watches);
        self
    }

    /// Stops waiting once this is readable; for example a [`crate::Cancel`].
    pub fn stopped_by(mut self, stop: Option<BorrowedFd<'a>>) -> Self {
        self.stop = stop;
        self
    }

    /// Returns the offset of the next piece.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next piece, and waits at most `limit` for it.
    pub fn next(&mut self, limit: Option<Duration>) -> io::Result<Followed> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            if self.exit.is_none()
                && let Some(piece) = self.output.next_piece(&mut self.position, u64::MAX)?
            {
                return Ok(Followed::Piece(piece));
            }
            if let Some(exit) = &mut self.exit {
                exit.prepare(self.store, self.job, &mut self.watches);
            }
            // The state first, then the log again: nothing is written after the job is closed.
            let state = self.job.state(self.store);
            self.output.refresh()?;
            let bytes = state.outcome.as_ref().filter(|_| self.exit.is_some());
            let end = bytes.map(|outcome| outcome.totals.bytes);
            if let Some(piece) = self.output.next_piece(&mut self.position, end.unwrap_or(u64::MAX))? {
                return Ok(Followed::Piece(piece));
            }
            if end.is_some() {
                return Ok(Followed::End);
            }
            // An orphan's output is not recorded any more, but its exit status can still be known.
            let is_awaited = state.is_orphaned() && self.exit.as_ref().is_some_and(ExitWatch::holds_main);
            if has_no_more(&state) && !is_awaited {
                return Ok(Followed::End);
            }
            let now = Instant::now();
            if let Some(exit) = &mut self.exit {
                exit.note(self.store, self.job, &state, now);
            }
            let is_stopped =
                self.stop.is_some_and(|stop| poll::readable(stop, Some(Duration::ZERO)).unwrap_or(false));
            if deadline.is_some_and(|deadline| deadline <= now) || is_stopped {
                return Ok(Followed::Nothing);
            }
            let due = [deadline, self.exit.as_ref().and_then(ExitWatch::due)].into_iter().flatten().min();
            let nap = [due.map(|due| due.saturating_duration_since(now)), self.watches.nap()];
            let fds = self.exit.iter().flat_map(ExitWatch::fds).chain(self.watches.fd()).chain(self.stop);
            poll::any_readable(fds, nap.into_iter().flatten().min())?;
            self.watches.changed();
            self.output.refresh()?;
        }
    }
}

/// Follows the output of several jobs at once. One descriptor watches all of them: a user has few.
#[derive(Debug)]
pub struct Followers<'a> {
    store: &'a Store,
    parts: Vec<Part<'a>>,
    watches: Watches,
    /// The part that is looked at first, so that a job that floods does not hide the others.
    first: usize,
}

#[derive(Debug)]
struct Part<'a> {
    job: &'a Job,
    output: Output,
    position: u64,
    /// May have more since it was looked at last.
    is_due: bool,
    has_ended: bool,
}

impl<'a> Followers<'a> {
    /// Starts at an offset of each log.
    pub fn new(store: &'a Store, jobs: impl IntoIterator<Item = (&'a Job, u64)>) -> io::Result<Self> {
        let mut watches = Watches::new();
        let parts = jobs.into_iter().map(|(job, position)| {
            // The watch starts before the first look, as for one job.
            watches.add(job.path());
            let output = Output::open(job)?;
            Ok(Part { job, output, position, is_due: true, has_ended: false })
        });
        let parts = parts.collect::<io::Result<_>>()?;
        Ok(Self { store, parts, watches, first: 0 })
    }

    /// Waits for more output of any job; returns the place of the job among those that were given. Each job ends once; none: all
    /// have ended.
    pub fn next_of_any(&mut self) -> io::Result<Option<(usize, Followed)>> {
        while !self.parts.iter().all(|part| part.has_ended) {
            let count = self.parts.len();
            for place in (self.first..self.first + count).map(|place| place % count) {
                if let Some(followed) = self.parts[place].next(self.store)? {
                    self.first = place + 1;
                    return Ok(Some((place, followed)));
                }
            }
            poll::any_readable(self.watches.fd(), self.watches.nap())?;
            for (part, is_changed) in self.parts.iter_mut().zip(self.watches.changed()) {
                part.is_due |= is_changed;
            }
        }
        Ok(None)
    }
}

impl Part<'_> {
    fn next(&mut self, store: &Store) -> io::Result<Option<Followed>> {
        if self.has_ended || !self.is_due {
            return Ok(None);
        }
        if let Some(piece) = self.output.next_piece(&mut self.position, u64::MAX)? {
            return Ok(Some(Followed::Piece(piece)));
        }
        // The state first, then the log again: nothing is written after the job is closed.
        let state = self.job.state(store);
        self.output.refresh()?;
        if let Some(piece) = self.output.next_piece(&mut self.position, u64::MAX)? {
            return Ok(Some(Followed::Piece(piece)));
        }
        self.is_due = false;
        self.has_ended = has_no_more(&state);
        Ok(self.has_ended.then_some(Followed::End))
    }
}

/// Tells whether no process is left that could write to the job's log.
fn has_no_more(state: &State) -> bool {
    !state.is_elsewhere() && (!state.is_live() || state.is_orphaned())
}
