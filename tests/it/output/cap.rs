//! The output cap: the newest is kept, what is gone is said, and nothing else shifts.
//!
//! Proves S0-97 (the oldest goes first), S0-103.

use std::fs;

use outlive_tests::Home;

use super::{json_lines, raw_log, segments};

/// Line n of `seq -f %020.0f` is n in twenty digits and a newline.
const LINE: u64 = 21;

fn bytes_on_disk(home: &Home, job: &str) -> u64 {
    segments(&home.job_dir(job)).iter().map(|(_, path)| fs::metadata(path).unwrap().len()).sum()
}

/// Returns byte `at` of that output.
fn expected(at: u64) -> u8 {
    if at % LINE == LINE - 1 {
        b'\n'
    } else {
        format!("{:020}", at / LINE + 1).as_bytes()[(at % LINE) as usize]
    }
}

#[test]
fn twenty_mebibytes_under_a_cap_of_one_keep_the_last_one() {
    let home = Home::new();
    let job = home.start_with(&["--output-cap", "1M"], ["seq", "-f", "%020.0f", "1000000"]);
    let ended = home.wait(&job);
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["output"]["bytes"], 1_000_000 * LINE);
    assert_eq!(ended["output"]["lines"], 1_000_000);
    assert_eq!(ended["output"]["dropped_bytes"], 0, "what went for the cap had been kept before");
    let (cap, segment) = (1 << 20, (1 << 20) / 8);
    let kept = bytes_on_disk(&home, &job);
    assert!(kept <= cap + segment && kept >= cap - 2 * segment, "{kept} bytes are kept");

    let start = segments(&home.job_dir(&job))[0].0;
    assert_eq!(start + kept, 1_000_000 * LINE);
    let log = raw_log(&home.job_dir(&job));
    assert!((start..).zip(&log).all(|(at, &byte)| byte == expected(at)), "an offset does not mean its byte");

    let logs = home.run(["logs", &job]).ok();
    assert_eq!(logs.stdout, log);
    let gone = logs.error();
    assert!(gone.contains("bytes 0 to ") && gone.contains(&start.to_string()), "{gone}");
}

#[test]
fn lines_keep_their_numbers_when_those_before_them_are_gone() {
    let home = Home::new();
    let job = home.start_with(&["--output-cap", "1M"], ["seq", "-f", "%020.0f", "1000000"]);
    home.wait(&job);
    let number =
        |line: &serde_json::Value| line["text"].as_str().unwrap().trim_start_matches('0').parse().ok();
    for line in json_lines(&home, &["-n", "3", &job]) {
        assert_eq!(line["line"].as_u64(), number(&line));
    }
    // The first one may have lost its beginning.
    let lines = json_lines(&home, &[&job]);
    for line in &lines[1..] {
        assert_eq!(line["line"].as_u64(), number(line));
    }
    assert_eq!(lines.last().unwrap()["line"], 1_000_000);
    let tail = home.run(["logs", "-n", "2", &job]).ok().text();
    assert_eq!(tail, "00000000000000999999\n00000000000001000000\n");
}

#[test]
fn a_running_job_counts_what_is_gone_too() {
    let home = Home::new();
    let line = "seq -f %020.0f 100000; echo end >&2; sleep 300";
    let job = home.run(["run", "--output-cap", "128K", line]).ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "end");
    let shown = home.show(&job);
    assert_eq!(shown["status"], "running");
    assert_eq!(shown["output"]["bytes"], 100_000 * LINE + 4);
    assert_eq!(shown["output"]["stdout_lines"], 100_000);
    assert_eq!(shown["output"]["stderr_lines"], 1);
}

#[test]
fn the_cap_holds_however_the_output_ends() {
    let home = Home::new();
    for lines in [1_u64, 3_000, 12_000, 12_500, 13_000, 20_000, 33_333, 100_000] {
        let job = home.start_with(&["--output-cap", "256K"], ["seq", "-f", "%020.0f", &lines.to_string()]);
        assert_eq!(home.wait(&job)["output"]["bytes"], lines * LINE);
        let kept = bytes_on_disk(&home, &job);
        // A segment is an eighth of the cap, here 32 KiB; the bound leaves room for two.
        assert!(kept <= (256 << 10) + (64 << 10), "{kept} bytes are kept of {lines} lines");
        let tail = home.run(["logs", "-n", "1", &job]).ok().text();
        assert_eq!(tail, format!("{lines:020}\n"));
    }
}

#[test]
fn a_cap_is_kept_for_many_small_writes_of_both_streams() {
    let home = Home::new();
    let line = "for n in $(seq 3000); do echo o$n; echo e$n >&2; done";
    let job = home.run(["run", "--output-cap", "64K", line]).ok().text().trim_end().to_owned();
    let ended = home.wait(&job);
    assert_eq!(
        (&ended["output"]["stdout_lines"], &ended["output"]["stderr_lines"]),
        (&3000.into(), &3000.into())
    );
    let last = |stream| home.run(["logs", "-n", "1", "--stream", stream, &job]).ok().text();
    assert_eq!((last("stdout").as_str(), last("stderr").as_str()), ("o3000\n", "e3000\n"));
}
