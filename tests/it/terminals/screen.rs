//! The screen of a job: as it is, as it was, and of a long log.
//!
//! It is derived from what was recorded, by any program, at any time, also when the job has ended.

use std::time::Duration;

use outlive_tests::{Home, until};
use serde_json::Value;

use super::start;

/// Returns the rows of a job's screen, without the blank ones at its end.
fn rows(screen: &Value) -> Vec<String> {
    let rows = screen["rows"].as_array().expect("rows");
    let mut rows: Vec<String> = rows.iter().map(|row| row.as_str().expect("text").to_owned()).collect();
    while rows.pop_if(|row| row.is_empty()).is_some() {}
    rows
}

/// Lists the checkpoints of a job.
fn checkpoints(home: &Home, job: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(home.job_dir(job)).expect("the job's directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "checkpoint")).collect()
}

#[test]
fn what_was_drawn_is_shown() {
    let home = Home::new();
    let line = "printf '\\033]0;a title\\007one\\r\\ntwo\\033[1;31m red\\033[0m\\033[5;10Hthere'; read line";
    let job = start(&home, &["--size", "40x10"], line);
    home.wait_for_output(&job, "there");
    let screen = home.json(["screen", &job]);
    assert_eq!(rows(&screen), ["one", "two red", "", "", "         there"]);
    assert_eq!(screen["size"], "40x10");
    assert_eq!((&screen["cursor"]["row"], &screen["cursor"]["column"]), (&5.into(), &15.into()));
    assert_eq!((&screen["title"], &screen["derived_from"]), (&"a title".into(), &0.into()));
    let text = home.run(["screen", &job, "--cursor"]).ok().text();
    assert_eq!(text, "one\ntwo red\n\n\n         there\ncursor: row 5, column 15\n");
    let styled = home.run(["screen", &job, "--ansi"]).ok().text();
    assert!(styled.contains("two\u{1b}[0;1;31m red\u{1b}[0m\n"), "{styled:?}");
    home.run(["send", &job, ""]).ok();
    home.wait(&job);
    assert_eq!(rows(&home.json(["screen", &job]))[0], "one", "it is there after the end");
}

#[test]
fn a_job_on_pipes_has_no_screen() {
    let home = Home::new();
    let job = home.start(["true"]);
    home.wait(&job);
    let refused = home.run(["--json", "screen", &job]).code(1).error_json();
    assert_eq!(refused["error"]["code"], "no_terminal");
}

#[test]
fn a_screen_is_shown_as_it_was() {
    let home = Home::new();
    let job = start(&home, &["--size", "40x10"], "echo first; read line; clear; echo second; read line");
    home.wait_for_output(&job, "first");
    let between = home.json(["screen", &job])["time"].as_str().unwrap().to_owned();
    // A record has the time of its first byte; the next one is later.
    std::thread::sleep(Duration::from_millis(50));
    home.run(["send", &job, ""]).ok();
    home.wait_for_output(&job, "second");
    assert_eq!(rows(&home.json(["screen", &job])), ["second"]);
    assert_eq!(rows(&home.json(["screen", &job, "--at", &between])), ["first"]);
    home.run(["kill", &job]).ok();
}

#[test]
fn a_blank_screen_says_why() {
    let home = Home::new();
    let job = start(
        &home,
        &[],
        "stty -echo; read line; printf '\\033[?1049hdrawn'; read line; printf '\\033[?1049l'",
    );
    let why = || home.run(["screen", &job]).ok().error();
    assert_eq!(why(), "outlive: it has printed nothing yet\n");
    home.run(["send", &job, ""]).ok();
    home.wait_for_output(&job, "drawn");
    assert_eq!(why(), "");
    let before = home.run(["screen", &job, "--at", "1h"]).ok();
    assert_eq!(before.text(), "");
    assert!(
        before.error().starts_with("outlive: nothing was on its screen yet; look at '20"),
        "{}",
        before.error()
    );
    home.run(["send", &job, ""]).ok();
    home.wait(&job);
    assert!(why().contains(&format!("its screen is blank; `outlive play {job}`")), "{}", why());
}

#[test]
fn sizes_change_in_their_place() {
    let home = Home::new();
    let job = start(
        &home,
        &["--size", "20x5"],
        "printf '%s' 1234567890123456789; read line; printf '%s' abc; read line",
    );
    home.wait_for_output(&job, "789");
    home.run(["resize", &job, "10x5"]).ok();
    home.run(["send", &job, ""]).ok();
    home.wait_for_output(&job, "abc");
    let screen = home.json(["screen", &job]);
    assert_eq!(screen["size"], "10x5");
    assert_eq!(rows(&screen)[..2], ["1234567890", "123456789"], "what was there is wrapped again");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_long_log_is_read_from_the_last_checkpoint() {
    let home = Home::new();
    let job = start(&home, &["--output-cap", "off"], "seq 700000; echo the end");
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let whole = home.json(["screen", &job]);
    let kept = checkpoints(&home, &job);
    assert!(kept.len() >= 4, "{kept:?}");
    assert_eq!(home.json(["screen", &job]), whole, "from a checkpoint it is the same");
    // One that is damaged, and all being gone, cost nothing but time.
    for path in &kept {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(home.json(["screen", &job]), whole);
    for path in checkpoints(&home, &job) {
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(home.json(["screen", &job]), whole);
    assert_eq!(home.run(["doctor"]).ok().error(), "");
}

#[test]
fn what_was_dropped_is_told() {
    let home = Home::new();
    let job = start(&home, &["--output-cap", "64K"], "seq 100000; echo the end");
    assert_eq!(home.wait(&job)["exit_code"], 0);
    // The keeper has screens kept; one that was begun may come late.
    until("no screen was kept", || {
        checkpoints(&home, &job).into_iter().for_each(|path| drop(std::fs::remove_file(path)));
        home.json(["screen", &job])["derived_from"].as_u64() > Some(0)
    });
    let screen = home.json(["screen", &job]);
    assert_eq!(rows(&screen).last().map(String::as_str), Some("the end"));
    assert!(home.run(["screen", &job]).ok().error().contains("only the last is known"));
}

/// Row 1 is drawn once and row 2 until the output of row 1 is dropped; no program looks meanwhile.
#[test]
fn what_stands_there_stays_when_its_output_is_dropped() {
    const PART: u64 = 32 << 10;
    let home = Home::new();
    let draws = "i=0; while [ $i -lt 450 ]; do printf '\\033[2;1Hrow %070d' $i; i=$((i+1)); done";
    let line = format!("stty -echo; echo header; while read -r go; do {draws}; done");
    let job = start(&home, &["--output-cap", &(8 * PART).to_string()], &line);
    home.wait_for_output(&job, "header");
    let end = || home.show(&job)["output"]["bytes"].as_u64().expect("a number");
    for round in 1..=12 {
        home.run(["send", &job, ""]).ok();
        until("it is drawn", || end() > round * PART);
        let newest = || {
            let names = checkpoints(&home, &job).into_iter().filter_map(|path| {
                let name = path.file_stem()?.to_str()?.to_owned();
                name.rsplit('-').next()?.parse::<u64>().ok()
            });
            names.max().unwrap_or(0)
        };
        if round > 4 {
            until("its screen is kept", || newest() + 2 * PART > end());
        }
    }
    assert!(!home.job_dir(&job).join(outlive_core::segment::name(0)).exists(), "the beginning was dropped");
    // The last round prints more than was waited for.
    let whole = ["header".to_owned(), format!("row {:070}", 449)];
    until("the last row is drawn", || rows(&home.json(["screen", &job])) == whole);
    assert_eq!(home.json(["screen", &job])["derived_from"], 0);
    home.run(["kill", &job]).ok();
}

#[test]
fn a_screen_is_awaited_until_nothing_changes() {
    let home = Home::new();
    let job = start(&home, &[], "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done; echo done; read line");
    let text = home.run(["screen", &job, "--wait-stable", "2s"]).ok().text();
    assert!(text.ends_with("5\ndone\n"), "{text}");
    home.run(["kill", &job]).ok();
}

/// The screens that were kept of a long log are drawn by what was to be forgotten.
#[test]
fn a_clear_leaves_no_screen_behind() {
    let home = Home::new();
    let line = "seq 200000; echo before; read x; seq 200000; echo after; read x";
    let job = start(&home, &[], line);
    for word in ["before", "after"] {
        home.wait_for_output(&job, word);
        assert!(home.run(["screen", &job]).ok().text().contains(word));
        assert!(!checkpoints(&home, &job).is_empty());
        if word == "after" {
            // The same without a keeper.
            home.run(["kill", &job]).ok();
        }
        home.run(["clear", &job]).ok();
        assert!(checkpoints(&home, &job).is_empty());
        assert_eq!(home.run(["screen", &job]).ok().text(), "");
        if word == "before" {
            home.run(["send", &job, "x"]).ok();
        }
    }
}
