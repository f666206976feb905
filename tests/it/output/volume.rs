//! All bytes, however many and however they end.
//!
//! Proves S0-123, S0-156, S0-159.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use outlive::Stream;
use outlive_core::index::Kind;
use outlive_tests::{Home, binary, lacks, pattern};

use super::{index, raw_log, segments};

const GIB: u64 = 1 << 30;

/// Checks the log byte by byte, and the index record by record.
fn assert_is_pattern(directory: &Path, length: u64, stream: Stream) {
    let records = index(directory);
    assert!(records.windows(2).all(|pair| pair[0].offset < pair[1].offset), "offsets do not ascend");
    assert!(records.windows(2).all(|pair| pair[0].time <= pair[1].time), "times do not ascend");
    let mut records = records.into_iter().peekable();
    let (mut at, mut newlines) = (0, 0);
    for (start, path) in segments(directory) {
        assert_eq!(start, at, "there is a hole between two segments");
        let mut file = File::open(path).unwrap();
        let mut buffer = vec![0; 1 << 20];
        loop {
            let count = file.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            let mut rest = &buffer[..count];
            assert_eq!(pattern::first_difference(rest, at), None, "this byte is not what was written");
            while !rest.is_empty() {
                if let Some(record) = records.next_if(|record| record.offset == at) {
                    assert_eq!(record.kind, Kind::Output(stream), "at {at}");
                    assert_eq!(record.before.lines[stream.index()], newlines, "at {at}");
                    assert_eq!(record.before.dropped, 0, "at {at}");
                }
                let chunk = records.peek().map_or(u64::MAX, |next| next.offset - at);
                let (bytes, after) = rest.split_at(rest.len().min(usize::try_from(chunk).unwrap()));
                newlines += pattern::newlines(bytes);
                at += bytes.len() as u64;
                rest = after;
            }
        }
    }
    assert_eq!(at, length, "the log is not as long as what was written");
    assert_eq!(records.next(), None, "the index goes on after the log");
}

/// Returns how many bytes are free where a directory is.
fn free_bytes(path: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().last().unwrap().trim().parse().unwrap()
}

fn a_gibibyte_is_kept(stream: Stream) {
    let home = Home::new();
    let free = free_bytes(home.path());
    if free < 5 * GIB {
        lacks(&format!("5 GiB of room in {}", home.path().parent().unwrap().display()));
        return;
    }
    let writes = binary("writes").display().to_string();
    let argv = [writes, GIB.to_string(), stream.word().to_owned()];
    let job = home.start_with(&["--output-cap", "off"], argv);
    // On a busy machine a gibibyte takes longer than any one command may.
    let is_over = || home.run(["wait", "--timeout", "30s", &job]).code == 0;
    assert!(
        std::iter::repeat_with(is_over).take(16).any(|is_over| is_over),
        "it takes longer than 8 minutes"
    );
    let ended = home.show(&job);
    assert_eq!(ended["status"], "completed", "{ended}");
    assert_eq!(ended["output"]["bytes"], GIB);
    assert_eq!(ended["output"]["dropped_bytes"], 0);
    assert_is_pattern(&home.job_dir(&job), GIB, stream);
    home.run(["remove", &job]).ok();
    assert!(!home.job_dir(&job).exists());
}

#[test]
fn a_gibibyte_on_stdout_is_kept_to_the_last_byte() {
    a_gibibyte_is_kept(Stream::Stdout);
}

#[test]
fn a_gibibyte_on_stderr_is_kept_to_the_last_byte() {
    a_gibibyte_is_kept(Stream::Stderr);
}

#[test]
fn what_a_command_writes_right_before_its_exit_is_kept() {
    let home = Home::new();
    // Around what one write, one pipe and one read take, and many small ones.
    let edges = [0, 1, 2, 4095, 4096, 4097, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073, 262_145];
    let sizes = edges.into_iter().chain((0..187).map(|number| number * 37 + 3));
    let mut jobs = Vec::new();
    for (number, size) in sizes.enumerate() {
        let (stream, word) =
            if number % 2 == 0 { (Stream::Stdout, "stdout") } else { (Stream::Stderr, "stderr") };
        let writes = binary("writes").display().to_string();
        let job = home.start([writes, size.to_string(), word.to_owned(), (number % 256).to_string()]);
        jobs.push((job, number % 256, size, stream));
        // Several at a time: the keepers compete for the processor at the moment that matters.
        if jobs.len() == 10 || number == 199 {
            for (job, code, size, stream) in jobs.drain(..) {
                let ended = home.wait(&job);
                assert_eq!(ended["exit_code"], code);
                assert_eq!(ended["output"]["bytes"], size);
                assert_is_pattern(&home.job_dir(&job), size, stream);
            }
        }
    }
}

#[test]
fn binary_data_comes_back_as_it_was() {
    let home = Home::new();
    let every_byte: Vec<u8> = (0..=255).rev().chain(0..=255).collect();
    std::fs::write(home.path().join("data"), &every_byte).unwrap();
    let job = home.start(["cat", "data"]);
    assert_eq!(home.wait(&job)["output"]["bytes"], 512);
    assert_eq!(raw_log(&home.job_dir(&job)), every_byte);
    assert_eq!(home.logs(&job), every_byte);
}

#[test]
fn a_last_line_without_newline_is_there_and_gets_none() {
    let home = Home::new();
    let job = home.start(["printf", "one\ntwo"]);
    assert_eq!(home.wait(&job)["output"]["lines"], 1);
    assert_eq!(home.logs(&job), b"one\ntwo");
    assert_eq!(home.run(["logs", "-n", "1", &job]).ok().text(), "two");
    let lines = super::json_lines(&home, &[&job]);
    assert_eq!(super::texts(&lines), ["one", "two"]);
    assert_eq!((&lines[0]["ended"], &lines[1]["ended"]), (&true.into(), &false.into()));
}

#[test]
fn a_job_that_prints_nothing_has_an_empty_log() {
    let home = Home::new();
    let job = home.start(["true"]);
    let ended = home.wait(&job);
    assert_eq!((&ended["output"]["bytes"], &ended["output"]["lines"]), (&0.into(), &0.into()));
    assert_eq!(home.logs(&job), b"");
    assert_eq!(home.run(["logs", "-n", "5", &job]).ok().stdout, b"");
    assert_eq!(index(&home.job_dir(&job)), []);
}
