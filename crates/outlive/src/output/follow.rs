//! Follows output as it comes.
//!
//! The kernel wakes a follower when the log is written; a timer is used only when the user's inotify watches are used up.
//! Followers cost the keeper nothing.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_core::{file, segment};
use outlive_sys::poll::{self, PollFd, PollFlags};
use outlive_sys::watch::Watches;

use crate::job::Job;
use crate::job::state::State;
use crate::output::{Output, Piece};
use crate::screen::JobScreen;
use crate::store::Store;
use crate::wait::exits::ExitWatch;

/// Follows one job's output from an offset of its log.
#[derive(Debug)]
pub struct Follower<'a> {
    store: &'a Store,
    job: &'a Job,
    output: Output,
    watches: Watches,
    /// The job's state was looked at, and since then nothing has changed but its log.
    is_state_known: bool,
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

/// Result of a wait for more output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// There is more.
    More,
    /// No more output will come.
    End,
    /// Nothing came within the limit, or before the follower was cancelled.
    Nothing,
}

enum Step<T> {
    Read(T),
    End,
    Nothing,
}

impl<'a> Follower<'a> {
    /// Starts at an offset of the log.
    pub fn new(store: &'a Store, job: &'a Job, position: u64) -> io::Result<Self> {
        // The watch starts before the first look, so that nothing is missed in between.
        let mut watches = Watches::new();
        watches.add(job.path());
        let (output, is_state_known) = (Output::open(job)?, false);
        Ok(Self { store, job, output, watches, is_state_known, position, exit: None, stop: None })
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
        Ok(match self.step(limit, Output::next_piece)? {
            Step::Read(piece) => Followed::Piece(piece),
            Step::End => Followed::End,
            Step::Nothing => Followed::Nothing,
        })
    }

    /// Waits at most `limit` until there is output after an offset, up to which the caller reads it by itself.
    pub fn wait_beyond(&mut self, offset: u64, limit: Option<Duration>) -> io::Result<Growth> {
        self.position = offset;
        let is_beyond = |output: &mut Output, position: &mut u64, end: u64| {
            Ok((output.end().min(end) > *position).then_some(()))
        };
        Ok(match self.step(limit, is_beyond)? {
            Step::Read(()) => Growth::More,
            Step::End => Growth::End,
            Step::Nothing => Growth::Nothing,
        })
    }

    /// As [`Follower::wait_beyond`] for what a screen has read. What is found it reads with [`JobScreen::catch_up`], without looking
    /// once more.
    pub fn wait_for_screen(&mut self, screen: &mut JobScreen, limit: Option<Duration>) -> io::Result<Growth> {
        let offset = screen.offset();
        std::mem::swap(&mut self.output, screen.output_mut());
        let growth = self.wait_beyond(offset, limit);
        std::mem::swap(&mut self.output, screen.output_mut());
        growth
    }

    /// Waits until `read` finds something between the position, which it moves, and an end.
    fn step<T>(
        &mut self,
        limit: Option<Duration>,
        read: impl Fn(&mut Output, &mut u64, u64) -> io::Result<Option<T>>,
    ) -> io::Result<Step<T>> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut is_stopped = false;
        loop {
            if self.exit.is_none()
                && let Some(found) = read(&mut self.output, &mut self.position, u64::MAX)?
            {
                return Ok(Step::Read(found));
            }
            if !self.is_state_known
                && let Some(step) = self.look(&read)?
            {
                return Ok(step);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| deadline <= now) || is_stopped {
                return Ok(Step::Nothing);
            }
            let due = [deadline, self.exit.as_ref().and_then(ExitWatch::due)].into_iter().flatten().min();
            let nap = [due.map(|due| due.saturating_duration_since(now)), self.watches.nap()];
            let fds = self.exit.iter().flat_map(ExitWatch::fds).chain(self.watches.fd()).chain(self.stop);
            let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let is_woken = poll::poll(&mut fds, nap.into_iter().flatten().min())? > 0;
            // It is the last of them.
            is_stopped = self.stop.is_some() && fds.last().is_some_and(|stop| !stop.revents().is_empty());
            // While a job prints, nothing else about it has to be found out.
            let has_only_grown = self.watches.only_written(is_of_log) && is_woken && self.exit.is_none();
            self.is_state_known &= has_only_grown;
            if has_only_grown { self.output.refresh_grown()? } else { self.output.refresh()? }
        }
    }

    /// Looks at the job's state, and then at its log; `None` if there is something to wait for.
    fn look<T>(
        &mut self,
        read: impl Fn(&mut Output, &mut u64, u64) -> io::Result<Option<T>>,
    ) -> io::Result<Option<Step<T>>> {
        if let Some(exit) = &mut self.exit {
            exit.prepare(self.store, self.job, &mut self.watches);
        }
        // The state first, then the log again: nothing is written after the job is closed.
        let state = self.job.state(self.store);
        self.is_state_known = self.exit.is_none();
        self.output.refresh()?;
        let bytes = state.outcome.as_ref().filter(|_| self.exit.is_some());
        let end = bytes.map(|outcome| outcome.totals.bytes);
        if let Some(found) = read(&mut self.output, &mut self.position, end.unwrap_or(u64::MAX))? {
            return Ok(Some(Step::Read(found)));
        }
        if end.is_some() {
            return Ok(Some(Step::End));
        }
        // An orphan's output is not recorded any more, but its exit status can still be known.
        let is_awaited = state.is_orphaned() && self.exit.as_ref().is_some_and(ExitWatch::holds_main);
        if has_no_more(&state) && !is_awaited {
            self.is_state_known = false;
            return Ok(Some(Step::End));
        }
        if let Some(exit) = &mut self.exit {
            exit.note(self.store, self.job, &state, Instant::now());
        }
        Ok(None)
    }
}

/// Tells whether a file in a job's directory is a part of its log.
fn is_of_log(name: &str) -> bool {
    name == file::INDEX || segment::offset(name).is_some()
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
