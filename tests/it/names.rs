//! What changes a job takes an exact reference; only what reads one takes the beginning of its id.
//!
//! Proves that a mistyped or shortened name ends, removes or writes to no job but the one that is meant.

use outlive_tests::{Home, until};
use serde_json::{Value, json};

/// The verbs that change a job.
const CHANGES: &[&[&str]] = &[
    &["kill", "JOB"],
    &["kill", "--signal", "HUP", "JOB"],
    &["remove", "JOB"],
    &["clear", "JOB"],
    &["pause", "JOB"],
    &["resume", "JOB"],
    &["send", "JOB", "text"],
    &["session", "transfer", "JOB", "--to", "other"],
];

fn named(home: &Home, name: &str) -> String {
    home.start_with(&["--name", name], ["sleep", "300"])
}

fn ended(home: &Home, options: &[&str], argv: &[&str]) -> String {
    let job = home.start_with(options, argv);
    home.wait(&job);
    // The job closes after its end is announced.
    until("it is closed", || home.run(["list", "--live", "--json"]).ok().json() == json!([]));
    job
}

fn tail(job: &str) -> &str {
    job.rsplit_once('-').expect("an id has two parts").1
}

#[test]
fn the_beginning_of_an_id_is_enough_to_read_and_not_to_change() {
    let home = Home::new();
    let job = named(&home, "s10");
    let shortened = &job[..job.len() - 1];
    for reference in ["s1", "s10-", shortened] {
        for verb in CHANGES {
            let words = verb.iter().map(|&word| if word == "JOB" { reference } else { word });
            let failed = home.run(words).code(3).error();
            assert!(failed.contains(&format!("there is no job {reference:?}")), "{failed}");
            let hint = format!("did you mean {job}? give the whole id, its last part, or its name");
            assert!(failed.contains(&hint), "{verb:?}: {failed}");
        }
        assert_eq!(home.show(reference)["job"], *job);
        drop(home.run(["logs", reference]).ok());
    }
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["session"]), (&"running".into(), &"default".into()));
    // What resembles nothing is answered as before.
    let failed = home.run(["kill", "x1"]).code(3).error();
    assert!(failed.contains("`outlive list` shows all jobs"), "{failed}");
}

#[test]
fn removing_a_name_leaves_those_that_go_on_after_it() {
    let home = Home::new();
    let job = ended(&home, &["--name", "build10"], &["true"]);
    drop(home.run(["remove", "build1"]).code(3));
    assert_eq!(home.show(&job)["status"], "completed");
    drop(home.run(["rm", "build10"]).ok());
    drop(home.run(["show", &job]).code(3));
}

#[test]
fn a_job_is_ended_by_id_name_word_or_last_part() {
    let home = Home::new();
    let status = |job: &str| home.show(job)["status"].clone();
    for reference in
        [|job: &str| job.to_owned(), |_: &str| "My Web".to_owned(), |job: &str| tail(job).to_owned()]
    {
        let job = named(&home, "My Web");
        home.run(["kill", &reference(&job)]).ok();
        assert_eq!(status(&job), "killed");
    }
    // The id of a job without a name begins with its program.
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    home.run(["send", "cat", "hello"]).ok();
    home.wait_for_output(&job, "hello");
    home.run(["kill", "cat"]).ok();
    assert_eq!(status(&job), "killed");
    let job = named(&home, "My Web");
    home.run(["kill", "my-web"]).ok();
    assert_eq!(status(&job), "killed");
}

#[test]
fn a_name_or_word_that_a_live_job_shares_with_ended_ones_means_the_live_one() {
    let home = Home::new();
    for options in [&["--name", "web"][..], &[]] {
        let old = ended(&home, options, &["sleep", "0"]);
        let live = home.start_with(options, ["sleep", "300"]);
        let older = home.start_with(options, ["sleep", "0"]);
        home.wait(&older);
        let word = if options.is_empty() { "sleep" } else { "web" };
        home.run(["pause", word]).ok();
        assert_eq!(home.show(&live)["paused"], true);
        let killed = home.json(["kill", word]);
        assert_eq!(killed[0]["job"], *live, "{killed}");
        // Two live ones are not chosen from.
        let (one, other) =
            (home.start_with(options, ["sleep", "300"]), home.start_with(options, ["sleep", "300"]));
        let failed = home.run(["kill", word]).code(3).error();
        for job in [&one, &other] {
            assert!(failed.contains(job.as_str()), "{failed}");
        }
        assert!(!failed.contains(&old) && failed.contains("give the whole id, or its last part"), "{failed}");
        home.run(["kill", tail(&one), tail(&other)]).ok();
    }
}

#[test]
fn a_renamed_job_is_no_longer_called_by_its_old_word() {
    let home = Home::new();
    let job = named(&home, "web");
    let store = home.open();
    store.rename(&store.find("web", None).unwrap(), "api").unwrap();
    drop(home.run(["kill", "web"]).code(3));
    assert_eq!(home.json(["kill", "api"])[0]["job"], *job);
}

#[test]
fn a_kill_ends_those_that_exist_and_tells_of_each() {
    let home = Home::new();
    let (one, other) = (named(&home, "one"), named(&home, "other"));
    let done = home.run(["kill", "one", "nobody", "other", "one"]).code(3);
    assert_eq!(done.text(), format!("{one} ended, 1 process\n{other} ended, 1 process\n"));
    assert!(done.error().contains("there is no job \"nobody\""), "{}", done.error());
    let third = named(&home, "third");
    let done = home.run(["--json", "kill", "nobody", "third"]).code(3);
    assert_eq!(done.json()[0]["job"], *third);
    assert_eq!(done.error_json()["error"]["code"], "not_found");
    let left: Vec<Value> =
        serde_json::from_slice(&home.run(["--json", "list", "--live"]).ok().stdout).unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_is_done_to_several_jobs_is_done_to_those_that_exist_and_told_of_each() {
    let home = Home::new();
    let (one, other) = (named(&home, "one"), named(&home, "other"));
    for (verb, done) in [
        (&["pause"][..], "paused"),
        (&["resume"], "resumed"),
        (&["clear"], "cleared"),
        (&["session", "transfer", "--to", "elsewhere"], "transferred"),
    ] {
        let words =
            |json: &[&str]| home.run([json, verb, &["one", "nobody", "other", "one"]].concat()).code(3);
        let said = words(&[]);
        assert_eq!(said.text(), format!("{one} {done}\n{other} {done}\n"), "{verb:?}");
        assert!(said.error().contains("there is no job \"nobody\""), "{}", said.error());
        let said = words(&["--json"]);
        assert_eq!(said.json(), json!({ done: [&one, &other] }), "{verb:?}");
        assert_eq!(said.error_json()["error"]["code"], "not_found");
    }
    assert_eq!(home.show(&one)["session"], "elsewhere");
    home.run(["kill", "one", "other"]).ok();
    until("both are closed", || home.run(["list", "--live", "--json"]).ok().json() == json!([]));
    let live = named(&home, "live");
    // A job that cannot be removed keeps no other from it either.
    let said = home.run(["remove", "one", "live", "other"]).code(1);
    assert_eq!(said.text(), format!("{one} removed\n{other} removed\n"));
    assert!(said.error().contains(&live), "{}", said.error());
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(1));
}
