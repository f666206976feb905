//! Whatever a client sends: the server goes on, and all answers are right afterwards.
//!
//! Proves that wrong types, huge strings, deep nesting, half lines, binary, lines of 16 MiB and 10,000 calls in a burst end
//! nothing, and that not a stray byte is on its standard output.

use outlive_tests::{ERAS, Era, Home, Mcp, Random};
use serde_json::{Value, json};

/// Asserts that a server is as good as new.
#[track_caller]
fn assert_well(client: &mut Mcp) {
    let answer = client.call("run", json!({"command": "echo well"})).ok();
    assert_eq!(answer.body(), ["well"]);
    assert!(client.call("list_jobs", json!({})).ok().text.contains("echo well"));
}

#[test]
fn lines_that_are_no_messages_are_answered_and_passed_over() {
    let home = Home::new();
    for era in ERAS {
        let mut client = Mcp::start(&home, era);
        let deep = [vec![b'['; 200_000], vec![b']'; 200_000]].concat();
        let deep_object = [b"{\"a\":".repeat(100_000), b"1".to_vec(), b"}".repeat(100_000)].concat();
        for line in [&b"{"[..], b"nonsense", b"\xff\xfe\x00\x01", b"[1,2", &deep, &deep_object, b"\"half"] {
            client.send_bytes(line);
            client.send_bytes(b"\n");
            let error = client.message("a parse error", |message| message["id"] == Value::Null);
            assert_eq!(error["error"]["code"], -32700, "{error}");
        }
        for line in [&b"[]"[..], b"3", b"null", b"{}", b"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}"]
        {
            client.send_bytes(line);
            client.send_bytes(b"\n");
            let error = client.message("an error", |message| message["id"] == Value::Null);
            assert_eq!(error["error"]["code"], -32600, "{error}");
        }
        client.send_bytes(b"\n\r\n   \n");
        assert_well(&mut client);
        // Half a line is the end.
        client.send_bytes(b"{\"jsonrpc\":\"2.0\",\"id\":5,\"meth");
        assert_eq!(client.end(), 0);
    }
}

#[test]
fn huge_lines_cost_only_themselves() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    client.send_bytes(&vec![b'x'; 16 << 20]);
    client.send_bytes(b"\n");
    let error = client.message("a parse error", |message| message["id"] == Value::Null);
    assert_eq!(error["error"]["code"], -32700);
    client.send_bytes(&vec![b'x'; 40 << 20]);
    client.send_bytes(b"\n");
    let error = client.message("a parse error", |message| message["id"] == Value::Null);
    assert!(error["error"]["message"].as_str().unwrap().contains("16 MiB"), "{error}");
    let params = json!({"name": "run", "arguments": {"command": "z".repeat(17 << 20)}});
    let id = client.send("tools/call", params);
    assert_eq!(client.answer(id)["error"]["code"], -32700, "it is answered by its id");
    let huge = "y".repeat(3 << 20);
    let error = client.call("read_output", json!({"job": huge})).error();
    assert!(error.len() < 1000, "{} bytes", error.len());
    let error = client.call("run", json!({"command": format!("true {huge}")})).error();
    assert!(error.len() < 1000, "{} bytes", error.len());
    assert_well(&mut client);
    let memory = std::fs::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let resident = memory.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").trim().parse().unwrap();
    assert!(kilobytes < 200 << 10, "{kilobytes} kB are held");
    assert_eq!(client.end(), 0);
}

/// Values of every kind in every place.
#[test]
fn wrong_types_are_answered_by_every_tool() {
    let home = Home::new();
    // Hundreds of jobs would prove no more than one: those that could be started meet the limit.
    home.configure("[limits]\nsession = 1\n");
    let mut client = Mcp::start(&home, Era::Stateless);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    let tools = client.result("tools/list", json!({}))["tools"].take();
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{0}\u{1b}[2J\u{202e}"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"a": {"b": []}}),
        json!("x".repeat(5000)),
        json!("💥"),
        json!("../../etc/passwd"),
        json!(["a", 1, null]),
    ];
    let mut sent = Vec::new();
    for tool in tools.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        for parameter in tool["inputSchema"]["properties"].as_object().unwrap().keys() {
            for value in &odd {
                let mut arguments = json!({"job": "nope", "jobs": ["nope"], "command": "true", "timeout_ms": 1, "wait_ms": 0});
                arguments[parameter] = value.clone();
                sent.push(client.send_call(name, arguments));
                // A pipe holds only so much.
                if sent.len() % 20 == 0 {
                    sent.drain(..).for_each(|id| drop(client.tool_answer(id)));
                }
            }
        }
        // Without any, `wait` would wait.
        for arguments in [json!([]), json!("x"), json!(3), json!({"timeout_ms": 0})] {
            let id = client.send("tools/call", json!({"name": name, "arguments": arguments}));
            client.answer(id);
        }
    }
    sent.drain(..).for_each(|id| drop(client.tool_answer(id)));
    for params in [json!({}), json!({"name": 3}), json!({"name": null, "arguments": {}})] {
        let id = client.send("tools/call", params);
        assert!(client.answer(id).get("error").is_some());
    }
    client.call("kill", json!({"job": job})).ok();
    assert_well(&mut client);
    assert_eq!(client.end(), 0);
}

#[test]
fn a_burst_of_thousands_is_answered() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "echo x"})).ok().job();
    const CALLS: u64 = 10_000;
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": 1_000_000 + id, "method": "tools/call", "params": {"name": "read_output", "arguments": {"job": job, "lines": 1}}});
    let burst: String = (0..CALLS).map(|id| format!("{}\n", call(id))).collect();
    // All is written before an answer is taken: a thread of the harness reads meanwhile.
    client.send_bytes(burst.as_bytes());
    for id in 0..CALLS {
        assert_eq!(client.tool_answer(1_000_000 + id).ok().body(), ["x"]);
    }
    assert_well(&mut client);
    assert_eq!(client.end(), 0);
}

#[test]
fn random_bytes_and_damaged_messages_do_no_harm() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let mut random = Random::new(7);
    let message = json!({"jsonrpc": "2.0", "id": 9_999_999, "method": "tools/call", "params": {"name": "list_jobs", "arguments": {"status": "live"}}}).to_string();
    for _ in 0..3000 {
        let mut bytes = message.clone().into_bytes();
        for _ in 0..=random.below(4) {
            let at = usize::try_from(random.below(bytes.len() as u64)).unwrap();
            match random.below(3) {
                _ if bytes.len() < 2 => {}
                0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        bytes.push(b'\n');
        client.send_bytes(&bytes);
    }
    assert_well(&mut client);
    assert_eq!(client.end(), 0);
}
