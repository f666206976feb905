//! Waiting for what comes before the end: a line, a port, an answer, silence, an event; of one job, several, a group or a
//! session.
//!
//! Each condition is shown to come, to come no more, and not to come in time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlive_tests::{
    Done, Home, LIMIT, end_within, free_port, instead, is_running, pid, signal, until, waits_with_open,
};
use serde_json::{Value, json};

/// A job that repeats each line of its input on its output, and ends with it.
fn start_repeating(home: &Home, options: &[&str]) -> String {
    home.start_with(&[&["--stdin", "open"], options].concat(), ["cat"])
}

/// Starts a waiter with `--json`, and returns when it waits for the kernel.
fn waiter(home: &Home, arguments: &[&str]) -> Child {
    let mut command = home.outlive(["--json", "wait"]);
    let child =
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built");
    until("it waits", || waits_with_open(child.id().cast_signed(), "inotify"));
    child
}

/// Returns the exit status and the answer of a waiter.
fn answer(mut child: Child) -> (i32, Value) {
    let code = end_within(&mut child, LIMIT).expect("it is answered");
    let output = child.wait_with_output().expect("it has ended");
    (code, serde_json::from_slice(&output.stdout).expect("an answer"))
}

/// Waits in the foreground, with `--json`.
fn wait(home: &Home, arguments: &[&str]) -> Done {
    home.run([&["--json", "wait", "--timeout", "50s"], arguments].concat())
}

fn outcome(answer: &Value) -> &str {
    answer["outcome"].as_str().expect("it has one")
}

/// A program that listens on a port once its input says so, and goes on until its input ends.
fn start_listening(home: &Home, port: u16, options: &[&str]) -> String {
    let program = format!(
        "import socket, sys\nsys.stdin.readline()\ns = socket.create_server(('127.0.0.1', {port}))\n\
         print('bound', flush=True)\nsys.stdin.readline()\n"
    );
    home.start_with(&[&["--stdin", "open"], options].concat(), ["python3", "-c", &program])
}

#[test]
fn a_line_is_waited_for() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    let waiting = waiter(&home, &[&job, "--match", r"^listening on \d+$"]);
    home.run(["send", &job, "not listening on 1"]).ok();
    home.run(["send", &job, "listening on 8080"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, outcome(&told)), (0, "match"));
    assert_eq!((&told["line"], &told["line_number"]), (&json!("listening on 8080"), &json!(2)));
    assert_eq!((&told["job"], &told["status"]), (&json!(job), &json!("running")));
    assert_eq!(told["tail"], "not listening on 1\nlistening on 8080\n");
    assert_eq!((&told["effective_timeout_ms"], &told["jobs"][0]["job"]), (&Value::Null, &json!(job)));
    // What is there already counts, unless it is said from where.
    assert_eq!(wait(&home, &[&job, "--match", "^LISTENING", "-i"]).ok().json()["line_number"], 2);
    let text = home.run(["wait", &job, "--match", "not"]).ok().text();
    assert_eq!(text, format!("{job} matched, line 1: not listening on 1\n"));
    home.run(["wait", &job, "--match", "listening", "--from-line", "3", "--timeout", "50ms"]).code(4);
    let waiting = waiter(&home, &[&job, "--match", "listening", "--from-line", "3"]);
    home.run(["send", &job, "listening again"]).ok();
    assert_eq!(answer(waiting).1["line_number"], 3);
}

#[test]
fn a_line_that_cannot_come_any_more_is_not_waited_for() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    let waiting = waiter(&home, &[&job, "--match", "never"]);
    home.run(["send", &job, "last words", "--eof"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, outcome(&told)), (6, "exit"));
    assert_eq!((&told["status"], &told["tail"]), (&json!("completed"), &json!("last words\n")));
    let again = wait(&home, &[&job, "--match", "never"]).code(6);
    assert_eq!(again.error_json()["error"]["code"], "not_reached");
    assert_eq!(again.error_json()["error"]["job"], json!(job));
    // Its last words count.
    assert_eq!(outcome(&wait(&home, &[&job, "--match", "last"]).ok().json()), "match");
}

#[test]
fn what_must_not_come_ends_the_waiting() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    let waiting = waiter(&home, &[&job, "--match", "ready", "--fail-match", "EADDR|ready to fail"]);
    let until_end = waiter(&home, &[&job, "--fail-match", "panic"]);
    home.run(["send", &job, "ready to fail"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, outcome(&told), &told["line_number"]), (6, "fail_match", &json!(1)));
    assert_eq!(told["status"], "running", "the job goes on");
    let told = home.run(["wait", &job, "--fail-match", "fail"]).code(6);
    assert!(told.error().contains("line 1: ready to fail"), "{}", told.error());
    assert_eq!(told.text(), "");
    // Where nothing else is waited for, the end is what should come.
    home.run(["send", &job, "--eof"]).ok();
    let (code, told) = answer(until_end);
    assert_eq!((code, outcome(&told)), (0, "exit"));
}

#[test]
fn the_first_line_decides_whichever_it_matches() {
    let home = Home::new();
    let job = home.start_line("echo good; echo bad; exit 3");
    home.wait(&job);
    assert_eq!(
        outcome(&wait(&home, &[&job, "--match", "good", "--fail-match", "bad"]).code(7).json()),
        "match"
    );
    assert_eq!(
        outcome(&wait(&home, &[&job, "--match", "bad", "--fail-match", "good"]).code(6).json()),
        "fail_match"
    );
    let second = ["--match", "good|bad", "--fail-match", "bad", "--from-line", "2"];
    assert_eq!(outcome(&wait(&home, &[&[job.as_str()][..], &second].concat()).code(6).json()), "fail_match");
}

#[test]
fn a_prompt_matches_and_the_beginning_of_a_line_does_not_end_it() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    let prompt = waiter(&home, &[&job, "--match", "continue\\? $"]);
    home.run(["send", "-n", &job, "continue? "]).ok();
    let (code, told) = answer(prompt);
    assert_eq!((code, &told["line"]), (0, &json!("continue? ")));
    // Coloured text and the states of a progress bar are lines as people see them.
    home.run(["send", &job, "\u{1b}[32myes\u{1b}[0m"]).ok();
    home.run(["send", &job, "10%\r50%\r100%"]).ok();
    assert_eq!(wait(&home, &[&job, "--match", "^continue\\? yes$"]).ok().json()["line_number"], 1);
    assert_eq!(wait(&home, &[&job, "--match", "^50%$"]).ok().json()["line_number"], 2);
}

#[test]
fn hostile_patterns_and_hostile_output_harm_nobody() {
    let home = Home::new();
    let job = home.start([
        "sh",
        "-c",
        "head -c 3000000 /dev/zero | tr '\\0' a; printf '\\377\\200\\n'; exec sleep 300",
    ]);
    for pattern in
        ["(", "[", "a{2,1}", "(?<n>a", r"\p{Nonsense}", "((((((((a{99}){99}){99}){99}){99}))))", "*"]
    {
        let told = home.run(["--json", "wait", &job, "--match", pattern]).code(2);
        assert_eq!(told.error_json()["error"]["code"], "usage", "{pattern}");
        home.run(["wait", &job, "--fail-match", pattern]).code(2);
        home.run(["run", "--ready-on", pattern, "true"]).code(2);
    }
    // Patterns that take others exponential time, over a line longer than any buffer.
    for pattern in ["(a*)*b", "(a|aa)+$b", "^(.*a){20}c$"] {
        home.run(["wait", &job, "--match", pattern, "--timeout", "100ms"]).code(4);
    }
    assert_eq!(wait(&home, &[&job, "--match", "aaa"]).ok().json()["line_number"], 1);
    // The empty pattern matches any line.
    assert_eq!(wait(&home, &[&job, "--match", ""]).ok().json()["outcome"], "match");
    for options in [
        &["--http", "ftp://localhost"][..],
        &["--http", "localhost:80"],
        &["--http", "http://a b/"],
        &["--port", "0"],
        &["--port", "65536"],
        &["--idle", "soon"],
        &["--since", "5"],
        &["--ready"],
        &["--group", "x"],
    ] {
        home.run([&["wait", job.as_str()], options].concat()).code(2);
    }
    home.run(["wait"]).code(2);
    home.run(["wait", "--event", "--since", "5"]).code(2);
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 1, "nothing was started with a bad condition");
}

#[test]
fn a_port_is_waited_for_and_only_the_jobs_own_counts() {
    let home = Home::new();
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let foreign = foreign.local_addr().unwrap().port().to_string();
    let port = free_port();
    let job = start_listening(&home, port, &[]);
    home.run(["wait", &job, "--port", &foreign, "--timeout", "200ms"]).code(4);
    let waiting = waiter(&home, &[&job, "--port", &port.to_string()]);
    let ends_first = waiter(&home, &[&job, "--port", &foreign]);
    home.run(["send", &job, "listen"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, outcome(&told), &told["job"]), (0, "port", &json!(job)));
    let text = home.run(["wait", &job, "--port", &port.to_string()]).ok().text();
    // What it speaks there nobody knows.
    assert!(text.contains(&format!(", localhost:{port})")), "{text}");
    home.run(["send", &job, "end"]).ok();
    let (code, told) = answer(ends_first);
    assert_eq!((code, outcome(&told)), (6, "exit"));
}

/// A server that answers each request with this status, until it is dropped.
struct Server {
    status: Arc<AtomicU16>,
    url: String,
    asked: Arc<AtomicUsize>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// With this status the server ends.
const OVER: u16 = 0;

impl Server {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (status, asked) = (Arc::new(AtomicU16::new(status)), Arc::new(AtomicUsize::new(0)));
        let (now, count) = (Arc::clone(&status), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                match now.load(Ordering::SeqCst) {
                    OVER => return,
                    status => {
                        // The client may be gone.
                        client.read_exact(&mut [0; 4]).ok();
                        client.write_all(format!("HTTP/1.1 {status} So\r\n\r\n").as_bytes()).ok();
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        });
        let url = format!("http://{address}/health");
        Self { status, url, asked, address, thread: Some(thread) }
    }

    fn answer_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.answer_with(OVER);
        drop(TcpStream::connect(self.address));
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()), "the server ends");
    }
}

#[test]
fn an_answer_is_waited_for() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    let server = Server::start(503);
    home.run(["wait", &job, "--http", &server.url, "--timeout", "100ms"]).code(4);
    let waiting = waiter(&home, &[&job, "--http", &server.url]);
    let before = server.asked.load(Ordering::SeqCst);
    until("it asks again", || server.asked.load(Ordering::SeqCst) > before + 2);
    server.answer_with(302);
    let (code, told) = answer(waiting);
    assert_eq!((code, outcome(&told), &told["status"]), (0, "http", &json!("running")));
    let text = home.run(["wait", &job, "--http", &server.url]).ok().text();
    assert_eq!(text, format!("{job} answers at {} with 302\n", server.url));
}

#[test]
fn an_address_that_says_nothing_holds_nobody_up() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    // It takes connections, and that is all.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    home.run(["wait", &job, "--http", &url, "--timeout", "100ms"]).code(4);
    let ends_first = waiter(&home, &[&job, "--http", &url]);
    home.run(["send", &job, "--eof"]).ok();
    let (code, told) = answer(ends_first);
    assert_eq!((code, outcome(&told)), (6, "exit"));
}

#[test]
fn silence_is_waited_for() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    home.run(["wait", &job, "--idle", "10m", "--timeout", "50ms"]).code(4);
    let begin = Instant::now();
    let waiting = waiter(&home, &[&job, "--idle", "1s"]);
    home.run(["send", &job, "not yet"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, outcome(&told)), (0, "idle"));
    assert!(begin.elapsed() >= Duration::from_secs(1), "{:?}", begin.elapsed());
    // It has been silent for that long already.
    assert_eq!(home.run(["wait", &job, "--idle", "500ms"]).ok().text(), format!("{job} is idle\n"));
    let waiting = waiter(&home, &[&job, "--idle", "10m"]);
    home.run(["send", &job, "--eof"]).ok();
    assert_eq!(answer(waiting).0, 6);
}

#[test]
fn any_event_is_waited_for() {
    let home = Home::new();
    // They read nothing: a job that waits for input has an event of that, too, sooner or later.
    let start = |session: &str| {
        let script = format!("until [ -e {session} ]; do sleep 0.05; done");
        home.start_with(&["--session", session], ["sh", "-c", &script])
    };
    let end = |session: &str| std::fs::write(home.path().join(session), "").expect("the home is writable");
    let (one, two) = (start("s"), start("t"));
    // The keeper answers the starter before it writes the event of the start.
    for session in ["s", "t"] {
        let started = home.json(["wait", "--session", session, "--event", "--since", "0"]);
        assert_eq!(started["event"]["event"], "started");
    }
    let of_session = waiter(&home, &["--session", "s", "--event"]);
    let of_all = waiter(&home, &["--event"]);
    let of_job = waiter(&home, &[&two, "--event"]);
    home.run(["wait", "--session", "s", "--event", "--timeout", "50ms"]).code(4);
    // One in a session that was not there before.
    let of_new = waiter(&home, &["--session", "u", "--event"]);
    assert!(!home.store().join("sessions/u").exists(), "it is not made by asking for it");
    let three = start("u");
    let (code, told) = answer(of_new);
    assert_eq!((code, &told["job"], &told["event"]["event"]), (0, &json!(three), &json!("started")));
    let (code, told) = answer(of_all);
    assert_eq!((code, outcome(&told), &told["job"]), (0, "event", &json!(three)));
    assert_eq!((&told["event"]["event"], &told["event"]["session"]), (&json!("started"), &json!("u")));
    end("s");
    let (code, told) = answer(of_session);
    assert_eq!((code, &told["job"], &told["event"]["event"]), (0, &json!(one), &json!("exited")));
    assert_eq!(told["status"], "completed");
    end("t");
    let (code, told) = answer(of_job);
    assert_eq!((code, outcome(&told), &told["event"]["event"]), (0, "event", &json!("exited")));
    // After a sequence: what happened since comes at once, one after the other.
    let first = home.json(["wait", "--session", "s", "--event", "--since", "0"]);
    assert_eq!(first["event"]["event"], "started");
    let seq = first["event"]["seq"].to_string();
    let next = home.json(["wait", "--session", "s", "--event", "--since", &seq]);
    assert_eq!(next["event"]["event"], "exited");
    let seq = next["event"]["seq"].to_string();
    home.run(["wait", "--session", "s", "--event", "--since", &seq, "--timeout", "50ms"]).code(4);
    assert_eq!(home.run(["wait", &two, "--event"]).code(6).text().lines().count(), 1, "it has ended");
}

#[test]
fn all_and_any_of_several() {
    let home = Home::new();
    let jobs = [(); 3].map(|()| start_repeating(&home, &["--group", "g"]));
    let [a, b, c] = jobs.each_ref().map(String::as_str);
    let all = waiter(&home, &["--group", "g", "--match", "up"]);
    let any = waiter(&home, &["--any", a, b, c, "--match", "up"]);
    let mut failing = waiter(&home, &["--all", a, b, c, "--match", "never", "--fail-match", "broken"]);
    home.run(["send", b, "up"]).ok();
    let (code, told) = answer(any);
    assert_eq!((code, outcome(&told), &told["job"]), (0, "match", &json!(b)));
    home.run(["send", a, "up"]).ok();
    home.run(["wait", "--group", "g", "--match", "up", "--timeout", "50ms"]).code(4);
    home.run(["send", c, "up"]).ok();
    let (code, told) = answer(all);
    assert_eq!((code, outcome(&told), &told["job"]), (0, "match", &json!(c)));
    assert_eq!(told["jobs"].as_array().unwrap().len(), 3);
    let text = home.run(["wait", "--group", "g", "--match", "up"]).ok().text();
    assert_eq!(text.lines().count(), 3, "a line for each: {text}");
    // One that fails ends it for all; one that ends, too, unless another may still do.
    assert_eq!(failing.try_wait().unwrap(), None);
    home.run(["send", c, "broken"]).ok();
    let (code, told) = answer(failing);
    assert_eq!((code, outcome(&told), &told["job"]), (6, "fail_match", &json!(c)));
    let any = waiter(&home, &["--any", a, b, "--match", "late"]);
    let all = waiter(&home, &["--all", a, b, "--match", "late"]);
    home.run(["send", a, "--eof"]).ok();
    let (code, told) = answer(all);
    assert_eq!((code, outcome(&told), &told["job"]), (6, "exit", &json!(a)));
    home.run(["send", b, "late"]).ok();
    let (code, told) = answer(any);
    assert_eq!((code, outcome(&told), &told["job"]), (0, "match", &json!(b)));
    let none_left = waiter(&home, &["--any", a, b, "--match", "never"]);
    home.run(["send", b, "--eof"]).ok();
    let (code, told) = answer(none_left);
    assert_eq!((code, outcome(&told), &told["job"]), (6, "exit", &json!(b)));
}

#[test]
fn groups_and_sessions_are_waited_for_and_ended() {
    let home = Home::new();
    let ours = [(); 2].map(|()| start_repeating(&home, &["--group", "g", "--session", "s"]));
    let theirs = start_repeating(&home, &["--group", "g", "--session", "t"]);
    let other = start_repeating(&home, &["--session", "s"]);
    let listed = home.json(["list", "--group", "g", "--session", "s"]);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["group"], "g");
    home.run(["wait", "--group", "g", "--session", "s", "--timeout", "20ms"]).code(4);
    let killed = home.json(["kill", "--group", "g", "--session", "s"]);
    let ids: Vec<&Value> = killed.as_array().unwrap().iter().map(|killed| &killed["job"]).collect();
    assert_eq!(ids, [&json!(ours[0]), &json!(ours[1])]);
    for job in [&theirs, &other] {
        assert_eq!(home.show(job)["status"], "running");
    }
    let ended = home.run(["--json", "wait", "--group", "g", "--session", "s"]).code(7).json();
    assert_eq!((outcome(&ended), &ended["jobs"][1]["status"]), ("exit", &json!("killed")));
    let any = home.run(["--json", "wait", "--any", "--group", "g", "--session", "s"]).code(7).json();
    assert!(outcome(&any) == "exit" && ours.iter().any(|job| any["job"] == **job), "{any}");
    // The first of them is enough, and all are waited for without `--any`.
    let [last, first] = [(); 2].map(|()| start_repeating(&home, &["--group", "h"]));
    home.run(["wait", "--any", "--group", "h", "--timeout", "20ms"]).code(4);
    home.run(["send", &first, "--eof"]).ok();
    let any = home.run(["--json", "wait", "--any", "--group", "h"]).ok().json();
    assert_eq!((outcome(&any), &any["job"]), ("exit", &json!(first)));
    home.run(["wait", "--group", "h", "--timeout", "20ms"]).code(4);
    home.run(["send", &last, "--eof"]).ok();
    let all = home.run(["--json", "wait", "--group", "h"]).ok().json();
    assert_eq!((outcome(&all), all["jobs"].as_array().map(Vec::len)), ("exit", Some(2)));
    instead!("S0-166", "S3-104");
    home.run(["wait", "--group", "g", "--timeout", "20ms"]).code(4);
    // A session: all of it, and those that have ended count as in a group.
    home.run(["wait", "--session", "s", "--timeout", "20ms"]).code(4);
    let done = home.outlive(["--json", "wait", "--session", "s"]).stdout(Stdio::piped()).spawn().unwrap();
    until("it waits", || waits_with_open(done.id().cast_signed(), "pidfd"));
    home.run(["send", &other, "--eof"]).ok();
    let (code, told) = answer(done);
    assert_eq!((code, told["jobs"].as_array().unwrap().len()), (7, 3), "two of the group were killed");
    home.run(["wait", "--session", "s"]).code(7);
    home.run(["wait", "--session", "s", "--any"]).code(6);
    for verb in ["wait", "kill"] {
        let unknown = home.run(["--json", verb, "--group", "G"]).code(3);
        assert_eq!(unknown.error_json()["error"]["code"], "not_found");
        home.run([verb, "--group", "g", "--session", "u"]).code(3);
    }
    assert_eq!(home.run(["kill", "--group", "g", "--session", "s"]).ok().text(), "", "they have ended");
}

#[test]
fn the_end_of_a_job_without_keeper_is_told_too() {
    let home = Home::new();
    // With its keeper gone and the command gone on, and with both gone.
    for is_stopped in [false, true] {
        let job = home.start(["sleep", "300"]);
        let shown = home.show(&job);
        let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
        let waiting = waiter(&home, &[&job, "--match", "never"]);
        if is_stopped {
            signal(keeper, "STOP");
            signal(command, "KILL");
            until("the command is dead", || !is_running(command));
            outlive_tests::kill_with_guard(keeper);
        } else {
            outlive_tests::kill_with_guard(keeper);
            until("it is an orphan", || home.show(&job)["orphaned"] == true);
            let late = waiter(&home, &[&job, "--match", "never"]);
            signal(command, "KILL");
            assert_eq!(answer(late).0, 6);
        }
        let (code, told) = answer(waiting);
        assert_eq!((code, outcome(&told), &told["status"]), (6, "exit", &json!("lost")));
        // The waiters had hold of it; what the kernel told them is recorded.
        let known = outlive_sys::exit::can_tell().then_some("SIGKILL");
        assert_eq!(home.show(&job)["signal"], json!(known));
    }
}

#[test]
fn a_job_that_is_removed_is_waited_for_no_more() {
    let home = Home::new();
    let job = start_repeating(&home, &[]);
    let waiting = waiter(&home, &[&job, "--match", "never"]);
    let other = waiter(&home, &[&job, "--idle", "10m"]);
    home.run(["send", &job, "--eof"]).ok();
    // It may be gone before they look.
    until("it is removed", || home.run(["remove", &job]).code == 0);
    assert_eq!(answer(waiting).0, 6);
    assert_eq!(answer(other).0, 6);
}

#[test]
fn the_event_of_an_end_is_there_when_the_end_is_told() {
    let home = Home::new();
    for number in 0..20 {
        let job = home.start(["true"]);
        // The first looks may come at any moment of the end.
        let conditions = [&["--fail-match", "x"][..], &[]];
        home.run([&["wait", job.as_str()], conditions[number % 2]].concat()).ok();
        let told = home.run(["--json", "events"]).ok().text();
        let is_end = |line: &str| line.contains(&job) && line.contains("\"exited\"");
        assert!(told.lines().any(is_end), "{told}");
    }
}
