//! Exit is not end of file: processes that the command leaves behind.
//!
//! Proves S0-106 (what a command leaves behind is never lost sight of: it is listed, counted and killable) and, for
//! survivors, S0-98 (they count against the limits).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use outlive_tests::{Home, LIMIT, binary, end_within, is_running, until};
use serde_json::Value;

const KINDS: [&str; 4] = ["plain", "quiet", "setsid", "daemon"];

/// Starts `leaves-behind`; returns the job and the pid of the survivor once it runs.
fn leave_behind(home: &Home, how: &str) -> (String, i32) {
    let job = home.start([binary("leaves-behind").to_str().unwrap(), how, "300"]);
    home.wait_for_output(&job, "\n");
    let survivor = String::from_utf8(home.logs(&job)).unwrap().trim().parse().unwrap();
    assert!(is_running(survivor), "{how}");
    (job, survivor)
}

/// Makes a gate: a process that opens it for reading waits until [`open_gate`].
fn make_gate(home: &Home) {
    assert!(Command::new("mkfifo").arg(home.path().join("gate")).status().unwrap().success());
}

fn open_gate(directory: &Path) {
    // Opening it for both never blocks, and waiting readers go on.
    let gate = OpenOptions::new().read(true).write(true).open(directory.join("gate")).unwrap();
    std::io::Write::write_all(&mut &gate, b"\n").unwrap();
    // It stays open for readers that come late.
    std::mem::forget(gate);
}

/// Returns the facts that no survivor may change.
fn outcome(job: &Value) -> [&Value; 6] {
    ["status", "exit_code", "signal", "cause", "ended_at", "runtime_ms"].map(|field| &job[field])
}

#[test]
fn a_command_in_the_background_does_not_hang_wait() {
    let home = Home::new();
    let job = home.start_line("sleep 300 & echo $!");
    let ended = home.wait(&job);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"completed".into(), &0.into()));
    assert_eq!(ended["lingering"], true);
    assert_eq!(ended["cause"], "natural");
    let survivor: i32 = String::from_utf8(home.logs(&job)).unwrap().trim().parse().unwrap();
    assert!(is_running(survivor));
}

#[test]
fn survivors_of_every_kind_keep_the_job_live_until_they_are_killed() {
    let home = Home::new();
    for how in KINDS {
        let (job, survivor) = leave_behind(&home, how);
        let ended = home.wait(&job);
        assert_eq!((&ended["status"], &ended["exit_code"]), (&"completed".into(), &0.into()), "{how}");
        let shown = home.show(&job);
        assert_eq!((&shown["lingering"], &shown["closed_at"]), (&true.into(), &Value::Null), "{how}");
        let live = home.json(["list", "--live"]);
        assert_eq!(live[0]["job"], *job, "{how}");
        assert_eq!((&live[0]["status"], &live[0]["lingering"]), (&"completed".into(), &true.into()), "{how}");
        let text = home.run(["list"]).ok().text();
        let line = text.lines().find(|line| line.starts_with(&job)).unwrap();
        assert!(line.contains("lingering"), "{line}");

        let refused = home.run(["--json", "remove", &job]).code(1).error_json();
        assert_eq!(refused["error"]["code"], "live", "{how}: {refused}");
        assert!(home.job_dir(&job).is_dir() && is_running(survivor), "{how}");

        let killed = home.json(["kill", &job]);
        assert_eq!(killed[0]["already_ended"], false, "{how}: {killed}");
        assert_eq!(killed[0]["signalled"], 1, "{how}: {killed}");
        assert!(!is_running(survivor), "{how}");
        let closed = home.show(&job);
        assert_eq!(closed["lingering"], false, "{how}");
        assert!(closed["closed_at"].is_string(), "{how}: {closed}");
        assert_eq!(outcome(&closed), outcome(&shown), "{how}");
        assert_eq!(home.json(["list", "--live"]), Value::Array(Vec::new()), "{how}");
        home.run(["remove", &job]).ok();
    }
}

#[test]
fn following_goes_on_until_the_last_process_is_gone() {
    let home = Home::new();
    make_gate(&home);
    let job = home.start_line("(read go <gate; echo late; echo later >&2) & echo early");
    let mut child = home.outlive(["logs", "-f", &job]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
    assert_eq!(lines.next().as_deref(), Some("early"));
    let ended = home.wait(&job);
    assert_eq!(ended["lingering"], true);
    assert_eq!(child.try_wait().unwrap(), None, "the main process's end is not the end of the output");
    open_gate(home.path());
    let mut rest: Vec<String> = lines.collect();
    rest.sort();
    assert_eq!(rest, ["late", "later"]);
    assert_eq!(end_within(&mut child, LIMIT), Some(0));

    until("the job is closed", || home.show(&job)["closed_at"].is_string());
    let closed = home.show(&job);
    assert_eq!(outcome(&closed), outcome(&ended));
    assert_eq!(closed["output"]["bytes"], "early\nlate\nlater\n".len());
    assert_eq!(
        (&closed["output"]["stdout_lines"], &closed["output"]["stderr_lines"]),
        (&2.into(), &1.into())
    );
}

#[test]
fn a_job_closes_by_itself_when_the_last_survivor_is_gone() {
    let home = Home::new();
    make_gate(&home);
    let job = home.start_line("(: <gate) & (setsid sh -c ': <gate' &) ; exit 9");
    let ended = home.wait(&job);
    assert_eq!(
        (&ended["status"], &ended["exit_code"], &ended["lingering"]),
        (&"failed".into(), &9.into(), &true.into())
    );
    open_gate(home.path());
    until("the job is closed", || home.show(&job)["closed_at"].is_string());
    let closed = home.show(&job);
    assert_eq!(closed["lingering"], false);
    assert_eq!(outcome(&closed), outcome(&ended));
    assert!(closed["closed_at"].as_str() >= closed["ended_at"].as_str());
    until("the keeper is gone", || home.keepers().is_empty());
}

#[test]
fn a_survivor_counts_against_the_limits() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let (job, _) = leave_behind(&home, "daemon");
    assert_eq!(home.wait(&job)["lingering"], true);
    let refused = home.run(["--json", "run", "--", "true"]).code(5).error_json();
    assert_eq!(refused["error"]["code"], "limit_reached");
    home.run(["kill", &job]).ok();
    home.wait(&home.start(["true"]));
}

#[test]
fn a_survivor_that_writes_without_end_does_not_hold_up_the_outcome() {
    let home = Home::new();
    let job = home.start_line("yes & yes >&2 & exit 3");
    let ended = home.wait(&job);
    assert_eq!((&ended["exit_code"], &ended["lingering"]), (&3.into(), &true.into()));
    home.run(["kill", &job]).ok();
    assert_eq!(outcome(&home.show(&job)), outcome(&ended));
}

#[test]
fn running_in_the_foreground_does_not_wait_for_survivors() {
    let home = Home::new();
    let done = home.run(["run", "--wait", "sleep 300 & echo said; exit 4"]).code(4);
    assert_eq!(done.text(), "said\n");
    assert_eq!(home.json(["list", "--live"])[0]["lingering"], true);
}

#[test]
fn running_in_the_foreground_notices_an_end_that_comes_after_the_last_output() {
    let home = Home::new();
    make_gate(&home);
    let mut command = home.outlive(["run", "--wait", "sleep 300 & echo said; : <gate; exit 4"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "said\n");
    let waiting = i32::try_from(child.id()).unwrap();
    let sleeps = || outlive_sys::identity::Stat::read(waiting).is_some_and(|stat| stat.state == 'S');
    until("it waits for more", sleeps);
    open_gate(home.path());
    assert_eq!(end_within(&mut child, LIMIT), Some(4));
    assert_eq!(home.json(["list", "--live"])[0]["lingering"], true);
}

#[test]
fn survivors_of_a_job_that_timed_out_are_ended_with_it() {
    let home = Home::new();
    let line = "setsid sleep 300 & sleep 300";
    let job =
        home.run(["run", "--timeout", "300ms", "--grace", "5s", line]).ok().text().trim_end().to_owned();
    assert_eq!(home.wait(&job)["status"], "timed_out");
    until("the job is closed", || home.show(&job)["closed_at"].is_string());
    until("nothing is left of it", || home.processes().is_empty());
}
