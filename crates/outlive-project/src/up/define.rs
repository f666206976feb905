//! A project that another machine defines here, job by job: its file is in the session of its jobs.

use std::path::PathBuf;

use outlive::{SessionName, Store};
use outlive_sys::durable;
use outlive_sys::fault::Replacing;
use serde_json::{Map, Value};

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::file::read;
use crate::project::{Asked, FILE, Project};
use crate::up::record::{self, Step, StepState};

/// Defines a job of the project in a session, and lets it be up as defined; `is_named`: also if it has completed. Returns what became
/// of it.
///
/// # Errors
///
/// If the definition has a mistake, or the store cannot be used.
pub fn define(
    store: &Store,
    session: &SessionName,
    (project, name): (&str, &str),
    mut definition: Map<String, Value>,
    is_named: bool,
) -> Result<Step, ProjectError> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/".into()));
    let dir =
        definition.get("dir").and_then(Value::as_str).map_or_else(|| home.clone(), |dir| home.join(dir));
    definition.insert("dir".to_owned(), dir.display().to_string().into());
    store.make_session(session).map_err(ProjectError::Store)?;
    write(store, session, project, name, &definition)?;
    let whole = Project::of_session(store, session)?;
    let whole = whole.ok_or_else(|| ProjectError::NoFile(store.session_dir(session).join(FILE)))?;
    let wanted = [name.to_owned()];
    let asked = Asked { names: &wanted, ..Asked::default() };
    let mut rising = super::ask(store, &whole, &asked, if is_named { &wanted } else { &[] })?;
    loop {
        let progress = rising.next(None, None)?;
        if let Some(step) = progress.jobs.get(name).filter(|step| step.state != StepState::Waiting) {
            return Ok(step.clone());
        }
    }
}

/// Puts a job into the file, in place of one of its name.
fn write(
    store: &Store,
    session: &SessionName,
    project: &str,
    name: &str,
    definition: &Map<String, Value>,
) -> Result<(), ProjectError> {
    let _held = record::lock_record(store, session).map_err(ProjectError::Store)?;
    let (path, hosts) = (store.session_dir(session), &store.config().hosts);
    let file = path.join(FILE);
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let known: toml::Table = known.parse().unwrap_or_default();
    let mut jobs = match known.get("jobs").and_then(|jobs| serde_json::to_value(jobs).ok()) {
        Some(Value::Object(jobs)) => jobs,
        _ => Map::new(),
    };
    jobs.insert(name.to_owned(), Value::Object(definition.clone()));
    let mut text = format!("name = {}\n", toml(&Value::from(project)));
    for (name, job) in &jobs {
        text += &format!("\n[jobs.{}]\n", quoted(name));
        for (key, value) in job.as_object().into_iter().flatten() {
            text += &format!("{} = {}\n", quoted(key), toml(value));
        }
    }
    // A mistake is told before anything is changed.
    let source = Source { path: file.clone(), text: text.clone() };
    read::project(file.clone(), path.clone(), std::slice::from_ref(&source), hosts)?;
    let failed = |error| ProjectError::Write(file.clone(), error);
    let dir = durable::open_dir(&path).map_err(failed)?;
    durable::replace(Replacing::SETTINGS, &dir, FILE, text.as_bytes()).map_err(failed)
}

/// Writes a value of JSON in TOML, in one line.
fn toml(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(values) => format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(table) => {
            let entry = |(key, value): (&String, &Value)| format!("{} = {}", quoted(key), toml(value));
            format!("{{ {} }}", table.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        // A definition has none; an empty text is refused with its place.
        Value::Null => quoted(""),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Writes a text in quotes. TOML has the escapes of JSON, and wants one more.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_written_as_it_is_read() {
        let value = serde_json::json!({
            "run": ["a", "\"b\" \\ \n\t\u{1}\u{7f} é"], "port": 8000, "pty": true, "env": { "A.B": "x", "": "" },
            "restart": { "when": "always", "tries": 5 }, "cpu": 1.5, "none": [], "empty": {},
        });
        let text: String = value
            .as_object()
            .expect("an object")
            .iter()
            .map(|(key, value)| format!("{} = {}\n", quoted(key), toml(value)))
            .collect();
        let read: toml::Table = text.parse().expect("it is TOML");
        assert_eq!(serde_json::to_value(read).expect("it is JSON"), value, "{text}");
    }
}
