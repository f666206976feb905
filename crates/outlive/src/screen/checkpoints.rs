//! Screens of earlier places in a log, kept in the job's directory by the programs that look at it.
//!
//! They may be deleted at any time, and one that cannot be written is no loss.

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use outlive_core::timestamp::Timestamp;
use outlive_screen::{Checkpoint, Screen};
use outlive_sys::durable::{self, CWD};
use outlive_sys::fault::Replacing;

use crate::job::Job;

/// Such an amount of output is read again at most to show a screen.
const STEP: u64 = 1 << 20;

const PREFIX: &str = "screen.";
const SUFFIX: &str = ".checkpoint";

/// Reads and writes the checkpoints of one job.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    path: PathBuf,
    /// Where the last one is that is known.
    last: std::cell::Cell<u64>,
}

impl Checkpoints {
    pub(crate) fn new(job: &Job) -> Self {
        Self { path: job.path().to_owned(), last: std::cell::Cell::new(0) }
    }

    /// Reads the last checkpoint that is in a range of offsets and is whole, with the offset from which it is derived.
    pub(super) fn last(&self, range: RangeInclusive<u64>) -> Option<(Checkpoint, u64)> {
        let mut places = self.places();
        places.retain(|place| range.contains(&place.offset));
        places.sort_unstable();
        let found = places.iter().rev().find_map(|place| {
            let bytes = durable::read(CWD, self.path.join(place.name())).ok()?;
            let checkpoint = Checkpoint::read(&bytes).ok()?;
            (checkpoint.offset == place.offset).then_some((checkpoint, place.from))
        });
        self.last.set(found.as_ref().map_or(*range.start(), |(found, _)| found.offset));
        found
    }

    fn places(&self) -> Vec<Place> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| Place::of(entry.file_name().to_str()?)).collect()
    }

    /// Keeps the screen at this place, if the last one is far enough behind.
    pub(super) fn offer(&self, screen: &mut Screen, time: Option<Timestamp>, place: Place, start: u64) {
        if place.offset >= self.last.get() + STEP {
            self.keep(Replacing::SCREEN, screen, time, place, start);
        }
    }

    /// Keeps the screen at this place, and removes those before `start`, from which nothing can be read on any more.
    pub(super) fn keep(
        &self,
        step: Replacing,
        screen: &mut Screen,
        time: Option<Timestamp>,
        place: Place,
        start: u64,
    ) {
        let (Some(time), Ok(directory)) = (time, durable::open_dir(&self.path)) else { return };
        let Some(bytes) = screen.checkpoint(place.offset, time) else { return };
        self.last.set(place.offset);
        // A store that cannot be written is read all the same.
        durable::replace(step, &directory, &place.name(), &bytes).ok();
        self.remove(|old| old.offset < start).ok();
    }

    /// Removes those that something is so of.
    pub(crate) fn remove(&self, is_so: impl Fn(&Place) -> bool) -> io::Result<()> {
        let directory = durable::open_dir(&self.path)?;
        for place in self.places().into_iter().filter(is_so) {
            match durable::remove(&directory, &place.name()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                // Another program may have removed it.
                _ => {}
            }
        }
        Ok(())
    }
}

/// Which part of the log a checkpoint is the screen of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Up to here.
    pub(crate) offset: u64,
    /// From here; what came before was lost.
    pub(super) from: u64,
}

impl Place {
    fn name(self) -> String {
        format!("{PREFIX}{}-{}{SUFFIX}", self.from, self.offset)
    }

    fn of(name: &str) -> Option<Self> {
        let (from, offset) = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.split_once('-')?;
        Some(Self { offset: offset.parse().ok()?, from: from.parse().ok()? })
    }
}
