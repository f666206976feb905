//! Paths of a job's files, for profiles that show them under their own names, and the time of the last look at the job.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use outlive_core::{file, segment};

use crate::job::Job;
use crate::output::Output;

impl Job {
    /// Returns `meta.json`: pids, times and status, replaced at every transition.
    pub fn meta_file(&self) -> PathBuf {
        self.path().join(file::META)
    }

    /// Returns `spec.json`: the command, the directory, the limits.
    pub fn spec_file(&self) -> PathBuf {
        self.path().join(file::SPEC)
    }

    /// Returns the first segment of the output that still exists: the whole output, up to the size of a segment.
    ///
    /// # Errors
    ///
    /// If the job's directory cannot be read.
    pub fn log_file(&self) -> io::Result<PathBuf> {
        Ok(self.path().join(segment::name(Output::open(self)?.start())))
    }

    /// Returns when a front end last read the job: after its end, by the `seen` mark; before, by the newest cursor.
    pub fn last_look(&self) -> Option<SystemTime> {
        let time = |path: PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
        time(self.path().join(file::SEEN)).or_else(|| {
            let cursors =
                fs::read_dir(self.path().join(crate::output::cursor::DIRECTORY)).into_iter().flatten();
            cursors.flatten().filter_map(|cursor| time(cursor.path())).max()
        })
    }
}
