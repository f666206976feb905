//! The request for a new job.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use outlive_core::after::After;
use outlive_core::containment::{Level, Survivors};
use outlive_core::health::HealthThen;
use outlive_core::id::{JobId, QueueName, SessionName};
use outlive_core::job_option_setters;
use outlive_core::label::{self, LabelError, Labels, OwnLabel};
use outlive_core::options::JobChoices;
use outlive_core::options::kinds::*;
use outlive_core::placement::Placement;
use outlive_core::restart::{Rerun, RestartWhen};
use outlive_core::schedule::{Missed, Overlap, Planned};
use outlive_core::spec::{Lifetime, Stdin, StdinFrom, quote};
use outlive_core::terminal::size::TerminalSize;

use crate::output::search::PatternError;

/// Describes a job to start.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// A line for a shell; without it, `argv` is executed.
    pub(crate) shell_line: Option<OsString>,
    pub(crate) argv: Vec<OsString>,
    /// The run before this one.
    pub(crate) previous: Option<JobId>,
    /// Of a run that follows another by itself: when it may start, and the job that the first of them was started from.
    pub(crate) rerun: Option<(Rerun, Option<JobId>)>,
    /// Of a job with a schedule: when it is to begin.
    pub(crate) planned: Option<Planned>,
    /// What must hold of other jobs before the command is executed.
    pub(crate) after: Vec<After>,
    /// The job whose output it reads.
    pub(crate) stdin_from: Option<StdinFrom>,
    /// Patterns of files: when one changes, the job is restarted.
    pub(crate) restart_on_change: Vec<String>,
    /// Why it is started in place of the run before it.
    pub(crate) because: Option<String>,
    /// The command and arguments that a shell line was built from.
    pub(crate) words: Vec<OsString>,
    pub(crate) window_lines: Option<u64>,
    pub(crate) id: Option<JobId>,
    pub(crate) choices: JobChoices,
    pub(crate) session: SessionName,
    pub(crate) cwd: Option<PathBuf>,
    /// Replaces the caller's environment.
    pub(crate) env_base: Option<Vec<(OsString, OsString)>>,
    pub(crate) env_set: BTreeMap<String, OsString>,
    pub(crate) env_unset: Vec<String>,
    pub(crate) shell: Option<PathBuf>,
    /// Bash is to write down the exit codes of a pipeline at the end of the line.
    pub(crate) notes_pipe_codes: bool,
    pub(crate) reader: Option<SessionName>,
    pub(crate) labels: Labels,
    pub(crate) own_labels: Labels,
    /// What an engine is asked for, if one places the job.
    pub(crate) placement: Option<Placement>,
}

impl Request {
    /// Makes a request from a line for a shell.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self { shell_line: Some(line.into()), ..Self::default() }
    }

    /// Makes a line for a shell from a command, which the shell parses, and arguments, which are quoted.
    pub fn shell_words(command: &str, arguments: &[String]) -> Self {
        let mut line = command.to_owned();
        for argument in arguments {
            line.push(' ');
            line.push_str(&quote(argument));
        }
        let words = std::iter::once(command).chain(arguments.iter().map(String::as_str));
        Self { words: words.map(OsString::from).collect(), ..Self::shell(line) }
    }

    /// Makes a request from a program and its arguments, without a shell.
    pub fn argv<T: Into<OsString>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Sets the id, instead of a generated one; the start fails if another job has it.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets how many of the last lines front ends show. All output is kept.
    pub fn window_lines(mut self, lines: u64) -> Self {
        self.window_lines = Some(lines);
        self
    }

    /// Sets the session that owns the job.
    pub fn session(mut self, session: SessionName) -> Self {
        self.session = session;
        self
    }

    /// Sets the working directory; default: the caller's.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Replaces the caller's environment; [`Request::env`] and [`Request::unset`] apply on top.
    pub fn environment_base(mut self, variables: Vec<(OsString, OsString)>) -> Self {
        self.env_base = Some(variables);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.env_set.insert(name.into(), value.into());
        self
    }

    /// Removes an inherited environment variable.
    pub fn unset(mut self, name: impl Into<String>) -> Self {
        self.env_unset.push(name.into());
        self
    }

    /// Sets the shell for a command line; it must understand `-c`.
    pub fn with_shell(mut self, shell: impl Into<PathBuf>) -> Self {
        self.shell = Some(shell.into());
        self
    }

    /// Lets bash, if it is the shell, write down the exit codes of a pipeline at the end of the line, for [`crate::Job::pipe_codes`].
    pub fn note_pipe_codes(mut self) -> Self {
        self.notes_pipe_codes = true;
        self
    }

    /// Sets the reader that starts the job and receives its end; without it, the next reader of the session does.
    pub fn reader(mut self, reader: SessionName) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Sets several options at once; the others stay as they are.
    pub fn options(mut self, choices: JobChoices) -> Self {
        self.choices.extend(choices);
        self
    }

    /// Lets the job wait until something holds of another job; may be said of several.
    pub fn after(mut self, after: After) -> Self {
        self.after.push(after);
        self
    }

    /// Lets the job read what another one prints; its standard input ends with that.
    pub fn stdin_from(mut self, from: StdinFrom) -> Self {
        self.stdin_from = Some(from);
        self.choices.stdin = Some(Stdin::Open);
        self
    }

    /// Restarts the job when a file changes that matches one of these patterns, relative to its directory. A pattern that begins with
    /// `!` leaves out what it matches, and so does `.gitignore`.
    pub fn restart_on_change<T: Into<String>>(mut self, patterns: impl IntoIterator<Item = T>) -> Self {
        self.restart_on_change = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// Attaches a label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Attaches a label of outlive's own; a value that cannot be shown in one line is ignored.
    pub fn own_label(mut self, label: OwnLabel, value: impl Into<String>) -> Self {
        let value = Some(value.into()).filter(|value| label::is_value(value));
        self.own_labels.extend(value.map(|value| (label.name().to_owned(), value)));
        self
    }

    job_option_setters! {}
}

/// Why a request is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// No command.
    #[error("there is no command to run")]
    Empty,
    /// An argument has a NUL byte.
    #[error("{0} holds a NUL byte, which no program can be given")]
    Nul(&'static str),
    /// Not a valid name of an environment variable.
    #[error("{0:?} cannot be the name of a variable")]
    Variable(String),
    /// The caller's working directory was removed.
    #[error("the current directory no longer exists")]
    NoDirectory,
    /// More than the kernel's limit for arguments and environment.
    #[error("the arguments and the environment have {0} bytes, more than any program can be given")]
    TooLarge(usize),
    /// A display name that cannot be shown in one line.
    #[error("the name must be 1 to 100 characters without control characters")]
    Name,
    /// Another job has the requested id.
    #[error("there is a job {0} already")]
    Taken(JobId),
    /// A group name that cannot be shown in one line.
    #[error("the group must be 1 to 100 characters without control characters")]
    Group,
    /// An invalid label.
    #[error(transparent)]
    Label(#[from] LabelError),
    /// An invalid pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// Not an HTTP address.
    #[error("{0:?} is no address: write http://HOST[:PORT][/PATH], or https://")]
    Address(String),
    /// A pattern of files that cannot be watched.
    #[error("cannot watch {0:?}: {1}")]
    Watched(String, String),
    /// Too many files to watch.
    #[error("cannot watch its files: {0}")]
    Unwatched(String),
    /// A terminal is typed into.
    #[error("a job in a terminal cannot read what another job prints")]
    FedTerminal,
    /// Nothing is typed into pipes.
    #[error("only what is typed into a terminal is recorded: add --pty, or leave out --record-input")]
    NothingTyped,
    /// Something about health, and no condition.
    #[error("there is nothing by which it would count as healthy")]
    NothingHealthy,
    /// A schedule that makes no sense.
    #[error("{0}")]
    Schedule(String),
    /// The path of the store is too long for a socket that the command can send to.
    #[error("it cannot say that it is ready: the path of a socket in {0} is longer than the kernel takes")]
    SocketPath(PathBuf),
    /// No readiness condition.
    #[error("there is nothing by which it would count as ready")]
    NothingReady,
}
