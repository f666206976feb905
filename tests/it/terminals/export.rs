//! Recordings of jobs: for asciinema, as text, as a page.
//!
//! They are made from what was recorded anyway; a program of its own reads each of them here.

use outlive_tests::Home;
use serde_json::Value;

use super::start;

/// Returns the header of a recording and its events: code, data and the seconds since the event before.
pub(super) fn cast(text: &str) -> (Value, Vec<(String, String, f64)>) {
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let header = lines.next().expect("a header");
    let field = |value: &Value| value.as_str().expect("text").to_owned();
    let events = lines.map(|event| (field(&event[1]), field(&event[2]), event[0].as_f64().expect("seconds")));
    (header, events.collect())
}

/// Puts together what was printed between other events.
pub(super) fn merged(events: &[(String, String, f64)]) -> Vec<(String, String)> {
    let mut merged: Vec<(String, String)> = Vec::new();
    for (code, data, _) in events {
        match merged.last_mut() {
            Some((last, text)) if last == "o" && code == "o" => text.push_str(data),
            _ => merged.push((code.clone(), data.clone())),
        }
    }
    merged
}

pub(super) fn pair(code: &str, data: &str) -> (String, String) {
    (code.to_owned(), data.to_owned())
}

#[test]
fn a_recording_has_sizes_pauses_and_the_exit_status() {
    let home = Home::new();
    let options = ["--size", "40x10", "--name", "drawn"];
    let job = start(&home, &options, "stty -echo; printf 'h\\303\\251'; read line; echo; sleep 1; exit 7");
    home.wait_for_output(&job, "hé");
    home.run(["resize", &job, "50x12"]).ok();
    home.run(["send", &job, ""]).ok();
    home.wait(&job);
    let (header, events) = cast(&home.run(["export", &job, "--cast"]).ok().text());
    assert_eq!((&header["version"], &header["title"]), (&3.into(), &"drawn".into()));
    assert_eq!((&header["term"]["cols"], &header["term"]["rows"]), (&40.into(), &10.into()));
    assert!(header["command"].as_str().expect("a command").starts_with("stty -echo"), "{header}");
    let expected = [pair("o", "hé"), pair("r", "50x12"), pair("o", "\r\n"), pair("x", "7")];
    assert_eq!(merged(&events), expected);
    let pause = events.last().expect("events").2;
    assert!((0.9..30.0).contains(&pause), "it slept for {pause} s before its end");
}

#[test]
fn a_job_that_runs_is_recorded_so_far() {
    let home = Home::new();
    let job = start(&home, &[], "stty -echo; echo begun; read line");
    home.wait_for_output(&job, "begun");
    let (_, events) = cast(&home.run(["export", &job, "--cast"]).ok().text());
    assert_eq!(merged(&events), [pair("o", "begun\r\n")]);
    home.run(["kill", "--force", &job]).ok();
    home.wait(&job);
    let (_, events) = cast(&home.run(["export", &job, "--cast"]).ok().text());
    assert_eq!(merged(&events), [pair("o", "begun\r\n"), pair("x", "137")]);
}

#[test]
fn what_scrolled_away_is_in_the_text_and_the_page() {
    let home = Home::new();
    let line = "seq 100; printf 'a <b>\\033[31mred\\033[0m'; printf '\\rA'";
    let job = start(&home, &["--size", "40x10"], line);
    home.wait(&job);
    let numbers: String = (1..=100).map(|number| format!("{number}\n")).collect();
    let text = home.run(["export", &job, "--txt"]).ok().text();
    assert_eq!(text, format!("{numbers}A <b>red\n"));
    let path = home.path().join("page.html");
    let path = path.to_str().expect("text");
    let written = home.json(["export", &job, "--html", "-o", path]);
    assert_eq!((&written["job"], &written["file"]), (&job.as_str().into(), &path.into()));
    let page = std::fs::read_to_string(path).expect("a page");
    assert!(page.contains(&numbers), "{page}");
    assert!(page.contains("A &lt;b&gt;<span style=\"color:#cd0000;\">red</span>"), "{page}");
}

#[test]
fn a_job_on_pipes_is_recorded_as_if_in_a_terminal() {
    let home = Home::new();
    let long = "x".repeat(200);
    let job = home.start(["sh", "-c", &format!("echo one; echo two >&2; echo {long}")]);
    home.wait(&job);
    let (header, events) = cast(&home.run(["export", &job, "--cast"]).ok().text());
    assert_eq!((&header["term"]["cols"], &header["term"]["rows"]), (&120.into(), &40.into()));
    let merged = merged(&events);
    assert!(merged[0].1.contains("one\r\n") && merged[0].1.contains("two\r\n"), "{merged:?}");
    assert_eq!(merged[1], pair("x", "0"));
    let text = home.run(["export", &job, "--txt"]).ok().text();
    assert!(text.lines().any(|line| line == long), "a line that is too long for a row is one line: {text}");
}

#[test]
fn what_is_lacking_is_told() {
    let home = Home::new();
    let job = start(&home, &["--output-cap", "64K"], "seq 100000; echo the end");
    home.wait(&job);
    let exported = home.run(["export", &job, "--cast"]).ok();
    assert!(exported.error().contains("it begins at offset"), "{}", exported.error());
    let (_, events) = cast(&exported.text());
    assert_eq!(merged(&events).last(), Some(&pair("x", "0")));
    let job = start(&home, &[], "seq 20000");
    home.wait(&job);
    let exported = home.run(["export", &job, "--txt"]).ok();
    assert!(exported.text().ends_with("19999\n20000\n"));
    assert!(exported.error().contains("the last rows only"), "{}", exported.error());
}

#[test]
fn one_form_is_chosen() {
    let home = Home::new();
    let job = home.start(["true"]);
    home.wait(&job);
    home.run(["export", &job]).code(2);
    home.run(["export", &job, "--cast", "--txt"]).code(2);
    home.run(["--json", "export", &job, "--txt"]).code(2);
    let refused = home.run(["export", &job, "--txt", "-o", "/nowhere/file"]).code(1).error();
    assert!(refused.contains("/nowhere/file"), "{refused}");
}
