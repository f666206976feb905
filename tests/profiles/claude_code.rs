//! The profile claude-code: asynchronous shells, and notes of background agents.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use outlive_tests::{
    Era, Home, Mcp, instead, is_running, millis, pid, processor_time, proves, signal, soon, until,
    with_enough_time,
};
use serde_json::{Value, json};

use super::deepchat::set_end_back;

/// Every tool with its parameters, answers and errors, in the design's own words.
#[test]
fn the_dialogue_is_as_the_design_has_it() {
    super::dialogue("claude-code");
}

/// A server of this profile and its client.
struct Client(Mcp);

impl Client {
    fn new(home: &Home) -> Self {
        Self::with(home, &[])
    }

    fn with(home: &Home, options: &[&str]) -> Self {
        let options = [&["--profile", "claude-code"], options].concat();
        Self(Mcp::start_with(home, Era::Handshake, &options, home.path()))
    }

    /// Calls a tool; returns its text, and whether it is an error.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> (String, bool) {
        let id = self.0.send_call(tool, arguments);
        self.answer(id)
    }

    #[track_caller]
    fn answer(&mut self, id: u64) -> (String, bool) {
        let answer = self.0.plain_answer(id);
        (answer.text, answer.is_error)
    }

    /// Calls a tool that answers with an object, and no error.
    #[track_caller]
    fn json(&mut self, tool: &str, arguments: Value) -> Value {
        let (text, is_error) = self.call(tool, arguments);
        assert!(!is_error, "{text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Starts a process that is not over at once, and returns its id.
    #[track_caller]
    fn start(&mut self, command: &str) -> String {
        let (text, is_error) =
            self.call("run_command", json!({"command": command, "run_in_background": true}));
        assert!(!is_error, "{text}");
        id_of(&text)
    }

    #[track_caller]
    fn read(&mut self, id: &str) -> Value {
        self.json("bash_output", json!({"bash_id": id}))
    }

    /// Reads until all of this came on standard output, line for line.
    #[track_caller]
    fn read_until(&mut self, id: &str, field: &str, is_enough: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        until(&format!("{id} prints what is expected"), || {
            let new = self.read(id);
            push(&mut text, new[field].as_str().unwrap());
            is_enough(&text)
        });
        text
    }

    /// Returns the row of a process in the list.
    #[track_caller]
    fn row(&mut self, id: &str) -> Option<Value> {
        let rows = self.json("list_shells", json!({}));
        rows.as_array().unwrap().iter().find(|row| row["id"] == id).cloned()
    }

    fn ids(&mut self) -> Vec<String> {
        let rows = self.json("list_shells", json!({}));
        rows.as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    fn kill(&mut self, id: &str) {
        let killed = self.json("kill_shell", json!({"shell_id": id}));
        assert_eq!(killed, json!({"success": true, "message": format!("Process {id} killed")}));
    }
}

/// Adds what a read returned to what came before.
fn push(text: &mut String, new: &str) {
    if !new.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(new);
    }
}

/// Returns the id in the answer to a start.
#[track_caller]
fn id_of(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("  ID: "));
    line.unwrap_or_else(|| panic!("no id: {text}")).to_owned()
}

fn numbers(from: u32, to: u32) -> String {
    (from..=to).map(|number| number.to_string()).collect::<Vec<_>>().join("\n")
}

/// Of each stream the newest 10,000 lines are read; and reading goes on after that (C-int-6).
#[test]
fn after_ten_thousand_lines_reading_goes_on() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let line = "seq 1 25000; seq 1 12000 | sed 's/$/\\n  /' >&2; touch printed; until [ -e go ]; do sleep 0.02; done; \
                echo more; echo wrong >&2; touch again; exec sleep 300";
    let id = client.start(line);
    until("it has printed", || home.path().join("printed").exists());
    home.wait_for_output(&id, "12000\n  \n");
    let row = client.row(&id).unwrap();
    assert_eq!((&row["outputLines"], &row["errorLines"]), (&10_000.into(), &10_000.into()));
    proves!("S1-81");
    let first = client.read(&id);
    assert_eq!(first["newOutput"], numbers(15_001, 25_000));
    assert_eq!(first["newErrors"], numbers(2001, 12_000));
    proves!("S1-20", "S1-36", "S1-37");
    std::fs::write(home.path().join("go"), "").unwrap();
    until("it has printed more", || home.path().join("again").exists());
    home.wait_for_output(&id, "wrong\n");
    let second = client.read(&id);
    assert_eq!((&second["newOutput"], &second["newErrors"]), (&"more".into(), &"wrong".into()));
    client.kill(&id);
}

/// A line that comes in pieces is one line, each stream has its own, and a character is never cut.
#[test]
fn lines_and_characters_are_whole() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let wait = |file: &str| format!("until [ -e {file} ]; do sleep 0.02; done");
    let line = format!(
        "printf 'abc\\303'; printf 'other' >&2; touch p1; {}; printf '\\251def\\n'; printf '\\377\\000x\\n'; touch p2; {}; \
         printf ' stream\\n' >&2; printf 'unended \\342\\202'; touch p3; {}",
        wait("g1"),
        wait("g2"),
        wait("g3")
    );
    let id = client.start(&line);
    let printed = |file: &str| until("it has printed", || home.path().join(file).exists());
    let go = |file: &str| std::fs::write(home.path().join(file), "").unwrap();
    printed("p1");
    until("it is recorded", || home.logs(&id).len() >= 9);
    // A line without an end is shown once it stands, but never half a character.
    let mut errors = String::new();
    until("it stands", || {
        let new = client.read(&id);
        assert_eq!(new["newOutput"], "");
        errors.push_str(new["newErrors"].as_str().unwrap());
        errors == "other"
    });
    go("g1");
    printed("p2");
    home.wait_for_output(&id, "x\n");
    let new = client.read(&id);
    assert_eq!((&new["newOutput"], &new["newErrors"]), (&"abcédef\n\u{fffd}\0x".into(), &"".into()));
    instead!("S1-35");
    go("g2");
    printed("p3");
    home.wait_for_output(&id, "unended ");
    let new = client.read(&id);
    assert_eq!((&new["newOutput"], &new["newErrors"]), (&"".into(), &" stream".into()));
    proves!("S1-16", "S1-17", "S1-63");
    go("g3");
    home.wait(&id);
    let new = client.read(&id);
    assert_eq!((&new["newOutput"], &new["status"]), (&"unended \u{fffd}".into(), &"completed".into()));
    assert_eq!(client.read(&id)["newOutput"], "", "told once");
}

/// What is too much for one answer comes with the next ones, and nothing of it is lost.
#[test]
fn very_long_lines_come_in_several_reads() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let line = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); printf \"$i \"; head -c 100000 /dev/zero | tr '\\0' x; echo; done; touch all; exec sleep 300";
    let id = client.start(line);
    until("it has printed", || home.path().join("all").exists());
    until("it is recorded", || client.row(&id).unwrap()["outputLines"] == 40);
    let mut lines = Vec::new();
    let mut reads = 0;
    while lines.len() < 40 {
        reads += 1;
        let new = client.read(&id)["newOutput"].as_str().unwrap().to_owned();
        assert!(!new.is_empty() && new.len() <= 1 << 20, "{} bytes after {} lines", new.len(), lines.len());
        lines.extend(new.split('\n').map(|line| (line.split(' ').next().unwrap().to_owned(), line.len())));
    }
    assert!(reads >= 4, "{reads}");
    let expected: Vec<(String, usize)> =
        (1..=40).map(|number| (number.to_string(), 100_001 + number.to_string().len())).collect();
    assert_eq!(lines, expected);
    // One line that is longer than all that is shown at a time.
    client.kill(&id);
    let (text, _) = client.call(
        "run_command",
        json!({"command": "head -c 3000000 /dev/zero | tr '\\0' y", "run_in_background": true}),
    );
    let long = home.wait(&id_of(&text))["job"].as_str().unwrap().to_owned();
    let new = client.read(&long)["newOutput"].as_str().unwrap().to_owned();
    assert!(
        new.starts_with("yyyy") && new.ends_with("y… [1951424 more bytes]"),
        "{}",
        &new[new.len() - 40..]
    );
    assert_eq!(client.read(&long)["newOutput"], "");
}

/// A server that is killed takes nothing with it: the next one has the process, and reads on where that one stopped.
#[test]
fn a_killed_server_takes_nothing_with_it() {
    let home = Home::new();
    let mut first = Client::with(&home, &["--session", "shared"]);
    let ended = first.start("echo done");
    home.wait(&ended);
    let line = "echo one; echo bad >&2; until [ -e go ]; do sleep 0.02; done; echo two; exec sleep 300";
    // Killed as soon as the process runs, whether it was answered or not. A process in the list without a pid is not yet
    // started, and without its starter it never is.
    let asked = first.0.send_call("run_command", json!({"command": line, "run_in_background": true}));
    let mut second = Client::with(&home, &["--session", "shared"]);
    until("it runs", || {
        let ids = second.ids();
        ids.get(1).and_then(|id| second.row(id)).is_some_and(|row| row["pid"].is_i64())
    });
    first.0.kill();
    assert!(asked > 0);
    let id = second.ids().remove(1);
    let row = second.row(&id).unwrap();
    assert_eq!(row["status"], "running");
    let pid = pid(&row, "pid");
    home.wait_for_output(&id, "one\n");
    home.wait_for_output(&id, "bad\n");
    let new = second.read(&id);
    assert_eq!((&new["newOutput"], &new["newErrors"]), (&"one".into(), &"bad".into()));
    // What was read is noted before the next answer.
    second.ids();
    let kept = |client: &mut Client| -> Vec<Value> {
        let of =
            |row: &Value| json!([row["id"], row["command"], row["status"], row["startedAt"], row["pid"]]);
        client.json("list_shells", json!({})).as_array().unwrap().iter().map(of).collect()
    };
    let known = kept(&mut second);
    second.0.kill();
    std::fs::write(home.path().join("go"), "").unwrap();
    home.wait_for_output(&id, "two\n");
    let mut third = Client::with(&home, &["--session", "shared"]);
    let statuses: Vec<&Value> = known.iter().map(|row| &row[2]).collect();
    assert_eq!((statuses, kept(&mut third)), (vec![&json!("completed"), &json!("running")], known.clone()));
    let new = third.read(&id);
    assert_eq!((&new["newOutput"], &new["newErrors"]), (&"two".into(), &"".into()));
    assert_eq!(third.read(&ended)["newOutput"], "done", "also what has ended, with its output");
    assert!(is_running(pid));
    instead!("S1-33");
    third.kill(&id);
    until("it is gone", || !is_running(pid));
    third.0.kill();
    let mut fourth = Client::with(&home, &["--session", "shared"]);
    assert_eq!(fourth.row(&id).unwrap()["status"], "killed");
    instead!("S1-19");
    assert_eq!(fourth.read(&id)["newOutput"], "");
}

/// A kill ends everything that the process started, also what does not obey, and it stays killed.
#[test]
fn a_kill_ends_the_whole_tree_and_stays_a_kill() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let line = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do sleep 1; done' &); \
                sleep 301 & echo $! >> pids; echo $$ >> pids; echo up; while :; do sleep 1; done";
    let id = client.start(line);
    let pids = || -> Vec<i32> {
        let text = std::fs::read_to_string(home.path().join("pids")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    until("all three run", || pids().len() == 3);
    let pids = pids();
    assert!(pids.iter().all(|&pid| is_running(pid)));
    let begun = Instant::now();
    client.kill(&id);
    assert_eq!(client.row(&id).unwrap()["status"], "killed", "it is called so at once");
    proves!("S1-71");
    home.wait(&id);
    assert!(begun.elapsed() >= Duration::from_millis(4900), "asked first: {:?}", begun.elapsed());
    until("all are gone", || !pids.iter().any(|&pid| is_running(pid)));
    proves!("S1-4");
    let new = client.read(&id);
    assert_eq!((&new["status"], &new["newOutput"]), (&"killed".into(), &"up".into()));
    assert_eq!(new.get("exitCode"), None, "a signal ended it");
    assert_eq!(client.row(&id).unwrap()["status"], "killed");
    let (again, is_error) = client.call("kill_shell", json!({"shell_id": id}));
    assert!(is_error && again.contains("Process already killed"), "{again}");
    // A process that obeys and exits with any code was killed all the same.
    let id = client.start("trap 'exit 0' TERM; echo $$; while :; do sleep 0.05; done");
    client.kill(&id);
    home.wait(&id);
    let new = client.read(&id);
    assert_eq!((&new["status"], &new["exitCode"]), (&"killed".into(), &0.into()));
    proves!("S1-70");
}

/// Before a start, the oldest that have ended make room; what runs stays, however old.
#[test]
fn twenty_are_kept_and_the_oldest_ended_go() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let running = client.start("exec sleep 300");
    let started: Vec<String> = (0..19).map(|number| client.start(&format!("echo {number}"))).collect();
    let all: Vec<String> = std::iter::once(running.clone()).chain(started.iter().cloned()).collect();
    assert_eq!(client.ids(), all, "20 are not too many");
    // Neither what runs in the foreground nor what cannot be started takes a place.
    client.call("run_command", json!({"command": "true"}));
    client.call(
        "run_command",
        json!({"command": "true", "run_in_background": true, "working_directory": "/nowhere"}),
    );
    let left: Vec<String> = std::iter::once(running.clone()).chain(started[1..].iter().cloned()).collect();
    assert_eq!(client.ids(), left, "room was made for the one that could not be started");
    let attempts = home.json(["list"]);
    let is_attempt = |job: &&Value| job["cause"] == "never_started" && job["status"] == "failed";
    let attempt = attempts.as_array().unwrap().iter().find(is_attempt).unwrap()["job"].as_str().unwrap();
    let (text, is_error) = client.call("bash_output", json!({"bash_id": attempt}));
    let unknown = format!("Process not found: {attempt}. Use list_shells to see available processes.");
    assert_eq!((text, is_error), (json!({"error": unknown}).to_string(), true));
    proves!("S1-34", "S1-62", "S1-103");
    let next = client.start("echo 20");
    let more = client.start("echo 21");
    let left: Vec<String> =
        std::iter::once(running.clone()).chain(started[2..].iter().cloned()).chain([next, more]).collect();
    assert_eq!(client.ids(), left);
    assert_eq!(left.len(), 20);
    proves!("S1-21");
    let (text, is_error) = client.call("bash_output", json!({"bash_id": started[0]}));
    let gone = format!("Process not found: {}. Use list_shells to see available processes.", started[0]);
    assert!(is_error);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({"error": gone}));
    assert!(!home.job_dir(&started[0]).exists());
    // The oldest is the one that was started first, though it ends last.
    client.kill(&running);
    home.wait(&running);
    let last = client.start("echo 22");
    let left: Vec<String> = left[1..].iter().cloned().chain([last]).collect();
    assert_eq!(client.ids(), left);
    proves!("S1-23");
}

/// What runs is never removed, so that there may be more than 20; and each has an id of its own.
#[test]
fn more_than_twenty_may_run() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let asked: Vec<u64> = (0..23)
        .map(|_| {
            let start = json!({"command": "exec sleep 300", "run_in_background": true});
            client.0.send_call("run_command", start)
        })
        .collect();
    let started: BTreeSet<String> = asked.into_iter().map(|asked| id_of(&client.answer(asked).0)).collect();
    assert_eq!(started.len(), 23);
    let listed = client.json("list_shells", json!({}));
    let listed: BTreeSet<String> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["status"] == "running")
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, started);
    proves!("S1-24");
    // All at the same time.
    let asked: Vec<u64> =
        started.iter().map(|id| client.0.send_call("kill_shell", json!({"shell_id": id}))).collect();
    for asked in asked {
        assert!(!client.answer(asked).1);
    }
    // Once they have ended, a start makes room for itself, and not only for one.
    started.iter().for_each(|id| drop(home.wait(id)));
    let before = client.ids();
    let last = client.start("echo last");
    let left: Vec<String> = before[4..].iter().cloned().chain([last]).collect();
    assert_eq!((client.ids(), left.len()), (left.clone(), 20));
    proves!("S1-23");
}

/// Ten minutes by default; a process whose time is over was killed, and the errors say so once.
#[test]
fn a_timeout_is_a_kill_with_a_line_in_the_errors() {
    let home = Home::new();
    let mut client = Client::with(&home, &["--session", "work"]);
    // What a call says holds, however long; without it there are ten minutes.
    for (timeout, limit) in [(Value::Null, 600_000), (700_000.into(), 700_000)] {
        let arguments = json!({"command": "exec sleep 300", "run_in_background": true, "timeout": timeout, "description": "bides its time"});
        let (text, _) = client.call("run_command", arguments);
        let id = id_of(&text);
        let spec = home.open().find(&id, None).unwrap();
        assert_eq!((spec.spec().options.timeout_ms, spec.spec().options.grace_ms), (Some(limit), 5000));
        proves!("S1-27");
        // The description is taken, and goes nowhere.
        let known = format!("{}{}", home.show(&id), client.row(&id).unwrap());
        assert!(!text.contains("bides") && !known.contains("bides"), "{text} {known}");
        proves!("S1-28");
        client.kill(&id);
    }
    // Ten minutes are too long for a test: a process with less time, started by another front end.
    let (late, time) = with_enough_time(Duration::from_millis(300), |time| {
        let line = "echo begun; echo oops >&2; exec sleep 300";
        let late = home.run(["--session", "work", "run", "--timeout", &millis(time), line]).ok().text();
        let late = late.trim_end().to_owned();
        (home.wait(&late)["output"]["lines"] == 2).then_some((late, millis(time)))
    });
    let row = client.row(&late).unwrap();
    assert_eq!((&row["status"], &row["errorLines"]), (&"killed".into(), &2.into()));
    let new = client.read(&late);
    let expected = json!({
        "id": late,
        "status": "killed",
        "newOutput": "begun",
        "newErrors": format!("oops\nProcess killed after {time} timeout"),
    });
    assert_eq!(new, expected);
    instead!("S1-42");
    assert_eq!(client.read(&late)["newErrors"], "");
    // It is consumed as any other line, also by a filter that does not want it.
    let late = home.run(["--session", "work", "run", "--timeout", "100ms", "exec sleep 300"]).ok().text();
    let late = late.trim_end();
    home.wait(late);
    let none = client.json("bash_output", json!({"bash_id": late, "filter": "nothing"}));
    assert_eq!((&none["newErrors"], &client.read(late)["newErrors"]), (&"".into(), &"".into()));
}

/// What could not be executed has failed, and the errors say why.
#[test]
fn what_never_began_says_so_in_the_errors() {
    let home = Home::new();
    let mut client = Client::with(&home, &["--session", "work"]);
    drop(home.run(["--session", "work", "run", "--", "/nowhere/program"]).code(127));
    let id = client.ids().remove(0);
    let row = client.row(&id).unwrap();
    assert_eq!((&row["status"], &row["errorLines"]), (&"failed".into(), &1.into()));
    assert_eq!(row.get("pid"), None);
    let new = client.read(&id);
    assert_eq!(new["status"], "failed");
    let expected = "Process error: could not execute /nowhere/program: no such file or directory";
    assert_eq!(new["newErrors"], expected);
    proves!("S1-41");
    assert_eq!(client.read(&id)["newErrors"], "");
}

/// What fails within a second and a half is told with the start, and the call does not wait beyond the end.
#[test]
fn a_start_waits_to_see_a_failure() {
    let home = Home::new();
    let mut client = Client::new(&home);
    soon("a start of what goes on", Duration::from_millis(2500), || {
        let begun = Instant::now();
        let id = client.start("exec sleep 300");
        assert!(begun.elapsed() >= Duration::from_millis(1450), "{:?}", begun.elapsed());
        client.kill(&id);
    });
    let expected = "✕ Process failed immediately\n  Command: sleep 0.5; echo late >&2; exit 4\n  Error: late\n  Exit code: 4\n  ID: shell-";
    until("it fails within the time", || {
        let arguments = json!({"command": "sleep 0.5; echo late >&2; exit 4", "run_in_background": true});
        let (text, is_error) = client.call("run_command", arguments);
        assert!(!is_error || text.starts_with(expected), "{text}");
        is_error
    });
    soon("a start that is over", Duration::from_millis(1400), || {
        client.call("run_command", json!({"command": "exit 0", "run_in_background": true}))
    });
    instead!("S1-44");
}

/// The environment of the server and no colours; nothing to read.
#[test]
fn it_inherits_the_environment_and_reads_nothing() {
    let home = Home::new();
    let mut command = home.outlive(["mcp", "--profile", "claude-code"]);
    command.env("MARK", "inherited").env("FORCE_COLOR", "3");
    let mut client = Client(Mcp::of(command, Era::Handshake, json!({}), &[]));
    let id = client.start("echo $MARK $FORCE_COLOR; cat; wc -c; echo at the end");
    home.wait(&id);
    assert_eq!(client.read(&id)["newOutput"], "inherited 0\n0\nat the end");
    proves!("S1-32");
    let id = client.start("for fd in 0 1 2; do readlink /proc/self/fd/$fd | tr -d '0-9'; done");
    home.wait(&id);
    let links = home.logs(&id);
    assert_eq!(String::from_utf8(links).unwrap(), "/dev/null\npipe:[]\npipe:[]\n");
    instead!("S1-33");
}

/// A time is told in its two largest parts, and goes on after the end.
#[test]
fn a_runtime_goes_on_after_the_end() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let id = client.start("echo done");
    home.wait(&id);
    until("its keeper, which writes it, too, is gone", || home.keepers().is_empty());
    let meta = home.job_dir(&id).join("meta.json");
    let known: Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
    let started = known["started_us"].as_u64().unwrap();
    let micros = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_micros()).unwrap()
    };
    let in_words = |seconds: u64| match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
    };
    let mut before = 0;
    // As if it had been started and had ended so long ago.
    for seconds in [0, 60, 3 * 60 + 7, 3599, 3600, 3 * 3600 + 62 * 60] {
        let mut moved = known.clone();
        moved["started_us"] = (started - seconds * 1_000_000).into();
        std::fs::write(&meta, moved.to_string()).unwrap();
        set_end_back(&home, &id, Duration::from_secs(seconds - before));
        before = seconds;
        let ran = |now: u64| (now - started) / 1_000_000 + seconds;
        let earliest = ran(micros());
        let row = client.row(&id).unwrap();
        let mut possible = (earliest..=ran(micros())).map(in_words);
        assert!(possible.any(|words| row["runtime"] == *words), "{seconds}: {row}");
    }
    proves!("S1-74", "S1-75", "S1-76", "S1-77");
}

/// A dev server runs while the agent goes on; its log is read, and it is stopped with its port.
#[test]
fn a_dev_server_is_watched_and_stopped() {
    let home = Home::new();
    let mut client = Client::new(&home);
    std::fs::write(home.path().join("index.html"), "hello").unwrap();
    let id = client.start("python3 -u -m http.server 0 --bind 127.0.0.1");
    let text = client.read_until(&id, "newOutput", |text| text.contains("Serving HTTP on"));
    let port: u16 = text.split("port ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    proves!("S1-26");
    // The agent has other things to do meanwhile.
    assert_eq!(client.call("run_command", json!({"command": "echo busy"})), ("busy\n".to_owned(), false));
    proves!("S1-1");
    let log = client.read_until(&id, "newErrors", |text| text.contains("GET /index.html"));
    assert!(log.contains("200"), "{log}");
    client.kill(&id);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens");
    assert_eq!(client.read(&id)["status"], "killed");
}

/// A watcher tells of each change; of what it prints only what matters is read.
#[test]
fn a_watcher_tells_of_changes() {
    let home = Home::new();
    let mut client = Client::new(&home);
    // Renamed into place: the watcher must not read it while it is empty.
    let change = |text: &str| {
        std::fs::write(home.path().join("next"), text).unwrap();
        std::fs::rename(home.path().join("next"), home.path().join("source")).unwrap();
    };
    change("v1");
    let line = "last=; while :; do now=$(cat source); if [ \"$now\" != \"$last\" ]; then \
                last=$now; echo \"checking $now\"; case $now in *bad*) echo \"Error: $now\" >&2;; *) echo \"Built $now\";; esac; fi; sleep 0.02; done";
    let id = client.start(line);
    let first = client.read_until(&id, "newOutput", |text| text.contains("Built"));
    assert_eq!(first, "checking v1\nBuilt v1");
    change("v2-bad");
    home.wait_for_output(&id, "Error: v2-bad\n");
    let new = client.json("bash_output", json!({"bash_id": id, "filter": "^(error|built)"}));
    assert_eq!((&new["newOutput"], &new["newErrors"]), (&"".into(), &"Error: v2-bad".into()));
    change("v3");
    home.wait_for_output(&id, "Built v3\n");
    let new = client.json("bash_output", json!({"bash_id": id, "filter": "BUILT"}));
    assert_eq!((&new["newOutput"], &new["newErrors"]), (&"Built v3".into(), &"".into()));
    proves!("S1-1", "S1-60", "S1-65");
    let rest = client.read(&id);
    assert_eq!(
        (&rest["newOutput"], &rest["newErrors"]),
        (&"".into(), &"".into()),
        "what was left out is read"
    );
    proves!("S1-64");
    client.kill(&id);
}

/// A test suite runs in the background, and its exit code and failures are read when it is over.
#[test]
fn a_test_suite_runs_beside_the_agent() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let suite = "import time, unittest\nclass Suite(unittest.TestCase):\n    def test_good(self): time.sleep(1.6)\n    \
                 def test_bad(self): self.assertEqual(1, 2)\nunittest.main()\n";
    std::fs::write(home.path().join("suite.py"), suite).unwrap();
    let id = client.start("python3 suite.py -v");
    home.wait(&id);
    let new = client.json("bash_output", json!({"bash_id": id, "filter": "ok$|^failed|assertionerror"}));
    assert_eq!((&new["status"], &new["exitCode"]), (&"failed".into(), &1.into()));
    let errors = new["newErrors"].as_str().unwrap();
    assert!(errors.contains("AssertionError: 1 != 2") && errors.contains("FAILED (failures=1)"), "{errors}");
    assert!(errors.contains("test_good") && !errors.contains("Traceback"), "{errors}");
    proves!("S1-1");
}

/// Jobs of others are in the list by their own ids and in this design's words; those of other sessions only if all
/// are seen.
#[test]
fn jobs_of_others_are_seen_in_its_words() {
    let home = Home::new();
    let mut client = Client::with(&home, &["--session", "work"]);
    let theirs =
        home.run(["--session", "work", "run", "--name", "web", "echo up; exec sleep 300"]).ok().text();
    let theirs = theirs.trim_end();
    let foreign = home.run(["--session", "other", "run", "exec sleep 300"]).ok().text().trim_end().to_owned();
    assert_eq!(client.ids(), [theirs]);
    home.wait_for_output(theirs, "up\n");
    let new = client.read(&theirs[1..]);
    assert_eq!((&new["id"], &new["newOutput"]), (&theirs.into(), &"up".into()), "by a part of its id");
    proves!("S1-61", "S1-102");
    let (text, is_error) = client.call("kill_shell", json!({"shell_id": foreign}));
    assert!(is_error && text.contains("Process not found"), "{text}");
    let (text, is_error) = client.call("kill_shell", json!({"shell_id": "web"}));
    assert!(is_error && text.contains("Process not found"), "a name is no id: {text}");
    client.kill(theirs);
    assert_eq!(home.show(theirs)["status"], "killed");
    // And the other way round: the command line knows what this one has started.
    let mine = client.start("exec sleep 300");
    assert_eq!(home.show(&mine)["status"], "running");
    drop(home.run(["kill", &mine]).ok());
    assert_eq!(client.row(&mine).unwrap()["status"], "killed");
    let mut all = Client::with(&home, &["--all-sessions"]);
    assert!(all.ids().contains(&foreign));
    all.kill(&foreign);
}

/// A process has ended when its main process has; a kill ends what it left running.
#[test]
fn what_a_process_leaves_behind_can_be_killed() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let line = "(sleep 0.1; until [ -e go ]; do sleep 0.02; done; echo later; exec sleep 300) & echo $! > pid; printf done";
    let (text, _) = client.call("run_command", json!({"command": line, "run_in_background": true}));
    assert!(text.starts_with("✓ Background process completed\n"), "{text}");
    assert!(text.ends_with("to stop the processes that it left running."), "{text}");
    let id = id_of(&text);
    let new = client.read(&id);
    assert_eq!((&new["status"], &new["newOutput"]), (&"completed".into(), &"done".into()));
    assert_eq!(client.read(&id)["newOutput"], "");
    std::fs::write(home.path().join("go"), "").unwrap();
    home.wait_for_output(&id, "later\n");
    assert_eq!(client.read(&id)["newOutput"], "later");
    let left: i32 = std::fs::read_to_string(home.path().join("pid")).unwrap().trim().parse().unwrap();
    assert!(is_running(left));
    client.kill(&id);
    assert!(!is_running(left));
    assert_eq!(client.read(&id)["status"], "completed", "it had ended before");
}

/// A command in the foreground that takes longer than a client waits goes on in the background, and nothing of it is
/// lost.
#[test]
fn a_long_command_in_the_foreground_goes_on_in_the_background() {
    let home = Home::new();
    let mut client = Client::new(&home);
    // No client waits longer than a minute, and this one does not either.
    let (text, is_error) =
        client.call("run_command", json!({"command": "echo begun; exec sleep 300", "timeout": 300_000}));
    assert!(!is_error, "{text}");
    assert!(text.starts_with("✓ Background process running\n  PID: "), "{text}");
    assert!(
        text.contains("\n  Not done after 45s in the foreground: it goes on in the background.\n"),
        "{text}"
    );
    let id = id_of(&text);
    assert_eq!(client.ids(), [id.as_str()]);
    assert_eq!(
        home.open().find(&id, None).unwrap().spec().options.timeout_ms,
        Some(300_000),
        "as the caller wanted"
    );
    assert_eq!(client.read(&id)["newOutput"], "begun");
    client.kill(&id);
    assert_eq!(client.ids(), [id], "it was a process in the background, and stays in the list");
}

/// A server that is killed, or a call that is taken back, does not take the command in the foreground with it.
#[test]
fn a_command_in_the_foreground_survives_its_call() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let asked = client.0.send_call("run_command", json!({"command": "echo one; exec sleep 300"}));
    until("it is in the list", || client.ids().len() == 1);
    client.0.cancel(asked);
    let first = client.ids().remove(0);
    client.0.send_call("run_command", json!({"command": "echo two; exec sleep 300"}));
    until("it is in the list", || client.ids().len() == 2);
    let second = client.ids().remove(1);
    // A server that is killed before it has handed a job to its keeper has started nothing.
    home.wait_for_output(&first, "one\n");
    home.wait_for_output(&second, "two\n");
    client.0.kill();
    let mut next = Client::new(&home);
    assert_eq!(next.read(&first)["newOutput"], "one");
    assert_eq!(next.read(&second)["newOutput"], "two");
    next.kill(&first);
    next.kill(&second);
}

/// Of what a command in the foreground printed the beginning and the end are shown, and its code is its own.
#[test]
fn much_output_in_the_foreground_is_cut_in_the_middle() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let (text, is_error) =
        client.call("run_command", json!({"command": "seq 1 100000; echo the reason >&2; exit 9"}));
    assert!(is_error);
    assert!(text.starts_with("Exit code 9:\n1\n2\n") && text.ends_with("100000\n\nthe reason\n"), "{text}");
    assert!(text.contains("characters left out") && text.chars().count() < 5100, "{}", text.len());
    let (text, is_error) = client.call("run_command", json!({"command": "seq 1 100000"}));
    assert!(!is_error);
    assert_eq!(text, numbers(1, 100_000) + "\n");
    let (text, is_error) = client.call("run_command", json!({"command": "yes | head -c 20000000"}));
    assert!(!is_error);
    assert!(text.len() < 3 << 20 && text.contains("left out"), "{}", text.len());
    assert_eq!(client.ids(), Vec::<String>::new(), "none of them is a process in the background");
    // A signal is no code.
    let (text, is_error) = client.call("run_command", json!({"command": "echo x; kill -9 $$"}));
    assert_eq!((text.as_str(), is_error), ("Exit code ?:\nx\n", true));
}

/// A command in the foreground that leaves something running is answered at its own end, and what it left can be
/// found and killed.
#[test]
fn what_a_command_in_the_foreground_leaves_behind_can_be_killed() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let line = "sleep 300 & echo $! > pid; echo started";
    assert_eq!(client.call("run_command", json!({"command": line})), ("started\n".to_owned(), false));
    let left: i32 = std::fs::read_to_string(home.path().join("pid")).unwrap().trim().parse().unwrap();
    let rows = client.json("list_shells", json!({}));
    assert_eq!((&rows[0]["status"], &rows[0]["command"]), (&"completed".into(), &line.into()));
    let id = rows[0]["id"].as_str().unwrap().to_owned();
    assert!(is_running(left));
    client.kill(&id);
    assert!(!is_running(left));
    assert_eq!(client.ids(), Vec::<String>::new());
}

/// Where there is very much to read, no more of it is looked at than is told; blank lines do not count.
#[test]
fn very_much_output_is_read_soon() {
    let home = Home::new();
    let mut client = Client::new(&home);
    // Ten million lines, and then the ten thousand that count, with blank ones between them.
    let line = "yes | head -c 20000000; seq 1 12000 | sed 's/$/\\n\\n  /'; yes '' | head -c 100000";
    let id = client.start(line);
    home.wait(&id);
    let before = processor_time(client.0.pid());
    assert_eq!(client.read(&id)["newOutput"], numbers(2001, 12_000));
    let took = processor_time(client.0.pid()) - before;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(client.read(&id)["newOutput"], "");
}

/// Readers at the same time get whole answers, and afterwards all of it is read.
#[test]
fn many_read_at_the_same_time() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let id = client.start("seq 1 2000; exec sleep 300");
    home.wait_for_output(&id, "2000\n");
    let asked: Vec<u64> =
        (0..16).map(|_| client.0.send_call("bash_output", json!({"bash_id": id}))).collect();
    let answers: Vec<Value> =
        asked.into_iter().map(|asked| serde_json::from_str(&client.answer(asked).0).unwrap()).collect();
    let whole = numbers(1, 2000);
    assert!(answers.iter().all(|new| new["newOutput"] == whole || new["newOutput"] == ""));
    assert!(answers.iter().any(|new| new["newOutput"] == whole));
    assert_eq!(client.read(&id)["newOutput"], "");
    client.kill(&id);
}

/// Whatever is given as an id or a filter, the answer is one of the design's.
#[test]
fn odd_arguments_are_answered() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let long = "x".repeat(100_000);
    for id in ["..", "../../etc", "\0", "é", " ", "SHELL-1", long.as_str(), "*"] {
        let (text, is_error) = client.call("bash_output", json!({"bash_id": id}));
        let told: Value = serde_json::from_str(&text).unwrap();
        let expected = format!("Process not found: {id}. Use list_shells to see available processes.");
        assert!(is_error && told == json!({"error": expected}), "{text:.200}");
        let (text, is_error) = client.call("kill_shell", json!({"shell_id": id}));
        let told: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({"success": false, "message": format!("Process not found: {id}")});
        assert!(is_error && told == expected, "{text:.200}");
    }
    for filter in ["(", "a{99999999}", "\\"] {
        let id = client.start("echo kept");
        let new = client.json("bash_output", json!({"bash_id": id, "filter": filter}));
        assert_eq!(new["newOutput"], "kept", "{filter}");
    }
    for (arguments, word) in [
        (json!({"command": ["ls"]}), "must be a string"),
        (json!({"command": "true", "timeout": "soon"}), "must be a whole number"),
        (json!({"command": "true", "run_in_background": "perhaps"}), "must be true or false"),
        (
            json!({"command": "a\0b", "run_in_background": true}),
            "Failed to spawn: the command line holds a NUL byte",
        ),
    ] {
        let (text, is_error) = client.call("run_command", arguments);
        assert!(is_error && text.contains(word), "{text}");
    }
    // A number that is a text, and what is beyond the limit.
    let (text, is_error) = client.call("run_command", json!({"command": "echo hi", "timeout": "900000"}));
    assert_eq!((text.as_str(), is_error), ("hi\n", false));
}

mod agents {
    use super::*;

    /// Agents are noted in the store: another server, and the command line, know them.
    #[test]
    fn every_program_knows_the_agents() {
        let home = Home::new();
        let mut client = Client::with(&home, &["--session", "work"]);
        let file = home.path().join("a.output");
        let path = file.to_str().unwrap();
        let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        let before = now();
        let agent = json!({"id": "agent-a", "type": "explore", "output_file": path});
        let started = u128::from(client.json("register_agent", agent)["startTime"].as_u64().unwrap());
        let after = now();
        assert!((before..=after).contains(&started), "{before} {started} {after}");
        until("the clock ticks", || now() > after);
        let told = client.json("agent_status", json!({"id": "agent-a"}));
        let start_time = u64::try_from(started).unwrap();
        let expected = json!({"id": "agent-a", "type": "explore", "outputFile": path, "startTime": start_time, "status": "running"});
        assert_eq!(told, expected);
        proves!("S1-82", "S1-83", "S1-84");
        client.0.kill();
        std::fs::write(&file, "half").unwrap();
        assert_eq!(home.run(["agent", "output", "agent-a"]).ok().text(), "half\n");
        let shown = home.json(["agent", "status", "agent-a"]);
        assert_eq!((&shown["status"], &shown["type"]), (&"running".into(), &"explore".into()));
        assert_eq!((&shown["session"], &shown["output_file"]), (&"work".into(), &path.into()));
        assert_eq!(home.run(["agent", "done", "agent-a"]).ok().text(), "agent-a completed\n");
        let mut client = Client::with(&home, &["--session", "work"]);
        assert_eq!(client.json("agent_status", json!({"id": "agent-a"}))["status"], "completed");
        let output = client.json("agent_output", json!({"id": "agent-a"}));
        assert_eq!(output, json!({"status": "completed", "output": "half"}));
        // Another project does not see it, unless it sees all.
        let mut other = Client::new(&home);
        assert_eq!(other.json("agent_status", json!({"id": "agent-a"})), Value::Null);
        assert_eq!(other.json("list_agents", json!({})), json!([]));
        let mut all = Client::with(&home, &["--all-sessions"]);
        assert_eq!(all.json("agent_status", json!({"id": "agent-a"}))["status"], "completed");
    }

    /// The command line has the same words, for people and for scripts.
    #[test]
    fn the_verb_has_all_that_the_tools_have() {
        let home = Home::new();
        let register =
            |id: &str| ["agent", "register", id, "--type", "plan", "--output", "out"].map(str::to_owned);
        assert!(home.run(["agent", "list"]).ok().text().is_empty());
        assert_eq!(home.json(["agent", "list"]), json!([]));
        assert_eq!(home.run(register("p-1")).ok().text(), "p-1 running\n");
        let shown = home.json(["agent", "status", "p-1"]);
        let absolute = home.path().join("out");
        assert_eq!(shown["output_file"], absolute.to_str().unwrap(), "from wherever it is read");
        assert_eq!(home.run(["agent", "output", "p-1"]).ok().text(), "(no output yet)\n");
        let written = home.json(["agent", "output", "p-1"]);
        assert_eq!(written, json!({"agent": "p-1", "status": "running", "output": "(no output yet)"}));
        drop(home.run(register("p-2")).ok());
        assert_eq!(home.run(["agent", "done", "--failed", "p-2"]).ok().text(), "p-2 failed\n");
        let list = home.run(["agent", "list"]).ok().text();
        let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["AGENT", "STATUS", "TYPE", "SESSION", "OUTPUT"]);
        assert_eq!(rows[1][..4], ["p-1", "running", "plan", "default"]);
        assert_eq!(rows[2][..4], ["p-2", "failed", "plan", "default"]);
        proves!("S1-85");
        assert_eq!(home.run(["agent", "stop", "p-1"]).ok().text(), "p-1 failed\n");
        let again = home.run(["agent", "stop", "p-1"]).code(1);
        assert!(again.error().contains("Agent already failed"), "{}", again.error());
        let missing = home.run(["agent", "stop", "nobody"]).code(3);
        assert!(missing.error().contains("Agent not found: nobody"), "{}", missing.error());
        let missing = home.run(["--json", "agent", "status", "nobody"]).code(3);
        assert_eq!(missing.error_json()["error"]["code"], "not_found");
        // One that is registered again runs again.
        assert_eq!(home.run(register("p-1")).ok().text(), "p-1 running\n");
        for bad in ["", "a\nb", &"x".repeat(65)] {
            let refused = home.run(register(bad)).code(2);
            assert!(refused.error().contains("the id of an agent"), "{}", refused.error());
        }
        // The same id in two sessions.
        let elsewhere = [&["--session".to_owned(), "other".to_owned()][..], &register("p-1")].concat();
        drop(home.run(elsewhere).ok());
        let both = home.run(["agent", "status", "p-1"]).code(3);
        assert!(both.error().contains("default, other"), "{}", both.error());
        assert_eq!(home.run(["--session", "other", "agent", "done", "p-1"]).ok().text(), "p-1 completed\n");
        assert_eq!(home.json(["--session", "default", "agent", "status", "p-1"])["status"], "running");
        assert_eq!(home.json(["--session", "other", "agent", "list"]).as_array().unwrap().len(), 1);
    }

    /// The end of a long file is read; what is no file is not waited for.
    #[test]
    fn no_output_file_does_harm() {
        let home = Home::new();
        let mut client = Client::new(&home);
        let mut output = |name: &str| {
            let path = home.path().join(name);
            let path = path.to_str().unwrap();
            client.json("register_agent", json!({"id": name, "type": "t", "output_file": path}));
            client.json("agent_output", json!({"id": name}))["output"].as_str().unwrap().to_owned()
        };
        let unreadable = "(failed to read output file)";
        let made = std::process::Command::new("mkfifo").arg(home.path().join("pipe")).status().unwrap();
        assert!(made.success());
        assert_eq!(output("pipe"), unreadable);
        assert_eq!(output("/dev/zero"), unreadable);
        home.make_dir("directory");
        assert_eq!(output("directory"), unreadable);
        std::os::unix::fs::symlink("nowhere", home.path().join("dangling")).unwrap();
        assert_eq!(output("dangling"), "(no output yet)");
        std::fs::write(home.path().join("binary"), b"\xffok\0").unwrap();
        assert_eq!(output("binary"), "\u{fffd}ok\0");
        std::fs::write(home.path().join("empty"), b"").unwrap();
        assert_eq!(output("empty"), "");
        let long = "é".repeat(600_000) + "x";
        std::fs::write(home.path().join("long"), &long).unwrap();
        // A character that begins before the last MiB is left out as a whole.
        let expected = format!("(151426 bytes before this are left out)\n{}", &long[151_426..]);
        assert!(output("long") == expected, "{:.80}", output("long"));
        let full = "x".repeat(1 << 20);
        std::fs::write(home.path().join("full"), &full).unwrap();
        assert!(output("full") == full, "one MiB is whole");
        instead!("S1-86");
    }

    /// An agent that is stopped is marked so, and nothing is killed: what writes its file goes on, and is read.
    #[test]
    fn a_stop_marks_an_agent_and_kills_nothing() {
        let home = Home::new();
        let mut client = Client::new(&home);
        let line = "until [ -e go ]; do sleep 0.02; done; echo late > a.output; exec sleep 300";
        let id = client.start(line);
        let file = home.path().join("a.output");
        client.json("register_agent", json!({"id": id, "type": "explore", "output_file": file}));
        let stopped = client.json("stop_agent", json!({"id": id}));
        assert_eq!(stopped, json!({"success": true, "message": format!("Agent {id} marked as stopped")}));
        std::fs::write(home.path().join("go"), "").unwrap();
        until("it writes on", || {
            let output = client.json("agent_output", json!({"id": id}));
            assert_eq!(output["status"], "failed");
            output["output"] == "late\n"
        });
        assert_eq!(client.row(&id).unwrap()["status"], "running");
        proves!("S1-93");
        client.kill(&id);
    }

    /// Agents that are registered at the same time all stay, whatever they are called.
    #[test]
    fn many_register_at_the_same_time() {
        let home = Home::new();
        let mut clients: Vec<Client> =
            (0..4).map(|_| Client::with(&home, &["--session", "shared"])).collect();
        let odd = ["..", "../../x", "a/b", "a%2fb", "é", "A", "a", " ", "-"];
        let mut asked = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let ids = (0..10).map(|count| format!("c{number}-{count}")).chain(odd.map(str::to_owned));
            for id in ids {
                let arguments = json!({"id": id, "type": "t", "output_file": "/nowhere"});
                asked.push((number, client.0.send_call("register_agent", arguments)));
            }
        }
        for (number, asked) in asked {
            let (text, is_error) = clients[number].answer(asked);
            assert!(!is_error, "{text}");
        }
        let listed = clients[0].json("list_agents", json!({}));
        let ids: BTreeSet<&str> =
            listed.as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap()).collect();
        assert_eq!((ids.len(), listed.as_array().unwrap().len()), (40 + odd.len(), 40 + odd.len()));
        for id in odd {
            let agent = clients[1].json("agent_status", json!({"id": id}));
            assert_eq!((&agent["id"], &agent["status"]), (&id.into(), &"running".into()));
        }
        // What is damaged is passed over, and can be registered anew.
        let session =
            std::fs::read_dir(home.store().join("sessions")).unwrap().next().unwrap().unwrap().path();
        std::fs::write(session.join("agents/c0-0.json"), b"{\"format\":1,").unwrap();
        assert_eq!(clients[2].json("agent_status", json!({"id": "c0-0"})), Value::Null);
        assert_eq!(clients[2].json("list_agents", json!({})).as_array().unwrap().len(), 39 + odd.len());
        clients[2].json("register_agent", json!({"id": "c0-0", "type": "t", "output_file": "/nowhere"}));
        assert_eq!(clients[3].json("agent_status", json!({"id": "c0-0"}))["status"], "running");
    }
}

/// Killing the keeper of a process does not hide it: it is still listed and can still be killed.
#[test]
fn a_process_without_its_keeper_can_be_killed() {
    let home = Home::new();
    let mut client = Client::new(&home);
    let id = client.start("echo up; exec sleep 300");
    let command = home.orphan(&id);
    assert_eq!(client.row(&id).unwrap()["status"], "running");
    let new = client.read(&id);
    assert_eq!((&new["status"], &new["newOutput"]), (&"running".into(), &"up".into()));
    client.kill(&id);
    assert!(!is_running(command));
    assert_eq!(client.read(&id)["status"], "killed");
    // And a process whose end was not seen has failed, with a line that says why.
    let id = client.start("exec sleep 300");
    let command = home.orphan(&id);
    signal(command, "KILL");
    until("it is gone", || !is_running(command));
    let new = client.read(&id);
    assert_eq!(new["status"], "failed");
    assert!(new["newErrors"].as_str().unwrap().starts_with("Process error: "), "{new}");
    assert_eq!(client.read(&id)["newErrors"], "");
}

/// What the log no longer has is passed over, and no line is made of two halves.
#[test]
fn what_was_dropped_is_passed_over() {
    let home = Home::new();
    let mut client = Client::with(&home, &["--session", "work"]);
    let line = "echo 0 first; until [ -e go ]; do sleep 0.02; done; seq -f '%.0f line' 1 40000; echo last";
    let id =
        home.run(["--session", "work", "run", "--output-cap", "64K", line]).ok().text().trim_end().to_owned();
    home.wait_for_output(&id, "0 first\n");
    assert_eq!(client.read(&id)["newOutput"], "0 first");
    std::fs::write(home.path().join("go"), "").unwrap();
    home.wait(&id);
    let new = client.read(&id);
    let lines: Vec<&str> = new["newOutput"].as_str().unwrap().split('\n').collect();
    assert_eq!(lines.last(), Some(&"last"));
    let numbers: Vec<u32> = lines[..lines.len() - 1]
        .iter()
        .map(|line| line.strip_suffix(" line").unwrap().parse().unwrap())
        .collect();
    assert!(
        numbers.len() > 1000 && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "{}",
        numbers.len()
    );
    assert_eq!(numbers.last(), Some(&40_000));
    // Output that was cleared is gone, and does no harm.
    drop(home.run(["clear", &id]).ok());
    assert_eq!(client.read(&id)["newOutput"], "");
    assert_eq!(client.row(&id).unwrap()["outputLines"], 0);
}

/// A limit of the store keeps a process from being started, in the design's words.
#[test]
fn a_limit_is_a_failure_to_spawn() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let mut client = Client::new(&home);
    let id = client.start("exec sleep 300");
    let (text, is_error) = client.call("run_command", json!({"command": "true", "run_in_background": true}));
    assert!(is_error && text.starts_with("Failed to spawn: 1 jobs are live in session"), "{text}");
    client.kill(&id);
}
