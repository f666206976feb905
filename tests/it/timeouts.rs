//! A deadline holds with every front end dead.
//!
//! Proves S1-70, S2-42 and S3-57 (TERM, then KILL, when the time is over) for jobs that nobody looks after any more, and
//! how late they are ended. By root and by an ordinary user.

use std::process::Stdio;

use outlive_tests::{Home, LIMIT, User, end_within, pid, report, until};

const JOBS: usize = 20;

const TIMEOUT_MS: u64 = 1500;

/// Half of them may be so late at most.
const MEDIAN_BOUND_MS: u64 = 100;

/// None may be later.
const BOUND_MS: u64 = 1000;

#[test]
fn jobs_end_in_time_though_all_who_started_them_were_killed() {
    for user in User::all() {
        let home = Home::of(user);
        let timeout = format!("{TIMEOUT_MS}ms");
        for number in 0..JOBS {
            let is_stubborn = number % 4 == 0;
            let line = if is_stubborn { "trap '' TERM; sleep 300 & wait; wait" } else { "exec sleep 300" };
            let name = format!("job {number}");
            let options = ["--wait", "--timeout", &timeout, "--grace", "300ms", "--name", &name];
            let arguments = [&["run"], options.as_slice(), &["--", "sh", "-c", line]].concat();
            let mut front_end =
                home.outlive(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let is_running = || {
                let shown = home.run(["--json", "show", &name]);
                shown.code == 0 && shown.json()["status"] == "running"
            };
            until("it runs", is_running);
            front_end.kill().unwrap();
            assert_eq!(end_within(&mut front_end, LIMIT), Some(128 + 9), "it was there until it was killed");
        }
        let jobs = home.json(["list"]);
        let jobs = jobs.as_array().unwrap();
        assert_eq!(jobs.len(), JOBS);
        // Nobody of ours is there; the keepers are on their own.
        until("all keepers are gone", || home.keepers().is_empty());

        let mut lateness = Vec::new();
        for job in jobs {
            let shown = home.show(job["job"].as_str().unwrap());
            assert_eq!(
                (&shown["status"], &shown["cause"]),
                (&"timed_out".into(), &"timeout".into()),
                "{shown}"
            );
            let is_stubborn = shown["command"].as_str().unwrap().contains("trap");
            let signal = if is_stubborn { "SIGKILL" } else { "SIGTERM" };
            assert_eq!((&shown["signal"], &shown["exit_code"]), (&signal.into(), &serde_json::Value::Null));
            let grace = if is_stubborn { 300 } else { 0 };
            let due = TIMEOUT_MS + grace;
            let runtime = shown["runtime_ms"].as_u64().unwrap();
            assert!(runtime >= due, "{shown}: it was ended too early");
            assert!(pid(&shown, "pid") > 0 && shown["closed_at"].is_string(), "{shown}");
            lateness.push(runtime - due);
        }
        lateness.sort_unstable();
        report(&format!("late by, as {user:?}: {lateness:?} ms"));
        assert!(lateness[JOBS / 2] <= MEDIAN_BOUND_MS, "{lateness:?}");
        assert!(lateness[JOBS - 1] <= BOUND_MS, "{lateness:?}");
    }
}
