//! The profile deepchat.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use outlive_core::outcome::{OUTCOME_AT, Outcome, SLOT_BYTES};
use outlive_core::timestamp::Timestamp;
use outlive_tests::{
    Era, Home, Mcp, free_port, instead, is_running, lacks, pid, proves, signal, soon, until,
};
use serde_json::{Value, json};

/// A client of a profile's server, which speaks for one conversation.
pub(super) struct Talk(pub(super) Mcp);

impl Talk {
    pub(super) fn start(home: &Home, profile: &str, conversation: &str) -> Self {
        Self::start_with(home, profile, conversation, &[])
    }

    pub(super) fn start_with(
        home: &Home,
        profile: &str,
        conversation: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let mut command = home.outlive(["mcp", "--profile", profile]);
        command.env("CLAUDE_CODE_SESSION_ID", conversation).envs(variables.iter().copied());
        Self(Mcp::of(command, Era::Handshake, json!({}), &[]))
    }

    /// Starts a server that logs; returns the file of its log, too.
    fn start_logging(home: &Home, conversation: &str) -> (Self, PathBuf) {
        let log = home.path().join("server.log");
        let mut command = home.outlive(["mcp", "--profile", "deepchat"]);
        command.env("CLAUDE_CODE_SESSION_ID", conversation).env("OUTLIVE_LOG", "1");
        command.stderr(fs::File::create(&log).unwrap());
        (Self(Mcp::of(command, Era::Handshake, json!({}), &[])), log)
    }

    /// Calls a tool; returns all texts of the answer, and whether it is an error.
    #[track_caller]
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> (Vec<String>, bool) {
        let result = self.0.result("tools/call", json!({"name": tool, "arguments": arguments}));
        texts(&result)
    }

    /// Calls a tool, which must succeed and say nothing else, and returns its text.
    #[track_caller]
    pub(super) fn text(&mut self, tool: &str, arguments: Value) -> String {
        let (mut texts, is_error) = self.call(tool, arguments);
        assert!(!is_error && texts.len() == 1, "{texts:?}");
        texts.remove(0)
    }

    /// Calls a tool, which must succeed and say nothing else, and returns its object.
    #[track_caller]
    pub(super) fn json(&mut self, tool: &str, arguments: Value) -> Value {
        let text = self.text(tool, arguments);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Calls a tool, which must refuse, and returns its words.
    #[track_caller]
    pub(super) fn refusal(&mut self, tool: &str, arguments: Value) -> String {
        let (mut texts, is_error) = self.call(tool, arguments);
        assert!(is_error && texts.len() == 1, "{texts:?}");
        texts.remove(0)
    }

    /// Starts a command in the background and returns its session.
    #[track_caller]
    fn background(&mut self, command: &str) -> String {
        let arguments = json!({"command": command, "description": "A command of a test", "background": true});
        let started = self.json("execute_command", arguments);
        assert_eq!(started["status"], "running", "{started}");
        started["sessionId"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn act(&mut self, action: &str, id: &str) -> Value {
        self.json("process", json!({"action": action, "sessionId": id}))
    }

    /// Polls until the session is so, and returns what was polled.
    #[track_caller]
    fn poll_until(&mut self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mut polled = Value::Null;
        until("a session is as it should be", || {
            polled = self.act("poll", id);
            is_so(&polled)
        });
        polled
    }

    #[track_caller]
    fn poll_to_end(&mut self, id: &str) -> Value {
        self.poll_until(id, |polled| polled["status"] != "running")
    }

    #[track_caller]
    fn sessions(&mut self) -> Vec<Value> {
        let listed = self.json("process", json!({"action": "list"}));
        assert_eq!(listed["status"], "ok");
        listed["sessions"].as_array().unwrap().clone()
    }

    #[track_caller]
    fn ids(&mut self) -> Vec<String> {
        self.sessions().iter().map(|meta| meta["sessionId"].as_str().unwrap().to_owned()).collect()
    }
}

/// Returns all texts of a result, and whether it is an error.
pub(super) fn texts(result: &Value) -> (Vec<String>, bool) {
    let content = result["content"].as_array().unwrap_or_else(|| panic!("no content: {result}"));
    let texts = content.iter().map(|block| block["text"].as_str().unwrap().to_owned());
    (texts.collect(), result["isError"] == true)
}

/// Makes a job look as if it had ended so long ago.
pub(super) fn set_end_back(home: &Home, job: &str, by: Duration) {
    let path = home.job_dir(job).join("outcome");
    let mut bytes = fs::read(&path).unwrap();
    let at = OUTCOME_AT as usize;
    let mut outcome = Outcome::from_slot(&bytes[at..at + SLOT_BYTES]).unwrap();
    outcome.ended = Timestamp(outcome.ended.0 - by.as_micros() as u64);
    bytes[at..at + SLOT_BYTES].copy_from_slice(&outcome.to_slot());
    fs::write(&path, bytes).unwrap();
    // A server that has read it believes what it knows while the directory is unchanged, which a file written in place leaves it.
    fs::File::open(home.job_dir(job)).unwrap().set_modified(SystemTime::now()).unwrap();
}

/// Makes the last look at an ended job look as if it were so long ago.
pub(super) fn set_look_back(home: &Home, job: &str, by: Duration) {
    let file = fs::File::options().write(true).open(home.job_dir(job).join("seen")).unwrap();
    file.set_modified(SystemTime::now() - by).unwrap();
}

fn offload_path(home: &Home, conversation: &str, id: &str) -> PathBuf {
    home.path().join(format!(".deepchat/sessions/{conversation}/bgexec_{id}.log"))
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// All of both tools: parameters and limits, every action with the fields of its result, every message and error.
#[test]
fn the_dialogue_is_as_the_design_has_it() {
    super::dialogue("deepchat");
}

/// A command has pipes, and its session is in the store with its first answer.
#[test]
fn a_command_has_pipes() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let links = "readlink /proc/self/fd/0; readlink /proc/self/fd/1; readlink /proc/self/fd/2";
    let id = chat.background(links);
    assert!(home.job_dir(&id).join("spec.json").is_file());
    assert_eq!(chat.ids(), std::slice::from_ref(&id), "it is a session with its first answer");
    let output = chat.poll_to_end(&id)["output"].as_str().unwrap().to_owned();
    assert_eq!(output.lines().filter(|line| line.starts_with("pipe:")).count(), 3, "{output}");
    proves!("S2-4", "S2-34", "S2-67");
}

/// Times are milliseconds since 1970, and every look at a session moves the last one.
#[test]
fn times_are_milliseconds_and_looks_are_noted() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    let before = now();
    let id = chat.background("read x");
    let after = now();
    // Times of files are as exact as the kernel's tick.
    let tick = || {
        let last = now();
        until("the clock ticks", || now() > last + 40);
    };
    tick();
    let listed = chat.sessions().remove(0);
    let created = listed["createdAt"].as_u64().unwrap();
    assert!(before <= created && created <= after, "{before} {listed} {after}");
    proves!("S2-14");
    assert_eq!(listed["lastAccessedAt"], created);
    let looked = |chat: &mut Talk| chat.sessions()[0]["lastAccessedAt"].as_u64().unwrap();
    let between = now();
    chat.act("poll", &id);
    let first = looked(&mut chat);
    assert!(first + 20 >= between && first <= now(), "{first} {between}");
    tick();
    assert_eq!(looked(&mut chat), first, "to be listed is no look");
    chat.act("log", &id);
    assert!(looked(&mut chat) > first, "a later look is a later time");
    proves!("S2-15");
    chat.json("process", json!({"action": "write", "sessionId": id, "eof": true}));
    chat.poll_to_end(&id);
    // Noted with the next call, which comes after the client has the answer.
    assert!(looked(&mut chat) >= first);
    set_look_back(&home, &id, minutes(10));
    assert_eq!(looked(&mut chat), created, "nobody looked before there was something to look at");
}

/// TERM first, KILL after two seconds, to the whole tree; and the status stays killed.
#[test]
fn a_kill_asks_and_then_forces_the_whole_tree() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let stubborn = "trap 'echo asked' TERM; setsid sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 1; done\" & \
                    while :; do wait; done";
    // On a busy machine a shell may not have the processor in those two seconds.
    until("it was asked first", || {
        let id = chat.background(stubborn);
        let child = chat.poll_until(&id, |polled| polled["output"] != "")["output"].clone();
        let child: i32 = child.as_str().unwrap().trim().parse().unwrap();
        let main = pid(&home.show(&id), "pid");
        let began = Instant::now();
        assert_eq!(chat.act("kill", &id), json!({"status": "ok", "sessionId": id}));
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(!is_running(main) && !is_running(child));
        let polled = chat.act("poll", &id);
        assert_eq!(polled["status"], "killed");
        polled["output"].as_str().unwrap().contains("asked")
    });
    proves!("S2-41", "S2-42", "S2-43", "S2-58", "S2-71", "S2-75");
    until("one that obeys has time to", || {
        let line = "trap 'echo cleaned up; exit 0' TERM; echo up; while :; do sleep 0.1; done";
        let polite = chat.background(line);
        chat.poll_until(&polite, |polled| polled["output"] == "up\n");
        chat.act("kill", &polite);
        let polled = chat.act("poll", &polite);
        assert_eq!(polled["status"], "killed");
        polled["exitCode"] == 0 && polled["output"].as_str().unwrap().contains("cleaned up\n")
    });
}

/// A conversation sees its own sessions only, whatever it is called, and its files stay below its directory.
#[test]
fn conversations_are_apart() {
    let home = Home::new();
    let (mut one, mut other) =
        (Talk::start(&home, "deepchat", "../../one"), Talk::start(&home, "deepchat", "other"));
    let id = one.background("head -c 20000 /dev/zero | tr '\\0' x; read y; echo $y");
    let polled = one.poll_until(&id, |polled| polled["offloaded"] == true);
    let file = Path::new(polled["outputFilePath"].as_str().unwrap()).to_owned();
    let below = file.strip_prefix(home.path().join(".deepchat/sessions")).unwrap();
    assert_eq!(below.components().count(), 2, "{below:?}");
    assert!(!below.as_os_str().as_bytes().windows(3).any(|part| part == b"../"), "{below:?}");
    proves!("S2-56");
    // Each has sessions of its own.
    let second = one.background("read z");
    let theirs = other.background("echo $$; read z");
    let said = other.poll_until(&theirs, |polled| polled["output"].as_str().unwrap().ends_with('\n'));
    let listed = other.sessions();
    assert_eq!((listed.len(), &listed[0]["sessionId"]), (1, &json!(theirs)));
    assert_eq!(format!("{}\n", listed[0]["pid"]), said["output"].as_str().unwrap(), "it is its own");
    proves!("S2-19");
    for action in ["poll", "log", "write", "kill", "clear", "remove"] {
        let refused =
            other.refusal("process", json!({"action": action, "sessionId": id, "data": "no\n", "eof": true}));
        assert_eq!(refused, format!("Session {id} not found"));
    }
    proves!("S2-9", "S2-55");
    assert_eq!(one.act("poll", &id)["status"], "running");
    assert_eq!((one.ids(), other.ids()), (vec![id.clone(), second], vec![theirs]));
    proves!("S2-3", "S2-81");
    one.act("remove", &id);
    assert!(fs::symlink_metadata(&file).is_err());
}

/// The server is killed between two calls, and the next one goes on where it was: output, input, end.
#[test]
fn sessions_survive_their_server() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let id = chat.background("printf o; read x; echo \"ne\ntwo $x\"; exit 5");
    // Before anyone asks for it, and while the command runs.
    let log = home.job_dir(&id).join("out.000000000000000.log");
    until("the first byte is on disk", || fs::read(&log).is_ok_and(|bytes| bytes == b"o"));
    assert_eq!(chat.act("poll", &id), json!({"status": "running", "output": "o"}));
    let command = "echo fg; until test -e go; do sleep 0.02; done; echo not lost";
    let arguments = json!({"command": command, "description": "In the foreground"});
    chat.0.send_call("execute_command", arguments);
    // A server that is killed while it starts a command may not have started it.
    let runs = |job: &&Value| job["status"] == "running";
    until("the foreground command runs", || {
        home.json(["list"]).as_array().unwrap().iter().filter(runs).count() == 2
    });
    chat.0.kill();
    let mut next = Talk::start(&home, "deepchat", "a");
    let ids = next.ids();
    assert_eq!(ids.len(), 2);
    let foreground = ids.iter().find(|other| **other != id).unwrap().clone();
    next.json("process", json!({"action": "write", "sessionId": id, "data": "more\n"}));
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(next.poll_to_end(&id), json!({"status": "error", "output": "one\ntwo more\n", "exitCode": 5}));
    instead!("S2-16", "S2-49");
    assert_eq!(
        next.poll_to_end(&foreground),
        json!({"status": "done", "output": "fg\nnot lost\n", "exitCode": 0})
    );
}

/// An ended session goes half an hour after the last look, with its file; one that runs stays.
#[test]
fn ended_sessions_go_when_nobody_looks() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let big = "head -c 20000 /dev/zero | tr '\\0' x";
    let [polled, listed, kept, unseen] = [(); 4].map(|()| chat.background(big));
    let running = chat.background("read x");
    for id in [&polled, &listed, &kept] {
        assert_eq!(chat.poll_to_end(id)["offloaded"], true);
    }
    chat.act("poll", &running);
    // Listed only, for to be listed is no look.
    let is_done = |meta: &Value| meta["sessionId"] == unseen.as_str() && meta["status"] == "done";
    until("the last one ends", || chat.sessions().iter().any(is_done));
    let file = |id: &str| offload_path(&home, "a", id);
    assert!(file(&polled).is_file() && file(&listed).is_file());

    set_look_back(&home, &polled, minutes(31));
    set_look_back(&home, &listed, minutes(31));
    set_look_back(&home, &kept, minutes(29));
    set_end_back(&home, &unseen, minutes(31));
    set_end_back(&home, &kept, minutes(300));
    let cursors = home.job_dir(&running).join("cursors");
    for cursor in fs::read_dir(cursors).unwrap() {
        let cursor = fs::File::options().write(true).open(cursor.unwrap().path()).unwrap();
        cursor.set_modified(SystemTime::now() - minutes(600)).unwrap();
    }
    // Asked for by its id it is gone, and what is left is gone from the list.
    let refused = chat.refusal("process", json!({"action": "poll", "sessionId": polled}));
    assert_eq!(refused, format!("Session {polled} not found"));
    assert!(fs::symlink_metadata(file(&polled)).is_err() && !home.job_dir(&polled).exists());
    let mut expected = [kept.clone(), running.clone()];
    expected.sort();
    let mut left = chat.ids();
    left.sort();
    assert_eq!(left, expected);
    proves!("S2-15");
    let gone = [&polled, &listed, &unseen];
    let is_left = |id: &&String| fs::symlink_metadata(file(id)).is_ok() || home.job_dir(id).exists();
    assert_eq!(gone.into_iter().find(is_left), None);
    instead!("S2-6");
    proves!("S2-57", "S2-74");
    // A look gives it another half an hour.
    chat.act("log", &kept);
    chat.ids();
    let looked = fs::metadata(home.job_dir(&kept).join("seen")).unwrap().modified().unwrap();
    assert!(looked.elapsed().unwrap() < minutes(1));
    assert_eq!(chat.act("poll", &running)["status"], "running");
}

/// A long output has a file that grows with it, the poll shows its last 500 characters, and pages of the log put
/// together are all of it, no character cut.
#[test]
fn long_output_has_a_file_and_pages() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let line =
        "i=0; while [ $i -lt 4000 ]; do echo \"zażółć $i 🦀\"; i=$((i+1)); done; read x; echo \"end $x\"";
    let id = chat.background(line);
    let mut expected: String = (0..4000).map(|number| format!("zażółć {number} 🦀\n")).collect();
    let total = expected.chars().count();
    let first = chat.poll_until(&id, |polled| polled["output"].as_str().unwrap().ends_with("3999 🦀\n"));
    let last = |text: &str| text.chars().skip(text.chars().count() - 500).collect::<String>();
    assert_eq!(first["output"], last(&expected));
    proves!("S2-36", "S2-37", "S2-53");
    assert_eq!(first["outputFilePath"], offload_path(&home, "a", &id).to_str().unwrap());
    assert_eq!(fs::read_to_string(offload_path(&home, "a", &id)).unwrap(), expected);
    proves!("S2-7", "S2-51", "S2-68");
    chat.json("process", json!({"action": "write", "sessionId": id, "data": "of it\n"}));
    let ended = chat.poll_to_end(&id);
    expected.push_str("end of it\n");
    assert_eq!(ended["output"], last(&expected));
    assert_eq!(fs::read_to_string(offload_path(&home, "a", &id)).unwrap(), expected);
    proves!("S2-52", "S2-76");
    let mut pages = String::new();
    loop {
        let offset = pages.chars().count();
        let arguments = json!({"action": "log", "sessionId": id, "offset": offset, "limit": 7777});
        let page = chat.json("process", arguments);
        assert_eq!(page["totalLength"], total + "end of it\n".len());
        assert_eq!(page["offloaded"], true);
        match page["output"].as_str().unwrap() {
            "" => break,
            text => pages.push_str(text),
        }
    }
    assert_eq!(pages, expected);
    proves!("S2-54", "S2-69");
    let page = chat.act("log", &id);
    assert_eq!(page["output"].as_str().unwrap().chars().count(), 1000);
    // Cleared, it has no file until there is much again.
    chat.act("clear", &id);
    assert!(fs::symlink_metadata(offload_path(&home, "a", &id)).is_err());
    assert_eq!(chat.act("poll", &id), json!({"status": "done", "output": "", "exitCode": 0}));
    proves!("S2-72", "S2-82");
}

/// 10,000 characters are not too many, one more is; and of a foreground command the end is shown then.
#[test]
fn the_threshold_is_ten_thousand_characters() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let print = |count: u32| format!("i=0; while [ $i -lt {count} ]; do printf 0é; i=$((i+1)); done");
    let id = chat.background(&print(5000));
    let at = chat.poll_to_end(&id);
    assert!(at.get("offloaded").is_none() && at.get("outputFilePath").is_none(), "{at}");
    assert!(fs::symlink_metadata(offload_path(&home, "a", &id)).is_err());
    proves!("S2-17");
    let id = chat.background(&format!("{}; printf x", print(5000)));
    assert_eq!(chat.poll_to_end(&id)["offloaded"], true);
    let file = offload_path(&home, "a", &id);
    assert_eq!(fs::read_to_string(file).unwrap(), format!("{}x", "0é".repeat(5000)));
    instead!("S2-50");
    let foreground = |chat: &mut Talk, command: String| {
        chat.text(
            "execute_command",
            json!({"command": command, "description": "Print a lot", "yieldMs": 40000}),
        )
    };
    let all = foreground(&mut chat, print(5000));
    assert_eq!(all, format!("{}\nExit Code: 0", "0é".repeat(5000)));
    let cut = foreground(&mut chat, print(10_000));
    let (shown, rest) = cut.split_once('\n').unwrap();
    assert_eq!(shown, "0é".repeat(6000));
    let (code, file) = rest.split_once('\n').unwrap();
    assert_eq!(code, "Exit Code: 0");
    let file = file.strip_prefix("Output offloaded: ").unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "0é".repeat(10_000));
}

/// Of more than the cap the end is kept: the log counts from what there is, and the file leads to it.
#[test]
fn more_than_the_cap_keeps_its_end() {
    let home = Home::new();
    home.configure("[job]\noutput_cap = \"64K\"\n");
    let mut chat = Talk::start(&home, "deepchat", "a");
    let id = chat.background("seq 100000 130000; read x");
    chat.poll_until(&id, |polled| polled["output"].as_str().unwrap().ends_with("\n130000\n"));
    let all: String = (100_000..=130_000).map(|number| format!("{number}\n")).collect();
    let page = chat.json("process", json!({"action": "log", "sessionId": id, "limit": 1_000_000}));
    let kept = page["output"].as_str().unwrap();
    assert_eq!(page["totalLength"], kept.len());
    assert!(kept.len() > 32 << 10 && kept.len() < all.len() && all.ends_with(kept), "{}", kept.len());
    let file = fs::read_to_string(page["outputFilePath"].as_str().unwrap()).unwrap();
    assert!(!file.is_empty() && kept.starts_with(&file), "{file}");
}

/// Characters that are printed in two pieces are whole, and what is no character is told as such.
#[test]
fn characters_are_never_cut() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let id = chat.background("printf 'x\\303'; read y; printf '\\251\\377z'");
    chat.poll_until(&id, |polled| polled["output"] == "x");
    chat.json("process", json!({"action": "write", "sessionId": id, "data": "\n"}));
    assert_eq!(chat.poll_to_end(&id)["output"], "xé\u{fffd}z");
    let page = chat.json("process", json!({"action": "log", "sessionId": id, "offset": 1, "limit": 2}));
    assert_eq!((&page["output"], &page["totalLength"]), (&json!("é\u{fffd}"), &json!(4)));
}

/// A foreground command that takes longer than its window goes on: nothing is lost or repeated, and its time is not
/// limited.
#[test]
fn a_yielded_command_goes_on_as_it_was() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let command = "echo before; until test -e go; do sleep 0.02; done; echo after";
    let arguments = json!({"command": command, "description": "Wait for an answer", "yieldMs": 300});
    // Far less than the ten seconds of a command that says nothing.
    let started = soon("a window of 300 ms", Duration::from_secs(5), || {
        let began = Instant::now();
        let started = chat.json("execute_command", arguments.clone());
        assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
        started
    });
    let id = started["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(started, json!({"status": "running", "sessionId": id}));
    proves!("S2-32");
    let shown = home.show(&id);
    assert_eq!((&shown["timeout_ms"], &shown["name"]), (&Value::Null, &json!("Wait for an answer")));
    // What began in the foreground has no input.
    let refused = chat.refusal("process", json!({"action": "write", "sessionId": id, "data": "all\n"}));
    assert_eq!(refused, format!("Session {id} stdin is not available"));
    fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(chat.poll_to_end(&id), json!({"status": "done", "output": "before\nafter\n", "exitCode": 0}));
    let given =
        json!({"command": "read x", "description": "With a timeout", "timeout": 55_000, "background": true});
    let id = chat.json("execute_command", given)["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(home.show(&id)["timeout_ms"], 55_000);
    proves!("S2-29");
}

/// Where the file cannot be made or removed, the session is read and removed all the same.
#[test]
fn a_file_that_cannot_be_made_hinders_nothing() {
    let home = Home::new();
    let (mut chat, server_log) = Talk::start_logging(&home, "a");
    let big = "head -c 20000 /dev/zero | tr '\\0' x";
    fs::write(home.path().join(".deepchat"), "no directory").unwrap();
    let id = chat.background(big);
    let polled = chat.poll_to_end(&id);
    assert_eq!(polled["offloaded"], true);
    let file = polled["outputFilePath"].as_str().unwrap();
    assert_eq!(fs::read(file).unwrap().len(), 20_000);
    chat.act("remove", &id);
    assert_eq!(chat.ids(), Vec::<String>::new());

    fs::remove_file(home.path().join(".deepchat")).unwrap();
    let id = chat.background(big);
    let file = chat.poll_to_end(&id)["outputFilePath"].as_str().unwrap().to_owned();
    assert_eq!(Path::new(&file), offload_path(&home, "a", &id));
    // What is not ours is left alone, and the session goes.
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    chat.act("remove", &id);
    assert!(!home.job_dir(&id).exists() && Path::new(&file).is_dir());
    let logged = fs::read_to_string(server_log).unwrap();
    assert!(logged.contains(&format!("{file} stays: ")), "{logged}");
    proves!("S2-62");
}

/// What cannot be read is an empty text, and the session still says how it is.
#[test]
fn output_that_cannot_be_read_is_empty() {
    let home = Home::new();
    let (mut chat, server_log) = Talk::start_logging(&home, "a");
    let id = chat.background("echo something; exit 2");
    assert_eq!(chat.poll_to_end(&id)["output"], "something\n");
    let log = home.job_dir(&id).join("out.000000000000000.log");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    assert_eq!(chat.act("poll", &id), json!({"status": "error", "output": "", "exitCode": 2}));
    let page = chat.act("log", &id);
    assert_eq!((&page["status"], &page["output"]), (&json!("error"), &json!("")));
    let logged = fs::read_to_string(server_log).unwrap();
    assert!(logged.contains(&format!("the output of {id} cannot be read: ")), "{logged}");
    proves!("S2-63");
    chat.act("remove", &id);
}

/// A session that runs is ended with its tree and removed with all that there was of it.
#[test]
fn removing_a_running_session_leaves_nothing() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let id = chat.background("head -c 20000 /dev/zero | tr '\\0' x; echo; sleep 1000 & echo $!; wait");
    let polled = chat.poll_until(&id, |polled| {
        polled["offloaded"] == true && polled["output"].as_str().unwrap().ends_with('\n')
    });
    let file = polled["outputFilePath"].as_str().unwrap().to_owned();
    let mut child = 0;
    until("its child is told", || {
        let output = chat.act("poll", &id)["output"].as_str().unwrap().to_owned();
        child = output.lines().last().and_then(|line| line.parse().ok()).unwrap_or(0);
        child > 0
    });
    let main = pid(&chat.sessions()[0], "pid");
    assert!(is_running(main) && is_running(child) && home.job_dir(&id).exists());
    assert!(fs::symlink_metadata(&file).is_ok());
    assert_eq!(chat.act("remove", &id), json!({"status": "ok", "sessionId": id}));
    assert!(!is_running(main) && !is_running(child));
    assert!(fs::symlink_metadata(file).is_err() && !home.job_dir(&id).exists());
    proves!("S2-73", "S2-83");
    assert_eq!(
        chat.refusal("process", json!({"action": "remove", "sessionId": id})),
        format!("Session {id} not found")
    );
}

/// A job that another front end started is a session by its own id, in this design's words; one without input has no
/// stdin.
#[test]
fn jobs_of_others_are_sessions_too() {
    let home = Home::new();
    let job = home.start_with(&["--session", "a"], ["sleep", "1000"]);
    let mut chat = Talk::start(&home, "deepchat", "a");
    let listed = chat.sessions().remove(0);
    assert_eq!((&listed["sessionId"], &listed["command"]), (&json!(job), &json!("sleep 1000")));
    let refused = chat.refusal("process", json!({"action": "write", "sessionId": job, "data": "x"}));
    assert_eq!(refused, format!("Session {job} stdin is not available"));
    chat.act("kill", &job);
    assert_eq!(chat.act("poll", &job), json!({"status": "killed", "output": ""}));
    // Its expiry is not this profile's.
    set_look_back(&home, &job, minutes(31));
    assert_eq!(chat.ids(), [job]);
}

/// A command that leaves a process behind is answered when its shell ends; what it left can be found and ended.
#[test]
fn what_a_foreground_command_leaves_behind_can_be_ended() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let arguments =
        json!({"command": "sleep 1000 & echo $!", "description": "Leave one behind", "yieldMs": 40000});
    let answer = chat.text("execute_command", arguments);
    let child: i32 = answer.strip_suffix("\nExit Code: 0").unwrap().parse().unwrap();
    assert!(is_running(child));
    let id = chat.ids().remove(0);
    chat.act("kill", &id);
    assert!(!is_running(child));
    assert_eq!(chat.act("poll", &id)["status"], "done");
}

/// Many calls at the same time each have their own session and answer.
#[test]
fn calls_at_the_same_time_do_not_mix() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let run = |number: usize, background: bool| json!({"command": format!("echo {number}; exit {number}"), "description": "One of many", "background": background});
    let asked: Vec<u64> =
        (0..12).map(|number| chat.0.send_call("execute_command", run(number, number % 2 == 0))).collect();
    let mut ids = Vec::new();
    for (number, asked) in asked.into_iter().enumerate() {
        let (mut answer, _) = texts(&chat.0.answer(asked)["result"]);
        let answer = answer.remove(0);
        if number % 2 == 1 {
            assert_eq!(answer, format!("{number}\nExit Code: {number}"));
        } else {
            let started: Value = serde_json::from_str(&answer).unwrap();
            ids.push((number, started["sessionId"].as_str().unwrap().to_owned()));
        }
    }
    for (number, id) in ids {
        let polled = chat.poll_to_end(&id);
        assert_eq!((&polled["output"], &polled["exitCode"]), (&json!(format!("{number}\n")), &json!(number)));
    }
}

/// A real server in the background beside real commands in the foreground: started, polled, asked, killed.
#[test]
fn a_dev_server_runs_beside_foreground_commands() {
    let home = Home::new();
    if home.command("python3").arg("--version").output().is_err() {
        return lacks("python3, for a server");
    }
    let mut chat = Talk::start(&home, "deepchat", "a");
    fs::write(home.path().join("page.txt"), "it works\n").unwrap();
    let port = free_port();
    let id = chat.background(&format!("exec python3 -u -m http.server --bind 127.0.0.1 {port}"));
    chat.poll_until(&id, |polled| polled["output"].as_str().unwrap().contains("Serving HTTP"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /page.txt HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.ends_with("it works\n"), "{page}");
    let polled = chat.poll_until(&id, |polled| polled["output"].as_str().unwrap().contains("GET /page.txt"));
    assert_eq!(polled["status"], "running");
    let listed =
        chat.text("execute_command", json!({"command": "ls page.txt", "description": "Look for the page"}));
    assert_eq!(listed, "page.txt\nExit Code: 0");
    chat.act("kill", &id);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(chat.act("poll", &id)["status"], "killed");
}

/// One whose end nobody saw has one of the design's words, too, and no code.
#[test]
fn a_session_whose_end_was_not_seen_is_an_error() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "a");
    let id = chat.background("echo up; exec sleep 300");
    chat.poll_until(&id, |polled| polled["output"] == "up\n");
    let command = home.orphan(&id);
    assert_eq!(chat.act("poll", &id), json!({"status": "running", "output": "up\n"}));
    signal(command, "KILL");
    assert_eq!(chat.poll_to_end(&id), json!({"status": "error", "output": "up\n"}));
    proves!("S2-12", "S2-13");
}

/// What has come of a character so far is not told as another one, and reading on has the whole.
#[test]
fn a_character_that_comes_in_two_parts_is_read_whole() {
    let home = Home::new();
    let mut agent = Talk::start(&home, "deepchat", "a");
    let session = agent
        .background(r"printf 'a\303'; until [ -e go ]; do sleep 0.01; done; printf '\251b\303'; sleep 300");
    let read = |agent: &mut Talk, offset: u64| {
        let log = json!({"action": "log", "sessionId": session, "offset": offset});
        agent.json("process", log)["output"].as_str().unwrap().to_owned()
    };
    until("it printed the first part", || read(&mut agent, 0) == "a");
    fs::write(home.path().join("go"), "").unwrap();
    until("it printed the second", || read(&mut agent, 1) == "éb");
    agent.json("process", json!({"action": "kill", "sessionId": session}));
    // Nothing more can come: now it is what it is.
    until("it is over", || read(&mut agent, 0) == "aéb\u{fffd}");
}
