//! Starts a job unless one of its name runs already, and tells what differs where that one was started in another way.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use outlive_core::duration::format_duration;
use outlive_core::file;
use outlive_core::id::{SessionName, hash};
use outlive_core::label;
use outlive_core::options::OPTIONS;
use outlive_core::spec::{Lifetime, Spec, StdinFrom};
use outlive_sys::fault::{self, Point};
use outlive_sys::{durable, lock};

use crate::job::Job;
use crate::launch::request::{Request, RequestError};
use crate::launch::resolve::Resolved;
use crate::launch::start::{StartError, Started};
use crate::store::Store;

/// How long another program may take to start or restart the job of the same name. Restarting takes the longest: the job's grace.
const NAME_LIMIT: Duration = Duration::from_secs(60);

/// What [`Store::ensure`] found or did.
#[derive(Debug)]
pub enum Ensured {
    /// No job with that name was live; this one is new.
    Started(Started),
    /// This job is live and was started in the same way.
    Running(Job),
    /// This job is live and was started with other values of what is listed.
    Changed(Job, Vec<&'static str>),
}

impl Store {
    /// Starts a job, unless a live job of the session has its name. However many programs ask at the same time, one job is started.
    ///
    /// # Errors
    ///
    /// As [`Store::start`]; and if the request has no name.
    pub fn ensure(&self, request: &Request) -> Result<Ensured, StartError> {
        let name = request.choices.name.clone().flatten().ok_or(RequestError::Name)?;
        let _held = self.lock_name(&request.session, &name)?;
        let listing = self.list(Some(&request.session));
        let jobs = listing.map_err(|error| StartError::Store(self.jobs(), error))?.jobs;
        let is_live = |job: &Job| {
            let state = job.state(self);
            state.is_live() && !state.is_elsewhere()
        };
        let newest = jobs.into_iter().rev().find(|job| job.name() == Some(&name) && is_live(job));
        let Some(job) = newest else { return Ok(Ensured::Started(self.start(request)?)) };
        let changed = self.differences(&job, request)?;
        Ok(if changed.is_empty() { Ensured::Running(job) } else { Ensured::Changed(job, changed) })
    }

    /// Names what a job was started with that a request has otherwise: its command, directory, environment, labels and options.
    ///
    /// # Errors
    ///
    /// If the request is invalid.
    pub fn differences(&self, job: &Job, request: &Request) -> Result<Vec<&'static str>, StartError> {
        let request = self.in_session(request);
        let resolved = request.resolve(self.config(), request.path().as_deref())?;
        let mut changed = differences(job.spec(), &request, &resolved);
        changed.extend((!self.is_same_source(job.spec(), &request)).then_some("stdin_from"));
        Ok(changed)
    }

    /// Tells whether a job reads what the request says: the same stream of the job of the same name, which may have been restarted since.
    fn is_same_source(&self, spec: &Spec, request: &Request) -> bool {
        let name = |from: &StdinFrom| {
            let source = self.open_job(&from.job).ok().flatten();
            source.and_then(|source| source.name().map(str::to_owned)).unwrap_or_else(|| from.job.to_string())
        };
        match (&spec.stdin_from, &request.stdin_from) {
            (Some(old), Some(new)) => {
                old.stream == new.stream && (old.job == new.job || name(old) == name(new))
            }
            (old, new) => old.is_none() && new.is_none(),
        }
    }

    /// Waits until no other program starts or restarts the job of this name. The lock is held until the file is dropped.
    pub(crate) fn lock_name(&self, session: &SessionName, name: &str) -> Result<File, StartError> {
        self.lock_name_within(session, name, NAME_LIMIT)
    }

    /// As [`Store::lock_name`], but fails at once if another program holds the lock.
    pub(crate) fn try_lock_name(&self, session: &SessionName, name: &str) -> Result<File, StartError> {
        self.lock_name_within(session, name, Duration::ZERO)
    }

    fn lock_name_within(
        &self,
        session: &SessionName,
        name: &str,
        limit: Duration,
    ) -> Result<File, StartError> {
        let path = self.session_dir(session);
        let held = || {
            self.make_session(session)?;
            let lock_file = format!("{}{:016x}", file::STARTING, hash(name.as_bytes()));
            let file = durable::open_or_create(durable::open_dir(&path)?, lock_file.as_str())?;
            match fault::step(Point::NameLock, || lock::lock_within(&file, limit))? {
                true => Ok(file),
                false => Err(io::Error::other(format!(
                    "another program has been starting {name} for {}",
                    format_duration(limit.as_millis().try_into().unwrap_or(u64::MAX))
                ))),
            }
        };
        held().map_err(|error| StartError::Store(path.clone(), error))
    }
}

/// Names what a job was started with that a request has otherwise.
fn differences(spec: &Spec, request: &Request, resolved: &Resolved) -> Vec<&'static str> {
    let env_set = spec.env_set.iter().map(|(name, value)| (name.as_str(), value.0.as_slice()));
    let wanted = request.env_set.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let labels = spec.labels.iter().flatten().filter(|(name, _)| !label::is_own(name));
    let mut changed = Vec::new();
    for (is_same, what) in [
        (spec.argv == resolved.argv, "command"),
        (spec.cwd.0 == resolved.cwd.as_os_str().as_bytes(), "directory"),
        (env_set.eq(wanted) && spec.env_unset == request.env_unset, "environment"),
        (labels.eq(&request.labels), "labels"),
        (spec.restart_on_change == request.restart_on_change, "watch"),
        (spec.placement == request.placement, "placement"),
    ] {
        changed.extend((!is_same).then_some(what));
    }
    // A time that was said as "in two hours" is another one each time.
    let both_end = [&spec.options, &resolved.options]
        .iter()
        .all(|options| matches!(options.lifetime, Lifetime::Until { .. }));
    let is_compared = |name: &str| name != "name" && !(name == "lifetime" && both_end);
    let options = OPTIONS.iter().filter(|option| is_compared(option.name));
    let is_changed = options.filter(|option| option.json(&spec.options) != option.json(&resolved.options));
    changed.extend(is_changed.map(|option| option.name));
    changed
}
