//! Starts a job again, as another run: a new job that names the one before it, so that each has one outcome and one log.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use outlive_core::id::{JobId, SessionName};
use outlive_core::label;
use outlive_core::options::JobChoices;
use outlive_core::rawtext::RawText;
use outlive_core::status::Status;

use crate::companion::files;
use crate::control::{Caller, ControlError, Kill};
use crate::job::Job;
use crate::job::state::State;
use crate::launch::request::Request;
use crate::launch::start::{StartError, Started};
use crate::store::Store;

/// What [`Store::restart`] did.
#[derive(Debug)]
pub enum Restarted {
    /// The job has ended, and this is its next run.
    Started(Started),
    /// Another program restarted it at the same time; this is its next run.
    Already(Job),
}

/// Why a job was not restarted.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The next run could not be started; the one before has ended.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The run before could not be ended.
    #[error(transparent)]
    Kill(#[from] ControlError),
    /// Processes of the run before are left.
    #[error("{0} is not wholly ended, and is not started beside what is left of it")]
    Survivors(JobId),
    /// A newer version started it, with options that are not understood here.
    #[error("{0} was started by a newer outlive, with options that this one would leave out")]
    Newer(JobId),
}

impl Request {
    /// Asks for another run of a job: the same command, directory, options and variables that were added or removed. The rest of
    /// the environment is the caller's.
    pub fn again(job: &Job) -> Self {
        let spec = job.spec();
        let text = |text: &RawText| OsStr::from_bytes(&text.0).to_owned();
        let mut request = match &spec.shell_line {
            Some(line) => {
                let request = Self::shell(text(line));
                spec.argv
                    .first()
                    .map(text)
                    .into_iter()
                    .fold(request, |request, shell| request.with_shell(shell))
            }
            None => Self::argv(spec.argv.iter().map(text)),
        };
        request.words = spec.words.iter().map(text).collect::<Vec<OsString>>();
        request.window_lines = spec.window_lines;
        request.stdin_from = spec.stdin_from.clone();
        request.restart_on_change = spec.restart_on_change.clone();
        request.choices = JobChoices::from(&spec.options);
        request.choices.name = Some(job.name().map(str::to_owned));
        request.placement = spec.placement.clone();
        request.session = job.session().clone();
        request.reader = spec.reader.clone();
        request.cwd = Some(PathBuf::from(text(&spec.cwd)));
        request.env_set = spec.env_set.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        request.env_unset = spec.env_unset.clone();
        let labels = spec.labels.clone().unwrap_or_default();
        (request.own_labels, request.labels) = labels.into_iter().partition(|(name, _)| label::is_own(name));
        request
    }
}

impl Store {
    /// Ends a job with everything it started, and starts it again with the caller's environment and its own additions to it. One
    /// that has ended is only started.
    ///
    /// # Durability
    ///
    /// If the caller dies in between, the job has ended and its next run does not come.
    ///
    /// # Errors
    ///
    /// If it cannot be ended wholly, or not be started again.
    pub fn restart(
        &self,
        job: &Job,
        reader: Option<SessionName>,
        by: &str,
    ) -> Result<Restarted, RestartError> {
        let mut request = Request::again(job);
        request.reader = reader.or(request.reader);
        self.replace(job, request, &Kill { by: by.to_owned(), ..Kill::default() })
    }

    /// Ends a job and starts its next run, which may be another command. The request needs no name: it gets that of the job.
    ///
    /// # Errors
    ///
    /// As [`Store::restart`].
    pub fn replace(&self, job: &Job, request: Request, kill: &Kill) -> Result<Restarted, RestartError> {
        self.replace_by(Caller::FrontEnd, job, request, kill)
    }

    /// As [`Store::replace`].
    pub(crate) fn replace_by(
        &self,
        caller: Caller,
        job: &Job,
        request: Request,
        kill: &Kill,
    ) -> Result<Restarted, RestartError> {
        if !job.spec().newer().is_empty() {
            return Err(RestartError::Newer(job.id().clone()));
        }
        let was_live = job.state(self).is_live();
        let _held = self.lock_name(job.session(), job.name().unwrap_or(job.id().as_str()))?;
        let latest = self.latest_run(job).map_err(|error| StartError::Store(self.jobs(), error))?;
        let job = match latest {
            // One that waits for its time was not started by another program that was asked the same.
            Some(latest) if was_live && is_begun(&latest.state(self)) => {
                return Ok(Restarted::Already(latest));
            }
            Some(ref latest) => latest,
            None => job,
        };
        let mut request = request;
        request.previous = Some(job.id().clone());
        request.choices.name = Some(job.name().map(str::to_owned));
        self.check_again(&request)?;
        if job.state(self).is_live() {
            match self.kill_by(caller, job, kill) {
                Ok(killed) if killed.survivors.is_empty() => {}
                Ok(_) => return Err(RestartError::Survivors(job.id().clone())),
                Err(ControlError::Ended(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Restarted::Started(self.start(&request)?))
    }

    /// Checks a request before anything is ended: one that makes no sense ends nothing.
    pub(crate) fn check_again(&self, request: &Request) -> Result<(), StartError> {
        let resolved = request.resolve(self.config(), request.path().as_deref())?;
        Ok(files::check(&resolved.cwd, &request.restart_on_change)?)
    }

    /// Lists the runs of a job up to this one, oldest first. Runs that were removed are left out, and those before them.
    pub fn runs(&self, job: Job) -> Vec<Job> {
        let mut runs = vec![job];
        while let Some(first) = runs.last()
            && let Some(previous) = &first.spec().previous
            && let Ok(Some(earlier)) = self.open_job(previous)
            && is_before(&earlier, first)
        {
            runs.push(earlier);
        }
        runs.reverse();
        runs
    }

    /// Finds the newest run of a job; `None` if there is none after it.
    pub(crate) fn latest_run(&self, job: &Job) -> io::Result<Option<Job>> {
        let mut latest = None;
        // Oldest first: each run comes after the one before it.
        for candidate in self.list(Some(job.session()))?.jobs {
            let before = latest.as_ref().unwrap_or(job);
            if candidate.spec().previous.as_ref() == Some(before.id()) && is_before(before, &candidate) {
                latest = Some(candidate);
            }
        }
        Ok(latest)
    }
}

fn is_begun(state: &State) -> bool {
    state.is_live() && state.status != Status::Queued
}

/// Tells whether a job is older than its supposed next run; otherwise its id was used again.
fn is_before(earlier: &Job, later: &Job) -> bool {
    earlier.spec().created <= later.spec().created && earlier.id() != later.id()
}
