//! Two clients in one project that name no conversation: each is one of its own.
//!
//! Proves for every profile and the native tools that neither sees, ends or hears of what the other has, as far as that is private,
//! and that the next new connection goes on for those that are gone.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use outlive_tests::{Era, Home, Mcp, until};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::{Value, json};

use super::side_by_side::{PROFILES, start};

/// Those whose answers have only what was not read before.
const INCREMENTAL: [&str; 2] = ["native", "claude-code"];

fn all() -> impl Iterator<Item = &'static str> {
    PROFILES.into_iter().chain(["native"])
}

fn connect(home: &Home, profile: &str) -> Mcp {
    Mcp::start_with(home, Era::Handshake, &["--profile", profile], home.path())
}

/// Starts a command in the background, and returns its id.
fn begin(client: &mut Mcp, profile: &str, command: &str) -> String {
    match profile {
        "native" => client.call("run", json!({"command": command, "background": true})).ok().job(),
        profile => start(client, profile, command),
    }
}

/// Calls a tool, and returns all texts of its answer, with the messages that come beside it.
fn texts(client: &mut Mcp, tool: &str, arguments: Value) -> String {
    let result = client.result("tools/call", json!({"name": tool, "arguments": arguments}));
    let texts = result["content"].as_array().into_iter().flatten();
    texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns what a client knows of a job: it is listed, or its status is asked for where there is no list.
fn look(client: &mut Mcp, profile: &str, id: &str) -> String {
    match profile {
        "native" => texts(client, "list_jobs", json!({})),
        "macos-shell" => texts(client, "list_processes", json!({})),
        "claude-code" => texts(client, "list_shells", json!({})),
        "deepchat" | "duragent" => texts(client, "process", json!({"action": "list"})),
        _ => match texts(client, "bash_output", json!({"task_id": id})) {
            answer if answer.contains("not found") => String::new(),
            answer => format!("{id}: {answer}"),
        },
    }
}

fn read(client: &mut Mcp, profile: &str, id: &str) -> String {
    match profile {
        "native" => texts(client, "read_output", json!({"job": id})),
        "macos-shell" => texts(client, "get_process_output", json!({"processId": id})),
        "claude-code" => texts(client, "bash_output", json!({"bash_id": id})),
        "deepchat" => texts(client, "process", json!({"action": "log", "sessionId": id})),
        "duragent" => texts(client, "process", json!({"action": "log", "handle": id})),
        _ => texts(client, "bash_output", json!({"task_id": id})),
    }
}

fn kill(client: &mut Mcp, profile: &str, id: &str) {
    let (tool, arguments) = match profile {
        "native" => ("kill", json!({"job": id})),
        "macos-shell" => ("kill_process", json!({"processId": id})),
        "claude-code" => ("kill_shell", json!({"shell_id": id})),
        "deepchat" => ("process", json!({"action": "kill", "sessionId": id})),
        "duragent" => ("process", json!({"action": "kill", "handle": id})),
        _ => ("kill_bash", json!({"task_id": id})),
    };
    texts(client, tool, arguments);
}

/// Tells whether an answer has news of a job's end that nobody asked for.
fn has_news(answer: &str, id: &str) -> bool {
    let mut lines = answer.lines();
    lines.any(|line| {
        line.starts_with(&format!("[outlive] since your last call: {id}")) || line == format!("Handle: {id}")
    })
}

/// Starts a command that goes on, and reads its first line once it was answered.
fn begin_and_read(home: &Home, client: &mut Mcp, profile: &str, seconds: usize) -> String {
    let gate = format!("gate-{seconds}");
    let command = format!("until test -e {gate}; do sleep 0.02; done; echo first; sleep {seconds}");
    let job = begin(client, profile, &command);
    fs::write(home.path().join(&gate), "").expect("the home is there");
    until("it has printed", || {
        read(client, profile, &job).lines().any(|line| line.replace(&command, "").contains("first"))
    });
    // A server answers before it keeps how far was read: one that is killed then lets the next one answer again.
    if INCREMENTAL.contains(&profile) {
        until("how far was read is kept", || {
            !read(client, profile, &job).replace("echo first", "").contains("first")
        });
    }
    job
}

/// A command that prints a line, and ends with 3 once a file is there.
fn gated(gate: &str) -> String {
    format!("echo begun; until test -e {gate}; do sleep 0.02; done; echo over; exit 3")
}

fn open(home: &Home, gate: &str, job: &str) {
    fs::write(home.path().join(gate), "").expect("the home is there");
    // As another reader: this does not count as told to the client.
    assert!(home.run(["--reader", "somebody-else", "wait", job]).code(7).text().contains("failed"));
}

#[test]
fn what_is_private_does_not_cross_and_passes_to_the_next() {
    for profile in all() {
        let home = Home::new();
        // A connection that is gone counts as absent at once: no running one may take what it left.
        home.configure("[session]\nabsence = \"0s\"\n");
        let (mut one, mut two) = (connect(&home, profile), connect(&home, profile));
        let ends = begin(&mut one, profile, &gated("gate"));
        let stays = begin_and_read(&home, &mut one, profile, 300);
        let others = begin(&mut two, profile, "sleep 301");
        if profile == "native" {
            assert!(look(&mut two, profile, &stays).contains(&stays), "the project's jobs are seen by both");
        } else {
            for job in [&ends, &stays] {
                assert!(!look(&mut two, profile, job).contains(job.as_str()), "{profile} sees {job}");
                assert!(!read(&mut two, profile, job).contains("first"), "{profile} reads {job}");
                kill(&mut two, profile, job);
                assert_eq!(home.show(job)["status"], "running", "{profile} ends {job}");
            }
            assert!(!look(&mut one, profile, &others).contains(&others), "{profile}");
        }
        open(&home, "gate", &ends);
        for _ in 0..2 {
            assert!(!has_news(&look(&mut two, profile, &others), &ends), "{profile}: the other is told");
        }
        one.kill();
        for _ in 0..2 {
            let answer = look(&mut two, profile, &others);
            assert!(!has_news(&answer, &ends), "{profile}: one that was there is told: {answer}");
        }
        // The first new one goes on.
        let mut next = connect(&home, profile);
        let answer = look(&mut next, profile, &stays);
        assert!(answer.contains(&stays), "{profile}: {answer}");
        assert_eq!(has_news(&answer, &ends), matches!(profile, "native" | "duragent"), "{profile}: {answer}");
        let again = look(&mut next, profile, &stays);
        assert!(!has_news(&again, &ends), "{profile}: told twice: {again}");
        let output = read(&mut next, profile, &stays).replace("echo first", "");
        let is_incremental = INCREMENTAL.contains(&profile);
        assert_eq!(
            output.contains("first"),
            !is_incremental,
            "{profile}: its position has passed on: {output}"
        );
        assert!(read(&mut next, profile, &ends).contains("over"), "{profile}");
        assert!(profile == "native" || !look(&mut next, profile, &others).contains(&others), "{profile}");
        // It is told no more to anybody, and one that comes later has nothing.
        let mut last = connect(&home, profile);
        let answer = look(&mut last, profile, &stays);
        assert_eq!(answer.contains(&stays), profile == "native", "{profile}: {answer}");
        assert!(!has_news(&answer, &ends), "{profile}: {answer}");
        kill(&mut next, profile, &stays);
        assert_eq!(home.show(&stays)["status"], "killed", "{profile}");
        kill(&mut two, profile, &others);
    }
}

/// After a crash of the machine or of a client with several servers, more than one is gone.
#[test]
fn one_connection_goes_on_for_all_that_are_gone() {
    for profile in all() {
        let home = Home::new();
        let mut clients: Vec<Mcp> = (0..3).map(|_| connect(&home, profile)).collect();
        let mut ended = Vec::new();
        let mut running = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            ended.push(begin(client, profile, &gated(&format!("gate-{number}"))));
            running.push(begin_and_read(&home, client, profile, 310 + number));
        }
        clients.into_iter().for_each(Mcp::kill);
        for (number, job) in ended.iter().enumerate() {
            open(&home, &format!("gate-{number}"), job);
        }
        let mut next = connect(&home, profile);
        let answer = look(&mut next, profile, &running[0]);
        for job in &ended {
            assert_eq!(
                has_news(&answer, job),
                matches!(profile, "native" | "duragent"),
                "{profile}: {answer}"
            );
        }
        for job in &running {
            assert!(look(&mut next, profile, job).contains(job.as_str()), "{profile} has lost {job}");
            let output = read(&mut next, profile, job).replace("echo first", "");
            let is_incremental = INCREMENTAL.contains(&profile);
            assert_eq!(output.contains("first"), !is_incremental, "{profile}: {output}");
            kill(&mut next, profile, job);
            assert_eq!(home.show(job)["status"], "killed", "{profile}");
        }
        let seats = fs::read_dir(home.store().join("seats")).expect("there are seats").count();
        assert_eq!(seats, 2, "one seat and the lock are left");
    }
}

/// A session that was named is shared by all who name it.
#[test]
fn a_session_that_is_named_is_shared() {
    for profile in all() {
        let home = Home::new();
        let connect = || {
            Mcp::start_with(&home, Era::Handshake, &["--profile", profile, "--session", "ours"], home.path())
        };
        let (mut one, mut two) = (connect(), connect());
        let job = begin(&mut one, profile, "sleep 300");
        assert!(look(&mut two, profile, &job).contains(&job), "{profile}");
        kill(&mut two, profile, &job);
        assert_eq!(home.show(&job)["status"], "killed", "{profile}");
    }
}

/// The shell sessions of macos-shell are a connection's own, too, and pass on with their settings.
#[test]
fn shell_sessions_pass_on() {
    let home = Home::new();
    let make = |client: &mut Mcp, word: &str| {
        texts(client, "create_shell_session", json!({"name": "dev", "env": {"WORD": word}}));
        let arguments = json!({"command": format!("echo $WORD; sleep 300"), "session": "dev"});
        let started: Value =
            serde_json::from_str(&texts(client, "run_background", arguments)).expect("an object");
        started["processId"].as_str().expect("an id").to_owned()
    };
    let (mut one, mut two) = (connect(&home, "macos-shell"), connect(&home, "macos-shell"));
    let jobs = [make(&mut one, "one"), make(&mut two, "two")];
    assert_eq!(texts(&mut two, "list_shell_sessions", json!({})).matches("\"name\":\"dev\"").count(), 1);
    one.kill();
    two.kill();
    let mut next = connect(&home, "macos-shell");
    let listed = texts(&mut next, "list_processes", json!({"session": "dev"}));
    assert!(jobs.iter().all(|job| listed.contains(job)), "{listed}");
    let word = texts(&mut next, "run_command", json!({"command": "echo is $WORD", "session": "dev"}));
    assert!(word.contains("is two"), "that of the latest connection: {word}");
    texts(&mut next, "close_shell_session", json!({"session": "dev", "running": "kill"}));
    assert!(jobs.iter().all(|job| home.show(job)["status"] == "killed"));
}

/// Returns the seats of a home.
fn seats(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.store().join("seats")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name != "lock"))
        .collect()
}

/// Returns the numbers under which a process has a file open.
fn numbers_of(pid: u32, file: &std::path::Path) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_it = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|open| open == file);
    entries.filter(is_it).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process that a server makes has the server's descriptors until it executes its program, and goes on if the server is killed then.
#[test]
fn a_seat_whose_lock_outlives_its_server_for_a_moment_is_taken_all_the_same() {
    let home = Home::new();
    let mut first = connect(&home, "macos-shell");
    let job = begin(&mut first, "macos-shell", "exec sleep 300");
    let [seat] = <[PathBuf; 1]>::try_from(seats(&home)).expect("there is one");
    let server = pidfd_open(Pid::from_raw(first.pid()).expect("it has one"), PidfdFlags::empty());
    let number = numbers_of(first.pid().cast_unsigned(), &seat)[0];
    let held: OwnedFd = pidfd_getfd(server.expect("it runs"), number, PidfdGetfdFlags::empty())
        .expect("it is the test's own child");
    let opened = inotify::init(inotify::CreateFlags::CLOEXEC).expect("the kernel has inotify");
    inotify::add_watch(&opened, &seat, inotify::WatchFlags::OPEN).expect("it is there");
    first.kill();
    let mut command = home.outlive(["mcp", "--profile", "macos-shell"]);
    command.current_dir(home.path());
    let next = std::thread::spawn(|| {
        let mut next = Mcp::of(command, Era::Handshake, json!({}), &[]);
        look(&mut next, "macos-shell", "")
    });
    // The next server finds the lock held.
    rustix::io::read(&opened, &mut [0; 4096]).expect("it tries");
    drop(held);
    let listed = next.join().expect("it is answered");
    assert!(listed.contains(&job), "{listed}");
    assert_eq!(seats(&home), [seat]);
}
