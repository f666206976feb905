//! The two clocks outlive uses.
//!
//! Wall time is for people; it may jump. Durations and deadlines are taken from the boot clock, which never jumps and
//! goes on while the machine sleeps.
//!
//! In a time namespace the kernel shifts the boot clock, and with it the start times in `/proc`. Both are shifted back here, so
//! that what one namespace writes down can be compared in another.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Returns microseconds since 1970 UTC.
pub fn wall_us() -> u64 {
    let now_us = micros(ClockId::Realtime);
    #[cfg(feature = "fault")]
    let now_us = now_us.saturating_add_signed(shifted::wall_us());
    now_us
}

/// Returns microseconds since the machine was started, including the time it was suspended; the same in every time namespace.
pub fn boot_us() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // macOS's monotonic clock already counts suspended time.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let now_us = micros(clock).saturating_add_signed(-offset_ns() / 1000);
    #[cfg(feature = "fault")]
    let now_us = now_us.saturating_add_signed(shifted::boot_us());
    now_us
}

/// Clocks that a test sets, in a build with the feature `fault`: the file that `OUTLIVE_TEST_CLOCK` names has two numbers, by how many
/// microseconds the wall clock and the boot clock are ahead.
#[cfg(feature = "fault")]
mod shifted {
    fn read() -> Option<(i64, i64)> {
        let text = std::fs::read_to_string(std::env::var_os("OUTLIVE_TEST_CLOCK")?).ok()?;
        let (wall, boot) = text.trim().split_once(' ')?;
        Some((wall.parse().ok()?, boot.parse().ok()?))
    }

    pub(super) fn wall_us() -> i64 {
        read().map_or(0, |(wall, _)| wall)
    }

    pub(super) fn boot_us() -> i64 {
        read().map_or(0, |(_, boot)| boot)
    }

    pub(super) fn is_set() -> bool {
        std::env::var_os("OUTLIVE_TEST_CLOCK").is_some()
    }
}

/// Number of the time namespace that the machine starts with, which has no offset.
const FIRST_NAMESPACE: &str = "time:[4026531834]";

/// Returns how far this program's time namespace is ahead of the machine's boot clock.
pub(crate) fn offset_ns() -> i64 {
    static OFFSET: OnceLock<i64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        // Looked at first: the offsets are those of the children, and a program may have asked for others for them.
        match namespace() {
            Some(namespace) if namespace != FIRST_NAMESPACE => {
                fs::read_to_string("/proc/self/timens_offsets").ok().as_deref().and_then(parse_offset)
            }
            _ => None,
        }
        .unwrap_or(0)
    })
}

/// Returns this program's time namespace, as the kernel numbers it.
pub(crate) fn namespace() -> Option<String> {
    Some(fs::read_link("/proc/self/ns/time").ok()?.to_string_lossy().into_owned())
}

fn parse_offset(offsets: &str) -> Option<i64> {
    let mut fields = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?.split_ascii_whitespace();
    let (seconds, nanos): (i64, i64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
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
        // A moment of 0 would switch it off.
        let moment = boot_us.saturating_add_signed(offset_ns() / 1000).max(1);
        let setting = Itimerspec { it_interval: timespec(0), it_value: timespec(moment) };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(Self(timer))
    }
}

/// A descriptor that becomes readable at a moment of the wall clock, and whenever that is set.
#[derive(Debug)]
pub struct WallAlarm(OwnedFd);

impl WallAlarm {
    /// Sets an alarm for this moment.
    ///
    /// # Errors
    ///
    /// If there is no descriptor for it.
    pub fn at(wall_us: u64) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
        let setting = Itimerspec { it_interval: timespec(0), it_value: timespec(wall_us.max(1)) };
        let how = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&timer, how, &setting)?;
        Ok(Self(timer))
    }
}

impl AsFd for WallAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns how long a process that waits for a moment may sleep at most: less where a test sets the clocks, of which the kernel does
/// not tell.
pub fn longest_sleep() -> Option<Duration> {
    #[cfg(feature = "fault")]
    if shifted::is_set() {
        return Some(Duration::from_millis(10));
    }
    None
}

fn timespec(us: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(us / 1_000_000).unwrap_or(i64::MAX),
        tv_nsec: (us % 1_000_000 * 1000) as _,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_with_their_sign() {
        let offsets = |boot: &str| format!("monotonic           7         0\nboottime {boot}\n");
        assert_eq!(parse_offset(&offsets("      1000         5")), Some(1_000_000_000_005));
        assert_eq!(parse_offset(&offsets("        -2 500000000")), Some(-1_500_000_000));
        assert_eq!(parse_offset("monotonic 1 0\n"), None);
    }
}
