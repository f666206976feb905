//! `up -f Procfile`: the files of foreman and overmind, in the shapes that public projects use.
//!
//! Proves that each job gets the variables of `.env` and a `$PORT` of its own.

use outlive_tests::Home;

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
    let said = project.run(&["down", "-f", "Procfile"]).ok().text();
    assert_eq!(said.lines().count(), 2, "{said}");
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
