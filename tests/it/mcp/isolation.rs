//! Which jobs a client sees: those of its project.
//!
//! Proves that a server of another project neither sees nor names them, and that each conversation has its own position.

use outlive_tests::{Era, Home, Mcp};
use serde_json::json;

#[test]
fn two_projects_do_not_see_each_other() {
    let home = Home::new();
    let (one, two) = (home.make_dir("one"), home.make_dir("two"));
    std::fs::create_dir(one.join(".git")).unwrap();
    std::fs::create_dir(one.join("src")).unwrap();
    let mut first = Mcp::start_with(&home, Era::Handshake, &[], &one);
    let mut other = Mcp::start_with(&home, Era::Handshake, &[], &two);
    let job =
        first.call("run", json!({"command": "sleep 100", "name": "web", "background": true})).ok().job();
    for reference in [job.as_str(), "web", &job[..4]] {
        for (tool, arguments) in [
            ("read_output", json!({"job": reference})),
            ("kill", json!({"job": reference})),
            ("manage_job", json!({"job": reference, "action": "pause"})),
            ("send_input", json!({"job": reference, "text": "x"})),
            ("wait", json!({"jobs": [reference]})),
        ] {
            let error = other.call(tool, arguments).error();
            assert!(error.contains("there is no job"), "{error}");
            assert!(reference == job || !error.contains(&job), "{error}");
        }
    }
    assert!(other.call("list_jobs", json!({})).ok().body().is_empty());
    assert!(other.call("kill", json!({"group": "web"})).ok().text.contains("nothing to end"));
    assert_eq!(home.show(&job)["status"], "running");
    // Anywhere in the same project it is seen, by a later server, too.
    first.kill();
    let mut again = Mcp::start_with(&home, Era::Stateless, &[], &one.join("src"));
    assert!(again.call("list_jobs", json!({})).ok().text.contains(&job));
    let mut trusted = Mcp::start_with(&home, Era::Stateless, &["--all-sessions"], &two);
    let listed = trusted.call("list_jobs", json!({})).ok();
    assert!(listed.text.contains(&job) && listed.text.contains("session=one-"), "{}", listed.text);
}

#[test]
fn the_session_is_named_or_comes_from_the_clients_roots() {
    let home = Home::new();
    let project = home.make_dir("my project");
    let uri = format!("file://{}", project.display().to_string().replace(' ', "%20"));
    let rooted = Mcp::of(home.outlive(["mcp"]), Era::Handshake, json!({"roots": {}}), &["http://x/", &uri]);
    let mut rooted = rooted;
    let job = rooted.call("run", json!({"command": "pwd"})).ok();
    assert_eq!(job.body(), [project.display().to_string()]);
    let session = home.show(&job.job())["session"].as_str().unwrap().to_owned();
    assert!(session.starts_with("my-project-"), "{session}");
    let mut there = Mcp::start_with(&home, Era::Handshake, &[], &project);
    assert!(there.call("list_jobs", json!({})).ok().text.contains(&job.job()));
    let mut named = Mcp::start_with(&home, Era::Handshake, &["--session", "mine"], &project);
    let job = named.call("run", json!({"command": "true"})).ok().job();
    assert_eq!(home.show(&job)["session"], "mine");
}

/// Each conversation has its own position in a job's output.
#[test]
fn readers_do_not_take_from_each_other() {
    let home = Home::new();
    let start = |reader: &str| {
        let mut command = home.outlive(["mcp"]);
        command.env("CLAUDE_CODE_SESSION_ID", reader);
        Mcp::of(command, Era::Handshake, json!({}), &[])
    };
    let (mut one, mut two) = (start("one"), start("two"));
    let job = one.call("run", json!({"command": "echo a"})).ok().job();
    assert_eq!(two.call("read_output", json!({"job": job})).ok().body(), ["a"]);
    assert!(two.call("read_output", json!({"job": job})).ok().body().is_empty());
    one.kill();
    let mut one = start("one");
    assert!(
        one.call("read_output", json!({"job": job})).ok().body().is_empty(),
        "the same conversation goes on"
    );
}
