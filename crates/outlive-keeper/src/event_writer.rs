//! Appending events to the file of the session that has the job.

use std::os::fd::AsFd;

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::Appending;
use outlive_sys::{clock, durable};

use crate::start::Keeper;

impl Keeper {
    /// Begins an event of this job.
    pub(crate) fn event(&self, kind: Kind) -> Event {
        Event::new(kind, &self.meta.job, self.meta.nonce, Timestamp(clock::wall_us()))
    }

    /// Appends an event; `false` if that fails. The event is then lost, and its facts are in the job's own files.
    pub(crate) fn write_event(&self, event: &Event) -> bool {
        append(&self.dir, &self.live_mark, event)
    }

    /// Returns where the job's session has its files, seen from the job's directory.
    pub(crate) fn session_dir(&self) -> String {
        session_dir(&self.dir, &self.live_mark).unwrap_or_default()
    }
}

/// Returns the directory of the session that has the job now: the one that it was given to, else the one whose name is in its
/// mark.
fn session_dir(dir: impl AsFd, live_mark: &str) -> Option<String> {
    let given = durable::read_line(dir, file::SESSION);
    let session = given.or_else(|| Some(live_mark.split_once('@')?.1.to_owned()))?;
    Some(format!("../../sessions/{session}"))
}

/// Appends an event to those of the job's session; `false` if that is not possible.
pub(crate) fn append(dir: impl AsFd, live_mark: &str, event: &Event) -> bool {
    let Some(session) = session_dir(&dir, live_mark) else { return false };
    // First the directory: a link in its place is not followed.
    let Ok(session) = durable::open_dir_in(dir, session) else { return false };
    let at = if event.event == Kind::Started { Appending::EVENT_START } else { Appending::EVENT_END };
    durable::append(at, session, file::EVENTS, &event.to_record()).is_ok()
}
