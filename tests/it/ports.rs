//! The ports that a job listens on.
//!
//! Proves what `show`, `list --ports` and `kill --port` promise: a port belongs to the job whose processes listen on it,
//! however deep, and a port of any other process belongs to no job.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use outlive_tests::{Home, is_running, pid, until};
use serde_json::Value;

/// Listens on a free port of this machine.
const SERVE: [&str; 6] = ["/usr/bin/python3", "-um", "http.server", "0", "--bind", "127.0.0.1"];

/// Starts a server and returns the job and its port.
fn serve(home: &Home, options: &[&str]) -> (String, u16) {
    let job = home.start_with(options, SERVE);
    home.wait_for_output(&job, ") ...");
    let text = String::from_utf8(home.logs(&job)).unwrap();
    let port = text.split_ascii_whitespace().skip_while(|word| *word != "port").nth(1).unwrap();
    (job, port.parse().unwrap())
}

#[test]
fn a_server_is_found_with_its_url() {
    let home = Home::new();
    let (job, port) = serve(&home, &[]);
    home.start(["sleep", "300"]);
    let listed = home.json(["list", "--ports"]);
    let found = &listed[0]["ports"];
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    assert_eq!((&found[0]["port"], &found[0]["address"]), (&port.into(), &"127.0.0.1".into()));
    assert_eq!(found[0]["url"], format!("http://localhost:{port}"));
    assert_eq!(listed[1]["ports"], Value::Array(Vec::new()));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.0 200"), "the port is the server's");

    let shown = home.show(&job);
    assert_eq!(shown["ports"], *found);
    assert_eq!((&shown["processes"][0]["ports"], &found[0]["pid"]), (found, &shown["pid"]));
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains(&format!(" localhost:{port} (pid {}", shown["pid"])), "{text}");
    for arguments in [["list", "--ports"].as_slice(), &["show", "--tree", &job]] {
        let text = home.run(arguments).ok().text();
        let line = text.lines().find(|line| line.contains("http.server")).unwrap();
        assert!(line.split_ascii_whitespace().any(|word| word == port.to_string()), "{text}");
    }
}

#[test]
fn a_child_that_went_its_own_way_is_found() {
    let home = Home::new();
    let line = format!("(setsid {} >/dev/null 2>&1 &) ; sleep 300", SERVE.join(" "));
    let job = home.start_line(&line);
    until("it listens", || home.show(&job)["ports"] != Value::Array(Vec::new()));
    let shown = home.show(&job);
    assert_ne!(shown["ports"][0]["pid"], shown["pid"]);
    let port = shown["ports"][0]["port"].to_string();
    let killed = home.json(["kill", "--port", &port]);
    assert_eq!((&killed[0]["job"], &killed[0]["status"]), (&job.into(), &"killed".into()));
    assert!(!is_running(pid(&shown["ports"][0], "pid")));
}

#[test]
fn the_job_that_holds_a_port_is_ended_and_no_other() {
    let home = Home::new();
    let (first, _) = serve(&home, &[]);
    let (second, port) = serve(&home, &[]);
    let killed = home.json(["kill", "--port", &port.to_string()]);
    assert_eq!((killed.as_array().unwrap().len(), &killed[0]["job"]), (1, &second.into()));
    assert_eq!(home.show(&first)["status"], "running");
    let again = home.run(["--json", "kill", "--port", &port.to_string()]).code(3).error_json();
    assert_eq!(again["error"]["code"], "not_found");
    assert!(again["error"]["hint"].as_str().unwrap().contains("list --live --ports"), "{again}");
}

#[test]
fn a_port_of_a_stranger_is_refused() {
    let home = Home::new();
    let (job, _) = serve(&home, &[]);
    let stranger = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port().to_string();
    let refused = home.run(["--json", "kill", "--port", &port]).code(3).error_json();
    assert_eq!(refused["error"]["code"], "not_found", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains(&port), "{refused}");
    assert!(refused["error"]["hint"].as_str().unwrap().contains("another process"), "{refused}");
    assert!(TcpStream::connect(stranger.local_addr().unwrap()).is_ok());
    assert_eq!(home.show(&job)["status"], "running");
}

#[test]
fn a_port_of_another_session_is_refused() {
    let home = Home::new();
    let (job, port) = serve(&home, &["--session", "theirs"]);
    let port = port.to_string();
    let refused = home.run(["--json", "--session", "ours", "kill", "--port", &port]).code(3);
    assert!(!refused.error().contains(&job), "another session's job is not named: {}", refused.error());
    assert_eq!(home.show(&job)["status"], "running");
    home.run(["--session", "theirs", "kill", "--port", &port]).ok();
    assert_eq!(home.show(&job)["status"], "killed");
}

#[test]
fn a_port_is_a_number() {
    let home = Home::new();
    for port in ["0", "65536", "http"] {
        drop(home.run(["kill", "--port", port]).code(2));
    }
    drop(home.run(["kill", "--port", "80", "--all"]).code(2));
}
