//! Jobs of a queue: whatever process is killed, stopped or fails, each runs once, one at a time, and none waits for ever.

use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// How many jobs are put into the queue.
const JOBS: usize = 3;

pub(crate) fn play(run: &mut Scenario<'_>) {
    let ledger = run.ledger().display().to_string();
    let mut started = 0;
    for number in 0..JOBS {
        // With a fault of the starter's the first try fails, and a user tries again.
        let line = format!("echo + {number} >> {ledger}; sleep 0.05; echo - {number} >> {ledger}");
        let arguments = ["run", "--name", "one", "--queue", "line", "--", "sh", "-c", &line];
        let done = run.front_end("starter", &arguments);
        started += usize::from(done.code == 0);
        if done.code != 0 && !run.fault.is_of_keeper() && !run.fault.hits("starter") {
            return run.violation(format!("it is not started: {}", done.error()));
        }
    }
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
