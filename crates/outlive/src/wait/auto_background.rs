//! When a foreground command moves to the background: a development tool that has run for a while and prints, such as a server
//! or a watcher.
//!
//! Every command is a job from the start: the front end only stops waiting for it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::job::Job;
use crate::job::state::State;
use crate::output::Output;
use crate::output::follow::{Followed, Follower};
use crate::store::Store;
use crate::wait::conditions::{WaitError, WaitFor};
use crate::wait::shell_words;

/// Programs that move to the background.
const COMMANDS: [&str; 14] = [
    "npm", "pnpm", "yarn", "node", "python", "python3", "go", "cargo", "make", "docker", "webpack", "vite",
    "jest", "pytest",
];

/// Shortest wait for such a command: most short ones have ended by then.
const THRESHOLD: Duration = Duration::from_secs(2);

/// How long it may take to end after its first output: a command that prints only its result is about to end.
const END_MARGIN: Duration = Duration::from_millis(100);

/// Decides whether a foreground command moves to the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoBackground {
    /// It runs one of [`COMMANDS`].
    is_development: bool,
}

/// Result of a wait in the foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreground {
    /// The main process has ended.
    Ended,
    /// The command moves to the background.
    Background,
    /// The limit was reached, or the wait was cancelled.
    TimeOver,
}

impl AutoBackground {
    /// Examines a shell line: any of its commands counts, wherever it stands.
    pub fn of_line(line: &str) -> Self {
        let is_listed = |root: &String| COMMANDS.contains(&root.to_lowercase().as_str());
        Self { is_development: shell_words::read(line).roots.iter().any(is_listed) }
    }

    /// Examines the command of a job.
    pub fn of(job: &Job) -> Self {
        Self::of_line(&job.spec().command_line())
    }

    /// Tells whether the command moves to the background after this time, with or without output.
    pub fn is_due(self, elapsed: Duration, has_output: bool) -> bool {
        self.is_development && has_output && elapsed >= THRESHOLD
    }

    /// Returns after what time from its start the command moves to the background, given the time of its first output; none:
    /// never.
    pub fn due(self, first_output: Option<Duration>) -> Option<Duration> {
        let printed = first_output.filter(|_| self.is_development)?;
        Some(THRESHOLD.max(printed.saturating_add(END_MARGIN)))
    }
}

impl Store {
    /// Waits until a job's main process ends, moves to the background by `rule`, `limit` is over, or `stop` is readable.
    ///
    /// # Errors
    ///
    /// If the output cannot be read, or the kernel is out of memory.
    pub fn wait_in_foreground(
        &self,
        job: &Job,
        rule: AutoBackground,
        limit: Duration,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Foreground, WaitError> {
        let began = Instant::now();
        let left = || limit.saturating_sub(began.elapsed());
        let first = if rule.is_development { limit.min(THRESHOLD) } else { limit };
        let foreground = self.wait_for_end(job, first, stop)?;
        if !rule.is_development || foreground == Foreground::Ended {
            return Ok(foreground);
        }
        // The first output decides, and may be there already.
        let mut follower = None;
        loop {
            let elapsed = began.elapsed();
            if rule.is_due(elapsed, Output::open(job)?.end() > 0) {
                let last = rule.due(Some(elapsed)).unwrap_or_default().saturating_sub(elapsed);
                let ended = self.wait_for_end(job, last.min(left()), stop)?;
                return Ok(if ended == Foreground::Ended { ended } else { Foreground::Background });
            }
            let is_stopped = stop
                .is_some_and(|stop| outlive_sys::poll::readable(stop, Some(Duration::ZERO)).unwrap_or(true));
            if left().is_zero() || is_stopped {
                return Ok(Foreground::of(&job.state(self)));
            }
            let follower = match &mut follower {
                Some(follower) => follower,
                None => follower.insert(Follower::new(self, job, 0)?.until_exit().stopped_by(stop)),
            };
            if follower.next(Some(left()))? == Followed::End {
                return Ok(Foreground::Ended);
            }
        }
    }

    fn wait_for_end(
        &self,
        job: &Job,
        limit: Duration,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Foreground, WaitError> {
        let wanted = WaitFor { limit: Some(limit), stop, ..WaitFor::exits(std::slice::from_ref(job)) };
        Ok(Foreground::of(&self.wait_for(&wanted)?.states[0]))
    }
}

impl Foreground {
    fn of(state: &State) -> Self {
        if state.status.has_ended() { Self::Ended } else { Self::TimeOver }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moves(line: &str, millis: u64, has_output: bool) -> bool {
        AutoBackground::of_line(line).is_due(Duration::from_millis(millis), has_output)
    }

    #[test]
    fn a_tool_of_development_that_prints_goes_on_in_the_background() {
        for line in
            ["npm run dev", "pnpm dev", "yarn start", "/usr/bin/node x", "cd app && npm run dev", "NPM ci"]
        {
            assert!(moves(line, 2500, true), "{line}");
            assert!(moves(line, 2000, true), "{line}");
            assert!(!moves(line, 1999, true), "{line}: too soon");
            assert!(!moves(line, 3000, false), "{line}: silent");
        }
        for line in COMMANDS {
            assert!(moves(line, 2000, true), "{line}");
        }
        for line in
            ["npm run dev 2>&1 | tee log", "npm ci && echo done", "(npm start)", "A=1 env B=2 time npm t"]
        {
            assert!(moves(line, 2000, true), "{line}");
        }
    }

    #[test]
    fn anything_else_does_not() {
        for line in ["echo hello", "echo npm run dev", "sleep 10 # npm", "npmx", "", "&&", "cat 'npm'"] {
            assert!(!moves(line, 60_000, true), "{line}");
        }
    }

    #[test]
    fn it_is_asked_again_when_the_time_comes() {
        let rule = AutoBackground::of_line("npm t");
        assert_eq!(rule.due(Some(Duration::from_millis(500))), Some(Duration::from_millis(2000)));
        assert_eq!(rule.due(Some(Duration::from_millis(2500))), Some(Duration::from_millis(2600)));
        assert_eq!(rule.due(None), None, "its first output is told");
        assert_eq!(AutoBackground::of_line("ls").due(Some(Duration::ZERO)), None);
    }
}
