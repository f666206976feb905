//! The scenario of sessions, of readiness, and of all who are told of ends: readers, commands at the end, receivers of notices.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlive_tests::until;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::world;

/// In which everything has to be told that a front end can tell: keepers and their successors are given five seconds.
const TELLING_LIMIT: Duration = Duration::from_secs(60);

/// How a client begins that takes tasks.
const HELLO: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
    r#""capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"clientInfo":{"name":"faults","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
);

/// Gives a job another name, as an agent does.
const RENAME: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"manage_job","arguments":{"job":"served","action":"rename","name":"renamed"}}}"#;

/// Waits for a job as a task.
const WAIT: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"wait","arguments":{"jobs":["served"]}}}"#;

/// Plays it, and looks what came of it.
pub(crate) fn play(run: &mut Scenario<'_>) {
    run.home.configure("[webhook]\nfirst_retry = \"20ms\"\n");
    let receiver = Receiver::new();
    let untold = leave_untold(run);
    make_session(run);
    let served = start_served(run);
    let parted = part(run, &receiver.url());
    if let Some(served) = &served {
        wait_as_task(run);
        rename(run, served);
        transfer(run, served);
        run.front_end("reader", &["send", served, "go on"]);
        end(run, served);
    }
    let mine = [Some(untold), served.clone(), parted.clone()];
    let mine: Vec<String> = mine.into_iter().flatten().collect();
    check_inbox(run, &mine);
    // Whoever is still stopped goes on now.
    std::fs::write(run.released(), b"").unwrap();
    if let Some(parted) = &parted {
        check_notices(run, &receiver, parted);
        check_on_exit(run);
    }
    if let Some(served) = &served {
        check_ready(run, served);
    }
    world::check_store(run, None);
}

/// Leaves a job whose keeper was killed, and its guard too, after it had written the outcome, and before it could tell anybody.
fn leave_untold(run: &mut Scenario<'_>) -> String {
    let mut command = run.outlive("", &["--json", "--reader", "me", "run", "--name", "untold", "--", "true"]);
    command
        .env("OUTLIVE_FAULT_LOG", run.home.path().join("untold-fault"))
        .env("OUTLIVE_KEEPER_FAULT", "keeper.event-end.open@before=pause")
        .env_remove("OUTLIVE_FAULT");
    let done = run.finish(command);
    let stopped = || std::fs::read_to_string(run.home.path().join("untold-fault.paused")).ok()?.parse().ok();
    until("its keeper stands still", || stopped().is_some());
    outlive_tests::kill_with_guard(stopped().unwrap());
    until("its keeper is killed", || run.home.keepers().is_empty());
    done.ok().json()["job"].as_str().unwrap().to_owned()
}

/// Makes a session, which is then there with all that was said of it, or not at all.
fn make_session(run: &mut Scenario<'_>) {
    let make = ["session", "create", "work", "--env", "COLOUR=red"];
    run.front_end("reader", &make);
    if run.home.run(["session", "show", "work"]).code != 0 {
        run.must(&make);
    }
    let shown = run.must(&["--json", "session", "show", "work"]).text();
    if !shown.contains("COLOUR") {
        run.violation(format!("a session is half made: {shown}"));
    }
}

/// Starts a job in it that is ready at once and waits for a line; it is told once that it is.
fn start_served(run: &mut Scenario<'_>) -> Option<String> {
    let script = "echo colour $COLOUR; echo ready; read line; exit 3";
    let arguments = ["--json", "--session", "work", "--reader", "me", "run", "--name", "served"];
    let rest = ["--stdin", "open", "--ready-on", "^ready$", "--watch", "^ready$", "--", "sh", "-c", script];
    let served = run.start_named("served", "reader", &[&arguments[..], &rest].concat())?;
    run.front_end("reader", &["wait", &served, "--ready", "--timeout", "40s"]);
    meet_stopped(run, &["reader.probe", "reader.ready"]);
    run.must(&["wait", &served, "--ready", "--timeout", "40s"]);
    // Looks at the line that is watched for.
    run.front_end("reader", &["--session", "work", "events"]);
    if !run.must(&["logs", "--raw", &served]).text().starts_with("colour red\n") {
        run.violation("the session's variable is missing");
    }
    Some(served)
}

/// Starts a job of whose end a command and a receiver hear.
fn part(run: &mut Scenario<'_>, url: &str) -> Option<String> {
    // What cannot be sent is put aside.
    std::fs::create_dir_all(run.home.store().join("spool")).unwrap();
    std::fs::write(run.home.store().join("spool/damaged.json"), b"{").unwrap();
    let on_exit = format!("echo told >>{}", run.ledger().display());
    let arguments = ["--json", "--session", "default", "--reader", "me", "run", "--name", "parted"];
    let rest =
        ["--on-exit", &on_exit, "--webhook", url, "--watch", "x", "--", "sh", "-c", "sleep 0.2; exit 4"];
    let parted = run.start_named("parted", "starter", &[&arguments[..], &rest].concat())?;
    run.front_end("reader", &["wait", "--timeout", "10s", &parted]);
    meet_stopped(run, &["parting", "deliver"]);
    Some(parted)
}

/// Where a fault stops somebody in the background, a fresh front end must get its answers all the same; then that one goes on.
fn meet_stopped(run: &mut Scenario<'_>, actors: &[&str]) {
    if run.fault.action != "pause" || !actors.iter().any(|actor| run.fault.hits(actor)) {
        return;
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    while !run.paused().exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(3));
    }
    if run.paused().exists() && !run.released().exists() {
        run.look_while_paused();
        std::fs::write(run.released(), b"").unwrap();
    }
}

/// Asks for a wait as a task, which is then kept as a whole, or not at all.
fn wait_as_task(run: &mut Scenario<'_>) {
    let mcp = ["--session", "work", "--reader", "agent", "mcp"];
    let hit = run.outlive("reader", &mcp);
    run.attend(|| ask(hit, WAIT));
    ask(run.home.outlive(mcp), WAIT);
    let files =
        std::fs::read_dir(run.home.store().join("sessions/work/tasks")).into_iter().flatten().flatten();
    let kept: Vec<_> = files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    let is_whole = |path: &std::path::PathBuf| {
        let task: Value =
            serde_json::from_slice(&std::fs::read(path).unwrap_or_default()).unwrap_or_default();
        task["arguments"].is_object()
    };
    if kept.is_empty() || !kept.iter().all(is_whole) {
        run.violation(format!("a task is half kept: {kept:?}"));
    }
}

/// Renames the job, which then has its old name or its new one.
fn rename(run: &mut Scenario<'_>, served: &str) {
    let mcp = ["--session", "work", "--reader", "agent", "mcp"];
    let hit = run.outlive("reader", &mcp);
    run.attend(|| ask(hit, RENAME));
    let name = run.home.show(served)["name"].clone();
    if name == "served" {
        let fresh = run.home.outlive(mcp);
        ask(fresh, RENAME);
    }
    let name = run.home.show(served)["name"].clone();
    if name != "renamed" {
        run.violation(format!("it is called {name}"));
    }
}

/// Asks a server for something, and hears what it says, if it lives that long.
fn ask(mut server: Command, request: &str) {
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut asking, answers) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    // One that is killed reads nothing.
    asking.write_all(format!("{HELLO}\n{request}\n").as_bytes()).ok();
    let answers = BufReader::new(answers).lines().map_while(Result::ok);
    answers.take_while(|answer| !answer.contains("\"id\":2")).for_each(drop);
    drop(asking);
    server.wait().unwrap();
}

/// Gives the job to another session and then to a third, and each time it is the one's or the other's.
fn transfer(run: &mut Scenario<'_>, served: &str) {
    run.must(&["session", "transfer", "--to", "lodger", served]);
    let give = ["session", "transfer", "--to", "default", served];
    run.front_end("reader", &give);
    let session = run.home.show(served)["session"].clone();
    if session != "lodger" && session != "default" {
        run.violation(format!("it is in session {session}"));
    }
    run.must(&give);
    let session = run.home.show(served)["session"].clone();
    if session != "default" {
        run.violation(format!("it is still in session {session}"));
    }
}

/// Waits for the end of a job whose line may have been lost.
fn end(run: &mut Scenario<'_>, served: &str) {
    let waited = run.home.run(["wait", "--timeout", "50s", served]);
    if waited.code == 124 || run.home.show(served)["status"] == "running" {
        run.violation(format!("it does not end: {}", waited.error()));
    }
}

/// Every ending is told to the reader who started the job, at least once, and with the same sequence each time.
fn check_inbox(run: &mut Scenario<'_>, mine: &[String]) {
    let look = ["--json", "--session", "default", "--reader", "me", "inbox"];
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    let mut outputs = vec![run.front_end("reader", &look)];
    let deadline = Instant::now() + TELLING_LIMIT;
    loop {
        outputs.push(run.must(&look));
        for output in outputs.drain(..) {
            let pending: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            for notice in pending["notices"].as_array().into_iter().flatten() {
                let (job, seq) = (notice["job"].as_str().unwrap_or_default(), notice["seq"].as_u64());
                let seq = seq.unwrap_or_default();
                if told.insert(job.to_owned(), seq).is_some_and(|before| before != seq) {
                    run.violation(format!("the end of {job} is told with two sequences"));
                }
            }
        }
        let Some(missed) = mine.iter().find(|job| !told.contains_key(*job)) else { break };
        if Instant::now() > deadline {
            return run.violation(format!("the inbox does not tell of {missed}: {told:?}"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let again: Value = serde_json::from_slice(&run.must(&look).stdout).unwrap_or_default();
    if again["notices"].as_array().is_none_or(|notices| !notices.is_empty()) {
        run.violation(format!("what was told and noted is told again: {again}"));
    }
}

/// What is owed arrives in the end, the same each time, and nothing of it is left.
fn check_notices(run: &mut Scenario<'_>, receiver: &Receiver, parted: &str) {
    let deadline = Instant::now() + TELLING_LIMIT;
    let files = |path: &str| {
        let entries = std::fs::read_dir(run.home.store().join(path)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| path == "spool/owed" || name.ends_with(".json")).collect::<Vec<_>>()
    };
    loop {
        let arrived = receiver.of(parted);
        let (spooled, owed) = (files("spool"), files("spool/owed"));
        if !arrived.is_empty() && spooled.is_empty() && owed.is_empty() {
            let sequences: Vec<&Value> = arrived.iter().map(|notice| &notice["seq"]).collect();
            if sequences.iter().any(|seq| *seq != sequences[0]) {
                run.violation(format!("a notice is sent with several sequences: {sequences:?}"));
            }
            return;
        }
        if Instant::now() > deadline {
            let count = arrived.len();
            return run.violation(format!("{count} notices arrived; left are {spooled:?}, {owed:?}"));
        }
        // As any front end would.
        run.home.run(["list"]).ok();
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The command at the end is run once; not at all where the process was killed that had to run it, and the guard was gone.
fn check_on_exit(run: &mut Scenario<'_>) {
    let is_killed = run.fault.action == "kill" && run.fault.hits("parting");
    let deadline = Instant::now() + TELLING_LIMIT;
    loop {
        let count = std::fs::read_to_string(run.ledger()).unwrap_or_default().lines().count();
        match count {
            1 => return,
            0 if is_killed => return,
            0 if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            _ => return run.violation(format!("the command at the end was run {count} times")),
        }
    }
}

/// Who is ready was told to be, once, and so was the line that is watched for.
fn check_ready(run: &mut Scenario<'_>, served: &str) {
    let events = run.must(&["events", "--json"]).text();
    let events: Vec<Value> = events.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let told = |what| events.iter().filter(|event| event["job"] == served && event["event"] == what).count();
    let (ready, matched) = (told("ready"), told("matched"));
    let is_ready = run.home.job_dir(served).join("ready").exists();
    if !is_ready || ready != 1 {
        run.violation(format!("ready is {is_ready}, and was told {ready} times"));
    }
    if matched != 1 {
        run.violation(format!("the line that is watched for was told {matched} times"));
    }
}

/// One to whom notices are sent, and who takes everything.
struct Receiver {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Value>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (bodies, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, over) = (Arc::clone(&bodies), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                if let Some(body) = receive(stream) {
                    kept.lock().unwrap().push(body);
                }
            }
        });
        Self { address, bodies, is_over, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Returns the notices of a job as they came.
    fn of(&self, job: &str) -> Vec<Value> {
        self.bodies.lock().unwrap().iter().filter(|body| body["job"] == job).cloned().collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Reads one request and takes it; the sender may die in the middle.
fn receive(mut stream: TcpStream) -> Option<Value> {
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        if bytes.len() - end - 4 >= length.trim().parse::<usize>().ok()? {
            let body = serde_json::from_slice(&bytes[end + 4..]).ok();
            stream.write_all(b"HTTP/1.1 200 Taken\r\nContent-Length: 0\r\n\r\n").ok();
            return body;
        }
    }
}
