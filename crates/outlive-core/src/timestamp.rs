//! Points in time: microseconds since 1970 UTC on disk, RFC 3339 with milliseconds for scripts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the milliseconds from `earlier` to this; 0 if it is not earlier.
    pub fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
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
        }
    }
}
