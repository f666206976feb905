//! Reserves room in the store: a job's output cap counts from its start, so that the store cannot overrun.
//!
//! The file `reserved` holds an upper bound: each start adds its cap, and nothing is subtracted. When the bound reaches the
//! ceiling, the real use is measured, and the oldest ended jobs are removed if that is too much.

use std::os::unix::fs::FileExt;

use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::store::Store;
use crate::store::collect::disk_bytes;
use crate::store::limits::LimitError;

/// Fixed length, so that the number is replaced in place.
const DIGITS: usize = 20;

impl Store {
    /// Reserves room for a job's output. To be called with the store's lock held.
    pub(crate) fn reserve(&self, cap: Option<u64>) -> Result<(), LimitError> {
        let Some(limit) = self.config().limits.bytes else { return Ok(()) };
        // A job without a cap reserves nothing; its output counts at the next measurement.
        let cap = cap.unwrap_or(0);
        let file = durable::open_or_create(durable::CWD, self.root().join("reserved")).ok();
        let mut digits = [0; DIGITS];
        let known = file.as_ref().and_then(|file| {
            file.read_exact_at(&mut digits, 0).ok()?;
            std::str::from_utf8(&digits).ok()?.trim().parse::<u64>().ok()
        });
        let fitting = known.and_then(|known| known.checked_add(cap)).filter(|&bound| bound <= limit);
        let bound = match fitting {
            Some(bound) => bound,
            None => self.make_room(cap, limit)? + cap,
        };
        // In place, because some file systems are slow to truncate. After a failed write the next start measures again.
        if let Some(file) = file {
            fault::write_all_at(Point::ReserveWrite, &file, format!("{bound:DIGITS$}").as_bytes(), 0).ok();
        }
        Ok(())
    }

    /// Measures the use and removes the oldest ended jobs until there is room; removes none if that would not be enough.
    fn make_room(&self, wanted: u64, limit: u64) -> Result<u64, LimitError> {
        let (mut used, mut live) = (0u64, 0u64);
        let mut ended = Vec::new();
        for job in self.list(None).map(|listing| listing.jobs).unwrap_or_default() {
            let state = job.state(self);
            let bytes = disk_bytes(job.path());
            if state.is_live() || state.is_elsewhere() {
                let reserved = job.spec().options.output_cap_bytes.unwrap_or(0).max(bytes);
                (used, live) = (used + reserved, live + reserved);
            } else {
                used += bytes;
                ended.push((state.outcome.map(|outcome| outcome.ended), bytes, job));
            }
        }
        if live.saturating_add(wanted) > limit {
            return Err(LimitError::Bytes { used, wanted, limit });
        }
        ended.sort_by_key(|(end, ..)| *end);
        for (_, bytes, job) in ended {
            if used.saturating_add(wanted) <= limit {
                break;
            }
            if self.remove(&job).is_ok() {
                used -= bytes;
            }
        }
        match used.saturating_add(wanted) <= limit {
            true => Ok(used),
            false => Err(LimitError::Bytes { used, wanted, limit }),
        }
    }
}
