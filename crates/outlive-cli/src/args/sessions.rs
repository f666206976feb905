//! Sessions, what happened in them, and agents.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use outlive::{Running, SessionName};

use super::values::{Since, parse_since, parse_variable, running};

/// Make, list, show and close sessions, and move jobs between them
///
/// Every job belongs to a session, and `--session` shows only the jobs of that one. A session is there as soon as a job is
/// started in it; `create` also says what its jobs start from.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
outlive session create shop --cwd ~/shop --env PORT=3000\n  \
outlive --session shop run 'npm run dev'\n  \
outlive session close shop --running kill")]
pub(crate) enum Session {
    /// Make a session, and say what its jobs start from
    Create {
        /// Its name
        #[arg(value_name = "NAME", value_parser = SessionName::parse)]
        name: SessionName,

        /// The directory that its jobs start in
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,

        /// Add a variable to the environment of its jobs; may be given again
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
        env: Vec<(String, OsString)>,
    },
    /// List sessions with the numbers of their jobs
    #[command(visible_alias = "ls")]
    List {
        /// Show processor time, memory and processes, too
        #[arg(long)]
        usage: bool,
    },
    /// Show all that is known of a session
    Show {
        /// The session; without it the one that `run` would start in
        #[arg(value_name = "NAME", value_parser = SessionName::parse)]
        name: Option<SessionName>,

        /// Show the values of variables, too
        #[arg(long)]
        show_env: bool,
    },
    /// Close a session; one with live jobs only if it is said what becomes of them
    Close {
        /// The session
        #[arg(value_name = "NAME", value_parser = SessionName::parse)]
        name: SessionName,

        /// Its live jobs: refuse to close, kill them, or give them to the session `default`
        #[arg(long, value_name = "refuse|kill|transfer", default_value = "refuse", value_parser = running())]
        running: Running,
    },
    /// Give jobs to another session
    Transfer {
        /// The jobs
        #[arg(value_name = "JOB", required = true)]
        jobs: Vec<String>,

        /// The session that receives them
        #[arg(long, value_name = "NAME", value_parser = SessionName::parse)]
        to: SessionName,
    },
}

/// Tell what happened to jobs
///
/// Started, ready, nearly at a limit, flooded with output, exited, orphaned, lost, removed: each fact once, in the order in
/// which it was written down. An ending comes with its outcome and the end of the output.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only of this job
    #[arg(value_name = "JOB")]
    pub(crate) job: Option<String>,

    /// Only what came since then: 18:22, 'yesterday 9am', a date, or how long ago (5m); with --session also after a sequence (17)
    #[arg(long, value_name = "TIME|SEQ", value_parser = parse_since)]
    pub(crate) since: Option<Since>,

    /// Go on, and tell what happens from then on
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// List endings that this reader has not received yet
///
/// Each reader is told of each ending of the jobs that it started, at least once, whatever was down in between; and of those
/// whose starter has stayed away. What `wait`, `show`, `logs` or `kill` showed of a job's end is not told again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive inbox                            # what is new for this conversation or terminal\n  \
outlive --session web inbox --reader me --json")]
pub(crate) struct Inbox {
    /// Only look: all of it is told again next time
    #[arg(long)]
    pub(crate) peek: bool,

    /// Print text for people and models, or messages for a conversation
    #[arg(long, value_name = "text|message", default_value = "text", conflicts_with = "json")]
    pub(crate) form: NoticeForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NoticeForm {
    /// How each ended, and what it printed, quoted.
    Text,
    /// The message that a conversation gets.
    Message,
}

/// Keep note of background agents: register, list, read, and say that they are done
///
/// An agent is work that another program does. outlive keeps note of it, and reads the file that it writes to; it neither starts
/// nor ends it.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  \
outlive agent register explore-1 --type explore --output /tmp/explore-1.output\n  \
outlive agent output explore-1\n  \
outlive agent done explore-1            # or: done --failed, stop")]
pub(crate) enum Agent {
    /// Note that an agent runs; an earlier one of this id is forgotten
    Register {
        /// The id of the agent
        #[arg(value_name = "ID")]
        id: String,

        /// The kind of agent
        #[arg(long = "type", value_name = "TYPE")]
        kind: String,

        /// The file that it writes to
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// List agents, the newest last
    List,
    /// Show how an agent is doing
    Status(AgentId),
    /// Print what an agent has written, at most the last MiB of it
    Output(AgentId),
    /// Note that an agent is done
    Done {
        #[command(flatten)]
        agent: AgentId,

        /// Mark it as failed
        #[arg(long)]
        failed: bool,
    },
    /// Mark an agent as abandoned: it counts as failed
    Stop(AgentId),
}

#[derive(Debug, Args)]
pub(crate) struct AgentId {
    /// The agent
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}
