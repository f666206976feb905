//! Names of jobs in the directory of a project.
//!
//! Proves that a name means the project's job there, and what it meant before everywhere else.

use outlive_tests::Home;

use super::Project;

#[test]
fn a_name_means_the_projects_job_in_its_directory() {
    let home = Home::new();
    let toml = "[jobs.web]\nrun = \"echo of the project; exec sleep 300\"\nready.line = \"project\"\n";
    let project = Project::new(&home, "shop", toml);
    let other = home.start_with(&["--name", "web"], ["sh", "-c", "echo elsewhere; exec sleep 300"]);
    let alone = home.start_with(&["--name", "alone"], ["sleep", "300"]);
    // Before its first run there is only the other.
    assert!(project.run(&["show", "web"]).ok().text().contains(&other));
    project.run(&["up", "--wait"]).ok();
    let own = project.id("web");
    let below = home.make_dir("shop/src");
    for dir in [&project.dir, &below] {
        assert_eq!(project.run_in(dir, &["logs", "web"]).ok().text(), "of the project\n");
        assert_eq!(project.run_in(dir, &["--json", "show", "web"]).ok().json()["job"], *own);
    }
    assert_eq!(project.run(&["wait", "web", "--ready"]).ok().text(), format!("{own} is ready\n"));
    assert_eq!(project.run(&["pause", "web"]).ok().text(), format!("{own} paused\n"));
    assert_eq!(project.run(&["resume", "web"]).ok().text(), format!("{own} resumed\n"));
    // Whole ids, other names and a session that is given mean what they mean everywhere.
    assert_eq!(project.json(&["show", &other])["job"], *other);
    assert_eq!(project.json(&["show", "alone"])["job"], *alone);
    assert_eq!(project.json(&["--session", "default", "show", "web"])["job"], *other);
    // Elsewhere there are two, each told with its session.
    let told = home.run(["show", "web"]).code(3).error();
    for (id, session) in [(&other, "default"), (&own, &*project.session())] {
        assert!(told.contains(&format!("{id} (session {session})")), "{told}");
    }
    project.run(&["down"]).ok();
    assert_eq!(project.run(&["kill", "web"]).ok().text(), format!("{own} had already ended\n"));
    assert_eq!(home.show(&other)["status"], "running");
    project.run(&["kill", &other, "alone"]).ok();
}
