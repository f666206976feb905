//! What is typed into a job's terminal, where it is recorded: by everyone who types, in its place, and never a password.
//!
//! Proves: what is typed is recorded where that was asked for, in its order, over the death of a keeper; a secret and a password are not, and
//! a recording that fails costs the job nothing.

use std::os::unix::fs::PermissionsExt;

use outlive_tests::{Home, finish};

use super::attach::Tmux;
use super::export::{cast, merged, pair};
use super::start;
use crate::guard::replace_keeper;

/// Returns what was typed, by the recording.
fn typed(home: &Home, job: &str) -> String {
    let (_, events) = cast(&home.run(["export", job, "--cast"]).ok().text());
    events.into_iter().filter(|(code, ..)| code == "i").map(|(_, data, _)| data).collect()
}

/// Tells which files of a job's directory hold a text.
fn holders(home: &Home, job: &str, text: &str) -> Vec<String> {
    let files = std::fs::read_dir(home.job_dir(job)).expect("a directory").flatten();
    let holds = |path: &std::path::Path| {
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    let holding = files.filter(|file| holds(&file.path()));
    holding.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn lines_are_in_their_places_and_passwords_nowhere() {
    let home = Home::new();
    let line = "printf 'name? '; read name; stty -echo; printf 'password? '; read password; \
        stty -icanon; printf 'key? '; read key; printf 'word? '; read word; stty icanon echo; printf 'last? '; read last";
    let job = start(&home, &["--record-input"], line);
    home.wait_for_output(&job, "name? ");
    home.run(["send", &job, "alice"]).ok();
    home.wait_for_output(&job, "password? ");
    home.run(["send", &job, "hunter2"]).ok();
    // Here the terminal is as in an editor, and only the sender knows what is secret.
    home.wait_for_output(&job, "key? ");
    finish(home.outlive(["send", &job, "--secret", "--masked"]), b"tops3cret\n").ok();
    home.wait_for_output(&job, "word? ");
    home.run(["send", &job, "w\u{f6}rd"]).ok();
    home.wait_for_output(&job, "last? ");
    home.run(["send", &job, "bye"]).ok();
    home.wait(&job);
    let (_, events) = cast(&home.run(["export", &job, "--cast"]).ok().text());
    let expected = [
        pair("o", "name? "),
        pair("i", "alice\r"),
        pair("o", "alice\r\npassword? key? word? "),
        pair("i", "w\u{f6}rd\r"),
        pair("o", "last? "),
        pair("i", "bye\r"),
        pair("o", "bye\r\n"),
        pair("x", "0"),
    ];
    assert_eq!(merged(&events), expected);
    assert_eq!(holders(&home, &job, "w\u{f6}rd"), ["input"]);
    for secret in ["hunter2", "tops3cret"] {
        assert_eq!(holders(&home, &job, secret), [""; 0]);
    }
    let file = std::fs::metadata(home.job_dir(&job).join("input")).expect("a file");
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    assert_eq!(home.show(&job)["record_input"], true);
    assert!(home.run(["show", &job]).ok().text().contains("record_input  true"));
    let text = home.run(["export", &job, "--txt"]).ok().text();
    assert!(text.starts_with("name? alice\npassword? key? word? last? bye\n"), "{text}");
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let home = Home::new();
    let job = start(&home, &[], "stty -echo -icanon; echo ready; read line");
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "nobody keeps this"]).ok();
    home.wait(&job);
    assert_eq!(typed(&home, &job), "");
    assert_eq!(holders(&home, &job, "nobody keeps this"), [""; 0]);
    assert!(!home.job_dir(&job).join("input").exists());
    assert_eq!(home.show(&job)["record_input"], false);
}

#[test]
fn a_job_on_pipes_has_nothing_typed() {
    let home = Home::new();
    let refused = home.run(["run", "--record-input", "--stdin", "open", "cat"]);
    assert_eq!(refused.code, 2);
    assert!(refused.error().contains("add --pty, or leave out --record-input"), "{}", refused.error());
    // The configuration is for those jobs that have a terminal.
    home.configure("[job]\nrecord_input = true\n");
    let job = home.start(["true"]);
    home.wait(&job);
    assert_eq!(home.show(&job)["record_input"], false);
    let job = start(&home, &[], "read line");
    home.run(["send", &job, "kept"]).ok();
    home.wait(&job);
    assert_eq!(typed(&home, &job), "kept\r");
}

#[test]
fn a_guard_and_a_window_go_on_with_it() {
    let home = Home::new();
    let job = start(
        &home,
        &["--record-input"],
        "stty -echo -icanon; echo ready; for i in 1 2 3; do read line; echo $line; done",
    );
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "before"]).ok();
    home.wait_for_output(&job, "before");
    replace_keeper(&home, &job);
    home.run(["send", &job, "after"]).ok();
    home.wait_for_output(&job, "after");
    let tmux = Tmux::open(&home, 80, 20);
    tmux.outlive("one", &format!("attach {job}"));
    tmux.shows("one", "after");
    tmux.line("one", "by a person");
    home.wait(&job);
    assert_eq!(typed(&home, &job), "before\rafter\rby a person\r");
}

#[test]
fn a_full_or_a_broken_file_disturbs_nobody() {
    let home = Home::new();
    let job = start(&home, &["--record-input"], "echo ready; read line; echo got; read line; exit 5");
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "first"]).ok();
    home.wait_for_output(&job, "got");
    let path = home.job_dir(&job).join("input");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
    file.set_len(16 << 20).expect("a long file");
    home.run(["send", &job, "second"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 5);
    assert_eq!(file.metadata().expect("a file").len(), 16 << 20);
    let (_, events) = cast(&home.run(["export", &job, "--cast"]).ok().text());
    let others: Vec<_> = merged(&events).into_iter().filter(|(code, _)| code != "o").collect();
    let full = pair("m", "what was typed after this is not recorded");
    assert_eq!(others, [pair("i", "first\r"), full, pair("x", "5")]);
    // A directory in its place: nothing can be written to it, nor read.
    let job = start(&home, &["--record-input"], "echo ready; read line; exit 6");
    home.wait_for_output(&job, "ready");
    std::fs::create_dir(home.job_dir(&job).join("input")).expect("a directory");
    home.run(["send", &job, "typed"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 6);
}

#[test]
fn a_clear_forgets_what_was_typed() {
    let home = Home::new();
    let job = start(&home, &["--record-input"], "for i in 1 2 3; do read line; echo \"got $line\"; done");
    home.run(["send", &job, "before"]).ok();
    home.wait_for_output(&job, "got before");
    assert_eq!(typed(&home, &job), "before\r");
    home.run(["clear", &job]).ok();
    assert!(!home.job_dir(&job).join("input").exists());
    assert_eq!(typed(&home, &job), "");
    // A second time there is nothing, and what is typed from now on is recorded.
    home.run(["clear", &job]).ok();
    home.run(["send", &job, "after"]).ok();
    home.wait_for_output(&job, "got after");
    assert_eq!(typed(&home, &job), "after\r");
    home.run(["send", &job, "end"]).ok();
    home.wait(&job);
    assert_eq!(typed(&home, &job), "after\rend\r");
    home.run(["clear", &job]).ok();
    assert_eq!(typed(&home, &job), "");
    assert!(!home.job_dir(&job).join("input").exists());
}
