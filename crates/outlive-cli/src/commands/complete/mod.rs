//! `outlive complete`: what may stand where the cursor is, for the completion of shells.
//!
//! Verbs, options and words are those of the declarations; jobs, groups, sessions and labels those of the store as it is now. Each
//! is a line: what to insert, a tab, what it is. For bash it is quoted; zsh and fish quote what they insert.

mod bash;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory};
use outlive::duration::format_duration;
use outlive::{Job, SessionName, State, Store};
use outlive_mcp::Profile;

use self::bash::BashLine;
use crate::args::{Arguments, Complete};
use crate::render::{one_line, print};

/// What to insert, and what it is.
type Candidate = (String, String);

pub(crate) fn run(asked: &Complete) -> ExitCode {
    // Never freed: that takes longer than to find the candidates, and the program ends right after.
    let mut root = ManuallyDrop::new(Arguments::command());
    root.build();
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let bash = match (&asked.line, &asked.replaced) {
        (Some(line), replaced) => {
            let replaced = replaced.as_ref().map(text).unwrap_or_default();
            // A variable in front of the cursor is the shell's to complete.
            let Some(line) = BashLine::read(&text(line), &replaced) else { return ExitCode::FAILURE };
            Some(line)
        }
        (None, _) => None,
    };
    let words = match (&bash, asked.place) {
        (Some(line), _) => (line.words.iter().skip(1).cloned().collect(), false),
        (None, place) => joined(&asked.words.iter().map(text).collect::<Vec<_>>(), place.unwrap_or_default()),
    };
    // The shell completes files by itself.
    let Some(candidates) = Line::read(&root, words).candidates() else { return ExitCode::FAILURE };
    // No shell takes a character that moves the cursor.
    let candidates = candidates.into_iter().filter(|(value, _)| !value.contains(char::is_control));
    let lines = candidates.filter_map(|(value, help)| {
        let inserted = bash.as_ref().map_or(Some(value.clone()), |line| line.inserted(&value))?;
        Some(format!("{inserted}\t{}\n", one_line(&help)))
    });
    print(&lines.collect::<String>());
    ExitCode::SUCCESS
}

/// Returns the words up to the cursor, without the program. Bash takes `--option=value` apart; what it completes is the value.
fn joined(words: &[String], place: usize) -> (Vec<String>, bool) {
    let mut joined: Vec<String> = Vec::new();
    let mut is_apart = false;
    for word in words.iter().take(place + 1).skip(1) {
        match joined.last_mut() {
            Some(last) if last.starts_with("--") && (word == "=" || last.ends_with('=')) => {
                last.push_str(word);
                is_apart = true;
            }
            _ => {
                joined.push(word.clone());
                is_apart = false;
            }
        }
    }
    if words.len() <= place {
        joined.push(String::new());
    }
    (joined, is_apart)
}

/// A command line up to the cursor.
struct Line<'a> {
    command: &'a Command,
    /// The verbs that were given.
    verbs: Vec<&'a str>,
    /// The option whose value the word is.
    option: Option<&'a Arg>,
    /// How many arguments that are no options stand before it.
    position: usize,
    /// After `--` there are no options.
    is_after_dashes: bool,
    session: Option<SessionName>,
    /// What there is of the word.
    word: String,
    /// What stands before the value in the word, as `--session=`, and is inserted with it.
    prefix: String,
}

impl<'a> Line<'a> {
    fn read(root: &'a Command, (mut words, is_apart): (Vec<String>, bool)) -> Self {
        let word = words.pop().unwrap_or_default();
        let mut line = Self {
            command: root,
            verbs: Vec::new(),
            option: None,
            position: 0,
            is_after_dashes: false,
            session: None,
            word,
            prefix: String::new(),
        };
        words.iter().for_each(|word| line.pass(word));
        let value = line.word.split_once('=').filter(|_| line.option.is_none() && !line.is_after_dashes);
        if let Some((name, value)) = value
            && let Some(option) = name.strip_prefix("--").and_then(|name| line.long(name))
        {
            (line.prefix, line.word) =
                (if is_apart { String::new() } else { format!("{name}=") }, value.to_owned());
            line.option = Some(option);
        }
        line
    }

    /// Passes over a word before the cursor.
    fn pass(&mut self, word: &str) {
        if let Some(option) = self.option.take() {
            return self.note(option, word);
        }
        if self.is_after_dashes {
            self.position += 1;
        } else if word == "--" {
            self.is_after_dashes = true;
        } else if let Some(name) = word.strip_prefix("--") {
            let (name, value) =
                name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            match (self.long(name), value) {
                (Some(option), Some(value)) => self.note(option, value),
                (option, None) => self.option = option.filter(|option| takes_next_word(option)),
                (None, Some(_)) => {}
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let mut arguments = self.command.get_arguments();
            let last = letters.chars().last();
            self.option = arguments.find(|option| option.get_short() == last && takes_next_word(option));
        } else if let Some(verb) = self.command.find_subcommand(word).filter(|_| self.position == 0) {
            self.command = verb;
            self.verbs.push(verb.get_name());
        } else {
            self.position += 1;
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|argument| argument.get_long() == Some(name))
    }

    fn note(&mut self, option: &Arg, value: &str) {
        if option.get_id() == "session" {
            self.session = SessionName::parse(value).ok();
        }
    }

    /// Returns what may stand here, in the order in which it is shown; none: files and programs.
    fn candidates(&self) -> Option<Vec<Candidate>> {
        let found = match self.option {
            Some(option) => self.values(option)?,
            None if !self.is_after_dashes && self.word.starts_with('-') => self.options(),
            None if self.command.has_subcommands() => subcommands(self.command),
            None => self.values(self.positional()?)?,
        };
        let fitting = found.into_iter().filter(|(value, _)| value.starts_with(&self.word));
        Some(fitting.map(|(value, help)| (format!("{}{value}", self.prefix), help)).collect())
    }

    /// Returns the argument that the word is; the last one may be given again.
    fn positional(&self) -> Option<&'a Arg> {
        let positionals =
            self.command.get_positionals().filter(|argument| argument.is_last_set() == self.is_after_dashes);
        let all: Vec<&Arg> = positionals.collect();
        let repeats = |argument: &&&Arg| argument.get_num_args().is_some_and(|count| count.max_values() > 1);
        all.get(self.position).or_else(|| all.last().filter(repeats)).copied()
    }

    fn options(&self) -> Vec<Candidate> {
        let shown = self.command.get_arguments().filter(|argument| !argument.is_hide_set());
        let option =
            |argument: &Arg| Some((format!("--{}", argument.get_long()?), argument.get_help()?.to_string()));
        shown.filter_map(option).collect()
    }

    /// Returns the values that an argument may have; none: files and programs.
    fn values(&self, argument: &Arg) -> Option<Vec<Candidate>> {
        let words = argument.get_possible_values();
        if !words.is_empty() {
            let help =
                |help: Option<&clap::builder::StyledStr>| help.map(ToString::to_string).unwrap_or_default();
            return Some(
                words.iter().map(|word| (word.get_name().to_owned(), help(word.get_help()))).collect(),
            );
        }
        let name =
            argument.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
        let plain = |names: &mut dyn Iterator<Item = &'static str>| {
            names.map(|name| (name.to_owned(), String::new())).collect()
        };
        Some(match (argument.get_id().as_str(), name) {
            ("profile", _) => plain(&mut Profile::names()),
            ("topic", _) => {
                let guides = super::help::GUIDES.map(|(name, _)| (name.to_owned(), "guide".to_owned()));
                subcommands(&Arguments::command()).into_iter().chain(guides).collect()
            }
            ("signal", _) => plain(&mut outlive_sys::signal::names()),
            ("session", _) => self.store().map(|store| sessions(&store)).unwrap_or_default(),
            ("name", "NAME") if matches!(self.verbs[..], ["session", "show" | "close"]) => {
                self.store().map(|store| sessions(&store)).unwrap_or_default()
            }
            ("queue" | "queues", _) => {
                let queues = self.store().and_then(|store| store.list_queues().ok()).unwrap_or_default();
                let described = |queue: &outlive::QueueObject| {
                    let help = format!("{} running, {} queued", queue.running.len(), queue.queued.len());
                    (queue.queue.to_string(), help)
                };
                queues.iter().map(described).collect()
            }
            ("group", _) => counted(&self.jobs(), |job| job.spec().options.group.iter().cloned().collect()),
            ("label", _) => counted(&self.jobs(), |job| {
                job.spec().labels.iter().flatten().map(|(name, value)| format!("{name}={value}")).collect()
            }),
            (_, "JOB") => self.job_names(),
            (_, "DIR" | "FILE" | "PROGRAM") => return None,
            // The command to run.
            _ if argument.is_positional() && self.verbs == ["run"] => return None,
            _ => Vec::new(),
        })
    }

    /// Opens the store; one that cannot be opened has nothing to offer.
    fn store(&self) -> Option<Store> {
        Store::open().ok()
    }

    /// Lists the jobs that are seen, the newest first, those that live before those that ended.
    fn jobs(&self) -> Vec<(Job, State)> {
        let Some(store) = self.store() else { return Vec::new() };
        let listed = store.list_states(self.session.as_ref(), |_| true).unwrap_or_default().jobs;
        let mut jobs: Vec<_> = listed.into_iter().rev().filter(|(_, state)| !state.is_removed()).collect();
        jobs.sort_by_key(|(_, state)| !state.is_live());
        jobs
    }

    /// Names the jobs that the verb is for: by name, else by id; the id also where it is what was begun.
    fn job_names(&self) -> Vec<Candidate> {
        let is_wanted = |state: &State| match self.verbs.first().copied() {
            Some("kill" | "pause" | "resume" | "send" | "attach" | "resize" | "watch") => state.is_live(),
            Some("remove") => !state.is_live(),
            _ => true,
        };
        let mut names: Vec<Candidate> = Vec::new();
        for (job, state) in self.jobs().iter().filter(|(_, state)| is_wanted(state)) {
            let (id, help) = (job.id().to_string(), described(job, state));
            let is_new = |name: &&str| names.iter().all(|(other, _)| other != name);
            let is_typed = |name: &&str| name.starts_with(&self.word) && !name.contains(char::is_control);
            let name = job.name().filter(is_new).filter(is_typed);
            names.push((name.map_or(id, str::to_owned), help));
        }
        names
    }
}

/// Tells whether the value of an option is the word after it.
fn takes_next_word(option: &Arg) -> bool {
    option.get_num_args().is_some_and(|count| count.min_values() > 0)
}

fn subcommands(command: &Command) -> Vec<Candidate> {
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let about = |verb: &Command| verb.get_about().map(ToString::to_string).unwrap_or_default();
    shown.map(|verb| (verb.get_name().to_owned(), about(verb))).collect()
}

fn described(job: &Job, state: &State) -> String {
    let time = state.runtime_ms().map(|time| format!(" {}", format_duration(time))).unwrap_or_default();
    format!("{}{time}: {}", state.words().replace('_', " "), job.spec().command_line())
}

fn sessions(store: &Store) -> Vec<Candidate> {
    let sessions = store.list_sessions().unwrap_or_default();
    let described = |session: &outlive::Session| {
        let object = session.object(None, false);
        (
            object.session.to_string(),
            format!("{}, {} live, {} ended", object.state, object.live, object.ended),
        )
    };
    sessions.iter().map(described).collect()
}

/// Returns what jobs have in common, each with the number of jobs that have it.
fn counted(jobs: &[(Job, State)], of: impl Fn(&Job) -> Vec<String>) -> Vec<Candidate> {
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (job, state) in jobs {
        for word in of(job) {
            let (live, ended) = counts.entry(word).or_default();
            *(if state.is_live() { live } else { ended }) += 1;
        }
    }
    counts.into_iter().map(|(word, (live, ended))| (word, format!("{live} live, {ended} ended"))).collect()
}
