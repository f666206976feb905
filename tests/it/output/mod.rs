//! Bytes in are bytes in the log.
//!
//! Proves S0-4 (output is kept for later), S0-33 to S0-36 and S0-89 (a line has its time, stream and number, counted from
//! 1 per job), S0-66 (one stream or both), S0-97 (the oldest goes when there is too much), S0-120 and S0-156 (accurate,
//! nothing lost), S0-123 (large volumes), S2-37 (the last of a large output), S3-53 and S3-63 (the log is raw and read
//! at any time).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

mod cap;
mod full_disk;
mod lines;
mod reading;
mod volume;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};

use outlive_core::index::{Kind, RECORD_BYTES, Record};
use outlive_core::segment;
use outlive_tests::{Home, LIMIT, end_within};
use serde_json::Value;

/// Returns the segments of a job's log with their first offsets, in order.
pub(crate) fn segments(directory: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<(u64, PathBuf)> =
        entries.filter_map(|path| Some((segment::offset(path.file_name()?.to_str()?)?, path))).collect();
    segments.sort();
    segments
}

/// Returns the log as it is on the disk.
pub(crate) fn raw_log(directory: &Path) -> Vec<u8> {
    let mut log = Vec::new();
    for (_, path) in segments(directory) {
        File::open(path).unwrap().read_to_end(&mut log).unwrap();
    }
    log
}

/// Returns the index; every record must be whole and valid.
pub(crate) fn index(directory: &Path) -> Vec<Record> {
    let bytes = fs::read(directory.join("out.idx")).unwrap();
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    assert_eq!(rest, b"", "the index ends in the middle of a record");
    let records = records.iter().enumerate().map(|(number, bytes)| {
        Record::from_bytes(bytes).unwrap_or_else(|| panic!("record {number} of the index is damaged"))
    });
    records.collect()
}

pub(crate) fn has_gap(records: &[Record]) -> bool {
    records.iter().any(|record| record.kind == Kind::Gap)
}

/// Runs `outlive logs --json` and returns its lines.
pub(crate) fn json_lines(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let mut command = vec!["--json", "logs"];
    command.extend(arguments);
    let text = home.run(command).ok().text();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn texts(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["text"].as_str().unwrap()).collect()
}

/// Starts a job that prints what it is told: `out TEXT` or `err TEXT`, with the escapes of `printf`.
pub(crate) fn start_puppet(home: &Home) -> String {
    let script = r#"while read -r to text; do
        case $to in out) printf "$text" ;; err) printf "$text" >&2 ;; esac
    done"#;
    home.start_with(&["--stdin", "open"], ["sh", "-c", script])
}

/// Lets the puppet print, and waits until it is in the log.
pub(crate) fn say(home: &Home, job: &str, order: &str, shown: &str) {
    assert!(!String::from_utf8_lossy(&home.logs(job)).contains(shown), "{shown} is there already");
    home.run(["send", job, order]).ok();
    home.wait_for_output(job, shown);
}

/// A running `outlive logs -f`.
pub(crate) struct Following {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut command = home.outlive(["logs", "-f"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next line, waiting for it; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.lines.next().map(|line| line.unwrap())
    }

    /// Returns the exit code once it has ended by itself.
    pub(crate) fn end(mut self) -> i32 {
        assert_eq!(self.next(), None);
        end_within(&mut self.child, LIMIT).expect("it ends with the job")
    }
}
