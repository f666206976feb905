//! What is deleted in passing holds up no start: the store's lock is free while files are deleted.
//!
//! The disk is one that takes a day to unlink a file (`strace` holds the call up).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File};
use std::process::{Child, Command};

use outlive_sys::lock::{Kind, try_lock};
use outlive_tests::{Home, binary, lacks, signal, until};

/// Runs outlive on that disk until it deletes a job, and waits until the store's lock is free.
fn lock_is_free_while_it_deletes(home: &Home, arguments: &[&str]) {
    let probe = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        lacks("strace, and the right to trace");
        return;
    }
    let mut command = home.command("strace");
    command.args(["-o", "/dev/null", "-e", "trace=unlinkat", "-e", "inject=unlinkat:delay_enter=86400s"]);
    let mut tracer: Child = command.arg(binary("outlive")).args(arguments).spawn().unwrap();
    let is_deleting = || {
        let mut left = fs::read_dir(home.store().join("new")).unwrap().flatten();
        left.any(|entry| entry.file_name().to_string_lossy().ends_with(".gone"))
    };
    until("it deletes a job", is_deleting);
    let lock = File::open(home.store().join("lock")).unwrap();
    until("the store's lock is free", || try_lock(&lock, Kind::Exclusive).unwrap());
    drop(lock);
    assert!(is_deleting() && tracer.try_wait().unwrap().is_none(), "it has deleted it meanwhile");
    until("it has ended", || {
        home.processes().into_iter().for_each(|pid| signal(pid, "KILL"));
        tracer.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_collection_deletes_with_the_lock_free() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\n");
    let job = home.start(["true"]);
    home.wait(&job);
    until("its keeper is gone", || home.keepers().is_empty());
    lock_is_free_while_it_deletes(&home, &["gc"]);
}

#[test]
fn a_start_that_makes_room_deletes_with_the_lock_free() {
    let home = Home::new();
    home.configure("[limits]\nbytes = \"3M\"\n[job]\noutput_cap = \"1M\"\n");
    for _ in 0..3 {
        let job = home.start(["head", "-c", "950000", "/dev/zero"]);
        home.wait(&job);
    }
    until("their keepers are gone", || home.keepers().is_empty());
    lock_is_free_while_it_deletes(&home, &["run", "--", "true"]);
}
