//! Jobs in a terminal whose keepers are killed: their guards have the terminal, and go on.
//!
//! A person who looks on keeps the window and its size, what a program asked its terminal and its user is answered, and nothing is
//! told twice.

use std::io::{Read, Write};

use outlive_tests::{Home, signal, until};

use super::attach::Tmux;
use super::{sizes, start};
use crate::guard::{events, keeper, replace_keeper};

#[test]
fn vim_goes_on_in_a_persons_window() {
    let home = Home::new();
    let file = home.path().join("notes.txt");
    std::fs::write(&file, "first\n").unwrap();
    let job = start(&home, &[], "exec vim -u NONE -N notes.txt");
    home.wait_for_output(&job, "first");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", &format!("attach {job}"));
    until("its window has the size", || home.json(["screen", &job])["size"] == "80x20");
    tmux.shows("one", "first\n~");
    let deaths = if outlive_sys::exit::can_tell() { 2 } else { 1 };
    for death in 0..deaths {
        replace_keeper(&home, &job);
        tmux.tell(&["send-keys", "-t", "one", &format!("oafter {death}"), "Escape"]);
        tmux.shows("one", &format!("after {death}\n~"));
        // A viewer in another window sees the same.
        let shown = home.run(["screen", &job]).ok().text();
        assert!(shown.contains(&format!("after {death}\n~")), "{shown}");
    }
    tmux.line("one", ":wq");
    let shown = home.wait(&job);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"completed".into(), &0.into()), "{shown}");
    tmux.shows("one", "completed");
    let written: String = (0..deaths).map(|death| format!("after {death}\n")).collect();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("first\n{written}"));
    let sizes: Vec<String> = sizes(&home, &job).into_iter().map(|(_, size)| size).collect();
    assert_eq!(sizes, ["120x40", "80x20"], "the window kept its size");
}

#[test]
fn a_size_that_was_given_is_kept() {
    let home = Home::new();
    let job = start(&home, &[], "echo ready; read line; stty size");
    home.wait_for_output(&job, "ready");
    home.run(["resize", &job, "90x30"]).ok();
    replace_keeper(&home, &job);
    home.run(["send", &job, "go on"]).ok();
    home.wait(&job);
    assert!(String::from_utf8(home.logs(&job)).unwrap().ends_with("30 90\r\n"));
}

#[test]
fn a_terminal_is_asked_and_answers_once() {
    let home = Home::new();
    // It asks for the cursor and for the kind of terminal while its keeper stands still, and reads until nothing more comes.
    let line = "stty raw -echo min 0 time 20; echo ready; until [ -e go ]; do sleep 0.01; done; \
        printf '\\033[2J\\033[Hab\\033[6n\\033[c'; touch asked; cat > answers; stty sane; exit 7";
    let job = start(&home, &[], line);
    home.wait_for_output(&job, "ready");
    let first = keeper(&home, &job);
    signal(first, "STOP");
    std::fs::write(home.path().join("go"), "").unwrap();
    until("it has asked", || home.path().join("asked").exists());
    signal(first, "KILL");
    assert_eq!(home.wait(&job)["exit_code"], 7);
    assert_eq!(std::fs::read_to_string(home.path().join("answers")).unwrap(), "\x1b[1;3R\x1b[?62;22c");
}

#[test]
fn an_end_of_input_that_is_sent_again_is_typed_once() {
    let home = Home::new();
    let line = "stty raw -echo min 0 time 20; echo ready; cat > typed; stty sane; exit 7";
    let job = start(&home, &[], line);
    home.wait_for_output(&job, "ready");
    // A front end whose keeper died before the answer asks again, with the same place.
    let place = [7u64, 0].map(u64::to_le_bytes).concat();
    let request = [&17u32.to_le_bytes()[..], &[19], &place].concat();
    for is_last in [false, true] {
        let mut stream = std::os::unix::net::UnixStream::connect(home.job_dir(&job).join("ctl")).unwrap();
        stream.write_all(&request).unwrap();
        // The greeting is 4 + 1 + 4 + 4 + 4 + 16 bytes long, and then comes the answer: accepted.
        let mut answer = [0; 33 + 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[33..], [1, 0, 0, 0, 65]);
        if !is_last {
            replace_keeper(&home, &job);
        }
    }
    assert_eq!(home.wait(&job)["exit_code"], 7);
    assert_eq!(std::fs::read(home.path().join("typed")).unwrap(), b"\x04");
}

#[test]
fn a_question_to_the_user_stays_and_is_told_once() {
    let home = Home::new();
    let job = start(&home, &[], "printf 'Your name? '; read name; echo \"hello $name\"");
    until("it asks", || home.show(&job)["awaits"]["kind"] == "line");
    let asked = home.show(&job)["awaits"].clone();
    replace_keeper(&home, &job);
    assert_eq!(home.show(&job)["awaits"], asked);
    home.run(["wait", "--input", &job]).ok();
    home.run(["send", &job, "Ada"]).ok();
    home.wait(&job);
    assert!(String::from_utf8(home.logs(&job)).unwrap().ends_with("hello Ada\r\n"));
    assert_eq!(events(&home, &job), ["started", "awaits_input", "keeper_replaced", "exited"]);
}
