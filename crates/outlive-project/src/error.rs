//! Why a project cannot be used, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::file::fault::Fault;
use crate::project::FILE;

/// Why a project cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// Neither the directory nor one above it has a file of a project.
    #[error("there is no {FILE} in {0} or above it")]
    None(PathBuf),
    /// Something else has the name of its file.
    #[error("{} is no file", .0.display())]
    NoFile(PathBuf),
    /// A file cannot be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] io::Error),
    /// The file has a mistake.
    #[error(transparent)]
    Fault(#[from] Box<Fault>),
    /// The file of another program cannot be understood.
    #[error("{}: {message}", file.file_name().map_or(file.as_path(), Path::new).display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// The key, what is wrong with it, and what would be right.
        message: String,
    },
    /// The file of another program says something else than what runs.
    #[error("{} is no project by itself", .0.display())]
    ToImport(PathBuf),
    /// There is a file already where one is to be written.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// A file cannot be written.
    #[error("cannot write {0}")]
    Write(PathBuf, #[source] io::Error),
    /// A template cannot be filled in with these parameters.
    #[error("template {template}: {message}")]
    Params {
        /// The template.
        template: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// No template of the project has this name.
    #[error("there is no template {name:?} in {}", file.display())]
    UnknownTemplate {
        /// The name that was given.
        name: String,
        /// The file.
        file: PathBuf,
        /// The name that was most likely meant.
        similar: Option<String>,
    },
    /// No job of the project has this name.
    #[error("there is no job {name:?} in {}", file.display())]
    Unknown {
        /// The name that was given.
        name: String,
        /// The file.
        file: PathBuf,
        /// The name that was most likely meant.
        similar: Option<String>,
    },
    /// No job of the project has this profile.
    #[error("no job of {} has profile {name:?}", file.display())]
    UnknownProfile {
        /// The name that was given.
        name: String,
        /// The file.
        file: PathBuf,
        /// The profiles that there are.
        known: Vec<String>,
    },
    /// Every job has a profile, and none was asked for.
    #[error("every job of {} belongs to a profile", file.display())]
    NothingAsked {
        /// The file.
        file: PathBuf,
        /// The profiles that there are.
        known: Vec<String>,
    },
    /// The store cannot be used.
    #[error("cannot use the store")]
    Store(#[source] io::Error),
    /// Another machine does not tell of its jobs.
    #[error("{0}: {1}")]
    There(String, String),
    /// The process that starts the jobs does not do its work.
    #[error("the process that starts the jobs {0}")]
    Starter(&'static str),
}

impl From<ProjectError> for outlive::Failure {
    fn from(error: ProjectError) -> Self {
        use outlive::{Code, Failure};
        match &error {
            // The place is drawn over several lines.
            ProjectError::Fault(fault) => Failure::new(Code::Config, fault.to_string())
                .hint("every key: outlive help projects, and the options of outlive run --help"),
            ProjectError::Foreign { .. } => Failure::new(Code::Config, error.to_string())
                .hint("outlive help projects says what is taken over of such a file"),
            ProjectError::None(_) => Failure::new(Code::NotFound, error.to_string())
                .hint("write one: [jobs.web] and below it run = \"npm run dev\"; or name it with --file"),
            ProjectError::NoFile(_) => Failure::new(Code::Config, error.to_string())
                .hint("move it away, or name the file of the project with --file"),
            ProjectError::Unknown { similar, .. } => {
                let failure = Failure::new(Code::NotFound, error.to_string());
                match similar {
                    Some(similar) => failure.hint(format!("did you mean {similar}?")),
                    None => failure.hint("`outlive status` lists them"),
                }
            }
            ProjectError::UnknownTemplate { similar, .. } => {
                let failure = Failure::new(Code::NotFound, error.to_string());
                match similar {
                    Some(similar) => failure.hint(format!("did you mean {similar}?")),
                    None => failure.hint("`outlive template list` lists them"),
                }
            }
            ProjectError::UnknownProfile { known, .. } if known.is_empty() => {
                Failure::new(Code::NotFound, error.to_string())
                    .hint("none has one: write profile = \"NAME\" below [jobs.…]")
            }
            ProjectError::UnknownProfile { known, .. } => Failure::new(Code::NotFound, error.to_string())
                .hint(format!("there are {}", known.join(", "))),
            ProjectError::NothingAsked { known, .. } => Failure::usage(
                error.to_string(),
                format!("name a job, or write --profile {}", known.first().map_or("NAME", String::as_str)),
            ),
            ProjectError::Params { template, .. } => Failure::usage(
                error.to_string(),
                format!("`outlive template show {template}` lists its parameters"),
            ),
            ProjectError::ToImport(file) => Failure::new(Code::Config, error.to_string())
                .hint(format!("an outlive.toml is made from it by: outlive import {}", file.display())),
            ProjectError::Exists(_) => Failure::usage(
                error.to_string(),
                "without --write the new one is printed: take over by hand what you want",
            ),
            ProjectError::Read(..) | ProjectError::Write(..) | ProjectError::Store(_) => {
                Failure::other("", &error)
            }
            ProjectError::There(..) => Failure::new(Code::Unreachable, error.to_string())
                .hint("its jobs go on; try again when it can be reached"),
            ProjectError::Starter(_) => {
                Failure::other("up", &error).hint("`outlive status` tells how far it has come")
            }
        }
    }
}
