//! Schedules: at which times a job is run, and what becomes of times that came while it could not be.
//!
//! Pure: the times are numbers, and the time zone is asked for through [`Zone`]. A keeper uses nothing of this but [`Planned`], which
//! says until when it sleeps; all that knows calendars is done by the program that makes the next run.

mod civil;
mod cron;
mod plan;
#[cfg(test)]
mod weeks;
mod zone;

pub use civil::Zone;
pub use cron::{Cron, CronError};
pub use plan::{Now, Planned, Ran, Told};
pub use zone::TimeZone;

use crate::duration::format_duration;
use crate::options::Schedule;
use crate::outcome::{Cause, Outcome};

words! {
    /// What becomes of runs whose time came while the machine slept or was off.
    #[derive(Default)]
    pub enum Missed {
        /// One run makes up for all of them.
        #[default]
        Once = "once",
        /// Nothing: the next one comes at its time.
        Skip = "skip",
        /// Each of them is run, one after the other.
        All = "all",
    }
}

words! {
    /// What becomes of a run whose time comes while the one before it still runs.
    #[derive(Default)]
    pub enum Overlap {
        /// It is left out.
        #[default]
        Skip = "skip",
        /// It comes right after the end of the one before.
        Queue = "queue",
        /// The one before is ended for it.
        Kill = "kill",
    }
}

/// Minutes of a day: the most that a time of day can be.
pub const DAY_MINUTES: u16 = 24 * 60;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

impl Schedule {
    /// Tells whether there is a schedule.
    pub fn is_set(&self) -> bool {
        self.cron.is_some() || self.every_ms.is_some() || self.at.is_some()
    }

    /// Says when it is run, for people; `None` if there is no schedule.
    pub fn words(&self) -> Option<String> {
        let at = self.at.map(|minute| format!("{:02}:{:02}", minute / 60, minute % 60));
        match (&self.cron, self.every_ms, at) {
            (Some(line), ..) => Some(line.clone()),
            (None, Some(every_ms), Some(at)) => {
                Some(format!("every {} from {at}", format_duration(every_ms)))
            }
            (None, Some(every_ms), None) => Some(format!("every {}", format_duration(every_ms))),
            (None, None, Some(at)) => Some(format!("every day at {at}")),
            (None, None, None) => None,
        }
    }

    /// Tells what makes no sense together; `None` if all is well.
    pub fn contradiction(&self) -> Option<&'static str> {
        let has_policy = self.missed != Missed::default() || self.overlap != Overlap::default();
        match (self.cron.is_some(), self.every_ms.is_some() || self.at.is_some()) {
            (true, true) => Some("a cron line says its times itself: leave out --every and --at"),
            (false, false) if has_policy => {
                Some("there is no schedule: write --schedule CRON, --every DURATION or --at HH:MM")
            }
            _ => None,
        }
    }

    /// Tells whether another run follows one that ended so. One that was stopped is the last, and so is one that waited for another
    /// job in vain.
    pub fn is_wanted_after(&self, outcome: &Outcome) -> bool {
        self.is_set()
            && match &outcome.cause {
                Cause::Kill { .. } | Cause::Newer(_) => false,
                Cause::NeverStarted(never) => never.step != "after",
                Cause::Natural | Cause::Timeout | Cause::Overlap | Cause::Oom | Cause::Lost { .. } => true,
            }
    }

    /// Returns the times of the schedule.
    ///
    /// # Errors
    ///
    /// If the cron line makes no sense: a newer version wrote it.
    pub fn times(&self) -> Result<Option<Times>, CronError> {
        if let Some(line) = &self.cron {
            return line.parse().map(|cron| Some(Times::Cron(Box::new(cron))));
        }
        Ok(match (self.every_ms, self.at) {
            (None, None) => None,
            (None, Some(minute)) => Some(Times::Days { days: 1, minute }),
            // With a time of day, whole days hold that time, however long a day is.
            (Some(every_ms), Some(minute)) if every_ms % DAY_MS == 0 => {
                Some(Times::Days { days: every_ms / DAY_MS, minute })
            }
            (Some(every_ms), first) => {
                let every_us = i64::try_from(every_ms).ok().and_then(|every_ms| every_ms.checked_mul(1000));
                Some(Times::Every { every_us: every_us.unwrap_or(i64::MAX).max(1), first })
            }
        })
    }
}

/// The times of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Times {
    /// Those of a cron line, by the clock on the wall.
    Cron(Box<Cron>),
    /// A time of day, every so many days, by the clock on the wall.
    Days {
        /// Every how many days.
        days: u64,
        /// Minutes since midnight.
        minute: u16,
    },
    /// Always so long after the one before, whatever the clock on the wall shows.
    Every {
        /// How long; more than 0.
        every_us: i64,
        /// The time of day of the first one, in minutes since midnight; none: at once.
        first: Option<u16>,
    },
}

impl Times {
    /// Tells whether the times are those of the boot clock.
    pub fn is_interval(&self) -> bool {
        matches!(self, Self::Every { .. })
    }

    /// Returns the first time at all, by the wall clock.
    pub fn first(&self, now_us: i64, zone: &dyn Zone) -> Option<i64> {
        match self {
            Self::Cron(cron) => cron.after(now_us, zone),
            Self::Days { minute, .. } => civil::time_of_day_after(now_us, *minute, 1, zone),
            Self::Every { first: None, .. } => Some(now_us),
            Self::Every { first: Some(minute), .. } => civil::time_of_day_after(now_us, *minute, 1, zone),
        }
    }

    /// Returns the first time after a moment, where `base` was one of the times. Both are of the wall clock, or of the boot clock for an
    /// interval, where what was before the machine was started is below 0.
    pub fn after(&self, base_us: i64, moment_us: i64, zone: &dyn Zone) -> Option<i64> {
        self.all_after(base_us, moment_us, zone).next()
    }

    /// Lists the times after a moment, where `base` was one of the times.
    pub fn all_after<'a>(
        &'a self,
        base_us: i64,
        moment_us: i64,
        zone: &'a dyn Zone,
    ) -> Box<dyn Iterator<Item = i64> + 'a> {
        match self {
            Self::Cron(cron) => cron.all_after(moment_us.max(base_us), zone),
            Self::Days { days, minute } => {
                let next = |time: &i64| civil::time_of_day_after(*time, *minute, *days, zone);
                let times = std::iter::successors(next(&base_us), next);
                Box::new(times.skip_while(move |time| *time <= moment_us))
            }
            Self::Every { every_us, .. } => {
                let passed = moment_us.saturating_sub(base_us).max(0) / every_us;
                let first = (passed + 1).checked_mul(*every_us).and_then(|more| base_us.checked_add(more));
                Box::new(std::iter::successors(first, |time| time.checked_add(*every_us)))
            }
        }
    }
}
