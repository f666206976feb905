//! Queues: of the jobs of one only so many run at once, in the order in which they were put there.
//!
//! Proves that order and parallelism hold whatever process is killed, that a queued job costs no wake-up, and that no start is refused
//! that can wait.

mod after;
mod many;

use std::time::{Duration, Instant};

use outlive_tests::{Home, activity, guard_of, kill_with_guard, pid, signal, until};
use serde_json::{Value, json};

/// Starts a job in a queue that notes its start and its end, and runs until the file `NAME.go` is there.
fn put(home: &Home, queue: &str, name: &str) -> String {
    let line = "echo + $0 >> ledger; until [ -e $0.go ]; do sleep 0.01; done; echo - $0 >> ledger";
    home.start_with(&["--queue", queue, "--name", name], ["sh", "-c", line, name])
}

fn let_go(home: &Home, name: &str) {
    std::fs::write(home.path().join(format!("{name}.go")), "").expect("it can be written");
}

fn ledger(home: &Home) -> Vec<String> {
    let text = std::fs::read_to_string(home.path().join("ledger")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn queue(home: &Home, name: &str) -> Value {
    let listed = home.json(["queue", "list"]);
    let found = listed.as_array().expect("a list").iter().find(|queue| queue["queue"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {listed}")).clone()
}

fn status(home: &Home, job: &str) -> String {
    home.show(job)["status"].as_str().expect("a word").to_owned()
}

#[test]
fn jobs_wait_for_their_turn_and_come_in_their_order() {
    let home = Home::new();
    let jobs = ["a", "b", "c", "d"].map(|name| put(&home, "build", name));
    until("the first runs", || status(&home, &jobs[0]) == "running");
    let listed = queue(&home, "build");
    assert_eq!((&listed["parallel"], &listed["paused"]), (&json!(1), &json!(false)), "{listed}");
    assert_eq!((&listed["running"], &listed["queued"]), (&json!(jobs[..1]), &json!(jobs[1..])), "{listed}");
    let shown = home.show(&jobs[1]);
    assert_eq!(
        (&shown["status"], &shown["queue"], &shown["pid"]),
        (&json!("queued"), &json!("build"), &Value::Null)
    );
    let text = home.run(["list"]).ok().text();
    assert!(text.contains("queued: in build"), "{text}");
    assert!(home.run(["show", &jobs[1]]).ok().text().contains("build"));
    let table = home.run(["queue", "list"]).ok().text();
    assert!(table.contains("build") && table.contains(&jobs[1]), "{table}");
    // One that is ended while it waits is passed over.
    home.run(["kill", &jobs[2]]).ok();
    assert_eq!(home.show(&jobs[2])["reason"], "killed by outlive kill before it was started");
    for name in ["a", "b", "d"] {
        let_go(&home, name);
    }
    for job in [&jobs[0], &jobs[1], &jobs[3]] {
        assert_eq!(home.wait(job)["exit_code"], 0);
    }
    assert_eq!(ledger(&home), ["+ a", "- a", "+ b", "- b", "+ d", "- d"]);
    until("no process is left", || home.processes().is_empty());
    let left = std::fs::read_dir(home.store().join("queues/build/tickets")).expect("it is there").count();
    assert_eq!(left, 0);
    assert_eq!(std::fs::read_dir(home.store().join("waiting")).expect("it is there").count(), 0);
}

#[test]
fn a_queue_is_paused_resumed_and_widened() {
    let home = Home::new();
    home.configure("[queue.build]\nparallel = 2\n");
    home.run(["queue", "pause", "build"]).ok();
    let jobs = ["a", "b", "c", "d", "e"].map(|name| put(&home, "build", name));
    assert!(jobs.iter().all(|job| status(&home, job) == "queued"), "a paused queue starts nothing");
    let said = home.run(["queue", "resume", "build"]).ok().text();
    assert!(said.starts_with("build: 2 at once"), "{said}");
    until("two run", || queue(&home, "build")["running"] == json!(jobs[..2]));
    home.run(["queue", "parallel", "build", "3"]).ok();
    until("three run", || queue(&home, "build")["running"] == json!(jobs[..3]));
    // Of more than may run none is ended, and none is started in their place.
    home.run(["queue", "parallel", "build", "1"]).ok();
    let_go(&home, "a");
    let_go(&home, "b");
    home.wait(&jobs[0]);
    home.wait(&jobs[1]);
    assert_eq!(queue(&home, "build")["queued"], json!(jobs[3..]), "c still runs");
    let_go(&home, "c");
    until("the next runs", || queue(&home, "build")["running"] == json!(jobs[3..4]));
    // What was set by hand stays while the configuration says the same, and another start does not change it.
    put(&home, "build", "f");
    assert_eq!(queue(&home, "build")["parallel"], 1);
    home.configure("[queue.build]\nparallel = 4\n");
    put(&home, "build", "g");
    until("all run", || queue(&home, "build")["queued"] == json!([]));
    ["d", "e", "f", "g"].iter().for_each(|name| let_go(&home, name));
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let home = Home::new();
    let unknown = home.run(["queue", "pause", "build"]).code(3).error();
    assert!(unknown.contains("there is no queue build") && unknown.contains("--queue"), "{unknown}");
    let refused = home.run(["queue", "parallel", "build", "0"]).code(2).error();
    assert!(refused.contains("from 1 to 500"), "{refused}");
    let refused = home.run(["run", "--queue", "../x", "true"]).code(2).error();
    assert!(
        refused.contains("--queue") && refused.contains("must begin with a letter or digit"),
        "{refused}"
    );
    home.run(["queue", "parallel", "build", "3"]).ok();
    let unknown = home.run(["queue", "resume", "biuld"]).code(3).error();
    assert!(unknown.contains("there are build"), "{unknown}");
}

#[test]
fn a_place_in_the_queue_outlives_keepers_and_guards() {
    let home = Home::new();
    let jobs = ["a", "b", "c", "d"].map(|name| put(&home, "build", name));
    until("the first runs", || status(&home, &jobs[0]) == "running");
    let keeper = |job: &str| pid(&home.show(job), "keeper_pid");
    // Of one that waits: its keeper, then its guard.
    let first = keeper(&jobs[1]);
    signal(first, "KILL");
    until("another keeper waits", || keeper(&jobs[1]) != first);
    let second = keeper(&jobs[1]);
    let guard = guard_of(second).expect("it has one");
    signal(guard, "KILL");
    until("it has another guard", || {
        let keeper = keeper(&jobs[1]);
        keeper != second && guard_of(keeper).is_some_and(|other| other != guard)
    });
    assert_eq!(queue(&home, "build")["queued"], json!(jobs[1..]), "it has kept its place");
    // Of the one that runs: the slot stays its own.
    let first = keeper(&jobs[0]);
    signal(first, "KILL");
    until("its guard is the keeper", || keeper(&jobs[0]) != first);
    assert_eq!(queue(&home, "build")["running"], json!(jobs[..1]));
    // Both at once: the kernel gives the place back, and those behind come forward.
    kill_with_guard(keeper(&jobs[2]));
    let_go(&home, "a");
    until("the second runs", || status(&home, &jobs[1]) == "running");
    assert_eq!(ledger(&home), ["+ a", "- a", "+ b"]);
    // Both of one that runs: its slot is free.
    kill_with_guard(keeper(&jobs[1]));
    until("the last runs", || status(&home, &jobs[3]) == "running");
    assert_eq!(home.show(&jobs[2])["cause"], "never_started");
    let_go(&home, "b");
    let_go(&home, "d");
    home.wait(&jobs[3]);
    until("no process is left", || home.processes().is_empty());
}

/// A keeper that makes another, because its guard died while the job waited, is the guard of that one: all that a guard is.
#[test]
fn a_job_that_lost_its_guard_while_it_waited_outlives_its_keeper() {
    let home = Home::new();
    home.run(["queue", "parallel", "build", "1"]).ok();
    home.run(["queue", "pause", "build"]).ok();
    let jobs = ["a", "b"].map(|name| put(&home, "build", name));
    let keeper = |job: &str| pid(&home.show(job), "keeper_pid");
    let first = keeper(&jobs[0]);
    signal(guard_of(first).expect("it has one"), "KILL");
    until("it has another keeper, and is its guard", || guard_of(keeper(&jobs[0])) == Some(first));
    home.run(["queue", "resume", "build"]).ok();
    until("the first runs", || ledger(&home) == ["+ a"] && status(&home, &jobs[0]) == "running");
    signal(keeper(&jobs[0]), "KILL");
    until("its guard is the keeper", || keeper(&jobs[0]) == first);
    assert_eq!(queue(&home, "build")["running"], json!(jobs[..1]), "the slot is still its own");
    ["a", "b"].iter().for_each(|name| let_go(&home, name));
    for job in &jobs {
        let shown = home.wait(job);
        assert_eq!((&shown["status"], &shown["exit_code"]), (&json!("completed"), &json!(0)), "{shown}");
    }
    assert_eq!(ledger(&home), ["+ a", "- a", "+ b", "- b"]);
    until("no process is left", || home.processes().is_empty());
}

/// Before this, the second to go on closed a descriptor of the record that it had just opened, and the third found none: the slot was
/// free while the command ran.
#[test]
fn a_slot_and_the_output_outlive_keepers_that_die_one_after_the_other() {
    let home = Home::new();
    let line = "echo + a >> ledger; n=0; until [ -e a.go ]; do n=$((n + 1)); echo $n; sleep 0.01; done; \
                echo $n > last; echo - a >> ledger; exit 7";
    let job = home.start_with(&["--queue", "build", "--name", "a"], ["sh", "-c", line]);
    let next = put(&home, "build", "b");
    let (keeper, mut dead) = (|| pid(&home.show(&job), "keeper_pid"), 0);
    let printed = || home.run(["logs", &job]).ok().text().lines().count();
    for death in 1..=5 {
        until("it is kept", || status(&home, &job) == "running" && keeper() != dead);
        let before = printed();
        until("what it prints is kept", || printed() > before);
        dead = keeper();
        signal(dead, "KILL");
        until("another process goes on", || keeper() != dead);
        assert_eq!(queue(&home, "build")["running"], json!([job]), "death {death}");
        assert_eq!(status(&home, &next), "queued", "death {death}");
    }
    ["a", "b"].iter().for_each(|name| let_go(&home, name));
    let shown = home.wait(&job);
    if outlive_sys::exit::can_tell() {
        assert_eq!(shown["exit_code"], 7, "{shown}");
    }
    let last = std::fs::read_to_string(home.path().join("last")).expect("it is written");
    let whole: String =
        (1..=last.trim_end().parse().expect("a number")).map(|n: u32| format!("{n}\n")).collect();
    assert_eq!(home.run(["logs", &job]).ok().text(), whole);
    assert_eq!(home.wait(&next)["exit_code"], 0);
    assert_eq!(ledger(&home), ["+ a", "- a", "+ b", "- b"]);
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn a_queued_job_is_not_woken_by_what_does_not_concern_it() {
    let home = Home::new();
    let jobs = ["a", "b", "c", "d"].map(|name| put(&home, "build", name));
    until("the first runs", || status(&home, &jobs[0]) == "running");
    let processes = |job: &str| {
        let keeper = pid(&home.show(job), "keeper_pid");
        [keeper, guard_of(keeper).expect("it has one")]
    };
    let waiting: Vec<i32> = jobs[1..].iter().flat_map(|job| processes(job)).collect();
    let last = processes(&jobs[3]);
    let counted = |pids: &[i32]| -> Vec<u64> { pids.iter().map(|pid| activity(*pid)).collect() };
    // A keeper that has just answered may still be on its way to sleep.
    let (mut before, mut since) = (counted(&waiting), Instant::now());
    until("all have slept for a while", || {
        let now = counted(&waiting);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_millis(300)
    });
    // Another front end that lists, another job that comes behind: neither concerns those before it.
    let before = counted(&waiting);
    put(&home, "build", "e");
    home.run(["list"]).ok();
    home.run(["queue", "list"]).ok();
    assert_eq!(counted(&waiting), before);
    // The first goes on to the second; the last one sleeps on.
    let before = counted(&last);
    let_go(&home, "a");
    until("the second runs", || status(&home, &jobs[1]) == "running");
    assert_eq!(counted(&last), before);
    ["b", "c", "d", "e"].iter().for_each(|name| let_go(&home, name));
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn what_is_queued_counts_for_a_limit_of_its_own() {
    let home = Home::new();
    home.configure("[limits]\nsession = 2\nqueued = 3\n");
    let jobs = ["a", "b", "c", "d"].map(|name| put(&home, "build", name));
    until("the first runs", || status(&home, &jobs[0]) == "running");
    let refused = home.run(["run", "--queue", "build", "true"]).code(5).error();
    assert!(refused.contains("3 jobs wait to be started, and the limit is 3"), "{refused}");
    // The one that runs leaves room for one.
    let plain = home.start(["sleep", "300"]);
    home.run(["run", "true"]).code(5).error();
    home.run(["kill", &plain]).ok();
    ["a", "b", "c", "d"].iter().for_each(|name| let_go(&home, name));
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn a_start_over_the_limit_is_queued_where_the_configuration_says_so() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\noverflow = \"later\"\n");
    let first = home.start(["sleep", "300"]);
    let waits = home.run(["run", "--name", "b", "until [ -e b.go ]; do sleep 0.01; done"]).ok();
    assert!(waits.error().contains("it waits in queue later"), "{}", waits.error());
    let last = home.run(["run", "--name", "c", "true"]).ok().text().trim_end().to_owned();
    assert_eq!(status(&home, &last), "queued");
    let_go(&home, "b");
    assert_eq!(home.wait(&last)["exit_code"], 0);
    home.run(["kill", &first]).ok();
}

#[test]
fn a_run_that_follows_by_itself_waits_for_its_turn_again() {
    let home = Home::new();
    let line =
        "if [ -e again ]; then exit 0; fi; until [ -e a.go ]; do sleep 0.01; done; touch again; exit 1";
    let options = ["--queue", "build", "--name", "a", "--restart", "on-failure", "--restart-delay", "10ms"];
    home.start_with(&options, ["sh", "-c", line]);
    let other = put(&home, "build", "b");
    let_go(&home, "a");
    until("the other has its turn", || status(&home, &other) == "running");
    let runs = || {
        let jobs = home.json(["list"]);
        let jobs = jobs.as_array().expect("a list").iter();
        jobs.filter(|job| job["name"] == "a").cloned().collect::<Vec<_>>()
    };
    until("the next run waits", || runs().len() == 2);
    assert_eq!(runs()[1]["status"], "queued");
    let_go(&home, "b");
    until("the next run has its turn", || runs()[1]["status"] == "completed");
    until("no process is left", || home.processes().is_empty());
}
