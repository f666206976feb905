//! A job that lives with its session ends some time after the last front end of it is gone; others do not.
//!
//! Proves of the design: front ends hold a lease, the keeper ends the job some time after the last lease is gone.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outlive_tests::{Home, LIMIT, end_within, millis, signal, until, with_enough_time};

/// A front end that stays: it follows the session's events.
fn front_end(home: &Home, session: &str) -> Child {
    let mut command = home.outlive(["--session", session, "events", "-f"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let pid = child.id();
    let is_held = || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        locks
            .lines()
            .any(|line| line.contains("READ") && line.split_whitespace().any(|word| word == pid.to_string()))
    };
    until("the lease is held", is_held);
    child
}

fn run(home: &Home, session: &str, lifetime: &str) -> String {
    let options = ["--session", session, "run", "--lifetime", lifetime, "--", "sleep", "300"];
    home.run(options).ok().text().trim().to_owned()
}

fn kill(mut child: Child) {
    signal(child.id().cast_signed(), "KILL");
    assert!(end_within(&mut child, LIMIT).is_some());
}

#[test]
fn jobs_of_the_session_end_after_its_last_front_end_and_others_do_not() {
    let home = Home::new();
    home.configure("[session]\nlease = \"1s\"\n");
    let (first, second) = (front_end(&home, "a"), front_end(&home, "a"));
    let job = run(&home, "a", "session");
    let (forever, other) = (run(&home, "a", "forever"), run(&home, "b", "forever"));
    kill(first);
    // With one left, several times the lease changes nothing: looked at through the keeper's own clock.
    let status = || home.show(&job)["status"].clone();
    let runtime = || home.show(&job)["runtime_ms"].as_u64().unwrap_or_default();
    let begun = runtime();
    until("three leases have passed", || runtime() > begun + 3000);
    assert_eq!(status(), "running");
    kill(second);
    until("it has ended", || status() == "killed");
    let ended = home.show(&job);
    assert!(
        ended["reason"].as_str().is_some_and(|reason| reason.contains("the end of its session")),
        "{ended}"
    );
    assert_eq!(home.show(&forever)["status"], "running");
    assert_eq!(home.show(&other)["status"], "running");
}

/// Makes a home whose leases are so long.
fn home_with_lease(lease: Duration) -> Home {
    let home = Home::new();
    home.configure(&format!("[session]\nlease = \"{}\"\n", millis(lease)));
    home
}

#[test]
fn a_front_end_that_comes_back_in_time_keeps_the_jobs() {
    with_enough_time(Duration::from_secs(3), |lease| {
        let home = home_with_lease(lease);
        let early = front_end(&home, "a");
        let job = run(&home, "a", "session");
        let left = Instant::now();
        kill(early);
        kill(front_end(&home, "a"));
        let kept = front_end(&home, "a");
        let is_in_time = left.elapsed() < lease;
        let runtime = || u128::from(home.show(&job)["runtime_ms"].as_u64().unwrap_or_default());
        if is_in_time {
            until("two leases have passed", || runtime() > 2 * lease.as_millis());
            assert_eq!(home.show(&job)["status"], "running");
        }
        kill(kept);
        until("it has ended", || home.show(&job)["status"] == "killed");
        is_in_time.then_some(())
    });
}

#[test]
fn every_command_for_the_session_is_a_sign_of_life() {
    with_enough_time(Duration::from_secs(2), |lease| {
        let home = home_with_lease(lease);
        let (mut before, mut is_in_time) = (Instant::now(), true);
        let job = run(&home, "a", "session");
        let mut status = String::new();
        until("three leases have passed", || {
            let asked = Instant::now();
            let shown = home.json(["--session", "a", "show", &job]);
            // The sign is given at some time between the question and its answer.
            is_in_time &= before.elapsed() < lease;
            before = asked;
            status = shown["status"].as_str().unwrap_or_default().to_owned();
            !is_in_time
                || u128::from(shown["runtime_ms"].as_u64().unwrap_or_default()) > 3 * lease.as_millis()
        });
        assert!(!is_in_time || status == "running", "{status}");
        is_in_time.then_some(())
    });
}

#[test]
fn a_job_lives_until_the_time_that_was_said() {
    let home = Home::new();
    let asked = now_us();
    let job = home.start_with(&["--lifetime", "until=200ms"], ["sleep", "300"]);
    let ended = home.wait(&job);
    assert_eq!(ended["status"], "killed");
    assert!(ended["reason"].as_str().is_some_and(|reason| reason.contains("lifetime")), "{ended}");
    // Counted from the question, however long the start takes.
    let spec = home.open().find(&job, None).expect("it is there").spec().clone();
    let outlive::Lifetime::Until { at } = spec.options.lifetime else {
        panic!("{:?}", spec.options.lifetime)
    };
    assert!(at.0 >= asked + 200_000 && at.0 < spec.created.0 + 200_000, "{at:?} after {asked}: {spec:?}");
    let ended_at = ended["ended_at"].as_str().and_then(|time| outlive::Timestamp::parse(time).ok());
    assert!(ended_at.is_some_and(|ended| ended.0 / 1000 >= at.0 / 1000), "before {at:?}: {ended}");
    // One that is over already ends at once; one that makes no sense does not start.
    let over =
        home.run(["run", "--lifetime", "until=2001-01-01T00:00:00Z", "--", "sleep", "300"]).ok().text();
    assert_eq!(home.wait(over.trim())["status"], "killed");
    home.run(["run", "--lifetime", "soon", "--", "true"]).code(2);
}

fn now_us() -> u64 {
    outlive_sys::clock::wall_us()
}
