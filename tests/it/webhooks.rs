//! Notices that are sent at a job's end: kept until they arrive, whatever process dies meanwhile, and the same at every repeat.
//!
//! Proves that a receiver that refuses, hangs and fails gets each notice in the end with all front ends dead.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use outlive_tests::{Home, SmallDisk, finish, is_running, pid, signal, until};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use serde_json::Value;

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Status(u16),
    /// Keeps the connection open and says nothing.
    Hang,
    /// Sends it somewhere else.
    Redirect,
}

/// A request as it came.
#[derive(Clone, Debug)]
struct Received {
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
    answer: Answer,
}

impl Received {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    fn job(&self) -> &str {
        self.header("x-outlive-job")
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A reserved port without a listener: connections are refused, and no other process can have it.
struct Reserved(rustix::fd::OwnedFd);

impl Reserved {
    fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self(socket)
    }

    fn url(&self) -> String {
        let address = SocketAddr::try_from(getsockname(&self.0).unwrap()).unwrap();
        format!("http://{address}/hook?key=1")
    }

    /// Begins to listen; the answer to each request is chosen by how many came before.
    fn receive(self, answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Receiver {
        let url = self.url();
        listen(&self.0, 100).unwrap();
        let listener = TcpListener::from(self.0);
        let address = listener.local_addr().unwrap();
        let (received, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (kept, over, answer) = (Arc::clone(&received), Arc::clone(&is_over), Arc::new(answer));
        let thread = std::thread::spawn(move || {
            let mut threads = Vec::new();
            for stream in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let (stream, kept, over, answer) =
                    (stream.unwrap(), Arc::clone(&kept), Arc::clone(&over), Arc::clone(&answer));
                threads.push(std::thread::spawn(move || serve(stream, &kept, &over, &*answer)));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Receiver { url, address, received, is_over, thread: Some(thread) }
    }
}

/// A receiver of notices inside the test.
struct Receiver {
    url: String,
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Receiver {
    fn new(answer: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Reserved::new().receive(answer)
    }

    /// Accepts every notice.
    fn willing() -> Self {
        Self::new(|_| Answer::Status(200))
    }

    fn all(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    fn of(&self, job: &str) -> Vec<Received> {
        self.all().into_iter().filter(|received| received.job() == job).collect()
    }

    fn has_taken(&self, job: &str) -> bool {
        self.of(job).iter().any(|received| received.answer == Answer::Status(200))
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

fn serve(
    mut stream: TcpStream,
    kept: &Mutex<Vec<Received>>,
    is_over: &AtomicBool,
    answer: &dyn Fn(usize) -> Answer,
) {
    stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let request = loop {
        if let Some(request) = parse(&bytes) {
            break request;
        }
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(_) if is_over.load(Ordering::SeqCst) => return,
            Err(_) => {}
        }
    };
    let (number, chosen) = {
        let mut kept = kept.lock().unwrap();
        let (number, chosen) = (kept.len(), answer(kept.len()));
        kept.push(Received { headers: request.0, body: request.1, answer: chosen });
        (number, chosen)
    };
    let text = match chosen {
        Answer::Status(status) => format!("HTTP/1.1 {status} Whatever\r\nContent-Length: 0\r\n\r\n"),
        Answer::Redirect => {
            "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n".to_owned()
        }
        Answer::Hang => {
            // Until the other side gives up, or nothing hangs any more.
            let hangs = || !is_over.load(Ordering::SeqCst) && answer(number) == Answer::Hang;
            while hangs() && !matches!(stream.read(&mut buffer), Ok(0)) {}
            return;
        }
    };
    stream.write_all(text.as_bytes()).ok();
}

/// Reads a request; `None` while it is not whole.
fn parse(bytes: &[u8]) -> Option<(BTreeMap<String, String>, Vec<u8>)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    assert!(head.starts_with("POST /hook?key=1 HTTP/1.1\r\n"), "{head}");
    let headers: BTreeMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers["content-length"].parse().unwrap();
    let body = &bytes[end + 4..];
    (body.len() >= length).then(|| (headers, body.to_vec()))
}

/// Soon again after a failure, and no answer that comes too late: nothing else changes.
const QUICK: &str = "[webhook]\nfirst_retry = \"20ms\"\ntimeout = \"1h\"\n";

fn home() -> Home {
    let home = Home::new();
    home.configure(QUICK);
    home
}

fn spooled(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.store().join("spool")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect()
}

fn entries(home: &Home) -> Vec<Value> {
    spooled(home).iter().filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok()).collect()
}

/// Finds the processes of `outlive VERB` of this home.
fn running(home: &Home, verb: &str) -> Vec<i32> {
    let is_verb = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|&byte| byte == 0);
        words.next().is_some_and(|name| name.ends_with(b"outlive")) && words.next() == Some(verb.as_bytes())
    };
    home.processes().into_iter().filter(is_verb).collect()
}

fn ending(home: &Home, job: &str) -> Value {
    let text = home.run(["events", "--json"]).ok().text();
    let mut all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.find(|event| event["job"] == job && matches!(event["event"].as_str(), Some("exited" | "lost")))
        .unwrap()
}

/// Everything that was received of a job is the same notice, byte for byte.
#[track_caller]
fn assert_same(received: &[Received], seq: &Value) {
    let first = &received[0];
    for other in received {
        assert_eq!(other.header("x-outlive-sequence"), seq.to_string());
        assert_eq!(other.body, first.body);
    }
    assert_eq!(first.json()["seq"], *seq);
}

/// Must show 5 of sessions: refused, hung, two times 500, and then taken; every front end is killed before.
#[test]
fn a_receiver_that_refuses_hangs_and_fails_gets_each_notice_in_the_end() {
    let home = Home::new();
    home.configure("[webhook]\nfirst_retry = \"20ms\"\ntimeout = \"400ms\"\n");
    let reserved = Reserved::new();
    let url = reserved.url();
    let wait = "until [ -e go ]; do sleep 0.01; done; echo over; exit 3";
    let jobs: Vec<String> =
        (0..3).map(|_| home.start_with(&["--webhook", &url], ["sh", "-c", wait])).collect();
    let mut waiting = home.outlive(["wait", "--all"]).args(&jobs).stdout(Stdio::null()).spawn().unwrap();
    let mut following =
        home.outlive(["run", "--wait", "--webhook", &url, wait]).stdout(Stdio::null()).spawn().unwrap();
    until("all run", || home.json(["list", "--live"]).as_array().unwrap().len() == 4);
    for front_end in [&mut waiting, &mut following] {
        front_end.kill().unwrap();
        front_end.wait().unwrap();
    }
    fs::write(home.path().join("go"), "").unwrap();
    until("all were refused", || {
        let entries = entries(&home);
        entries.len() == 4 && entries.iter().all(|entry| entry["attempts"].as_u64() >= Some(1))
    });
    let refused = entries(&home);
    assert!(refused[0]["error"].as_str().unwrap().contains("refused"), "{refused:?}");
    // Each of the first: hang, 500, 500; then they are taken.
    let receiver = reserved.receive(|number| match number {
        0 => Answer::Hang,
        1 | 2 => Answer::Status(500),
        _ => Answer::Status(200),
    });
    until("all have arrived", || {
        let taken = receiver.all().iter().filter(|received| received.answer == Answer::Status(200)).count();
        taken >= 4
    });
    until("nobody is left", || home.processes().is_empty());
    assert!(spooled(&home).is_empty());
    let listed = home.json(["list"]);
    assert_eq!(listed.as_array().unwrap().len(), 4);
    let mut repeats = 0;
    for job in listed.as_array().unwrap() {
        let job = job["job"].as_str().unwrap();
        let received = receiver.of(job);
        assert!(receiver.has_taken(job), "{job}");
        assert_same(&received, &ending(&home, job)["seq"]);
        repeats += received.len() - 1;
        let notice = received[0].json();
        assert_eq!((&notice["status"], &notice["exit_code"]), (&"failed".into(), &3.into()));
        assert_eq!(notice["output"]["tail"], "over\n");
        let shown = home.show(job);
        assert_eq!(shown["webhook"]["state"], "delivered", "{shown}");
    }
    // Also a notice whose answer came too late on a busy machine.
    assert!(repeats >= 3, "one was hung and two failed, and each of these was sent again: {repeats}");
    assert_eq!(receiver.all()[0].header("content-type"), "application/json");
    assert!(receiver.all()[0].header("user-agent").starts_with("outlive/"));
    assert_eq!(receiver.all()[0].header("x-outlive-session"), "default");
}

#[test]
fn a_killed_deliverer_is_followed_by_the_next_front_ends() {
    let home = Home::new();
    home.configure("[webhook]\ntimeout = \"60s\"\n");
    let receiver = Receiver::new(|number| if number == 0 { Answer::Hang } else { Answer::Status(204) });
    let job = home.start_with(&["--webhook", &receiver.url], ["echo", "hi"]);
    until("it was sent", || receiver.all().len() == 1);
    let deliverers = running(&home, "deliver");
    assert_eq!(deliverers.len(), 1);
    // A second one leaves at once.
    home.run(["deliver"]).ok();
    signal(deliverers[0], "KILL");
    until("it is gone", || !is_running(deliverers[0]));
    assert_eq!(spooled(&home).len(), 1, "what has not arrived stays");
    // Its threads may hold the lock a moment longer than it is seen to live.
    until("it has arrived", || {
        home.run(["list"]).ok();
        receiver.all().len() == 2
    });
    assert_same(&receiver.all(), &ending(&home, &job)["seq"]);
    until("nothing waits", || spooled(&home).is_empty());
    let shown = home.show(&job);
    assert_eq!(
        (&shown["webhook"]["state"], &shown["webhook"]["attempts"]),
        (&"delivered".into(), &1.into()),
        "{shown}"
    );
}

/// A front end that finds the end of a job without a keeper sends its notice, once; its command is not run.
#[test]
fn the_notice_of_a_job_whose_keeper_was_killed_is_sent() {
    let home = home();
    let receiver = Receiver::willing();
    let job = home.start_with(&["--webhook", &receiver.url, "--on-exit", "echo >told"], ["sleep", "1000"]);
    let shown = home.show(&job);
    let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
    outlive_tests::kill_with_guard(keeper);
    until("its keeper is gone", || !is_running(keeper));
    assert_eq!(home.show(&job)["status"], "running");
    assert!(receiver.all().is_empty(), "it has not ended");
    signal(command, "KILL");
    until("it has ended", || !is_running(command));
    home.run(["list"]).ok();
    until("it has arrived", || receiver.has_taken(&job));
    for _ in 0..3 {
        home.run(["list"]).ok();
        home.run(["show", &job]).ok();
    }
    until("nobody sends", || home.processes().is_empty());
    assert_eq!(receiver.of(&job).len(), 1, "once");
    assert_same(&receiver.all(), &ending(&home, &job)["seq"]);
    assert_eq!(receiver.all()[0].json()["status"], "lost");
    let shown = home.show(&job);
    assert_eq!(shown["on_exit"]["state"], "not_run", "{shown}");
    assert!(!home.path().join("told").exists());
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains("not run; its keeper died"), "{text}");
}

/// A keeper that dies after the end and before the notice is made leaves a mark, and the repeat is the same notice.
#[test]
fn a_keeper_that_dies_after_the_end_is_made_up_for() {
    let home = home();
    let receiver = Receiver::willing();
    let job = home.start_with(&["--webhook", &receiver.url], ["echo", "hi"]);
    until("it has arrived", || receiver.has_taken(&job));
    until("nobody sends", || home.processes().is_empty());
    // As after a crash of the sender before it removed the mark.
    let spec: Value =
        serde_json::from_slice(&fs::read(home.job_dir(&job).join("spec.json")).unwrap()).unwrap();
    let mark = home.store().join("spool/owed").join(format!("{job}@{}", spec["nonce"].as_str().unwrap()));
    assert!(!mark.exists());
    fs::write(&mark, "").unwrap();
    until("it is sent again", || {
        home.run(["list"]).ok();
        receiver.of(&job).len() == 2
    });
    assert_same(&receiver.all(), &ending(&home, &job)["seq"]);
    assert!(!mark.exists());
    // Marks without a job are removed.
    let stray = home.store().join("spool/owed/gone-0000@00000000000000000000000000000000");
    fs::write(&stray, "").unwrap();
    home.run(["list"]).ok();
    assert!(!stray.exists());
}

#[test]
fn one_that_hangs_does_not_hold_up_the_others() {
    let home = Home::new();
    home.configure(QUICK);
    let is_willing = Arc::new(AtomicBool::new(false));
    let later = Arc::clone(&is_willing);
    let hangs = Receiver::new(move |_| match later.load(Ordering::SeqCst) {
        true => Answer::Status(200),
        false => Answer::Hang,
    });
    let willing = Receiver::willing();
    let wait = "until [ -e go ]; do sleep 0.01; done";
    let start = |url: &str| home.start_with(&["--webhook", url], ["sh", "-c", wait]);
    let hung: Vec<String> = (0..5).map(|_| start(&hangs.url)).collect();
    let jobs: Vec<String> = (0..20).map(|_| start(&willing.url)).collect();
    fs::write(home.path().join("go"), "").unwrap();
    until("the others have theirs", || jobs.iter().all(|job| willing.has_taken(job)));
    is_willing.store(true, Ordering::SeqCst);
    assert_eq!(willing.all().len(), 20, "each once");
    until("those have theirs in the end", || hung.iter().all(|job| hangs.has_taken(job)));
    for job in hung.iter().chain(&jobs) {
        let seq = &ending(&home, job)["seq"];
        let (of_one, of_other) = (hangs.of(job), willing.of(job));
        assert_same(if of_one.is_empty() { &of_other } else { &of_one }, seq);
    }
    until("nobody sends", || home.processes().is_empty());
}

/// Recomputes a signature with another program.
fn signed(secret: &str, body: &[u8]) -> String {
    let script = "import hmac,hashlib,sys; print('sha256='+hmac.new(sys.argv[1].encode(),sys.stdin.buffer.read(),hashlib.sha256).hexdigest())";
    let mut command = std::process::Command::new("python3");
    command.args(["-c", script, secret]);
    finish(command, body).ok().text().trim().to_owned()
}

#[test]
fn signatures_hold_and_the_secret_is_kept_nowhere() {
    let home = Home::new();
    home.configure(&format!("{QUICK}secret = \"of the configuration\"\n"));
    let reserved = Reserved::new();
    let of_config = home.start_with(&["--webhook", &reserved.url()], ["echo", "\u{e9}\u{2713}"]);
    let mut command = home.outlive(["run", "--webhook", &reserved.url(), "--", "echo", "hi"]);
    command.env("OUTLIVE_WEBHOOK_SECRET", "of-the-environment-7f3a");
    let of_environment = finish(command, b"").ok().text().trim().to_owned();
    until("both wait", || entries(&home).len() == 2);
    let found = std::process::Command::new("grep")
        .args(["-rl", "of-the-environment-7f3a"])
        .arg(home.store())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the secret is on the disk");
    let receiver = reserved.receive(|_| Answer::Status(200));
    until("both have arrived", || receiver.has_taken(&of_config) && receiver.has_taken(&of_environment));
    for (job, secret) in [(&of_config, "of the configuration"), (&of_environment, "of-the-environment-7f3a")]
    {
        let received = &receiver.of(job)[0];
        assert_eq!(received.header("x-outlive-signature"), signed(secret, &received.body));
    }
    // Without a secret there is none.
    home.configure(QUICK);
    let bare = home.start_with(&["--webhook", &receiver.url], ["true"]);
    until("it has arrived", || receiver.has_taken(&bare));
    assert_eq!(receiver.of(&bare)[0].header("x-outlive-signature"), "");
}

#[test]
fn what_is_no_address_is_refused_at_once() {
    let home = Home::new();
    let long = format!("http://h/{}", "x".repeat(9000));
    for url in [
        "",
        "h",
        "ftp://h/",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "http://h/\r\nX-Evil: 1",
        "http://a b/",
        &long,
    ] {
        let done = home.run(["run", "--webhook", url, "true"]).code(2);
        assert!(done.error().contains("is no address"), "{url:?}: {}", done.error());
    }
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 0);
    assert!(!home.store().join("spool").exists(), "nothing is made before it is needed");
}

#[test]
fn redirects_are_not_followed_and_proxies_are_not_asked_for_this_machine() {
    let home = home();
    let receiver = Receiver::new(|number| if number == 0 { Answer::Redirect } else { Answer::Status(200) });
    let mut command = home.outlive(["run", "--webhook", &receiver.url, "--", "true"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"] {
        command.env(name, "http://127.0.0.1:1/");
    }
    let job = finish(command, b"").ok().text().trim().to_owned();
    // The receiver takes no other path than the one that was asked for.
    until("it has arrived", || receiver.has_taken(&job));
    assert_eq!(receiver.all().len(), 2);
}

#[test]
fn what_is_damaged_is_put_aside_and_blocks_nothing() {
    let home = home();
    let receiver = Receiver::willing();
    let spool = home.store().join("spool");
    home.run(["list"]).ok();
    fs::create_dir_all(spool.join("0000.json")).unwrap();
    fs::write(spool.join("0001.json"), "").unwrap();
    fs::write(spool.join("0002.json"), b"\xff\xfe{\"url\":").unwrap();
    fs::write(spool.join("0003.json"), vec![b'['; 3 << 20]).unwrap();
    fs::write(spool.join("0004.json.123.tmp"), "half").unwrap();
    let job = home.start_with(&["--webhook", &receiver.url], ["true"]);
    until("it has arrived", || receiver.has_taken(&job));
    until("nobody sends", || home.processes().is_empty());
    assert!(spooled(&home).is_empty());
    assert_eq!(fs::read_dir(spool.join("failed")).unwrap().count(), 4, "nothing is lost");
    let told = home.run(["doctor"]).code(1).text();
    assert_eq!(told.matches("is damaged").count(), 4, "{told}");
    assert_eq!(home.show(&job)["webhook"]["state"], "delivered");
}

#[test]
fn one_that_never_arrives_is_given_up_told_and_can_be_sent_anew() {
    let home = Home::new();
    home.configure("[webhook]\nfirst_retry = \"10ms\"\ngive_up = \"200ms\"\n");
    let reserved = Reserved::new();
    let job = home.start_with(&["--webhook", &reserved.url()], ["true"]);
    until("it is given up", || home.show(&job)["webhook"]["state"] == "given_up");
    until("nobody sends", || home.processes().is_empty());
    let told = home.run(["doctor"]).code(1).text();
    assert!(told.contains("was given up after") && told.contains("refused"), "{told}");
    assert!(!told.contains("key=1"), "an address may hold a secret: {told}");
    let shown = home.run(["show", &job]).ok().text();
    assert!(shown.contains("outlive deliver --retry"), "{shown}");
    let receiver = reserved.receive(|_| Answer::Status(200));
    let done = home.json(["deliver", "--retry"]);
    assert_eq!((&done["delivered"], &done["waiting"]), (&1.into(), &0.into()), "{done}");
    assert_same(&receiver.all(), &ending(&home, &job)["seq"]);
    home.run(["doctor"]).ok();
    assert_eq!(home.show(&job)["webhook"]["state"], "delivered");
}

#[test]
fn once_tries_each_that_is_due_once() {
    let home = Home::new();
    home.configure("[webhook]\nfirst_retry = \"1h\"\n");
    let reserved = Reserved::new();
    let job = home.start_with(&["--webhook", &reserved.url()], ["true"]);
    until("it was refused", || entries(&home).first().is_some_and(|entry| entry["attempts"] == 1));
    let deliverer = running(&home, "deliver")[0];
    signal(deliverer, "KILL");
    until("it is gone", || !is_running(deliverer));
    let not_due = home.run(["deliver", "--once"]).code(1).text();
    assert!(not_due.starts_with("0 delivered, 1 waiting"), "{not_due}");
    assert!(running(&home, "deliver").is_empty(), "no front end starts one before something is due");
    let path = &spooled(&home)[0];
    let mut entry = entries(&home).remove(0);
    entry["next_us"] = 1.into();
    fs::write(path, entry.to_string()).unwrap();
    let refused = home.run(["deliver", "--once"]).code(1).text();
    assert!(refused.contains("1 attempt failed"), "{refused}");
    let mut entry = entries(&home).remove(0);
    assert_eq!(entry["attempts"], 2);
    entry["next_us"] = 1.into();
    fs::write(path, entry.to_string()).unwrap();
    let receiver = reserved.receive(|_| Answer::Status(202));
    home.run(["deliver", "--once"]).ok();
    assert_eq!(receiver.of(&job).len(), 1);
}

/// On a full disk the notice is not lost: it is told, and sent when there is room.
#[test]
fn a_full_disk_is_told_and_costs_no_notice() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let home = Home::in_dir(disk.path());
    home.configure(QUICK);
    let receiver = Receiver::willing();
    let job = home.start_with(&["--webhook", &receiver.url, "--stdin", "open"], ["cat"]);
    let filler = disk.fill();
    home.run(["send", "--eof", &job]).ok();
    home.wait(&job);
    let mut told = String::new();
    until("it is told", || {
        told = home.run(["list"]).ok().error();
        told.contains("cannot be kept for sending")
    });
    assert!(told.contains("No space left"), "{told}");
    assert!(receiver.all().is_empty());
    home.run(["remove", &job]).code(1);
    fs::remove_file(filler).unwrap();
    home.run(["list"]).ok();
    until("it has arrived", || receiver.has_taken(&job));
    assert_eq!(receiver.all()[0].json()["status"], "completed");
    until("nobody sends", || home.processes().is_empty());
}
