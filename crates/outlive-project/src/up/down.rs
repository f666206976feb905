//! `down`: ends the jobs of a project, those first that others do not wait for, and leaves nothing.

use std::path::Path;

use outlive::{ControlError, Failure, Job, Kill, Killed, OwnLabel, Store, Survivor};

use crate::error::ProjectError;
use crate::project::{FILE, Project, ProjectJob};
use crate::up::record::{self, Progress, Record};
use crate::up::there::{self, Part};

/// The program that asks, as the outcome names it.
pub(crate) const BY_DOWN: &str = "outlive down";

/// What became of one job.
#[derive(Debug)]
pub struct Down {
    /// Its name in the project.
    pub name: Option<String>,
    /// Its id; that of a job on another machine begins with the machine's name.
    pub id: String,
    /// The job, if it is here.
    pub job: Option<Job>,
    /// What is left of it, each in a sentence; or why it was not ended.
    pub left: Result<Vec<String>, Failure>,
}

/// Ends every live job of a project's session in reverse order of their start, with everything that they started, on other machines too;
/// and stops an `up` that is still at it. With names only these jobs are ended.
///
/// # Errors
///
/// If the store cannot be used. That a job cannot be ended is in the answer, and the others are ended all the same.
pub fn down(store: &Store, project: &Project, names: &[String]) -> Result<Vec<Down>, ProjectError> {
    let session = project.session();
    store.make_session(&session).map_err(ProjectError::Store)?;
    let _held_record = record::lock_record(store, &session).map_err(ProjectError::Store)?;
    if names.is_empty() {
        // An `up` that is at it sees this and stops; then nothing is started any more.
        Record::new(project.file.clone(), Vec::new(), Vec::new(), None)
            .write(store, &session)
            .map_err(ProjectError::Store)?;
    }
    let _held = record::lock(store, &session).map_err(ProjectError::Store)?;
    let is_named = |name: Option<&str>| {
        names.is_empty() || name.is_some_and(|name| names.iter().any(|wanted| wanted == name))
    };
    let mut live = store.list(Some(&session)).map_err(ProjectError::Store)?.jobs;
    live.retain(|job| {
        let state = job.state(store);
        let is_reached = !state.is_elsewhere() || job.spec().placement.is_some();
        state.is_live() && is_reached && is_named(job.name())
    });
    let steps = Progress::read(store, &session).map(|progress| progress.jobs).unwrap_or_default();
    let mut parts = Parts::new(store, project, there::hosts(project, &steps));
    let mut ended = Vec::new();
    for level in project.levels().into_iter().rev() {
        let is_of = |job: &Job| level.iter().any(|wanted| job.name() == Some(&wanted.name));
        let (now, later): (Vec<Job>, Vec<Job>) = live.into_iter().partition(is_of);
        live = later;
        ended.extend(end(store, &level, now));
        let is_wanted = |job: &&&ProjectJob| is_named(Some(&job.name));
        parts.end(&level.iter().filter(is_wanted).copied().collect::<Vec<_>>(), &mut ended);
    }
    // What the jobs started as jobs of their own, and what is no longer in the file.
    ended.extend(end(store, &[], live));
    if names.is_empty() {
        parts.end_all(&mut ended);
        Record::remove(store, &session, parts.failed.is_empty()).map_err(ProjectError::Store)?;
    }
    Ok(ended)
}

/// The parts of a project on other machines.
struct Parts {
    parts: Vec<Part>,
    /// Machines that did not answer, which are not asked again.
    failed: Vec<(String, Failure)>,
}

impl Parts {
    fn new(store: &Store, project: &Project, hosts: Vec<&str>) -> Self {
        let (mut parts, mut failed) = (Vec::new(), Vec::new());
        for host in hosts {
            match Part::new(store, project, host) {
                Ok(part) => parts.push(part),
                Err(failure) => failed.push((host.to_owned(), failure)),
            }
        }
        Self { parts, failed }
    }

    /// Ends these jobs, each on its machine.
    fn end(&mut self, jobs: &[&ProjectJob], ended: &mut Vec<Down>) {
        for at in (0..self.parts.len()).rev() {
            let host = &self.parts[at].host;
            let is_there = |job: &&&ProjectJob| job.there.as_ref().is_some_and(|there| there.host == *host);
            let names: Vec<String> = jobs.iter().filter(is_there).map(|job| job.name.clone()).collect();
            if !names.is_empty() {
                self.ask(at, &names, ended);
            }
        }
    }

    /// Ends what is left on all machines, and tells of those that do not answer.
    fn end_all(&mut self, ended: &mut Vec<Down>) {
        for at in (0..self.parts.len()).rev() {
            self.ask(at, &[], ended);
        }
        for (host, failure) in &self.failed {
            let failure = failure.clone().hint("its jobs go on; repeat this when it can be reached");
            ended.push(Down { name: None, id: host.clone(), job: None, left: Err(failure) });
        }
    }

    fn ask(&mut self, at: usize, names: &[String], ended: &mut Vec<Down>) {
        let host = self.parts[at].host.clone();
        match self.parts[at].down(names) {
            Ok(downs) => ended.extend(downs.into_iter().map(|down| {
                let left =
                    if down.is_ended { Vec::new() } else { vec!["something of it is left".to_owned()] };
                Down { name: down.name, id: format!("{host}/{}", down.job), job: None, left: Ok(left) }
            })),
            Err(error) => {
                self.parts.swap_remove(at);
                self.failed.push((host, error.into()));
            }
        }
    }
}

/// Finds the project whose jobs run in a directory or the nearest one above it, though nothing there says so: its file is gone, or has
/// another name. Its jobs are not known, only its session.
///
/// # Errors
///
/// If the store cannot be read.
pub fn left_up(store: &Store, dir: &Path) -> Result<Option<Project>, ProjectError> {
    let jobs = store.list(None).map_err(ProjectError::Store)?.jobs;
    for dir in dir.ancestors() {
        let is_here = |job: &&Job| job.spec().own_label(OwnLabel::Project) == dir.to_str();
        let mut live = jobs.iter().filter(is_here).filter(|job| job.state(store).is_live());
        let Some(job) = live.next() else { continue };
        let file = Record::read(store, job.session()).map_or_else(|| dir.join(FILE), |record| record.file);
        let mut project = Project::empty(file, dir.to_owned());
        // A session is called by the name of the project and where that is.
        if let Some((name, _)) = job.session().as_str().rsplit_once('-') {
            project.name = name.to_owned();
        }
        return Ok((project.session() == *job.session()).then_some(project));
    }
    Ok(None)
}

/// Ends jobs, all at the same time.
fn end(store: &Store, wanted: &[&ProjectJob], jobs: Vec<Job>) -> Vec<Down> {
    let signal =
        |job: &Job| wanted.iter().find(|wanted| job.name() == Some(&wanted.name)).and_then(|job| job.stop);
    let end = |job: Job| {
        let kill = Kill { signal: signal(&job), by: BY_DOWN.to_owned(), ..Kill::default() };
        let killed = match store.kill(&job, &kill) {
            Err(ControlError::Ended(_)) => Ok(Killed::was_over()),
            killed => killed,
        };
        let left = match killed {
            Ok(killed) => {
                let left = |survivor: &Survivor| format!("pid {} is left: {}", survivor.pid, survivor.why);
                Ok(killed.survivors.iter().map(left).collect())
            }
            Err(error) => Err(Failure::from(error).during("down").about(job.id())),
        };
        Down { name: job.name().map(str::to_owned), id: job.id().to_string(), job: Some(job), left }
    };
    std::thread::scope(|scope| {
        let ending: Vec<_> = jobs.into_iter().map(|job| scope.spawn(|| end(job))).collect();
        let ended = ending.into_iter().map(|ending| ending.join());
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
