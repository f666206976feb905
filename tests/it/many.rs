//! Hundreds of jobs at once.
//!
//! Proves S0-122 (many jobs), S0-124 (started and ended in quick succession), S0-158 (a job costs next to nothing while
//! it does nothing).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::process::Command;
use std::time::{Duration, Instant};

use outlive::{Request, Store, Until};
use outlive_sys::identity::ProcessId;
use outlive_tests::{Home, proves, until};

/// Starts `count` jobs that wait at a gate and then exit, job n with n modulo 256.
fn start_all(home: &Home, store: &Store, count: usize) -> Vec<outlive::Job> {
    assert!(Command::new("mkfifo").arg(home.path().join("gate")).status().unwrap().success());
    let start = |number: usize| {
        let script = format!("echo job {number}; : <gate; exit {}", number % 256);
        let request = Request::argv(["sh", "-c", &script]).cwd(home.path());
        // The harness finds the processes of a home by this variable.
        store.start(&request.env("OUTLIVE_HOME", home.store())).unwrap().job
    };
    (0..count).map(start).collect()
}

/// Opens the gate, waits for all, and checks what became of each.
fn end_all(home: &Home, store: &Store, jobs: &[outlive::Job]) {
    // Opening it for both never blocks; it stays open for readers that come late.
    let gate = OpenOptions::new().read(true).write(true).open(home.path().join("gate")).unwrap();
    let waited = store.wait(jobs, Until::All, Some(Duration::from_secs(60)));
    assert!(waited.is_reached, "not all have ended");
    for (number, state) in waited.states.iter().enumerate() {
        let outcome = state.outcome.as_ref().unwrap();
        let code = i32::try_from(number % 256).unwrap();
        assert_eq!(outcome.wait_status, outlive::WaitStatus::Exited { code });
        assert_eq!(
            state.status,
            if code == 0 { outlive::Status::Completed } else { outlive::Status::Failed }
        );
        assert_eq!(outcome.totals.bytes, format!("job {number}\n").len() as u64);
    }
    drop(gate);
}

/// Returns the identities of all processes of this home.
fn identities(home: &Home) -> Vec<ProcessId> {
    home.processes().into_iter().filter_map(ProcessId::of).collect()
}

/// Waits until all of these are gone: ended, and reaped too.
fn until_gone(processes: &[ProcessId]) {
    let is_there = |process: &ProcessId| ProcessId::of(process.pid) == Some(*process);
    until("all have ended and were reaped", || !processes.iter().any(is_there));
}

/// Returns the context switches of each process, voluntary and not.
fn switches(pids: &[i32]) -> BTreeMap<i32, u64> {
    let count = |pid: &i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:\t"));
        let counts: Vec<u64> = lines.map(|(_, count)| count.parse().unwrap()).collect();
        assert_eq!(counts.len(), 2, "{status}");
        (*pid, counts.iter().sum())
    };
    pids.iter().map(count).collect()
}

#[test]
fn two_hundred_at_once_end_right_cost_little_and_leave_nothing() {
    let home = Home::new();
    home.configure("[limits]\nsession = 200\n");
    let store = home.open();
    let jobs = start_all(&home, &store, 200);
    assert_eq!(home.json(["list", "--live"]).as_array().unwrap().len(), 200);
    let keepers = home.keepers();
    assert_eq!(keepers.len(), 200);

    for pid in &keepers {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
        assert!(open <= 16, "keeper {pid} has {open} descriptors open");
    }

    // A keeper gives its buffer back when its job has been quiet for a second, or later on a busy machine; after that it sleeps.
    let mut before = switches(&keepers);
    let mut since = Instant::now();
    until("no keeper wakes for ten seconds", || {
        let now = switches(&keepers);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() >= Duration::from_secs(10)
    });
    proves!("S0-158");

    let processes = identities(&home);
    assert_eq!(processes.len(), 400, "a keeper and a shell each");
    end_all(&home, &store, &jobs);
    until_gone(&processes);
    assert_eq!(fs::read_dir(home.store().join("live")).unwrap().count(), 0);
}

#[test]
fn a_thousand_at_once_end_right_where_the_limit_allows_it() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1000\ntotal = 1000\n");
    let store = home.open();
    let jobs = start_all(&home, &store, 1000);
    assert_eq!(home.keepers().len(), 1000);
    let refused = store.start(&Request::argv(["true"]).cwd(home.path()));
    assert!(matches!(refused, Err(outlive::StartError::Limit(_))), "{refused:?}");
    let processes = identities(&home);
    end_all(&home, &store, &jobs);
    until_gone(&processes);
    // A fresh front end reads the same.
    let listed = home.json(["list"]);
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 1000);
    for (number, job) in listed.iter().enumerate() {
        assert_eq!(
            (&job["exit_code"], &job["output"]["lines"]),
            (&(number % 256).into(), &1.into()),
            "{job}"
        );
    }
}

#[test]
fn many_short_ones_in_quick_succession_all_end_right() {
    let home = Home::new();
    let store = home.open();
    for round in 0..5 {
        let start = |number: i32| {
            let request = Request::argv(["sh".to_owned(), "-c".to_owned(), format!("exit {number}")]);
            store.start(&request.cwd(home.path()).env("OUTLIVE_HOME", home.store())).unwrap().job
        };
        let jobs: Vec<_> = (0..40).map(|number| start(round * 40 + number)).collect();
        let waited = store.wait(&jobs, Until::All, Some(Duration::from_secs(60)));
        for (number, state) in (round * 40..).zip(&waited.states) {
            let status = state.outcome.as_ref().map(|outcome| outcome.wait_status);
            assert_eq!(status, Some(outlive::WaitStatus::Exited { code: number }));
        }
    }
}
