//! `outlive up`: every job once, in the right order, and nothing that runs already is disturbed.
//!
//! Proves that a second `up` starts what is missing, restarts what changed, says which and why, and leaves the rest alone.

use outlive_tests::{Home, instead, until};
use serde_json::json;

use super::Project;

const TWO: &str = "[jobs.db]\nrun = \"sleep 300\"\n[jobs.web]\nrun = \"sleep 301\"\nafter = [\"db\"]\n";

#[test]
fn a_second_up_starts_nothing() {
    // devenv#2514: each job ran twice.
    let home = Home::new();
    let project = Project::new(&home, "shop", TWO);
    let said = project.run(&["up"]).ok().text();
    assert!(said.contains("db   started db-"), "{said}");
    project.until("web", "running");
    let before = (project.id("db"), project.id("web"));
    let done = project.run(&["up"]).ok();
    assert!(done.text().contains(&format!("db   runs as {}", before.0)), "{}", done.text());
    assert!(done.error().contains("nothing to do"), "{}", done.error());
    assert_eq!((project.id("db"), project.id("web")), before);
    assert_eq!(project.live(), ["db", "web"]);
    let commands = [&before.0, &before.1].map(|job| home.show(job)["command"].clone());
    assert_eq!(commands, ["sleep 300", "sleep 301"], "as they are written down");
    instead!("S0-134");
}

#[test]
fn what_is_missing_is_started_and_what_changed_is_restarted() {
    // dekit#59: a changed file was not taken over.
    let home = Home::new();
    let project = Project::new(&home, "shop", TWO);
    project.run(&["up", "--wait"]).ok();
    let (db, web) = (project.id("db"), project.id("web"));
    home.run(["kill", &web]).ok();
    assert_eq!(project.state("web"), "killed");
    let said = project.run(&["up", "--wait"]).ok().text();
    assert!(said.contains(&format!("db   runs as {db}\n")) && said.contains("web  started web-"), "{said}");
    assert_eq!(home.show(&project.id("web"))["previous"], web);
    let web = project.id("web");
    project.write(
        "outlive.toml",
        &TWO.replace("sleep 301", "sleep 302").replace("after", "env.A = \"1\"\nafter"),
    );
    assert_eq!(project.status("web")["changed"], json!(["command", "environment"]));
    assert_eq!(project.state("web"), "running, changed");
    let said = project.run(&["up", "--wait"]).ok().text();
    assert!(said.contains(": command, environment changed\n"), "{said}");
    let restarted = home.show(&project.id("web"));
    assert_eq!((&restarted["command"], &restarted["previous"]), (&json!("sleep 302"), &json!(web)));
    assert_eq!(
        (home.show(&web)["reason"].clone(), project.id("db")),
        (json!("killed by a change of outlive.toml; ended by SIGTERM"), db)
    );
    assert_eq!(project.live(), ["db", "web"]);
}

#[test]
fn a_job_waits_for_the_milestones_of_others() {
    // dekit#95: there were no dependencies.
    let home = Home::new();
    let project = Project::new(
        &home,
        "shop",
        "[jobs.server]\nrun = \"cat\"\nstdin = \"open\"\nready.line = \"up\"\n\
         [jobs.once]\nrun = \"cat; exit 0\"\nstdin = \"open\"\n\
         [jobs.fails]\nrun = \"exit 3\"\n\
         [jobs.ready]\nrun = \"sleep 300\"\nafter = [\"server\"]\n\
         [jobs.started]\nrun = \"sleep 300\"\nafter = [\"server@started\"]\n\
         [jobs.succeeded]\nrun = \"sleep 300\"\nafter = [\"once@succeeded\"]\n\
         [jobs.completed]\nrun = \"sleep 300\"\nafter = [\"fails@completed\"]\n\
         [jobs.never]\nrun = \"sleep 300\"\nafter = [\"fails@succeeded\"]\n\
         [jobs.behind]\nrun = \"sleep 300\"\nafter = [\"never\"]\n",
    );
    project.run(&["up"]);
    project.until("started", "running");
    project.until("completed", "running");
    project.until("behind", "not started");
    for (name, state) in [
        ("ready", "waits for server@ready"),
        ("succeeded", "waits for once@succeeded"),
        ("never", "not started"),
        ("fails", "failed: 3"),
    ] {
        project.until(name, state);
    }
    let why = project.run(&["why", "behind"]).ok().text();
    let told: Vec<&str> = why.lines().collect();
    assert_eq!(told[0], "behind was not started: never@started can no longer come: never was not started");
    assert_eq!(told[1], "  never was not started: fails@succeeded can no longer come: exited with 3");
    assert!(told[2].starts_with("    fails failed as fails-"), "{why}");
    home.run(["send", &project.id("once"), "--eof"]).ok();
    project.until("succeeded", "running");
    assert_eq!(project.state("ready"), "waits for server@ready");
    home.run(["send", &project.id("server"), "up"]).ok();
    project.until("ready", "running");
    instead!("S0-166");
    // What could never come is a failure; what has completed is not run again, and what failed is.
    let failed = project.id("fails");
    let said = project.run(&["up", "--wait"]).code(1).text();
    assert!(said.contains(&format!("once       has completed as {}\n", project.id("once"))), "{said}");
    assert_ne!(project.id("fails"), failed);
    assert!(
        said.contains("never      not started: fails@succeeded can no longer come: exited with 3\n"),
        "{said}"
    );
    // One that is named is run again.
    let once = project.id("once");
    let failed = project.id("fails");
    let said = project.run(&["up", "once"]).ok().text();
    assert!(said.starts_with("once  started once-") && said.lines().count() == 1, "{said}");
    // The others are as they were.
    assert_eq!((project.id("fails"), project.state("never")), (failed, "not started".to_owned()));
    assert_ne!(project.id("once"), once);
}

#[test]
fn only_what_is_named_and_what_it_waits_for_is_started() {
    let home = Home::new();
    let project = Project::new(&home, "shop", &format!("{TWO}[jobs.other]\nrun = \"sleep 300\"\n"));
    project.run(&["up", "web", "--wait"]).ok();
    assert_eq!(
        (project.live(), project.state("other")),
        (vec!["db".into(), "web".into()], "not started".into())
    );
    project.run(&["up", "other", "--wait"]).ok();
    assert_eq!(project.live(), ["db", "other", "web"]);
}

#[test]
fn what_cannot_be_started_is_told_and_the_others_are_started() {
    let home = Home::new();
    let project =
        Project::new(&home, "shop", "[jobs.a]\nrun = [\"no-such-program\"]\n[jobs.b]\nrun = \"sleep 300\"\n");
    let said = project.run(&["up", "--wait"]).code(1).text();
    assert!(said.contains("a  not started: run: ") && said.contains("no-such-program"), "{said}");
    assert_eq!(project.live(), ["b"]);
    let why = project.run(&["why", "a"]).ok().text();
    assert!(why.starts_with("a was not started: run: "), "{why}");
}

#[test]
fn two_copies_of_a_project_live_side_by_side() {
    // devenv#936: two projects could not be up at once; devenv#3204, superpowers#597: nor two worktrees.
    let home = Home::new();
    let (one, two) = (Project::new(&home, "one", TWO), Project::new(&home, "two", TWO));
    for project in [&one, &two] {
        project.write("outlive.toml", &format!("name = \"shop\"\n{TWO}"));
        project.run(&["up", "--wait"]).ok();
    }
    assert_ne!(one.session(), two.session());
    assert_ne!(one.id("web"), two.id("web"));
    one.run(&["down"]).ok();
    assert_eq!((one.live(), two.live()), (vec![], vec!["db".to_owned(), "web".to_owned()]));
}

#[test]
fn up_waits_until_all_are_ready() {
    // compose PR 9092: a wait that had no end.
    let home = Home::new();
    let project =
        Project::new(&home, "shop", "[jobs.a]\nrun = \"echo up; sleep 300\"\nready.line = \"up\"\n");
    let said = project.run(&["up", "--wait"]).ok().text();
    assert!(said.ends_with("a is ready\n"), "{said}");
    project.write("outlive.toml", "[jobs.a]\nrun = \"echo down\"\nready.line = \"up\"\n");
    let failed = project.run(&["up", "--wait"]).code(1).error();
    assert!(failed.contains("a is not ready: ") && failed.contains("outlive why a"), "{failed}");
    let why = project.run(&["why", "a"]).ok().text();
    assert!(why.contains("  | down\n"), "{why}");
}

#[test]
fn up_says_what_it_waits_for_and_gives_up_when_asked_to() {
    let home = Home::new();
    let toml = "[jobs.web]\nrun = \"sleep 300\"\nready.line = \"listening\"\n\
                [jobs.after]\nrun = \"sleep 300\"\nafter = \"web\"\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    project.until("web", "running, not ready");
    let why = "waiting for web: no line that matches /listening/\n";
    for arguments in
        [&["up", "--wait", "--timeout", "100ms"][..], &["up", "web", "--wait", "--timeout", "100ms"]]
    {
        let failed = project.run(arguments).code(4).error();
        assert!(failed.contains(why) && failed.contains("not ready in that time: web"), "{failed}");
        assert!(failed.contains("outlive why web"), "{failed}");
    }
    assert_eq!((project.live(), project.state("after")), (vec!["web".into()], "waits for web@ready".into()));
    project.run(&["up", "--timeout", "1s"]).code(2);
}

#[test]
fn what_runs_as_it_is_to_waits_for_nothing() {
    let home = Home::new();
    let toml = "[jobs.api]\nrun = \"sleep 300\"\nhealth = { command = \"test -e well\", interval = \"100ms\" }\n\
                [jobs.worker]\nrun = \"sleep 300\"\nafter = \"api@healthy\"\n";
    let project = Project::new(&home, "shop", toml);
    project.write("well", "");
    project.run(&["up", "--wait"]).ok();
    let worker = project.id("worker");
    // It never gets healthy again.
    std::fs::remove_file(project.dir.join("well")).expect("it is there");
    project.write("outlive.toml", &toml.replace("health =", "env.A = \"1\"\nhealth ="));
    let done = project.run(&["up", "--wait"]).ok();
    assert!(done.text().contains(&format!("worker  runs as {worker}\n")), "{}", done.text());
    assert!(!done.error().contains("started later"), "{}", done.error());
}

#[test]
fn a_profile_is_started_when_it_is_asked_for() {
    let home = Home::new();
    let toml = "[jobs.web]\nrun = \"exec sleep 300\"\n\
        [jobs.shell]\nrun = \"exec sleep 300\"\nprofile = \"debug\"\nafter = [\"seed\"]\n\
        [jobs.seed]\nrun = \"exec sleep 300\"\nprofile = [\"test\", \"debug\"]\n\
        [jobs.mail]\nrun = \"exec sleep 300\"\nprofile = \"mail\"\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    assert_eq!(project.live(), ["web"]);
    assert_eq!(project.state("mail"), "not asked for: profile mail");
    let why = project.run(&["why", "mail"]).ok().text();
    assert!(why.contains("`outlive up --profile mail` starts it"), "{why}");
    let unknown = project.run(&["up", "--profile", "mial"]).code(3).error();
    assert!(unknown.contains("there are debug, mail, test"), "{unknown}");
    project.run(&["up", "--profile", "debug"]).ok();
    until("all of the profile run", || project.live() == ["seed", "shell", "web"]);
    // By its name it needs no profile.
    project.run(&["up", "mail"]).ok();
    until("it runs", || project.live().contains(&"mail".to_owned()));
    project.run(&["down"]).ok();
    assert!(project.live().is_empty());
    project.write("outlive.toml", "[jobs.a]\nrun = \"true\"\nprofile = \"p\"\n");
    let refused = project.run(&["up"]).code(2).error();
    assert!(refused.contains("belongs to a profile") && refused.contains("--profile p"), "{refused}");
}

/// As `docker compose up --wait`: what has failed by the time that all others are ready is a failure.
#[test]
fn up_that_waits_fails_with_a_job_that_failed_at_once() {
    let home = Home::new();
    // The first is ready once the other has failed.
    let toml = "[jobs.a]\nrun = \"until outlive wait b; [ $? = 7 ]; do sleep 0.05; done; echo ready; sleep 300\"\nready.line = \"ready\"\n\
                [jobs.b]\nrun = \"nopebin x\"\n";
    let project = Project::new(&home, "shop", toml);
    let told = project.run(&["up", "--wait"]).code(1).error();
    assert!(told.contains("failed: exited with 127") && told.contains("outlive why b"), "{told}");
    project.run(&["down"]).ok();
}

#[test]
fn in_a_project_logs_are_those_of_its_jobs_and_a_broken_file_keeps_nothing_up() {
    let home = Home::new();
    let toml = "[jobs.a]\nrun = \"echo one; sleep 300\"\n[jobs.b]\nrun = \"echo two; sleep 300\"\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    until("both have printed", || {
        let logs = project.run(&["logs"]).ok().text();
        logs.contains("a | one\n") && logs.contains("b | two\n")
    });
    // One that the file does not have any more still runs, and is shown.
    project.write("outlive.toml", "[jobs.a]\nrun = \"echo one; sleep 300\"\n");
    let status = project.run(&["status"]).ok().text();
    assert!(status.contains("running, not in the file"), "{status}");
    project.write("outlive.toml", "[jobs.a\n");
    let down = project.run(&["down"]).ok();
    assert!(down.text().contains("a ended") && down.text().contains("b ended"), "{}", down.text());
    assert!(down.error().contains("this ends all jobs that were started from it"), "{}", down.error());
    project.write("outlive.toml", "");
    assert!(project.run(&["status"]).ok().error().contains("no jobs in "));
}

#[test]
fn a_second_up_says_what_ran_before_it_in_the_order_of_the_file() {
    let home = Home::new();
    let toml = "[jobs.web]\nrun = \"exec sleep 300\"\nafter = [\"db\"]\n[jobs.db]\nrun = \"exec sleep 300\"\nready.line = \"never\"\n\
                [jobs.a]\nrun = \"exec sleep 300\"\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    project.until("a", "running");
    let (db, a) = (project.id("db"), project.id("a"));
    // The process of the first still waits for db.
    let told = project.run(&["up"]).ok().text();
    assert_eq!(told, format!("web  waits for db@ready\ndb   runs as {db}\na    runs as {a}\n"));
    project.write(
        "outlive.toml",
        &toml.replace("[jobs.a]\nrun = \"exec sleep 300\"", "[jobs.a]\nrun = \"exec sleep 301\""),
    );
    project.run(&["up"]).ok();
    let listed = home.run(["list", "--all"]).ok().text();
    let line = listed.lines().find(|line| line.starts_with(&a)).unwrap_or_default();
    assert!(line.contains("restarted: outlive.toml changed"), "{listed}");
    project.run(&["down"]).ok();
}
