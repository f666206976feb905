//! The command line, declared once: help, completions and the reference are made from it.

mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use outlive::{
    Budget, HttpAddress, JobId, LabelFilter, Level, Nonce, SessionName, Signal, Survivors, Timestamp,
};
use outlive_mcp::Profile;

pub(crate) use self::values::{ByteRange, Cap, StdinChoice, StreamChoice, Timeout};
use self::values::{
    parse_address, parse_budget, parse_cap, parse_cpus, parse_duration, parse_environment, parse_id,
    parse_label, parse_level, parse_lifetime, parse_memory, parse_nonce, parse_profile, parse_range,
    parse_session, parse_signal, parse_survivors, parse_time, parse_timeout, parse_variable,
};

/// Background processes for AI agents and people.
///
/// A job outlives the program, terminal and connection that started it, and outlive itself. Start a command and get a
/// handle at once; read what it prints; wait for its end; stop it with everything it started.
#[derive(Debug, Parser)]
#[command(name = "outlive", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "A JOB is an id (vite-3f9c), the beginning of one, or a name.\n\
Jobs live in $OUTLIVE_HOME, else $XDG_STATE_HOME/outlive, else ~/.local/state/outlive.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The same where only a job is started: to declare all the other verbs takes longer than to read the line, and a start waits.
#[derive(Debug, Parser)]
#[command(name = "outlive")]
pub(crate) struct Starting {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    verb: OnlyRun,
}

#[derive(Debug, Subcommand)]
enum OnlyRun {
    Run(Box<Run>),
}

impl From<Starting> for Arguments {
    fn from(starting: Starting) -> Self {
        let OnlyRun::Run(run) = starting.verb;
        Self { common: starting.common, verb: Verb::Run(run) }
    }
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
    #[arg(long, global = true, value_name = "NAME", value_parser = parse_session)]
    pub(crate) session: Option<SessionName>,

    /// Name of the reader; what it has already received is not repeated
    ///
    /// Without it, the conversation that the environment names ($OUTLIVE_READER, or the variable of an agent's client), else
    /// `default`.
    #[arg(long, global = true, value_name = "NAME", value_parser = parse_session)]
    pub(crate) reader: Option<SessionName>,

    // Declared here because clap's own would stand under another heading.
    #[arg(long, short, global = true, action = clap::ArgAction::Help)]
    #[arg(help = "Print help (see more with '--help')", long_help = "Print help (see a summary with '-h')")]
    help: (),
}

/// Lists the verbs by name.
pub(crate) fn verbs() -> impl Iterator<Item = String> {
    use clap::CommandFactory;
    let command = Arguments::command();
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    names.into_iter()
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(Box<Run>),
    List(List),
    Show(Show),
    Logs(Logs),
    Wait(Wait),
    Clear(Clear),
    Send(Send),
    Kill(Kill),
    Pause(Pause),
    Resume(Resume),
    Remove(Remove),
    Events(Events),
    Mcp(Mcp),
    Session(Session),
    Inbox(Inbox),
    Agent(Agent),
    Gc(Gc),
    Deliver(Deliver),
    Doctor(Doctor),
    Setup(Setup),
    Completions(Completions),
    /// Run the command and send the notice that a job asked for at its end: its keeper becomes this
    // Keepers of an earlier build that are still running call it by its old name.
    #[command(hide = true, alias = "parting")]
    OnExit(OnExit),
    /// Look whether a job is ready, in the background
    #[command(hide = true)]
    Probe(Probe),
    /// Print a page of the reference
    #[command(hide = true)]
    Reference(Reference),
}

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

    /// What to call it; need not be unique
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// The directory to start in
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Add a variable to the environment; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, OsString)>,

    /// Remove a variable from the environment; may be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) unset: Vec<String>,

    /// The shell for LINE; without it bash, else sh
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) shell: Option<PathBuf>,

    /// End it after so long; `none` for never
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    pub(crate) timeout: Option<Timeout>,

    /// How long it has to end once it was asked to
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// What it reads: nothing, or what `outlive send` writes
    #[arg(long, value_name = "null|open", default_value = "null")]
    pub(crate) stdin: StdinChoice,

    /// How much of its output is kept, such as 100M; `off` for all
    #[arg(long, value_name = "SIZE", value_parser = parse_cap)]
    pub(crate) output_cap: Option<Cap>,

    /// End it when all its processes together use more memory, such as 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, help_heading = "Limits")]
    pub(crate) memory: Option<u64>,

    /// At most so many processes and threads
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Limits")]
    pub(crate) pids: Option<u64>,

    /// At most so much processor time, such as 0.5 for half of one
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus, help_heading = "Limits")]
    pub(crate) cpu: Option<u64>,

    /// At most so many open files in each process
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(3..), help_heading = "Limits")]
    pub(crate) open_files: Option<u64>,

    /// What becomes of processes that the main one leaves behind: keep, kill or kill-after=DURATION
    #[arg(long, value_name = "CHOICE", value_parser = parse_survivors)]
    pub(crate) survivors: Option<Survivors>,

    /// What holds it together; without it the best that the machine has
    #[arg(long, value_name = "cgroup2|hybrid|freezer|sweep|group", value_parser = parse_level)]
    pub(crate) containment: Option<Level>,

    /// What it belongs to: several jobs of one group are waited for and ended together
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,

    /// Give it a label, by which `list` finds it; may be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,

    /// How long it may live: forever, session, or until=TIME
    #[arg(long, value_name = "CHOICE", value_parser = parse_lifetime)]
    pub(crate) lifetime: Option<LifetimeChoice>,

    /// It is ready when a line of its output matches this regular expression
    #[arg(long, value_name = "PATTERN", help_heading = "Readiness")]
    pub(crate) ready_on: Option<String>,

    /// It is ready when one of its processes listens on this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Readiness")]
    pub(crate) ready_port: Option<u16>,

    /// It is ready when this address answers with a status below 400
    #[arg(long, value_name = "URL", help_heading = "Readiness")]
    pub(crate) ready_http: Option<String>,

    /// Look for that so long; without it until its end
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Readiness")]
    pub(crate) ready_timeout: Option<Duration>,

    /// When it has ended, run this line in a shell, with the notice on its standard input
    #[arg(long, value_name = "LINE", help_heading = "At its end")]
    pub(crate) on_exit: Option<OsString>,

    /// When it has ended, send the notice to this address
    #[arg(long, value_name = "URL", help_heading = "At its end")]
    pub(crate) webhook: Option<String>,

    /// Wait so long, print what it has printed, and return while it goes on
    #[arg(long = "yield", value_name = "DURATION", value_parser = parse_duration, conflicts_with = "wait")]
    pub(crate) yield_after: Option<Duration>,

    /// Stream its output and exit with its code, or return while it goes on: once it has run for 2 s and printed something, if it
    /// runs npm, pnpm, yarn, node, python, python3, go, cargo, make, docker, webpack, vite, jest or pytest
    #[arg(long, conflicts_with_all = ["wait", "yield_after"])]
    pub(crate) auto_background: bool,

    /// Stream its output and exit with its code; with a duration, wait only so long
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "none", value_parser = parse_timeout)]
    pub(crate) wait: Option<Timeout>,
}

/// How long a job may live, as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LifetimeChoice {
    Forever,
    Session,
    Until(Timestamp),
}

/// List jobs, the newest last
#[derive(Debug, Args)]
#[command(visible_alias = "ps")]
pub(crate) struct List {
    /// Only jobs of this group
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,

    /// Only jobs with this label, of any value or of this one; may be given again
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) label: Vec<LabelFilter>,

    /// Only jobs of which something still runs
    #[arg(long)]
    pub(crate) live: bool,

    /// Show processor time, memory and processes, too, and sums where there are several sessions
    #[arg(long)]
    pub(crate) usage: bool,

    /// Show the TCP ports that each listens on, too
    #[arg(long)]
    pub(crate) ports: bool,
}

/// Show all that is known of a job
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Which job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Show the values of variables, too
    #[arg(long)]
    pub(crate) show_env: bool,

    /// Show its processes as a tree, each with processor time, memory and ports
    #[arg(long, conflicts_with = "show_env")]
    pub(crate) tree: bool,
}

/// Print what a job printed
///
/// On a terminal control sequences are left out, so that a log cannot drive it; into a pipe or file the bytes go as they
/// are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive logs -n 20 web                       # the last lines\n  \
outlive logs -f web --grep 'error|warn' -i   # follow what matters\n  \
outlive logs --budget 8K tests               # beginning, end, and the errors between\n  \
outlive logs --cursor me tests               # what is new since last time")]
pub(crate) struct Logs {
    /// Which job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// Only the last lines; with --from-line, so many from there
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) lines: Option<u64>,

    /// From this line on; numbers never shift
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["bytes", "cursor"])]
    pub(crate) from_line: Option<u64>,

    /// Only these bytes: 100..200, 100.. or ..200
    #[arg(long, value_name = "RANGE", value_parser = parse_range, conflicts_with = "cursor")]
    pub(crate) bytes: Option<ByteRange>,

    /// Only what came since then: a time (2026-11-15T06:21:09Z) or how long ago (5m)
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) since: Option<Timestamp>,

    /// Only what came until then
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) until: Option<Timestamp>,

    /// Only lines that match this regular expression
    #[arg(long, short, value_name = "PATTERN")]
    pub(crate) grep: Option<String>,

    /// Only lines that do not match --grep
    #[arg(long, requires = "grep")]
    pub(crate) invert: bool,

    /// Take no notice of upper and lower case in --grep
    #[arg(long, short, requires = "grep")]
    pub(crate) ignore_case: bool,

    /// So many lines around each that matches
    #[arg(long, short = 'C', value_name = "COUNT", requires = "grep", default_value_t = 0)]
    pub(crate) context: usize,

    /// The bytes as they are
    #[arg(long, conflicts_with_all = ["plain", "rendered"])]
    pub(crate) raw: bool,

    /// Without control sequences
    #[arg(long, conflicts_with = "rendered")]
    pub(crate) plain: bool,

    /// What a terminal would have left on the page: progress bars in their last state
    #[arg(long, conflicts_with = "follow")]
    pub(crate) rendered: bool,

    /// Begin each line with its time
    #[arg(long, short)]
    pub(crate) timestamps: bool,

    /// So many lines of the beginning
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["lines", "follow"])]
    pub(crate) head: Option<u64>,

    /// So many lines of the end
    #[arg(long, value_name = "COUNT", conflicts_with = "lines")]
    pub(crate) tail: Option<u64>,

    /// Beginning and end within 8K bytes, 200l lines or 2000t tokens, with the errors between
    #[arg(long, value_name = "AMOUNT", value_parser = parse_budget, conflicts_with_all = ["lines", "head", "tail", "follow"])]
    pub(crate) budget: Option<Budget>,

    /// What is new since this name was used last
    #[arg(long, value_name = "NAME", value_parser = parse_session, conflicts_with_all = ["lines", "head", "tail"])]
    pub(crate) cursor: Option<SessionName>,

    /// Go on until the job's last process is gone
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Only one stream
    #[arg(long, value_name = "stdout|stderr")]
    pub(crate) stream: Option<StreamChoice>,
}

/// Wait for jobs: for their end, or for what comes before it
///
/// Without more, until all have ended. With conditions, until the first of them holds, for each job (`--all`, this is the
/// default) or for one of them (`--any`); the end of a job ends the waiting for it, too. Jobs are named, or those of a group, or
/// with --session alone all that are live in it now.
///
/// Exits with 0 when what was waited for came, however jobs ended; with 4 when the time is over, and the jobs go on; with 6
/// when it can no longer come: a job ended first, was not ready in its time, or printed what --fail-match looks for.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive wait tests                           # until it has ended\n  \
outlive wait web --ready --timeout 1m        # as `run --ready-…` said\n  \
outlive wait web --match 'listening on' --fail-match 'EADDRINUSE'\n  \
outlive wait --group build --any             # the first of a group\n  \
outlive wait --session ci --event            # whatever happens next")]
pub(crate) struct Wait {
    /// Which jobs
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<String>,

    /// The jobs of this group
    #[arg(long, value_name = "NAME", conflicts_with = "jobs")]
    pub(crate) group: Option<String>,

    /// Of each of them (this is the default)
    #[arg(long)]
    pub(crate) all: bool,

    /// Of the first of them
    #[arg(long, conflicts_with = "all")]
    pub(crate) any: bool,

    /// It is ready, by what `run --ready-…` said
    #[arg(long, help_heading = "Conditions")]
    pub(crate) ready: bool,

    /// A line of its output matches this regular expression; lines that are there already count
    #[arg(long = "match", value_name = "PATTERN", help_heading = "Conditions")]
    pub(crate) matches: Option<String>,

    /// A line matches this: give up at once, with exit status 6
    #[arg(long, value_name = "PATTERN", help_heading = "Conditions")]
    pub(crate) fail_match: Option<String>,

    /// Take no notice of upper and lower case in patterns
    #[arg(long, short, help_heading = "Conditions")]
    pub(crate) ignore_case: bool,

    /// Only lines from this number on count
    #[arg(long, value_name = "NUMBER", help_heading = "Conditions")]
    pub(crate) from_line: Option<u64>,

    /// One of its processes listens on this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Conditions")]
    pub(crate) port: Option<u16>,

    /// This address answers with a status below 400
    #[arg(long, value_name = "URL", value_parser = parse_address, help_heading = "Conditions")]
    pub(crate) http: Option<HttpAddress>,

    /// It has printed nothing for so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Conditions")]
    pub(crate) idle: Option<Duration>,

    /// Anything happens to these jobs, or in the session
    #[arg(long, help_heading = "Conditions")]
    pub(crate) event: bool,

    /// With --event: after this sequence, and not only from now on
    #[arg(long, value_name = "SEQ", requires = "event", help_heading = "Conditions")]
    pub(crate) since: Option<u64>,

    /// Wait at most so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
}

/// Forget what jobs have printed so far
///
/// The jobs go on undisturbed; offsets and line numbers go on from where they are.
#[derive(Debug, Args)]
pub(crate) struct Clear {
    /// Which jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
}

/// Write to a job's standard input
///
/// The job must have been started with `--stdin open`.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Which job
    #[arg(value_name = "JOB")]
    pub(crate) job: String,

    /// What to write; a newline is added. With `-`, or without it and without --eof, standard input is copied as it is
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<OsString>,

    /// Do not add a newline
    #[arg(short = 'n', long)]
    pub(crate) no_newline: bool,

    /// Then close its standard input
    #[arg(long)]
    pub(crate) eof: bool,
}

/// End jobs with everything they started
///
/// Sends TERM to every process of the job, then, after the grace, KILL until nothing is left. With `--signal` alone it
/// sends that signal and no more. A job that this very command runs inside is refused.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive kill web\n  \
outlive kill --port 8080              # whichever job listens there\n  \
outlive kill --group build            # every live job of a group\n  \
outlive kill --session ci --all       # every live job of a session")]
pub(crate) struct Kill {
    /// Which jobs
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

    /// And the jobs that were started from inside them
    #[arg(long)]
    pub(crate) nested: bool,

    /// Send this signal; with --grace, in place of TERM
    #[arg(long, short, value_name = "SIGNAL", value_parser = parse_signal)]
    pub(crate) signal: Option<Signal>,

    /// How long it has before KILL; without it the job's own grace
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// KILL at once
    #[arg(long, short, conflicts_with_all = ["signal", "grace"])]
    pub(crate) force: bool,
}

/// Stop every process of jobs where it is
///
/// Nothing is lost and nothing runs until `outlive resume`. The job's time goes on: one whose deadline comes while it is
/// paused is ended.
#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Which jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
}

/// Let paused jobs go on
#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Which jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
}

/// Remove ended jobs with their output
#[derive(Debug, Args)]
#[command(visible_alias = "rm")]
pub(crate) struct Remove {
    /// Which jobs
    #[arg(value_name = "JOB", required = true)]
    pub(crate) jobs: Vec<String>,
}

/// Tell what happened to jobs
///
/// Started, ready, nearly at a limit, flooded with output, exited, orphaned, lost, removed: each fact once, in the order in
/// which it was written down. An ending comes with its outcome and the end of the output.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only what came after this sequence; with --session
    #[arg(long, value_name = "SEQ")]
    pub(crate) since: Option<u64>,

    /// Go on, and tell what happens from then on
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// Serve an AI agent's client: the Model Context Protocol on standard input and output
///
/// Clients start this themselves: give them the command `outlive mcp`. Jobs belong to the session of the client's project
/// unless --session names another, and go on when the server ends.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// The tools that it has: outlive's own, or those of a design that agents already know
    #[arg(long, value_name = "NAME", value_parser = parse_profile, default_value = "native")]
    pub(crate) profile: &'static Profile,

    /// See the jobs of all sessions, not only those of the project
    #[arg(long)]
    pub(crate) all_sessions: bool,

    /// What jobs start with: the server's environment, that of a login shell, or only what is needed
    #[arg(long, value_name = "inherit|login|clean", value_parser = parse_environment)]
    pub(crate) env: Option<outlive::JobEnvironment>,
}

/// Make, list, show and close sessions, and move jobs between them
///
/// A session is whose a job is, and so who sees it. It is there as soon as a job is started in it; `create` also says what
/// its jobs start from.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive session create shop --cwd ~/shop --env PORT=3000\n  \
outlive --session shop run 'npm run dev'\n  \
outlive session close shop --running kill")]
pub(crate) struct Session {
    #[command(subcommand)]
    pub(crate) verb: SessionVerb,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionVerb {
    /// Make a session, and say what its jobs start from
    Create {
        /// Its name
        #[arg(value_name = "NAME", value_parser = parse_session)]
        name: SessionName,

        /// The directory that its jobs start in
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,

        /// Add a variable to the environment of its jobs; may be given again
        #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
        env: Vec<(String, OsString)>,
    },
    /// List sessions with the numbers of their jobs
    List {
        /// Show processor time, memory and processes, too
        #[arg(long)]
        usage: bool,
    },
    /// Show all that is known of a session
    Show {
        /// Which; without it the one that `run` would start in
        #[arg(value_name = "NAME", value_parser = parse_session)]
        name: Option<SessionName>,

        /// Show the values of variables, too
        #[arg(long)]
        show_env: bool,
    },
    /// Close a session; one with live jobs only if it is said what becomes of them
    Close {
        /// Which
        #[arg(value_name = "NAME", value_parser = parse_session)]
        name: SessionName,

        /// What becomes of its live jobs: they keep it open, are ended, or are given to the session `default`
        #[arg(long, value_name = "refuse|kill|transfer", default_value = "refuse")]
        running: RunningChoice,
    },
    /// Give jobs to another session
    Transfer {
        /// Which jobs
        #[arg(value_name = "JOB", required = true)]
        jobs: Vec<String>,

        /// To which session
        #[arg(long, value_name = "NAME", value_parser = parse_session)]
        to: SessionName,
    },
}

/// What becomes of the live jobs of a session that is closed, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunningChoice {
    Refuse,
    Kill,
    Transfer,
}

/// Tell which jobs have ended since last time
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

    /// As text for people and models, or as messages for a conversation
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
/// An agent is work that another program does. outlive keeps note of it for all who ask, and reads the file that it writes to; it neither
/// starts nor ends it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive agent register explore-1 --type explore --output /tmp/explore-1.output\n  \
outlive agent output explore-1\n  \
outlive agent done explore-1            # or: done --failed, stop")]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) verb: AgentVerb,
}

/// What to do with agents.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentVerb {
    /// Note that an agent runs; one of this id is forgotten
    Register {
        /// What to call it
        #[arg(value_name = "ID")]
        id: String,

        /// What kind of agent it is
        #[arg(long = "type", value_name = "TYPE")]
        kind: String,

        /// The file that it writes to
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
    /// List agents, the newest last
    List {},
    /// Show how an agent is doing
    Status {
        /// Which
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Print what an agent has written, at most the last MiB of it
    Output {
        /// Which
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Note that an agent is done
    Done {
        /// Which
        #[arg(value_name = "ID")]
        id: String,

        /// It did not do what it should
        #[arg(long)]
        failed: bool,
    },
    /// Note that nobody waits for an agent any more: it counts as failed
    Stop {
        /// Which
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Remove now what the configuration no longer keeps
#[derive(Debug, Args)]
pub(crate) struct Gc {}

/// Send the notices that wait
///
/// Jobs that were started with `--webhook` leave their notices in the store, and this runs by itself in the background until all
/// have arrived. One at a time does it: where another one is at it, this returns at once.
#[derive(Debug, Args)]
pub(crate) struct Deliver {
    /// Try each that is due once, and return
    #[arg(long)]
    pub(crate) once: bool,

    /// Try those that were given up again
    #[arg(long)]
    pub(crate) retry: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OnExit {
    /// Which job
    pub(crate) job: String,

    /// Which of those that ever had this id
    pub(crate) nonce: String,

    /// Where the store is
    #[arg(long, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,

    /// Its configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Examine the machine and the store
///
/// Tells what the kernel can do, what holds jobs together here, what they survive, how much is used of what is allowed, and
/// what is wrong with the store. Exits with 0 if nothing is wrong or all of it was put right, else with 1.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Move what is damaged to quarantine, and make what is missing
    #[arg(long)]
    pub(crate) fix: bool,
}

/// Tell an agent's client of the MCP server
///
/// Shows the exact change to the client's settings; with `--write` it is made. With the global `--session NAME` the server
/// always works for that session, else for the project that the agent is in.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive setup claude-code             # show what would be changed\n  \
outlive setup claude-code --write     # change it\n  \
outlive setup --print                 # the entry for any other client")]
pub(crate) struct Setup {
    /// Which client
    #[arg(value_name = "CLIENT", required_unless_present = "print")]
    pub(crate) client: Option<ClientChoice>,

    /// Make the change; the settings as they were stay beside them, in a file that ends in .before-outlive
    #[arg(long)]
    pub(crate) write: bool,

    /// Take the entry out again
    #[arg(long)]
    pub(crate) remove: bool,

    /// The tools that the server speaks; without it outlive's own
    #[arg(long, value_name = "NAME", value_parser = parse_profile)]
    pub(crate) profile: Option<&'static Profile>,

    /// Print the entry as JSON, for any other client
    #[arg(long, conflicts_with_all = ["client", "write", "remove"])]
    pub(crate) print: bool,
}

/// A client whose settings outlive knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientChoice {
    ClaudeCode,
    Codex,
    Gemini,
}

/// Print completions for a shell
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// For which shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Which job
    #[arg(value_parser = parse_id)]
    pub(crate) job: JobId,

    /// The very one: an id may be used again
    #[arg(value_parser = parse_nonce)]
    pub(crate) nonce: Nonce,
}

#[derive(Debug, Args)]
pub(crate) struct Reference {
    /// Which page
    pub(crate) page: Page,
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
}
