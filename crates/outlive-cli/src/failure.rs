//! What went wrong, for people and for scripts: what, why, and what to do next.
//!
//! One table gives each kind its stable code and its exit status; `docs/reference/exit-status.md` is made from it.

use std::error::Error;
use std::process::ExitCode;

use outlive::{
    AgentError, ConfigError, ControlError, FindError, LimitError, RemoveError, SessionError, StartError,
    StoreError, WaitError,
};
use serde::Serialize;

use crate::render::one_line;

/// Exit status: something failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status: the command line makes no sense.
pub(crate) const USAGE: u8 = 2;
/// Exit status: no such job.
pub(crate) const NOT_FOUND: u8 = 3;
/// Exit status: the time to wait was over.
pub(crate) const TIMED_OUT: u8 = 4;
/// Exit status: a limit is reached.
pub(crate) const LIMIT: u8 = 5;
/// Exit status: what was waited for can no longer come.
pub(crate) const NOT_REACHED: u8 = 6;
/// Exit status: the program could not be executed.
pub(crate) const CANNOT_START: u8 = 126;
/// Exit status: there is no such program.
pub(crate) const NO_PROGRAM: u8 = 127;

/// Exit status: Ctrl-C ended the waiting.
pub(crate) const INTERRUPTED: u8 = 130;

/// Every exit status with its meaning, for the reference.
pub(crate) const TABLE: &[(&str, &str)] = &[
    ("0", "done. For `wait`: what was waited for came; jobs have ended, however they did"),
    ("1", "failed: the store, a keeper or a job refused; the message says which"),
    ("2", "the command line makes no sense"),
    ("3", "no such job, or the reference fits several"),
    ("4", "the time to wait was over; the jobs go on"),
    ("5", "a limit is reached"),
    (
        "6",
        "`wait`: what was waited for can no longer come: the job ended first, was not ready in its time, or printed what --fail-match looks for",
    ),
    ("126", "`run`: the program is there and could not be started"),
    ("127", "`run`: there is no such program"),
    ("130", "`run --wait`: Ctrl-C ended the waiting; the job goes on"),
    ("other", "`run --wait`: the command's own; 128 + n if signal n ended it"),
];

/// What went wrong.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    exit: u8,
    message: String,
    hint: Option<String>,
    /// The job it is about, for scripts.
    job: Option<String>,
}

#[derive(Serialize)]
struct Wrapped<'a> {
    error: Object<'a>,
}

/// A failure as scripts see it.
#[derive(Serialize)]
pub(crate) struct Object<'a> {
    code: &'a str,
    message: &'a str,
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code: "usage", exit: USAGE, message: message.into(), hint: Some(hint.into()), job: None }
    }

    pub(crate) fn other(what: &str, error: &dyn Error) -> Self {
        Self {
            code: "failed",
            exit: FAILED,
            message: format!("{what}: {}", chain(error)),
            hint: None,
            job: None,
        }
    }

    pub(crate) fn timed_out(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code: "timed_out",
            exit: TIMED_OUT,
            message: message.into(),
            hint: Some(hint.into()),
            job: None,
        }
    }

    pub(crate) fn not_reached(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code: "not_reached",
            exit: NOT_REACHED,
            message: message.into(),
            hint: Some(hint.into()),
            job: None,
        }
    }

    pub(crate) fn no_group(what: &str, group: &str) -> Self {
        Self {
            code: "not_found",
            exit: NOT_FOUND,
            message: format!("{what}: there is no job of group {group:?}"),
            hint: Some(
                "`outlive list` shows all jobs; `outlive run --group` starts one in a group".to_owned(),
            ),
            job: None,
        }
    }

    /// Names the job that it is about.
    pub(crate) fn about(mut self, job: &outlive::JobId) -> Self {
        self.job = Some(job.to_string());
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the object for scripts.
    pub(crate) fn object(&self) -> Object<'_> {
        Object {
            code: self.code,
            message: &self.message,
            hint: self.hint.as_deref(),
            job: self.job.as_deref(),
        }
    }

    /// Tells the user, and returns the exit status.
    pub(crate) fn report(&self, is_json: bool) -> ExitCode {
        use std::io::Write;
        let mut stderr = std::io::stderr().lock();
        let told = if is_json {
            let json = serde_json::to_string(&Wrapped { error: self.object() }).unwrap_or_default();
            writeln!(stderr, "{json}")
        } else {
            let hint = self.hint.as_deref().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
            let message = if self.code == "config" { self.message.clone() } else { one_line(&self.message) };
            write!(stderr, "outlive: {message}\n{hint}")
        };
        // With standard error closed there is nobody left to tell; the exit status still does.
        drop(told);
        ExitCode::from(self.exit)
    }
}

/// Joins an error and its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = io_text(error);
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {}", io_text(cause));
        source = cause.source();
    }
    text
}

/// The system's words without its "(os error 2)".
fn io_text(error: &dyn Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Self::other("store", &error);
        match &error {
            StoreError::NoHome | StoreError::Relative(_) => {
                failure.hint("set OUTLIVE_HOME to an absolute path")
            }
            StoreError::NotAStore(_) => failure.hint("set OUTLIVE_HOME to a directory of its own"),
            StoreError::Version { .. } => {
                failure.hint("update outlive, or set OUTLIVE_HOME to another directory")
            }
            StoreError::Config(ConfigError::Parse { .. }) => {
                Self { code: "config", ..failure }.hint("docs/guide/configuration.md has every key")
            }
            StoreError::Io { path, .. } => failure
                .hint(format!("{} must be a directory that you own, on a disk with room", path.display())),
            StoreError::Config(_) => failure,
        }
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        let failure = Self::other("wait", &error);
        match &error {
            WaitError::NoReady(job) => Self { code: "usage", exit: USAGE, ..failure }.about(job).hint(
                "say it when you start it: outlive run --ready-on, --ready-port or --ready-http; or wait for --match, --port or --http",
            ),
            WaitError::Condition(_) => Self { code: "usage", exit: USAGE, ..failure },
            WaitError::Io(_) => failure.hint("`outlive doctor` examines the store"),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let failure = Self::other("run", &error);
        match &error {
            StartError::Request(_) => Self { code: "usage", exit: USAGE, ..failure }.hint("outlive run --help has examples"),
            StartError::Limit(LimitError::Bytes { .. }) => Self { code: "limit_reached", exit: LIMIT, ..failure }
                .hint("give a smaller --output-cap, end a job, or raise bytes of [limits] in config.toml"),
            StartError::Limit(_) => Self { code: "limit_reached", exit: LIMIT, ..failure }
                .hint("end one with `outlive kill JOB`, or raise [limits] in config.toml; `outlive list` shows them"),
            StartError::NeverStarted { job, why } => Self {
                code: "not_started",
                exit: if why.is_not_found() { NO_PROGRAM } else { CANNOT_START },
                job: Some(job.to_string()),
                ..failure
            }
            .hint(start_hint(why.step.as_str(), job.as_str())),
            StartError::NoKeeper => failure.hint("install outlive-keeper beside outlive, or set OUTLIVE_KEEPER to its path"),
            StartError::NoHelper => failure.hint("install outlive beside this program, or set OUTLIVE_PROGRAM to its path"),
            StartError::Silent { job } => {
                Self { job: Some(job.to_string()), ..failure }.hint(format!("`outlive show {job}` tells what became of it"))
            }
            StartError::Store { .. } => failure.hint("`outlive doctor` examines the store; `outlive gc` makes room"),
            StartError::Keeper { .. } | StartError::KeeperVersion { .. } => {
                failure.hint("install outlive and outlive-keeper of the same version side by side")
            }
        }
    }
}

fn start_hint(step: &str, job: &str) -> String {
    match step {
        "exec" => "give a program that is in PATH or a path to one; a line for the shell goes in quotes: outlive run 'LINE'".to_owned(),
        "directory" => "give an existing directory with --cwd".to_owned(),
        _ => format!("`outlive show {job}` has the record"),
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Self {
        let message = chain(&error);
        match &error {
            FindError::Unknown(_) => Self {
                code: "not_found",
                exit: NOT_FOUND,
                message: format!("{message}: there is none of this id, name or prefix"),
                hint: Some("`outlive list` shows all jobs".to_owned()),
                job: None,
            },
            FindError::Ambiguous { .. } => Self {
                code: "ambiguous",
                exit: NOT_FOUND,
                message,
                hint: Some("give more of the id".to_owned()),
                job: None,
            },
            FindError::Damaged { id, source } => Self {
                code: if source.is_newer() { "newer" } else { "damaged" },
                exit: FAILED,
                message,
                hint: (!source.is_newer())
                    .then(|| "`outlive doctor --fix` moves it out of the way".to_owned()),
                job: Some(id.to_string()),
            },
            FindError::Port { port, is_taken } => Self {
                code: "not_found",
                exit: NOT_FOUND,
                message: format!("kill: {message}"),
                hint: Some(if *is_taken {
                    format!(
                        "somebody else does, and outlive ends only its own jobs; `ss -ltnp 'sport = :{port}'` shows who"
                    )
                } else {
                    "nobody else does either; `outlive list --live --ports` shows the ports of all jobs"
                        .to_owned()
                }),
                job: None,
            },
            FindError::Store(_) => Self::other("store", &error).hint("`outlive doctor` examines it"),
        }
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let failure = Self::other("agent", &error);
        match &error {
            AgentError::Id | AgentError::Kind => {
                Self { code: "usage", exit: USAGE, ..failure }.hint("outlive agent --help has examples")
            }
            AgentError::Unknown(_) => Self { code: "not_found", exit: NOT_FOUND, ..failure }
                .hint("`outlive agent list` shows all agents"),
            AgentError::Ambiguous { .. } => {
                Self { code: "ambiguous", exit: NOT_FOUND, ..failure }.hint("say whose it is: --session NAME")
            }
            AgentError::Over(_) => Self { code: "ended", ..failure }.hint("nothing is left to be stopped"),
            AgentError::Store(_) => failure.hint("`outlive doctor` examines the store"),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let failure = Self::other("session", &error);
        match &error {
            SessionError::Unknown(_) => Self { code: "not_found", exit: NOT_FOUND, ..failure }
                .hint("`outlive session list` shows all sessions"),
            SessionError::Exists(name) => Self { code: "exists", ..failure }
                .hint(format!("close it first: outlive session close {name}")),
            SessionError::Live { .. } => Self { code: "live", ..failure }
                .hint("say what becomes of them: --running kill or --running transfer"),
            SessionError::ToItself(_) => {
                Self { code: "usage", exit: USAGE, ..failure }.hint("end them with --running kill")
            }
            SessionError::Kill { job, .. } | SessionError::Survivors(job) => {
                failure.about(job).hint(format!("`outlive show --tree {job}` shows what is left of it"))
            }
            SessionError::Elsewhere(job) => Self { code: "elsewhere", ..failure }
                .about(job)
                .hint("ask from the host or container that started it"),
            SessionError::Store(_) => failure.hint("`outlive doctor` examines the store"),
        }
    }
}

impl Failure {
    pub(crate) fn control(what: &str, error: &ControlError) -> Self {
        let failure = Self::other(what, error);
        match error {
            ControlError::Ended(job) => {
                Self { code: "ended", ..failure }.hint(format!("`outlive logs {job}` has what it printed"))
            }
            ControlError::Orphaned(job) => Self { code: "orphaned", ..failure }
                .hint(format!("it can still be ended: outlive kill {job}")),
            ControlError::Elsewhere(_) => {
                Self { code: "elsewhere", ..failure }.hint("ask from the host or container that started it")
            }
            ControlError::OwnAncestor(job) => Self { code: "own_ancestor", ..failure }
                .about(job)
                .hint("let the command exit by itself, or ask from outside the job"),
            ControlError::Unreachable { job, .. } => Self { code: "unreachable", ..failure }
                .hint(format!("is its keeper stopped? `outlive show {job}` has the pid")),
            ControlError::Refused { code, .. } if code == "stdin_closed" => {
                Self { code: "stdin_closed", ..failure }
                    .hint("start the job with `outlive run --stdin open`; after --eof it stays closed")
            }
            ControlError::NotReading { .. } => Self { code: "not_reading", ..failure }
                .hint("what was taken will reach the command when it reads; send the rest later"),
            ControlError::Store { .. } => failure.hint("`outlive doctor` examines the store"),
            ControlError::TooOld(job) => Self { code: "too_old", ..failure }.about(job).hint(format!(
                "a job keeps the keeper that it was started with; start it anew for this: outlive kill {job}"
            )),
            ControlError::Version { job, .. } => Self { code: "version", ..failure }.about(job).hint(
                "use the version of outlive that started it; `outlive logs` and `show` work all the same",
            ),
            ControlError::Refused { .. } => failure,
        }
    }

    pub(crate) fn remove(error: &RemoveError) -> Self {
        let failure = Self::other("remove", error);
        match error {
            RemoveError::Live(job) => {
                Self { code: "live", ..failure }.hint(format!("end it first: outlive kill {job}"))
            }
            RemoveError::Elsewhere(_) => Self { code: "elsewhere", ..failure }
                .hint("remove it from the host or container that started it"),
            RemoveError::Io { .. } => failure,
        }
    }
}

impl Failure {
    /// What keeps a client's settings from being changed.
    pub(crate) fn setup(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code: "setup",
            exit: FAILED,
            message: format!("setup: {}", message.into()),
            hint: Some(hint.into()),
            job: None,
        }
    }
}
