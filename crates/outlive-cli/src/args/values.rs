//! Parsers for the values of options.

use std::ffi::OsString;
use std::time::Duration;

use clap::ValueEnum;
use outlive::{Budget, HttpAddress, JobId, Nonce, SessionName, Signal, Stream, Timestamp};
use outlive_mcp::Profile;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamChoice {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl From<StreamChoice> for Stream {
    fn from(choice: StreamChoice) -> Self {
        match choice {
            StreamChoice::Stdout => Self::Stdout,
            StreamChoice::Stderr => Self::Stderr,
        }
    }
}

/// A time that may be `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    outlive::duration::parse_duration(text).map_err(|error| error.to_string())
}

pub(super) fn parse_timeout(text: &str) -> Result<Timeout, String> {
    if text == "none" || text == "off" {
        Ok(Timeout(None))
    } else {
        parse_duration(text).map(|limit| Timeout(Some(limit)))
    }
}

/// Bytes from one offset up to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) from: u64,
    pub(crate) to: Option<u64>,
}

pub(super) fn parse_range(text: &str) -> Result<ByteRange, String> {
    let wrong = || "write 100..200, 100.. or ..200".to_owned();
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| wrong());
    let from = if from.is_empty() { 0 } else { number(from)? };
    let to = if to.is_empty() { None } else { Some(number(to)?) };
    if to.is_some_and(|to| to < from) {
        return Err("the range ends before it begins".to_owned());
    }
    Ok(ByteRange { from, to })
}

pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    match outlive::duration::parse_duration(text) {
        Ok(ago) => {
            let ago = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
            Ok(Timestamp(outlive_sys::clock::wall_us().saturating_sub(ago)))
        }
        Err(_) => Timestamp::parse(text).map_err(|error| error.to_string()),
    }
}

pub(super) fn parse_budget(text: &str) -> Result<Budget, String> {
    Budget::parse(text).map_err(|_| "write 8K for bytes, 200l for lines or 2000t for tokens".to_owned())
}

pub(super) fn parse_session(text: &str) -> Result<SessionName, String> {
    SessionName::parse(text).map_err(|error| error.to_string())
}

pub(super) fn parse_address(text: &str) -> Result<HttpAddress, String> {
    text.parse().map_err(|error: outlive::RequestError| error.to_string())
}

pub(super) fn parse_id(text: &str) -> Result<JobId, String> {
    JobId::parse(text).map_err(|error| error.to_string())
}

pub(super) fn parse_nonce(text: &str) -> Result<Nonce, String> {
    Nonce::try_from(text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn parse_signal(text: &str) -> Result<Signal, String> {
    Signal::parse(text)
        .ok_or_else(|| "no such signal: give a name such as TERM, or a number from 1 to 64".to_owned())
}

pub(super) fn parse_variable(text: &str) -> Result<(String, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.into())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub(super) fn parse_profile(text: &str) -> Result<&'static Profile, String> {
    Profile::find(text)
        .ok_or_else(|| format!("there are {}", Profile::names().collect::<Vec<_>>().join(", ")))
}
