//! Points in time as people write and read them: by the clock on their wall. Scripts get RFC 3339, in UTC.

use outlive::Timestamp;
use outlive::duration::{QuantityError, parse_duration};
use outlive_sys::local_time::LocalTime;

const SECOND: u64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;

/// Writes `2026-11-15 06:21:09`.
pub(crate) fn shown(time: Timestamp) -> String {
    let local = i64::try_from(time.0 / SECOND).ok().and_then(LocalTime::at);
    local.map_or_else(|| time.to_string(), |local| local.to_string())
}

/// Writes `2026-11-15 06:21:09.123`.
pub(crate) fn shown_exactly(time: Timestamp) -> String {
    format!("{}.{:03}", shown(time), time.0 / 1000 % 1000)
}

/// Writes a time that stands in an object for scripts.
pub(crate) fn of_object(text: &str) -> String {
    Timestamp::parse(text).map_or_else(|_| text.to_owned(), shown)
}

/// Reads a point in time: `18:22` (the last one), `yesterday 9am`, `2026-11-15 06:21`, RFC 3339, or how long ago (`5m`).
pub(crate) fn parse(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim().to_ascii_lowercase();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "{text} of what? Write {text}s or {text}m for how long ago, or a time such as 18:22; -n {text} is for lines"
        ));
    }
    match parse_duration(text.strip_suffix("ago").unwrap_or(&text)) {
        Ok(ago) => {
            let ago = u64::try_from(ago.as_micros()).unwrap_or(u64::MAX);
            return Ok(Timestamp(now.0.saturating_sub(ago)));
        }
        Err(error @ QuantityError::TooLong) => return Err(error.to_string()),
        Err(_) => {}
    }
    let local = local(&text, now).or_else(|| Timestamp::parse(&text).ok());
    local.ok_or_else(|| {
        "not a time: write 18:22, 'yesterday 9am', '2026-11-15 06:21' or how long ago, such as 5m".to_owned()
    })
}

/// Reads a local day, a local time of day, or both.
fn local(text: &str, now: Timestamp) -> Option<Timestamp> {
    let now_seconds = i64::try_from(now.0 / SECOND).ok()?;
    let today = LocalTime::at(now_seconds)?.midnight();
    // From the middle of that day: no change of the clock is as long as half a day.
    let yesterday = LocalTime::at(today.seconds()? - DAY_SECONDS / 2)?.midnight();
    let date = || text.get(..10).and_then(date_of).map(|day| (day, &text[10..]));
    let after = |word, day| text.strip_prefix(word).map(|rest| (day, rest));
    let found = after("today", today).or_else(|| after("yesterday", yesterday)).or_else(date);
    let at = |day: LocalTime, [hour, minute, second, micros]: [u32; 4]| {
        let seconds = u64::try_from(LocalTime { hour, minute, second, ..day }.seconds()?).ok()?;
        Some(Timestamp(seconds.checked_mul(SECOND)? + u64::from(micros)))
    };
    match found.map(|(day, rest)| (day, rest.trim_start_matches([' ', 't']))) {
        _ if text == "now" => Some(now),
        Some((day, "")) => at(day, [0; 4]),
        Some((day, rest)) => at(day, time_of_day(rest)?),
        None => {
            let time = time_of_day(text)?;
            at(today, time).filter(|&time| time <= now).or_else(|| at(yesterday, time))
        }
    }
}

/// Reads `2026-11-15`.
fn date_of(text: &str) -> Option<LocalTime> {
    let mut parts = text.split('-');
    let mut number = |digits| parts.next().filter(|part| part.len() == digits)?.parse::<u32>().ok();
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let date = LocalTime { year: i32::try_from(year).ok()?, month, day, hour: 0, minute: 0, second: 0 };
    parts.next().is_none().then_some(date)
}

/// Reads `18:22`, `18:22:09.5`, `9am`, `9:30pm`, `noon` or `midnight`: hour, minute, second and microsecond.
fn time_of_day(text: &str) -> Option<[u32; 4]> {
    match text {
        "noon" => return Some([12, 0, 0, 0]),
        "midnight" => return Some([0; 4]),
        _ => {}
    }
    let half = ["am", "pm"].into_iter().position(|half| text.ends_with(half));
    let clock = if half.is_some() { text[..text.len() - 2].trim_end() } else { text };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let micros = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let mut parts = clock.split(':').map(|part| part.parse::<u32>().ok().filter(|_| part.len() <= 2));
    let hour = parts.next()??;
    // An hour alone says nothing without its half of the day.
    let minute = if half.is_some() { parts.next().unwrap_or(Some(0))? } else { parts.next()?? };
    let second = parts.next().unwrap_or(Some(0))?;
    let hour = match half {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(half) => hour % 12 + 12 * u32::try_from(half).ok()?,
    };
    (hour < 24 && minute < 60 && second < 60 && parts.next().is_none())
        .then_some([hour, minute, second, micros])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_people_write() {
        // Noon of some day, wherever the test runs.
        let noon = LocalTime { year: 2026, month: 11, day: 15, hour: 12, minute: 0, second: 0 };
        let now = Timestamp(u64::try_from(noon.seconds().unwrap()).unwrap() * SECOND);
        for (text, expected) in [
            ("9:05", "2026-11-15 09:05:00"),
            ("18:22", "2026-11-14 18:22:00"),
            ("yesterday 9am", "2026-11-14 09:00:00"),
            ("Yesterday 9:30 PM", "2026-11-14 21:30:00"),
            ("yesterday", "2026-11-14 00:00:00"),
            ("today", "2026-11-15 00:00:00"),
            ("today 07:00:30", "2026-11-15 07:00:30"),
            ("midnight", "2026-11-15 00:00:00"),
            ("12am", "2026-11-15 00:00:00"),
            ("noon", "2026-11-15 12:00:00"),
            ("2026-11-13", "2026-11-13 00:00:00"),
            ("2026-11-13 6:21", "2026-11-13 06:21:00"),
            ("2026-11-13T06:21:09", "2026-11-13 06:21:09"),
            ("2h ago", "2026-11-15 10:00:00"),
            ("30m", "2026-11-15 11:30:00"),
            ("now", "2026-11-15 12:00:00"),
        ] {
            assert_eq!(parse(text, now).map(shown).as_deref(), Ok(expected), "{text}");
        }
        let exact = parse("2026-11-13 06:21:09.123", now).unwrap();
        assert_eq!(parse(&shown_exactly(exact), now), Ok(exact), "what is shown is understood");
        assert_eq!(parse("2024-02-29T12:00:00Z", now), Ok(Timestamp(1_709_208_000_000_000)));
        for text in [
            "",
            "9",
            "tomorrow",
            "25:00",
            "13pm",
            "0am",
            "9:60",
            "2026-02-30",
            "2026-11-13 9",
            "t",
            "today x",
        ] {
            assert!(parse(text, now).is_err(), "{text}");
        }
        assert!(parse("20", now).unwrap_err().contains("-n 20"));
    }
}
