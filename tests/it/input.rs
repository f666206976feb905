//! Writing to a job.
//!
//! Proves S2-25, S2-26, S2-39, S2-40 and S2-70 (data, end of file), S2-60, S2-65 and S2-66 (a job that is over, or has no
//! input, is told apart), S3-56.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use outlive::ControlError;
use outlive_tests::{Home, LIMIT, end_within, finish, pattern, until, waits_with_open};
use serde_json::Value;

/// Starts a program whose input is open.
fn start_open(home: &Home, argv: &[&str]) -> String {
    home.start_with(&["--stdin", "open"], argv)
}

/// Returns the stable code of an error, with its hint asserted.
fn error_code(error: &Value) -> &str {
    assert!(error["error"]["hint"].is_string(), "{error}");
    error["error"]["code"].as_str().expect("a code")
}

#[test]
fn text_arrives_with_a_newline_or_without() {
    let home = Home::new();
    let job = start_open(&home, &["cat"]);
    home.run(["send", &job, "one"]).ok();
    home.run(["send", "-n", &job, "two "]).ok();
    home.run(["send", &job, "--", "--three"]).ok();
    let sent = home.json(["send", &job, "-four", "--eof"]);
    assert_eq!(sent, serde_json::json!({ "job": job, "bytes": 6, "eof": true }));
    assert_eq!(home.wait(&job)["exit_code"], 0);
    assert_eq!(home.logs(&job), b"one\ntwo --three\n-four\n");
}

/// The keeper keeps what it needs for the next key, and gives it back when no key has come for a while.
#[test]
fn a_keeper_that_is_not_written_to_needs_nothing_for_it() {
    let home = Home::new();
    let job = start_open(&home, &["cat"]);
    let keeper = home.keepers()[0];
    let pipes = || {
        let fds = std::fs::read_dir(format!("/proc/{keeper}/fd")).expect("the keeper is there").flatten();
        let files = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        files.filter(|file| file.to_string_lossy().starts_with("pipe:")).count()
    };
    let before = pipes();
    for word in ["one", "two"] {
        home.run(["send", &job, word]).ok();
        home.wait_for_output(&job, word);
        until("all is given back", || pipes() == before);
    }
    home.run(["kill", &job]).ok();
}

#[test]
fn a_question_is_answered() {
    let home = Home::new();
    let job =
        home.run(["run", "--stdin", "open", "printf 'name? '; read name; echo hello $name"]).ok().text();
    let job = job.trim_end();
    home.wait_for_output(job, "name? ");
    home.run(["send", job, "world"]).ok();
    assert_eq!(home.wait(job)["exit_code"], 0);
    assert_eq!(home.logs(job), b"name? hello world\n");
}

#[test]
fn binary_input_comes_back_as_it_is() {
    let home = Home::new();
    let bytes: Vec<u8> = (0..1 << 20).map(pattern::byte).collect();
    for dash in [&[][..], &["-"]] {
        let job = start_open(&home, &["cat"]);
        let arguments = [&["send", &job], dash, &["--eof"][..dash.len()]].concat();
        let sent = home.run_with_input(&arguments, &bytes).ok();
        let closed = if dash.is_empty() { "" } else { ", its input closed" };
        assert_eq!(sent.text(), format!("{job}: 1048576 bytes sent{closed}\n"));
        if dash.is_empty() {
            home.run(["send", &job, "--eof"]).ok();
        }
        let ended = home.wait(&job);
        assert_eq!(ended["exit_code"], 0);
        assert_eq!(ended["output"]["bytes"], 1 << 20);
        assert!(home.logs(&job) == bytes, "a mebibyte through cat is the same mebibyte");
    }
}

#[test]
fn several_writers_are_not_mixed_within_a_line() {
    let home = Home::new();
    let job = start_open(&home, &["cat"]);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let (home, job) = (&home, &job);
            scope.spawn(move || {
                for _ in 0..5 {
                    home.run(["send", job, &format!("{writer}").repeat(5000)]).ok();
                }
            });
        }
    });
    home.run(["send", &job, "--eof"]).ok();
    assert_eq!(home.wait(&job)["output"]["lines"], 20);
    let logs = home.logs(&job);
    let lines: Vec<&[u8]> = logs.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| line.len() == 5000 && line.iter().all(|byte| byte == &line[0])));
}

#[test]
fn what_was_accepted_arrives_even_if_the_reader_comes_later() {
    let home = Home::new();
    let flag = home.path().join("flag");
    let script = format!("until [ -e {} ]; do sleep 0.01; done; wc -c", flag.display());
    let job = start_open(&home, &["sh", "-c", &script]);
    // More than a pipe holds, and less than the keeper does.
    home.run_with_input(["send", &job, "-", "--eof"], &vec![b'x'; 200 << 10]).ok();
    std::fs::write(&flag, "").unwrap();
    assert_eq!(home.wait(&job)["exit_code"], 0);
    assert_eq!(String::from_utf8_lossy(&home.logs(&job)).trim(), (200 << 10).to_string());
}

#[test]
fn a_job_without_open_input_says_so() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    for arguments in [&["--json", "send", &job, "hello"][..], &["--json", "send", &job, "--eof"]] {
        let refused = home.run(arguments).code(1);
        assert_eq!(refused.text(), "");
        assert_eq!(error_code(&refused.error_json()), "stdin_closed");
    }
    let error = home.run(["send", &job, "hello"]).code(1).error();
    assert!(
        error.starts_with("outlive: send: ") && error.contains("\nhint: ") && error.contains("--stdin open"),
        "{error}"
    );
}

#[test]
fn after_the_end_of_the_input_nothing_more_is_taken() {
    let home = Home::new();
    let job = start_open(&home, &["sh", "-c", "cat; echo end; exec sleep 300"]);
    home.run(["send", &job, "first", "--eof"]).ok();
    home.wait_for_output(&job, "end");
    for arguments in [&["--json", "send", &job, "second"][..], &["--json", "send", &job, "--eof"]] {
        assert_eq!(error_code(&home.run(arguments).code(1).error_json()), "stdin_closed");
    }
    assert_eq!(home.logs(&job), b"first\nend\n");
}

#[test]
fn a_job_that_closed_its_own_input_says_so() {
    let home = Home::new();
    let job = start_open(&home, &["sh", "-c", "exec <&-; echo closed; exec sleep 300"]);
    home.wait_for_output(&job, "closed");
    // A first write may still be taken: it is then that the keeper learns of it.
    let told = |done: outlive_tests::Done| done.code == 1 && error_code(&done.error_json()) == "stdin_closed";
    until("the writer is told", || told(home.run(["--json", "send", &job, "hello"])));
    assert_eq!(home.show(&job)["status"], "running");
}

#[test]
fn a_job_that_has_ended_says_so() {
    let home = Home::new();
    let job = start_open(&home, &["true"]);
    assert_eq!(home.wait(&job)["exit_code"], 0);
    until("it is closed", || home.show(&job)["lingering"] == false);
    for arguments in [&["--json", "send", &job, "hello"][..], &["--json", "send", &job, "--eof"]] {
        assert_eq!(error_code(&home.run(arguments).code(1).error_json()), "ended");
    }
    assert_eq!(
        error_code(&home.run(["--json", "send", "no-such-job", "hello"]).code(3).error_json()),
        "not_found"
    );
}

/// A command that never reads and prints all the time.
const NEVER_READS: &str = "while :; do echo tick; sleep 0.02; done";

#[test]
fn a_command_that_never_reads_stops_its_writer_and_nothing_else() {
    let home = Home::new();
    let job = start_open(&home, &["sh", "-c", NEVER_READS]);
    let bytes = vec![b'x'; 1 << 20];
    std::thread::scope(|scope| {
        let (home, job) = (&home, &job);
        let writer = scope.spawn(|| home.run_with_input(["--json", "send", job], &bytes));
        let lines = || home.show(job)["output"]["lines"].as_u64().expect("a number");
        let mut seen = 0;
        while !writer.is_finished() {
            let before = lines();
            until("output flows", || lines() > before);
            seen += 1;
        }
        assert!(seen > 0, "the writer gave up at once");
        let refused = writer.join().unwrap().code(1);
        assert_eq!(error_code(&refused.error_json()), "not_reading");
    });
    assert_eq!(home.show(&job)["status"], "running");
}

#[test]
fn the_writer_is_told_how_much_was_taken() {
    let home = Home::new();
    let job = start_open(&home, &["sleep", "300"]);
    let (store, bytes) = (home.open(), vec![b'x'; 1 << 20]);
    let found = store.find(&job, None).unwrap();
    let failed = store.write_stdin(&found, &bytes, Duration::from_millis(200)).unwrap_err();
    let ControlError::NotReading { accepted, .. } = failed else { panic!("{failed}") };
    // A pipe holds 64 KiB and the keeper 256 KiB.
    assert!(((256 << 10)..=(512 << 10)).contains(&accepted), "{accepted}");
}

#[test]
fn a_job_whose_writer_is_stuck_can_be_killed() {
    let home = Home::new();
    let job = start_open(&home, &["sh", "-c", NEVER_READS]);
    let store = home.open();
    let found = store.find(&job, None).unwrap();
    store.write_stdin(&found, &vec![b'x'; 1 << 20], Duration::from_millis(200)).unwrap_err();
    // There is no room for another 64 KiB.
    let mut stuck = home.outlive(["--json", "send", &job, &"x".repeat((64 << 10) - 1)]);
    let mut stuck = stuck.stderr(Stdio::piped()).spawn().unwrap();
    until("another writer waits", || waits_with_open(stuck.id().cast_signed(), "socket:"));
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["status"], "killed");
    assert_eq!(end_within(&mut stuck, LIMIT), Some(1));
    let mut told = String::new();
    BufReader::new(stuck.stderr.take().unwrap()).read_line(&mut told).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    // The keeper was not held up: it did not wait until the writer gave up.
    assert!(["ended", "stdin_closed"].contains(&error_code(&told)), "{told}");
}

#[test]
fn no_line_is_no_secret() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let refused = home.run(["send", &job, "--secret"]).code(2).error();
    assert!(refused.contains("the input has ended, and nothing is sent"), "{refused}");
    // An empty line may be meant.
    finish(home.outlive(["send", &job, "--secret"]), b"\n").ok();
    finish(home.outlive(["send", &job, "--secret"]), b"word").ok();
    home.wait_for_output(&job, "\nword\n");
}
