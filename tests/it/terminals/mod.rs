//! Jobs in a terminal of their own: what a program sees there, what is typed, and what is kept.
//!
//! Everything that holds for pipes holds here: output is whole, the outcome is right, a kill ends the tree.

mod attach;
mod export;
mod guarded;
mod hostile;
mod keys;
mod play;
mod programs;
mod screen;
mod secrets;
mod survival;
mod top;
mod top_keys;
mod typed;

use outlive_core::index::{Kind, RECORD_BYTES, Record};
use outlive_tests::{Home, until};

pub(crate) use attach::Tmux;

/// Starts a line for the shell in a terminal.
fn start(home: &Home, options: &[&str], line: &str) -> String {
    let arguments = [&["run", "--pty"], options, &[line]].concat();
    home.run(arguments).ok().text().trim_end().to_owned()
}

/// Returns the sizes that the index has, with where in the log each begins to hold.
fn sizes(home: &Home, job: &str) -> Vec<(u64, String)> {
    let index = std::fs::read(home.job_dir(job).join("out.idx")).expect("an index");
    let records = index.as_chunks::<RECORD_BYTES>().0.iter().filter_map(Record::from_bytes);
    let size = |record: Record| match record.kind {
        Kind::Resize(size) => Some((record.offset, size.to_string())),
        _ => None,
    };
    records.filter_map(size).collect()
}

#[test]
fn a_program_sees_a_terminal() {
    let home = Home::new();
    let line = "test -t 0 && test -t 1 && test -t 2 && echo all; stty size; env | grep -E '^(TERM|LINES|COLUMNS)='; echo to the errors >&2; exit 3";
    let mut command = home.outlive(["run", "--pty", line]);
    command.env("TERM", "dumb").env("LINES", "7").env("COLUMNS", "7");
    let job = outlive_tests::finish(command, b"").ok().text().trim_end().to_owned();
    let ended = home.wait(&job);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &3.into()));
    let printed = String::from_utf8(home.logs(&job)).unwrap();
    assert_eq!(printed, "all\r\n40 120\r\nTERM=xterm-256color\r\nto the errors\r\n");
    assert_eq!(sizes(&home, &job), [(0, "120x40".to_owned())]);
    let shown = home.show(&job);
    assert_eq!((&shown["pty"], &shown["output"]["lines"]), (&true.into(), &4.into()));
}

#[test]
fn a_variable_that_is_given_stays() {
    let home = Home::new();
    let job = start(&home, &["--env", "TERM=vt100", "--env", "COLUMNS=90"], "echo $TERM $COLUMNS");
    home.wait(&job);
    assert_eq!(home.logs(&job), b"vt100 90\r\n");
    // Without a shell, which would make one up.
    let job = home.start_with(&["--pty", "--unset", "TERM"], ["env"]);
    home.wait(&job);
    let printed = String::from_utf8(home.logs(&job)).unwrap();
    assert!(printed.contains("OUTLIVE_JOB=") && !printed.contains("\nTERM="), "{printed}");
}

#[test]
fn a_size_is_given_and_changed() {
    let home = Home::new();
    let line = "trap 'stty size' WINCH; stty size; while :; do read -r line && echo \"got $line\"; done";
    let job = start(&home, &["--size", "91x17"], line);
    home.wait_for_output(&job, "17 91");
    home.run(["resize", &job, "44x22"]).ok();
    // The shell runs the trap once the read that it interrupts is over.
    home.run(["send", &job, "a line"]).ok();
    home.wait_for_output(&job, "22 44");
    let sizes = sizes(&home, &job);
    assert_eq!(sizes[0], (0, "91x17".to_owned()));
    assert_eq!(sizes[1].1, "44x22");
    for wrong in ["0x0", "80", "100000x2"] {
        home.run(["resize", &job, wrong]).code(2);
    }
    home.run(["kill", &job]).ok();
}

#[test]
fn a_job_on_pipes_has_no_size() {
    let home = Home::new();
    let job = home.start(["sleep", "1000"]);
    let refused = home.run(["--json", "resize", &job, "80x24"]).code(1).error_json();
    assert_eq!(refused["error"]["code"], "no_terminal");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("--pty"), "{refused}");
    home.run(["kill", &job]).ok();
    let ended = home.run(["--json", "resize", &job, "80x24"]).code(1).error_json();
    assert_eq!(ended["error"]["code"], "ended");
}

#[test]
fn a_job_in_a_terminal_says_so_to_scripts() {
    let home = Home::new();
    let job = start(&home, &[], "sleep 1000");
    let shown = home.show(&job);
    assert_eq!((&shown["mode"], &shown["stdin"]), (&"pty".into(), &"terminal".into()));
    assert_eq!((&shown["pty"], &shown["size"]), (&true.into(), &"120x40".into()));
    let on_pipes = home.show(&home.start(["sleep", "1000"]));
    assert_eq!((&on_pipes["mode"], &on_pipes["stdin"]), (&"pipe".into(), &"null".into()));
    assert_eq!((&on_pipes["pty"], &on_pipes["size"]), (&false.into(), &serde_json::Value::Null));
    home.run(["kill", "--all"]).ok();
}

#[test]
fn what_is_typed_is_read_and_control_d_ends_it() {
    let home = Home::new();
    let job = start(&home, &[], "cat; echo the end");
    home.run(["send", &job, "hello"]).ok();
    home.wait_for_output(&job, "hello\r\nhello\r\n");
    home.run(["send", &job, "--eof"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 0);
    assert!(home.logs(&job).ends_with(b"the end\r\n"));
}

#[test]
fn a_control_character_is_a_signal() {
    let home = Home::new();
    let job = start(&home, &[], "trap 'echo stopped; exit 9' INT; echo ready; while :; do sleep 0.1; done");
    home.wait_for_output(&job, "ready");
    home.run(["send", "-n", &job, "\u{3}"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 9);
}

#[test]
fn all_that_is_printed_is_kept() {
    let home = Home::new();
    let job = start(&home, &[], "seq 300000");
    let ended = home.wait(&job);
    assert_eq!(ended["exit_code"], 0);
    let expected: String = (1..=300_000).map(|number| format!("{number}\r\n")).collect();
    assert!(home.logs(&job) == expected.as_bytes(), "every number is there, in order");
}

#[test]
fn a_segment_begins_with_the_size() {
    let home = Home::new();
    let job = start(&home, &["--output-cap", "64K", "--size", "77x33"], "seq 100000");
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let first = std::fs::read_dir(home.job_dir(&job)).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        outlive_core::segment::offset(&name)
    });
    let first = first.min().unwrap();
    assert!(first > 0, "the beginning was dropped");
    assert!(sizes(&home, &job).contains(&(first, "77x33".to_owned())), "{first} {:?}", sizes(&home, &job));
    // What was cleared has no size; what comes after it does.
    let job = start(&home, &["--size", "77x33"], "echo before; read line; echo after");
    home.wait_for_output(&job, "before");
    home.run(["clear", &job]).ok();
    home.run(["send", &job, ""]).ok();
    home.wait(&job);
    assert!(sizes(&home, &job).iter().any(|(offset, size)| *offset > 0 && size == "77x33"));
}

#[test]
fn an_interactive_shell_ends_at_the_first_word() {
    let home = Home::new();
    let job = home.start_with(&["--pty", "--grace", "1h"], ["bash", "--norc", "-i"]);
    home.run(["send", &job, "sleep 1000 & echo started"]).ok();
    home.wait_for_output(&job, "\nstarted");
    // It ignores TERM; without more it would go on for the whole grace.
    home.run(["kill", &job]).ok();
    assert_eq!(home.wait(&job)["status"], "killed");
    until("nothing is left", || home.processes().is_empty());
}

#[test]
fn a_command_that_leaves_its_terminal_can_come_back() {
    let home = Home::new();
    let line =
        "exec <&- >&- 2>&-; sleep 0.3; exec </dev/tty >/dev/tty 2>&1; echo back; read line; echo got $line";
    let job = start(&home, &[], line);
    home.wait_for_output(&job, "back");
    home.run(["send", &job, "this"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 0);
    assert!(home.logs(&job).ends_with(b"got this\r\n"));
}
