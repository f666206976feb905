//! Reads the files of a project. Whatever is wrong is told with its place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use outlive::{JobChoices, JobOptions, MOST_PARALLEL, QueueName, Signal, Stream, Timestamp, nearest};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ProjectError;
use crate::file::check::{check_job, check_value};
use crate::file::fault::{Fault, Source};
use crate::file::keys::{self, Form, Key};
use crate::file::place::{self, Hosts};
use crate::file::{env, templates};
use crate::project::{After, Command, Milestone, Port, Project, ProjectJob};

pub(super) type Read<T> = Result<T, Box<Fault>>;

/// A value, and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) source: &'a Source,
    pub(super) key: &'a Spanned<std::borrow::Cow<'a, str>>,
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Entry<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.key.get_ref()
    }

    pub(super) fn wrong_key(&self, message: impl Into<String>) -> Box<Fault> {
        self.source.fault(self.key.span(), message)
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> Box<Fault> {
        self.source.fault(self.value.span(), message)
    }

    pub(super) fn table(&self) -> Read<Vec<Entry<'a>>> {
        let table = self.value.get_ref().as_table();
        let table = table.ok_or_else(|| self.wrong(format!("`{}` must be a table", self.name())))?;
        Ok(entries(self.source, table))
    }

    pub(super) fn text(&self) -> Read<&'a str> {
        let text = self.value.get_ref().as_str();
        text.ok_or_else(|| self.wrong(format!("`{}` must be text: \"…\"", self.name())))
    }

    /// Reads one text or a list of them, each with its place.
    fn texts(&self) -> Read<Vec<(&'a str, Range<usize>)>> {
        let wrong =
            |place| self.source.fault(place, format!("`{}` must be text or a list of texts", self.name()));
        let values = match self.value.get_ref() {
            DeValue::Array(values) => values.iter().collect(),
            _ => vec![self.value],
        };
        let text = |value: &'a Spanned<DeValue<'a>>| {
            let text = value.get_ref().as_str().ok_or_else(|| wrong(value.span()))?;
            Ok((text, value.span()))
        };
        values.into_iter().map(text).collect()
    }

    /// Reads one text or a list of them.
    fn words(&self) -> Read<Vec<String>> {
        Ok(self.texts()?.into_iter().map(|(text, _)| text.to_owned()).collect())
    }

    /// Returns a text, number or truth as options are written.
    pub(super) fn scalar(&self) -> Read<String> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(is_true) => Ok(is_true.to_string()),
            _ => Err(self.wrong(format!("`{}` must be text, a number, true or false", self.name()))),
        }
    }

    pub(super) fn unknown<'k>(&self, of: &str, known: impl Iterator<Item = &'k str>) -> Box<Fault> {
        let name = self.name();
        let known: Vec<&str> = known.collect();
        self.wrong_key(match nearest(name, known.iter().copied()) {
            Some(meant) => format!("{of} has no key `{name}`; did you mean `{meant}`?"),
            None => format!("{of} has no key `{name}`; there are {}", known.join(", ")),
        })
    }
}

/// Lists the entries of a table in the order of the file.
pub(super) fn entries<'a>(source: &'a Source, table: &'a DeTable<'a>) -> Vec<Entry<'a>> {
    let mut entries: Vec<Entry<'a>> = table.iter().map(|(key, value)| Entry { source, key, value }).collect();
    entries.sort_by_key(|entry| entry.key.span().start);
    entries
}

/// A job as it is written: its name's place, and its keys, those of the local file in place of the others.
pub(super) struct Written<'a> {
    pub(super) head: Entry<'a>,
    pub(super) keys: BTreeMap<&'a str, Vec<Entry<'a>>>,
}

/// Reads a project from its file and the local one, which takes precedence.
pub(crate) fn project(
    file: PathBuf,
    dir: PathBuf,
    sources: &[Source],
    hosts: &Hosts,
) -> Result<Project, ProjectError> {
    read_all(file, dir, sources, hosts, |_, _| Ok(())).map(|(project, ())| project)
}

/// Reads a project, and the job of one of its templates with these parameters.
pub(crate) fn filled(
    file: PathBuf,
    dir: PathBuf,
    sources: &[Source],
    hosts: &Hosts,
    (name, given): (&str, &BTreeMap<String, String>),
) -> Result<(Project, ProjectJob), ProjectError> {
    read_all(file, dir, sources, hosts, |project, written| {
        let template = project.template(name)?;
        template.check(given)?;
        let written =
            written.iter().find(|written| written.head.name() == name).expect("it was read from it");
        Ok(templates::fill(written, template, given, &project.dir)?)
    })
}

/// Reads a project, and what `then` takes from it and from its templates as they are written.
fn read_all<T>(
    file: PathBuf,
    dir: PathBuf,
    sources: &[Source],
    hosts: &Hosts,
    then: impl FnOnce(&Project, &[Written<'_>]) -> Result<T, ProjectError>,
) -> Result<(Project, T), ProjectError> {
    let syntax = |source: &Source, error: toml::de::Error| {
        source.fault(error.span().unwrap_or(0..0), error.message().trim_end())
    };
    let tables = sources.iter().map(|source| {
        DeTable::parse(&source.text).map(|table| (source, table)).map_err(|error| syntax(source, error))
    });
    let tables: Vec<(&Source, Spanned<DeTable<'_>>)> = tables.collect::<Read<_>>()?;
    let mut project = Project::empty(file, dir);
    let (mut written, mut templates): (Vec<Written<'_>>, Vec<Written<'_>>) = (Vec::new(), Vec::new());
    for (source, table) in &tables {
        for entry in entries(source, table.get_ref()) {
            match entry.name() {
                "name" => project.name = name_of(&entry)?,
                "jobs" => entry.table()?.into_iter().try_for_each(|job| collect(&mut written, job))?,
                "queue" => {
                    for queue in entry.table()? {
                        let (name, parallel) = read_queue(&queue)?;
                        project.queues.insert(name, parallel);
                    }
                }
                "templates" => {
                    entry.table()?.into_iter().try_for_each(|template| collect(&mut templates, template))?;
                }
                _ => {
                    return Err(entry
                        .unknown("the file", ["name", "jobs", "queue", "templates"].into_iter())
                        .into());
                }
            }
        }
    }
    let names: Vec<&str> = written.iter().map(|job| job.head.name()).collect();
    for template in &templates {
        // Both would be the newest job of that name.
        if names.contains(&template.head.name()) {
            return Err(template.head.wrong_key("there is a job of this name: choose another").into());
        }
        project.templates.push(templates::template(template, &project.dir)?);
    }
    let mut waits = Vec::new();
    for job in &written {
        let (read, places) = read_job(job, &project.dir, &names, hosts)?;
        project.jobs.push(read);
        waits.push(places);
    }
    decide(&mut project, &waits);
    check(&project, &waits)?;
    let found = then(&project, &templates)?;
    Ok((project, found))
}

fn name_of(entry: &Entry<'_>) -> Read<String> {
    let name = entry.text()?;
    match name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        true => Err(entry.wrong("the name must be 1 to 64 characters in one line")),
        false => Ok(name.to_owned()),
    }
}

fn read_queue(entry: &Entry<'_>) -> Read<(QueueName, u64)> {
    let name =
        QueueName::parse(entry.name()).map_err(|error| entry.wrong_key(format!("no queue: {error}")))?;
    let mut parallel = None;
    for key in entry.table()? {
        if key.name() != "parallel" {
            return Err(key.unknown("a queue", ["parallel"].into_iter()));
        }
        let count = key.scalar()?.parse().ok().filter(|count| (1..=u64::from(MOST_PARALLEL)).contains(count));
        let wrong = || key.wrong(format!("`parallel` must be a number from 1 to {MOST_PARALLEL}"));
        parallel = Some(count.ok_or_else(wrong)?);
    }
    let missing = || entry.wrong_key(format!("queue {name} has no `parallel`: write parallel = 2"));
    Ok((name.clone(), parallel.ok_or_else(missing)?))
}

fn collect<'a>(written: &mut Vec<Written<'a>>, head: Entry<'a>) -> Read<()> {
    let name = head.name();
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && (1..=64).contains(&name.len());
    if !is_name {
        return Err(head.wrong_key("the name of a job has 1 to 64 letters, digits, `-`, `_` and `.`"));
    }
    let at = written.iter().position(|job| job.head.name() == name).unwrap_or_else(|| {
        written.push(Written { head, keys: BTreeMap::new() });
        written.len() - 1
    });
    for entry in head.table()? {
        let places = written[at].keys.entry(entry.name()).or_default();
        // Variables and labels of both files count; of any other key, that of the local one.
        if !matches!(entry.name(), "env" | "labels") {
            places.clear();
        }
        places.push(entry);
    }
    Ok(())
}

/// Where something that a job waits for is written.
pub(super) struct Place<'a> {
    source: &'a Source,
    span: Range<usize>,
    /// Only the name of a job.
    is_bare: bool,
}

pub(super) type Places<'a> = Vec<Place<'a>>;

pub(super) fn read_job<'a>(
    written: &Written<'a>,
    dir: &Path,
    names: &[&str],
    hosts: &Hosts,
) -> Read<(ProjectJob, Places<'a>)> {
    let mut job = ProjectJob::new(written.head.name(), Command::Argv(Vec::new()), dir, BTreeMap::new());
    let mut places = Vec::new();
    let (mut has_command, mut from_files) = (false, Vec::new());
    for entry in written.keys.values().flatten() {
        let Some(key) = keys::of_job().find(|key| key.name == entry.name()) else {
            return Err(entry.unknown("a job", keys::of_job().map(|key| key.name)));
        };
        match (key.name, key.form) {
            ("run", _) => {
                job.run = command(entry)?;
                has_command = true;
            }
            ("dir", _) => {
                job.dir = dir.join(entry.text()?);
                if !job.dir.is_dir() {
                    job.missing_dir =
                        Some(entry.wrong("there is no such directory: make it, or write another"));
                }
            }
            ("env", _) => job.env.extend(named(entry)?),
            ("labels", _) => job.labels.extend(named(entry)?),
            ("env_file", _) => from_files = env_files(entry, dir)?,
            ("after", _) => {
                for (text, span) in entry.texts()? {
                    job.after.push(after(entry, text, &span, names)?);
                    places.push(Place { source: entry.source, span, is_bare: !text.contains('@') });
                }
            }
            ("port", _) => job.port = Some(port(entry)?),
            ("watch", _) => job.watch = entry.words()?,
            ("profile", _) => job.profiles = entry.words()?,
            ("stdin_from", _) => {
                let (name, stream) = stdin_from(entry)?;
                let place = Place { source: entry.source, span: entry.value.span(), is_bare: false };
                job.after.push(after(entry, &format!("{name}@started"), &place.span, names)?);
                places.push(place);
                job.stdin_from = Some((name, stream));
            }
            ("stop", _) => {
                let unknown =
                    || entry.wrong("no such signal: write a name such as \"INT\", or a number in quotes");
                job.stop = Some(Signal::parse(entry.text()?).ok_or_else(unknown)?);
            }
            // The word alone says when.
            ("restart", _) if entry.value.get_ref().is_str() => {
                let when = keys::of_table("restart").find(|key| key.name == "when");
                option(entry, when.expect("it is a key"), &mut job.choices)?;
            }
            ("schedule", _) if entry.value.get_ref().is_str() => {
                let line = keys::of_table("schedule").find(|key| key.name == "cron");
                option(entry, line.expect("it is a key"), &mut job.choices)?;
            }
            (name, _) if place::KEYS.contains(&name) => {}
            (_, Form::Table(table)) => {
                for inner in entry.table()? {
                    let Some(key) = keys::of_table(table).find(|key| key.name == inner.name()) else {
                        return Err(
                            inner.unknown(&format!("`{table}`"), keys::of_table(table).map(|key| key.name))
                        );
                    };
                    option(&inner, key, &mut job.choices)?;
                }
            }
            _ => option(entry, key, &mut job.choices)?,
        }
    }
    if !has_command {
        let message = format!(
            "job {} has no `run`: write run = \"LINE\", or a list of a program and its arguments",
            job.name
        );
        return Err(written.head.wrong_key(message));
    }
    check_job(written, &job)?;
    for (name, value) in from_files {
        job.env.entry(name).or_insert(value);
    }
    place::read(written, &mut job, dir, hosts)?;
    Ok((job, places))
}

fn option(entry: &Entry<'_>, key: Key, choices: &mut JobChoices) -> Read<()> {
    let Form::Option(option) = key.form else { return Ok(()) };
    let text = entry.scalar()?;
    let now = Timestamp(outlive_sys::clock::wall_us());
    let mut alone = JobChoices::default();
    for choices in [choices, &mut alone] {
        let set = option.set(choices, text.as_bytes(), now);
        set.map_err(|error| entry.wrong(format!("`{}`: {error}", entry.name())))?;
    }
    check_value(entry, &alone)
}

fn command(entry: &Entry<'_>) -> Read<Command> {
    let texts = entry.texts()?;
    let is_list = entry.value.get_ref().is_array();
    let is_empty = texts.first().is_none_or(|(text, _)| text.trim().is_empty());
    if is_empty {
        return Err(entry.wrong("there is no command to run"));
    }
    let mut texts = texts.into_iter().map(|(text, _)| text.to_owned());
    Ok(match is_list {
        true => Command::Argv(texts.collect()),
        false => Command::Line(texts.next().unwrap_or_default()),
    })
}

/// Returns what is run, as one line.
pub(super) fn command_line(entry: &Entry<'_>) -> Read<String> {
    Ok(match command(entry)? {
        Command::Line(line) => line,
        Command::Argv(argv) => argv.iter().map(|word| outlive::quote(word)).collect::<Vec<_>>().join(" "),
    })
}

pub(super) fn named(entry: &Entry<'_>) -> Read<Vec<(String, String)>> {
    entry.table()?.iter().map(|entry| Ok((entry.name().to_owned(), entry.scalar()?))).collect()
}

/// Reads files of variables; a later one takes precedence.
fn env_files(entry: &Entry<'_>, dir: &Path) -> Read<Vec<(String, String)>> {
    let mut variables = BTreeMap::new();
    for (name, place) in entry.texts()? {
        let wrong = |message| entry.source.fault(place.clone(), message);
        let text = std::fs::read_to_string(dir.join(name));
        let text =
            text.map_err(|error| wrong(format!("{name} cannot be read: {}", outlive::chain(&error))))?;
        let read =
            env::read(&text).map_err(|line| wrong(format!("line {line} of {name} is not NAME=VALUE")))?;
        variables.extend(read);
    }
    Ok(variables.into_iter().collect())
}

fn after(entry: &Entry<'_>, text: &str, place: &Range<usize>, names: &[&str]) -> Read<After> {
    let wrong = |message| entry.source.fault(place.clone(), message);
    let (job, word) = text.split_once('@').map_or((text, None), |(job, word)| (job, Some(word)));
    if !names.contains(&job) {
        let meant = nearest(job, names.iter().copied()).map(|meant| format!("; did you mean `{meant}`?"));
        return Err(wrong(format!("there is no job `{job}`{}", meant.unwrap_or_default())));
    }
    let words = Milestone::ALL.map(Milestone::word);
    let milestone = match word {
        // Which one is meant depends on the other job, which may not be read yet.
        None => Milestone::Started,
        Some(word) => *Milestone::ALL.iter().find(|milestone| milestone.word() == word).ok_or_else(|| {
            let meant = nearest(word, words).map(|meant| format!("; did you mean @{meant}?"));
            wrong(format!(
                "@{word} is not known{}",
                meant.unwrap_or_else(|| format!(": write @{}", words.join(", @")))
            ))
        })?,
    };
    Ok(After { job: job.to_owned(), milestone })
}

/// Reads the job whose output another is to read, and which of its streams.
fn stdin_from(entry: &Entry<'_>) -> Read<(String, Stream)> {
    let text = entry.text()?;
    match text.split_once(':') {
        None => Ok((text.to_owned(), Stream::Stdout)),
        Some((name, stream)) => match Stream::parse(stream) {
            Some(stream) => Ok((name.to_owned(), stream)),
            None => Err(entry.wrong("write NAME, NAME:stdout or NAME:stderr")),
        },
    }
}

fn port(entry: &Entry<'_>) -> Read<Port> {
    let wrong = || entry.wrong("`port` must be a number from 1 to 65535, or \"auto\"");
    match entry.scalar()?.as_str() {
        "auto" => Ok(Port::Auto),
        text => text.parse().ok().filter(|&port: &u16| port > 0).map(Port::Fixed).ok_or_else(wrong),
    }
}

/// Decides what a name alone means: that the job is ready, if it says when it is.
fn decide(project: &mut Project, places: &[Places<'_>]) {
    let can_be_ready = project.jobs.iter().filter(|job| job.can_be_ready());
    let can_be_ready: Vec<String> = can_be_ready.map(|job| job.name.clone()).collect();
    for (job, places) in project.jobs.iter_mut().zip(places) {
        for (after, place) in job.after.iter_mut().zip(places) {
            if place.is_bare && can_be_ready.contains(&after.job) {
                after.milestone = Milestone::Ready;
            }
        }
    }
}

/// Refuses what can never hold: it would be waited for without end.
fn check(project: &Project, places: &[Places<'_>]) -> Read<()> {
    for (job, places) in project.jobs.iter().zip(places) {
        for (after, Place { source, span, .. }) in job.after.iter().zip(places) {
            let other = project.jobs.iter().find(|other| other.name == after.job);
            if after.milestone == Milestone::Ready && !other.is_some_and(ProjectJob::can_be_ready) {
                let message = format!(
                    "{} never says that it is ready: give it `ready` or `port`, or write {0}@started",
                    after.job
                );
                return Err(source.fault(span.clone(), message));
            }
            let has_health = |other: &ProjectJob| {
                let mut options = JobOptions::default();
                options.apply(&other.choices);
                options.health.is_checked()
            };
            if after.milestone == Milestone::Healthy && !other.is_some_and(has_health) {
                let message = format!(
                    "nothing says when {} is healthy: give it `health`, or write {0}@started",
                    after.job
                );
                return Err(source.fault(span.clone(), message));
            }
            let is_read = job.stdin_from.as_ref().is_some_and(|(name, _)| *name == after.job);
            if is_read && other.is_some_and(|other| other.there.is_some()) {
                let message = format!("{} runs on another machine, and cannot be read here", after.job);
                return Err(source.fault(span.clone(), message));
            }
            if let Some(circle) = circle(project, &job.name, &after.job) {
                let message = format!("{} would wait for itself: {}", job.name, circle.join(" → "));
                return Err(source.fault(span.clone(), message));
            }
        }
    }
    Ok(())
}

/// Finds a way from a job that is waited for back to the one that waits.
pub(super) fn circle<'a>(project: &'a Project, waiting: &'a str, first: &'a str) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![waiting, first]];
    let mut seen = Vec::new();
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == waiting {
            return Some(way);
        }
        if seen.contains(&last) {
            continue;
        }
        seen.push(last);
        let job = project.jobs.iter().find(|job| job.name == last)?;
        ways.extend(job.after.iter().map(|after| [way.as_slice(), &[after.job.as_str()]].concat()));
    }
    None
}
