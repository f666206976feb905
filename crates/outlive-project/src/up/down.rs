//! `down`: ends the jobs of a project, those first that others do not wait for, and leaves nothing.

use std::path::Path;

use outlive::{ControlError, Job, Kill, Killed, OwnLabel, Store};

use crate::error::ProjectError;
use crate::project::{FILE, Project, ProjectJob};
use crate::up::record::{self, Record};

/// What became of one job.
#[derive(Debug)]
pub struct Down {
    /// The job.
    pub job: Job,
    /// How it ended, or why it did not.
    pub killed: Result<Killed, ControlError>,
}

/// Ends every live job of a project's session in reverse order of their start, with everything that they started; and stops an `up`
/// that is still at it.
///
/// # Errors
///
/// If the store cannot be used. That a job cannot be ended is in the answer, and the others are ended all the same.
pub fn down(store: &Store, project: &Project) -> Result<Vec<Down>, ProjectError> {
    let session = project.session();
    store.make_session(&session).map_err(ProjectError::Store)?;
    let _held_record = record::lock_record(store, &session).map_err(ProjectError::Store)?;
    // An `up` that is at it sees this and stops; then nothing is started any more.
    Record::new(project.file.clone(), Vec::new(), Vec::new(), None)
        .write(store, &session)
        .map_err(ProjectError::Store)?;
    let _held = record::lock(store, &session).map_err(ProjectError::Store)?;
    let mut live = store.list(Some(&session)).map_err(ProjectError::Store)?.jobs;
    live.retain(|job| {
        let state = job.state(store);
        state.is_live() && !state.is_elsewhere()
    });
    let mut ended = Vec::new();
    for level in project.levels().into_iter().rev() {
        let is_of = |job: &Job| level.iter().any(|wanted| job.name() == Some(&wanted.name));
        let (now, later): (Vec<Job>, Vec<Job>) = live.into_iter().partition(is_of);
        live = later;
        ended.extend(end(store, &level, now));
    }
    // What the jobs started as jobs of their own, and what is no longer in the file.
    ended.extend(end(store, &[], live));
    Record::remove(store, &session).map_err(ProjectError::Store)?;
    Ok(ended)
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
        let kill = Kill { signal: signal(&job), by: "outlive down".to_owned(), ..Kill::default() };
        let killed = match store.kill(&job, &kill) {
            Err(ControlError::Ended(_)) => Ok(Killed::was_over()),
            killed => killed,
        };
        Down { job, killed }
    };
    std::thread::scope(|scope| {
        let ending: Vec<_> = jobs.into_iter().map(|job| scope.spawn(|| end(job))).collect();
        let ended = ending.into_iter().map(|ending| ending.join());
        ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}
