//! A keeper that is stopped, or held so that it cannot go on, keeps no front end from controlling its job.
//!
//! It is continued by any request; one that is stopped again and again is ended by a kill, and its job as an orphan. One that waits
//! for a disk cannot be ended before the disk has answered, and is waited for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::signal::Signal;
use outlive_tests::{Home, LIMIT, end_within, everywhere, is_running, lacks, pid, until};

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

/// A group whose processes stand still as those do that wait for a disk: not even SIGKILL ends them before they are let go.
struct Frozen(PathBuf);

impl Frozen {
    fn hold(pid: i32) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup/freezer");
        let group = Self(top.join(format!("outlive-test-frozen-{pid}")));
        std::fs::create_dir(&group.0).ok()?;
        group.set("cgroup.procs", &pid.to_string());
        group.set("freezer.state", "FROZEN");
        until("it stands still", || Stat::read(pid).is_some_and(|stat| stat.state == 'D'));
        Some(group)
    }

    fn set(&self, file: &str, value: &str) {
        std::fs::write(self.0.join(file), value).unwrap();
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        std::fs::write(self.0.join("freezer.state"), "THAWED").ok();
        until("the group is empty", || std::fs::remove_dir(&self.0).is_ok());
    }
}

fn is_to_be_killed(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mut pending =
        status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    pending.any(|mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & (1 << 8) != 0)
}

#[test]
fn a_keeper_that_waits_for_a_disk_is_waited_for() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "sleep 300; true"]);
    let shown = home.show(&job);
    let (main, keeper) = (pid(&shown, "pid"), pid(&shown, "keeper_pid"));
    let Some(frozen) = Frozen::hold(keeper) else {
        lacks("a freezer of version 1");
        return;
    };
    let mut kill = home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().unwrap();
    until("the keeper is to be killed", || is_to_be_killed(keeper));
    // Longer than one that is no longer held takes to go.
    let asked = Instant::now();
    until("it is waited for", || asked.elapsed() > Duration::from_secs(3));
    assert_eq!(kill.try_wait().unwrap(), None, "kill gave up");
    drop(frozen);
    assert_eq!(end_within(&mut kill, LIMIT), Some(0));
    assert!(!is_running(main));
    assert_eq!(home.wait(&job)["status"], "killed");
}
