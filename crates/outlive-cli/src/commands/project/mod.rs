//! The verbs of a project: `up`, `down`, `status`, `why`, `template`, `import`.

pub(super) mod converge;
pub(super) mod down;
mod foreground;
pub(super) mod import;
pub(super) mod status;
pub(super) mod template;
pub(super) mod up;
pub(super) mod why;

use std::path::PathBuf;

use outlive_project::{Project, ProjectError};

use crate::args::OfProject;
use crate::commands::Context;
use crate::failure::Failure;

/// Reads the project that is meant.
fn load(context: &Context, arguments: &OfProject) -> Result<Project, Failure> {
    Ok(Project::load(&file_of(arguments)?, &context.store.config().hosts)?)
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
