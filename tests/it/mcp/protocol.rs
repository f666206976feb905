//! The protocol itself: beginnings, ends, cancellation.
//!
//! Proves that nothing but the end of its input and signals ends the server, and that neither ends a job.

use std::time::{Duration, Instant};

use outlive_tests::{ERAS, Era, Home, Mcp, signal, soon, until};
use serde_json::{Value, json};

#[test]
fn both_eras_are_answered_within_a_moment() {
    let home = Home::new();
    // The first makes the store.
    assert_eq!(Mcp::start(&home, Era::Handshake).end(), 0);
    for method in ["initialize", "server/discover"] {
        // Promised are 100 ms; a busy machine may take longer to execute anything.
        let (client, answer) = soon(method, Duration::from_secs(5), || {
            let mut client = Mcp::silent(home.outlive(["mcp"]));
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
            let answer = match method {
                "initialize" => client.shake_hands(),
                _ => client.result(method, json!({"_meta": meta})),
            };
            (client, answer)
        });
        assert!(answer["instructions"].as_str().unwrap().contains("background jobs"), "{answer}");
        assert_eq!(client.end(), 0);
    }
}

#[test]
fn tools_are_declared_alike_in_both_eras() {
    let home = Home::new();
    let lists: Vec<Value> =
        ERAS.map(|era| Mcp::start(&home, era).result("tools/list", json!({}))["tools"].take()).into();
    assert_eq!(lists[0], lists[1]);
    let names: Vec<&str> =
        lists[0].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let expected =
        ["run", "read_output", "wait", "send_input", "read_screen", "kill", "list_jobs", "manage_job"];
    assert_eq!(names, expected);
    let is_loaded = |tool: &&Value| tool["_meta"]["anthropic/alwaysLoad"] == true;
    let loaded =
        lists[0].as_array().unwrap().iter().filter(is_loaded).map(|tool| tool["name"].as_str().unwrap());
    assert_eq!(loaded.collect::<Vec<_>>(), ["run", "read_output", "wait", "kill"]);
}

/// What is answered is declared.
#[test]
fn capabilities_are_what_is_answered() {
    let home = Home::new();
    let mut client = Mcp::silent(home.outlive(["mcp"]));
    let capabilities = client.shake_hands()["capabilities"].take();
    for name in ["tools", "prompts", "resources", "completions"] {
        assert!(capabilities[name].is_object(), "{name}: {capabilities}");
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let home = Home::new();
    for era in ERAS {
        let mut client = Mcp::start(&home, era);
        let error = client.error("no/such", json!({}));
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32601), &json!("there is no method \"no/such\""))
        );
        let error = client.error("tools/call", json!({"name": "nope", "arguments": {}}));
        assert_eq!(error["code"], -32602);
        assert!(error["message"].as_str().unwrap().contains("read_output"), "{error}");
        assert_eq!(client.result("prompts/list", json!({}))["prompts"], json!([]));
        let missing = client.error("resources/read", json!({"uri": "outlive://job/nope"}));
        assert_eq!(missing["data"]["uri"], "outlive://job/nope", "{missing}");
        client.call("list_jobs", json!({})).ok();
    }
}

/// A client that begins with a wrong message still has a live server.
#[test]
fn a_wrong_beginning_is_forgiven() {
    let home = Home::new();
    let mut client = Mcp::silent(home.outlive(["mcp"]));
    client.notify("notifications/initialized", json!({}));
    client.notify("notifications/cancelled", json!({"requestId": 9}));
    client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n");
    let early = client.error("tools/list", json!({}));
    assert_eq!(early["code"], -32602, "{early}");
    client.result("ping", json!({}));
    client.shake_hands();
    client.call("list_jobs", json!({})).ok();
    assert_eq!(client.end(), 0);
}

#[test]
fn cancelling_ends_a_wait_and_never_a_job() {
    let home = Home::new();
    for era in ERAS {
        let mut client = Mcp::start(&home, era);
        let began = Instant::now();
        let running =
            client.send_call("run", json!({"command": "sleep 100", "name": "long", "wait_ms": 45_000}));
        let mut job = String::new();
        until("the job is there", || {
            let jobs = home.json(["list", "--live"]);
            job = jobs[0]["job"].as_str().unwrap_or_default().to_owned();
            jobs[0]["status"] == "running"
        });
        client.cancel(running);
        // Whatever waits, other calls are answered at once.
        let listed = client.call("list_jobs", json!({})).ok();
        assert!(listed.text.contains(&job), "{}", listed.text);
        assert!(!client.is_answered(running));
        let waiting = client.send_call("wait", json!({"jobs": [job], "timeout_ms": 3_600_000}));
        client.cancel(waiting);
        client.cancel(waiting);
        client.cancel(4_000_000);
        assert!(!client.is_answered(waiting));
        assert_eq!(home.show(&job)["status"], "running");
        assert_eq!(client.end(), 0);
        assert!(began.elapsed().as_secs() < 45, "what was cancelled must not keep the server");
        home.run(["kill", &job]).ok();
        home.run(["remove", &job]).ok();
    }
}

#[test]
fn the_end_of_input_and_signals_end_the_server_and_no_job() {
    let home = Home::new();
    for how in ["EOF", "TERM", "INT"] {
        let mut client = Mcp::start(&home, Era::Handshake);
        let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
        // In the middle of a call, too.
        client.send_call("wait", json!({"jobs": [job]}));
        let code = match how {
            "EOF" => client.end(),
            name => {
                signal(client.pid(), name);
                client.ended()
            }
        };
        assert!(how != "EOF" || code == 0, "{how}: {code}");
        assert_eq!(home.show(&job)["status"], "running", "{how}");
    }
}

#[test]
fn a_client_that_asks_for_it_hears_that_a_wait_goes_on() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    let params = json!({"name": "wait", "arguments": {"jobs": [job]}, "_meta": {"progressToken": "p1"}});
    let waiting = client.send("tools/call", params);
    let progress = client.message("progress", |message| message["method"] == "notifications/progress");
    assert_eq!(progress["params"]["progressToken"], "p1");
    client.call("kill", json!({"job": job})).ok();
    assert!(client.tool_answer(waiting).text.contains("killed"));
    // A start tells how long it has been waiting, and not how often it told so.
    let arguments = json!({"command": "sleep 100", "wait_ms": 30_000});
    let params = json!({"name": "run", "arguments": arguments, "_meta": {"progressToken": "p2"}});
    client.send("tools/call", params);
    let progress = client.message("progress", |message| message["params"]["progressToken"] == "p2");
    let words = progress["params"]["message"].as_str().unwrap();
    let seconds: u64 = words.trim_start_matches("run: ").trim_end_matches(" s").parse().unwrap();
    assert!(seconds >= 10, "{progress}");
}

/// Calls that wait do not keep others from being answered.
#[test]
fn many_calls_at_once_are_all_answered() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let job = client
        .call("run", json!({"command": "cat >/dev/null", "stdin": "open", "background": true}))
        .ok()
        .job();
    let waits: Vec<u64> = (0..60).map(|_| client.send_call("wait", json!({"jobs": [job]}))).collect();
    let lists: Vec<u64> = (0..100).map(|_| client.send_call("list_jobs", json!({}))).collect();
    for id in lists {
        assert!(client.tool_answer(id).ok().text.contains(&job));
    }
    assert!(!client.is_answered(waits[0]));
    client.call("send_input", json!({"job": job, "eof": true, "wait_ms": 0})).ok();
    for id in waits {
        assert!(client.tool_answer(id).ok().text.contains("completed"));
    }
    assert_eq!(client.end(), 0);
}
