//! More than there is room for: ten gibibytes under a cap, and a disk that is full to the last byte.
//!
//! Proves S0-97 (the oldest goes when there is too much), S0-123 (large volumes), S0-156 as far as a disk allows: what could
//! not be kept is counted and has its place.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::time::Duration;

use outlive_core::index::Kind;
use outlive_tests::{Home, SmallDisk, binary, until};
use serde_json::Value;

use crate::output::{index, json_lines, segments};

const LINE: u64 = 64;
const LINES: u64 = (10 << 30) / LINE;
const CAP: u64 = 100 << 20;
const SEGMENT: u64 = CAP / 8;

/// Returns what a job's log takes, no more than it took at some instant: segments only grow and only the oldest goes, so
/// looking at the newest first never counts two that were not there together.
fn log_bytes(home: &Home, job: &str) -> u64 {
    let segments = segments(&home.job_dir(job));
    let lengths = segments.iter().rev().map_while(|(_, path)| fs::metadata(path).ok());
    lengths.map(|data| data.len()).sum()
}

#[test]
fn ten_gibibytes_under_a_cap_take_no_more_than_the_cap_and_a_segment() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start_with(&["--output-cap", "100M"], [&floods, "lines", &LINES.to_string()]);
    let mut waiting = home.outlive(["wait", &job]).spawn().unwrap();
    let (mut most, mut looks) = (0, 0);
    while waiting.try_wait().unwrap().is_none() {
        most = most.max(log_bytes(&home, &job));
        looks += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(looks > 100, "it was looked at {looks} times only");
    assert!(most <= CAP + SEGMENT, "at some time {most} bytes were kept");
    assert!(most > CAP - SEGMENT, "never more than {most} bytes were kept");
    let kept = log_bytes(&home, &job);
    assert!((CAP - SEGMENT..=CAP + SEGMENT).contains(&kept), "{kept} bytes are kept");
    let index = fs::metadata(home.job_dir(&job).join("out.idx")).unwrap();
    let index_bytes = std::os::unix::fs::MetadataExt::blocks(&index) * 512;
    assert!(index_bytes < 1 << 20, "the index of what is kept takes {index_bytes} bytes");

    let ended = home.wait(&job);
    assert_eq!(ended["exit_code"], 0);
    assert_eq!(ended["output"]["bytes"], LINES * LINE);
    assert_eq!((&ended["output"]["lines"], &ended["output"]["dropped_bytes"]), (&LINES.into(), &0.into()));
    reading_the_gap_says_so(&home, &job, LINES * LINE - kept);
}

fn reading_the_gap_says_so(home: &Home, job: &str, start: u64) {
    let gap = serde_json::json!({"gap": {"from": 0, "to": start}});
    let said = format!("bytes 0 to {start} are no longer kept");
    assert_eq!(start % LINE, 0, "a segment is so many whole lines");
    let first_kept = start / LINE + 1;
    // By bytes, from the first line on, since the beginning of time: a reader that asks for what is gone is told so.
    let bytes = home.run(["logs", "--bytes", "0..100", job]).ok();
    assert_eq!(bytes.text(), "");
    assert!(bytes.error().contains(&said), "{}", bytes.error());
    for view in [&["--from-line", "1", "-n", "3"][..], &["--since", "1h", "--head", "3"], &["--head", "3"]] {
        let mut arguments = view.to_vec();
        arguments.push(job);
        let items = json_lines(home, &arguments);
        assert_eq!(items[0], gap, "{view:?}");
        assert_eq!(items.len(), 4, "{view:?}: {items:?}");
        let expected = [0, 1, 2].map(|more| (first_kept + more, first_kept + more));
        assert_eq!(numbers(&items[1..]), expected, "{view:?}");
    }
    // Every line has its absolute number and offset, and a gap outside the request is not mentioned.
    let number = first_kept + 100_000;
    let line = home.run(["logs", "--from-line", &number.to_string(), "-n", "1", job]).ok();
    assert_eq!((&line.text()[..16], line.error().as_str()), (format!("{number:015}.").as_str(), ""));
    let range = format!("{}..{}", (number - 1) * LINE, (number - 1) * LINE + 15);
    assert_eq!(home.run(["logs", "--bytes", &range, job]).ok().text(), format!("{number:015}"));
    let tail = json_lines(home, &["-n", "2", job]);
    assert_eq!(numbers(&tail), [(LINES - 1, LINES - 1), (LINES, LINES)]);
}

/// Returns each line's number with the one in its text.
fn numbers(lines: &[Value]) -> Vec<(u64, u64)> {
    let number = |line: &Value| {
        (line["line"].as_u64().unwrap(), line["text"].as_str().unwrap()[..15].parse().unwrap())
    };
    lines.iter().map(number).collect()
}

/// Each job prints a word, then more than the disk holds, then waits for room, and prints a last word.
#[test]
fn several_jobs_on_a_full_disk_all_end_with_outcome_and_gap() {
    let Some(disk) = SmallDisk::mount("64m") else { return };
    let signs = tempfile::tempdir().unwrap();
    let home = Home::in_dir(disk.path());
    let floods = binary("floods").display().to_string();
    let script = r#"echo begin; read go; "$0" lines 1100000; : >"$1"; read go; echo again; read go; exit 7"#;
    let jobs: Vec<(String, std::path::PathBuf)> = (0..4)
        .map(|number| {
            let sign = signs.path().join(number.to_string());
            let argv = ["sh", "-c", script, &floods, sign.to_str().unwrap()];
            (home.start_with(&["--stdin", "open", "--output-cap", "off"], argv), sign)
        })
        .collect();
    let tell = || jobs.iter().for_each(|(job, _)| drop(home.run(["send", job, "go"]).ok()));
    for (job, _) in &jobs {
        home.wait_for_output(job, "begin\n");
    }
    tell();
    for (job, sign) in &jobs {
        until("no job is held up by the full disk", || sign.exists());
        assert_eq!(home.show(job)["status"], "running");
    }
    let filler = disk.fill();
    fs::remove_file(filler).unwrap();
    // What was kept of one job makes room for the others.
    home.run(["clear", &jobs[0].0]).ok();
    tell();
    for (job, _) in &jobs {
        home.wait_for_output(job, "again\n");
    }
    tell();
    for (job, _) in &jobs {
        let ended = home.wait(job);
        assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &7.into()));
        assert!(home.show(job)["closed_at"].is_string());
        let number = |field: &str| ended["output"][field].as_u64().unwrap();
        assert!(number("dropped_bytes") > 0, "{ended}");
        assert_eq!(number("bytes") + number("dropped_bytes"), 6 + 70_400_000 + 6);
    }
    // The place and the time of what was lost are known; those of the first job were forgotten with what was before.
    for (job, _) in &jobs[1..] {
        let records = index(&home.job_dir(job));
        let gap = records.iter().find(|record| record.kind == Kind::Gap).unwrap();
        assert!(gap.offset > 0 && gap.time.0 > 0, "{gap:?}");
        let items = json_lines(&home, &[job]);
        let lost: u64 = items.iter().filter_map(|item| item["lost_bytes"].as_u64()).sum();
        assert_eq!(
            lost,
            home.show(job)["output"]["dropped_bytes"].as_u64().unwrap(),
            "all that was lost is told"
        );
        assert!(items.last().unwrap()["text"].as_str().unwrap().ends_with("again"));
    }
}
