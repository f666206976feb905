//! Projects whose file says `on`.
//!
//! Proves that jobs on another machine are brought up, explained and ended beside those here.

use std::fs;
use std::path::{Path, PathBuf};

use outlive_tests::{Done, finish, until};
use serde_json::Value;

use super::Machine;

struct Project<'a> {
    machine: &'a Machine,
    dir: PathBuf,
}

impl<'a> Project<'a> {
    fn new(machine: &'a Machine, toml: &str) -> Self {
        let project = Self { machine, dir: machine.here.make_dir("shop") };
        project.write(toml);
        project
    }

    fn write(&self, toml: &str) {
        fs::write(self.dir.join("outlive.toml"), toml).expect("written");
    }

    #[must_use = "a test that does not look proves nothing"]
    fn run(&self, arguments: &[&str]) -> Done {
        let mut command = self.machine.outlive(arguments);
        command.current_dir(&self.dir);
        finish(command, b"")
    }

    fn status(&self, name: &str) -> Value {
        let mut status = self.run(&["--json", "status"]).ok().json();
        let jobs = status["jobs"].as_array_mut().expect("a list");
        jobs.iter_mut().find(|job| job["name"] == name).expect("it is listed").take()
    }

    fn state(&self, name: &str) -> String {
        self.status(name)["state"].as_str().expect("a text").to_owned()
    }

    fn id(&self, name: &str) -> String {
        self.status(name)["job"]["job"].as_str().expect("it was started").to_owned()
    }
}

fn count(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[test]
fn jobs_on_another_machine_are_brought_up_beside_those_here() {
    let Some(mut machine) = Machine::start() else { return };
    let begun = machine.there.path().join("begun");
    let go = machine.there.path().join("go");
    let toml = |word: &str| {
        format!(
            "[jobs.train]\non = \"gpu1\"\nrun = \"echo {word} $KIND >>{0}; echo begins {word}; \
             until [ -e {1} ]; do sleep 0.02; done; echo epoch 1; sleep 300\"\nready.line = \"epoch\"\nenv = {{ KIND = \"x\" }}\n\
             [jobs.here]\nrun = \"sleep 300\"\nafter = [\"train\"]\n[jobs.quick]\nrun = \"true\"\non = \"gpu1\"\n",
            begun.display(),
            go.display()
        )
    };
    let project = Project::new(&machine, &toml("one"));
    assert!(project.run(&["why", "train"]).ok().text().contains("never started on gpu1"));
    let brought = project.run(&["up"]).ok().text();
    assert!(brought.contains("train  started gpu1/train-"), "{brought}");
    assert!(brought.contains("here   waits for train@ready"), "{brought}");
    assert_eq!(project.state("train"), "running, not ready");
    assert_eq!(project.status("train")["host"], "gpu1");
    let why = project.run(&["why", "here"]).ok().text();
    assert!(
        why.starts_with("here is not started: it waits for train@ready\n  on gpu1: train runs as train-"),
        "{why}"
    );
    assert!(why.contains("no line that matches /epoch/") && why.contains("| begins one"), "{why}");
    // In the project's directory the name is enough.
    assert_eq!(project.run(&["logs", "train"]).ok().text(), "begins one\n");
    fs::write(&go, "").expect("written");
    project.run(&["up", "--wait"]).ok();
    assert_eq!(
        (project.state("train").as_str(), project.state("here").as_str()),
        ("running, ready", "running")
    );
    until("it has ended", || project.state("quick") == "completed");
    assert_eq!(fs::read_to_string(&begun).expect("it began"), "one x\n", "it was started once");
    let first = project.id("train");
    let shown = project.run(&["status"]).ok().text();
    assert!(shown.contains(&format!("gpu1/{first}")), "{shown}");

    // A machine that cannot be reached is shown as such, and its jobs are not ended by that.
    machine.cut();
    let project = Project { machine: &machine, dir: machine.here.path().join("shop") };
    let unreachable = project.status("train");
    assert!(
        unreachable["state"].as_str().expect("a text").starts_with("unreachable, running, ready "),
        "{unreachable}"
    );
    assert!(unreachable["unreachable_ms"].is_u64(), "{unreachable}");
    assert_eq!(project.state("quick"), "completed", "what had ended is certain");
    assert!(project.run(&["why", "train"]).ok().text().contains("cannot be reached"));
    let down = project.run(&["down"]).code(1);
    assert!(
        down.text().contains("here ended") && down.error().contains("gpu1"),
        "{} {}",
        down.text(),
        down.error()
    );
    machine.listen();
    let project = Project { machine: &machine, dir: machine.here.path().join("shop") };
    assert_eq!(project.id("train"), first, "it went on");

    // What is changed in the file is started anew, and what is not is left.
    project.run(&["up"]).ok();
    assert_eq!(project.id("train"), first);
    project.write(&toml("two"));
    assert!(project.state("train").ends_with(", changed"), "{}", project.state("train"));
    let again = project.run(&["up"]).ok().text();
    assert!(
        again.contains("train  restarted as gpu1/train-") && again.contains("command changed"),
        "{again}"
    );
    assert_ne!(project.id("train"), first);
    assert_eq!(count(&begun), 2);

    // In another place: the one before is ended first.
    project.write(&toml("three").replace("[jobs.train]\non = \"gpu1\"\n", "[jobs.train]\n"));
    project.run(&["up", "--wait"]).ok();
    let there = machine.there.json(["list", "--live"]);
    assert_eq!(there.as_array().expect("a list").len(), 0, "{there}");
    assert_eq!(count(&begun), 3);
    project.write(&toml("four"));
    project.run(&["up", "--wait"]).ok();
    let names = |home: &outlive_tests::Home| {
        let listed = home.json(["list", "--live"]);
        listed.as_array().expect("a list").iter().map(|job| job["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&machine.here), names(&machine.there)),
        (vec!["\"here\"".into()], vec!["\"train\"".into()])
    );
    let down = project.run(&["down"]).ok().text();
    assert!(down.contains("train ended, gpu1/train-") && down.contains("here ended"), "{down}");
    assert_eq!((names(&machine.here), names(&machine.there)), (vec![], vec![]));
    assert_eq!(project.state("train"), "down");
}

#[test]
fn a_machine_that_is_not_configured_is_told_with_its_place() {
    let Some(machine) = Machine::start() else { return };
    let project = Project::new(&machine, "[jobs.train]\nrun = \"true\"\non = \"gpu2\"\n");
    let refused = project.run(&["up"]).code(1).error();
    assert!(
        refused.contains("outlive.toml:3:6: config.toml names no machine `gpu2`; did you mean `gpu1`?"),
        "{refused}"
    );
    for (toml, place) in [
        ("[jobs.a]\nrun = \"true\"\nsync = \".\"\n", "outlive.toml:3:1: `sync` copies to another machine"),
        ("[jobs.a]\nrun = \"true\"\ncpus = 2\n", "outlive.toml:3:1: `cpus` is for an engine"),
        ("[jobs.a]\nrun = \"true\"\nengine = \"slrm\"\n", "outlive.toml:3:10: there is no such engine"),
        (
            "[templates.a]\nrun = \"true\"\non = \"gpu1\"\n",
            "outlive.toml:3:1: a template is started on this machine",
        ),
    ] {
        project.write(toml);
        let refused = project.run(&["up"]).code(1).error();
        assert!(refused.contains(place), "{refused}");
    }
    // What is copied is here, and its place in the copy is the directory.
    fs::create_dir_all(project.dir.join("src")).expect("made");
    fs::write(project.dir.join("src/data"), "one\n").expect("written");
    project.write("[jobs.a]\nrun = \"cat data\"\non = \"gpu1\"\nsync = \".\"\ndir = \"src\"\n");
    project.run(&["up"]).ok();
    until("it has ended", || project.state("a") == "completed");
    assert_eq!(project.run(&["logs", "a"]).ok().text(), "one\n");
    project.run(&["down"]).ok();
}

#[test]
fn what_jobs_print_on_another_machine_is_shown_in_the_foreground() {
    let Some(machine) = Machine::start() else { return };
    let project = Project::new(
        &machine,
        "[jobs.there]\non = \"gpu1\"\nrun = \"echo far; echo away >&2; exit 3\"\n[jobs.here]\nrun = \"echo near\"\n",
    );
    let shown = project.run(&["up", "--foreground"]).ok().text();
    for line in ["there | far\n", "there | away\n", "here  | near\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    let end = shown.lines().find(|line| line.starts_with("there | [gpu1/there-")).unwrap_or_default();
    assert!(end.contains("failed: exited with 3"), "{shown}");
    project.run(&["down"]).ok();
}
