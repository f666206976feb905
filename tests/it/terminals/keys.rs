//! Typing: keys by name, pastes, and what a terminal answers by itself.
//!
//! The program that reads them prints what it got, so that every byte is seen.

use outlive_tests::Home;

use super::start;

/// Prints each byte that is typed, in hexadecimal digits.
pub(super) const SHOWS_BYTES: &str = "stty raw -echo; printf 'ready\\r\\n'; exec od -An -v -w1 -tx1";

/// Waits until the job has printed these bytes.
pub(super) fn wait_for_bytes(home: &Home, job: &str, bytes: &[u8]) {
    let text: String = bytes.iter().map(|byte| format!(" {byte:02x}\n")).collect();
    home.wait_for_output(job, &text);
}

#[test]
fn keys_are_the_bytes_that_a_terminal_sends() {
    let home = Home::new();
    let job = start(&home, &[], SHOWS_BYTES);
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "--keys", "C-c Up Enter F5 M-x \"ab\""]).ok();
    wait_for_bytes(&home, &job, b"\x03\x1b[A\r\x1b[15~\x1bxab");
    let refused = home.run(["send", &job, "--keys", "Hyper-x"]).code(2).error();
    assert!(refused.contains("Hyper-x") && refused.contains("Enter Tab"), "{refused}");
    home.run(["kill", &job]).ok();
}

#[test]
fn keys_follow_what_the_program_asked_for() {
    let home = Home::new();
    let job = start(&home, &[], &format!("printf '\\033[?1h\\033[?2004h'; {SHOWS_BYTES}"));
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "--keys", "Up"]).ok();
    wait_for_bytes(&home, &job, b"\x1bOA");
    home.run(["send", &job, "--paste", "a\nb"]).ok();
    wait_for_bytes(&home, &job, b"\x1b[200~a\rb\x1b[201~");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_line_ends_as_the_enter_key_does() {
    let home = Home::new();
    let job = start(&home, &[], SHOWS_BYTES);
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "x"]).ok();
    wait_for_bytes(&home, &job, b"x\r");
    home.run(["kill", &job]).ok();
}

#[test]
fn keys_and_pastes_need_a_terminal() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    for arguments in [&["--keys", "Up"][..], &["--paste", "text"]] {
        let refused = home.run([&["--json", "send", &job], arguments].concat()).code(1).error_json();
        assert_eq!(refused["error"]["code"], "no_terminal");
    }
    home.run(["send", &job, "--eof"]).ok();
    home.wait(&job);
    assert_eq!(home.logs(&job), b"");
}

#[test]
fn what_a_program_asks_its_terminal_is_answered() {
    let home = Home::new();
    let ask = |query: &str, last: char| {
        format!("printf '{query}'; IFS= read -r -s -d {last} answer; printf '%q\\n' \"$answer\"; ")
    };
    let line = format!(
        "stty -icanon -echo; {}{}{}",
        ask("\\033[c", 'c'),
        ask("\\033[18t", 't'),
        ask("\\033[5n", 'n'),
    );
    let job = start(&home, &["--size", "91x17"], &line);
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let printed = String::from_utf8(home.logs(&job)).unwrap();
    for answer in ["$'\\E[?62;22'", "$'\\E[8;17;91'", "$'\\E[0'"] {
        assert!(printed.contains(answer), "{answer} {printed}");
    }
}

#[test]
fn the_place_of_the_cursor_is_answered_before_what_is_asked_later() {
    let home = Home::new();
    // The second place is asked for in the extended form, and after more than one read.
    let line = "stty -icanon -echo; printf '\\033[5;10Hab\\033[6n\\033[cmore'; IFS= read -r -s -d c answer; printf '\\033[7H%q\\033[?6n' \"$answer\"; IFS= read -r -s -d R answer; printf '\\r\\n%q\\r\\n' \"$answer\"";
    let job = start(&home, &[], line);
    let ended = home.wait(&job);
    assert_eq!((&ended["exit_code"], &ended["status"]), (&0.into(), &"completed".into()));
    let printed = String::from_utf8(home.logs(&job)).unwrap();
    let first = "$'\\E[5;12R\\E[?62;22'";
    let second = format!("$'\\E[?7;{}'", first.len() + 1);
    assert!(printed.contains(first) && printed.contains(&second), "{printed:?}");
}

/// The process that finds out the answer is the keeper's child, and no member of the job.
#[test]
fn a_question_for_the_cursor_leaves_nothing_of_the_job_running() {
    let home = Home::new();
    let job = start(&home, &[], "printf '\\033[6n'");
    let ended = home.wait(&job);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"completed".into(), &0.into()));
    assert!(ended["survivors"].is_null(), "{ended}");
    outlive_tests::until("the keeper is gone", || home.keepers().is_empty());
    assert_eq!(home.json(["list", "--live"]), serde_json::json!([]));
}
