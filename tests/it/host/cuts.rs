//! Servers that are killed while a verb waits or follows.
//!
//! Proves: it goes on, with no byte twice or missing; what changes something is not done twice.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};

use outlive_tests::{Home, LIMIT, Terminal, end_within, until};

use super::{Served, verbs_there};

/// A job that prints numbered lines to both streams until a file is there.
const COUNTS: &str =
    "i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; echo bad $i >&2; sleep 0.002; done; exit 5";

fn spawn(server: &Served<'_>, arguments: &[&str]) -> Child {
    server.outlive(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

/// Collects a stream in a thread; the number of lines so far can be waited for.
fn collect(
    from: impl Read + Send + 'static,
) -> (std::sync::Arc<std::sync::Mutex<String>>, std::thread::JoinHandle<()>) {
    let text = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let shared = std::sync::Arc::clone(&text);
    let thread = std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = String::new();
        while from.read_line(&mut line).expect("text") > 0 {
            shared.lock().expect("no panic").push_str(&line);
            line.clear();
        }
    });
    (text, thread)
}

fn lines(text: &std::sync::Mutex<String>) -> usize {
    text.lock().expect("no panic").lines().count()
}

#[test]
fn a_follow_goes_on_over_killed_servers() {
    let home = Home::new();
    let mut server = Served::start(&home);
    let job = home.start_line(COUNTS);
    for arguments in
        [&["logs", "-f", &job][..], &["logs", "-f", "--timestamps", &job], &["logs", "-f", "--json", &job]]
    {
        let mut child = spawn(&server, arguments);
        let (text, reading) = collect(child.stdout.take().expect("piped"));
        let (_, errors) = collect(child.stderr.take().expect("piped"));
        for _ in 0..3 {
            let before = lines(&text);
            until("it follows", || lines(&text) > before + 50);
            server.restart();
        }
        let before = lines(&text);
        until("it goes on", || lines(&text) > before + 50);
        if arguments.contains(&"--json") {
            std::fs::write(home.path().join("stop"), "").expect("written");
            assert_eq!(end_within(&mut child, LIMIT), Some(0), "{arguments:?}");
        } else {
            child.kill().expect("it runs");
            child.wait().expect("our child");
        }
        reading.join().expect("read");
        errors.join().expect("read");
        let text = text.lock().expect("no panic").clone();
        let here = home.run([&["logs"], &arguments[2..]].concat()).ok().text();
        let is_whole = text.ends_with('\n');
        let shown =
            if is_whole { text.as_str() } else { text.rsplit_once('\n').map_or("", |(whole, _)| whole) };
        assert!(here.starts_with(shown), "{arguments:?}: {} lines differ", shown.lines().count());
    }
}

#[test]
fn a_wait_and_a_command_that_is_waited_for_end_with_the_truth() {
    let home = Home::new();
    let mut server = Served::start(&home);
    let job = home.start_line("while [ ! -e over ]; do sleep 0.01; done; exit 7");
    let mut waiting = spawn(&server, &["--json", "wait", &job]);
    let mut running = spawn(&server, &["run", "--wait", COUNTS]);
    let (out, reading) = collect(running.stdout.take().expect("piped"));
    let (err, reading_errors) = collect(running.stderr.take().expect("piped"));
    for _ in 0..3 {
        let before = (lines(&out), lines(&err));
        until("it streams", || lines(&out) > before.0 + 50 && lines(&err) > before.1 + 50);
        server.restart();
    }
    server.kill();
    std::fs::write(home.path().join("over"), "").expect("written");
    std::fs::write(home.path().join("stop"), "").expect("written");
    home.wait(&job);
    // Both have ended while there was no server; the next one tells.
    let _server = Served::start(&home);
    assert_eq!(end_within(&mut waiting, LIMIT), Some(7));
    let mut answer = String::new();
    waiting.stdout.take().expect("piped").read_to_string(&mut answer).expect("text");
    assert_eq!(answer.lines().count(), 1, "{answer}");
    assert_eq!(end_within(&mut running, LIMIT), Some(5));
    reading.join().expect("read");
    reading_errors.join().expect("read");
    let jobs = home.json(["list", "--status", "failed"]);
    assert_eq!(jobs.as_array().map(Vec::len), Some(2), "it was started once");
    let streamed =
        jobs.as_array().expect("a list").iter().find(|job| job["exit_code"] == 5).expect("it ended").clone();
    let id = streamed["job"].as_str().expect("an id");
    let here = home.run(["logs", "--stream", "stdout", id]).ok().text();
    assert_eq!(*out.lock().expect("no panic"), here);
    let errors = err.lock().expect("no panic").clone();
    let errors: Vec<&str> = errors.lines().filter(|line| !line.starts_with("outlive:")).collect();
    let here = home.run(["logs", "--stream", "stderr", id]).ok().text();
    assert_eq!(errors, here.lines().collect::<Vec<_>>());
}

#[test]
fn events_are_followed_over_killed_servers_each_once() {
    let home = Home::new();
    let mut server = Served::start(&home);
    let mut child = spawn(&server, &["--json", "events", "-f"]);
    let (text, reading) = collect(child.stdout.take().expect("piped"));
    for _ in 0..3 {
        let job = home.start(["true"]);
        home.wait(&job);
        until("it is told", || text.lock().expect("no panic").matches(&job).count() >= 2);
        server.kill();
        // What happens while there is no server is told, too.
        let job = home.start(["false"]);
        home.wait(&job);
        server = Served::start(&home);
        until("it is told", || text.lock().expect("no panic").matches(&job).count() >= 2);
    }
    child.kill().expect("it runs");
    child.wait().expect("our child");
    reading.join().expect("read");
    let here = home.run(["--json", "events"]).ok().text();
    assert_eq!(*text.lock().expect("no panic"), here);
}

#[test]
fn what_changes_something_is_not_done_twice() {
    let home = Home::new();
    let mut server = Served::start(&home);
    // Its answer never comes: the job leaves its input unread.
    let job = home.start_with(&["--stdin", "open"], ["sleep", "300"]);
    let mut child = server.outlive(&["send", &job]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    until("the verb runs there", || verbs_there(&home).len() == 1);
    server.kill();
    assert_eq!(end_within(&mut child, LIMIT), Some(1));
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert!(said.contains("broke off"), "{said}");
}

#[test]
fn a_terminal_is_drawn_again_after_a_cut() {
    let home = Home::new();
    let mut server = Served::start(&home);
    let line = "echo ready; while read a; do echo got $a; done";
    home.start_with(&["--pty", "--name", "talks"], ["sh", "-c", line]);
    let mut terminal = Terminal::open(80);
    let mut child = terminal.start(&home, &[], ["outlive", "--host", &server.address(), "attach", "talks"]);
    terminal.read_until("ready");
    terminal.write(b"one\r");
    terminal.read_until("got one");
    for word in ["two", "three"] {
        server.restart();
        until("it is attached again", || verbs_there(&home).len() == 1);
        // Keys that are typed before that are lost.
        home.run(["send", "talks", word]).ok();
        terminal.read_until(&format!("got {word}"));
    }
    terminal.write(b"\x1cd");
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    let shown = terminal.read_to_end();
    assert!(shown.contains("detached"), "{shown:?}");
}
