//! Conditions and results of waits.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use outlive_core::id::{JobId, SessionName};
use outlive_core::lines::Line;
use regex::bytes::Regex;

use crate::control::awaits::AwaitedObject;
use crate::control::tree::Port;
use crate::job::Job;
use crate::job::state::State;
use crate::launch::request::RequestError;
use crate::notify::events::Numbered;
use crate::wait::http::HttpAddress;

/// Whether a wait needs one job or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The first job that meets a condition.
    Any,
    /// Every job.
    All,
}

/// A wait. [`WaitFor::exits`] has the defaults.
#[derive(Debug)]
pub struct WaitFor<'a> {
    /// Empty together with `events`: the events of all jobs.
    pub jobs: &'a [Job],
    /// Whether one of the jobs is enough.
    pub until: Until,
    /// Conditions before the end. The end of a job always ends the wait for it.
    pub conditions: Conditions,
    /// Events that end the wait, too.
    pub events: Option<EventScope>,
    /// Longest time to wait; none: no limit.
    pub limit: Option<Duration>,
    /// Cancels the wait, as if the limit were reached, once it is readable; for example a [`crate::Cancel`].
    pub stop: Option<BorrowedFd<'a>>,
}

impl<'a> WaitFor<'a> {
    /// Waits for the end of all jobs, without a limit.
    pub fn exits(jobs: &'a [Job]) -> Self {
        Self {
            jobs,
            until: Until::All,
            conditions: Conditions::default(),
            events: None,
            limit: None,
            stop: None,
        }
    }
}

/// Conditions on a job before its end; the first that is met decides.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// The job meets the readiness condition that it was started with.
    pub ready: bool,
    /// A line of its output matches.
    pub matches: Option<Regex>,
    /// A line of its output matches; the wait then fails.
    pub fail_matches: Option<Regex>,
    /// Number of the first line for `matches` and `fail_matches`.
    pub from_line: Option<u64>,
    /// One of its processes listens on this TCP port.
    pub port: Option<u16>,
    /// This address answers with a status below 400.
    pub http: Option<HttpAddress>,
    /// No output for so long.
    pub idle: Option<Duration>,
    /// It waits for input.
    pub input: Option<InputWanted>,
}

/// Which input a job must wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputWanted {
    /// An answer: a line, or a password.
    Question,
    /// Keys, too.
    Any,
}

impl Conditions {
    /// Tells whether the wait is for the end alone.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_goal() && self.fail_matches.is_none()
    }

    /// Tells whether an end before the conditions is a failure.
    pub(super) fn has_goal(&self) -> bool {
        self.ready
            || self.matches.is_some()
            || self.port.is_some()
            || self.http.is_some()
            || self.idle.is_some()
            || self.input.is_some()
    }
}

/// Events to wait for: of the jobs, or of all jobs if none are given.
#[derive(Debug, Clone, Default)]
pub struct EventScope {
    /// Only events of this session; none: of every session.
    pub session: Option<SessionName>,
    /// Only events after this sequence; none: only new ones.
    pub since: Option<u64>,
}

/// Why a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// The main process ended.
    Exit,
    /// The job is ready; with the line that matched, if a line decided.
    Ready(Option<Line>),
    /// This line matched.
    Match(Line),
    /// This line matched `fail_matches`.
    FailMatch(Line),
    /// A process of the job listens here.
    Port(Port),
    /// The address answered with this status.
    Http(u16),
    /// The job printed nothing for long enough.
    Idle,
    /// The job waits for this input.
    Input(AwaitedObject),
    /// This event was appended in this session.
    Event(SessionName, Box<Numbered>),
    /// The limit was reached, or the wait was cancelled.
    Timeout,
}

impl WaitReason {
    /// Returns the word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Ready(_) => "ready",
            Self::Match(_) => "match",
            Self::FailMatch(_) => "fail_match",
            Self::Port(_) => "port",
            Self::Http(_) => "http",
            Self::Idle => "idle",
            Self::Input(_) => "input",
            Self::Event(..) => "event",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the line that matched, if a line decided.
    pub fn line(&self) -> Option<&Line> {
        match self {
            Self::Match(line) | Self::FailMatch(line) | Self::Ready(Some(line)) => Some(line),
            _ => None,
        }
    }
}

/// Result of a wait.
#[derive(Debug)]
pub struct WaitResult {
    /// What ended the wait.
    pub reason: WaitReason,
    /// Index of the job that decided.
    pub job: Option<usize>,
    /// Whether the wait succeeded.
    pub is_reached: bool,
    /// Whether another wait may succeed: only the limit was reached.
    pub can_still_come: bool,
    /// The state of each job, in the given order.
    pub states: Vec<State>,
    /// What was met by each job, in the given order.
    pub each: Vec<Option<WaitReason>>,
    /// What was seen last of a condition that does not hold, in the given order: `http://localhost/ answers with 404`.
    pub missing: Vec<Option<String>>,
    /// First and last sequence of requested events that are no longer kept.
    pub gap: Option<(u64, u64)>,
}

/// Why a wait is not possible.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The job has no readiness condition.
    #[error("{0} was started without saying when it is ready")]
    NoReady(JobId),
    /// The job takes no input.
    #[error("{0} was started without a terminal or an open standard input, and cannot wait for input")]
    NoInput(JobId),
    /// The job's readiness condition is invalid.
    #[error(transparent)]
    Condition(#[from] RequestError),
    /// The output or the events cannot be read, or no thread can be started.
    #[error("cannot wait")]
    Io(#[from] io::Error),
}
