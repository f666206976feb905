//! What a later version wrote is not damage: a job with words, index records, events or formats that this version does not
//! know is listed, read as far as it is understood, killed, and left where it is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;

use outlive_tests::{Home, signal, until, use_fixture};
use serde_json::{Value, json};

/// A store as a later version might write it; `tests/fixtures/make-future-store.py` says what is in it.
fn future() -> Home {
    let home = Home::new();
    use_fixture(&home, "store-future");
    home
}

fn change(home: &Home, job: &str, file: &str, change: impl FnOnce(&mut Value)) {
    let path = home.job_dir(job).join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, value.to_string()).unwrap();
}

fn use_words_of_a_later_version(home: &Home, job: &str) {
    change(home, job, "spec.json", |spec| {
        (spec["mode"], spec["stdin"]) = (json!("hologram"), json!({ "file": "/x" }));
        (spec["survivors"], spec["lifetime"]) = (json!("adopt"), json!({ "tide": { "high": 2 } }));
        (spec["containment"], spec["ready"]) = (json!("microvm"), json!({ "unix": "/socket" }));
    });
    change(home, job, "meta.json", |meta| {
        (meta["status"], meta["kept"]) = (json!("hibernated"), json!({ "memory": "negotiated" }));
        (meta["containment"]["level"], meta["colour"]) = (json!("microvm"), json!("blue"));
    });
}

#[test]
fn words_of_a_later_version_are_listed_and_shown() {
    let home = future();
    let listed = home.run(["--json", "list"]).ok();
    let newer = |job: &str| format!("{job} was written by a newer outlive: upgrade to read all of it");
    for job in ["words-0001", "format-0002", "opaque-0003"] {
        assert!(listed.error().contains(&newer(job)), "{}", listed.error());
    }
    assert!(!listed.error().contains("damaged"), "{}", listed.error());
    let mut ids: Vec<Value> =
        listed.json().as_array().unwrap().iter().map(|job| job["job"].clone()).collect();
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["format-0002", "index-0004", "words-0001"]);
    assert!(home.run(["list"]).ok().text().contains("lost, newer"));

    let words = home.show("words");
    let fields =
        ["mode", "containment", "lifetime", "ready", "stdin", "survivors", "status", "kept", "outcome"];
    assert_eq!(words["newer"], json!(fields));
    assert_eq!((&words["mode"], &words["stdin"]), (&json!("hologram"), &json!({ "file": "/fixture/input" })));
    assert_eq!((&words["containment"], &words["ready"]), (&json!("microvm"), &json!(false)));
    assert_eq!(
        (&words["status"], &words["exit_code"], &words["cause"]),
        (&json!("lost"), &json!(0), &json!("evicted"))
    );
    assert!(words["reason"].as_str().unwrap().contains("evicted"), "{words}");
    assert!(words["warnings"][0].as_str().unwrap().contains(&newer("words-0001")), "{words}");
    let shown = home.run(["show", "words"]).ok().text();
    assert!(shown.contains("microvm") && shown.contains("{\"adopt_by\""), "{shown}");
    assert_eq!(home.wait("words")["cause"], "evicted");

    // Of a later format, the fields that are understood.
    let format = home.show("format");
    assert_eq!(format["newer"], json!(["format", "grace_ms", "snapshot", "outcome"]));
    assert_eq!(
        (&format["name"], &format["cwd"], &format["argv"]),
        (&json!("format"), &json!("/fixture"), &json!([]))
    );
    assert_eq!(
        (&format["status"], &format["exit_code"], &format["ended_at"]),
        (&json!("lost"), &json!(null), &json!(null))
    );
    assert_eq!((&format["output"]["lines"], home.logs("format")), (&json!(3), b"out\nerr\nmore\n".to_vec()));

    let refused = home.run(["--json", "show", "opaque-0003"]).code(1).error_json()["error"].take();
    assert_eq!(refused["code"], "newer", "{refused}");
}

#[test]
fn bytes_of_a_later_kind_are_shown_in_their_place() {
    let home = future();
    assert_eq!(home.logs("index"), b"out\ndrawn\nerr\nmore\n");
    assert_eq!(home.run(["logs", "--stream", "stderr", "index"]).ok().stdout, b"err\n");
    assert_eq!(home.run(["logs", "-n", "2", "index"]).ok().stdout, b"err\nmore\n");
    let lines = home.run(["--json", "logs", "index"]).ok().text();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let streams: Vec<&Value> = lines.iter().map(|line| &line["stream"]).collect();
    assert_eq!(streams, [&json!("stdout"), &json!(null), &json!("stderr"), &json!("stdout")], "{lines:?}");
    assert_eq!(home.show("index")["newer"], json!([]), "the job itself is understood");
}

#[test]
fn events_of_a_later_kind_are_shown_and_stop_no_reader() {
    let home = future();
    let events = home.run(["--session", "default", "events", "--json"]).ok().text();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&Value> = events.iter().map(|event| &event["event"]).collect();
    let teleported = json!({ "teleported": { "to": "mars" } });
    assert_eq!(kinds, [&json!("started"), &json!("hibernated"), &teleported, &json!("exited")]);
    assert_eq!((&events[2]["status"], &events[3]["status"]), (&json!("thawed"), &json!("evicted")));
    assert!(home.run(["events"]).ok().text().contains("words-0001 hibernated"));
    let since = events[1]["seq"].to_string();
    let rest = home.run(["--session", "default", "events", "--json", "--since", &since]).ok().text();
    assert_eq!(rest.lines().count(), 2, "{rest}");

    let told = home.run(["--session", "default", "--reader", "me", "inbox"]).ok().text();
    assert!(told.contains("words-0001"), "{told}");
    assert!(
        !home.run(["--session", "default", "--reader", "me", "inbox"]).ok().text().contains("words-0001")
    );
}

#[test]
fn doctor_and_gc_leave_alone_what_a_later_version_wrote() {
    let home = future();
    home.configure("[retention]\nkeep = \"0s\"\nmax_age = \"1ms\"\n");
    for arguments in [&["--json", "doctor"][..], &["--json", "doctor", "--fix"]] {
        let report = home.run(arguments).ok().json();
        let findings = report["findings"].as_array().unwrap();
        assert_eq!(findings.len(), 3, "{report}");
        for finding in findings {
            assert!(finding["action"].as_str().unwrap().contains("left alone"), "{report}");
        }
        assert!(report.to_string().contains("written by a newer outlive"), "{report}");
    }
    assert_eq!(fs::read_dir(home.store().join("quarantine")).unwrap().count(), 0);
    // What is understood is collected as ever.
    assert_eq!(home.json(["gc"])["removed"], json!(["index-0004"]));
    home.run(["remove", "words", "format"]).ok();
    home.run(["remove", "opaque-0003"]).code(1);
    assert!(home.job_dir("opaque-0003").is_dir() && !home.job_dir("words-0001").exists());
}

#[test]
fn a_session_of_a_later_format_counts_and_keeps_what_it_says() {
    let home = future();
    assert_eq!(home.json(["session", "show", "default"])["cwd"], "/");
    let job = home.start(["pwd"]);
    home.wait(&job);
    let settings = fs::read_to_string(home.store().join("sessions/default/session.json")).unwrap();
    assert!(settings.contains("\"colour\":\"blue\"") && settings.contains("\"format\":2"), "{settings}");
}

#[test]
fn a_live_job_with_words_of_a_later_version_is_read_and_killed() {
    let home = Home::new();
    let line = "echo up; exec sleep 1000";
    let (words, format) = (home.start_line(line), home.start_line(line));
    for job in [&words, &format] {
        home.wait_for_output(job, "up");
    }
    use_words_of_a_later_version(&home, &words);
    change(&home, &format, "spec.json", |spec| {
        (spec["format"], spec["argv"], spec["starter"]) = (json!(2), json!({ "of": "words" }), json!("me"));
    });
    change(&home, &format, "meta.json", |meta| {
        (meta["format"], meta["keeper"], meta["kept"]) = (json!(2), json!("vsock:3"), json!(7));
    });
    for job in [&words, &format] {
        let shown = home.show(job);
        assert_eq!(
            (&shown["status"], shown["newer"].as_array().unwrap().is_empty()),
            (&json!("running"), false)
        );
        assert!(shown["pid"].is_i64(), "{shown}");
        assert_eq!(home.logs(job), b"up\n");
        assert!(home.run(["--json", "doctor", "--fix"]).ok().json()["findings"][0]["action"].is_string());
        home.run(["remove", job]).code(1);
        let killed = home.json(["kill", job])[0].take();
        assert_eq!(killed["status"], "killed", "{killed}");
        assert_eq!(
            (&home.wait(job)["status"], &home.wait(job)["signal"]),
            (&json!("killed"), &json!("SIGTERM"))
        );
    }
}

#[test]
fn what_a_later_version_wrote_stays_when_its_keeper_dies() {
    let home = Home::new();
    let (words, format) = (home.start(["sleep", "1000"]), home.start(["sleep", "1000"]));
    use_words_of_a_later_version(&home, &words);
    change(&home, &format, "meta.json", |meta| (meta["format"], meta["kept"]) = (json!(2), json!(7)));
    let before = fs::read(home.job_dir(&format).join("meta.json")).unwrap();
    for job in [&words, &format] {
        let pid = home.show(job)["pid"].as_i64().unwrap();
        home.orphan(job);
        assert_eq!(home.show(job)["orphaned"], true);
        signal(i32::try_from(pid).unwrap(), "KILL");
        until("its end is noticed", || home.show(job)["status"] == "lost");
    }
    // The snapshot is written again with how it ended, and keeps every field that it had.
    let meta: Value =
        serde_json::from_slice(&fs::read(home.job_dir(&words).join("meta.json")).unwrap()).unwrap();
    assert_eq!((&meta["status"], &meta["colour"]), (&json!("lost"), &json!("blue")), "{meta}");
    assert_eq!(
        (&meta["kept"]["memory"], &meta["containment"]["level"]),
        (&json!("negotiated"), &json!("microvm"))
    );
    assert_eq!(
        fs::read(home.job_dir(&format).join("meta.json")).unwrap(),
        before,
        "of a later format: not written"
    );
}
