//! Writes an `outlive.toml` from what other programs know of a project. It is read once; from then on the new file counts.
//!
//! `up` starts every job of a file. So only what is meant to run all the time, and what that needs first, becomes a job. The rest, such as
//! a script that builds or deploys, is written as a comment that can be taken in.

mod claude;
mod draft;
mod npm;
mod pitchfork;
mod vscode;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::file::place::Hosts;
use crate::file::{process_compose, procfile, read};
use crate::project::FILE;
use draft::Draft;

/// A file that can be read, and how.
struct Format {
    /// Its path from the directory of the project.
    path: &'static str,
    read: fn(&Path, &Source) -> Result<Draft, ProjectError>,
}

/// In the order in which a directory is searched.
const FORMATS: [Format; 4] = [
    Format { path: "pitchfork.toml", read: pitchfork::read },
    Format { path: ".claude/launch.json", read: claude::read },
    Format { path: ".vscode/tasks.json", read: vscode::read },
    Format { path: "package.json", read: npm::read },
];

/// What was made of a file.
#[derive(Debug)]
pub struct Imported {
    /// The directory of the project.
    pub dir: PathBuf,
    /// The text of its `outlive.toml`.
    pub toml: String,
    /// What the file says that has no counterpart here, each in a sentence.
    pub warnings: Vec<String>,
}

/// Lists the files in a directory that can be imported.
pub fn importable(dir: &Path) -> Vec<PathBuf> {
    FORMATS.iter().map(|format| dir.join(format.path)).filter(|file| file.is_file()).collect()
}

/// Tells whether a file is one that can be imported, and is no project itself.
pub(crate) fn is_importable(file: &Path) -> bool {
    FORMATS.iter().any(|format| file.ends_with(format.path))
}

/// Makes the text of an `outlive.toml` from a file of another program.
///
/// # Errors
///
/// If the file cannot be read, or is none of those that are known.
pub fn import(file: &Path) -> Result<Imported, ProjectError> {
    let path = file.canonicalize().map_err(|error| ProjectError::Read(file.to_owned(), error))?;
    let format = FORMATS.iter().find(|format| path.ends_with(format.path)).ok_or_else(|| {
        let names = FORMATS.map(|format| format.path).join(", ");
        let message = match procfile::is_one(&path) || process_compose::is_one(&path) {
            true => format!("it is read as it is: outlive up -f {}", file.display()),
            false => format!("it cannot be imported; there are {names}"),
        };
        ProjectError::Foreign { file: file.to_owned(), message }
    })?;
    let text = std::fs::read_to_string(&path).map_err(|error| ProjectError::Read(path.clone(), error))?;
    let inside = Path::new(format.path).components().count();
    let dir = path.ancestors().nth(inside).unwrap_or(Path::new("/")).to_owned();
    let source = Source { path, text };
    let draft = (format.read)(&dir, &source)?;
    let (toml, warnings) = draft.written(format.path);
    // What is written is what `up` can read.
    let source = Source { path: dir.join(FILE), text: toml };
    read::project(source.path.clone(), dir.clone(), std::slice::from_ref(&source), &Hosts::new())?;
    Ok(Imported { dir, toml: source.text, warnings })
}

impl Imported {
    /// Writes the file into the directory of the project, and returns its path.
    ///
    /// # Errors
    ///
    /// If there is one already, or it cannot be written.
    pub fn write(&self) -> Result<PathBuf, ProjectError> {
        let path = self.dir.join(FILE);
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let written = made.and_then(|mut file| file.write_all(self.toml.as_bytes()));
        match written {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(ProjectError::Exists(path)),
            Err(error) => Err(ProjectError::Write(path, error)),
        }
    }
}

/// Reads JSON, with comments and commas at the end of lists.
fn json(source: &Source) -> Result<Value, ProjectError> {
    jsonc_parser::parse_to_serde_value(&source.text, &Default::default()).map_err(|error| {
        let place = error.range();
        source.fault(place.start..place.end, format!("this is not JSON: {}", error.kind())).into()
    })
}

fn foreign(source: &Source, message: impl Into<String>) -> ProjectError {
    ProjectError::Foreign { file: source.path.clone(), message: message.into() }
}
