//! Being told that something in a directory changed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify;

use crate::poll::{PollFd, PollFlags, poll};

/// Wakes up when a file in a directory is written, made, renamed or closed by its writer.
///
/// A writer that is killed closes its files too, so its death wakes the watcher.
#[derive(Debug)]
pub struct Watch {
    /// None where the user's allowance of watches is used up: then there is only the timer.
    inotify: Option<OwnedFd>,
}

/// How often to look where the kernel does not tell.
const FALLBACK: Duration = Duration::from_millis(100);

impl Watch {
    /// Starts to watch. Whatever happens from now on is told; what happened before must be looked at afterwards.
    pub fn new(directory: &Path) -> Self {
        Self { inotify: Self::watch(directory).ok() }
    }

    fn watch(directory: &Path) -> io::Result<OwnedFd> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let events = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF;
        inotify::add_watch(&fd, directory, events)?;
        Ok(fd)
    }

    /// Tells whether the kernel pushes, or a timer is needed.
    pub fn is_pushed(&self) -> bool {
        self.inotify.is_some()
    }

    /// Returns what to poll for, where the kernel pushes.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }

    /// Waits for a change, at most `limit`; may also return without one, and does when Ctrl-C was caught.
    ///
    /// # Errors
    ///
    /// If the kernel is out of memory.
    pub fn wait(&self, limit: Option<Duration>) -> io::Result<()> {
        match &self.inotify {
            Some(fd) => {
                let interrupt =
                    crate::signal::interrupt_fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
                let mut fds: Vec<PollFd<'_>> =
                    [PollFd::new(fd, PollFlags::IN)].into_iter().chain(interrupt).collect();
                if poll(&mut fds, limit)? > 0 {
                    self.clear();
                }
            }
            None => std::thread::sleep(limit.map_or(FALLBACK, |limit| limit.min(FALLBACK))),
        }
        Ok(())
    }

    /// Forgets what was told; the caller then looks at the directory itself.
    pub fn clear(&self) {
        if let Some(fd) = &self.inotify {
            let mut buffer = [0u8; 4096];
            while let crate::pipe::Attempt::Moved(_) = crate::pipe::try_read(fd, &mut buffer) {}
        }
    }
}
