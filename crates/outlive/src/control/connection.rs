//! One connection to the keeper of a job.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use outlive_core::control::{Hello, Reply, Request, SPOKEN, Versions};
use outlive_core::file;
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::ProcessId;
use outlive_sys::poll::readable;
use outlive_sys::socket;

use super::{ControlError, Killed, PATIENCE, keeper_of, receive_frame, silent, unexpected, unreachable};
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// Connects to a keeper, and waits for the socket of a keeper that is just starting.
fn connect(job: &Job, patience: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now() + patience;
    loop {
        match fault::step(Point::KeeperConnect, || socket::connect_in(job.dir()?, file::CONTROL, patience)) {
            // Not created yet, or not listening yet.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                    && job.is_kept()
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

/// A connection to a keeper.
pub(super) struct Connection<'a> {
    pub(super) job: &'a Job,
    pub(super) stream: UnixStream,
    /// None while it is starting.
    pub(super) keeper: Option<ProcessId>,
}

impl<'a> Connection<'a> {
    pub(super) fn open(store: &Store, job: &'a Job, state: &State) -> Result<Self, ControlError> {
        Self::open_within(store, job, state, PATIENCE)
    }

    /// Opens one to a keeper that may take so long to greet.
    pub(super) fn open_within(
        store: &Store,
        job: &'a Job,
        state: &State,
        patience: Duration,
    ) -> Result<Self, ControlError> {
        // First: until a node has begun it, it is of no host.
        if let (Some(placement), Some(_)) = (&job.spec().placement, job.unplaced()) {
            return Err(ControlError::NotBegun(job.id().clone(), placement.engine.word()));
        }
        if state.is_elsewhere() || store.host().pid_namespace != job.host().pid_namespace {
            return Err(ControlError::Elsewhere(job.id().clone()));
        }
        if state.is_orphaned() {
            return Err(ControlError::Orphaned(job.id().clone()));
        }
        let keeper = keeper_of(state);
        if let Some(keeper) = keeper {
            // A stopped keeper takes no connection once its queue is full.
            silent::continue_stopped(job, keeper);
        }
        Self::greet(job, keeper, patience)
    }

    /// Connects to the keeper and checks that it is the job's.
    pub(super) fn greet(
        job: &'a Job,
        keeper: Option<ProcessId>,
        patience: Duration,
    ) -> Result<Self, ControlError> {
        let stream = connect(job, patience).map_err(|error| unreachable(job, error))?;
        let mut connection = Self { job, stream, keeper };
        let hello = connection.receive(patience)?;
        let hello = Hello::parse(&hello).map_err(|error| unreachable(job, io::Error::other(error)))?;
        if hello.nonce != job.spec().nonce {
            let other = io::Error::new(io::ErrorKind::InvalidData, "the keeper of another job answers");
            return Err(unreachable(job, other));
        }
        let Versions { min, max } = hello.versions;
        match SPOKEN.common(hello.versions) {
            Some(_) => Ok(connection),
            None => Err(ControlError::Version { job: job.id().clone(), min, max }),
        }
    }

    /// Sends a request, and waits at most `limit` for the answer.
    pub(super) fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply, ControlError> {
        self.send(request)?;
        let contents = self.receive(limit)?;
        Reply::parse(&contents).map_err(|error| unreachable(self.job, io::Error::other(error)))
    }

    pub(super) fn ask_to_signal(
        &mut self,
        request: &Request,
        limit: Duration,
    ) -> Result<Killed, ControlError> {
        match self.ask(request, limit)? {
            Reply::Signalled { count, survivors } => {
                Ok(Killed { signalled: count, survivors, ..Killed::default() })
            }
            other => Err(unexpected(self.job, &other)),
        }
    }

    pub(super) fn send(&mut self, request: &Request) -> Result<(), ControlError> {
        fault::write_all(Point::RequestSend, &mut self.stream, &request.to_frame())
            .map_err(|error| unreachable(self.job, error))
    }

    /// Waits at most `limit` for what the keeper says next. A keeper that is stopped meanwhile is continued.
    pub(super) fn receive(&mut self, limit: Duration) -> Result<Vec<u8>, ControlError> {
        let received = fault::step(Point::ReplyReceive, || {
            let deadline = Instant::now().checked_add(limit.max(Duration::from_millis(1)));
            let (mut look, mut stops) = (silent::FIRST_LOOK, 0);
            loop {
                let rest =
                    deadline.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
                if readable(self.stream.as_fd(), Some(look.min(rest)))? {
                    return receive_frame(&self.stream);
                }
                let was_stopped =
                    self.keeper.is_some_and(|keeper| silent::continue_stopped(self.job, keeper));
                stops += u32::from(was_stopped);
                if rest <= look || stops == silent::STOPS {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                look *= 2;
            }
        });
        received.map_err(|error| unreachable(self.job, error))
    }
}
