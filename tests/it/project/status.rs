//! `status` and `why`: how each job is doing, and in one screen what blocks what.
//!
//! Proves that what is told is what a reader can act on.

use outlive_tests::{Home, pid, signal, until};

use super::Project;

#[test]
fn why_leads_from_a_job_to_what_keeps_it() {
    // tilt#4751: a probe failed for ever without a word.
    let home = Home::new();
    let toml = "[jobs.db]\nrun = \"echo booting; cat\"\nstdin = \"open\"\nready.line = \"accepting\"\n\
                [jobs.api]\nrun = \"sleep 300\"\nafter = [\"db\"]\n[jobs.web]\nrun = \"sleep 300\"\nafter = [\"api\"]\n";
    let project = Project::new(&home, "shop", toml);
    let told = |name: &str| project.run(&["why", name]).ok().text();
    assert_eq!(told("api"), "api was never started: `outlive up api` does\n");
    project.run(&["up"]).ok();
    home.wait_for_output(&project.id("db"), "booting");
    let why = told("web");
    let lines: Vec<&str> = why.lines().collect();
    assert_eq!(
        lines[..2],
        ["web is not started: it waits for api@started", "  api is not started: it waits for db@ready"]
    );
    let id = project.id("db");
    assert!(lines[2].starts_with(&format!("    db runs as {id} for ")), "{why}");
    assert!(lines[2].ends_with("and is not ready: no line that matches /accepting/"), "{why}");
    assert_eq!(lines[3..], ["      | booting"]);
    assert!(told("db").ends_with("it is waited for by api\n"), "{}", told("db"));
    let status = project.run(&["status"]).ok().text();
    assert!(status.starts_with("NAME  STATUS "), "{status}");
    assert!(status.contains("\nweb   waits for api@started "), "{status}");
    home.run(["send", &id, "accepting"]).ok();
    project.until("web", "running");
    assert!(told("db").contains("and is ready"), "{}", told("db"));
    home.run(["kill", &project.id("web")]).ok();
    assert!(told("web").starts_with("web killed as web-"), "{}", told("web"));
    let failed = project.run(&["why", "wbe"]).code(3).error();
    assert!(failed.contains("did you mean web?"), "{failed}");
}

#[test]
fn what_has_ended_is_never_shown_as_running() {
    // overmind#182: a process that had ended was shown as running; overmind#50: a hangup left a socket that kept the next one from starting.
    let home = Home::new();
    let project = Project::new(&home, "shop", "[jobs.web]\nrun = \"exec sleep 300\"\n");
    project.run(&["up", "--wait"]).ok();
    let pid = |name: &str| pid(&home.show(&project.id("web")), name);
    signal(pid("keeper_pid"), "HUP");
    signal(pid("guard_pid"), "HUP");
    assert_eq!(project.state("web"), "running");
    signal(pid("pid"), "KILL");
    project.until("web", "failed: SIGKILL");
    project.run(&["up", "--wait"]).ok();
    assert_eq!(project.state("web"), "running");
    project.run(&["down"]).ok();
}

#[test]
fn a_later_run_is_of_the_project_that_it_was_started_in() {
    // pitchfork#453: a retry read the file of another directory.
    let home = Home::new();
    let toml = |word: &str| {
        format!(
            "[jobs.web]\nrun = \"echo {word} >> {word}; until [ -e go ]; do sleep 0.02; done; exit 1\"\nrestart = {{ when = \"on-failure\", delay = \"10ms\" }}\n"
        )
    };
    let (one, two) = (Project::new(&home, "one", &toml("one")), Project::new(&home, "two", &toml("two")));
    one.run(&["up", "--wait"]).ok();
    two.run(&["up", "--wait"]).ok();
    one.write("go", "");
    until("it has run again", || {
        std::fs::read_to_string(one.dir.join("one")).unwrap_or_default().lines().count() > 1
    });
    assert!(!two.dir.join("one").exists() && !one.dir.join("two").exists());
    assert_eq!(two.state("web"), "running");
    one.run(&["down"]).ok();
    two.run(&["down"]).ok();
}

#[test]
fn outside_a_project_why_explains_any_job() {
    let home = Home::new();
    let job = home.start_with(&["--name", "crash"], ["sh", "-c", "echo broken; exit 3"]);
    home.wait(&job);
    let why = home.run(["why", "crash"]).ok().text();
    assert!(why.starts_with(&format!("crash failed as {job}: exited with 3 after ")), "{why}");
    assert!(why.ends_with("  | broken\n"), "{why}");
    // In the directory of a project that does not have it, too.
    let project = Project::new(&home, "shop", "[jobs.web]\nrun = \"exec sleep 300\"\n");
    assert_eq!(project.run(&["why", "crash"]).ok().text(), why);
    let failed = home.run(["why", "crsh"]).code(3).error();
    assert!(failed.contains(&format!("did you mean {job}?")), "{failed}");
}

#[test]
fn why_names_the_job_whose_output_it_quotes() {
    let home = Home::new();
    let toml = "[jobs.migrate]\nrun = \"echo no such table; exit 4\"\n\
                [jobs.fine]\nrun = \"echo all is well\"\n\
                [jobs.api]\nrun = \"sleep 300\"\nafter = [\"migrate@succeeded\"]\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up", "--wait"]).code(1);
    let why = project.run(&["why", "api"]).ok();
    assert!(why.text().contains("| no such table"), "{}", why.text());
    let expected = "more of it: outlive logs -n 40 migrate; what went wrong: outlive logs -i --grep 'error|fail' migrate\n";
    assert_eq!(why.error(), expected);
    project.run(&["logs", "-n", "40", "migrate"]).ok();
    // Nothing went wrong with one that did its work.
    project.until("fine", "completed");
    assert_eq!(project.run(&["why", "fine"]).ok().error(), "more of it: outlive logs -n 40 fine\n");
}
