//! Cron lines: `MINUTE HOUR DAY MONTH WEEKDAY`, as in crontab(5).
//!
//! At a change of the clocks: a line that names hours holds them. Of an hour that comes twice only the first counts, and a time in an
//! hour that is left out comes when it would have come. A line for every hour (`*`) goes on without a gap or a repeat that
//! a user would notice: it holds the minutes of every hour that there is.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::civil::{Shown, Zone, micros, month_and_day, seconds, weekday};

/// How many days ahead are looked at: in 28 years each day of the month has met each day of the week, and in 40 the missing leap day
/// of 2100 is passed.
const MOST_DAYS: i64 = 40 * 366;

/// A cron line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// The line is for every hour.
    has_every_hour: bool,
    /// A day counts that is one of the days of the month or one of the weekdays, because both are named.
    either_day: bool,
}

/// Why a cron line makes no sense: the sentence says what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError(String);

impl fmt::Display for CronError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CronError {}

/// A field: what it is called, its bounds, and the names of its values.
struct Field {
    what: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [Field; 5] = [
    Field { what: "minute", least: 0, most: 59, names: &[] },
    Field { what: "hour", least: 0, most: 23, names: &[] },
    Field { what: "day of the month", least: 1, most: 31, names: &[] },
    Field { what: "month", least: 1, most: 12, names: MONTHS },
    // 7 is Sunday as well.
    Field { what: "day of the week", least: 0, most: 7, names: WEEKDAYS },
];

/// Lines that have a name.
const NAMED: &[(&str, &str)] = &[
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

impl Field {
    fn number(&self, text: &str) -> Result<u32, CronError> {
        let name = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = name {
            return Ok(at as u32 + self.least);
        }
        let number = text.parse().ok().filter(|number| (self.least..=self.most).contains(number));
        number.ok_or_else(|| {
            let Self { what, least, most, .. } = self;
            let names = match self.names {
                [] => String::new(),
                [first, .., last] => format!(" or {first} to {last}"),
                [one] => format!(" or {one}"),
            };
            CronError(format!("{text:?} is no {what}: write a number from {least} to {most}{names}"))
        })
    }

    /// Reads a field; each value is a bit.
    fn read(&self, text: &str) -> Result<u64, CronError> {
        let mut values = 0;
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                None => (part, None),
                Some((range, step)) => {
                    let number = step.parse().ok().filter(|step: &usize| (1..=60).contains(step));
                    let wrong = || CronError(format!("{step:?} is no step: write {range}/15, for example"));
                    (range, Some(number.ok_or_else(wrong)?))
                }
            };
            let (first, last) = match range.split_once('-') {
                _ if range == "*" => (self.least, self.most),
                Some((first, last)) => (self.number(first)?, self.number(last)?),
                // `5/15` is from 5 on.
                None => (self.number(range)?, if step.is_some() { self.most } else { self.number(range)? }),
            };
            if first > last {
                return Err(CronError(format!(
                    "{range} of {} ends before it begins: write two ranges with a comma",
                    self.what
                )));
            }
            (first..=last).step_by(step.unwrap_or(1)).for_each(|value| values |= 1 << value);
        }
        Ok(values)
    }
}

impl FromStr for Cron {
    type Err = CronError;

    fn from_str(line: &str) -> Result<Self, CronError> {
        let line = line.trim();
        let named = NAMED.iter().find(|(name, _)| name.eq_ignore_ascii_case(line));
        let texts: Vec<&str> = named.map_or(line, |(_, line)| line).split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = texts[..] else {
            return Err(CronError(match line.starts_with('@') {
                true => format!("{line:?} is not known: write @hourly, @daily, @weekly, @monthly or @yearly"),
                false => format!(
                    "a schedule has five fields, MINUTE HOUR DAY MONTH WEEKDAY, such as \"*/15 9-17 * * mon-fri\"; this has {}",
                    texts.len()
                ),
            }));
        };
        let mut values = [0; 5];
        for ((value, field), text) in values.iter_mut().zip(&FIELDS).zip([minute, hour, day, month, weekday])
        {
            *value = field.read(text)?;
        }
        let [minutes, hours, days, months, weekdays] = values;
        let weekdays = (weekdays | weekdays >> 7) & 0x7f;
        let cron = Self {
            minutes,
            hours,
            days,
            months,
            weekdays,
            has_every_hour: hour == "*",
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
        };
        match (0..MOST_DAYS).any(|day| cron.has_day(day)) {
            true => Ok(cron),
            false => Err(CronError(format!("the day of {line:?} never comes"))),
        }
    }
}

impl Cron {
    fn has_day(&self, day: i64) -> bool {
        let (month, of_month) = month_and_day(day);
        let (is_day, is_weekday) = (self.days >> of_month & 1 == 1, self.weekdays >> weekday(day) & 1 == 1);
        let is_day = if self.either_day { is_day || is_weekday } else { is_day && is_weekday };
        is_day && self.months >> month & 1 == 1
    }

    fn has_minute(&self, minute: i64) -> bool {
        self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1
    }

    /// Returns the first time after a moment; `None` if there is none in the next decades.
    pub fn after(&self, after_us: i64, zone: &dyn Zone) -> Option<i64> {
        self.all_after(after_us, zone).next()
    }

    /// Lists the times after a moment.
    pub fn all_after<'a>(&'a self, after_us: i64, zone: &'a dyn Zone) -> Box<dyn Iterator<Item = i64> + 'a> {
        let after = seconds(after_us);
        match self.has_every_hour {
            true => {
                let first = self.minute_after(after, zone);
                Box::new(
                    std::iter::successors(first, |time| self.minute_after(*time, zone)).map_while(micros),
                )
            }
            false => Box::new(Hours::new(self, after, zone).map_while(micros)),
        }
    }

    /// Looks at the minutes as they come.
    fn minute_after(&self, after: i64, zone: &dyn Zone) -> Option<i64> {
        let mut moment = after + 60 - Shown::at(after, zone).0.rem_euclid(60);
        let last_day = Shown::at(after, zone).day() + MOST_DAYS;
        loop {
            let shown = Shown::at(moment, zone);
            if shown.day() > last_day {
                return None;
            }
            if !self.has_day(shown.day()) {
                // It may be that midnight is left out, or comes twice: at least a minute on in any case.
                moment = Shown::of(shown.day() + 1, 0).moment(zone).max(moment + 60);
            } else if self.has_minute(shown.minute()) {
                return Some(moment);
            } else {
                moment += 60;
            }
        }
    }
}

/// The times of a line that names hours: the minutes that the clocks are to show, each once.
struct Hours<'a> {
    cron: &'a Cron,
    zone: &'a dyn Zone,
    after: i64,
    /// The first day that was not looked at, and the last that is.
    next_day: i64,
    last_day: i64,
    /// What was found on the days before.
    found: BTreeSet<i64>,
}

impl<'a> Hours<'a> {
    fn new(cron: &'a Cron, after: i64, zone: &'a dyn Zone) -> Self {
        let today = Shown::at(after, zone).day();
        // Of yesterday, too: a minute that was left out comes an hour later, which may be today.
        Self { cron, zone, after, next_day: today - 1, last_day: today + MOST_DAYS, found: BTreeSet::new() }
    }
}

impl Iterator for Hours<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        loop {
            // What the clocks leave out at the end of a day comes on the next: its day must have been looked at.
            if let Some(first) = self.found.first().copied()
                && Shown::at(first, self.zone).day() < self.next_day
            {
                self.found.remove(&first);
                self.last_day = self.next_day + MOST_DAYS;
                return Some(first);
            }
            if self.next_day > self.last_day {
                return self.found.pop_first();
            }
            let day = self.next_day;
            self.next_day += 1;
            if self.cron.has_day(day) {
                let minutes = (0..24 * 60).filter(|minute| self.cron.has_minute(*minute));
                let moments = minutes.map(|minute| Shown::of(day, minute).moment(self.zone));
                self.found.extend(moments.filter(|moment| *moment > self.after));
            }
        }
    }
}
