//! Writing to a job: its standard input, or its terminal.

use std::io;
use std::time::{Duration, Instant};

use outlive_core::control::{MAX_INPUT, MAX_SECRET, Place, Reply, Request};
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::random;

use super::{Connection, ControlError, unexpected};
use crate::job::state::State;
use crate::{Job, Store};

/// How long a secret is offered to a terminal that shows what is typed: a program may print its prompt first, and turn that off then.
const UNTIL_HIDDEN: Duration = Duration::from_secs(1);

/// How often it is offered: no process is told when a terminal gets other modes.
const HIDDEN_POLL: Duration = Duration::from_millis(20);

/// Returns the place of a new writer's first byte.
pub(super) fn new_place() -> Place {
    // Numbers with the first bit are the keeper's own.
    let client = u64::from_le_bytes(random::bytes16()[..8].try_into().unwrap_or_default()) >> 1;
    Place { client: client.max(1), offset: 0 }
}

/// Refuses to write between what another job prints.
fn refuse_fed(job: &Job) -> Result<(), ControlError> {
    match &job.spec().stdin_from {
        Some(from) => Err(ControlError::Fed(job.id().clone(), from.to_string())),
        None => Ok(()),
    }
}

/// Writes to a job's standard input piece by piece.
pub(crate) struct InputWriter<'a> {
    store: &'a Store,
    job: &'a Job,
    state: State,
    keeper: Option<Connection<'a>>,
    /// For a keeper that dies and its guard: what was taken of a place is not taken again.
    pub(crate) place: Place,
}

impl<'a> InputWriter<'a> {
    /// Begins at a place.
    pub(crate) fn new(store: &'a Store, job: &'a Job, place: Place) -> Result<Self, ControlError> {
        Ok(Self { store, job, state: store.live_state(job)?, keeper: None, place })
    }

    /// Writes; returns when the keeper has everything.
    pub(crate) fn write(&mut self, bytes: &[u8], limit: Duration) -> Result<(), ControlError> {
        for piece in bytes.chunks(MAX_INPUT) {
            self.ask(&Request::Input(piece.to_vec(), self.place), limit)?;
            self.place.offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Asks the keeper to take a piece.
    fn ask(&mut self, request: &Request, limit: Duration) -> Result<(), ControlError> {
        let Self { store, job, .. } = *self;
        let keeper = &mut self.keeper;
        let answer = store.ask_kept(job, &self.state, |state| {
            let mut connection = match keeper.take() {
                Some(connection) => connection,
                None => Connection::open(store, job, state)?,
            };
            let reply = connection.ask(request, limit)?;
            *keeper = Some(connection);
            Ok(reply)
        });
        match answer {
            Ok(Reply::Accepted) => Ok(()),
            Ok(other) => Err(unexpected(job, &other)),
            Err(ControlError::Unreachable(job, source)) if source.kind() == io::ErrorKind::WouldBlock => {
                Err(ControlError::NotReading { job, accepted: self.place.offset })
            }
            Err(error) => store.or_ended(job, Err(error)),
        }
    }

    /// Closes the standard input after everything that was written to it.
    pub(crate) fn end(self) -> Result<(), ControlError> {
        let Self { store, job, .. } = self;
        store.or_ended(job, store.ask_to_accept(job, &self.state, &Request::Eof(self.place)))
    }
}

impl Store {
    /// Writes to a job's standard input. Returns when the keeper has everything; it is then written even if the caller dies.
    ///
    /// # Errors
    ///
    /// If the job has ended, its input is not open, or it has not read for `limit`.
    pub fn write_stdin(&self, job: &Job, bytes: &[u8], limit: Duration) -> Result<(), ControlError> {
        refuse_fed(job)?;
        InputWriter::new(self, job, new_place())?.write(bytes, limit)
    }

    /// As [`Store::write_stdin`], and it is kept nowhere. A terminal takes it only while nothing in it shows what is typed, as at the
    /// prompt for a password; `is_masked` says that a program which reads key by key does not.
    ///
    /// # Errors
    ///
    /// As [`Store::write_stdin`], and if it may be shown: then nothing of it was written.
    pub fn write_secret(
        &self,
        job: &Job,
        bytes: &[u8],
        is_masked: bool,
        limit: Duration,
    ) -> Result<(), ControlError> {
        if !job.spec().options.pty {
            return self.write_stdin(job, bytes, limit);
        }
        if bytes.len() > MAX_SECRET {
            let why = format!("a terminal takes a secret of at most {MAX_SECRET} bytes");
            return Err(ControlError::NotHidden { job: job.id().clone(), why });
        }
        let mut writer = InputWriter::new(self, job, new_place())?;
        let request = Request::Secret { bytes: bytes.to_vec(), place: writer.place, is_masked };
        let until = Instant::now() + UNTIL_HIDDEN;
        loop {
            match writer.ask(&request, limit) {
                Err(ControlError::NotHidden { .. }) if Instant::now() < until => {
                    std::thread::sleep(HIDDEN_POLL);
                }
                answer => return answer,
            }
        }
    }

    /// Closes a job's standard input after everything that was written to it.
    ///
    /// # Errors
    ///
    /// If the job has ended or its input is not open.
    pub fn close_stdin(&self, job: &Job) -> Result<(), ControlError> {
        refuse_fed(job)?;
        self.or_ended(job, self.ask_to_accept(job, &self.live_state(job)?, &Request::Eof(new_place())))
    }

    /// Gives the job's terminal another size; the programs in it are told.
    ///
    /// # Errors
    ///
    /// If the job has ended, has no terminal, or its keeper cannot be reached.
    pub fn resize(&self, job: &Job, size: TerminalSize) -> Result<(), ControlError> {
        self.or_ended(job, self.ask_to_accept(job, &self.live_state(job)?, &Request::Resize(size)))
    }
}
