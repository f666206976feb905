//! Which jobs a profile takes for its own: those with its label, and of those from before labels the ones with an id of its form.

use std::time::Duration;

use outlive_tests::{Era, Home, Mcp, use_fixture};
use serde_json::{Value, json};

use super::deepchat::{Talk, set_end_back, set_look_back};

const LONG: Duration = Duration::from_secs(24 * 3600);

/// Starts a server of a profile in the session `default`.
fn server(home: &Home, profile: &str) -> Talk {
    let options = ["--profile", profile, "--session", "default"];
    Talk(Mcp::start_with(home, Era::Handshake, &options, home.path()))
}

/// A person's job stays, whatever its name makes its id look like.
#[test]
fn a_job_that_is_named_like_a_handle_is_no_profiles() {
    let home = Home::new();
    let worker = home.start_with(&["--name", "proc worker"], ["true"]);
    let shells: Vec<String> =
        (0..21).map(|_| home.start_with(&["--name", "shell worker"], ["true"])).collect();
    for job in shells.iter().chain([&worker]) {
        home.wait(job);
        set_end_back(&home, job, LONG);
    }
    assert!(worker.starts_with("proc-") && shells[0].starts_with("shell-"));
    // Any session of duragent removes what ended more than 30 minutes ago in all sessions.
    Talk::start(&home, "duragent", "another").text("process", json!({"action": "list"}));
    assert!(home.job_dir(&worker).exists(), "duragent removed a person's job");
    server(&home, "claude-code").text("run_command", json!({"command": "true", "run_in_background": true}));
    assert!(shells.iter().all(|job| home.job_dir(job).exists()), "claude-code removed a person's job");
}

/// A store that a version without labels wrote has a job of each profile that removes jobs, two that were answered in the foreground,
/// and a person's job named `proc worker`.
#[test]
fn jobs_from_before_labels_are_known_by_their_ids() {
    let [duragent, deepchat, shell] = ["proc-buy8q086", "bg_u8oqfzauhac7", "shell-1794776180980-egrn"];
    let background = "b87195d4-829d-45f5-8eb6-c9ea3252d67e";
    let foreground = ["shell-1794776181001-dqup", "418915e1-1ca9-45f0-ae2c-6a893cd00e9d"];
    let person = "proc-worker-7zsw";
    let home = Home::new();
    use_fixture(&home, "store-before-labels");
    home.configure("[retention]\nkeep = \"36500d\"\nmax_age = \"36500d\"\n");
    assert_eq!(home.show(person)["labels"], json!({}));

    let ids = |text: &str, list: &str, key: &str| -> Vec<String> {
        let rows: Value = serde_json::from_str(text).expect("a list is JSON");
        let rows = if list.is_empty() { &rows } else { &rows[list] };
        rows.as_array()
            .into_iter()
            .flatten()
            .map(|row| row[key].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let shells = ids(&server(&home, "claude-code").text("list_shells", json!({})), "", "id");
    assert!(
        shells.iter().any(|id| id == shell) && !shells.iter().any(|id| id == foreground[0]),
        "{shells:?}"
    );
    let processes = server(&home, "macos-shell").text("list_processes", json!({}));
    let processes = ids(&processes, "processes", "id");
    assert!(processes.iter().any(|id| id == background), "{processes:?}");
    assert!(!processes.iter().any(|id| id == foreground[1]), "{processes:?}");

    // What is configured counts for these, too.
    home.configure("[retention]\nmax_age = \"36500d\"\n");
    set_look_back(&home, deepchat, LONG);
    for job in [duragent, person] {
        set_end_back(&home, job, LONG);
    }
    server(&home, "deepchat").text("process", json!({"action": "list"}));
    server(&home, "duragent").call("process", json!({"action": "list"}));
    assert!(!home.job_dir(deepchat).exists() && !home.job_dir(duragent).exists());
    for job in [person, shell, background].iter().chain(&foreground) {
        assert!(home.job_dir(job).exists(), "{job} is gone");
    }
}

/// What a server knows of the jobs that it starts is in their labels: no caller can set these.
#[test]
fn a_job_says_what_started_it() {
    let home = Home::new();
    let labels = |home: &Home, id: &str| home.show(id)["labels"].clone();
    let mut agent = Talk::start(&home, "duragent", "a conversation");
    let started = agent.json("spawn_process", json!({"command": "read x"}));
    let id = started["handle"].as_str().expect("it has a handle");
    let conversation = outlive::reader_name("a conversation");
    let expected = json!({"outlive.profile": "duragent", "outlive.conversation": conversation.as_str()});
    assert_eq!(labels(&home, id), expected);

    let mut command = home.outlive(["mcp", "--profile", "claude-code", "--session", "default"]);
    command.current_dir(home.make_dir("elsewhere"));
    let project = home.make_dir("project");
    let uri = format!("file://{}", project.display());
    let mut client = Talk(Mcp::of(command, Era::Handshake, json!({"roots": {}}), &[&uri]));
    client.text("run_command", json!({"command": "pwd"}));
    let listed = home.json(["list", "--label", "outlive.foreground=run_command"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    let expected = json!({
        "outlive.profile": "claude-code",
        "outlive.foreground": "run_command",
        "outlive.project": project.to_str(),
    });
    assert_eq!(listed[0]["labels"], expected);
    // It was answered, so the design has no process of it.
    assert_eq!(client.text("list_shells", json!({})), "[]");
}
