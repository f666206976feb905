//! A keeper that is stopped, or held so that it cannot go on, keeps no front end from controlling its job.
//!
//! It is continued by any request; one that is stopped again and again is ended by a kill, and its job as an orphan.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::sync::atomic::{AtomicBool, Ordering};

use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::signal::Signal;
use outlive_tests::{Home, everywhere, is_running, pid, until};

/// Stops the keeper of a job, and waits until it stands still.
fn stop_keeper(home: &Home, job: &str) -> ProcessId {
    let keeper = ProcessId::of(pid(&home.show(job), "keeper_pid")).unwrap();
    Handle::open(keeper).unwrap().signal(Signal::STOP).unwrap();
    until("the keeper is stopped", || Stat::read(keeper.pid).is_some_and(|stat| stat.state == 'T'));
    keeper
}

#[test]
fn a_stopped_keeper_does_not_keep_its_job_from_being_killed() {
    everywhere(|home, level| {
        let job = home.start_with(&["--containment", level.word()], ["sh", "-c", "sleep 300; true"]);
        let main = pid(&home.show(&job), "pid");
        stop_keeper(home, &job);
        home.run(["kill", &job]).ok();
        assert!(!is_running(main), "{level:?}");
        assert_eq!(home.wait(&job)["status"], "killed", "{level:?}");
    });
}

#[test]
fn a_stopped_keeper_goes_on_for_any_request() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    for line in ["one", "two"] {
        stop_keeper(&home, &job);
        home.run(["send", &job, line]).ok();
        home.wait_for_output(&job, line);
    }
    stop_keeper(&home, &job);
    home.run(["pause", &job]).ok();
    stop_keeper(&home, &job);
    home.run(["resume", &job]).ok();
    home.run(["kill", &job]).ok();
}

#[test]
fn a_job_whose_keeper_is_stopped_again_and_again_is_killed_without_it() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "setsid sleep 300 & sleep 300"]);
    let main = pid(&home.show(&job), "pid");
    until("its child runs", || home.processes().len() == 4);
    let keeper = stop_keeper(&home, &job);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let handle = Handle::open(keeper).unwrap();
            // It may be ended, and it may answer between two of these.
            while !is_over.load(Ordering::Relaxed) && handle.signal(Signal::STOP).is_ok() {
                std::thread::yield_now();
            }
        });
        let killed = home.run(["kill", &job]);
        is_over.store(true, Ordering::Relaxed);
        killed.ok();
    });
    // One that answered in between was stopped once more, and goes on to its end.
    if let Some(keeper) = Handle::open(keeper) {
        keeper.signal(Signal::CONT).ok();
    }
    assert!(!is_running(main));
    assert_eq!(home.wait(&job)["status"], "killed");
    until("no process of it is left", || home.processes().is_empty());
}
