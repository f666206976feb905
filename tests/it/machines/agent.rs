//! An agent with jobs on another machine, through the MCP server here.
//!
//! Proves: `run` takes a machine where the configuration names some; the job's id works in every tool; its end comes with the next
//! answer of any tool, once, even from the next server; a machine that cannot be reached is never an ending.

use std::fs;

use outlive_tests::{Era, Home, Mcp, until};
use serde_json::{Value, json};

use super::Machine;

fn connect(machine: &Machine) -> Mcp {
    let mut command = machine.outlive(&["--session", "work", "--reader", "agent", "mcp"]);
    command.current_dir(machine.here.path());
    Mcp::of(command, Era::Handshake, json!({}), &[])
}

fn run_schema(client: &mut Mcp) -> Value {
    let listed = client.result("tools/list", json!({}));
    let tools = listed["tools"].as_array().expect("a list").clone();
    tools.into_iter().find(|tool| tool["name"] == "run").expect("run is there")["inputSchema"]["properties"]
        .clone()
}

/// Calls a tool that looks at nothing there until its answer tells of a job there.
fn told(client: &mut Mcp, job: &str) -> String {
    let mut text = String::new();
    until("the end is told", || {
        text = client.call("list_jobs", json!({"status": "lost", "group": "none"})).ok().text;
        text.contains(&format!("since your last call: {job} "))
    });
    text
}

#[test]
fn an_agent_builds_on_another_machine_is_told_of_the_end_reads_and_kills() {
    let Some(machine) = Machine::start() else { return };
    let mut client = connect(&machine);
    assert_eq!(run_schema(&mut client)["on"]["enum"], json!(["gpu1"]));
    let go = machine.there.path().join("go");
    let build = format!(
        "until [ -e {} ]; do sleep 0.05; done; echo compiling; echo 'error: no such type' >&2; exit 2",
        go.display()
    );
    let started =
        client.call("run", json!({"command": build, "on": "gpu1", "name": "build", "background": true})).ok();
    let job = started.job();
    let bare = job.strip_prefix("gpu1/").expect("the machine's name is in the id").to_owned();
    assert!(started.text.contains(&format!("wait jobs=[\"{job}\"]")), "{}", started.text);
    assert_eq!(machine.there.show(&bare)["status"], "running");
    // Beside it one here; the list has both.
    let local = client.call("run", json!({"command": "sleep 300", "background": true})).ok().job();
    let listed = client.call("list_jobs", json!({})).ok().text;
    assert!(listed.contains(&format!("[outlive] {local} running")), "{listed}");
    assert!(
        listed.contains("on gpu1: 1 job, 1 live") && listed.contains(&format!("[outlive] {job} running")),
        "{listed}"
    );
    fs::write(&go, "").expect("written");
    let text = told(&mut client, &job);
    assert!(text.contains("failed, exit 2") && text.contains("  | error: no such type"), "{text}");
    let again = client.call("list_jobs", json!({"status": "lost"})).ok().text;
    assert!(!again.contains("since your last call"), "told once: {again}");
    let output = client.call("read_output", json!({"job": job})).ok().text;
    assert!(output.contains("error: no such type") && output.contains("exit 2"), "{output}");
    // Another one: waited for, answered, ended.
    let asks = json!({"command": "read a; echo got $a; sleep 300", "on": "gpu1", "stdin": "open", "background": true});
    let second = client.call("run", asks).ok().job();
    client.call("send_input", json!({"job": second, "text": "hello"})).ok();
    let waited =
        client.call("wait", json!({"jobs": [second], "for": "match", "pattern": "got hello"})).ok().text;
    assert!(waited.contains("got hello"), "{waited}");
    let mixed = client.call("wait", json!({"jobs": [second, local], "timeout_ms": 10})).error();
    assert!(mixed.contains("several machines"), "{mixed}");
    let killed = client.call("kill", json!({"job": second})).ok().text;
    assert!(killed.contains(&second) && killed.contains("ended"), "{killed}");
    client.call("kill", json!({"job": local})).ok();
    let unknown = client.call("run", json!({"command": "true", "on": "gpu7"})).error();
    assert!(unknown.contains("gpu1"), "{unknown}");
    assert_eq!(client.end(), 0);
    until("nothing runs there but keepers", || machine.there.processes().is_empty());
}

#[test]
fn an_end_is_told_by_the_next_server_and_a_machine_that_is_away_is_no_end() {
    let Some(mut machine) = Machine::start() else { return };
    let mut client = connect(&machine);
    let go = machine.there.path().join("go");
    let line = format!("until [ -e {} ]; do sleep 0.05; done; exit 4", go.display());
    let job = client.call("run", json!({"command": line, "on": "gpu1", "background": true})).ok().job();
    machine.cut();
    let away = client.call("read_output", json!({"job": job})).error();
    assert!(away.contains("gpu1 is unreachable") && away.contains("go on"), "{away}");
    let listed = client.call("list_jobs", json!({})).ok().text;
    assert!(listed.contains("gpu1 is unreachable"), "{listed}");
    // It ends while neither the machine can be reached nor the server lives.
    assert_eq!(client.end(), 0);
    fs::write(&go, "").expect("written");
    machine.there.wait(job.strip_prefix("gpu1/").expect("a machine"));
    machine.listen();
    let mut client = connect(&machine);
    let text = told(&mut client, &job);
    assert!(text.contains("failed, exit 4"), "{text}");
    assert_eq!(client.end(), 0);
}

#[test]
fn without_machines_the_tools_are_as_they_were() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    assert_eq!(run_schema(&mut client)["on"], Value::Null);
    assert_eq!(client.end(), 0);
}
