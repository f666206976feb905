//! Removes jobs: the ones that are named, and the ended ones that retention no longer keeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::id::JobId;
use outlive_core::timestamp::Timestamp;
use outlive_sys::cgroup::{self, Hierarchies};
use outlive_sys::fault::{self, Appending, Point};
use outlive_sys::{clock, durable};

use crate::job::Job;
use crate::store::{Store, age};

/// Shortest time between two collections by front ends that start jobs.
const EVERY: Duration = Duration::from_secs(600);

/// Older entries of `new/` are left from a crash.
const STALE: Duration = Duration::from_secs(3600);

/// Why a job was not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// A process of the job still runs.
    #[error("job {0} is still live")]
    Live(JobId),
    /// The job belongs to another host or pid namespace.
    #[error("job {0} belongs to another host or pid namespace")]
    Elsewhere(JobId),
    /// The store cannot be written.
    #[error("cannot remove {0}")]
    Io(PathBuf, #[source] io::Error),
}

/// Result of a collection.
#[derive(Debug, Default, serde::Serialize)]
pub struct Collected {
    /// The jobs that were removed.
    pub removed: Vec<JobId>,
    /// Disk space that the removed jobs had.
    pub bytes: u64,
    /// How many jobs stay, including live ones.
    pub kept: usize,
}

/// An ended job as retention sees it.
struct Candidate {
    job: Job,
    age: Duration,
    idle: Duration,
    is_seen: bool,
    bytes: u64,
}

impl Store {
    /// Removes an ended job with its output, so that no reader sees half of it. Success if it is gone already.
    ///
    /// # Errors
    ///
    /// If a process of it still runs, or the store cannot be written.
    pub fn remove(&self, job: &Job) -> Result<(), RemoveError> {
        match self.take_out(job)? {
            Some(gone) => delete(&gone).map_err(|error| RemoveError::Io(gone, error)),
            None => Ok(()),
        }
    }

    /// Takes an ended job out of the store in one step; returns the directory that is left to [`delete`], which may take long.
    /// `None` if another process has taken it out.
    pub(crate) fn take_out(&self, job: &Job) -> Result<Option<PathBuf>, RemoveError> {
        let state = job.state(self);
        if state.is_elsewhere() && state.is_live() {
            return Err(RemoveError::Elsewhere(job.id().clone()));
        }
        if state.is_live() {
            return Err(RemoveError::Live(job.id().clone()));
        }
        // The on-exit process reads the job first; usually it is long done.
        self.await_completion(job, &state).map_err(|error| RemoveError::Io(self.spool(), error))?;
        // A keeper that died may have left the end unrecorded.
        if self.live().join(job.live_mark()).exists() {
            self.reconcile_job(job, &state);
        }
        let untold = job.undelivered();
        let gone = self.gone_path(job);
        let failed = |error| RemoveError::Io(job.path().to_owned(), error);
        match fault::step(Point::RemoveRename, || durable::rename_new(job.path(), &gone)) {
            Ok(true) => {}
            // Another process removes it at the same time.
            Ok(false) => return Ok(None),
            // Another process has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        self.drop_cache();
        self.remove_live_mark(Point::RemoveMark, job);
        let removed = Event::new(Kind::Removed, job.id(), job.spec().nonce, Timestamp(clock::wall_us()));
        self.append_event(Appending::REMOVE_EVENT, job.session(), &Event { untold, ..removed });
        Ok(Some(gone))
    }

    /// Names the place to delete a job from. Unique by its nonce, even if an earlier removal was cut short.
    pub(crate) fn gone_path(&self, job: &Job) -> PathBuf {
        self.new_dir().join(format!("{}.{}.gone", job.id(), job.spec().nonce))
    }

    /// Collects if the last collection is a while ago; called at each start of a job.
    pub(crate) fn collect_in_passing(&self) -> io::Result<()> {
        let is_due = match fs::metadata(self.root().join("collected")).and_then(|data| data.modified()) {
            Ok(last) => last.elapsed().is_ok_and(|age| age >= EVERY),
            Err(_) => true,
        };
        if is_due {
            self.collect()?;
        }
        Ok(())
    }

    /// Removes the jobs that the configuration no longer keeps.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn collect(&self) -> io::Result<Collected> {
        let lock = fault::step(Point::CollectLock, || self.lock())?;
        if !lock.is_held {
            return Ok(Collected::default());
        }
        fault::step(Point::CollectStamp, || {
            self.open_or_create("collected")?.set_modified(SystemTime::now())
        })?;
        self.sweep_marks();
        let gone = self.take_out_sessions(self.config().retention.longest());
        // The rest takes as long as there is something to delete, and no start is to wait for that. A second collector finds the
        // stamp, or removes what this one does not.
        drop(lock);
        gone.iter().for_each(|gone| drop(delete(gone)));
        self.sweep_new();
        self.sweep_events();
        self.sweep_spool();
        cgroup::sweep(&Hierarchies::discover());
        let mut collected = Collected::default();
        let mut candidates = Vec::new();
        // One time for all: between two looks at the clock a busy machine may pass more than between two ends.
        let now = SystemTime::now();
        for job in self.list(None)?.jobs {
            match self.candidate(job, now) {
                Some(candidate) => candidates.push(candidate),
                None => collected.kept += 1,
            }
        }
        for candidate in self.expired(candidates, &mut collected.kept) {
            if self.remove(&candidate.job).is_ok() {
                collected.bytes += candidate.bytes;
                collected.removed.push(candidate.job.id().clone());
            }
        }
        Ok(collected)
    }

    fn candidate(&self, job: Job, now: SystemTime) -> Option<Candidate> {
        let state = job.state(self);
        // How long a newer outlive keeps its jobs is not known here: they are left to it.
        if state.is_live() || state.is_elsewhere() || !state.newer.is_empty() {
            return None;
        }
        let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(state.outcome?.ended.0);
        let age = now.duration_since(ended).unwrap_or_default();
        // Since a front end last read the job after its end.
        let idle = super::age(&job.path().join(file::SEEN)).map_or(age, |idle| idle.min(age));
        Some(Candidate { age, idle, is_seen: job.is_seen(), bytes: disk_bytes(job.path()), job })
    }

    /// Picks the jobs to remove: first the expired ones, then the oldest until count and size are within the limits.
    fn expired(&self, mut candidates: Vec<Candidate>, kept: &mut usize) -> Vec<Candidate> {
        let rules = &self.config().retention;
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.age));
        let is_old = |candidate: &Candidate| {
            candidate.age >= rules.longest()
                || (candidate.is_seen && rules.keep.is_some_and(|limit| candidate.age >= limit))
                || rules.max_idle.is_some_and(|limit| candidate.idle >= limit)
        };
        let (mut expired, mut rest): (Vec<_>, Vec<_>) = candidates.into_iter().partition(is_old);
        let mut bytes: u64 = rest.iter().map(|candidate| candidate.bytes).sum();
        let surplus = rest
            .iter()
            .enumerate()
            .take_while(|(place, candidate)| {
                let left = rest.len() - place;
                let goes = rules.max_jobs.is_some_and(|limit| left > limit)
                    || rules.max_bytes.is_some_and(|limit| bytes > limit);
                bytes -= candidate.bytes;
                goes
            })
            .count();
        expired.extend(rest.drain(..surplus));
        *kept += rest.len();
        expired
    }

    /// Removes what crashed front ends left in `new/`.
    fn sweep_new(&self) {
        for entry in fs::read_dir(self.new_dir()).into_iter().flatten().flatten() {
            let is_stale = age(&entry.path()).is_some_and(|age| age >= STALE);
            // A starter that is stopped half-way still holds its lock.
            let is_held = durable::is_held(&entry.path(), file::LOCK);
            if is_stale && !is_held {
                fault::step(Point::NewDelete, || fs::remove_dir_all(entry.path())).ok();
            }
        }
    }
}

impl Job {
    /// Returns how large its files are together, as retention counts them.
    pub fn disk_bytes(&self) -> u64 {
        disk_bytes(self.path())
    }
}

/// Returns the disk space of a job.
pub(crate) fn disk_bytes(path: &Path) -> u64 {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// Deletes a directory that was taken out of the store. The store's lock is not to be held meanwhile.
pub(crate) fn delete(gone: &Path) -> io::Result<()> {
    let mut deleted = fault::step(Point::RemoveDelete, || fs::remove_dir_all(gone));
    // A process that has the directory open may create a file in it meanwhile.
    for _ in 0..10 {
        if !deleted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {
            break;
        }
        deleted = fs::remove_dir_all(gone);
    }
    deleted
}
