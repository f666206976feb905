//! When a job is ready: an attribute and an event, by a line, a port or an answer, on real servers too.
//!
//! Proves that ready turns true when a client can connect, and not before; that it is told once; and that it survives any process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use outlive::{Conditions, WaitFor, WaitReason};
use outlive_tests::{Home, LIMIT, User, end_within, finish, free_port, lacks, signal, until};
use serde_json::{Value, json};

/// A job that repeats its input, with these options.
fn start_repeating(home: &Home, options: &[&str]) -> String {
    home.start_with(&[&["--stdin", "open"], options].concat(), ["cat"])
}

/// Lists the probers of a job.
fn probers(home: &Home, job: &str) -> Vec<i32> {
    let is_prober = |pid: &i32| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = arguments.split(|&byte| byte == 0).collect();
        words.get(1) == Some(&&b"probe"[..]) && words.get(2) == Some(&job.as_bytes())
    };
    home.processes().into_iter().filter(is_prober).collect()
}

/// Tells whether a prober holds its lock.
fn is_probed(home: &Home, job: &str) -> bool {
    outlive_sys::durable::is_held(&home.job_dir(job), "probe")
}

/// Ends the probers.
fn kill_prober(home: &Home, job: &str) {
    until("somebody looks", || is_probed(home, job));
    probers(home, job).into_iter().for_each(|pid| signal(pid, "KILL"));
    until("nobody looks", || !is_probed(home, job) && probers(home, job).is_empty());
}

/// Returns the attribute from the job's own files, since `show` would start a prober.
fn is_marked(home: &Home, job: &str) -> bool {
    home.job_dir(job).join("ready").exists()
}

/// Counts the events that say so; of the file itself, where readers would drop repeats.
fn ready_events(home: &Home, job: &str) -> usize {
    // As readers see them: two processes that find out at the same moment both write it down, and readers drop the second.
    let events = home.run(["--json", "events"]).ok().text();
    events.lines().filter(|line| line.contains("\"ready\"") && line.contains(job)).count()
}

/// Starts a waiter for a job to be ready.
fn waiter(home: &Home, job: &str) -> Child {
    let mut command = home.outlive(["--json", "wait", job, "--ready"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it is built")
}

fn answer(mut child: Child) -> (i32, Value) {
    let code = end_within(&mut child, LIMIT).expect("it is answered");
    let output = child.wait_with_output().expect("it has ended");
    (code, serde_json::from_slice(&output.stdout).expect("an answer"))
}

#[test]
fn a_line_makes_a_job_ready() {
    let home = Home::new();
    let job = start_repeating(&home, &["--ready-on", "^up on \\d+$"]);
    let shown = home.show(&job);
    assert_eq!((&shown["ready"], &shown["ready_at"]), (&json!(false), &Value::Null));
    home.run(["wait", &job, "--ready", "--timeout", "50ms"]).code(4);
    let waiting = waiter(&home, &job);
    home.run(["send", &job, "coming up"]).ok();
    home.run(["send", &job, "up on 8080"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, &told["outcome"], &told["job"]), (0, &json!("ready"), &json!(job)));
    assert_eq!(told["jobs"][0]["ready"], true);
    let listed = home.json(["list"]);
    assert_eq!((&listed[0]["ready"], listed[0]["ready_at"].is_string()), (&json!(true), true));
    assert!(home.run(["show", &job]).ok().text().contains("ready        yes, since 20"));
    assert_eq!(home.run(["wait", &job, "--ready"]).ok().text(), format!("{job} is ready\n"));
    until("nobody looks any more", || probers(&home, &job).is_empty());
    assert_eq!(ready_events(&home, &job), 1);
    // It was ready, and stays so in the record.
    home.run(["send", &job, "--eof"]).ok();
    assert_eq!(home.wait(&job)["ready"], true);
    home.run(["wait", &job, "--ready"]).ok();
    let without = home.start(["true"]);
    assert_eq!(home.wait(&without)["ready"], Value::Null);
    home.run(["wait", &without, "--ready"]).code(2);
    home.run(["run", "--ready-timeout", "5s", "true"]).code(2);
}

#[test]
fn the_address_in_the_line_is_there_when_the_job_is_ready() {
    let home = Home::new();
    let line = r"printf '  Local:   http://localhost:\033[1m5173\033[22m/ .\n'; exec sleep 300";
    let url = "http://localhost:5173/";
    for _ in 0..10 {
        let job = home.start_with(&["--ready-on", "Local:"], ["sh", "-c", line]);
        let (code, answered) = answer(waiter(&home, &job));
        assert_eq!((code, &answered["jobs"][0]["ready_url"]), (0, &url.into()), "{answered}");
        assert_eq!(home.show(&job)["ready_url"], url);
        let events = home.run(["events", "--json"]).ok().text();
        let told = events.lines().find(|line| line.contains("\"ready\"") && line.contains(&job)).unwrap();
        assert_eq!(serde_json::from_str::<Value>(told).unwrap()["url"], url);
        home.run(["kill", "--force", &job]).ok();
    }
}

#[test]
fn a_job_is_ready_without_anybody_waiting() {
    let home = Home::new();
    let job = start_repeating(&home, &["--ready-on", "up"]);
    home.run(["send", &job, "up"]).ok();
    until("it is marked", || is_marked(&home, &job));
    until("its event is there", || ready_events(&home, &job) == 1);
    // Last words count, too, and what never said it never was.
    let brief = home.start_with(&["--ready-on", "up"], ["echo", "up"]);
    until("it is marked", || is_marked(&home, &brief));
    let never = home.start_with(&["--ready-on", "up"], ["echo", "down"]);
    assert_eq!(home.wait(&never)["ready"], false);
    let told = home.run(["--json", "wait", &never, "--ready"]).code(6).json();
    assert_eq!((&told["outcome"], &told["status"]), (&json!("exit"), &json!("completed")));
    until("nobody looks any more", || probers(&home, &never).is_empty());
    assert!(!is_marked(&home, &never));
}

#[test]
fn all_that_was_said_has_to_hold() {
    let home = Home::new();
    let port = free_port();
    let program = format!(
        "import socket, sys\ns = None\nfor line in sys.stdin:\n  if line == 'listen\\n': s = socket.create_server(('127.0.0.1', {port}))\n  print(line, end='', flush=True)\n"
    );
    for order in [["listen", "up"], ["up", "listen"]] {
        let options = ["--stdin", "open", "--ready-on", "^up$", "--ready-port", &port.to_string()];
        let job = home.start_with(&options, ["python3", "-c", &program]);
        home.run(["send", &job, order[0]]).ok();
        home.wait_for_output(&job, order[0]);
        home.run(["wait", &job, "--ready", "--timeout", "300ms"]).code(4);
        assert_eq!(home.show(&job)["ready"], false, "{order:?}");
        home.run(["send", &job, order[1]]).ok();
        home.run(["wait", &job, "--ready", "--timeout", "50s"]).ok();
        assert_eq!(home.show(&job)["ready_url"], format!("http://localhost:{port}"));
        home.run(["send", &job, "--eof"]).ok();
        home.wait(&job);
    }
}

#[test]
fn one_that_was_killed_is_started_again_by_whoever_looks() {
    let home = Home::new();
    for look in [&["list"][..], &["show", "JOB"], &["wait", "JOB", "--timeout", "10ms"]] {
        let job = start_repeating(&home, &["--ready-on", "up"]);
        kill_prober(&home, &job);
        home.run(["send", &job, "up"]).ok();
        home.wait_for_output(&job, "up");
        assert!(!is_marked(&home, &job), "nobody has looked");
        let arguments: Vec<&str> = look.iter().map(|&word| if word == "JOB" { &job } else { word }).collect();
        let looked = home.run(arguments);
        assert!([0, 4].contains(&looked.code), "{}", looked.error());
        until("it is marked", || is_marked(&home, &job));
        until("its event is there", || ready_events(&home, &job) == 1);
        home.run(["kill", "--force", &job]).ok();
    }
}

#[test]
fn a_waiter_looks_himself() {
    let home = Home::new();
    let job = start_repeating(&home, &["--ready-on", "up"]);
    kill_prober(&home, &job);
    let store = home.open();
    std::thread::scope(|scope| {
        // Several at once: one of them records it.
        let waiting: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let found = store.find(&job, None).unwrap();
                    let conditions = Conditions { ready: true, ..Conditions::default() };
                    let exits = WaitFor::exits(std::slice::from_ref(&found));
                    store.wait_for(&WaitFor { conditions, limit: Some(LIMIT), ..exits }).unwrap()
                })
            })
            .collect();
        home.run(["send", &job, "up"]).ok();
        for waiting in waiting {
            let result = waiting.join().unwrap();
            assert!(result.is_reached && matches!(result.reason, WaitReason::Ready(_)), "{result:?}");
        }
    });
    assert!(is_marked(&home, &job));
    assert_eq!(ready_events(&home, &job), 1);
    assert!(probers(&home, &job).is_empty());
}

#[test]
fn many_who_look_start_one_that_stays() {
    let home = Home::new();
    let job = start_repeating(&home, &["--ready-on", "up"]);
    kill_prober(&home, &job);
    let looking: Vec<Child> =
        (0..20).map(|_| home.outlive(["list"]).stdout(Stdio::null()).spawn().unwrap()).collect();
    for mut looking in looking {
        assert_eq!(end_within(&mut looking, LIMIT), Some(0));
    }
    until("one is left", || probers(&home, &job).len() == 1 && is_probed(&home, &job));
    home.run(["kill", "--force", &job]).ok();
    until("it goes with the job", || probers(&home, &job).is_empty());
}

#[test]
fn what_is_not_ready_in_time_is_not_waited_for() {
    let home = Home::new();
    let job = start_repeating(&home, &["--ready-on", "up", "--ready-timeout", "1s"]);
    let waiting = waiter(&home, &job);
    let (code, told) = answer(waiting);
    assert_eq!((code, &told["outcome"], &told["status"]), (6, &json!("timeout"), &json!("running")));
    until("nobody looks any more", || probers(&home, &job).is_empty());
    home.run(["send", &job, "up"]).ok();
    home.wait_for_output(&job, "up");
    let told = home.run(["wait", &job, "--ready"]).code(6);
    assert!(told.error().contains("not ready in its time"), "{}", told.error());
    assert_eq!(home.show(&job)["ready"], false);
    assert_eq!((probers(&home, &job), ready_events(&home, &job)), (vec![], 0));
    // One that was ready in its time is, for ever.
    let other = home.start_with(&["--ready-on", "up", "--ready-timeout", "1h"], ["echo", "up"]);
    until("it is marked", || is_marked(&home, &other));
    home.run(["wait", &other, "--ready"]).ok();
}

/// Asks a server for its first page, as a client would; `None` if it cannot connect.
fn fetch(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

/// Starts a server that listens only when it is told to, and shows that it is ready then, and not before.
fn ready_when_told(home: &Home, port: u16, conditions: &[&str], server: &str) {
    let line = format!("read go; {server}");
    let job = home.start_with(&[&["--stdin", "open"], conditions].concat(), ["sh", "-c", &line]);
    until("somebody looks", || is_probed(home, &job));
    home.run(["wait", &job, "--ready", "--timeout", "500ms"]).code(4);
    assert_eq!((home.show(&job)["ready"].clone(), fetch(port)), (json!(false), None));
    let waiting = waiter(home, &job);
    home.run(["send", &job, "go"]).ok();
    let (code, told) = answer(waiting);
    assert_eq!((code, &told["outcome"]), (0, &json!("ready")), "{told}");
    let page = fetch(port);
    assert!(page.as_ref().is_some_and(|page| page.starts_with("HTTP/1.")), "{page:?}");
    assert_eq!(home.show(&job)["ready"], true);
    home.run(["kill", "--force", &job]).ok();
}

#[test]
fn a_python_server_is_ready_when_a_client_can_connect() {
    let home = Home::new();
    let port = free_port();
    let (number, url) = (port.to_string(), format!("http://localhost:{port}/"));
    let server = format!("python3 -m http.server --bind 127.0.0.1 {port}");
    ready_when_told(&home, port, &["--ready-port", &number], &format!("exec {server}"));
    ready_when_told(&home, port, &["--ready-http", &url], &format!("exec {server}"));
    // Behind a shell and others, and left behind by them: the tree is the job's.
    ready_when_told(&home, port, &["--ready-port", &number], &format!("(setsid {server} &) ; sleep 300"));
}

#[test]
fn a_node_server_is_ready_when_it_answers_well() {
    let home = Home::new();
    if Command::new("node").arg("--version").stdout(Stdio::null()).status().is_err() {
        lacks("node");
        return;
    }
    let port = free_port();
    let (number, url) = (port.to_string(), format!("http://127.0.0.1:{port}/"));
    let server = format!(
        "exec node -e \"require('http').createServer((q, r) => r.end('hi')).listen({port}, '127.0.0.1', () => console.log('listening'))\""
    );
    for conditions in
        [&["--ready-on", "^listening$"][..], &["--ready-port", &number], &["--ready-http", &url]]
    {
        ready_when_told(&home, port, conditions, &server);
    }
    // It listens at once, and is well only later.
    let program = format!(
        "let status = 503; require('http').createServer((q, r) => {{ r.statusCode = status; r.end() }}).listen({port}, '127.0.0.1', () => console.log('listening')); process.stdin.on('data', () => status = 200)"
    );
    let job = home.start_with(&["--stdin", "open", "--ready-http", &url], ["node", "-e", &program]);
    home.run(["wait", &job, "--match", "listening", "--timeout", "50s"]).ok();
    home.run(["wait", &job, "--ready", "--timeout", "500ms"]).code(4);
    assert!(fetch(port).is_some_and(|page| page.contains(" 503 ")));
    home.run(["send", &job, "well"]).ok();
    home.run(["wait", &job, "--ready", "--timeout", "50s"]).ok();
    assert!(fetch(port).is_some_and(|page| page.contains(" 200 ")));
}

/// Finds the programs of PostgreSQL where Debian puts them.
pub(crate) fn postgresql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut places: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    places.retain(|place| place.join("initdb").is_file() && place.join("psql").is_file());
    places.sort();
    places.pop()
}

#[test]
fn postgresql_is_ready_when_it_takes_queries() {
    let Some(programs) = postgresql() else {
        lacks("PostgreSQL (package postgresql)");
        return;
    };
    // It refuses to run as root.
    let home = Home::of(User::all().pop().unwrap());
    let data = home.path().join("data");
    let mut init = home.command(programs.join("initdb"));
    init.args(["--auth", "trust", "--no-sync", "--username", "test", "--no-locale", "--pgdata"]).arg(&data);
    finish(init, b"").ok();
    let port = free_port();
    let query = || {
        let mut psql = home.command(programs.join("psql"));
        psql.args([
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-U",
            "test",
            "-Atc",
            "select 6*7",
            "postgres",
        ]);
        finish(psql, b"")
    };
    let (server, place) = (programs.join("postgres"), home.path().display());
    let line = format!(
        "read go; exec {} -D {} -p {port} -k {place} -h 127.0.0.1 -F",
        server.display(),
        data.display()
    );
    let by_line = "database system is ready to accept connections";
    for conditions in
        [&["--ready-on", by_line][..], &["--ready-on", by_line, "--ready-port", &port.to_string()]]
    {
        let job = home.start_with(&[&["--stdin", "open"], conditions].concat(), ["sh", "-c", &line]);
        home.run(["wait", &job, "--ready", "--timeout", "300ms"]).code(4);
        assert_eq!(home.show(&job)["ready"], false);
        assert_ne!(query().code, 0, "it is not there yet");
        home.run(["send", &job, "go"]).ok();
        home.run(["wait", &job, "--ready", "--timeout", "50s"]).ok();
        assert_eq!(query().ok().text(), "42\n");
        assert_eq!(home.show(&job)["ready"], true);
        home.run(["kill", "--signal", "INT", "--grace", "30s", &job]).ok();
    }
}
