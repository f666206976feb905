//! `jobs.cache`: what lists of many jobs would read anew in every program, beside the jobs.
//!
//! Front ends write it, keepers never. It is a copy that can be dropped at any time: an entry counts only under the stamp of the job's
//! directory that it was made under, and whether a live job has ended is looked at each time. A file that is damaged, of another build
//! or of another user is as good as none.

use std::fs;

use outlive_core::cache::{self, MAX_BYTES};
use outlive_sys::durable::{self, CWD};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::stamp::Stamp;

use crate::store::Store;

/// The file's name in the store.
pub(crate) const CACHE: &str = "jobs.cache";

/// It is not worth a file to save fewer jobs from being read: that takes a tenth of a millisecond.
const LEAST_READ: usize = 4;

/// It is written again when this share of the listed jobs had to be read: jobs that were too young for it once would be read by every
/// program from then on. One list pays for that, and the next few are quicker by as much (`docs/design/lists.md`).
const SHARE_READ: usize = 32;

impl Store {
    /// Reads what other programs knew, once in this one.
    pub(super) fn load_cache(&self) {
        self.known.load(|| {
            let file = durable::open_ro(CWD, self.root().join(CACHE))?;
            durable::read_open_within(&file, MAX_BYTES)
        });
    }

    /// Writes what is known for other programs, if many jobs had to be read that could have been known. `jobs` is the stamp that the
    /// directory of jobs had before they were listed.
    ///
    /// # Durability
    ///
    /// Written, not synced. In a store that cannot be written, nothing happens.
    pub(super) fn save_cache(&self, listed: usize, read: usize, jobs: Stamp) {
        if read < LEAST_READ || read * SHARE_READ < listed {
            return;
        }
        let (mut frames, mut bytes) = (Vec::new(), 0);
        for known in self.known.all() {
            let entry = known.entry(&self.jobs().join(known.spec.job.as_str()));
            let Some(frame) = entry.and_then(|entry| cache::frame(known.stamp.to_bytes(), &entry)) else {
                continue;
            };
            bytes += frame.len() as u64;
            if bytes > MAX_BYTES / 2 {
                break;
            }
            frames.push(frame);
        }
        if frames.len() < LEAST_READ {
            return;
        }
        let contents = cache::to_bytes(&frames);
        let replaced = durable::open_dir(self.root())
            .and_then(|dir| durable::replace(Replacing::JOBS_CACHE, dir, CACHE, &contents));
        // A job that was removed meanwhile must not live on in it.
        if replaced.is_ok() && Stamp::at(&self.jobs()).ok() != Some(jobs) {
            self.drop_cache();
        }
    }

    /// Removes the file, after a job was removed: what is removed is to be gone.
    pub(crate) fn drop_cache(&self) {
        fault::step(Point::CacheDrop, || fs::remove_file(self.root().join(CACHE))).ok();
    }
}
