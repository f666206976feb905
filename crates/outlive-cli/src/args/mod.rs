//! The command line, declared once: help, completions and the reference are made from it.

mod agents;
mod control;
mod filters;
mod groups;
mod looking;
mod options;
mod project;
mod reach;
mod run;
mod serving;
mod sessions;
mod upkeep;
mod values;
mod waiting;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use outlive::SessionName;

pub(crate) use self::agents::{ClientChoice, Mcp, Setup, Wake};
pub(crate) use self::control::{Attach, Jobs, Kill, LiveJobs, Queue, Remove, Resize, Restart, Send};
pub(crate) use self::groups::{grouped, help_columns};
pub(crate) use self::looking::{Color, Export, List, Logs, Play, Screen, Show, Top};
pub(crate) use self::project::{Converge, Down, Import, OfProject, Status, Template, Up, Why};
pub(crate) use self::reach::{Input, REACHED, Reach, Resumes, There};
pub(crate) use self::run::Run;
pub(crate) use self::serving::{Open, Serve, Token};
pub(crate) use self::sessions::{Agent, Events, Inbox, NoticeForm, Session};
pub(crate) use self::upkeep::{
    Complete, Cursor, Deliver, Doctor, LastAct, OnExit, Page, Placed, Probe, Rows, Upgrade,
};
pub(crate) use self::values::{Since, Timeout};
pub(crate) use self::waiting::{Wait, Watch};

/// Background processes for AI agents and people.
///
/// A job outlives the program, terminal and connection that started it, and outlive itself. Start a command and get a
/// handle at once; read what it prints; wait for its end; stop it with everything it started.
#[derive(Debug, Parser)]
#[command(name = "outlive", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(
    after_help = "A JOB is an id (vite-3f9c), its last part, or a name; for verbs that only look, also the beginning of an id.\n\
Jobs live in $OUTLIVE_HOME, else $XDG_STATE_HOME/outlive, else ~/.local/state/outlive."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,

    /// None: `outlive` alone.
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
}

/// What goes with every verb.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Global options", disable_help_flag = true)]
pub(crate) struct Common {
    /// Print JSON: for scripts and other programs
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// The session to start jobs in, and whose jobs to see
    ///
    /// Without it, `run` starts in $OUTLIVE_SESSION, else in `default`, and all other commands see all sessions.
    #[arg(long, global = true, value_name = "NAME", value_parser = SessionName::parse)]
    pub(crate) session: Option<SessionName>,

    /// Name of the reader; what it has already received is not repeated
    ///
    /// Without it, the conversation that the environment names ($OUTLIVE_READER, or the variable of an agent's client), else
    /// `default`.
    #[arg(long, global = true, value_name = "NAME", value_parser = SessionName::parse)]
    pub(crate) reader: Option<SessionName>,

    /// Do it on another machine, or in another store: a name from `[hosts]` of config.toml, ssh://HOST, unix://PATH or
    /// http://ADDR:PORT
    ///
    /// Without it, $OUTLIVE_HOST. A server is asked at a path or an address (`outlive serve`), with $OUTLIVE_TOKEN at an address; by
    /// SSH nothing has to run or to be installed there. `list` takes `all`, and `local` is this machine.
    #[arg(long, global = true, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Act as the user that owns the store; for root
    ///
    /// Gives up root's rights before anything is read, with that user's groups, HOME, USER and LOGNAME. What is started and
    /// written is then the user's. Without it, root does not use a store of another user.
    #[arg(long, global = true)]
    pub(crate) as_owner: bool,

    // Declared here because clap's own would stand under another heading.
    #[arg(long, short, global = true, action = clap::ArgAction::Help)]
    #[arg(help = "Print help (see more with '--help')", long_help = "Print help (see a summary with '-h')")]
    help: (),
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Box<Run>),
    List(List),
    Top(Top),
    Show(Show),
    #[command(visible_alias = "log")]
    Logs(Logs),
    Screen(Screen),
    Export(Export),
    Play(Play),
    Wait(Wait),
    Watch(Watch),
    /// Forget what jobs have printed so far
    ///
    /// The jobs go on undisturbed; offsets and line numbers go on from where they are.
    Clear(Jobs),
    Send(Send),
    Attach(Attach),
    Resize(Resize),
    Kill(Kill),
    Restart(Restart),
    /// Stop every process of jobs where it is
    ///
    /// Nothing is lost and nothing runs until `outlive resume`. The job's time goes on: one whose deadline comes while it is
    /// paused is ended.
    Pause(LiveJobs),
    /// Let paused jobs go on
    Resume(LiveJobs),
    Remove(Remove),
    Up(Up),
    Down(Down),
    Status(Status),
    Why(Why),
    #[command(subcommand)]
    Template(Template),
    Import(Import),
    #[command(subcommand)]
    Queue(Queue),
    Events(Events),
    Open(Open),
    Serve(Serve),
    #[command(subcommand)]
    Token(Token),
    Mcp(Mcp),
    Wake(Wake),
    #[command(subcommand)]
    Session(Session),
    Inbox(Inbox),
    #[command(subcommand)]
    Agent(Agent),
    /// Remove now what the configuration no longer keeps
    ///
    /// Ended jobs stay for 7 days, and 20 GiB of them in all, unless `[retention]` of `config.toml` says otherwise. `outlive run` does
    /// this by itself every ten minutes at most; `outlive rm` removes jobs whatever their age.
    Gc,
    Deliver(Deliver),
    Doctor(Doctor),
    Upgrade(Upgrade),
    Setup(Setup),
    /// Print the completion script of a shell; `outlive setup shell` installs it
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print help on a verb, or a guide
    #[command(
        after_help = "Guides: agents, clients, configuration, containment, hosts, inbox, output-forms, projects, recovery, scripts, serve, sessions, \
    terminals, waking-agents, whose-store."
    )]
    Help {
        /// A verb (`run`, `session create`) or the name of a guide
        #[arg(value_name = "TOPIC")]
        topic: Vec<String>,
    },
    /// Write the manual pages into a directory
    Man {
        /// The directory, such as ~/.local/share/man/man1; the name of a verb or a guide shows its help
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Tell a shell what may stand where the cursor is
    #[command(hide = true)]
    Complete(Complete),
    /// Speak the API of `outlive serve` on standard input and output, for `--host ssh://…`
    #[command(hide = true)]
    Rpc {
        /// Say first that it runs, for a client that reaches it through a shell with words of its own
        #[arg(long)]
        greet: bool,
    },
    /// Print the version
    #[command(hide = true)]
    Version,
    /// Start the jobs of a project in their order, in the background
    #[command(hide = true)]
    Converge(Converge),
    /// Tell where the cursor of a job's terminal was, for its keeper
    #[command(hide = true)]
    Cursor(Cursor),
    /// Run the command and send the notice that a job asked for at its end: its keeper becomes this
    // Keepers of an earlier build that are still running call it by its old name.
    #[command(hide = true, alias = "parting")]
    OnExit(LastAct),
    /// Make the next run of a job that is started again by itself: its keeper starts this
    #[command(hide = true)]
    NextRun(OnExit),
    /// Begin a job that an engine has placed on this node, and become its keeper's process: the engine starts this
    #[command(hide = true)]
    Placed(Placed),
    /// Let jobs come back after a restart of the machine; `outlive setup boot` lets this run then
    #[command(hide = true)]
    Boot,
    /// Look whether a job is ready, in the background
    #[command(hide = true)]
    Probe(Probe),
    /// Print the screen of a job's terminal as it changes, for the HTTP server
    #[command(hide = true)]
    Rows(Rows),
    /// Print a page of the reference
    #[command(hide = true)]
    Reference {
        /// The page
        page: Page,
    },
}
