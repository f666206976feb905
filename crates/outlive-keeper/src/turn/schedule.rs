//! Sleeping until the time of a schedule.
//!
//! The keeper knows no calendar: the file `planned` says when the command is to begin, and from when on that was missed. Where it wakes
//! too late, or the wall clock was set, it starts `outlive next-run`, which looks at the schedule, tells of what was missed, and
//! puts another time into the file or lets the run begin.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use outlive_core::file;
use outlive_core::options::JobOptions;
use outlive_core::schedule::{Now, Overlap, Planned};
use outlive_sys::clock::{self, Alarm, WallAlarm};
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::{ProcessId, Stat};
use outlive_sys::spawn::{self, Reap, WaitStatus};
use outlive_sys::{durable, shared};

use crate::guard::{Custody, Word};
use crate::on_exit::OnExit;

/// How long to wait before the program is started once more.
const PAUSE_US: u64 = 100_000;

/// How often the program is started at most, for a minute in all: after that the run begins, which is better than never.
const ATTEMPTS: u32 = 600;

/// A wall clock that was set by less was not: the two clocks are read one after the other.
const SET_US: u64 = 500_000;

/// What wakes the keeper.
enum Wake {
    Boot(Alarm),
    Wall(WallAlarm),
}

/// A keeper that sleeps until its time.
pub(super) struct Timetable<'a> {
    on_exit: Option<&'a OnExit>,
    custody: Custody,
    wake: Option<Wake>,
    planned: Option<Planned>,
    /// How far the wall clock was ahead of the boot clock when the alarm was set.
    ahead_us: Option<i64>,
    attempts: u32,
    /// When the program may be started again.
    retry_us: Option<u64>,
}

pub(crate) fn now() -> Now {
    Now::new(clock::wall_us(), clock::boot_us())
}

fn read(dir: impl AsFd) -> io::Result<Planned> {
    let bytes = fault::step(Point::PlannedRead, || durable::read(dir, file::PLANNED))?;
    Planned::parse(&bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns when a run is ended because the next one is to begin, by the boot clock; `None` if its schedule does not say so.
pub(crate) fn replaced_us(dir: impl AsFd, options: &JobOptions) -> Option<u64> {
    if !options.schedule.is_set() || options.schedule.overlap != Overlap::Kill {
        return None;
    }
    let (planned, now) = (read(dir).ok()?, now());
    let until = Planned { due_us: planned.until_us?, ..planned };
    Some(now.boot_us.cast_unsigned() + until.left_us(now))
}

impl<'a> Timetable<'a> {
    pub(super) fn new(on_exit: Option<&'a OnExit>, custody: Custody) -> Self {
        Self { on_exit, custody, wake: None, planned: None, ahead_us: None, attempts: 0, retry_us: None }
    }

    /// Tells whether the time has come.
    pub(super) fn look(&mut self, dir: &OwnedFd) -> io::Result<bool> {
        if self.is_asking() {
            return Ok(false);
        }
        let (planned, now) = (read(dir)?, now());
        let left_us = planned.left_us(now);
        let clock_us = if planned.by_boot_clock { now.boot_us } else { now.wall_us };
        let is_late = left_us == 0 && planned.late_us.is_some_and(|late| clock_us >= late);
        let ahead_us = now.wall_us - now.boot_us;
        let was_set =
            !planned.by_boot_clock && self.ahead_us.is_some_and(|before| before.abs_diff(ahead_us) > SET_US);
        self.planned = Some(planned);
        if (is_late || was_set) && self.attempts < ATTEMPTS {
            if self.retry_us.is_none_or(|retry| clock::boot_us() >= retry) {
                self.ask();
            }
            return Ok(false);
        }
        if left_us == 0 {
            return Ok(true);
        }
        self.set_alarm(ahead_us);
        Ok(false)
    }

    fn set_alarm(&mut self, ahead_us: i64) {
        (self.attempts, self.retry_us, self.ahead_us) = (0, None, Some(ahead_us));
        let Some(planned) = &self.planned else { return };
        // Without one, the time is met by what the loop counts.
        let due_us = planned.due_us.max(0).cast_unsigned();
        self.wake = match planned.by_boot_clock {
            true => Alarm::at(due_us).ok().map(Wake::Boot),
            false => WallAlarm::at(due_us).ok().map(Wake::Wall),
        };
    }

    /// Starts the program that looks at the schedule.
    fn ask(&mut self) {
        self.attempts += 1;
        (self.wake, self.ahead_us) = (None, None);
        self.retry_us = Some(clock::boot_us() + PAUSE_US);
        let program = self.on_exit.ok_or(io::ErrorKind::NotFound);
        let start = || program?.start_next_run().ok_or(io::ErrorKind::Other.into());
        if let Ok(id) = fault::step(Point::PlanExec, start) {
            self.custody.set(Word::NextRunPid, u64::from(id.pid.cast_unsigned()));
        }
    }

    fn is_asking(&self) -> bool {
        self.custody.get(Word::NextRunPid) != 0
    }

    /// Reaps the program, if it has ended; tells whether to look.
    pub(super) fn reap(&mut self) -> bool {
        let mut has_ended = false;
        while let Reap::Ended(ended) = spawn::find_ended() {
            spawn::reap(ended.pid);
            if self.custody.get(Word::NextRunPid) == u64::from(ended.pid.cast_unsigned()) {
                self.custody.set(Word::NextRunPid, 0);
                has_ended = true;
                if ended.status == WaitStatus::Exited(0) {
                    self.retry_us = None;
                }
            }
        }
        has_ended
    }

    /// Returns when to look without being woken.
    pub(super) fn pause(&self) -> Option<Duration> {
        if self.is_asking() {
            return None;
        }
        let now = now();
        let retry_us = self.retry_us.map(|retry| retry.saturating_sub(clock::boot_us()));
        let left_us = self.planned.as_ref().map(|planned| planned.left_us(now));
        let pause = retry_us.or(left_us.filter(|left| *left > 0)).map(Duration::from_micros);
        clock::longest_sleep().into_iter().chain(pause).min()
    }

    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(|wake| match wake {
            Wake::Boot(alarm) => alarm.as_fd(),
            Wake::Wall(alarm) => alarm.as_fd(),
        })
    }

    /// Closes the alarm.
    pub(super) fn forget(&mut self) {
        self.wake = None;
    }
}

/// Ends the program that a keeper had started which is gone: another is started, and it makes no run that is there.
pub(super) fn end_program(custody: Custody) {
    let pid = custody.get(Word::NextRunPid) as i32;
    if pid == 0 {
        return;
    }
    let me = ProcessId::current().pid;
    if Stat::read(pid).is_some_and(|stat| stat.parent == me) {
        shared::end_child(pid);
    }
    custody.set(Word::NextRunPid, 0);
}
