//! Time as the clocks on the wall show it where the user is: `TZ`, else `/etc/localtime`.

use std::mem::MaybeUninit;

/// A second of the local calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime {
    /// As written: 2026.
    pub year: i32,
    /// From 1.
    pub month: u32,
    /// From 1.
    pub day: u32,
    /// From 0 to 23.
    pub hour: u32,
    /// From 0 to 59.
    pub minute: u32,
    /// From 0 to 60.
    pub second: u32,
}

/// Writes `2026-11-15 06:21:09`.
impl std::fmt::Display for LocalTime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, hour, minute, second } = self;
        write!(formatter, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }
}

impl LocalTime {
    /// Returns the local time of a number of seconds since 1970 UTC; none beyond what the calendar holds.
    pub fn at(seconds: i64) -> Option<Self> {
        let mut fields = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: both point to values of ours that live for the call; `localtime_r` keeps neither. No other code of the program
        // changes the environment, which it reads.
        let is_known = unsafe { !libc::localtime_r(&seconds, fields.as_mut_ptr()).is_null() };
        // SAFETY: it was filled, and zeroed before: a `tm` of zeros is one.
        let fields = is_known.then(|| unsafe { fields.assume_init() })?;
        let number = |field: i32| u32::try_from(field).ok();
        Some(Self {
            year: fields.tm_year.checked_add(1900)?,
            month: number(fields.tm_mon)? + 1,
            day: number(fields.tm_mday)?,
            hour: number(fields.tm_hour)?,
            minute: number(fields.tm_min)?,
            second: number(fields.tm_sec)?,
        })
    }

    /// Returns the seconds since 1970 UTC of this local time. One that the clock skips is moved by as much; of one that comes
    /// twice, either may be meant. None where there is no such day.
    pub fn seconds(&self) -> Option<i64> {
        let number = |field: u32| i32::try_from(field).ok();
        // SAFETY: a `tm` holds numbers and a pointer that may be null: zeros are a value.
        let mut fields = unsafe { MaybeUninit::<libc::tm>::zeroed().assume_init() };
        fields.tm_year = self.year.checked_sub(1900)?;
        fields.tm_mon = number(self.month)?.checked_sub(1)?;
        fields.tm_mday = number(self.day)?;
        fields.tm_hour = number(self.hour)?;
        fields.tm_min = number(self.minute)?;
        fields.tm_sec = number(self.second)?;
        // Whether summer time holds then is for the calendar to say.
        fields.tm_isdst = -1;
        // SAFETY: it points to a value of ours that lives for the call, and is not kept.
        let seconds = unsafe { libc::mktime(&mut fields) };
        // It turns 30 February into a day of March.
        let is_that_day = fields.tm_mday == number(self.day)? && fields.tm_mon + 1 == number(self.month)?;
        (seconds != -1 && is_that_day).then_some(seconds)
    }

    /// Returns how many seconds local time is ahead of UTC at a moment in seconds since 1970; 0 beyond what the calendar holds.
    pub fn offset(seconds: i64) -> i64 {
        let mut fields = MaybeUninit::<libc::tm>::zeroed();
        // SAFETY: as in `at`.
        let is_known = unsafe { !libc::localtime_r(&seconds, fields.as_mut_ptr()).is_null() };
        // SAFETY: as in `at`.
        if is_known { unsafe { fields.assume_init() }.tm_gmtoff } else { 0 }
    }

    /// Returns midnight at the beginning of its day.
    pub fn midnight(self) -> Self {
        Self { hour: 0, minute: 0, second: 0, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back() {
        for seconds in [1_700_000_000, 1_709_164_800, 1_763_276_400] {
            let local = LocalTime::at(seconds).expect("a moment of this century");
            assert_eq!(local.seconds(), Some(seconds), "{local:?}");
        }
    }

    #[test]
    fn a_day_that_is_not_there_is_none() {
        let day = |month, day| LocalTime { year: 2026, month, day, hour: 12, minute: 0, second: 0 };
        assert!(day(2, 28).seconds().is_some());
        assert_eq!(day(2, 30).seconds(), None);
        assert_eq!(day(13, 1).seconds(), None);
        assert_eq!(day(0, 1).seconds(), None);
    }
}
