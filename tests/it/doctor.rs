//! `outlive doctor` explains the machine and the store, and changes nothing unless it is asked to.
//!
//! Proves of the design: what a job cannot survive is said, not hidden; each job directory is its own fault domain. S2-63.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use outlive_core::outcome::CLOSED_AT;
use outlive_tests::{Era, Home, Mcp, SmallDisk, is_running, pid, until};
use serde_json::{Value, json};

fn ended(home: &Home, line: &str) -> String {
    let job = home.start_line(line);
    home.wait(&job);
    until("its keeper is gone", || home.keepers().is_empty());
    job
}

/// Returns what `doctor` finds, and asserts its exit status.
fn problems(home: &Home, code: i32) -> Vec<String> {
    let report = home.run(["--json", "doctor"]).code(code).json();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding["problem"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn it_tells_what_the_machine_can_do_and_what_is_allowed() {
    let home = Home::new();
    home.configure("[limits]\ntotal = 9\nsession = 7\nbytes = \"1GiB\"\n");
    let job = home.start(["sleep", "300"]);
    let report = home.json(["doctor"]);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(report["machine"]["kernel"], kernel.trim());
    for name in
        ["pidfd", "pidfd_exit", "cgroup2", "cgroup_kill", "clone_into_cgroup", "inotify", "boot_timer"]
    {
        let features = report["machine"]["features"].as_array().unwrap();
        let feature = features.iter().find(|feature| feature["name"] == name).expect(name);
        let is_there = feature["available"].as_bool().unwrap();
        assert_eq!(feature["without"].is_null(), is_there, "{feature}");
    }
    let contains_group = report["containment"].as_array().unwrap().contains(&json!("cgroup2"));
    let features = report["machine"]["features"].as_array().unwrap();
    let has_group =
        features.iter().any(|feature| feature["name"] == "cgroup2" && feature["available"] == true);
    assert_eq!(contains_group, has_group);
    let allowed = &report["allowances"];
    assert_eq!((&allowed["live_jobs"], &allowed["live_jobs_limit"]), (&1.into(), &9.into()), "{allowed}");
    assert_eq!((&allowed["session_jobs_limit"], &allowed["bytes_limit"]), (&7.into(), &(1u64 << 30).into()));
    assert_eq!(allowed["reserved_bytes"], 100 << 20, "what the job may print");
    assert!(allowed["open_files"].as_u64().unwrap() > 0);
    assert_eq!(report["versions"]["keeper"], report["versions"]["outlive"]);
    assert_eq!(report["versions"]["protocol"], json!([1, 1]));
    assert_eq!(report["versions"]["live_jobs_of_others"], json!([]));
    assert_eq!((&report["unguarded"], &report["findings"]), (&json!([]), &json!([])));
    let text = home.run(["doctor"]).ok().text();
    for part in ["kernel", "survives", "1 of 9 live jobs", "a guard that goes on", "nothing is wrong"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    home.run(["kill", &job]).ok();
}

#[test]
fn a_record_or_an_index_that_cannot_be_read_is_told() {
    let home = Home::new();
    let job = ended(&home, "echo out; echo err >&2; exit 3");
    assert!(problems(&home, 0).is_empty());
    let (outcome, index) = (home.job_dir(&job).join("outcome"), home.job_dir(&job).join("out.idx"));
    let (whole, records) = (fs::read(&outcome).unwrap(), fs::read(&index).unwrap());

    let mut closed = whole.clone();
    closed[CLOSED_AT as usize + 20] ^= 1;
    fs::write(&outcome, &closed).unwrap();
    assert!(problems(&home, 1)[0].contains("closed record is damaged"));
    fs::write(&outcome, &whole).unwrap();

    let mut bad = records.clone();
    bad[70] ^= 1;
    fs::write(&index, &bad).unwrap();
    assert!(problems(&home, 1)[0].contains("record 1 of its index is damaged"));
    fs::write(&index, &records[..64]).unwrap();
    assert!(problems(&home, 1)[0].contains("has 1 records in place of 2"));
    fs::write(&index, &records).unwrap();
    assert!(problems(&home, 0).is_empty());

    let mut torn = whole.clone();
    torn[20] ^= 1;
    fs::write(&outcome, &torn).unwrap();
    assert!(problems(&home, 1)[0].contains("counts as lost"));
    assert_eq!(home.show(&job)["status"], "lost");
    assert_eq!(home.logs(&job), b"out\nerr\n");
}

#[test]
fn output_that_was_cleared_or_dropped_is_no_damage() {
    let home = Home::new();
    let job = home.start_line("echo before; until [ -e go ]; do sleep 0.01; done; echo after");
    home.wait_for_output(&job, "before");
    home.run(["clear", &job]).ok();
    fs::write(home.path().join("go"), "").unwrap();
    home.wait(&job);
    assert!(problems(&home, 0).is_empty());
}

#[test]
fn a_missing_directory_is_made_only_on_request() {
    let home = Home::new();
    ended(&home, "true");
    let spool = home.store().join("quarantine");
    fs::remove_dir(&spool).unwrap();
    let looked = home.run(["--json", "doctor"]).code(1).json();
    assert!(!spool.exists());
    assert_eq!(looked["findings"][0]["fix"], "makes it anew");
    assert!(home.run(["doctor"]).code(1).text().contains("outlive doctor --fix makes it anew"));
    let fixed = home.json(["doctor", "--fix"]);
    assert_eq!(fixed["findings"][0]["action"], "made anew");
    assert!(spool.is_dir());
    assert!(problems(&home, 0).is_empty());
}

#[test]
fn an_orphan_is_told_with_how_to_end_it() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let keeper = pid(&home.show(&job), "keeper_pid");
    outlive_tests::kill_with_guard(keeper);
    until("its keeper is gone", || !is_running(keeper));
    let report = home.run(["--json", "doctor", "--fix"]).code(1).json();
    let action = report["findings"][0]["action"].as_str().unwrap();
    assert!(action.contains(&format!("outlive kill {job}")), "{report}");
    home.run(["kill", &job]).ok();
    assert!(problems(&home, 0).is_empty());
}

#[test]
fn versions_that_do_not_fit_are_told() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    // Started by another version, whose keeper speaks a protocol that is unknown here.
    for (name, change) in [("spec.json", "outlive"), ("meta.json", "protocol")] {
        let path = home.job_dir(&job).join(name);
        let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        // Its keepers did not say their version, and had no guards.
        for later in ["guard", "outlive"] {
            value.as_object_mut().unwrap().remove(later);
        }
        value[change] = if change == "outlive" { json!("0.0.9") } else { json!({"min": 7, "max": 9}) };
        fs::write(&path, value.to_string()).unwrap();
    }
    let report = home.run(["--json", "doctor"]).code(1).json();
    assert_eq!(report["versions"]["live_jobs_of_others"], json!([format!("{job} (0.0.9)")]));
    assert_eq!(report["unguarded"], json!([job]), "that version had no guards");
    let problem = report["findings"][0]["problem"].as_str().unwrap();
    assert!(problem.contains("control protocol 7 to 9"), "{problem}");
    home.run(["kill", &job]).ok();

    // A keeper of another build beside this program, and something that is none.
    for (body, said) in
        [("echo outlive-keeper 9.9.9", "version 9.9.9"), ("exit 2", "does not say its version")]
    {
        let program = home.path().join("keeper");
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        let mut chmod = home.command("chmod");
        assert!(chmod.arg("755").arg(&program).status().unwrap().success());
        let mut doctor = home.outlive(["--json", "doctor"]);
        doctor.env("OUTLIVE_KEEPER", &program);
        let report = outlive_tests::finish(doctor, b"").code(1).json();
        assert!(report["findings"][0]["problem"].as_str().unwrap().contains(said), "{report}");
    }
}

/// Returns what `doctor` finds and what it says about each.
fn found(home: &Home, options: &[&str], code: i32) -> Vec<(String, String, String)> {
    let mut command = home.outlive(["--json", "doctor"]);
    command.args(options);
    let report = outlive_tests::finish(command, b"").code(code).json();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .map(|finding| (text(finding, "path"), text(finding, "problem"), text(finding, "action")))
        .collect()
}

#[test]
fn a_full_disk_is_told() {
    let Some(disk) = SmallDisk::mount("8m") else { return };
    let home = Home::in_dir(disk.path());
    ended(&home, "true");
    assert!(problems(&home, 0).is_empty());
    let filler = disk.fill();
    let told = found(&home, &["--fix"], 1);
    assert!(told[0].1.contains("its disk is full") && told[0].2.contains("outlive gc"), "{told:?}");
    fs::remove_file(filler).unwrap();
    assert!(problems(&home, 0).is_empty());
}

#[test]
fn leftovers_of_what_was_cut_short_are_told_and_removed_on_request() {
    let home = Home::new();
    let job = ended(&home, "echo well");
    let begun = home.store().join("new/half-0001");
    fs::create_dir(&begun).unwrap();
    fs::write(begun.join("lock"), "").unwrap();
    let removed = home.store().join("new/gone-0002.0123.gone");
    fs::create_dir(&removed).unwrap();
    let held = home.store().join("new/held-0003");
    fs::create_dir(&held).unwrap();
    let lock = fs::File::create(held.join("lock")).unwrap();
    lock.lock().unwrap();
    let temporary = [
        home.store().join("version.99.tmp"),
        home.job_dir(&job).join("meta.json.99.tmp"),
        home.store().join("sessions/default/session.json.99.tmp"),
    ];
    temporary.iter().for_each(|path| fs::write(path, "{").unwrap());
    // What is young may be the work of a process at this moment.
    assert!(problems(&home, 0).is_empty());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for path in temporary.iter().chain([&begun, &removed, &held]) {
        fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
    }
    let mut told: Vec<String> = found(&home, &[], 1).into_iter().map(|(path, ..)| path).collect();
    let mut left: Vec<String> =
        temporary.iter().chain([&begun, &removed]).map(|path| path.display().to_string()).collect();
    told.sort();
    left.sort();
    assert_eq!(told, left);
    assert!(begun.exists() && temporary.iter().all(|path| path.exists()), "to look is not to change");
    assert!(found(&home, &["--fix"], 0).iter().all(|(.., action)| action == "removed"));
    assert!(
        held.exists() && !begun.exists() && !removed.exists() && !temporary.iter().any(|path| path.exists())
    );
    assert!(problems(&home, 0).is_empty());
    assert_eq!(home.logs(&job), b"well\n");
}

#[test]
fn what_other_users_can_write_to_or_own_is_told() {
    let home = Home::new();
    let job = ended(&home, "echo well");
    let mode =
        |path: &std::path::Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let (log, sessions) = (home.job_dir(&job).join("out.000000000000000.log"), home.store().join("sessions"));
    mode(&log, 0o666);
    mode(&sessions, 0o777);
    let told = found(&home, &[], 1);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|(_, problem, _)| problem.contains("other users can write to it")), "{told:?}");
    assert!(found(&home, &["--fix"], 0).iter().all(|(.., action)| action == "that right was taken away"));
    assert_eq!(fs::metadata(&sessions).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(home.logs(&job), b"well\n");
    // Where others can enter, they may have used it.
    mode(&home.store(), 0o755);
    mode(&log, 0o666);
    assert!(found(&home, &["--fix"], 1)[0].2.contains("chmod go-w"));
    mode(&log, 0o600);
    mode(home.path(), 0o777);
    let above = found(&home, &["--fix"], 1);
    assert!(
        above[0].0 == home.path().to_str().unwrap() && above[0].1.contains("replace the store"),
        "{above:?}"
    );
    mode(home.path(), 0o700);

    if !rustix::process::geteuid().is_root() {
        return outlive_tests::lacks("root, to act as two users");
    }
    std::os::unix::fs::chown(&log, Some(65534), None).unwrap();
    let told = found(&home, &["--fix"], 1);
    let name = outlive_sys::owner::user_name(65534);
    assert!(told[0].0.ends_with(".log") && told[0].1 == format!("it belongs to user {name}"), "{told:?}");
    assert!(told[0].2.starts_with("left alone"), "{told:?}");
}

/// What agents' servers and watches leave in a store belongs to it.
#[test]
fn what_agents_make_in_a_store_is_its_own() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let run = json!({"command": "sleep 600", "background": true, "watch": "x"});
    let job = client.call("run", run).ok().job();
    for directory in ["seats", "connections", "watches"] {
        assert!(home.store().join(directory).is_dir(), "{directory}");
    }
    home.run(["doctor"]).ok();
    client.call("kill", json!({"job": job})).ok();
    assert_eq!(client.end(), 0);
    home.run(["doctor"]).ok();
}
