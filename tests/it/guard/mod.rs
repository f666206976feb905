//! A job survives the SIGKILL of its own keeper: its guard goes on, and nothing is lost.
//!
//! Proves of the design: the output is whole, the exit code is right, there is one outcome, and waiters are told once. The jobs print
//! numbered lines on both streams and exit with 7. Many deaths at random moments are in `random`, and what else a job must not lose
//! with its keeper in `kept`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

mod kept;
mod random;

use std::fs;
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within, everywhere, guard_of, is_running, pid, signal, until};
use serde_json::Value;

/// Prints so many numbered lines on both streams, with a pause after each, and exits with 7.
pub(crate) fn printing(lines: u32, pause: &str) -> String {
    format!("n=0; while [ $n -lt {lines} ]; do echo o$n; echo e$n >&2; n=$((n+1)); {pause}; done; exit 7")
}

pub(crate) fn keeper(home: &Home, job: &str) -> i32 {
    pid(&home.show(job), "keeper_pid")
}

/// Kills the keeper of a job, and waits until its guard has taken over.
pub(crate) fn replace_keeper(home: &Home, job: &str) -> i32 {
    let first = keeper(home, job);
    signal(first, "KILL");
    until("its guard is the keeper", || keeper(home, job) != first);
    assert_eq!(home.show(job)["orphaned"], false);
    keeper(home, job)
}

/// Returns how long a job's log is.
fn printed(home: &Home, job: &str) -> u64 {
    let entries = fs::read_dir(home.job_dir(job)).into_iter().flatten().flatten();
    let is_log = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".log");
    entries
        .filter(|entry| is_log(&entry.file_name()))
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

pub(crate) fn events(home: &Home, job: &str) -> Vec<String> {
    let text = home.run(["events", "--json"]).ok().text();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["job"] == job).map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that a job ended with 7 and that all of both streams is there, in order.
pub(crate) fn assert_whole(home: &Home, job: &str, lines: u32) {
    let shown = home.wait(job);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"failed".into(), &7.into()), "{shown}");
    for (stream, letter) in [("stdout", 'o'), ("stderr", 'e')] {
        let text = home.run(["logs", "--stream", stream, job]).ok().text();
        let wanted: String = (0..lines).map(|number| format!("{letter}{number}\n")).collect();
        assert!(text == wanted, "{stream} of {job}: {} lines: {text}", text.lines().count());
    }
    assert_eq!(shown["output"]["stdout_lines"], lines, "{shown}");
    assert_eq!(shown["output"]["stderr_lines"], lines, "{shown}");
    assert_eq!(shown["output"]["dropped_bytes"], 0, "{shown}");
    let ends = events(home, job).into_iter().filter(|event| event == "exited" || event == "lost");
    assert_eq!(ends.count(), 1, "{shown}");
}

#[test]
fn a_killed_keeper_loses_nothing() {
    let home = Home::new();
    let job = home.start(["sh", "-c", &printing(300, "sleep 0.003")]);
    home.wait_for_output(&job, "o20");
    let mut waiter = home.outlive(["wait", &job]).stdout(Stdio::piped()).spawn().unwrap();
    replace_keeper(&home, &job);
    assert_whole(&home, &job, 300);
    assert_eq!(end_within(&mut waiter, LIMIT), Some(7), "it failed");
    assert_eq!(events(&home, &job), ["started", "keeper_replaced", "exited"]);
    until("no process of it is left", || home.processes().is_empty());
}

#[test]
fn a_keeper_makes_another_guard_and_the_job_survives_both() {
    if !outlive_sys::exit::can_tell() {
        return outlive_tests::lacks("Linux 6.15, to learn the exit status after a second death");
    }
    everywhere(|home, level| {
        let script = printing(200, "sleep 0.01");
        let job = home.start_with(&["--containment", level.word()], ["sh", "-c", &script]);
        let first = keeper(home, &job);
        let guard = guard_of(first).unwrap();
        assert_eq!(pid(&home.show(&job), "guard_pid"), guard);
        signal(guard, "KILL");
        until("there is another guard", || guard_of(first).is_some_and(|other| other != guard));
        until("it is named", || pid(&home.show(&job), "guard_pid") != guard);
        assert_eq!(keeper(home, &job), first, "the keeper goes on");
        replace_keeper(home, &job);
        assert_whole(home, &job, 200);
        until("no process of it is left", || home.processes().is_empty());
    });
}

#[test]
fn input_that_was_taken_arrives_once() {
    let home = Home::new();
    // It reads nothing before it is told to, so that the keeper holds most of it.
    let line = "until [ -e go ]; do sleep 0.01; done; cat > received; exit 7";
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", line]);
    let text: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    let mut sending = home.outlive(["send", &job, "-"]).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut sending.stdin.take().unwrap(), text.as_bytes()).unwrap();
    assert_eq!(end_within(&mut sending, LIMIT), Some(0));
    replace_keeper(&home, &job);
    home.run(["send", &job, "the end"]).ok();
    home.run(["send", &job, "--eof"]).ok();
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(home.wait(&job)["exit_code"], 7);
    assert!(fs::read_to_string(home.path().join("received")).unwrap() == format!("{text}the end\n"));
}

#[test]
fn a_deadline_and_a_kill_under_way_are_kept() {
    everywhere(|home, level| {
        // What has left a bare process group is not reached.
        if level == outlive::Level::Group {
            return;
        }
        let options = ["--containment", level.word(), "--timeout", "2s", "--grace", "100ms"];
        let line = "trap '' TERM; setsid sleep 300 & while :; do sleep 300; done";
        let job = home.start_with(&options, ["sh", "-c", line]);
        replace_keeper(home, &job);
        let shown = home.wait(&job);
        assert_eq!((&shown["status"], &shown["cause"]), (&"timed_out".into(), &"timeout".into()), "{shown}");
        until("its tree is gone", || home.processes().is_empty());

        let job = home.start_with(&["--containment", level.word(), "--grace", "2s"], ["sh", "-c", line]);
        until("its child runs", || home.processes().len() >= 4);
        let (first, main) = (keeper(home, &job), pid(&home.show(&job), "pid"));
        let mut killing = home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().unwrap();
        until("it asks", || outlive_tests::waits_with_open(i32::try_from(killing.id()).unwrap(), "socket:"));
        signal(first, "KILL");
        assert_eq!(end_within(&mut killing, LIMIT), Some(0));
        assert!(!is_running(main));
        assert_eq!(home.wait(&job)["status"], "killed");
        until("its tree is gone", || home.processes().is_empty());
    });
}

#[test]
fn survivors_are_kept_and_ended_by_the_guard() {
    everywhere(|home, level| {
        // What has left a bare process group is not reached.
        if level == outlive::Level::Group {
            return;
        }
        let line = "(setsid sh -c 'echo $$ > left; exec sleep 300' &); until [ -s left ]; do sleep 0.01; done; \
            until [ -e go ]; do sleep 0.01; done; exit 7";
        let job = home.start_with(&["--containment", level.word()], ["sh", "-c", line]);
        let left = || fs::read_to_string(home.path().join("left")).ok()?.trim().parse::<i32>().ok();
        until("it leaves a child behind", || left().is_some());
        let left = left().unwrap();
        replace_keeper(home, &job);
        fs::write(home.path().join("go"), "").unwrap();
        let shown = home.wait(&job);
        assert_eq!((&shown["exit_code"], &shown["lingering"]), (&7.into(), &true.into()), "{shown}");
        assert!(is_running(left));
        home.run(["kill", &job]).ok();
        until("its tree is gone", || home.processes().is_empty());
        assert!(home.show(&job)["closed_at"].is_string());
        fs::remove_file(home.path().join("left")).unwrap();
        fs::remove_file(home.path().join("go")).unwrap();
    });
}
