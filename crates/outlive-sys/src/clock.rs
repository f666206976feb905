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

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Returns microseconds since 1970 UTC.
pub fn wall_us() -> u64 {
    micros(ClockId::Realtime)
}

/// Returns microseconds since the machine was started, including the time it was suspended; the same in every time namespace.
pub fn boot_us() -> u64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // macOS's monotonic clock already counts suspended time.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    micros(clock).saturating_add_signed(-offset_ns() / 1000)
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
        let time = |us: u64| Timespec {
            tv_sec: i64::try_from(us / 1_000_000).unwrap_or(i64::MAX),
            tv_nsec: (us % 1_000_000 * 1000) as _,
        };
        // A moment of 0 would switch it off.
        let moment = boot_us.saturating_add_signed(offset_ns() / 1000).max(1);
        let setting = Itimerspec { it_interval: time(0), it_value: time(moment) };
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
