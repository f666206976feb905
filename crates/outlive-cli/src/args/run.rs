//! Starting a job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use outlive::duration::parse_duration;

use super::options::OptionArguments;
use super::values::{Timeout, parse_label, parse_timeout, parse_variable};

/// Start a command and return at once
///
/// Prints the job's id. One argument is a line for the shell; after `--` come a program and its arguments as they are.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:\n  \
outlive run 'npm run dev' --name web\n  \
outlive run -- cargo test --workspace\n  \
outlive run --wait -- make          # stream the output, exit with make's code")]
pub(crate) struct Run {
    /// A line for the shell, as one argument
    #[arg(value_name = "LINE")]
    pub(crate) line: Vec<OsString>,

    /// A program and its arguments, as they are
    #[arg(last = true, value_name = "PROGRAM ARGS")]
    pub(crate) argv: Vec<OsString>,

    /// The directory to start in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Add a variable to the environment; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, OsString)>,

    /// Give it a label, by which `list` finds it; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,

    /// Remove a variable from the environment; may be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) unset: Vec<String>,

    /// The shell for LINE; without it bash, else sh
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) shell: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) options: OptionArguments,

    /// Start it only if no live job of the session has its --name; print the id of that one if it was started in the same way
    #[arg(long, requires = "name")]
    pub(crate) ensure: bool,

    /// Wait this long, print what it has printed, and return while it goes on
    #[arg(long = "yield", value_name = "DURATION", value_parser = parse_duration, conflicts_with = "wait")]
    pub(crate) yield_after: Option<Duration>,

    /// Stream its output and exit with its code, or return while it goes on: once it has run for 2 s and printed something, if it
    /// runs npm, pnpm, yarn, node, python, python3, go, cargo, make, docker, webpack, vite, jest or pytest
    #[arg(long, conflicts_with_all = ["wait", "yield_after"])]
    pub(crate) auto_background: bool,

    /// Stream its output and exit with its code; with a duration, wait at most this long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "none", value_parser = parse_timeout)]
    pub(crate) wait: Option<Timeout>,
}
