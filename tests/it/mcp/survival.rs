//! Servers come and go; jobs, output and endings stay.
//!
//! Proves that a server may be killed in the middle of any tool, and the next one goes on.

use outlive_tests::{Era, Home, Mcp, Random};
use serde_json::{Value, json};

fn start(home: &Home) -> Mcp {
    let mut command = home.outlive(["mcp"]);
    command.env("CLAUDE_CODE_SESSION_ID", "conversation");
    Mcp::of(command, Era::Stateless, json!({}), &[])
}

/// Killed in the middle of any tool, the next server goes on as if nothing had happened. `OUTLIVE_TEST_KILLS=200` for more.
#[test]
fn a_server_may_be_killed_in_the_middle_of_any_tool() {
    let home = Home::new();
    let mut random = Random::new(1);
    let mut client = start(&home);
    let line = "while read x; do echo $x; done";
    let job = client
        .call("run", json!({"command": line, "stdin": "open", "name": "kept", "background": true}))
        .ok()
        .job();
    let calls: Vec<(&str, Value)> = vec![
        ("run", json!({"command": "echo done", "name": "short"})),
        ("read_output", json!({"job": job, "wait_ms": 1000})),
        ("wait", json!({"jobs": [job]})),
        ("send_input", json!({"job": job, "text": "hello"})),
        ("read_screen", json!({"job": job})),
        ("kill", json!({"job": "short"})),
        ("list_jobs", json!({"usage": true, "ports": true})),
        ("manage_job", json!({"job": job, "action": "rename", "name": "kept"})),
    ];
    let kills = std::env::var("OUTLIVE_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40);
    for round in 0..kills {
        let (tool, arguments) = &calls[round % calls.len()];
        client.send_call(tool, arguments.clone());
        std::thread::sleep(std::time::Duration::from_micros(random.below(20_000)));
        client.kill();
        client = start(&home);
        let listed = client.call("list_jobs", json!({})).ok();
        assert!(listed.text.contains(&job), "{round}: {}", listed.text);
    }
    // What was written before a kill is there; what was not is not half there.
    let output = client
        .call("read_output", json!({"job": job, "from_line": 1, "form": "plain", "max_bytes": 100_000}))
        .ok();
    assert!(output.body().iter().all(|line| *line == "hello"), "{}", output.text);
    client.call("send_input", json!({"job": job, "eof": true})).ok();
    assert_eq!(home.wait(&job)["status"], "completed");
    // Every ending is accounted for: after the next answer the conversation has been told of all.
    client.call("list_jobs", json!({})).ok();
    assert_eq!(client.end(), 0);
    let session = home.show(&job)["session"].as_str().unwrap().to_owned();
    let left = home.json(["--session", &session, "inbox", "--reader", "conversation", "--peek"]);
    assert_eq!(left["notices"], json!([]), "{left}");
    // Every job is accounted for: it ended as it should, was killed on request, or lost its server before it began.
    for job in home.json(["list"]).as_array().unwrap() {
        let ended = home.wait(job["job"].as_str().unwrap());
        let is_known = matches!(ended["status"].as_str(), Some("completed" | "killed"));
        assert!(is_known || ended["cause"] == "never_started", "{ended}");
    }
}
