//! What a machine cannot test is listed at the end of a run, and fails it in CI unless `tests/not-run-in-ci.txt` names it with
//! its reason: `tests/not-run`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::process::Command;

use outlive_tests::{Done, Home, finish, workspace};

/// Lets the script judge what was lacking, with a list, in or out of the continuous integration.
fn judge(lacks: &str, list: &str, is_ci: bool) -> Done {
    let home = Home::new();
    let [lacking, named] = [("lacks", lacks), ("list", list)].map(|(name, text)| {
        let path = home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let mut command = Command::new(workspace().join("tests/not-run"));
    command.args([lacking, named]).env_remove("CI");
    if is_ci {
        command.env("CI", "true");
    }
    finish(command, b"")
}

const LACKS: &str = "ready::a: for want of node\nzoo::b: for want of containment hybrid: no such group\n";

#[test]
fn what_could_not_run_is_a_failure_unless_the_list_names_it() {
    let half = "# a comment\n\nnode | it is not installed\n";
    let done = judge(LACKS, half, true).code(1);
    assert!(done.text().contains("ready::a: for want of node (it is not installed)\n"), "{}", done.text());
    assert!(
        done.text().contains("zoo::b: for want of containment hybrid: no such group\n"),
        "{}",
        done.text()
    );
    assert!(done.error().contains("does not name 1 of these"), "{}", done.error());
    // The beginning of what is lacking is enough, and its middle is not.
    judge(LACKS, &format!("{half}containment hybrid | version 1 is not mounted\n"), true).ok();
    judge(LACKS, &format!("{half}hybrid | version 1 is not mounted\n"), true).code(1);
    // A person reads it.
    assert!(judge(LACKS, half, false).ok().text().contains("containment hybrid"));
    judge(LACKS, "node\n", true).code(2);
}

#[test]
fn an_entry_that_nothing_lacks_any_more_is_told() {
    let done = judge("", "node | it is not installed\n", true).ok();
    assert!(done.text().contains("names what nothing lacks: node\n"), "{}", done.text());
    assert_eq!(judge("", "node | it is not installed\n", false).ok().text(), "");
}

#[test]
fn the_list_can_be_read_and_gives_reasons() {
    let list = std::fs::read_to_string(workspace().join("tests/not-run-in-ci.txt")).unwrap();
    judge("", &list, true).ok();
}

#[test]
fn the_tests_end_with_it() {
    let script = std::fs::read_to_string(workspace().join("test")).unwrap();
    assert!(script.contains("\ntests/not-run \"$lacks\" tests/not-run-in-ci.txt\n"), "it is not asked");
    // And lines of the designs that no test has shown count as what was not run.
    assert!(
        script.contains("/coverage\" --shown \"$shown\" >>\"$lacks\"\ntests/not-run "),
        "it is not asked"
    );
}
