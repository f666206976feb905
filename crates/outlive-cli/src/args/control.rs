//! Writing to jobs and ending them; what is done to several, and queues.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Args, Subcommand};
use outlive::duration::parse_duration;
use outlive::{QueueName, Signal, Sizing, TerminalSize};

use super::filters::Filters;
use super::values::{Descriptor, parse_age, parse_descriptor, parse_signal, parse_sizing};

/// Write to a job's standard input, or type into its terminal
///
/// The job must have been started with `--stdin open`, or in a terminal: `--pty`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive send repl 'print(6 * 7)'\n  \
outlive send edit --keys 'Escape \":wq\" Enter'\n  \
outlive send login --secret           # asks for it without showing it\n  \
outlive send login --secret-fd 3 3<key")]
pub(crate) struct Send {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// What to write; a newline is added. With `-`, or without it and without --eof, standard input is copied as it is
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<OsString>,

    /// Do not add a newline
    #[arg(short = 'n', long)]
    pub(crate) no_newline: bool,

    /// Press these keys in its terminal, such as 'C-c', 'Up Enter', 'F5 M-x "text"'
    #[arg(long, value_name = "KEYS", conflicts_with_all = ["text", "no_newline", "paste", "a_secret"])]
    pub(crate) keys: Option<String>,

    /// Paste TEXT into its terminal: no key in it acts where the program knows pastes
    #[arg(long, conflicts_with_all = ["no_newline", "a_secret"])]
    pub(crate) paste: bool,

    /// Ask for one line without showing it, or read it from a pipe: for passwords. A terminal that would show it gets nothing
    #[arg(long, group = "a_secret", conflicts_with_all = ["text", "no_newline"])]
    pub(crate) secret: bool,

    /// As --secret, read from this open file descriptor
    #[arg(long, value_name = "FD", group = "a_secret", value_parser = parse_descriptor, conflicts_with_all = ["text", "no_newline"])]
    pub(crate) secret_fd: Option<Descriptor>,

    /// With --secret: the program reads key by key, and does not show them itself
    #[arg(long, requires = "a_secret")]
    pub(crate) masked: bool,

    /// Then close its standard input; in a terminal, type Ctrl-D
    #[arg(long)]
    pub(crate) eof: bool,
}

/// See a job's terminal in your own, and type into it
///
/// `C-\ d` leaves it, and the job goes on; `C-\ ?` shows what else there is. Several may look at once; the size is that of the
/// one who typed last. A window that is closed, or a connection that is lost, is as good as leaving.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive run -t --name edit vim notes.txt\n  \
outlive attach edit                   # leave with C-\\ d\n  \
outlive attach edit --view            # only look")]
pub(crate) struct Attach {
    /// The job
    #[arg(value_name = "JOB", required_unless_present = "reset")]
    pub(crate) job: Option<String>,

    /// Only look: type nothing, and leave its size alone
    #[arg(long)]
    pub(crate) view: bool,

    /// What the size of this window means for the job: nothing (fixed), it has it while you type here (latest), or it fits into all
    /// windows (smallest); without it latest, and fixed for a job that an agent started
    #[arg(long, value_name = "fixed|latest|smallest", value_parser = parse_sizing, conflicts_with = "view")]
    pub(crate) size: Option<Sizing>,

    /// The key after which the next one is for `attach`, such as C-a; none for no such key
    #[arg(long, value_name = "KEY", default_value = "C-\\")]
    pub(crate) prefix: String,

    /// In a new window of the tmux that this runs in, or of the one that was used last
    #[arg(long)]
    pub(crate) tmux: bool,

    /// Bring back a terminal that was left in disorder, as after a kill
    #[arg(long, conflicts_with_all = ["job", "view", "size", "tmux"])]
    pub(crate) reset: bool,
}

/// Give a job's terminal another size
///
/// The programs in it are told, as when a window is resized.
#[derive(Debug, Args)]
pub(crate) struct Resize {
    /// The job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Columns x rows, such as 120x40
    #[arg(value_name = "SIZE", value_parser = TerminalSize::parse)]
    pub(crate) size: TerminalSize,
}

/// End jobs with everything they started
///
/// Sends TERM to every process of the job, then, after the grace, KILL until nothing is left. With `--signal` alone it
/// sends that signal and no more. A job that this very command runs inside is refused.
#[derive(Debug, Args)]
#[command(
    visible_alias = "stop",
    after_help = "Examples:\n  \
outlive kill web\n  \
outlive kill --port 8080              # whichever job listens there\n  \
outlive kill --group build            # every live job of a group\n  \
outlive kill --session ci --all       # every live job of a session"
)]
pub(crate) struct Kill {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present_any = ["all", "port", "group"])]
    pub(crate) jobs: Vec<String>,

    /// Every live job; with --session, of that session
    #[arg(long, conflicts_with = "jobs")]
    pub(crate) all: bool,

    /// Every live job of this group
    #[arg(long, value_name = "NAME", conflicts_with_all = ["jobs", "all", "port"])]
    pub(crate) group: Option<String>,

    /// The live job that listens on this TCP port; with --session, of that session
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["jobs", "all"])]
    pub(crate) port: Option<u16>,

    /// Also end jobs that were started from inside them
    #[arg(long)]
    pub(crate) nested: bool,

    /// Send this signal; with --grace, in place of TERM
    #[arg(long, short, value_name = "SIGNAL", value_parser = parse_signal)]
    pub(crate) signal: Option<Signal>,

    /// Time before KILL; without it the job's own grace
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// KILL at once
    #[arg(long, short, conflicts_with_all = ["signal", "grace"])]
    pub(crate) force: bool,
}

/// End jobs, if they run, and start them again
///
/// Each is a new job with the same name, command, directory and options, and the variables that were added with --env; all other
/// variables are those of this command. `outlive logs NAME` shows all runs, one after another.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
}

/// Live jobs that something is done to.
#[derive(Debug, Args)]
pub(crate) struct LiveJobs {
    /// The jobs
    #[arg(value_name = "JOB", conflicts_with_all = ["all", "group"])]
    pub(crate) jobs: Vec<String>,

    /// Every live job of this group
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub(crate) group: Option<String>,

    /// Every live job; with --session, of that session
    #[arg(long)]
    pub(crate) all: bool,
}

/// Remove ended jobs with their output
///
/// Never a job that still runs: `outlive kill` ends it. Without a JOB, all ended jobs that meet every condition are removed, and
/// there must be one. What is not removed goes by itself 7 days after its end (`outlive gc --help`).
#[derive(Debug, Args)]
#[command(
    visible_alias = "rm",
    after_help = "Examples:\n  \
outlive rm tests\n  \
outlive rm --ended --dry-run          # shows what would go\n  \
outlive rm --failed --older 2d\n  \
outlive rm --group build --session ci"
)]
pub(crate) struct Remove {
    /// The jobs
    #[arg(value_name = "JOB", conflicts_with_all = ["ended", "older", "group", "label", "status", "failed"])]
    pub(crate) jobs: Vec<String>,

    /// All that have ended
    #[arg(long, visible_alias = "all")]
    pub(crate) ended: bool,

    /// Only those that ended longer ago than this
    #[arg(long, value_name = "DURATION", value_parser = parse_age)]
    pub(crate) older: Option<Duration>,

    #[command(flatten)]
    pub(crate) filters: Filters,

    /// Show what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// What is done to each of several jobs.
#[derive(Debug, Args)]
pub(crate) struct Jobs {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
}

/// List queues, pause and resume them, and say how many of their jobs run at once
///
/// `outlive run --queue NAME` puts a job into a queue: it is `queued` until it is its turn, and jobs are started in the order in which
/// they were put there. A queue belongs to the store: jobs of all sessions and projects that name it share it.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
outlive queue parallel build 2          # two at a time; without this one\n  \
outlive run --queue build make test\n  \
outlive queue pause build               # what runs goes on, nothing more is started")]
pub(crate) enum Queue {
    /// List queues with the jobs that run and wait in them
    #[command(visible_alias = "ls")]
    List,
    /// Start no more jobs of a queue; those that run go on
    Pause {
        /// The queues
        #[arg(value_name = "QUEUE", required = true, value_parser = QueueName::parse)]
        queues: Vec<QueueName>,
    },
    /// Start jobs of a paused queue again
    Resume {
        /// The queues
        #[arg(value_name = "QUEUE", required = true, value_parser = QueueName::parse)]
        queues: Vec<QueueName>,
    },
    /// Say how many jobs of a queue run at once
    ///
    /// Of more jobs that run already none is ended. `[queue.NAME] parallel` of config.toml or outlive.toml says the same for good, and
    /// counts again when it is changed there.
    Parallel {
        /// The queue
        #[arg(value_name = "QUEUE", value_parser = QueueName::parse)]
        queue: QueueName,

        /// How many, from 1 to 500
        #[arg(value_name = "COUNT")]
        count: u64,
    },
}
