//! Processes of outlive are killed while a project comes up.
//!
//! Proves that after another `up` each job runs once, and none before what it waits for.

use std::process::Stdio;
use std::time::Duration;

use outlive_tests::{Home, Random, report, signal};

use super::Project;

/// Kills the processes that start the jobs of this home's projects.
fn kill_starters(home: &Home) -> usize {
    let is_starter = |pid: &i32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|&byte| byte == 0).nth(1) == Some(b"converge")
    };
    let starters: Vec<i32> = home.processes().into_iter().filter(is_starter).collect();
    starters.iter().for_each(|&pid| signal(pid, "KILL"));
    starters.len()
}

#[test]
fn each_job_runs_once_whenever_up_is_killed() {
    let rounds = std::env::var("OUTLIVE_TEST_UPS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let home = Home::new();
    let job = |name: &str, after: &str| {
        format!(
            "[jobs.{name}]\nrun = \"echo {name} >> order; echo up; exec sleep 300\"\nready.line = \"up\"\nafter = [{after}]\n"
        )
    };
    let toml = [job("a", ""), job("b", "\"a\""), job("c", "\"b\""), job("d", "\"a\"")].concat();
    let project = Project::new(&home, "shop", &toml);
    let seed = Random::seed();
    report(&format!("OUTLIVE_TEST_SEED={seed} repeats it"));
    let mut random = Random::new(seed);
    for round in 0..rounds {
        let mut command = home.outlive(["up"]);
        command.current_dir(&project.dir).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it is built");
        // The moment of the kill is left to chance; whatever it is, the outcome is the same.
        std::thread::sleep(Duration::from_millis(random.below(120)));
        child.kill().ok();
        child.wait().expect("it is ours");
        if round % 2 == 0 {
            kill_starters(&home);
        }
        project.run(&["up", "--wait"]).ok();
        assert_eq!(project.live(), ["a", "b", "c", "d"], "round {round}");
        let order = std::fs::read_to_string(project.dir.join("order")).expect("they wrote it");
        let order: Vec<&str> = order.lines().collect();
        let place = |name: &str| order.iter().position(|line| *line == name).expect("it ran");
        assert_eq!(order.len(), 4, "round {round}: {order:?}");
        assert!(place("a") < place("b") && place("b") < place("c") && place("a") < place("d"), "{order:?}");
        project.run(&["down"]).ok();
        assert!(project.live().is_empty(), "round {round}");
        std::fs::remove_file(project.dir.join("order")).expect("it is there");
    }
}

#[test]
fn a_job_is_started_after_up_is_gone() {
    let home = Home::new();
    let toml = "[jobs.a]\nrun = \"cat\"\nstdin = \"open\"\nready.line = \"up\"\n[jobs.b]\nrun = \"sleep 300\"\nafter = [\"a\"]\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    assert_eq!(project.state("b"), "waits for a@ready");
    // The process that waits is killed: that is told, and another `up` goes on.
    assert_eq!(kill_starters(&home), 1);
    project.until("b", "waits for a@ready, stuck");
    let why = project.run(&["why", "b"]).ok().text();
    assert!(why.contains("the process that waited for it was killed: `outlive up` goes on"), "{why}");
    let a = project.id("a");
    project.run(&["up"]).ok();
    home.run(["send", &a, "up"]).ok();
    project.until("b", "running");
    assert_eq!((project.id("a"), project.live()), (a, vec!["a".to_owned(), "b".to_owned()]));
}
