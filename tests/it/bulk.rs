//! What is done to many jobs at once: which are meant, and that nothing is meant by mistake.
//!
//! Conditions narrow; a verb without a job and without a condition does nothing, so that an empty variable is never everything.

use outlive_tests::{Home, until};
use serde_json::{Value, json};

/// The ids that a verb reports under a name.
fn reported(home: &Home, arguments: &[&str], name: &str) -> Vec<String> {
    let told = home.json(arguments);
    let ids = told[name].as_array().unwrap_or_else(|| panic!("{told}"));
    ids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn ended(home: &Home, options: &[&str], line: &str) -> String {
    let job = home.start_with(options, ["sh", "-c", line]);
    home.wait(&job);
    // Its keeper may be at work for another moment.
    until("it is closed", || home.show(&job)["lingering"] == false);
    job
}

#[test]
fn ended_jobs_are_removed_by_conditions_that_narrow() {
    let home = Home::new();
    let live = home.start_with(&["--group", "g"], ["sleep", "300"]);
    let good = ended(&home, &["--group", "g"], "exit 0");
    let bad = ended(&home, &["--group", "g", "--session", "s"], "exit 3");
    let other = ended(&home, &["--label", "team=web"], "exit 4");
    let removed = |arguments: &[&str]| reported(&home, &[&["rm"], arguments].concat(), "removed");
    let shown =
        |arguments: &[&str]| reported(&home, &[&["rm", "--dry-run"], arguments].concat(), "would_be_removed");
    assert_eq!(shown(&["--all"]), [good.clone(), bad.clone(), other.clone()]);
    assert_eq!(shown(&["--failed"]), [bad.clone(), other.clone()]);
    assert_eq!(shown(&["--failed", "--group", "g"]), std::slice::from_ref(&bad));
    assert_eq!(shown(&["--label", "team"]), std::slice::from_ref(&other));
    assert_eq!(shown(&["--ended", "--session", "s"]), std::slice::from_ref(&bad));
    assert_eq!(shown(&["--older", "1h"]), Vec::<String>::new());
    assert_eq!(shown(&["--older", "0s", "--status", "completed"]), std::slice::from_ref(&good));
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(4), "nothing was removed yet");
    assert_eq!(removed(&["--group", "g", "--failed"]), [bad]);
    assert_eq!(home.run(["rm", "--group", "g"]).ok().text(), format!("{good} removed\n"));
    assert_eq!(removed(&["--ended"]), [other]);
    let none = home.run(["rm", "--ended"]).ok();
    assert_eq!((none.text(), none.error()), (String::new(), "no ended jobs\n".to_owned()));
    assert_eq!(home.show(&live)["status"], "running");
    assert_eq!(home.run(["--json", "rm", "--dry-run", &live]).code(1).error_json()["error"]["code"], "live");
}

#[test]
fn nothing_named_is_never_everything() {
    let home = Home::new();
    let live = home.start(["sleep", "300"]);
    let gone = ended(&home, &[], "exit 0");
    for verb in ["rm", "pause", "resume", "kill", "clear"] {
        let told = home.run([verb]).code(2).error();
        assert!(told.contains("hint: "), "{told}");
        home.run([verb, ""]).code(3);
    }
    for verb in [&["rm", "--dry-run"][..], &["rm", &gone, "--ended"], &["pause", &live, "--all"]] {
        home.run(verb).code(2);
    }
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(2));
    assert_eq!(home.show(&live)["paused"], false);
}

#[test]
fn live_jobs_are_paused_and_go_on_together() {
    let home = Home::new();
    let ours = [(); 2].map(|()| home.start_with(&["--group", "g"], ["sleep", "300"]));
    let theirs = home.start_with(&["--session", "s"], ["sleep", "300"]);
    ended(&home, &["--group", "g"], "exit 0");
    let is_paused = |job: &str| home.show(job)["paused"].take();
    assert_eq!(reported(&home, &["pause", "--group", "g"], "paused"), ours);
    assert_eq!([&ours[0], &theirs].map(|job| is_paused(job)), [json!(true), json!(false)]);
    assert_eq!(
        reported(&home, &["pause", "--all", "--session", "s"], "paused"),
        std::slice::from_ref(&theirs)
    );
    assert_eq!(home.run(["pause", "--all"]).ok().error(), "no live jobs to pause\n");
    assert_eq!(home.run(["resume", &theirs]).ok().text(), format!("{theirs} resumed\n"));
    assert_eq!(reported(&home, &["resume", "--all"], "resumed"), ours);
    assert!(ours.iter().all(|job| is_paused(job) == false));
    assert_eq!(home.json(["resume", "--group", "g"]), json!({ "resumed": [] }));
    home.run(["pause", "--group", "none"]).code(3);
}

#[test]
fn a_job_that_pauses_all_does_not_pause_itself() {
    let home = Home::new();
    let other = home.start(["sleep", "300"]);
    let own = home.start_line("outlive pause --all; exec sleep 300");
    home.wait_for_output(&own, &format!("{other} paused\n"));
    assert_eq!(home.show(&own)["paused"], false);
}
