//! Keepers that are started ahead of need.
//!
//! Proves that a long-lived front end has one ready after each start, that it touches nothing, has what no other process sees, and ends with its front end, and that
//! a job gets from its front end what that has when it starts the job, whatever the spare keeper was started with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outlive::{Request, Store};
use outlive_sys::identity::Stat;
use outlive_tests::{Era, Home, Mcp, all_processes, binary, is_running, signal, until};
use serde_json::{Value, json};

/// Puts a keeper's program into the home: its spare keepers are told from those of other tests by their file.
fn own_keeper(home: &Home) -> PathBuf {
    let program = home.path().join("outlive-keeper");
    fs::copy(binary("outlive-keeper"), &program).expect("the home is whole");
    program
}

/// What a spare keeper has open when it waits: the connection to its front end, also in the place of the lock, and what only it has: the
/// page, the pipe for output on its way, and the descriptor for ends of children.
const OPEN: usize = 6;

/// Waits until there is one spare keeper, and returns its pid.
fn spare_of(program: &Path) -> i32 {
    let mut spares = Vec::new();
    until("there is one spare keeper", || {
        spares = all_processes();
        spares.retain(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_its = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program);
            is_its && arguments == b"outlive-keeper\0spare\0" && descriptors(*pid).len() == OPEN
        });
        spares.len() == 1
    });
    spares[0]
}

/// Lists what a process has open beyond its standard streams.
fn descriptors(pid: i32) -> Vec<PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let open = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    open.filter(|path| path != Path::new("/dev/null")).collect()
}

fn keeper_of(home: &Home, job: &str) -> i32 {
    let meta: Value =
        serde_json::from_slice(&fs::read(home.job_dir(job).join("meta.json")).expect("the home is whole"))
            .expect("the home is whole");
    i32::try_from(meta["keeper"]["pid"].as_i64().expect("the home is whole")).expect("the home is whole")
}

/// Starts a job and returns the pid of its keeper.
fn start(home: &Home, store: &Store) -> i32 {
    let started = store.start(&Request::argv(["sleep", "1000"])).expect("the home is whole");
    keeper_of(home, started.job.id().as_str())
}

#[test]
fn a_spare_keeper_waits_without_touching_anything_and_takes_the_next_job() {
    let home = Home::new();
    let program = own_keeper(&home);
    let store = home.open().with_keeper(&program).with_spare_keepers();
    start(&home, &store);
    let spare = spare_of(&program);
    let open = descriptors(spare);
    let own = |open: &&PathBuf| !open.to_string_lossy().starts_with("socket:");
    let kinds = open
        .iter()
        .filter(own)
        .map(|open| open.to_string_lossy().split([':', '(']).next().unwrap().to_owned());
    assert_eq!(kinds.collect::<Vec<_>>(), ["/memfd", "pipe", "pipe", "anon_inode"], "{open:?}");
    assert!(open.contains(&"anon_inode:[signalfd]".into()), "{open:?}");
    let pipe = open.iter().find(|open| open.to_string_lossy().starts_with("pipe:")).unwrap();
    let others = all_processes().into_iter().filter(|pid| *pid != spare && descriptors(*pid).contains(pipe));
    assert_eq!(others.count(), 0, "another process has a part of {open:?}");
    assert_eq!(fs::read_link(format!("/proc/{spare}/cwd")).unwrap(), Path::new("/"));
    assert_eq!(
        fs::read_to_string(format!("/proc/{spare}/cgroup")).unwrap(),
        fs::read_to_string("/proc/self/cgroup").unwrap()
    );
    // It is the guard of the keeper that it forks.
    assert_eq!(outlive_tests::guard_of(start(&home, &store)), Some(spare));
    let next = spare_of(&program);
    drop(store);
    until("the spare keeper ends with its store", || !is_running(next));
    assert!(is_running(spare), "a keeper with a job goes on");
}

#[test]
fn a_spare_keeper_that_died_or_is_of_an_older_build_is_not_used() {
    let home = Home::new();
    let program = own_keeper(&home);
    let store = home.open().with_keeper(&program).with_spare_keepers();
    start(&home, &store);
    let dead = spare_of(&program);
    signal(dead, "KILL");
    until("the spare keeper is dead", || !is_running(dead));
    assert_ne!(start(&home, &store), dead);
    let old = spare_of(&program);
    let newer = home.path().join("newer");
    fs::copy(&program, &newer).unwrap();
    fs::rename(&newer, &program).unwrap();
    assert_ne!(start(&home, &store), old);
    until("the old one is gone", || !is_running(old));
}

#[test]
fn a_spare_keeper_that_is_stopped_gets_no_job() {
    let home = Home::new();
    let program = own_keeper(&home);
    let store = home.open().with_keeper(&program).with_spare_keepers();
    start(&home, &store);
    let stopped = spare_of(&program);
    signal(stopped, "STOP");
    until("it is stopped", || Stat::read(stopped).is_some_and(|stat| stat.state == 'T'));
    assert_ne!(start(&home, &store), stopped, "the job is started by a new keeper");
    signal(stopped, "CONT");
    until("it ends when it goes on: there is no job for it", || !is_running(stopped));
}

#[test]
fn a_job_has_the_limits_that_its_front_end_has_now() {
    let home = Home::new();
    let program = own_keeper(&home);
    let mut command = home.outlive(["mcp"]);
    command.env("OUTLIVE_KEEPER", &program);
    let mut client = Mcp::of(command, Era::Handshake, json!({}), &[]);
    let mut limit = || {
        let answer = client.call("run", json!({"command": "ulimit -c", "wait_ms": 20_000})).ok();
        (answer.body().concat(), client.pid())
    };
    let (before, server) = limit();
    let spare = spare_of(&program);
    assert_ne!(before, "7");
    let limited = Command::new("prlimit").args(["--core=7168:7168", "--pid", &server.to_string()]).status();
    assert!(limited.unwrap().success());
    assert_eq!(limit().0, "7");
    until("the spare keeper with the old limits is gone", || !is_running(spare));
    let spare = spare_of(&program);
    client.kill();
    until("it ends with a server that is killed", || !is_running(spare));
}
