//! The scenario of a list of many jobs, whose front end writes `jobs.cache`.

use std::time::{Duration, SystemTime};

use outlive_tests::until;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// As many jobs as are worth the file.
const JOBS: usize = 17;

/// What has changed since is not remembered.
const SETTLED: Duration = Duration::from_millis(1200);

/// Plays it, and looks what came of it.
pub(crate) fn play(run: &mut Scenario<'_>) {
    for _ in 0..JOBS {
        run.must(&["run", "--name", "listed", "--wait", "--", "true"]);
    }
    let made = SystemTime::now();
    until("the jobs are of an earlier second", || made.elapsed().is_ok_and(|age| age > SETTLED));
    for _ in 0..2 {
        run.front_end("reader", &["list", "--all"]);
    }
    // A process that is still stopped goes on now.
    std::fs::write(run.released(), b"").unwrap();
    let file = run.home.store().join("jobs.cache");
    let listed = |run: &mut Scenario<'_>| -> Vec<Value> {
        serde_json::from_slice(&run.must(&["--json", "list"]).stdout).unwrap_or_default()
    };
    let with = listed(run);
    std::fs::remove_file(&file).ok();
    let without = listed(run);
    if with != without || with.len() != JOBS {
        run.violation(format!("a list depends on the cache: {} and {} jobs", with.len(), without.len()));
    }
    world::check_store(run, None);
}
