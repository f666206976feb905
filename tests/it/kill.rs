//! Ending a job with everything it started, and nothing else.
//!
//! Proves S0-72, S0-75 and S0-76 (a signal, TERM by default, or KILL by force), S0-73 (ending never breaks the rest),
//! S1-70, S2-41, S2-42, S2-58 and S3-57 (TERM, then KILL), S2-61 (ending what has ended is no failure), S4-32 and S4-33
//! (not the process alone but all of its group, and more), S0-26, S1-71 and S4-35 (it is `killed`, whatever its exit
//! status says).

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlive::Level;
use outlive_tests::{
    Home, LIMIT, binary, end_within, everywhere, finish, is_running, millis, pid, signal, until,
    with_enough_time,
};
use serde_json::Value;

/// Takes TERM as a hint only, and says so.
const STUBBORN: &str = "trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done";

fn start_with(home: &Home, options: &[&str], line: &str) -> String {
    let mut command = home.outlive(["run"]);
    command.args(options).arg(line);
    finish(command, b"").ok().text().trim_end().to_owned()
}

fn ready(home: &Home, options: &[&str], line: &str) -> String {
    let job = start_with(home, options, line);
    home.wait_for_output(&job, "ready");
    job
}

/// Returns the processes of this home's jobs, without the keepers and front ends.
fn commands(home: &Home) -> Vec<i32> {
    let is_of_job = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|entry| entry.starts_with(b"OUTLIVE_JOB="))
    };
    home.processes().into_iter().filter(is_of_job).collect()
}

/// Ends a job and asserts that at that moment nothing of it is left.
fn kill(home: &Home, arguments: &[&str]) -> Value {
    let tree = commands(home);
    let mut command = vec!["kill"];
    command.extend(arguments);
    let killed = home.json(command)[0].take();
    assert_eq!(killed["survivors"], Value::Array(Vec::new()));
    let left: Vec<i32> = tree.into_iter().filter(|&pid| is_running(pid)).collect();
    assert!(left.is_empty(), "the answer came before these were gone: {left:?}");
    killed
}

#[test]
fn the_whole_tree_goes_whatever_it_does_to_escape() {
    let home = Home::new();
    let line = "sleep 300 & setsid sleep 300 & (setsid sh -c 'sleep 300 >/dev/null 2>&1 & exec sleep 300' &)
        (trap '' TERM; exec sleep 300) & nohup sleep 300 >/dev/null 2>&1 & echo ready; wait";
    // All but the one that ignores it must come to hear of TERM in the grace.
    with_enough_time(Duration::from_millis(300), |grace| {
        let job = ready(&home, &["--grace", &millis(grace)], line);
        // The shell and six sleeps.
        until("all are started", || commands(&home).len() == 7);
        let killed = kill(&home, &[&job]);
        assert_eq!((&killed["status"], &killed["already_ended"]), (&"killed".into(), &false.into()));
        assert_eq!(killed["signalled"], 7);
        assert!(commands(&home).is_empty());
        let ended = home.show(&job);
        assert_eq!((&ended["status"], &ended["cause"]), (&"killed".into(), &"kill".into()));
        assert!(ended["reason"].as_str().unwrap().contains("killed by outlive kill"), "{ended}");
        assert!(ended["exit_code"].is_null() && ended["closed_at"].is_string(), "{ended}");
        (ended["signal"] == "SIGTERM").then_some(())
    });
}

#[test]
fn a_command_that_ignores_term_is_killed_after_the_grace() {
    let home = Home::new();
    // It must come to say so in its grace.
    with_enough_time(Duration::from_millis(400), |grace| {
        let job = ready(&home, &["--grace", &millis(grace)], STUBBORN);
        let before = Instant::now();
        kill(&home, &[&job]);
        assert!(before.elapsed() >= grace, "it did not get its grace");
        let ended = home.show(&job);
        assert_eq!((&ended["status"], &ended["signal"]), (&"killed".into(), &"SIGKILL".into()));
        has_said(&home, &job, "term")
    });
}

/// Tells whether a job has printed something; `None` if not.
fn has_said(home: &Home, job: &str, what: &str) -> Option<()> {
    String::from_utf8_lossy(&home.logs(job)).contains(what).then_some(())
}

#[test]
fn the_grace_can_be_given_with_the_kill() {
    let home = Home::new();
    let job = ready(&home, &["--grace", "1h"], STUBBORN);
    kill(&home, &["--grace", "100ms", &job]);
    assert_eq!(home.show(&job)["signal"], "SIGKILL");
}

#[test]
fn a_command_that_exits_well_in_its_grace_is_killed_all_the_same() {
    let home = Home::new();
    let line = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let job = ready(&home, &["--grace", "1h"], line);
    kill(&home, &[&job]);
    let ended = home.show(&job);
    assert_eq!(
        (&ended["status"], &ended["exit_code"], &ended["cause"]),
        (&"killed".into(), &0.into(), &"kill".into())
    );
    assert!(String::from_utf8(home.logs(&job)).unwrap().contains("bye\n"), "its last words are lost");
}

#[test]
fn force_does_not_ask() {
    let home = Home::new();
    let job = ready(&home, &["--grace", "1h"], STUBBORN);
    kill(&home, &["--force", &job]);
    assert_eq!(home.show(&job)["signal"], "SIGKILL");
    assert!(!String::from_utf8(home.logs(&job)).unwrap().contains("term"), "it was asked first");
}

#[test]
fn a_stopped_command_hears_the_request() {
    let home = Home::new();
    let job = ready(&home, &["--grace", "1h"], "sleep 300 & kill -STOP $!; echo ready; wait");
    let main = pid(&home.show(&job), "pid");
    signal(main, "STOP");
    let is_stopped = |pid| outlive_sys::identity::Stat::read(pid).is_some_and(|stat| stat.state == 'T');
    until("both are stopped", || commands(&home).into_iter().all(is_stopped));
    kill(&home, &[&job]);
    assert_eq!(home.show(&job)["signal"], "SIGTERM");
}

#[test]
fn a_hundred_children_go() {
    let home = Home::new();
    let job = ready(&home, &[], "for n in $(seq 100); do sleep 300 & done; echo ready; wait");
    until("all are started", || commands(&home).len() == 101);
    assert_eq!(kill(&home, &[&job])["signalled"], 101);
}

#[test]
fn each_process_is_counted_once() {
    const CHILDREN: usize = 300;
    everywhere(|home, level| {
        // Out of the process group, and children of the keeper: every way to find and to end them comes upon them.
        let setsid = if level == Level::Group { "" } else { "setsid" };
        let line = format!(
            "for i in $(seq {CHILDREN}); do ({setsid} sleep 300 &); done; echo ready; exec sleep 300"
        );
        for options in [&["--force"][..], &[]] {
            let job = home.start_with(&["--containment", level.word()], ["sh", "-c", &line]);
            home.wait_for_output(&job, "ready");
            let killed = kill(home, &[options, &[&job]].concat());
            assert_eq!(killed["signalled"], CHILDREN + 1, "{level:?} {options:?}");
        }
    });
}

#[test]
fn a_job_inside_is_spared_where_outlive_is_its_own_keeper() {
    let home = Home::new();
    let lone = home.path().join("outlive");
    std::fs::copy(binary("outlive"), &lone).unwrap();
    let inner = format!("{} run --name inner --containment sweep -- sleep 300", lone.display());
    let mut command = home.command(&lone);
    command.args(["run", "--name", "outer", "--containment", "sweep", "--", "sh", "-c"]);
    command.arg(format!("{inner}; echo ready; sleep 300"));
    finish(command, b"").ok();
    home.wait_for_output("outer", "ready");
    home.run(["kill", "--force", "outer"]).ok();
    assert_eq!(home.show("inner")["status"], "running");
}

#[test]
fn children_that_are_born_of_the_signal_go_too() {
    let home = Home::new();
    let line =
        "trap 'sleep 300 & setsid sleep 300 & echo born' TERM; echo ready; while :; do sleep 0.05; done";
    with_enough_time(Duration::from_millis(500), |grace| {
        let job = ready(&home, &["--grace", &millis(grace)], line);
        kill(&home, &[&job]);
        assert!(commands(&home).is_empty());
        has_said(&home, &job, "born")
    });
}

#[test]
fn a_tree_that_runs_away_is_caught() {
    let home = Home::new();
    let hops = binary("hops").display().to_string();
    for arguments in [["--force"].as_slice(), ["--grace", "200ms"].as_slice()] {
        // It would go on for longer than ending it may take.
        let job = home.start([&hops, &(2 * LIMIT).as_millis().to_string(), "3"]);
        assert_eq!(home.wait(&job)["lingering"], true, "it is on its way");
        let mut command = arguments.to_vec();
        command.push(&job);
        kill(&home, &command);
        assert!(commands(&home).is_empty());
        assert!(home.show(&job)["closed_at"].is_string());
    }
}

#[test]
fn a_signal_alone_is_sent_and_no_more() {
    let home = Home::new();
    let line = "trap 'echo got it' USR1; echo ready; while :; do sleep 0.05; done";
    let job = ready(&home, &["--grace", "0s"], line);
    let sent = home.json(["kill", "--signal", "USR1", &job]);
    assert_eq!((&sent[0]["already_ended"], &sent[0]["status"]), (&false.into(), &"running".into()));
    home.wait_for_output(&job, "got it");
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&"running".into(), &Value::Null));
    home.run(["kill", "--signal", "SIGUSR1", &job]).ok();
    until("it hears a second one", || {
        String::from_utf8(home.logs(&job)).unwrap().matches("got it").count() == 2
    });
    home.run(["kill", "--signal", "NOSUCH", &job]).code(2);
}

#[test]
fn a_signal_that_ends_the_command_is_a_kill() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    home.run(["kill", "--signal", "HUP", &job]).ok();
    let ended = home.wait(&job);
    assert_eq!(
        (&ended["status"], &ended["signal"], &ended["cause"]),
        (&"killed".into(), &"SIGHUP".into(), &"kill".into())
    );
}

#[test]
fn a_signal_with_a_grace_takes_the_place_of_term() {
    let home = Home::new();
    let line = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done";
    with_enough_time(Duration::from_millis(500), |grace| {
        let job = ready(&home, &[], line);
        kill(&home, &["--signal", "INT", "--grace", &millis(grace), &job]);
        assert_eq!(home.show(&job)["signal"], "SIGKILL");
        assert!(has_said(&home, &job, "term").is_none());
        has_said(&home, &job, "int")
    });
}

#[test]
fn ending_what_has_ended_is_no_failure_and_changes_nothing() {
    let home = Home::new();
    let job = home.start_line("exit 7");
    let ended = home.wait(&job);
    for arguments in
        [["kill", &job].as_slice(), &["kill", "--force", &job], &["kill", "--signal", "INT", &job]]
    {
        let killed = home.json(arguments);
        assert_eq!((&killed[0]["already_ended"], &killed[0]["signalled"]), (&true.into(), &0.into()));
        assert_eq!(killed[0]["status"], "failed");
    }
    assert_eq!(home.show(&job)["exit_code"], ended["exit_code"]);
}

#[test]
fn a_job_that_is_still_starting_can_be_ended() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let (gate, slow) = (home.path().join("gate"), home.path().join("slow-keeper"));
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    // A keeper that is held up before it has done anything, as on a machine that is short of everything.
    let (real, gate_path) = (binary("outlive-keeper"), gate.display().to_string());
    let script = format!("#!/bin/bash\n: <{gate_path}\nexec -a outlive-keeper {} \"$@\"\n", real.display());
    std::fs::write(&slow, script).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut starting = home.outlive(["run", "--name", "slow", "--", "sleep", "300"]);
    let starting = starting.env("OUTLIVE_KEEPER", &slow).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut starting = starting.unwrap();
    until("it is in the store", || home.json(["list"]).as_array().unwrap().len() == 1);
    assert_eq!(home.show("slow")["status"], "starting");
    let mut asking = home.outlive(["kill", "slow"]).stdout(Stdio::null()).spawn().unwrap();
    let asking_pid = i32::try_from(asking.id()).unwrap();
    let waits = || outlive_sys::identity::Stat::read(asking_pid).is_none_or(|stat| stat.state != 'R');
    until("the question is asked", waits);
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(&gate).unwrap();
    assert_eq!(end_within(&mut asking, LIMIT), Some(0));
    assert!(end_within(&mut starting, LIMIT).is_some());
    drop(opened);
    let status = home.wait("slow")["status"].clone();
    assert!(status == "killed" || status == "failed", "{status}");
    until("nothing is left of it", || home.processes().is_empty());
}

#[test]
fn an_unknown_job_is_named() {
    let home = Home::new();
    let refused = home.run(["--json", "kill", "nobody-0000"]).code(3).error_json();
    assert_eq!(refused["error"]["code"], "not_found");
    assert!(refused["error"]["message"].as_str().unwrap().contains("nobody-0000"));
}

#[test]
fn several_jobs_are_ended_by_one_command() {
    let home = Home::new();
    let jobs = [home.start(["sleep", "300"]), home.start(["sleep", "300"])];
    let other = home.start(["sleep", "300"]);
    home.run(["kill", &jobs[0], &jobs[1]]).ok();
    assert_eq!(jobs.map(|job| home.show(&job)["status"].clone()), ["killed", "killed"]);
    assert_eq!(home.show(&other)["status"], "running");
}

#[test]
fn several_who_end_it_at_the_same_time_all_succeed() {
    let home = Home::new();
    let job = ready(&home, &["--grace", "300ms"], STUBBORN);
    let ask = || home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().unwrap();
    let mut children: Vec<_> = (0..8).map(|_| ask()).collect();
    for child in &mut children {
        assert_eq!(end_within(child, LIMIT), Some(0));
    }
    assert!(commands(&home).is_empty());
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn a_second_request_can_hasten_the_end() {
    let home = Home::new();
    let job = ready(&home, &["--grace", "1h"], STUBBORN);
    let mut patient = home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().unwrap();
    home.wait_for_output(&job, "term");
    kill(&home, &["--force", &job]);
    assert_eq!(end_within(&mut patient, LIMIT), Some(0));
    assert_eq!(home.show(&job)["signal"], "SIGKILL");
}

#[test]
fn a_bystander_with_the_same_command_line_lives_on() {
    let home = Home::new();
    let mut bystander = Command::new("sleep").arg("271828").spawn().unwrap();
    let job = home.start(["sleep", "271828"]);
    kill(&home, &["--force", &job]);
    let lives = bystander.try_wait().unwrap().is_none();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(lives);
}

#[test]
fn a_job_inside_a_job_outlives_it() {
    let home = Home::new();
    let outer = ready(&home, &[], "outlive run --name inner -- sleep 300; echo ready; sleep 300");
    let inner = home.show("inner");
    let inner_pid = pid(&inner, "pid");
    assert_eq!(inner["parent"], *outer);
    let killed = home.json(["kill", &outer]);
    assert_eq!(
        (&killed[0]["status"], &killed[0]["survivors"]),
        (&"killed".into(), &Value::Array(Vec::new()))
    );
    assert!(is_running(inner_pid));
    assert_eq!(home.show("inner")["status"], "running");
    let closed = home.show(&outer);
    assert_eq!(closed["lingering"], false);
    assert!(closed["closed_at"].is_string(), "{closed}");
    // Its keeper serves it as before.
    assert_eq!(kill(&home, &["inner"])["status"], "killed");
}

#[test]
fn a_job_does_not_linger_for_one_that_was_started_inside_it() {
    let home = Home::new();
    let outer = home.start_line("outlive run --name inner -- sleep 300");
    assert_eq!(home.wait(&outer)["status"], "completed");
    until("the outer job is closed", || home.show(&outer)["closed_at"].is_string());
    assert_eq!(home.show(&outer)["lingering"], false);
    assert_eq!(home.show("inner")["status"], "running");
    home.run(["remove", &outer]).ok();
    assert_eq!(home.show("inner")["status"], "running");
}

#[test]
fn the_keeper_completes_what_a_dead_front_end_asked_for() {
    let home = Home::new();
    with_enough_time(Duration::from_millis(500), |grace| {
        let (job, mut asking) = asked_to_end(&home, grace);
        asking.kill().unwrap();
        asking.wait().unwrap();
        let is_in_time = home.show(&job)["status"] == "running";
        let ended = home.wait(&job);
        assert_eq!((&ended["status"], &ended["signal"]), (&"killed".into(), &"SIGKILL".into()));
        is_in_time.then_some(())
    });
}

/// Starts a stubborn job and has it asked to end; returns when it was, with the front end that asked.
fn asked_to_end(home: &Home, grace: Duration) -> (String, Child) {
    let job = ready(home, &["--grace", &millis(grace)], STUBBORN);
    let asking = home.outlive(["kill", &job]).stdout(Stdio::null()).spawn().expect("it is built");
    until("it was asked, or its grace is over", || {
        has_said(home, &job, "term").is_some() || home.show(&job)["status"] == "killed"
    });
    (job, asking)
}

#[test]
fn a_stopped_front_end_that_asked_does_not_hold_up_the_end() {
    let home = Home::new();
    with_enough_time(Duration::from_millis(500), |grace| {
        let (job, mut asking) = asked_to_end(&home, grace);
        let front_end = i32::try_from(asking.id()).unwrap();
        signal(front_end, "STOP");
        let is_in_time = home.show(&job)["status"] == "running";
        assert_eq!(home.wait(&job)["status"], "killed");
        until("the keeper is gone", || home.keepers().is_empty());
        signal(front_end, "CONT");
        assert_eq!(end_within(&mut asking, LIMIT), Some(0));
        is_in_time.then_some(())
    });
}
