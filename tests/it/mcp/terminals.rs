//! Jobs in a terminal, over MCP: run, see the screen, press keys.
//!
//! The screen is derived by another process, so that nothing a job prints can end the server.

use outlive_tests::{Era, Home, Mcp};
use serde_json::json;

#[test]
fn an_editor_is_driven_by_keys() {
    let home = Home::new();
    let file = home.path().join("notes.txt");
    std::fs::write(&file, "first\n").unwrap();
    let mut client = Mcp::start(&home, Era::Handshake);
    let command = format!("vim -u NONE -N {}", file.display());
    let job = client.call("run", json!({ "command": command, "pty": true, "wait_ms": 0 })).ok().job();
    let screen = client.call("read_screen", json!({ "job": job, "wait_ms": 20_000 })).ok();
    assert!(screen.header().contains("screen 120x40, cursor row 1, column 1"), "{}", screen.header());
    assert_eq!(screen.body()[0], "first");
    let keys = json!({ "job": job, "keys": "o \"second\" Escape \":wq\" Enter", "wait_ms": 20_000 });
    let pressed = client.call("send_input", keys).ok();
    assert!(pressed.header().contains("keys pressed"), "{}", pressed.header());
    client.call("wait", json!({ "jobs": [job], "timeout_ms": 20_000 })).ok();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "first\nsecond\n");
}

#[test]
fn a_paste_is_marked_where_the_program_asked_for_that() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let command = "printf '\\033[?2004h'; stty raw -echo; printf 'ready\\r\\n'; exec od -An -v -tx1 -w1";
    let job = client.call("run", json!({ "command": command, "pty": true, "wait_ms": 0 })).ok().job();
    home.wait_for_output(&job, "ready");
    let paste = json!({ "job": job, "text": "a\nb", "paste": true, "submit": true, "wait_ms": 0 });
    assert!(client.call("send_input", paste).ok().header().contains("pasted"));
    let typed = b"\x1b[200~a\rb\x1b[201~\r".map(|byte| format!(" {byte:02x}\n"));
    home.wait_for_output(&job, &typed.concat());
    client.call("kill", json!({ "jobs": [job] })).ok();
    let nothing = client.call("send_input", json!({ "job": job, "paste": true })).error();
    assert!(nothing.contains("there is nothing to paste"), "{nothing}");
}

#[test]
fn what_needs_a_terminal_says_how_to_get_one() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({ "command": "sleep 1000", "wait_ms": 0 })).ok().job();
    for (tool, arguments) in
        [("read_screen", json!({ "job": job })), ("send_input", json!({ "job": job, "keys": "Up" }))]
    {
        let error = client.call(tool, arguments).error();
        assert!(error.contains("pty=true"), "{tool}: {error}");
    }
    let closed = client.call("send_input", json!({ "job": job, "text": "x" })).error();
    assert!(closed.contains("stdin=\"open\"") && closed.contains("pty=true"), "{closed}");
    client.call("kill", json!({ "jobs": [job] })).ok();
    let terminal = client.call("run", json!({ "command": "cat", "pty": true, "wait_ms": 0 })).ok().job();
    let wrong = client.call("send_input", json!({ "job": terminal, "keys": "Hyper" })).error();
    assert!(wrong.contains("Hyper") && wrong.contains("Enter"), "{wrong}");
    client.call("kill", json!({ "jobs": [terminal] })).ok();
}

#[test]
fn a_server_goes_on_whatever_is_printed() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let hostile = "for i in $(seq 5000); do printf '\\033[>1u'; done; printf '\\033]0;'; head -c 3000000 /dev/zero | tr '\\0' x; printf '\\033[99999;99999H\\033[?1049h'; head -c 300000 /dev/urandom; printf '\\033c\\030end'; read line";
    let job = client.call("run", json!({ "command": hostile, "pty": true, "wait_ms": 0 })).ok().job();
    home.wait_for_output(&job, "\u{18}end");
    let screen = client.call("read_screen", json!({ "job": job, "wait_ms": 1000 })).ok();
    assert!(screen.header().contains("screen 120x40"), "{}", screen.header());
    client.call("kill", json!({ "jobs": [job] })).ok();
}

#[test]
fn only_what_changed_is_shown_where_that_was_asked_for() {
    let home = Home::new();
    let start = || {
        let mut command = home.outlive(["mcp"]);
        command.env("OUTLIVE_READER", "conversation");
        Mcp::of(command, Era::Handshake, json!({}), &[])
    };
    let mut client = start();
    let line =
        "stty -echo; seq 20; while read -r text; do printf '\\033[7;1H%s\\033[K\\033[22;1H' \"$text\"; done";
    let job = client.call("run", json!({ "command": line, "pty": true, "wait_ms": 0 })).ok().job();
    home.wait_for_output(&job, "20\r\n");
    let look = |client: &mut Mcp| client.call("read_screen", json!({ "job": job, "changes": true })).ok();
    let first = look(&mut client);
    assert_eq!(first.body().len(), 20, "all of it at the first look: {}", first.text);
    let same = look(&mut client);
    assert!(same.header().contains("; 0 rows changed") && same.body().is_empty(), "{}", same.text);
    home.run(["send", &job, "seventh"]).ok();
    home.wait_for_output(&job, "seventh");
    // Another server of the same reader knows what was seen.
    client.kill();
    let mut client = start();
    let changed = look(&mut client);
    assert!(changed.header().contains("; 1 row changed"), "{}", changed.text);
    assert_eq!(changed.body(), ["7: seventh"]);
    let whole = client.call("read_screen", json!({ "job": job })).ok();
    assert_eq!((whole.body().len(), whole.body()[6]), (20, "seventh"));
    client.call("kill", json!({ "jobs": [job] })).ok();
}
