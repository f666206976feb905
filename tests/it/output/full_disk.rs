//! A full disk: the command goes on, what was lost is counted, and recording resumes.
//!
//! Proves S0-156 as far as a disk allows: what could not be kept is counted.

use std::fs;
use std::path::Path;

use outlive_core::timestamp::Timestamp;
use outlive_tests::{Home, SmallDisk, binary, until};

use super::{has_gap, index, json_lines, texts};

fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}

#[test]
fn a_command_ends_though_nothing_more_can_be_kept() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let home = Home::in_dir(disk.path());
    let writes = binary("writes").display().to_string();
    let job = home.start_with(&["--output-cap", "off"], [&writes, "20000000", "stdout", "7"]);
    let ended = home.wait(&job);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &7.into()));
    let (kept, dropped) = (&ended["output"]["bytes"], &ended["output"]["dropped_bytes"]);
    assert!(dropped.as_u64() > Some(10_000_000), "{ended}");
    assert_eq!(kept.as_u64().unwrap() + dropped.as_u64().unwrap(), 20_000_000);
    let kept = kept.as_u64().unwrap();
    let log = home.logs(&job);
    assert_eq!(log.len() as u64, kept);
    assert_eq!(outlive_tests::pattern::first_difference(&log, 0), None, "what is kept is the beginning");

    // A full disk hinders no reader, and removing makes room.
    assert_eq!(home.json(["list"])[0]["status"], "failed");
    home.run(["remove", &job]).ok();
    let next = home.start(["echo", "again"]);
    home.wait(&next);
    assert_eq!(home.logs(&next), b"again\n");
}

#[test]
fn a_running_job_is_recorded_again_once_there_is_room() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let signs = tempfile::tempdir().unwrap();
    let home = Home::in_dir(disk.path());
    // A mebibyte does not fit into a pipe: once it is written, the keeper has taken nearly all of it.
    let script =
        r#"echo first; read go; head -c 1048576 /dev/zero; : >"$0"; read go; echo second; read go; exit 3"#;
    let sign = signs.path().join("written");
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", script, sign.to_str().unwrap()]);
    home.wait_for_output(&job, "first\n");
    let filler = disk.fill();
    home.run(["send", &job, "go"]).ok();
    until("the command is not held up by the full disk", || exists(&sign));
    assert_eq!(home.show(&job)["status"], "running");

    fs::remove_file(filler).unwrap();
    home.run(["send", &job, "go"]).ok();
    home.wait_for_output(&job, "second\n");
    let dropped = home.show(&job)["output"]["dropped_bytes"].as_u64().unwrap();
    assert!(dropped > 0, "nothing is said to be lost");
    assert!(has_gap(&index(&home.job_dir(&job))), "the index does not say where");
    home.run(["send", &job, "go"]).ok();
    let ended = home.wait(&job);
    assert_eq!(ended["exit_code"], 3);
    assert_eq!(ended["output"]["dropped_bytes"], dropped);
    let bytes = ended["output"]["bytes"].as_u64().unwrap();
    assert_eq!(bytes + dropped, 1_048_576 + 13);
    assert_eq!(ended["output"]["lines"], 2);
}

/// What is read after the loss is a line of its own, whatever the line was of which the disk took the beginning.
#[test]
fn a_line_that_a_full_disk_tore_is_not_joined_with_what_follows() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let signs = tempfile::tempdir().unwrap();
    let home = Home::in_dir(disk.path());
    let script = r#"printf 'first\ntorn'; read go; tr '\0' x </dev/zero | head -c 1048576; : >"$0"; read go; echo whole"#;
    let sign = signs.path().join("written");
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", script, sign.to_str().unwrap()]);
    home.wait_for_output(&job, "torn");
    let filler = disk.fill();
    let before = Timestamp(outlive_sys::clock::wall_us()).to_string();
    home.run(["send", &job, "go"]).ok();
    until("the command is not held up by the full disk", || exists(&sign));
    // What is still in the pipe would find room.
    let keeper = outlive_tests::pid(&home.show(&job), "keeper_pid");
    let sleeps = || outlive_sys::identity::Stat::read(keeper).is_some_and(|stat| stat.state == 'S');
    until("the keeper has read all of it", sleeps);
    let after = Timestamp(outlive_sys::clock::wall_us()).to_string();
    fs::remove_file(filler).unwrap();
    home.run(["send", &job, "go"]).ok();
    let dropped = &home.wait(&job)["output"]["dropped_bytes"];

    for view in [&[][..], &["--plain"], &["-n", "10"], &["--grep", "torn|whole|first", "-C", "1"]] {
        let items = json_lines(&home, &[view, &[&job]].concat());
        let [first, torn, loss, whole] = &items[..] else { panic!("{view:?}: {} items", items.len()) };
        assert_eq!((&first["text"], &first["line"]), (&"first".into(), &1.into()));
        let text = torn["text"].as_str().unwrap().trim_end_matches('x');
        assert_eq!((text, &torn["line"]), ("torn", &2.into()), "{view:?}");
        assert_eq!(&loss["lost_bytes"], dropped, "{view:?}");
        let time = loss["time"].as_str().unwrap();
        assert!((before.as_str()..=after.as_str()).contains(&time), "{before} {time} {after}");
        assert_eq!((&whole["text"], &whole["line"]), (&"whole".into(), &2.into()), "{view:?}");
    }
    assert_eq!(texts(&json_lines(&home, &["--grep", "^whole$", &job])), ["whole"]);
    for view in [&["--rendered"][..], &["-n", "3"]] {
        let text = home.run([&["logs"], view, &[&job]].concat()).ok().text();
        let lines: Vec<&str> = text.lines().rev().take(2).collect();
        assert!(lines[0] == "whole", "{view:?}: {}", lines[0]);
        assert!(lines[1].starts_with(&format!("[{dropped} bytes could not be kept at 2")), "{}", lines[1]);
    }
}

#[test]
fn the_outcome_is_recorded_on_a_disk_that_stays_full() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let home = Home::in_dir(disk.path());
    let job =
        home.start_with(&["--stdin", "open"], ["sh", "-c", "read go; head -c 300000 /dev/zero; exit 5"]);
    let filler = disk.fill();
    home.run(["send", &job, "go"]).ok();
    let ended = home.wait(&job);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &5.into()));
    assert!(ended["output"]["dropped_bytes"].as_u64() > Some(200_000), "{ended}");
    let shown = home.show(&job);
    assert!(shown["closed_at"].is_string(), "{shown}");

    // Another job cannot be started, says so, and leaves nothing behind.
    let refused = home.run(["--json", "run", "--", "true"]).code(1).error_json();
    assert!(refused["error"]["message"].as_str().unwrap().contains("No space left"), "{refused}");
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 1);
    assert_eq!(fs::read_dir(home.store().join("new")).unwrap().count(), 0);
    fs::remove_file(filler).unwrap();
    // An event that could not be written is told by the first front end that looks when there is room; then the mark goes.
    let told = home.run(["events"]).ok().text();
    assert_eq!(told.matches(" exited failed").count(), 1, "{told}");
    assert_eq!(fs::read_dir(home.store().join("live")).unwrap().count(), 0);
    let next = home.start(["echo", "again"]);
    home.wait(&next);
    assert_eq!(home.logs(&next), b"again\n");
}
