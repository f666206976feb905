//! Starting a job.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use outlive::Engine;
use outlive::duration::parse_duration;

use super::options::OptionArguments;
use super::values::{Timeout, parse_absolute, parse_label, parse_timeout, parse_variable};

/// Start a command and return at once
///
/// Prints the job's id. A program and its arguments are started as they are: options of outlive stand before the program. One
/// argument alone is a line for the shell; options may follow a line that has spaces.
#[derive(Debug, Default, Args)]
#[command(
    next_display_order = 10,
    after_help = "Examples:\n  \
outlive run python3 -m http.server\n  \
outlive run --name web 'npm run dev | tee web.log'\n  \
outlive run --wait make -j8         # stream the output, exit with make's code\n  \
outlive run -- './my program' x     # a program with a space in its name"
)]
pub(crate) struct Run {
    /// A program and its arguments, or a line for the shell as one argument
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,

    /// The command came after `--`: a program, also where it is one argument. Told from the words of the command line.
    #[arg(skip)]
    pub(crate) is_program: bool,

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

    /// Start it when this job has ended, or with JOB@started, @ready, @healthy, @completed or @succeeded when that holds of it; may be given
    /// again
    #[arg(long, value_name = "JOB")]
    pub(crate) after: Vec<String>,

    /// Let it read what this job prints to standard output, from the beginning, or with JOB:stderr to standard error; it never makes that job wait
    #[arg(long, value_name = "JOB", conflicts_with_all = ["stdin", "ensure"])]
    pub(crate) stdin_from: Option<String>,

    /// With --stdin-from: from now on, and not from the beginning
    #[arg(long, requires = "stdin_from")]
    pub(crate) stdin_new: bool,

    /// Restart it when a file below its directory changes that matches this pattern, such as 'src/**'; '!PATTERN' leaves out, as .gitignore does; may
    /// be given again. For a command that goes on: once it has ended it is no longer watched
    #[arg(long, value_name = "PATTERN")]
    pub(crate) restart_on_change: Vec<String>,

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

    /// Stream its output and exit with its code; with a duration, wait at most this long. A pipe or file on standard input is passed
    /// on to it
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "none", value_parser = parse_timeout)]
    pub(crate) wait: Option<Timeout>,

    /// With --wait: Ctrl-C ends the job, and not only the waiting
    #[arg(long, requires = "wait")]
    pub(crate) kill_on_interrupt: bool,

    /// Start it on this machine, a name from `[hosts]` of config.toml; the id is then HOST/ID
    #[arg(long, help_heading = "Other machines and engines", value_name = "HOST")]
    pub(crate) on: Option<String>,

    /// With --on: copy this directory there first, but for what git ignores, and start in the copy
    #[arg(long, help_heading = "Other machines and engines", value_name = "DIR", conflicts_with = "cwd")]
    pub(crate) sync: Option<PathBuf>,

    /// Let this engine decide where and when it is started: slurm, by its own commands
    #[arg(long, help_heading = "Other machines and engines", value_name = "ENGINE", value_parser = parse_engine)]
    pub(crate) engine: Option<Engine>,

    /// With an engine: ask for so many processors; --memory asks it for memory
    #[arg(long, help_heading = "Other machines and engines", value_name = "N")]
    pub(crate) cpus: Option<u64>,

    /// With an engine: ask for so many graphics processors
    #[arg(long, help_heading = "Other machines and engines", value_name = "N")]
    pub(crate) gpus: Option<u64>,

    /// With an engine: the part of the cluster
    #[arg(long, help_heading = "Other machines and engines", value_name = "NAME")]
    pub(crate) partition: Option<String>,

    /// With an engine: it ends the job after so long
    #[arg(long, help_heading = "Other machines and engines", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) time: Option<Duration>,

    /// With an engine: a node that cannot reach the engine for so long ends the job
    #[arg(long, help_heading = "Other machines and engines", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) cutoff: Option<Duration>,

    /// With an engine: keep the job in a store that its node has for itself, in this directory there, in place of one that all nodes share
    #[arg(long, help_heading = "Other machines and engines", value_name = "DIR", value_parser = parse_absolute)]
    pub(crate) node_store: Option<String>,
}

fn parse_engine(word: &str) -> Result<Engine, String> {
    Engine::parse(word).ok_or_else(|| "there is slurm".to_owned())
}

impl Run {
    /// Tells whether the command begins with a line for the shell: what follows that is no argument of a program.
    pub(crate) fn begins_with_line(&self) -> bool {
        let has_space = |word: &OsString| word.as_encoded_bytes().iter().any(u8::is_ascii_whitespace);
        !self.is_program && self.command.first().is_some_and(has_space)
    }
}
