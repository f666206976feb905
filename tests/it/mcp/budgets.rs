//! What the server costs a model: its definitions, and five typical dialogues.
//!
//! Proves that neither needs more bytes or calls than `tests/fixtures/mcp-budgets.toml` allows, and prints what each needs beside
//! what the plain output of the same commands would be. The commands are scripts in `tests/fixtures/typical` that print as the real
//! tools do; where a dialogue depends on what has happened meanwhile, they go on when they are told to.

use std::path::{Path, PathBuf};

use outlive_tests::{Answer, Era, Home, Mcp, finish, lacks, report};
use serde_json::{Value, json};

/// What the tests of this repository are given.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Returns a budget.
fn budget(path: &[&str]) -> usize {
    let text = std::fs::read_to_string(fixtures().join("mcp-budgets.toml")).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let (first, rest) = path.split_first().unwrap();
    let value = rest.iter().fold(&table[*first], |value, name| &value[*name]);
    usize::try_from(value.as_integer().unwrap()).unwrap()
}

/// Notes what is over its budget.
fn judge(what: &str, found: usize, allowed: usize, over: &mut Vec<String>) {
    if found > allowed {
        over.push(format!("{what}: {found}, and the budget is {allowed}"));
    }
}

#[track_caller]
fn assert_kept(over: &[String]) {
    assert!(
        over.is_empty(),
        "over budget; tests/fixtures/mcp-budgets.toml says what to do:\n{}",
        over.join("\n")
    );
}

#[test]
fn definitions_keep_their_budget() {
    let home = Home::new();
    let mut client = Mcp::silent(home.outlive(["mcp"]));
    let about = client.shake_hands();
    let listed = client.result("tools/list", json!({}));
    let instructions = about["instructions"].as_str().unwrap().len();
    let tools = listed["tools"].to_string().len();
    for tool in listed["tools"].as_array().unwrap() {
        report(&format!("{:>7} bytes  {}", tool.to_string().len(), tool["name"].as_str().unwrap()));
    }
    let mut over = Vec::new();
    for (what, found) in
        [("tools", tools), ("instructions", instructions), ("together", tools + instructions)]
    {
        let allowed = budget(&["definitions", what]);
        report(&format!("{found:>7} bytes  {what}, of {allowed}"));
        judge(what, found, allowed, &mut over);
    }
    if let Some(tokens) = tokens(&home, &about, &listed) {
        let allowed = budget(&["definitions", "tokens"]);
        report(&format!("{tokens:>7} tokens, of {allowed}"));
        judge("tokens", tokens, allowed, &mut over);
    }
    assert_eq!(client.end(), 0);
    assert_kept(&over);
}

/// Returns the tokens of what a model is told before its first call, as one text: more than its parts have, since brackets and commas
/// count.
fn tokens(home: &Home, about: &Value, listed: &Value) -> Option<usize> {
    let built =
        outlive_tests::binary("outlive").ancestors().nth(2).map(|target| target.join("tokens/debug/tokens"));
    let Some(program) = built.filter(|program| program.exists()) else {
        lacks("tests/tokens, which ./test builds");
        return None;
    };
    let keys = ["name", "description", "inputSchema"];
    let told = |tool: &Value| -> Value { keys.iter().map(|key| (*key, tool[*key].clone())).collect() };
    let tools: Vec<Value> = listed["tools"].as_array().unwrap().iter().map(told).collect();
    let text = format!("{}\n{}", about["instructions"].as_str().unwrap(), Value::from(tools));
    Some(finish(home.command(program), text.as_bytes()).ok().text().trim_end().parse().unwrap())
}

#[test]
fn typical_dialogues_keep_their_budgets() {
    let mut over = Vec::new();
    report(&format!(
        "{:<15}{:>6}{:>4}{:>9}{:>10}{:>8}{:>7}{:>15}",
        "dialogue", "calls", "of", "written", "received", "bytes", "of", "plain output"
    ));
    let dialogues = [
        ("dev-server", dev_server as fn(&mut Dialogue)),
        ("failing-tests", failing_tests),
        ("long-build", long_build),
        ("install", install),
        ("parallel-jobs", parallel_jobs),
    ];
    for (name, hold) in dialogues {
        let mut dialogue = Dialogue::new();
        hold(&mut dialogue);
        let allowed = |what| budget(&["dialogues", name, what]);
        let (calls, bytes) = (dialogue.calls, dialogue.written + dialogue.received);
        report(&format!(
            "{name:<15}{calls:>6}{:>4}{:>9}{:>10}{bytes:>8}{:>7}{:>15}",
            allowed("calls"),
            dialogue.written,
            dialogue.received,
            allowed("bytes"),
            dialogue.plain(),
        ));
        let before = over.len();
        judge(&format!("calls of {name}"), calls, allowed("calls"), &mut over);
        judge(&format!("bytes of {name}"), bytes, allowed("bytes"), &mut over);
        if over.len() > before {
            report(&dialogue.transcript);
        }
    }
    assert_kept(&over);
}

/// The agent starts a dev server, changes a file and sees what it broke, repairs it, and ends the server.
fn dev_server(dialogue: &mut Dialogue) {
    let command = json!({"command": "./dev-server", "name": "web", "ready_on": "Local:", "wait_ms": 30_000});
    dialogue.call("run", command).has("http://127.0.0.1:5173/");
    dialogue.go_on("go");
    dialogue.call("read_output", json!({"job": "web", "wait_ms": 30_000})).has("Failed to resolve import");
    dialogue.go_on("go-again");
    dialogue
        .call("wait", json!({"jobs": ["web"], "for": "match", "pattern": "page reload"}))
        .has("src/pages/totals.ts");
    dialogue.call("kill", json!({"job": "web"})).has("ended, ");
}

/// The agent runs all tests, and looks at one of the two that fail more closely.
fn failing_tests(dialogue: &mut Dialogue) {
    let answer = dialogue.call("run", json!({"command": "./failing-tests", "wait_ms": 45_000}));
    answer
        .has("failed, exit 1")
        .has("2 failed, 410 passed")
        .has("AssertionError: assert Decimal(\"137.10\")");
    let job = answer.job();
    dialogue
        .call("read_output", json!({"job": job, "grep": "^E  "}))
        .has("Decimal(\"137.10\")")
        .has("Decimal(\"301.10\")");
}

/// The agent starts a build that takes longer than it waits, and waits for its end.
fn long_build(dialogue: &mut Dialogue) {
    let answer = dialogue.call("run", json!({"command": "./long-build", "wait_ms": 1500}));
    let job = answer.has("running").job();
    dialogue.go_on("go");
    dialogue.call("wait", json!({"jobs": [job]})).has("completed, exit 0").has("generated 3 warnings");
}

/// The agent installs packages; each has a progress bar.
fn install(dialogue: &mut Dialogue) {
    let answer = dialogue.call("run", json!({"command": "./install", "wait_ms": 45_000}));
    answer.has("completed, exit 0").has("Successfully installed");
    assert!(!answer.text.contains("0.1/4.0 MB"), "only the last state of a bar is shown: {}", answer.text);
}

/// The agent runs three checks at once, waits for all, and reads the one that failed.
fn parallel_jobs(dialogue: &mut Dialogue) {
    for check in ["lint", "types", "unit"] {
        let arguments = json!({"command": format!("./check {check}"), "name": check, "group": "checks", "background": true});
        dialogue.call("run", arguments);
    }
    for check in ["lint", "unit", "types"] {
        dialogue.go_on(&format!("go-{check}"));
        // One after the other, so that it is always the same one that ended last.
        dialogue.home.wait(check);
    }
    dialogue.call("wait", json!({"group": "checks", "all": true})).has("failed, exit 2");
    dialogue.call("read_output", json!({"job": "types", "grep": "error"})).has("error TS2322");
}

/// A dialogue of a model with a server, and what it costs.
struct Dialogue {
    client: Mcp,
    home: Home,
    calls: usize,
    /// Bytes that the model writes: the names of tools and their arguments.
    written: usize,
    /// Bytes of text that it reads.
    received: usize,
    /// All of it, printed to see where the bytes went.
    transcript: String,
}

impl Dialogue {
    /// Begins one in a project that has the scripts.
    fn new() -> Self {
        let home = Home::new();
        for entry in std::fs::read_dir(fixtures().join("typical")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), home.path().join(entry.file_name())).unwrap();
        }
        // A gate is passed once: a script may reach the next gate before this one was opened.
        for gate in ["go", "go-again", "go-lint", "go-types", "go-unit"] {
            assert!(home.command("mkfifo").arg(gate).status().unwrap().success());
        }
        let client = Mcp::start(&home, Era::Handshake);
        Self { client, home, calls: 0, written: 0, received: 0, transcript: String::new() }
    }

    /// Calls a tool and counts.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> Answer {
        self.calls += 1;
        let written = arguments.to_string();
        self.written += tool.len() + written.len();
        let answer = self.client.call(tool, arguments).ok();
        self.transcript.push_str(&format!("> {tool} {written}\n{}\n", answer.text));
        self.received += size(&answer.text);
        answer
    }

    /// Opens a script's gate; returns once it went on.
    fn go_on(&self, gate: &str) {
        std::fs::write(self.home.path().join(gate), "\n").unwrap();
    }

    /// Returns the bytes that all its jobs have printed.
    fn plain(&self) -> usize {
        let jobs = self.home.json(["list"]);
        let ids = jobs.as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap());
        ids.map(|id| self.home.run(["logs", "--raw", id]).ok().stdout.len()).sum()
    }
}

/// Returns the bytes of an answer without what differs from run to run: times in the server's own lines.
fn size(text: &str) -> usize {
    let time = outlive::pattern(r"\b[0-9.]+(ms|s|m)\b", false).unwrap();
    let stable = |line: &str| match line.starts_with("[outlive]") {
        true => time.replace_all(line.as_bytes(), &b""[..]).len() + 1,
        false => line.len() + 1,
    };
    text.lines().map(stable).sum()
}

/// What a dialogue looks for in an answer.
trait Has {
    /// Asserts that it has this text.
    fn has(&self, text: &str) -> &Self;
}

impl Has for Answer {
    #[track_caller]
    fn has(&self, text: &str) -> &Self {
        assert!(self.text.contains(text), "no {text:?} in: {}", self.text);
        self
    }
}
