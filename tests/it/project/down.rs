//! `outlive down`: the jobs of a project end in reverse order, and nothing is left.
//!
//! Proves the order by what each job sees of the others at its end, and that an `up` that is still at it starts nothing afterwards.

use outlive_tests::{Home, until};

use super::Project;

#[test]
fn jobs_end_in_reverse_order_and_nothing_is_left() {
    // overmind#134: the order of stopping; overmind#76, #11, #37: a stop hung; devenv#2586: services stayed.
    let home = Home::new();
    // Each writes its name when it is asked to end; the signal of one is another.
    let job = |name: &str, more: &str| {
        let signal = if name == "b" { "INT" } else { "TERM" };
        format!(
            "[jobs.{name}]\nrun = \"trap 'echo {name} >> ended; exit 0' {signal}; sleep 300 & echo up; while :; do wait; done\"\nready.line = \"up\"\n{more}\n"
        )
    };
    let toml =
        [job("c", "after = [\"b\"]"), job("a", ""), job("b", "after = [\"a\"]\nstop = \"INT\"")].concat();
    let project = Project::new(&home, "shop", &toml);
    project.run(&["up", "--wait"]).ok();
    // What a job starts as a job of its own belongs to the project.
    let session = project.session();
    home.run(["run", "--session", &session, "--name", "extra", "sleep 300"]).ok();
    let said = project.run(&["down"]).ok().text();
    let order: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(order, ["c", "b", "a", "extra"]);
    let ended = std::fs::read_to_string(project.dir.join("ended")).expect("they wrote it");
    assert_eq!(ended, "c\nb\na\n");
    assert!(project.live().is_empty());
    assert_eq!(project.state("a"), "down");
    assert!(project.run(&["down"]).ok().error().contains("nothing is up"));
    until("nothing is left", || home.processes().is_empty());
}

#[test]
fn what_still_waits_is_not_started_after_down() {
    let home = Home::new();
    let toml = "[jobs.a]\nrun = \"cat\"\nstdin = \"open\"\nready.line = \"up\"\n[jobs.b]\nrun = \"sleep 300\"\nafter = [\"a\"]\n";
    let project = Project::new(&home, "shop", toml);
    let done = project.run(&["up"]).ok();
    assert!(done.text().contains("b  waits for a@ready\n"), "{}", done.text());
    assert!(
        done.error().contains("1 job is started later, in the background; see: outlive status"),
        "{}",
        done.error()
    );
    assert_eq!(project.state("b"), "waits for a@ready");
    project.run(&["down"]).ok();
    assert!(project.live().is_empty());
    until("nothing is left", || home.processes().is_empty());
    assert_eq!(project.state("b"), "not started");
}

#[test]
fn a_one_shot_job_runs_again_after_down() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "[jobs.migrate]\nrun = \"true\"\n");
    project.run(&["up"]).ok();
    project.until("migrate", "completed");
    let first = project.id("migrate");
    project.run(&["up"]).ok();
    assert_eq!(project.id("migrate"), first);
    project.run(&["down"]).ok();
    project.run(&["up"]).ok();
    assert_ne!(project.id("migrate"), first);
}

#[test]
fn what_runs_is_ended_though_the_file_is_gone() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "name = \"My shop\"\n[jobs.a]\nrun = \"sleep 300\"\n");
    project.run(&["up", "--wait"]).ok();
    let below = home.make_dir("shop/below");
    std::fs::remove_file(project.dir.join("outlive.toml")).expect("it is there");
    let done = project.run_in(&below, &["down"]).ok();
    assert!(done.text().starts_with("a ended, a-") && done.error().contains("is gone"), "{}", done.error());
    assert!(home.json(["list", "--live"]).as_array().expect("a list").is_empty());
    let failed = project.run(&["down"]).code(3).error();
    assert!(failed.contains("there is no outlive.toml"), "{failed}");
}

#[test]
fn down_names_the_file_that_the_jobs_were_started_from() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "");
    std::fs::remove_file(project.dir.join("outlive.toml")).expect("it is there");
    project.write("Procfile", "a: sleep 300\n");
    project.run(&["up", "-f", "Procfile", "--wait"]).ok();
    let failed = project.run(&["down"]).code(3).error();
    assert!(failed.contains("hint: outlive down -f ") && failed.contains("Procfile"), "{failed}");
    let failed = project.run(&["status"]).code(3);
    let said = failed.error();
    assert!(said.contains("jobs of ") && said.contains("hint: outlive status -f "), "{said}");
    assert_eq!(failed.text(), "", "no other job of the machine is listed");
    assert!(project.run(&["status", "-f", "Procfile"]).ok().text().contains("a  "));
    project.run(&["down", "-f", "Procfile"]).ok();
    project.run(&["status"]).ok();
    // What is no file is no missing one.
    std::fs::create_dir(project.dir.join("outlive.toml")).expect("there is none");
    let failed = project.run(&["up"]).code(1).error();
    assert!(failed.contains("outlive.toml is no file"), "{failed}");
}

#[test]
fn down_with_a_mistake_and_nothing_up_is_no_failure() {
    let home = Home::new();
    let project =
        Project::new(&home, "shop", "[jobs.a]\nrun = \"exit 4\"\n[jobs.b]\nrun = \"exec sleep 300\"\n");
    project.run(&["up"]).ok();
    project.until("a", "failed: 4");
    project.run(&["down"]).ok();
    // How each ended stays to be seen.
    assert_eq!((&*project.state("a"), &*project.state("b")), ("down, failed: 4", "down"));
    project.write("outlive.toml", "[jobs.a]\nrn = \"true\"\n");
    let done = project.run(&["down"]).ok();
    assert_eq!((&*done.text(), &*done.error()), ("", "nothing is up\n"));
    assert_eq!(project.json(&["down"]).as_array().map(Vec::len), Some(0));
    project.run(&["down", "-f", "outlive.toml"]).code(1);
}
