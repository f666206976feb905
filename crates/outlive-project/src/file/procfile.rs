//! Reads a `Procfile`, as foreman and overmind do: lines `name: command`, variables of `.env` beside it, and a `$PORT` for each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::file::env;
use crate::file::fault::{Fault, Source};
use crate::project::{Command, Project, ProjectJob};

/// The port of the first job, and how far apart the others are.
const PORTS: (u16, u16) = (5000, 100);

/// Tells whether a file is one, by its name: `Procfile`, `Procfile.dev`, `web.procfile`.
pub(crate) fn is_one(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name == "Procfile" || name.starts_with("Procfile.") || name.ends_with(".procfile")
}

/// Reads it; `variables` is the `.env` beside it.
pub(crate) fn project(
    file: PathBuf,
    dir: PathBuf,
    source: &Source,
    variables: Option<&Source>,
) -> Result<Project, Box<Fault>> {
    let env = variables.map_or(Ok(Vec::new()), |variables| {
        env::read(&variables.text).map_err(|line| variables.fault_of_line(line, "this is not NAME=VALUE"))
    })?;
    let env: BTreeMap<String, String> = env.into_iter().collect();
    let first = env.get("PORT").and_then(|port| port.parse().ok()).unwrap_or(PORTS.0);
    let mut project = Project::empty(file, dir);
    for (number, line) in source.text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |message| source.fault_of_line(number + 1, message);
        let (name, command) = line.split_once(':').ok_or_else(|| wrong("write NAME: COMMAND"))?;
        let (name, command) = (name.trim(), command.trim());
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(wrong("the name of a job has letters, digits, `-`, `_` and `.`"));
        }
        if command.is_empty() {
            return Err(wrong("there is no command to run"));
        }
        if project.jobs.iter().any(|job| job.name == name) {
            return Err(wrong("there is a job of this name above"));
        }
        let place = u16::try_from(project.jobs.len()).unwrap_or(0);
        let port = first.saturating_add(PORTS.1.saturating_mul(place));
        let mut env = env.clone();
        env.insert("PORT".to_owned(), port.to_string());
        let run = Command::Line(command.to_owned());
        project.jobs.push(ProjectJob::new(name, run, &project.dir, env));
    }
    Ok(project)
}
