//! What follows ends with its reader: `outlive logs -f JOB | head -1`.
//!
//! Proves it where nothing more is printed, so that no write tells that the reader is gone; here and over `--host`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use outlive_tests::{Home, LIMIT, end_within};

use crate::host::Served;

/// Reads a line of what a command prints, and goes; returns the line and the command's exit status.
fn read_one_line(mut command: Command) -> (String, i32) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built");
    let mut reader = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    reader.read_line(&mut line).expect("a line");
    drop(reader);
    (line, end_within(&mut child, LIMIT).expect("it ends with its reader"))
}

/// Starts two jobs that print a line and no more.
fn quiet_jobs(home: &Home) -> [String; 2] {
    let jobs = ["one", "two"]
        .map(|name| home.start_with(&["--name", name], ["sh", "-c", "echo ready; exec sleep 600"]));
    jobs.iter().for_each(|job| home.wait_for_output(job, "ready"));
    jobs
}

#[test]
fn a_follower_of_a_quiet_job_ends_with_its_reader() {
    let home = Home::new();
    let [one, two] = quiet_jobs(&home);
    for (arguments, begin) in [
        (&["logs", "-f", &one][..], "ready"),
        (&["--json", "logs", "-f", &one], "{"),
        (&["logs", "-f", "-n", "1", "one"], "ready"),
        (&["logs", "-f", &one, &two], "one | ready"),
        (&["events", "-f"], "20"),
    ] {
        let (line, code) = read_one_line(home.outlive(arguments));
        assert!(line.starts_with(begin) && code == 0, "{arguments:?}: {code}, {line}");
    }
    home.run(["kill", &one, &two]).ok();
}

#[test]
fn a_follower_of_another_machine_ends_with_its_reader() {
    let home = Home::new();
    let [one, two] = quiet_jobs(&home);
    let server = Served::start(&home);
    for arguments in [&["logs", "-f", &one][..], &["logs", "-f", &one, &two], &["events", "-f"]] {
        let (line, code) = read_one_line(server.outlive(arguments));
        assert!(!line.is_empty() && code == 0, "{arguments:?}: {code}, {line}");
    }
    home.run(["kill", &one, &two]).ok();
}
