//! A viewer of a job's terminal: the connection over which a person types into it.

use std::time::Duration;

use outlive_core::control::{MAX_INPUT, Reply, Request};
use outlive_core::terminal::size::{Sizing, TerminalSize};

use super::{Connection, ControlError, PATIENCE, unexpected};
use crate::job::Job;
use crate::store::Store;

/// How long a command may leave what is typed unread.
const UNREAD: Duration = Duration::from_secs(10);

/// A connection to the keeper of a job in a terminal. The keeper knows of the viewer for as long as this exists, however it ends.
pub struct Viewer<'a> {
    connection: Connection<'a>,
    sizing: Sizing,
}

impl std::fmt::Debug for Viewer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Viewer").field("sizing", &self.sizing).finish_non_exhaustive()
    }
}

impl Store {
    /// Becomes a viewer of a job's terminal, with a terminal of this size.
    ///
    /// # Errors
    ///
    /// If the job has ended, has no terminal, or its keeper cannot be reached.
    pub fn view<'a>(
        &self,
        job: &'a Job,
        size: TerminalSize,
        sizing: Sizing,
    ) -> Result<Viewer<'a>, ControlError> {
        let connection = Connection::open(self, job, &self.live_state(job)?)?;
        let mut viewer = Viewer { connection, sizing };
        viewer.resize(size)?;
        Ok(viewer)
    }
}

impl Viewer<'_> {
    /// Says that the viewer's own terminal has another size.
    ///
    /// # Errors
    ///
    /// If the keeper cannot be reached any more.
    pub fn resize(&mut self, size: TerminalSize) -> Result<(), ControlError> {
        let sizing = self.sizing;
        self.ask(&Request::View { size, sizing })
    }

    /// Types.
    ///
    /// # Errors
    ///
    /// If the command has not read for a while, or the keeper cannot be reached any more.
    pub fn keys(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        bytes.chunks(MAX_INPUT).try_for_each(|piece| self.ask(&Request::Keys(piece.to_vec())))
    }

    /// Gives the job's terminal the size of this viewer's, as if a person had typed here.
    ///
    /// # Errors
    ///
    /// If the keeper cannot be reached any more.
    pub fn fit(&mut self, size: TerminalSize) -> Result<(), ControlError> {
        self.sizing = Sizing::Latest;
        self.resize(size)?;
        self.ask(&Request::Keys(Vec::new()))
    }

    /// Tells whether a person typed last at this viewer, or there is no other. A keeper of an earlier version says no.
    ///
    /// # Errors
    ///
    /// If the keeper cannot be reached any more.
    pub fn leads(&mut self) -> Result<bool, ControlError> {
        match self.ask(&Request::Leads) {
            Ok(()) => Ok(true),
            Err(ControlError::Refused { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<(), ControlError> {
        match self.connection.ask(request, UNREAD.max(PATIENCE))? {
            Reply::Accepted => Ok(()),
            other => Err(unexpected(self.connection.job, &other)),
        }
    }
}
