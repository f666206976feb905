//! `up -f Procfile`: the files of foreman and overmind, in the shapes that public projects use.
//!
//! Proves that each job gets the variables of `.env` and a `$PORT` of its own.

use outlive_tests::{Home, until};

use super::Project;

#[test]
fn a_procfile_is_read_as_it_is() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "");
    project.write(
        "Procfile",
        "# a comment\n\nweb: echo $PORT $COLOUR; exec sleep 300\nworker_1:  QUEUE=a:b sh -c 'echo $QUEUE $PORT'; exec sleep 300\n",
    );
    project.write(".env", "COLOUR='red'\n");
    for port in [5000, 7000] {
        if port == 7000 {
            project.write(".env", "COLOUR='red'\nPORT=7000\n");
        }
        project.run(&["up", "-f", "Procfile", "--wait"]).ok();
        let status = project.json(&["status", "-f", "Procfile"]);
        let id = |at: usize| status["jobs"][at]["job"]["job"].as_str().expect("an id").to_owned();
        home.wait_for_output(&id(0), &format!("{port} red\n"));
        home.wait_for_output(&id(1), &format!("a:b {}\n", port + 100));
    }
    // devenv#2950: one of its managers could neither list nor wait nor stop. Here they are jobs like all others.
    let listed = home.json(["list", "--live"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    home.run(["wait", listed[0]["job"].as_str().expect("an id"), "--timeout", "10ms"]).code(4);
    let said = project.run(&["down", "-f", "Procfile"]).ok().text();
    assert_eq!(said.lines().count(), 2, "{said}");
}

/// The shapes of public projects: Rails with its watchers, Django with celery, Node with a release step, and one of many workers.
#[test]
fn procfiles_of_four_kinds_start_and_stop() {
    let kinds: [(&str, &str, &[&str]); 4] = [
        (
            "Procfile.dev",
            "web: env RUBY_DEBUG_OPEN=true sh -c 'echo rails $PORT; exec sleep 300'\njs: yarn() { echo js; exec sleep 300; }; yarn build --watch\ncss: echo css && exec sleep 300\n",
            &["rails 5000", "js", "css"],
        ),
        (
            "Procfile",
            "web: echo gunicorn --bind 0.0.0.0:$PORT --log-file -; exec sleep 300\nworker: echo celery -A app worker -l info; exec sleep 300\nbeat: echo celery -A app beat; exec sleep 300\n",
            &["--bind 0.0.0.0:5000", "worker -l info", "app beat"],
        ),
        (
            "Procfile",
            "# for the platform\nrelease: echo migrated\nweb: node=$(echo node); echo $node server.js on ${PORT:-3000}; exec sleep 300\n",
            &["migrated", "server.js on 5100"],
        ),
        (
            "jobs.procfile",
            "default_worker: QUEUE=default sh -c 'echo $QUEUE'; exec sleep 300\nmailer-worker: QUEUE=mail sh -c 'echo $QUEUE'; exec sleep 300\n",
            &["default", "mail"],
        ),
    ];
    for (file, text, prints) in kinds {
        let home = Home::new();
        let project = Project::new(&home, "shop", "");
        project.write(file, text);
        project.run(&["up", "-f", file, "--wait"]).ok();
        let status = project.json(&["status", "-f", file]);
        for (job, printed) in status["jobs"].as_array().expect("a list").iter().zip(prints) {
            home.wait_for_output(job["job"]["job"].as_str().expect("an id"), printed);
        }
        project.run(&["down", "-f", file]).ok();
        until("no process is left", || home.processes().is_empty());
    }
}

#[test]
fn a_mistake_in_a_procfile_is_told_with_its_place() {
    let home = Home::new();
    let project = Project::new(&home, "shop", "");
    for (text, message) in [
        ("web: true\nworker\n", "Procfile.dev:2:1: write NAME: COMMAND"),
        ("web: true\nweb: false\n", "Procfile.dev:2:1: there is a job of this name above"),
        ("web:\n", "Procfile.dev:1:1: there is no command to run"),
        ("a b: true\n", "Procfile.dev:1:1: the name of a job has letters"),
    ] {
        project.write("Procfile.dev", text);
        let failed = project.run(&["up", "-f", "Procfile.dev"]).code(1).error();
        assert!(failed.contains(message), "{failed}");
    }
    project.write("Procfile.dev", "web: true\n");
    project.write(".env", "A=1\nwrong\n");
    let failed = project.run(&["up", "-f", "Procfile.dev"]).code(1).error();
    assert!(failed.contains(".env:2:1: this is not NAME=VALUE"), "{failed}");
}
