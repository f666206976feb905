//! A deadline holds with every front end dead.
//!
//! Proves S1-70, S2-42 and S3-57 (TERM, then KILL, when the time is over) for jobs without any front end, and
//! how late they are ended. By root and by an ordinary user.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outlive_tests::{Home, LIMIT, User, end_within, millis, pid, report, until, with_enough_time};
use serde_json::Value;

const JOBS: usize = 20;

/// How many times the machine's own lateness is added to a bound: a keeper has more to do than the program that measures it.
const TIMES: u128 = 3;

/// Half of them may be so much later at most.
const MEDIAN_BOUND_MS: u128 = 100;

/// None may be later by more.
const BOUND_MS: u128 = 1000;

const GRACE: Duration = Duration::from_millis(300);

/// Starts a job and kills the front end that waits for it; `None` if it was not there until then.
fn start(home: &Home, number: usize, timeout: Duration) -> Option<()> {
    let is_stubborn = number.is_multiple_of(4);
    let line =
        if is_stubborn { "trap '' TERM; echo up; sleep 300 & wait; wait" } else { "echo up; exec sleep 300" };
    let name = format!("job {number}");
    let (timeout, grace) = (millis(timeout), millis(GRACE));
    let options = ["run", "--wait", "--timeout", &timeout, "--grace", &grace, "--name", &name];
    let mut command = home.outlive([&options[..], &["--", "sh", "-c", line]].concat());
    let mut front_end = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut is_over = false;
    until("it runs, or its time is over", || {
        is_over = front_end.try_wait().unwrap().is_some();
        is_over || home.run(["logs", &name]).text().starts_with("up\n")
    });
    front_end.kill().unwrap();
    (end_within(&mut front_end, LIMIT) == Some(128 + 9)).then_some(())
}

/// Measures how late this machine ends anything now: by a program that does nothing else.
fn floor(timeout: Duration) -> Vec<u128> {
    let seconds = timeout.as_secs_f64().to_string();
    let late = || {
        let began = Instant::now();
        Command::new("timeout").args([&seconds, "sleep", "300"]).status().unwrap();
        began.elapsed().saturating_sub(timeout).as_millis()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..JOBS).map(|_| scope.spawn(late)).collect();
        let mut late: Vec<u128> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        late.sort_unstable();
        late
    })
}

/// Returns how late a job was ended by its deadline, which it was not before.
fn lateness(shown: &Value, timeout: Duration) -> u128 {
    assert_eq!((&shown["status"], &shown["cause"]), (&"timed_out".into(), &"timeout".into()), "{shown}");
    let is_stubborn = shown["command"].as_str().unwrap().contains("trap");
    let signal = if is_stubborn { "SIGKILL" } else { "SIGTERM" };
    assert_eq!((&shown["signal"], &shown["exit_code"]), (&signal.into(), &Value::Null), "{shown}");
    assert!(pid(shown, "pid") > 0 && shown["closed_at"].is_string(), "{shown}");
    let due = timeout + if is_stubborn { GRACE } else { Duration::ZERO };
    let runtime = u128::from(shown["runtime_ms"].as_u64().unwrap());
    runtime.checked_sub(due.as_millis()).unwrap_or_else(|| panic!("{shown}: it was ended too early"))
}

#[test]
fn jobs_end_in_time_though_all_who_started_them_were_killed() {
    for user in User::all() {
        with_enough_time(Duration::from_millis(1500), |timeout| {
            let home = Home::of(user);
            (0..JOBS).try_for_each(|number| start(&home, number, timeout))?;
            // No front end runs; the keepers are on their own.
            let floor = floor(timeout);
            until("all keepers are gone", || home.keepers().is_empty());
            let jobs = home.json(["list"]);
            let jobs = jobs.as_array().unwrap().iter().map(|job| home.show(job["job"].as_str().unwrap()));
            let mut late: Vec<u128> = jobs.map(|shown| lateness(&shown, timeout)).collect();
            late.sort_unstable();
            report(&format!("late by, as {user:?}: {late:?} ms; `timeout`: {floor:?} ms"));
            let bound = |at: usize, bound: u128| late[at] <= bound + TIMES * floor[at];
            assert_eq!(late.len(), JOBS);
            (bound(JOBS / 2, MEDIAN_BOUND_MS) && bound(JOBS - 1, BOUND_MS)).then_some(())
        });
    }
}
