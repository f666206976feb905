//! A job with a schedule, by a clock that is set: whatever process is killed, stopped or fails, a run that was missed is made up for once,
//! the next one comes at its time, once, and a job that is stopped is not run again.

use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

const MINUTE_US: i64 = 60_000_000;

pub(crate) fn play(run: &mut Scenario<'_>) {
    // Ten minutes past an hour.
    let now_us = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as i64;
    let mut ahead_us = 70 * MINUTE_US - now_us % (60 * MINUTE_US);
    set_clock(run, ahead_us);
    if !start(run) {
        return;
    }
    if !run.comes(is_waiting) {
        return run.violation("it does not wait for its time");
    }
    // The machine sleeps over two of its times.
    ahead_us += 120 * MINUTE_US;
    set_clock(run, ahead_us);
    if !run.comes(|run| count(run) == 1 && is_waiting(run)) {
        return violation(run, "it does not make up for what was missed");
    }
    let events = run.home.run(["--json", "events"]).text();
    let is_failing = run.fault.hits("parting.plan-event") && run.fault.action.parse::<i32>().is_ok();
    if !events.contains("\"missed\"") && !is_failing && run.fault.action != "short" {
        run.violation("it is not told that a run was missed");
    }
    // And is awake at the next.
    ahead_us += 50 * MINUTE_US;
    set_clock(run, ahead_us);
    if !run.comes(|run| count(run) == 2 && is_waiting(run)) {
        return violation(run, "the next run does not come");
    }
    run.must(&["kill", "planned"]);
    if !run.comes(|run| run.home.keepers().is_empty()) {
        return violation(run, "it does not come to its end");
    }
    let (mut jobs, ran) = (runs(run), count(run));
    // A start that came to nothing was told, and tried again.
    jobs.retain(|job| job["previous"].is_string() || job["cause"] != "never_started");
    let executed = jobs.iter().filter(|job| job["started_at"].is_string()).count();
    if ran != 2 || executed != 2 {
        violation(run, &format!("it ran {ran} times, as {executed} jobs"));
    }
    for (before, after) in jobs.iter().zip(jobs.iter().skip(1)) {
        if after["previous"] != before["job"] {
            violation(run, "a run is beside another");
        }
    }
    world::check_store(run, None);
}

fn clock(run: &Scenario<'_>) -> PathBuf {
    run.home.path().join("clock")
}

/// Sets both clocks ahead, as a machine does that has slept.
fn set_clock(run: &Scenario<'_>, ahead_us: i64) {
    let new = run.home.path().join("clock.new");
    std::fs::write(&new, format!("{ahead_us} {ahead_us}")).unwrap();
    std::fs::rename(new, clock(run)).unwrap();
}

/// Starts it; a user whose start failed tries again, unless it is there.
fn start(run: &mut Scenario<'_>) -> bool {
    let line = format!("echo run >> {}", run.ledger().display());
    let arguments = ["run", "--name", "planned", "--schedule", "0 * * * *", "--", "sh", "-c", &line];
    for _ in 0..2 {
        let mut command = run.outlive("starter", &arguments);
        command.env("OUTLIVE_TEST_CLOCK", clock(run)).env("TZ", "UTC0");
        let done = run.finish(command);
        if done.code == 0 || is_waiting(run) {
            return true;
        }
    }
    run.violation("it is not started");
    false
}

fn violation(run: &mut Scenario<'_>, text: &str) {
    let listed = run.home.run(["list"]).text();
    let events = run.home.run(["events"]).text();
    run.violation(format!("{text}: {listed} {events}"));
}

fn runs(run: &Scenario<'_>) -> Vec<Value> {
    let jobs: Vec<Value> =
        serde_json::from_slice(&run.home.run(["--json", "list"]).stdout).unwrap_or_default();
    jobs.into_iter().filter(|job| job["name"] == "planned").collect()
}

/// Tells whether a run waits for its time. One whose command is being executed may have printed, and is still called `queued`: it counts
/// as soon as it is known to have started.
fn is_waiting(run: &Scenario<'_>) -> bool {
    let printed = count(run);
    let runs = runs(run);
    let started = runs.iter().filter(|job| job["started_at"].is_string()).count();
    started >= printed && runs.last().is_some_and(|job| job["status"] == "queued")
}

fn count(run: &Scenario<'_>) -> usize {
    std::fs::read_to_string(run.ledger()).unwrap_or_default().lines().count()
}
