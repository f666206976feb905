//! `outlive restart`: a new run of the same job, once the one before has ended with all that it started.
//!
//! Proves that a run has its own outcome and log, that `logs NAME` joins them, and that two restarts leave one job.

use outlive_tests::{Home, finish, instead, until};
use serde_json::{Value, json};

fn restart(home: &Home, job: &str) -> String {
    home.run(["restart", job]).ok().text().trim_end().to_owned()
}

fn live(home: &Home) -> Vec<Value> {
    let jobs = home.json(["list", "--live"]);
    jobs.as_array().expect("a list").iter().map(|job| job["job"].clone()).collect()
}

#[test]
fn a_restart_is_a_new_run_of_the_same_job() {
    let home = Home::new();
    let line = "echo \"$ADDED $INHERITED\"; sleep 300 & sleep 300";
    let mut command = home.outlive(["run", "--name", "web", "--env", "ADDED=1", "--grace", "3s"]);
    command.args(["--label", "team=a", "--cwd", "/", line]).env("INHERITED", "old");
    let first = finish(command, b"").ok().text().trim_end().to_owned();
    home.wait_for_output(&first, "1 old");
    let mut command = home.outlive(["restart", "web"]);
    command.env("INHERITED", "new");
    let done = finish(command, b"").ok();
    let second = done.text().trim_end().to_owned();
    assert_eq!(done.error(), "", "what is as it should be is not told as an error");
    assert_ne!(first, second);
    home.wait_for_output(&second, "1 new");
    let (old, new) = (home.show(&first), home.show(&second));
    assert_eq!(
        (&old["status"], &old["reason"]),
        (&json!("killed"), &json!("killed by outlive restart; ended by SIGTERM"))
    );
    assert_eq!((&new["previous"], &old["previous"]), (&json!(first), &Value::Null));
    for same in ["name", "command", "cwd", "labels", "session"] {
        assert_eq!(new[same], old[same], "{same}");
    }
    let spec = std::fs::read(home.job_dir(&second).join("spec.json")).expect("it is there");
    let spec: Value = serde_json::from_slice(&spec).expect("JSON");
    assert_eq!((&spec["grace_ms"], &spec["env_set"]), (&json!(3000), &json!({ "ADDED": "1" })));
    assert_eq!(live(&home), [json!(second)]);
    instead!("S0-135", "S0-164");
    assert!(home.run(["show", &second]).ok().text().contains(&first));
    // An old id means its newest run.
    let third = restart(&home, &first);
    assert_eq!((live(&home), &home.show(&third)["previous"]), (vec![json!(third)], &json!(second)));
}

#[test]
fn the_logs_of_a_name_are_those_of_all_runs() {
    let home = Home::new();
    let first = home.start_with(&["--name", "job"], ["sh", "-c", "echo one; echo two"]);
    home.wait(&first);
    let second = restart(&home, "job");
    home.wait(&second);
    assert_eq!(home.run(["logs", "job"]).ok().text(), "one\ntwo\none\ntwo\n");
    assert_eq!(home.run(["logs", "-f", "job"]).ok().text(), "one\ntwo\none\ntwo\n");
    assert_eq!(home.run(["logs", "-n", "3", "job"]).ok().text(), "two\none\ntwo\n");
    assert_eq!(home.run(["logs", "-n", "1", "job"]).ok().text(), "two\n");
    assert_eq!(home.run(["logs", "--grep", "one", "job"]).ok().text(), "one\none\n");
    let said = home.run(["logs", "job"]).ok().error();
    assert!(said.contains(&format!("run {first}, completed")), "{said}");
    // One run is meant by its id, and by a place in it.
    assert_eq!(home.run(["logs", &second]).ok().text(), "one\ntwo\n");
    assert_eq!(home.run(["logs", "--from-line", "2", "job"]).ok().text(), "two\n");
}

#[test]
fn restarts_at_the_same_time_leave_one_job() {
    // pm2#2951: two reloads at once left processes behind; pm2#938: two restarts at once left two processes.
    let home = Home::new();
    home.start_with(&["--name", "web"], ["sh", "-c", "sleep 300 & sleep 300"]);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| restart(&home, "web"));
        }
    });
    assert_eq!(live(&home).len(), 1);
    assert_eq!(
        home.json(["list"])
            .as_array()
            .expect("a list")
            .iter()
            .filter(|job| job["status"] == "running")
            .count(),
        1
    );
}

#[test]
fn what_cannot_run_again_is_not_ended() {
    let home = Home::new();
    let job = home.start_with(&["--name", "web"], ["sleep", "300"]);
    drop(home.run(["restart", "we"]).code(3));
    let inside = home.start_line(&format!("outlive restart {job}; echo $?"));
    home.wait(&inside);
    let own =
        home.start_with(&["--name", "own"], ["sh", "-c", "outlive restart own; echo code $?; sleep 300"]);
    home.wait_for_output(&own, "code 1");
    assert!(String::from_utf8_lossy(&home.logs(&own)).contains("runs inside job"));
}

#[test]
fn a_restart_while_the_next_run_waits_leaves_one_job() {
    // process-compose#530: a restart while it waited left it terminating, and then two of them.
    let home = Home::new();
    let line = "if [ -e well ]; then exec sleep 300; fi; exit 1";
    home.start_with(&["--name", "web", "--restart", "always", "--restart-delay", "1h"], ["sh", "-c", line]);
    let newest = || home.json(["list"]).as_array().and_then(|jobs| jobs.last().cloned()).expect("a job");
    until("the next run waits", || newest()["status"] == "queued");
    std::fs::write(home.path().join("well"), "").expect("a file");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| restart(&home, "web"));
        }
    });
    until("it runs", || newest()["status"] == "running");
    assert_eq!(live(&home).len(), 1);
    home.run(["kill", "web"]).ok();
    until("nothing is left", || home.processes().is_empty());
}
