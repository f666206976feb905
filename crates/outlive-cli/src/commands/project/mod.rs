//! The verbs of a project: `up`, `down`, `status`, `why`, `template`, `import`.

pub(super) mod converge;
pub(super) mod down;
mod foreground;
pub(super) mod import;
pub(super) mod status;
pub(super) mod template;
pub(super) mod up;
pub(super) mod why;

use std::collections::BTreeMap;
use std::path::PathBuf;

use outlive::{Job, Store};
use outlive_project::{Project, ProjectError};

use crate::args::OfProject;
use crate::commands::Context;
use crate::failure::Failure;
use crate::served;

/// Reads the project that is meant.
fn load(context: &Context, arguments: &OfProject) -> Result<Project, Failure> {
    Ok(Project::load(&file_of(arguments)?, &context.store.config().hosts)?)
}

/// Returns the newest run of each job of the project that this directory belongs to, in the order of its file; none outside.
pub(crate) fn newest_jobs_here(context: &Context) -> Result<Vec<Job>, Failure> {
    let arguments = OfProject::default();
    if is_outside(&arguments) {
        return Ok(Vec::new());
    }
    let project = load(context, &arguments)?;
    let listing = context.store.list(Some(&project.session()));
    let listed = listing.map_err(|error| Failure::other("the project's jobs", &error))?.jobs;
    let mut newest: BTreeMap<String, Job> = BTreeMap::new();
    for job in listed {
        if let Some(name) = job.name().map(str::to_owned) {
            newest.insert(name, job);
        }
    }
    Ok(project.jobs.iter().filter_map(|job| newest.remove(&job.name)).collect())
}

/// Finds the job of the project of this directory that a reference names. None: it is a whole id, or there is no project here, or its
/// file has a mistake, which the verbs of projects tell. What is called from another machine has no directory.
pub(crate) fn job_named_here(store: &Store, reference: &str) -> Option<Job> {
    if served::is_called() || store.is_id(reference) {
        return None;
    }
    let file = Project::find(&std::env::current_dir().ok()?).ok()?;
    let project = Project::load(&file, &store.config().hosts).ok()?;
    outlive_project::run_of(store, &project, reference).ok()?
}

/// Finds the file of the project that is meant.
fn file_of(arguments: &OfProject) -> Result<PathBuf, Failure> {
    match &arguments.file {
        Some(file) => Ok(file.clone()),
        None => Ok(Project::find(&here()?)?),
    }
}

fn here() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::other("the current directory", &error))
}

/// Tells whether there is no project here, rather than one with a mistake.
fn is_outside(arguments: &OfProject) -> bool {
    let found = std::env::current_dir().map(|here| Project::find(&here));
    arguments.file.is_none() && matches!(found, Ok(Err(ProjectError::None(_))))
}
