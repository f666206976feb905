//! Jobs of a project that wait for their turn in a queue.
//!
//! Proves that the project's file sets the queue, and that `@started` of a job that waits is waited for.

use outlive_tests::{Home, until};

use super::Project;

#[test]
fn jobs_of_a_project_wait_for_their_turn() {
    let home = Home::new();
    let toml = "[queue.heavy]\nparallel = 1\n\
        [jobs.a]\nrun = 'until [ -e go ]; do sleep 0.01; done'\nqueue = 'heavy'\n\
        [jobs.b]\nrun = 'sleep 300'\nqueue = 'heavy'\nafter = ['a@started']\n\
        [jobs.c]\nrun = 'sleep 300'\nafter = ['b@started']\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    project.until("b", "queued");
    project.until("c", "waits for b@started");
    let why = project.run(&["why", "b"]).ok().text();
    assert!(why.contains("b is queued as") && why.contains("in heavy"), "{why}");
    std::fs::write(project.dir.join("go"), "").expect("it can be written");
    project.until("b", "running");
    project.until("c", "running");
    // The file says otherwise: the next `up` takes it over.
    project.write("outlive.toml", &toml.replace("parallel = 1", "parallel = 3"));
    project.run(&["up"]).ok();
    assert_eq!(home.json(["queue", "list"])[0]["parallel"], 3);
    project.run(&["down"]).ok();
    until("no process is left", || home.processes().is_empty());

    for (wrong, place, said) in [
        ("parallel = 0", "outlive.toml:2:12", "from 1 to 500"),
        ("paralel = 2", "outlive.toml:2:1", "did you mean `parallel`?"),
        ("", "outlive.toml:1:8", "has no `parallel`"),
    ] {
        project.write("outlive.toml", &toml.replace("parallel = 1", wrong));
        let error = project.run(&["up"]).code(1).error();
        assert!(error.contains(place) && error.contains(said), "{error}");
    }
}

#[test]
fn jobs_of_a_file_come_in_its_order() {
    let home = Home::new();
    let names = ["e", "c", "a", "d", "b"];
    let job = |name: &&str| format!("[jobs.{name}]\nrun = 'echo {name} >> order'\nqueue = 'one'\n");
    let toml: String = names.iter().map(job).collect();
    let project = Project::new(&home, "shop", &toml);
    for _ in 0..5 {
        project.run(&["up"]).ok();
        let order = || std::fs::read_to_string(project.dir.join("order")).unwrap_or_default();
        until("all have run", || order().lines().count() == names.len());
        assert_eq!(order().lines().collect::<Vec<_>>(), names);
        project.run(&["down"]).ok();
        std::fs::remove_file(project.dir.join("order")).expect("it is there");
    }
}
