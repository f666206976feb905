//! `run --yield`: wait so long, then return with the output so far while the job goes on.
//!
//! Nothing is lost or repeated where the waiting ends and the reading begins.

use outlive_tests::Home;

#[test]
fn a_job_that_ends_in_time_is_as_with_wait() {
    let home = Home::new();
    let done = home.run(["run", "--yield", "20s", "echo out; echo err >&2; exit 3"]).code(3);
    assert_eq!((done.text().as_str(), done.error().as_str()), ("out\n", "err\n"));
    let done = home.run(["--json", "run", "--yield", "20s", "printf half; exit 3"]).code(3).json();
    assert_eq!(
        (&done["goes_on"], &done["text"], &done["exit_code"]),
        (&false.into(), &"half".into(), &3.into())
    );
}

#[test]
fn the_rest_begins_where_the_output_so_far_ends() {
    let home = Home::new();
    let line = "i=0; until [ -e go ]; do echo line $i; i=$((i+1)); sleep 0.002; done";
    let done = home.run(["--reader", "me", "--json", "run", "--yield", "150ms", line]).ok().json();
    assert_eq!((&done["goes_on"], &done["status"]), (&true.into(), &"running".into()));
    let job = done["job"].as_str().unwrap_or_default();
    let mut text = done["text"].as_str().unwrap_or_default().to_owned();
    assert_eq!(text.len() as u64, done["next_byte"].as_u64().unwrap_or_default());
    std::fs::write(home.path().join("go"), "").unwrap();
    let lines = home.wait(job)["output"]["lines"].as_u64().unwrap();
    text.push_str(&home.run(["logs", job, "--cursor", "me"]).ok().text());
    let whole: String = (0..lines).map(|number| format!("line {number}\n")).collect();
    assert_eq!(text, whole);
    // There is no more, and another reader has not read anything.
    assert_eq!(home.run(["logs", job, "--cursor", "me"]).ok().text(), "");
    assert_eq!(home.run(["logs", job, "--cursor", "you"]).ok().text(), whole);
}

#[test]
fn the_handle_is_told_and_the_job_goes_on() {
    let home = Home::new();
    let command = ["run", "--yield", "0s", "--stdin", "open", "--", "sh", "-c", "read x; echo $x; exit 5"];
    let done = home.run(command).ok();
    let told = done.error();
    let job = told.split_whitespace().nth(1).unwrap_or_default();
    assert!(told.contains("goes on") && done.text().is_empty(), "{told}");
    home.run(["send", job, "hello"]).ok();
    assert_eq!(home.wait(job)["exit_code"], 5);
    assert_eq!(home.run(["logs", job, "--cursor", "default"]).ok().text(), "hello\n");
    home.run(["run", "--yield", "1s", "--wait", "--", "true"]).code(2);
    home.run(["run", "--yield", "soon", "--", "true"]).code(2);
}
