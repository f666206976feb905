//! `outlive list --host all`: the jobs of this machine and of all others that the configuration names.
//!
//! Each machine draws its own table. What each last answered is kept in the store, so that a machine that cannot be reached is shown with
//! what was known of it, and how long ago: never as ended.

use std::ffi::OsString;
use std::process::ExitCode;

use outlive::{Store, one_line};
use outlive_remote::{Filter, HostLook};
use serde_json::Value;

use super::{LOCAL, Machine, call};
use crate::args::{Arguments, Reach, Verb};
use crate::failure::Failure;
use crate::render::{cut, note, print, print_json, table, width};

/// So many jobs of a machine are asked for: all that a list of one machine shows, and more than a person reads.
const MOST: usize = 2000;

/// Longest command in a pipe.
const LONGEST_COMMAND: usize = 60;

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
        let look = ask(machine, arguments)?;
        match look.unreachable_words() {
            None => drop(call::run(machine, there, arguments, &words)?),
            Some(words) => print(&unreachable(&look, &words)),
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

/// Asks for the jobs of a machine.
fn ask(machine: &Machine, arguments: &Arguments) -> Result<HostLook, Failure> {
    let session = arguments.common.session.as_ref().map(ToString::to_string);
    let filter = Filter { session, limit: Some(MOST), ..Filter::default() };
    let look = HostLook::now(&Store::open()?, &machine.name, &machine.client, &filter)?;
    if let Some(why) = &look.unreachable {
        note(&format!("outlive: {why}"));
    }
    Ok(look)
}

/// Draws what is known of a machine that cannot be reached.
fn unreachable(look: &HostLook, words: &str) -> String {
    if look.unreachable_ms.is_none() {
        return format!("{words}\n");
    }
    let mut rows = vec![["JOB", "STATUS", "COMMAND"].map(str::to_owned).to_vec()];
    for job in &look.jobs {
        let command = one_line(&job.command);
        let longest = if width().is_some() { usize::MAX } else { LONGEST_COMMAND };
        let command = cut(&command, longest).into_owned();
        rows.push(vec![format!("{}/{}", look.host, job.job), look.words(job), command]);
    }
    format!("{words}:\n{}", table(&rows, width(), |_, _, cell| cell.into()))
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
        let look = ask(machine, arguments)?;
        for job in look.jobs {
            let mut job = serde_json::to_value(job).unwrap_or_default();
            job["host"] = machine.name.as_str().into();
            if let Some(age) = look.unreachable_ms {
                job["unreachable_ms"] = age.into();
            }
            all.push(job);
        }
    }
    print_json(&all)
}
