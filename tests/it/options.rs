//! Options of a job: each is declared once, and every surface takes it from there.
//!
//! An option of `run` counts before `config.toml`, and that before the default; the decision is in `spec.json` and in `show`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use outlive_tests::{Home, User};
use serde_json::Value;

/// Returns the decided options, as they are on disk.
fn spec(home: &Home, job: &str) -> Value {
    serde_json::from_slice(&std::fs::read(home.job_dir(job).join("spec.json")).unwrap()).unwrap()
}

#[test]
fn what_run_says_counts_before_the_configuration_and_that_before_the_default() {
    let home = Home::new();
    home.configure("[job]\ngrace = \"7s\"\ntimeout = \"1h\"\npids = 1000\nopen_files = \"500\"\n");
    let job = home.start_with(&["--timeout", "none", "--pids", "off", "--open-files", "400"], ["true"]);
    let spec = spec(&home, &job);
    assert_eq!(spec["grace_ms"], 7000, "the configuration: {spec}");
    assert_eq!(spec["output_cap_bytes"], 100 << 20, "the default: {spec}");
    assert_eq!((&spec["timeout_ms"], &spec["limits"]["pids"]), (&Value::Null, &Value::Null), "{spec}");
    assert_eq!(spec["limits"]["open_files"], 400, "{spec}");
    home.wait(&job);
}

#[test]
fn what_is_wrong_names_the_option() {
    let home = Home::new();
    for (option, wrong) in [("--timeout", "soon"), ("--stdin", "wide"), ("--pids", "0"), ("--lifetime", "x")]
    {
        let error = home.run(["run", option, wrong, "true"]).code(2).error();
        assert!(error.contains(option) && error.contains(wrong), "{error}");
    }
    home.configure("[job]\nname = \"all alike\"\n");
    let error = home.run(["run", "true"]).code(1).error();
    assert!(error.contains("job.name"), "{error}");
}

#[test]
fn show_tells_what_was_decided() {
    let home = Home::new();
    let job = home.start_with(&["--lifetime", "until=2h"], ["true"]);
    let at = &spec(&home, &job)["lifetime"]["until"]["at_us"];
    assert!(at.is_u64(), "{at}");
    assert_eq!(home.show(&job)["lifetime"]["until"]["at_us"], *at);
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains("until 2"), "{text}");
    home.wait(&job);
}

#[test]
fn merged_streams_keep_their_order() {
    let home = Home::new();
    let line = "for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done";
    let job = home.start_with(&["--merge"], ["sh", "-c", line]);
    home.wait(&job);
    let all: String = (1..=5).map(|i| format!("out {i}\nerr {i}\n")).collect();
    assert_eq!(String::from_utf8(home.logs(&job)).unwrap(), all);
    assert_eq!(home.run(["logs", "--stream", "stdout", &job]).ok().text(), all);
    assert_eq!(home.run(["logs", "--stream", "stderr", &job]).ok().text(), "");
    assert_eq!((&home.show(&job)["merge"], &spec(&home, &job)["merge"]), (&true.into(), &true.into()));

    home.configure("[job]\nmerge = true\n");
    let apart = home.start_with(&["--merge=false"], ["sh", "-c", line]);
    assert_eq!(home.wait(&apart)["output"]["stderr_lines"], 5);
    assert_eq!(home.show(&apart)["merge"], false);
}

#[test]
fn nice_is_set_or_it_is_told_why_not() {
    // An ordinary user: the last one there is.
    let home = Home::of(*User::all().last().unwrap());
    let job = home.start_with(&["--nice", "19"], ["nice"]);
    home.wait(&job);
    assert_eq!(home.logs(&job), b"19\n");
    assert_eq!((&home.show(&job)["nice"], &spec(&home, &job)["nice"]), (&19.into(), &19.into()));

    let refused = home.run(["--json", "run", "--nice", "-20", "--", "true"]).code(126).error_json();
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("priority") && message.contains("--nice"), "{refused}");
    assert!(home.run(["run", "--nice", "20", "true"]).code(2).error().contains("from -20 to 19"));
}
