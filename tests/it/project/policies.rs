//! Restart policies: a job that ends by itself is followed by another run, made without any front end.
//!
//! Proves that a stop is never a failure, that the environment of later runs is in memory alone, that giving up is told with its
//! reason, and that whatever process of outlive is killed meanwhile, the next run comes, once.

use std::time::Instant;

use outlive_tests::{Home, finish, guard_of, is_running, pid, signal, until};
use serde_json::{Value, json};

use super::Project;

fn runs(home: &Home, name: &str) -> Vec<Value> {
    let jobs = home.json(["list"]);
    jobs.as_array().expect("a list").iter().filter(|job| job["name"] == name).cloned().collect()
}

fn statuses(home: &Home, name: &str) -> Vec<String> {
    runs(home, name).iter().map(|job| job["status"].as_str().expect("a word").to_owned()).collect()
}

fn newest(home: &Home, name: &str) -> Value {
    runs(home, name).pop().expect("there is a run")
}

/// Asserts that each run names the one before it: none was made twice, and none beside another.
fn assert_chain(home: &Home, name: &str) {
    let runs = runs(home, name);
    for (before, after) in runs.iter().zip(&runs[1..]) {
        assert_eq!(after["previous"], before["job"], "{runs:#?}");
    }
}

#[test]
fn what_fails_is_started_again_with_its_environment_until_it_gives_up() {
    // pitchfork#657: a crash was taken for a stop, and nothing followed; tilt#5327: there was no restart.
    let home = Home::new();
    let mut command = home.outlive(["run", "--name", "web", "--restart", "on-failure"]);
    command.args(["--restart-tries", "2", "--env", "ADDED=1", "echo \"$ADDED ${#INHERITED}\"; exit 3"]);
    command.env("INHERITED", "never-on-disk");
    finish(command, b"").ok();
    until("it gives up", || {
        newest(&home, "web")["reason"].as_str().is_some_and(|why| why.contains("gave up"))
    });
    assert_eq!(statuses(&home, "web"), ["failed"; 3]);
    assert_chain(&home, "web");
    let last = newest(&home, "web");
    assert_eq!(last["reason"], "exited with 3; gave up: 2 restarts within 1m 0s");
    assert!(home.run(["list"]).ok().text().contains("failed: 3, gave up"));
    assert_eq!(home.run(["logs", "web"]).ok().text(), "1 13\n1 13\n1 13\n");
    assert!(home.run(["events"]).ok().text().contains("gave_up"));
    let found = std::process::Command::new("grep").args(["-r", "never-on-disk"]).arg(home.store()).output();
    assert_eq!(String::from_utf8_lossy(&found.expect("grep runs").stdout), "");
    until("no process of it is left", || home.processes().is_empty());
}

/// Before this, the run before it lingered for as long as the process beside the next run lived.
#[test]
fn a_run_is_closed_though_the_next_one_is_not_ready() {
    let home = Home::new();
    let options = ["--name", "web", "--restart", "on-failure", "--restart-delay", "10ms", "--ready-on", "up"];
    let line = "if test -e again; then echo second; exec sleep 300; fi; touch again; exit 3";
    let first = home.start_with(&options, ["sh", "-c", line]);
    until("its next run is there", || newest(&home, "web")["status"] == "running");
    until("the first is closed", || home.show(&first)["lingering"] == false);
    home.run(["kill", "web"]).ok();
    until("no process of it is left", || home.processes().is_empty());
}

#[test]
fn each_wait_is_longer_than_the_one_before() {
    let home = Home::new();
    home.start_with(&["--name", "web", "--restart", "always", "--restart-tries", "2"], ["true"]);
    until("it gives up", || home.run(["events"]).ok().text().contains("gave_up"));
    let runs = runs(&home, "web");
    assert_eq!(statuses(&home, "web"), ["completed"; 3], "always means after a success, too");
    let spec = |job: &Value| -> Value {
        let id = job["job"].as_str().expect("an id");
        serde_json::from_slice(&std::fs::read(home.job_dir(id).join("spec.json")).expect("it is there"))
            .expect("JSON")
    };
    let waits: Vec<u64> = runs[1..]
        .iter()
        .map(|run| {
            let rerun = &spec(run)["rerun"];
            let ended = rerun["ends_boot_us"].as_array().and_then(|ends| ends.last()?.as_u64());
            rerun["due_boot_us"].as_u64().expect("a time") - ended.expect("a time")
        })
        .collect();
    assert!(
        (375_000..=500_000).contains(&waits[0]) && (750_000..=1_000_000).contains(&waits[1]),
        "{waits:?}"
    );
    for (run, rerun) in runs[1..].iter().map(|run| (run, spec(run)["rerun"].clone())) {
        let id = run["job"].as_str().expect("an id");
        let meta = std::fs::read(home.job_dir(id).join("meta.json")).expect("it is there");
        let meta: Value = serde_json::from_slice(&meta).expect("JSON");
        assert!(meta["started_boot_us"].as_u64() >= rerun["due_boot_us"].as_u64(), "never too early: {meta}");
    }
}

#[test]
fn a_stop_that_was_asked_for_is_no_failure() {
    let home = Home::new();
    let options = ["--name", "web", "--restart", "always"];
    let line = "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done";
    let first = home.start_with(&options, ["sh", "-c", line]);
    home.wait_for_output(&first, "up");
    home.run(["kill", "web"]).ok();
    assert_eq!(statuses(&home, "web"), ["killed"], "no run followed when the kill was answered");
    let second = home.start_with(&options, ["sleep", "300"]);
    home.run(["kill", "--signal", "INT", &second]).ok();
    home.start_with(&["--name", "done", "--restart", "on-failure"], ["true"]);
    until("all have ended", || home.processes().is_empty());
    assert_eq!(
        (statuses(&home, "web"), statuses(&home, "done")),
        (vec!["killed".to_owned(); 2], vec!["completed".to_owned()])
    );
}

#[test]
fn a_job_that_waits_for_its_next_run_can_be_stopped() {
    let home = Home::new();
    // By its name, and by the id of a run that has ended.
    for by_id in [false, true] {
        let name = format!("web{by_id}");
        let options = ["--name", &name, "--restart", "on-failure", "--restart-delay", "5m"];
        let first = home.start_with(&options, ["false"]);
        until("the next run waits", || newest(&home, &name)["status"] == "queued");
        let next = newest(&home, &name);
        assert_eq!((&next["pid"], &next["exit_code"]), (&Value::Null, &Value::Null));
        assert!(home.run(["list"]).ok().text().contains("queued: starts in "));
        drop(home.run(["remove", next["job"].as_str().expect("an id")]).code(1));
        home.run(["kill", if by_id { &first } else { &name }]).ok();
        assert_eq!(statuses(&home, &name), ["failed", "killed"]);
        let reason = newest(&home, &name)["reason"].clone();
        assert_eq!(reason, "killed by outlive kill before it was started");
        until("no process of it is left", || home.processes().is_empty());
        assert_eq!(runs(&home, &name).len(), 2);
    }
}

#[test]
fn a_restart_does_not_wait_for_the_next_run() {
    let home = Home::new();
    let line = "if [ -e go ]; then exec sleep 300; fi; exit 1";
    let options = ["--name", "web", "--restart", "on-failure", "--restart-delay", "5m"];
    home.start_with(&options, ["sh", "-c", line]);
    until("the next run waits", || newest(&home, "web")["status"] == "queued");
    std::fs::write(home.path().join("go"), "").expect("it can be written");
    home.run(["restart", "web"]).ok();
    assert_eq!(statuses(&home, "web"), ["failed", "killed", "running"]);
    assert_chain(&home, "web");
}

#[test]
fn what_a_run_leaves_behind_is_ended_before_the_next() {
    let home = Home::new();
    let line = "if [ -e left ]; then kill -0 $(cat left) && exit 0; exec sleep 300; fi; sleep 300 & echo $! > left; exit 1";
    let first = home.start_with(&["--name", "web", "--restart", "on-failure"], ["sh", "-c", line]);
    until("the next run runs", || {
        let newest = newest(&home, "web");
        newest["job"] != first.as_str() && newest["status"] == "running"
    });
    let left: i32 =
        std::fs::read_to_string(home.path().join("left")).expect("a pid").trim().parse().expect("a pid");
    assert!(!is_running(left));
    assert_eq!(home.show(&first)["exit_code"], 1);
}

#[test]
fn whatever_is_killed_during_the_wait_the_next_run_comes_once() {
    let home = Home::new();
    let line = "if [ -e go ]; then echo \"$INHERITED\"; exec sleep 300; fi; exit 1";
    // Long enough for what follows, on a machine that is not too busy.
    let mut command =
        home.outlive(["run", "--name", "web", "--restart", "on-failure", "--restart-delay", "4s", line]);
    command.env("INHERITED", "kept");
    finish(command, b"").ok();
    until("the next run waits", || runs(&home, "web").len() == 2);
    std::fs::write(home.path().join("go"), "").expect("it can be written");
    let job = newest(&home, "web")["job"].as_str().expect("an id").to_owned();
    until("it has a keeper", || home.show(&job)["keeper_pid"].is_i64());
    let keeper = || pid(&home.show(&job), "keeper_pid");
    for round in 0..3 {
        let first = keeper();
        signal(first, "KILL");
        until("another keeper waits", || keeper() != first);
        let second = keeper();
        // On a busy machine its time may have come; then its guard is as that of any job.
        if home.show(&job)["status"] != "queued" {
            break;
        }
        let guard = guard_of(second).expect("it has one");
        signal(guard, "KILL");
        until("it has another guard", || {
            let keeper = keeper();
            let has_begun = home.show(&job)["status"] != "queued";
            (keeper != second || has_begun) && guard_of(keeper).is_some_and(|other| other != guard)
        });
        assert_eq!(home.show(&job)["orphaned"], false, "round {round}");
    }
    until("the next run runs", || newest(&home, "web")["status"] == "running");
    home.wait_for_output(&job, "kept");
    assert_eq!(statuses(&home, "web"), ["failed", "running"]);
    // It is a job as any other: with a guard that goes on.
    let first = keeper();
    signal(first, "KILL");
    until("its guard is the keeper", || keeper() != first);
    home.run(["kill", "web"]).ok();
    until("no process of it is left", || home.processes().is_empty());
    assert_chain(&home, "web");
}

#[test]
fn keepers_and_helpers_killed_at_the_end_of_a_run_make_no_second_one() {
    let rounds = std::env::var("OUTLIVE_TEST_RERUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let home = Home::new();
    for round in 0..rounds {
        let name = format!("job{round}");
        let line =
            "if [ -e $0 ]; then exec sleep 300; fi; until [ -e end ]; do sleep 0.005; done; touch $0; exit 1";
        let job = home.start_with(&["--name", &name, "--restart", "on-failure"], ["sh", "-c", line, &name]);
        let keeper = pid(&home.show(&job), "keeper_pid");
        let began = Instant::now();
        std::fs::write(home.path().join("end"), "").expect("it can be written");
        until("it has failed", || home.path().join(&name).exists());
        // At another moment each time, while the run ends and the next is made.
        let moment = std::time::Duration::from_millis(3 * round);
        until("its moment has come", || began.elapsed() >= moment);
        signal(keeper, "KILL");
        until("the next run runs", || {
            runs(&home, &name).len() > 1 && newest(&home, &name)["status"] == "running"
        });
        assert_eq!(statuses(&home, &name), ["failed", "running"], "round {round}");
        assert_chain(&home, &name);
        std::fs::remove_file(home.path().join("end")).expect("it is there");
        home.run(["kill", &name]).ok();
    }
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn both_killed_while_it_waits_is_told_and_not_called_a_run() {
    let home = Home::new();
    home.start_with(&["--name", "web", "--restart", "on-failure", "--restart-delay", "5m"], ["false"]);
    until("the next run waits", || newest(&home, "web")["status"] == "queued");
    let job = newest(&home, "web")["job"].as_str().expect("an id").to_owned();
    until("its keeper has said who it is", || home.show(&job)["keeper_pid"].is_i64());
    outlive_tests::kill_with_guard(pid(&home.show(&job), "keeper_pid"));
    let shown = home.wait(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&json!("failed"), &json!("never_started")), "{shown}");
}

#[test]
fn a_job_of_a_project_is_started_again_and_down_ends_the_wait() {
    let home = Home::new();
    let toml = "[jobs.web]\nrun = 'echo up; exit 1'\nrestart = { when = 'always', tries = 3, delay = '5m', window = '1h' }\n\
        [jobs.other]\nrun = 'false'\nrestart = { when = 'on-failure', delay = '5m' }\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    until("the next run waits", || {
        project.state("web").contains("queued") && project.state("other").contains("queued")
    });
    let why = project.run(&["why", "web"]).ok().text();
    assert!(why.contains("web has ended and is started again in") && why.contains("up"), "{why}");
    // A second `up` leaves the wait as it is.
    assert!(project.run(&["up"]).ok().text().contains("web"));
    project.run(&["down"]).ok();
    assert_eq!(project.live(), [""; 0]);
    until("no process is left", || home.processes().is_empty());
    let ended = runs(&home, "web").len();
    assert_eq!(newest(&home, "web")["status"], "killed");
    assert_eq!(runs(&home, "web").len(), ended);

    project.write("outlive.toml", "[jobs.web]\nrun = 'true'\nrestart = 'sometimes'\n");
    let refused = project.run(&["up"]);
    assert!(refused.error().contains("outlive.toml:3:11"), "{}", refused.error());
    assert!(refused.error().contains("write no, on-failure or always"), "{}", refused.error());
}

#[test]
fn those_that_wait_for_a_job_wait_through_its_restarts() {
    // process-compose#189: dependents did not wait for a dependency that was restarted.
    let home = Home::new();
    let toml = "[jobs.db]\nrun = 'if [ -e again ]; then echo ready; exec sleep 300; fi; touch again; exit 1'\n\
        ready.line = 'ready'\nrestart = 'on-failure'\n\
        [jobs.migrate]\nrun = 'if [ -e once ]; then exit 0; fi; touch once; exit 1'\nrestart = 'on-failure'\nafter = ['db@ready']\n\
        [jobs.web]\nrun = 'sleep 300'\nafter = ['migrate@succeeded']\n\
        [jobs.bad]\nrun = 'echo no; exit 9'\nrestart = { when = 'on-failure', tries = 1 }\n\
        [jobs.never]\nrun = 'sleep 300'\nafter = ['bad@succeeded']\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up", "--wait"]).code(1);
    assert_eq!(
        (project.state("web"), project.state("never")),
        ("running".to_owned(), "not started".to_owned())
    );
    assert_eq!(statuses(&home, "migrate"), ["failed", "completed"]);
    let why = project.run(&["why", "never"]).text();
    assert!(why.contains("gave up: 1 restart within") && why.contains("| no\n"), "{why}");
    project.run(&["down"]).ok();
    until("no process is left", || home.processes().is_empty());
}

/// A job that is ready with its second run only, which a third waits for.
const AGAIN: &str = "[jobs.db]\nrun = 'if [ -e again ]; then echo ready; fi; touch again; exec sleep 300'\nready.line = 'ready'\n\
    watch = ['src/**']\n[jobs.web]\nrun = 'sleep 300'\nafter = ['db@ready']\n";

/// Before this, a dependent waited through restarts by a policy alone (process-compose#189, compose#11813).
#[test]
fn those_that_wait_for_a_job_wait_through_a_restart_by_hand_and_by_a_change() {
    for is_by_hand in [true, false] {
        let home = Home::new();
        let project = Project::new(&home, "shop", AGAIN);
        std::fs::create_dir(project.dir.join("src")).expect("a directory");
        project.run(&["up"]).ok();
        until("the first run has begun", || project.dir.join("again").exists());
        project.until("web", "waits for db@ready");
        match is_by_hand {
            true => drop(project.run(&["restart", "db"]).ok()),
            false => project.write("src/a", ""),
        }
        project.until("web", "running");
        assert_eq!(statuses(&home, "db"), ["killed", "running"]);
        project.run(&["down"]).ok();
        until("no process is left", || home.processes().is_empty());
    }
}

/// Before this, it waited for the first run only, and failed though all were ready.
#[test]
fn up_waits_for_a_job_that_is_started_again() {
    let home = Home::new();
    let toml = "[jobs.db]\nrun = 'if [ -e again ]; then echo ready; exec sleep 300; fi; touch again; exit 1'\n\
        ready.line = 'ready'\nrestart = 'on-failure'\n";
    let project = Project::new(&home, "shop", toml);
    let said = project.run(&["up", "--wait"]).ok().text();
    assert!(said.ends_with("db is ready\n"), "{said}");
    assert_eq!(statuses(&home, "db"), ["failed", "running"]);
    project.run(&["down"]).ok();
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn a_name_is_followed_through_its_runs() {
    let home = Home::new();
    let line = "echo begun; if [ -e second ]; then exec sleep 300; fi; touch second; exit 1";
    home.start_with(&["--name", "web", "--restart", "on-failure"], ["sh", "-c", line]);
    let shown = home.path().join("shown");
    let mut follower = home.outlive(["logs", "-f", "web"]);
    follower.stdout(std::fs::File::create(&shown).expect("it can be made"));
    let mut follower = follower.spawn().expect("it runs");
    let begun = || std::fs::read_to_string(&shown).unwrap_or_default().matches("begun").count();
    until("the run that follows by itself is shown", || begun() == 2);
    home.run(["restart", "web"]).ok();
    until("and the one that was asked for", || begun() == 3);
    home.run(["kill", "web"]).ok();
    let code = outlive_tests::end_within(&mut follower, outlive_tests::LIMIT);
    assert_eq!((code, begun()), (Some(0), 3), "nothing follows a stop");
}

/// The run that ended is live until the next one is there, which what it has left behind delays here.
#[test]
fn the_run_that_follows_is_named_in_place_of_the_one_that_ended() {
    let home = Home::new();
    let options = ["--name", "web", "--restart", "on-failure", "--restart-delay", "10m", "--grace", "300ms"];
    let line = "trap '' TERM; sleep 600 & exit 3";
    let ended = home.start_with(&options, ["sh", "-c", line]);
    home.wait(&ended);
    let removed = home.run(["rm", "web"]).code(1).error();
    let next = newest(&home, "web")["job"].as_str().expect("an id").to_owned();
    assert!(next != ended && removed.contains(&format!("job {next} is still live")), "{removed}");
    let text = home.run(["wait", &ended]).code(7).text();
    assert!(
        text.contains("exited with 3 after ") && text.contains(&format!("; the next run {next} begins in ")),
        "{text}"
    );
    assert!(home.run(["wait", "--help"]).ok().text().contains("has an end with each run"));
    home.run(["kill", "web"]).ok();
}
