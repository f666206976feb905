//! The verbs of a project: `up`, `down`, `status`, `why`.

pub(super) mod converge;
pub(super) mod down;
mod foreground;
pub(super) mod status;
pub(super) mod up;
pub(super) mod why;

use outlive_project::{Project, ProjectError};

use crate::args::OfProject;
use crate::failure::Failure;

/// Reads the project that is meant.
fn load(arguments: &OfProject) -> Result<Project, Failure> {
    let file = match &arguments.file {
        Some(file) => file.clone(),
        None => {
            let here =
                std::env::current_dir().map_err(|error| Failure::other("the current directory", &error))?;
            Project::find(&here)?
        }
    };
    Ok(Project::load(&file)?)
}

/// Tells whether there is no project here, rather than one with a mistake.
fn is_outside(arguments: &OfProject) -> bool {
    let found = std::env::current_dir().map(|here| Project::find(&here));
    arguments.file.is_none() && matches!(found, Ok(Err(ProjectError::None(_))))
}
