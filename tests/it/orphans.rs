//! A job whose keeper was killed is found, told, ended and recorded by any front end.
//!
//! Proves of the design: unknown is `lost`, never 0; nothing outside a job's tree is signalled; after a kill the tree is gone,
//! or the answer says what cannot be traced. S0-106 and S3-76 (a command that lost its supervisor is not lost sight of).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use outlive_tests::{
    Home, LIMIT, end_within, is_running, lacks, millis, pid, report, signal, until, with_enough_time,
};
use serde_json::{Value, json};

/// The rungs that hold a job here: the best, and those that this user may have.
fn levels() -> Vec<&'static str> {
    outlive::levels().into_iter().map(outlive::Level::word).collect()
}

fn events(home: &Home, job: &str) -> Vec<String> {
    let text = home.run(["events", "--json"]).ok().text();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["job"] == job).map(|event| event["event"].as_str().unwrap().to_owned()).collect()
}

/// Tells whether the kernel reports an exit status through a pidfd.
fn can_tell() -> bool {
    let can = outlive_sys::exit::can_tell();
    if !can {
        lacks("Linux 6.15, to learn the exit status of an orphan");
    }
    can
}

/// A line that starts processes in every way that leaves its main process: each writes its pid. It prints before: once its
/// keeper is killed, printing would end it.
const TREE: &str = "trap '' HUP; echo up; \
    setsid sh -c 'echo $$ > setsid; exec sleep 300' & \
    sh -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 300; done' & \
    (sh -c 'echo $$ > reparented; exec sleep 300' &) ; \
    wait";

/// The pids that the processes of [`TREE`] wrote, once they all have.
fn tree_pids(home: &Home) -> Vec<i32> {
    let read = |name: &str| fs::read_to_string(home.path().join(name)).ok()?.trim().parse::<i32>().ok();
    let names = ["setsid", "stubborn", "reparented"];
    until("the tree is up", || names.iter().all(|name| read(name).is_some()));
    let pids = names.iter().filter_map(|name| read(name)).collect();
    names.iter().for_each(|name| fs::remove_file(home.path().join(name)).unwrap());
    pids
}

#[test]
fn a_kill_ends_an_orphan_with_all_it_started() {
    let home = Home::new();
    for level in levels().into_iter().filter(|level| *level != "group") {
        with_enough_time(Duration::from_millis(300), |grace| kill_an_orphan(&home, level, &millis(grace)));
    }
}

/// Ends an orphan; `None` if its grace was too short for its main process to handle the signal.
fn kill_an_orphan(home: &Home, level: &str, grace: &str) -> Option<()> {
    let job = home.start_with(&["--containment", level, "--grace", grace], ["sh", "-c", TREE]);
    let mut pids = tree_pids(home);
    pids.push(home.orphan(&job));
    assert_eq!(home.show(&job)["orphaned"], true, "{level}");
    assert!(pids.iter().all(|&pid| is_running(pid)), "{level}");

    let killed = home.json(["kill", &job])[0].take();
    assert!(!pids.iter().any(|&pid| is_running(pid)), "{level}: {killed}");
    assert_eq!(
        (&killed["status"], &killed["survivors"]),
        (&"killed".into(), &json!([])),
        "{level}: {killed}"
    );
    assert!(killed["signalled"].as_u64().unwrap() >= 4, "{level}: {killed}");
    // Without a control group the answer says what cannot be known.
    let untraced = killed["untraced"].as_str().unwrap_or_default();
    assert_eq!(untraced.contains("cannot be traced"), level == "sweep", "{level}: {killed}");

    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&"killed".into(), &"kill".into()), "{level}");
    assert!(shown["reason"].as_str().unwrap().contains("killed by outlive kill"), "{level}: {shown}");
    let heard = if can_tell() { json!("SIGTERM") } else { json!(null) };
    assert!(shown["signal"] == heard || shown["signal"] == "SIGKILL", "{level}: {shown}");
    assert!(shown["exit_code"].is_null() && shown["closed_at"].is_string(), "{level}: {shown}");
    assert_eq!(events(home, &job), ["started", "orphaned", "exited"], "{level}");
    assert_eq!(home.json(["kill", &job])[0]["already_ended"], true, "{level}");
    assert_eq!(home.json(["list", "--live"]), json!([]), "{level}");
    home.run(["remove", &job]).ok();
    (shown["signal"] == heard).then_some(())
}

#[test]
fn what_cleared_its_environment_is_ended_with_its_group_or_said_to_be_untraced() {
    let home = Home::new();
    for level in levels().into_iter().filter(|level| *level != "group") {
        let line = "(env -i setsid sh -c 'echo $$ > hidden; exec sleep 300' &); echo up; exec sleep 300";
        let job = home.start_with(&["--containment", level], ["sh", "-c", line]);
        let hidden = || fs::read_to_string(home.path().join("hidden")).ok()?.trim().parse::<i32>().ok();
        until("it hides", || hidden().is_some());
        let hidden = hidden().unwrap();
        home.orphan(&job);
        let killed = home.json(["kill", &job])[0].take();
        assert_eq!(killed["status"], "killed", "{level}: {killed}");
        assert_eq!(is_running(hidden), level == "sweep", "{level}: {killed}");
        assert_eq!(killed["untraced"].is_string(), level == "sweep", "{level}: {killed}");
        if level == "sweep" {
            signal(hidden, "KILL");
            until("it is gone", || !is_running(hidden));
        }
        fs::remove_file(home.path().join("hidden")).unwrap();
    }
}

#[test]
fn a_keeper_that_dies_while_it_is_asked_to_kill_costs_nothing() {
    let home = Home::new();
    let job = home
        .start_with(&["--grace", "10s"], ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 300; done"]);
    home.wait_for_output(&job, "up");
    let shown = home.show(&job);
    let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
    // The grace is the time in which the keeper has been asked and has not answered.
    let mut killing = home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().unwrap();
    let number = i32::try_from(killing.id()).unwrap();
    until("it asks", || outlive_tests::waits_with_open(number, "socket:"));
    outlive_tests::kill_with_guard(keeper);
    assert_eq!(end_within(&mut killing, LIMIT), Some(0));
    assert!(!is_running(command));
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn an_orphan_is_killed_at_once_where_that_is_asked() {
    let home = Home::new();
    let job = home.start_line("trap '' TERM; echo up; while :; do sleep 300; done");
    home.wait_for_output(&job, "up");
    let command = home.orphan(&job);
    let killed = home.json(["kill", "--force", &job])[0].take();
    assert!(!is_running(command), "{killed}");
    assert_eq!(killed["status"], "killed");
    if can_tell() {
        assert_eq!(home.show(&job)["signal"], "SIGKILL");
    }
}

#[test]
fn a_live_orphan_is_not_removed_and_the_hint_says_how_to_end_it() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    home.orphan(&job);
    let refused = home.run(["--json", "remove", &job]).code(1).error_json()["error"].take();
    assert_eq!(refused["code"], "live");
    assert!(refused["hint"].as_str().unwrap().contains(&format!("outlive kill {job}")), "{refused}");
    home.run(["kill", &job]).ok();
    home.run(["remove", &job]).ok();
    home.run(["show", &job]).code(3);
}

/// Starts a line that goes on when the file `go` is there, and makes it an orphan.
fn awaited(home: &Home, end: &str) -> String {
    let job = home.start_line(&format!("echo up; until [ -e go-$OUTLIVE_JOB ]; do sleep 0.01; done; {end}"));
    home.wait_for_output(&job, "up");
    job
}

fn go(home: &Home, job: &str) {
    fs::write(home.path().join(format!("go-{job}")), "").unwrap();
}

#[test]
fn whoever_waits_for_an_orphan_learns_its_exit_status_and_records_it() {
    let home = Home::new();
    let other = home.start(["sleep", "300"]);
    for arguments in [&["wait"][..], &["wait", "--timeout", "50s"], &["wait", "--any", &other]] {
        for is_early in [true, false] {
            let job = awaited(&home, "exit 7");
            let start = || {
                let mut command = home.outlive(arguments);
                command.arg(&job).stdout(Stdio::null()).spawn().unwrap()
            };
            // Some wait before the keeper dies, some come later.
            let early = is_early.then(start);
            if let Some(waiter) = &early {
                let waiter = i32::try_from(waiter.id()).unwrap();
                until("it waits", || holds_process(waiter));
            }
            let command = home.orphan(&job);
            let mut waiter = early.unwrap_or_else(start);
            let number = i32::try_from(waiter.id()).unwrap();
            until("it holds the process", || holds_process(number));
            go(&home, &job);
            until("the command is gone", || !is_running(command));
            assert_eq!(end_within(&mut waiter, LIMIT), Some(7));
            let shown = home.show(&job);
            // The status is a fact; that no keeper saw the end is another.
            assert_eq!((&shown["status"], &shown["cause"]), (&"lost".into(), &"lost".into()), "{shown}");
            let known = if can_tell() { json!(7) } else { json!(null) };
            assert_eq!(shown["exit_code"], known, "{arguments:?} {is_early}: {shown}");
            assert!(shown["reason"].as_str().unwrap().contains("its keeper died"), "{shown}");
            assert_eq!(events(&home, &job).last().unwrap(), "lost");
        }
    }
}

/// Tells whether a process has a pidfd open and sleeps.
fn holds_process(pid: i32) -> bool {
    outlive_tests::waits_with_open(pid, "pidfd")
}

#[test]
fn whoever_knows_less_gives_way_to_whoever_waits() {
    let home = Home::new();
    until("a looker gave way while the waiter stood still", || looker_gives_way(&home).is_some());
}

/// Looks while the waiter is stopped; `None` if the look was over before it was seen to wait.
fn looker_gives_way(home: &Home) -> Option<()> {
    let job = awaited(home, "exit 7");
    let mut waiter = home.outlive(["wait", &job]).stdout(Stdio::null()).spawn().unwrap();
    let number = i32::try_from(waiter.id()).unwrap();
    until("it waits", || holds_process(number));
    home.orphan(&job);
    assert_eq!(home.show(&job)["orphaned"], true);
    until("it says so", || outlive_tests::waits_with_open(number, "orphaned"));
    // Stopped when the end comes: others find the process gone and would not know how it ended.
    signal(number, "STOP");
    let command = pid(&home.show(&job), "pid");
    go(home, &job);
    until("the command is reaped", || outlive_sys::identity::Stat::read(command).is_none());
    let (was_seen, code) = std::thread::scope(|scope| {
        let looking = scope.spawn(|| home.show(&job));
        let waits = || lookers(home).iter().any(|&pid| outlive_tests::waits_with_open(pid, "orphaned"));
        let mut was_seen = false;
        until("the looker waits, or is done", || {
            was_seen = waits();
            was_seen || looking.is_finished()
        });
        signal(number, "CONT");
        (was_seen, looking.join().unwrap()["exit_code"].clone())
    });
    assert_eq!(end_within(&mut waiter, LIMIT), Some(7));
    if !was_seen {
        return None;
    }
    assert_eq!(code, if can_tell() { json!(7) } else { json!(null) });
    assert_eq!(home.show(&job)["exit_code"], code);
    Some(())
}

/// Lists the processes that run `outlive show` in this home.
fn lookers(home: &Home) -> Vec<i32> {
    let shows = |pid: &i32| outlive_sys::tree::arguments(*pid).iter().any(|word| word == b"show");
    home.processes().into_iter().filter(shows).collect()
}

#[test]
fn run_and_wait_goes_on_without_the_keeper_and_never_claims_success() {
    let home = Home::new();
    for (end, known) in [("exit 5", 5), ("exit 0", 1)] {
        let name = format!("job{known}");
        let line = format!("echo up; until [ -e go ]; do sleep 0.01; done; {end}");
        let mut running = home.outlive(["run", "--wait", "--name", &name, &line]);
        let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until("it runs", || home.run(["logs", &name]).text().contains("up"));
        home.orphan(&name);
        assert_eq!(home.show(&name)["orphaned"], true);
        assert!(running.try_wait().unwrap().is_none(), "it has not ended yet");
        fs::write(home.path().join("go"), "").unwrap();
        let code = end_within(&mut running, LIMIT);
        if can_tell() {
            assert_eq!(code, Some(known), "{end}");
        }
        let shown = home.show(&name);
        assert_eq!(shown["status"], "lost", "{end}: {shown}");
        fs::remove_file(home.path().join("go")).unwrap();
    }
}

#[test]
fn without_a_witness_an_end_is_lost_and_never_0() {
    let home = Home::new();
    let job = awaited(&home, "exit 0");
    let command = home.orphan(&job);
    assert_eq!(home.show(&job)["orphaned"], true);
    go(&home, &job);
    // Until it was reaped, every process can read its status.
    until("the command is reaped", || outlive_sys::identity::Stat::read(command).is_none());
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["exit_code"]), (&"lost".into(), &Value::Null), "{shown}");
    assert_eq!(events(&home, &job), ["started", "orphaned", "lost"]);
}

#[test]
fn it_says_from_when_output_is_no_longer_recorded() {
    let home = Home::new();
    let job = awaited(&home, "exit 0");
    assert!(home.show(&job)["recorded_until"].is_null());
    let command = home.orphan(&job);
    let lines = home.run(["--json", "logs", &job]).ok().text();
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let shown = home.show(&job);
    assert_eq!(shown["recorded_until"], line["time"], "{shown} {line}");
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains("recorded until"), "{text}");
    go(&home, &job);
    until("the command is gone", || !is_running(command));
    assert_eq!(home.show(&job)["recorded_until"], line["time"]);
    // A job that printed nothing is recorded until its start; a job with a keeper has no such time.
    let silent = home.start(["sleep", "300"]);
    home.orphan(&silent);
    let shown = home.show(&silent);
    assert_eq!(shown["recorded_until"], shown["started_at"]);
    let well = home.start(["true"]);
    assert!(home.wait(&well)["recorded_until"].is_null());
}

#[test]
fn a_signal_reaches_an_orphan_and_is_why_it_ended() {
    let home = Home::new();
    let job = home
        .start_line("trap 'echo got > got' USR1; echo up; exec 2> /dev/null; while :; do sleep 0.01; done");
    home.wait_for_output(&job, "up");
    home.orphan(&job);
    let sent = home.json(["kill", "--signal", "USR1", &job])[0].take();
    assert!(sent["signalled"].as_u64().unwrap() >= 1, "{sent}");
    until("it heard it", || home.path().join("got").exists());
    assert_eq!(home.show(&job)["orphaned"], true);

    let job = home.start(["sleep", "300"]);
    let command = home.orphan(&job);
    let mut waiter = home.outlive(["wait", &job]).stdout(Stdio::null()).spawn().unwrap();
    let number = i32::try_from(waiter.id()).unwrap();
    until("it holds the process", || holds_process(number));
    home.run(["kill", "--signal", "INT", &job]).ok();
    assert_eq!(end_within(&mut waiter, LIMIT), Some(7));
    assert!(!is_running(command));
    if can_tell() {
        let shown = home.show(&job);
        assert_eq!((&shown["status"], &shown["signal"]), (&"killed".into(), &"SIGINT".into()), "{shown}");
    }
}

#[test]
fn an_orphan_is_paused_and_goes_on() {
    let home = Home::new();
    for level in levels().into_iter().filter(|level| *level != "group") {
        let line = "while :; do date +%s%N > beat; sleep 0.01; done";
        let job = home.start_with(&["--containment", level], ["sh", "-c", line]);
        let beat = || fs::read_to_string(home.path().join("beat")).unwrap_or_default();
        until("it beats", || !beat().is_empty());
        home.orphan(&job);
        home.run(["pause", &job]).ok();
        assert_eq!(home.show(&job)["paused"], true, "{level}");
        let still = beat();
        home.run(["wait", "--timeout", "100ms", &job]).code(4);
        assert_eq!(beat(), still, "{level}");
        home.run(["resume", &job]).ok();
        assert_eq!(home.show(&job)["paused"], false, "{level}");
        until("it goes on", || beat() != still);
        // One that is paused is ended all the same.
        home.run(["pause", &job]).ok();
        assert_eq!(home.json(["kill", &job])[0]["status"], "killed", "{level}");
    }
}

#[test]
fn orphans_are_among_all_and_are_found_by_port() {
    let home = Home::new();
    let line = "import socket,time;s=socket.socket();s.bind(('127.0.0.1',0));s.listen();\
                open('port','w').write(str(s.getsockname()[1]));time.sleep(300)";
    if Command::new("python3").arg("--version").output().is_err() {
        return lacks("python3, to listen on a port");
    }
    let listening = home.start(["python3", "-c", line]);
    let port = || fs::read_to_string(home.path().join("port")).ok().filter(|port| !port.is_empty());
    until("it listens", || port().is_some());
    home.orphan(&listening);
    let killed = home.json(["kill", "--port", &port().unwrap()]);
    assert_eq!((&killed[0]["job"], &killed[0]["status"]), (&listening.as_str().into(), &"killed".into()));

    let (kept, orphaned) = (home.start(["sleep", "300"]), home.start(["sleep", "300"]));
    home.orphan(&orphaned);
    let killed = home.json(["kill", "--all"]);
    let ended: Vec<&str> =
        killed.as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert_eq!(ended, [kept.as_str(), &orphaned]);
    assert_eq!(home.json(["list", "--live"]), json!([]));
}

#[test]
fn what_a_main_process_left_behind_is_an_orphan_too() {
    let home = Home::new();
    for level in levels().into_iter().filter(|level| *level != "group") {
        let line = "sleep 300 & echo $! > left; exit 5";
        let job = home.start_with(&["--containment", level], ["sh", "-c", line]);
        let ended = home.wait(&job);
        assert_eq!((&ended["lingering"], &ended["exit_code"]), (&true.into(), &5.into()), "{level}");
        let left: i32 = fs::read_to_string(home.path().join("left")).unwrap().trim().parse().unwrap();
        home.orphan(&job);
        let shown = home.show(&job);
        assert_eq!(
            (&shown["status"], &shown["exit_code"]),
            (&"failed".into(), &5.into()),
            "{level}: {shown}"
        );
        assert_eq!(
            (&shown["orphaned"], &shown["lingering"]),
            (&true.into(), &false.into()),
            "{level}: {shown}"
        );
        assert_eq!(home.run(["--json", "remove", &job]).code(1).error_json()["error"]["code"], "live");
        let killed = home.json(["kill", &job])[0].take();
        assert_eq!(
            (&killed["already_ended"], &killed["status"]),
            (&false.into(), &"failed".into()),
            "{killed}"
        );
        assert!(!is_running(left), "{level}");
        let shown = home.show(&job);
        assert!(shown["closed_at"].is_string() && shown["orphaned"] == false, "{level}: {shown}");
        assert_eq!(shown["exit_code"], 5, "{level}: what was recorded stays");
        home.run(["remove", &job]).ok();
    }
}

#[test]
fn others_of_a_command_that_died_with_its_keeper_are_found_and_ended() {
    let home = Home::new();
    for level in levels().into_iter().filter(|level| *level != "group") {
        let line = "sleep 300 & echo $! > left; echo up; wait";
        let job = home.start_with(&["--containment", level], ["sh", "-c", line]);
        home.wait_for_output(&job, "up");
        let left: i32 = fs::read_to_string(home.path().join("left")).unwrap().trim().parse().unwrap();
        let shown = home.show(&job);
        let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
        // The stopped keeper does not reap the command, and once it is killed no front end can learn the status.
        signal(keeper, "STOP");
        signal(command, "KILL");
        outlive_tests::kill_with_guard(keeper);
        until("both are gone", || !is_running(keeper) && !is_running(command));
        let shown = home.show(&job);
        assert_eq!(
            (&shown["status"], &shown["orphaned"]),
            (&"lost".into(), &true.into()),
            "{level}: {shown}"
        );
        assert!(is_running(left), "{level}");
        home.run(["kill", &job]).ok();
        assert!(!is_running(left), "{level}");
        assert_eq!(home.show(&job)["orphaned"], false, "{level}");
        assert_eq!(events(&home, &job).iter().filter(|word| *word == "lost").count(), 1, "{level}");
    }
}

#[test]
fn a_command_that_runs_without_a_snapshot_is_found_by_its_environment() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let command = home.orphan(&job);
    // As after K2 of the crash table.
    fs::remove_file(home.job_dir(&job).join("meta.json")).unwrap();
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["orphaned"]), (&"running".into(), &true.into()), "{shown}");
    assert_eq!(home.json(["kill", &job])[0]["status"], "killed");
    assert!(!is_running(command));
}

#[test]
fn an_end_that_a_front_end_finds_out_is_one_event() {
    let home = Home::new();
    // Of another boot.
    let job = home.start(["sleep", "300"]);
    let command = home.orphan(&job);
    let path = home.job_dir(&job).join("spec.json");
    let mut spec: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    spec["host"]["boot"] = json!("before this one");
    fs::write(&path, spec.to_string()).unwrap();
    // An intent without a keeper, as after F5 of the crash table.
    let never = home.start(["true"]);
    home.wait(&never);
    until("its keeper is gone", || home.keepers().is_empty());
    fs::remove_file(home.job_dir(&never).join("meta.json")).unwrap();
    fs::write(home.job_dir(&never).join("outcome"), [0; 4096]).unwrap();
    let mut events_file = fs::File::options();
    events_file.write(true).truncate(true).open(home.store().join("sessions/default/events")).unwrap();

    // Many look at the same time.
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| home.run(["list"]).ok())));
    });
    let shown = home.show(&job);
    assert!(shown["reason"].as_str().unwrap().contains("restarted"), "{shown}");
    assert_eq!(home.show(&never)["cause"], "never_started");
    assert_eq!(events(&home, &job), ["lost"]);
    assert_eq!(events(&home, &never), ["exited"]);
    // Not a stranger: the test knows it for its own.
    signal(command, "KILL");
    until("it is gone", || !is_running(command));
}

/// Starts a process with a chosen environment, which is no process of any job.
fn stranger(environment: &[(&str, &str)]) -> std::process::Child {
    let mut command = Command::new("sleep");
    command.arg("300").env_clear().envs(environment.iter().copied()).stdin(Stdio::null()).spawn().unwrap()
}

#[test]
fn nobody_else_is_signalled_for_an_orphan() {
    let home = Home::new();
    let store = home.store().display().to_string();
    let other = Home::new();
    let other_store = other.store().display().to_string();
    for level in ["sweep", levels()[0]] {
        let name = format!("n{level}");
        // Older than the job, though it has its environment.
        let mut strangers = vec![stranger(&[("OUTLIVE_JOB", "x-0000"), ("OUTLIVE_HOME", &store)])];
        let job = home.start_with(&["--containment", level, "--name", &name], ["sleep", "300"]);
        let kept = home.start_with(&["--containment", level], ["sleep", "300"]);
        // Of another job, another store, or none.
        strangers.push(stranger(&[("OUTLIVE_JOB", &kept), ("OUTLIVE_HOME", &store)]));
        strangers.push(stranger(&[("OUTLIVE_JOB", &job), ("OUTLIVE_HOME", &other_store)]));
        strangers.push(stranger(&[("OUTLIVE_JOB", &job)]));
        strangers.push(stranger(&[("NOT_OUTLIVE_JOB", &job), ("OUTLIVE_HOME", &store)]));
        let inner = home.start_with(&["--containment", level], ["outlive", "run", "--", "sleep", "300"]);
        home.wait(&inner);
        home.orphan(&job);
        // A snapshot that names the group of another job must not be believed.
        let path = home.job_dir(&job).join("meta.json");
        let mut meta: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let group =
            serde_json::from_slice::<Value>(&fs::read(home.job_dir(&kept).join("meta.json")).unwrap());
        meta["containment"]["group"] = group.unwrap()["containment"]["group"].clone();
        fs::write(&path, meta.to_string()).unwrap();

        assert_eq!(home.json(["kill", "--force", &job])[0]["status"], "killed");
        for stranger in &mut strangers {
            assert!(stranger.try_wait().unwrap().is_none(), "{level}: a stranger was ended");
        }
        assert_eq!(home.show(&kept)["status"], "running", "{level}");
        for mut stranger in strangers {
            stranger.kill().unwrap();
            stranger.wait().unwrap();
        }
        home.run(["kill", "--all"]).ok();
    }
}

#[test]
fn a_job_inside_an_orphan_is_not_reached() {
    let home = Home::new();
    for level in ["sweep", levels()[0]] {
        let line = format!("outlive run --containment {level} -- sleep 300 > inner; echo up; exec sleep 300");
        let outer = home.start_with(&["--containment", level], ["sh", "-c", &line]);
        home.wait_for_output(&outer, "up");
        let inner = fs::read_to_string(home.path().join("inner")).unwrap().trim().to_owned();
        // Its own keeper is gone, too: only its environment and its group tell which job it belongs to.
        home.orphan(&inner);
        home.orphan(&outer);
        let command = pid(&home.show(&inner), "pid");
        assert_eq!(home.json(["kill", &outer])[0]["status"], "killed", "{level}");
        assert!(is_running(command), "{level}: an inner job was ended with the outer one");
        assert_eq!(home.show(&inner)["orphaned"], true, "{level}");
        home.run(["kill", &inner]).ok();
        assert!(!is_running(command), "{level}");
    }
}

#[test]
fn a_front_end_inside_an_orphan_does_not_end_it() {
    let home = Home::new();
    let line = "until [ -e go ]; do sleep 0.01; done; outlive --json kill $OUTLIVE_JOB > /dev/null 2> said; echo $? > code; sleep 300";
    let job = home.start_with(&["--containment", "sweep"], ["sh", "-c", line]);
    let command = home.orphan(&job);
    fs::write(home.path().join("go"), "").unwrap();
    until("it was answered", || fs::read_to_string(home.path().join("code")).is_ok_and(|code| code == "1\n"));
    let said: Value = serde_json::from_slice(&fs::read(home.path().join("said")).unwrap()).unwrap();
    assert_eq!(said["error"]["code"], "own_ancestor");
    assert!(is_running(command));
}

/// A number that looks random and comes back with its seed.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Must show: so many keepers are killed at random moments; every job becomes orphaned and then ended, or lost; never
/// completed; all trees are stopped. `OUTLIVE_TEST_KEEPERS=100` for the full number, `OUTLIVE_TEST_SEED` to repeat.
#[test]
fn keepers_killed_at_random_moments_cost_no_truth() {
    let count = number("OUTLIVE_TEST_KEEPERS", 12);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let first = number("OUTLIVE_TEST_SEED", u64::from(now.subsec_nanos()) | 1);
    report(&format!("OUTLIVE_TEST_SEED={first} OUTLIVE_TEST_KEEPERS={count}"));
    for level in ["sweep", levels()[0]] {
        let mut seed = first;
        let home = Home::new();
        let (mut orphaned, mut lost, mut killed) = (0, 0, 0);
        for _ in 0..count {
            // Some end by themselves about when the keeper is killed; some write without end; some start many.
            let line = match next(&mut seed) % 4 {
                0 => "echo one; sleep 0.02; echo two; exit 3".to_owned(),
                1 => "yes line".to_owned(),
                2 => "for n in 1 2 3 4; do (sleep 300 &); done; setsid sleep 300 & wait".to_owned(),
                _ => "trap '' TERM PIPE; while :; do echo line; sleep 0.01; done".to_owned(),
            };
            let after = Duration::from_micros(next(&mut seed) % 40_000);
            let job = home.start_with(&["--containment", level, "--grace", "100ms"], ["sh", "-c", &line]);
            std::thread::sleep(after);
            let keeper = home.keepers();
            keeper.iter().for_each(|&keeper| outlive_tests::kill_with_guard(keeper));
            until("the keepers are gone", || !keeper.iter().any(|&keeper| is_running(keeper)));

            let shown = home.show(&job);
            let was_recorded = shown["closed_at"].is_string() && shown["cause"] == "natural";
            if was_recorded {
                // It had ended before its keeper was killed; that is its outcome.
                assert_eq!(
                    (&shown["status"], &shown["exit_code"]),
                    (&"failed".into(), &3.into()),
                    "{line}: {shown}"
                );
                continue;
            }
            orphaned += u64::from(shown["orphaned"] == true);
            let answer = home.json(["kill", &job])[0].take();
            assert_eq!(answer["survivors"], json!([]), "{line}: {answer}");
            let shown = home.show(&job);
            assert_eq!(shown["orphaned"], false, "{line}: {shown}");
            match shown["status"].as_str().unwrap() {
                "killed" => killed += 1,
                "lost" => lost += 1,
                // Its end was recorded, and only what it left behind was an orphan.
                "failed" => assert_eq!(shown["exit_code"], 3, "{line}: {shown}"),
                other => panic!("{other}: {line}: {shown}"),
            }
            let ends = events(&home, &job).into_iter().filter(|word| word == "lost" || word == "exited");
            assert_eq!(ends.count(), 1, "{line}: {shown}");
            let left = home.processes();
            assert!(left.is_empty(), "{line}: {left:?}: {answer}");
        }
        report(&format!(
            "{level}: {count} keepers killed, {orphaned} orphaned, {killed} killed, {lost} lost"
        ));
        assert!(orphaned > 0, "no job was caught while it ran");
    }
}
