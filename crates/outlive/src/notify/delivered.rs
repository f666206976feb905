//! Marks of delivered endings: an empty file per reader in the job's directory, shared by every way that delivers.

use outlive_core::id::SessionName;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::job::Job;
use crate::job::known::Dir;

const DIRECTORY: &str = "told";

impl Job {
    /// Marks the job's end as delivered to a reader: its inbox skips it. For front ends that show a final state themselves.
    pub fn mark_delivered(&self, reader: &SessionName) {
        // Made below the open directory, without parents: a removed job must not come back. Without the mark the reader sees a
        // repeat.
        let make = |dir: Dir<'_>| {
            durable::make_dir(&dir, DIRECTORY)?;
            fault::step(Point::ToldMake, || durable::create_new(&dir, &mark(reader)).map(drop))
        };
        self.dir().and_then(make).ok();
    }

    /// Tells whether the job's end was delivered to a reader.
    pub fn is_delivered(&self, reader: &SessionName) -> bool {
        self.open_file(&mark(reader)).is_ok()
    }

    /// Tells whether the job's end was delivered to any reader.
    pub(crate) fn is_delivered_to_any(&self) -> bool {
        std::fs::read_dir(self.path().join(DIRECTORY)).is_ok_and(|mut marks| marks.next().is_some())
    }

    /// Returns the reader that started the job, unless the end was delivered to it.
    pub(crate) fn undelivered(&self) -> Option<SessionName> {
        self.spec().reader.clone().filter(|reader| !self.is_delivered(reader))
    }
}

fn mark(reader: &SessionName) -> String {
    format!("{DIRECTORY}/{reader}")
}
