//! How the jobs of a project on other machines are doing. What is known of a machine that cannot be reached is told with its age.

use std::collections::BTreeMap;

use outlive::{JobObject, Status, Store};
use serde::Serialize;
use serde_json::Value;

use crate::error::ProjectError;
use crate::project::{Project, ProjectJob, There};
use crate::up::record::{Step, StepState};
use crate::up::status::{Cause, JobStatus, Quoted, has_failed};
use crate::up::there::{Known, Part, ago, find};

/// The newest run of a job, here or on another machine.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum JobRun {
    /// It is in this store.
    Here(Box<JobObject>),
    /// Another machine's outlive tells of it.
    There(Box<outlive_remote::Job>),
}

impl JobRun {
    /// Returns its id, where it is.
    pub fn id(&self) -> &str {
        match self {
            Self::Here(job) => job.job.as_str(),
            Self::There(job) => &job.job,
        }
    }

    /// Returns how it is doing; a word of a later version is taken for running.
    pub fn status(&self) -> Status {
        match self {
            Self::Here(job) => job.status,
            Self::There(job) => Status::parse(&job.status).unwrap_or(Status::Running),
        }
    }

    /// Returns the time from its start to its end, or until now.
    pub fn runtime_ms(&self) -> Option<u64> {
        match self {
            Self::Here(job) => job.runtime_ms,
            Self::There(job) => job.runtime_ms,
        }
    }

    /// Returns where it answers or listens.
    pub fn ready_place(&self) -> Option<&str> {
        match self {
            Self::Here(job) => job.ready_place.as_deref(),
            Self::There(job) => job.more.get("ready_url").and_then(Value::as_str),
        }
    }
}

/// What is known of the parts of a project, by machine.
pub(crate) fn look(store: &Store, project: &Project) -> BTreeMap<String, Known> {
    let none = BTreeMap::new();
    let hosts = crate::up::there::hosts(project, &none);
    let look = |host: &str| match Part::new(store, project, host) {
        Ok(part) => part.look(store),
        Err(failure) => Known::Before(failure.text(), None),
    };
    // All at once: one that cannot be reached takes its time.
    std::thread::scope(|scope| {
        let looks: Vec<_> = hosts.iter().map(|host| (*host, scope.spawn(move || look(host)))).collect();
        let known = looks.into_iter().map(|(host, look)| {
            let known = look.join().unwrap_or_else(|_| Known::Before("it was not asked".to_owned(), None));
            (host.to_owned(), known)
        });
        known.collect()
    })
}

/// What is known of one job.
pub(crate) struct LookThere<'a> {
    job: &'a ProjectJob,
    there: &'a There,
    step: Option<&'a Step>,
    known: &'a Known,
}

impl<'a> LookThere<'a> {
    /// Returns none for a job that runs here.
    pub(crate) fn new(
        job: &'a ProjectJob,
        step: Option<&'a Step>,
        known: &'a BTreeMap<String, Known>,
    ) -> Option<Self> {
        let there = job.there.as_ref()?;
        Some(Self { job, there, step, known: known.get(&there.host)? })
    }

    fn status_there(&self) -> Option<outlive_remote::ProjectJobStatus> {
        let status = match self.known {
            Known::Now(status) => status.clone(),
            Known::Before(_, seen) => seen.as_ref().map(|seen| seen.answer.clone()),
        };
        find(status?, &self.job.name)
    }

    pub(crate) fn is_live(&self) -> bool {
        self.status_there().and_then(|status| status.job).is_some_and(|job| !job.has_ended())
    }

    /// Returns what it waits for here before it is started there.
    fn waits_for(&self) -> Option<&str> {
        let step = self.step.filter(|step| step.state == StepState::Waiting && !self.is_live());
        step.and_then(|step| step.why.as_deref())
    }

    fn changed(&self) -> Vec<&'static str> {
        let sent = self.step.and_then(|step| step.definition.as_ref());
        let is_changed = sent.is_some_and(|sent| *sent != self.there.fingerprint()) && self.is_live();
        if is_changed { vec!["definition"] } else { Vec::new() }
    }

    pub(crate) fn status(&self) -> JobStatus {
        let there = self.status_there();
        let changed = self.changed();
        let is_ended =
            there.as_ref().and_then(|there| there.job.as_ref()).is_some_and(outlive_remote::Job::has_ended);
        let state = there.as_ref().map_or("not started", |there| there.state.as_str());
        let failed = self.step.is_some_and(|step| step.state == StepState::Failed) && !self.is_live();
        let age_ms = match self.known {
            Known::Before(_, seen) => Some(seen.as_ref().map(|seen| seen.age_ms)),
            Known::Now(_) => None,
        };
        let state = match (self.waits_for(), age_ms) {
            (Some(after), _) => format!("waits for {after}"),
            (None, _) if failed => "not started".to_owned(),
            // Of what had ended this is certain; all else may have changed since.
            (None, Some(Some(age))) if !is_ended => format!("unreachable, {state} {}", ago(age)),
            (None, Some(None)) => "unreachable".to_owned(),
            (None, _) if !changed.is_empty() => format!("{state}, changed"),
            (None, _) => state.to_owned(),
        };
        JobStatus {
            name: self.job.name.clone(),
            state,
            waits_for: self.waits_for().map(str::to_owned),
            changed,
            host: Some(self.there.host.clone()),
            unreachable_ms: age_ms.flatten(),
            job: there.and_then(|there| there.job).map(|job| JobRun::There(Box::new(job))),
        }
    }

    /// Says why it is not ready, where it runs and says when it is.
    pub(crate) fn unready(&self) -> Option<String> {
        let job = self.status_there()?.job.filter(|job| !job.has_ended())?;
        let is_waited_for = job.more.get("ready").and_then(Value::as_bool) == Some(false);
        is_waited_for.then(|| format!("it runs on {} as {}", self.there.host, job.job))
    }

    /// Explains how it is doing: by what is known here, else by what the other machine says.
    pub(crate) fn causes(
        &self,
        store: &Store,
        project: &Project,
        depth: usize,
    ) -> Result<Vec<Cause>, ProjectError> {
        let (name, host) = (&self.job.name, &self.there.host);
        let alone = |text: String| vec![Cause::alone(depth, text)];
        if let Some(after) = self.waits_for() {
            return Ok(alone(format!("{name} is not started on {host}: it waits for {after}")));
        }
        let failed = self.step.filter(|step| step.state == StepState::Failed && !self.is_live());
        if let Some(step) = failed {
            let why = step.why.as_deref().unwrap_or("unknown");
            return Ok(alone(format!("{name} was not started on {host}: {why}")));
        }
        match self.known {
            Known::Before(why, seen) => {
                let state = self.status_there().map_or_else(|| "not known".to_owned(), |there| there.state);
                let known = seen.as_ref().map(|seen| format!("; {} it was {state}", ago(seen.age_ms)));
                let text = format!("{name} is on {host}, which cannot be reached: {why}");
                return Ok(alone(text + &known.unwrap_or_default()));
            }
            Known::Now(status) if status.clone().and_then(|status| find(status, name)).is_none() => {
                return Ok(alone(format!("{name} was never started on {host}: `outlive up {name}` does")));
            }
            Known::Now(_) => {}
        }
        let causes = Part::new(store, project, host)
            .and_then(|part| Ok(part.client.why(part.session.as_str(), name)?))
            .map_err(|failure| ProjectError::There(host.clone(), failure.text()))?;
        let changed = match self.changed().is_empty() {
            true => "",
            false => "; its definition changed since: `outlive up` restarts it",
        };
        let job = self.status_there().and_then(|there| there.job);
        let has_failed = job.and_then(|job| Status::parse(&job.status)).is_some_and(has_failed);
        let cause = |(at, cause): (usize, outlive_remote::ProjectCause)| Cause {
            depth: depth + cause.depth,
            text: format!("on {host}: {}{}", cause.text, if at == 0 { changed } else { "" }),
            quoted: (!cause.output.is_empty()).then(|| Quoted { name: name.clone(), has_failed }),
            output: cause.output,
        };
        Ok(causes.into_iter().enumerate().map(cause).collect())
    }
}
