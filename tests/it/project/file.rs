//! `outlive.toml`: mistakes are told with their place and what would be right, and the schema is that of the declarations.
//!
//! Proves that whatever can never hold is refused before anything is started.

use outlive_tests::{Home, workspace};

use super::Project;

#[test]
fn a_mistake_is_told_with_its_place() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "");
    for (toml, place, message) in [
        (
            "[jobs.web]\nrun = \"true\"\nredy = { port = 80 }",
            "3:1",
            "a job has no key `redy`; did you mean `ready`?",
        ),
        (
            "[jobs.web]\nrun = \"true\"\nready = { prot = 80 }",
            "3:11",
            "`ready` has no key `prot`; did you mean `port`?",
        ),
        ("[jobs.web]\nrun = \"true\"\ngrace = \"soon\"", "3:9", "`grace`: "),
        ("[jobs.web]\nrun = 3", "2:7", "`run` must be text or a list of texts"),
        ("[jobs.web]\nrun = \"true\"\nlimits = { pids = 0 }", "3:19", "`pids`: "),
        ("[jobs.web]\nenv = {}", "1:7", "job web has no `run`"),
        ("[jobs.\"a b\"]\nrun = \"true\"", "1:7", "the name of a job has 1 to 64 letters"),
        ("[job.web]\nrun = \"true\"", "1:2", "the file has no key `job`; did you mean `jobs`?"),
        ("[jobs.web]\nrun = \"true\"\nprofile = 3", "3:11", "`profile` must be text or a list of texts"),
        ("[jobs.web]\nrun = \"true\"\nhealth = { notfy = true }", "3:12", "did you mean `notify`?"),
        ("[jobs.web]\nrun = \"true\"\nstop = \"NO\"", "3:8", "no such signal"),
        (
            "[jobs.web]\nrun = \"true\"\nport = 70000",
            "3:8",
            "`port` must be a number from 1 to 65535, or \"auto\"",
        ),
        ("[jobs.web]\nrun = \"true\"\nenv_file = \"no.env\"", "3:12", "no.env cannot be read: No such file"),
        ("[jobs.web]\nrun = \"tr", "2:", ""),
        (
            "[jobs.a]\nrun = \"true\"\nafter = [\"databse\"]\n[jobs.database]\nrun = \"true\"",
            "3:10",
            "there is no job `databse`; did you mean `database`?",
        ),
        (
            "[jobs.a]\nrun = \"true\"\nafter = [\"b@redy\"]\n[jobs.b]\nrun = \"true\"",
            "3:10",
            "@redy is not known; did you mean @ready?",
        ),
        (
            "[jobs.a]\nrun = \"true\"\nafter = [\"b@ready\"]\n[jobs.b]\nrun = \"true\"",
            "3:10",
            "b never says that it is ready",
        ),
        (
            "[jobs.a]\nrun = \"true\"\nafter = [\"b@healthy\"]\n[jobs.b]\nrun = \"true\"",
            "3:10",
            "nothing says when b is healthy: give it `health`",
        ),
        (
            "[jobs.a]\nrun = \"true\"\nafter = \"b\"\n[jobs.b]\nrun = \"true\"\nafter = [\"a\"]",
            "3:9",
            "a would wait for itself: a → b → a",
        ),
        ("[jobs.web]\nrun = \"true\"\nafter = [\"db\"]", "3:10: there is no job `db`\n", ""),
        ("[jobs.a]\nrun = \"true\"\nafter = [\"a\"]", "3:10", "a would wait for itself: a → a"),
        ("[jobs.a]\nrun = \"true\"\nready = { http = \"foo\" }", "3:18", "`http`: \"foo\" is no address"),
        ("[jobs.a]\nrun = \"true\"\nhealth.http = \"foo\"", "3:15", "`http`: \"foo\" is no address"),
        ("[jobs.a]\nrun = \"true\"\nready = { line = \"(\" }", "3:18", "`line`: "),
        ("[jobs.a]\nrun = \"true\"\nhealth.line = \"(\"", "3:15", "`line`: "),
        ("[jobs.a]\nrun = \"true\"\nready.timeout = \"5s\"", "3:1", "nothing says when it is ready"),
        ("[jobs.a]\nrun = \"true\"\nhealth.interval = \"5s\"", "3:1", "nothing says when it is healthy"),
        (
            "[jobs.a]\nrun = \"true\"\n[jobs.b]\nrun = \"cat\"\npty = true\nstdin_from = \"a\"",
            "6:1",
            "a job in a terminal cannot read what another prints",
        ),
        ("[jobs.a]\nrun = \"true\"\nrestart = \"yes\"", "3:11", "`restart`: write no, on-failure or always"),
        ("[jobs.a]\nrun = \"true\"\nschedule = \"1 2 3\"", "3:12", "`schedule`: "),
    ] {
        project.write("outlive.toml", toml);
        for verb in [&["up"][..], &["status"], &["down", "-f", "outlive.toml"], &["why", "a"]] {
            let failed = project.run(verb).code(1).error();
            assert!(
                failed.contains(&format!("outlive.toml:{place}")) && failed.contains(message),
                "{failed}"
            );
        }
    }
    assert!(home.json(["list"]).as_array().expect("a list").is_empty(), "nothing is started");
    let failed = project.run(&["up", "--json"]).code(1).error_json();
    assert_eq!(failed["error"]["code"], "config");
}

#[test]
fn a_directory_that_is_not_there_is_told_before_anything_is_started() {
    let home = Home::new();
    let toml = "[jobs.a]\nrun = \"sleep 300\"\n[jobs.b]\nrun = \"sleep 300\"\ndir = \"sub\"\n";
    let project = Project::new(&home, "shop", toml);
    let failed = project.run(&["up"]).code(1).error();
    assert!(failed.contains("outlive.toml:5:7: there is no such directory"), "{failed}");
    assert!(project.live().is_empty(), "nothing is started");
    project.run(&["up", "a", "--wait"]).ok();
    project.run(&["down"]).ok();
    // A job before it may make the directory.
    project.write("outlive.toml", &format!("{toml}after = \"c@succeeded\"\n[jobs.c]\nrun = \"mkdir sub\"\n"));
    project.run(&["up", "--wait"]).ok();
    assert_eq!(project.live(), ["a", "b"]);
    std::fs::remove_dir(project.dir.join("sub")).expect("it is empty");
    project.run(&["down"]).ok();
    assert!(project.live().is_empty());
    // A run before it makes no difference to what is said.
    project.write("outlive.toml", &toml.replace("dir =", "after = \"a\"\ndir ="));
    let said = project.run(&["up", "--wait"]).code(1).text();
    assert!(said.contains("b  not started: run: could not enter the directory"), "{said}");
}

#[test]
fn a_job_that_says_itself_when_it_is_ready_can_be_waited_for() {
    let home = Home::new();
    let toml =
        "[jobs.a]\nrun = \"sleep 300\"\nready = { notify = true }\n[jobs.b]\nrun = \"true\"\nafter = \"a\"\n";
    let project = Project::new(&home, "shop", toml);
    project.run(&["up"]).ok();
    project.until("b", "waits for a@ready");
    let why = project.run(&["why", "a"]).ok().text();
    assert!(why.contains("and is not ready: it has not said READY=1 on $NOTIFY_SOCKET"), "{why}");
}

#[test]
fn the_local_file_takes_precedence() {
    let home = Home::new();
    let toml = "name = \"shop\"\n[jobs.web]\nrun = 'echo $A $B $C; sleep 300'\nenv = { A = 1, B = 2 }\nenv_file = \"x.env\"";
    let project = Project::new(&home, "dir", toml);
    project.write("x.env", "B=file\nC='of file'\n");
    project.write(
        "outlive.local.toml",
        "[jobs.web]\nenv = { B = 3 }\n[jobs.mine]\nrun = [\"sleep\", \"300\"]\ndir = \"sub\"\n",
    );
    std::fs::create_dir(project.dir.join("sub")).expect("the directory is there");
    project.run(&["up"]).ok();
    home.wait_for_output(&project.id("web"), "1 3 of file\n");
    assert_eq!(project.live(), ["mine", "web"]);
    assert!(project.session().starts_with("shop-"));
    assert_eq!(home.show(&project.id("mine"))["cwd"], project.dir.join("sub").to_str().expect("UTF-8"));
    project.write("outlive.local.toml", "[jobs.web]\nrnu = \"true\"");
    let failed = project.run(&["up"]).code(1).error();
    assert!(
        failed.contains("outlive.local.toml:2:1: a job has no key `rnu`; did you mean `run`?"),
        "{failed}"
    );
}

#[test]
fn the_file_is_found_from_below_and_outside_a_project_status_is_list() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "[jobs.web]\nrun = \"sleep 300\"");
    let below = project.dir.join("a");
    std::fs::create_dir(&below).expect("the directory is there");
    project.run_in(&below, &["up"]).ok();
    assert_eq!(project.live(), ["web"]);
    let outside = home.run(["status"]).ok().text();
    assert!(outside.starts_with("JOB ") && outside.contains("web: sleep 300"), "{outside}");
    let failed = home.run(["up"]).code(3).error();
    assert!(failed.contains("there is no outlive.toml in"), "{failed}");
    let failed = project.run(&["up", "wbe"]).code(3).error();
    assert!(failed.contains("did you mean web?"), "{failed}");
    home.run(["up", "-f", project.dir.join("outlive.toml").to_str().expect("UTF-8")]).ok();
}

#[test]
fn the_schema_is_up_to_date() {
    let home = Home::new();
    let made = home.run(["reference", "project-schema"]).ok().text();
    let written =
        std::fs::read_to_string(workspace().join("docs/reference/outlive.schema.json")).unwrap_or_default();
    assert!(written == made, "docs/reference/outlive.schema.json is not what outlive makes: ./test bless");
    let schema: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    let keys = &schema["properties"]["jobs"]["additionalProperties"]["properties"];
    for key in ["run", "after", "grace", "pty", "on_exit"] {
        assert!(keys[key]["description"].is_string(), "{key}");
    }
    // Files, and not lines of output as the option of `run`.
    assert!(keys["watch"]["anyOf"].is_array() && keys["name"].is_null());
}
