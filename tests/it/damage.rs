//! A damaged store: quarantined, reported, in no other job's way.
//!
//! Proves S2-63 (what cannot be read is reported and stops nothing), S3-68 and S3-76 (an end that was not recorded is
//! `lost`) and S3-95 for what a crash, a full disk or a stranger left on the disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::path::{Path, PathBuf};

use outlive_core::outcome::{CLOSED_AT, FILE_BYTES};
use outlive_tests::{Home, is_running, pid, until};
use serde_json::{Value, json};

/// Runs a job to its very end.
fn ended(home: &Home, line: &str) -> String {
    let job = home.start_line(line);
    home.wait(&job);
    until("it is closed", || home.show(&job)["closed_at"].is_string());
    until("its keeper is gone", || home.keepers().is_empty());
    job
}

/// Asserts that the rest of the store works as if nothing were wrong.
fn assert_others_work(home: &Home) {
    let job = home.start(["echo", "well"]);
    assert_eq!(home.wait(&job)["status"], "completed");
    assert_eq!(home.logs(&job), b"well\n");
    let listed = home.run(["--json", "list"]).ok().json();
    assert!(listed.as_array().unwrap().iter().any(|object| object["job"] == *job));
    home.run(["gc"]).ok();
    home.run(["remove", &job]).ok();
}

/// Runs `doctor --fix`, which must find just this name wrong and handle it; returns what it did.
fn doctor_handles(home: &Home, name: &str) -> String {
    doctor_finds(home, name, 0)
}

/// Runs `doctor --fix`, which must find just this name wrong; returns what it did about it.
fn doctor_finds(home: &Home, name: &str, code: i32) -> String {
    let examined = home.run(["--json", "doctor", "--fix"]).code(code).json();
    let findings = examined["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 1, "{examined}");
    assert!(findings[0]["path"].as_str().unwrap().ends_with(&format!("jobs/{name}")), "{examined}");
    assert!(!findings[0]["problem"].as_str().unwrap().is_empty(), "{examined}");
    findings[0]["action"].as_str().unwrap().to_owned()
}

fn quarantined(home: &Home) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(home.store().join("quarantine")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Returns the names and contents of a directory's files.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// What becomes of the contents of a file; `None`: it is gone.
type Damage = fn(Vec<u8>) -> Option<Vec<u8>>;

#[test]
fn a_job_without_a_readable_spec_is_quarantined_with_all_it_has() {
    let damages: [(&str, Damage); 8] = [
        ("missing", |_| None),
        ("empty", |_| Some(Vec::new())),
        ("truncated", |spec| Some(spec[..spec.len() / 2].to_vec())),
        ("without its end", |spec| Some(spec[..spec.len() - 1].to_vec())),
        ("zeros", |spec| Some(vec![0; spec.len()])),
        ("garbage", |spec| Some(spec.iter().map(|byte| byte ^ 0xa5).collect())),
        ("foreign JSON", |_| Some(br#"{"name": "some package", "version": "1.0.0"}"#.to_vec())),
        ("an array", |_| Some(b"[]".to_vec())),
    ];
    let home = Home::new();
    let well = ended(&home, "echo well; exit 3");
    let running = home.start(["sleep", "300"]);
    for (number, (what, damage)) in damages.into_iter().enumerate() {
        let job = home.start_line("echo mine");
        home.wait(&job);
        until("it is closed", || home.show(&job)["closed_at"].is_string());
        until("its keeper is gone", || home.keepers().len() == 1);
        let spec = home.job_dir(&job).join("spec.json");
        match damage(fs::read(&spec).unwrap()) {
            Some(bytes) => fs::write(&spec, bytes).unwrap(),
            None => fs::remove_file(&spec).unwrap(),
        }
        let before = contents(&home.job_dir(&job));

        let listed = home.run(["--json", "list"]).ok();
        assert!(listed.error().contains(&format!("{job} is damaged")), "{what}: {}", listed.error());
        assert_eq!(listed.json().as_array().unwrap().len(), 2, "{what}");
        for verb in ["show", "logs", "wait", "kill", "remove"] {
            let refused = home.run(["--json", verb, &job]).code(1).error_json();
            assert_eq!(refused["error"]["code"], "damaged", "{what}: {verb}: {refused}");
            assert!(refused["error"]["hint"].as_str().unwrap().contains("doctor"), "{what}: {refused}");
        }
        assert_others_work(&home);
        assert_eq!(contents(&home.job_dir(&job)), before, "{what}: somebody touched it");
        // To look is not to change.
        let looked = home.run(["--json", "doctor"]).code(1).json();
        assert!(looked["findings"][0]["fix"].as_str().unwrap().contains("quarantine"), "{what}: {looked}");
        assert_eq!(contents(&home.job_dir(&job)), before, "{what}: doctor moved it unasked");

        assert!(doctor_handles(&home, &job).contains("quarantine"), "{what}");
        assert!(!home.job_dir(&job).exists(), "{what}");
        assert_eq!(quarantined(&home).len(), number + 1, "{what}");
        let place = home.store().join("quarantine").join(format!("{job}.1"));
        assert_eq!(contents(&place), before, "{what}: something of it was lost");
        assert_eq!(home.json(["doctor"])["findings"], json!([]), "{what}");
        assert_eq!(home.run(["--json", "list"]).ok().error(), "", "{what}");
        home.run(["show", &job]).code(3);
    }
    assert_eq!(home.show(&well)["exit_code"], 3);
    assert_eq!(home.show(&running)["status"], "running");
}

#[test]
fn a_job_of_a_later_format_is_left_alone() {
    let home = Home::new();
    let job = ended(&home, "echo later");
    let path = home.job_dir(&job).join("spec.json");
    fs::write(&path, r#"{"format": 2, "what": "nobody here knows"}"#).unwrap();
    let before = contents(&home.job_dir(&job));
    assert!(home.run(["list"]).ok().error().contains(&job));
    home.run(["remove", &job]).code(1);
    assert!(doctor_handles(&home, &job).contains("left alone"));
    assert_eq!(contents(&home.job_dir(&job)), before);
    assert!(quarantined(&home).is_empty());
    assert_others_work(&home);
}

#[test]
fn unknown_fields_and_files_of_a_later_version_are_ignored() {
    let home = Home::new();
    let job = ended(&home, "echo same");
    for name in ["spec.json", "meta.json"] {
        let path = home.job_dir(&job).join(name);
        let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        value["added_later"] = json!({"a": [1, 2]});
        fs::write(&path, value.to_string()).unwrap();
    }
    fs::write(home.job_dir(&job).join("later"), "what is this?").unwrap();
    fs::create_dir(home.job_dir(&job).join("more")).unwrap();
    assert_eq!(home.show(&job)["status"], "completed");
    assert_eq!(home.logs(&job), b"same\n");
    assert_eq!(home.json(["doctor"])["findings"], json!([]));
    home.run(["remove", &job]).ok();
    assert!(!home.job_dir(&job).exists());
}

#[test]
fn a_copied_job_is_not_taken_for_another_one() {
    let home = Home::new();
    let job = ended(&home, "echo original");
    let copy = home.job_dir("copy-0000");
    fs::create_dir(&copy).unwrap();
    for (name, bytes) in contents(&home.job_dir(&job)) {
        fs::write(copy.join(name), bytes).unwrap();
    }
    assert!(home.run(["list"]).ok().error().contains("copy-0000 is damaged"));
    home.run(["show", "copy-0000"]).code(1);
    assert!(doctor_handles(&home, "copy-0000").contains("quarantine"));
    assert_eq!(home.logs(&job), b"original\n");
}

#[test]
fn what_is_no_job_at_all_is_moved_out_of_the_way() {
    let home = Home::new();
    let job = ended(&home, "echo well");
    let jobs = home.store().join("jobs");
    fs::write(jobs.join("a-file"), "not a directory").unwrap();
    fs::write(jobs.join(".hidden"), "").unwrap();
    fs::create_dir(jobs.join("Odd Name")).unwrap();
    fs::write(jobs.join("Odd Name/keep"), "me").unwrap();
    fs::create_dir(jobs.join("x".repeat(60))).unwrap();
    fs::create_dir(jobs.join("empty-0000")).unwrap();
    let listed = home.run(["--json", "list"]).ok();
    assert_eq!(listed.json().as_array().unwrap().len(), 1);
    assert_others_work(&home);

    let examined = home.json(["doctor", "--fix"]);
    assert_eq!(examined["findings"].as_array().unwrap().len(), 5, "{examined}");
    assert_eq!(quarantined(&home).len(), 5);
    assert_eq!(fs::read_to_string(home.store().join("quarantine/Odd Name.1/keep")).unwrap(), "me");
    assert_eq!(fs::read_to_string(home.store().join("quarantine/a-file.1")).unwrap(), "not a directory");
    assert_eq!(fs::read_dir(&jobs).unwrap().count(), 1);
    // The same name again finds another place.
    fs::write(jobs.join("a-file"), "a second one").unwrap();
    home.run(["doctor", "--fix"]).ok();
    assert_eq!(fs::read_to_string(home.store().join("quarantine/a-file.1")).unwrap(), "not a directory");
    assert_eq!(fs::read_to_string(home.store().join("quarantine/a-file.2")).unwrap(), "a second one");
    assert_eq!(home.logs(&job), b"well\n");
}

#[test]
fn a_link_that_leads_nowhere_is_moved_out_of_the_way_too() {
    let home = Home::new();
    ended(&home, "true");
    std::os::unix::fs::symlink("/nonexistent", home.job_dir("link-0000")).unwrap();
    assert!(home.run(["list"]).ok().error().contains("link-0000 is damaged"));
    assert!(doctor_handles(&home, "link-0000").contains("quarantine"));
}

#[test]
fn what_does_not_belong_into_the_store_is_reported_and_stays() {
    let home = Home::new();
    ended(&home, "true");
    fs::write(home.store().join("notes.txt"), "somebody's").unwrap();
    let done = home.run(["--json", "doctor"]).code(1);
    let findings = &done.json()["findings"];
    assert!(findings[0]["path"].as_str().unwrap().ends_with("notes.txt"), "{findings}");
    assert_eq!(findings[0]["action"], Value::Null);
    assert_eq!(fs::read_to_string(home.store().join("notes.txt")).unwrap(), "somebody's");
}

#[test]
fn a_damaged_snapshot_is_only_missing() {
    let home = Home::new();
    for damage in [None, Some(&b""[..]), Some(b"{\"format\":1,"), Some(b"\xff\0\xfe"), Some(b"null")] {
        let job = ended(&home, "echo snap; exit 6");
        // Others live on meanwhile; this one reads its input, so that it can be used to its end.
        let live =
            home.start_with(&["--stdin", "open"], ["sh", "-c", "read word; echo got $word; sleep 300"]);
        // Its keeper writes the snapshot once more, when it sees that the job waits for input.
        let snapshot = home.job_dir(&live).join("meta.json");
        until("it is known to wait", || fs::read_to_string(&snapshot).unwrap().contains("\"awaits\""));
        for job in [&job, &live] {
            let path = home.job_dir(job).join("meta.json");
            match damage {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
        }
        let shown = home.show(&job);
        assert_eq!((&shown["status"], &shown["exit_code"]), (&"failed".into(), &6.into()), "{damage:?}");
        assert_eq!(shown["cause"], "natural", "{damage:?}");
        assert_eq!(home.logs(&job), b"snap\n");

        let listed = home.json(["list", "--live", "--usage"]);
        assert_eq!(
            (listed.as_array().unwrap().len(), &listed[0]["job"]),
            (1, &live.as_str().into()),
            "{damage:?}"
        );
        let problems = || home.run(["--json", "doctor"]).json()["findings"].take();
        // The keeper knows what the file does not say.
        let shown = home.show(&live);
        assert_eq!(shown["status"], "running", "{damage:?}: {shown}");
        assert!(is_running(pid(&shown, "pid")) && is_running(pid(&shown, "keeper_pid")), "{shown}");
        assert!(listed[0]["usage"]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{listed}");
        assert_eq!(listed[0]["usage"]["processes"], 1, "{listed}");
        if damage.is_some() {
            assert_eq!(problems().as_array().unwrap().len(), 2, "{damage:?}");
        }
        home.run(["remove", &live]).code(1);
        home.run(["send", &live, "it"]).ok();
        home.wait_for_output(&live, "got it");
        home.run(["kill", &live]).ok();
        assert_eq!(home.wait(&live)["status"], "killed", "{damage:?}");
        if damage.is_some() {
            let found = problems();
            let path = found[0]["path"].as_str().unwrap();
            assert!(
                found.as_array().unwrap().len() == 1 && path.ends_with(&format!("{job}/meta.json")),
                "{found}"
            );
            home.run(["doctor", "--fix"]).ok();
        }
        assert_eq!(home.json(["doctor"])["findings"], json!([]), "{damage:?}");
        home.run(["remove", &job, &live]).ok();
    }
}

/// Damages the record of a job that exited with 0.
fn assert_lost(what: &str, damage: impl Fn(&Path)) {
    let home = Home::new();
    let job = ended(&home, "echo zero; exit 0");
    assert_eq!(home.show(&job)["status"], "completed");
    damage(&home.job_dir(&job).join("outcome"));
    // The first front end that looks, and the next.
    for _ in 0..2 {
        let shown = home.show(&job);
        assert_eq!((&shown["status"], &shown["cause"]), (&"lost".into(), &"lost".into()), "{what}: {shown}");
        assert!(shown["exit_code"].is_null() && shown["signal"].is_null(), "{what}: {shown}");
        assert!(shown["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{what}: {shown}");
    }
    assert_eq!(home.wait(&job)["status"], "lost", "{what}");
    assert_eq!(home.logs(&job), b"zero\n", "{what}");
    assert_eq!(home.json(["kill", &job])[0]["already_ended"], true, "{what}");
    assert_others_work(&home);
    home.run(["remove", &job]).ok();
}

#[test]
fn without_a_valid_outcome_record_a_job_is_lost_and_never_well() {
    assert_lost("missing", |path| fs::remove_file(path).unwrap());
    assert_lost("empty", |path| fs::write(path, "").unwrap());
    assert_lost("zeros", |path| fs::write(path, [0; FILE_BYTES as usize]).unwrap());
    assert_lost("garbage", |path| fs::write(path, [0x5a; FILE_BYTES as usize]).unwrap());
    assert_lost("one flipped bit", |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[30] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    assert_lost("a wrong length", |path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        fs::write(path, bytes).unwrap();
    });
}

#[test]
fn a_torn_outcome_record_is_none_wherever_it_tore() {
    let home = Home::new();
    let job = ended(&home, "exit 0");
    let path = home.job_dir(&job).join("outcome");
    let whole = fs::read(&path).unwrap();
    let length = 16 + u32::from_le_bytes(whole[8..12].try_into().unwrap()) as usize;
    for written in [1, 4, 8, 15, 16, 17, length / 2, length - 1] {
        let mut torn = vec![0; FILE_BYTES as usize];
        torn[..written].copy_from_slice(&whole[..written]);
        fs::write(&path, &torn).unwrap();
        let shown = home.show(&job);
        assert_eq!((&shown["status"], &shown["exit_code"]), (&"lost".into(), &Value::Null), "{written}");
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(home.show(&job)["status"], "completed");
}

#[test]
fn a_damaged_closed_record_does_not_bring_a_job_back() {
    let home = Home::new();
    let job = ended(&home, "exit 4");
    let path = home.job_dir(&job).join("outcome");
    let mut bytes = fs::read(&path).unwrap();
    bytes[CLOSED_AT as usize..].fill(0xee);
    fs::write(&path, bytes).unwrap();
    let shown = home.show(&job);
    assert_eq!((&shown["exit_code"], &shown["lingering"]), (&4.into(), &false.into()));
    assert_eq!(home.json(["list", "--live"]), json!([]));
    home.run(["remove", &job]).ok();
}

#[test]
fn the_log_is_readable_whatever_happened_to_its_index() {
    let home = Home::new();
    let job = ended(&home, "echo one; echo two; echo three; printf four");
    let index = home.job_dir(&job).join("out.idx");
    let whole = fs::read(&index).unwrap();
    assert!(whole.len() >= 64 && whole.len().is_multiple_of(64));
    let log = fs::read(home.job_dir(&job).join("out.000000000000000.log")).unwrap();
    let mut damaged_first = whole.clone();
    damaged_first[3] ^= 0xff;
    let mut damages =
        vec![Vec::new(), whole[..63].to_vec(), whole[..whole.len() - 1].to_vec(), damaged_first];
    damages.push([&whole[..], &[0; 30]].concat());
    damages.push([&whole[..], &[0x77; 640]].concat());
    damages.push(vec![0; whole.len()]);
    damages.push(vec![0xff; 1000]);
    for bytes in damages.iter().map(Some).chain([None]) {
        match bytes {
            Some(bytes) => fs::write(&index, bytes).unwrap(),
            None => fs::remove_file(&index).unwrap(),
        }
        let what = format!("{:?}", bytes.map(Vec::len));
        assert_eq!(home.logs(&job), log, "{what}");
        let lines = home.run(["--json", "logs", &job]).ok().text();
        assert_eq!(lines.lines().count(), 4, "{what}: {lines}");
        let last = home.run(["logs", "-n", "1", &job]).ok().text();
        assert_eq!(last, "four", "{what}");
        assert_eq!(home.show(&job)["status"], "completed", "{what}");
    }
    fs::write(&index, &whole).unwrap();
    assert_eq!(home.run(["logs", "--stream", "stderr", &job]).ok().text(), "");
    assert_eq!(home.run(["logs", "--stream", "stdout", &job]).ok().stdout, log);
}

#[test]
fn a_missing_log_is_empty_and_costs_nothing_else() {
    let home = Home::new();
    let job = ended(&home, "echo gone; exit 2");
    fs::remove_file(home.job_dir(&job).join("out.000000000000000.log")).unwrap();
    assert_eq!(home.logs(&job), b"");
    assert_eq!(home.run(["logs", "-n", "3", &job]).ok().stdout, b"");
    assert_eq!(home.show(&job)["exit_code"], 2);
    fs::remove_file(home.job_dir(&job).join("out.idx")).unwrap();
    assert_eq!(home.logs(&job), b"");
    home.run(["remove", &job]).ok();
}

#[test]
fn a_live_job_is_not_moved_while_its_keeper_holds_it() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let command = pid(&home.show(&job), "pid");
    let path = home.job_dir(&job).join("spec.json");
    let spec = fs::read(&path).unwrap();
    fs::write(&path, "garbage").unwrap();
    // It is not all well: `doctor` must run again when the job has ended.
    assert!(doctor_finds(&home, &job, 1).contains("left alone"));
    assert!(home.job_dir(&job).is_dir() && is_running(command));
    assert!(quarantined(&home).is_empty());
    assert_others_work(&home);
    fs::write(&path, spec).unwrap();
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_damaged_job_counts_until_doctor_has_seen_to_it() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let job = home.start(["sleep", "300"]);
    let path = home.job_dir(&job).join("spec.json");
    let spec = fs::read(&path).unwrap();
    fs::write(&path, "garbage").unwrap();
    home.run(["run", "--", "true"]).code(5);
    fs::write(&path, spec).unwrap();
    home.run(["kill", &job]).ok();
    home.run(["run", "--wait", "true"]).ok();
}

#[test]
fn a_store_of_a_later_version_is_refused_and_not_touched() {
    let home = Home::new();
    let job = ended(&home, "true");
    let version = home.store().join("version");
    let ours = fs::read(&version).unwrap();
    for found in ["outlive store 2\n", "something else", ""] {
        fs::write(&version, found).unwrap();
        for arguments in [["list"].as_slice(), &["run", "--", "true"], &["show", &job], &["doctor"], &["gc"]]
        {
            let refused = home.run(arguments).code(1).error();
            assert!(refused.contains("format") && refused.contains("knows up to 1"), "{refused}");
            assert!(refused.contains("\nhint: "), "{refused}");
        }
        assert_eq!(fs::read_to_string(&version).unwrap(), found);
    }
    assert_eq!(fs::read_dir(home.store().join("jobs")).unwrap().count(), 1);
    fs::write(&version, ours).unwrap();
    assert_eq!(home.show(&job)["status"], "completed");
}

#[test]
fn a_crash_between_two_steps_of_a_start_is_read_as_never_started() {
    let home = Home::new();
    let job = ended(&home, "true");
    // As after F5 of the crash table: a whole intent, and its lock is free.
    for name in ["meta.json", "out.idx", "out.000000000000000.log", "ctl", "seen"] {
        fs::remove_file(home.job_dir(&job).join(name)).unwrap();
    }
    fs::write(home.job_dir(&job).join("outcome"), [0; FILE_BYTES as usize]).unwrap();
    fs::write(home.store().join("live").join(format!("{job}@default")), "").unwrap();
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&"failed".into(), &"never_started".into()));
    assert!(shown["exit_code"].is_null() && shown["pid"].is_null(), "{shown}");
    assert_eq!(home.logs(&job), b"");
    assert_eq!(fs::read_dir(home.store().join("live")).unwrap().count(), 0);
    home.run(["remove", &job]).ok();
}
