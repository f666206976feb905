//! Jobs whose on-exit command or webhook is pending: one mark each in `spool/owed/`.
//!
//! The mark is made before the job is visible and removed when its notice is in the spool. A mark of an ended job without a
//! keeper says that the keeper died in between; the front end that finds it spools the notice. It holds the mark's lock
//! meanwhile, so a notice is spooled once; no mark means that nothing is left to do.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use outlive_core::id::{JobId, Nonce};
use outlive_core::spec::Spec;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point};
use outlive_sys::{clock, durable, lock};

use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// The directory below `spool/`.
const PENDING: &str = "owed";

/// How long the process that a keeper has become may take before a front end does its work.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for another process that holds the mark.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// A mark that this process has locked and that still exists.
#[derive(Debug)]
pub(crate) struct PendingMark {
    path: PathBuf,
    _file: File,
}

impl PendingMark {
    /// Removes the mark: the notice is in the spool.
    pub(crate) fn clear(self) {
        fault::step(Point::OwedRemove, || fs::remove_file(self.path)).ok();
    }
}

impl Store {
    fn pending_mark(&self, job: &JobId, nonce: Nonce) -> PathBuf {
        self.spool().join(PENDING).join(format!("{job}@{nonce}"))
    }

    /// Marks a job that is about to be made, if it has an on-exit command or a webhook.
    pub(crate) fn mark_pending(&self, spec: &Spec) -> io::Result<()> {
        if spec.options.completion.is_empty() {
            return Ok(());
        }
        let path = self.pending_mark(&spec.job, spec.nonce);
        let make = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match fault::step(Point::OwedMake, make) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_spool(PENDING)?;
                make().map(drop)
            }
            made => made.map(drop),
        }
    }

    /// Removes the mark of a job that is not started after all.
    pub(crate) fn unmark_pending(&self, spec: &Spec) {
        if !spec.options.completion.is_empty() {
            fs::remove_file(self.pending_mark(&spec.job, spec.nonce)).ok();
        }
    }

    /// Locks a job's mark; `None` if it is gone, and so nothing is left to do.
    pub(crate) fn take_pending(&self, job: &Job) -> io::Result<Option<PendingMark>> {
        let path = self.pending_mark(job.id(), job.spec().nonce);
        let file = match durable::open_ro(durable::CWD, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !fault::step(Point::OwedLock, || lock::lock_within(&file, LOCK_LIMIT))? {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        Ok((file.metadata()?.nlink() > 0).then_some(PendingMark { path, _file: file }))
    }

    /// Before a job is removed: waits until its on-exit process has read all that it needs; without such a process, does its
    /// work.
    pub(crate) fn await_completion(&self, job: &Job, state: &State) -> io::Result<()> {
        if job.spec().options.completion.is_empty() {
            return Ok(());
        }
        let mark = self.pending_mark(job.id(), job.spec().nonce);
        let until = Instant::now() + PATIENCE;
        while mark.exists() && Instant::now() < until && is_fresh(state) {
            std::thread::sleep(Duration::from_millis(2));
        }
        if mark.exists() { self.spool_notice(job, state) } else { Ok(()) }
    }

    /// Spools the notices that dead keepers left, and starts a deliverer if a notice is due and no process sends. With nothing
    /// to send this is a system call or two.
    ///
    /// To be called by every front end when it starts. Returns warnings for people.
    pub fn take_up_notices(&self) -> Vec<String> {
        let warnings = self.spool_pending();
        let now = Timestamp(clock::wall_us());
        let is_due = |name: &String| {
            self.read_spooled(name).is_some_and(|entry| entry.map_or(true, |entry| entry.is_due(now)))
        };
        if self.spooled().iter().any(is_due) && !self.is_delivering() {
            self.start_deliverer();
        }
        warnings
    }

    /// Starts a process that sends the spool's notices. If that fails, the next front end tries.
    pub(crate) fn start_deliverer(&self) {
        self.start_helper(&["deliver"]).ok();
    }

    /// Spools the notices that dead keepers left.
    pub(crate) fn spool_pending(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for entry in fs::read_dir(self.spool().join(PENDING)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let parsed = name.to_str().and_then(|name| name.split_once('@')).and_then(|(id, nonce)| {
                Some((JobId::parse(id).ok()?, Nonce::try_from(nonce.to_owned()).ok()?))
            });
            let Some((id, nonce)) = parsed else { continue };
            // A job that is being prepared has its mark before its directory.
            let is_prepared =
                || durable::is_held(&self.new_dir().join(id.as_str()), outlive_core::file::LOCK);
            let job = match self.open_job(&id) {
                Ok(Some(job)) if job.spec().nonce == nonce => job,
                // A damaged job may be repaired later.
                Err(_) => continue,
                Ok(None) if is_prepared() => continue,
                Ok(_) => {
                    fs::remove_file(entry.path()).ok();
                    continue;
                }
            };
            if job.is_kept() || self.host().machine != job.host().machine {
                continue;
            }
            let state = job.state(self);
            if !state.status.has_ended() || is_fresh(&state) {
                continue;
            }
            if let Err(error) = self.spool_notice(&job, &state) {
                warnings.push(format!("the notice of {id} cannot be kept for sending: {error}"));
            }
        }
        warnings
    }
}

/// Tells whether a job ended just now, so that its on-exit process may still be at work.
fn is_fresh(state: &State) -> bool {
    let closed = state.closed.map(|closed| closed.closed);
    let Some(ended) = closed.or(state.outcome.as_ref().map(|outcome| outcome.ended)) else { return false };
    let now = clock::wall_us();
    let patience = u64::try_from(PATIENCE.as_micros()).unwrap_or(u64::MAX);
    (ended.0..ended.0.saturating_add(patience)).contains(&now)
}
