//! Secrets: a terminal gets one only while nothing in it shows what is typed, and no file of the store ever has it.
//!
//! Proves: a secret that would be shown is refused and not typed; one that is typed is neither in the log, in the recording of what was
//! typed, in an event, nor in a screen that is kept; it is read from standard input or from a descriptor, one line each.

use std::path::Path;

use outlive_tests::{Done, Home, binary, finish, until};
use serde_json::Value;

use super::start;

const SECRET: &str = "hunter2secret";

/// Sends the secret.
fn send(home: &Home, job: &str, options: &[&str]) -> Done {
    let arguments = [&["--json", "send", job, "--secret"], options].concat();
    finish(home.outlive(arguments), format!("{SECRET}\n").as_bytes())
}

/// Sends the secret to a terminal that would show it, and returns why it is refused.
fn refused(home: &Home, job: &str, options: &[&str]) -> String {
    let error = send(home, job, options).code(1).error_json()["error"].clone();
    assert_eq!(error["code"], "not_hidden", "{error}");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(
        hint.contains(&format!("outlive wait {job} --input")) && hint.contains("outlive attach"),
        "{hint}"
    );
    error["message"].as_str().expect("a message").to_owned()
}

/// Tells which files below a directory hold a text.
fn holders(dir: &Path, text: &str) -> Vec<String> {
    let mut holding = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            holding.extend(holders(&path, text));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            holding.push(path.display().to_string());
        }
    }
    holding
}

/// Waits until the kernel says that a job asks for a password.
fn asks_for_password(home: &Home, job: &str) {
    until("it asks for a password", || home.show(job)["awaits"]["kind"] == "password");
}

#[test]
fn a_terminal_that_shows_what_is_typed_gets_none() {
    let home = Home::new();
    let job = start(&home, &["--record-input"], "echo ready; read x; echo \"got ${#x}\"; read x");
    home.wait_for_output(&job, "ready");
    assert!(refused(&home, &job, &[]).contains("its terminal shows what is typed; the secret was not sent"));
    // No word of a sender changes what the kernel does.
    assert!(refused(&home, &job, &["--masked"]).contains("shows what is typed"));
    home.run(["send", &job, "four"]).ok();
    home.wait_for_output(&job, "got 4");
    home.run(["screen", &job]).ok();
    assert_eq!(holders(&home.store(), SECRET), [""; 0]);
    assert!(!holders(&home.store(), "four").is_empty(), "the search finds what is there");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_program_that_asks_for_a_password_gets_it_and_nothing_keeps_it() {
    let home = Home::new();
    // More output than a screen is kept after, so that there is a checkpoint.
    let line =
        "seq 200000; stty -echo; printf 'Password: '; read x; stty echo; echo; echo \"got ${#x}\"; read x";
    let job = start(&home, &["--record-input"], line);
    asks_for_password(&home, &job);
    let sent = send(&home, &job, &[]).ok().json();
    assert_eq!(sent["bytes"], Value::Null, "not even how long it is: {sent}");
    home.wait_for_output(&job, &format!("got {}", SECRET.len()));
    home.run(["screen", &job]).ok();
    let is_checkpoint = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".checkpoint");
    let mut files = std::fs::read_dir(home.job_dir(&job)).expect("a directory").flatten();
    assert!(files.any(|file| is_checkpoint(&file.file_name())), "a screen is kept");
    home.run(["send", &job, "end"]).ok();
    home.wait(&job);
    assert!(home.run(["events", "--json"]).ok().text().contains("awaits_input"));
    assert_eq!(holders(&home.store(), SECRET), [""; 0]);
}

#[test]
fn a_program_that_reads_keys_gets_it_where_the_sender_says_that_it_hides_them() {
    let home = Home::new();
    let line = "stty -echo -icanon; echo ready; read x; echo \"got ${#x}\"; read x";
    let job = start(&home, &["--record-input"], line);
    home.wait_for_output(&job, "ready");
    assert!(refused(&home, &job, &[]).contains("its program reads key by key, and may show what is typed"));
    send(&home, &job, &["--masked"]).ok();
    home.wait_for_output(&job, &format!("got {}", SECRET.len()));
    assert_eq!(holders(&home.store(), SECRET), [""; 0]);
    home.run(["kill", &job]).ok();
}

/// A byte that waits for its turn is shown or not as the terminal is set by then.
#[test]
fn a_secret_does_not_wait_behind_what_was_typed_before() {
    let home = Home::new();
    let line = "stty -echo; echo ready; until [ -e go ]; do sleep 0.05; done; read x; echo \"first $x\"; stty echo; read x";
    let job = start(&home, &[], line);
    home.wait_for_output(&job, "ready");
    home.run(["send", &job, "ahead"]).ok();
    assert!(refused(&home, &job, &[]).contains("what was typed before has not been read yet"));
    std::fs::write(home.path().join("go"), b"").expect("a file");
    home.wait_for_output(&job, "first ahead");
    assert_eq!(holders(&home.store(), SECRET), [""; 0]);
    home.run(["kill", &job]).ok();
}

/// Bash, for one, prints the prompt of `read -s` first. On a busy machine the moment may be a long one.
#[test]
fn a_prompt_may_come_a_moment_before_the_terminal_hides_what_is_typed() {
    let home = Home::new();
    until("a secret is taken", || {
        let line = "printf 'Password: '; sleep 0.2; stty -echo; read x; stty echo; echo \"got ${#x}\"";
        let job = start(&home, &[], line);
        home.wait_for_output(&job, "Password: ");
        let is_sent = send(&home, &job, &[]).code == 0;
        if is_sent {
            home.wait(&job);
            assert!(home.logs(&job).ends_with(b"got 13\r\n"));
        } else {
            home.run(["kill", &job]).ok();
        }
        is_sent
    });
    assert_eq!(holders(&home.store(), SECRET), [""; 0]);
}

#[test]
fn it_is_read_from_a_descriptor_line_by_line() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let outlive = binary("outlive");
    let sends = |script: &str| {
        let mut command = home.command("bash");
        command.args(["-c", script]).arg(&outlive).arg(&job);
        finish(command, b"")
    };
    std::fs::write(home.path().join("words"), "one\ntwo\nthree").expect("a file");
    sends("exec 3<words; \"$0\" send \"$1\" --secret-fd 3 && \"$0\" send \"$1\" --secret-fd 3").ok();
    home.wait_for_output(&job, "one\ntwo\n");
    // A pipe, and a line without an end.
    sends("\"$0\" send \"$1\" --secret-fd 5 5< <(printf last)").ok();
    home.wait_for_output(&job, "two\nlast\n");
    let closed = sends("\"$0\" send \"$1\" --secret-fd 9").code(2).error();
    assert!(closed.contains("descriptor 9 is not open; a shell opens it with 9<FILE"), "{closed}");
    let ended = sends("\"$0\" send \"$1\" --secret-fd 3 3</dev/null").code(2).error();
    assert!(ended.contains("the input has ended, and nothing is sent"), "{ended}");
    for wrong in ["--secret --secret-fd 3 3<words", "--secret-fd 3 --keys Up 3<words", "--masked text"] {
        sends(&format!("\"$0\" send \"$1\" {wrong}")).code(2);
    }
    home.run(["kill", &job]).ok();
}

#[test]
fn it_is_one_line_and_no_longer_than_a_terminal_takes() {
    let home = Home::new();
    let job = start(&home, &[], "stty -echo; echo ready; read x; echo \"got ${#x}\"; read x");
    home.wait_for_output(&job, "ready");
    let sends =
        |length: usize| finish(home.outlive(["send", &job, "--secret"]), "x".repeat(length).as_bytes());
    let error = sends(4095).code(1).error();
    assert!(error.contains("a terminal takes a secret of at most 4095 bytes"), "{error}");
    sends(4094).ok();
    home.wait_for_output(&job, "got 4094");
    home.run(["kill", &job]).ok();
}
