//! Callbacks for endings: a thread that sleeps until the kernel reports a change.

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

/// How often to check what causes no file event: a killed keeper, an absent reader, another program that delivers.
const LOOK: Duration = Duration::from_secs(5);

/// How often to check without inotify.
const POLL: Duration = Duration::from_millis(200);

/// Calls back until dropped.
#[derive(Debug)]
pub struct Listener {
    /// Dropped to end the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Tells whether the calls have stopped, because the callback panicked or the store cannot be read.
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
            // The panic hook has reported a panic already.
            thread.join().ok();
        }
    }
}

impl Store {
    /// Calls back with a reader's endings, now and whenever there are more, in a thread of its own. They are acknowledged when
    /// the callback returns; after a panic there are no more calls, and the next listener gets the notices. The reader counts
    /// as present.
    ///
    /// # Errors
    ///
    /// If the store cannot be written, or no thread can be started.
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
                let delivered = deliver(&store, &session, &reader, &mut callback);
                if matches!(delivered, Err(InboxError::Store(_))) || !sleep(&watch, &stopped) {
                    return;
                }
            }
        })?;
        Ok(Listener { stop: Some(stop), thread: Some(thread) })
    }
}

/// Delivers what is pending.
fn deliver(
    store: &Store,
    session: &SessionName,
    reader: &SessionName,
    callback: &mut impl FnMut(&[Notice]),
) -> Result<(), InboxError> {
    let mut inbox = store.inbox(session, reader, Duration::ZERO)?;
    loop {
        let pending = inbox.pending()?;
        if !pending.notices.is_empty() {
            callback(&pending.notices);
        }
        inbox.acknowledge(pending.up_to)?;
        if pending.left == 0 {
            return Ok(());
        }
    }
}

/// Sleeps until there may be something new; `false` if the listener was dropped.
fn sleep(watch: &Watch, stopped: &OwnedFd) -> bool {
    let mut fds = vec![PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
    fds.extend(watch.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    let limit = if watch.is_pushed() { LOOK } else { POLL };
    poll(&mut fds, Some(limit)).is_ok() && fds[0].revents().is_empty()
}
