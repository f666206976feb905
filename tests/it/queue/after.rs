//! `--after`: a job that is started when something holds of another, in whatever session that was started.
//!
//! Proves that what can never hold is told, at once or when it turns out, and that the wait costs no wake-up and outlives its keeper.

use outlive_tests::{Home, activity, guard_of, pid, signal, until};
use serde_json::json;

use super::{let_go, status};

const WAITS: &str = "echo up; until [ -e a.go ]; do sleep 0.01; done";

#[test]
fn a_job_is_started_when_another_has_come_so_far() {
    let home = Home::new();
    let a = home.start_with(&["--name", "a", "--ready-on", "up"], ["sh", "-c", WAITS]);
    // By its name, and by its id.
    let ended = home.start_with(&["--after", "a"], ["true"]);
    let succeeded = home.start_with(&["--after", &format!("{a}@succeeded")], ["true"]);
    let ready = home.start_with(&["--after", "a@ready", "--after", "a@started"], ["true"]);
    assert_eq!(home.wait(&ready)["exit_code"], 0);
    assert_eq!((status(&home, &ended), status(&home, &succeeded)), ("queued".into(), "queued".into()));
    assert!(home.run(["list"]).ok().text().contains(&format!("queued: after {a}@completed")));
    assert_eq!(home.show(&succeeded)["after"], json!([format!("{a}@succeeded")]));
    let_go(&home, "a");
    assert_eq!(home.wait(&ended)["exit_code"], 0);
    assert_eq!(home.wait(&succeeded)["exit_code"], 0);
    // What has come already is not waited for.
    let late = home.start_with(&["--after", "a@succeeded"], ["true"]);
    assert_eq!(home.wait(&late)["exit_code"], 0);
}

#[test]
fn a_job_that_waits_in_a_queue_is_started_later() {
    let home = Home::new();
    home.run(["queue", "parallel", "build", "1"]).ok();
    home.run(["queue", "pause", "build"]).ok();
    let a = home.start_with(&["--name", "a", "--queue", "build"], ["sh", "-c", WAITS]);
    let started = home.start_with(&["--after", "a@started"], ["true"]);
    assert_eq!((status(&home, &a), status(&home, &started)), ("queued".into(), "queued".into()));
    home.run(["queue", "resume", "build"]).ok();
    assert_eq!(home.wait(&started)["exit_code"], 0);
    assert_eq!(status(&home, &a), "running");
    // First the other job, and then its turn.
    let both = home.start_with(&["--after", "a", "--queue", "build"], ["true"]);
    assert!(home.run(["list"]).ok().text().contains("@completed, in build"));
    let_go(&home, "a");
    assert_eq!(home.wait(&both)["exit_code"], 0);
}

#[test]
fn what_can_never_hold_fails_at_once_with_the_reason() {
    let home = Home::new();
    let failed = home.start(["sh", "-c", "exit 3"]);
    home.wait(&failed);
    let refused = |after: &str, code: i32| home.run(["run", "--after", after, "true"]).code(code).error();
    let text = refused(&format!("{failed}@succeeded"), 6);
    assert!(text.contains("can no longer come: exited with 3"), "{text}");
    let text = refused(&format!("{failed}@ready"), 6);
    assert!(text.contains("never says when it is ready") && text.contains("--ready-on"), "{text}");
    assert!(refused("nothing-0000", 3).contains("nothing-0000"));
    let text = refused(&format!("{failed}@done"), 2);
    assert!(text.contains("@succeeded"), "{text}");
    assert_eq!(home.json(["list"]).as_array().expect("a list").len(), 1, "nothing was started");
}

#[test]
fn what_can_no_longer_hold_ends_the_wait_with_the_reason() {
    let home = Home::new();
    let line = "until [ -e a.go ]; do sleep 0.01; done; exit 4";
    let a = home.start_with(&["--name", "a", "--ready-on", "never"], ["sh", "-c", line]);
    let succeeded = home.start_with(&["--after", "a@succeeded"], ["true"]);
    let ready = home.start_with(&["--after", "a@ready"], ["true"]);
    let_go(&home, "a");
    for (job, what) in [(&succeeded, "succeeded"), (&ready, "ready")] {
        let shown = home.wait(job);
        assert_eq!(
            (&shown["status"], &shown["cause"]),
            (&json!("failed"), &json!("never_started")),
            "{shown}"
        );
        let reason = format!("it was not started: {a}@{what} can no longer come: it exited with 4");
        assert_eq!(shown["reason"], reason);
    }
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn the_wait_outlives_its_keeper_and_sleeps() {
    let home = Home::new();
    let line = "until [ -e a.go ]; do echo tick; sleep 0.01; done";
    let a = home.start_with(&["--name", "a"], ["sh", "-c", line]);
    let b = home.start_with(&["--after", "a"], ["true"]);
    let keeper = || pid(&home.show(&b), "keeper_pid");
    let first = keeper();
    signal(first, "KILL");
    until("another keeper waits", || keeper() != first);
    home.wait_for_output(&a, "tick\ntick");
    // What the other one prints wakes neither of the two.
    let pids = [keeper(), guard_of(keeper()).expect("it has one")];
    let counted = || pids.map(activity);
    until("it sleeps while the other one prints", || {
        let (before, printed) = (counted(), home.logs(&a).len());
        until("more is printed", || home.logs(&a).len() > printed + 50);
        counted() == before
    });
    let_go(&home, "a");
    assert_eq!(home.wait(&b)["exit_code"], 0);
    until("no process is left", || home.processes().is_empty());
}
