//! What a program in a terminal survives: the death of every process that shows its screen.
//!
//! The keeper's own death is in `orphans` and `guarded`.

use std::process::Stdio;

use outlive_sys::identity::Stat;
use outlive_tests::{Era, Home, Mcp, all_processes, pid, signal, until};
use serde_json::json;

use super::attach::{Tmux, kill_viewers, viewers};
use super::start;
use crate::guard::{keeper, replace_keeper};

/// Output that takes an unoptimised program seconds to work out.
const LONG: &str = "seq 1000000";

/// Returns a child of a process that has this argument, as soon as there is one.
fn child_with(parent: i32, argument: &str) -> i32 {
    let mut found = None;
    until(&format!("{parent} has a child with {argument}"), || {
        found = find_child(parent, argument);
        found.is_some()
    });
    found.expect("one was found")
}

fn find_child(parent: i32, argument: &str) -> Option<i32> {
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).any(|other| other == argument.as_bytes())
            && Stat::read(*pid).is_some_and(|stat| stat.parent == parent)
    };
    all_processes().into_iter().find(is_it)
}

#[test]
fn an_editor_outlives_viewers_and_screens() {
    let home = Home::new();
    let job = home.start_with(&["--pty", "--size", "80x20"], ["vim", "-u", "NONE", "-N", "notes.txt"]);
    until("it has drawn", || home.run(["screen", &job]).ok().text().contains("\n~"));
    let tmux = Tmux::open(&home, 80, 20);
    for number in ["one", "two", "three"] {
        tmux.outlive("one", &format!("attach {job}"));
        until("it is shown", || tmux.screen("one").contains("\n~"));
        tmux.tell(&["send-keys", "-t", "one", "-l", &format!("oline {number}")]);
        tmux.shows("one", &format!("\nline {number}"));
        kill_viewers(&home);
        home.run(["send", &job, "--keys", "Escape"]).ok();
        tmux.outlive("one", "attach --reset; clear; echo; echo mended");
        tmux.shows("one", "\nmended");
        // One that only looks, and is killed at it.
        let mut looking = home.outlive(["screen", &job, "--wait-stable", "10s"]);
        let mut looking = looking.stdout(Stdio::null()).spawn().expect("it starts");
        looking.kill().expect("it waits");
        looking.wait().expect("it was killed");
        assert!(home.run(["screen", &job]).ok().text().contains(&format!("\nline {number}\n")));
    }
    home.run(["send", &job, "--keys", "\":wq\" Enter"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let saved = std::fs::read_to_string(home.path().join("notes.txt")).expect("it was saved");
    assert_eq!(saved, "\nline one\nline two\nline three\n");
}

/// Asks the terminal for the cursor, from within the editor.
const ASKS: &str = "stty raw -echo; printf '\\033[6n'; IFS= read -r -d R answer; stty sane; echo \"at ${answer#*[}\" > answer";

/// The keeper, the process that works out its screen, and both viewers are killed, one after the other, while one editor runs.
#[test]
fn an_editor_outlives_every_process_in_turn() {
    let home = Home::new();
    std::fs::write(home.path().join("ask.sh"), ASKS).expect("it is written");
    let job = start(&home, &["--size", "80x20"], &format!("{LONG}; exec vim -u NONE -N notes.txt"));
    home.wait_for_output(&job, "\"notes.txt\"");
    // The editor has asked for the cursor as well. Without checkpoints it takes long to work out again.
    until("it has its answer", || find_child(keeper(&home, &job), "cursor").is_none());
    for file in std::fs::read_dir(home.job_dir(&job)).expect("a directory").flatten() {
        if file.path().extension().is_some_and(|end| end == "checkpoint") {
            std::fs::remove_file(file.path()).expect("it is removed");
        }
    }
    // As bytes: to send keys, the screen is looked at.
    home.run(["send", "-n", &job, ":!bash ask.sh\r"]).ok();
    signal(child_with(keeper(&home, &job), "cursor"), "KILL");
    let answer = home.path().join("answer");
    until("the cursor is worked out again", || answer.exists());
    home.run(["send", &job, "--keys", "Enter"]).ok();

    let tmux = Tmux::open(&home, 80, 20);
    tmux.tell(&["new-session", "-d", "-x", "60", "-y", "15", "-s", "two", "bash --norc --noprofile"]);
    let attach = |window: &str| {
        let before = viewers(&home);
        tmux.outlive(window, &format!("attach {job}"));
        let mut found = None;
        until("there is one more viewer", || {
            found = viewers(&home).into_iter().find(|viewer| !before.contains(viewer));
            found.is_some()
        });
        tmux.shows(window, "\n~");
        found.expect("one was found")
    };
    let mut written = String::new();
    let mut write = |window: &str, line: &str| {
        tmux.tell(&["send-keys", "-t", window, "-l", &format!("o{line}")]);
        tmux.tell(&["send-keys", "-t", window, "Escape"]);
        written += &format!("{line}\n");
        tmux.shows(window, &format!("\n{line}\n"));
        let shown = || home.run(["screen", &job]).ok().text();
        until("the screen is right", || shown().contains(&format!("{written}~")));
    };
    let (first, second) = (attach("one"), attach("two"));
    write("one", "all live");
    replace_keeper(&home, &job);
    write("two", "after the keeper");
    signal(first, "KILL");
    write("two", "after the first viewer");
    // The second guard goes on as well where the kernel tells it how the editor ends.
    if outlive_sys::exit::can_tell() {
        replace_keeper(&home, &job);
    }
    signal(second, "KILL");
    until("no viewer is left", || viewers(&home).is_empty());
    tmux.outlive("one", "attach --reset; clear");
    attach("one");
    write("one", "after all of them");
    tmux.line("one", ":wq");
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let saved = std::fs::read_to_string(home.path().join("notes.txt")).expect("it was saved");
    assert_eq!(saved, format!("\n{written}"));
}

#[test]
fn a_server_outlives_the_process_that_derives_a_screen() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = format!("{LONG}; echo the end; read -r line");
    let job = client.call("run", json!({ "command": line, "pty": true, "wait_ms": 0 })).ok().job();
    home.wait_for_output(&job, "the end");
    let asked = client.send_call("read_screen", json!({ "job": job }));
    signal(child_with(client.pid(), "screen"), "KILL");
    let refused = client.tool_answer(asked).error();
    assert!(refused.contains("read_output"), "{refused}");
    assert!(client.call("read_screen", json!({ "job": job })).ok().body().join("\n").contains("the end"));
    home.run(["kill", &job]).ok();
}

#[test]
fn a_cursor_is_worked_out_again() {
    let home = Home::new();
    let asks =
        "stty raw -echo; printf '\\033[6n'; IFS= read -r -d R answer; stty sane; echo \"at ${answer#*[}\"";
    let job = home
        .start_with(&["--pty", "--size", "80x20"], ["bash", "-c", &format!("{LONG}; read -r go; {asks}")]);
    home.wait_for_output(&job, "1000000");
    home.run(["send", &job, ""]).ok();
    let keeper = pid(&home.show(&job), "keeper_pid");
    signal(child_with(keeper, "cursor"), "KILL");
    home.wait_for_output(&job, "at 20;1");
    assert_eq!(home.wait(&job)["exit_code"], 0);
}
