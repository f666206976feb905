//! A job in the store before a keeper has it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive_core::id::{JobId, Nonce, QueueName};
use outlive_core::options::JobOptions;
use outlive_core::outcome::FILE_BYTES;
use outlive_core::rawtext::RawText;
use outlive_core::schedule::Planned;
use outlive_core::spec::{Mode, Spec, Starter};
use outlive_core::timestamp::Timestamp;
use outlive_core::{FORMAT, VERSION, file, segment};
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::ProcessId;
use outlive_sys::stamp::Stamp;
use outlive_sys::{clock, durable, lock, random, socket};

use crate::job::Job;
use crate::launch::request::{Request, RequestError};
use crate::launch::resolve::Resolved;
use crate::launch::start::StartError;
use crate::store::Store;
use crate::store::limits::LimitError;

/// How long the locks of a job are waited for: a front end that only looks holds one for an instant.
const LOCK_LIMIT: Duration = Duration::from_secs(30);

/// How many ids are drawn before giving up. Each word has a million ids: even among a thousand jobs the first draw is nearly
/// always free.
const DRAWS: usize = 100;

/// A job in the store whose locks this process holds.
pub(crate) struct Prepared {
    pub(super) job: Job,
    pub(super) lock: File,
    pub(super) done: File,
    pub(super) outcome: File,
    pub(super) index: File,
    pub(super) log: File,
    /// Of a job that an engine is to place.
    pub(super) submitted: Option<File>,
}

impl Prepared {
    /// Takes the locks of a job that another process has prepared.
    pub(crate) fn reopen(job: Job) -> io::Result<Self> {
        let open = |name: &str| durable::open_rw(job.dir()?, name);
        let (lock, done) = (open(file::LOCK)?, open(file::DONE)?);
        for held in [&lock, &done] {
            if !lock::lock_within(held, LOCK_LIMIT)? {
                return Err(io::Error::from(io::ErrorKind::WouldBlock));
            }
        }
        let (outcome, index, log) = (open(file::OUTCOME)?, open(file::INDEX)?, open(&segment::name(0))?);
        Ok(Self { job, lock, done, outcome, index, log, submitted: None })
    }

    pub(crate) fn job(&self) -> &Job {
        &self.job
    }
}

impl Store {
    /// Writes a whole intent into the store. `gone` is what has made way for it.
    pub(super) fn prepare(
        &self,
        request: &Request,
        resolved: &Resolved,
        gone: &mut Vec<PathBuf>,
    ) -> Result<(Prepared, Option<String>), StartError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| StartError::Store(path, error)
        };
        let store_lock = fault::step(Point::StoreLock, || self.lock()).map_err(failed(self.root()))?;
        // A run that follows another takes its place.
        let waits = request.waits(resolved);
        let warning = match (request.rerun.is_some(), waits) {
            (true, _) => None,
            (false, true) => self.check_queued().map(|()| None)?,
            (false, false) => match (self.check_limits(&request.session), &self.config().limits.overflow) {
                (Err(LimitError::Session { .. } | LimitError::Total { .. }), Some(queue)) => {
                    drop(store_lock);
                    return self.prepare_queued(request, resolved, queue, gone);
                }
                (checked, _) => checked?,
            },
        };
        // What waits prints nothing yet.
        let near = match store_lock.is_held && !waits {
            true => self.reserve(resolved.options.output_cap_bytes, gone)?,
            false => None,
        };
        let warning = warning.or(near);
        for _ in 0..if request.id.is_some() { 1 } else { DRAWS } {
            let nonce = random::bytes16();
            let draw = u32::from_le_bytes([nonce[0], nonce[1], nonce[2], nonce[3]]);
            let id = request.id.clone().unwrap_or_else(|| JobId::generate(&resolved.hint, draw));
            let new = self.new_dir().join(id.as_str());
            match fault::step(Point::NewMake, || DirBuilder::new().mode(0o700).create(&new)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(&new)(error)),
            }
            let spec = self.spec(request, resolved, id, Nonce(random::bytes16()));
            let filled = self.fill(&new, spec, request.planned.as_ref());
            if let Ok(Some(prepared)) = filled {
                return Ok((prepared, warning));
            }
            fs::remove_dir_all(&new).ok();
            filled.map_err(failed(&new))?;
        }
        Err(match &request.id {
            Some(id) => RequestError::Taken(id.clone()).into(),
            None => failed(&self.jobs())(io::Error::from(io::ErrorKind::AlreadyExists)),
        })
    }

    /// Prepares a job that is over a limit: it waits in the queue that the configuration names for that.
    fn prepare_queued(
        &self,
        request: &Request,
        resolved: &Resolved,
        queue: &QueueName,
        gone: &mut Vec<PathBuf>,
    ) -> Result<(Prepared, Option<String>), StartError> {
        self.make_queue(queue)?;
        let options = JobOptions { queue: Some(queue.clone()), ..resolved.options.clone() };
        let (prepared, _) = self.prepare(request, &Resolved { options, ..resolved.clone() }, gone)?;
        let limits = &self.config().limits;
        let warning = format!(
            "too many jobs are live ({} in a session, {} in all): it waits in queue {queue}",
            limits.session, limits.total
        );
        Ok((prepared, Some(warning)))
    }

    /// Makes the mark of a job that waits: it counts for other limits than one that runs.
    fn mark_waiting(&self, job: &JobId) -> io::Result<()> {
        fault::step(Point::WaitingMark, || {
            durable::make_dir(durable::open_dir(self.root())?, outlive_core::WAITING)?;
            durable::open_or_create(durable::CWD, self.waiting().join(job.as_str())).map(drop)
        })
    }

    /// Fills the new directory and renames it into place; `None` if the id is taken.
    pub(super) fn fill(
        &self,
        new: &Path,
        spec: Spec,
        planned: Option<&Planned>,
    ) -> io::Result<Option<Prepared>> {
        let (dir, stamp) = Stamp::open_dir(new)?;
        let create = |point, name: &str| fault::step(point, || durable::create_new(&dir, name));
        let lock = create(Point::LockMake, file::LOCK)?;
        let done = create(Point::DoneMake, file::DONE)?;
        let take =
            |point, file: &File| match fault::step(point, || lock::try_lock(file, lock::Kind::Exclusive)) {
                Ok(false) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
                taken => taken.map(drop),
            };
        take(Point::LockTake, &lock)?;
        take(Point::DoneTake, &done)?;
        let outcome = create(Point::OutcomeMake, file::OUTCOME)?;
        fault::step(Point::OutcomeReserve, || durable::preallocate(&outcome, FILE_BYTES))?;
        let index = create(Point::IndexMake, file::INDEX)?;
        let log = create(Point::LogMake, &segment::name(0))?;
        let json = serde_json::to_vec(&spec).map_err(io::Error::other)?;
        fault::write_all(Point::SpecWrite, &mut create(Point::SpecMake, file::SPEC)?, &json)?;
        if let Some(planned) = planned {
            let mut file = create(Point::PlannedMake, file::PLANNED)?;
            fault::write_all(Point::PlannedWrite, &mut file, &planned.to_bytes())?;
        }
        let submitted = match spec.placement {
            Some(_) => Some(create(Point::SubmittedMake, file::SUBMITTED)?),
            None => None,
        };
        if let Some(submitted) = &submitted {
            take(Point::SubmittedTake, submitted)?;
        }
        if spec.waits() || spec.placement.is_some() {
            self.mark_waiting(&spec.job)?;
        }
        let mark = self.live().join(format!("{}@{}", spec.job, spec.session));
        let make = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mark);
        match fault::step(Point::LiveMark, make) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(error),
        }
        // Before the job is visible: if its keeper dies, a front end finds by this mark that a notice is pending.
        if let Err(error) = self.mark_pending(&spec) {
            fs::remove_file(&mark).ok();
            return Err(error);
        }
        // For the same reason: front ends find by this mark that they have to look at its output.
        if let Err(error) = self.watch_from_start(&dir, &spec) {
            fs::remove_file(&mark).ok();
            self.unmark_pending(&spec);
            self.unmark_watched(&spec);
            return Err(error);
        }
        let path = self.jobs().join(spec.job.as_str());
        match fault::step(Point::JobRename, || durable::rename_new(new, &path)) {
            Ok(true) => {
                let job = Job::made(path, stamp, dir, spec);
                Ok(Some(Prepared { job, lock, done, outcome, index, log, submitted }))
            }
            other => {
                fs::remove_file(&mark).ok();
                self.unmark_pending(&spec);
                self.unmark_watched(&spec);
                other.map(|_| None)
            }
        }
    }

    fn spec(&self, request: &Request, resolved: &Resolved, job: JobId, nonce: Nonce) -> Spec {
        let me = ProcessId::current();
        Spec {
            format: FORMAT,
            job,
            nonce,
            session: request.session.clone(),
            reader: request.reader.clone(),
            labels: Some(request.labels.clone().into_iter().chain(request.own_labels.clone()).collect()),
            argv: resolved.argv.clone(),
            shell_line: resolved.shell_line.clone(),
            words: request.words.iter().map(|word| RawText::from(word.as_bytes())).collect(),
            window_lines: request.window_lines,
            cwd: RawText::from(resolved.cwd.as_os_str().as_bytes()),
            env_set: request
                .env_set
                .iter()
                .map(|(name, value)| (name.clone(), RawText::from(value.as_bytes())))
                .collect(),
            env_unset: request.env_unset.clone(),
            mode: Mode::Pipe.into(),
            options: resolved.options.clone(),
            newer: Default::default(),
            created: Timestamp(clock::wall_us()),
            host: self.host().clone(),
            starter: Starter { pid: me.pid, start_time: me.start_time, uid: socket::own_uid() },
            parent: match &request.rerun {
                Some((_, parent)) => parent.clone(),
                None => std::env::var("OUTLIVE_JOB")
                    .ok()
                    .and_then(|id| JobId::parse(&id).ok())
                    // The process beside a job may have its environment, and is no part of it.
                    .filter(|id| request.previous.as_ref() != Some(id)),
            },
            previous: request.previous.clone(),
            rerun: request.rerun.as_ref().map(|(rerun, _)| rerun.clone()),
            after: request.after.clone(),
            stdin_from: request.stdin_from.clone(),
            restart_on_change: request.restart_on_change.clone(),
            because: request.because.clone(),
            placement: request.placement.clone(),
            outlive: VERSION.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::config::Config;

    #[test]
    fn an_id_whose_mark_or_place_is_taken_is_drawn_again() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open_at(home.path(), Config::default()).unwrap();
        let request = Request::argv(["true"]);
        let resolved = request.resolve(&Config::default(), None).unwrap();
        let id = JobId::parse("true-0000").unwrap();
        let attempt = || {
            let new = store.new_dir().join(id.as_str());
            fs::create_dir(&new).unwrap();
            let filled = store.fill(&new, store.spec(&request, &resolved, id.clone(), Nonce([0; 16])), None);
            fs::remove_dir_all(&new).ok();
            filled.unwrap().is_some()
        };
        assert!(attempt());
        assert!(!attempt(), "its place is taken");
        fs::remove_dir_all(store.jobs().join(id.as_str())).unwrap();
        assert!(!attempt(), "its mark is taken");
        fs::remove_file(store.live().join("true-0000@default")).unwrap();
        assert!(attempt());
    }
}
