//! Parsers for the values of options.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use outlive::duration::{QuantityError, parse_duration};
use outlive::{Budget, Nonce, Running, Signal, Sizing, Stream, Timestamp};
use outlive_mcp::Profile;
use outlive_sys::detach;

use crate::local_time;

pub(super) fn streams() -> impl TypedValueParser<Value = Stream> {
    let words = [(Stream::Stdout, "Standard output"), (Stream::Stderr, "Standard error")]
        .map(|(stream, help)| PossibleValue::new(stream.word()).help(help));
    PossibleValuesParser::new(words)
        .map(|word| if word == Stream::Stdout.word() { Stream::Stdout } else { Stream::Stderr })
}

pub(super) fn running() -> impl TypedValueParser<Value = Running> {
    PossibleValuesParser::new(["refuse", "kill", "transfer"]).map(|word| match word.as_str() {
        "kill" => Running::Kill,
        "transfer" => Running::Transfer,
        _ => Running::Refuse,
    })
}

/// A time that may be `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

pub(super) fn parse_timeout(text: &str) -> Result<Timeout, QuantityError> {
    match text {
        "none" | "off" => Ok(Timeout(None)),
        _ => parse_duration(text).map(|limit| Timeout(Some(limit))),
    }
}

/// A file that was open when this program was started.
#[derive(Debug, Clone)]
pub(crate) struct Descriptor(Arc<OwnedFd>);

impl Descriptor {
    /// Returns the file.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.0.try_clone().map(File::from)
    }
}

/// Takes a descriptor by its number, before this program opens files of its own, which could get that number.
pub(super) fn parse_descriptor(text: &str) -> Result<Descriptor, String> {
    let number = text.parse().map_err(|_| "write the number of a descriptor, such as 3".to_owned())?;
    match detach::duplicate(number, 0) {
        Ok(file) => Ok(Descriptor(Arc::new(file))),
        Err(_) => Err(format!("descriptor {number} is not open; a shell opens it with {number}<FILE")),
    }
}

/// Reads how long ago something was. A bare number is refused: taken for days, and read as seconds, it would remove what was to stay.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(_) => Err(format!("{text} of what? Write {text}d for days, {text}h for hours")),
        Err(_) => parse_duration(text).map_err(|_| "not an age: write 90m, 12h, 2d, 1d12h".to_owned()),
    }
}

/// Reads the bytes from one offset up to another; without an end up to the largest number there is.
pub(super) fn parse_range(text: &str) -> Result<Range<u64>, &'static str> {
    let wrong = "write 100..200, 100.. or ..200";
    let (from, to) = text.split_once("..").ok_or(wrong)?;
    let number = |part: &str| part.trim().parse::<u64>().map_err(|_| wrong);
    let from = if from.is_empty() { 0 } else { number(from)? };
    let to = if to.is_empty() { u64::MAX } else { number(to)? };
    if to < from { Err("the range ends before it begins") } else { Ok(from..to) }
}

pub(super) fn parse_sizing(text: &str) -> Result<Sizing, &'static str> {
    Sizing::parse(text).ok_or("write fixed, latest or smallest")
}

pub(super) fn parse_speed(text: &str) -> Result<f64, &'static str> {
    let speed = text.parse().ok().filter(|speed| (0.01..=1000.0).contains(speed));
    speed.ok_or("write a number from 0.01 to 1000, such as 2 or 0.5")
}

pub(super) fn parse_time(text: &str) -> Result<Timestamp, String> {
    local_time::parse(text, Timestamp(outlive_sys::clock::wall_us()))
}

/// Where events begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Sequence(u64),
    Time(Timestamp),
}

/// Reads a sequence, which is a number alone, or a time.
pub(super) fn parse_since(text: &str) -> Result<Since, String> {
    text.parse().map(Since::Sequence).or_else(|_| parse_time(text).map(Since::Time))
}

pub(super) fn parse_budget(text: &str) -> Result<Budget, String> {
    Budget::parse(text).map_err(|_| "write 8K for bytes, 200l for lines or 2000t for tokens".to_owned())
}

pub(super) fn parse_nonce(text: &str) -> Result<Nonce, String> {
    Nonce::try_from(text.to_owned()).map_err(|error| error.to_string())
}

/// Reads a path that is the same wherever it is looked at.
pub(super) fn parse_absolute(text: &str) -> Result<String, &'static str> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err("give an absolute path") }
}

pub(super) fn parse_signal(text: &str) -> Result<Signal, &'static str> {
    Signal::parse(text).ok_or("no such signal: give a name such as TERM, or a number from 1 to 64")
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
