//! What reading costs: a job that prints line by line has an index record for each, and they are not read one by one.

use std::fs;
use std::process::Command;

use outlive_core::file;
use outlive_core::index::RECORD_BYTES;
use outlive_tests::{Home, binary, finish, lacks};

#[test]
fn index_records_are_read_many_at_a_time() {
    let probe = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return lacks("strace, and the right to trace");
    }
    let home = Home::new();
    let line = "i=0; while [ $i -lt 400 ]; do echo out $i; sleep 0.002; echo err $i >&2; i=$((i+1)); done";
    let job = home.start(["sh", "-c", line]);
    home.wait(&job);
    let records = fs::metadata(home.job_dir(&job).join(file::INDEX)).unwrap().len() / RECORD_BYTES as u64;
    assert!(records > 100, "{records}");
    let trace = home.path().join("trace");
    let mut command = home.command("strace");
    command.args(["-f", "-e", "trace=pread64", "-o"]).arg(&trace);
    command.arg(binary("outlive")).args(["logs", &job, "--timestamps"]);
    let text = finish(command, b"").ok().text();
    assert!(text.contains("out 399"), "{text}");
    let looks = fs::read_to_string(&trace).unwrap().lines().filter(|line| line.contains("pread64(")).count();
    assert!((looks as u64) < records * 2, "{looks} reads for {records} records");
}
