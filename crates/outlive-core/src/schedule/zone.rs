//! Time zones by their value of `TZ`: files of tzdata (RFC 9636), and the rules of POSIX such as `CET-1CEST,M3.5.0,M10.5.0/3`.
//!
//! The C library knows only the zone of its own process. A job may have another one, and its first run goes by that.

use super::civil::{DAY, Zone, weekday};

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeZone {
    /// How far the clocks are ahead of UTC before the first change.
    before: i64,
    /// From which moment on the clocks are how far ahead, in order.
    changes: Vec<(i64, i64)>,
    /// What holds after the last change.
    rule: Option<Rule>,
}

/// A rule for every year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    standard: i64,
    summer: Option<Summer>,
}

/// Summer time: how far ahead of UTC, from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Summer {
    ahead: i64,
    from: Change,
    to: Change,
}

/// When the clocks are changed: a day, and seconds after its midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    day: Day,
    time: i64,
}

/// A day of any year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Day {
    /// From 1, where 29 February is never counted.
    Julian(i64),
    /// From 0, where it is.
    OfYear(i64),
    /// A weekday in a week of a month; week 5 is the last.
    OfMonth { month: i64, week: i64, weekday: i64 },
}

impl Zone for TimeZone {
    fn offset(&self, seconds: i64) -> i64 {
        let known = self.changes.partition_point(|(moment, _)| *moment <= seconds);
        match (&self.rule, known) {
            (Some(rule), _) if known == self.changes.len() => rule.offset(seconds),
            (_, 0) => self.before,
            _ => self.changes[known - 1].1,
        }
    }
}

impl TimeZone {
    /// Reads a file of tzdata; `None` if it is none.
    pub fn from_file(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = Header::read(bytes)?;
        if first.version == 0 {
            return first.changes(rest, 4).map(|(zone, _)| zone);
        }
        // The first block has short times, for programs that know no others.
        let (second, rest) = Header::read(rest.get(first.length(4)?..)?)?;
        let (mut zone, rest) = second.changes(rest, 8)?;
        let rest = rest.strip_prefix(b"\n")?;
        let footer = std::str::from_utf8(rest.split(|byte| *byte == b'\n').next()?).ok()?;
        zone.rule = Rule::read(footer);
        Some(zone)
    }

    /// Reads a rule of POSIX; `None` if it is none.
    pub fn from_rule(text: &str) -> Option<Self> {
        Rule::read(text).map(|rule| Self { before: rule.standard, changes: Vec::new(), rule: Some(rule) })
    }
}

/// The beginning of each block of a file: how much of what follows.
struct Header {
    version: u8,
    /// Marks of UTC and standard time, leap seconds, changes, kinds of time, characters of their names.
    counts: [usize; 6],
}

impl Header {
    fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(44)?;
        let mut counts = [0; 6];
        for (count, bytes) in counts.iter_mut().zip(head[20..].as_chunks::<4>().0) {
            *count = u32::from_be_bytes(*bytes) as usize;
        }
        head.starts_with(b"TZif").then_some((Self { version: head[4], counts }, rest))
    }

    /// Returns the length of the block after it, with times of so many bytes.
    fn length(&self, width: usize) -> Option<usize> {
        let [utc, standard, leaps, changes, kinds, characters] = self.counts;
        let parts = [(utc, 1), (standard, 1), (leaps, width + 4), (changes, width + 1), (kinds, 6)];
        let sum = parts.iter().try_fold(characters, |sum, (count, size)| {
            count.checked_mul(*size).and_then(|bytes| bytes.checked_add(sum))
        });
        sum.filter(|_| kinds > 0)
    }

    /// Reads the changes of a block; returns what comes after it as well.
    fn changes<'a>(&self, bytes: &'a [u8], width: usize) -> Option<(TimeZone, &'a [u8])> {
        let (block, rest) = bytes.split_at_checked(self.length(width)?)?;
        let [_, _, _, changes, kinds, _] = self.counts;
        let (times, block) = block.split_at_checked(changes * width)?;
        let (kind_of, block) = block.split_at_checked(changes)?;
        let kinds = &block.get(..kinds * 6)?.as_chunks::<6>().0;
        let ahead = |kind: usize| {
            let bytes = kinds.get(kind)?.first_chunk::<4>()?;
            Some(i64::from(i32::from_be_bytes(*bytes)))
        };
        let time = |bytes: &[u8]| match width {
            4 => Some(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
        };
        let changes = times.chunks_exact(width).zip(kind_of);
        let changes = changes.map(|(bytes, kind)| Some((time(bytes)?, ahead((*kind).into())?)));
        Some((TimeZone { before: ahead(0)?, changes: changes.collect::<Option<_>>()?, rule: None }, rest))
    }
}

impl Rule {
    fn read(text: &str) -> Option<Self> {
        let (standard, rest) = clock(text)?;
        let standard = standard?;
        if rest.is_empty() {
            return Some(Self { standard, summer: None });
        }
        let (ahead, rest) = clock(rest)?;
        // Without a word about the days, those of the USA, as the C library has it.
        let rest = if rest.is_empty() { ",M3.2.0,M11.1.0" } else { rest };
        let (from, to) = rest.strip_prefix(',')?.split_once(',')?;
        let (from, to) = (Change::read(from)?, Change::read(to)?);
        Some(Self { standard, summer: Some(Summer { ahead: ahead.unwrap_or(standard + 3600), from, to }) })
    }

    fn offset(&self, seconds: i64) -> i64 {
        let Some(summer) = &self.summer else { return self.standard };
        let year = year_of((seconds + self.standard).div_euclid(DAY));
        let from = summer.from.after_midnight(year) - self.standard;
        let to = summer.to.after_midnight(year) - summer.ahead;
        let is_summer = match from < to {
            true => (from..to).contains(&seconds),
            false => !(to..from).contains(&seconds),
        };
        if is_summer { summer.ahead } else { self.standard }
    }
}

/// Reads the name of a clock, and how far it is ahead of UTC, if that is said; returns the rest as well.
fn clock(text: &str) -> Option<(Option<i64>, &str)> {
    let rest = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    if text.len() - rest.len() < 3 {
        return None;
    }
    let end = rest.find(|c: char| !(c.is_ascii_digit() || "+-:".contains(c))).unwrap_or(rest.len());
    match rest.split_at(end) {
        ("", rest) => Some((None, rest)),
        // What POSIX counts to the west is counted to the east everywhere else.
        (time, rest) => Some((Some(-duration(time)?), rest)),
    }
}

/// Reads hours, minutes and seconds.
fn duration(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut parts = text.split(':').map(|part| part.parse::<u16>().ok().map(i64::from));
    let (hours, minutes, seconds) = (parts.next()??, parts.next(), parts.next());
    let is_whole = parts.next().is_none() && hours <= 167;
    is_whole.then_some(sign * (hours * 3600 + minutes.unwrap_or(Some(0))? * 60 + seconds.unwrap_or(Some(0))?))
}

impl Change {
    fn read(text: &str) -> Option<Self> {
        let (day, time) = text.split_once('/').map_or((text, None), |(day, time)| (day, Some(time)));
        let number = |text: &str| text.parse::<u16>().ok().map(i64::from);
        let day = if let Some(day) = day.strip_prefix('M') {
            let mut parts = day.split('.').map(number);
            let (month, week, weekday) = (parts.next()??, parts.next()??, parts.next()??);
            let is_day = (1..=12).contains(&month) && (1..=5).contains(&week) && weekday < 7;
            (is_day && parts.next().is_none()).then_some(Day::OfMonth { month, week, weekday })?
        } else if let Some(day) = day.strip_prefix('J') {
            Day::Julian(number(day).filter(|day| (1..=365).contains(day))?)
        } else {
            Day::OfYear(number(day).filter(|day| *day <= 365)?)
        };
        Some(Self { day, time: time.map_or(Some(7200), duration)? })
    }

    /// Returns the second of the clock on the wall at which the clocks are changed, as one of UTC.
    fn after_midnight(&self, year: i64) -> i64 {
        let first = first_day_of(year);
        let is_leap = first_day_of(year + 1) - first == 366;
        let day = match self.day {
            Day::Julian(day) => first + day - 1 + i64::from(is_leap && day > 59),
            Day::OfYear(day) => first + day,
            Day::OfMonth { month, week, weekday: wanted } => {
                let of_month = |month: i64| {
                    const BEFORE: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
                    first + BEFORE[month as usize - 1] + i64::from(is_leap && month > 2)
                };
                let begins = of_month(month);
                let day = begins + (wanted - i64::from(weekday(begins))).rem_euclid(7) + (week - 1) * 7;
                if day >= of_month(month + 1) { day - 7 } else { day }
            }
        };
        day * DAY + self.time
    }
}

/// Returns the number of days from 1970 to the beginning of a year.
fn first_day_of(year: i64) -> i64 {
    let before = year - 1;
    // There were 719,162 days from the year 1 to 1970.
    365 * before + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

/// Returns the year of a number of days since 1970.
fn year_of(day: i64) -> i64 {
    let about = 1970 + day.div_euclid(366);
    (about..).find(|year| first_day_of(year + 1) > day).unwrap_or(about)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rules_are_read() {
        let berlin = TimeZone::from_rule("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        // 29 March and 25 October 2026, 01:00 UTC.
        for (moment, hours) in
            [(1_774_745_999, 1), (1_774_746_000, 2), (1_792_889_999, 2), (1_792_890_000, 1)]
        {
            assert_eq!(berlin.offset(moment), hours * 3600, "{moment}");
        }
        // The south: summer at both ends of the year.
        let sydney = TimeZone::from_rule("AEST-10AEDT,M10.1.0,M4.1.0/3").unwrap();
        assert_eq!((sydney.offset(1_767_225_600), sydney.offset(1_782_864_000)), (11 * 3600, 10 * 3600));
        assert_eq!(TimeZone::from_rule("<+0545>-5:45").unwrap().offset(0), 5 * 3600 + 45 * 60);
        assert_eq!(TimeZone::from_rule("UTC0").unwrap().offset(0), 0);
        assert_eq!(TimeZone::from_rule("EST5EDT").unwrap().offset(1_782_864_000), -4 * 3600);
        for wrong in
            ["", "Mars", "CET", "CET-1CEST,M3.5.0", "CET-1CEST,M13.1.0,J1", "CET-1CEST,M3.5.0,J400", "X5"]
        {
            assert_eq!(TimeZone::from_rule(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn years_begin_when_they_do() {
        assert_eq!([1970, 1972, 2000, 2026].map(first_day_of), [0, 730, 10_957, 20_454]);
        for (day, year) in [(-1, 1969), (0, 1970), (364, 1970), (365, 1971), (20_453, 2025), (20_454, 2026)] {
            assert_eq!(year_of(day), year, "{day}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), moment in -(1i64 << 40)..1 << 40) {
            let head = |version: u8| [&b"TZif"[..], &[version], &[0; 15], &bytes].concat();
            for bytes in [bytes.clone(), head(0), head(2)] {
                TimeZone::from_file(&bytes).map(|zone| zone.offset(moment));
            }
            TimeZone::from_rule(&String::from_utf8_lossy(&bytes)).map(|zone| zone.offset(moment));
        }
    }
}
