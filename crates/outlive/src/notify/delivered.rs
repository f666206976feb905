//! Who was told of a job's end.
//!
//! A mark for each reader in the job's own directory: whoever was told by one way is not told again by another.

use outlive_core::id::SessionName;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::job::Job;

/// The directory of marks in a job's own.
const DIRECTORY: &str = "told";

impl Job {
    /// Notes that a reader was told how the job ended: its inbox will not tell it again. For whoever shows a final state.
    pub fn mark_told(&self, reader: &SessionName) {
        // Seen from the open directory, and without those above it: a job that was removed meanwhile must not come back. On a full
        // or read-only disk the reader is merely told again.
        durable::make_dir(self.dir(), DIRECTORY)
            .and_then(|()| {
                fault::step(Point::ToldMake, || durable::create_new(self.dir(), &mark(reader)).map(drop))
            })
            .ok();
    }

    /// Tells whether a reader was told how the job ended.
    pub fn is_told(&self, reader: &SessionName) -> bool {
        durable::open_ro(self.dir(), &mark(reader)).is_ok()
    }

    /// Tells whether any reader was.
    pub(crate) fn is_told_to_any(&self) -> bool {
        std::fs::read_dir(self.path().join(DIRECTORY)).is_ok_and(|mut marks| marks.next().is_some())
    }

    /// Returns the reader that started it, if that was not told.
    pub(crate) fn untold(&self) -> Option<SessionName> {
        self.spec().reader.clone().filter(|reader| !self.is_told(reader))
    }
}

fn mark(reader: &SessionName) -> String {
    format!("{DIRECTORY}/{reader}")
}
