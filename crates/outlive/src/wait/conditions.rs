//! What can be waited for, and what a wait came to.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use outlive_core::id::{JobId, SessionName};
use outlive_core::lines::Line;
use regex::bytes::Regex;

use crate::control::tree::Port;
use crate::job::Job;
use crate::job::state::State;
use crate::launch::request::RequestError;
use crate::notify::events::Numbered;
use crate::wait::http::HttpAddress;

/// How many of the jobs decide a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The first of which something comes.
    Any,
    /// Every one of them.
    All,
}

/// What to wait for. [`WaitFor::exits`] has the defaults.
#[derive(Debug)]
pub struct WaitFor<'a> {
    /// Empty together with `events`: the events of all jobs.
    pub jobs: &'a [Job],
    /// Whether one of the jobs is enough.
    pub until: Until,
    /// What may come before the end. The end of a job ends the wait for it, too.
    pub conditions: Conditions,
    /// The next event ends the wait, too.
    pub events: Option<EventScope>,
    /// The longest time to wait; none: without limit.
    pub limit: Option<Duration>,
    /// The wait ends, as if its time was over, once this can be read: a [`crate::Cancel`], say.
    pub stop: Option<BorrowedFd<'a>>,
}

impl<'a> WaitFor<'a> {
    /// Waits for the end of all jobs, without limit.
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

/// What may come of a job before its end; the first of these decides.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// The job is ready, by the condition that it was started with.
    pub ready: bool,
    /// A line of its output matches.
    pub matches: Option<Regex>,
    /// A line of its output matches, which ends the wait as failed.
    pub fail_matches: Option<Regex>,
    /// The first line, by number, that `matches` and `fail_matches` look at.
    pub from_line: Option<u64>,
    /// One of its processes listens on this TCP port.
    pub port: Option<u16>,
    /// This address answers with a status below 400.
    pub http: Option<HttpAddress>,
    /// Nothing was printed for so long.
    pub idle: Option<Duration>,
}

impl Conditions {
    /// Tells whether only the end of a job is waited for.
    pub(super) fn is_empty(&self) -> bool {
        !self.has_goal() && self.fail_matches.is_none()
    }

    /// Tells whether the end of a job comes too early.
    pub(super) fn has_goal(&self) -> bool {
        self.ready
            || self.matches.is_some()
            || self.port.is_some()
            || self.http.is_some()
            || self.idle.is_some()
    }
}

/// Which events to wait for: those of the jobs, or all if no jobs are given.
#[derive(Debug, Clone, Default)]
pub struct EventScope {
    /// Only events of this session; none: of any.
    pub session: Option<SessionName>,
    /// Only events after this sequence; none: from now on.
    pub since: Option<u64>,
}

/// Why a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// The main process ended.
    Exit,
    /// The job is ready; with the line that said so, where it was a line.
    Ready(Option<Line>),
    /// This line matches.
    Match(Line),
    /// This line matches what must not come.
    FailMatch(Line),
    /// A process of the job listens here.
    Port(Port),
    /// The address answers with this status.
    Http(u16),
    /// The job was silent for long enough.
    Idle,
    /// This event was written in this session.
    Event(SessionName, Numbered),
    /// The time was over, or the wait was cancelled.
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
            Self::Event(..) => "event",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the line that decided, where it was a line.
    pub fn line(&self) -> Option<&Line> {
        match self {
            Self::Match(line) | Self::FailMatch(line) | Self::Ready(Some(line)) => Some(line),
            _ => None,
        }
    }
}

/// What a wait came to.
#[derive(Debug)]
pub struct WaitResult {
    /// What decided.
    pub reason: WaitReason,
    /// The job that decided, by its place among the jobs.
    pub job: Option<usize>,
    /// Whether what was waited for has come.
    pub is_reached: bool,
    /// Whether another wait may still reach it: only the time was over.
    pub can_still_come: bool,
    /// The state of each job, in the order given.
    pub states: Vec<State>,
    /// What came of each job.
    pub each: Vec<Option<WaitReason>>,
    /// First and last sequence of events that were asked for and are no longer kept.
    pub gap: Option<(u64, u64)>,
}

/// Why something cannot be waited for.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The job has no condition for being ready.
    #[error("{0} was started without saying when it is ready")]
    NoReady(JobId),
    /// The condition that the job was started with is not a valid one.
    #[error(transparent)]
    Condition(#[from] RequestError),
    /// The output or the events cannot be read, or no thread can be made.
    #[error("cannot wait")]
    Io(#[from] io::Error),
}
