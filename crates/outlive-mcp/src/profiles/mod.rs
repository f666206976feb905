//! Profiles: the tools of designs that agents already know, each with its names, defaults, words and limits, on one engine.
//!
//! A profile is a view. The job, its outcome and its output are the engine's; a profile decides what they are called and how much
//! of them is shown. So jobs of one are seen by all others, each in its own words.

mod claude_code;
mod deepchat;
mod duragent;
mod links;
mod macos_shell;
mod native;
mod neovate;
mod own;

use outlive::{Job, Output, SessionError, SessionName, State, Status, Store, Timestamp};
use serde_json::{Map, Value};

pub(crate) use self::own::{Expiry, find, is_answered, is_own, sweep};
use crate::arguments::Arguments;
use crate::reply::{Failure, Reply, chain};
use crate::tools::{Call, Tool};

/// A set of tools that a server has.
#[derive(Debug)]
pub struct Profile {
    pub(crate) name: &'static str,
    /// What it is, in a line.
    pub(crate) about: &'static str,
    /// What a model is told before it sees any tool.
    pub(crate) instructions: &'static str,
    pub(crate) tools: &'static [&'static Tool],
    pub(crate) isolation: Isolation,
    /// Passes on what a connection that is gone had beside its own session.
    pub(crate) inherit: fn(&Store, gone: &SessionName, heir: &SessionName) -> Result<(), SessionError>,
    pub(crate) notices: NoticeStyle,
    /// When it removes its ended jobs; none: the store does.
    pub(crate) expiry: Option<Expiry>,
}

/// Whose jobs a server sees that was started without `--session`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// The project's.
    Project,
    /// The conversation's: the one that the client names, else this connection.
    Conversation,
}

/// How pending endings are told to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeStyle {
    /// Not at all: the client asks.
    None,
    /// In lines of the server's own, at the end of an answer.
    Lines,
    /// As a message of its own beside the next answer.
    Messages,
}

/// Where the designs differ, and what each profile does there: a table of the reference.
pub(crate) const CHOICES: &str = include_str!("choices.md");

/// All profiles; the first is the default.
static ALL: [&Profile; 6] = [
    &native::PROFILE,
    &macos_shell::PROFILE,
    &claude_code::PROFILE,
    &deepchat::PROFILE,
    &duragent::PROFILE,
    &neovate::PROFILE,
];

impl Profile {
    /// Returns the profile of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ALL.into_iter().find(|profile| profile.name == name)
    }

    /// Returns its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Lists the names; the first is the default.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.into_iter().map(|profile| profile.name)
    }

    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        ALL.into_iter()
    }

    /// Returns its tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&'static Tool> {
        self.tools.iter().copied().find(|tool| tool.name == name)
    }

    /// Reads the arguments of a call: outlive's own tools know the names of others, the tools of a design know its own.
    pub(crate) fn arguments(&self, tool: &'static Tool, values: Map<String, Value>) -> Arguments {
        let read = if self.name == native::PROFILE.name { Arguments::as_meant } else { Arguments::new };
        read(tool, values)
    }

    /// Tells of a failure in the profile's own form.
    pub(crate) fn failed(&self, failure: Failure) -> Reply {
        match self.notices {
            NoticeStyle::Lines => failure.into(),
            NoticeStyle::None | NoticeStyle::Messages => Reply::refusal(failure.into_words()),
        }
    }
}

impl Default for &'static Profile {
    fn default() -> Self {
        ALL[0]
    }
}

/// Lists the jobs that the caller sees, the oldest first.
pub(crate) fn jobs(call: &Call<'_>) -> Result<Vec<(Job, State)>, Failure> {
    let listing = call.store.list(call.scope.seen());
    let listing = listing.map_err(|error| Failure::of("the jobs cannot be listed", &error))?;
    let with_state = |job: Job| {
        let state = job.state(call.store);
        (job, state)
    };
    Ok(listing.jobs.into_iter().map(with_state).collect())
}

/// Reads from a job's output; where that fails, it logs the error and returns nothing.
pub(crate) fn read<T: Default>(job: &Job, look: impl FnOnce(&mut Output) -> std::io::Result<T>) -> T {
    let read = Output::open(job).and_then(|mut output| look(&mut output));
    read.unwrap_or_else(|error| {
        crate::log(&format!("the output of {} cannot be read: {}", job.id(), chain(&error)));
        T::default()
    })
}

/// Returns `count` random digits of a base up to 36.
pub(crate) fn random_digits(count: usize, base: u32) -> String {
    let mut digits = String::new();
    while digits.len() < count {
        // Bytes beyond the last whole multiple of the base are dropped: all digits are equally likely.
        let limit = 256 - 256 % base;
        let fresh = outlive_sys::random::bytes16().into_iter().map(u32::from).filter(|&byte| byte < limit);
        digits
            .extend(fresh.filter_map(|byte| char::from_digit(byte % base, base)).take(count - digits.len()));
    }
    digits
}

/// Returns milliseconds since 1970.
pub(crate) fn epoch_ms(time: Timestamp) -> u64 {
    time.0 / 1000
}

/// Returns when a job's command was started, or when the job was asked for.
pub(crate) fn started(job: &Job, state: &State) -> Timestamp {
    state.meta.as_ref().and_then(|meta| meta.started).unwrap_or(job.spec().created)
}

/// Returns the pid of the main process, while it runs.
pub(crate) fn pid(state: &State) -> Option<i32> {
    if state.status.has_ended() { None } else { known_pid(state) }
}

/// Returns the pid of the main process, also after its end.
pub(crate) fn known_pid(state: &State) -> Option<i32> {
    state.meta.as_ref().and_then(|meta| meta.command).map(|command| command.pid)
}

/// Returns the word for a status of the designs that have four.
pub(crate) fn word_of_four(status: Status) -> &'static str {
    match status {
        Status::Queued | Status::Starting | Status::Running => "running",
        Status::Completed => "completed",
        Status::Killed | Status::TimedOut => "killed",
        // How a lost job ended is not known; it is no success.
        Status::Failed | Status::Lost => "failed",
    }
}

/// Leaves out the fields of an object that are null.
pub(crate) fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_answers_every_conflict() {
        let names: Vec<String> = Profile::names().map(|name| format!("`{name}`")).collect();
        let (head, rows) = CHOICES.split_once('\n').unwrap();
        assert_eq!(head, format!("| | | {} |", names.join(" | ")));
        for (number, row) in rows.lines().skip(1).enumerate() {
            let row: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!((row[0], row.len()), (format!("C-{}", number + 1).as_str(), 2 + names.len()));
            assert!(row.iter().all(|answer| !answer.is_empty()), "{row:?}");
        }
        for profile in Profile::all() {
            assert_eq!(Profile::find(profile.name).map(|found| found.name), Some(profile.name));
        }
    }

    #[test]
    fn names_of_tools_are_unique_in_a_profile() {
        for profile in Profile::all() {
            let mut names: Vec<&str> = profile.tools.iter().map(|tool| tool.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), profile.tools.len(), "{}", profile.name);
        }
    }

    #[test]
    fn random_digits_are_of_the_alphabet() {
        let digits = random_digits(200, 36);
        assert_eq!(digits.len(), 200);
        assert!(digits.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()));
        assert!(random_digits(200, 16).bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn there_are_four_words_for_a_status() {
        for (native, word) in [
            (Status::Queued, "running"),
            (Status::Starting, "running"),
            (Status::Running, "running"),
            (Status::Completed, "completed"),
            (Status::Failed, "failed"),
            (Status::Lost, "failed"),
            (Status::Killed, "killed"),
            (Status::TimedOut, "killed"),
        ] {
            assert_eq!(word_of_four(native), word, "{native}");
        }
    }
}
