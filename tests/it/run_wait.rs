//! `run --wait` in a script and at a terminal: whose input the job reads, and what Ctrl-C does.
//!
//! A pipe or a file is passed on with its end; the waiting never lasts longer than the job.

use std::fs::File;
use std::process::Stdio;

use outlive_tests::{
    Home, LIMIT, Terminal, end_within, finish, is_running, pid, signal, until, waits_with_open,
};

#[test]
fn a_pipe_is_passed_on_with_its_end() {
    let home = Home::new();
    assert_eq!(home.run_with_input(["run", "--wait", "cat"], b"yes\nno").ok().text(), "yes\nno");
    let mut bytes = vec![0; 3_000_000];
    outlive_tests::pattern::fill(&mut bytes, 0);
    assert!(home.run_with_input(["run", "--wait", "--", "cat"], &bytes).ok().stdout == bytes);
    let answered =
        home.run_with_input(["run", "--wait", "read x; echo got $x; read y || echo end"], b"yes\n");
    assert_eq!(answered.ok().text(), "got yes\nend\n");
    let json = home.run_with_input(["--json", "run", "--wait", "cat"], b"four").ok().json();
    assert_eq!(json["output"]["bytes"], 4);
    let open = home.run_with_input(["run", "--wait", "--stdin", "open", "cat"], b"open\n").ok();
    assert_eq!((open.text(), open.error()), ("open\n".to_owned(), String::new()));
}

#[test]
fn a_file_is_passed_on_and_an_empty_one_is_at_its_end() {
    let home = Home::new();
    for content in ["some\n", ""] {
        let path = home.path().join("input");
        std::fs::write(&path, content).expect("the home is writable");
        let mut command = home.outlive(["run", "--wait", "cat; echo end"]);
        command.stdin(File::open(&path).expect("it was written"));
        assert_eq!(finish(command, b"").ok().text(), format!("{content}end\n"));
    }
}

#[test]
fn what_was_not_asked_for_is_not_read() {
    let home = Home::new();
    // What follows in the loop is left for the loop.
    let mut shell = home.command("sh");
    let line = "while read -r word; do outlive run --wait --stdin null -- cat; echo $word; done";
    shell.args(["-c", line]);
    assert_eq!(finish(shell, b"a\nb\n").ok().text(), "a\nb\n");
    // A job in the background reads nothing of its starter's.
    let job = home.run_with_input(["run", "cat"], b"text").ok().text().trim().to_owned();
    assert_eq!(home.wait(&job)["output"]["bytes"], 0);
}

#[test]
fn the_waiting_ends_with_the_job_though_input_is_open() {
    let home = Home::new();
    for line in ["echo done; exit 3", "head -c 1; exit 3"] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        std::io::Write::write_all(&mut &writer, b"x").expect("it has room");
        let mut command = home.outlive(["run", "--wait", line]);
        let mut child = command.stdin(reader).stdout(Stdio::null()).spawn().expect("it is built");
        assert_eq!(end_within(&mut child, LIMIT), Some(3), "{line}");
        drop(writer);
    }
    // One that never reads what fills every buffer.
    let flood = vec![b'x'; 4 << 20];
    assert_eq!(home.run_with_input(["run", "--wait", "sleep", "0.2"], &flood).ok().text(), "");
}

#[test]
fn open_input_takes_what_is_typed_and_says_where_else_it_comes_from() {
    let home = Home::new();
    let mut terminal = Terminal::open(80);
    let line = "read x; echo got $x; read y || echo end";
    let mut child = terminal.start(&home, &[], ["outlive", "run", "--wait", "--stdin", "open", line]);
    until("it runs", || home.json(["list", "--live"])[0]["status"] == "running");
    terminal.write(b"yes\n");
    terminal.read_until("got yes");
    terminal.write(b"\x04");
    terminal.read_until("end");
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    // With no input of its own it says how to answer.
    let mut command = home.outlive(["run", "--wait", "--name", "open", "--stdin", "open", "--", "cat"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built");
    until("it runs", || home.run(["show", "open"]).code == 0);
    home.run(["send", "open", "sent", "--eof"]).ok();
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"sent\n");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("outlive send open-") && told.contains("--eof"), "{told}");
}

#[test]
fn ctrl_c_ends_the_job_where_that_was_asked_for() {
    let home = Home::new();
    let mut command =
        home.outlive(["run", "--wait", "--kill-on-interrupt", "--name", "mine", "sleep", "300"]);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it is built");
    until("it waits", || waits_with_open(child.id().cast_signed(), "inotify"));
    let command = pid(&home.show("mine"), "pid");
    signal(child.id().cast_signed(), "INT");
    assert_eq!(end_within(&mut child, LIMIT), Some(130));
    assert!(!is_running(command));
    assert_eq!(home.show("mine")["status"], "killed");
    home.run(["run", "--kill-on-interrupt", "true"]).code(2);
}
