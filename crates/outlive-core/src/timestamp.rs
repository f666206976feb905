//! Points in time: microseconds since 1970 UTC on disk, RFC 3339 with milliseconds for scripts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Reads RFC 3339: `2026-11-15T06:21:09Z`, with or without a fraction, with `Z` or an offset; a blank may stand for
    /// the `T`, and a date alone is its beginning.
    ///
    /// # Errors
    ///
    /// If it is anything else, or before 1970.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        parse(text.trim()).ok_or(TimestampError)
    }

    /// Returns year, month, day, hour, minute, second and millisecond in UTC.
    pub fn civil(self) -> [u64; 7] {
        let (seconds, millis) = (self.0 / 1_000_000, self.0 / 1000 % 1000);
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        // Days are counted from 1 March of the year 0, so that the leap day comes last.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        [year, month, day, rest / 3600, rest / 60 % 60, rest % 60, millis]
    }
}

/// The text is not a point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a time: write 2026-11-15T06:21:09Z, or how long ago, such as 5m")]
pub struct TimestampError;

fn parse(text: &str) -> Option<Timestamp> {
    let number = |part: &str, digits: usize| -> Option<i64> {
        (part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let date = text.get(..10)?;
    let (year, month, day) =
        (number(date.get(..4)?, 4)?, number(date.get(5..7)?, 2)?, number(date.get(8..10)?, 2)?);
    if date.as_bytes()[4] != b'-'
        || date.as_bytes()[7] != b'-'
        || !(1..=12).contains(&month)
        || !(1..=days_of(year, month)).contains(&day)
    {
        return None;
    }
    // Days since 1 March of the year 0, as in `civil`.
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let days = 365 * shifted_year + shifted_year.div_euclid(4) - shifted_year.div_euclid(100)
        + shifted_year.div_euclid(400)
        + (153 * month_from_march + 2) / 5
        + day
        - 1
        - 719_468;
    let rest = &text[10..];
    let micros = if rest.is_empty() { 0 } else { parse_time(rest.strip_prefix(['T', 't', ' '])?)? };
    u64::try_from(days * 86_400_000_000 + micros).ok().map(Timestamp)
}

/// Returns how many days a month has.
fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads the time of day with its offset; microseconds, which may be negative.
fn parse_time(text: &str) -> Option<i64> {
    let zone = text.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = text.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.split(':').map(|part| part.parse::<i64>().ok().filter(|_| part.len() == 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 60 || fraction.is_empty() {
        return None;
    }
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, offset) => {
            let (hours, minutes) = offset.split_once(':')?;
            let minutes = i64::from(hours.parse::<u8>().ok()?) * 60 + i64::from(minutes.parse::<u8>().ok()?);
            if sign == "-" { -minutes } else { minutes }
        }
    };
    let seconds = hour * 3600 + minute * 60 + second - offset * 60;
    Some(seconds * 1_000_000 + fraction.parse::<i64>().ok()?)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour, minute, second, millis] = self.civil();
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789_000, "2000-02-29T12:34:56.789Z"),
            (1_709_164_800_000_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_999_999, "2024-12-31T23:59:59.999Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
            assert_eq!(Timestamp::parse(text), Ok(Timestamp(micros / 1000 * 1000)));
        }
    }

    #[test]
    fn times_people_write() {
        let noon = Timestamp(1_709_208_000_000_000);
        for text in [
            "2024-02-29T12:00:00Z",
            "2024-02-29 12:00:00.000Z",
            "2024-02-29T14:30:00+02:30",
            "2024-02-29t07:00:00-05:00",
        ] {
            assert_eq!(Timestamp::parse(text), Ok(noon), "{text}");
        }
        assert_eq!(Timestamp::parse("2024-02-29"), Ok(Timestamp(1_709_164_800_000_000)));
        for text in [
            "",
            "now",
            "12:00",
            "2024-13-01",
            "2024-02-29T12:00Z",
            "2024-02-29T12:00:00",
            "1960-01-01",
            "2024-02-29T25:00:00Z",
            "2024/02/29",
            "é024-02-29",
            "€€€a",
            "2024-02-30",
            "2023-02-29",
            "2100-02-29",
            "2024-02-31",
            "2024-04-31T12:00:00Z",
            "2024-02-29T12:00:00+999999999999999999:00",
            "2024-02-29T12:00:00-00:9223372036854775807",
        ] {
            assert_eq!(Timestamp::parse(text), Err(TimestampError), "{text}");
        }
    }
}
