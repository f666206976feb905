//! A job that the process beside it replaces with another run: whatever process is killed, stopped or fails, that run comes, once, though no
//! front end looks; and after a kill none does.

use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

pub(crate) fn play(run: &mut Scenario<'_>) {
    let dir = run.home.make_dir("watched");
    let (cwd, ledger) = (dir.display().to_string(), run.ledger().display().to_string());
    let line = format!("echo run >> {ledger}; exec sleep 300");
    let words = ["run", "--name", "watching", "--cwd", &cwd, "--restart-on-change", "*.txt", "--"];
    // The process beside it has the fault from the front end that starts the job.
    let done = run.front_end("reader", &[&words[..], &["sh", "-c", &line]].concat());
    if done.code != 0 && !run.fault.is_of_keeper() {
        return run.violation(format!("it is not started: {}", done.error()));
    }
    // A keeper that dies before it has the job is told as such.
    if done.code == 0 && !replaced(run, &dir) {
        let listed = run.home.run(["list"]).text();
        run.violation(format!("no run takes its place: {listed}"));
    }
    run.home.run(["kill", "watching"]).ok();
    let executed: Vec<Value> = jobs(run).into_iter().filter(|job| job["cause"] != "never_started").collect();
    let ran = count(run);
    if ran != executed.len() || (done.code == 0 && ran != 2) {
        let listed = run.home.run(["list"]).text();
        run.violation(format!("it ran {ran} times: {listed}"));
    }
    world::check_store(run, None);
}

/// Changes a file once it runs, and waits for the next run without a look.
fn replaced(run: &mut Scenario<'_>, dir: &std::path::Path) -> bool {
    run.comes(|run| count(run) == 1)
        && std::fs::write(dir.join("a.txt"), b"changed").is_ok()
        && run.comes(|run| count(run) == 2)
}

fn count(run: &Scenario<'_>) -> usize {
    std::fs::read_to_string(run.ledger()).unwrap_or_default().lines().count()
}

fn jobs(run: &Scenario<'_>) -> Vec<Value> {
    serde_json::from_slice(&run.home.run(["--json", "list"]).stdout).unwrap_or_default()
}
