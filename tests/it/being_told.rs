//! Being told that a job has ended while one does something else: on the desktop, and by the terminal.
//!
//! Both are for people: without a desktop or a terminal they do nothing, and nothing fails.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use outlive_tests::{Home, LIMIT, Terminal, end_within, finish, until};

/// Puts a script in the place of a program.
fn put(home: &Home, program: &str, script: &str) {
    let path = home.path().join("bin").join(program);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_desktop_is_told_where_that_was_asked_for() {
    let home = Home::new();
    home.make_dir("bin");
    let shows = r#"printf '%s|' "$@" > $HOME/shown.new && mv $HOME/shown.new $HOME/shown"#;
    let start = || {
        let mut command = home.outlive(["run", "--notify", "--name", "tests", "exit 3"]);
        command.env("PATH", format!("{}/bin:/usr/bin:/bin", home.path().display()));
        finish(command, b"").ok();
        let shown = home.path().join("shown");
        until("it is shown", || shown.exists());
        let text = fs::read_to_string(&shown).unwrap();
        fs::remove_file(shown).unwrap();
        text
    };
    // Where the usual program fails, the bus is asked.
    put(&home, "notify-send", "exit 1");
    put(&home, "busctl", shows);
    let asked = start();
    assert!(asked.contains("|Notify|susssasa{sv}i|outlive|0||tests failed|exited with 3|"), "{asked}");
    put(&home, "notify-send", shows);
    assert_eq!(start(), "--app-name=outlive|--|tests failed|exited with 3|");
}

#[test]
fn without_a_desktop_the_rest_is_done() {
    let home = Home::new();
    let job = home.run(["run", "--notify", "--on-exit", "echo ran > ran", "--", "true"]).ok().text();
    until("the command ran", || home.path().join("ran").exists());
    let shown = home.show(job.trim());
    assert_eq!((&shown["notify"], &shown["status"]), (&true.into(), &"completed".into()));
}

#[test]
fn the_terminal_rings_when_the_wait_is_over_and_a_pipe_gets_nothing() {
    let home = Home::new();
    let job = home.start_line("exit 3");
    let terminal = Terminal::open(80);
    let mut child = terminal.start(&home, &[], ["outlive", "wait", "--bell", &job]);
    let shown = terminal.read_to_end();
    assert_eq!(end_within(&mut child, LIMIT), Some(7));
    assert!(shown.contains(&format!("\u{1b}]9;{job} failed: exited with 3")), "{shown:?}");
    assert!(shown.contains("\u{7}\u{7}"), "{shown:?}");
    let piped = home.run(["wait", "--bell", &job]).code(7);
    assert!(!piped.text().contains('\u{7}') && piped.error().is_empty(), "{}", piped.error());
}
