//! What a front end remembers of jobs, so that what cannot change is read once.
//!
//! `spec.json` never changes, and neither do an outcome and a closed record that are both there. `session`, `name` and `meta.json`
//! are replaced by renaming, which changes the stamp of the job's directory: what was read under a stamp holds for as long as the
//! directory has it. The outcome of a live job is written in place, and its lock is the kernel's: both are looked at each time,
//! through files that stay open. What another program remembered comes from `jobs.cache` (`job/cache.rs`).

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use outlive_core::cache::{Cached, Entry, Records, StampBytes};
use outlive_core::file;
use outlive_core::id::{JobId, SessionName};
use outlive_core::meta::Meta;
use outlive_core::outcome::{CLOSED_AT, Closed, FILE_BYTES, Outcome};
use outlive_core::spec::Spec;
use outlive_sys::durable::{self, CWD};
use outlive_sys::names::Names;
use outlive_sys::stamp::Stamp;
use outlive_sys::{lock, spawn};

use super::totals::Counted;

/// How many jobs are remembered; one takes some 2 KiB.
const MOST_JOBS: usize = 10_000;

/// How many descriptors of jobs stay open, in a program that may open more than twice as many.
const MOST_OPEN: usize = 512;

static OPEN: AtomicUsize = AtomicUsize::new(0);

fn most_open() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| (spawn::most_open_files() / 2).min(MOST_OPEN))
}

/// A descriptor that stays open, and counts.
#[derive(Debug)]
pub(crate) struct Kept<T>(T);

impl<T> Kept<T> {
    /// Keeps a descriptor; gives it back if there are too many.
    pub(super) fn new(open: T) -> Result<Self, T> {
        let more = |count| (count < most_open()).then_some(count + 1);
        match OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Self(open)),
            Err(_) => Err(open),
        }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The directory of a job, open.
pub(crate) enum Dir<'a> {
    /// It stays open.
    Kept(&'a Kept<OwnedFd>),
    /// For this once.
    Once(OwnedFd),
}

impl AsFd for Dir<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(dir) => dir.0.as_fd(),
            Self::Once(dir) => dir.as_fd(),
        }
    }
}

/// A file of a live job that stays open between looks.
#[derive(Debug, Default)]
struct KeptFile(Mutex<Option<Kept<File>>>);

impl KeptFile {
    fn look<T>(
        &self,
        open: impl FnOnce() -> io::Result<File>,
        act: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut kept = locked(&self.0);
        if let Some(file) = &*kept {
            return act(&file.0);
        }
        match Kept::new(open()?) {
            Ok(file) => act(&kept.insert(file).0),
            Err(file) => act(&file),
        }
    }

    /// As [`KeptFile::look`], if the file is open.
    fn look_again<T>(&self, act: impl FnOnce(&File) -> io::Result<T>) -> Option<T> {
        act(&locked(&self.0).as_ref()?.0).ok()
    }

    fn close(&self) {
        *locked(&self.0) = None;
    }
}

/// What is known of one job.
#[derive(Debug)]
pub(crate) struct Known {
    /// Of the directory, before anything in it was read.
    pub(super) stamp: Stamp,
    /// From then on a change gave the directory another stamp.
    pub(super) is_settled: bool,
    pub(super) spec: Box<Spec>,
    /// The session that the job was moved to.
    pub(super) given_to: Option<SessionName>,
    /// The display name since the last rename.
    pub(super) renamed: Option<String>,
    /// `meta.json`, and the directory's stamp before it was read.
    snapshot: Mutex<Option<(Stamp, Option<Arc<Meta>>)>>,
    /// Both records: nothing changes them.
    ended: OnceLock<Box<(Outcome, Closed)>>,
    outcome: KeptFile,
    /// Of the file `outcome`, when it was seen without a record; asked once, because a file that stays open is read as quickly.
    unwritten: Mutex<Option<StampBytes>>,
    lock: KeptFile,
    /// Its spec says that it is of this host and pid namespace.
    pub(super) is_here: OnceLock<bool>,
    pub(super) counted: Counted,
}

impl Known {
    /// Begins with the spec alone.
    pub(super) fn new(stamp: Stamp, spec: Box<Spec>) -> Self {
        Self {
            stamp,
            is_settled: false,
            spec,
            given_to: None,
            renamed: None,
            snapshot: Mutex::default(),
            ended: OnceLock::new(),
            outcome: KeptFile::default(),
            unwritten: Mutex::default(),
            lock: KeptFile::default(),
            is_here: OnceLock::new(),
            counted: Counted::default(),
        }
    }

    /// Begins with what was known under the stamp that the job's directory has.
    pub(super) fn of_entry(stamp: Stamp, entry: Entry) -> Self {
        let mut known = Self::new(stamp, entry.spec);
        (known.is_settled, known.given_to, known.renamed) = (true, entry.given_to, entry.renamed);
        known.snapshot = Mutex::new(Some((stamp, Some(entry.snapshot))));
        match entry.records {
            Records::Unknown => {}
            Records::None(unwritten) => known.unwritten = Mutex::new(Some(unwritten)),
            Records::Both(both) => known.ended = both.into(),
        }
        known
    }

    /// Returns what another program may know of the job at `path`, if the snapshot is known and holds under the same stamp as the rest.
    pub(super) fn entry(&self, path: &Path) -> Option<Entry> {
        let snapshot = match &*locked(&self.snapshot) {
            Some((stamp, Some(meta))) if *stamp == self.stamp && self.is_settled => Arc::clone(meta),
            _ => return None,
        };
        let unwritten = *locked(&self.unwritten);
        let records = match (self.ended.get(), unwritten) {
            (Some(both), _) => Records::Both(both.clone()),
            (None, Some(unwritten)) => Records::None(unwritten),
            (None, None) => {
                let outcome = path.join(file::OUTCOME);
                // The stamp first: what is written after it gives another one.
                let stamp = Stamp::at(&outcome).ok().filter(|stamp| stamp.is_settled());
                match (stamp, self.read_records(|| durable::open_ro(CWD, &outcome))) {
                    (Some(stamp), Some((None, None))) => Records::None(stamp.to_bytes()),
                    _ => Records::Unknown,
                }
            }
        };
        let (given_to, renamed) = (self.given_to.clone(), self.renamed.clone());
        Some(Entry { spec: self.spec.clone(), given_to, renamed, snapshot, records })
    }

    /// Tells whether the job's lock is held, no outcome is written, and the job is where it was started. `None` where that takes more
    /// than a look at files that are open.
    pub(super) fn is_running(&self) -> Option<bool> {
        let is_free = self.lock.look_again(probe)?;
        Some(!is_free && self.is_still_unwritten()? && self.given_to.is_none())
    }

    /// Tells whether there is no outcome in the file that stays open; `None` if that is not open.
    fn is_still_unwritten(&self) -> Option<bool> {
        // A record begins with a word that is not zero, and is written from its beginning.
        let mut first = [0; 4];
        self.outcome.look_again(|file| file.read_exact_at(&mut first, 0))?;
        Some(first == [0; 4])
    }

    /// Tells whether both records are known, which nothing changes.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns the records of the outcome, which `look` looks at and `open` opens if they are not known; an empty, torn or missing
    /// record is `None`.
    pub(super) fn records(
        &self,
        look: impl FnOnce() -> io::Result<Stamp>,
        open: impl FnOnce() -> io::Result<File>,
    ) -> (Option<Outcome>, Option<Closed>) {
        if let Some((outcome, closed)) = self.ended.get().map(Box::as_ref) {
            return (Some(outcome.clone()), Some(*closed));
        }
        let unwritten = locked(&self.unwritten).take();
        if unwritten.is_some_and(|unwritten| look().is_ok_and(|stamp| stamp.to_bytes() == unwritten))
            || self.is_still_unwritten() == Some(true)
        {
            return (None, None);
        }
        // What cannot be read says nothing.
        self.read_records(open).unwrap_or_default()
    }

    /// Reads the records of the outcome; `None` if it cannot be read.
    fn read_records(
        &self,
        open: impl FnOnce() -> io::Result<File>,
    ) -> Option<(Option<Outcome>, Option<Closed>)> {
        let mut bytes = [0; FILE_BYTES as usize];
        let mut read = 0;
        let filled = self.outcome.look(open, |file| {
            while read < bytes.len() {
                match file.read_at(&mut bytes[read..], read as u64)? {
                    0 => break,
                    count => read += count,
                }
            }
            Ok(())
        });
        // A file that was cut short has what it has.
        if filled.is_err() && read == 0 {
            return None;
        }
        let records = (Outcome::from_slot(&bytes), Closed::from_slot(&bytes[CLOSED_AT as usize..]));
        if let (Some(outcome), Some(closed)) = &records {
            self.ended.set(Box::new((outcome.clone(), *closed))).ok();
            self.outcome.close();
            self.lock.close();
        }
        Some(records)
    }

    /// Tries the job's lock, which `open` opens; true if it was free.
    pub(super) fn try_lock(&self, open: impl FnOnce() -> io::Result<File>) -> io::Result<bool> {
        self.lock.look(open, probe)
    }

    /// Returns the snapshot of the job at `path`, which `read` reads if the directory has changed since it was last read. Of a job that
    /// was just listed (`is_listed`), the list has looked.
    pub(super) fn snapshot(
        &self,
        path: &Path,
        is_listed: bool,
        read: impl FnOnce() -> Option<Meta>,
    ) -> Option<Arc<Meta>> {
        let stamp = match &*locked(&self.snapshot) {
            // The first is read after the spec, and so under its stamp, too: there is no need for another look.
            None => Some(self.stamp),
            Some((known, meta)) if is_listed && *known == self.stamp => return meta.clone(),
            Some((known, meta)) => match Stamp::at(path).ok() {
                Some(stamp) if stamp == *known => return meta.clone(),
                stamp => stamp.filter(|stamp| stamp.is_same_file(self.stamp)),
            },
        };
        let settled = stamp.filter(|stamp| stamp.is_settled());
        let meta = read().map(Arc::new);
        *locked(&self.snapshot) = settled.map(|stamp| (stamp, meta.clone()));
        meta
    }
}

/// Tries a lock; true if it was free.
fn probe(file: &File) -> io::Result<bool> {
    let is_free = lock::try_lock(file, lock::Kind::Shared)?;
    if is_free {
        // The file stays open, and a keeper's lock may be taken over.
        lock::unlock(file)?;
    }
    Ok(is_free)
}

/// The jobs that a store remembers.
#[derive(Debug, Default)]
pub(crate) struct KnownJobs {
    jobs: Mutex<HashMap<JobId, Arc<Known>>>,
    /// What other programs knew, until the job is looked at.
    cached: Mutex<Cached>,
    /// The cache was read.
    is_loaded: AtomicBool,
}

impl KnownJobs {
    /// Returns what is known of a job, whose directory `look` looks at, if it has not changed.
    pub(super) fn get(&self, id: &str, look: impl FnOnce() -> io::Result<Stamp>) -> Option<Arc<Known>> {
        let known = locked(&self.jobs).get(id).map(Arc::clone);
        let Some(known) = known else {
            let place = locked(&self.cached).find(id)?;
            let stamp = look().ok().filter(|stamp| stamp.to_bytes() == place.0)?;
            let entry = locked(&self.cached).entry(place)?;
            let known = Arc::new(Known::of_entry(stamp, entry));
            self.insert(&known);
            return Some(known);
        };
        if look().ok() == Some(known.stamp) {
            return Some(known);
        }
        locked(&self.jobs).remove(id);
        None
    }

    /// Adds what other programs knew, once; it counts for a job that this program does not know and whose directory has that stamp.
    pub(super) fn load(&self, read: impl FnOnce() -> io::Result<Vec<u8>>) {
        if !self.is_loaded.swap(true, Ordering::Relaxed) {
            // A file that cannot be read is as good as none.
            *locked(&self.cached) = Cached::new(read().unwrap_or_default(), MOST_JOBS);
        }
    }

    /// Returns all that is known, and forgets what other programs knew: that was of jobs that are gone.
    pub(super) fn all(&self) -> Vec<Arc<Known>> {
        locked(&self.cached).clear();
        locked(&self.jobs).values().map(Arc::clone).collect()
    }

    /// Remembers a job that was read, if any change since can be noticed.
    pub(super) fn insert(&self, known: &Arc<Known>) {
        let mut jobs = locked(&self.jobs);
        if known.is_settled && (jobs.len() < MOST_JOBS || jobs.contains_key(&known.spec.job)) {
            jobs.insert(known.spec.job.clone(), Arc::clone(known));
        }
    }

    /// Forgets jobs that are not among these, if there are any.
    pub(super) fn retain(&self, listed: &Names) {
        let mut jobs = locked(&self.jobs);
        if jobs.len() > listed.count() {
            let listed: HashSet<&OsStr> = listed.iter().collect();
            jobs.retain(|id, _| listed.contains(OsStr::new(id.as_str())));
        }
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
