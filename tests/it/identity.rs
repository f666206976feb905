//! A job of another boot, host or pid namespace is never signalled.
//!
//! Proves S3-68, S3-76 and S3-77 (an end that no process could see is `lost`), S0-106 (a command that lost its keeper is
//! not lost sight of) and, against S0-140 and S3-77, that a job is found again by any front end.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use outlive_sys::identity::Stat;
use outlive_tests::{Done, Home, LIMIT, binary, end_within, finish, is_running, lacks, pid, signal, until};
use serde_json::{Value, json};

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// A running job with a changed spec, for a while.
struct Disguised<'a> {
    home: &'a Home,
    job: String,
    command: i32,
    spec: Vec<u8>,
}

impl<'a> Disguised<'a> {
    fn new(home: &'a Home, field: &str) -> Self {
        let job = home.start(["sleep", "300"]);
        let command = pid(&home.show(&job), "pid");
        let path = home.job_dir(&job).join("spec.json");
        let spec = fs::read(&path).unwrap();
        edit(&path, |spec| {
            assert!(spec["host"][field].is_string());
            spec["host"][field] = json!("of somebody else");
        });
        Self { home, job, command, spec }
    }
}

impl Drop for Disguised<'_> {
    /// Restores the spec, so that the home can find and end the job.
    fn drop(&mut self) {
        fs::write(self.home.job_dir(&self.job).join("spec.json"), &self.spec).unwrap();
    }
}

/// Ends a command that has no keeper, and waits until it is gone.
fn end(command: i32) {
    signal(command, "KILL");
    until("the command is gone", || !is_running(command));
}

#[test]
fn a_job_of_another_host_or_pid_namespace_is_listed_and_nothing_more() {
    let home = Home::new();
    for field in ["machine", "pid_namespace"] {
        let disguised = Disguised::new(&home, field);
        let job = disguised.job.as_str();
        let shown = home.show(job);
        assert_eq!(
            (&shown["elsewhere"], &shown["status"]),
            (&true.into(), &"running".into()),
            "{field}: {shown}"
        );
        assert!(shown["exit_code"].is_null() && shown["cause"].is_null(), "{field}: {shown}");
        assert!(
            shown["reason"].as_str().unwrap().contains("another host or pid namespace"),
            "{field}: {shown}"
        );
        assert!(home.run(["list"]).ok().text().contains("elsewhere"), "{field}");

        for arguments in
            [["kill", job].as_slice(), &["kill", "--force", job], &["kill", "--signal", "INT", job]]
        {
            let mut command = vec!["--json"];
            command.extend(arguments);
            let refused = home.run(command).code(1).error_json();
            assert_eq!(refused["error"]["code"], "elsewhere", "{field}: {arguments:?}: {refused}");
        }
        assert_eq!(
            home.run(["--json", "remove", job]).code(1).error_json()["error"]["code"],
            "elsewhere",
            "{field}"
        );
        home.run(["wait", "--timeout", "50ms", job]).code(4);
        let gone = home.json(["gc"])["removed"].take();
        assert_eq!(gone, json!([]), "{field}");
        let examined = home.run(["--json", "doctor"]);
        assert!(examined.text().contains("another host or pid namespace"), "{field}: {}", examined.text());
        assert!(home.job_dir(job).is_dir() && is_running(disguised.command), "{field}");
        assert!(is_running(pid(&shown, "keeper_pid")), "{field}");

        let job = job.to_owned();
        drop(disguised);
        assert_eq!(home.show(&job)["status"], "running", "{field}: somebody wrote to it");
        home.run(["kill", "--force", &job]).ok();
    }
}

#[test]
fn a_job_elsewhere_is_not_recovered_from_here() {
    let home = Home::new();
    for field in ["machine", "pid_namespace"] {
        let job = home.start(["sleep", "300"]);
        let command = home.orphan(&job);
        end(command);
        let path = home.job_dir(&job).join("spec.json");
        let spec = fs::read(&path).unwrap();
        edit(&path, |spec| spec["host"][field] = json!("of somebody else"));
        let outcome = fs::read(home.job_dir(&job).join("outcome")).unwrap();
        assert_eq!(home.show(&job)["elsewhere"], true, "{field}");
        assert_eq!(fs::read(home.job_dir(&job).join("outcome")).unwrap(), outcome, "{field}");
        // At home it is known what became of it.
        fs::write(&path, spec).unwrap();
        assert_eq!(home.show(&job)["status"], "lost", "{field}");
    }
}

#[test]
fn a_job_of_another_boot_is_lost_and_never_well() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let command = home.orphan(&job);
    edit(&home.job_dir(&job).join("spec.json"), |spec| spec["host"]["boot"] = json!("before this one"));
    // Its pid is in use in this boot, too: by another process, as far as outlive can know.
    assert!(is_running(command));
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&"lost".into(), &"lost".into()));
    assert!(
        shown["exit_code"].is_null() && shown["signal"].is_null() && shown["orphaned"] == false,
        "{shown}"
    );
    assert!(shown["reason"].as_str().unwrap().contains("restarted"), "{shown}");
    assert_eq!(home.json(["kill", "--force", &job])[0]["already_ended"], true);
    assert!(is_running(command), "a process of this boot was signalled for a job of another");
    assert_eq!(home.wait(&job)["status"], "lost");
    assert_eq!(home.json(["list", "--live"]), json!([]));
    home.run(["remove", &job]).ok();
    end(command);
}

#[test]
fn an_outcome_that_was_recorded_before_a_reboot_stays_what_it_is() {
    let home = Home::new();
    let job = home.start_line("echo kept; exit 3");
    home.wait(&job);
    edit(&home.job_dir(&job).join("spec.json"), |spec| spec["host"]["boot"] = json!("before this one"));
    let shown = home.show(&job);
    assert_eq!(
        (&shown["status"], &shown["exit_code"], &shown["lingering"]),
        (&"failed".into(), &3.into(), &false.into())
    );
    assert_eq!(home.logs(&job), b"kept\n");
    home.run(["remove", &job]).ok();
}

#[test]
fn a_job_of_another_boot_is_never_signalled_even_if_a_keeper_answers() {
    let home = Home::new();
    let disguised = Disguised::new(&home, "boot");
    let killed = home.run(["--json", "kill", "--force", &disguised.job]).ok().json();
    assert_eq!((&killed[0]["already_ended"], &killed[0]["signalled"]), (&true.into(), &0.into()));
    assert_ne!(home.show(&disguised.job)["status"], "completed");
    assert!(is_running(disguised.command));
}

#[test]
fn a_stranger_with_the_number_of_a_dead_command_is_not_taken_for_it() {
    let home = Home::new();
    let mut stranger = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn().unwrap();
    let stranger_pid = i32::try_from(stranger.id()).unwrap();
    let job = home.start(["sleep", "300"]);
    end(home.orphan(&job));
    edit(&home.job_dir(&job).join("meta.json"), |meta| {
        let start_time = meta["command"]["start_time"].as_u64().unwrap();
        assert_ne!(Stat::read(stranger_pid).map(|stat| stat.id.start_time), Some(start_time + 1_000_000));
        meta["command"] = json!({"pid": stranger_pid, "start_time": start_time + 1_000_000});
        meta["keeper"] = meta["command"].clone();
    });
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["orphaned"]), (&"lost".into(), &false.into()));
    for arguments in
        [["kill", &job].as_slice(), &["kill", "--force", &job], &["kill", "--signal", "TERM", &job]]
    {
        assert_eq!(home.json(arguments)[0]["already_ended"], true);
    }
    let lives = stranger.try_wait().unwrap().is_none();
    home.run(["remove", &job]).ok();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(lives, "a stranger was signalled");
}

#[test]
fn a_command_that_lost_its_keeper_is_running_until_it_ends_and_then_lost() {
    let home = Home::new();
    let job = home.start_line("echo before; exec sleep 300");
    home.wait_for_output(&job, "before");
    let command = home.orphan(&job);
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["orphaned"]), (&"running".into(), &true.into()));
    assert_eq!(pid(&shown, "pid"), command);
    assert!(shown["keeper_pid"].is_null(), "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains("its keeper died"), "{shown}");
    assert!(home.run(["list"]).ok().text().contains("orphaned"));
    assert_eq!(home.run(["--json", "remove", &job]).code(1).error_json()["error"]["code"], "live");
    assert_eq!(home.run(["--json", "send", &job, "x"]).code(1).error_json()["error"]["code"], "orphaned");
    let examined = home.run(["--json", "doctor"]).code(1).json();
    assert!(examined["findings"][0]["problem"].as_str().unwrap().contains("its keeper died"), "{examined}");
    assert!(home.job_dir(&job).is_dir());

    // Some wait in their own thread, some with a limit, some for several.
    let other = home.start(["sleep", "300"]);
    let wait =
        |arguments: &[&str]| home.outlive(["wait"]).args(arguments).stdout(Stdio::null()).spawn().unwrap();
    let mut waiters = [wait(&[&job]), wait(&["--timeout", "50s", &job]), wait(&["--any", &job, &other])];
    home.run(["wait", "--timeout", "200ms", &job]).code(4);
    assert!(waiters.iter_mut().all(|waiter| waiter.try_wait().unwrap().is_none()), "it has not ended yet");
    end(command);
    for mut waiter in waiters {
        assert_eq!(end_within(&mut waiter, LIMIT), Some(7));
    }
    let ended = home.show(&job);
    assert_eq!(
        (&ended["status"], &ended["orphaned"], &ended["cause"]),
        (&"lost".into(), &false.into(), &"lost".into())
    );
    assert!(ended["exit_code"].is_null() && ended["ended_at"].is_string(), "{ended}");
    assert_eq!(home.logs(&job), b"before\n");
    assert_eq!(home.json(["doctor"])["findings"], json!([]));
    home.run(["remove", &job]).ok();
}

#[test]
fn following_ends_when_nobody_records_any_longer() {
    let home = Home::new();
    let job = home.start_line("echo before; exec sleep 300");
    home.wait_for_output(&job, "before");
    let mut following = home.outlive(["logs", "-f", &job]).stdout(Stdio::null()).spawn().unwrap();
    let command = home.orphan(&job);
    let code = end_within(&mut following, LIMIT);
    end(command);
    assert_eq!(code, Some(0));
    assert_eq!(home.wait(&job)["status"], "lost");
}

#[test]
fn what_a_dead_keeper_had_recorded_is_not_overwritten() {
    let home = Home::new();
    let job = home.start_line("sleep 300 & echo $!; exit 5");
    let ended = home.wait(&job);
    assert_eq!(ended["lingering"], true);
    let survivor: i32 = String::from_utf8(home.logs(&job)).unwrap().trim().parse().unwrap();
    home.orphan(&job);
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"failed".into(), &5.into()));
    assert_eq!((&shown["ended_at"], &shown["cause"]), (&ended["ended_at"], &ended["cause"]));
    end(survivor);
    assert_eq!(home.show(&job)["exit_code"], 5);
}

#[test]
fn from_inside_a_new_pid_namespace_a_job_outside_is_elsewhere() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let command = pid(&home.show(&job), "pid");
    let inside = |arguments: &[&str]| {
        let mut unshare = home.command("unshare");
        unshare
            .args(["--pid", "--fork", "--mount-proc"])
            .arg(binary("outlive"))
            .arg("--json")
            .args(arguments);
        finish(unshare, b"")
    };
    let shown = inside(&["show", &job]);
    if shown.code != 0 && shown.error().contains("unshare") {
        lacks("CAP_SYS_ADMIN, to make a pid namespace");
        return;
    }
    assert_eq!(shown.json()["elsewhere"], true);
    assert_eq!(inside(&["kill", "--force", &job]).code(1).error_json()["error"]["code"], "elsewhere");
    assert!(is_running(command));
    assert_eq!(home.show(&job)["status"], "running");
}

/// A pid namespace that lives until it is dropped, with one job that was started in it.
struct Container {
    first: Child,
    job: String,
}

impl Container {
    /// Makes one; `None` where this user may not.
    fn start(home: &Home) -> Option<Self> {
        let script = "outlive run -- sleep 300 && read line";
        let mut unshare = home.command("unshare");
        unshare.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script]);
        let mut first = unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut job = String::new();
        BufReader::new(first.stdout.take().unwrap()).read_line(&mut job).unwrap();
        if job.is_empty() {
            lacks("CAP_SYS_ADMIN, to make a pid namespace");
            first.wait().unwrap();
            return None;
        }
        Some(Self { first, job: job.trim_end().to_owned() })
    }

    /// Ends its first process, and with it the kernel ends all others.
    fn end(&mut self) {
        drop(self.first.stdin.take());
        end_within(&mut self.first, LIMIT).unwrap();
    }
}

#[test]
fn a_job_of_a_pid_namespace_that_ended_is_lost() {
    let home = Home::new();
    let Some(mut container) = Container::start(&home) else { return };
    let job = container.job.clone();
    assert_eq!(home.show(&job)["elsewhere"], true);
    let waiter = home.outlive(["--json", "wait", "--timeout", "50s", &job]);
    let waiter = std::thread::spawn(move || finish(waiter, b""));
    container.end();
    let ended = waiter.join().unwrap().json()["jobs"][0].take();
    assert_eq!((&ended["status"], &ended["elsewhere"]), (&"lost".into(), &false.into()), "{ended}");
    assert!(ended["reason"].as_str().unwrap().contains("container or pid namespace ended"), "{ended}");
    assert!(ended["exit_code"].is_null(), "{ended}");
    let told = home.run(["events", "--json"]).ok().text();
    assert_eq!(
        told.lines().filter(|line| line.contains("\"lost\"") && line.contains(&job)).count(),
        1,
        "{told}"
    );
    assert_eq!(home.json(["list", "--live"]), json!([]));
    // Collected like any other.
    home.configure("[retention]\nkeep = \"0s\"\n");
    home.show(&job);
    assert_eq!(home.json(["gc"])["removed"], json!([job]));
}

#[test]
fn a_job_without_keeper_in_a_pid_namespace_that_lives_is_not_lost() {
    let home = Home::new();
    let Some(mut container) = Container::start(&home) else { return };
    let job = container.job.clone();
    let keeper = home.keepers()[0];
    outlive_tests::kill_with_guard(keeper);
    until("its keeper is gone", || !is_running(keeper));
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["elsewhere"]), (&"running".into(), &true.into()), "{shown}");
    home.run(["remove", &job]).code(1);
    container.end();
    until("its end is noticed", || home.show(&job)["status"] == "lost");
    home.run(["remove", &job]).ok();
}

/// Runs `outlive --json` where the boot clock is far ahead; `None` where that may not be made.
fn ahead_of_time(home: &Home, arguments: &[&str]) -> Option<Done> {
    let mut unshare = home.command("unshare");
    unshare.args(["--time", "--boottime", "1000000", "--fork"]).arg(binary("outlive")).arg("--json");
    unshare.args(arguments);
    let done = finish(unshare, b"");
    if done.code != 0 && done.error().contains("unshare") {
        lacks("CAP_SYS_ADMIN and Linux 5.6, to make a time namespace");
        return None;
    }
    Some(done)
}

#[test]
fn from_another_time_namespace_a_job_is_the_same() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let Some(shown) = ahead_of_time(&home, &["show", &job]) else { return };
    let shown = shown.ok().json();
    assert!(shown["runtime_ms"].as_u64().unwrap() < 1_000_000_000, "{shown}");
    let command = home.orphan(&job);
    let shown = ahead_of_time(&home, &["show", &job]).unwrap().ok().json();
    assert_eq!((&shown["status"], &shown["orphaned"]), (&"running".into(), &true.into()), "{shown}");
    assert_eq!(home.show(&job)["status"], "running");
    // What is not taken for ended can be ended.
    ahead_of_time(&home, &["kill", &job]).unwrap().ok();
    assert!(!is_running(command));
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn a_job_that_was_started_in_another_time_namespace_is_the_same_outside() {
    let home = Home::new();
    let Some(started) = ahead_of_time(&home, &["run", "--", "sleep", "300"]) else { return };
    let job = started.ok().json()["job"].as_str().unwrap().to_owned();
    assert!(home.show(&job)["runtime_ms"].as_u64().unwrap() < 1_000_000_000);
    let command = home.orphan(&job);
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["orphaned"]), (&"running".into(), &true.into()), "{shown}");
    home.run(["kill", &job]).ok();
    assert!(!is_running(command));
    // Its deadlines are by the clock of its namespace.
    let timed = ahead_of_time(&home, &["run", "--timeout", "300ms", "--wait", "--", "sleep", "300"]).unwrap();
    assert_eq!((timed.code, &timed.json()["status"]), (143, &"timed_out".into()), "{}", timed.error());
}
