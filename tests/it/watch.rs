//! A line that a reader watches for is told once, whether any front end was there or not.
//!
//! Proves that a matching line becomes an event and a notice for the reader that watches, also long after it was printed; that a
//! front end that waits is woken by it; that many of them are counted and not told one by one; and that an answer that showed a line is
//! not followed by a notice of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;

use outlive_tests::{Era, Home, Mcp, until, waits_with_open};
use serde_json::{Value, json};

/// Starts a job that prints what it is sent, watched by a reader.
fn start(home: &Home, reader: &str, pattern: &str) -> String {
    home.start_with(&["--reader", reader, "--stdin", "open", "--watch", pattern], ["cat"])
}

/// Lets it print lines, and returns when they are in its log.
fn say(home: &Home, job: &str, lines: &[&str]) {
    for line in lines {
        home.run(["send", job, line]).ok();
        home.wait_for_output(job, line);
    }
}

/// Ends it, for another reader.
fn end(home: &Home, job: &str) {
    home.run(["send", "--eof", job]).ok();
    home.run(["--reader", "somebody-else", "wait", job]).ok();
}

/// Returns the lines in the inbox of a reader, with their numbers and how many were skipped.
fn told(home: &Home, reader: &str) -> Vec<(u64, String, u64)> {
    let document = home.json(["inbox", "--reader", reader]);
    let lines = document["notices"].as_array().unwrap().iter().filter(|notice| !notice["matched"].is_null());
    let read = |notice: &Value| {
        let matched = &notice["matched"];
        let text = matched["text"].as_str().unwrap().to_owned();
        (matched["line"].as_u64().unwrap(), text, matched["skipped"].as_u64().unwrap())
    };
    lines.map(read).collect()
}

fn line(number: u64, text: &str) -> (u64, String, u64) {
    (number, text.to_owned(), 0)
}

fn events(home: &Home) -> Vec<Value> {
    let text = home.run(["events", "--json"]).ok().text();
    let events = text.lines().map(|line| serde_json::from_str(line).unwrap());
    events.filter(|event: &Value| event["event"] == "matched").collect()
}

#[test]
fn a_line_is_told_once_though_no_front_end_was_there() {
    let home = Home::new();
    let job = start(&home, "me", "^ERROR");
    say(&home, &job, &["fine", "ERROR one", "an ERROR inside", "\u{1b}[31mERROR two\u{1b}[0m"]);
    assert_eq!(told(&home, "other"), [], "it is for the reader that watches");
    assert_eq!(told(&home, "me"), [line(2, "ERROR one"), line(4, "ERROR two")]);
    assert_eq!(told(&home, "me"), [], "once");
    let known = events(&home);
    let numbers: Vec<_> = known.iter().map(|event| event["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 4]);
    assert!(known.iter().all(|event| event["reader"] == "me" && event["job"] == *job));
    say(&home, &job, &["ERROR three"]);
    end(&home, &job);
    let text = home.run(["inbox", "--reader", "me"]).ok().text();
    assert!(text.contains(&format!("{job}: line 5 matches\n")), "{text}");
    assert!(text.contains("\n    | ERROR three\n"), "{text}");
    assert!(text.contains("in session default, 1 ended, 1 printed a line that matches:"), "{text}");
    let marks = std::fs::read_dir(home.store().join("watches")).unwrap().count();
    assert_eq!(marks, 0, "a job that prints nothing any more is not looked at again");
}

#[test]
fn many_lines_are_counted() {
    let home = Home::new();
    let script = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo ERROR $i; done; printf 'ERROR unfinished'";
    let job = home.start_with(&["--reader", "me", "--watch", "ERROR"], ["sh", "-c", script]);
    home.run(["--reader", "somebody-else", "wait", &job]).ok();
    let lines = told(&home, "me");
    let expected = [1, 2, 3, 4, 5].map(|number| line(number, &format!("ERROR {number}")));
    assert_eq!(lines[..5], expected);
    assert_eq!(lines[5..], [(1001, "ERROR unfinished".to_owned(), 995)], "one for all others");
    assert_eq!(events(&home).len(), 6);
}

#[test]
fn whoever_looks_first_a_line_is_one_event() {
    let home = Home::new();
    let job = start(&home, "me", "ERROR");
    for number in 1..=3 {
        say(&home, &job, &[&format!("ERROR {number}")]);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| events(&home));
            }
        });
    }
    let numbers: Vec<_> = events(&home).iter().map(|event| event["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn a_front_end_that_waits_is_woken() {
    let home = Home::new();
    let mut follower = home.outlive(["events", "-f", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = |wanted: &str| loop {
        let event: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if event["event"] == wanted {
            return event;
        }
    };
    // One that is watched from its start, and one from now on.
    let first = start(&home, "me", "ERROR");
    next("started");
    say(&home, &first, &["ERROR one"]);
    assert_eq!(next("matched")["text"], "ERROR one");
    let second = home.start_with(&["--stdin", "open"], ["cat"]);
    next("started");
    say(&home, &second, &["ERROR before"]);
    let set = home.run(["watch", &second, "ERROR"]).ok().text();
    assert_eq!(set, format!("{second} is watched for ERROR\n"));
    say(&home, &second, &["ERROR after"]);
    let event = next("matched");
    assert_eq!((&event["text"], &event["line"]), (&"ERROR after".into(), &2.into()));
    follower.kill().unwrap();
    follower.wait().unwrap();
    // It reads no input: a job that asks for some has events of its own.
    let gate = home.path().join("gate");
    let line = format!("until [ -e {} ]; do sleep 0.02; done; echo ERROR; exec sleep 600", gate.display());
    let job = home.start_with(&["--reader", "me", "--watch", "ERROR"], ["sh", "-c", &line]);
    let waiter = home.outlive(["wait", "--event", "--json", &job]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(waiter.id()).unwrap();
    until("it waits", || waits_with_open(pid, "inotify"));
    std::fs::write(gate, "").unwrap();
    let answer: Value = serde_json::from_slice(&waiter.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(answer["event"]["event"], "matched", "{answer}");
}

#[test]
fn each_reader_has_a_watch_of_its_own_and_can_end_it() {
    let home = Home::new();
    let job = start(&home, "me", "ERROR");
    home.run(["--reader", "you", "watch", &job, "WARN"]).ok();
    say(&home, &job, &["ERROR and WARN", "WARN"]);
    assert_eq!(told(&home, "me"), [line(1, "ERROR and WARN")]);
    assert_eq!(told(&home, "you"), [line(1, "ERROR and WARN"), line(2, "WARN")]);
    home.run(["--reader", "me", "watch", &job, "never"]).ok();
    let shown = home.run(["--reader", "you", "watch", "--off", &job]).ok().text();
    assert_eq!(shown, format!("{job} is not watched\n"));
    say(&home, &job, &["ERROR", "WARN again"]);
    assert_eq!((told(&home, "me"), told(&home, "you")), (vec![], vec![]));
    let shown = home.json(["--reader", "me", "watch", &job]);
    assert_eq!(shown, json!({"job": job, "reader": "me", "pattern": "never"}));
    // What cannot be watched says so.
    let wrong = home.run(["watch", &job, "("]).code(2);
    assert!(wrong.error().contains("no regular expression"), "{wrong:?}");
    let wrong = home.run(["run", "--watch", "(", "true"]).code(2);
    assert!(wrong.error().contains("no regular expression"), "{wrong:?}");
    end(&home, &job);
    let over = home.run(["watch", &job, "x"]).code(1);
    assert!(over.error().contains("outlive logs --grep"), "{over:?}");
}

#[test]
fn a_line_that_a_wait_has_shown_is_no_notice() {
    let home = Home::new();
    let job = start(&home, "me", "ERROR");
    say(&home, &job, &["ERROR one", "ERROR two"]);
    home.run(["--reader", "me", "wait", &job, "--match", "ERROR two"]).ok();
    assert_eq!(told(&home, "me"), [line(1, "ERROR one")]);
}

#[test]
fn an_agent_hears_of_lines_with_its_results() {
    let home = Home::new();
    let mut command = home.outlive(["mcp"]);
    command.env("CLAUDE_CODE_SESSION_ID", "agent");
    let mut client = Mcp::of(command, Era::Handshake, json!({}), &[]);
    let run = json!({"command": "cat", "name": "web", "stdin": "open", "background": true, "watch": "ERROR"});
    let job = client.call("run", run).ok().job();
    say(&home, &job, &["fine", "[outlive] ERROR one"]);
    let next = client.call("list_jobs", json!({})).ok().text;
    let notice = format!("[outlive] since your last call: {job}: line 2 matches\n  | [outlive] ERROR one");
    assert!(next.contains(&notice), "{next}");
    // What an answer shows is not told by it, nor by the next.
    say(&home, &job, &["ERROR two"]);
    let read = client.call("read_output", json!({"job": job})).ok().text;
    assert!(read.contains("ERROR two") && !read.contains("since your last call"), "{read}");
    // A wait for anything is woken, and its answer has the line.
    let mut waiting = client.send_call("wait", json!({"timeout_ms": 40_000}));
    home.run(["send", &job, "ERROR three"]).ok();
    let mut woken = client.tool_answer(waiting).ok().text;
    // That it asks for a line may come first, and once.
    if !woken.contains("matches") {
        waiting = client.send_call("wait", json!({"timeout_ms": 40_000}));
        woken = client.tool_answer(waiting).ok().text;
    }
    assert!(woken.contains(": line 4 matches\n  | ERROR three"), "{woken}");
    // A wait for the line itself tells it, and no notice does.
    let waiting = client.send_call("wait", json!({"jobs": [job], "pattern": "ERROR four"}));
    home.run(["send", &job, "ERROR four"]).ok();
    let woken = client.tool_answer(waiting).ok().text;
    assert!(woken.contains("line 5 matches") && !woken.contains("since your last call"), "{woken}");
    let next = client.call("list_jobs", json!({})).ok().text;
    assert!(!next.contains("since your last call"), "{next}");
    // Another pattern from now on, and then none.
    client.call("manage_job", json!({"job": job, "action": "watch", "pattern": "WARN"})).ok();
    say(&home, &job, &["ERROR five", "WARN"]);
    let next = client.call("list_jobs", json!({})).ok().text;
    assert!(next.contains("line 7 matches") && !next.contains("line 6"), "{next}");
    client.call("manage_job", json!({"job": job, "action": "unwatch"})).ok();
    say(&home, &job, &["WARN again"]);
    let next = client.call("list_jobs", json!({})).ok().text;
    assert!(!next.contains("since your last call"), "{next}");
    let wrong = client.call("manage_job", json!({"job": job, "action": "watch"})).error();
    assert!(wrong.contains("pattern"), "{wrong}");
    client.call("kill", json!({"job": job})).ok();
    assert_eq!(client.end(), 0);
}

#[test]
fn an_agent_says_what_is_done_at_the_end() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let file = home.path().join("told");
    let on_exit = format!("cat > {0}.new; mv {0}.new {0}", file.display());
    let run = json!({"command": "echo done; exit 3", "on_exit": on_exit, "notify": false});
    let answer = client.call("run", run).ok();
    assert!(answer.text.contains("failed, exit 3"), "{}", answer.text);
    until("the line has run", || file.exists());
    let notice = std::fs::read_to_string(file).unwrap();
    assert!(notice.contains("exited with 3") && notice.contains("| done"), "{notice}");
    assert_eq!(client.end(), 0);
}

/// The option of that name in other tools is given files.
#[test]
fn a_pattern_of_files_is_answered_with_the_option_for_files() {
    let home = Home::new();
    let told = home.run(["run", "--watch", "*.py", "true"]).code(2).error();
    assert!(told.contains("hint: ") && told.contains("--restart-on-change '*.py'"), "{told}");
    let told = home.run(["run", "--watch", "src/**", "true"]).ok().error();
    assert!(told.contains("lines of the output") && told.contains("--restart-on-change 'src/**'"), "{told}");
    for pattern in ["GET /api/.* 500", "error|/tmp/x*", "src/", "a*"] {
        assert_eq!(home.run(["run", "--watch", pattern, "true"]).ok().error(), "", "{pattern}");
    }
}
