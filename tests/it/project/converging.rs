//! Several `up` at once, and `up` while another one waits.
//!
//! Proves that they agree: the newest goes on with what all of them want.

use outlive_tests::Home;

use super::Project;

#[test]
fn several_at_once_start_each_job_once() {
    // devenv#722: two managers, and none that knew of both.
    let home = Home::new();
    let jobs: String = (0..6)
        .map(|number| format!("[jobs.j{number}]\nrun = \"echo x >> ran{number}; exec sleep 300\"\n"))
        .collect();
    let project = Project::new(&home, "shop", &jobs);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let project = &project;
            // Each asks for another job, and all of them for what the others do.
            scope.spawn(move || project.run(&["up", "--wait", &format!("j{number}")]).ok());
        }
    });
    project.run(&["up", "--wait"]).ok();
    assert_eq!(project.live(), ["j0", "j1", "j2", "j3", "j4", "j5"]);
    for number in 0..6 {
        let ran = std::fs::read_to_string(project.dir.join(format!("ran{number}"))).expect("it ran");
        assert_eq!(ran, "x\n", "j{number}");
    }
}

#[test]
fn a_changed_file_takes_effect_while_another_up_waits() {
    let home = Home::new();
    let toml = "[jobs.a]\nrun = \"cat\"\nstdin = \"open\"\nready.line = \"up\"\n[jobs.b]\nrun = \"sleep 300\"\nafter = [\"a\"]\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    let a = project.id("a");
    project.write("outlive.toml", &toml.replace("after = [\"a\"]", "after = [\"a@started\"]"));
    project.run(&["up"]).ok();
    project.until("b", "running");
    assert_eq!((project.id("a"), project.live()), (a, vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn a_dependent_is_started_though_readiness_is_lost_meanwhile() {
    // process-compose#544: a dependent was skipped for good after readiness was lost for a moment.
    let home = Home::new();
    let toml = "[jobs.db]\nrun = \"echo up; exec sleep 300\"\nready = { line = \"up\", command = \"test -e open\" }\n\
                health = { command = \"test -e open\", interval = \"30ms\", failures = 1 }\n\
                [jobs.migrate]\nrun = \"until [ -e migrated ]; do sleep 0.02; done\"\nafter = [\"db@ready\"]\n\
                [jobs.web]\nrun = \"exec sleep 300\"\nafter = [\"db@ready\", \"migrate@succeeded\"]\n";
    let project = Project::new(&home, "shop", toml);
    project.write("open", "");
    project.run(&["up"]).ok();
    project.until("migrate", "running");
    std::fs::remove_file(project.dir.join("open")).expect("it is there");
    project.until("db", "running, unhealthy, not ready");
    project.write("open", "");
    project.until("db", "running, ready");
    project.write("migrated", "");
    project.until("web", "running");
    project.run(&["down"]).ok();
}
