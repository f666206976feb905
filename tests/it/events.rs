//! What happened to jobs is told once, in order, whoever was there to write it down.
//!
//! Proves of the design: every fact is one event; a limit that is near and an ending that a front end finds out are events, once.

use std::collections::HashSet;

use outlive_tests::{Home, pid, signal, until};
use serde_json::Value;

fn events(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let done = home.run([&["events", "--json"], arguments].concat()).ok();
    let text = done.text();
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Reads the events once they are as many.
fn told(home: &Home, count: usize, arguments: &[&str]) -> Vec<Value> {
    until("the events are told", || events(home, arguments).len() >= count);
    events(home, arguments)
}

fn words(events: &[Value], job: &str) -> Vec<String> {
    let of_job = events.iter().filter(|event| event["job"] == job);
    of_job.map(|event| event["event"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_job_is_started_exits_and_is_removed() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "exit 7"]);
    home.run(["wait", &job]).ok();
    let told = told(&home, 2, &[]);
    assert_eq!(words(&told, &job), ["started", "exited"]);
    assert_eq!((&told[1]["exit_code"], &told[1]["status"]), (&7.into(), &"failed".into()));
    home.run(["remove", &job]).ok();
    assert_eq!(words(&events(&home, &[]), &job), ["started", "exited", "removed"]);
}

#[test]
fn what_comes_after_a_sequence_is_told_alone() {
    let home = Home::new();
    let job = home.start(["true"]);
    home.run(["wait", &job]).ok();
    let told = told(&home, 2, &["--session", "default"]);
    let first = told[0]["seq"].to_string();
    assert_eq!(events(&home, &["--session", "default", "--since", &first]), told[1..]);
    let last = told[1]["seq"].to_string();
    assert!(events(&home, &["--session", "default", "--since", &last]).is_empty());
}

#[test]
fn a_command_that_never_started_is_an_event_and_so_is_a_limit_that_is_near() {
    let home = Home::new();
    home.run(["run", "--", "/nowhere/program"]).code(127);
    let told = told(&home, 1, &[]);
    assert_eq!((&told[0]["event"], &told[0]["status"]), (&"exited".into(), &"failed".into()));
    let job = home.start_with(&["--pids", "4"], ["sh", "-c", "sleep 60 & sleep 60 & sleep 60 & wait"]);
    let near = || events(&home, &[]).into_iter().find(|event| event["event"] == "limit_near");
    until("the limit is near", || near().is_some());
    let near = near().unwrap_or_default();
    assert_eq!((&near["job"], &near["limit"]), (&Value::from(job), &"pids".into()));
}

#[test]
fn a_job_whose_keeper_dies_is_orphaned_once_and_lost_once() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let shown = home.show(&job);
    signal(pid(&shown, "keeper_pid"), "KILL");
    until("it is orphaned", || home.show(&job)["orphaned"] == true);
    home.run(["list"]).ok();
    assert_eq!(words(&events(&home, &[]), &job), ["started", "orphaned"]);
    signal(pid(&shown, "pid"), "KILL");
    until("it is lost", || home.show(&job)["status"] == "lost");
    home.run(["list"]).ok();
    assert_eq!(words(&events(&home, &[]), &job), ["started", "orphaned", "lost"]);
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let home = Home::new();
    let store = home.open();
    let ids: HashSet<String> = std::thread::scope(|scope| {
        let start = || {
            let started = (0..10).map(|_| store.start(&outlive::Request::argv(["true"])).expect("it starts"));
            started.map(|started| started.job.id().to_string()).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread fails")).collect()
    });
    let told = told(&home, 80, &[]);
    for id in &ids {
        let mut words = words(&told, id);
        words.sort();
        assert_eq!(words, ["exited", "started"], "{id}");
    }
}
