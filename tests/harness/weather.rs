//! Times that a test cannot do without, on a machine that may be busy.

use std::time::{Duration, Instant};

use crate::LIMIT;

/// Tries something within a time, and again within twice the time while the result is `None`: too short.
///
/// For a timeout or a grace that must end by itself, and before which something else has to happen: a quick machine
/// shows it quickly, and what never works fails within [`LIMIT`].
#[track_caller]
pub fn with_enough_time<T>(first: Duration, mut attempt: impl FnMut(Duration) -> Option<T>) -> T {
    let mut time = first;
    loop {
        if let Some(shown) = attempt(time) {
            return shown;
        }
        time *= 2;
        assert!(time <= LIMIT, "{:?} were not enough", time / 2);
    }
}

/// Does something until it takes less than `bound`, and returns its result.
///
/// A busy machine delays it now and then; if it is slow by itself, it is slow each time, and fails.
#[track_caller]
pub fn soon<T>(what: &str, bound: Duration, mut act: impl FnMut() -> T) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        let begun = Instant::now();
        let came_to = act();
        let took = begun.elapsed();
        if took < bound {
            return came_to;
        }
        assert!(Instant::now() < deadline, "{what} takes longer than {bound:?} each time, at last {took:?}");
    }
}

/// Returns the processor time that a process has used, which does not grow while others have the processors.
pub fn processor_time(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which may hold anything, come the state and then numbers; 12 and 13 are the times, in ticks.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let ticks: u64 =
        rest.split_whitespace().skip(12).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Writes a time as options take it.
pub fn millis(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_doubled_until_it_is_enough() {
        let mut tried = Vec::new();
        let enough = with_enough_time(Duration::from_millis(100), |time| {
            tried.push(time.as_millis());
            (tried.len() == 4).then_some(time)
        });
        assert_eq!((tried.as_slice(), millis(enough).as_str()), (&[100, 200, 400, 800][..], "800ms"));
        let never = std::panic::catch_unwind(|| with_enough_time(LIMIT / 2, |_| None::<()>));
        assert!(never.is_err(), "what never works fails");
    }

    #[test]
    fn one_delay_is_forgiven() {
        let mut delays = [Duration::from_millis(20), Duration::ZERO].into_iter();
        let bound = Duration::from_millis(20);
        soon("it", bound, || std::thread::sleep(delays.next().unwrap_or(Duration::ZERO)));
        assert_eq!(delays.next(), None, "the first was too late");
    }
}
