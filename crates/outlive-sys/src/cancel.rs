//! Ending a wait from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

/// Ends waits from another thread: its descriptor is readable from the call of [`Cancel::cancel`] on. Clones share it.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<OwnedFd>);

impl Cancel {
    /// Makes one that is not cancelled.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Ends all waits on this descriptor, now and later.
    pub fn cancel(&self) {
        // It fails only after 2^64 calls, when the descriptor has long been readable.
        rustix::io::write(&*self.0, &1u64.to_ne_bytes()).ok();
    }

    /// Tells whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        crate::poll::readable(self.as_fd(), Some(Duration::ZERO)).unwrap_or(false)
    }
}

impl AsFd for Cancel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cancelled_stays_so_for_all_clones() {
        let cancel = Cancel::new().unwrap();
        let other = cancel.clone();
        assert!(!cancel.is_cancelled());
        std::thread::spawn(move || other.cancel());
        assert!(crate::poll::readable(cancel.as_fd(), None).unwrap());
        assert!(cancel.is_cancelled() && cancel.is_cancelled());
    }
}
