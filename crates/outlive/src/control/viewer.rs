//! A viewer of a job's terminal: the connection over which a person types into it.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use outlive_core::control::{MAX_INPUT, Place, Reply, Request};
use outlive_core::terminal::size::{Sizing, TerminalSize};

use super::{Connection, ControlError, PATIENCE, unexpected};
use crate::job::Job;
use crate::store::Store;

/// How long a command may leave what is typed unread.
const UNREAD: Duration = Duration::from_secs(10);

/// A connection to the keeper of a job in a terminal. The keeper knows of the viewer for as long as this exists, however it ends. If
/// the keeper dies, the next call connects to its guard, and no key is typed twice.
pub struct Viewer<'a> {
    store: &'a Store,
    connection: Connection<'a>,
    size: TerminalSize,
    sizing: Sizing,
    /// Where the next key belongs.
    place: Place,
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
        &'a self,
        job: &'a Job,
        size: TerminalSize,
        sizing: Sizing,
    ) -> Result<Viewer<'a>, ControlError> {
        let connection = Connection::open(self, job, &self.live_state(job)?)?;
        let mut viewer = Viewer { store: self, connection, size, sizing, place: super::input::new_place() };
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
        self.size = size;
        self.ask(&self.view())
    }

    /// Types.
    ///
    /// # Errors
    ///
    /// If the command has not read for a while, or the keeper cannot be reached any more.
    pub fn keys(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        self.write(bytes, Request::Keys)
    }

    /// Passes on what the viewer's own terminal says of itself, such as that the mouse was moved. It makes no viewer the one that was
    /// used last.
    ///
    /// # Errors
    ///
    /// As [`Viewer::keys`].
    pub fn report(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        self.write(bytes, Request::Input)
    }

    fn write(&mut self, bytes: &[u8], request: fn(Vec<u8>, Place) -> Request) -> Result<(), ControlError> {
        for piece in bytes.chunks(MAX_INPUT) {
            self.ask(&request(piece.to_vec(), self.place))?;
            self.place.offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Connects again, because the keeper has closed the connection; see [`Viewer::as_fd`]. `false` if the job has ended.
    ///
    /// # Errors
    ///
    /// If the keeper cannot be reached any more.
    pub fn reconnect(&mut self) -> Result<bool, ControlError> {
        match self.ask(&self.view()) {
            Err(ControlError::Ended(_)) => Ok(false),
            Err(error) if error.is_keeper_gone() && self.store.ends_now(self.connection.job) => Ok(false),
            other => other.map(|()| true),
        }
    }

    fn view(&self) -> Request {
        Request::View { size: self.size, sizing: self.sizing }
    }

    /// Gives the job's terminal the size of this viewer's, as if a person had typed here.
    ///
    /// # Errors
    ///
    /// If the keeper cannot be reached any more.
    pub fn fit(&mut self, size: TerminalSize) -> Result<(), ControlError> {
        self.sizing = Sizing::Latest;
        self.resize(size)?;
        self.ask(&Request::Keys(Vec::new(), self.place))
    }

    /// Has no say in the size of the job's terminal any more.
    ///
    /// # Errors
    ///
    /// If the keeper cannot be reached any more.
    pub fn let_go(&mut self) -> Result<(), ControlError> {
        self.sizing = Sizing::Fixed;
        self.resize(self.size)
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
        let (store, job, view, limit) = (self.store, self.connection.job, self.view(), UNREAD.max(PATIENCE));
        let mut reply = self.connection.ask(request, limit);
        if reply.as_ref().is_err_and(ControlError::is_keeper_gone) {
            reply = store.ask_kept(job, &store.live_state(job)?, |state| {
                self.connection = Connection::open(store, job, state)?;
                // The new keeper knows of no viewer.
                self.connection.ask(&view, PATIENCE)?;
                self.connection.ask(request, limit)
            });
        }
        match reply? {
            Reply::Accepted => Ok(()),
            other => Err(unexpected(job, &other)),
        }
    }
}

/// Becomes readable when the keeper closes the connection: the job has ended, or the keeper has.
impl AsFd for Viewer<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.stream.as_fd()
    }
}
