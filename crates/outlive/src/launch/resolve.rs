//! What comes of a request: every default resolved, the options checked, the environment put together.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use outlive_core::label::{self};
use outlive_core::options::kinds::*;
use outlive_core::options::{JobOptions, Ready};
use outlive_core::rawtext::RawText;
use outlive_core::session::Settings;
use outlive_core::spec::Lifetime;

use crate::launch::programs::{in_path, search};
use crate::launch::request::{Request, RequestError};
use crate::output::search::pattern;
use crate::store::config::Config;

/// Variables that describe the caller's terminal.
const TERMINAL_VARIABLES: [&str; 4] = ["TERM", "COLORTERM", "COLUMNS", "LINES"];

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
    /// Tells whether the job waits before its command is executed.
    pub(crate) fn waits(&self, resolved: &Resolved) -> bool {
        self.placement.is_some()
            || self.rerun.is_some()
            || resolved.options.schedule.is_set()
            || resolved.options.queue.is_some()
            || !self.after.is_empty()
    }

    /// Resolves what to execute, and how; `path` is the job's `PATH`.
    pub(crate) fn resolve(&self, config: &Config, path: Option<&OsStr>) -> Result<Resolved, RequestError> {
        let options = self.decide(config);
        self.check()?;
        check_options(&options)?;
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
        // The configuration means those jobs that can be recorded.
        options.record_input &= options.pty || self.choices.record_input == Some(true);
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
    pub(crate) fn environment(&self, own: &[(&str, &OsStr)], has_terminal: bool) -> Vec<Vec<u8>> {
        // What the caller's terminal is like says nothing about the job's.
        let of_terminal = has_terminal.then_some(("TERM", OsStr::new("xterm-256color")));
        // A watchdog of the caller's service manager does not watch the job.
        let is_notified = own.iter().any(|(own, _)| *own == "NOTIFY_SOCKET");
        let is_changed = |name: &OsStr| {
            let name = name.to_str().unwrap_or_default();
            self.env_set.contains_key(name)
                || (has_terminal && TERMINAL_VARIABLES.contains(&name))
                || (is_notified && name.starts_with("WATCHDOG_"))
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
        let own = of_terminal.iter().filter(|(name, _)| is_left(name)).chain(own);
        let own = own.map(|(name, value)| join(OsStr::new(name), value));
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
        self.variable("PATH")
    }

    /// Returns a variable of the job, but for those that outlive sets.
    pub(crate) fn variable(&self, wanted: &str) -> Option<OsString> {
        let is_unset = self.env_unset.iter().any(|unset| unset == wanted);
        let inherited = || match &self.env_base {
            None => std::env::var_os(wanted),
            Some(variables) => {
                variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
            }
        };
        self.env_set.get(wanted).cloned().or_else(inherited).filter(|_| !is_unset)
    }
}

/// Validates options before a job is started with them.
///
/// # Errors
///
/// If a value makes no sense, or two of them contradict each other.
pub fn check_options(options: &JobOptions) -> Result<(), RequestError> {
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
    if options.record_input && !options.pty {
        return Err(RequestError::NothingTyped);
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
