//! Jobs of a project that run on another machine: defined there, and started, watched and ended by that machine's outlive.
//!
//! What is there is a project of its own, in a session whose name this machine and store determine. What is waited for before a job is
//! started is waited for here, because it may be anywhere.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use outlive::duration::format_duration;
use outlive::{Failure, JobId, SessionName, Status, Store, hash};
use outlive_remote::{Client, Job, ProjectDown, ProjectJobStatus, ProjectStatus, RemoteError, Seen};
use outlive_sys::identity;
use serde_json::{Map, Value};

use crate::project::{Milestone, Project, There};
use crate::up::record::{Step, StepState};

/// Pauses before a machine is asked again that could not be reached.
const PAUSES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(3)];

/// How long one question may wait there; then it is asked again.
const ONE_WAIT: Duration = Duration::from_secs(20);

/// How often to look whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// A project's part on another machine.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) host: String,
    pub(crate) client: Client,
    pub(crate) session: SessionName,
}

/// What is known of a project's part on a machine.
pub(crate) enum Known {
    /// The machine said so just now; none: it knows nothing of the project.
    Now(Option<ProjectStatus>),
    /// It cannot be reached: why, and what it last said.
    Before(String, Option<Seen<ProjectStatus>>),
}

impl Part {
    pub(crate) fn new(store: &Store, project: &Project, host: &str) -> Result<Self, Failure> {
        let unknown = || {
            Failure::new(outlive::Code::NotFound, format!("config.toml names no machine {host:?} any more"))
        };
        let rules = store.config().hosts.get(host).ok_or_else(unknown)?;
        let client = Client::named(host, rules, |_| {})?;
        Ok(Self { host: host.to_owned(), client, session: session_there(store, project) })
    }

    /// Asks how all jobs of it are doing, and keeps the answer.
    pub(crate) fn look(&self, store: &Store) -> Known {
        let kept = format!("{}+{}", self.host, self.session);
        match self.client.project(self.session.as_str()) {
            Ok(status) => {
                if let Some(status) = &status {
                    Seen::keep(store, &kept, status);
                }
                Known::Now(status)
            }
            Err(error) => Known::Before(outlive::chain(&error), Seen::last(store, &kept)),
        }
    }

    /// Copies what is to be copied, and lets a job be up there.
    pub(crate) fn bring_up(
        &self,
        project: &str,
        name: &str,
        there: &There,
        is_named: bool,
    ) -> Result<Step, Failure> {
        let definition = self.copied(there)?;
        let mut pauses = PAUSES.iter();
        let answer = loop {
            match self.client.bring_up(self.session.as_str(), project, name, &definition, is_named) {
                Ok(answer) => break answer,
                // To ask twice starts it once.
                Err(error) if error.is_passing() => match pauses.next() {
                    Some(pause) => std::thread::sleep(*pause),
                    None => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        };
        let state = serde_json::from_value(Value::String(answer.state)).unwrap_or(StepState::Failed);
        let id = answer.job.and_then(|id| JobId::parse(&id).ok());
        Ok(Step { why: answer.why, ..Step::there(state, id, there) })
    }

    /// Copies the directory that the job runs in, and returns its definition with the place of the copy.
    fn copied(&self, there: &There) -> Result<Map<String, Value>, Failure> {
        let mut definition = there.definition.clone();
        if let Some(from) = &there.sync {
            let copy = self.client.copy_directory(from)?;
            let dir = definition.get("dir").and_then(Value::as_str).unwrap_or_default();
            let dir = Path::new(&copy).join(dir).display().to_string();
            definition.insert("dir".to_owned(), dir.into());
        }
        Ok(definition)
    }

    /// Asks once whether something holds of the newest run of a job. The inner error is the reason why it no longer can.
    fn has_come(&self, name: &str, milestone: Milestone) -> Result<Option<Result<(), String>>, RemoteError> {
        let status = self.client.project(self.session.as_str())?;
        let job = status.and_then(|status| find(status, name)).and_then(|status| status.job);
        let Some(job) = job else { return Ok(Some(Err("it is not there any more".to_owned()))) };
        let is_queued = job.status == Status::Queued.word();
        let is_healthy = job.more.get("healthy").and_then(Value::as_bool) == Some(true);
        let job = match milestone {
            Milestone::Started if !is_queued => return Ok(Some(Ok(()))),
            Milestone::Healthy if is_healthy => return Ok(Some(Ok(()))),
            Milestone::Started | Milestone::Healthy if !job.has_ended() => {
                std::thread::sleep(Duration::from_secs(1));
                return Ok(None);
            }
            Milestone::Started | Milestone::Healthy => job,
            Milestone::Ready | Milestone::Completed | Milestone::Succeeded => {
                let is_ready = milestone == Milestone::Ready;
                let waited = self.client.wait_until(&job.job, is_ready, Some(ONE_WAIT))?;
                let is_reached = match milestone {
                    Milestone::Succeeded => waited.job.status == Status::Completed.word(),
                    Milestone::Ready => waited.reached && !waited.job.has_ended(),
                    _ => waited.reached,
                };
                if is_reached {
                    return Ok(Some(Ok(())));
                }
                if waited.can_still_come && !waited.reached {
                    return Ok(None);
                }
                waited.job
            }
        };
        // A job that is started again by itself may come to it with another run.
        if milestone != Milestone::Completed && self.runs_again(name, &job)? {
            return Ok(None);
        }
        Ok(Some(Err(match job.reason {
            Some(reason) => reason,
            None if job.has_ended() => format!("it is {}", job.status),
            None => "it was not ready in its time".to_owned(),
        })))
    }

    fn runs_again(&self, name: &str, job: &Job) -> Result<bool, RemoteError> {
        let status = self.client.project(self.session.as_str())?;
        let newest = status.and_then(|status| find(status, name)).and_then(|status| status.job);
        Ok(newest.is_some_and(|newest| newest.job != job.job))
    }

    /// Waits until something holds of a job, over all reconnects; `None`: the answer is not wanted any more.
    pub(crate) fn wait_for(
        &self,
        name: &str,
        milestone: Milestone,
        is_wanted: impl Fn() -> bool,
    ) -> Option<Result<(), String>> {
        let mut failures = 0;
        loop {
            let (part, asked) = (self.clone(), name.to_owned());
            match answer(move || part.has_come(&asked, milestone), &is_wanted)? {
                Ok(Some(come)) => return Some(come),
                Ok(None) => failures = 0,
                Err(error) if error.is_passing() => {
                    let pause = PAUSES[failures.min(PAUSES.len() - 1)];
                    failures += 1;
                    answer(move || std::thread::sleep(pause), &is_wanted)?;
                }
                Err(error) => return Some(Err(outlive::chain(&error))),
            }
        }
    }

    /// Ends jobs there; without names all that belong to the project.
    pub(crate) fn down(&self, names: &[String]) -> Result<Vec<ProjectDown>, RemoteError> {
        self.client.down(self.session.as_str(), names)
    }
}

/// Does something that may take long in a thread of its own; `None`: its answer is not wanted any more. The thread ends with the process.
pub(crate) fn answer<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    is_wanted: impl Fn() -> bool,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()).ok());
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(answer) => return Some(answer),
            Err(mpsc::RecvTimeoutError::Timeout) if is_wanted() => {}
            Err(_) => return None,
        }
    }
}

/// Returns the session of a project's jobs on other machines: another machine, or another store, has another for a project of that
/// name and directory.
pub fn session_there(store: &Store, project: &Project) -> SessionName {
    let whose = format!("{}\0{}", identity::Host::current().machine, store.root().display());
    let name = format!("{}-{:04x}", project.session(), hash(whose.as_bytes()) & 0xffff);
    SessionName::parse(&name).expect("it has only what a name may have")
}

/// Returns the machines that a project's jobs run on, or ran on when they were last started.
pub(crate) fn hosts<'a>(project: &'a Project, steps: &'a BTreeMap<String, Step>) -> Vec<&'a str> {
    let wanted = project.jobs.iter().filter_map(|job| Some(job.there.as_ref()?.host.as_str()));
    let mut hosts: Vec<&str> = wanted.chain(steps.values().filter_map(|step| step.host.as_deref())).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

pub(crate) fn find(status: ProjectStatus, name: &str) -> Option<ProjectJobStatus> {
    status.jobs.into_iter().find(|job| job.name == name)
}

/// Tells how long ago something was known.
pub(crate) fn ago(age_ms: u64) -> String {
    format!("{} ago", format_duration(age_ms))
}

impl Step {
    /// What became of a job on another machine.
    pub(crate) fn there(state: StepState, job: Option<JobId>, there: &There) -> Self {
        let definition = Some(there.fingerprint());
        Self { state, job, why: None, host: Some(there.host.clone()), definition }
    }
}

impl There {
    /// Tells definitions apart, without the values in them.
    pub(crate) fn fingerprint(&self) -> String {
        let text = format!("{}\0{:?}\0{}", self.host, self.sync, Value::Object(self.definition.clone()));
        format!("{:016x}", hash(text.as_bytes()))
    }
}
