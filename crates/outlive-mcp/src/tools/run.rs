//! `run`: start a command, and wait a while for its end.

use std::time::Duration;

use outlive::{Job, JobLimits, LimitError, Ready, Request, StartError, Stdin};
use serde_json::Value;

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::jobs::{self, summary};
use crate::reading::{Selection, show};
use crate::reply::{Failure, Reply};
use crate::starting;

pub(crate) static TOOL: Tool = Tool {
    name: "run",
    title: "Run a command",
    description: "Start a shell command (dev server, build, tests, watcher, anything long-running) as a background job that outlives this session, and wait up to wait_ms for its end. Ended: exit code and output. Else: a job id, the output so far; it goes on: use wait or read_output. Do not add &, nohup, sleep or | tail.",
    parameters: &[
        Parameter::required("command", Kind::Text, "Shell command line"),
        Parameter::new("cwd", Kind::Text, "Directory; default: the project's"),
        Parameter::new("env", Kind::Variables, "Variables to add"),
        Parameter::new("name", Kind::Text, "What to call it"),
        Parameter::new("group", Kind::Text, "Group, for wait and kill"),
        Parameter::new("wait_ms", Kind::Number, "Wait so long for its end: default 10000, at most 45000"),
        Parameter::new("background", Kind::Flag, "Do not wait"),
        Parameter::new("stdin", Kind::Word(&["null", "open"]), "open: send_input can write to it"),
        Parameter::new("timeout_ms", Kind::Number, "Kill it after so long"),
        Parameter::new("ready_on", Kind::Text, "Regex of the line that says it is ready"),
        Parameter::new("ready_port", Kind::Number, "It is ready when it listens there"),
        Parameter::new("ready_url", Kind::Text, "It is ready when this answers"),
        Parameter::new("memory_mb", Kind::Number, "Memory limit"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call,
};

/// What keeps programs from waiting for a person and from colouring what nobody sees in colour.
const FOR_AGENTS: [(&str, &str); 5] = [
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
];

/// The longest wait, in milliseconds: under what the most impatient client allows.
pub(crate) const LONGEST_WAIT: u64 = 45_000;

/// A year, in milliseconds.
const YEAR: u64 = 366 * 86_400_000;

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let wait = call.arguments.number("wait_ms", 0..=LONGEST_WAIT)?.unwrap_or(10_000);
    let wait = if call.arguments.flag("background")? { 0 } else { wait };
    let request = request(call)?;
    // Its end is for this answer to tell, not for another that is given meanwhile.
    let started = call.claims.claim_started(|| call.store.start(&request));
    let (started, claim) = started.map_err(|error| failure(call, &error))?;
    let job = started.job;
    // Where it cannot be waited for, how it is doing is told all the same.
    jobs::wait_for_start(call, &job, Duration::from_millis(wait)).ok();
    let mut reply = report(call, job)?.after(move || drop(claim));
    reply.footers.extend(started.warning.map(|warning| format!("warning: {warning}")));
    Ok(reply)
}

/// Tells how a job that was just started is doing, with all that it has printed.
fn report(call: &Call<'_>, job: Job) -> Result<Reply, Failure> {
    let state = job.state(call.store);
    let selection = Selection::after(0, call.room(), state.is_live());
    let shown = show(&job, &selection).map_err(|error| Failure::of("cannot read its output", &error))?;
    let has_ended = state.status.has_ended();
    let header = match (has_ended, shown.range.is_some()) {
        (_, true) => format!("{}; {}", summary(&job, &state), shown.lines()),
        (true, false) => format!("{}; no output", summary(&job, &state)),
        (false, false) => format!("{}; no output yet", summary(&job, &state)),
    };
    let id = job.id().to_string();
    let mut reply = Reply::new(header).body(shown.text);
    reply.footers.extend(shown.notes);
    if let Some((first, lines)) = shown.omitted {
        reply = reply.footer(format!("left out: read_output job={id} from_line={first} lines={lines}"));
    }
    if !has_ended {
        reply = reply.footer(format!(
            "it goes on: wait jobs=[\"{id}\"] for its end; read_output job={id} for what is new"
        ));
    } else if state.is_lingering {
        reply = reply.footer(format!("processes that it started go on: kill job={id} ends them"));
    }
    let reader = call.scope.reader.clone();
    let end = shown.end;
    Ok(reply.tells(&job, &state).after(move || {
        jobs::note_read(&job, &reader, None, end);
        if has_ended {
            jobs::note_delivered(&job, &reader);
        }
    }))
}

fn request(call: &mut Call<'_>) -> Result<Request, Failure> {
    let line = command(call.arguments.value("command"))?;
    let mut request = starting::fill(call, Request::shell(line));
    if let Some(cwd) = call.arguments.text("cwd")? {
        request = request.cwd(starting::directory(call, &cwd));
    }
    let arguments = &mut call.arguments;
    for (name, value) in FOR_AGENTS {
        request = request.env(name, value);
    }
    for (name, value) in arguments.variables("env")? {
        request = request.env(name, value);
    }
    if let Some(name) = arguments.text("name")? {
        request = request.name(name);
    }
    if let Some(group) = arguments.text("group")? {
        request = request.group(group);
    }
    request = request.stdin(stdin(arguments)?);
    if let Some(timeout) = arguments.number("timeout_ms", 1..=YEAR)? {
        request = request.timeout(Some(Duration::from_millis(timeout)));
    }
    if let Some(megabytes) = arguments.number("memory_mb", 1..=1 << 30)? {
        request = request.limits(JobLimits { memory_bytes: Some(megabytes << 20), ..JobLimits::default() });
    }
    let port = arguments.number("ready_port", 1..=65_535)?.and_then(|port| u16::try_from(port).ok());
    let ready =
        Ready { on: arguments.text("ready_on")?, port, http: arguments.text("ready_url")?, timeout_ms: None };
    Ok(if ready == Ready::default() { request } else { request.ready(ready) })
}

/// Takes the command, and shows what it should look like where it is something else.
fn command(value: Option<&Value>) -> Result<String, Failure> {
    let example = "run command=\"npm run dev\" name=\"web\"";
    let fixed = |words: &[Value]| {
        let words: Vec<String> =
            words.iter().map(|word| outlive::quote(word.as_str().unwrap_or_default())).collect();
        words.join(" ")
    };
    match value {
        None => Err(Failure::new("run needs command").next(format!("for example {example}"))),
        Some(Value::String(line)) => match serde_json::from_str::<Value>(line) {
            Ok(Value::Array(words)) if !words.is_empty() && words.iter().all(Value::is_string) => {
                Err(Failure::new("command is a JSON list, and must be one line for the shell")
                    .next(format!("call run again with command={:?}", fixed(&words))))
            }
            Ok(Value::Object(object)) => Err(not_an_object(&object, example)),
            _ if line.trim().is_empty() => {
                Err(Failure::new("command is empty").next(format!("for example {example}")))
            }
            _ => Ok(line.clone()),
        },
        Some(Value::Array(words)) => {
            Err(Failure::new("command is a list, and must be one line for the shell")
                .next(format!("call run again with command={:?}", fixed(words))))
        }
        Some(Value::Object(object)) => Err(not_an_object(object, example)),
        Some(other) => Err(Failure::new(format!("command must be a string, and is {other}"))
            .next(format!("for example {example}"))),
    }
}

fn not_an_object(object: &serde_json::Map<String, Value>, example: &str) -> Failure {
    let inner = ["command", "cmd"].iter().find_map(|name| object.get(*name)?.as_str());
    let next = match inner {
        Some(line) => format!("call run again with command={line:?}"),
        None => format!("for example {example}"),
    };
    Failure::new("command is an object, and must be one line for the shell").next(next)
}

fn stdin(arguments: &crate::arguments::Arguments) -> Result<Stdin, Failure> {
    // It is often taken for a yes or no.
    match arguments.choice_of_two("stdin") {
        Ok(Some(true)) => Ok(Stdin::Open),
        Ok(_) => Ok(Stdin::Null),
        Err(_) => Ok(match arguments.word("stdin", &["null", "open"])? {
            Some("open") => Stdin::Open,
            _ => Stdin::Null,
        }),
    }
}

/// Says what to do about a job that was not started.
fn failure(call: &Call<'_>, error: &StartError) -> Failure {
    let failure = Failure::of("not started", error);
    match error {
        StartError::Limit(LimitError::Bytes { .. }) => {
            failure.next("list_jobs, then manage_job action=remove for those that are no longer needed")
        }
        StartError::Limit(_) => failure
            .next(format!("kill one that is no longer needed; {}", jobs::live_ids(call.store, call.scope))),
        StartError::NeverStarted { why, .. } if why.step == "directory" => {
            failure.next("call run again with a cwd that exists")
        }
        StartError::NeverStarted { job, .. } => {
            failure.next(format!("read_output job={job} has what is known"))
        }
        StartError::Silent { job } => failure.next(format!("list_jobs shows whether {job} has started")),
        StartError::Request(_) => failure.next("call run again without what is wrong"),
        _ => failure.next("this is not the command's fault: tell the user, outlive doctor examines it"),
    }
}
