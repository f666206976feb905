//! To which readers a job's end was delivered.
//!
//! An empty file for each reader in the job's own directory: what one way has told a reader, no other way tells it again.

use outlive_core::id::SessionName;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::job::Job;

/// The directory of marks in a job's own.
const DIRECTORY: &str = "told";

impl Job {
    /// Notes that a reader was told how the job ended: its inbox will not tell it again. For front ends that show a final state.
    pub fn mark_delivered(&self, reader: &SessionName) {
        // Made below the open directory, without its parents: a job that was removed meanwhile must not come back. On a full or
        // read-only disk the reader is merely told again.
        durable::make_dir(self.dir(), DIRECTORY)
            .and_then(|()| {
                fault::step(Point::ToldMake, || durable::create_new(self.dir(), &mark(reader)).map(drop))
            })
            .ok();
    }

    /// Tells whether a reader was told how the job ended.
    pub fn is_delivered(&self, reader: &SessionName) -> bool {
        durable::open_ro(self.dir(), &mark(reader)).is_ok()
    }

    /// Tells whether any reader was told how the job ended.
    pub(crate) fn is_delivered_to_any(&self) -> bool {
        std::fs::read_dir(self.path().join(DIRECTORY)).is_ok_and(|mut marks| marks.next().is_some())
    }

    /// Returns the reader that started the job, if that was not told how it ended.
    pub(crate) fn undelivered(&self) -> Option<SessionName> {
        self.spec().reader.clone().filter(|reader| !self.is_delivered(reader))
    }
}

fn mark(reader: &SessionName) -> String {
    format!("{DIRECTORY}/{reader}")
}
