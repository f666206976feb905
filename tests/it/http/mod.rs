//! The HTTP server: a front end like any other.
//!
//! Proves: it holds nothing that is not in the store, and lets nobody in who may not.

mod access;
mod api;
mod attacks;
mod events;
mod mcp;
mod metrics;
mod output;
mod terminal;
mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use outlive_tests::{Home, LIMIT, end_within};
use serde_json::{Value, json};

/// A server of a home, on its socket and on TCP.
struct Server<'a> {
    home: &'a Home,
    child: Child,
    port: u16,
}

/// An answer.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    fn ok(self) -> Value {
        assert!(matches!(self.status, 200 | 201), "{} {}", self.status, self.text());
        self.json()
    }

    #[track_caller]
    fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(
            (problem["code"].as_str(), problem["status"].as_u64()),
            (Some(code), Some(u64::from(status)))
        );
        let title = problem["title"].as_str().unwrap_or_default();
        assert!(!title.is_empty() && !title.contains("--") && !title.contains(": "), "{problem}");
        problem
    }
}

impl<'a> Server<'a> {
    fn start(home: &'a Home) -> Self {
        Self::start_with(home, &["--tcp"])
    }

    fn start_with(home: &'a Home, options: &[&str]) -> Self {
        let mut command = home.outlive(["--json", "serve"]);
        let mut child = command.args(options).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["url"].as_str().unwrap_or_default();
        let port =
            url.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
        Self { home, child, port }
    }

    /// Connects to its socket.
    fn connect(&self) -> UnixStream {
        let dir = std::fs::File::open(self.home.store().join("serve")).expect("it is there");
        outlive_sys::socket::connect_in(&dir, "socket", LIMIT).expect("it listens")
    }

    fn connect_tcp(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        stream
    }

    /// Asks on the socket.
    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        exchange(self.connect(), request.as_bytes())
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, None)
    }

    fn post(&self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, Some(body))
    }

    /// Asks on TCP, with these lines in the head in place of `Host`.
    fn tcp(&self, method: &str, path: &str, lines: &[&str], body: &str) -> Reply {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{lines}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        exchange(self.connect_tcp(), request.as_bytes())
    }

    fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}", self.port)
    }

    /// Makes a token and returns the header with it.
    fn token(&self, name: &str, options: &[&str]) -> String {
        let mut command = self.home.outlive(["token", "create", name]);
        command.args(options);
        format!("Authorization: Bearer {}", outlive_tests::finish(command, b"").ok().text().trim_end())
    }

    /// Starts a line for the shell over HTTP.
    fn run(&self, line: &str) -> String {
        let started = self.post("/v1/jobs", json!({ "command": line })).ok();
        started["job"].as_str().expect("an id").to_owned()
    }

    /// Returns a figure of its memory, such as `VmRSS:`.
    fn memory_kib(&self, what: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("the kernel tells");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
    }

    /// Ends it as a signal of a person does.
    fn stop(mut self) {
        outlive_tests::signal(self.child.id().cast_signed(), "TERM");
        assert_eq!(end_within(&mut self.child, LIMIT), Some(0));
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Sends a request and reads the answer to its end.
fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Reply {
    // A server that refuses a long request does not read all of it.
    stream.write_all(request).ok();
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Reply {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(key, value)| (key.to_lowercase(), value.to_owned())).collect();
    Reply { status, headers, body: bytes.get(end + 4..).unwrap_or_default().to_vec() }
}
