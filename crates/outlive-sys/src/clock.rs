//! The two clocks outlive uses.
//!
//! Wall time is for people; it may jump. Durations and deadlines are taken from the boot clock, which never jumps and
//! goes on while the machine sleeps.

use rustix::time::{ClockId, clock_gettime};

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

fn micros(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000 + nanos / 1_000
}
