//! Following output as it comes.
//!
//! The kernel wakes a follower when the log is written; a timer serves only where the user's allowance of watches is used
//! up. Followers cost the keeper nothing.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_sys::poll;
use outlive_sys::watch::Watches;

use crate::job::Job;
use crate::output::{Output, Piece};
use crate::store::Store;
use crate::wait::exits::ExitWatch;

/// Follows one job's output from a place in its log.
#[derive(Debug)]
pub struct Follower<'a> {
    store: &'a Store,
    job: &'a Job,
    output: Output,
    watches: Watches,
    /// Where the next piece begins.
    position: u64,
    /// The end of the main process is the end, whatever else of the job goes on.
    exit: Option<ExitWatch>,
    /// Readable once the following is to stop.
    stop: Option<BorrowedFd<'a>>,
}

/// What a follower has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// More output.
    Piece(Piece),
    /// There will be no more: the last process of the job is gone, or its keeper, which recorded it.
    End,
    /// Nothing came within the time, or before the following was to stop.
    Nothing,
}

impl<'a> Follower<'a> {
    /// Begins at an offset of the log.
    ///
    /// # Errors
    ///
    /// If the job's directory cannot be read.
    pub fn new(store: &'a Store, job: &'a Job, position: u64) -> io::Result<Self> {
        // Watching begins before the first look, so that nothing is missed between the two.
        let mut watches = Watches::new();
        watches.add(job.path());
        Ok(Self { store, job, output: Output::open(job)?, watches, position, exit: None, stop: None })
    }

    /// Ends with the main process: what others of the job print after that is not waited for.
    pub fn until_exit(mut self) -> Self {
        let exit = self.exit.insert(ExitWatch::new(Some(0)));
        exit.prepare(self.store, self.job, &mut self.watches);
        self
    }

    /// Stops waiting for more once this can be read: a [`crate::Cancel`], say.
    pub fn stopped_by(mut self, stop: Option<BorrowedFd<'a>>) -> Self {
        self.stop = stop;
        self
    }

    /// Returns where the next piece begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next piece, waiting at most `limit` for it.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn next(&mut self, limit: Option<Duration>) -> io::Result<Followed> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            if self.exit.is_none()
                && let Some(piece) = self.read(u64::MAX)?
            {
                return Ok(Followed::Piece(piece));
            }
            if let Some(exit) = &mut self.exit {
                exit.prepare(self.store, self.job, &mut self.watches);
            }
            // The state first, then the log once more: nothing is written after the job is closed.
            let state = self.job.state(self.store);
            self.output.refresh()?;
            let bytes = state.outcome.as_ref().filter(|_| self.exit.is_some());
            let end = bytes.map(|outcome| outcome.totals.bytes);
            if let Some(piece) = self.read(end.unwrap_or(u64::MAX))? {
                return Ok(Followed::Piece(piece));
            }
            if end.is_some() {
                return Ok(Followed::End);
            }
            // Nothing more of an orphan is recorded, but how it ends can still be known.
            let is_awaited = state.is_orphaned() && self.exit.as_ref().is_some_and(ExitWatch::holds_main);
            if !state.is_elsewhere() && (!state.is_live() || state.is_orphaned()) && !is_awaited {
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

    /// Reads the next piece, as far as `end`.
    fn read(&mut self, end: u64) -> io::Result<Option<Piece>> {
        if self.position >= end {
            return Ok(None);
        }
        let mut piece = self.output.piece(self.position)?;
        if let Some(Piece::Output { bytes, .. }) = &mut piece {
            bytes.truncate(usize::try_from(end - self.position).unwrap_or(usize::MAX));
        }
        match &piece {
            Some(Piece::Output { bytes, .. }) => self.position += bytes.len() as u64,
            Some(Piece::Gone { to, .. }) => self.position = *to,
            None => {}
        }
        Ok(piece)
    }
}
