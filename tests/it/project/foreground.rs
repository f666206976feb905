//! `up --foreground`: the output of all jobs, each line with the name of its job.
//!
//! Proves that Ctrl-C leaves the jobs alone, and ends them with `--down`; and that names are told apart by their colours.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within, on_terminal, signal};

use super::Project;

const TOML: &str = "[jobs.a]\nrun = \"echo one; sleep 300\"\n[jobs.long]\nrun = \"echo two; sleep 300\"\n";

/// Runs it until both have printed, sends it what Ctrl-C sends, and returns its exit code.
fn interrupt(project: &Project<'_>, more: &[&str]) -> i32 {
    let mut command = project.home.outlive(["up", "--foreground"]);
    command.args(more).current_dir(&project.dir).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it is built");
    let output = child.stdout.take().expect("a pipe");
    let mut missing = vec!["a    | one", "long | two"];
    let mut lines = BufReader::new(output).lines();
    while !missing.is_empty() {
        let line = lines.next().expect("both print").expect("text");
        missing.retain(|missing| *missing != line);
    }
    signal(child.id().cast_signed(), "INT");
    std::thread::spawn(move || lines.count());
    end_within(&mut child, LIMIT).expect("it ends")
}

#[test]
fn ctrl_c_leaves_the_jobs_alone() {
    // process-compose#83, #129, #275, #311: one in the foreground, with what it needs behind it.
    let home = Home::new();
    let project = Project::new(&home, "shop", TOML);
    assert_eq!(interrupt(&project, &[]), 130);
    assert_eq!(project.live(), ["a", "long"]);
}

#[test]
fn ctrl_c_ends_the_jobs_if_that_was_asked_for() {
    let home = Home::new();
    let project = Project::new(&home, "shop", TOML);
    assert_eq!(interrupt(&project, &["--down"]), 0);
    assert!(project.live().is_empty());
}

#[test]
fn it_ends_when_all_jobs_have() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "[jobs.a]\nrun = \"printf 'x\\\\ny'; exit 2\"\n");
    let said = project.run(&["up", "--foreground"]).ok().text();
    assert!(said.contains("\na | x\na | y\na | [a-") && said.contains("failed: exited with 2"), "{said}");
}

#[test]
fn only_what_is_named_and_what_it_waits_for_is_shown() {
    let home = Home::new();
    let toml = "[jobs.worker]\nrun = \"while :; do echo busy; sleep 0.05; done\"\n\
                [jobs.db]\nrun = \"echo data; exit 0\"\n\
                [jobs.api]\nrun = \"sleep 0.5; echo served\"\nafter = \"db@succeeded\"\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up", "worker", "--wait"]).ok();
    let said = project.run(&["up", "api", "--foreground"]).ok().text();
    assert!(said.contains("db     | data\n") && said.contains("api    | served\n"), "{said}");
    assert!(!said.contains("busy"), "{said}");
    // It ended though the worker goes on.
    assert_eq!(project.live(), ["worker"]);
}

#[test]
fn each_name_has_a_colour_of_its_own_on_a_terminal() {
    let home = Home::new();
    let toml = "[jobs.a]\nrun = \"echo one\"\n[jobs.long]\nrun = \"echo two\"\n";
    let project = Project::new(&home, "shop", toml);
    let file = project.dir.join("outlive.toml").display().to_string();
    let shown = on_terminal(&home, 80, &[], &["up", "--foreground", "-f", &file]);
    let colour_of = |line: &str| {
        let before = shown.find(line).unwrap_or_else(|| panic!("no {line:?} in {shown:?}"));
        shown[..before].rsplit('\x1b').next().map(str::to_owned)
    };
    let (first, second) = (colour_of("a    |\x1b[0m one\n"), colour_of("long |\x1b[0m two\n"));
    assert_ne!(first, second, "{shown:?}");
    project.run(&["down"]).ok();
    let plain = on_terminal(&home, 80, &[("NO_COLOR", "1")], &["up", "--foreground", "-f", &file]);
    assert!(plain.contains("\na    | one\n"), "{plain:?}");
}
