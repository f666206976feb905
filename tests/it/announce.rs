//! An end is announced when its record is written, and synced right after: no waiter waits for the disk.
//!
//! The disk is one that takes a day for every sync (`strace` holds the call up), so that all that is seen has happened before it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::process::{Child, Command, Stdio};

use outlive_tests::{Home, binary, lacks, until};

/// Runs `outlive run` and its keeper on a disk that does not come to the end of a sync; returns the tracer, and what the starter
/// printed once it has ended. `None`, with a note, where tracing is not permitted.
fn start(home: &Home, argv: &[&str]) -> Option<(Child, String)> {
    // To make a store takes syncs, too.
    home.run(["list"]).ok();
    let probe = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        lacks("strace, and the right to trace");
        return None;
    }
    let (printed, ended) = (home.path().join("printed"), home.path().join("ended"));
    let mut command = home.command("strace");
    let inject = "inject=fsync,fdatasync:delay_enter=86400s";
    command.args(["-f", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", inject, "sh", "-c"]);
    let line = format!(r#""$0" run -- "$@" > {} 2>&1; touch {}"#, printed.display(), ended.display());
    command.arg(line).arg(binary("outlive")).args(argv).stdin(Stdio::null());
    let tracer = command.spawn().unwrap();
    until("the starter has ended", || ended.exists());
    Some((tracer, std::fs::read_to_string(&printed).unwrap().trim().to_owned()))
}

/// Ends the keeper, which the tracer waits for.
fn end(home: &Home, mut tracer: Child) {
    until("all that it follows has ended", || {
        home.processes().into_iter().for_each(|pid| outlive_tests::signal(pid, "KILL"));
        tracer.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_waiter_does_not_wait_for_the_disk() {
    let home = Home::new();
    let Some((tracer, job)) = start(&home, &["sh", "-c", "echo done; exit 3"]) else { return };
    let waited = home.wait(&job);
    assert_eq!((&waited["status"], &waited["exit_code"]), (&"failed".into(), &3.into()));
    assert_eq!(home.keepers().len(), 1, "it still syncs");
    let events = home.run(["events", "--json"]).ok().text();
    assert!(events.contains("exited"), "{events}");
    end(&home, tracer);
    assert_eq!(home.show(&job)["exit_code"], 3);
}

#[test]
fn what_is_left_of_a_job_is_kept_while_its_outcome_is_synced() {
    let home = Home::new();
    let line = "(until test -e go; do sleep 0.1; done; echo late; exec sleep 300) & exit 3";
    let Some((tracer, job)) = start(&home, &["sh", "-c", line]) else { return };
    assert_eq!(home.wait(&job)["exit_code"], 3);
    std::fs::write(std::path::Path::new(home.show(&job)["cwd"].as_str().unwrap()).join("go"), b"").unwrap();
    home.wait_for_output(&job, "late");
    home.run(["kill", "--force", &job]).ok();
    assert!(home.show(&job)["lingering"] != true);
    end(&home, tracer);
}

#[test]
fn a_start_that_fails_does_not_wait_for_the_disk() {
    let home = Home::new();
    let Some((tracer, printed)) = start(&home, &["/nowhere/program"]) else { return };
    assert!(printed.contains("/nowhere/program"), "{printed}");
    end(&home, tracer);
}

#[test]
fn with_sync_before_it_is_announced_when_it_is_synced() {
    let home = Home::new();
    home.configure("[store]\nsync = \"before\"\n");
    let Some((tracer, job)) = start(&home, &["sh", "-c", "exit 3"]) else { return };
    // The record is there, and the keeper has not announced it.
    let outcome = home.job_dir(&job).join("outcome");
    until("the outcome is written", || std::fs::read(&outcome).unwrap().starts_with(b"OUTL"));
    let events = std::fs::read_to_string(home.store().join("sessions/default/events")).unwrap();
    assert!(!events.contains("exited"), "{events}");
    let done = std::fs::File::open(home.job_dir(&job).join("done")).unwrap();
    let is_free = outlive_sys::lock::try_lock(&done, outlive_sys::lock::Kind::Shared).unwrap();
    assert!(!is_free, "waiters wait");
    end(&home, tracer);
    assert_eq!(home.wait(&job)["exit_code"], 3);
}
