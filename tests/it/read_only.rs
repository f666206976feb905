//! A store that becomes full or read-only: jobs run on, every answer says what is wrong, and nothing is harmed.
//!
//! Proves S0-156 as far as a disk allows, S2-63 and S3-95: what is there can be read, what cannot be done is said, and once
//! the disk is well the next job starts. What output is lost is in `output::full_disk`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::path::PathBuf;

use outlive_tests::{FragileDisk, Home, SmallDisk, counts, finish, is_running, lacks, pid, until};
use serde_json::{Value, json};

/// The expected result of a verb: its arguments, its exit status, and words of its answer.
type Wanted<'a> = (&'a [&'a str], i32, &'a str);

fn ended(home: &Home, line: &str) -> String {
    let job = home.start_line(line);
    home.wait(&job);
    job
}

/// A job that repeats what it is told, and one that ends with 0 when it is told anything.
fn running(home: &Home) -> (String, String) {
    let program = outlive_tests::binary("counts").display().to_string();
    let counting = home.start_with(&["--stdin", "open"], [&program, "0", "20000", "64", "7"]);
    let waiting = home.start_with(&["--stdin", "open"], ["sh", "-c", "read word; exit 0"]);
    (counting, waiting)
}

/// Asks, and compares what is answered.
fn assert_answers(home: &Home, wanted: &[Wanted]) {
    for (arguments, code, words) in wanted {
        let done = home.run(*arguments);
        let said = format!("{}{}", done.text(), done.error());
        assert_eq!(done.code, *code, "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?} does not say {words:?}: {said}");
    }
}

fn assert_well(home: &Home) {
    assert_eq!(home.json(["doctor"])["findings"], json!([]));
    let next = home.start(["echo", "again"]);
    assert_eq!(home.wait(&next)["status"], "completed");
    assert_eq!(home.logs(&next), b"again\n");
    home.run(["gc"]).ok();
}

/// Returns what is in a job's directory.
fn contents(home: &Home, job: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(home.job_dir(job)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_full_store_says_so_and_keeps_running_what_runs() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let home = Home::in_dir(disk.path());
    let (old, older) = (ended(&home, "echo old; exit 4"), ended(&home, "echo older"));
    let (counting, waiting) = running(&home);
    home.wait_for_output(&counting, "o 000000001");
    let before = contents(&home, &old);
    let filler = disk.fill();

    assert_answers(
        &home,
        &[
            (&["list"], 0, "running"),
            (&["show", &old], 0, "exited with 4"),
            (&["logs", &old], 0, "old\n"),
            (&["run", "--", "true"], 1, "No space left on device"),
            (&["run", "--wait", "--", "true"], 1, "No space left on device"),
            (&["send", &counting, "a word"], 0, ""),
            (&["wait", "--timeout", "1ms", &counting], 4, "it goes on"),
            (&["kill", &old], 0, "already ended"),
            (&["gc"], 0, "0 removed"),
            (&["events"], 0, "started"),
        ],
    );
    assert!(home.run(["doctor"]).code <= 1);
    assert_eq!(home.show(&counting)["status"], "running");
    // The outcome has its room on a full disk: an end is recorded with its cause.
    home.run(["send", &waiting, "go"]).ok();
    assert_eq!(home.wait(&waiting)["status"], "completed");
    assert_answers(&home, &[(&["kill", &counting], 0, ""), (&["remove", &older], 0, "")]);
    assert_eq!(home.wait(&counting)["status"], "killed");

    fs::remove_file(filler).unwrap();
    assert_eq!(contents(&home, &old), before);
    assert_eq!(home.show(&counting)["status"], "killed");
    home.run(["show", &older]).code(3);
    assert_well(&home);
}

#[test]
fn a_read_only_store_says_so_and_is_the_same_afterwards() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let home = Home::in_dir(disk.path());
    let (old, older) = (ended(&home, "echo old; exit 4"), ended(&home, "echo older"));
    until("no keeper has anything open", || home.keepers().is_empty());
    let before = contents(&home, &old);
    disk.remount("ro");
    // Also where the store would have to be made first.
    let mut nowhere = home.outlive(["list"]);
    nowhere.env("OUTLIVE_HOME", home.path().join("another"));
    let refused = finish(nowhere, b"").code(1).error();
    assert!(refused.contains("Read-only file system") && refused.contains("hint: "), "{refused}");

    assert_answers(
        &home,
        &[
            (&["list"], 0, "failed: 4"),
            (&["show", &old], 0, "exited with 4"),
            (&["logs", &old], 0, "old\n"),
            (&["wait", &old], 7, "exited with 4"),
            (&["run", "--", "true"], 1, "Read-only file system"),
            (&["run", "--wait", "--", "true"], 1, "Read-only file system"),
            (&["send", &old, "a word"], 1, "has ended"),
            (&["kill", &old], 0, "already ended"),
            (&["remove", &older], 1, "Read-only file system"),
            (&["clear", &old], 1, "Read-only file system"),
            (&["gc"], 1, "Read-only file system"),
            (&["doctor"], 1, "it cannot be written"),
            (&["events"], 0, "exited"),
        ],
    );
    disk.remount("rw");
    assert_eq!(contents(&home, &old), before);
    assert_eq!(home.show(&older)["status"], "completed");
    home.run(["remove", &older]).ok();
    assert_well(&home);
}

/// As in a container that was given the store to look at.
#[test]
fn who_may_only_read_the_store_controls_jobs_all_the_same() {
    let home = Home::new();
    let (old, (counting, waiting)) = (ended(&home, "echo old; exit 4"), running(&home));
    home.wait_for_output(&counting, "o 000000001");
    let script = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@""#;
    let look = |arguments: &[&str]| {
        let mut command = home.command("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(home.store()).arg("outlive").args(arguments);
        finish(command, b"")
    };
    if look(&["completions", "bash"]).code != 0 {
        lacks("CAP_SYS_ADMIN, for a mount that only a test sees");
        return;
    }
    let wanted: [Wanted; 11] = [
        (&["list"], 0, "running"),
        (&["show", &counting], 0, "running"),
        (&["logs", "-n", "1", &counting], 0, " 0"),
        (&["run", "--", "true"], 1, "Read-only file system"),
        (&["remove", &old], 1, "Read-only file system"),
        (&["gc"], 1, "Read-only file system"),
        (&["doctor"], 1, "it cannot be written"),
        (&["send", &counting, "a word"], 0, ""),
        (&["send", &waiting, "go"], 0, ""),
        (&["wait", &waiting], 0, "exited with 0"),
        (&["send", &counting, "stop"], 0, ""),
    ];
    for (arguments, code, words) in wanted {
        let done = look(arguments);
        let said = format!("{}{}", done.text(), done.error());
        assert_eq!(done.code, code, "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?} does not say {words:?}: {said}");
    }
    let ended = home.wait(&counting);
    assert_eq!(ended["exit_code"], 7);
    let out = home.run(["logs", "--stream", "stdout", &counting]).ok().stdout;
    let counted = counts::check(&out, 'o', 64).unwrap();
    assert!(counted.is_whole);
    assert_eq!(counted.echoes, ["a word"]);
    let victim = home.start(["sleep", "300"]);
    assert_eq!(look(&["kill", &victim]).code, 0);
    assert_eq!(home.wait(&victim)["status"], "killed");
    assert_well(&home);
}

/// A disk with an error under running jobs: what cannot be recorded is unknown, and unknown is `lost`.
#[test]
fn a_disk_that_breaks_under_jobs_costs_what_could_not_be_written_and_nothing_else() {
    let Some(disk) = FragileDisk::mount() else { return };
    let home = Home::in_dir(disk.path());
    let old = ended(&home, "echo old; exit 4");
    let (counting, waiting) = running(&home);
    home.wait_for_output(&counting, "o 000000010");
    let command = pid(&home.show(&counting), "pid");
    // Nothing is on its way when the disk breaks: what the loss of power does to that is another test.
    until("it is noted that one waits for its word", || !home.show(&waiting)["awaits"].is_null());
    home.run(["pause", &counting]).ok();
    let mut printed = Value::Null;
    until("all that was printed is recorded", || {
        let now = home.show(&counting)["output"]["bytes"].take();
        now == std::mem::replace(&mut printed, now.clone())
    });
    disk.sync();
    let before = contents(&home, &old);
    disk.fail();
    home.run(["resume", &counting]).ok();

    home.run(["send", &counting, "a word"]).ok();
    assert_answers(
        &home,
        &[
            (&["list"], 0, "running"),
            (&["show", &counting], 0, "running"),
            (&["logs", &counting], 0, "o 000000010"),
            (&["run", "--", "true"], 1, "Read-only file system"),
            (&["remove", &old], 1, "Read-only file system"),
            (&["gc"], 1, "Read-only file system"),
            (&["doctor"], 1, "it cannot be written"),
        ],
    );
    assert!(is_running(command), "the disk has stopped the command");
    // No process could record that it exited with 0.
    home.run(["send", &waiting, "go"]).ok();
    assert_eq!(home.wait(&waiting)["status"], "lost");
    home.run(["kill", "--force", &counting]).ok();
    until("nothing runs", || home.processes().is_empty());

    disk.repair();
    assert_eq!(contents(&home, &old), before);
    for job in [&counting, &waiting] {
        let shown = home.show(job);
        assert_eq!((&shown["status"], &shown["exit_code"]), (&"lost".into(), &Value::Null), "{shown}");
    }
    let out = home.run(["logs", "--stream", "stdout", &counting]).ok().stdout;
    let counted = counts::check(&out, 'o', 64).unwrap();
    assert!(counted.lines >= 10 && !counted.is_whole);
    assert_well(&home);
}
