//! The command that is run at a job's end: the keeper's last act, in the job's directory and environment, with the notice on its
//! standard input; what became of it is told by `show`.
//!
//! S3-10 and S3-32: a completion wakes the agent that started the job; here with the agent's own command.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::path::Path;
use std::time::{Duration, Instant};

use outlive::OnExitState;
use outlive_tests::{Home, LIMIT, millis, until, with_enough_time};
use serde_json::Value;

/// Waits until the command at a job's end is over, or was not run; returns its record in `show`.
fn on_exit(home: &Home, job: &str) -> Value {
    let mut told = Value::Null;
    until("the command at the job's end is over", || {
        told = home.show(job)["on_exit"].take();
        matches!(told["state"].as_str(), Some("ended" | "not_run" | "unknown"))
    });
    told
}

/// Returns the variables that a command wrote with `env -0`.
fn variables(path: &Path) -> impl Fn(&str) -> Option<String> + use<> {
    let text = std::fs::read_to_string(path).unwrap();
    move |name| {
        text.split('\0').find_map(|entry| Some(entry.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
    }
}

#[test]
fn it_gets_the_variables_the_directory_and_the_notice() {
    let home = Home::new();
    let place = home.make_dir("place");
    let options = ["--cwd", place.to_str().unwrap(), "--name", "tests", "--group", "ci", "--env", "OWN=1"];
    let line = "cat >notice; env -0 >variables; pwd >where; umask >mask; echo out; echo err >&2";
    let mut command = home.outlive(["--session", "s", "--reader", "r", "run", "--on-exit", line]);
    command.args(options).args(["--", "sh", "-c", "echo 12 passed; exit 3"]);
    let job = outlive_tests::finish(command, b"").ok().text().trim().to_owned();
    let told = on_exit(&home, &job);
    assert_eq!((&told["state"], &told["exit_code"]), (&"ended".into(), &0.into()), "{told}");
    assert_eq!(told["output"], "out\nerr\n", "{told}");
    let notice = std::fs::read_to_string(place.join("notice")).unwrap();
    assert!(notice.contains("failed: exited with 3") && notice.contains("| 12 passed"), "{notice}");
    let value = variables(&place.join("variables"));
    let events = home.run(["events", "--json", "--session", "s"]).ok().text();
    let mut events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended = events.find(|event| event["event"] == "exited").unwrap();
    for (name, expected) in [
        ("OUTLIVE_HOME", home.store().to_str().unwrap()),
        ("OUTLIVE_JOB", &job),
        ("OUTLIVE_SESSION", "s"),
        ("OUTLIVE_READER", "r"),
        ("OUTLIVE_NAME", "tests"),
        ("OUTLIVE_GROUP", "ci"),
        ("OUTLIVE_COMMAND", "sh -c 'echo 12 passed; exit 3'"),
        ("OUTLIVE_STATUS", "failed"),
        ("OUTLIVE_EXIT_CODE", "3"),
        ("OUTLIVE_SIGNAL", ""),
        ("OUTLIVE_CAUSE", "natural"),
        ("OUTLIVE_REASON", "exited with 3"),
        ("OUTLIVE_SEQUENCE", &ended["seq"].to_string()),
        ("OWN", "1"),
    ] {
        assert_eq!(value(name).as_deref(), Some(expected), "{name}");
    }
    assert!(value("OUTLIVE_RUNTIME_MS").unwrap().parse::<u64>().is_ok());
    let read = |name: &str| std::fs::read_to_string(place.join(name)).unwrap();
    assert_eq!(read("where").trim(), place.to_str().unwrap());
    let shell = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap();
    assert_eq!(read("mask").trim(), String::from_utf8(shell.stdout).unwrap().trim());
    let shown = home.run(["show", &job]).ok().text();
    assert!(shown.contains("on exit"), "{shown}");
}

#[test]
fn a_look_at_the_moment_of_its_end_finds_it_running_or_ended() {
    let home = Home::new();
    let store = home.open();
    for _ in 0..40 {
        let job = home.start_with(&["--on-exit", "true"], ["true"]);
        let job = store.find(&job, None).unwrap();
        let deadline = Instant::now() + LIMIT;
        // Looks without a pause: the moment is short.
        loop {
            let on_exit = job.on_exit(&job.state(&store)).unwrap();
            match on_exit.state {
                OnExitState::Ended => break,
                OnExitState::Waiting | OnExitState::Running => {
                    assert!(Instant::now() < deadline, "{on_exit:?}")
                }
                OnExitState::NotRun | OnExitState::Unknown => panic!("{on_exit:?}"),
            }
        }
    }
}

#[test]
fn its_failure_is_recorded() {
    let home = Home::new();
    let exits = home.start_with(&["--on-exit", "echo no such agent >&2; exit 127"], ["true"]);
    let dies = home.start_with(&["--on-exit", "kill -9 $$"], ["true"]);
    let told = on_exit(&home, &exits);
    assert_eq!(told["exit_code"], 127, "{told}");
    assert_eq!(told["output"], "no such agent\n");
    assert_eq!(on_exit(&home, &dies)["signal"], "SIGKILL");
    let shown = home.run(["show", &exits]).ok().text();
    assert!(shown.contains("exited with 127") && shown.contains("no such agent"), "{shown}");
    assert_eq!(home.show(&exits)["status"], "completed", "it changes nothing about the job");
}

#[test]
fn it_is_run_whatever_the_end() {
    let home = Home::new();
    let line = |name: &str| format!("echo $OUTLIVE_STATUS/$OUTLIVE_CAUSE/$OUTLIVE_SIGNAL >{name}");
    let killed = home.start_with(&["--on-exit", &line("killed")], ["sleep", "1000"]);
    home.run(["kill", &killed]).ok();
    let over = home.start_with(&["--on-exit", &line("over"), "--timeout", "50ms"], ["sleep", "1000"]);
    assert_eq!(home.run(["run", "--on-exit", &line("never"), "--", "/no/such/program"]).code, 127);
    let listed = home.json(["list"]);
    let never = listed.as_array().unwrap().iter().find(|job| job["cause"] == "never_started").unwrap();
    for job in [&killed, &over, never["job"].as_str().unwrap()] {
        assert_eq!(on_exit(&home, job)["exit_code"], 0);
    }
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap().trim().to_owned();
    assert_eq!(read("killed"), "killed/kill/SIGTERM");
    assert_eq!(read("over"), "timed_out/timeout/SIGTERM");
    assert_eq!(read("never"), "failed/never_started/");
}

/// A job that is removed as soon as a wait for its end returns has its command run all the same.
#[test]
fn a_job_that_is_removed_meanwhile_has_it_run() {
    let home = Home::new();
    for number in 0..5 {
        let job = home.start_with(&["--on-exit", &format!("cat >told{number}")], ["echo", "hi"]);
        home.wait(&job);
        home.run(["remove", &job]).ok();
        let told = home.path().join(format!("told{number}"));
        until("it is told", || std::fs::read_to_string(&told).is_ok_and(|text| text.contains("| hi")));
        assert!(!home.job_dir(&job).exists());
    }
    // And one that is removed while its command runs.
    let job = home.start_with(
        &["--on-exit", "echo >begun; until [ -e go ]; do sleep 0.01; done; echo >over"],
        ["true"],
    );
    until("it has begun", || home.path().join("begun").exists());
    home.run(["remove", &job]).ok();
    std::fs::write(home.path().join("go"), "").unwrap();
    until("it is over", || home.path().join("over").exists());
    assert!(!home.job_dir(&job).exists(), "nothing is made anew");
}

#[test]
fn one_that_does_not_read_prints_a_lot_or_is_binary_harms_nobody() {
    let home = Home::new();
    let deaf = home.start_with(&["--on-exit", "exec <&-; echo done"], ["echo", "hi"]);
    let loud =
        home.start_with(&["--on-exit", "head -c 3000000 /dev/zero | tr '\\0' x; printf the-end"], ["true"]);
    let odd = home.start_with(&["--on-exit", "printf '\\377\\000\\033[31m'"], ["true"]);
    assert_eq!(on_exit(&home, &deaf)["output"], "done\n");
    let told = on_exit(&home, &loud);
    let output = told["output"].as_str().unwrap();
    assert_eq!(output.len(), 4096);
    assert!(output.ends_with("xthe-end"));
    assert_eq!(on_exit(&home, &odd)["exit_code"], 0);
    let shown = home.run(["show", &odd]).ok().text();
    assert!(!shown.contains('\u{1b}'), "no control sequence reaches a terminal");
}

#[test]
fn one_that_never_ends_is_ended_with_its_group() {
    let home = Home::new();
    with_enough_time(Duration::from_millis(300), |time| {
        home.configure(&format!("[job]\non_exit_timeout = \"{}\"\n", millis(time)));
        let line = "echo begun; sleep 1000 & sleep 1000; echo never";
        let told = on_exit(&home, &home.start_with(&["--on-exit", line], ["true"]));
        assert_eq!(told["signal"], "SIGKILL", "{told}");
        let written = outlive::duration::format_duration(time.as_millis().try_into().unwrap());
        assert!(told["error"].as_str().unwrap().contains(&written), "{told}");
        until("nothing of it is left", || home.processes().is_empty());
        assert!(told["output"] == "" || told["output"] == "begun\n", "{told}");
        (told["output"] != "").then_some(())
    });
}

/// What a command leaves behind may go on; the end of the command is recorded at once, and what it printed then, too.
#[test]
fn what_it_leaves_behind_goes_on() {
    let home = Home::new();
    let line = "(until [ -e go ]; do sleep 0.01; done; echo late; echo >left) & echo early";
    let job = home.start_with(&["--on-exit", line], ["true"]);
    let told = on_exit(&home, &job);
    assert_eq!((&told["exit_code"], &told["output"]), (&0.into(), &"early\n".into()), "{told}");
    std::fs::write(home.path().join("go"), "").unwrap();
    until("it goes on", || home.path().join("left").exists());
    until("its output is recorded", || home.show(&job)["on_exit"]["output"] == "early\nlate\n");
}

#[test]
fn programs_that_are_gone_by_then_are_not_missed() {
    let home = Home::new();
    let bin = home.make_dir("bin");
    for name in ["outlive", "outlive-keeper"] {
        std::fs::copy(home.program(name), bin.join(name)).unwrap();
    }
    let line = "until [ -e go ]; do sleep 0.01; done";
    let mut command = home.command(bin.join("outlive"));
    command.args(["run", "--on-exit", "cat >told", line]);
    let job = outlive_tests::finish(command, b"").ok().text().trim().to_owned();
    std::fs::remove_dir_all(&bin).unwrap();
    std::fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(on_exit(&home, &job)["exit_code"], 0);
    assert!(std::fs::read_to_string(home.path().join("told")).unwrap().contains("completed"));
}

#[test]
fn a_directory_that_is_gone_is_said() {
    let home = Home::new();
    let place = home.make_dir("place");
    let cwd = place.to_str().unwrap();
    let line = "cd /; rmdir \"$OLDPWD\"";
    let mut command = home.outlive(["run", "--cwd", cwd, "--on-exit", "pwd", line]);
    command.current_dir("/");
    let job = outlive_tests::finish(command, b"").ok().text().trim().to_owned();
    let told = on_exit(&home, &job);
    assert_eq!(told["output"].as_str().unwrap().trim(), home.store().to_str().unwrap());
    assert!(told["note"].as_str().unwrap().contains("gone"), "{told}");
}

#[test]
fn jobs_can_be_started_from_it() {
    let home = Home::new();
    let job = home.start_with(&["--on-exit", "outlive run --name inner -- echo from inside"], ["true"]);
    assert_eq!(on_exit(&home, &job)["exit_code"], 0);
    let inner = home.wait("inner");
    assert_eq!((&inner["status"], &inner["parent"]), (&"completed".into(), &job.as_str().into()));
    assert_eq!(home.logs("inner"), b"from inside\n");
}

/// The store is the job's own, whatever its environment names.
#[test]
fn an_environment_that_names_another_store_leads_nobody_astray() {
    let home = Home::new();
    let options =
        ["--env", "OUTLIVE_HOME=/no/such/store", "--env", "HOME=/nowhere", "--on-exit", "echo $OUTLIVE_HOME"];
    let job = home.start_with(&options, ["true"]);
    let told = on_exit(&home, &job);
    assert_eq!(told["output"].as_str().unwrap().trim(), home.store().to_str().unwrap(), "{told}");
    let bare = home.start_with(
        &["--unset", "OUTLIVE_HOME", "--unset", "HOME", "--unset", "PATH", "--on-exit", "echo $OUTLIVE_JOB"],
        ["/bin/true"],
    );
    assert_eq!(on_exit(&home, &bare)["output"].as_str().unwrap().trim(), bare);
}

#[test]
fn twenty_at_once_are_all_told() {
    let home = Home::new();
    let line = "echo $OUTLIVE_EXIT_CODE $OUTLIVE_SEQUENCE >told.$OUTLIVE_JOB";
    let wait = "until [ -e go ]; do sleep 0.01; done; exit";
    let jobs: Vec<String> = (0..20)
        .map(|code| home.start_with(&["--on-exit", line], ["sh", "-c", &format!("{wait} {code}")]))
        .collect();
    std::fs::write(home.path().join("go"), "").unwrap();
    let mut sequences = std::collections::HashSet::new();
    for (code, job) in jobs.iter().enumerate() {
        assert_eq!(on_exit(&home, job)["exit_code"], 0);
        let told = std::fs::read_to_string(home.path().join(format!("told.{job}"))).unwrap();
        let (exit_code, seq) = told.trim().split_once(' ').unwrap();
        assert_eq!(exit_code, code.to_string());
        assert!(sequences.insert(seq.parse::<u64>().unwrap()), "{seq} twice");
    }
}

/// Only a keeper is meant to do this; run by hand, it repeats nothing.
#[test]
fn it_is_run_once() {
    let home = Home::new();
    let job = home.start_with(&["--on-exit", "echo told >>told"], ["true"]);
    on_exit(&home, &job);
    let spec: Value =
        serde_json::from_slice(&std::fs::read(home.job_dir(&job).join("spec.json")).unwrap()).unwrap();
    let nonce = spec["nonce"].as_str().unwrap();
    // A running keeper of an earlier build calls it by its old name.
    for verb in ["on-exit", "parting"] {
        assert!(home.run([verb, &job, nonce]).code(1).error().contains("was done already"));
    }
    home.run(["on-exit", &job, "00000000000000000000000000000000"]).code(1);
    home.run(["on-exit", &job, "x"]).code(2);
    assert_eq!(std::fs::read_to_string(home.path().join("told")).unwrap(), "told\n");
    let live = home.start_with(&["--on-exit", "echo live >>told"], ["sleep", "1000"]);
    let spec: Value =
        serde_json::from_slice(&std::fs::read(home.job_dir(&live).join("spec.json")).unwrap()).unwrap();
    assert!(
        home.run(["on-exit", &live, spec["nonce"].as_str().unwrap()])
            .code(1)
            .error()
            .contains("has not ended")
    );
    assert_eq!(std::fs::read_to_string(home.path().join("told")).unwrap(), "told\n");
    home.run(["kill", &live]).ok();
    on_exit(&home, &live);
}
