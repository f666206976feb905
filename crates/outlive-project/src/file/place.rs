//! Where a job of a project runs: on this machine, on another one, or where an engine places it.

use std::collections::BTreeMap;
use std::path::Path;

use outlive::duration::parse_duration;
use outlive::{Engine, HostRules, Placement, nearest};
use serde_json::{Map, Value};
use toml::de::DeValue;

use crate::file::read::{Entry, Read, Written};
use crate::project::{ProjectJob, There};

/// The machines that the configuration names.
pub(crate) type Hosts = BTreeMap<String, HostRules>;

/// The keys that are about it.
pub(super) const KEYS: [&str; 8] = ["on", "sync", "engine", "cpus", "gpus", "partition", "time", "cutoff"];

/// What only an engine can be asked for.
const FOR_ENGINES: [&str; 5] = ["cpus", "gpus", "partition", "time", "cutoff"];

/// Keys that are followed here, and not on the other machine.
const FOLLOWED_HERE: [&str; 5] = ["on", "sync", "after", "env", "env_file"];

/// Reads where a job is to run; the rest of the job was read.
pub(super) fn read(written: &Written<'_>, job: &mut ProjectJob, dir: &Path, hosts: &Hosts) -> Read<()> {
    let key = |name: &str| written.keys.get(name).and_then(|entries| entries.last());
    let named = |entry: &Entry<'_>| -> Read<_> { Ok((entry.text()?.to_owned(), rules(entry, hosts)?)) };
    let on = key("on").map(named).transpose()?;
    let mut engine = key("engine").map(engine).transpose()?;
    let node_store = on.as_ref().and_then(|(_, rules)| rules.node_store.clone());
    engine = engine.or(on.as_ref().and_then(|(_, rules)| rules.engine));
    let host = on.and_then(|(host, rules)| (!rules.address.is_empty()).then_some(host));
    if let (None, Some(entry)) = (engine, FOR_ENGINES.iter().find_map(|name| key(name))) {
        let message = format!(
            "`{}` is for an engine: write engine = \"slurm\", or `on` with a machine that has one",
            entry.name()
        );
        return Err(entry.wrong_key(message));
    }
    let placement = engine.map(|engine| placement(written, engine)).transpose()?;
    let placement = placement.map(|placement| Placement { node_store, ..placement });
    let Some(host) = host else {
        if let Some(entry) = key("sync") {
            return Err(entry.wrong_key("`sync` copies to another machine: write which with `on`"));
        }
        job.placement = placement;
        return Ok(());
    };
    if let Some(entry) = key("stdin_from") {
        return Err(entry.wrong_key("a job on another machine cannot read what one here prints"));
    }
    let sync = key("sync").map(|entry| entry.text().map(|text| dir.join(text))).transpose()?;
    // Its directory is there, and so is what makes it; only what is copied is here.
    let is_missing = sync.as_ref().is_some_and(|path| !path.is_dir());
    let missing = || Some(key("sync")?.wrong("there is no such directory: make it, or write another"));
    job.missing_dir = if is_missing { missing() } else { None };
    let mut definition = Map::new();
    for entry in written.keys.values().flatten().filter(|entry| !FOLLOWED_HERE.contains(&entry.name())) {
        let value = json(entry.value.get_ref());
        match (definition.get_mut(entry.name()), value) {
            // Labels of both files count.
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
            (_, value) => drop(definition.insert(entry.name().to_owned(), value)),
        }
    }
    if !job.env.is_empty() {
        let env = job.env.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        definition.insert("env".to_owned(), Value::Object(env.collect()));
    }
    if let Some(engine) = engine {
        definition.insert("engine".to_owned(), engine.word().into());
    }
    job.there = Some(There { host, sync, definition });
    Ok(())
}

/// Finds the machine that `on` names.
fn rules<'h>(entry: &Entry<'_>, hosts: &'h Hosts) -> Read<&'h HostRules> {
    let name = entry.text()?;
    hosts.get(name).ok_or_else(|| {
        let known: Vec<&str> = hosts.keys().map(String::as_str).collect();
        let more = match (nearest(name, known.iter().copied()), known.as_slice()) {
            (Some(meant), _) => format!("; did you mean `{meant}`?"),
            (None, []) => format!(": write [hosts.{name}] and below it address = \"ssh://{name}\""),
            (None, known) => format!(": there are {}", known.join(", ")),
        };
        entry.wrong(format!("config.toml names no machine `{name}`{more}"))
    })
}

fn engine(entry: &Entry<'_>) -> Read<Engine> {
    let unknown = || entry.wrong(format!("there is no such engine: write {}", Engine::WORDS.join(" or ")));
    Engine::parse(entry.text()?).ok_or_else(unknown)
}

/// Reads what an engine is asked for.
fn placement(written: &Written<'_>, engine: Engine) -> Read<Placement> {
    let mut placement = Placement::by(engine);
    for name in FOR_ENGINES {
        let Some(entry) = written.keys.get(name).and_then(|entries| entries.last()) else { continue };
        let count = || {
            let count = entry.scalar()?.parse().ok().filter(|count| *count > 0);
            count.ok_or_else(|| entry.wrong(format!("`{name}` must be a number from 1 on")))
        };
        let time = || -> Read<u64> {
            let time = parse_duration(&entry.scalar()?);
            let time = time.map_err(|error| entry.wrong(format!("`{name}`: {error}")))?;
            Ok(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        };
        match name {
            "cpus" => placement.cpus = Some(count()?),
            "gpus" => placement.gpus = Some(count()?),
            "time" => placement.time_ms = Some(time()?),
            "cutoff" => placement.cutoff_ms = Some(time()?),
            _ => placement.partition = Some(entry.text()?.to_owned()),
        }
    }
    Ok(placement)
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Boolean(is_true) => (*is_true).into(),
        DeValue::Integer(number) => {
            let number = number.to_string();
            number.parse::<i64>().map_or_else(|_| number.into(), Value::from)
        }
        DeValue::Float(number) => {
            number.as_str().parse::<f64>().map_or_else(|_| number.as_str().into(), Value::from)
        }
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(values) => values.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(table) => {
            let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                (key.clone().into_owned(), json(value.get_ref()))
            };
            Value::Object(table.iter().map(entry).collect())
        }
    }
}
