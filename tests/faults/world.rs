//! What must be so after everything that can go wrong.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use outlive_tests::{LIMIT, signal};
use serde_json::Value;

use crate::scenario::Scenario;

/// Looks with fresh front ends, and compares with the design's invariants.
pub(crate) fn check(run: &mut Scenario<'_>, id: Option<&str>) {
    end_what_runs(run, id);
    run.home.run(["kill", "--force", "left"]).ok();
    check_store(run, id);
}

/// Looks at all that is in the store.
pub(crate) fn check_store(run: &mut Scenario<'_>, id: Option<&str>) {
    let examined = run.home.run(["doctor", "--fix"]);
    if examined.code > 1 {
        return run.violation(format!("the store cannot be examined: {}", examined.error()));
    }
    let listed = run.home.run(["--json", "list"]);
    if listed.code != 0 {
        return run.violation(format!("the store cannot be read: {}", listed.error()));
    }
    let jobs: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap_or_default();
    for job in &jobs {
        check_outcome(run, job);
    }
    if let Some(job) = jobs.iter().find(|job| Some(job["job"].as_str().unwrap_or_default()) == id) {
        check_log(run, job);
    }
    check_events(run, &jobs, id);
    let again = run.home.run(["--json", "list"]);
    let strip = |value: &Value| ["status", "exit_code", "signal", "cause"].map(|field| value[field].clone());
    let jobs_again: Vec<Value> = serde_json::from_slice(&again.stdout).unwrap_or_default();
    for (first, second) in jobs.iter().zip(&jobs_again) {
        if strip(first) != strip(second) {
            run.violation(format!("an outcome has changed: {first} became {second}"));
        }
    }
    let next = run.home.run(["run", "--wait", "--", "sh", "-c", "echo next; exit 5"]);
    if next.code != 5 || next.text() != "next\n" {
        run.violation(format!("the next job: {} {:?} {}", next.code, next.text(), next.error()));
    }
    run.home.run(["gc"]).ok();
    check_leftovers(run, &jobs);
}

/// Ends what the faults have left running.
pub(crate) fn end_what_runs(run: &mut Scenario<'_>, id: Option<&str>) {
    let begun = Instant::now();
    let Some(id) = id else { return };
    loop {
        let shown = run.home.run(["--json", "show", id]);
        let job: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
        let is_running_word = job["status"] == "running" || job["status"] == "starting";
        if shown.code != 0 {
            return run.violation(format!("the job cannot be shown: {}", shown.error()));
        }
        if job["orphaned"] == true {
            // It can be ended without its keeper.
            run.home.run(["kill", "--force", id]).ok();
        } else if !is_running_word && job["lingering"] != true {
            return;
        } else if begun.elapsed() > Duration::from_secs(10) {
            // It waits for a line or a signal that was lost with the one who sent it; that is for the user to see.
            run.home.run(["kill", "--force", id]).ok();
        }
        if begun.elapsed() > LIMIT {
            return run.violation(format!("the job does not end: {job}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// One outcome, and none invented; `lost` only where keeper and guard were killed on purpose.
fn check_outcome(run: &mut Scenario<'_>, job: &Value) {
    let (status, cause) =
        (job["status"].as_str().unwrap_or_default(), job["cause"].as_str().unwrap_or_default());
    let (name, exit) = (job["name"].as_str().unwrap_or_default(), job["exit_code"].as_i64());
    let is_allowed = match (name, status, cause, exit) {
        ("to-remove", "completed", "natural", Some(0)) => true,
        ("widow", "lost", "lost", None) => true,
        ("left", "failed", "natural", Some(7)) => true,
        ("never", "failed", "never_started", None) => true,
        ("untold", "completed", "natural", Some(0)) => true,
        ("served" | "renamed", "failed", "natural", Some(3)) => true,
        ("parted", "failed", "natural", Some(4)) => true,
        ("drawn", "failed", "natural", Some(6)) => true,
        ("drawn", "failed", "never_started", None) => run.fault.is_of_keeper(),
        ("again", "failed", "natural", Some(4)) => true,
        ("again", "failed", "never_started", None) => run.fault.is_of_keeper(),
        ("listed", "completed", "natural", Some(0)) => true,
        ("one", "completed", "natural", Some(0)) => true,
        ("one", "failed", "never_started", None) => run.fault.is_of_keeper() || run.fault.hits("starter"),
        ("ill", "killed", "kill", None) => true,
        ("placed" | "there", "completed", "natural", Some(0)) => true,
        // Of a node's process that was killed there is no word but the engine's.
        ("placed", "failed", "never_started", None) => {
            run.fault.action != "pause" && (run.fault.hits("placer") || run.fault.hits("starter"))
        }
        ("abandoned", "failed", "never_started", None) => true,
        ("placed", "lost", "lost", None) => run.fault.hits("placer"),
        ("held", "killed", "kill", None) => true,
        ("source" | "sink", "completed", "natural", Some(0)) => true,
        ("watching", "killed", "kill", None) => true,
        ("watching", "failed", "never_started", None) => run.fault.is_of_keeper(),
        ("db" | "web", "killed", "kill", None) => true,
        ("migrate", "completed", "natural", Some(0)) => true,
        ("db" | "web" | "migrate", "failed", "never_started", None) => run.fault.hits("starter"),
        ("kept", "completed", "natural", Some(0)) => true,
        ("planned", "completed", "natural", Some(0)) => true,
        // The last run, which is stopped while it sleeps.
        ("planned", "killed", "kill", None) => true,
        ("planned", "failed", "never_started", None) => {
            run.fault.is_of_keeper() || run.fault.hits("starter") || run.fault.hits("parting")
        }
        ("canonical", "failed", "natural", Some(7)) => true,
        ("canonical", "failed", "never_started", None) => true,
        // The line or the signal was lost with its sender, and the suite ended it.
        ("canonical", "killed", "kill", _) => true,
        _ => false,
    };
    if !is_allowed {
        run.violation(format!("an outcome that cannot be: {job}"));
    }
}

/// The log is what was written: each stream in order and without a hole that is not told, complete where the keeper lived.
fn check_log(run: &mut Scenario<'_>, job: &Value) {
    let id = job["job"].as_str().unwrap_or_default().to_owned();
    let ledger = std::fs::read_to_string(run.ledger()).unwrap_or_default();
    let is_complete = job["cause"] == "natural" && job["output"]["dropped_bytes"] == 0;
    for (stream, letter) in [("stdout", 'o'), ("stderr", 'e')] {
        let printed = run.home.run(["logs", "--raw", "--stream", stream, &id]);
        if printed.code != 0 {
            return run.violation(format!("the log cannot be read: {}", printed.error()));
        }
        let text = printed.text();
        let written: Vec<&str> = ledger.lines().filter(|line| line.starts_with(letter)).collect();
        let mut kept: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        // The front may be cut by the cap, the end by the keeper's death; a gap is told in between.
        let is_first_whole = kept.first().is_none_or(|line| written.contains(line));
        if !is_first_whole {
            kept.remove(0);
        }
        if !is_complete && kept.last().is_some_and(|line| !written.contains(line)) {
            kept.pop();
        }
        let begin = kept.first().and_then(|first| written.iter().position(|line| line == first)).unwrap_or(0);
        let is_in_order = if job["output"]["dropped_bytes"] == 0 {
            written.get(begin..begin + kept.len()).is_some_and(|part| part == kept)
        } else {
            // Something could not be kept and is counted; what was kept is still in order.
            let mut places = kept.iter().map(|line| written.iter().position(|other| other == line));
            let mut last = None;
            places.all(|place| place.is_none() || std::mem::replace(&mut last, place) <= place)
        };
        if !is_in_order {
            run.violation(format!("{stream} is not what was written: {} lines from {begin}", kept.len()));
        }
        // What the cap has dropped from the front is counted all the same.
        let counted = job["output"][format!("{stream}_lines")].as_u64();
        let ends_whole = kept.is_empty() || begin + kept.len() == written.len();
        if is_complete && (counted != Some(written.len() as u64) || !ends_whole) {
            run.violation(format!(
                "{stream} is not complete: {counted:?} lines counted, up to {} kept, {} written",
                begin + kept.len(),
                written.len()
            ));
        }
    }
}

/// Every ending is told, and no job is called an orphan whose guard goes on.
fn check_events(run: &mut Scenario<'_>, jobs: &[Value], id: Option<&str>) {
    let told = |event: &Value, job: &Value, kinds: &[&str]| {
        event["job"] == job["job"] && kinds.iter().any(|kind| event["event"] == *kind)
    };
    let deadline = Instant::now() + LIMIT;
    loop {
        let printed = run.home.run(["events", "--json"]);
        if printed.code != 0 {
            return run.violation(format!("the events cannot be read: {}", printed.error()));
        }
        let text = printed.text();
        let events: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let is_kept = |job: &&Value| job["job"].as_str() == id;
        if let Some(job) =
            jobs.iter().filter(is_kept).find(|job| events.iter().any(|event| told(event, job, &["orphaned"])))
        {
            return run.violation(format!("it is told that the keeper of {} died", job["job"]));
        }
        let is_told = |job: &&Value| events.iter().any(|event| told(event, job, &["exited", "lost"]));
        let Some(untold) = jobs.iter().find(|job| !is_told(job)) else {
            return;
        };
        // A keeper may be about to.
        if Instant::now() > deadline {
            return run.violation(format!("an end is not told: {untold}"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// No process that the store does not know, no mark without a job, no control group of a job that is over.
fn check_leftovers(run: &mut Scenario<'_>, jobs: &[Value]) {
    let deadline = Instant::now() + LIMIT;
    let mut left = run.home.processes();
    while !left.is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
        left = run.home.processes();
    }
    for &pid in &left {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        run.violation(format!("a process is left that nobody knows: {pid} {}", command.replace('\0', " ")));
        signal(pid, "KILL");
    }
    // Whoever collected before the last process was put away could not remove its group.
    if groups(run, jobs).any(|group| group.is_dir()) {
        run.home.run(["gc"]).ok();
    }
    for group in groups(run, jobs).filter(|group| group.is_dir()).collect::<Vec<_>>() {
        run.violation(format!("a control group is left: {}", group.display()));
    }
    let marks = std::fs::read_dir(run.home.store().join("live")).into_iter().flatten().flatten();
    let marks: Vec<_> = marks.map(|entry| entry.file_name()).collect();
    if !marks.is_empty() {
        run.violation(format!("marks of live jobs are left: {marks:?}"));
    }
}

/// Lists the control groups that jobs had.
fn groups<'a>(run: &'a Scenario<'_>, jobs: &'a [Value]) -> impl Iterator<Item = PathBuf> + 'a {
    jobs.iter().filter_map(|job| {
        let meta = std::fs::read(run.home.job_dir(job["job"].as_str()?).join("meta.json")).ok()?;
        let meta: Value = serde_json::from_slice(&meta).ok()?;
        meta["containment"]["group"].as_str().map(PathBuf::from)
    })
}
