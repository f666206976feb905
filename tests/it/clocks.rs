//! A wall clock that jumps by a day, and a keeper that stands still: durations and deadlines stay right.
//!
//! The jump is injected into the real keeper as it runs: the page through which the kernel tells a process the time is
//! changed in this one process, so that its wall clock is a day off from then on. Nothing in the keeper knows of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use outlive_sys::identity::{Handle, ProcessId, Stat};
use outlive_sys::signal::Signal;
use outlive_tests::{Home, is_running, lacks, millis, pid, signal, until, with_enough_time};
use serde_json::Value;

const DAY: i32 = 86_400;

/// More than this is the jump, and less is how long things take.
const HALF_A_DAY_MS: u64 = 43_200_000;

/// Stops the keeper of a job, waits until it stands still and returns its pid; `None` if the job has ended before.
fn stop_keeper(home: &Home, job: &str) -> Option<i32> {
    let shown = home.show(job)["keeper_pid"].as_i64()?;
    let keeper = ProcessId::of(i32::try_from(shown).unwrap())?;
    Handle::open(keeper)?.signal(Signal::STOP).ok()?;
    let is_stopped = || Stat::read(keeper.pid).is_some_and(|stat| matches!(stat.state, 'T' | 't'));
    until("it is stopped, or gone", || is_stopped() || !keeper.is_alive());
    let is_in_time = is_stopped() && home.show(job)["status"] == "running";
    if !is_in_time {
        signal(keeper.pid, "CONT");
    }
    is_in_time.then_some(keeper.pid)
}

/// Finds where the kernel's page with the time is in a process, and how far.
fn time_page(pid: i32) -> Option<(u64, u64)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

/// Finds a function in the page, which is a shared library as any other: its offset.
fn function(image: &[u8], name: &str) -> Option<u64> {
    let word = |at: usize| Some(u64::from_le_bytes(image.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(image.get(at..at + 2)?.try_into().ok()?) as usize);
    let (headers, size, count) = (usize::try_from(word(32)?).ok()?, half(54)?, half(56)?);
    const DYNAMIC: u8 = 2;
    let header =
        (0..count).map(|number| headers + number * size).find(|&at| image.get(at) == Some(&DYNAMIC))?;
    let dynamic = usize::try_from(word(header + 8)?).ok()?;
    let entry = |tag: u64| {
        let mut at = dynamic;
        loop {
            match word(at)? {
                0 => return None,
                found if found == tag => return usize::try_from(word(at + 8)?).ok(),
                _ => at += 16,
            }
        }
    };
    let (strings, symbols) = (entry(5)?, entry(6)?);
    // The names follow the symbols.
    (symbols..strings).step_by(24).find_map(|at| {
        let start = strings + usize::try_from(word(at)? & 0xffff_ffff).ok()?;
        let found = image.get(start..start + name.len() + 1)?;
        (found.strip_prefix(name.as_bytes()) == Some(&[0])).then(|| word(at + 8))?
    })
}

/// Lets the wall clock of one process jump. It must be stopped.
fn jump(pid: i32, seconds: i32) -> Option<()> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).ok()?;
    let (from, to) = time_page(pid)?;
    let mut image = vec![0; usize::try_from(to - from).ok()?];
    memory.read_exact_at(&mut image, from).ok()?;
    // Ask the kernel; if it was the wall clock, which is number 0, add the seconds; return.
    let mut code = vec![0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 0x07, 0x48, 0x81, 0x06];
    code.extend(seconds.to_le_bytes());
    code.push(0xc3);
    memory.write_all_at(&code, from + function(&image, "__vdso_clock_gettime")?).ok()
}

/// Returns a time of a job's object in milliseconds.
fn time_of(object: &Value, field: &str) -> i64 {
    let text = object[field].as_str().unwrap_or_else(|| panic!("no {field} in {object}"));
    let time = outlive::Timestamp::parse(text).unwrap();
    i64::try_from(time.0 / 1000).unwrap()
}

#[test]
fn a_wall_clock_that_jumps_by_a_day_changes_no_duration_and_no_deadline() {
    for days in [1, -1] {
        let home = Home::new();
        let line = "echo before; until [ -e go ]; do sleep 0.01; done; echo after; exit 4";
        let ending = home.start(["sh", "-c", line]);
        home.wait_for_output(&ending, "before");
        // The clock must jump before the time is over.
        let (limited, timeout, has_jumped) = with_enough_time(Duration::from_secs(2), |timeout| {
            let limited =
                home.start_with(&["--timeout", &millis(timeout), "--grace", "100ms"], ["sleep", "300"]);
            let mut has_jumped = true;
            for job in [&limited, &ending] {
                let keeper = stop_keeper(&home, job)?;
                has_jumped &= jump(keeper, days * DAY).is_some();
                signal(keeper, "CONT");
            }
            Some((limited, timeout, has_jumped))
        });
        if !has_jumped {
            return lacks("x86-64 and the right to write to another process, to let its clock jump");
        }
        fs::write(home.path().join("go"), "").unwrap();
        let ended = home.wait(&ending);
        assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &4.into()), "{ended}");
        assert!(ended["runtime_ms"].as_u64().unwrap() < HALF_A_DAY_MS, "{ended}");
        assert_eq!(home.logs(&ending), b"before\nafter\n");
        // The clock did jump: only what is for people shows it.
        let wall = time_of(&ended, "ended_at") - time_of(&ended, "started_at");
        let off = i64::from(days) * i64::from(DAY) * 1000;
        assert!((wall - off).unsigned_abs() < HALF_A_DAY_MS, "{wall}: {ended}");

        let ended = home.wait(&limited);
        assert_eq!(ended["status"], "timed_out", "{ended}");
        let runtime = Duration::from_millis(ended["runtime_ms"].as_u64().unwrap());
        assert!(runtime >= timeout && runtime.as_secs() < HALF_A_DAY_MS / 1000, "{runtime:?}: {ended}");
        // Retention does not take the job for older than it is.
        home.run(["gc"]).ok();
        if days == 1 {
            home.run(["show", &limited]).ok();
        }
    }
}

#[test]
fn a_wall_clock_that_jumps_by_a_day_changes_no_lease() {
    for days in [1, -1] {
        let home = Home::new();
        // The clock must jump before the lease is over.
        let (job, lease, has_jumped) = with_enough_time(Duration::from_secs(5), |lease| {
            home.configure(&format!("[session]\nlease = \"{}\"\n", millis(lease)));
            let job = home.run(["--session", "a", "run", "--lifetime", "session", "--", "sleep", "300"]).ok();
            let job = job.text().trim().to_owned();
            let keeper = stop_keeper(&home, &job)?;
            let has_jumped = jump(keeper, days * DAY).is_some();
            signal(keeper, "CONT");
            Some((job, lease, has_jumped))
        });
        if !has_jumped {
            return lacks("x86-64 and the right to write to another process, to let its clock jump");
        }
        // It ends a lease after the last front end of its session, not before and not a day later.
        let ended = home.wait(&job);
        assert_eq!(ended["status"], "killed", "{ended}");
        assert!(ended["reason"].as_str().unwrap().contains("the end of its session"), "{ended}");
        assert!(u128::from(ended["runtime_ms"].as_u64().unwrap()) >= lease.as_millis(), "{days}: {ended}");
    }
}

/// Lets the keepers of three jobs stand still beyond the deadline of one. `None` if one of them has ended before, or if it
/// cannot be told whether the standstill was added to the time that was left.
fn stand_still(timeout: Duration) -> Option<()> {
    let home = Home::new();
    let limited = |timeout: Duration| {
        home.start_with(&["--timeout", &millis(timeout), "--grace", "100ms"], ["sleep", "300"])
    };
    // The time of the first is over after the standstill, that of the second during it; the third ends by itself during it.
    let (later, over) = (limited(4 * timeout), limited(timeout));
    let line = "echo before; until [ -e go ]; do sleep 0.01; done; echo after; exit 4";
    let ending = home.start(["sh", "-c", line]);
    home.wait_for_output(&ending, "before");
    let command = pid(&home.show(&ending), "pid");
    let stopped = [&over, &later, &ending].map(|job| stop_keeper(&home, job));
    let go_on = || stopped.iter().flatten().for_each(|&keeper| signal(keeper, "CONT"));
    if stopped.contains(&None) {
        go_on();
        return None;
    }
    let began = Instant::now();
    fs::write(home.path().join("go"), "").unwrap();
    until("it has ended", || !is_running(command));
    // The end is not recorded yet, and no front end makes one up.
    assert_eq!(home.show(&ending)["status"], "running");
    let standstill = 3 * timeout;
    until("the standstill is over", || began.elapsed() >= standstill);
    assert_eq!(home.show(&over)["status"], "running");
    go_on();

    let ended = home.wait(&ending);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &4.into()), "{ended}");
    assert_eq!(home.logs(&ending), b"before\nafter\n");
    let runtime = |ended: &Value| Duration::from_millis(ended["runtime_ms"].as_u64().unwrap());
    let ended = home.wait(&over);
    assert_eq!(ended["status"], "timed_out");
    assert!(runtime(&ended) >= standstill, "not before the keeper goes on: {ended}");
    // The standstill is not added to the time that is left, and does not end what has some left.
    let ended = home.wait(&later);
    assert_eq!(ended["status"], "timed_out");
    assert!(runtime(&ended) >= 4 * timeout, "{ended}");
    (runtime(&ended) < 4 * timeout + standstill).then_some(())
}

#[test]
fn a_keeper_that_stood_still_keeps_its_deadline() {
    with_enough_time(Duration::from_secs(3), stand_still);
}
