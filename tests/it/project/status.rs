//! `status` and `why`: how each job is doing, and in one screen what blocks what.
//!
//! Proves that what is told is what a reader can act on.

use outlive_tests::Home;

use super::Project;

#[test]
fn why_leads_from_a_job_to_what_keeps_it() {
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
