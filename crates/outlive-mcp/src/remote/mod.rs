//! Jobs on other machines: a call that names one is made there, by the server of that machine's outlive.
//!
//! `run` has `on` where the configuration names machines; every other tool is sent where its job is: `gpu1/train-3f9c`. Nothing of a
//! job is kept here: the session notes which machines it uses, and what is to be told of a job there is in the inbox there.

mod watch;

use std::time::{Duration, Instant};

use outlive::HostRules;
use outlive_remote::{Client, RemoteError, ToolAnswer, ToolCaller};
use serde_json::{Map, Value, json};

pub(crate) use self::watch::Watches;
use crate::arguments::{Arguments, shown};
use crate::jobs::LONGEST_WAIT_MS;
use crate::profiles::Profile;
use crate::reply::{Failure, MARK, Reply, push_own_line};
use crate::scope::Scope;
use crate::tools::{Call, Tool};

/// The parameter of `run` that names a machine.
const ON: &str = "on";

/// Pause before a machine that a wait was cut off from is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A machine of the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) name: String,
    rules: HostRules,
}

impl Host {
    /// Returns a machine that is in the configuration.
    pub(crate) fn find(call: &Call<'_>, name: &str) -> Option<Self> {
        let rules = call.store.config().hosts.get(name)?.clone();
        Some(Self { name: name.to_owned(), rules })
    }

    fn client(&self) -> Result<Client, Failure> {
        Client::named(&self.name, &self.rules, crate::log).map_err(|failure| {
            Failure::new(failure.text()).next("the user has to mend config.toml; local jobs work")
        })
    }
}

/// Adds `on` to the schema of `run`, with the machines that there are.
pub(crate) fn with_hosts(schema: &mut Map<String, Value>, hosts: &[&str]) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties
            .insert(ON.to_owned(), json!({ "type": "string", "enum": hosts, "description": "Machine" }));
    }
}

/// Takes the machine out of the arguments of `run`, if the configuration names machines.
pub(crate) fn take_on(
    profile: &Profile,
    tool: &Tool,
    has_hosts: bool,
    values: &mut Map<String, Value>,
) -> Option<String> {
    if !has_hosts || tool.name != "run" || !takes_hosts(profile) {
        return None;
    }
    match values.remove(ON)? {
        Value::String(host) if host.trim().is_empty() || host.trim() == "local" => None,
        Value::String(host) => Some(host.trim().to_owned()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Other designs know of one machine.
fn takes_hosts(profile: &Profile) -> bool {
    std::ptr::eq(profile, <&'static Profile>::default())
}

/// Returns the machine that a call is for, and leaves the rest of its references in the arguments; none: this one.
pub(crate) fn target(call: &mut Call<'_>, on: Option<&str>) -> Result<Option<Host>, Failure> {
    let hosts = &call.store.config().hosts;
    if hosts.is_empty() || !takes_hosts(call.profile) {
        return Ok(None);
    }
    if let Some(on) = on {
        let known: Vec<&str> = hosts.keys().map(String::as_str).collect();
        let unknown = || {
            Failure::new(format!("there is no machine {:?}", shown(on)))
                .next(format!("on may be {}; without it the command runs here", known.join(", ")))
        };
        let host = Host::find(call, on).ok_or_else(unknown)?;
        return Ok(elsewhere(call, host));
    }
    let mut named: Vec<Option<String>> = Vec::new();
    let mut rest: Vec<(&str, Vec<String>)> = Vec::new();
    for name in ["job", "jobs"] {
        let Some(value) = call.arguments.value(name) else { continue };
        let texts = match value {
            Value::String(text) if name == "job" => vec![text.clone()],
            _ => call.arguments.texts(name)?,
        };
        let mut left = Vec::new();
        for text in texts {
            let split = text.trim().split_once('/').filter(|(host, _)| hosts.contains_key(*host));
            named.push(split.map(|(host, _)| host.to_owned()));
            left.push(split.map_or_else(|| text.clone(), |(_, job)| job.to_owned()));
        }
        rest.push((name, left));
    }
    let Some(host) = named.iter().flatten().next().cloned() else { return Ok(None) };
    if named.iter().any(|other| other.as_ref() != Some(&host)) {
        let next = "call it for the jobs of one machine at a time";
        return Err(Failure::new("these jobs are on several machines").next(next));
    }
    for (name, left) in rest {
        let value = if name == "job" { json!(left.first()) } else { json!(left) };
        call.arguments.set(name, value);
    }
    Ok(Host::find(call, &host).and_then(|host| elsewhere(call, host)))
}

/// Returns a machine that is reached over a connection. One that is only an engine is this machine: its jobs are in this store.
fn elsewhere(call: &mut Call<'_>, host: Host) -> Option<Host> {
    if host.rules.address.is_empty() {
        call.placement = host.rules.placement();
        return None;
    }
    Some(host)
}

/// Calls a tool on another machine.
pub(crate) fn forward(call: &mut Call<'_>, tool: &Tool, host: &Host, watches: &Watches) -> Reply {
    // Before it is asked: what is started there is found again, even if this process dies now.
    let session = call.scope.session.clone();
    if let Err(error) = call.store.note_host(&session, &host.name) {
        return Failure::of("the store cannot be written", &error).into();
    }
    let values = call.arguments.values().clone();
    let answered = ask(call, tool, host, &values);
    watches.watch(call.store, call.scope, host);
    match answered {
        Ok(answer) if answer.is_error => Reply::refusal(answer.text),
        Ok(answer) => Reply::plain(answer.text),
        Err(failure) => failure.into(),
    }
}

/// Asks until there is an answer. Only a wait is asked for again: it changes nothing.
fn ask(
    call: &Call<'_>,
    tool: &Tool,
    host: &Host,
    values: &Map<String, Value>,
) -> Result<ToolAnswer, Failure> {
    let client = host.client()?;
    let caller = caller(call.scope, host, call.longest_ms > LONGEST_WAIT_MS);
    let asked = values.get("timeout_ms").and_then(Value::as_u64).unwrap_or(call.longest_ms);
    let until = Instant::now() + Duration::from_millis(asked.min(call.longest_ms));
    let mut values = values.clone();
    loop {
        match client.call_tool(&caller, tool.name, &values) {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_passing() && tool.name == "wait" && Instant::now() < until => {
                if call.is_cancelled() {
                    return Err(Failure::new("cancelled"));
                }
                std::thread::sleep(AGAIN);
                let left = until.saturating_duration_since(Instant::now()).as_millis();
                values.insert("timeout_ms".to_owned(), u64::try_from(left).unwrap_or(0).into());
            }
            Err(error) => return Err(unanswered(&host.name, tool, &error)),
        }
    }
}

fn caller<'a>(scope: &'a Scope, host: &'a Host, is_patient: bool) -> ToolCaller<'a> {
    let (session, reader) = (scope.session.as_str(), scope.reader.as_str());
    ToolCaller { host: &host.name, session, reader, is_patient }
}

/// Says what is known where no answer came: never that a job has ended.
fn unanswered(host: &str, tool: &Tool, error: &RemoteError) -> Failure {
    let next = match (error, tool.name) {
        (RemoteError::Lost(..), "run") => {
            "whether it was started is not known: list_jobs tells, once the machine is back"
        }
        _ if error.is_passing() => "jobs there go on; call again later, or work here meanwhile",
        _ => "tell the user; local jobs work",
    };
    Failure::of(&format!("{host} is unreachable"), error).next(next)
}

/// Adds the jobs of other machines to a list of the jobs here.
pub(crate) fn add_lists(call: &Call<'_>, tool: &Tool, reply: &mut Reply) {
    if !takes_hosts(call.profile) || call.arguments.value("why").is_some() {
        return;
    }
    for name in call.store.hosts_of(&call.scope.session) {
        let Some(host) = Host::find(call, &name) else { continue };
        // As another reader: what this one is to be told of that machine comes from its inbox there, and once.
        let reader = format!("{} list", call.scope.reader);
        let listed = host.client().and_then(|client| {
            let caller = ToolCaller { reader: &reader, ..caller(call.scope, &host, false) };
            client
                .call_tool(&caller, tool.name, call.arguments.values())
                .map_err(|error| unanswered(&name, tool, &error))
        });
        match listed {
            Ok(answer) => {
                let text = answer.text.strip_prefix("[outlive] ").unwrap_or(&answer.text);
                push_own_line(
                    &mut reply.body,
                    &format!("on {name}: {}", text.lines().next().unwrap_or_default()),
                );
                let mut is_notice = false;
                for line in text.lines().skip(1) {
                    is_notice = match line.starts_with("  | ") {
                        true => is_notice,
                        false => line.starts_with(&format!("{MARK} since your last call: ")),
                    };
                    if !is_notice {
                        reply.body += &format!("{line}\n");
                    }
                }
            }
            Err(failure) => push_own_line(&mut reply.body, &failure.into_words()),
        }
    }
}

/// Takes the arguments of a call that is made on another machine in the words of the model.
pub(crate) fn is_remote(
    arguments: &Arguments,
    hosts: &std::collections::BTreeMap<String, HostRules>,
) -> bool {
    let is_elsewhere =
        |text: &String| text.trim().split_once('/').is_some_and(|(host, _)| hosts.contains_key(host));
    !hosts.is_empty() && arguments.texts("jobs").is_ok_and(|jobs| jobs.iter().any(is_elsewhere))
}
