//! The calendar and the clock on the wall, for a time zone that only has to say how far it is ahead of UTC.

const MINUTE: i64 = 60;
pub(super) const DAY: i64 = 86_400;

/// A time zone.
pub trait Zone {
    /// Returns how many seconds the clocks on the wall are ahead of UTC at a moment, in seconds since 1970 UTC.
    fn offset(&self, seconds: i64) -> i64;
}

/// A minute that the clocks on the wall show, as seconds that would be its moment in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shown(pub(super) i64);

impl Shown {
    /// Returns what the clocks show at a moment.
    pub(super) fn at(seconds: i64, zone: &dyn Zone) -> Self {
        Self(seconds + zone.offset(seconds))
    }

    /// Returns the first moment at which the clocks show it. Where they are put forward over it, it is the moment at which they would have shown it.
    pub(super) fn moment(self, zone: &dyn Zone) -> i64 {
        // No clock is changed twice within two days.
        let (before, after) = (zone.offset(self.0 - DAY), zone.offset(self.0 + DAY));
        let candidates = [self.0 - before.max(after), self.0 - before.min(after)];
        let is_shown = |moment: &i64| Self::at(*moment, zone) == self;
        candidates.into_iter().find(is_shown).unwrap_or(self.0 - before)
    }

    /// Returns the days since 1970.
    pub(super) fn day(self) -> i64 {
        self.0.div_euclid(DAY)
    }

    /// Returns the minutes since midnight.
    pub(super) fn minute(self) -> i64 {
        self.0.rem_euclid(DAY) / MINUTE
    }

    pub(super) fn of(day: i64, minute: i64) -> Self {
        Self(day * DAY + minute * MINUTE)
    }
}

/// Returns month and day of the month, both from 1, of a number of days since 1970.
pub(super) fn month_and_day(day: i64) -> (u32, u32) {
    // Days are counted from 1 March of the year 0, so that the leap day comes last.
    let day_of_era = (day + 719_468).rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (month as u32, day as u32)
}

/// Returns the day of the week, 0 for Sunday.
pub(super) fn weekday(day: i64) -> u32 {
    // 1 January 1970 was a Thursday.
    (day + 4).rem_euclid(7) as u32
}

pub(super) fn seconds(us: i64) -> i64 {
    us.div_euclid(1_000_000)
}

pub(super) fn micros(seconds: i64) -> Option<i64> {
    seconds.checked_mul(1_000_000)
}

/// Returns the first moment after another at which the clocks show this minute of the day: of every day, or of each `days`th, counted from
/// the day of `after`.
pub(super) fn time_of_day_after(after_us: i64, minute: u16, days: u64, zone: &dyn Zone) -> Option<i64> {
    let after = seconds(after_us);
    let today = Shown::at(after, zone).day();
    let days = i64::try_from(days).ok()?.max(1);
    // On the day itself only where every day counts: else the day of `after` is one of the times.
    let first = if days == 1 { today } else { today.checked_add(days)? };
    let moments = (0..3).map(|more| Shown::of(first + more * days, minute.into()).moment(zone));
    moments.filter(|moment| *moment > after).find_map(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_names() {
        assert_eq!((month_and_day(0), weekday(0)), ((1, 1), 4));
        assert_eq!(month_and_day(59), (3, 1));
        // 29 February 2024, a Thursday.
        assert_eq!((month_and_day(19_782), weekday(19_782)), ((2, 29), 4));
        // 16 November 2026, a Monday.
        assert_eq!((month_and_day(20_773), weekday(20_773)), ((11, 16), 1));
    }
}
