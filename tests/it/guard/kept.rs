//! What a job must not lose with its keeper beside its lines: limits, what becomes of those it leaves behind, a flood to the byte, and
//! the jobs inside it.

use std::fs;
use std::io::BufRead;

use outlive::Level;
use outlive_tests::{LIMIT, end_within, everywhere, is_running, pid, registered, signal, until};

use super::random::keeper as keeper_of;
use super::{assert_whole, keeper, printed, printing, replace_keeper};

#[test]
fn a_memory_limit_is_kept() {
    everywhere(|home, level| {
        let tree = home.make_dir(&format!("eats-{}", level.word())).join("tree");
        let line = format!(
            "until [ -e go ]; do sleep 0.01; done; exec {} {} eats",
            home.program("zoo").display(),
            tree.display()
        );
        let options = ["--containment", level.word(), "--memory", "64M"];
        let job = home.start_with(&options, ["sh", "-c", &line]);
        replace_keeper(home, &job);
        fs::write(home.path().join("go"), "").unwrap();
        let shown = home.wait(&job);
        assert_eq!((&shown["cause"], &shown["status"]), (&"oom".into(), &"failed".into()), "{shown}");
        until("it is gone", || registered(&tree).iter().all(|eater| !eater.is_alive()));
        fs::remove_file(home.path().join("go")).unwrap();
    });
}

#[test]
fn those_left_behind_are_ended_where_that_is_asked_for() {
    everywhere(|home, level| {
        // What has left a bare process group is not reached.
        let setsid = if level == Level::Group { "" } else { "setsid" };
        let line =
            format!("{setsid} sleep 300 & echo $! > left; until [ -e go ]; do sleep 0.01; done; exit 7");
        let options = ["--containment", level.word(), "--survivors", "kill", "--grace", "100ms"];
        let job = home.start_with(&options, ["sh", "-c", &line]);
        let left = || fs::read_to_string(home.path().join("left")).ok()?.trim().parse::<i32>().ok();
        until("it has a child", || left().is_some());
        let left = left().unwrap();
        replace_keeper(home, &job);
        assert!(is_running(left));
        fs::write(home.path().join("go"), "").unwrap();
        assert_eq!(home.wait(&job)["exit_code"], 7);
        until("it is closed", || home.show(&job)["closed_at"].is_string());
        assert!(!is_running(left));
        fs::remove_file(home.path().join("left")).unwrap();
        fs::remove_file(home.path().join("go")).unwrap();
    });
}

#[test]
fn a_job_inside_a_job_and_the_one_around_it_survive_their_keepers() {
    everywhere(|home, level| {
        // Both go on after half of it when their keepers have been replaced.
        let pause = "sleep 0.01; while [ $n -eq 50 ] && [ ! -e replaced ]; do sleep 0.01; done";
        let inner = printing(100, pause);
        let line = format!(
            "outlive run --name inner --containment {} -- sh -c '{inner}'; {}",
            level.word(),
            printing(100, pause)
        );
        let replaced = home.path().join("replaced");
        fs::remove_file(&replaced).ok();
        let outer = home.start_with(&["--containment", level.word()], ["sh", "-c", &line]);
        until("the one inside runs", || {
            home.run(["show", "inner"]).code == 0 && !home.show("inner")["keeper_pid"].is_null()
        });
        let inner = home.show("inner")["job"].as_str().unwrap().to_owned();
        for job in [&inner, &outer] {
            replace_keeper(home, job);
        }
        fs::write(&replaced, b"").unwrap();
        assert_whole(home, &inner, 100);
        let shown = home.wait(&outer);
        assert_eq!((&shown["status"], &shown["exit_code"]), (&"failed".into(), &7.into()), "{shown}");
        until("no process is left", || home.processes().is_empty());
        home.run(["remove", &inner]).ok();
    });
}

/// How much output a flood has, in MiB; `OUTLIVE_TEST_FLOOD=1024` is a gigabyte.
fn flood_mib() -> u64 {
    std::env::var("OUTLIVE_TEST_FLOOD").ok().and_then(|text| text.parse().ok()).unwrap_or(32)
}

/// Keepers die all the time while a job prints about a gigabyte a minute, so that deaths between each read and its write are among them.
#[test]
fn a_flood_is_whole_to_the_byte() {
    // As many numbers of up to nine digits, with a newline each, as a MiB has room for.
    const PART: u64 = (1 << 20) / 10;
    let (mib, lines) = (flood_mib(), flood_mib() * PART);
    let home = outlive_tests::Home::new();
    let cap = format!("{}M", 2 * mib);
    let line = format!(
        "i=0; while [ $i -lt {mib} ]; do seq $((i * {PART} + 1)) $(((i + 1) * {PART})); i=$((i+1)); sleep 0.05; done; exit 7"
    );
    let job = home.start_with(&["--output-cap", &cap], ["sh", "-c", &line]);
    let most = if outlive_sys::exit::can_tell() { 20.max(mib) } else { 1 };
    let mut deaths = 0;
    while deaths < most {
        let Some(first) = keeper_of(&home, &job) else { break };
        let printed = printed(&home, &job);
        signal(first, "KILL");
        deaths += 1;
        until("it prints on, or has ended", || match keeper_of(&home, &job) {
            Some(next) => next != first && super::printed(&home, &job) != printed,
            None => true,
        });
    }
    let ended = end_within(&mut home.outlive(["wait", &job]).spawn().unwrap(), 10 * LIMIT);
    assert_eq!(ended, Some(7));
    outlive_tests::report(&format!("{deaths} keepers died in {mib} MiB of output"));
    assert!(deaths > 0);
    let shown = home.show(&job);
    assert_eq!(shown["output"]["stdout_lines"], lines, "{shown}");
    assert_eq!(shown["output"]["dropped_bytes"], 0, "{shown}");
    let mut logs = home.outlive(["logs", &job]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut printed = std::io::BufReader::new(logs.stdout.take().unwrap()).lines();
    for number in 1..=lines {
        let line = printed.next().unwrap().unwrap();
        assert!(line == number.to_string(), "{line} in place of {number}");
    }
    assert!(printed.next().is_none());
    assert!(logs.wait().unwrap().success());
    assert!(super::events(&home, &job).contains(&"keeper_replaced".to_owned()));
}

#[test]
fn a_keeper_that_stands_still_is_no_dead_one() {
    let home = outlive_tests::Home::new();
    let job = home.start_with(&["--grace", "100ms"], ["sh", "-c", "echo up; sleep 300 & wait"]);
    home.wait_for_output(&job, "up");
    let (first, main) = (keeper(&home, &job), pid(&home.show(&job), "pid"));
    signal(first, "STOP");
    home.run(["kill", &job]).ok();
    assert!(!is_running(main));
    assert_eq!(home.wait(&job)["status"], "killed");
}
