//! Projects: the jobs of an `outlive.toml`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use outlive::SessionName;
use outlive::duration::parse_duration;

/// Which project.
#[derive(Debug, Default, Args)]
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

    /// Also the jobs of this profile; may be given several times
    #[arg(long = "profile", value_name = "PROFILE")]
    pub(crate) profiles: Vec<String>,

    #[command(flatten)]
    pub(crate) project: OfProject,

    /// Wait until all are started, and those ready that say when they are
    #[arg(long)]
    pub(crate) wait: bool,

    /// With --wait: give up after this time; the jobs go on
    #[arg(long, requires = "wait", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

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

/// Explain how a job of this project is doing, and what it waits for; outside a project, any job
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The job
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) project: OfProject,
}

/// Make an outlive.toml from a file of another program
///
/// Reads package.json, .vscode/tasks.json, .claude/launch.json or pitchfork.toml, and prints an outlive.toml. What is not meant to run all the time,
/// such as a script that builds, stands in it as a comment. `outlive up -f` reads a Procfile or a file of process-compose as it is.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file; without it, the one of these that is in this directory
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// Write it into the directory of the project, where there is none yet
    #[arg(long)]
    pub(crate) write: bool,
}

/// List, show or run the templates of this project: jobs with parameters
///
/// A template is a table `[templates.NAME]` of outlive.toml, with the keys of a job. `{{name}}` in it is a parameter.
#[derive(Debug, Subcommand)]
pub(crate) enum Template {
    /// List the templates with their parameters
    List {
        #[command(flatten)]
        project: OfProject,
    },
    /// Show a template
    Show {
        /// The template
        #[arg(value_name = "NAME")]
        name: String,

        #[command(flatten)]
        project: OfProject,
    },
    /// Start the job of a template, and print its id
    Run {
        /// The template
        #[arg(value_name = "NAME")]
        name: String,

        /// Value of a parameter; may be given several times
        #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
        set: Vec<(String, String)>,

        #[command(flatten)]
        project: OfProject,
    },
}

fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[derive(Debug, Args)]
pub(crate) struct Converge {
    /// The session of the project
    #[arg(value_parser = SessionName::parse)]
    pub(crate) session: SessionName,

    /// The `up` that it does the work of
    pub(crate) generation: String,
}
