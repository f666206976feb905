//! Bugs that were found by using outlive, each with what happened then.
//!
//! Proves S0-155 (started and stopped reliably), S0-156 (no data loss), S0-161 (clear errors).

use std::fs;
use std::process::Stdio;

use outlive_tests::{Home, binary, finish, pid, until};

/// A start that could never fit deleted every ended job before it was refused.
#[test]
fn a_start_that_is_refused_for_want_of_room_removes_nothing() {
    let home = Home::new();
    let job = home.start_line("echo important; exit 3");
    home.wait(&job);
    let refused = home.run(["run", "--output-cap", "900G", "true"]).code(5);
    assert!(refused.error().contains("hint: give a smaller --output-cap"), "{}", refused.error());
    assert_eq!(home.logs(&job), b"important\n");
}

/// With SIGCHLD ignored by the starter the kernel threw the end of the command away: the job ran for ever.
#[test]
fn a_starter_that_ignores_its_children_does_not_make_a_job_without_an_end() {
    let home = Home::new();
    let mut command = home.command("sh");
    command.args(["-c", "trap '' CHLD; exec outlive run 'exit 3'"]);
    let job = finish(command, b"").ok().text().trim_end().to_owned();
    assert_eq!(home.wait(&job)["exit_code"], 3);
}

/// With few descriptors every job looked damaged, and doctor moved them all to quarantine.
#[test]
fn what_cannot_be_read_for_a_moment_is_not_damaged() {
    let home = Home::new();
    let job = home.start_line("exit 3");
    home.wait(&job);
    let mut command = home.command("sh");
    command.args(["-c", "ulimit -n 5; outlive doctor; outlive list"]);
    finish(command, b"").ok();
    assert_eq!(home.show(&job)["exit_code"], 3);
    assert_eq!(fs::read_dir(home.store().join("quarantine")).unwrap().count(), 0);
}

/// Errors in writing to standard output were swallowed, and a cursor moved past output that was never delivered.
#[test]
fn what_could_not_be_written_is_not_read() {
    let home = Home::new();
    let job = home.start_line("seq 5");
    home.wait(&job);
    for arguments in
        [&["logs", &job][..], &["list"], &["logs", "--cursor", "me", &job], &["--json", "show", &job]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = home.outlive(arguments);
        let done = command.stdout(Stdio::from(full)).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{arguments:?}");
        assert!(String::from_utf8_lossy(&done.stderr).contains("No space left"), "{done:?}");
    }
    assert_eq!(home.run(["logs", "--cursor", "me", &job]).ok().text().lines().count(), 5);
}

/// The keeper died of its starter's processor limit, and kept no more than its file limit.
#[test]
fn a_limit_of_the_starter_is_the_commands_and_not_the_keepers() {
    let home = Home::new();
    let mut command = home.command("bash");
    let line = "ulimit -f; ulimit -t; head -c 200000 /dev/zero | tr '\\0' x";
    command.args(["-c", &format!("ulimit -f 100; ulimit -t 50; exec outlive run \"{line}\"")]);
    let job = finish(command, b"").ok().text().trim_end().to_owned();
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let logs = home.logs(&job);
    assert!(logs.starts_with(b"100\n50\n"), "{:?}", String::from_utf8_lossy(&logs[..20]));
    // A keeper that may lift a hard limit keeps everything; what another loses is counted.
    let dropped = home.show(&job)["output"]["dropped_bytes"].as_u64().unwrap();
    assert_eq!(logs.len() as u64 + dropped, 7 + 200_000);
}

/// A directory of another program became a store, and its contents were swept.
#[test]
fn a_directory_in_use_does_not_become_a_store() {
    let home = Home::new();
    let mine = home.path().join("mine/new/old");
    fs::create_dir_all(&mine).unwrap();
    fs::write(mine.join("file"), "precious").unwrap();
    let mut command = home.outlive(["run", "true"]);
    command.env("OUTLIVE_HOME", home.path().join("mine"));
    let refused = finish(command, b"").code(1);
    assert!(refused.error().contains("is not a store and not empty"), "{}", refused.error());
    assert_eq!(fs::read_to_string(mine.join("file")).unwrap(), "precious");
}

/// An unfinished line was printed twice where the end was shown and then followed.
#[test]
fn an_unfinished_line_is_shown_once_by_a_follower_of_the_end() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", "printf abc; read go; echo def"]);
    home.wait_for_output(&job, "abc");
    let follower = home.outlive(["logs", "-n", "1", "-f", &job]).stdout(Stdio::piped()).spawn().unwrap();
    until("it follows", || outlive_tests::waits_with_open(follower.id().cast_signed(), "inotify"));
    home.run(["send", &job, "go"]).ok();
    home.wait(&job);
    assert_eq!(String::from_utf8_lossy(&follower.wait_with_output().unwrap().stdout), "abcdef\n");
    let ended = home.start_line("echo a; printf b");
    home.wait(&ended);
    assert_eq!(home.run(["logs", "-n", "1", "-f", &ended]).ok().text(), "b");
}

/// Whether a removal or an addition won depended on their order; now a removed variable is removed.
#[test]
fn what_is_unset_is_not_there() {
    let home = Home::new();
    let job = home.start_with(&["--env", "A=2", "--unset", "A"], ["sh", "-c", "echo ${A-none}"]);
    home.wait(&job);
    assert_eq!(home.logs(&job), b"none\n");
}

/// Input to a command that had closed its end was reported as taken.
#[test]
fn input_that_nobody_can_read_is_refused() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", "exec <&-; echo closed; exec sleep 300"]);
    home.wait_for_output(&job, "closed");
    let refused = home.run(["--json", "send", &job, "hi"]).code(1);
    assert_eq!(refused.error_json()["error"]["code"], "stdin_closed");
}

/// Names in the store that hold escape sequences drove the terminal through list and doctor.
#[test]
fn a_hostile_name_in_the_store_is_shown_harmlessly() {
    let home = Home::new();
    home.run(["list"]).ok();
    fs::create_dir(home.store().join("jobs/x\u{1b}[31m")).unwrap();
    for verb in ["list", "doctor"] {
        let shown = home.run([verb]);
        assert!(!shown.text().contains('\u{1b}') && !shown.error().contains('\u{1b}'), "{verb}");
        assert!(shown.text().contains("x\u{fffd}[31m") || shown.error().contains("x\u{fffd}[31m"), "{verb}");
    }
}

/// Replacing or deleting the programs changes nothing for what runs, and a lone program is its own keeper.
#[test]
fn a_job_goes_on_when_the_programs_are_deleted() {
    let home = Home::new();
    let own = home.path().join("bin");
    fs::create_dir(&own).unwrap();
    for name in ["outlive", "outlive-keeper"] {
        fs::copy(binary(name), own.join(name)).unwrap();
    }
    let mut command = home.command(own.join("outlive"));
    command.args(["run", "--stdin", "open", "--", "sh", "-c", "read go; exit 7"]);
    let job = finish(command, b"").ok().text().trim_end().to_owned();
    fs::remove_dir_all(&own).unwrap();
    assert!(pid(&home.show(&job), "keeper_pid") > 0);
    home.run(["send", &job, "go"]).ok();
    assert_eq!(home.wait(&job)["exit_code"], 7);
}
