//! Following output as it comes.
//!
//! The kernel wakes a follower when the log is written; a timer serves only where the user's allowance of watches is used
//! up. Followers cost the keeper nothing.

use std::io;
use std::time::{Duration, Instant};

use outlive_sys::watch::Watch;

use crate::control::orphan::MainHandle;
use crate::job::Job;
use crate::output::{Output, Piece};
use crate::store::Store;

/// Follows one job's output from a place in its log.
#[derive(Debug)]
pub struct Follower<'a> {
    store: &'a Store,
    job: &'a Job,
    output: Output,
    watch: Watch,
    /// Where the next piece begins.
    position: u64,
    /// The end of the main process is the end, whoever else goes on.
    is_until_exit: bool,
    /// The main process, for the case that its keeper dies.
    main: Option<MainHandle>,
}

/// What a follower has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed {
    /// More output.
    Piece(Piece),
    /// There will be no more: the last process of the job is gone, or nobody records it any longer.
    End,
    /// Nothing came within the time.
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
        let watch = Watch::new(job.path());
        Ok(Self { store, job, output: Output::open(job)?, watch, position, is_until_exit: false, main: None })
    }

    /// Ends with the main process: what others of the job print after that is not waited for.
    pub fn until_exit(mut self) -> Self {
        self.is_until_exit = true;
        self.main = MainHandle::of(self.store, self.job);
        self
    }

    /// Returns where the next piece begins.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next piece, waiting at most `limit` for it; may return [`Followed::Nothing`] earlier when a signal
    /// came.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn next(&mut self, limit: Option<Duration>) -> io::Result<Followed> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            if !self.is_until_exit
                && let Some(piece) = self.read(u64::MAX)?
            {
                return Ok(Followed::Piece(piece));
            }
            if let Some(main) = &self.main {
                main.tell(self.store, self.job);
            }
            // The state first, then the log once more: nothing is written after the job is closed.
            let state = self.job.state(self.store);
            self.output.refresh()?;
            let exit =
                state.outcome.as_ref().filter(|_| self.is_until_exit).map(|outcome| outcome.totals.bytes);
            if let Some(piece) = self.read(exit.unwrap_or(u64::MAX))? {
                return Ok(Followed::Piece(piece));
            }
            if exit.is_some() {
                return Ok(Followed::End);
            }
            let is_awaited = state.is_orphaned && self.main.is_some();
            if !state.is_elsewhere && (!state.is_live() || state.is_orphaned) && !is_awaited {
                return Ok(Followed::End);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) || outlive_sys::signal::interrupted() {
                return Ok(Followed::Nothing);
            }
            // Nothing more is recorded, but how it ends can still be known.
            if let Some(main) = self.main.as_ref().filter(|_| is_awaited) {
                main.wait(self.store, self.job, left);
                continue;
            }
            self.watch.wait(left)?;
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
