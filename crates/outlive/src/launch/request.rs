//! The request for a new job.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use outlive_core::after::After;
use outlive_core::containment::{Level, Survivors};
use outlive_core::health::HealthThen;
use outlive_core::id::{JobId, QueueName, SessionName};
use outlive_core::job_option_setters;
use outlive_core::label::{self, LabelError, Labels, OwnLabel};
use outlive_core::options::kinds::*;
use outlive_core::options::{JobChoices, JobOptions, Ready};
use outlive_core::placement::Placement;
use outlive_core::rawtext::RawText;
use outlive_core::restart::{Rerun, RestartWhen};
use outlive_core::schedule::{Missed, Overlap, Planned};
use outlive_core::session::Settings;
use outlive_core::spec::{Lifetime, Stdin, StdinFrom, quote};
use outlive_core::terminal::size::TerminalSize;

use crate::launch::programs::{in_path, search};
use crate::output::search::{PatternError, pattern};
use crate::store::config::Config;

/// Variables that describe the caller's terminal.
const TERMINAL_VARIABLES: [&str; 4] = ["TERM", "COLORTERM", "COLUMNS", "LINES"];

/// Describes a job to start.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// A line for a shell; without it, `argv` is executed.
    shell_line: Option<OsString>,
    argv: Vec<OsString>,
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

    /// Tells whether the job waits before its command is executed.
    pub(crate) fn waits(&self, resolved: &Resolved) -> bool {
        self.placement.is_some()
            || self.rerun.is_some()
            || resolved.options.schedule.is_set()
            || resolved.options.queue.is_some()
            || !self.after.is_empty()
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
    #[error("{0:?} is no address: write http://HOST[:PORT][/PATH]")]
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
    /// Something about health, and no condition.
    #[error("there is nothing by which it would count as healthy")]
    NothingHealthy,
    /// A schedule that makes no sense.
    #[error("{0}")]
    Schedule(String),
    /// No readiness condition.
    #[error("there is nothing by which it would count as ready")]
    NothingReady,
}

/// A request with every default resolved.
#[derive(Debug, Clone)]
pub(crate) struct Resolved {
    pub(crate) argv: Vec<RawText>,
    pub(crate) shell_line: Option<RawText>,
    pub(crate) candidates: Vec<Vec<u8>>,
    pub(crate) cwd: PathBuf,
    /// Display name or program that a generated id is derived from.
    pub(crate) hint: String,
    pub(crate) options: JobOptions,
}

impl Request {
    /// Resolves what to execute, and how; `path` is the job's `PATH`.
    pub(crate) fn resolve(&self, config: &Config, path: Option<&OsStr>) -> Result<Resolved, RequestError> {
        let options = self.decide(config);
        self.check()?;
        check(&options)?;
        let cwd = self.absolute_cwd()?;
        if self.stdin_from.is_some() && options.pty {
            return Err(RequestError::FedTerminal);
        }
        let shell_argv = self.shell_line.as_ref().map(|line| {
            let shell = self.shell.as_deref().or(config.job.shell.as_deref());
            let shell = shell.map_or_else(|| find_shell(path), Path::to_owned);
            vec![shell.into_os_string(), "-c".into(), line.clone()]
        });
        let argv = shell_argv.as_ref().unwrap_or(&self.argv);
        let program = argv.first().ok_or(RequestError::Empty)?;
        let candidates = if program.as_bytes().contains(&b'/') {
            vec![program.as_bytes().to_vec()]
        } else {
            search(program, path).into_iter().map(|path| path.into_os_string().into_encoded_bytes()).collect()
        };
        let hint = options.name.clone().unwrap_or_else(|| {
            let first_word = self.shell_line.as_deref().map_or_else(|| program.clone(), first_program);
            Path::new(&first_word).file_name().unwrap_or(&first_word).to_string_lossy().into_owned()
        });
        let raw = |text: &OsString| RawText::from(text.as_bytes());
        Ok(Resolved {
            argv: argv.iter().map(raw).collect(),
            shell_line: self.shell_line.as_ref().map(raw),
            candidates,
            cwd,
            hint,
            options,
        })
    }

    /// Merges the defaults, the configuration and the request.
    fn decide(&self, config: &Config) -> JobOptions {
        let mut options = config.job.options.clone();
        options.apply(&self.choices);
        if options.lifetime == Lifetime::SESSION {
            options.lifetime = Lifetime::Session { lease_ms: Millis::take(config.session.lease) };
        }
        options
    }

    /// Fills in what the session sets and the request does not.
    pub(crate) fn take_from(&mut self, settings: &Settings) {
        let path = |text: &RawText| PathBuf::from(OsStr::from_bytes(&text.0));
        self.cwd = self.cwd.take().or_else(|| settings.cwd.as_ref().map(path));
        for (name, value) in &settings.env_set {
            if !self.env_unset.contains(name) {
                let value = || OsStr::from_bytes(&value.0).to_owned();
                self.env_set.entry(name.clone()).or_insert_with(value);
            }
        }
    }

    fn check(&self) -> Result<(), RequestError> {
        let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
        let is_empty = match &self.shell_line {
            Some(line) => line.as_bytes().trim_ascii().is_empty(),
            None => self.argv.first().is_none_or(|program| program.is_empty()),
        };
        if is_empty {
            return Err(RequestError::Empty);
        }
        if self.shell_line.as_deref().is_some_and(has_nul) {
            return Err(RequestError::Nul("the command line"));
        }
        if self.argv.iter().any(|argument| has_nul(argument)) {
            return Err(RequestError::Nul("an argument"));
        }
        for name in self.env_set.keys().chain(&self.env_unset) {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(RequestError::Variable(name.clone()));
            }
        }
        if self.env_set.values().any(|value| has_nul(value)) {
            return Err(RequestError::Nul("the value of a variable"));
        }
        label::check(&self.labels)?;
        if self.cwd.as_ref().is_some_and(|cwd| has_nul(cwd.as_os_str())) {
            return Err(RequestError::Nul("the directory"));
        }
        Ok(())
    }

    fn absolute_cwd(&self) -> Result<PathBuf, RequestError> {
        let here = || std::env::current_dir().map_err(|_| RequestError::NoDirectory);
        match &self.cwd {
            Some(cwd) if cwd.is_absolute() => Ok(cwd.clone()),
            Some(relative) => Ok(here()?.join(relative)),
            None => here(),
        }
    }

    /// Returns the job's whole environment as `NAME=value`.
    pub(crate) fn environment(&self, own: [(&str, &str); 2], has_terminal: bool) -> Vec<Vec<u8>> {
        // What the caller's terminal is like says nothing about the job's.
        let of_terminal: &[(&str, &str)] = if has_terminal { &[("TERM", "xterm-256color")] } else { &[] };
        let is_changed = |name: &OsStr| {
            let name = name.to_str().unwrap_or_default();
            self.env_set.contains_key(name)
                || (has_terminal && TERMINAL_VARIABLES.contains(&name))
                || self.env_unset.iter().any(|unset| unset == name)
                || own.iter().any(|(own, _)| *own == name)
        };
        let join = |name: &OsStr, value: &OsStr| [name.as_bytes(), b"=", value.as_bytes()].concat();
        let inherited = self
            .inherited()
            .into_iter()
            .filter(|(name, _)| !is_changed(name))
            .map(|(name, value)| join(&name, &value));
        let added = self
            .env_set
            .iter()
            .filter(|(name, _)| !own.iter().any(|(own, _)| own == name) && !self.env_unset.contains(name))
            .map(|(name, value)| join(OsStr::new(name), value));
        let is_left = |name: &str| {
            !self.env_set.contains_key(name) && !self.env_unset.iter().any(|unset| unset == name)
        };
        let own = of_terminal.iter().filter(|(name, _)| is_left(name)).chain(&own);
        let own = own.map(|(name, value)| join(OsStr::new(name), OsStr::new(value)));
        inherited.chain(added).chain(own).collect()
    }

    /// Returns the base environment, without invalid names and values.
    fn inherited(&self) -> Vec<(OsString, OsString)> {
        let is_possible = |(name, value): &(OsString, OsString)| {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.contains(&0)
        };
        match &self.env_base {
            None => std::env::vars_os().collect(),
            Some(variables) => variables.iter().filter(|pair| is_possible(pair)).cloned().collect(),
        }
    }

    /// Returns the `PATH` of the job.
    pub(crate) fn path(&self) -> Option<OsString> {
        let is_unset = self.env_unset.iter().any(|unset| unset == "PATH");
        let inherited = || match &self.env_base {
            None => std::env::var_os("PATH"),
            Some(variables) => {
                variables.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
            }
        };
        self.env_set.get("PATH").cloned().or_else(inherited).filter(|_| !is_unset)
    }
}

/// Validates options.
fn check(options: &JobOptions) -> Result<(), RequestError> {
    let JobOptions { name, group, ready, health, completion, .. } = options;
    crate::wait::health::check(health)?;
    crate::launch::schedule::check(options)?;
    let lines = [&ready.command, &health.command];
    if lines.into_iter().flatten().any(|line| line.0.contains(&0)) {
        return Err(RequestError::Nul("the line of a check"));
    }
    if name.as_ref().is_some_and(|name| !is_showable(name)) {
        return Err(RequestError::Name);
    }
    if group.as_ref().is_some_and(|group| !is_showable(group)) {
        return Err(RequestError::Group);
    }
    if completion.on_exit.as_ref().is_some_and(|line| line.0.contains(&0)) {
        return Err(RequestError::Nul("the line to run at the end"));
    }
    if let Some(text) = &options.watch {
        pattern(text, false)?;
    }
    match &completion.webhook {
        Some(url) if !crate::delivery::webhook::is_address(url) => Err(RequestError::Address(url.clone())),
        _ if *ready == Ready::default() => Ok(()),
        _ => crate::wait::ready::check(ready),
    }
}

/// Tells whether a name can be shown in one line.
pub(crate) fn is_showable(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(char::is_control)
}

/// Returns bash where there is one, else sh.
pub(crate) fn find_shell(path: Option<&OsStr>) -> PathBuf {
    let bash = in_path(OsStr::new("bash"), path).next();
    bash.or_else(|| Some(PathBuf::from("/bin/bash")).filter(|bash| bash.is_file()))
        .unwrap_or_else(|| PathBuf::from("/bin/sh"))
}

/// Guesses the program of a shell line, for a telling id only: the first word that is no assignment.
fn first_program(line: &OsStr) -> OsString {
    let line = line.to_string_lossy();
    let mut words = line.split_whitespace().filter(|word| !word.contains('='));
    OsString::from(words.next().unwrap_or("job").trim_matches(['(', '{', '"', '\'', ';']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_to_the_shell_and_argv_does_not() {
        let line =
            Request::shell("echo hi | cat").with_shell("/bin/zsh").resolve(&Config::default(), None).unwrap();
        assert_eq!(line.argv, ["/bin/zsh", "-c", "echo hi | cat"].map(RawText::from));
        assert_eq!(line.shell_line, Some(RawText::from("echo hi | cat")));
        assert_eq!(line.hint, "echo");
        let argv = Request::argv(["echo", "hi | cat"])
            .resolve(&Config::default(), Some(OsStr::new("/a::b")))
            .unwrap();
        assert_eq!(argv.candidates, [&b"/a/echo"[..], b"./echo", b"b/echo"]);
        assert_eq!(argv.shell_line, None);
    }

    #[test]
    fn a_line_is_made_of_words() {
        let request = Request::shell_words("echo a |", &["it's".into(), String::new(), "-n".into()]);
        let resolved = request.resolve(&Config::default(), None).unwrap();
        assert_eq!(resolved.shell_line, Some(RawText::from(r"echo a | 'it'\''s' '' -n")));
        assert_eq!(request.words, ["echo a |", "it's", "", "-n"].map(OsString::from));
    }

    #[test]
    fn the_hint_is_the_program() {
        for (line, hint) in
            [("A=1 make -j", "make"), ("(cd x; y)", "cd"), ("/usr/bin/env", "env"), ("A=1", "job")]
        {
            assert_eq!(Request::shell(line).resolve(&Config::default(), None).unwrap().hint, hint);
        }
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let empty: [&str; 0] = [];
        assert_eq!(Request::argv(empty).check(), Err(RequestError::Empty));
        assert_eq!(Request::argv([""]).check(), Err(RequestError::Empty));
        assert_eq!(Request::shell(" \n").check(), Err(RequestError::Empty));
        assert_eq!(Request::argv(["a", "b\0c"]).check(), Err(RequestError::Nul("an argument")));
        assert_eq!(Request::shell("a").env("A=B", "c").check(), Err(RequestError::Variable("A=B".into())));
        let named = Request::shell("a").name("a\nb").resolve(&Config::default(), None);
        assert_eq!(named.unwrap_err(), RequestError::Name);
    }
}
