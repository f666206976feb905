//! A callback for endings: a thread that sleeps until the kernel says that there is something new.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use outlive_core::id::SessionName;
use outlive_sys::pipe;
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::watch::Watch;

use crate::notify::inbox::InboxError;
use crate::notify::notice::Notice;
use crate::store::Store;

/// How often to look at what the kernel does not tell: that a keeper was killed, that a reader stays away, or that another
/// program has told the same reader.
const LOOK: Duration = Duration::from_secs(5);

/// How often to look where the kernel tells nothing.
const UNTOLD: Duration = Duration::from_millis(200);

/// Calls back until it is dropped.
#[derive(Debug)]
pub struct Listener {
    /// Closed to end the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Tells whether it calls back no more, because the callback panicked or the store cannot be read.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) =
            self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            // A callback that panicked has said so.
            thread.join().ok();
        }
    }
}

impl Store {
    /// Calls back with what a reader of a session is to be told, now and whenever there is more, in a thread of its own. What was
    /// handed over is noted when the callback has returned: one that panics is not called again, and its notices come to the
    /// next listener. The reader counts as present meanwhile.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or no thread is to be had.
    pub fn on_endings(
        &self,
        session: &SessionName,
        reader: &SessionName,
        mut callback: impl FnMut(&[Notice]) + Send + 'static,
    ) -> io::Result<Listener> {
        let (stopped, stop) = pipe::new()?;
        let presence = self.be_present(session, reader)?;
        let (store, session, reader) = (self.reopen(), session.clone(), reader.clone());
        let thread = std::thread::Builder::new().name(format!("endings {session}")).spawn(move || {
            let _presence = presence;
            let watch = store.events(&session, 0).watch();
            loop {
                watch.clear();
                if !tell(&store, &session, &reader, &mut callback) || !sleep(&watch, &stopped) {
                    return;
                }
            }
        })?;
        Ok(Listener { stop: Some(stop), thread: Some(thread) })
    }
}

/// Tells all that is to be told; `false` if the store cannot be used.
fn tell(
    store: &Store,
    session: &SessionName,
    reader: &SessionName,
    callback: &mut impl FnMut(&[Notice]),
) -> bool {
    let mut inbox = match store.inbox(session, reader, Duration::ZERO) {
        Ok(inbox) => inbox,
        Err(InboxError::Busy(_)) => return true,
        Err(InboxError::Store(_)) => return false,
    };
    loop {
        let Ok(pending) = inbox.pending() else { return false };
        if !pending.notices.is_empty() {
            callback(&pending.notices);
        }
        if inbox.acknowledge(pending.up_to).is_err() {
            return false;
        }
        if pending.left == 0 {
            return true;
        }
    }
}

/// Sleeps until something may be new; `false` if it is over.
fn sleep(watch: &Watch, stopped: &OwnedFd) -> bool {
    let mut fds = vec![PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
    fds.extend(watch.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let limit = if watch.is_pushed() { LOOK } else { UNTOLD };
    poll(&mut fds, Some(limit)).is_ok() && fds[0].revents().is_empty()
}
