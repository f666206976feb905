//! Writing to a job: its standard input, or its terminal.

use std::io;
use std::time::Duration;

use outlive_core::control::{MAX_INPUT, Place, Reply, Request};
use outlive_core::terminal::size::TerminalSize;
use outlive_sys::random;

use super::{Connection, ControlError, unexpected};
use crate::job::state::State;
use crate::{Job, Store};

/// Returns the place of a new writer's first byte.
pub(super) fn new_place() -> Place {
    // Numbers with the first bit are the keeper's own.
    let client = u64::from_le_bytes(random::bytes16()[..8].try_into().unwrap_or_default()) >> 1;
    Place { client: client.max(1), offset: 0, is_secret: false }
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
        let Self { store, job, .. } = *self;
        for piece in bytes.chunks(MAX_INPUT) {
            let request = Request::Input(piece.to_vec(), self.place);
            let keeper = &mut self.keeper;
            let answer = store.ask_kept(job, &self.state, |state| {
                let mut connection = match keeper.take() {
                    Some(connection) => connection,
                    None => Connection::open(store, job, state)?,
                };
                let reply = connection.ask(&request, limit)?;
                *keeper = Some(connection);
                Ok(reply)
            });
            match answer {
                Ok(Reply::Accepted) => self.place.offset += piece.len() as u64,
                Ok(other) => return Err(unexpected(job, &other)),
                Err(ControlError::Unreachable(job, source)) if source.kind() == io::ErrorKind::WouldBlock => {
                    return Err(ControlError::NotReading { job, accepted: self.place.offset });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes the standard input after everything that was written to it.
    pub(crate) fn end(self) -> Result<(), ControlError> {
        self.store.ask_to_accept(self.job, &self.state, &Request::Eof(self.place))
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

    /// As [`Store::write_stdin`], and it is not kept, also where what is typed into the job is recorded.
    ///
    /// # Errors
    ///
    /// As [`Store::write_stdin`].
    pub fn write_secret(&self, job: &Job, bytes: &[u8], limit: Duration) -> Result<(), ControlError> {
        refuse_fed(job)?;
        InputWriter::new(self, job, Place { is_secret: true, ..new_place() })?.write(bytes, limit)
    }

    /// Closes a job's standard input after everything that was written to it.
    ///
    /// # Errors
    ///
    /// If the job has ended or its input is not open.
    pub fn close_stdin(&self, job: &Job) -> Result<(), ControlError> {
        refuse_fed(job)?;
        self.ask_to_accept(job, &self.live_state(job)?, &Request::Eof(new_place()))
    }

    /// Gives the job's terminal another size; the programs in it are told.
    ///
    /// # Errors
    ///
    /// If the job has ended, has no terminal, or its keeper cannot be reached.
    pub fn resize(&self, job: &Job, size: TerminalSize) -> Result<(), ControlError> {
        self.ask_to_accept(job, &self.live_state(job)?, &Request::Resize(size))
    }
}
