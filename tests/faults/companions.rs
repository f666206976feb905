//! A job that reads what another one prints, and one that is restarted when a file changes: whatever becomes of the process beside them, each
//! byte comes once, and after a look at the job the restart comes.

use std::time::{Duration, Instant};

use outlive_tests::LIMIT;

use crate::scenario::Scenario;
use crate::world;

pub(crate) fn play(run: &mut Scenario<'_>) {
    if run.fault.point.name().starts_with("reader.fed.") {
        read(run);
    } else {
        change(run);
    }
    world::check_store(run, None);
}

fn read(run: &mut Scenario<'_>) {
    run.must(&["run", "--name", "source", "--", "sh", "-c", "echo one; echo two"]);
    run.must(&["wait", "source"]);
    // The process beside it has the fault from the front end that starts the job.
    let done = run.front_end(
        "reader",
        &["run", "--name", "sink", "--stdin-from", "source", "--", "sh", "-c", "cat; sleep 1"],
    );
    if done.code != 0 {
        return run.violation(format!("it is not started: {}", done.error()));
    }
    let is_over = |run: &Scenario<'_>| {
        drop(run.home.run(["show", "sink"]));
        run.home.run(["logs", "sink"]).stdout == b"one\ntwo\n"
            && run.home.run(["--json", "show", "sink"]).json()["status"] == "completed"
    };
    if !comes(run, is_over) {
        let logs = run.home.run(["logs", "sink"]).text();
        run.violation(format!("it has not read all of it once: {logs:?}"));
    }
}

fn change(run: &mut Scenario<'_>) {
    let dir = run.home.make_dir("watched");
    let cwd = dir.display().to_string();
    let words = [
        "run",
        "--name",
        "watching",
        "--cwd",
        &cwd,
        "--restart-on-change",
        "*.txt",
        "--",
        "sh",
        "-c",
        "exec sleep 300",
    ];
    let done = run.front_end("reader", &words);
    if done.code != 0 {
        return run.violation(format!("it is not started: {}", done.error()));
    }
    let first = done.text().trim().to_owned();
    let mut number = 0;
    let is_restarted = |run: &Scenario<'_>| {
        number += 1;
        std::fs::write(dir.join("a.txt"), format!("{number}")).ok();
        drop(run.home.run(["show", "watching"]));
        // No write while nothing may change for a moment.
        std::thread::sleep(Duration::from_millis(500));
        let shown = run.home.run(["--json", "show", "watching"]);
        shown.code == 0 && shown.json()["previous"] == first.as_str()
    };
    if !comes(run, is_restarted) {
        run.violation("it is not restarted");
    }
    run.must(&["kill", "watching"]);
}

/// Waits until something is so. Whichever process is stopped in it goes on after a look.
fn comes(run: &mut Scenario<'_>, mut is_so: impl FnMut(&Scenario<'_>) -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LIMIT {
        if run.paused().exists() && !run.released().exists() {
            run.look_while_paused();
            std::fs::write(run.released(), b"").unwrap();
        }
        if is_so(run) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}
