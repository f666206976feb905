//! Kinds of values: how people write them, in which unit they are kept, and what bounds they have.

use std::ffi::OsString;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use crate::containment::{Level, Survivors};
use crate::duration::{QuantityError, parse_cpus, parse_duration, parse_memory, parse_size, parse_survivors};
use crate::health::HealthThen;
use crate::id::QueueName;
use crate::options::Field;
use crate::rawtext::RawText;
use crate::restart::RestartWhen;
use crate::schedule::{Cron, CronError, DAY_MINUTES, Missed, Overlap};
use crate::spec::{Lifetime, Stdin};
use crate::terminal::size::TerminalSize;
use crate::timestamp::Timestamp;

/// A kind of value.
pub trait Kind {
    /// How it is stored.
    type Value: Field;
    /// What the builder's method takes.
    type Given;
    /// Its form, for front ends that take no text.
    const FORM: Form;

    /// Converts what the builder's method took.
    fn take(given: Self::Given) -> Self::Value;

    /// Parses it as people write it; relative times count from `now`.
    ///
    /// # Errors
    ///
    /// If the text makes no sense: the message says what to write.
    fn parse(text: &[u8], now: Timestamp) -> Result<Self::Value, String>;

    /// Writes it so that [`Kind::parse`] reads it.
    fn format(value: &Self::Value) -> String;
}

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Yes or no.
    Flag,
    /// Text.
    Text,
    /// A whole number; in text the unit follows it.
    Number {
        /// The smallest that is allowed.
        least: i64,
        /// The largest that is allowed.
        most: i64,
        /// Such as `ms`; empty for a plain count.
        unit: &'static str,
    },
    /// One of several words.
    Words(&'static [&'static str]),
}

fn utf8(text: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())
}

/// A value that may be missing; no text says so.
#[derive(Debug)]
pub struct Maybe<K>(PhantomData<K>);

impl<K: Kind> Kind for Maybe<K> {
    type Value = Option<K::Value>;
    type Given = K::Given;
    const FORM: Form = K::FORM;

    fn take(given: K::Given) -> Self::Value {
        Some(K::take(given))
    }

    fn parse(text: &[u8], now: Timestamp) -> Result<Self::Value, String> {
        K::parse(text, now).map(Some)
    }

    fn format(value: &Self::Value) -> String {
        value.as_ref().map_or_else(|| "none".to_owned(), K::format)
    }
}

/// A value that `off` or `none` takes away.
#[derive(Debug)]
pub struct OrOff<K>(PhantomData<K>);

impl<K: Kind> Kind for OrOff<K> {
    type Value = Option<K::Value>;
    type Given = Option<K::Given>;
    const FORM: Form = match K::FORM {
        // `off` is not among the words.
        Form::Words(_) => Form::Text,
        form => form,
    };

    fn take(given: Self::Given) -> Self::Value {
        given.map(K::take)
    }

    fn parse(text: &[u8], now: Timestamp) -> Result<Self::Value, String> {
        match text {
            b"off" | b"none" => Ok(None),
            text => K::parse(text, now).map(Some),
        }
    }

    fn format(value: &Self::Value) -> String {
        Maybe::<K>::format(value)
    }
}

/// Text for a shell, which need not be UTF-8.
#[derive(Debug)]
pub struct Line;

impl Kind for Line {
    type Value = RawText;
    type Given = OsString;
    const FORM: Form = Form::Text;

    fn take(given: OsString) -> RawText {
        RawText(given.into_vec())
    }

    fn parse(text: &[u8], _: Timestamp) -> Result<RawText, String> {
        Ok(RawText::from(text))
    }

    fn format(value: &RawText) -> String {
        value.to_lossy()
    }
}

/// A time span, in milliseconds.
#[derive(Debug)]
pub struct Millis;

impl Kind for Millis {
    type Value = u64;
    type Given = Duration;
    const FORM: Form = Form::Number { least: 1, most: 366 * 86_400_000, unit: "ms" };

    fn take(given: Duration) -> u64 {
        u64::try_from(given.as_millis()).unwrap_or(u64::MAX)
    }

    fn parse(text: &[u8], _: Timestamp) -> Result<u64, String> {
        parse_duration(utf8(text)?).map(Self::take).map_err(|error| error.to_string())
    }

    fn format(value: &u64) -> String {
        if value.is_multiple_of(1000) { format!("{}s", value / 1000) } else { format!("{value}ms") }
    }
}

/// Declares times that cannot be 0, with what is said of one that is.
macro_rules! times {
    ($( #[doc = $about:literal] $Name:ident, $refused:literal; )*) => { $(
        #[doc = $about]
        #[derive(Debug)]
        pub struct $Name;

        impl Kind for $Name {
            type Value = u64;
            type Given = Duration;
            const FORM: Form = Millis::FORM;

            fn take(given: Duration) -> u64 {
                Millis::take(given)
            }

            fn parse(text: &[u8], now: Timestamp) -> Result<u64, String> {
                Some(Millis::parse(text, now)?).filter(|millis| *millis > 0).ok_or_else(|| $refused.to_owned())
            }

            fn format(value: &u64) -> String {
                Millis::format(value)
            }
        }
    )* };
}

times! {
    /// A time after which something is ended, in milliseconds; 0 is none.
    Deadline, "a job that may run for no time cannot run: write 10s or 5m, or none for no limit";
    /// The time from one time to the next, in milliseconds.
    Interval, "this cannot be no time: write 10s or 5m";
}

/// A whole number within bounds.
#[derive(Debug)]
pub struct Whole<T, const LEAST: i64, const MOST: i64 = { i64::MAX }>(PhantomData<T>);

impl<T: Field + TryFrom<i64> + ToString, const LEAST: i64, const MOST: i64> Kind for Whole<T, LEAST, MOST> {
    type Value = T;
    type Given = T;
    const FORM: Form = Form::Number { least: LEAST, most: MOST, unit: "" };

    fn take(given: T) -> T {
        given
    }

    fn parse(text: &[u8], _: Timestamp) -> Result<T, String> {
        let number = utf8(text)?.trim().parse().ok().filter(|number| (LEAST..=MOST).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| match MOST {
            i64::MAX => format!("write a whole number that is at least {LEAST}"),
            _ => format!("write a whole number from {LEAST} to {MOST}"),
        })
    }

    fn format(value: &T) -> String {
        value.to_string()
    }
}

/// A TCP port, or `any`, which is kept as 0.
#[derive(Debug)]
pub struct PortOrAny;

/// A cron line, kept as it is written.
#[derive(Debug)]
pub struct CronLine;

/// A time of day, in minutes since midnight.
#[derive(Debug)]
pub struct TimeOfDay;

/// An amount of data, in bytes.
#[derive(Debug)]
pub struct Size;

/// A memory limit, in bytes: not so small that no program could start.
#[derive(Debug)]
pub struct Memory;

/// A number of processors, in thousandths.
#[derive(Debug)]
pub struct Cpus;

/// Declares kinds of which the builder's method takes the value as it is stored: how it is parsed and written.
macro_rules! plain_kinds {
    ($($Kind:ty: $Value:ty, $form:expr, $parse:expr, $format:expr;)*) => { $(
        impl Kind for $Kind {
            type Value = $Value;
            type Given = $Value;
            const FORM: Form = $form;

            fn take(given: $Value) -> $Value {
                given
            }

            fn parse(text: &[u8], now: Timestamp) -> Result<$Value, String> {
                let parse: fn(&[u8], Timestamp) -> Result<$Value, String> = $parse;
                parse(text, now)
            }

            fn format(value: &$Value) -> String {
                let format: fn(&$Value) -> String = $format;
                format(value)
            }
        }
    )* };
}

plain_kinds! {
    String: String, Form::Text, |text, _| utf8(text).map(str::to_owned), String::clone;
    bool: bool, Form::Flag, parse_flag, bool::to_string;
    Size: u64, Form::Number { least: 0, most: 1 << 30, unit: "M" }, |text, _| quantity(text, parse_size), format_size;
    Memory: u64, Form::Number { least: 1, most: 1 << 30, unit: "M" }, |text, _| quantity(text, parse_memory), format_size;
    Cpus: u64, Form::Text, |text, _| quantity(text, parse_cpus), |milli| (*milli as f64 / 1000.0).to_string();
    PortOrAny: u16, Form::Number { least: 1, most: 65_535, unit: "" }, parse_port,
        |port| if *port == 0 { "any".to_owned() } else { port.to_string() };
    HealthThen: HealthThen, Form::Words(HealthThen::WORDS), parse_health_then, |then| then.word().to_owned();
    QueueName: QueueName, Form::Text, parse_queue, QueueName::to_string;
    RestartWhen: RestartWhen, Form::Words(RestartWhen::WORDS), parse_restart, |when| when.word().to_owned();
    CronLine: String, Form::Text, parse_cron, String::clone;
    TimeOfDay: u16, Form::Text, parse_time_of_day, |minute| format!("{:02}:{:02}", minute / 60, minute % 60);
    Missed: Missed, Form::Words(Missed::WORDS), parse_missed, |missed| missed.word().to_owned();
    Overlap: Overlap, Form::Words(Overlap::WORDS), parse_overlap, |overlap| overlap.word().to_owned();
    Stdin: Stdin, Form::Words(Stdin::WORDS), parse_stdin, |stdin| stdin.word().to_owned();
    TerminalSize: TerminalSize, Form::Text, parse_terminal_size, TerminalSize::to_string;
    Level: Level, Form::Words(Level::WORDS), parse_level, |level| level.word().to_owned();
    Survivors: Survivors, Form::Text, |text, _| quantity(text, parse_survivors), format_survivors;
    Lifetime: Lifetime, Form::Text, parse_lifetime, format_lifetime;
}

fn quantity<T>(text: &[u8], parse: fn(&str) -> Result<T, QuantityError>) -> Result<T, String> {
    parse(utf8(text)?).map_err(|error| error.to_string())
}

fn parse_flag(text: &[u8], _: Timestamp) -> Result<bool, String> {
    match text {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

fn parse_stdin(text: &[u8], _: Timestamp) -> Result<Stdin, String> {
    let word = std::str::from_utf8(text).ok();
    word.and_then(Stdin::parse).ok_or_else(|| "write null or open".to_owned())
}

fn parse_port(text: &[u8], now: Timestamp) -> Result<u16, String> {
    match text {
        b"any" => Ok(0),
        text => Whole::<u16, 1, 65_535>::parse(text, now).map_err(|error| format!("{error}, or any")),
    }
}

fn parse_health_then(text: &[u8], _: Timestamp) -> Result<HealthThen, String> {
    let word = std::str::from_utf8(text).ok();
    word.and_then(HealthThen::parse).ok_or_else(|| "write event or restart".to_owned())
}

fn parse_queue(text: &[u8], _: Timestamp) -> Result<QueueName, String> {
    QueueName::parse(utf8(text)?).map_err(|error| format!("a queue has a short name such as build: {error}"))
}

fn parse_restart(text: &[u8], _: Timestamp) -> Result<RestartWhen, String> {
    let word = std::str::from_utf8(text).ok();
    word.and_then(RestartWhen::parse).ok_or_else(|| "write no, on-failure or always".to_owned())
}

fn parse_cron(text: &[u8], _: Timestamp) -> Result<String, String> {
    let line = utf8(text)?;
    line.parse::<Cron>().map(|_| line.to_owned()).map_err(|error: CronError| error.to_string())
}

fn parse_time_of_day(text: &[u8], _: Timestamp) -> Result<u16, String> {
    let number = |part: &str| part.parse::<u16>().ok().filter(|_| (1..=2).contains(&part.len()));
    let time = utf8(text)?.split_once(':').and_then(|(hour, minute)| Some((number(hour)?, number(minute)?)));
    let minutes = time.filter(|(_, minute)| *minute < 60).map(|(hour, minute)| hour * 60 + minute);
    minutes
        .filter(|minutes| *minutes < DAY_MINUTES)
        .ok_or_else(|| "write a time of day from 00:00 to 23:59, such as 18:00".to_owned())
}

fn parse_missed(text: &[u8], _: Timestamp) -> Result<Missed, String> {
    let word = std::str::from_utf8(text).ok();
    word.and_then(Missed::parse).ok_or_else(|| "write once, skip or all".to_owned())
}

fn parse_overlap(text: &[u8], _: Timestamp) -> Result<Overlap, String> {
    let word = std::str::from_utf8(text).ok();
    word.and_then(Overlap::parse).ok_or_else(|| "write skip, queue or kill".to_owned())
}

fn parse_terminal_size(text: &[u8], _: Timestamp) -> Result<TerminalSize, String> {
    TerminalSize::parse(utf8(text)?).map_err(|error| error.to_string())
}

fn parse_level(text: &[u8], _: Timestamp) -> Result<Level, String> {
    Level::parse(utf8(text)?).ok_or_else(|| "write cgroup2, hybrid, freezer, sweep or group".to_owned())
}

fn parse_lifetime(text: &[u8], now: Timestamp) -> Result<Lifetime, String> {
    let text = utf8(text)?;
    let at = |time| match parse_duration(time) {
        Ok(ahead) => {
            let ahead = u64::try_from(ahead.as_micros()).unwrap_or(u64::MAX);
            Ok(Timestamp(now.0.saturating_add(ahead)))
        }
        Err(error @ QuantityError::TooLong) => Err(error.to_string()),
        Err(_) => Timestamp::parse(time)
            .map_err(|_| "write a time (2026-11-15T18:00:00Z) or how long from now (2h)".to_owned()),
    };
    match text.split_once('=') {
        None if text == "forever" => Ok(Lifetime::Forever),
        None if text == "session" => Ok(Lifetime::SESSION),
        Some(("until", time)) => at(time).map(|at| Lifetime::Until { at }),
        _ => Err("write forever, session, until=2h or until=2026-11-15T18:00:00Z".to_owned()),
    }
}

fn format_size(bytes: &u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K"), (0, "")];
    let fits = |(shift, _): &(u32, _)| bytes.trailing_zeros() >= *shift && *bytes > 0;
    let (shift, unit) = units.into_iter().find(fits).unwrap_or((0, ""));
    format!("{}{unit}", bytes >> shift)
}

fn format_survivors(survivors: &Survivors) -> String {
    match survivors {
        Survivors::Keep => "keep".to_owned(),
        Survivors::KillAfter { ms: 0 } => "kill".to_owned(),
        Survivors::KillAfter { ms } => format!("kill-after={ms}ms"),
    }
}

fn format_lifetime(lifetime: &Lifetime) -> String {
    match lifetime {
        Lifetime::Forever => "forever".to_owned(),
        Lifetime::Until { at } => format!("until={at}"),
        Lifetime::Session { .. } => "session".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{JobChoices, JobOptions, OPTIONS};
    use crate::wire::{HEADER, Reader, Writer};

    const NOW: Timestamp = Timestamp(1_000_000);

    /// Returns a text for an option that differs from its default.
    fn sample(name: &str, form: Form) -> &'static str {
        match (name, form) {
            ("cpu", _) => "0.5",
            ("survivors", _) => "kill-after=1500ms",
            ("lifetime", _) => "until=2h",
            ("containment", _) => "freezer",
            ("size", _) => "100x30",
            ("schedule", _) => "*/15 * * * *",
            ("at", _) => "18:30",
            (_, Form::Flag) => "true",
            (_, Form::Text) => "text",
            (_, Form::Number { unit: "ms", .. }) => "1234ms",
            (_, Form::Number { unit: "M", .. }) => "2G",
            (_, Form::Number { .. }) => "7",
            (_, Form::Words(words)) => words.last().unwrap(),
        }
    }

    #[test]
    fn every_option_comes_back_from_text_json_and_wire() {
        for option in OPTIONS {
            let mut choices = JobChoices::default();
            let text = sample(option.name, option.form);
            option.set(&mut choices, text.as_bytes(), NOW).unwrap();
            let mut options = JobOptions::default();
            options.apply(&choices);
            assert_ne!(options, JobOptions::default(), "{}", option.name);

            let json = serde_json::to_value(&options).unwrap();
            let pointer = format!("/{}", option.field.join("/"));
            assert_eq!(json.pointer(&pointer), Some(&option.json(&options)), "{}", option.name);
            assert_eq!(serde_json::from_value::<JobOptions>(json).unwrap(), options);

            let frame = options.write(Writer::new(0)).finish();
            let (_, mut reader) = Reader::new(&frame[HEADER..]).unwrap();
            assert_eq!(JobOptions::read(&mut reader).unwrap(), options);

            let mut again = JobChoices::default();
            option.set(&mut again, option.text(&options).as_bytes(), NOW).unwrap();
            assert_eq!(again, choices, "{}", option.name);
        }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused() {
        for (name, wrong) in [
            ("pids", "0"),
            ("pids", "many"),
            ("open_files", "2"),
            ("ready_port", "65536"),
            ("memory", "1K"),
            ("stdin", "wide"),
            ("grace", "none"),
            ("size", "0x24"),
            ("lifetime", "until=then"),
            ("queue", "../x"),
            ("schedule", "* * * *"),
            ("at", "24:00"),
            ("at", "6pm"),
            ("missed", "never"),
            ("overlap", "both"),
        ] {
            let option = OPTIONS.iter().find(|option| option.name == name).unwrap();
            let refused = option.set(&mut JobChoices::default(), wrong.as_bytes(), NOW);
            assert!(refused.is_err(), "{name} {wrong}");
        }
    }

    #[test]
    fn sizes_are_written_short() {
        for (bytes, text) in [(0, "0"), (4096, "4K"), (4097, "4097"), (100 << 20, "100M"), (2 << 30, "2G")] {
            assert_eq!(Size::format(&bytes), text);
        }
    }
}
