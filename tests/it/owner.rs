//! Whose store it is: what another user can have written is neither believed, followed nor waited for.
//!
//! The second user is an ordinary one; the tests run as root, which is the first.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use outlive_tests::{Done, ERAS, Home, Mcp, User, finish, is_running, lacks, pid, until};
use serde_json::{Value, json};

/// The number of the second user.
const OTHER: u32 = 65534;

/// Tells whether this test can act as two users; a test that cannot does nothing.
fn has_two_users() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        lacks("root, to act as two users");
    }
    is_root
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path) {
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

/// Runs a job to its end.
fn ended(home: &Home, line: &str) -> String {
    let job = home.start_line(line);
    home.wait(&job);
    until("its keeper is gone", || home.keepers().is_empty());
    job
}

/// Asserts that a command was refused for another user's sake, and returns the message with the hint.
#[track_caller]
fn refused(done: Done) -> String {
    let failure = done.code(1).error_json();
    assert_eq!(failure["error"]["code"], "foreign", "{failure}");
    format!(
        "{} {}",
        failure["error"]["message"].as_str().unwrap(),
        failure["error"]["hint"].as_str().unwrap()
    )
}

#[test]
fn a_store_that_others_can_write_to_is_refused_and_its_configuration_not_read() {
    let home = Home::new();
    ended(&home, "true");
    let marker = home.path().join("ran");
    let shell = home.path().join("shell");
    fs::write(&shell, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    mode(&shell, 0o755);
    mode(&home.store(), 0o777);
    let config = home.store().join("config.toml");
    fs::write(&config, format!("[job]\nshell = {shell:?}\n")).unwrap();
    if has_two_users() {
        give(&config);
    }
    for command in [&["run", "--wait", "true"][..], &["list"], &["doctor", "--fix"], &["kill", "--all"]] {
        let mut outlive = home.outlive(["--json"]);
        outlive.args(command);
        let said = refused(finish(outlive, b""));
        assert!(said.contains("mode 0777") && said.contains("chmod -R go-w"), "{said}");
    }
    assert!(!marker.exists(), "another user's shell ran");
    // The way out that it names leaves the file of the other user, which is still not believed.
    mode(&home.store(), 0o700);
    if has_two_users() {
        let said = refused(home.run(["--json", "run", "--wait", "true"]));
        assert!(said.contains("config.toml") && said.contains("65534"), "{said}");
        assert!(!marker.exists(), "another user's shell ran");
    }
    fs::remove_file(&config).unwrap();
    home.run(["run", "--wait", "true"]).ok();
}

#[test]
fn a_directory_in_the_store_that_others_can_write_to_is_refused_where_they_can_reach_it() {
    let home = Home::new();
    ended(&home, "true");
    mode(&home.store().join("sessions"), 0o777);
    home.run(["list"]).ok();
    mode(&home.store(), 0o755);
    assert!(refused(home.run(["--json", "list"])).contains("sessions"));
    mode(&home.store().join("sessions"), 0o700);
    home.run(["list"]).ok();
}

#[test]
fn a_group_of_the_users_own_may_write() {
    if !has_two_users() {
        return;
    }
    let home = Home::of(User::Nobody);
    home.run(["list"]).ok();
    mode(&home.store(), 0o770);
    home.run(["list"]).ok();
    chown(home.store(), Some(OTHER), Some(7)).unwrap();
    assert!(refused(home.run(["--json", "list"])).contains("mode 0770"));
    mode(&home.store(), 0o700);
}

#[test]
fn a_forged_snapshot_leads_no_kill_to_a_stranger() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let mut stranger = Command::new("sleep").arg("300").spawn().unwrap();
    let stranger_pid = stranger.id().cast_signed();
    home.orphan(&job);
    let snapshot = home.job_dir(&job).join("meta.json");
    let real = fs::read(&snapshot).unwrap();
    let mut forged: Value = serde_json::from_slice(&real).unwrap();
    let start = outlive_sys::identity::ProcessId::of(stranger_pid).unwrap().start_time;
    forged["command"]["pid"] = stranger_pid.into();
    forged["command"]["start_time"] = start.into();
    forged["containment"] = Value::Null;
    fs::write(&snapshot, forged.to_string()).unwrap();
    let refuses = |what: &str| {
        let said = home.run(["kill", "--force", &job]);
        assert_ne!(said.code, 0, "{what}: {} {}", said.text(), said.error());
        assert!(is_running(stranger_pid), "{what}: a stranger was killed");
        said.error()
    };
    mode(&home.store(), 0o777);
    assert!(refuses("a store of all").contains("chmod"));
    mode(&home.store(), 0o700);
    mode(&home.job_dir(&job), 0o777);
    assert!(refuses("a job's directory of all").contains("mode 0777"));
    if has_two_users() {
        mode(&home.job_dir(&job), 0o700);
        give(&home.job_dir(&job));
        assert!(refuses("a job's directory of another user").contains("65534"));
        chown(home.job_dir(&job), Some(0), Some(0)).unwrap();
    }
    mode(&home.job_dir(&job), 0o700);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    fs::write(&snapshot, real).unwrap();
    home.run(["kill", &job]).ok();
}

#[test]
fn a_job_of_another_user_is_left_alone_and_in_no_ones_way() {
    if !has_two_users() {
        return;
    }
    let home = Home::new();
    let (job, other) = (ended(&home, "echo mine"), ended(&home, "echo theirs"));
    give(&home.job_dir(&other));
    for command in ["show", "logs", "remove", "kill"] {
        let said = refused(home.run(["--json", command, &other]));
        assert!(said.contains("it belongs to user 65534"), "{said}");
    }
    assert_eq!(home.logs(&job), b"mine\n");
    assert!(home.run(["list"]).ok().error().contains("it belongs to user 65534"));
    let report = home.run(["--json", "doctor", "--fix"]).code(1).json();
    assert!(report["findings"][0]["action"].as_str().unwrap().starts_with("left alone"), "{report}");
    assert!(home.job_dir(&other).exists());
    // Of a job of one's own, a file that another user wrote is not believed either.
    chown(home.job_dir(&other), Some(0), Some(0)).unwrap();
    give(&home.job_dir(&other).join("spec.json"));
    assert!(refused(home.run(["--json", "show", &other])).contains("spec.json"));
}

#[test]
fn links_in_a_store_are_not_followed() {
    let home = Home::new();
    let job = ended(&home, "echo printed");
    let secret = home.path().join("secret");
    fs::write(&secret, "secret\n").unwrap();
    let segment = home.job_dir(&job).join("out.000000000000000.log");
    let whole = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    symlink(&secret, &segment).unwrap();
    let done = home.run(["logs", &job]);
    assert!(!done.text().contains("secret"), "{}", done.text());
    assert!(done.code(1).error().contains("symbolic link"));
    fs::remove_file(&segment).unwrap();
    fs::write(&segment, whole).unwrap();
    assert_eq!(home.logs(&job), b"printed\n");

    // A job's directory, and a session's: what is behind the link is not read, and nothing is written there.
    let (elsewhere, inside) = (home.path().join("elsewhere"), home.job_dir(&job));
    fs::rename(&inside, &elsewhere).unwrap();
    symlink(&elsewhere, &inside).unwrap();
    assert!(home.run(["show", &job]).code(1).error().contains("is damaged"));
    fs::remove_file(&inside).unwrap();
    fs::rename(&elsewhere, &inside).unwrap();
    let session = home.store().join("sessions/default");
    fs::rename(&session, &elsewhere).unwrap();
    symlink(&elsewhere, &session).unwrap();
    let before = fs::metadata(elsewhere.join("events")).unwrap().len();
    ended(&home, "true");
    home.run(["remove", &job]).ok();
    let after = fs::metadata(elsewhere.join("events")).unwrap().len();
    assert_eq!(before, after, "an event was written through a link");

    // The store's own configuration.
    symlink(&secret, home.store().join("config.toml")).unwrap();
    assert!(home.run(["list"]).code(1).error().contains("symbolic link"));
    fs::remove_file(home.store().join("config.toml")).unwrap();
}

#[test]
fn a_store_may_be_behind_a_link() {
    let home = Home::new();
    let real = home.make_dir("real");
    symlink(&real, home.store()).unwrap();
    let job = ended(&home, "echo well");
    assert_eq!(home.logs(&job), b"well\n");
    assert!(real.join("jobs").join(&job).is_dir());
}

#[test]
fn a_file_of_another_kind_neither_blocks_nor_fills_memory() {
    let home = Home::new();
    let job = ended(&home, "echo well");
    let config = home.store().join("config.toml");
    let make = |kind: &str, path: &Path| match kind {
        "a pipe" => {
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap()
        }
        "a directory" => fs::create_dir(path).unwrap(),
        _ => File::create(path).unwrap().set_len(2 << 30).unwrap(),
    };
    let remove = |path: &Path| fs::remove_file(path).or_else(|_| fs::remove_dir(path)).unwrap();
    for (kind, said) in [("a pipe", "regular"), ("a directory", "regular"), ("2 GiB", "1048576 bytes")] {
        make(kind, &config);
        let failure = home.run(["--json", "list"]).code(1).error_json();
        assert_eq!(failure["error"]["code"], "config", "{kind}: {failure}");
        assert!(failure["error"]["message"].as_str().unwrap().contains(said), "{kind}: {failure}");
        remove(&config);
    }
    let mut command = home.outlive(["list"]);
    command.env("OUTLIVE_CONFIG", "/dev/zero");
    assert!(finish(command, b"").code(1).error().contains("not a regular file"));
    // One that is linked from elsewhere is read, if it is one's own.
    let (real, link) = (home.path().join("real.toml"), home.path().join("link.toml"));
    fs::write(&real, "[limits]\ntotal = 0\n").unwrap();
    symlink(&real, &link).unwrap();
    let mut command = home.outlive(["run", "true"]);
    command.env("OUTLIVE_CONFIG", &link);
    finish(command, b"").code(5);

    for name in ["version", "reserved"] {
        let path = home.store().join(name);
        let was = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        make("a pipe", &path);
        // That it answers is the point; only without its version is a store none.
        home.run(["list"]).code(i32::from(name == "version"));
        remove(&path);
        fs::write(&path, was).unwrap();
    }
    for name in ["spec.json", "meta.json", "outcome", "out.idx", "session", "name", "seen", "lock", "done"] {
        for kind in ["a pipe", "2 GiB"] {
            let path = home.job_dir(&job).join(name);
            let was = fs::read(&path).ok();
            fs::remove_file(&path).ok();
            make(kind, &path);
            for command in ["list", "show", "logs", "doctor"] {
                let arguments =
                    if matches!(command, "show" | "logs") { vec![command, &job] } else { vec![command] };
                drop(home.run(arguments));
            }
            remove(&path);
            if let Some(was) = was {
                fs::write(&path, was).unwrap();
            }
        }
    }
    assert_eq!(home.logs(&job), b"well\n");
}

/// Runs `outlive` as root in the store of another user.
fn as_root<const N: usize>(home: &Home, arguments: [&str; N]) -> Done {
    let mut command = home.outlive(arguments);
    command.uid(0).gid(0);
    finish(command, b"")
}

#[test]
fn root_does_not_use_the_store_of_another_user() {
    if !has_two_users() {
        return;
    }
    let home = Home::of(User::Nobody);
    let job = ended(&home, "echo mine");
    for arguments in [["--json", "run", "true"], ["--json", "logs", &job], ["--json", "remove", &job]] {
        let said = refused(as_root(&home, arguments));
        assert!(said.contains("65534") && said.contains("--as-owner"), "{said}");
    }
    let said = as_root(&home, ["list"]).code(1).error();
    let name = outlive_sys::owner::user_name(OTHER);
    assert!(said.contains(&format!("`outlive --as-owner …` acts as {name}")), "{said}");
    assert_eq!(home.logs(&job), b"mine\n");
}

/// Asserts that all below a path belongs to the second user.
fn assert_given(path: &Path) {
    let found = path.symlink_metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (OTHER, OTHER), "{}", path.display());
    for entry in fs::read_dir(path).into_iter().flatten() {
        assert_given(&entry.unwrap().path());
    }
}

#[test]
fn root_acts_as_the_owner_on_request() {
    if !has_two_users() {
        return;
    }
    let home = Home::of(User::Nobody);
    home.run(["list"]).ok();
    let line = "id -u; id -g; id -G; echo $HOME; exec sleep 300";
    // In both places: where a keeper is started before the command line is read, and where not.
    for arguments in [
        ["--as-owner", "run", "--on-exit=id -u > done", line],
        ["run", "--as-owner", "--on-exit=id -u > done", line],
    ] {
        let job = as_root(&home, arguments).ok().text().trim_end().to_owned();
        home.wait_for_output(&job, "/");
        let printed = String::from_utf8(home.logs(&job)).unwrap();
        assert!(printed.starts_with("65534\n65534\n65534\n"), "{printed}");
        assert!(!printed.contains(home.path().to_str().unwrap()), "HOME is the account's: {printed}");
        let shown = home.show(&job);
        for process in ["keeper_pid", "pid"] {
            let status = fs::read_to_string(format!("/proc/{}/status", pid(&shown, process))).unwrap();
            let ids = |line: &str| line.split_whitespace().skip(1).all(|id| id == "65534");
            assert!(
                status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:")).all(ids),
                "{status}"
            );
            assert!(status.lines().any(|line| line == "CapEff:\t0000000000000000"), "{status}");
        }
        home.run(["kill", &job]).ok();
        until("its command at the end has run", || {
            fs::read_to_string(home.path().join("done")).is_ok_and(|text| text == "65534\n")
        });
        fs::remove_file(home.path().join("done")).unwrap();
        assert_eq!(as_root(&home, ["--as-owner", "logs", &job]).ok().stdout, printed.as_bytes());
        as_root(&home, ["--as-owner", "wait", &job]).code(7);
        as_root(&home, ["remove", "--as-owner", &job]).ok();
    }
    assert_given(&home.store());
    // A user who owns it, and one who does not and cannot become the owner.
    home.run(["--as-owner", "list"]).ok();
    let roots = Home::new();
    roots.run(["list"]).ok();
    mode(roots.path(), 0o755);
    mode(&roots.store(), 0o755);
    let mut command = home.outlive(["--json", "--as-owner", "list"]);
    command.env("OUTLIVE_HOME", roots.store());
    assert!(refused(finish(command, b"")).contains("it belongs to user 0"));
}

#[test]
fn the_servers_of_agents_act_as_the_owner_too() {
    if !has_two_users() {
        return;
    }
    let home = Home::of(User::Nobody);
    home.run(["list"]).ok();
    let mut command = home.outlive(["mcp", "--as-owner"]);
    command.uid(0).gid(0);
    let mut agent = Mcp::of(command, ERAS[0], json!({}), &[]);
    let job = agent.call("run", json!({"command": "id -u"})).ok().job();
    drop(agent);
    home.wait(&job);
    assert_eq!(home.logs(&job), b"65534\n");
    assert_given(&home.store());
}
