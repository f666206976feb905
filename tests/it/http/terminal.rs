//! A job's terminal over a WebSocket.
//!
//! Proves: rows come as they change, keys, text and size go back, and no process is left of a page that has gone; a page that is slow gets
//! the newest state, and one that comes back all of it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use outlive_tests::{Home, instead, until};
use serde_json::{Value, json};

use super::Server;

/// A page that looks at a terminal.
struct Page(UnixStream);

impl Page {
    fn open(server: &Server<'_>, job: &str) -> Self {
        let mut stream = server.connect();
        let head = format!(
            "GET /v1/jobs/{job}/terminal HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        Self(stream)
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u8::try_from(text.len()).ok().filter(|length| *length < 126).expect("a short message");
        // A client masks what it sends; with zeros it stays readable.
        let frame = [&[0x81, 0x80 | length, 0, 0, 0, 0], text.as_bytes()].concat();
        self.0.write_all(&frame).expect("it is sent");
    }

    /// Returns the next message; none when it is closed.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).ok()?;
            let length = match head[1] & 0x7f {
                126 => {
                    let mut long = [0; 2];
                    self.0.read_exact(&mut long).ok()?;
                    usize::from(u16::from_be_bytes(long))
                }
                127 => {
                    let mut long = [0; 8];
                    self.0.read_exact(&mut long).ok()?;
                    usize::try_from(u64::from_be_bytes(long)).ok()?
                }
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).ok()?;
            match head[0] & 0x0f {
                1 => return Some(serde_json::from_slice(&payload).expect("JSON")),
                8 => return None,
                _ => {}
            }
        }
    }

    /// Reads on until the rows that have changed have this text.
    fn until_text(&mut self, text: &str) -> Value {
        loop {
            let update = self.next().unwrap_or_else(|| panic!("{text:?} has not come"));
            let has = |row: &Value| {
                let runs = row[1].as_array().into_iter().flatten();
                runs.filter_map(|run| run["text"].as_str()).collect::<String>().contains(text)
            };
            if update["changed"].as_array().into_iter().flatten().any(has) {
                return update;
            }
        }
    }

    /// Reads on until something is refused, with this code.
    fn until_error(&mut self, code: &str) {
        loop {
            let message = self.next().expect("it is told");
            if message["error"].is_object() {
                return assert_eq!(message["error"]["code"], code);
            }
        }
    }
}

#[test]
fn rows_come_as_they_change_and_keys_go_back() {
    let home = Home::new();
    let server = Server::start(&home);
    let line = r#"printf '\033[1;31mred\033[0m <script>alert(1)</script>\n'; read a; stty size; echo "got $a"; read b; exit 5"#;
    let started = server.post("/v1/jobs", json!({ "command": line, "pty": true, "size": "80x24" })).ok();
    let job = started["job"].as_str().expect("an id").to_owned();
    let (mut page, mut second) = (Page::open(&server, &job), Page::open(&server, &job));
    let first = page.until_text("red");
    assert_eq!((first["columns"].as_u64(), first["rows"].as_u64()), (Some(80), Some(24)));
    let run = &first["changed"][0][1][0];
    assert_eq!(*run, json!({ "text": "red", "foreground": { "palette": 1 }, "bold": true }));
    // What a job prints is text, and nothing else.
    assert_eq!(first["changed"][0][1][1]["text"], " <script>alert(1)</script>");
    page.send(&json!({ "size": "100x30" }));
    until("the size is set", || server.get(&format!("/v1/jobs/{job}/screen")).ok()["size"] == "100x30");
    page.send(&json!({ "text": "hel" }));
    page.send(&json!({ "keys": "l o Enter" }));
    page.until_text("30 100");
    second.until_text("got hello");
    page.send(&json!({ "keys": "NoSuchKey" }));
    page.until_error("usage");
    // A page that goes takes its process along.
    let pages = || home.processes().into_iter().filter(|pid| is_rows(*pid)).count();
    assert_eq!(pages(), 2);
    drop(second);
    until("its process is gone", || pages() == 1);
    page.send(&json!({ "keys": "Enter" }));
    let mut has_ended = false;
    while let Some(update) = page.next() {
        has_ended |= update["ended"] == true;
    }
    assert!(has_ended);
    assert_eq!(home.wait(&job)["exit_code"], 5);
    instead!("S3-102");
    until("no process is left", || pages() == 0);
}

#[test]
fn the_page_that_leads_and_was_used_last_sets_the_size() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let started = server.post("/v1/jobs", json!({ "command": "cat", "pty": true, "size": "80x24" })).ok();
    let job = started["job"].as_str().expect("an id").to_owned();
    let has = |size: &str| {
        until(&format!("it has {size}"), || {
            server.get(&format!("/v1/jobs/{job}/screen")).ok()["size"] == size
        });
    };
    let (mut wide, mut narrow) = (Page::open(&server, &job), Page::open(&server, &job));
    wide.send(&json!({ "lead": "120x40" }));
    has("120x40");
    narrow.send(&json!({ "lead": "50x20" }));
    has("50x20");
    // A window that is made larger takes no lead; typing there does.
    wide.send(&json!({ "lead": "130x40" }));
    wide.send(&json!({ "text": "" }));
    narrow.send(&json!({ "lead": "60x20" }));
    has("60x20");
    wide.send(&json!({ "text": "x" }));
    has("130x40");
    // Who has no say in it any more leaves it to the other, and the last one to the job.
    wide.send(&json!({ "lead": null }));
    has("60x20");
    drop(narrow);
    has("80x24");
    wide.send(&json!({ "lead": "wide" }));
    wide.until_error("usage");
}

#[test]
fn a_program_that_asks_for_the_mouse_gets_it() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    // Reports presses and releases, as numbers.
    let line =
        r#"stty raw -echo; printf '\033[?1000h\033[?1006hready'; head -c 18 | od -An -c | tr -d ' \n'"#;
    let started = server.post("/v1/jobs", json!({ "command": line, "pty": true, "size": "80x24" })).ok();
    let job = started["job"].as_str().expect("an id").to_owned();
    let mut page = Page::open(&server, &job);
    page.until_text("ready");
    let mouse =
        |action: &str| json!({ "mouse": { "row": 5, "column": 9, "button": "left", "action": action } });
    // It does not ask for movements.
    for action in ["move", "press", "release"] {
        page.send(&mouse(action));
    }
    page.until_text(r"033[<0;9;5M033[<0;9;5m");
    assert_eq!(home.wait(&job)["exit_code"], 0);
}

#[test]
fn a_slow_page_gets_the_newest_state_and_one_that_comes_back_all_of_it() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let line = "printf 'first '; read a; seq 1 400000; printf 'the last line'; exec sleep 300";
    let started = server.post("/v1/jobs", json!({ "command": line, "pty": true, "size": "80x24" })).ok();
    let job = started["job"].as_str().expect("an id").to_owned();
    let mut page = Page::open(&server, &job);
    page.until_text("first");
    page.send(&json!({ "keys": "Enter" }));
    // It reads nothing while the job prints.
    let screen = || server.get(&format!("/v1/jobs/{job}/screen")).ok()["rows"].to_string();
    until("all is printed", || screen().contains("the last line"));
    let resident = server.memory_kib("VmRSS:");
    assert!(resident < 64 << 10, "{resident} KiB");
    let mut count = 0;
    loop {
        let update = page.next().expect("it goes on");
        count += 1;
        if update["changed"].to_string().contains("the last line") {
            break;
        }
    }
    // What the connection held, and the newest: not the tens of thousands of screens that there were.
    assert!(count < 1000, "{count} messages");
    drop(page);
    let mut again = Page::open(&server, &job);
    let whole = again.next().expect("the screen");
    let text = whole["changed"].to_string();
    assert!(text.contains("399990") && text.contains("400000") && text.contains("the last line"), "{text}");
    again.send(&json!({ "keys": "C-c" }));
    assert_eq!(home.wait(&job)["signal"], "SIGINT");
}

fn is_rows(pid: i32) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&byte| byte == 0).nth(1) == Some(b"rows")
}

#[test]
fn a_job_on_pipes_has_no_terminal_and_says_so() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = server.run("sleep 300");
    server.get(&format!("/v1/jobs/{job}/terminal")).refused(409, "no_terminal");
    server.get(&format!("/v1/jobs/{job}/screen")).refused(409, "no_terminal");
    let problem =
        server.post(&format!("/v1/jobs/{job}/input"), json!({ "keys": "C-c" })).refused(409, "no_terminal");
    assert!(problem["hint"].is_string());
}

#[test]
fn the_screen_is_that_of_the_command_line() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = home.start_with(&["--pty"], ["sh", "-c", r"printf 'one\ntwo'; exec sleep 300"]);
    home.wait_for_output(&job, "two");
    let screen = server.get(&format!("/v1/jobs/{job}/screen?styled=true")).ok();
    assert_eq!((screen["rows"][0].as_str(), screen["rows"][1].as_str()), (Some("one"), Some("two")));
    assert_eq!(screen["styled_rows"][1][0]["text"], "two");
    server.get(&format!("/v1/jobs/{job}/screen?at=nonsense")).refused(400, "usage");
}

#[test]
fn a_secret_is_taken_where_nothing_shows_it_and_a_paste_is_marked() {
    let home = Home::new();
    let server = Server::start(&home);
    let line = "printf '\\033[?2004h'; read x; stty -echo; printf 'Password: '; read x; echo \"got ${#x}\"; stty -icanon; read x; exec sleep 300";
    let job = home.start_with(&["--pty"], ["bash", "-c", line]);
    let input = format!("/v1/jobs/{job}/input");
    let send = |body: Value| server.post(&input, body);
    home.wait_for_output(&job, "\x1b[?2004h");
    send(json!({ "secret": "hunter2" })).refused(409, "not_hidden");
    send(json!({ "secret": "hunter2", "text": "x" })).refused(400, "usage");
    assert_eq!(send(json!({ "paste": "one" })).ok()["bytes"], "\x1b[200~one\x1b[201~".len());
    home.wait_for_output(&job, "^[[200~one^[[201~");
    send(json!({ "keys": "Enter" })).ok();
    until("it asks for a password", || home.show(&job)["awaits"]["kind"] == "password");
    assert_eq!(send(json!({ "secret": "hunter2" })).ok()["bytes"], Value::Null);
    home.wait_for_output(&job, "got 7");
    send(json!({ "secret": "hunter2" })).refused(409, "not_hidden");
    send(json!({ "secret": "hunter2", "masked": true })).ok();
    let printed = String::from_utf8(home.logs(&job)).expect("text");
    assert!(!printed.contains("hunter2"), "{printed}");
    home.run(["kill", &job]).ok();
    let piped = home.start_with(&["--stdin", "open"], ["cat"]);
    server.post(&format!("/v1/jobs/{piped}/input"), json!({ "secret": "word", "eof": true })).ok();
    home.wait(&piped);
    assert_eq!(home.logs(&piped), b"word\n");
}
