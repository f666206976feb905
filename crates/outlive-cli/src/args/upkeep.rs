//! The store and the program itself.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlive::{JobId, Nonce};

use super::values::parse_nonce;

/// Send the notices that wait
///
/// Jobs that were started with `--webhook` leave their notices in the store, and this runs by itself in the background until all
/// have arrived. Only one runs at a time; a second returns at once.
#[derive(Debug, Args)]
pub(crate) struct Deliver {
    /// Try each that is due once, and return
    #[arg(long)]
    pub(crate) once: bool,

    /// Try again those that were given up
    #[arg(long)]
    pub(crate) retry: bool,
}

/// Let running jobs go on with the version of outlive that is installed
///
/// A job keeps the keeper that it was started with. This lets the keeper, and then its guard, execute the installed program in their own
/// place, while the command runs on: its output, input, timeout, limits, terminal and waiters are not disturbed. A version that gives no
/// sign of life is taken back. Without a JOB, all live jobs are meant. Installing outlive never does this by itself.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive upgrade --dry-run             # shows which jobs run another version\n  \
outlive upgrade                       # all of them\n  \
outlive upgrade web --force           # also if it runs the installed version already")]
pub(crate) struct Upgrade {
    /// The jobs
    #[arg(value_name = "JOB", conflicts_with = "all")]
    pub(crate) jobs: Vec<String>,

    /// Every live job, which is the default; with --session, of that session
    #[arg(long)]
    pub(crate) all: bool,

    /// Also those that run the installed version already
    #[arg(long)]
    pub(crate) force: bool,

    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cursor {
    /// The directory of the job
    pub(crate) directory: PathBuf,

    /// How far its output is read
    pub(crate) offset: u64,

    /// Asked in the extended form, and so answered
    #[arg(long)]
    pub(crate) extended: bool,

    /// Keep the screen in the job's directory, and print nothing
    #[arg(long, conflicts_with = "extended")]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OnExit {
    /// The job
    pub(crate) job: String,

    /// The nonce of the job: an id may be used again
    pub(crate) nonce: String,

    /// The store
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,

    /// Its configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LastAct {
    #[command(flatten)]
    pub(crate) of: OnExit,

    /// The job is kept on this node, and steps beside it may read it
    #[arg(long)]
    pub(crate) followed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Placed {
    #[command(flatten)]
    pub(crate) of: OnExit,

    /// Prepare the job for the process of the engine's script, which has claimed it
    #[arg(long, value_name = "PID")]
    pub(crate) script: Option<i32>,

    /// The job is not in the store yet: its intent is on standard input
    #[arg(long)]
    pub(crate) given: bool,
}

/// Examine the machine and the store
///
/// Tells what the kernel can do, what holds jobs together here, what they survive, how much is used of what is allowed, and
/// what is wrong with the store. Exits with 0 if nothing is wrong or all of it was put right, else with 1.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Move what is damaged to quarantine, make what is missing, and remove leftovers
    #[arg(long)]
    pub(crate) fix: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The job
    #[arg(value_parser = JobId::parse)]
    pub(crate) job: JobId,

    /// The nonce of the job: an id may be used again
    #[arg(value_parser = parse_nonce)]
    pub(crate) nonce: Nonce,
}

#[derive(Debug, Args)]
pub(crate) struct Rows {
    /// The job
    #[arg(value_parser = JobId::parse)]
    pub(crate) job: JobId,
}

/// A page of the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// Every command.
    Cli,
    /// Every exit status.
    ExitStatus,
    /// Every tool of the MCP server.
    McpTools,
    /// Every profile of the MCP server.
    Profiles,
    /// The JSON Schema of `outlive.toml`.
    ProjectSchema,
    /// The OpenAPI description of the HTTP server.
    Openapi,
}

/// What a shell asks where the tab key is pressed.
#[derive(Debug, Default, Args)]
pub(crate) struct Complete {
    /// The number of the word at the cursor, from 0
    #[arg(required_unless_present = "line")]
    pub(crate) place: Option<usize>,

    /// The command line up to the cursor, as it was typed in bash, in place of its words; the answer has the quotes that bash needs
    #[arg(long, conflicts_with_all = ["place", "words"], allow_hyphen_values = true)]
    pub(crate) line: Option<OsString>,

    /// With --line: its end, which bash replaces
    #[arg(long, requires = "line", allow_hyphen_values = true)]
    pub(crate) replaced: Option<OsString>,

    /// The words of the command line, without quotes
    #[arg(last = true)]
    pub(crate) words: Vec<OsString>,
}
