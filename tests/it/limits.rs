//! How many jobs may be live.
//!
//! Proves S0-98 (50 a session), S0-99 (200 in all), S0-102 (a warning when a limit is near), S0-118, S0-125 and S0-157
//! (limits are enforced).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File};
use std::path::PathBuf;

use outlive::{LimitError, Request, SessionName, StartError};
use outlive_tests::{Home, is_running, pid, signal, until};

fn marks(home: &Home) -> usize {
    fs::read_dir(home.store().join("live")).unwrap().count()
}

#[test]
fn one_more_than_the_session_may_have_is_refused_with_counts_and_a_hint() {
    let home = Home::new();
    home.configure("[limits]\nsession = 2\n");
    let jobs = [home.start(["sleep", "300"]), home.start(["sleep", "300"])];
    let refused = home.run(["--json", "run", "--", "true"]).code(5).error_json();
    let error = &refused["error"];
    assert_eq!(error["code"], "limit_reached");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("2 jobs are live in session default") && message.contains("limit is 2"),
        "{message}"
    );
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("outlive kill") && hint.contains("config.toml"), "{hint}");
    let text = home.run(["run", "--", "true"]).code(5).error();
    assert!(text.starts_with("outlive: run: 2 jobs are live") && text.contains("\nhint: "), "{text}");
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 2, "what was refused leaves nothing behind");

    home.run(["kill", &jobs[0]]).ok();
    home.wait(&home.start(["true"]));
}

#[test]
fn all_sessions_together_have_a_limit_too() {
    let home = Home::new();
    home.configure("[limits]\ntotal = 3\n");
    for session in ["a", "b", "c"] {
        home.start_with(&["--session", session], ["sleep", "300"]);
    }
    let refused = home.run(["--json", "run", "--session", "d", "--", "true"]).code(5).error_json();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("3 jobs are live in all") && message.contains("limit is 3"), "{message}");
}

#[test]
fn sessions_are_counted_apart() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    home.start_with(&["--session", "one"], ["sleep", "300"]);
    home.start_with(&["--session", "two"], ["sleep", "300"]);
    home.start_with(&["--session", "one.more"], ["sleep", "300"]);
    home.run(["run", "--session", "one", "--", "true"]).code(5);
    home.run(["run", "--session", "two", "--", "true"]).code(5);
}

#[test]
fn at_four_fifths_there_is_one_warning() {
    let home = Home::new();
    home.configure("[limits]\nsession = 5\ntotal = 10\n");
    let warnings = |session: &str| {
        let started = home.run(["run", "--session", session, "--", "sleep", "300"]).ok();
        started.error()
    };
    for _ in 1..=3 {
        assert_eq!(warnings("a"), "");
    }
    assert_eq!(warnings("a"), "outlive: warning: 4 of 5 live jobs of session a are used\n");
    assert_eq!(warnings("a"), "", "once");
    for _ in 6..=7 {
        assert_eq!(warnings("b"), "");
    }
    assert_eq!(warnings("b"), "outlive: warning: 8 of 10 live jobs are used\n");
}

#[test]
fn without_configuration_it_is_fifty_a_session_and_two_hundred_in_all() {
    let home = Home::new();
    let store = home.open();
    let start = |session: &str| {
        let request =
            Request::argv(["sleep", "300"]).cwd(home.path()).session(SessionName::parse(session).unwrap());
        // The harness finds the processes of a home by this variable.
        store.start(&request.env("OUTLIVE_HOME", home.store()))
    };
    for session in ["a", "b", "c", "d"] {
        for count in 1..=50 {
            let started = start(session).unwrap();
            assert_eq!(
                started.warning.is_some(),
                count == 40 || session == "d" && count == 10,
                "{session} {count}"
            );
        }
        match start(session) {
            Err(StartError::Limit(LimitError::Session { live: 50, limit: 50, .. })) => {}
            other => panic!("{other:?}"),
        }
    }
    match start("e") {
        Err(StartError::Limit(LimitError::Total { live: 200, limit: 200 })) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_that_has_ended_frees_its_slot_at_once() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    for code in 0..20 {
        let done = home.run(["run", "--wait", &format!("exit {code}")]);
        assert_eq!(done.code, code, "{}", done.error());
    }
    let job = home.start(["sleep", "300"]);
    home.run(["kill", &job]).ok();
    home.run(["run", "--wait", "true"]).ok();
    home.run(["run", "--", "./no-such-program"]).code(127);
    home.run(["run", "--wait", "true"]).ok();
    until("no mark is left", || marks(&home) == 0);
}

#[test]
fn the_mark_of_a_job_that_died_with_its_keeper_does_not_count() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let job = home.start(["sleep", "300"]);
    let shown = home.show(&job);
    let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
    outlive_tests::kill_with_guard(keeper);
    signal(command, "KILL");
    until("both are gone", || !is_running(keeper) && !is_running(command));
    assert_eq!(marks(&home), 1, "nobody could remove it");
    let next = home.start(["true"]);
    home.wait(&next);
    assert_eq!(home.show(&job)["status"], "lost");
}

#[test]
fn a_mark_without_a_job_does_not_count() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    home.wait(&home.start(["true"]));
    for name in ["ghost-0000@default", "no job at all@default", "@default"] {
        fs::write(home.store().join("live").join(name), "").unwrap();
    }
    home.wait(&home.start(["true"]));
}

/// Leaves what a starter leaves that dies right before its job gets its place; its lock is free then.
fn leave_half_started(home: &Home, id: &str) -> PathBuf {
    let path = home.store().join("new").join(id);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("lock"), "").unwrap();
    fs::write(home.store().join("live").join(format!("{id}@default")), "").unwrap();
    path.join("lock")
}

#[test]
fn the_mark_of_a_starter_that_died_half_way_does_not_count() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    home.wait(&home.start(["true"]));
    leave_half_started(&home, "dead-0000");
    home.wait(&home.start(["true"]));
}

#[test]
fn the_mark_of_a_starter_that_is_at_work_counts() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    home.wait(&home.start(["true"]));
    let lock = File::open(leave_half_started(&home, "slow-0000")).unwrap();
    assert!(outlive_sys::lock::try_lock(&lock, outlive_sys::lock::Kind::Exclusive).unwrap());
    home.run(["run", "--", "true"]).code(5);
}

#[test]
fn a_job_that_lost_its_keeper_counts_while_its_command_runs() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let job = home.start(["sleep", "300"]);
    let shown = home.show(&job);
    let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
    outlive_tests::kill_with_guard(keeper);
    until("its keeper is gone", || !is_running(keeper));
    home.run(["run", "--", "true"]).code(5);
    signal(command, "KILL");
    until("its command is gone", || !is_running(command));
    home.wait(&home.start(["true"]));
}
