//! Failures, for people, scripts and agents: a stable code, what happened, and what to do next.
//!
//! Every error type of the library converts into a [`Failure`] (`errors`); every code is a row of one table (`table`), which
//! all front ends use.

mod errors;
mod table;

use std::error::Error;

use outlive_core::id::JobId;
use serde::Serialize;

pub use table::{Code, exit};

use crate::one_line;

/// A failure with hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The stable code.
    pub code: Code,
    /// The exit status of the command line.
    pub exit_status: u8,
    /// The operation that failed; precedes the message.
    during: String,
    message: String,
    /// What a person at a command line does next.
    pub hint: Option<Box<str>>,
    /// What an agent with tools calls next.
    pub tool_hint: Option<Box<str>>,
    /// A list of the live jobs helps an agent.
    pub lists_live_jobs: bool,
    job: Option<JobId>,
}

/// The documented JSON object of a failure.
#[derive(Debug, Serialize)]
pub struct FailureObject<'a> {
    code: &'static str,
    message: String,
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a JobId>,
}

impl Failure {
    /// Makes a failure without a hint.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        let (during, exit_status) = (String::new(), code.exit_status());
        let (hint, tool_hint) = (None, None);
        Self { code, exit_status, during, message, hint, tool_hint, lists_live_jobs: false, job: None }
    }

    /// Makes a failure from an error without a code of its own.
    pub fn other(during: &str, error: &dyn Error) -> Self {
        Self::new(Code::Failed, chain(error)).during(during)
    }

    /// Makes the failure of an invalid request.
    pub fn usage(message: impl Into<String>, hint: impl Into<Box<str>>) -> Self {
        Self::new(Code::Usage, message).hint(hint)
    }

    /// Makes the failure of a wait that reached its limit.
    pub fn timed_out(message: impl Into<String>, hint: impl Into<Box<str>>) -> Self {
        Self::new(Code::TimedOut, message).hint(hint)
    }

    /// Makes the failure of a wait for something that can no longer happen.
    pub fn not_reached(message: impl Into<String>, hint: impl Into<Box<str>>) -> Self {
        Self::new(Code::NotReached, message).hint(hint)
    }

    /// Sets the operation that failed, and replaces an earlier one.
    #[must_use]
    pub fn during(mut self, what: impl Into<String>) -> Self {
        self.during = what.into();
        self
    }

    /// Sets the job that it is about.
    #[must_use]
    pub fn about(mut self, job: &JobId) -> Self {
        self.job = Some(job.clone());
        self
    }

    /// Sets what a person at a command line does next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets what an agent with tools does next.
    #[must_use]
    pub fn tool_hint(mut self, hint: impl Into<Box<str>>) -> Self {
        self.tool_hint = Some(hint.into());
        self
    }

    /// Sets the same hint for both.
    fn hint_for_all(self, hint: &str) -> Self {
        self.hint(hint).tool_hint(hint)
    }

    /// Returns the operation and the message.
    pub fn text(&self) -> String {
        match self.during.as_str() {
            "" => self.message.clone(),
            during => format!("{during}: {}", self.message),
        }
    }

    /// Returns the object for scripts.
    pub fn object(&self) -> FailureObject<'_> {
        FailureObject {
            code: self.code.word(),
            message: self.text(),
            hint: self.hint.as_deref(),
            job: self.job.as_ref(),
        }
    }
}

/// Shortens a caller's text, to repeat it in a message.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Joins an error and its causes in one line, without the system's "(os error 2)".
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    let words = causes.map(|error| {
        let text = error.to_string();
        match text.as_str() {
            // Words of the standard library that say nothing to a reader.
            "stream did not contain valid UTF-8" => "it is not UTF-8".to_owned(),
            "entity not found" => "it is not there".to_owned(),
            text => one_line(text.split(" (os error").next().unwrap_or_default()),
        }
    });
    words.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn codes_are_unique() {
        let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(words.len(), Code::ALL.len());
    }

    #[test]
    fn every_exit_status_of_a_code_is_explained() {
        for code in Code::ALL {
            let status = code.exit_status().to_string();
            assert!(exit::TABLE.iter().any(|(listed, _)| *listed == status), "{code:?}");
        }
    }

    #[test]
    fn an_error_and_its_causes_are_one_line() {
        let cause = std::io::Error::from_raw_os_error(2);
        let error = crate::RemoveError::Io("a\nb".into(), cause);
        assert_eq!(chain(&error), "cannot remove a b: No such file or directory");
        let error = std::io::read_to_string(&b"\xff"[..]).unwrap_err();
        assert_eq!(chain(&error), "it is not UTF-8");
    }
}
