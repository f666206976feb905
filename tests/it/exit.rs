//! How a job ended: every way is told apart, and read the same by a fresh front end.
//!
//! Proves S0-24, S0-25, S0-90 to S0-92 (code 0, any other code, the time), S0-26, S1-11, S1-38, S1-39, S1-71 and S4-85 (killed
//! stays killed, with its code), S1-34 and S1-41 (a program that cannot be executed), S3-45, S3-66, S3-67, S3-69, S3-83 and
//! S3-93 (a time limit for each job, with a grace; timed out is a word of its own).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::{Request, StartError};
use outlive_tests::{Home, millis, with_enough_time};
use serde_json::{Value, json};

/// The facts and words of an ending.
const ENDING: [&str; 7] = ["status", "exit_code", "signal", "cause", "reason", "ended_at", "runtime_ms"];

/// Waits for a job's end, asserts that a front end that knows nothing says the same, and returns it.
fn ending(home: &Home, job: &str) -> Value {
    let ended = home.wait(job);
    let (shown, listed) = (home.show(job), home.json(["list"]));
    let listed =
        listed.as_array().expect("a list").iter().find(|listed| listed["job"] == job).expect("it is listed");
    for field in ENDING {
        assert_eq!(ended[field], shown[field], "{field}");
        assert_eq!(ended[field], listed[field], "{field}");
    }
    ended
}

fn file(home: &Home, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = home.path().join(name);
    std::fs::write(&path, text).expect("the home can be written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    path
}

#[test]
fn codes_are_kept_as_they_are() {
    let home = Home::new();
    for code in [0, 1, 7, 126, 127, 128, 255] {
        let job = home.start_line(&format!("exit {code}"));
        let ended = ending(&home, &job);
        assert_eq!(ended["exit_code"], code);
        assert_eq!(ended["signal"], Value::Null);
        assert_eq!(ended["cause"], "natural");
        assert_eq!(ended["reason"], format!("exited with {code}"));
        assert_eq!(ended["status"], if code == 0 { "completed" } else { "failed" });
        assert!(ended["runtime_ms"].is_u64() && ended["ended_at"].is_string());
    }
}

#[test]
fn every_signal_that_ends_a_command_is_told_apart() {
    let home = Home::new();
    let named = [
        ("HUP", 1),
        ("INT", 2),
        ("QUIT", 3),
        ("ILL", 4),
        ("TRAP", 5),
        ("ABRT", 6),
        ("BUS", 7),
        ("FPE", 8),
        ("KILL", 9),
        ("USR1", 10),
        ("SEGV", 11),
        ("USR2", 12),
        ("PIPE", 13),
        ("ALRM", 14),
        ("TERM", 15),
        ("STKFLT", 16),
        ("XCPU", 24),
        ("XFSZ", 25),
        ("VTALRM", 26),
        ("PROF", 27),
        ("IO", 29),
        ("PWR", 30),
        ("SYS", 31),
    ];
    let mut signals: Vec<(String, i32)> = named.map(|(name, number)| (format!("SIG{name}"), number)).to_vec();
    signals.extend([34, 40, 64].map(|number| (format!("signal {number}"), number)));
    let jobs: Vec<String> = signals
        .iter()
        .map(|(_, number)| home.start(["sh", "-c", &format!("ulimit -c 0; kill -{number} $$; sleep 300")]))
        .collect();
    for ((name, _), job) in signals.iter().zip(&jobs) {
        let ended = ending(&home, job);
        assert_eq!(ended["signal"], **name);
        assert_eq!(ended["exit_code"], Value::Null, "{name}");
        assert_eq!(ended["status"], "failed", "{name}");
        assert_eq!(ended["cause"], "natural", "{name}");
        let reason = ended["reason"].as_str().unwrap();
        let rest = reason.strip_prefix(&format!("ended by {name}")).unwrap_or_else(|| panic!("{reason}"));
        assert!(rest.is_empty() || rest == ", core dumped", "{reason}");
    }
}

#[test]
fn a_code_that_looks_like_a_signal_is_a_code() {
    let home = Home::new();
    let ended = ending(&home, &home.start_line("exit 137"));
    assert_eq!((&ended["exit_code"], &ended["signal"]), (&json!(137), &Value::Null));
}

/// Asserts that a start fails with an exit status and a sentence, and that the job says the same sentence for ever.
fn assert_not_started(home: &Home, arguments: &[&str], status: i32, parts: &[&str]) -> String {
    let failed = home.run([&["--json", "run"], arguments].concat()).code(status);
    assert_eq!(failed.text(), "", "{arguments:?}");
    let error = failed.error_json()["error"].clone();
    assert_eq!(error["code"], "not_started");
    let message = error["message"].as_str().expect("a message");
    for part in parts {
        assert!(message.contains(part), "{arguments:?}: {message} has no {part:?}");
    }
    assert!(error["hint"].is_string());
    let job = error["job"].as_str().expect("the job is named");
    let ended = ending(home, job);
    assert_eq!(ended["status"], "failed");
    assert_eq!(ended["cause"], "never_started");
    assert_eq!((&ended["exit_code"], &ended["signal"]), (&Value::Null, &Value::Null));
    assert_eq!((&ended["runtime_ms"], &ended["started_at"]), (&Value::Null, &Value::Null));
    assert_eq!(message, format!("run: {}", ended["reason"].as_str().expect("a reason")));
    message.to_owned()
}

#[test]
fn a_program_that_is_not_there() {
    let home = Home::new();
    let reason = ["no such file or directory"];
    assert_not_started(
        &home,
        &["--", "no-such-program"],
        127,
        &["could not execute no-such-program: ", reason[0]],
    );
    assert_not_started(
        &home,
        &["--", "/no/such/program"],
        127,
        &["could not execute /no/such/program: ", reason[0]],
    );
}

#[test]
fn a_program_that_is_not_executable() {
    let home = Home::new();
    let path = file(&home, "plain", "#!/bin/sh\n", 0o644);
    let path = path.to_str().unwrap();
    assert_not_started(&home, &["--", path], 126, &[path, "permission denied"]);
    // Found through PATH it is the same.
    let directory = home.path().to_str().unwrap();
    let path_variable = format!("PATH={directory}:/usr/bin:/bin");
    assert_not_started(&home, &["--env", &path_variable, "--", "plain"], 126, &[path, "permission denied"]);
}

#[test]
fn an_interpreter_that_is_not_there_is_named() {
    let home = Home::new();
    let path = file(&home, "script", "#!/no/such/interpreter -x\necho hi\n", 0o755);
    let path = path.to_str().unwrap();
    let message = assert_not_started(&home, &["--", path], 126, &[path, "/no/such/interpreter"]);
    // The name of the home may have a "-x" as well.
    assert!(!message.contains("interpreter -x"), "{message}");
}

#[test]
fn a_directory_is_no_program() {
    let home = Home::new();
    let path = home.path().to_str().unwrap();
    assert_not_started(&home, &["--", path], 126, &["could not execute", path, "permission denied"]);
}

#[test]
fn a_path_through_a_file_is_no_program() {
    let home = Home::new();
    let path = format!("{}/below", file(&home, "plain", "", 0o644).display());
    assert_not_started(&home, &["--", &path], 126, &[&path, "not a directory"]);
}

#[test]
fn a_text_without_an_interpreter_is_no_program() {
    let home = Home::new();
    let path = file(&home, "text", "echo hi\n", 0o755);
    let path = path.to_str().unwrap();
    assert_not_started(&home, &["--", path], 126, &[path, "exec format error", "#!"]);
}

#[test]
fn a_directory_that_is_missing_or_none() {
    let home = Home::new();
    let directory = "could not enter the directory";
    let missing = ["--cwd", "/no/such/directory", "--", "true"];
    assert_not_started(&home, &missing, 126, &[directory, "/no/such/directory", "no such file or directory"]);
    let path = file(&home, "plain", "", 0o644);
    let path = path.to_str().unwrap();
    assert_not_started(&home, &["--cwd", path, "--", "true"], 126, &[directory, path, "not a directory"]);
}

#[test]
fn an_argument_list_that_is_too_long() {
    let home = Home::new();
    // The command line cannot pass on such an argument: it would not start either.
    let failure = home.open().start(&Request::argv(["echo".to_owned(), "x".repeat(200 << 10)])).unwrap_err();
    let StartError::NeverStarted { job, why } = failure else { panic!("{failure}") };
    assert!(why.sentence().starts_with("could not execute "), "{}", why.sentence());
    assert!(why.sentence().contains("rgument list too long"), "{}", why.sentence());
    let ended = ending(&home, job.as_str());
    assert_eq!((&ended["status"], &ended["cause"]), (&json!("failed"), &json!("never_started")));
    assert_eq!(ended["reason"], why.sentence());
}

#[test]
fn a_long_path_is_told_the_same_by_everybody() {
    let home = Home::new();
    let path = format!("/{}/{}", "no-such-directory/".repeat(10), "program");
    assert_not_started(&home, &["--", &path], 127, &[&path]);
}

#[test]
fn nothing_is_left_of_a_command_that_never_started() {
    let home = Home::new();
    assert_not_started(&home, &["--", "no-such-program"], 127, &[]);
    assert_eq!(home.json(["list", "--live"]), json!([]));
    let live = std::fs::read_dir(Path::new(&home.store()).join("live")).unwrap();
    assert_eq!(live.count(), 0);
}

#[test]
fn a_killed_job_that_exits_0_keeps_both_facts() {
    let home = Home::new();
    let job = home.start_line("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
    home.wait_for_output(&job, "ready");
    home.run(["kill", &job]).ok();
    let ended = ending(&home, &job);
    assert_eq!(ended["status"], "killed");
    assert_eq!(ended["cause"], "kill");
    assert_eq!(ended["exit_code"], 0);
    assert_eq!(ended["signal"], Value::Null);
    let reason = ended["reason"].as_str().unwrap();
    assert!(reason.contains("killed") && reason.contains("exited with 0"), "{reason}");
}

#[test]
fn a_killed_job_that_ends_by_the_signal_says_which() {
    let home = Home::new();
    for (options, name) in
        [(&[][..], "SIGTERM"), (&["--force"], "SIGKILL"), (&["--signal", "INT", "--grace", "9s"], "SIGINT")]
    {
        let job = home.start(["sleep", "300"]);
        home.run([&["kill"], options, &[job.as_str()]].concat()).ok();
        let ended = ending(&home, &job);
        assert_eq!(
            (&ended["status"], &ended["cause"], &ended["signal"]),
            (&json!("killed"), &json!("kill"), &json!(name))
        );
        assert_eq!(ended["exit_code"], Value::Null);
    }
}

#[test]
fn a_job_whose_time_was_over_says_so() {
    let home = Home::new();
    let job = home.start_with(&["--timeout", "200ms"], ["sleep", "300"]);
    let ended = ending(&home, &job);
    assert_eq!(ended["status"], "timed_out");
    assert_eq!(ended["cause"], "timeout");
    assert_eq!(ended["signal"], "SIGTERM");
    assert!(ended["runtime_ms"].as_u64().unwrap() >= 200);
    assert!(ended["reason"].as_str().unwrap().contains("time was over"));
}

#[test]
fn a_job_that_ignores_the_end_of_its_time_is_ended_after_its_grace() {
    let home = Home::new();
    // The shell must have said what it does with TERM before its time is over.
    let ended = |trap: &str, grace: &str| {
        with_enough_time(Duration::from_millis(100), |timeout| {
            let line = format!("trap {trap} TERM; echo ready; while :; do sleep 0.01; done");
            let options = ["--timeout", &millis(timeout), "--grace", grace];
            let job = home.start_with(&options, ["sh", "-c", &line]);
            let ended = ending(&home, &job);
            assert_eq!(ended["status"], "timed_out");
            home.logs(&job).starts_with(b"ready\n").then_some(ended)
        })
    };
    let deaf = ended("''", "200ms");
    assert_eq!(deaf["signal"], "SIGKILL");
    assert!(deaf["runtime_ms"].as_u64().unwrap() >= 300);
    assert_eq!(ended("'exit 5'", "1h")["exit_code"], 5);
}
