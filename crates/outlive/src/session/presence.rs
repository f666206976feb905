//! Whether a reader is there.
//!
//! A front end that lives as long as its reader holds a shared lock for it, which the kernel frees whatever becomes of the front
//! end. A reader that only comes now and then leaves the time of its last look.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outlive_core::id::SessionName;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point};
use outlive_sys::{durable, lock};

use crate::notify::events::make_dir;
use crate::store::Store;

/// The directory of readers in a session's own.
const DIRECTORY: &str = "readers";

/// A reader is there for as long as this is held.
#[derive(Debug)]
pub struct Presence {
    file: File,
}

impl Drop for Presence {
    fn drop(&mut self) {
        // From now on it is away; that it cannot be noted only makes it seem away for longer.
        self.file.set_modified(SystemTime::now()).ok();
    }
}

impl Store {
    /// Says that a reader of a session is there, for front ends that live as long as it does: what it started is told to nobody
    /// else meanwhile.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn be_present(&self, session: &SessionName, reader: &SessionName) -> io::Result<Presence> {
        let directory = self.readers_dir(session);
        make_dir(&directory)?;
        let file = durable::open_or_create(durable::open_dir(&directory)?, &here(reader))?;
        fault::step(Point::PresenceLock, || lock::wait_shared(&file))?;
        file.set_modified(SystemTime::now())?;
        Ok(Presence { file })
    }

    /// Returns where a session has what is known of its readers.
    pub(crate) fn readers_dir(&self, session: &SessionName) -> PathBuf {
        self.session_dir(session).join(DIRECTORY)
    }

    /// Tells whether a reader has shown no sign of life for so long that somebody else is told what it was to be told. One that
    /// never showed any counts from the end of the job that it started.
    pub(crate) fn is_absent(&self, session: &SessionName, reader: &SessionName, ended: Timestamp) -> bool {
        let directory = self.readers_dir(session);
        let presence = durable::open_dir(&directory).and_then(|dir| durable::open_rw(dir, &here(reader)));
        if let Ok(file) = &presence
            && lock::try_lock(file, lock::Kind::Exclusive).is_ok_and(|is_free| !is_free)
        {
            // Should it be killed, this is when it was last seen.
            file.set_modified(SystemTime::now()).ok();
            return false;
        }
        let time = |name: &str| directory.join(name).metadata().and_then(|data| data.modified()).ok();
        let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(ended.0);
        let last = [time(reader.as_str()), time(&here(reader)), Some(ended)].into_iter().flatten().max();
        // A time to come is a clock that was set back; nobody can be waited for until then.
        let absence = self.config().session.absence;
        last.is_none_or(|last| last.elapsed().map_or(true, |away| away >= absence))
    }
}

/// A reader's name has no `@` in it, so no reader's file is another's mark.
fn here(reader: &SessionName) -> String {
    format!("{reader}@here")
}
