//! `pitchfork.toml`: its daemons.

use std::collections::BTreeSet;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ProjectError;
use crate::file::fault::Source;
use crate::import::draft::{Draft, DraftJob, job_name, quoted};
use crate::import::foreign;

pub(super) fn read(_: &Path, source: &Source) -> Result<Draft, ProjectError> {
    let table = DeTable::parse(&source.text)
        .map_err(|error| source.fault(error.span().unwrap_or(0..0), error.message().trim_end()))?;
    let mut draft = Draft::default();
    let mut daemons = None;
    for (key, value) in sorted(table.get_ref()) {
        match key {
            "daemons" => daemons = value.as_table(),
            "namespace" => draft.name = value.as_str().map(str::to_owned),
            _ => draft.warn(format!("`{key}` is not taken over.")),
        }
    }
    let daemons = daemons.ok_or_else(|| foreign(source, "it has no [daemons.NAME]"))?;
    let mut taken = BTreeSet::new();
    // Names first: others may be waited for that stand below.
    let named: Vec<(&str, String, &DeValue<'_>)> =
        sorted(daemons).map(|(name, daemon)| (name, job_name(name, &mut taken), daemon)).collect();
    for (name, job, daemon) in &named {
        let known =
            |other: &str| named.iter().find(|(name, ..)| *name == other).map(|(_, job, _)| job.as_str());
        let daemon =
            daemon.as_table().ok_or_else(|| foreign(source, format!("daemons.{name} is no table")))?;
        let job = daemon_of(name, DraftJob::new(job.clone()), daemon, known, &mut draft);
        draft.jobs.push(job);
    }
    Ok(draft)
}

/// Lists a table in the order of the file.
fn sorted<'a>(table: &'a DeTable<'a>) -> impl Iterator<Item = (&'a str, &'a DeValue<'a>)> {
    let mut entries: Vec<(&Spanned<_>, &Spanned<DeValue<'a>>)> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries.into_iter().map(|(key, value)| (key.get_ref().as_ref(), value.get_ref()))
}

/// Reads one daemon. `known` gives the job of a daemon that is waited for.
fn daemon_of<'k>(
    name: &str,
    mut job: DraftJob,
    daemon: &DeTable<'_>,
    known: impl Fn(&str) -> Option<&'k str>,
    draft: &mut Draft,
) -> DraftJob {
    let mut ready = Vec::new();
    for (key, value) in sorted(daemon) {
        let text = scalar(value);
        match (key, value, &text) {
            ("run", _, Some(line)) => job.text("run", line),
            ("run", DeValue::Array(words), _) => {
                let words: Vec<String> = words.iter().filter_map(|word| scalar(word.get_ref())).collect();
                job.texts("run", words.iter().map(String::as_str));
            }
            ("dir", _, Some(dir)) => job.text("dir", dir),
            ("env", DeValue::Table(env), _) => {
                let env = sorted(env).filter_map(|(name, value)| Some((name, scalar(value)?)));
                job.table("env", env.collect::<Vec<_>>());
            }
            ("depends", DeValue::Array(names), _) => {
                let names: Vec<String> = names.iter().filter_map(|name| scalar(name.get_ref())).collect();
                let (here, elsewhere): (Vec<&String>, Vec<&String>) =
                    names.iter().partition(|other| known(other).is_some());
                for other in elsewhere {
                    draft.warn(format!("{name} depends on {other}, which is not in this file."));
                }
                job.texts("after", here.iter().filter_map(|other| known(other)));
            }
            ("port", DeValue::Integer(_), Some(port)) => job.value("port", port.clone()),
            ("port" | "expected_port", DeValue::Array(ports), _) if ports.len() == 1 => {
                job.value("port", ports.iter().filter_map(|port| scalar(port.get_ref())).collect());
            }
            ("ready_output", _, Some(line)) => ready.push(("line", quoted(line))),
            ("ready_port", _, Some(port)) => ready.push(("port", port.clone())),
            ("ready_cmd", _, Some(line)) => ready.push(("command", quoted(line))),
            ("ready_http", _, Some(url)) => ready.push(("http", quoted(url))),
            ("ready_http", DeValue::Table(http), _) => {
                for (key, value) in sorted(http) {
                    match (key, scalar(value)) {
                        ("url", Some(url)) => ready.push(("http", quoted(&url))),
                        ("timeout", Some(time)) => ready.push(("timeout", quoted(&time))),
                        _ => draft.warn(format!("`ready_http.{key}` of {name} is not taken over.")),
                    }
                }
            }
            ("retry", DeValue::Boolean(true), _) => job.text("restart", "on-failure"),
            ("retry", DeValue::Boolean(false), _) => {}
            ("retry", _, Some(tries)) if tries == "0" => {}
            ("retry", _, Some(tries)) => {
                job.value("restart", format!("{{ when = \"on-failure\", tries = {tries} }}"))
            }
            ("stop_signal", _, Some(signal)) => job.text("stop", signal.trim_start_matches("SIG")),
            ("memory_limit", _, Some(size)) => {
                job.value("limits", format!("{{ memory = {} }}", quoted(size)))
            }
            _ => draft.warn(format!("`{key}` of {name} is not taken over.")),
        }
    }
    if !ready.is_empty() {
        let pairs: Vec<String> = ready.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
        job.value("ready", format!("{{ {} }}", pairs.join(", ")));
    }
    job
}

/// Returns a text, number or truth as text.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.clone().into_owned()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(is_true) => Some(is_true.to_string()),
        _ => None,
    }
}
