//! A small client of the MCP server: raw messages over pipes, in both eras of the protocol.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Home, LIMIT, end_within};

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// With a handshake.
    Handshake,
    /// Stateless: every request carries everything.
    Stateless,
}

/// Both.
pub const ERAS: [Era; 2] = [Era::Handshake, Era::Stateless];

/// A client with its server.
#[derive(Debug)]
pub struct Mcp {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    /// What came and was not yet asked for.
    kept: VecDeque<Value>,
    next: u64,
    era: Era,
    capabilities: Value,
    /// What the client says when it is asked for its roots.
    roots: Vec<String>,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// It is an error.
    pub is_error: bool,
}

impl Answer {
    /// Returns its first line.
    pub fn header(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// Returns the lines that are not the server's own.
    pub fn body(&self) -> Vec<&str> {
        self.text.lines().filter(|line| !line.starts_with("[outlive]")).collect()
    }

    /// Asserts that it is no error.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(!self.is_error, "{}", self.text);
        self
    }

    /// Asserts that it is an error, and returns its text.
    #[track_caller]
    pub fn error(self) -> String {
        assert!(self.is_error, "{}", self.text);
        self.text
    }

    /// Returns the id of the job in its header.
    #[track_caller]
    pub fn job(&self) -> String {
        let word = self.header().split_whitespace().nth(1);
        word.filter(|word| word.contains('-')).unwrap_or_else(|| panic!("no job: {}", self.text)).to_owned()
    }
}

impl Mcp {
    /// Starts a server in a home, and shakes hands.
    pub fn start(home: &Home, era: Era) -> Self {
        Self::start_with(home, era, &[], home.path())
    }

    /// Starts a server with options, in a directory, and shakes hands.
    pub fn start_with(home: &Home, era: Era, options: &[&str], directory: &Path) -> Self {
        let mut command = home.outlive(["mcp"]);
        command.args(options).current_dir(directory);
        Self::of(command, era, json!({}), &[])
    }

    /// Starts a server by this command; the client has these capabilities and roots.
    pub fn of(command: Command, era: Era, capabilities: Value, roots: &[&str]) -> Self {
        let mut client = Self::silent(command);
        client.era = era;
        client.capabilities = capabilities;
        client.roots = roots.iter().map(|root| (*root).to_owned()).collect();
        if era == Era::Handshake {
            client.shake_hands();
        }
        client
    }

    /// Starts a server and sends nothing.
    pub fn silent(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                // A line that is no message is passed on as a string, and fails the reader.
                let stray = || Value::from(String::from_utf8_lossy(&line).into_owned());
                let value = serde_json::from_slice(&line).unwrap_or_else(|_| stray());
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let (kept, capabilities) = (VecDeque::new(), json!({}));
        Self { child, stdin, lines, kept, next: 0, era: Era::Handshake, capabilities, roots: Vec::new() }
    }

    /// Shakes hands, and returns what the server says of itself.
    pub fn shake_hands(&mut self) -> Value {
        let about = json!({"name": "tests", "version": "1"});
        let result = self.result(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": self.capabilities, "clientInfo": about}),
        );
        self.notify("notifications/initialized", json!({}));
        result
    }

    /// Returns the pid of the server.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the server reads");
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send_bytes(
            format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params})).as_bytes(),
        );
    }

    /// Sends a request, and returns its number.
    pub fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if self.era == Era::Stateless && method != "initialize" {
            let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tests", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        }
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.send_bytes(format!("{request}\n").as_bytes());
        self.next
    }

    /// Sends a call of a tool, and returns its number.
    pub fn send_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Cancels a request.
    pub fn cancel(&mut self, id: u64) {
        self.notify("notifications/cancelled", json!({"requestId": id, "reason": "test"}));
    }

    /// Returns the first message that is wanted; answers what the server asks meanwhile.
    #[track_caller]
    pub fn message(&mut self, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&is_wanted) {
            return self.kept.remove(at).unwrap();
        }
        loop {
            let message = self.lines.recv_timeout(LIMIT);
            let message = message.unwrap_or_else(|error| panic!("{what} does not come: {error}"));
            assert_eq!(message["jsonrpc"], "2.0", "a stray line: {message}");
            if message["method"] == "roots/list" {
                let roots: Vec<Value> = self.roots.iter().map(|uri| json!({"uri": uri})).collect();
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"roots": roots}});
                self.send_bytes(format!("{answer}\n").as_bytes());
            } else if is_wanted(&message) {
                return message;
            } else {
                self.kept.push_back(message);
            }
        }
    }

    /// Returns the whole answer to a request.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        let is_answer = |message: &Value| message["id"] == id && message.get("method").is_none();
        self.message(&format!("the answer to {id}"), is_answer)
    }

    /// Returns what a tool answered.
    #[track_caller]
    pub fn tool_answer(&mut self, id: u64) -> Answer {
        let answer = self.answer(id);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned();
        assert!(result.get("structuredContent").is_none(), "{answer}");
        assert!(text.starts_with("[outlive] "), "{text}");
        Answer { text, is_error: result["isError"] == true }
    }

    /// Calls a tool of a profile, whose answer is a single text.
    #[track_caller]
    pub fn plain_call(&mut self, tool: &str, arguments: Value) -> Answer {
        let id = self.send_call(tool, arguments);
        self.plain_answer(id)
    }

    /// Returns the answer of a tool of a profile: a single text.
    #[track_caller]
    pub fn plain_answer(&mut self, id: u64) -> Answer {
        let answer = self.answer(id);
        let result = &answer["result"];
        let content = result["content"].as_array().unwrap_or_else(|| panic!("no content: {answer}"));
        assert_eq!(content.len(), 1, "{answer}");
        let text = content[0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}")).to_owned();
        Answer { text, is_error: result["isError"] == true }
    }

    /// Sends a request and returns its result.
    #[track_caller]
    pub fn result(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Sends a request and returns its error.
    #[track_caller]
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].take()
    }

    /// Calls a tool.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        let id = self.send_call(tool, arguments);
        self.tool_answer(id)
    }

    /// Waits until nothing comes for a moment, and tells whether this request was answered meanwhile.
    pub fn is_answered(&mut self, id: u64) -> bool {
        while let Ok(message) = self.lines.recv_timeout(Duration::from_millis(50)) {
            self.kept.push_back(message);
        }
        self.kept.iter().any(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Closes the server's input and returns its exit code.
    #[track_caller]
    pub fn end(mut self) -> i32 {
        drop(self.stdin.take());
        let code = end_within(&mut self.child, LIMIT).expect("the server ends with its input");
        for message in self.lines.iter() {
            assert_eq!(message["jsonrpc"], "2.0", "a stray line: {message}");
        }
        code
    }

    /// Kills the server at once.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the exit code once the server has ended by itself.
    #[track_caller]
    pub fn ended(mut self) -> i32 {
        end_within(&mut self.child, LIMIT).expect("the server ends")
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        // A test failed half-way.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
