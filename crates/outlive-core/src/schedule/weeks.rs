//! Whole weeks of schedules by a clock that the test sets: with both changes of the clocks, a machine that sleeps, and clocks that jump.

use super::*;
use crate::schedule::civil::{Shown, micros, seconds};

/// Central Europe: an hour ahead of UTC, two from the last Sunday of March to the last of October, changed at 01:00 UTC.
struct Berlin;

/// 29 March 2026 and 25 October 2026, 01:00 UTC.
const FORWARD: i64 = 1_774_746_000;
const BACK: i64 = 1_792_890_000;

impl Zone for Berlin {
    fn offset(&self, seconds: i64) -> i64 {
        if (FORWARD..BACK).contains(&seconds) { 7200 } else { 3600 }
    }
}

const HOUR: i64 = 3_600_000_000;
const DAY: i64 = 24 * HOUR;

fn us(seconds: i64) -> i64 {
    micros(seconds).unwrap()
}

/// A world with one job: a keeper that sleeps as the real one does, and asks when it wakes late or the clock was set.
struct World {
    schedule: Schedule,
    times: Times,
    now: Now,
    planned: Planned,
    /// When each run began, by the wall clock.
    began: Vec<i64>,
    told: Vec<Told>,
}

impl World {
    fn new(schedule: Schedule, from: i64) -> Self {
        let times = schedule.times().unwrap().unwrap();
        let now = Now { wall_us: us(from), boot_us: 5 * HOUR };
        let planned = Planned::first(&times, now, &Berlin).unwrap();
        Self { schedule, times, now, planned, began: Vec::new(), told: Vec::new() }
    }

    fn pass(&mut self, us: i64) {
        (self.now.wall_us, self.now.boot_us) = (self.now.wall_us + us, self.now.boot_us + us);
    }

    fn clock(&self) -> i64 {
        if self.planned.by_boot_clock { self.now.boot_us } else { self.now.wall_us }
    }

    fn look_again(&mut self) {
        let (planned, told) = self.planned.again(&self.schedule, &self.times, self.now, &Berlin).unwrap();
        self.planned = planned;
        self.told.extend(told);
    }

    /// Sets the wall clock: the kernel wakes a keeper that sleeps by it.
    fn set_clock(&mut self, by: i64) {
        self.now.wall_us += by;
        if !self.planned.by_boot_clock {
            self.look_again();
        }
    }

    /// Lets time pass while the machine is awake; each run lasts so long.
    fn awake(&mut self, mut left: i64, runtime: i64) {
        loop {
            if self.planned.late_us.is_some_and(|late| self.clock() >= late) {
                self.look_again();
            }
            let sleep = self.planned.left_us(self.now).cast_signed();
            if sleep > left {
                return self.pass(left);
            }
            self.pass(sleep);
            left -= sleep;
            let began = self.now;
            self.began.push(began.wall_us);
            // One that is ended for the next is ended at that time.
            let until = self.planned.until_us.filter(|_| self.schedule.overlap == Overlap::Kill);
            let lasts = until.map_or(runtime, |until| runtime.min((until - self.clock()).max(0)));
            self.pass(lasts);
            left = (left - lasts).max(0);
            let ran = Ran { planned: &self.planned, began: Some(began) };
            let (planned, told) = Planned::next(&self.schedule, &self.times, ran, self.now, &Berlin).unwrap();
            self.planned = planned;
            self.told.extend(told);
            if left == 0 {
                return;
            }
        }
    }

    /// What the clocks on the wall showed at each run: day of the month, hour and minute.
    fn shown(&self) -> Vec<(u32, i64, i64)> {
        let show = |began: &i64| {
            let shown = Shown::at(seconds(*began), &Berlin);
            (civil::month_and_day(shown.day()).1, shown.minute() / 60, shown.minute() % 60)
        };
        self.began.iter().map(show).collect()
    }
}

fn cron(line: &str) -> Schedule {
    Schedule { cron: Some(line.to_owned()), ..Schedule::default() }
}

/// The Monday before a change, 00:00 of the clocks on the wall.
fn week_of(change: i64) -> i64 {
    let day = Shown::at(change - 7200, &Berlin).day() - 6;
    Shown::of(day, 0).moment(&Berlin)
}

#[test]
fn a_time_of_day_is_held_through_both_changes() {
    // hermes-agent#109532: an hour off from one change to the next.
    for (change, first_day) in [(FORWARD, 23), (BACK, 19)] {
        for schedule in [cron("0 18 * * *"), Schedule { at: Some(18 * 60), ..Schedule::default() }] {
            let mut world = World::new(schedule, week_of(change));
            world.awake(7 * DAY, HOUR);
            let expected: Vec<_> = (first_day..first_day + 7).map(|day| (day, 18, 0)).collect();
            assert_eq!((world.shown(), world.told), (expected, vec![]));
        }
    }
}

#[test]
fn a_time_that_is_left_out_comes_all_the_same_and_one_that_comes_twice_comes_once() {
    // systemd#5595: 02:30 was left out on the day of the change.
    let mut spring = World::new(cron("30 2 * * *"), week_of(FORWARD));
    spring.awake(8 * DAY, 60_000_000);
    let mut expected: Vec<_> = (23..29).map(|day| (day, 2, 30)).collect();
    expected.extend([(29, 3, 30), (30, 2, 30)]);
    assert_eq!(spring.shown(), expected);
    let mut autumn = World::new(cron("30 2 * * *"), week_of(BACK));
    autumn.awake(8 * DAY, 60_000_000);
    assert_eq!(autumn.shown(), (19..27).map(|day| (day, 2, 30)).collect::<Vec<_>>());
}

#[test]
fn a_line_for_every_hour_knows_no_change() {
    // cron-plus#108: nothing ran for an hour when the clocks were put back.
    for (change, count) in [(FORWARD, 23 * 4), (BACK, 25 * 4)] {
        let midnight = Shown::of(Shown::at(change, &Berlin).day(), 0).moment(&Berlin);
        let mut world = World::new(cron("*/15 * * * *"), midnight - 1);
        world.awake(us(count / 4 * 3600) - 1, 1_000_000);
        assert_eq!(world.began.len() as i64, count);
        let gaps: Vec<i64> = world.began.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| *gap == HOUR / 4), "{gaps:?}");
    }
}

#[test]
fn an_interval_holds_its_length_whatever_the_clock_is_set_to() {
    let every = |at| Schedule { every_ms: Some(2 * 3_600_000), at, ..Schedule::default() };
    let mut world = World::new(every(None), week_of(FORWARD));
    world.awake(6 * DAY, 60_000_000);
    world.set_clock(-HOUR * 30);
    world.awake(DAY, 60_000_000);
    let by_boot = world.began.len();
    assert_eq!(by_boot, 7 * 12 + 1, "the first is at once");
    assert_eq!(world.told, []);
    let mut from = World::new(every(Some(18 * 60)), week_of(FORWARD));
    from.awake(DAY - 1, 60_000_000);
    assert_eq!(from.shown(), [(23, 18, 0), (23, 20, 0), (23, 22, 0)]);
    // Two days at a time of day are days, not 48 hours.
    let days = Schedule { every_ms: Some(2 * 86_400_000), at: Some(18 * 60), ..Schedule::default() };
    let mut days = World::new(days, week_of(FORWARD));
    days.awake(8 * DAY, 60_000_000);
    assert_eq!(days.shown(), [(23, 18, 0), (25, 18, 0), (27, 18, 0), (29, 18, 0)]);
}

#[test]
fn what_was_missed_is_left_out_made_up_once_or_wholly() {
    // moadim#462, LifeOS#1513, librefang#3906: not a word of what was missed; zrepl#7: half an hour passed after the machine woke.
    for (missed, count, made_up) in [(Missed::Skip, 0, 0), (Missed::Once, 1, 1), (Missed::All, 24, 24)] {
        let mut world = World::new(Schedule { missed, ..cron("0 * * * *") }, week_of(BACK));
        world.awake(DAY, 1_000_000);
        assert_eq!(world.began.len(), 24);
        // The machine sleeps for a day, half an hour past the hour.
        world.awake(HOUR / 2, 1_000_000);
        let before = world.began.len();
        world.pass(DAY);
        world.awake(60_000_000, 1_000_000);
        assert_eq!(world.began.len() - before, count, "{missed:?}");
        let woken = world.now.wall_us - 60_000_000;
        assert!(world.began[before..].first().is_none_or(|began| *began == woken), "at once when it wakes");
        let [told] = &world.told[..] else { panic!("{:?}", world.told) };
        assert_eq!((told.is_overlap, told.count, told.made_up), (false, 24, made_up));
        // And then it goes on as if nothing had been.
        world.awake(3 * HOUR, 1_000_000);
        let last = &world.shown()[world.began.len() - 3..];
        assert!(last.iter().all(|(_, _, minute)| *minute == 0), "{last:?}");
        assert_eq!(world.told.len(), 1);
    }
}

/// Counts how often it is asked.
struct Asked(std::cell::Cell<u64>);

impl Zone for Asked {
    fn offset(&self, seconds: i64) -> i64 {
        self.0.set(self.0.get() + 1);
        Berlin.offset(seconds)
    }
}

#[test]
fn what_was_missed_is_counted_in_one_go() {
    // Each minute of the working day, for a year: 9 hours on each of 365 days.
    let schedule = cron("* 9-17 * * *");
    let times = schedule.times().unwrap().unwrap();
    let now = Now { wall_us: us(week_of(BACK)), boot_us: HOUR };
    let planned = Planned::first(&times, now, &Berlin).unwrap();
    let later = Now { wall_us: now.wall_us + 365 * DAY, boot_us: HOUR + 365 * DAY };
    let asked = Asked(std::cell::Cell::new(0));
    let (_, told) = planned.again(&schedule, &times, later, &asked).unwrap();
    let told = told.unwrap();
    assert_eq!(told.count, 365 * 9 * 60);
    assert!(asked.0.get() < 10 * told.count, "{} questions for {} times", asked.0.get(), told.count);
    // An interval is not counted at all.
    let schedule = Schedule { every_ms: Some(1000), ..Schedule::default() };
    let times = schedule.times().unwrap().unwrap();
    let planned = Planned::first(&times, now, &Berlin).unwrap();
    let (next, told) = planned.again(&schedule, &times, later, &Berlin).unwrap();
    assert_eq!((told.unwrap().count, next.due_us), (365 * 86_400 + 1, later.boot_us));
}

#[test]
fn made_up_runs_are_bounded() {
    // robfig/cron#26: 720 runs after a sleep.
    let mut world = World::new(Schedule { missed: Missed::All, ..cron("* * * * *") }, week_of(BACK));
    world.awake(HOUR, 0);
    let before = world.began.len();
    world.pass(12 * HOUR);
    world.awake(30_000_000, 0);
    assert_eq!(world.began.len() - before, 101);
    assert_eq!((world.told[0].count, world.told[0].made_up), (720, 101));
}

#[test]
fn a_run_that_lasts_too_long_is_left_alone_followed_or_ended() {
    // Each lasts two and a half hours, and is to come every hour.
    let long = 5 * HOUR / 2;
    for (overlap, hours, count) in [
        (Overlap::Skip, vec![1, 4, 7, 10], 2),
        (Overlap::Queue, vec![1, 3, 6, 8], 2),
        (Overlap::Kill, vec![1, 2, 3, 4], 1),
    ] {
        let mut world = World::new(Schedule { overlap, ..cron("0 * * * *") }, week_of(BACK));
        world.awake(12 * HOUR, long);
        let shown: Vec<i64> = world.shown().iter().take(4).map(|(_, hour, _)| *hour).collect();
        assert_eq!(shown, hours, "{overlap:?}");
        assert!(world.told.iter().all(|told| told.is_overlap), "{:?}", world.told);
        assert_eq!(world.told[0].count, count, "{overlap:?}");
    }
}

#[test]
fn a_clock_that_is_set_repeats_nothing_and_does_not_wait_for_ever() {
    let start = week_of(BACK);
    let mut world = World::new(cron("0 18 * * *"), start);
    world.awake(DAY, 60_000_000);
    assert_eq!(world.began.len(), 1);
    // Back over the run, as a correction: not again on the same day.
    world.awake(18 * HOUR + 60_000_000, 60_000_000);
    assert_eq!(world.began.len(), 2);
    world.set_clock(-HOUR);
    world.awake(3 * HOUR, 60_000_000);
    assert_eq!(world.began.len(), 2);
    // It was wrong by a month: what it showed then does not count.
    world.set_clock(30 * DAY);
    world.awake(HOUR, 60_000_000);
    assert_eq!((world.began.len(), world.told.len()), (3, 1), "one makes up for what seemed to be missed");
    world.set_clock(-30 * DAY);
    world.awake(2 * DAY, 60_000_000);
    assert_eq!(world.began.len(), 5);
    assert!(world.shown()[3..].iter().all(|(_, hour, minute)| (*hour, *minute) == (18, 0)));
}

#[test]
fn after_a_restart_of_the_machine_an_interval_goes_by_the_wall_clock() {
    let schedule = Schedule { every_ms: Some(3_600_000), ..Schedule::default() };
    let mut world = World::new(schedule, week_of(BACK));
    world.awake(3 * HOUR / 2, 1_000_000);
    // Off for ten minutes, and the boot clock begins at 0.
    world.now = Now { wall_us: world.now.wall_us + HOUR / 6, boot_us: 60_000_000 };
    let planned = world.planned.after_boot(world.now);
    assert_eq!(planned.left_us(world.now).cast_signed(), HOUR / 3);
    // Off for longer: it is late.
    let later = Now { wall_us: world.now.wall_us + HOUR, boot_us: 2 * HOUR };
    let planned = world.planned.after_boot(later);
    assert_eq!(planned.left_us(later), 0);
    assert!(planned.late_us.is_some_and(|late| late < later.boot_us));
}

#[test]
fn an_interval_keeps_its_phase_when_the_machine_was_off_for_longer_than_it_is_up() {
    for (missed, made_up) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 8)] {
        let schedule = Schedule { every_ms: Some(3_600_000), missed, ..Schedule::default() };
        let mut world = World::new(schedule, week_of(BACK));
        world.awake(3 * HOUR / 2, 1_000_000);
        assert_eq!(world.shown(), [(19, 0, 0), (19, 1, 0)]);
        // Off for eight hours, from half past one; its keeper was gone with the machine, which is up for a minute now.
        world.now = Now { wall_us: world.now.wall_us + 8 * HOUR, boot_us: 60_000_000 };
        world.planned = world.planned.after_boot(world.now);
        world.awake(2 * HOUR, 1_000_000);
        let [told] = &world.told[..] else { panic!("{:?}", world.told) };
        let since = us(week_of(BACK)) + 2 * HOUR;
        assert_eq!((told.is_overlap, told.count, told.made_up, told.since_us), (false, 8, made_up, since));
        let shown = world.shown();
        assert_eq!(shown.len() as u64, 2 + made_up + 2, "{shown:?}");
        assert_eq!(shown[shown.len() - 2..], [(19, 10, 0), (19, 11, 0)], "{missed:?}: {shown:?}");
    }
}

#[test]
fn what_came_while_the_machine_was_off_was_missed_by_a_run_that_ended_with_it() {
    for (schedule, count) in
        [(Schedule { every_ms: Some(3_600_000), ..Schedule::default() }, 5), (cron("0 * * * *"), 5)]
    {
        let mut world = World::new(schedule, week_of(BACK));
        world.awake(3 * HOUR / 2, 1_000_000);
        let ran = world.planned.clone();
        // Off for five hours; it is up for six, as the boot clock counts.
        let now = Now { wall_us: ran.wall_us + 5 * HOUR + HOUR / 2, boot_us: 6 * HOUR };
        let times = world.schedule.times().unwrap().unwrap();
        let next = ran.after_boot(now).following(&times, now, &Berlin).unwrap();
        let (next, told) = next.again(&world.schedule, &times, now, &Berlin).unwrap();
        let told = told.unwrap();
        assert_eq!((told.is_overlap, told.count, told.made_up), (false, count, 1));
        assert_eq!(next.left_us(now), 0);
    }
}

/// When a line of two fields is due in Berlin, found by looking at every minute: each minute of the day that the clocks show for the first time,
/// and one that they leave out an hour later. A line for every hour is due at every such minute.
fn looked_up(hours: Option<i64>, minutes: &[i64], from: i64, to: i64) -> Vec<i64> {
    let mut seen = std::collections::BTreeSet::new();
    let mut due = Vec::new();
    for moment in (from..=to).step_by(60) {
        let shown = Shown::at(moment, &Berlin);
        let (hour, minute) = (shown.minute() / 60, shown.minute() % 60);
        let is_first = seen.insert(shown);
        let is_left_out = moment - FORWARD < 3600 && moment >= FORWARD && hours == Some(hour - 1);
        let is_due = match hours {
            None => true,
            Some(wanted) => (hour == wanted && is_first) || is_left_out,
        };
        if is_due && minutes.contains(&minute) {
            due.push(moment);
        }
    }
    due
}

#[test]
fn two_weeks_with_sleeps_and_jumps_are_as_the_policy_says() {
    const NIGHT: i64 = 10 * HOUR;
    const MINUTE: i64 = 60_000_000;
    let lines: [(&str, Option<i64>, &[i64]); 4] = [
        ("0 18 * * *", Some(18), &[0]),
        ("30 2 * * *", Some(2), &[30]),
        ("0,30 9 * * *", Some(9), &[0, 30]),
        ("10,40 * * * *", None, &[10, 40]),
    ];
    for change in [FORWARD, BACK] {
        // The week of the change and the one after it.
        let begin = week_of(change);
        for (line, hours, minutes) in lines {
            for missed in [Missed::Skip, Missed::Once, Missed::All] {
                let mut world = World::new(Schedule { missed, ..cron(line) }, begin);
                let due = looked_up(hours, minutes, begin + 60, begin + 20 * 86_400);
                let due: Vec<i64> = due.into_iter().map(us).collect();
                let between =
                    |from: i64, to: i64| due.iter().copied().filter(move |time| *time > from && *time <= to);
                let (mut expected, mut told) = (Vec::new(), Vec::new());
                // What is missed until a moment is run then, as the policy says.
                let mut make_up = |expected: &mut Vec<i64>, from: i64, to: i64| {
                    let count = between(from, to).count() as u64;
                    let made_up = match missed {
                        Missed::Skip => 0,
                        Missed::Once => count.min(1),
                        Missed::All => count,
                    };
                    expected.extend(std::iter::repeat_n(to, made_up as usize));
                    told.extend((count > 0).then_some((count, made_up)));
                };
                for day in 0..14 {
                    // Awake for a day, but for a sleep or a clock that is set: never at a minute that is due.
                    let (before, after) = (20 * HOUR + 7 * MINUTE, 4 * HOUR - 7 * MINUTE);
                    let from = world.now.wall_us;
                    world.awake(before, 0);
                    expected.extend(between(from, world.now.wall_us));
                    let stopped = world.now.wall_us;
                    match day % 3 {
                        // The machine sleeps, into the next day.
                        0 => {
                            world.pass(NIGHT);
                            make_up(&mut expected, stopped, world.now.wall_us);
                            world.awake(0, 0);
                        }
                        // The clock is put forward: what it passes over was missed.
                        1 => {
                            world.set_clock(50 * MINUTE);
                            make_up(&mut expected, stopped, world.now.wall_us);
                            world.awake(0, 0);
                        }
                        // It is put back: nothing comes twice.
                        _ => {
                            world.set_clock(-50 * MINUTE);
                            world.awake(50 * MINUTE, 0);
                        }
                    }
                    let from = world.now.wall_us.max(stopped);
                    world.awake(after, 0);
                    expected.extend(between(from, world.now.wall_us));
                }
                assert_eq!(world.began, expected, "{line} {missed:?}");
                let seen: Vec<(u64, u64)> =
                    world.told.iter().map(|told| (told.count, told.made_up)).collect();
                assert_eq!(seen, told, "{line} {missed:?}");
            }
        }
    }
}

#[test]
fn lines_are_read_as_crontab_reads_them() {
    let first = |line: &str| {
        let cron: Cron = line.parse().unwrap();
        let time = cron.after(us(week_of(BACK)), &Berlin).unwrap();
        let shown = Shown::at(seconds(time), &Berlin);
        let (month, day) = civil::month_and_day(shown.day());
        (month, day, shown.minute() / 60, shown.minute() % 60)
    };
    // From Monday, 19 October 2026.
    for (line, expected) in [
        ("0 0 * * *", (10, 20, 0, 0)),
        ("@daily", (10, 20, 0, 0)),
        ("5/20 * * * *", (10, 19, 0, 5)),
        ("0 9-17/4 * * *", (10, 19, 9, 0)),
        ("30 4 1,15 * fri", (10, 23, 4, 30)),
        ("0 0 * * 7", (10, 25, 0, 0)),
        ("0 12 13 * *", (11, 13, 12, 0)),
        ("0 0 29 FEB *", (2, 29, 0, 0)),
        ("0 0 1 jan-mar mon", (1, 1, 0, 0)),
        ("0 0 */10 * mon", (12, 21, 0, 0)),
    ] {
        assert_eq!(first(line), expected, "{line}");
    }
    for (line, part) in [
        ("* * * *", "five fields"),
        ("60 * * * *", "\"60\" is no minute: write a number from 0 to 59"),
        ("0 0 * * mo", "or sun to sat"),
        ("0 17-9 * * *", "ends before it begins"),
        ("*/0 * * * *", "no step"),
        ("0 0 31 2 *", "never comes"),
        ("@reboot", "@hourly"),
    ] {
        let error = line.parse::<Cron>().unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}
