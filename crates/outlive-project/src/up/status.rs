//! How the jobs of a project are doing, and why one is not.

use std::collections::BTreeMap;
use std::path::Path;

use outlive::duration::format_duration;
use outlive::{Job, JobObject, Listeners, Ready, State, Status, Store, Timestamp};
use outlive_sys::local_time::LocalTime;
use serde::Serialize;

use crate::error::ProjectError;
use crate::ports;
use crate::project::{Command, Project, ProjectJob};
use crate::up::converge::{last_run, reading};
use crate::up::down::BY_DOWN;
use crate::up::pending;
use crate::up::record::{self, Progress, Record, Step, StepState};
use crate::up::status_there::{self, JobRun, LookThere};
use crate::up::there::Known;

/// How a job is doing that the last `up` did not start; an older run says nothing of it.
pub const NOT_STARTED: &str = "not started";

/// One job of a project.
#[derive(Debug, Serialize)]
pub struct JobStatus {
    /// Its name in the project.
    pub name: String,
    /// How it is doing, for people.
    pub state: String,
    /// What `up` came to with it, where it was not started.
    pub waits_for: Option<String>,
    /// What the file says now and its live job was started without.
    pub changed: Vec<&'static str>,
    /// The other machine that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The age of what is known, where that machine cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable_ms: Option<u64>,
    /// Its newest job.
    pub job: Option<JobRun>,
}

/// A reason, or the reason of the one before it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// How many reasons it is behind.
    pub depth: usize,
    /// The reason, in a sentence.
    pub text: String,
    /// The end of what the job printed, where that tells more.
    pub output: Vec<String>,
    /// Whose output that is, for the command that shows more of it.
    #[serde(skip)]
    pub quoted: Option<Quoted>,
}

/// The job whose output stands in a reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Its name in the project; of a job without a name its id.
    pub name: String,
    /// Something went wrong with it: it did not end by itself with success, was not killed, or is unhealthy.
    pub has_failed: bool,
}

impl Cause {
    /// Returns a reason without output.
    pub(crate) fn alone(depth: usize, text: String) -> Self {
        Self { depth, text, output: Vec::new(), quoted: None }
    }
}

/// Where to look.
struct Scope<'a> {
    store: &'a Store,
    project: &'a Project,
    ports: BTreeMap<String, u16>,
    /// What `up` came to with each job.
    steps: BTreeMap<String, Step>,
    /// What other machines say.
    there: BTreeMap<String, Known>,
}

/// What is known of one job.
struct Look<'a> {
    job: &'a ProjectJob,
    last: Option<Job>,
    step: Option<Step>,
    /// A process waits to start it.
    is_rising: bool,
    /// `up` was said, and `down` not since.
    is_up: bool,
    changed: Vec<&'static str>,
}

/// Tells how each job of a project is doing, in the order of the file.
///
/// # Errors
///
/// If the store cannot be read.
pub fn status(store: &Store, project: &Project) -> Result<Vec<JobStatus>, ProjectError> {
    let scope = Scope::new(store, project);
    let status = |job| match scope.there(job) {
        Some(look) => Ok(look.status()),
        None => Ok(Look::new(&scope, job)?.status(store)),
    };
    let known: Result<Vec<JobStatus>, ProjectError> = project.jobs.iter().map(status).collect();
    let mut known = known?;
    let jobs = store.list(Some(&project.session())).map_err(ProjectError::Store)?.jobs;
    known.extend(jobs.into_iter().filter(|job| is_stranger(project, job)).filter_map(|job| {
        let state = job.state(store);
        state.is_live().then(|| JobStatus {
            name: job.name().unwrap_or_default().to_owned(),
            state: format!("{}, not in the file", state.words()),
            waits_for: None,
            changed: Vec::new(),
            host: None,
            unreachable_ms: None,
            job: Some(JobRun::Here(Box::new(JobObject::new(&job, &state)))),
        })
    }));
    Ok(known)
}

/// Tells whether a job of the project's session was started by a name that the file does not have any more.
pub fn is_stranger(project: &Project, job: &Job) -> bool {
    let names = project.jobs.iter().map(|known| &known.name);
    let is_known = || {
        names.chain(project.templates.iter().map(|known| &known.name)).any(|name| job.name() == Some(name))
    };
    job.name().is_some() && job.spec().parent.is_none() && !is_known()
}

/// Finds the run that a name means in the directory of a project: the live one, else the last. None: the file has no job of that name
/// and none is live, or it was never started.
///
/// # Errors
///
/// If the store cannot be read.
pub fn run_of(store: &Store, project: &Project, name: &str) -> Result<Option<Job>, ProjectError> {
    let last = last_run(store, &project.session(), name).map_err(ProjectError::Store)?;
    Ok(last.filter(|last| !is_stranger(project, last) || last.state(store).is_live()))
}

/// Names the jobs that run and are not ready, each with what is missing, in the order of the file.
///
/// # Errors
///
/// If the store cannot be read.
pub fn unready(store: &Store, project: &Project) -> Result<Vec<(String, String)>, ProjectError> {
    let mut unready = Vec::new();
    let scope = Scope::new(store, project);
    for job in &project.jobs {
        if let Some(look) = scope.there(job) {
            unready.extend(look.unready().map(|why| (job.name.clone(), why)));
            continue;
        }
        let last = last_run(store, &project.session(), &job.name).map_err(ProjectError::Store)?;
        let Some(last) = last.filter(|last| last.spec().can_be_ready()) else { continue };
        let state = last.state(store);
        if state.status == Status::Running && last.ready_now(&state).is_none() {
            let ill = state.unhealthy.as_ref().map(|why| format!("it is unhealthy: {why}"));
            unready.push((job.name.clone(), ill.unwrap_or_else(|| missing(store, &last, &state))));
        }
    }
    Ok(unready)
}

/// Explains how one job is doing: what it waits for, what that waits for, and what waits for it.
///
/// # Errors
///
/// If the project has no such job, or the store cannot be read.
pub fn why(store: &Store, project: &Project, name: &str) -> Result<Vec<Cause>, ProjectError> {
    let job = project.job(name)?;
    let mut causes = Vec::new();
    let scope = Scope::new(store, project);
    explain(&scope, job, 0, &mut causes)?;
    let waiting = project.jobs.iter().filter(|other| other.after.iter().any(|after| after.job == name));
    let mut blocked = Vec::new();
    for other in waiting {
        let is_live_there = scope.there(other).is_some_and(|look| look.is_live());
        let look = Look::new(&scope, other)?;
        // One that has come and gone waits for nothing.
        let is_done = look.step.as_ref().is_some_and(Step::is_done);
        let is_blocked = look.is_up && !is_done && !look.is_live(store) && !is_live_there;
        blocked.extend(is_blocked.then_some(other.name.as_str()));
    }
    if !blocked.is_empty() {
        let text = format!("it is waited for by {}", blocked.join(", "));
        causes.push(Cause::alone(0, text));
    }
    Ok(causes)
}

/// Explains how a job that belongs to no project is doing.
pub fn why_alone(store: &Store, last: Job) -> Vec<Cause> {
    let name = last.name().unwrap_or(last.id().as_str());
    let job = ProjectJob::new(name, Command::Argv(Vec::new()), Path::new("/"), BTreeMap::new());
    let look =
        Look { job: &job, last: Some(last), step: None, is_rising: false, is_up: true, changed: Vec::new() };
    let mut causes = vec![look.cause(store, 0)];
    let waits = look.last.as_ref().filter(|last| last.state(store).status == Status::Queued);
    for after in waits.iter().flat_map(|last| &last.spec().after) {
        // How those are doing that it comes after, and what they wait for.
        if let Ok(before) = store.find(after.job.as_str(), None) {
            causes.extend(
                why_alone(store, before).into_iter().map(|cause| Cause { depth: cause.depth + 1, ..cause }),
            );
        }
    }
    causes
}

fn explain(
    scope: &Scope<'_>,
    job: &ProjectJob,
    depth: usize,
    causes: &mut Vec<Cause>,
) -> Result<(), ProjectError> {
    let store = scope.store;
    match scope.there(job) {
        Some(look) => causes.extend(look.causes(store, scope.project, depth)?),
        None => causes.push(Look::new(scope, job)?.cause(store, depth)),
    }
    let stuck = scope
        .steps
        .get(&job.name)
        .cloned()
        .filter(|step| matches!(step.state, StepState::Waiting | StepState::Failed));
    let why = stuck.and_then(|step| step.why).unwrap_or_default();
    // There is no circle, so that this comes to an end.
    for after in job.after.iter().filter(|after| why.starts_with(&after.to_string())) {
        explain(scope, scope.project.job(&after.job)?, depth + 1, causes)?;
    }
    Ok(())
}

impl<'a> Scope<'a> {
    fn new(store: &'a Store, project: &'a Project) -> Self {
        let session = project.session();
        let record = Record::read(store, &session);
        let is_current = |progress: &Progress| {
            record.as_ref().is_some_and(|record| record.generation == progress.generation)
        };
        let steps = Progress::read(store, &session).filter(is_current).map(|progress| progress.jobs);
        let (ports, steps) = (ports::assign(store, project), steps.unwrap_or_default());
        Self { store, project, ports, steps, there: status_there::look(store, project) }
    }

    /// Returns what is known of a job on another machine; none of one here.
    fn there(&self, job: &'a ProjectJob) -> Option<LookThere<'_>> {
        LookThere::new(job, self.steps.get(&job.name), &self.there)
    }
}

impl<'a> Look<'a> {
    fn new(scope: &Scope<'_>, job: &'a ProjectJob) -> Result<Self, ProjectError> {
        let Scope { store, project, ports, .. } = scope;
        let session = project.session();
        let last = last_run(store, &session, &job.name).map_err(ProjectError::Store)?;
        if let Some(last) = &last {
            store.probe_in_passing(last, &last.state(store));
        }
        let record = Record::read(store, &session);
        let step = scope.steps.get(&job.name).cloned();
        let request =
            reading(store, &session, job, job.request(project, ports)).map_err(ProjectError::Store)?;
        let live = last.as_ref().filter(|last| last.state(store).is_live());
        let differences = |live| store.differences(live, &request.ok()?).ok();
        let changed = live.and_then(differences).unwrap_or_default();
        let is_rising = record::is_locked(store, &session);
        Ok(Self { job, last, step, is_rising, is_up: record.is_some(), changed })
    }

    /// Returns what is to be said, with the end of the output where that tells more.
    fn cause(&self, store: &Store, depth: usize) -> Cause {
        let (text, shows_output) = self.sentence(store);
        let last = self.last.as_ref().filter(|_| shows_output);
        // A run that waits has printed nothing: the one before it tells why it is needed.
        let before = last.filter(|last| last.state(store).status == Status::Queued);
        let before = before.and_then(|last| store.find(last.spec().previous.as_ref()?.as_str(), None).ok());
        let last = before.as_ref().or(last);
        let output = last.map(pending::last_lines).unwrap_or_default();
        let quoted = last.filter(|_| !output.is_empty()).map(|last| {
            let state = last.state(store);
            let is_ill = state.unhealthy.is_some() || state.gave_up.is_some();
            Quoted { name: self.job.name.clone(), has_failed: is_ill || has_failed(state.status) }
        });
        Cause { depth, text, output, quoted }
    }

    fn is_live(&self, store: &Store) -> bool {
        self.last.as_ref().is_some_and(|last| last.state(store).is_live())
    }

    /// Returns what it waits for before it is started.
    fn waits_for(&self, store: &Store) -> Option<&str> {
        let step = self.step.as_ref().filter(|step| step.state == StepState::Waiting && !self.is_live(store));
        step.and_then(|step| step.why.as_deref())
    }

    fn status(&self, store: &Store) -> JobStatus {
        JobStatus {
            name: self.job.name.clone(),
            state: self.words(store),
            waits_for: self.waits_for(store).map(str::to_owned),
            changed: self.changed.clone(),
            host: None,
            unreachable_ms: None,
            job: self
                .last
                .as_ref()
                .map(|last| JobRun::Here(Box::new(JobObject::new(last, &last.state(store))))),
        }
    }

    fn words(&self, store: &Store) -> String {
        let failed = self.step.as_ref().filter(|step| step.state == StepState::Failed);
        match (&self.last, self.waits_for(store), failed) {
            (Some(last), ..) if self.is_live(store) => {
                let state = last.state(store);
                let ready = match (last.spec().can_be_ready(), last.ready_now(&state)) {
                    (true, Some(_)) => ", ready",
                    (true, None) => ", not ready",
                    (false, _) => "",
                };
                let changed = if self.changed.is_empty() { "" } else { ", changed" };
                let next = last.spec().options.schedule.is_set().then(|| JobObject::new(last, &state));
                if let Some(left) = next.and_then(|object| object.starts_in_ms) {
                    return format!("next run in {}{changed}", format_duration(left));
                }
                format!("{}{ready}{changed}", state.words())
            }
            (_, Some(after), _) if self.is_rising => format!("waits for {after}"),
            (_, Some(after), _) => format!("waits for {after}, stuck"),
            (_, _, Some(_)) => NOT_STARTED.to_owned(),
            (Some(last), ..) if self.is_up => last.state(store).summary(),
            (Some(last), ..) => {
                let state = last.state(store);
                match state.outcome.as_ref().map(|outcome| &outcome.cause) {
                    Some(outlive::Cause::Kill { by }) if by == BY_DOWN => "down".to_owned(),
                    _ => format!("down, {}", state.summary()),
                }
            }
            (None, ..) => match self.job.profiles.first() {
                Some(profile) => format!("not asked for: profile {profile}"),
                None => NOT_STARTED.to_owned(),
            },
        }
    }

    /// Returns what is to be said, and whether the end of the output tells more.
    fn sentence(&self, store: &Store) -> (String, bool) {
        let name = &self.job.name;
        if let Some(last) = &self.last
            && self.is_live(store)
        {
            return self.live_sentence(store, last);
        }
        if let Some(after) = self.waits_for(store) {
            let stuck = match self.is_rising {
                true => "",
                false => "; the process that waited for it was killed: `outlive up` goes on",
            };
            return (format!("{name} is not started: it waits for {after}{stuck}"), false);
        }
        if let Some(step) = &self.step
            && step.state == StepState::Failed
        {
            return (format!("{name} was not started: {}", step.why.as_deref().unwrap_or("unknown")), false);
        }
        match &self.last {
            Some(last) => {
                let object = JobObject::new(last, &last.state(store));
                let again = if self.is_up { "" } else { "; `outlive up` starts it again" };
                // A job without a name is called by its id.
                let id =
                    if last.id().as_str() == name { String::new() } else { format!(" as {}", last.id()) };
                let status = object.status.word().replace('_', " ");
                let unwatched = match last.spec().restart_on_change.is_empty() {
                    true => "",
                    false => "; having ended, it is no longer watched for changes of files",
                };
                let text = format!("{name} {status}{id}{}{unwatched}{again}", object.how_it_ended());
                (text, true)
            }
            None => match self.job.profiles.first() {
                Some(profile) => {
                    let text = format!(
                        "{name} was never started, for it belongs to a profile: `outlive up --profile {profile}` starts it, and so does `outlive up {name}`"
                    );
                    (text, false)
                }
                None => (format!("{name} was never started: `outlive up {name}` does"), false),
            },
        }
    }

    fn live_sentence(&self, store: &Store, last: &Job) -> (String, bool) {
        let mut state = last.state(store);
        store.look_at_question(last, &mut state);
        let object = JobObject::new(last, &state);
        if let (Some(left), Some(schedule)) = (object.starts_in_ms, &object.schedule) {
            let at = object.next_run_at.as_deref().map(local).unwrap_or_default();
            let text = format!(
                "{} sleeps until its next run in {}, {at}, as {}: {schedule}",
                self.job.name,
                format_duration(left),
                last.id()
            );
            return (text, last.spec().previous.is_some());
        }
        if let Some(left) = object.starts_in_ms {
            let in_row = last.spec().rerun.as_ref().map_or(0, |rerun| rerun.in_a_row);
            let text = format!(
                "{} has ended and is started again in {}, as {}: restart {in_row}",
                self.job.name,
                format_duration(left),
                last.id()
            );
            return (text, true);
        }
        if let Some(waits_for) = &state.waits_for {
            let place = pending::place_in_queue(store, last);
            return (format!("{} is queued as {}: {waits_for}{place}", self.job.name, last.id()), false);
        }
        let since =
            state.runtime_ms().map(|time| format!(" for {}", format_duration(time))).unwrap_or_default();
        let mut text = format!("{} runs as {}{since}", self.job.name, last.id());
        if let Some(because) = &last.spec().because {
            text += &format!(", started again because {because},");
        }
        let is_waited_for = object.ready == Some(false);
        text += &pending::held_up(&object);
        match (object.ready, &object.ready_place) {
            (Some(true), Some(url)) => text += &format!(" and is ready at {url}"),
            (Some(true), None) => text += " and is ready",
            (Some(false), _) if state.unhealthy.is_some() => text += " and is not ready",
            (Some(false), _) => text += &format!(" and is not ready: {}", missing(store, last, &state)),
            (None, _) => {}
        }
        if let Some(why) = &state.unhealthy {
            let so = if is_waited_for { ", for it" } else { " and" };
            text += &format!("{so} is unhealthy: {why}");
        }
        if let Some(why) = &state.gave_up {
            text += &format!("; it is not restarted any more: {why}");
        }
        // What comes before it is over where nothing follows.
        text.truncate(text.trim_end_matches(',').len());
        if !self.changed.is_empty() {
            text += &format!("; {} changed since: `outlive up` restarts it", self.changed.join(", "));
        }
        (text, is_waited_for || state.gave_up.is_some() || object.awaits.is_some())
    }
}

/// Tells whether a job has ended otherwise than it was meant to.
pub(crate) fn has_failed(status: Status) -> bool {
    matches!(status, Status::Failed | Status::TimedOut | Status::Lost)
}

/// Writes a time that stands in an object for scripts as people read it.
fn local(text: &str) -> String {
    let seconds = Timestamp::parse(text).ok().and_then(|time| i64::try_from(time.0 / 1_000_000).ok());
    seconds.and_then(LocalTime::at).map_or_else(|| text.to_owned(), |time| time.to_string())
}

/// Says what is waited for until a job is ready.
fn missing(store: &Store, job: &Job, state: &State) -> String {
    let Ready { on, port, http, command, notify, .. } = &job.spec().options.ready;
    let conditions = [
        on.as_ref().map(|pattern| format!("no line that matches /{pattern}/")),
        port.map(|port| {
            let listened = job.tree(store, state).map(|tree| tree.ports(&mut Listeners::new()));
            let listened: Vec<String> = listened.iter().flatten().map(|port| port.port.to_string()).collect();
            let other = match listened.is_empty() {
                true => String::new(),
                false => format!(" but on {}: does it read $PORT?", listened.join(", ")),
            };
            match port {
                0 => "nothing of it listens on a port".to_owned(),
                port => format!("nothing of it listens on port {port}{other}"),
            }
        }),
        http.as_ref().map(|url| format!("{url} does not answer")),
        command.as_ref().map(|line| format!("{} does not exit with 0", line.to_lossy())),
        notify.then(|| "it has not said READY=1 on $NOTIFY_SOCKET".to_owned()),
    ];
    conditions.into_iter().flatten().collect::<Vec<_>>().join(", or ")
}
