//! When the next run comes, and what is told of times that passed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Missed, Overlap, Times, Zone};
use crate::options::Schedule;

/// A run that begins so much after its time was missed: a busy machine delays it by less.
const LATE_US: i64 = 60_000_000;

/// How far a clock may be set back without a run being repeated: as far as a change of the clocks, or a correction.
const SET_BACK_US: i64 = 3 * 3_600_000_000;

/// The most runs that are made up for one after the other; of older ones only is told.
const MOST_MADE_UP: u64 = 100;

/// The most times of a calendar that are counted one by one: two years of minutes, in less than a second.
const MOST_COUNTED: usize = 1_000_000;

/// A moment, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, in microseconds since 1970 UTC.
    pub wall_us: i64,
    /// The boot clock, which goes on while the machine sleeps and is never set.
    pub boot_us: i64,
}

impl Now {
    /// Takes what both clocks show.
    pub fn new(wall_us: u64, boot_us: u64) -> Self {
        let signed = |us| i64::try_from(us).unwrap_or(i64::MAX / 4);
        Self { wall_us: signed(wall_us), boot_us: signed(boot_us) }
    }
}

/// When a run comes. All times but `wall_us` are of one clock; those of the boot clock are below 0 where the machine was off then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Planned {
    /// The clock is the boot clock, because an interval holds its length; else that on the wall.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_boot_clock: bool,
    /// The time after which it is the next one.
    pub base_us: i64,
    /// When it is to begin.
    pub due_us: i64,
    /// From when on it counts as missed; none: it begins however late it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_us: Option<i64>,
    /// When the run after it is to begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_us: Option<i64>,
    /// When it is to begin, by the wall clock as it was when this was written.
    pub wall_us: i64,
}

/// A run that is over.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    /// What was planned for it.
    pub planned: &'a Planned,
    /// When its command was executed; none: it was not.
    pub began: Option<Now>,
}

/// What is told of times that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// They passed while the run before them was there; else while none could be made.
    pub is_overlap: bool,
    /// How many.
    pub count: u64,
    /// How many of them are run now or one after the other.
    pub made_up: u64,
    /// The first of them, by the wall clock.
    pub since_us: i64,
}

impl Told {
    /// Says it for people; `since` is the time of the first of them as they read it.
    pub fn sentence(&self, since: &str) -> String {
        let (runs, were) = if self.count == 1 { ("run", "was") } else { ("runs", "were") };
        let count = self.count;
        let what = match self.is_overlap {
            true => format!("{count} {runs} came while it still ran, since {since}"),
            false => format!("{count} {runs} {were} missed, since {since}"),
        };
        let now = match (self.made_up, self.count) {
            (0, _) => "left out".to_owned(),
            (1, 1) => "made up for now".to_owned(),
            (1, _) => "one is run now".to_owned(),
            (made_up, count) if made_up == count => "all are run now".to_owned(),
            (made_up, _) => format!("the last {made_up} are run now"),
        };
        format!("{what}: {now}")
    }
}

/// What a plan is made from.
#[derive(Clone, Copy)]
struct Maker<'a> {
    times: &'a Times,
    zone: &'a dyn Zone,
    now: Now,
}

impl Maker<'_> {
    /// The moment by the clock of the schedule.
    fn now_us(&self) -> i64 {
        if self.times.is_interval() { self.now.boot_us } else { self.now.wall_us }
    }

    /// Returns a time by the wall clock as it is now.
    fn wall_us(&self, time_us: i64) -> i64 {
        match self.times.is_interval() {
            true => time_us.saturating_add(self.now.wall_us - self.now.boot_us),
            false => time_us,
        }
    }

    fn after(&self, base_us: i64, moment_us: i64) -> Option<i64> {
        self.times.after(base_us, moment_us, self.zone)
    }

    fn plan(&self, base_us: i64, due_us: i64) -> Planned {
        let until_us = self.after(due_us, due_us);
        let late_us = due_us.saturating_add(LATE_US);
        Planned {
            by_boot_clock: self.times.is_interval(),
            base_us,
            due_us,
            late_us: Some(until_us.map_or(late_us, |until| until.min(late_us))),
            until_us,
            wall_us: self.wall_us(due_us),
        }
    }

    /// Plans a run for a time that has passed: it begins at once, and nothing is asked again.
    fn plan_at_once(&self, base_us: i64, due_us: i64) -> Planned {
        let until_us = self.after(due_us, self.now_us());
        Planned { late_us: None, until_us, ..self.plan(base_us, due_us) }
    }

    /// Counts the times after `base_us`, from `from_us` up to `to_us`; returns the first and the last of them as well, and which one is `most` from the end.
    fn count(&self, base_us: i64, from_us: i64, to_us: i64, most: u64) -> Option<Counted> {
        let before_us = base_us.max(from_us.saturating_sub(1));
        if let Times::Every { every_us, .. } = self.times {
            let first = self.after(base_us, before_us).filter(|first| *first <= to_us)?;
            let more = to_us.saturating_sub(first) / every_us;
            let last = first + more * every_us;
            let recent = more.min(i64::try_from(most).unwrap_or(i64::MAX) - 1);
            let count = more.cast_unsigned() + 1;
            return Some(Counted { count, first, last, recent: last - recent * every_us });
        }
        let mut recent = VecDeque::new();
        let mut first_and_count: Option<(i64, u64)> = None;
        let times = self.times.all_after(base_us, before_us, self.zone);
        for time_us in times.take_while(|time_us| *time_us <= to_us).take(MOST_COUNTED) {
            let (first, count) = first_and_count.unwrap_or((time_us, 0));
            first_and_count = Some((first, count + 1));
            recent.push_back(time_us);
            if recent.len() as u64 > most {
                recent.pop_front();
            }
        }
        let (first, count) = first_and_count?;
        Some(Counted { count, first, last: *recent.back()?, recent: *recent.front()? })
    }
}

#[derive(Clone, Copy)]
struct Counted {
    count: u64,
    first: i64,
    last: i64,
    /// The first of the last ones that may be made up for.
    recent: i64,
}

impl Planned {
    /// Reads the file `planned`; `None` if it is damaged.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Returns the contents of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a plan has only string keys and numbers");
        bytes.push(b'\n');
        bytes
    }

    /// Plans the first run; `None` if there is no time any more.
    pub fn first(times: &Times, now: Now, zone: &dyn Zone) -> Option<Self> {
        let maker = Maker { times, zone, now };
        let wall_us = times.first(now.wall_us, zone)?;
        let due_us = match times.is_interval() {
            true => now.boot_us + (wall_us - now.wall_us).max(0),
            false => wall_us,
        };
        Some(maker.plan(maker.now_us(), due_us))
    }

    /// Plans the run that follows another; `None` if there is no time any more.
    pub fn next(
        schedule: &Schedule,
        times: &Times,
        ran: Ran<'_>,
        now: Now,
        zone: &dyn Zone,
    ) -> Option<(Self, Option<Told>)> {
        let maker = Maker { times, zone, now };
        let (base_us, now_us) = (ran.planned.due_us, maker.now_us());
        let began_us = ran.began.map(|began| if times.is_interval() { began.boot_us } else { began.wall_us });
        // What came before it began was told when it began.
        let began_us = began_us.unwrap_or(now_us).max(base_us);
        if ran.planned.is_set_back(now_us) {
            return Some((maker.plan(now_us, maker.after(now_us, now_us)?), None));
        }
        if schedule.missed == Missed::All
            && let Some(passed) = maker.count(base_us, base_us, began_us, MOST_MADE_UP)
        {
            return Some((maker.plan_at_once(base_us, passed.recent), None));
        }
        let Some(passed) = maker.count(base_us, began_us, now_us, 1) else {
            return Some((maker.plan(base_us, maker.after(base_us, now_us)?), None));
        };
        let told = |made_up| Told {
            is_overlap: true,
            count: passed.count,
            made_up,
            since_us: maker.wall_us(passed.first),
        };
        Some(match schedule.overlap {
            Overlap::Skip => (maker.plan(passed.last, maker.after(passed.last, now_us)?), Some(told(0))),
            Overlap::Queue | Overlap::Kill => (maker.plan_at_once(base_us, passed.last), Some(told(1))),
        })
    }

    /// Plans the time after this one, whether or not it has passed; `None` if there is none.
    pub fn following(&self, times: &Times, now: Now, zone: &dyn Zone) -> Option<Self> {
        let maker = Maker { times, zone, now };
        Some(maker.plan(self.due_us, maker.after(self.due_us, self.due_us)?))
    }

    /// Looks again at what is planned, because its time is over or the clock was set. The result is the same if all is as it was.
    pub fn again(
        &self,
        schedule: &Schedule,
        times: &Times,
        now: Now,
        zone: &dyn Zone,
    ) -> Option<(Self, Option<Told>)> {
        let maker = Maker { times, zone, now };
        let now_us = maker.now_us();
        if self.late_us.is_none_or(|late| now_us < late) {
            // What a clock showed that was set far back does not count.
            let base_us = if self.is_set_back(now_us) { now_us } else { self.base_us };
            let due_us = maker.after(base_us, base_us.max(now_us))?;
            let is_same = self.late_us.is_none() || now_us >= self.due_us || due_us == self.due_us;
            return Some((if is_same { self.clone() } else { maker.plan(base_us, due_us) }, None));
        }
        let since = maker.count(self.due_us, self.due_us, now_us, 1);
        let count = 1 + since.map_or(0, |passed| passed.count);
        let told = |made_up| Told { is_overlap: false, count, made_up, since_us: maker.wall_us(self.due_us) };
        Some(match schedule.missed {
            Missed::Skip => (maker.plan(self.due_us, maker.after(self.due_us, now_us)?), Some(told(0))),
            Missed::Once => {
                let due_us = since.map_or(self.due_us, |passed| passed.last);
                (maker.plan_at_once(self.base_us, due_us), Some(told(1)))
            }
            Missed::All => {
                (maker.plan_at_once(self.base_us, self.due_us), Some(told(count.min(MOST_MADE_UP + 1))))
            }
        })
    }

    /// Tells whether the clock was set so far back that it begins anew.
    fn is_set_back(&self, now_us: i64) -> bool {
        self.base_us > now_us.saturating_add(SET_BACK_US)
    }

    /// Plans anew what was planned before the machine was restarted, and was not begun: the boot clock has begun at 0.
    pub fn after_boot(&self, now: Now) -> Self {
        if !self.by_boot_clock {
            return self.clone();
        }
        let begins_us = self.wall_us.saturating_sub(now.wall_us).saturating_add(now.boot_us);
        let shift = |time_us: i64| time_us.saturating_sub(self.due_us).saturating_add(begins_us);
        Self {
            base_us: shift(self.base_us),
            due_us: shift(self.due_us),
            late_us: self.late_us.map(shift),
            until_us: self.until_us.map(shift),
            ..self.clone()
        }
    }

    /// Returns how long it is until the run begins.
    pub fn left_us(&self, now: Now) -> u64 {
        let now_us = if self.by_boot_clock { now.boot_us } else { now.wall_us };
        self.due_us.saturating_sub(now_us).max(0).cast_unsigned()
    }
}
