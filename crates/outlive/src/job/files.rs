//! The files of a job that others may be shown under names of their own, and when somebody last looked at it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use outlive_core::{file, segment};

use crate::job::Job;
use crate::output::Output;

impl Job {
    /// Returns the snapshot: pids, times and how it is doing, replaced at every transition.
    pub fn meta_file(&self) -> PathBuf {
        self.path().join(file::META)
    }

    /// Returns what was asked: the command, the directory, the limits.
    pub fn spec_file(&self) -> PathBuf {
        self.path().join(file::SPEC)
    }

    /// Returns the first file of what it printed that is there: all of it, up to the size of a segment.
    ///
    /// # Errors
    ///
    /// If the job's directory cannot be read.
    pub fn log_file(&self) -> io::Result<PathBuf> {
        Ok(self.path().join(segment::name(Output::open(self)?.start())))
    }

    /// Returns when somebody last looked at it: after its end, by the mark of that; before it, by the newest cursor.
    pub fn last_look(&self) -> Option<SystemTime> {
        let time = |path: PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
        time(self.path().join(file::SEEN)).or_else(|| {
            let cursors =
                fs::read_dir(self.path().join(crate::output::cursor::DIRECTORY)).into_iter().flatten();
            cursors.flatten().filter_map(|cursor| time(cursor.path())).max()
        })
    }
}
