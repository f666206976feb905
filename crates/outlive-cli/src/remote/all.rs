//! `outlive list --host all`: the jobs of this machine and of all others that the configuration names.
//!
//! Each machine draws its own table. What each last answered is kept in the store, so that a machine that cannot be reached is shown with
//! what was known of it, and how long ago: never as ended.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use outlive::duration::format_duration;
use outlive::{Store, one_line};
use outlive_remote::{Filter, Job, RemoteError};
use serde_json::{Value, json};

use super::{LOCAL, Machine, call};
use crate::args::{Arguments, Reach, Verb};
use crate::failure::Failure;
use crate::render::{cut, note, print, print_json, table, width};

/// So many jobs of a machine are asked for: all that a list of one machine shows, and more than a person reads.
const MOST: usize = 2000;

/// Longest command in a pipe.
const LONGEST_COMMAND: usize = 60;

/// What a machine last answered.
struct Known {
    jobs: Vec<Job>,
    age_ms: u64,
}

pub(super) fn run(
    machines: &[Machine],
    arguments: &Arguments,
    words: &[OsString],
) -> Result<ExitCode, Failure> {
    let is_plain =
        matches!(&arguments.verb, Some(Verb::List(list)) if list.filters.is_empty() && !list.watch);
    if !is_plain {
        let hint = "filters and --watch are for one machine: outlive --host NAME list …";
        return Err(Failure::usage("list: --host all shows live jobs and the last that have ended", hint));
    }
    if arguments.common.json {
        return as_json(machines, arguments);
    }
    let Reach::There(there) = arguments.reach() else { return Ok(ExitCode::SUCCESS) };
    let words: Vec<OsString> = at(LOCAL, words);
    let mut own = std::process::Command::new("/proc/self/exe");
    print(&format!("{LOCAL}:\n"));
    own.args(&words[1..]).status().map_err(|error| Failure::other("list", &error))?;
    for machine in machines {
        print(&format!("\n{}:\n", machine.name));
        match ask(machine, arguments) {
            Ok(_) => drop(call::run(machine, there, arguments, &words)?),
            Err(error) if error.is_passing() => print(&unreachable(machine, &error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Puts one machine in the place of all.
fn at(host: &str, words: &[OsString]) -> Vec<OsString> {
    let mut words = words.to_vec();
    for place in 0..words.len() {
        if words[place] == "--host=all" {
            words[place] = format!("--host={host}").into();
        } else if place > 0 && words[place - 1] == "--host" {
            words[place] = host.into();
        }
    }
    words
}

/// Asks for the jobs of a machine, and keeps the answer.
fn ask(machine: &Machine, arguments: &Arguments) -> Result<Value, RemoteError> {
    let session = arguments.common.session.as_ref().map(ToString::to_string);
    let jobs = machine.client.jobs(&Filter { session, limit: Some(MOST), ..Filter::default() })?;
    let objects: Vec<Value> = jobs.jobs.iter().rev().map(object).collect();
    let objects = json!(objects);
    // What cannot be kept is not known later, and all else is as it was.
    keep(&machine.name, &objects);
    Ok(objects)
}

/// Writes a job as the machine wrote it.
fn object(job: &Job) -> Value {
    let mut object = job.more.clone();
    let fields = json!({
        "job": job.job, "status": job.status, "name": job.name, "command": job.command, "cwd": job.cwd,
        "session": job.session, "started_at": job.started_at, "ended_at": job.ended_at,
        "exit_code": job.exit_code, "reason": job.reason, "runtime_ms": job.runtime_ms,
    });
    object.extend(fields.as_object().cloned().unwrap_or_default());
    Value::Object(object)
}

fn path(name: &str) -> Option<PathBuf> {
    Some(Store::open().ok()?.serve_dir().ok()?.join(format!("host-{name}.json")))
}

fn keep(name: &str, jobs: &Value) {
    let Some(path) = path(name) else { return };
    let new = path.with_extension(format!("new-{}", std::process::id()));
    if fs::write(&new, jobs.to_string()).and_then(|()| fs::rename(&new, &path)).is_err() {
        fs::remove_file(&new).ok();
    }
}

fn known(name: &str) -> Option<Known> {
    let path = path(name)?;
    let kept = fs::metadata(&path).ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(kept).unwrap_or_default();
    let jobs = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    Some(Known { jobs, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX) })
}

/// Draws what is known of a machine that cannot be reached. Only what had ended is certain.
fn unreachable(machine: &Machine, error: &RemoteError) -> String {
    note(&format!("outlive: {}", outlive::chain(error)));
    let Some(known) = known(&machine.name) else {
        return "unreachable; nothing is known of it yet\n".to_owned();
    };
    let age = format_duration(known.age_ms);
    let mut rows = vec![["JOB", "STATUS", "COMMAND"].map(str::to_owned).to_vec()];
    for job in &known.jobs {
        let status = job.status.replace('_', " ");
        let status = if job.ended_at.is_some() { status } else { format!("unreachable, {status} {age} ago") };
        let command = one_line(&job.command);
        let longest = if width().is_some() { usize::MAX } else { LONGEST_COMMAND };
        rows.push(vec![format!("{}/{}", machine.name, job.job), status, cut(&command, longest)]);
    }
    format!("unreachable; as it was {age} ago:\n{}", table(&rows, width(), |_, _, cell| cell.to_owned()))
}

/// Prints the objects of all machines, each with its `host`; one that cannot be reached with `unreachable_ms`, the age of what is known.
fn as_json(machines: &[Machine], arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut own = std::process::Command::new("/proc/self/exe");
    own.args(["--host", LOCAL, "--json"]);
    own.args(arguments.common.session.iter().flat_map(|session| ["--session", session.as_str()]));
    let listed = own.arg("list").output().map_err(|error| Failure::other("list", &error))?;
    let mut all: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    all.iter_mut().for_each(|job| job["host"] = LOCAL.into());
    for machine in machines {
        let (jobs, age) = match ask(machine, arguments) {
            Ok(Value::Array(jobs)) => (jobs, None),
            Ok(_) => continue,
            Err(error) if error.is_passing() => {
                note(&format!("outlive: {}", outlive::chain(&error)));
                let Some(known) = known(&machine.name) else { continue };
                (known.jobs.iter().map(object).collect(), Some(known.age_ms))
            }
            Err(error) => return Err(error.into()),
        };
        for mut job in jobs {
            job["host"] = machine.name.as_str().into();
            if let Some(age) = age {
                job["unreachable_ms"] = age.into();
            }
            all.push(job);
        }
    }
    print_json(&all)
}
