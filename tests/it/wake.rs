//! An agent that has ended its turn hears of its jobs: `outlive wake`, which its client runs as a hook.
//!
//! Here the test is the client: it starts the server of tools, and then `outlive wake`, as a real one does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outlive_tests::{Era, Home, Mcp, instead, proves, waits_with_open};
use serde_json::{Value, json};

/// Starts a job that goes on when it is let, and prints lines then.
fn start(home: &Home, client: &mut Mcp, lines: &str, more: Value) -> String {
    let gate = home.path().join("gate");
    let line = format!("until [ -e {} ]; do sleep 0.02; done; {lines}", gate.display());
    let mut run = json!({"command": line, "name": "build", "background": true});
    run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.call("run", run).ok().job()
}

/// Lets it go on.
fn let_go_on(home: &Home) {
    std::fs::write(home.path().join("gate"), "").unwrap();
}

/// Runs the hook, and returns when it waits.
fn wait_to_wake(home: &Home, arguments: &[&str]) -> Child {
    let mut command = home.outlive([&["wake"], arguments].concat());
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    outlive_tests::until("it waits", || waits_with_open(pid, "wake."));
    child
}

/// Returns what it said, and its exit status.
fn end(child: Child) -> (String, i32) {
    let done = child.wait_with_output().unwrap();
    (String::from_utf8(done.stderr).unwrap(), done.status.code().unwrap())
}

#[test]
fn an_idle_agent_hears_of_the_end_of_its_job_once() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = start(&home, &mut client, "echo the last line", json!({}));
    let hook = wait_to_wake(&home, &[]);
    let_go_on(&home);
    let (said, status) = end(hook);
    assert_eq!(status, 2, "{said}");
    assert!(said.starts_with(&format!("[outlive] since your last call: {job} completed, exit 0")), "{said}");
    assert!(said.contains("\n  | the last line"), "{said}");
    let next = client.call("list_jobs", json!({})).ok().text;
    assert!(!next.contains("since your last call"), "{next}");
    // Nothing is left to wait for.
    let began = Instant::now();
    assert_eq!(home.run(["wake"]).ok().error(), "");
    assert!(began.elapsed() < Duration::from_secs(30));
    assert_eq!(client.end(), 0);
}

#[test]
fn what_an_answer_tells_wakes_nobody() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let job = start(&home, &mut client, "true", json!({}));
    let hook = wait_to_wake(&home, &[]);
    let waiting = client.send_call("wait", json!({"jobs": [job]}));
    let_go_on(&home);
    let told = client.tool_answer(waiting).ok().text;
    assert!(told.contains("completed, exit 0"), "{told}");
    assert_eq!(end(hook), (String::new(), 0), "it is told, and no other job is live");
    assert_eq!(client.end(), 0);
}

#[test]
fn one_hook_waits_for_an_agent_and_none_without_a_reason() {
    let home = Home::new();
    assert_eq!(home.run(["wake"]).ok().error(), "", "there is no agent");
    let mut client = Mcp::start(&home, Era::Handshake);
    let server = start(&home, &mut client, "true", json!({"ready_on": "never"}));
    assert_eq!(home.run(["wake", "--skip-servers"]).ok().error(), "", "it is not meant to end");
    let first = wait_to_wake(&home, &[]);
    assert_eq!(home.run(["wake"]).ok().error(), "", "another one waits already");
    assert_eq!(home.run(["wake", "--timeout", "1ms"]).ok().error(), "");
    // A job of another agent wakes this one not.
    let other = home.start(["true"]);
    home.run(["wait", &other]).ok();
    home.run(["kill", &server]).ok();
    let (said, status) = end(first);
    assert!(status == 2 && said.contains(&format!("{server} killed")) && !said.contains(&other), "{said}");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_line_that_an_agent_watches_for_wakes_it() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let lines = "echo fine; echo ERROR 17; exec sleep 600";
    let job = start(&home, &mut client, lines, json!({"watch": "ERROR"}));
    let hook = wait_to_wake(&home, &[]);
    let_go_on(&home);
    let (said, status) = end(hook);
    assert_eq!(said, format!("[outlive] since your last call: {job}: line 2 matches\n  | ERROR 17\n"));
    assert_eq!(status, 2);
    client.call("kill", json!({"job": job})).ok();
    assert_eq!(client.end(), 0);
}

/// An agent with the tools of another design gets that design's own message.
#[test]
fn a_completion_message_is_pushed_to_an_idle_agent() {
    let home = Home::new();
    let mut client = Mcp::start_with(&home, Era::Handshake, &["--profile", "duragent"], home.path());
    let gate = home.path().join("gate");
    let line = format!("until [ -e {} ]; do sleep 0.02; done; echo the last line", gate.display());
    let started = client.plain_call("spawn_process", json!({"command": line, "label": "build"})).text;
    let handle = serde_json::from_str::<Value>(&started).unwrap()["handle"].as_str().unwrap().to_owned();
    let hook = wait_to_wake(&home, &[]);
    let_go_on(&home);
    let (said, status) = end(hook);
    assert_eq!(status, 2, "{said}");
    let begins = format!("[Background Process Completed]\n\nHandle: {handle}\nLabel: build\n");
    assert!(said.starts_with(&begins) && said.ends_with("the last line\n"), "{said}");
    instead!("S3-10", "S3-32", "S3-37", "S3-38");
    proves!("S3-30", "S3-62", "S3-92");
    let next = client.plain_call("process", json!({"action": "status", "handle": handle}));
    assert!(!next.text.contains("Background Process"), "{}", next.text);
    assert_eq!(client.end(), 0);
}

#[test]
fn a_hook_ends_with_its_client() {
    let home = Home::new();
    // A shell is the client: it starts the server, which it keeps open, and then the hook.
    let outlive = home.program("outlive");
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"run","arguments":{"command":"sleep 600","background":true}}}"#;
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let script = format!(
        "mkfifo in out; {0} mcp <in >out & exec 3>in 4<out; printf '%s\\n' '{hello}' >&3; read -r x <&4; \
         printf '%s\\n' '{ready}' '{call}' >&3; read -r x <&4; {0} wake 3>&- 4<&- & echo $! >hook; wait",
        outlive.display()
    );
    let mut command = home.command("sh");
    command.args(["-c", &script]).current_dir(home.path());
    let mut client = command.spawn().unwrap();
    let hook = || std::fs::read_to_string(home.path().join("hook")).ok()?.trim().parse::<i32>().ok();
    outlive_tests::until("the hook waits", || hook().is_some_and(|pid| waits_with_open(pid, "wake.")));
    client.kill().unwrap();
    client.wait().unwrap();
    let hook = hook().unwrap();
    outlive_tests::until("the hook ends", || !outlive_tests::is_running(hook));
    home.run(["kill", "--all"]).ok();
}

/// The clients that can be woken, and the file that says so.
const WOKEN: [(&str, &str); 7] = [
    ("claude-code", ".claude/settings.json"),
    ("codex", ".codex/hooks.json"),
    ("gemini", ".gemini/settings.json"),
    ("qwen", ".qwen/settings.json"),
    ("goose", ".agents/plugins/outlive/hooks/hooks.json"),
    ("opencode", ".config/opencode/plugins/outlive.js"),
    ("copilot", ".copilot/hooks/outlive.json"),
];

#[test]
fn what_wakes_an_agent_is_shown_set_up_and_taken_away() {
    let home = Home::new();
    let mine = "{\n  // mine\n  \"hooks\": { \"Stop\": [{ \"hooks\": [{ \"type\": \"command\", \"command\": \"say done\" }] }] }\n}\n";
    std::fs::create_dir_all(home.path().join(".claude")).unwrap();
    std::fs::write(home.path().join(".claude/settings.json"), mine).unwrap();
    let setup = |arguments: &[&str]| home.run([&["setup"], arguments].concat());
    let wakes = || {
        let list = home.json(["setup", "--list"]);
        list.as_array().unwrap().iter().filter(|client| client["wakes"] == true).count()
    };
    for (client, file) in WOKEN {
        let file = home.path().join(file);
        let before = std::fs::read_to_string(&file).ok();
        let shown = setup(&[client, "--wake"]).ok().text();
        assert!(
            shown.contains("wake") && shown.contains(&format!("outlive setup {client} --wake --write")),
            "{shown}"
        );
        assert!(setup(&[client, "--wake", "--print"]).ok().text().contains("wake"));
        assert_eq!(std::fs::read_to_string(&file).ok(), before, "only shown");
        setup(&[client, "--wake", "--write"]).ok();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("wake") && (client != "claude-code" || text.contains("// mine")), "{text}");
        assert_eq!(wakes(), 1, "{client}");
        let again = setup(&[client, "--wake", "--write"]).ok().text();
        assert!(again.starts_with("nothing to do"), "{again}");
        setup(&[client, "--wake", "--remove", "--write"]).ok();
        let left = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(!left.contains("wake") && wakes() == 0, "{left}");
        if client == "claude-code" {
            assert!(left.contains("say done") && left.contains("// mine"), "{left}");
        }
    }
    // What cannot be done says so.
    let wrong = setup(&["zed", "--wake"]).code(1).error();
    assert!(wrong.contains("--on-exit"), "{wrong}");
    std::fs::write(home.path().join(".claude/settings.json"), "{\"hooks\": 7}").unwrap();
    let wrong = setup(&["claude-code", "--wake", "--write"]).code(1).error();
    assert!(wrong.contains("left alone") && wrong.contains("--print"), "{wrong}");
    setup(&["--wake"]).code(2);
}
