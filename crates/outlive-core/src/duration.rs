//! Durations, sizes and the like, as people write and read them.

use std::time::Duration;

use crate::containment::Survivors;

/// Why a duration or size was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a duration.
    #[error("not a duration: write 500ms, 10s, 5m, 2h30m, 1d; a bare number is seconds")]
    Duration,
    /// Longer than any use, and than some clocks hold.
    #[error("more than a hundred years")]
    TooLong,
    /// Not a size.
    #[error("not a size: write 4096, 64K, 100M, 2G")]
    Size,
    /// Not enough memory for any program.
    #[error("no program runs in so little: give at least 1M")]
    Memory,
    /// Not a number of processors.
    #[error("not a number of processors: write 0.5, 1, 2.5")]
    Cpus,
    /// Not a choice for survivors.
    #[error("write keep, kill or kill-after=DURATION")]
    Survivors,
}

/// Reads `500ms`, `10s`, `5m`, `2h30m`, `1d`, `1.5s`; a bare number is seconds.
///
/// # Errors
///
/// If it is anything else, or does not fit.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    let text = text.trim();
    let mut rest = text;
    if rest.is_empty() {
        return Err(QuantityError::Duration);
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| QuantityError::Duration)?;
        let unit_end =
            rest[end..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |at| end + at);
        let scale = match &rest[end..unit_end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            // A bare number is all there is.
            "" if end == text.len() => 1.0,
            _ => return Err(QuantityError::Duration),
        };
        total += number * scale;
        rest = &rest[unit_end..];
    }
    // A hundred years is beyond any use, and far from any overflow in microseconds.
    if total > 100.0 * 366.0 * 86_400.0 {
        return Err(QuantityError::TooLong);
    }
    Duration::try_from_secs_f64(total).map_err(|_| QuantityError::Duration)
}

/// Reads `4096`, `64K`, `100M`, `2G`, with or without `B` or `iB`; all are powers of 1024.
///
/// # Errors
///
/// If it is anything else, or does not fit.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().map_err(|_| QuantityError::Size)?;
    let unit = text[end..].trim().to_ascii_lowercase();
    let scale: u64 = match unit.trim_end_matches("ib").trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(QuantityError::Size),
    };
    number.checked_mul(scale).ok_or(QuantityError::Size)
}

/// Reads a size that a program can be executed in.
///
/// # Errors
///
/// If it is not a size, or less than a megabyte, in which no program gets far.
pub fn parse_memory(text: &str) -> Result<u64, QuantityError> {
    parse_size(text)?.checked_sub(LEAST_MEMORY).map(|more| LEAST_MEMORY + more).ok_or(QuantityError::Memory)
}

/// The least memory that a job can be limited to.
const LEAST_MEMORY: u64 = 1 << 20;

/// Reads a number of processors, `0.5` or `2`, as thousandths of one.
///
/// # Errors
///
/// If it is anything else, less than a hundredth, or more than a million.
pub fn parse_cpus(text: &str) -> Result<u64, QuantityError> {
    let number: f64 = text.trim().parse().map_err(|_| QuantityError::Cpus)?;
    if (0.01..=1e6).contains(&number) {
        Ok((number * 1000.0).round() as u64)
    } else {
        Err(QuantityError::Cpus)
    }
}

/// Reads `keep`, `kill` or `kill-after=10s`.
///
/// # Errors
///
/// If it is anything else.
pub fn parse_survivors(text: &str) -> Result<Survivors, QuantityError> {
    match text.split_once('=') {
        None if text == "keep" => Ok(Survivors::Keep),
        None if text == "kill" => Ok(Survivors::KillAfter { ms: 0 }),
        Some(("kill-after", after)) => {
            let after = parse_duration(after)?;
            Ok(Survivors::KillAfter { ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) })
        }
        _ => Err(QuantityError::Survivors),
    }
}

/// Writes a duration in two units at most: `340ms`, `12s`, `3m 4s`, `2h 10m`, `5d 1h`.
pub fn format_duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis}ms"),
        1..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Writes a size: `0 B`, `512 B`, `1.5 KiB`, `100 MiB`.
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let digits = usize::from(unit != "B" && value < 10.0);
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_people_write() {
        for (text, millis) in [
            ("0", 0),
            ("10", 10_000),
            ("1.5", 1500),
            ("500ms", 500),
            ("10s", 10_000),
            ("1.5s", 1500),
            ("5m", 300_000),
            ("2h30m", 9_000_000),
            ("1d", 86_400_000),
            (" 7s ", 7000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1", "1x", "10s5", "1e9", "1..2s", "ten", "5 m"] {
            assert_eq!(parse_duration(text), Err(QuantityError::Duration), "{text}");
        }
        for text in ["999999999d", "36601d", &"9".repeat(400)] {
            assert_eq!(parse_duration(text), Err(QuantityError::TooLong), "{text}");
        }
    }

    #[test]
    fn sizes_people_write() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64K", 65_536), ("100MiB", 100 << 20), ("2gb", 2 << 30)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1.5M", "99999999999T", "5X"] {
            assert_eq!(parse_size(text), Err(QuantityError::Size), "{text}");
        }
    }

    #[test]
    fn processors_and_survivors() {
        assert_eq!(parse_cpus("0.5"), Ok(500));
        assert_eq!(parse_cpus("2"), Ok(2000));
        for text in ["", "0", "-1", "nan", "inf", "half", "1e9"] {
            assert_eq!(parse_cpus(text), Err(QuantityError::Cpus), "{text}");
        }
        assert_eq!(parse_survivors("keep"), Ok(Survivors::Keep));
        assert_eq!(parse_survivors("kill"), Ok(Survivors::KillAfter { ms: 0 }));
        assert_eq!(parse_survivors("kill-after=2s"), Ok(Survivors::KillAfter { ms: 2000 }));
        assert_eq!(parse_survivors("kill-after=soon"), Err(QuantityError::Duration));
        assert_eq!(parse_survivors("die"), Err(QuantityError::Survivors));
    }

    #[test]
    fn quantities_are_short_to_read() {
        assert_eq!(format_duration(999), "999ms");
        assert_eq!(format_duration(61_000), "1m 1s");
        assert_eq!(format_duration(90_061_000), "1d 1h");
        assert_eq!(format_size(0), "0 B");
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(100 << 20), "100 MiB");
    }
}
