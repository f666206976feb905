//! Projects: the jobs of an `outlive.toml`.

use std::path::PathBuf;

use clap::Args;
use outlive::SessionName;

/// Which project.
#[derive(Debug, Args)]
pub(crate) struct OfProject {
    /// The project's file; without it outlive.toml in this directory, or in the nearest one above it
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Start the jobs of this project
///
/// Starts what does not run, restarts what runs and was changed in outlive.toml, and leaves the rest alone. A job that is to come
/// after others is started when they are as far as `after` says, by a process of its own: this command may end before.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive up                        # all jobs of outlive.toml\n  \
outlive up web --wait             # web and what it waits for; until it is ready\n  \
outlive up --foreground --down    # with their output; Ctrl-C ends them")]
pub(crate) struct Up {
    /// Only these jobs, and what they wait for
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) project: OfProject,

    /// Wait until all are started, and those ready that say when they are
    #[arg(long)]
    pub(crate) wait: bool,

    /// Show what they print until they have ended; Ctrl-C leaves, and they go on
    #[arg(long, conflicts_with = "wait")]
    pub(crate) foreground: bool,

    /// With --foreground: Ctrl-C ends them
    #[arg(long, requires = "foreground")]
    pub(crate) down: bool,
}

/// End the jobs of this project
///
/// Those first that others do not wait for. Also ends what they started as jobs of their own.
#[derive(Debug, Args)]
pub(crate) struct Down {
    #[command(flatten)]
    pub(crate) project: OfProject,
}

/// Tell how the jobs of this project are doing; outside a project, list all jobs
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) project: OfProject,
}

/// Explain how a job of this project is doing, and what it waits for
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The job
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) project: OfProject,
}

#[derive(Debug, Args)]
pub(crate) struct Converge {
    /// The session of the project
    #[arg(value_parser = SessionName::parse)]
    pub(crate) session: SessionName,

    /// The `up` that it does the work of
    pub(crate) generation: String,
}
