//! The two clocks outlive uses.
//!
//! Wall time is for people; it may jump. Durations and deadlines are taken from the boot clock, which never jumps and
//! goes on while the machine sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Returns microseconds since 1970 UTC.
pub fn wall_us() -> u64 {
    micros(ClockId::Realtime)
}

/// Returns microseconds since the machine was started, including the time it was suspended.
pub fn boot_us() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // macOS's monotonic clock already counts suspended time.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    micros(clock)
}

/// A descriptor that becomes readable at a moment of the boot clock, also when the machine slept on the way: a timeout of
/// `poll` itself stands still meanwhile.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// Sets an alarm for this moment.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn at(boot_us: u64) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let time = |us: u64| Timespec {
            tv_sec: i64::try_from(us / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: (us % 1_000_000 * 1000) as _,
        };
        // A moment of 0 would switch it off.
        let setting = Itimerspec { it_interval: time(0), it_value: time(boot_us.max(1)) };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(Self(timer))
    }
}

impl AsFd for Alarm {
    /// Readable from that moment on.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn micros(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000 + nanos / 1_000
}
