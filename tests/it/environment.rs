//! What the command is given: directory, environment, signals, descriptors, session.
//!
//! Proves S0-20, S0-21, S0-41, S0-42 and S0-84 (directory and environment; what the call adds wins), S0-81 (own session),
//! S0-85 and S1-33 (no input unless asked for), S3-41.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use outlive_tests::{Home, binary, finish};

/// What `reports-self` said, by name.
struct Report(HashMap<String, String>);

impl Report {
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let pairs = text.lines().filter_map(|line| line.split_once(": "));
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn descriptors(&self) -> Vec<(&str, &str)> {
        let mut fds: Vec<(&str, &str)> = self
            .0
            .iter()
            .filter_map(|(name, link)| Some((name.strip_prefix("fd ")?, link.as_str())))
            .collect();
        fds.sort_unstable();
        fds
    }
}

/// Runs a starter of the job, which prints its id last, and returns what the job reports.
fn report_of(home: &Home, starter: Command) -> Report {
    let text = finish(starter, b"").ok().text();
    let job = text.lines().last().expect("the starter prints the id").to_owned();
    assert_eq!(home.wait(&job)["exit_code"], 0);
    Report::parse(&home.logs(&job))
}

fn report(home: &Home, options: &[&str]) -> Report {
    let mut command = home.outlive(["run"]);
    command.args(options).arg("--").arg(binary("reports-self"));
    report_of(home, command)
}

/// Lists the files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("it has a type");
        if kind.is_dir() {
            found.extend(files_with(&path, text));
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let is_in_it = bytes.windows(text.len()).any(|window| window == text.as_bytes());
            found.extend(is_in_it.then_some(path));
        }
    }
    found
}

#[test]
fn the_starters_environment_plus_additions_minus_removals() {
    let home = Home::new();
    let mut command =
        home.outlive(["run", "--env", "ADDED=a=b c", "--env", "CHANGED=new", "--env", "EMPTY="]);
    command.args(["--unset", "REMOVED", "--unset", "NEVER_THERE", "--"]).arg(binary("reports-self"));
    command.env("KEPT", "as it was").env("CHANGED", "old").env("REMOVED", "gone");
    let report = report_of(&home, command);
    assert_eq!(report.get("env KEPT"), Some("as it was"));
    assert_eq!(report.get("env ADDED"), Some("a=b c"));
    assert_eq!(report.get("env CHANGED"), Some("new"));
    assert_eq!(report.get("env EMPTY"), Some(""));
    assert_eq!(report.get("env REMOVED"), None);
    assert_eq!(report.get("env HOME"), home.path().to_str());
}

#[test]
fn the_job_and_its_session_are_in_the_environment() {
    let home = Home::new();
    let job = home.start_with(&["--session", "mine"], [binary("reports-self")]);
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let report = Report::parse(&home.logs(&job));
    assert_eq!(report.get("env OUTLIVE_JOB"), Some(job.as_str()));
    assert_eq!(report.get("env OUTLIVE_SESSION"), Some("mine"));
    // `--env` and `--unset` cannot change them.
    let forged = self::report(&home, &["--env", "OUTLIVE_JOB=forged", "--unset", "OUTLIVE_SESSION"]);
    assert_ne!(forged.get("env OUTLIVE_JOB"), Some("forged"));
    assert_eq!(forged.get("env OUTLIVE_SESSION"), Some("default"));
}

#[test]
fn inherited_values_are_never_on_disk_and_additions_are() {
    let home = Home::new();
    let script = "echo have ${#SECRET}; read line";
    let mut command =
        home.outlive(["run", "--stdin", "open", "--env", "ADDED=an-added-value", "--", "sh", "-c", script]);
    command.env("SECRET", "hunter2-inherited");
    let job = finish(command, b"").ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "have 17");
    let on_disk = |text: &str| files_with(&home.store(), text);
    assert_eq!(on_disk("an-added-value"), [home.job_dir(&job).join("spec.json")]);
    assert_eq!(on_disk("hunter2-inherited"), Vec::<PathBuf>::new());
    home.run(["send", &job, "--eof"]).ok();
    assert_eq!(home.wait(&job)["status"], "failed");
    assert_eq!(on_disk("hunter2-inherited"), Vec::<PathBuf>::new());
    // Nor are they visible elsewhere: in the keeper's own environment and arguments.
    assert!(on_disk("an-added-value").contains(&home.job_dir(&job).join("spec.json")));
}

#[test]
fn values_are_masked_unless_asked_for() {
    let home = Home::new();
    let job = home.start_with(&["--env", "TOKEN=s3cret-value", "--unset", "LC_ALL"], ["true"]);
    let shown = home.show(&job);
    assert_eq!(shown["env_set"], serde_json::json!({ "TOKEN": "***" }));
    assert_eq!(shown["env_unset"], serde_json::json!(["LC_ALL"]));
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains("TOKEN=***") && !text.contains("s3cret-value"), "{text}");
    assert!(home.run(["show", "--show-env", &job]).ok().text().contains("TOKEN=s3cret-value"));
    assert_eq!(home.json(["show", "--show-env", &job])["env_set"]["TOKEN"], "s3cret-value");
    for arguments in [&["list"][..], &["--json", "list"], &["--json", "wait", &job]] {
        assert!(!home.run(arguments).ok().text().contains("s3cret-value"), "{arguments:?}");
    }
}

/// Returns a mask of signals in what the kernel says of a process.
fn mask(status: &[u8], field: &str) -> u64 {
    let status = String::from_utf8_lossy(status);
    let value = status.lines().find_map(|line| line.strip_prefix(field)).expect("the kernel tells it");
    u64::from_str_radix(value.trim_start_matches(':').trim(), 16).expect("it is hexadecimal")
}

fn bits(signals: &[u32]) -> u64 {
    signals.iter().map(|number| 1 << (number - 1)).sum()
}

/// Asserts that a starter has these signals ignored or blocked, and that nothing is in its job.
fn assert_signals_are_reset(home: &Home, starter: &[&str], field: &str, signals: &[u32]) {
    // What the kernel says is asked for with a program that changes nothing itself: Rust's own ignore SIGPIPE.
    let status = ["cat", "/proc/self/status"];
    let run = |argv: &[&str]| {
        let mut command = home.command(starter[0]);
        command.args(&starter[1..]).args(argv);
        finish(command, b"").ok()
    };
    let own = mask(&run(&status).stdout, field);
    assert_eq!(own & bits(signals), bits(signals), "the starter's {field} is {own:x}");
    let job = run(&[&["outlive", "run", "--"], &status[..]].concat()).text();
    assert_eq!(home.wait(job.trim_end())["exit_code"], 0);
    let status = home.logs(job.trim_end());
    assert_eq!(
        format!("{:x}", mask(&status, "SigIgn")),
        "0",
        "ignored signals; the starter's {field} is {own:x}"
    );
    assert_eq!(format!("{:x}", mask(&status, "SigBlk")), "0", "blocked signals");
}

#[test]
fn no_signal_is_ignored_in_a_job_started_under_nohup() {
    let home = Home::new();
    assert_signals_are_reset(&home, &["nohup"], "SigIgn", &[1]);
}

#[test]
fn no_signal_is_ignored_in_a_job_of_a_starter_that_ignores_them() {
    let home = Home::new();
    let script = "trap '' HUP INT QUIT USR1 PIPE ALRM TERM CHLD TSTP; exec \"$@\"";
    assert_signals_are_reset(&home, &["sh", "-c", script, "sh"], "SigIgn", &[1, 2, 3, 10, 13, 14, 15, 20]);
}

#[test]
fn no_signal_is_blocked_in_a_job_of_a_starter_that_blocks_them() {
    let home = Home::new();
    assert_signals_are_reset(&home, &["env", "--block-signal"], "SigBlk", &[1, 2, 3, 10, 13, 15]);
}

#[test]
fn the_command_leads_its_own_session_and_group() {
    let home = Home::new();
    let report = report(&home, &[]);
    let pid = report.get("pid").unwrap();
    assert_eq!(report.get("group"), Some(pid));
    assert_eq!(report.get("session"), Some(pid));
}

#[test]
fn the_command_has_three_descriptors_and_reads_nothing() {
    let home = Home::new();
    let report = report(&home, &[]);
    let [(first, input), (second, output), (third, error)] = report.descriptors()[..] else {
        panic!("not three descriptors: {:?}", report.descriptors())
    };
    assert_eq!([first, second, third], ["0", "1", "2"]);
    assert_eq!(input, "/dev/null");
    assert!(output.starts_with("pipe:") && error.starts_with("pipe:") && output != error);
    let job = home.start(["cat"]);
    assert_eq!(home.wait(&job)["exit_code"], 0, "cat is at the end of its input at once");
}

#[test]
fn the_directory_is_the_starters_unless_another_is_given() {
    let home = Home::new();
    let inner = home.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    assert_eq!(report(&home, &[]).get("cwd"), home.path().to_str());
    assert_eq!(report(&home, &["--cwd", "/"]).get("cwd"), Some("/"));
    assert_eq!(report(&home, &["--cwd", inner.to_str().unwrap()]).get("cwd"), inner.to_str());
    assert_eq!(report(&home, &["--cwd", "inner"]).get("cwd"), inner.to_str(), "relative to the starter's");
    let shown = home.show(&home.start_with(&["--cwd", "inner"], ["true"]));
    assert_eq!(Path::new(shown["cwd"].as_str().unwrap()), inner);
}

#[test]
fn the_umask_is_the_starters() {
    let home = Home::new();
    for umask in ["0022", "0077", "0002"] {
        let mut command = home.command("sh");
        let script = format!("umask {umask}; outlive run -- {}", binary("reports-self").display());
        command.args(["-c", &script]);
        assert_eq!(report_of(&home, command).get("Umask"), Some(umask));
    }
}
