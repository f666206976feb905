//! `outlive import`: an `outlive.toml` from what other programs know of a project.
//!
//! Proves that the file is one that `up` reads, that what is not meant to run all the time is not started, and that nothing is overwritten.

use outlive_tests::Home;

use super::Project;

fn project<'a>(home: &'a Home, file: &str, text: &str) -> Project<'a> {
    let project = Project { home, dir: home.make_dir("app") };
    let path = project.dir.join(file);
    std::fs::create_dir_all(path.parent().expect("it has one")).expect("a directory");
    std::fs::write(path, text).expect("a file");
    project
}

#[test]
fn scripts_that_serve_become_jobs() {
    let home = Home::new();
    let scripts = r#"{ "name": "shop", "scripts": { "predev": "echo pre", "dev": "sh -c 'echo served; exec sleep 300'",
        "dev:css": "exec sleep 300", "start": "node .", "build": "rm -rf /nowhere", "test": "false" } }"#;
    let project = project(&home, "package.json", scripts);
    let toml = project.run(&["import"]).ok().text();
    assert!(toml.contains("name = \"shop\"") && toml.contains("[jobs.dev-css]"), "{toml}");
    for left_out in ["# [jobs.start]", "# [jobs.build]", "# [jobs.test]"] {
        assert!(toml.contains(left_out), "{left_out}\n{toml}");
    }
    assert!(!toml.contains("predev") && toml.contains("run = [\"npm\", \"run\", \"dev\"]"), "{toml}");
    project.write("pnpm-lock.yaml", "");
    assert!(project.run(&["import"]).ok().text().contains("[\"pnpm\", \"run\", \"dev\"]"));
    let said = project.run(&["import", "--write"]).ok().text();
    assert!(said.contains("outlive.toml; look it through"), "{said}");
    assert_eq!(project.json(&["status"])["jobs"].as_array().map(Vec::len), Some(2));
    let refused = project.run(&["import", "--write"]).code(2).error();
    assert!(refused.contains("is there already"), "{refused}");
}

#[test]
fn tasks_in_the_background_become_jobs_with_what_they_depend_on() {
    let home = Home::new();
    let tasks = r#"{
        // of an editor
        "version": "2.0.0",
        "tasks": [
            { "label": "install", "type": "shell", "command": "echo", "args": ["installed", { "value": "a b", "quoting": "strong" }] },
            { "label": "prepare", "dependsOrder": "sequence", "dependsOn": ["install", "generate"] },
            { "label": "generate", "type": "process", "command": "${workspaceFolder}/gen.sh", "options": { "cwd": "${workspaceFolder}/tools" } },
            { "label": "tsc: watch", "type": "shell", "command": "sh -c 'echo Compiled $MODE; exec sleep 300'", "isBackground": true, "dependsOn": "prepare",
              "options": { "env": { "MODE": "dev" } },
              "problemMatcher": { "background": { "activeOnStart": true, "beginsPattern": "^Compiling", "endsPattern": "^Compiled" } } },
            { "label": "ask", "type": "shell", "command": "echo ${input:name}", "isBackground": true },
            { "label": "deploy", "type": "shell", "command": "exit 1", },
        ],
    }"#;
    let project = project(&home, ".vscode/tasks.json", tasks);
    let toml = project.run(&["import", ".vscode/tasks.json", "--write"]).ok();
    drop(toml);
    let toml = std::fs::read_to_string(project.dir.join("outlive.toml")).expect("it was written");
    assert!(
        toml.contains("# [jobs.deploy]") && toml.contains("# Only VS Code knows what ${input:name} is."),
        "{toml}"
    );
    assert!(toml.contains("after = [\"generate@succeeded\", \"install@succeeded\"]"), "{toml}");
    assert!(toml.contains("run = [\"../gen.sh\"]\ndir = \"tools\""), "{toml}");
    std::fs::create_dir(project.dir.join("tools")).expect("a directory");
    project.write("gen.sh", "#!/bin/sh\necho generated\n");
    std::process::Command::new("chmod")
        .args(["+x", "gen.sh"])
        .current_dir(&project.dir)
        .status()
        .expect("chmod");
    project.run(&["up", "--wait"]).ok();
    project.until("tsc-watch", "running, ready");
    assert_eq!(project.state("install"), "completed");
    project.run(&["down"]).ok();
}

#[test]
fn servers_of_claude_code_and_daemons_of_pitchfork_become_jobs() {
    let home = Home::new();
    let launch = r#"{ "version": "0.0.1", "configurations": [
        { "name": "My web", "runtimeExecutable": "npm", "runtimeArgs": ["run", "dev"], "port": 3000, "env": { "A": "1" } },
        { "name": "api", "program": "server.js", "args": ["-v"], "cwd": "${workspaceFolder}/api", "autoPort": true, "smartStep": true } ] }"#;
    let claude = project(&home, ".claude/launch.json", launch);
    let done = claude.run(&["import", ".claude/launch.json"]).ok();
    assert!(done.error().contains("`smartStep` of \"api\" is not taken over"), "{}", done.error());
    let expected = "[jobs.My-web]\nrun = [\"npm\", \"run\", \"dev\"]\nport = 3000\nenv = { A = \"1\" }\n\n\
        [jobs.api]\nrun = [\"node\", \"server.js\", \"-v\"]\ndir = \"api\"\nport = \"auto\"\n";
    assert!(done.text().ends_with(expected), "{}", done.text());
    let daemons = "namespace = \"shop\"\n[daemons.redis]\nrun = \"redis-server --port $PORT\"\nport = 6379\nready_cmd = \"redis-cli ping\"\n\n\
        [daemons.api]\nrun = \"node server.js\"\ndepends = [\"redis\", \"global/x\"]\nready_http = { url = \"http://127.0.0.1:3000/health\", timeout = \"30s\" }\n\
        retry = 3\nstop_signal = \"SIGINT\"\nboot_start = true\nenv = { A = 1 }\n";
    std::fs::write(claude.dir.join("pitchfork.toml"), daemons).expect("a file");
    let several = claude.run(&["import"]).code(2).error();
    assert!(several.contains("there are several files: pitchfork.toml, .claude/launch.json"), "{several}");
    let answer = claude.json(&["import", "pitchfork.toml"]);
    let expected = "name = \"shop\"\n\n[jobs.redis]\nrun = \"redis-server --port $PORT\"\nport = 6379\nready = { command = \"redis-cli ping\" }\n\n\
        [jobs.api]\nrun = \"node server.js\"\nafter = [\"redis\"]\nrestart = { when = \"on-failure\", tries = 3 }\nstop = \"INT\"\nenv = { A = \"1\" }\n\
        ready = { http = \"http://127.0.0.1:3000/health\", timeout = \"30s\" }\n";
    assert!(answer["toml"].as_str().is_some_and(|toml| toml.ends_with(expected)), "{answer}");
    assert_eq!(answer["warnings"].as_array().map(Vec::len), Some(2), "{answer}");
}

#[test]
fn what_cannot_be_imported_is_told_with_its_place() {
    let home = Home::new();
    let project = project(&home, "package.json", "{ \"scripts\": {\n \"dev\": ] } }");
    let error = project.run(&["import"]).code(1).error();
    assert!(error.contains("package.json:2:9: this is not JSON"), "{error}");
    project.write("package.json", "{}");
    assert!(project.run(&["import"]).code(1).error().contains("it has no scripts"));
    project.write("Makefile", "all:\n");
    assert!(
        project.run(&["import", "Makefile"]).code(1).error().contains("it cannot be imported; there are")
    );
    std::fs::remove_file(project.dir.join("package.json")).expect("it is there");
    assert!(project.run(&["import"]).code(2).error().contains("there is nothing to import"));
}

#[test]
fn what_is_read_as_it_is_is_not_imported() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "");
    for name in ["Procfile", "process-compose.yaml"] {
        project.write(name, "a: sleep 300\n");
        let failed = project.run(&["import", name]).code(1).error();
        assert!(failed.contains(&format!("outlive up -f {name}")), "{failed}");
    }
}

#[test]
fn a_file_that_is_to_be_imported_is_not_brought_up() {
    let home = Home::new();
    let project = Project { home: &home, dir: home.make_dir("app") };
    project.write("package.json", "{ \"scripts\": { \"dev\": \"vite\" } }");
    let failed = project.run(&["up", "-f", "package.json"]).code(1).error();
    assert!(failed.contains("is no project by itself") && failed.contains("outlive import "), "{failed}");
}
