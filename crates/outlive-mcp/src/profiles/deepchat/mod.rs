//! The tools of DeepChat: `execute_command`, in the foreground for a while or in the background, and `process`.
//!
//! What that design calls a session is a job here, and its conversation is a session. A poll shows the end of
//! a job's output, a log a range of characters; a long output also has a file, which is a link into the store.

mod execute_command;
mod files;
mod messages;
mod process;

use std::time::{Duration, SystemTime};

use outlive::{Job, State, Status};
use serde_json::Value;

use super::own::is_past;
use super::{Expiry, Isolation, NoticeStyle, Profile};
use crate::reply::Failure;
use crate::tools::Call;

pub(crate) static PROFILE: Profile = Profile {
    name: "deepchat",
    about: "DeepChat's `execute_command` and `process`",
    instructions: "Use execute_command to run shell commands. One that takes longer than yieldMs (10 seconds by default), or \
        that is started with background: true, goes on as a session: use process with its sessionId to poll its output and \
        status, read its log, write to its stdin, kill it or remove it. Sessions survive this conversation's restarts.",
    tools: &[&execute_command::EXECUTE_COMMAND, &process::PROCESS],
    isolation: Isolation::Conversation,
    inherit: |_, _, _| Ok(()),
    notices: NoticeStyle::None,
    expiry: Some(Expiry { is_due, remove_files: files::forget_file }),
};

/// How the ids that this profile makes begin.
const PREFIX: &str = "bg_";

/// The time between the signals of a kill.
const GRACE: Duration = Duration::from_secs(2);

/// How long an ended session stays after the last look at it, unless the configuration says otherwise.
const TTL: Duration = Duration::from_secs(30 * 60);

/// Tells whether no client has looked at an ended session for too long.
fn is_due(call: &Call<'_>, job: &Job, ended: SystemTime) -> bool {
    let ttl = call.store.config().retention.keep.unwrap_or(TTL);
    is_past(job.last_look().filter(|_| job.is_seen()).unwrap_or(ended), ttl)
}

fn status(state: &State) -> &'static str {
    match state.status {
        Status::Queued | Status::Starting | Status::Running => "running",
        Status::Completed => "done",
        Status::Failed | Status::Lost => "error",
        Status::Killed | Status::TimedOut => "killed",
    }
}

fn invalid(what: impl std::fmt::Display) -> Failure {
    Failure::new(format!("Invalid arguments: {what}"))
}

/// Returns a number that is at least `least`, if it was given; what is beyond whole milliseconds does not count.
fn number(call: &Call<'_>, name: &str, least: u64) -> Result<Option<u64>, Failure> {
    // Numbers here are far below what a float holds exactly.
    Ok(given(call, name, least)?.map(|given| given.round().min(9e15) as u64))
}

/// Returns a whole number that is at least `least`, if it was given.
fn whole(call: &Call<'_>, name: &str, least: u64) -> Result<Option<u64>, Failure> {
    match given(call, name, least)? {
        Some(given) if given.fract() != 0.0 => Err(invalid(format!("{name} must be a whole number"))),
        given => Ok(given.map(|given| given.min(9e15) as u64)),
    }
}

/// Returns a number that is at least `least`, if it was given. A number written as text is taken, too.
fn given(call: &Call<'_>, name: &str, least: u64) -> Result<Option<f64>, Failure> {
    let given = match call.arguments.value(name) {
        None => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse::<f64>().ok(),
        Some(_) => None,
    };
    match given.filter(|given| given.is_finite()) {
        None => Err(invalid(format!("{name} must be a number"))),
        Some(given) if given < least as f64 => Err(invalid(format!("{name} must be at least {least}"))),
        given => Ok(given),
    }
}

fn flag(call: &Call<'_>, name: &str) -> Result<bool, Failure> {
    call.arguments.flag(name).map_err(|failure| invalid(failure.into_words()))
}
