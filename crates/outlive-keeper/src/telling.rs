//! Writing events down.

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

    /// Writes an event down. One that cannot be written is lost; what it tells is in the job's own files.
    pub(crate) fn tell(&self, event: &Event) {
        append(&self.dir, &self.live_mark, event);
    }
}

/// Appends an event to those of the session whose name is in the job's mark.
pub(crate) fn append(dir: impl AsFd, live_mark: &str, event: &Event) {
    let Some((_, session)) = live_mark.split_once('@') else { return };
    let path = format!("../../sessions/{session}/{}", file::EVENTS);
    let at = if event.event == Kind::Started { Appending::EVENT_START } else { Appending::EVENT_END };
    durable::append(at, dir, &path, &event.to_record()).ok();
}
