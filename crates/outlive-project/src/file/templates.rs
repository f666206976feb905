//! `[templates.NAME]`: a job with parameters, `{{name}}`, that is started when it is asked for.
//!
//! A template has the keys of a job, and `params`: its parameters with their defaults. One without a default must be given. In a line for
//! the shell a parameter is always one word, whatever is in it, and none if it is empty; everywhere else it stands as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use outlive::quote;
use serde::Serialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::error::ProjectError;
use crate::file::fault::{Fault, nearest};
use crate::file::keys;
use crate::file::place::Hosts;
use crate::file::read::{Entry, Read, Written, command_line, entries, named, read_job};
use crate::project::{Port, ProjectJob};

/// The keys of a template that a job has not.
pub(crate) const OWN: [&str; 2] = ["params", "about"];

/// The keys of a job that a template has not: it is started when it is asked for.
pub(crate) const NOT_HERE: [&str; 5] = ["after", "stdin_from", "profile", "on", "sync"];

/// A template, as its file says.
#[derive(Debug, Clone, Serialize)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub about: Option<String>,
    /// Its parameters by name, with their defaults; without one it must be given.
    pub params: BTreeMap<String, Option<String>>,
    /// What it runs, with the parameters in it.
    pub run: String,
}

impl Template {
    /// Tells whether these parameters can be filled in.
    pub(crate) fn check(&self, given: &BTreeMap<String, String>) -> Result<(), ProjectError> {
        let wrong = |message| Err(ProjectError::Params { template: self.name.clone(), message });
        let known: Vec<&str> = self.params.keys().map(String::as_str).collect();
        if let Some(unknown) = given.keys().find(|name| !self.params.contains_key(*name)) {
            let others = match (nearest(unknown, known.iter().copied()), known.is_empty()) {
                (Some(meant), _) => format!("; did you mean {meant}?"),
                (None, false) => format!("; there are {}", known.join(", ")),
                (None, true) => String::new(),
            };
            return wrong(format!("it has no parameter {unknown:?}{others}"));
        }
        let is_missing =
            |(name, default): &(&String, &Option<String>)| default.is_none() && !given.contains_key(*name);
        match self.params.iter().find(is_missing) {
            Some((name, _)) => wrong(format!("it needs {name}: --set {name}=VALUE")),
            None => Ok(()),
        }
    }
}

/// A parameter in a text: where it stands there, its name, and whether it stands in quotes.
struct Place<'a> {
    start: usize,
    end: usize,
    name: &'a str,
    is_in_quotes: bool,
}

/// Reads what a template is, and refuses what makes no sense in one.
pub(super) fn template(written: &Written<'_>, dir: &Path) -> Read<Template> {
    let name = written.head.name().to_owned();
    let mut defaults = BTreeMap::new();
    let (mut about, mut run) = (None, String::new());
    for entry in written.keys.values().flatten() {
        match entry.name() {
            "params" => defaults.extend(named(entry)?),
            "about" => about = Some(entry.text()?.to_owned()),
            "on" | "sync" => {
                return Err(entry.wrong_key("a template is started on this machine: leave it out"));
            }
            key if NOT_HERE.contains(&key) => {
                let message =
                    "a template is started when it is asked for, and not after other jobs: leave it out";
                return Err(entry.wrong_key(message));
            }
            "run" => run = command_line(entry)?,
            _ if keys::of_job().any(|key| key.name == entry.name()) => {}
            _ => {
                let known =
                    keys::of_job().map(|key| key.name).chain(OWN).filter(|key| !NOT_HERE.contains(key));
                return Err(entry.unknown("a template", known));
            }
        }
    }
    if run.is_empty() {
        return Err(written
            .head
            .wrong_key(format!("template {name} has no `run`: write run = \"LINE {{{{parameter}}}}\"")));
    }
    let mut used = BTreeSet::new();
    for entry in written.keys.values().flatten().filter(|entry| !OWN.contains(&entry.name())) {
        check(entry, entry.value, keys::is_line(None, entry.name()), &mut used)?;
    }
    for entry in written.keys.get("params").into_iter().flatten() {
        if let Some(param) = entry.table()?.iter().find(|param| !used.contains(param.name())) {
            let meant = nearest(param.name(), used.iter().map(String::as_str));
            let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
            let message = format!("nothing in the template says {{{{{}}}}}{meant}", param.name());
            return Err(param.wrong_key(message));
        }
    }
    let params = used.into_iter().map(|name| (name.clone(), defaults.remove(&name))).collect();
    let template = Template { name, about, params, run };
    // With its defaults it can be read whole: what is wrong is told now.
    if template.params.values().all(Option::is_some) {
        fill(written, &template, &BTreeMap::new(), dir)?;
    }
    Ok(template)
}

/// Tells whether a character may be in the name of a parameter.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-".contains(c)
}

/// Finds the parameters in a value, and tells what is wrong with one.
fn check(
    entry: &Entry<'_>,
    value: &Spanned<DeValue<'_>>,
    is_line: bool,
    used: &mut BTreeSet<String>,
) -> Read<()> {
    match value.get_ref() {
        DeValue::String(text) => {
            let places = places(text);
            let rest = places.last().map_or(0, |place| place.end);
            if let Some(at) = text[rest..].find("{{") {
                let start = rest + at;
                let name = text[start + 2..].split(|c: char| !is_of_name(c)).next().unwrap_or_default();
                let place = Place { start, end: start + 2 + name.len(), name, is_in_quotes: false };
                let name = if name.is_empty() { "name" } else { name };
                let message = format!("this is never closed: write {{{{{name}}}}}");
                return Err(wrong_at(entry, value, text, &place, message));
            }
            for place in places {
                let wrong = |message: String| wrong_at(entry, value, text, &place, message);
                if place.name.is_empty() || !place.name.chars().all(is_of_name) {
                    let message = "the name of a parameter has letters, digits, `_` and `-`: write {{name}}";
                    return Err(wrong(message.to_owned()));
                }
                if is_line && place.is_in_quotes {
                    let message = format!(
                        "{{{{{}}}}} is always one word: write it without quotes around it",
                        place.name
                    );
                    return Err(wrong(message));
                }
                used.insert(place.name.to_owned());
            }
            Ok(())
        }
        DeValue::Array(values) => values.iter().try_for_each(|value| check(entry, value, false, used)),
        DeValue::Table(table) => table.iter().try_for_each(|(key, value)| {
            check(entry, value, keys::is_line(Some(entry.name()), key.get_ref()), used)
        }),
        _ => Ok(()),
    }
}

/// Makes the fault of a parameter, where it stands in the file.
fn wrong_at(
    entry: &Entry<'_>,
    value: &Spanned<DeValue<'_>>,
    text: &str,
    place: &Place<'_>,
    message: String,
) -> Box<Fault> {
    let (written, inside) = (&text[place.start..place.end], value.span());
    let found = entry.source.text.get(inside.clone()).and_then(|source| source.find(written));
    let start = found.map_or(inside.start, |at| inside.start + at);
    let end = found.map_or(inside.end, |_| start + written.len());
    entry.source.fault(start..end, message)
}

/// Lists the parameters of a text.
fn places(text: &str) -> Vec<Place<'_>> {
    let (mut places, mut from, mut quote_open) = (Vec::new(), 0, None);
    while let Some(at) = text[from..].find("{{") {
        let start = from + at;
        let mut is_escaped = false;
        for c in text[from..start].chars() {
            match (c, quote_open) {
                _ if is_escaped => is_escaped = false,
                ('\\', open) if open != Some('\'') => is_escaped = true,
                ('\'' | '"', None) => quote_open = Some(c),
                (c, Some(open)) if c == open => quote_open = None,
                _ => {}
            }
        }
        let Some(length) = text[start..].find("}}") else { break };
        let end = start + length + 2;
        places.push(Place {
            start,
            end,
            name: text[start + 2..end - 2].trim(),
            is_in_quotes: quote_open.is_some(),
        });
        from = end;
    }
    places
}

/// Reads the job of a template with these parameters, which take precedence over its defaults.
pub(super) fn fill(
    written: &Written<'_>,
    template: &Template,
    given: &BTreeMap<String, String>,
    dir: &Path,
) -> Read<ProjectJob> {
    let value_of = |name: &str| {
        given.get(name).or_else(|| template.params.get(name)?.as_ref()).cloned().unwrap_or_default()
    };
    let mut tables = Vec::new();
    for entry in written.keys.values().flatten().filter(|entry| !OWN.contains(&entry.name())) {
        let mut table = DeTable::new();
        let new = filled(entry.name(), entry.value, keys::is_line(None, entry.name()), &value_of);
        table.insert(entry.key.clone(), new);
        tables.push((entry.source, table));
    }
    let mut keys: BTreeMap<&str, Vec<Entry<'_>>> = BTreeMap::new();
    for (source, table) in &tables {
        for entry in entries(source, table) {
            keys.entry(entry.name()).or_default().push(entry);
        }
    }
    let written = Written { head: written.head, keys };
    let (job, _) = read_job(&written, dir, &[], &Hosts::new())?;
    if job.port == Some(Port::Auto) {
        let place = written.keys.get("port").and_then(|entries| entries.first()).unwrap_or(&written.head);
        return Err(place.wrong("a template has no port of its own each time: write a number, or {{port}}"));
    }
    Ok(job)
}

fn filled<'a>(
    name: &str,
    value: &Spanned<DeValue<'a>>,
    is_line: bool,
    value_of: &impl Fn(&str) -> String,
) -> Spanned<DeValue<'a>> {
    let new = match value.get_ref() {
        DeValue::String(text) => {
            let (mut new, mut from) = (String::new(), 0);
            for place in places(text) {
                let value = value_of(place.name);
                new.push_str(&text[from..place.start]);
                // An empty one is no word at all.
                new.push_str(&if is_line && !value.is_empty() { quote(&value) } else { value });
                from = place.end;
            }
            DeValue::String((new + &text[from..]).into())
        }
        DeValue::Array(values) => {
            let mut array = DeArray::new();
            values.iter().for_each(|value| array.push(filled(name, value, false, value_of)));
            DeValue::Array(array)
        }
        DeValue::Table(table) => {
            let mut new = DeTable::new();
            for (key, value) in table {
                let is_line = keys::is_line(Some(name), key.get_ref());
                new.insert(key.clone(), filled(name, value, is_line, value_of));
            }
            DeValue::Table(new)
        }
        other => other.clone(),
    };
    Spanned::new(value.span(), new)
}
