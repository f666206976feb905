//! Waits as tasks, for clients that take them.
//!
//! Proves that a task outlives its server, that cancelling it ends the waiting only, and that an exit that is not zero is a task
//! completed.

use outlive_tests::{ERAS, Era, Home, Mcp};
use serde_json::{Value, json};

fn start(home: &Home, era: Era, directory: &std::path::Path) -> Mcp {
    let mut command = home.outlive(["mcp"]);
    command.current_dir(directory);
    Mcp::of(command, era, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}), &[])
}

/// Calls `wait`, which must become a task, and returns its id.
#[track_caller]
fn task(client: &mut Mcp, arguments: Value) -> String {
    let task = client.result("tools/call", json!({"name": "wait", "arguments": arguments}));
    assert_eq!(
        (task["resultType"].as_str(), task["status"].as_str()),
        (Some("task"), Some("working")),
        "{task}"
    );
    let id = task["taskId"].as_str().unwrap();
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    id.to_owned()
}

fn get(client: &mut Mcp, id: &str) -> Value {
    client.result("tasks/get", json!({"taskId": id}))
}

#[test]
fn a_task_outlives_its_server() {
    let home = Home::new();
    for era in ERAS {
        let mut client = start(&home, era, home.path());
        let line = "echo before; read x; echo after; exit 7";
        let started = client.call("run", json!({"command": line, "stdin": "open", "wait_ms": 0})).ok();
        let job = started.job();
        let id = task(&mut client, json!({"jobs": [job]}));
        assert_eq!(get(&mut client, &id)["status"], "working");
        client.kill();
        let mut client = start(&home, era, home.path());
        let working = get(&mut client, &id);
        assert_eq!(working["status"], "working", "{working}");
        assert_eq!(working["pollIntervalMs"], 1000);
        client.call("send_input", json!({"job": job, "text": "x", "wait_ms": 0})).ok();
        home.wait(&job);
        let done = get(&mut client, &id);
        assert_eq!(done["status"], "completed", "{done}");
        let text = done["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("failed, exit 7"), "{text}");
        assert_eq!(done["result"]["isError"], false);
        let again = get(&mut start(&home, era, home.path()), &id);
        assert_eq!(again["result"], done["result"], "an answer that was given stays");
    }
}

#[test]
fn cancelling_a_task_ends_the_waiting_only() {
    let home = Home::new();
    let mut client = start(&home, Era::Stateless, home.path());
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    let id = task(&mut client, json!({"jobs": [job], "for": "match", "pattern": "never"}));
    client.result("tasks/cancel", json!({"taskId": id}));
    assert_eq!(get(&mut client, &id)["status"], "cancelled");
    assert_eq!(home.show(&job)["status"], "running");
    client.result("tasks/cancel", json!({"taskId": id}));
    let unknown = ["", "nope", "../../../x", &"0".repeat(32), &"é".repeat(16)].map(str::to_owned);
    for id in unknown {
        assert_eq!(client.error("tasks/get", json!({"taskId": id}))["code"], -32602);
        assert_eq!(client.error("tasks/cancel", json!({"taskId": id}))["code"], -32602);
    }
    assert_eq!(client.error("tasks/update", json!({"taskId": id, "inputResponses": {}}))["code"], -32602);
    // Another project's client has no such task.
    let elsewhere = home.make_dir("elsewhere");
    let mut other = start(&home, Era::Stateless, &elsewhere);
    assert_eq!(other.error("tasks/get", json!({"taskId": id}))["code"], -32602);
}

#[test]
fn what_is_known_already_needs_no_task() {
    let home = Home::new();
    let mut client = start(&home, Era::Stateless, home.path());
    let job = client.call("run", json!({"command": "exit 2"})).ok().job();
    assert!(client.call("wait", json!({"jobs": [job]})).ok().header().contains("exit 2"));
    assert!(client.call("wait", json!({"jobs": ["nope"]})).error().contains("there is no job"));
    assert!(client.call("wait", json!({"timeout_ms": 0})).ok().header().contains("nothing has happened"));
}

#[test]
fn a_task_whose_time_is_over_is_completed_and_jobs_go_on() {
    let home = Home::new();
    let mut client = start(&home, Era::Handshake, home.path());
    let job =
        client.call("run", json!({"command": "sleep 100", "name": "web", "background": true})).ok().job();
    let id = task(&mut client, json!({"jobs": ["web"], "timeout_ms": 100}));
    let mut done = Value::Null;
    outlive_tests::until("the time is over", || {
        done = get(&mut client, &id);
        done["status"] == "completed"
    });
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains("not yet"), "{done}");
    assert_eq!(home.show(&job)["status"], "running");
    // An event after the request completes the task, however late the client asks.
    let id = task(&mut client, json!({}));
    assert_eq!(get(&mut client, &id)["status"], "working");
    home.run(["kill", &job]).ok();
    home.wait(&job);
    let done = get(&mut client, &id);
    assert_eq!(done["status"], "completed", "{done}");
    assert!(done["result"]["content"][0]["text"].as_str().unwrap().contains(&job), "{done}");
}

#[test]
fn clients_that_take_no_tasks_get_none() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    assert!(client.call("wait", json!({"jobs": [job], "timeout_ms": 50})).ok().header().contains("not yet"));
    assert_eq!(client.error("tasks/get", json!({"taskId": "0".repeat(32)}))["code"], -32021);
}
