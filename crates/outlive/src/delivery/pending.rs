//! Jobs whose on-exit command or webhook is pending: one mark each in `spool/owed/`.
//!
//! The mark is made before the job can be seen, and goes when what has to be sent is in the spool. So a mark of a job that has ended
//! and has no keeper says that the keeper died on the way, and the front end that finds it puts the notice into the spool. It holds the
//! mark's lock meanwhile, and where the mark is gone there is nothing to do: a notice is put there once.

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

use crate::delivery::spool::Spooled;
use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// Below `spool/`.
const PENDING: &str = "owed";

/// How long the process that a keeper has become may take before a front end does its work.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long another process that holds the mark is waited for.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// A mark that is held, and that is still where it belongs.
#[derive(Debug)]
pub(crate) struct PendingMark {
    path: PathBuf,
    _file: File,
}

impl PendingMark {
    /// Removes the mark: what had to be sent is in the spool.
    pub(crate) fn clear(self) {
        fault::step(Point::OwedRemove, || fs::remove_file(self.path)).ok();
    }
}

impl Store {
    fn pending_mark(&self, job: &JobId, nonce: Nonce) -> PathBuf {
        self.spool().join(PENDING).join(format!("{job}@{nonce}"))
    }

    /// Marks a job that is about to be made as one whose end has to be sent, if it has.
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

    /// Takes that back: there will be no such job.
    pub(crate) fn unmark_pending(&self, spec: &Spec) {
        if !spec.options.completion.is_empty() {
            fs::remove_file(self.pending_mark(&spec.job, spec.nonce)).ok();
        }
    }

    /// Takes hold of a job's mark; `None` if it is gone, and so all is done.
    pub(crate) fn take_pending(&self, job: &Job) -> io::Result<Option<PendingMark>> {
        let path = self.pending_mark(job.id(), job.spec().nonce);
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if !fault::step(Point::OwedLock, || lock::lock_within(&file, LOCK_LIMIT))? {
            return Err(io::Error::from(io::ErrorKind::WouldBlock));
        }
        Ok((file.metadata()?.nlink() > 0).then_some(PendingMark { path, _file: file }))
    }

    /// Waits, before a job is removed, until the process that sends its end has read all that it needs; where there is none, does its
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
        match mark.exists() {
            true => self.spool_notice(job, state).map(drop),
            false => Ok(()),
        }
    }

    /// Takes up pending notices: what keepers that died had to put into the spool is put there, and where something is due and no
    /// process sends it, one is started. Without anything to send this is a system call or two.
    ///
    /// To be called by every front end when it starts. Returns what has to be said to people.
    pub fn take_up_notices(&self) -> Vec<String> {
        let warnings = self.spool_pending();
        let now = Timestamp(clock::wall_us());
        let is_due = |name: &String| match self.read_spooled(name) {
            Spooled::Entry(entry) => entry.is_due(now),
            Spooled::Damaged(_) => true,
            Spooled::None => false,
        };
        if self.spooled().iter().any(is_due) && !self.is_delivering() {
            self.start_deliverer();
        }
        warnings
    }

    /// Starts a process that sends what waits. Where that is not possible, the next front end tries.
    pub(crate) fn start_deliverer(&self) {
        self.start_helper(&["deliver"]).ok();
    }

    /// Puts into the spool what keepers that died did not.
    pub(crate) fn spool_pending(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for entry in fs::read_dir(self.spool().join(PENDING)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let parsed = name.to_str().and_then(|name| name.split_once('@')).and_then(|(id, nonce)| {
                Some((JobId::parse(id).ok()?, Nonce::try_from(nonce.to_owned()).ok()?))
            });
            let Some((id, nonce)) = parsed else { continue };
            let job = match self.open_job(&id) {
                Ok(Some(job)) if job.spec().nonce == nonce => job,
                // A damaged job may be put right.
                Err(_) => continue,
                Ok(Some(_)) => {
                    fs::remove_file(entry.path()).ok();
                    continue;
                }
                Ok(None) => {
                    // A job that is being prepared has its mark before it has its place.
                    if !durable::is_held(&self.new_dir().join(id.as_str()), outlive_core::file::LOCK) {
                        fs::remove_file(entry.path()).ok();
                    }
                    continue;
                }
            };
            if job.is_kept() || self.host().machine != job.spec().host.machine {
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

/// Tells whether a job ended just now, so that the process that its keeper became may be about to send its end.
fn is_fresh(state: &State) -> bool {
    let closed = state.closed.map(|closed| closed.closed);
    let Some(ended) = closed.or(state.outcome.as_ref().map(|outcome| outcome.ended)) else { return false };
    let now = clock::wall_us();
    let patience = u64::try_from(PATIENCE.as_micros()).unwrap_or(u64::MAX);
    (ended.0..ended.0.saturating_add(patience)).contains(&now)
}
