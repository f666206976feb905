//! Reads the YAML of process-compose as it is. What has no counterpart here is named in a warning, and nothing is dropped in silence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outlive::{JobChoices, OPTIONS, Signal, Timestamp};
use serde_json::{Map, Value};

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::file::read::circle;
use crate::file::{env, expand};
use crate::project::{After, Command, Milestone, Project, ProjectJob};

/// The most replicas of one process: more than that is a slip of the keyboard.
const MOST_REPLICAS: u16 = 100;

/// Tells whether a file is one, by its name.
pub(crate) fn is_one(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// What is read so far, and where.
struct Reader<'a> {
    file: &'a Path,
    /// What stands for `{{.NAME}}` in all processes.
    vars: BTreeMap<String, String>,
    warnings: Vec<String>,
}

/// A mistake at a key.
fn wrong(file: &Path, place: &str, message: &str) -> ProjectError {
    ProjectError::Foreign { file: file.to_owned(), message: format!("{place}: {message}") }
}

/// Reads it; `variables` is the `.env` beside it.
pub(crate) fn project(
    file: PathBuf,
    dir: PathBuf,
    source: &Source,
    variables: Option<&Source>,
) -> Result<Project, ProjectError> {
    let env = variables.map_or(Ok(Vec::new()), |variables| {
        env::read(&variables.text).map_err(|line| variables.fault_of_line(line, "this is not NAME=VALUE"))
    })?;
    let mut common: BTreeMap<String, String> = env.into_iter().collect();
    let parse = |text: &str| -> Result<Value, ProjectError> {
        serde_saphyr::from_str(text)
            .map_err(|error| ProjectError::Foreign { file: file.clone(), message: error.to_string() })
    };
    let mut reader = Reader { file: &file, vars: BTreeMap::new(), warnings: Vec::new() };
    let variable = |name: &str| common.get(name).cloned().or_else(|| std::env::var(name).ok());
    let is_as_it_stands =
        |yaml: &Value| yaml.get("disable_env_expansion").and_then(Value::as_bool) == Some(true);
    let yaml = match parse(&source.text).ok().filter(is_as_it_stands) {
        Some(yaml) => yaml,
        None => {
            let (text, unset) = expand::variables(&source.text, variable)
                .map_err(|(line, message)| ProjectError::Fault(source.fault_of_line(line, &message)))?;
            reader.warnings.extend(unset.into_iter().map(|name| {
                format!("`${{{name}}}` is not set, and stands for nothing; write $${{{name}}} for a variable of the process")
            }));
            parse(&text)?
        }
    };
    let top = yaml.as_object().ok_or_else(|| wrong(&file, "the file", "it has no `processes`"))?;
    for (key, value) in top {
        match key.as_str() {
            "version" | "processes" | "disable_env_expansion" => {}
            "environment" => common.extend(reader.environment("environment", value)?),
            "vars" => reader.vars = reader.scalars("vars", value)?,
            "extends" => return Err(wrong(&file, key, "it is not read: write all processes into one file")),
            // For the reader of the file.
            _ if key.starts_with("x-") => {}
            _ => reader.leave(key),
        }
    }
    let processes = top.get("processes").and_then(Value::as_object);
    let processes = processes.ok_or_else(|| wrong(&file, "processes", "there are none"))?;
    let mut read = Vec::new();
    for (name, process) in processes {
        if let Some(job) = reader.job(name, process, &dir, &common)? {
            read.push((job, reader.replicas(name, process)?));
        }
    }
    let warnings = std::mem::take(&mut reader.warnings);
    check(&file, &mut read)?;
    let jobs = replicate(read);
    let project = Project { jobs, warnings, ..Project::empty(file.clone(), dir) };
    for job in &project.jobs {
        for after in &job.after {
            if let Some(circle) = circle(&project, &job.name, &after.job) {
                let message = format!("it would wait for itself: {}", circle.join(" → "));
                return Err(wrong(&project.file, &format!("processes.{}.depends_on", job.name), &message));
            }
        }
    }
    Ok(project)
}

/// Refuses what can never hold. A process that is waited for until it is healthy, and only says whether it is alive, is ready when it is.
fn check(file: &Path, jobs: &mut [(ProjectJob, u16)]) -> Result<(), ProjectError> {
    let waits: Vec<(String, After)> = jobs
        .iter()
        .flat_map(|(job, _)| job.after.iter().map(|after| (job.name.clone(), after.clone())))
        .collect();
    let names: Vec<String> = jobs.iter().map(|(job, _)| job.name.clone()).collect();
    for (name, after) in waits {
        let place = format!("processes.{name}.depends_on.{}", after.job);
        let Some((other, _)) = jobs.iter_mut().find(|(other, _)| other.name == after.job) else {
            let message =
                format!("there is no such process that is not disabled; there are {}", names.join(", "));
            return Err(wrong(file, &place, &message));
        };
        if after.milestone != Milestone::Ready || other.can_be_ready() {
            continue;
        }
        let choices = &mut other.choices;
        (choices.ready_http, choices.ready_command) =
            (choices.health_http.clone(), choices.health_command.clone());
        if !other.can_be_ready() {
            let message = "it never says when it is ready: give it a readiness_probe or a ready_log_line";
            return Err(wrong(file, &place, message));
        }
    }
    Ok(())
}

/// Makes a job for each replica: `web-0`, `web-1`. What waits for a process waits for all of them.
fn replicate(read: Vec<(ProjectJob, u16)>) -> Vec<ProjectJob> {
    let counts: BTreeMap<String, u16> = read.iter().map(|(job, count)| (job.name.clone(), *count)).collect();
    let named = |name: &str, number: u16| {
        let count = counts.get(name).copied().unwrap_or(1);
        let width = count.to_string().len();
        if count > 1 { format!("{name}-{number:0width$}") } else { name.to_owned() }
    };
    let mut jobs = Vec::new();
    for (job, count) in read {
        for number in 0..count {
            let after = job.after.iter().flat_map(|after| {
                let others = 0..counts.get(&after.job).copied().unwrap_or(1);
                others.map(|other| After { job: named(&after.job, other), milestone: after.milestone })
            });
            let mut env = job.env.clone();
            env.insert("PC_PROC_NAME".to_owned(), job.name.clone());
            env.insert("PC_REPLICA_NUM".to_owned(), number.to_string());
            let after = after.collect();
            jobs.push(ProjectJob { name: named(&job.name, number), env, after, ..job.clone() });
        }
    }
    jobs
}

impl Reader<'_> {
    /// Names a key that is not taken.
    fn leave(&mut self, place: &str) {
        self.warnings.push(format!("`{place}` is not taken over"));
    }

    /// Names the keys of a table that are not taken.
    fn leave_others(&mut self, place: &str, table: &Value, known: &[&str]) {
        let keys = table.as_object().into_iter().flat_map(Map::keys);
        keys.filter(|key| !known.contains(&key.as_str()))
            .for_each(|key| self.leave(&format!("{place}.{key}")));
    }

    fn wrong(&self, place: &str, message: &str) -> ProjectError {
        wrong(self.file, place, message)
    }

    fn text<'a>(&self, place: &str, value: &'a Value) -> Result<&'a str, ProjectError> {
        value.as_str().ok_or_else(|| self.wrong(place, "it must be text"))
    }

    fn table<'a>(&self, place: &str, value: &'a Value) -> Result<&'a Map<String, Value>, ProjectError> {
        value.as_object().ok_or_else(|| self.wrong(place, "it must be a table"))
    }

    /// Reads variables: a list of NAME=VALUE, or a table.
    fn environment(&self, place: &str, value: &Value) -> Result<Vec<(String, String)>, ProjectError> {
        let pair = |item: &Value| {
            let (name, value) = item.as_str()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        match value {
            Value::Array(items) => items
                .iter()
                .map(|item| pair(item).ok_or_else(|| self.wrong(place, "write NAME=VALUE")))
                .collect(),
            Value::Object(table) => {
                Ok(table.iter().map(|(name, value)| (name.clone(), scalar(value))).collect())
            }
            _ => Err(self.wrong(place, "it must be a list of NAME=VALUE")),
        }
    }

    /// Reads texts, numbers and truths by name.
    fn scalars(&self, place: &str, value: &Value) -> Result<BTreeMap<String, String>, ProjectError> {
        Ok(self.table(place, value)?.iter().map(|(name, value)| (name.clone(), scalar(value))).collect())
    }

    /// Reads a text, with its `{{.NAME}}` replaced.
    fn filled(
        &self,
        place: &str,
        value: &Value,
        vars: &BTreeMap<String, String>,
    ) -> Result<String, ProjectError> {
        expand::vars(self.text(place, value)?, vars).map_err(|message| self.wrong(place, &message))
    }

    /// Sets an option of the job as it is written on the command line.
    fn set(
        &self,
        place: &str,
        choices: &mut JobChoices,
        option: &str,
        text: &str,
    ) -> Result<(), ProjectError> {
        let option = OPTIONS.iter().find(|known| known.name == option).expect("it is an option");
        let now = Timestamp(outlive_sys::clock::wall_us());
        option.set(choices, text.as_bytes(), now).map_err(|error| self.wrong(place, &error))
    }

    /// Reads one process; none if it is disabled.
    fn job(
        &mut self,
        name: &str,
        process: &Value,
        dir: &Path,
        common: &BTreeMap<String, String>,
    ) -> Result<Option<ProjectJob>, ProjectError> {
        let head = format!("processes.{name}");
        let table = self.table(&head, process)?;
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !is_name || !(1..=64).contains(&name.len()) {
            return Err(self.wrong(&head, "the name of a job has 1 to 64 letters, digits, `-`, `_` and `.`"));
        }
        if table.get("disabled").and_then(Value::as_bool) == Some(true) {
            self.warnings.push(format!("`{head}` is disabled, and left out"));
            return Ok(None);
        }
        let mut job = ProjectJob::new(name, Command::Argv(Vec::new()), dir, common.clone());
        let mut vars = self.vars.clone();
        if let Some(own) = table.get("vars") {
            vars.extend(self.scalars(&format!("{head}.vars"), own)?);
        }
        let mut has_command = false;
        for (key, value) in table {
            let place = format!("{head}.{key}");
            match key.as_str() {
                "command" => {
                    job.run = Command::Line(self.filled(&place, value, &vars)?);
                    has_command = true;
                }
                "entrypoint" => {
                    let words = value.as_array().into_iter().flatten().map(scalar).collect::<Vec<_>>();
                    has_command |= !words.is_empty();
                    if !table.contains_key("command") {
                        job.run = Command::Argv(words);
                    }
                }
                "working_dir" => job.dir = dir.join(self.filled(&place, value, &vars)?),
                "environment" => job.env.extend(self.environment(&place, value)?),
                "namespace" => drop(job.labels.insert("namespace".to_owned(), scalar(value))),
                "description" | "disabled" | "replicas" | "vars" => {}
                // Its main process ends at once, so that nothing of it could be waited for.
                "is_daemon" if value.as_bool() == Some(true) => {
                    let message =
                        "it goes to the background by itself: write a command that stays in the foreground";
                    return Err(self.wrong(&place, message));
                }
                "is_daemon" => {}
                _ if key.starts_with("x-") => {}
                "is_tty" | "is_interactive" => {
                    if value.as_bool() == Some(true) {
                        job.choices.pty = Some(true);
                    }
                }
                "depends_on" => job.after = self.depends_on(&place, value)?,
                // A part of the line, not a pattern.
                "ready_log_line" => {
                    job.choices.ready_on = Some(Some(escaped(self.text(&place, value)?)));
                }
                "readiness_probe" => self.probe(&place, value, "ready", (dir, &vars), &mut job.choices)?,
                "liveness_probe" => self.probe(&place, value, "health", (dir, &vars), &mut job.choices)?,
                "availability" => self.availability(&place, value, &mut job.choices)?,
                "shutdown" => self.shutdown(&place, value, &mut job)?,
                "schedule" => self.schedule(&place, value, &mut job)?,
                "watch" => self.watch(&place, value, &mut job)?,
                _ => self.leave(&place),
            }
        }
        if !has_command {
            return Err(self.wrong(&head, "it has no `command`"));
        }
        let restarts = job.choices.restart.is_some_and(|when| when != outlive::RestartWhen::No);
        if table.contains_key("liveness_probe") && restarts {
            job.choices.health_then = Some(outlive::HealthThen::Restart);
        }
        Ok(Some(job))
    }

    fn depends_on(&mut self, place: &str, value: &Value) -> Result<Vec<After>, ProjectError> {
        let mut found = Vec::new();
        for (job, settings) in self.table(place, value)? {
            self.leave_others(&format!("{place}.{job}"), settings, &["condition"]);
            let place = format!("{place}.{job}.condition");
            let milestone = match settings.get("condition").and_then(Value::as_str) {
                None | Some("process_started") => Milestone::Started,
                Some("process_healthy" | "process_log_ready") => Milestone::Ready,
                Some("process_completed") => Milestone::Completed,
                Some("process_completed_successfully") => Milestone::Succeeded,
                Some(other) => return Err(self.wrong(&place, &format!("there is no condition {other}"))),
            };
            found.push(After { job: job.clone(), milestone });
        }
        Ok(found)
    }

    /// Reads a probe as the options `ready_…` or `health_…`.
    fn probe(
        &mut self,
        place: &str,
        value: &Value,
        kind: &str,
        (dir, vars): (&Path, &BTreeMap<String, String>),
        choices: &mut JobChoices,
    ) -> Result<(), ProjectError> {
        for (key, value) in self.table(place, value)? {
            let inner = format!("{place}.{key}");
            match (key.as_str(), kind) {
                ("exec", _) => {
                    let command =
                        value.get("command").ok_or_else(|| self.wrong(&inner, "it has no `command`"))?;
                    let command = self.filled(&inner, command, vars)?;
                    let line = match value.get("working_dir").and_then(Value::as_str) {
                        Some(inside) => {
                            format!(
                                "cd {} && {{ {command}\n}}",
                                outlive::quote(&dir.join(inside).to_string_lossy())
                            )
                        }
                        None => command,
                    };
                    self.set(&inner, choices, &format!("{kind}_command"), &line)?;
                    self.leave_others(&inner, value, &["command", "working_dir"]);
                }
                ("http_get", _) => {
                    let get = |key: &str, default: &str| {
                        let text = value.get(key).map_or(default.to_owned(), scalar);
                        expand::vars(&text, vars).unwrap_or(text)
                    };
                    let scheme = get("scheme", "http").to_ascii_lowercase();
                    let (host, path) = (get("host", "127.0.0.1"), get("path", "/"));
                    let port = get("port", if scheme == "https" { "443" } else { "80" });
                    let url = format!("{scheme}://{host}:{port}/{}", path.trim_start_matches('/'));
                    self.set(&inner, choices, &format!("{kind}_http"), &url)?;
                    self.leave_others(&inner, value, &["scheme", "host", "port", "path"]);
                }
                ("period_seconds", "health") => {
                    self.set(&inner, choices, "health_interval", &format!("{}s", scalar(value)))?;
                }
                ("failure_threshold", "health") => {
                    self.set(&inner, choices, "health_failures", &scalar(value))?;
                }
                _ => self.leave(&inner),
            }
        }
        Ok(())
    }

    /// Returns how many of a process there are to be.
    fn replicas(&self, name: &str, process: &Value) -> Result<u16, ProjectError> {
        let Some(written) = process.get("replicas") else { return Ok(1) };
        let count = scalar(written).parse().ok().filter(|count| (1..=MOST_REPLICAS).contains(count));
        count.ok_or_else(|| {
            let message = format!("write a number from 1 to {MOST_REPLICAS}");
            self.wrong(&format!("processes.{name}.replicas"), &message)
        })
    }

    fn availability(
        &mut self,
        place: &str,
        value: &Value,
        choices: &mut JobChoices,
    ) -> Result<(), ProjectError> {
        for (key, value) in self.table(place, value)? {
            let inner = format!("{place}.{key}");
            match (key.as_str(), scalar(value).as_str()) {
                ("restart", "no" | "false") => self.set(&inner, choices, "restart", "no")?,
                ("restart", "on_failure") => self.set(&inner, choices, "restart", "on-failure")?,
                ("restart", "always" | "unless-stopped") => self.set(&inner, choices, "restart", "always")?,
                ("backoff_seconds", seconds) => {
                    self.set(&inner, choices, "restart_delay", &format!("{seconds}s"))?;
                }
                // There 0 is no limit.
                ("max_restarts", "0") => self.set(&inner, choices, "restart_tries", "1000")?,
                ("max_restarts", count) => self.set(&inner, choices, "restart_tries", count)?,
                ("restart", other) => self.warnings.push(format!("`{inner}`: {other} is not taken over")),
                _ => self.leave(&inner),
            }
        }
        Ok(())
    }

    /// Reads when it is run. Its time zone is that of the job.
    fn schedule(&mut self, place: &str, value: &Value, job: &mut ProjectJob) -> Result<(), ProjectError> {
        let table = self.table(place, value)?;
        let runs_at_once = table.get("run_on_start").and_then(Value::as_bool) == Some(true);
        for (key, value) in table {
            let (inner, text) = (format!("{place}.{key}"), scalar(value));
            match (key.as_str(), text.as_str()) {
                ("cron", line) => self.set(&inner, &mut job.choices, "schedule", line)?,
                // There a cron line takes precedence.
                ("interval", _) if table.contains_key("cron") => self.leave(&inner),
                ("interval", every) => {
                    self.set(&inner, &mut job.choices, "every", every)?;
                    if !runs_at_once {
                        self.warnings.push(format!("`{inner}`: the first run is at once"));
                    }
                }
                ("timezone", zone) => drop(job.env.insert("TZ".to_owned(), zone.to_owned())),
                ("run_on_start", "true") if table.contains_key("cron") => self.leave(&inner),
                ("run_on_start", _) | ("max_concurrent", "1") => {}
                _ => self.leave(&inner),
            }
        }
        Ok(())
    }

    /// Reads which files it is restarted for.
    fn watch(&mut self, place: &str, value: &Value, job: &mut ProjectJob) -> Result<(), ProjectError> {
        for (key, value) in self.table(place, value)? {
            let inner = format!("{place}.{key}");
            let Some(paths) = value.as_array().filter(|_| key == "paths") else {
                self.leave(&inner);
                continue;
            };
            for path in paths {
                let table = self.table(&inner, path)?;
                let root = table.get("path").and_then(Value::as_str);
                let root = root.ok_or_else(|| self.wrong(&inner, "each has a `path`"))?;
                let root = root.trim_start_matches("./").trim_end_matches('/');
                let below = |pattern: &str| match root {
                    "" | "." => pattern.to_owned(),
                    root => format!("{root}/{pattern}"),
                };
                let patterns =
                    |key: &str| table.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                let include = patterns("include");
                if include.is_empty() {
                    job.watch.push(below("**"));
                }
                job.watch.extend(include.iter().map(|pattern| below(&scalar(pattern))));
                let exclude = patterns("exclude");
                job.watch.extend(exclude.iter().map(|pattern| format!("!{}", below(&scalar(pattern)))));
                for key in table.keys().filter(|key| !["path", "include", "exclude"].contains(&key.as_str()))
                {
                    self.leave(&format!("{inner}.{key}"));
                }
            }
        }
        Ok(())
    }

    fn shutdown(&mut self, place: &str, value: &Value, job: &mut ProjectJob) -> Result<(), ProjectError> {
        for (key, value) in self.table(place, value)? {
            let inner = format!("{place}.{key}");
            match key.as_str() {
                "signal" => {
                    let unknown = || self.wrong(&inner, "there is no such signal");
                    job.stop = Some(Signal::parse(&scalar(value)).ok_or_else(unknown)?);
                }
                "timeout_seconds" => {
                    self.set(&inner, &mut job.choices, "grace", &format!("{}s", scalar(value)))?;
                }
                _ => self.leave(&inner),
            }
        }
        Ok(())
    }
}

/// Returns a text, number or truth as text.
fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns a pattern that matches this text alone.
fn escaped(text: &str) -> String {
    let is_special = |c: char| "\\.+*?()|[]{}^$#&-~".contains(c);
    text.chars().flat_map(|c| is_special(c).then_some('\\').into_iter().chain([c])).collect()
}
