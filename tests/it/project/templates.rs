//! `[templates.X]`: jobs with parameters.
//!
//! Proves that parameters are filled in, that one is always one word of the line, and that a mistake is told with its place.

use outlive_tests::{Home, until};

use super::Project;

const FILE: &str = "[jobs.web]\nrun = \"exec sleep 300\"\n\n\
    [templates.test]\nabout = \"Run some tests\"\nparams = { filter = \"\", threads = 4, dir = \".\" }\nrun = \"printf '[%s]' test {{filter}} -j {{threads}}; pwd\"\ndir = \"{{dir}}\"\n\
    labels = { filter = \"f-{{filter}}\" }\n\n\
    [templates.ship]\nrun = [\"echo\", \"to {{where}}\"]\nenv = { WHERE = \"{{where}}\" }\nlimits = { memory = \"64M\" }\n";

#[test]
fn a_template_is_started_with_its_parameters() {
    let home = Home::new();
    let project = Project::new(&home, "shop", FILE);
    std::fs::create_dir(project.dir.join("sub")).expect("a directory");
    let listed = project.run(&["template", "list"]).ok().text();
    assert_eq!(
        listed,
        "test  Run some tests  [dir=.] [filter=] [threads=4]\nship  echo 'to {{where}}'  where=…\n"
    );
    let shown = project.json(&["template", "show", "ship"]);
    assert_eq!(shown["params"], serde_json::json!({ "where": null }));
    let printed = |arguments: &[&str]| {
        let job = project.run(&[&["template", "run"], arguments].concat()).ok().text().trim().to_owned();
        home.wait(&job);
        String::from_utf8(home.logs(&job)).expect("text")
    };
    let dir = project.dir.canonicalize().expect("it is there");
    let dir = dir.display();
    assert_eq!(printed(&["test"]), format!("[test][-j][4]{dir}\n"), "an empty parameter is no word");
    let evil = "it's; $(touch x) {{threads}}";
    assert_eq!(
        printed(&["test", "--set", &format!("filter={evil}"), "--set", "dir=sub"]),
        format!("[test][{evil}][-j][4]{dir}/sub\n"),
        "whatever is in it, it is one word"
    );
    assert!(!project.dir.join("sub/x").exists());
    assert_eq!(printed(&["ship", "--set", "where=a b"]), "to a b\n");
    // They are jobs of the project, and none that `up` wonders about.
    let job = project.json(&["template", "run", "ship", "--set", "where=x"]);
    assert_eq!(job["session"], project.session());
    home.wait(job["job"].as_str().expect("an id"));
    assert!(!project.run(&["up"]).ok().error().contains("is not in the file"));
    project.run(&["down"]).ok();
}

#[test]
fn a_parameter_is_one_word_in_every_line_for_a_shell() {
    let home = Home::new();
    let toml = "[templates.t]\nrun = \"sleep 300\"\nready = { command = \"test {{p}} = 'a; touch evil'\" }\n\
                on_exit = \"echo {{p}} > told\"\nparams = { p = 1 }\n";
    let project = Project::new(&home, "shop", toml);
    let job =
        project.run(&["template", "run", "t", "--set", "p=a; touch evil"]).ok().text().trim().to_owned();
    home.run(["wait", &job, "--ready"]).ok();
    home.run(["kill", &job]).ok();
    until("its end was told", || project.dir.join("told").exists());
    assert!(!project.dir.join("evil").exists());
}

#[test]
fn what_is_wrong_with_a_template_is_told_with_its_place() {
    let home = Home::new();
    let project = Project::new(&home, "shop", FILE);
    for (arguments, said) in [
        (&["ship"][..], "template ship: it needs where: --set where=VALUE"),
        (&["ship", "--set", "were=x"], "it has no parameter \"were\"; did you mean where?"),
        (&["ship", "--set", "where"], "write NAME=VALUE"),
    ] {
        let error = project.run(&[&["template", "run"], arguments].concat()).code(2).error();
        assert!(error.contains(said), "{error}");
    }
    let error = project.run(&["template", "run", "shp"]).code(3).error();
    assert!(error.contains("did you mean ship?"), "{error}");
    for (template, said) in [
        (
            "run = \"echo '{{a}}'\"",
            "outlive.toml:2:14: {{a}} is always one word: write it without quotes around it",
        ),
        ("run = \"echo {{b}} {{a\"", "outlive.toml:2:19: this is never closed: write {{a}}"),
        ("run = \"echo {{a b}}\"", "outlive.toml:2:13: the name of a parameter has letters"),
        ("run = \"echo {{a}}\"\nparams = { b = 1 }", "outlive.toml:3:12: nothing in the template says {{b}}"),
        ("run = \"a\"\nafter = [\"x\"]", "outlive.toml:3:1: a template is started when it is asked for"),
        ("run = \"a\"\nredy = 1", "outlive.toml:3:1: a template has no key `redy`; did you mean `ready`?"),
        ("dir = \".\"", "outlive.toml:1:12: template t has no `run`"),
        ("run = \"a\"\ngrace = \"{{g}}\"\nparams = { g = \"long\" }", "outlive.toml:3:9: `grace`: "),
        (
            "run = \"a {{p}}\"\nport = \"auto\"\nparams = { p = 1 }",
            "outlive.toml:3:8: a template has no port",
        ),
    ] {
        project.write("outlive.toml", &format!("[templates.t]\n{template}\n"));
        let error = project.run(&["template", "list"]).code(1).error();
        assert!(error.contains(said), "{template}\n{error}");
    }
    project.write("outlive.toml", "[jobs.t]\nrun = \"a\"\n[templates.t]\nrun = \"a\"\n");
    assert!(
        project
            .run(&["template", "list"])
            .code(1)
            .error()
            .contains("outlive.toml:3:12: there is a job of this name")
    );
}
