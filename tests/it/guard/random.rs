//! Keepers and guards that are killed at random moments, a thousand on request: `OUTLIVE_TEST_GUARD=1000`.
//!
//! No front end looks at a job between its start and its end but its waiter, which repairs nothing: who the keeper is, is read from
//! the store and from `/proc`.

use std::time::Duration;

use outlive_tests::{Home, LIMIT, Random, end_within, guard_of, report, signal, until};
use serde_json::Value;

use super::assert_whole;

/// Jobs that run at the same time; most of them sleep.
const AT_ONCE: u64 = 20;

/// How long a job takes at least, in microseconds.
const RUNS_US: u64 = 3_000_000;

/// Prints 300 numbered lines on both streams in three seconds, without starting a process for each pause, and exits with 7.
const PRINTING: &str = "exec 3<> <(:); for ((n = 0; n < 300; n++)); do echo o$n; echo e$n >&2; \
    read -r -t 0.01 -u 3; done; exit 7";

/// How many jobs lose their keepers.
fn count() -> u64 {
    std::env::var("OUTLIVE_TEST_GUARD").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// What happens to the keeper of a job, and when.
struct Plan {
    moment: Duration,
    way: Way,
    /// It is stopped for so long before it is killed.
    stopped: Option<Duration>,
    /// How long after the first death the second one comes.
    pause: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Once,
    GuardFirst,
    Twice,
}

impl Plan {
    fn new(random: &mut Random) -> Self {
        let ways = if outlive_sys::exit::can_tell() { 3 } else { 1 };
        let way = [Way::Once, Way::GuardFirst, Way::Twice][random.below(ways) as usize];
        let stopped = (random.below(4) == 0).then(|| Duration::from_micros(random.below(20_000)));
        let moment = Duration::from_micros(random.below(RUNS_US));
        Self { moment, way, stopped, pause: Duration::from_micros(random.below(RUNS_US / 3)) }
    }

    /// Kills, while the job runs: one that has ended meanwhile is left alone.
    fn carry_out(&self, home: &Home, job: &str) {
        std::thread::sleep(self.moment);
        let Some(first) = keeper(home, job) else { return };
        if matches!(self.way, Way::GuardFirst) {
            let Some(guard) = guard_of(first) else { return };
            signal(guard, "KILL");
            until("there is another guard", || {
                is_over(home, job) || guard_of(first).is_some_and(|other| other != guard)
            });
        }
        if let Some(stopped) = self.stopped {
            signal(first, "STOP");
            std::thread::sleep(stopped);
        }
        signal(first, "KILL");
        if matches!(self.way, Way::Twice) {
            let second =
                || keeper(home, job).filter(|second| *second != first && guard_of(*second).is_some());
            until("its guard is the keeper, and has one", || is_over(home, job) || second().is_some());
            std::thread::sleep(self.pause);
            if let Some(second) = second() {
                signal(second, "KILL");
            }
        }
    }
}

/// Returns the snapshot of a job.
fn snapshot(home: &Home, job: &str) -> Value {
    let text = std::fs::read(home.job_dir(job).join("meta.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Returns the keeper of a job that runs.
pub(super) fn keeper(home: &Home, job: &str) -> Option<i32> {
    let keeper = snapshot(home, job)["keeper"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    keeper.filter(|keeper| !is_over(home, job) && home.keepers().contains(keeper))
}

fn is_over(home: &Home, job: &str) -> bool {
    snapshot(home, job)["outcome"].is_object()
}

/// A third of the keepers is killed twice, of a third the guard is killed first, a quarter is stopped before.
#[test]
fn keepers_and_guards_killed_at_random_moments_lose_nothing() {
    let seed = Random::seed();
    let (mut random, count) = (Random::new(seed), count());
    report(&format!("OUTLIVE_TEST_SEED={seed} OUTLIVE_TEST_GUARD={count}"));
    if !outlive_sys::exit::can_tell() {
        outlive_tests::lacks("Linux 6.15, to learn the exit status after a second death");
    }
    let home = Home::new();
    let mut left = count;
    while left > 0 {
        let plans: Vec<Plan> = (0..left.min(AT_ONCE)).map(|_| Plan::new(&mut random)).collect();
        left -= plans.len() as u64;
        std::thread::scope(|scope| {
            for plan in &plans {
                scope.spawn(|| {
                    let job = home.start(["bash", "-c", PRINTING]);
                    let mut waiter =
                        home.outlive(["wait", &job]).stdout(std::process::Stdio::null()).spawn().unwrap();
                    plan.carry_out(&home, &job);
                    assert_eq!(
                        end_within(&mut waiter, LIMIT),
                        Some(7),
                        "{:?} after {:?}",
                        plan.way,
                        plan.moment
                    );
                    assert_whole(&home, &job, 300);
                    home.run(["remove", &job]).ok();
                });
            }
        });
        report(&format!("{} of {count} lost nothing", count - left));
    }
    until("no process is left", || home.processes().is_empty());
}
