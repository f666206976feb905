//! `outlive upgrade`: keepers and guards execute another version in their own place, and the job loses nothing.
//!
//! Proves of the design: bytes, their order, unread input, deadlines, limits, terminals, waiters and the exit code are kept, at each
//! containment level and for each user, and the new version survives deaths as the old one did.

use std::fs;
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within, everywhere, finish, guard_of, is_running, pid, signal, until};
use serde_json::Value;

use super::{PRINTING, assert_ends_whole};
use crate::guard::{events, keeper, replace_keeper};

/// Upgrades a job, also to the version that it has; returns what is said of it.
pub(super) fn upgrade(home: &Home, job: &str) -> Value {
    home.json(["upgrade", "--force", job])["jobs"][0].take()
}

#[track_caller]
fn assert_upgraded(home: &Home, job: &str) {
    let (keeper_before, guard) = (keeper(home, job), guard_of(keeper(home, job)));
    let said = upgrade(home, job);
    assert_eq!((&said["result"], &said["with_guard"]), (&"upgraded".into(), &true.into()), "{said}");
    assert_eq!(keeper(home, job), keeper_before, "the keeper stays the parent of the command");
    let executed = |pid: i32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let role = |pid: i32| executed(pid).split(|&byte| byte == 0).nth(1).map(<[u8]>::to_vec);
    assert_eq!(role(keeper_before).as_deref(), Some(&b"resume"[..]));
    if let Some(guard) = guard.filter(|guard| guard_of(keeper_before) == Some(*guard)) {
        assert_eq!(role(guard).as_deref(), Some(&b"resume-guard"[..]));
    }
}

/// Has a job upgraded while a time runs that it is given; on a busy machine it may run out first, and then the job is given more.
#[track_caller]
fn upgraded_in_time(mut events_of_job: impl FnMut(&str) -> Vec<String>) {
    let told = ["3s", "12s", "60s"].into_iter().map(&mut events_of_job);
    let mut upgraded = told.filter(|told| told.iter().any(|event| event == "keeper_upgraded"));
    assert!(upgraded.next().is_some(), "it was not upgraded in a minute");
}

#[test]
fn a_job_goes_on_in_the_new_version_and_survives_its_death() {
    everywhere(|home, level| {
        let job = home.start_with(&["--containment", level.word()], ["sh", "-c", PRINTING]);
        home.wait_for_output(&job, "o5\n");
        let mut waiter = home.outlive(["wait", &job]).stdout(Stdio::null()).spawn().unwrap();
        let guard = guard_of(keeper(home, &job)).unwrap();
        for _ in 0..2 {
            assert_upgraded(home, &job);
            assert_eq!(guard_of(keeper(home, &job)), Some(guard), "it stays where it is");
        }
        // The new guard goes on for the new keeper, and what comes of that can be upgraded, too.
        replace_keeper(home, &job);
        if outlive_sys::exit::can_tell() {
            assert_upgraded(home, &job);
            replace_keeper(home, &job);
            assert_upgraded(home, &job);
        }
        assert_ends_whole(home, std::slice::from_ref(&job));
        assert_eq!(end_within(&mut waiter, LIMIT), Some(7));
        let told = events(home, &job);
        assert_eq!(told, ["started", "keeper_upgraded", "keeper_replaced", "exited"]);
        until("no process of it is left", || home.processes().is_empty());
    });
}

#[test]
fn a_new_guard_that_dies_is_replaced() {
    let home = Home::new();
    let job = home.start(["sh", "-c", PRINTING]);
    assert_upgraded(&home, &job);
    let (first, guard) = (keeper(&home, &job), guard_of(keeper(&home, &job)).unwrap());
    signal(guard, "KILL");
    until("there is another guard", || guard_of(first).is_some_and(|other| other != guard));
    if outlive_sys::exit::can_tell() {
        replace_keeper(&home, &job);
    }
    assert_ends_whole(&home, std::slice::from_ref(&job));
}

#[test]
fn input_unread_and_its_end_arrive_once() {
    let home = Home::new();
    let line = "until [ -e go ]; do sleep 0.01; done; cat > received; exit 7";
    let text: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    for is_killed in [false, true] {
        let job = home.start_with(&["--stdin", "open"], ["sh", "-c", line]);
        home.run_with_input(["send", &job, "-"], text.as_bytes()).ok();
        assert_upgraded(&home, &job);
        home.run(["send", &job, "the end"]).ok();
        if is_killed {
            replace_keeper(&home, &job);
        }
        fs::write(home.path().join("go"), "").unwrap();
        home.run(["send", &job, "--eof"]).ok();
        // A copy of the pipe in the guard would hide the end.
        assert_eq!(home.wait(&job)["exit_code"], 7);
        assert!(fs::read_to_string(home.path().join("received")).unwrap() == format!("{text}the end\n"));
        fs::remove_file(home.path().join("go")).unwrap();
    }
    // Here nothing waits in the keeper when it comes to its end.
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    assert_upgraded(&home, &job);
    home.run(["send", &job, "a line"]).ok();
    home.wait_for_output(&job, "a line\n");
    home.run(["send", &job, "--eof"]).ok();
    assert_eq!(home.wait(&job)["status"], "completed");
}

#[test]
fn deadlines_limits_and_survivors_are_kept() {
    everywhere(|home, level| {
        // What has left a bare process group is not reached.
        if level == outlive::Level::Group {
            return;
        }
        upgraded_in_time(|time| {
            let options = ["--containment", level.word(), "--timeout", time, "--grace", "100ms"];
            let line = "trap '' TERM; setsid sleep 300 & while :; do sleep 300; done";
            let job = home.start_with(&options, ["sh", "-c", line]);
            drop(home.run(["upgrade", "--force", &job]));
            let shown = home.wait(&job);
            let ended = (&shown["status"], &shown["cause"]);
            assert_eq!(ended, (&"timed_out".into(), &"timeout".into()), "{shown}");
            until("its tree is gone", || home.processes().is_empty());
            events(home, &job)
        });

        let line = "setsid sleep 300 & echo $! > left; until [ -e go ]; do sleep 0.01; done; exit 7";
        let options =
            ["--containment", level.word(), "--survivors", "kill", "--grace", "100ms", "--memory", "256M"];
        let job = home.start_with(&options, ["sh", "-c", line]);
        let left = || fs::read_to_string(home.path().join("left")).ok()?.trim().parse::<i32>().ok();
        until("it has a child", || left().is_some());
        let kept = home.show(&job)["limits"].clone();
        assert_upgraded(home, &job);
        assert_eq!(home.show(&job)["limits"], kept);
        fs::write(home.path().join("go"), "").unwrap();
        assert_eq!(home.wait(&job)["exit_code"], 7);
        until("it is closed", || home.show(&job)["closed_at"].is_string());
        assert!(!is_running(left().unwrap()));
        fs::remove_file(home.path().join("left")).unwrap();
        fs::remove_file(home.path().join("go")).unwrap();
    });
}

#[test]
fn a_kill_and_a_lingering_job_go_on() {
    let home = Home::new();
    let line = "trap '' TERM; echo up; while :; do sleep 300; done";
    upgraded_in_time(|time| {
        let job = home.start_with(&["--grace", time], ["sh", "-c", line]);
        home.wait_for_output(&job, "up");
        let mut killing = home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().unwrap();
        until("it asks", || outlive_tests::waits_with_open(i32::try_from(killing.id()).unwrap(), "socket:"));
        drop(home.run(["upgrade", "--force", &job]));
        assert_eq!(end_within(&mut killing, LIMIT), Some(0));
        assert_eq!(home.wait(&job)["status"], "killed");
        events(&home, &job)
    });

    let job = home.start(["sh", "-c", "setsid sleep 300 & exit 7"]);
    assert_eq!(home.wait(&job)["lingering"], true);
    assert_upgraded(&home, &job);
    let shown = home.show(&job);
    assert_eq!((&shown["exit_code"], &shown["lingering"]), (&7.into(), &true.into()), "{shown}");
    home.run(["kill", &job]).ok();
    assert!(home.show(&job)["closed_at"].is_string());
}

#[test]
fn a_terminal_and_a_question_stay() {
    let home = Home::new();
    let line = "stty size; printf 'Your name? '; read name; stty size; echo \"hello $name\"; exit 7";
    let job = home.start_with(&["--pty"], ["sh", "-c", line]);
    home.run(["resize", &job, "90x30"]).ok();
    until("it asks", || home.show(&job)["awaits"]["kind"] == "line");
    let asked = home.show(&job)["awaits"].clone();
    assert_upgraded(&home, &job);
    assert_eq!(home.show(&job)["awaits"], asked);
    home.run(["send", &job, "Ada"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 7);
    let printed = String::from_utf8(home.logs(&job)).unwrap();
    assert!(printed.ends_with("Ada\r\n30 90\r\nhello Ada\r\n"), "{printed}");
}

#[test]
fn what_is_done_at_the_end_of_a_job_is_done() {
    let home = Home::new();
    let on_exit = "echo $OUTLIVE_EXIT_CODE $SECRET > on-exit";
    let mut command = home.outlive(["run", "--on-exit", on_exit, "--", "sh", "-c"]);
    command.arg("until [ -e go ]; do sleep 0.01; done; exit 7").env("SECRET", "kept in memory");
    let job = finish(command, b"").ok().text().trim().to_owned();
    assert_upgraded(&home, &job);
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(home.wait(&job)["exit_code"], 7);
    let written = || fs::read_to_string(home.path().join("on-exit")).unwrap_or_default();
    until("it is run", || written().contains("kept in memory"));
    assert_eq!(written(), "7 kept in memory\n");
}

#[test]
fn the_installed_version_is_left_alone() {
    let home = Home::new();
    let place = super::installed(&home);
    let run = |arguments: &[&str]| {
        let mut command = home.command(place.join("outlive"));
        command.args(arguments);
        finish(command, b"")
    };
    let job = run(&["run", "--", "sleep", "300"]).ok().text().trim().to_owned();
    let result = |arguments: &[&str]| run(arguments).ok().json()["jobs"][0]["result"].clone();
    assert_eq!(result(&["--json", "upgrade"]), "current");
    // A copy of it is the same version.
    super::installed(&home);
    assert_eq!(result(&["--json", "upgrade", &job]), "current");
    // Another build: what follows a program's last section is of no meaning.
    let keeper_file = place.join("outlive-keeper");
    let other = [fs::read(&keeper_file).unwrap(), b"another build".to_vec()].concat();
    fs::remove_file(&keeper_file).unwrap();
    fs::write(&keeper_file, other).unwrap();
    super::make_executable(&keeper_file);
    assert_eq!(result(&["--json", "upgrade", "--dry-run"]), "would_upgrade");
    let said = run(&["upgrade", "--all"]).ok().text();
    assert!(said.starts_with(&format!("{job} upgraded to ")), "{said}");
    let shown = home.show(&job);
    for process in ["keeper_pid", "guard_pid"] {
        let executed = fs::read_link(format!("/proc/{}/exe", pid(&shown, process))).unwrap();
        assert_eq!(executed, keeper_file);
    }
    assert_eq!(result(&["--json", "upgrade"]), "current");
    home.run(["kill", &job]).ok();
    assert!(run(&["upgrade", &job]).code(1).error().contains("has ended"));
}

/// The new version knows that the job is to be started again, and with what environment.
#[test]
fn a_job_that_is_to_be_started_again_still_is() {
    let home = Home::new();
    let options = ["--name", "web", "--restart", "on-failure", "--restart-tries", "1", "--env", "ADDED=kept"];
    let line = "until [ -e gate ]; do sleep 0.02; done; echo $ADDED; exit 3";
    let job = home.start_with(&options, ["sh", "-c", line]);
    assert_upgraded(&home, &job);
    fs::write(home.path().join("gate"), "").unwrap();
    until("it has run again, and gives up", || home.run(["events"]).ok().text().contains("gave_up"));
    assert_eq!(home.run(["logs", "web"]).ok().text(), "kept\nkept\n");
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 2);
    until("no process of it is left", || home.processes().is_empty());
}
