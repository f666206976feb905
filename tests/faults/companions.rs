//! A job that reads what another one prints, and one that is restarted when a file changes: whatever becomes of the process beside them, each
//! byte comes once, and after a look at the job the restart comes.

use std::time::{Duration, Instant};

use crate::scenario::Scenario;
use crate::world;

/// How long no file changes after one has: several times what a job waits for before its restart.
const QUIET: Duration = Duration::from_secs(1);

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
    if !run.comes(is_over) {
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
    let mut written: Option<Instant> = None;
    let is_restarted = |run: &Scenario<'_>| {
        // A change while no process watches is not seen. The restart waits until nothing has changed for a moment, so a change is not
        // followed by another at once.
        if written.is_none_or(|written| written.elapsed() > QUIET) {
            std::fs::write(dir.join("a.txt"), b"changed").ok();
            written = Some(Instant::now());
        }
        let shown = run.home.run(["--json", "show", "watching"]);
        shown.code == 0 && shown.json()["previous"] == first.as_str()
    };
    if !run.comes(is_restarted) {
        run.violation("it is not restarted");
    }
    run.must(&["kill", "watching"]);
}
