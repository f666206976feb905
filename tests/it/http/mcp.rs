//! The MCP server over HTTP.
//!
//! Proves: both eras are served at one address with every profile; a client of the handshake era goes on at the next server when one is
//! killed; a token gets its session and no other's; what rides on an answer is told once, and again if the answer was not read.

use std::io::Write;

use outlive_tests::{Home, finish, python_client, until, workspace};
use serde_json::{Value, json};

use super::{Reply, Server, exchange};

const MODERN: &str = "2026-07-28";

/// A client that sends each request on a connection of its own.
struct Client<'a> {
    server: &'a Server<'a>,
    /// With what is behind the `?`.
    path: String,
    /// On TCP with this token; on the socket without.
    token: Option<String>,
    /// Of the handshake era.
    session: Option<String>,
}

impl<'a> Client<'a> {
    fn new(server: &'a Server<'a>, query: &str) -> Self {
        Self { server, path: format!("/mcp{query}"), token: None, session: None }
    }

    fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Goes on with a session of the protocol.
    fn in_session(self, session: &Option<String>) -> Self {
        Self { session: session.clone(), ..self }
    }

    /// Is told that there is no such session.
    #[track_caller]
    fn is_unknown(&self) {
        self.ask("tools/list", json!({})).refused(404, "not_found");
    }

    /// Shakes hands, as clients of the earlier era do.
    fn initialized(mut self) -> Self {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" }
        });
        let reply = self.post("initialize", params, &[]);
        assert_eq!(reply.status, 200, "{}", reply.text());
        self.session = reply.header("mcp-session-id").map(str::to_owned);
        assert!(self.session.is_some(), "{reply:?}");
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.send(&message, &[]).status, 202);
        self
    }

    /// Returns the head of a request, without its last line.
    fn head(&self, method: &str, lines: &[&str], length: usize) -> String {
        let mut head = format!("{method} {} HTTP/1.1\r\n", self.path);
        match &self.token {
            Some(token) => head += &format!("{}\r\n{token}\r\n", self.server.host()),
            None => head += "Host: localhost\r\n",
        }
        if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        }
        for line in lines {
            head += &format!("{line}\r\n");
        }
        head + &format!(
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    }

    fn exchange(&self, request: &str) -> Reply {
        match &self.token {
            Some(_) => exchange(self.server.connect_tcp(), request.as_bytes()),
            None => exchange(self.server.connect(), request.as_bytes()),
        }
    }

    fn send(&self, message: &Value, lines: &[&str]) -> Reply {
        let body = message.to_string();
        self.exchange(&(self.head("POST", lines, body.len()) + &body))
    }

    fn post(&self, method: &str, params: Value, lines: &[&str]) -> Reply {
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }), lines)
    }

    /// Makes the message of a call and the headers that belong to it.
    fn request(&self, method: &str, mut params: Value) -> (Value, Vec<String>) {
        let mut lines = Vec::new();
        if self.session.is_none() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {}
            });
            lines.push(format!("MCP-Protocol-Version: {MODERN}"));
            lines.push(format!("Mcp-Method: {method}"));
            if let Some(name) = params["name"].as_str() {
                lines.push(format!("Mcp-Name: {name}"));
            }
        }
        (json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }), lines)
    }

    fn ask(&self, method: &str, params: Value) -> Reply {
        let (message, lines) = self.request(method, params);
        self.send(&message, &lines.iter().map(String::as_str).collect::<Vec<_>>())
    }

    #[track_caller]
    fn call(&self, tool: &str, arguments: Value) -> String {
        let result = result(&self.ask("tools/call", json!({ "name": tool, "arguments": arguments })));
        let texts =
            result["content"].as_array().into_iter().flatten().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the result in an answer, which may come after other events.
#[track_caller]
fn result(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let text = unchunked(reply);
    let messages = text.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
    let parsed = messages.filter_map(|message| serde_json::from_str::<Value>(message).ok());
    let found = parsed.filter(Value::is_object).find(|message| message.get("result").is_some());
    found.map(|message| message["result"].clone()).unwrap_or_else(|| panic!("{text}"))
}

/// Joins the pieces of a body of unknown length.
fn unchunked(reply: &Reply) -> String {
    if reply.header("transfer-encoding") != Some("chunked") {
        return reply.text();
    }
    let (mut left, mut bytes) = (&reply.body[..], Vec::new());
    while let Some(end) = left.windows(2).position(|pair| pair == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&left[..end]), 16).unwrap_or(0);
        let Some(piece) = left.get(end + 2..end + 2 + length).filter(|_| length > 0) else { break };
        bytes.extend_from_slice(piece);
        left = left.get(end + 4 + length..).unwrap_or_default();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn job_in(answer: &str) -> String {
    answer.split_whitespace().nth(1).unwrap_or_default().to_owned()
}

#[test]
fn the_official_python_client_drives_every_tool_over_http() {
    let Some(python) = python_client() else { return };
    let driver = workspace().join("tests/clients/python/drive.py");
    for mode in ["legacy", "auto"] {
        let home = Home::new();
        let server = Server::start(&home);
        let token = server.token("agent", &["--scope", "drive"]);
        let mut command = home.command(&python);
        command.arg(&driver).arg(format!("http://127.0.0.1:{}/mcp", server.port)).arg(mode);
        command.env("OUTLIVE_TOKEN", token.trim_start_matches("Authorization: Bearer "));
        let done = finish(command, b"").ok();
        assert_eq!(done.text(), "every answer is right\n", "{mode}: {}", done.error());
    }
}

#[test]
fn both_eras_are_served_with_every_profile() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    for (profile, tool) in
        [("", "run"), ("?profile=claude-code", "run_command"), ("?profile=duragent", "spawn_process")]
    {
        for client in [Client::new(&server, profile), Client::new(&server, profile).initialized()] {
            let tools = result(&client.ask("tools/list", json!({})));
            let names: Vec<&str> = tools["tools"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|tool| tool["name"].as_str())
                .collect();
            assert!(names.contains(&tool), "{profile}: {names:?}");
        }
    }
    let refused = Client::new(&server, "?profile=nobody").ask("tools/list", json!({})).refused(400, "usage");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("claude-code")), "{refused}");
    for (query, words) in
        [("?directory=relative", "absolute"), ("?nothing=1", "nothing"), ("?session=a/b", "session")]
    {
        let refused = Client::new(&server, query).ask("tools/list", json!({})).refused(400, "usage");
        assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains(words)), "{refused}");
    }
}

#[test]
fn a_client_goes_on_when_its_server_was_killed() {
    let home = Home::new();
    let mut server = Server::start(&home);
    let agent = server.token("agent", &["--scope", "drive"]);
    let client = Client::new(&server, "").with_token(&agent).initialized();
    let job =
        job_in(&client.call("run", json!({ "command": "read x; exit 3", "stdin": "open", "wait_ms": 0 })));
    let session = client.session.clone();
    for _ in 0..3 {
        drop(server);
        server = Server::start(&home);
        let client = Client::new(&server, "").with_token(&agent).in_session(&session);
        assert!(client.call("list_jobs", json!({})).contains(&job));
    }
    // It is the same reader: the end of its job comes with its next answer, once.
    let client = Client::new(&server, "").with_token(&agent).in_session(&session);
    home.run(["send", &job, "done"]).ok();
    home.run(["wait", &job]).code(7);
    is_told_once(&client, &job);
    // What is over is over, at every server.
    let ended = client.exchange(&client.head("DELETE", &[], 0));
    assert_eq!(ended.status, 202, "{}", ended.text());
    client.is_unknown();
    drop(server);
    let server = Server::start(&home);
    let client = Client::new(&server, "").with_token(&agent).in_session(&session);
    client.is_unknown();
}

#[test]
fn what_rides_on_an_answer_is_told_again_if_the_answer_was_not_read() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let client = Client::new(&server, "?reader=agent");
    let job =
        job_in(&client.call("run", json!({ "command": "read x; exit 3", "stdin": "open", "wait_ms": 0 })));
    let other = job_in(&client.call("run", json!({ "command": "sleep 300", "wait_ms": 0 })));
    // A wait whose client goes before it is answered.
    let (message, lines) = client.request(
        "tools/call",
        json!({ "name": "wait", "arguments": { "jobs": [job, other], "timeout_ms": 60_000 } }),
    );
    let body = message.to_string();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut stream = server.connect();
    stream.write_all((client.head("POST", &lines, body.len()) + &body).as_bytes()).expect("it is sent");
    until("the wait goes on", || waits(&server));
    drop(stream);
    until("it ends with its client", || !waits(&server));
    home.run(["send", &job, "done"]).ok();
    home.run(["wait", &job]).code(7);
    is_told_once(&client, &job);
}

/// The end of a job comes with the next answer, and with no other.
#[track_caller]
fn is_told_once(client: &Client<'_>, job: &str) {
    let answer = client.call("list_jobs", json!({ "status": "live" }));
    assert!(answer.contains("since your last call") && answer.contains(job), "{answer}");
    let answer = client.call("list_jobs", json!({ "status": "live" }));
    assert!(!answer.contains("since your last call"), "{answer}");
}

/// Tells whether a thread of the server waits in the kernel for jobs.
fn waits(server: &Server<'_>) -> bool {
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", server.child.id())).into_iter().flatten().flatten();
    let calls = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("syscall")).ok());
    // `poll` and `ppoll`; the thread that moves bytes is in `epoll_wait`.
    calls.filter(|call| matches!(call.split(' ').next(), Some("7" | "271"))).count() > 0
}

#[test]
fn a_token_gets_its_session_and_a_session_of_the_protocol_its_owner() {
    let home = Home::new();
    home.run(["--session", "bank", "run", "--name", "vault", "sleep 300"]).ok();
    let server = Server::start(&home);
    let shop = home.run(["--session", "shop", "token", "create", "shop", "--scope", "drive"]).ok().text();
    let shop = format!("Authorization: Bearer {}", shop.trim());
    let (view, drive) =
        (server.token("look", &["--scope", "view"]), server.token("do", &["--scope", "drive"]));
    let (host, json) = (server.host(), "Content-Type: application/json");
    // Who may not drive gets nothing, and a page of another site neither.
    for method in ["POST", "GET", "DELETE"] {
        server.tcp(method, "/mcp", &[&host, json], "{}").refused(401, "unauthorized");
        server.tcp(method, "/mcp", &[&host, &view, json], "{}").refused(403, "forbidden");
        server.tcp(method, "/mcp", &["Host: evil.example", &drive, json], "{}").refused(403, "forbidden");
        let origin = "Origin: http://evil.example";
        server.tcp(method, "/mcp", &[&host, &drive, origin, json], "{}").refused(403, "forbidden");
    }
    let client = Client::new(&server, "").with_token(&shop).initialized();
    let job = job_in(&client.call("run", json!({ "command": "sleep 300", "wait_ms": 0 })));
    assert_eq!(home.show(&job)["session"], "shop");
    let listed = client.call("list_jobs", json!({}));
    assert!(listed.contains(&job) && !listed.contains("vault"), "{listed}");
    assert!(client.call("kill", json!({ "job": "vault" })).contains("no job"));
    for query in ["?session=bank", "?all_sessions=true"] {
        Client::new(&server, query).with_token(&shop).ask("tools/list", json!({})).refused(403, "forbidden");
    }
    // Another token cannot use the session, whether the server knows it already or reads it from the store.
    let session = client.session.clone();
    let thief = Client::new(&server, "").with_token(&drive).in_session(&session);
    thief.is_unknown();
    thief.exchange(&thief.head("GET", &["Last-Event-ID: 0"], 0)).refused(404, "not_found");
    thief.exchange(&thief.head("DELETE", &[], 0));
    drop(server);
    let server = Server::start(&home);
    let thief = Client::new(&server, "").with_token(&drive).in_session(&session);
    thief.is_unknown();
    thief.exchange(&thief.head("DELETE", &[], 0));
    let client = Client::new(&server, "").with_token(&shop).in_session(&session);
    assert!(client.call("list_jobs", json!({})).contains(&job));
    // No id is a path.
    for id in ["../../version", "../tokens/look", "%2e%2e", "x", &"a".repeat(36)] {
        let odd = Client::new(&server, "").with_token(&drive).in_session(&Some(id.to_owned()));
        odd.is_unknown();
    }
}

#[test]
fn what_is_no_message_is_refused_and_costs_nothing() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let client = Client::new(&server, "");
    for (body, kind) in [("{", "application/json"), ("[]", "application/json"), ("{}", "text/plain")] {
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nAccept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let reply = exchange(server.connect(), request.as_bytes());
        assert!(matches!(reply.status, 400 | 415), "{body}: {} {}", reply.status, reply.text());
    }
    let long = json!({ "jsonrpc": "2.0", "id": 1, "method": "x".repeat(2 << 20) });
    assert!(matches!(client.send(&long, &[]).status, 413 | 0));
    assert_eq!(client.ask("no/such", json!({})).status, 404);
    assert!(client.call("list_jobs", json!({})).starts_with("[outlive]"));
    // So many clients are too many, and those who are there go on.
    let known = Client::new(&server, "").initialized();
    let mut statuses = Vec::new();
    for _ in 0..300 {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        statuses.push(client.post("initialize", params, &[]).status);
        if statuses.last() == Some(&429) {
            break;
        }
    }
    assert_eq!(statuses.last(), Some(&429));
    assert!(known.call("list_jobs", json!({})).starts_with("[outlive]"));
}

#[test]
fn sessions_that_are_not_used_are_forgotten() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let client = Client::new(&server, "").initialized();
    let dir = home.store().join("serve/mcp");
    let stored = || std::fs::read_dir(&dir).map(|files| files.count()).unwrap_or_default();
    assert_eq!(stored(), 1);
    let days_ago = |days: u64| std::time::SystemTime::now() - std::time::Duration::from_secs(days * 86_400);
    let write = |name: &str, days: u64| {
        let file = std::fs::File::create(dir.join(name)).expect("it is made");
        file.set_modified(days_ago(days)).expect("it is ours");
    };
    write("old.json", 40);
    let client_too = Client::new(&server, "").initialized();
    assert_eq!((stored(), dir.join("old.json").exists()), (2, false));
    (0..1100).for_each(|number| write(&format!("{number}.json"), 2));
    let last = Client::new(&server, "").initialized();
    assert_eq!(stored(), 1000);
    for client in [&client, &client_too, &last] {
        let session = client.session.as_deref().expect("it has one");
        assert!(dir.join(format!("{session}.json")).exists());
    }
}

#[test]
fn a_token_for_a_session_does_not_see_a_project_of_another() {
    let home = Home::new();
    let place = home.make_dir("shop");
    std::fs::write(place.join("outlive.toml"), "[jobs.web]\nrun = 'echo hidden; exec sleep 300'\n")
        .expect("a file");
    let server = Server::start(&home);
    let token = server.token("other", &["--scope", "drive", "--session", "other"]);
    let address = format!("?directory={}", place.display());
    let refused = Client::new(&server, &address).with_token(&token).call("list_jobs", json!({ "why": "*" }));
    assert!(refused.contains("belongs to another session"), "{refused}");
    let token = server.token("any", &["--scope", "drive"]);
    let seen = Client::new(&server, &address).with_token(&token).call("list_jobs", json!({ "why": "*" }));
    assert!(seen.contains("web: "), "{seen}");
}

#[test]
fn jobs_start_in_the_directory_that_the_address_names() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let place = home.path().join("shop");
    std::fs::create_dir(&place).expect("it is made");
    let client = Client::new(&server, &format!("?directory={}", place.display()));
    let answer = client.call("run", json!({ "command": "pwd" }));
    assert!(answer.contains(&format!("\n{}", place.display())), "{answer}");
    let session = home.show(&job_in(&answer))["session"].as_str().unwrap_or_default().to_owned();
    assert!(session.starts_with("shop-"), "{session}");
    // Without one: the user's home, and the default session.
    let answer = Client::new(&server, "").call("run", json!({ "command": "pwd" }));
    assert!(answer.contains(&format!("\n{}", home.path().display())), "{answer}");
    assert_eq!(home.show(&job_in(&answer))["session"], "default");
}
