//! Jobs of a queue: whatever process is killed, stopped or fails, each runs once, one at a time, and none waits for ever.

use outlive_tests::{guard_of, signal};
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// How many jobs are put into the queue.
const JOBS: usize = 3;

pub(crate) fn play(run: &mut Scenario<'_>) {
    if let Some(started) = put(run) {
        finish(run, started);
    }
}

/// The same with jobs whose guards die while they wait: what the fault hits is the keeper that the first one makes then.
pub(crate) fn play_unguarded(run: &mut Scenario<'_>) {
    run.must(&["queue", "parallel", "line", "1"]);
    run.must(&["queue", "pause", "line"]);
    let Some(started) = put(run) else { return };
    let pairs = |run: &Scenario<'_>| {
        let ids = jobs(run).into_iter().filter(|job| job["status"] == "queued");
        let shown = ids.map(|job| run.home.show(job["job"].as_str().unwrap_or_default()));
        let keepers = shown.filter_map(|job| i32::try_from(job["keeper_pid"].as_i64()?).ok());
        keepers.map(|keeper| (keeper, guard_of(keeper))).collect::<Vec<_>>()
    };
    // One that the fault has hit already has another guard first: of two deaths at once nothing is promised.
    run.comes(|run| pairs(run).iter().all(|(_, guard)| guard.is_some()));
    let before = pairs(run);
    before.iter().filter_map(|(_, guard)| *guard).for_each(|guard| signal(guard, "KILL"));
    let is_guarded = |(keeper, guard): &(i32, Option<i32>)| {
        let is_as_before = before.iter().any(|(other, _)| other == keeper);
        guard.is_some() && !is_as_before
    };
    run.comes(|run| pairs(run).iter().all(is_guarded));
    run.must(&["queue", "resume", "line"]);
    finish(run, started);
}

/// Starts the jobs; returns how many were started.
fn put(run: &mut Scenario<'_>) -> Option<usize> {
    let ledger = run.ledger().display().to_string();
    let mut started = 0;
    for number in 0..JOBS {
        // With a fault of the starter's the first try fails, and a user tries again.
        let line = format!("echo + {number} >> {ledger}; sleep 0.05; echo - {number} >> {ledger}");
        let arguments = ["run", "--name", "one", "--queue", "line", "--", "sh", "-c", &line];
        let done = run.front_end("starter", &arguments);
        started += usize::from(done.code == 0);
        if done.code != 0 && !run.fault.is_of_keeper() && !run.fault.hits("starter") {
            run.violation(format!("it is not started: {}", done.error()));
            return None;
        }
    }
    Some(started)
}

fn finish(run: &mut Scenario<'_>, started: usize) {
    if !run.comes(|run| !is_live(run)) {
        let listed = run.home.run(["list"]).text();
        return run.violation(format!("the queue stands still: {listed}"));
    }
    check(run, started);
    world::check_store(run, None);
}

fn jobs(run: &Scenario<'_>) -> Vec<Value> {
    serde_json::from_slice(&run.home.run(["--json", "list"]).stdout).unwrap_or_default()
}

fn is_live(run: &Scenario<'_>) -> bool {
    let is_live = |job: &Value| {
        ["queued", "starting", "running"].iter().any(|word| job["status"] == *word)
            || job["lingering"] == true
    };
    jobs(run).iter().any(is_live) || !run.home.keepers().is_empty()
}

/// Each that was started ran once, and no two at the same time; what is left in the store of those that waited is swept.
fn check(run: &mut Scenario<'_>, started: usize) {
    let (text, listed) =
        (std::fs::read_to_string(run.ledger()).unwrap_or_default(), run.home.run(["list"]).text());
    let mut running = 0i32;
    for line in text.lines() {
        running += if line.starts_with('+') { 1 } else { -1 };
        if !(0..=1).contains(&running) {
            run.violation(format!("two ran at once: {text}"));
        }
    }
    let executed = jobs(run).iter().filter(|job| job["cause"] != "never_started").count();
    let count = text.lines().filter(|line| line.starts_with('+')).count();
    // A starter that was killed may have started one that it did not tell of.
    if count != executed || count < started || count > JOBS {
        run.violation(format!("{count} ran, of {started} that were started: {listed}"));
    }
    run.must(&["gc"]);
    for left in ["waiting", "queues/line/tickets"] {
        let entries = std::fs::read_dir(run.home.store().join(left)).into_iter().flatten().flatten();
        let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        if !names.is_empty() {
            run.violation(format!("{left} has {names:?}"));
        }
    }
}
