//! No reader polls, and none misses an ending.
//!
//! Proves of the design: a reader is told of each ending of the jobs it started, at least once, also if it was down; a repeat
//! happens only after a crash between telling and noting it, with the same sequence; if the starter never comes back, the next
//! reader of the session is told. Also S3-30 and S3-31 (the end of a process is told to its starter, with exit code, final
//! output and duration), S3-34, S3-35 and S3-36 (the message and its 2,000 characters).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

mod callback;
mod crashes;
mod readers;
mod texts;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use outlive::{SessionName, Until};
use outlive_tests::{Home, is_running, pid, signal, until};
use serde_json::Value;

fn name(text: &str) -> SessionName {
    SessionName::parse(text).unwrap()
}

/// Starts a program for a reader.
fn start(home: &Home, reader: &str, argv: &[&str]) -> String {
    home.start_with(&["--reader", reader], argv)
}

/// Waits for the end of jobs without a mark that they were told.
fn end(home: &Home, jobs: &[String]) {
    let store = home.open();
    let jobs: Vec<_> = jobs.iter().map(|job| store.find(job, None).unwrap()).collect();
    assert!(store.wait(&jobs, Until::All, Some(Duration::from_secs(50))).is_reached);
    // Their keepers are about to write it down.
    store.reconcile(None);
}

/// Runs a program for a reader to its end; no reader is told.
fn ended(home: &Home, reader: &str, argv: &[&str]) -> String {
    let job = start(home, reader, argv);
    end(home, std::slice::from_ref(&job));
    job
}

/// Reads the inbox of a reader.
fn inbox(home: &Home, reader: &str) -> Value {
    home.json(["inbox", "--reader", reader])
}

fn peek(home: &Home, reader: &str) -> Value {
    home.json(["inbox", "--reader", reader, "--peek"])
}

/// Returns the jobs of a document of `inbox --json`, each with its sequence.
fn sequences(document: &Value) -> BTreeMap<String, u64> {
    let notices = document["notices"].as_array().unwrap();
    let told: BTreeMap<String, u64> = notices
        .iter()
        .map(|notice| (notice["job"].as_str().unwrap().to_owned(), notice["seq"].as_u64().unwrap()))
        .collect();
    assert_eq!(told.len(), notices.len(), "a job is told twice in {document}");
    told
}

fn jobs(document: &Value) -> Vec<String> {
    sequences(document).into_keys().collect()
}

fn sorted(mut jobs: Vec<String>) -> Vec<String> {
    jobs.sort();
    jobs
}

fn notice<'a>(document: &'a Value, job: &str) -> &'a Value {
    document["notices"].as_array().unwrap().iter().find(|notice| notice["job"] == job).unwrap()
}

fn nothing() -> Vec<String> {
    Vec::new()
}

fn reader_file(home: &Home, reader: &str) -> PathBuf {
    home.store().join("sessions/default/readers").join(reader)
}

fn events_file(home: &Home) -> PathBuf {
    home.store().join("sessions/default/events")
}

/// Kills the keeper of a job and then its command.
fn kill_with_keeper(home: &Home, job: &str) {
    let shown = home.show(job);
    let [command, keeper] = ["pid", "keeper_pid"].map(|field| pid(&shown, field));
    outlive_tests::kill_with_guard(keeper);
    until("the keeper is gone", || !is_running(keeper));
    signal(command, "KILL");
    until("its command is gone", || !is_running(command));
}

#[test]
fn whatever_way_it_ends_a_reader_that_was_down_is_told_once() {
    let home = Home::new();
    let zoo = home.program("zoo");
    let tree = home.path().join("tree");
    let eats = [zoo.to_str().unwrap(), tree.to_str().unwrap(), "eats"];
    let expected: BTreeMap<String, (&str, &str)> = [
        (start(&home, "me", &["true"]), ("completed", "natural")),
        (start(&home, "me", &["sh", "-c", "exit 7"]), ("failed", "natural")),
        (start(&home, "me", &["sh", "-c", "kill -SEGV $$"]), ("failed", "natural")),
        (
            home.start_with(&["--reader", "me", "--timeout", "1ms", "--grace", "0s"], ["sleep", "300"]),
            ("timed_out", "timeout"),
        ),
        (home.start_with(&["--reader", "me", "--memory", "64M"], eats), ("failed", "oom")),
    ]
    .into_iter()
    .collect();
    end(&home, &expected.keys().cloned().collect::<Vec<_>>());
    let mut expected = expected;
    let killed = start(&home, "me", &["sleep", "300"]);
    home.run(["kill", "--force", "--reader", "somebody", &killed]).ok();
    expected.insert(killed, ("killed", "kill"));
    let lost = start(&home, "me", &["sleep", "300"]);
    kill_with_keeper(&home, &lost);
    expected.insert(lost, ("lost", "lost"));
    home.run(["run", "--reader", "me", "--", "/nowhere/program"]).code(127);

    let told = inbox(&home, "me");
    assert_eq!(sequences(&told).len(), expected.len() + 1, "{told}");
    for (job, (status, cause)) in &expected {
        let notice = notice(&told, job);
        assert_eq!((&notice["status"], &notice["cause"]), (&(*status).into(), &(*cause).into()), "{notice}");
    }
    let causes: Vec<&Value> =
        told["notices"].as_array().unwrap().iter().map(|notice| &notice["cause"]).collect();
    assert!(causes.contains(&&Value::from("never_started")), "{told}");
    let order: Vec<u64> =
        told["notices"].as_array().unwrap().iter().map(|notice| notice["seq"].as_u64().unwrap()).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
}

#[test]
fn fifty_that_end_at_the_same_time_are_one_notice() {
    let home = Home::new();
    let gate = home.path().join("gate");
    assert!(home.command("mkfifo").arg(&gate).status().unwrap().success());
    let started: Vec<String> = (0..50)
        .map(|number| start(&home, "me", &["sh", "-c", &format!("echo {number}; read x < gate; exit 1")]))
        .collect();
    // A follower reads while fifty keepers write.
    let mut follower = home.outlive(["--json", "--session", "default", "events", "-f"]);
    let heard = home.path().join("heard");
    let mut follower = follower.stdout(std::fs::File::create(&heard).unwrap()).spawn().unwrap();
    for job in &started {
        home.wait_for_output(job, "\n");
    }
    // A line for each of them, at once; and open until the last has read its own.
    let mut door = std::fs::OpenOptions::new().write(true).open(&gate).unwrap();
    door.write_all(&[b'\n'; 50]).unwrap();
    end(&home, &started);
    let told = inbox(&home, "me");
    assert_eq!(jobs(&told), sorted(started.clone()));
    assert_eq!(told["left"], 0);
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
    let followed = || -> Vec<Value> {
        let text = std::fs::read_to_string(&heard).unwrap();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|event: &Value| event["event"] == "exited")
            .collect()
    };
    until("the follower has heard all", || followed().len() >= 50);
    follower.kill().unwrap();
    follower.wait().unwrap();
    let heard: BTreeMap<String, u64> = followed()
        .iter()
        .map(|event| (event["job"].as_str().unwrap().to_owned(), event["seq"].as_u64().unwrap()))
        .collect();
    assert_eq!(followed().len(), 50, "none twice");
    assert_eq!(heard, sequences(&told));
}

#[test]
fn more_than_a_hundred_come_in_turns() {
    let home = Home::new();
    let store = home.open();
    let request = outlive::Request::argv(["true"]).reader(name("me"));
    let mut all = Vec::new();
    for _ in 0..3 {
        let some: Vec<String> =
            (0..45).map(|_| store.start(&request).unwrap().job.id().to_string()).collect();
        end(&home, &some);
        all.extend(some);
    }
    let first = inbox(&home, "me");
    assert_eq!((jobs(&first).len(), &first["left"]), (100, &35.into()));
    let second = inbox(&home, "me");
    assert_eq!((jobs(&second).len(), &second["left"]), (35, &0.into()));
    assert_eq!(sorted([jobs(&first), jobs(&second)].concat()), sorted(all));
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
}

#[test]
fn looking_notes_nothing() {
    let home = Home::new();
    let job = ended(&home, "me", &["true"]);
    assert_eq!(jobs(&peek(&home, "me")), std::slice::from_ref(&job));
    assert_eq!(sequences(&peek(&home, "me")), sequences(&inbox(&home, "me")));
    assert_eq!(jobs(&peek(&home, "me")), nothing());
    assert!(home.job_dir(&job).join("seen").exists(), "retention knows that it was told");
}

#[test]
fn what_was_shown_in_another_way_is_not_told_again() {
    let home = Home::new();
    for (line, verb) in [
        ("echo x", &["wait"][..]),
        ("echo x", &["wait", "--json"]),
        ("echo x", &["show"]),
        ("echo x", &["show", "--json"]),
        ("echo x", &["logs"]),
        ("echo x", &["logs", "-f"]),
        ("echo x", &["logs", "-n", "1"]),
        ("echo x; sleep 300", &["kill", "--force"]),
    ] {
        let job = start(&home, "me", &["sh", "-c", line]);
        home.wait_for_output(&job, "x");
        if verb[0] != "kill" {
            end(&home, std::slice::from_ref(&job));
        }
        let look = |reader: &'static str| [verb, &["--reader", reader, job.as_str()]].concat();
        home.run(look("me")).ok();
        assert_eq!(jobs(&inbox(&home, "me")), nothing(), "{verb:?}");
    }
    let waited = home.run(["run", "--reader", "me", "--wait", "--", "true"]).ok();
    assert_eq!(waited.text(), "");
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
    // Part of a log, or what it did before its end, is no end.
    let job = start(&home, "me", &["sh", "-c", "echo x; exec sleep 300"]);
    home.run(["logs", "--reader", "me", &job]).ok();
    home.run(["show", "--reader", "me", &job]).ok();
    home.run(["kill", "--force", "--reader", "somebody", &job]).ok();
    home.run(["logs", "--reader", "me", "--head", "1", &job]).ok();
    home.run(["logs", "--reader", "me", "--grep", "y", &job]).ok();
    home.run(["list", "--reader", "me"]).ok();
    assert_eq!(jobs(&inbox(&home, "me")), [job]);
}

#[test]
fn a_session_is_told_of_its_own_jobs_only_and_looking_makes_none() {
    let home = Home::new();
    let mine = ended(&home, "me", &["true"]);
    let others = home.start_with(&["--session", "other", "--reader", "me"], ["true"]);
    end(&home, std::slice::from_ref(&others));
    assert_eq!(jobs(&home.json(["--session", "other", "inbox", "--reader", "me"])), [others]);
    assert_eq!(jobs(&home.json(["--session", "nobodys", "inbox", "--reader", "me"])), nothing());
    assert!(!home.store().join("sessions/nobodys").exists());
    // Inside a job, the session is that which `run` would use.
    let mut inside = home.outlive(["--json", "inbox", "--reader", "me"]);
    inside.env("OUTLIVE_SESSION", "other");
    assert_eq!(jobs(&outlive_tests::finish(inside, b"").ok().json()), nothing());
    assert_eq!(jobs(&inbox(&home, "me")), [mine]);
}
