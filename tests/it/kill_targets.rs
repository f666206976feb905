//! Which jobs a kill means: all, those inside, and never the caller's own.
//!
//! Proves S0-105 as far as all jobs of a session are ended at once, and that a command inside a job cannot end that job by
//! mistake.

use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within, finish, pid, until};
use serde_json::Value;

fn statuses<const N: usize>(home: &Home, jobs: [&String; N]) -> [Value; N] {
    jobs.map(|job| home.show(job)["status"].clone())
}

#[test]
fn all_means_all_that_are_seen() {
    let home = Home::new();
    let start = |session: &str| home.start_with(&["--session", session], ["sleep", "300"]);
    let (one, other, theirs) = (start("ours"), start("ours"), start("theirs"));
    let ended = home.start_line("exit 3");
    home.wait(&ended);
    let killed = home.json(["--session", "ours", "kill", "--all"]);
    let ids: Vec<&str> =
        killed.as_array().unwrap().iter().map(|answer| answer["job"].as_str().unwrap()).collect();
    assert_eq!(ids, [&one, &other]);
    assert_eq!(statuses(&home, [&one, &other, &theirs]), ["killed", "killed", "running"]);
    assert_eq!(home.json(["kill", "--all"])[0]["job"], *theirs);
    assert_eq!(home.show(&ended)["exit_code"], 3);
    assert_eq!(home.json(["kill", "--all"]), Value::Array(Vec::new()));
    assert!(home.run(["kill", "--all"]).ok().error().contains("no live jobs"));
}

#[test]
fn what_to_end_must_be_said() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    drop(home.run(["kill"]).code(2));
    drop(home.run(["kill", "--nested"]).code(2));
    drop(home.run(["kill", "--all", &job]).code(2));
    // A pid is no name of a job.
    drop(home.run(["kill", &pid(&home.show(&job), "pid").to_string()]).code(3));
    assert_eq!(home.show(&job)["status"], "running");
}

#[test]
fn many_have_their_grace_at_the_same_time() {
    let home = Home::new();
    let line = "trap 'echo asked' TERM; echo ready; while :; do sleep 0.1; done";
    let start = |_| home.run(["run", "--grace", "1h", line]).ok().text().trim_end().to_owned();
    let jobs: Vec<String> = (0..6).map(start).collect();
    for job in &jobs {
        home.wait_for_output(job, "ready");
    }
    // Each is asked while the grace of all others lasts.
    let mut asking = home.outlive(["kill", "--all"]).stdout(Stdio::null()).spawn().unwrap();
    for job in &jobs {
        home.wait_for_output(job, "asked");
    }
    home.run(["kill", "--all", "--force"]).ok();
    assert_eq!(end_within(&mut asking, LIMIT), Some(0));
    // Keepers may still be syncing their logs.
    let left = home.processes_of_jobs();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_command_cannot_end_the_job_that_it_runs_inside() {
    let home = Home::new();
    let line = "outlive --json kill $OUTLIVE_JOB; echo code $?
        outlive kill --force $OUTLIVE_JOB; echo code $?
        outlive kill --signal HUP own; echo code $?
        (setsid outlive kill own; echo code $?)
        env -u OUTLIVE_JOB outlive kill --nested own; echo code $?
        echo done; sleep 300";
    let job = home.run(["run", "--name", "own", line]).ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "done");
    let said = String::from_utf8(home.logs(&job)).unwrap();
    assert_eq!(said.matches("code 1\n").count(), 5, "{said}");
    assert!(said.contains("\"own_ancestor\"") && said.contains("hint: "), "{said}");
    assert!(said.contains(&format!("runs inside job {job}")), "{said}");
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&"running".into(), &Value::Null));
    // `OUTLIVE_JOB` alone does not make a process part of a job.
    let mut command = home.outlive(["kill", &job]);
    command.env("OUTLIVE_JOB", &job);
    finish(command, b"").ok();
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn a_command_that_is_faster_than_its_keeper_is_refused_too() {
    let home = Home::new();
    let line = "until [ -e go ]; do sleep 0.01; done; outlive kill $OUTLIVE_JOB; echo code $?; sleep 300";
    let job = home.start_line(line);
    // As it is between the execution of the command and the first snapshot.
    std::fs::remove_file(home.job_dir(&job).join("meta.json")).unwrap();
    std::fs::write(home.path().join("go"), "").unwrap();
    until("it has asked, or was ended", || {
        home.show(&job)["status"] != "starting" || !home.logs(&job).is_empty()
    });
    home.wait_for_output(&job, "code 1\n");
    assert!(String::from_utf8(home.logs(&job)).unwrap().contains("runs inside job"));
}

#[test]
fn all_leaves_the_job_that_it_runs_inside() {
    let home = Home::new();
    let other = home.start(["sleep", "300"]);
    let job = home.start_line("outlive kill --all; echo code $?; sleep 300");
    home.wait_for_output(&job, "code");
    let said = String::from_utf8(home.logs(&job)).unwrap();
    assert!(said.contains("code 0\n") && said.contains(&format!("{job} is left: ")), "{said}");
    assert_eq!(statuses(&home, [&job, &other]), ["running", "killed"]);
}

#[test]
fn a_job_inside_may_end_the_outer_one() {
    let home = Home::new();
    let line = "outlive run --name inner -- outlive kill outer; sleep 300";
    let outer = home.run(["run", "--name", "outer", line]).ok().text().trim_end().to_owned();
    until("the outer one is ended", || home.show(&outer)["status"] == "killed");
    let inner = home.wait("inner");
    assert_eq!((&inner["parent"], &inner["exit_code"]), (&outer.into(), &0.into()), "{inner}");
}

#[test]
fn nested_takes_those_inside_and_inside_those() {
    let home = Home::new();
    let line =
        "outlive run --name middle 'outlive run --name inner -- sleep 300; echo up; sleep 300'; sleep 300";
    let outer = home.run(["run", "--name", "outer", line]).ok().text().trim_end().to_owned();
    until("all run", || home.json(["list", "--live"]).as_array().unwrap().len() == 3);
    home.wait_for_output("middle", "up");
    let other = home.start(["sleep", "300"]);
    let killed = home.json(["kill", "--nested", &outer]);
    assert_eq!(killed.as_array().unwrap().len(), 3, "{killed}");
    let names = ["outer", "middle", "inner"].map(|name| home.show(name)["status"].clone());
    assert_eq!(names, ["killed", "killed", "killed"]);
    assert_eq!(home.show(&other)["status"], "running");
}

#[test]
fn nested_reaches_through_jobs_that_have_ended() {
    let home = Home::new();
    let outer = home.start_line("outlive run --name inner -- sleep 300");
    home.wait(&outer);
    until("the outer one is closed", || home.show(&outer)["closed_at"].is_string());
    home.run(["kill", &outer]).ok();
    assert_eq!(home.show("inner")["status"], "running");
    let killed = home.json(["kill", "--nested", &outer]);
    assert_eq!(killed[0]["already_ended"], true);
    assert_eq!((&killed[1]["status"], &home.show("inner")["status"]), (&"killed".into(), &"killed".into()));
}

#[test]
fn nested_does_not_cross_into_another_session() {
    let home = Home::new();
    let line = "outlive --session theirs run --name inner -- sleep 300; echo up; sleep 300";
    let outer = home.run(["--session", "ours", "run", line]).ok().text().trim_end().to_owned();
    home.wait_for_output(&outer, "up");
    home.run(["--session", "ours", "kill", "--nested", &outer]).ok();
    assert_eq!(statuses(&home, [&outer, &"inner".to_owned()]), ["killed", "running"]);
}
