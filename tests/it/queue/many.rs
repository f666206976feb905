//! Many queued jobs, while everything that can be killed is.
//!
//! Proves that order and parallelism hold, that none is lost or started twice, and that those that wait sleep.

use std::time::{Duration, Instant};

use outlive_tests::{Home, Random, activity, guard_of, report, signal, until};
use serde_json::{Value, json};

use super::{ledger, queue};

/// How many of them run at once.
const PARALLEL: usize = 4;

fn count() -> usize {
    std::env::var("OUTLIVE_TEST_QUEUED").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

fn keepers(home: &Home) -> Vec<i32> {
    let jobs = home.json(["list", "--live"]);
    let jobs = jobs.as_array().expect("a list").clone();
    let keeper = |job: &Value| i32::try_from(home.show(job["job"].as_str()?)["keeper_pid"].as_i64()?).ok();
    jobs.iter().filter_map(keeper).collect()
}

/// Returns the memory of a process, in KiB: a page that several processes share counts in parts.
fn pss_kib(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let pss = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    pss.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

#[test]
fn many_queued_jobs_keep_order_and_parallelism_whatever_is_killed() {
    let (home, seed, count) = (Home::new(), Random::seed(), count());
    report(&format!("OUTLIVE_TEST_SEED={seed}"));
    let mut random = Random::new(seed);
    home.run(["queue", "parallel", "build", &PARALLEL.to_string()]).ok();
    home.run(["queue", "pause", "build"]).ok();
    let mut jobs = Vec::new();
    for number in 0..count {
        // Until another is started after it, so that some run at the same time, and never all of them for ever.
        let line = format!(
            "echo + {number} >> ledger; \
             until [ \"$(grep + ledger | tail -n 1)\" != '+ {number}' ] || [ $(grep -c + ledger) -ge {count} ]; do \
             sleep 0.01; done; echo - {number} >> ledger"
        );
        let name = format!("j{number}");
        let started = || home.json(["run", "--queue", "build", "--name", &name, &line]);
        // Now and then the front end is killed at some moment: what it was asked for is there, or is not.
        if number % 10 == 9 {
            let mut front_end = home.outlive(["run", "--queue", "build", "--name", &name, &line]);
            let mut child = front_end.spawn().expect("it runs");
            std::thread::sleep(Duration::from_micros(random.below(8000)));
            child.kill().expect("it can be killed");
            child.wait().expect("it has ended");
            let is_it = |job: &&Value| job["name"] == name.as_str();
            let listed = home.json(["list"]);
            let made = listed.as_array().expect("a list").iter().find(is_it).cloned();
            let waits = |made: &Value| {
                until("it is decided", || {
                    let shown = home.show(made["job"].as_str().expect("an id"));
                    shown["status"] != "starting"
                        && (shown["keeper_pid"].is_i64() || shown["cause"].is_string())
                });
                home.show(made["job"].as_str().expect("an id"))["status"] == "queued"
            };
            match made.filter(waits) {
                Some(made) => jobs.push((number, made["job"].clone())),
                None => jobs.push((number, started()["job"].clone())),
            }
        } else {
            jobs.push((number, started()["job"].clone()));
        }
    }
    let ids: Vec<Value> = jobs.iter().map(|(_, id)| id.clone()).collect();
    assert_eq!(queue(&home, "build")["queued"], json!(ids), "all wait, in their order");
    idle_cost(&home);

    // Keepers and guards of jobs that wait, at random.
    let waiting = keepers(&home);
    assert_eq!(waiting.len(), count);
    for keeper in waiting {
        match random.below(8) {
            0 => signal(keeper, "KILL"),
            1 => guard_of(keeper).into_iter().for_each(|guard| signal(guard, "KILL")),
            _ => {}
        }
    }
    // One that lost its guard makes another, and is that one's guard itself.
    until("each has a keeper again", || keepers(&home).iter().all(|pid| guard_of(*pid).is_some()));
    assert_eq!(queue(&home, "build")["queued"], json!(ids), "none is lost, and the order is the same");

    home.run(["queue", "resume", "build"]).ok();
    // While they run, keepers die and the queue is paused for a moment.
    let mut is_paused = false;
    loop {
        let listed = queue(&home, "build");
        let (running, queued) = (&listed["running"], &listed["queued"]);
        if queued.as_array().expect("a list").is_empty() {
            break;
        }
        is_paused = !is_paused && random.below(5) == 0;
        home.run(["queue", if is_paused { "pause" } else { "resume" }, "build"]).ok();
        for job in running.as_array().expect("a list").iter().chain(queued.get(0)).take(2) {
            if let Some(keeper) = home.show(job.as_str().expect("an id"))["keeper_pid"].as_i64()
                && random.below(3) == 0
            {
                signal(i32::try_from(keeper).expect("a pid"), "KILL");
            }
        }
    }
    for id in &ids {
        let shown = home.wait(id.as_str().expect("an id"));
        assert_eq!(shown["exit_code"], 0, "{shown}");
    }
    check(&ledger(&home), count);
    until("no process is left", || home.processes().is_empty());
}

/// Reports what jobs that wait cost in this build (the benchmark `idle` has the bound), and looks that they sleep.
fn idle_cost(home: &Home) {
    let keepers = keepers(home);
    let all: Vec<i32> = keepers.iter().flat_map(|pid| [*pid, guard_of(*pid).expect("it has one")]).collect();
    let counted = || all.iter().map(|pid| activity(*pid)).collect::<Vec<u64>>();
    let (mut before, mut since) = (counted(), Instant::now());
    until("all have slept for a second", || {
        let now = counted();
        if now != before {
            (before, since) = (now, Instant::now());
        }
        since.elapsed() > Duration::from_secs(1)
    });
    let kib = all.iter().map(|pid| pss_kib(*pid)).sum::<u64>() / keepers.len() as u64;
    report(&format!("{} queued jobs, {kib} KiB each, no wake-up in a second", keepers.len()));
}

/// Each job ran once, never more than may at once, and in its order but for those that were started together.
fn check(ledger: &[String], count: usize) {
    let (mut running, mut started) = (0usize, Vec::new());
    for line in ledger {
        match line.split_once(' ') {
            Some(("+", number)) => {
                running += 1;
                started.push(number.parse::<usize>().expect("a number"));
            }
            _ => running -= 1,
        }
        assert!(running <= PARALLEL, "{ledger:?}");
    }
    assert!(running == 0 && started.len() == count, "{ledger:?}");
    for (place, number) in started.iter().enumerate() {
        assert!(place.abs_diff(*number) < PARALLEL, "{started:?}");
    }
}
