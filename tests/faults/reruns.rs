//! A job that is started again by itself: whatever process is killed, stopped or fails, its next run comes, once, and then it gives up.

use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

pub(crate) fn play(run: &mut Scenario<'_>) {
    let ledger = run.ledger().display().to_string();
    let line = format!("echo run >> {ledger}; exit 4");
    let arguments = ["run", "--name", "again", "--restart", "on-failure", "--restart-tries", "1"];
    let done = run.front_end("starter", &[&arguments[..], &["--", "sh", "-c", &line]].concat());
    if done.code != 0 && !run.fault.is_of_keeper() {
        return run.violation(format!("it is not started: {}", done.error()));
    }
    if !run.comes(is_over) {
        let listed = run.home.run(["list"]).text();
        return run.violation(format!("it does not come to its end: {listed}"));
    }
    check(run, done.code == 0);
    world::check_store(run, None);
}

fn runs(run: &Scenario<'_>) -> Vec<Value> {
    let jobs: Vec<Value> =
        serde_json::from_slice(&run.home.run(["--json", "list"]).stdout).unwrap_or_default();
    jobs.into_iter().filter(|job| job["name"] == "again").collect()
}

/// Nothing of it runs any more, and no keeper is left to make another run.
fn is_over(run: &Scenario<'_>) -> bool {
    let is_live = |job: &Value| {
        ["queued", "starting", "running"].iter().any(|word| job["status"] == *word)
            || job["lingering"] == true
    };
    !runs(run).iter().any(is_live) && run.home.keepers().is_empty()
}

/// It ran twice, as two runs of which the second names the first; or, where the first was never started, not at all.
fn check(run: &mut Scenario<'_>, is_started: bool) {
    let (jobs, listed) = (runs(run), run.home.run(["list"]).text());
    let executed: Vec<&Value> = jobs.iter().filter(|job| job["cause"] != "never_started").collect();
    let count = std::fs::read_to_string(run.ledger()).unwrap_or_default().lines().count();
    let wanted = if executed.is_empty() && !is_started { 0 } else { 2 };
    if count != wanted || executed.len() != wanted {
        run.violation(format!("it ran {count} times, not {wanted}: {listed}"));
    }
    for (before, after) in jobs.iter().zip(jobs.iter().skip(1)) {
        if after["previous"] != before["job"] {
            run.violation(format!("a run is beside another: {listed}"));
        }
    }
    // A full disk may keep it from being written.
    let is_failing = run.fault.hits("parting") && !["kill", "pause"].contains(&run.fault.action.as_str());
    let has_given_up = jobs.last().is_some_and(|job| job["gave_up"].is_string());
    if wanted == 2 && !has_given_up && !is_failing {
        run.violation(format!("it did not give up: {listed}"));
    }
}
