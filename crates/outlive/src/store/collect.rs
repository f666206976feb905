//! Retention: which ended jobs are removed, and when.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use outlive_core::id::JobId;
use outlive_sys::cgroup::{self, Hierarchies};
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::job::Job;
use crate::store::Store;

/// Shortest time between two collections by front ends that start jobs.
const EVERY: Duration = Duration::from_secs(600);

/// Older entries of `new/` are left from a crash.
const STALE: Duration = Duration::from_secs(3600);

/// Result of a collection.
#[derive(Debug, Default)]
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
        let stamp = self.root().join("collected");
        fault::step(Point::CollectStamp, || {
            durable::open_or_create(durable::CWD, stamp)?.set_modified(SystemTime::now())
        })?;
        self.sweep_marks();
        self.sweep_new();
        self.sweep_events();
        self.sweep_sessions(self.config().retention.max_age);
        self.sweep_spool();
        cgroup::sweep(&Hierarchies::discover());
        let mut collected = Collected::default();
        let mut candidates = Vec::new();
        for job in self.list(None)?.jobs {
            match self.candidate(job) {
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

    fn candidate(&self, job: Job) -> Option<Candidate> {
        let state = job.state(self);
        // How long a newer outlive keeps its jobs is not known here: they are left to it.
        if state.is_live() || state.is_elsewhere() || !state.newer.is_empty() {
            return None;
        }
        let ended = SystemTime::UNIX_EPOCH + Duration::from_micros(state.outcome?.ended.0);
        let age = ended.elapsed().unwrap_or_default();
        let idle = last_access(job.path())
            .and_then(|access| access.elapsed().ok())
            .map_or(age, |idle| idle.min(age));
        Some(Candidate { age, idle, is_seen: job.is_seen(), bytes: disk_bytes(job.path()), job })
    }

    /// Picks the jobs to remove: first the expired ones, then the oldest until count and size are within the limits.
    fn expired(&self, mut candidates: Vec<Candidate>, kept: &mut usize) -> Vec<Candidate> {
        let rules = &self.config().retention;
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.age));
        let is_old = |candidate: &Candidate| {
            candidate.age >= rules.max_age
                || (candidate.is_seen && candidate.age >= rules.keep)
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
            let is_stale = entry
                .metadata()
                .and_then(|data| data.modified())
                .is_ok_and(|time| time.elapsed().is_ok_and(|age| age >= STALE));
            // A starter that is stopped half-way still holds its lock.
            let is_held = durable::is_held(&entry.path(), outlive_core::file::LOCK);
            if is_stale && !is_held {
                fault::step(Point::NewDelete, || fs::remove_dir_all(entry.path())).ok();
            }
        }
    }
}

/// Returns the disk space of a job.
pub(crate) fn disk_bytes(path: &Path) -> u64 {
    let files = fs::read_dir(path).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// When a front end last read the job after its end.
fn last_access(path: &Path) -> Option<SystemTime> {
    fs::metadata(path.join(outlive_core::file::SEEN)).and_then(|data| data.modified()).ok()
}
