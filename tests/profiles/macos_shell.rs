//! The profile macos-shell.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use outlive_core::outcome::{FILE_BYTES, OUTCOME_AT, Outcome};
use outlive_core::timestamp::Timestamp;
use outlive_sys::identity::Stat;
use outlive_tests::{
    Answer, Era, Home, Mcp, User, instead, is_running, lacks, pid, processor_time, proves, soon, until,
};
use serde_json::{Value, json};

/// Starts a server in a directory.
fn server_in(home: &Home, options: &[&str], directory: &Path) -> Mcp {
    let options: Vec<&str> = ["--profile", "macos-shell"].iter().chain(options).copied().collect();
    Mcp::start_with(home, Era::Handshake, &options, directory)
}

fn server(home: &Home) -> Mcp {
    server_in(home, &[], home.path())
}

/// A server of a session that others share.
fn shared(home: &Home) -> Mcp {
    server_in(home, &["--session", "shared"], home.path())
}

/// Calls a tool, which must succeed, and returns the object that it answers.
#[track_caller]
fn call(client: &mut Mcp, tool: &str, arguments: Value) -> Value {
    serde_json::from_str(&client.plain_call(tool, arguments).ok().text).unwrap()
}

/// Calls a tool, which must refuse, and returns its words.
#[track_caller]
fn refusal(client: &mut Mcp, tool: &str, arguments: Value) -> String {
    client.plain_call(tool, arguments).error()
}

/// Starts a process, and returns its id.
#[track_caller]
fn start(client: &mut Mcp, arguments: Value) -> String {
    let started = call(client, "run_background", arguments);
    assert_eq!(started["status"], "running");
    started["processId"].as_str().unwrap().to_owned()
}

fn list(client: &mut Mcp, arguments: Value) -> Vec<Value> {
    call(client, "list_processes", arguments)["processes"].as_array().unwrap().clone()
}

fn ids(client: &mut Mcp) -> Vec<String> {
    let ids = list(client, json!({}));
    ids.iter().map(|process| process["id"].as_str().unwrap().to_owned()).collect()
}

fn output(client: &mut Mcp, id: &str, mut arguments: Value) -> Value {
    arguments["processId"] = id.into();
    call(client, "get_process_output", arguments)
}

/// Returns the texts of the lines of an answer.
fn contents(answer: &Value) -> Vec<String> {
    let lines = answer["output"].as_array().unwrap().iter();
    lines.map(|line| line["content"].as_str().unwrap().to_owned()).collect()
}

/// Returns the numbers of the lines of an answer.
fn numbers(answer: &Value) -> Vec<u64> {
    let lines = answer["output"].as_array().unwrap().iter();
    lines.map(|line| line["lineNumber"].as_u64().unwrap()).collect()
}

/// Waits until a process has printed something after this line.
#[track_caller]
fn next_output(client: &mut Mcp, id: &str, after: u64) -> Value {
    let arguments = json!({"processId": id, "afterLine": after, "timeout": 45_000});
    let answer = call(client, "stream_process_output", arguments);
    assert!(!contents(&answer).is_empty(), "{answer}");
    answer
}

/// Waits for the end of a process.
#[track_caller]
fn ended(client: &mut Mcp, id: &str) -> Value {
    until("it has ended", || {
        let arguments = json!({"processId": id, "afterLine": 1u64 << 40, "timeout": 45_000});
        call(client, "stream_process_output", arguments)["status"] != "running"
    });
    output(client, id, json!({"lines": 100_000}))
}

/// Sends a signal, and returns what came of it.
fn kill(client: &mut Mcp, id: &str, mut arguments: Value) -> Value {
    arguments["processId"] = id.into();
    call(client, "kill_process", arguments)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// Every tool, field, default and error.
#[test]
fn the_dialogue_is_as_the_design_has_it() {
    super::dialogue("macos-shell");
}

/// A development server goes on when the server of the tools is killed, and the next one shows it, its output and its
/// address, and ends it.
#[test]
fn a_dev_server_goes_on_without_its_server() {
    let home = Home::new();
    std::fs::write(home.path().join("index.html"), "hello from the dev server\n").unwrap();
    let mut client = server(&home);
    let arguments =
        json!({"command": "python3", "args": ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]});
    let id = start(&mut client, arguments);
    let line = contents(&next_output(&mut client, &id, 0))[0].clone();
    let before = list(&mut client, json!({}))[0].clone();
    client.kill();
    let port: u16 =
        line.split_whitespace().skip_while(|word| *word != "port").nth(1).unwrap().parse().unwrap();
    let get = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get().ends_with("hello from the dev server\n"));
    proves!("S0-1", "S0-2");
    let mut client = server(&home);
    let after = list(&mut client, json!({"status": "running"}))[0].clone();
    for field in ["id", "sessionName", "command", "args", "pid", "startTime"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    assert!(after["runtime"].as_u64() >= before["runtime"].as_u64());
    let request = next_output(&mut client, &id, 1);
    assert!(contents(&request)[0].contains("GET / HTTP"), "{request}");
    assert_eq!(contents(&output(&mut client, &id, json!({})))[0], line, "what it said to the server before");
    proves!("S0-139");
    instead!("S0-7", "S0-140");
    assert_eq!(kill(&mut client, &id, json!({}))["newStatus"], "killed");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    proves!("S0-168");
}

/// The example of the design, with the real npm and a watcher.
#[test]
fn the_example_of_the_design_runs() {
    if !Path::new("/usr/bin/npm").exists() && std::process::Command::new("npm").arg("-v").output().is_err() {
        lacks("npm");
        return;
    }
    let home = Home::new();
    let project = home.make_dir("app");
    let watch = "node -e \"const fs=require('fs');let last;setInterval(()=>{const now=fs.readFileSync('src','utf8');\
                 if(now!==last){last=now;console.log('built '+now)}},20)\"";
    let package = json!({"name": "app", "version": "1.0.0", "scripts": {"build:watch": watch}});
    std::fs::write(project.join("package.json"), package.to_string()).unwrap();
    std::fs::write(project.join("src"), "first").unwrap();
    let mut client = server(&home);
    let settings = json!({"name": "dev", "cwd": "app", "env": {"npm_config_update_notifier": "false"}});
    call(&mut client, "create_shell_session", settings);
    let id = start(&mut client, json!({"command": "npm", "args": ["run", "build:watch"], "session": "dev"}));
    let mut line = 0;
    let mut wait_for = |client: &mut Mcp, text: &str| loop {
        let answer = next_output(client, &id, line);
        line = answer["afterLine"].as_u64().unwrap();
        if contents(&answer).iter().any(|content| content == text) {
            break;
        }
    };
    wait_for(&mut client, "built first");
    std::fs::write(project.join("src"), "the second").unwrap();
    wait_for(&mut client, "built the second");
    let rows = list(&mut client, json!({}));
    assert_eq!(rows.len(), 1);
    let row = rows[0].as_object().unwrap();
    assert_eq!(
        (&row["id"], &row["sessionName"], &row["command"], &row["args"], &row["status"]),
        (&json!(id), &json!("dev"), &json!("npm"), &json!(["run", "build:watch"]), &json!("running"))
    );
    assert!(row["outputLines"].as_u64() >= Some(line) && row["runtime"].as_u64() > Some(0), "{row:?}");
    let mut fields =
        vec!["args", "command", "id", "outputLines", "pid", "runtime", "sessionName", "startTime", "status"];
    // Beside the design's own.
    fields.insert(5, "resourceUsage");
    let mut found: Vec<&str> = row.keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, fields);
    let recent = output(&mut client, &id, json!({"lines": 50}));
    assert_eq!(contents(&recent).last().unwrap(), "built the second");
    proves!("S0-169");
    let killed = kill(&mut client, &id, json!({}));
    assert_eq!((&killed["newStatus"], &killed["killed"]), (&json!("killed"), &json!(true)));
}

/// Log tailing, monitoring and a batch at the same time.
#[test]
fn other_uses_of_the_design() {
    let home = Home::new();
    let log = home.path().join("app.log");
    std::fs::write(&log, "started\n").unwrap();
    let mut client = server(&home);
    let tail = start(&mut client, json!({"command": "tail", "args": ["-n", "+1", "-F", "app.log"]}));
    let monitor = start(
        &mut client,
        json!({"command": "while :; do cat /proc/loadavg; sleep 0.02; done", "bufferSize": 3}),
    );
    let batch = start(
        &mut client,
        json!({"command": "for i in 1 2 3; do echo \"item $i\"; done; echo bad >&2; exit 1", "env": {"A": "1"}}),
    );
    assert_eq!(contents(&next_output(&mut client, &tail, 0)), ["started"]);
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(b"error: disk full\n").unwrap();
    assert_eq!(contents(&next_output(&mut client, &tail, 1)), ["error: disk full"]);
    proves!("S0-170");
    next_output(&mut client, &monitor, 10);
    let seen = output(&mut client, &monitor, json!({}));
    assert_eq!(contents(&seen).len(), 3, "{seen}");
    // Three averages, the processes and the newest of them.
    assert!(contents(&seen).iter().all(|line| line.split(' ').count() == 5 && line.contains('/')), "{seen}");
    proves!("S0-171");
    let done = ended(&mut client, &batch);
    assert_eq!(done["status"], "failed");
    assert_eq!(contents(&done), ["item 1", "item 2", "item 3", "bad"]);
    proves!("S0-172");
    for id in [&tail, &monitor] {
        assert_eq!(kill(&mut client, id, json!({}))["killed"], true);
    }
}

/// Tells whether a log has a line that ends so.
fn has_line(log: &str, end: &str) -> bool {
    log.lines().any(|line| line.ends_with(end))
}

/// A kill ends everything that a process has started, also what does not listen; the status stays killed, and the
/// server goes on.
#[test]
fn a_kill_ends_the_whole_tree_and_stays_a_kill() {
    let home = Home::new();
    let log = home.path().join("server.log");
    let mut command = home.outlive(["mcp", "--profile", "macos-shell"]);
    command.env("OUTLIVE_LOG", "1").stderr(std::fs::File::create(&log).unwrap());
    let mut client = Mcp::of(command, Era::Handshake, json!({}), &[]);
    let line = "(trap '' TERM; setsid sleep 300 & echo $!; while :; do sleep 0.05; done) & sleep 300 & echo $!; wait";
    let id = start(&mut client, json!({"command": line}));
    let mut children = contents(&next_output(&mut client, &id, 0));
    if children.len() < 2 {
        children.extend(contents(&next_output(&mut client, &id, 1)));
    }
    let answer = kill(&mut client, &id, json!({}));
    assert_eq!(
        answer,
        json!({"processId": id, "previousStatus": "running", "newStatus": "killed", "killed": true})
    );
    for child in children {
        assert!(!is_running(child.parse().unwrap()), "{child} is left");
    }
    assert_eq!(home.show(&id)["status"], "killed");
    proves!("S0-117");
    assert_eq!(list(&mut client, json!({}))[0]["status"], "killed");
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(has_line(&logged, &format!("Process {id} terminated with SIGTERM")), "{logged}");
    assert_eq!(home.show(&id)["signal"], "SIGTERM", "which was sent without being named");
    proves!("S0-75");
    let other = start(&mut client, json!({"command": "exec sleep 300"}));
    assert_eq!(kill(&mut client, &other, json!({"force": true}))["killed"], true);
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(has_line(&logged, &format!("Process {other} terminated with SIGKILL")), "{logged}");
    proves!("S0-93");
    client.end();
    let mut next = server(&home);
    assert_eq!(list(&mut next, json!({"status": "killed"}))[1]["id"], *id, "as others see it");
}

/// SIGTERM is one signal, after which a process has all the time that it wants; force is SIGKILL.
#[test]
fn a_process_that_takes_its_time_is_not_cut_short() {
    let home = Home::new();
    let mut client = server(&home);
    let line = "import signal, os, time\n\
                def save(*_):\n print('saving')\n while not os.path.exists('go'): time.sleep(0.01)\n print('saved')\n raise SystemExit(0)\n\
                signal.signal(signal.SIGTERM, save)\nprint('up')\nwhile True: signal.pause()";
    let slow = start(&mut client, json!({"command": "exec python3 -u", "args": ["-c", line]}));
    let deaf = start(&mut client, json!({"command": "trap '' TERM; echo up; while :; do sleep 0.05; done"}));
    for id in [&slow, &deaf] {
        next_output(&mut client, id, 0);
    }
    for id in [&slow, &deaf] {
        let answer = kill(&mut client, id, json!({"signal": "SIGTERM"}));
        assert_eq!(
            answer,
            json!({"processId": id, "previousStatus": "running", "newStatus": "running", "killed": false})
        );
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let done = ended(&mut client, &slow);
    assert_eq!(
        (contents(&done), &done["status"]),
        (vec!["up".into(), "saving".into(), "saved".into()], &json!("killed"))
    );
    let answer = kill(&mut client, &deaf, json!({"force": true}));
    assert_eq!((&answer["newStatus"], &answer["killed"]), (&json!("killed"), &json!(true)));
    assert_eq!(home.show(&deaf)["signal"], "SIGKILL");
    proves!("S0-76");
}

/// SIGSTOP pauses everything that a process has started, SIGCONT lets it go on, and both are told truly.
#[test]
fn signals_pause_and_resume() {
    let home = Home::new();
    let mut client = server(&home);
    let id = start(&mut client, json!({"command": "while :; do echo tick; sleep 0.01; done"}));
    next_output(&mut client, &id, 0);
    assert_eq!(kill(&mut client, &id, json!({"signal": "SIGSTOP"}))["newStatus"], "running");
    assert_eq!(home.show(&id)["paused"], true);
    let still = output(&mut client, &id, json!({}))["totalLines"].as_u64().unwrap();
    let quiet = json!({"processId": id, "afterLine": still + 2, "timeout": 300});
    assert_eq!(contents(&call(&mut client, "stream_process_output", quiet)), Vec::<String>::new());
    assert_eq!(kill(&mut client, &id, json!({"signal": "CONT"}))["killed"], false);
    assert_eq!(home.show(&id)["paused"], false);
    next_output(&mut client, &id, still + 2);
    assert_eq!(kill(&mut client, &id, json!({"signal": "SIGSTOP"}))["killed"], false);
    let answer = kill(&mut client, &id, json!({}));
    assert_eq!(answer["newStatus"], "killed", "one that is paused hears it, too");
    proves!("S0-5");
}

/// What goes wrong with a signal is an error of that call and a line of the log; the next call is answered.
#[test]
fn a_signal_that_cannot_be_sent_is_an_error() {
    let home = Home::new();
    let log = home.path().join("server.log");
    let mut command = home.outlive(["mcp", "--profile", "macos-shell"]);
    command.env("OUTLIVE_LOG", "1").stderr(std::fs::File::create(&log).unwrap());
    let mut client = Mcp::of(command, Era::Handshake, json!({}), &[]);
    let id = start(&mut client, json!({"command": "exec sleep 300"}));
    // A keeper that cannot be reached.
    let socket = home.job_dir(&id).join("ctl");
    std::fs::rename(&socket, home.path().join("ctl")).unwrap();
    let error = refusal(&mut client, "kill_process", json!({"processId": id}));
    let cause =
        error.strip_prefix(&format!("Failed to kill process '{id}': ")).unwrap_or_else(|| panic!("{error}"));
    let cause = cause.lines().next().unwrap();
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(
        !cause.is_empty() && has_line(&logged, &format!("Unexpected error in process {id}: {cause}")),
        "{logged}"
    );
    proves!("S0-94");
    assert_eq!(list(&mut client, json!({}))[0]["status"], "running");
    std::fs::rename(home.path().join("ctl"), &socket).unwrap();
    assert_eq!(kill(&mut client, &id, json!({}))["killed"], true);
    proves!("S0-73");
}

/// A process that ends while it is signalled, or was ended by others, is no error of the server's.
#[test]
fn what_ends_by_itself_is_told_as_it_was() {
    let home = Home::new();
    let mut client = server(&home);
    let id = start(&mut client, json!({"command": "exec sleep 300"}));
    outlive_tests::signal(pid(&home.show(&id), "pid"), "KILL");
    let last = ended(&mut client, &id);
    assert_eq!(
        (&last["status"], last.get("exitCode")),
        (&json!("failed"), Some(&Value::Null)),
        "somebody else's signal is a failure"
    );
    proves!("S0-25", "S0-90", "S0-91", "S0-18");
    let error = refusal(&mut client, "kill_process", json!({"processId": id}));
    assert_eq!(error, format!("Process '{id}' is not running (status: failed)"));
    for round in 0..20 {
        let id = start(&mut client, json!({"command": "exit 0"}));
        let call = client.send_call("kill_process", json!({"processId": id, "force": round % 2 == 0}));
        let Answer { text: answer, is_error } = client.plain_answer(call);
        if is_error {
            assert!(answer.ends_with("is not running (status: stopped)"), "{answer}");
        } else {
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["killed"], true);
        }
    }
    proves!("S0-73");
    // A process without a keeper is still listed, read and ended.
    let id = start(&mut client, json!({"command": "echo up; exec sleep 300"}));
    next_output(&mut client, &id, 0);
    let main = home.orphan(&id);
    assert_eq!(list(&mut client, json!({"status": "running"}))[0]["id"], *id);
    assert_eq!(kill(&mut client, &id, json!({}))["killed"], true);
    assert!(!is_running(main));
}

/// 50 of a session and 200 in all, with a warning before; all are listed at once, and each costs a small keeper.
#[test]
fn limits_are_kept() {
    let home = Home::new();
    let mut client = server(&home);
    for number in 0..4 {
        let session = format!("s{number}");
        call(&mut client, "create_shell_session", json!({"name": session}));
        for place in 1..=50 {
            let arguments = json!({"command": "exec sleep 300", "session": session});
            let started = call(&mut client, "run_background", arguments);
            // Once for each limit: with the first job that comes near it.
            let is_near = place == 40 || number * 50 + place == 160;
            assert_eq!(started.get("warning").is_some(), is_near, "{place} of {session}: {started}");
            if is_near {
                let near = if number * 50 + place == 160 { ["160", "200"] } else { ["40", "50"] };
                let warning = started["warning"].as_str().unwrap();
                assert!(near.iter().all(|count| warning.contains(count)), "{warning}");
            }
        }
        proves!("S0-102");
        if number == 0 {
            let error =
                refusal(&mut client, "run_background", json!({"command": "true", "session": session}));
            assert_eq!(error, "Session has reached maximum process limit (50)");
            let error = refusal(&mut client, "run_command", json!({"command": "true", "session": session}));
            assert_eq!(error, "Session has reached maximum process limit (50)");
            proves!("S0-98");
        }
    }
    let error = refusal(&mut client, "run_background", json!({"command": "true"}));
    assert_eq!(error, "Server has reached maximum process limit (200)");
    proves!("S0-99", "S0-118", "S0-125", "S0-157");
    let before = processor_time(client.pid());
    assert_eq!(list(&mut client, json!({"status": "running"})).len(), 200);
    proves!("S0-122");
    let took = processor_time(client.pid()) - before;
    assert!(took < Duration::from_secs(1), "{took:?} for 200 processes");
    // Nor does it wait for anything.
    soon("a list of 200 processes", Duration::from_secs(2), || list(&mut client, json!({})));
    proves!("S0-160");
    let keepers = home.keepers();
    assert!(keepers.len() >= 200, "{} keepers", keepers.len());
    for keeper in keepers {
        let status = std::fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
        // Of its own: the pages of the program are those of all keepers.
        let resident = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kilobytes < 2 << 10, "{kilobytes} kB");
    }
    proves!("S0-158");
    let killed = call(&mut client, "close_shell_session", json!({"session": "s1", "running": "kill"}));
    assert_eq!(killed["killed"].as_array().unwrap().len(), 50);
    assert_eq!(list(&mut client, json!({"session": "s1", "status": "killed"})).len(), 50);
    assert_eq!(list(&mut client, json!({"status": "running"})).len(), 150, "all of it, and no others");
    proves!("S0-105");
    let id = start(&mut client, json!({"command": "true"}));
    assert_eq!(ended(&mut client, &id)["status"], "stopped");
}

/// What has ended does not count: starts and stops can go on for ever.
#[test]
fn a_session_is_not_used_up() {
    let home = Home::new();
    home.configure("[limits]\nsession = 3\n");
    let mut client = server(&home);
    for round in 0..20 {
        let stopped = start(&mut client, json!({"command": "echo", "args": [round.to_string()]}));
        let killed = start(&mut client, json!({"command": "exec sleep 300"}));
        assert_eq!(kill(&mut client, &killed, json!({"force": true}))["newStatus"], "killed");
        assert_eq!(contents(&ended(&mut client, &stopped)), [round.to_string()]);
    }
    assert_eq!(list(&mut client, json!({"status": "killed"})).len(), 20);
    assert_eq!(list(&mut client, json!({"status": "stopped"})).len(), 20);
    proves!("S0-124", "S0-155");
}

/// Makes a job that has ended look as if it had ended so long ago.
fn make_old(home: &Home, id: &str, age: Duration) {
    let path = home.job_dir(id).join("outcome");
    let mut bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len() as u64, FILE_BYTES);
    let at = usize::try_from(OUTCOME_AT).unwrap();
    let outcome = Outcome::from_slot(&bytes[at..]).unwrap();
    let then = since_1970() - age;
    let old = Outcome { ended: Timestamp(u64::try_from(then.as_micros()).unwrap()), ..outcome };
    let slot = old.to_slot();
    bytes[at..at + slot.len()].copy_from_slice(&slot);
    std::fs::write(&path, bytes).unwrap();
    // A server that has read it believes what it knows while the directory is unchanged, which a file written in place leaves it.
    std::fs::File::open(home.job_dir(id)).unwrap().set_modified(SystemTime::now()).unwrap();
}

/// An ended process goes an hour after its end, with its output, and not before an answer has told it; what runs and
/// what others have started stays.
#[test]
fn ended_processes_stay_for_an_hour() {
    let home = Home::new();
    let mut client = server(&home);
    let [young, old, unheard, forgotten] = ["young", "old", "unheard", "forgotten"].map(|text| {
        let id = start(&mut client, json!({"command": "echo", "args": [text]}));
        until("it has ended", || {
            home.json(["list"]).as_array().unwrap().iter().all(|job| !job["exit_code"].is_null())
        });
        id
    });
    let running = start(&mut client, json!({"command": "exec sleep 300"}));
    let session = home.show(&running)["session"].as_str().unwrap().to_owned();
    let others = home.run(["run", "--session", &session, "--wait", "true"]).ok();
    drop(others);
    let other = home.json(["list"]).as_array().unwrap().iter().find(|job| job["command"] == "true").unwrap()
        ["job"]
        .clone();
    for id in [&young, &old] {
        output(&mut client, id, json!({}));
    }
    let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    make_old(&home, &young, hour - minute);
    make_old(&home, &old, hour + minute);
    make_old(&home, &unheard, 7 * 24 * hour - minute);
    make_old(&home, other.as_str().unwrap(), hour + minute);
    make_old(&home, &forgotten, 7 * 24 * hour + minute);
    home.run(["gc"]).ok();
    let other = other.as_str().unwrap().to_owned();
    assert_eq!(ids(&mut client), [other.clone(), running.clone(), unheard.clone(), young.clone()]);
    assert!(!home.job_dir(&old).exists() && !home.job_dir(&forgotten).exists());
    let gone = refusal(&mut client, "get_process_output", json!({"processId": old}));
    assert_eq!(gone, format!("Process '{old}' not found"));
    // The list has told of it.
    until("it goes once it was told", || ids(&mut client) == [other.clone(), running.clone(), young.clone()]);
    instead!("S0-100");
}

/// Reads of the window are as of a buffer that drops its oldest lines, whatever is asked for.
#[test]
fn the_window_is_a_circular_buffer_done_right() {
    let home = Home::new();
    let mut client = server(&home);
    for (size, total) in
        [(None, 400_u64), (None, 300), (None, 0), (Some(1), 7), (Some(50), 49), (Some(1000), 999)]
    {
        let mut arguments = json!({"command": format!("seq 1 {total}")});
        if let Some(size) = size {
            arguments["bufferSize"] = size.into();
        }
        let id = start(&mut client, arguments);
        assert_eq!(ended(&mut client, &id)["totalLines"], total);
        let first = total.saturating_sub(size.unwrap_or(300)) + 1;
        for (lines, from) in [
            (None, None),
            (Some(500), None),
            (Some(10), None),
            (Some(100), Some(390)),
            (None, Some(1)),
            (Some(5), Some(0)),
            (Some(3), Some(total + 5)),
        ] {
            let count: u64 = lines.unwrap_or(100);
            let expected: Vec<u64> = match from {
                Some(from) => (from.max(first)..=total).take(usize::try_from(count).unwrap()).collect(),
                None => (total.saturating_sub(count).max(first - 1) + 1..=total).collect(),
            };
            let mut arguments = json!({});
            if let Some(lines) = lines {
                arguments["lines"] = lines.into();
            }
            if let Some(from) = from {
                arguments["fromLine"] = from.into();
            }
            let answer = output(&mut client, &id, arguments);
            assert_eq!(numbers(&answer), expected, "{size:?} {total} {lines:?} {from:?}");
            assert_eq!(contents(&answer), expected.iter().map(u64::to_string).collect::<Vec<_>>());
            proves!(
                "S0-27", "S0-29", "S0-30", "S0-43", "S0-64", "S0-65", "S0-95", "S0-96", "S0-97", "S0-116"
            );
            assert_eq!((&answer["totalLines"], &answer["requestedLines"]), (&json!(total), &json!(count)));
            proves!("S0-28", "S0-32");
        }
    }
}

/// Old output can be cleared; what comes after goes on counting.
#[test]
fn output_can_be_cleared() {
    let home = Home::new();
    let mut client = shared(&home);
    let line = "seq 1 5; while [ ! -e go ]; do sleep 0.01; done; echo; echo six; exec sleep 300";
    let id = start(&mut client, json!({"command": line}));
    until("all is there", || output(&mut client, &id, json!({}))["totalLines"] == 5);
    home.run(["clear", &id]).ok().text();
    let answer = output(&mut client, &id, json!({}));
    assert_eq!((contents(&answer), &answer["totalLines"]), (Vec::new(), &json!(5)));
    std::fs::write(home.path().join("go"), "").unwrap();
    let answer = next_output(&mut client, &id, 5);
    assert_eq!((contents(&answer), numbers(&answer)), (vec!["six".to_owned()], vec![6]));
    // A server that has not seen it before counts what was cleared, too.
    let mut other = shared(&home);
    assert_eq!(numbers(&output(&mut other, &id, json!({}))), [6]);
    kill(&mut client, &id, json!({"force": true}));
}

/// Nothing is lost: lines that come in pieces are whole, so are characters, and the log on disk has every byte, empty
/// lines too.
#[test]
fn output_is_captured_as_it_was_printed() {
    let home = Home::new();
    let mut client = server(&home);
    let program = "import os, time\n\
                   for part in [b'abc', b'def\\nx\\ny\\n', b'\\n\\n', b'\\xc3', b'\\xa9\\n', b'\\xff\\xfe\\n', b' \\n', b'a\\x00b\\n', b'end']:\n \
                   os.write(1, part)\n time.sleep(0.03)\n";
    let now = || Timestamp(u64::try_from(since_1970().as_micros()).unwrap());
    let before = now();
    let id = start(&mut client, json!({"command": "exec python3", "args": ["-c", program]}));
    let mut seen = Vec::new();
    loop {
        let after = seen.len() as u64;
        let arguments = json!({"processId": id, "afterLine": after});
        let answer = call(&mut client, "stream_process_output", arguments);
        assert_eq!(numbers(&answer), (after + 1..).take(contents(&answer).len()).collect::<Vec<_>>());
        seen.extend(contents(&answer));
        if answer["status"] != "running" {
            break;
        }
    }
    assert_eq!(
        seen,
        ["abcdef", "x", "y", "é", "\u{fffd}\u{fffd}", " ", "a\0b", "end"],
        "none twice, none in halves"
    );
    proves!("S0-88");
    instead!("S0-87");
    assert_eq!(home.logs(&id), b"abcdef\nx\ny\n\n\n\xc3\xa9\n\xff\xfe\n \na\0b\nend");
    proves!("S0-120", "S0-156");
    let whole = output(&mut client, &id, json!({}));
    assert_eq!(contents(&whole), seen);
    let times: Vec<&str> =
        whole["output"].as_array().unwrap().iter().map(|line| line["timestamp"].as_str().unwrap()).collect();
    let [first, .., last] = times[..] else { panic!("{times:?}") };
    assert!(times.is_sorted() && first < last, "{times:?}");
    let parsed = [first, last].map(|time| Timestamp::parse(time).unwrap());
    // Told in whole milliseconds.
    assert!(before.0 / 1000 <= parsed[0].0 / 1000 && parsed[1] <= now(), "{before:?} {times:?}");
    proves!("S0-33", "S0-89");
}

/// Of much output the window is read fast, the count is exact, and the disk has it all.
#[test]
fn much_output_is_counted_and_the_end_of_it_shown() {
    let home = Home::new();
    let mut client = shared(&home);
    // Two streams at the same time, and as many empty lines.
    let line = "(seq 1 200000 | sed G) & (seq 1 100000 | sed G >&2) & wait";
    let id = start(&mut client, json!({"command": line}));
    let last = ended(&mut client, &id);
    assert_eq!((&last["totalLines"], contents(&last).len()), (&json!(300_000), 300));
    assert_eq!(numbers(&last), (299_701..=300_000).collect::<Vec<_>>());
    proves!("S0-19", "S0-95");
    assert_eq!(home.show(&id)["output"]["lines"], 600_000);
    for (stream, end) in [("stdout", 200_000), ("stderr", 100_000)] {
        let of_stream = output(&mut client, &id, json!({"lines": 300, "type": stream}));
        let count = contents(&of_stream).len() as u64;
        let expected: Vec<String> = (end - count + 1..=end).map(|number| number.to_string()).collect();
        assert_eq!(contents(&of_stream), expected, "{stream}");
        let log = home.run(["logs", &id, "--stream", stream]).ok().stdout;
        let printed: String = (1..=end).map(|number| format!("{number}\n\n")).collect();
        assert!(log == printed.as_bytes(), "{} bytes of {stream} for {}", log.len(), printed.len());
    }
    proves!("S0-120", "S0-123", "S0-156");
    // A server that counts from the beginning finds the same.
    let mut other = shared(&home);
    let before = processor_time(other.pid());
    assert_eq!(output(&mut other, &id, json!({"lines": 300})), last_of(last.clone()));
    let took = processor_time(other.pid()) - before;
    assert!(took < Duration::from_secs(1), "{took:?}");
    proves!("S0-159");
    let many = start(&mut client, json!({"command": "echo first; yes '' | head -n 3000000; echo last"}));
    let answer = ended(&mut client, &many);
    assert_eq!(
        (contents(&answer), numbers(&answer)),
        (vec!["first".to_owned(), "last".to_owned()], vec![1, 2])
    );
    let long =
        start(&mut client, json!({"command": "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after"}));
    let answer = contents(&ended(&mut client, &long));
    assert!(
        answer[0].len() < 11_000 && answer[0].ends_with("characters omitted ...]"),
        "{}",
        answer[0].len()
    );
    assert_eq!(answer[1], "after");
}

/// Where the disk keeps only the end of an output, line numbers go on all the same, for a server that has counted and
/// for one that has not.
#[test]
fn line_numbers_never_go_back() {
    let home = Home::new();
    home.configure("[job]\noutput_cap = \"256K\"\n");
    let mut client = shared(&home);
    let line = "seq 1 20000 | sed G; while [ ! -e go ]; do sleep 0.01; done; seq 20001 200000 | sed G";
    let id = start(&mut client, json!({"command": line}));
    until("the first part is there", || output(&mut client, &id, json!({}))["totalLines"] == 20_000);
    std::fs::write(home.path().join("go"), "").unwrap();
    let known = ended(&mut client, &id);
    assert!(home.logs(&id).len() < 600_000, "something was dropped");
    let fresh = output(&mut shared(&home), &id, json!({"lines": 100_000}));
    let total = |answer: &Value| answer["totalLines"].as_u64().unwrap();
    assert!(200_000 <= total(&known) && total(&known) <= total(&fresh), "{known} {fresh}");
    for answer in [&known, &fresh] {
        assert_eq!(numbers(answer), (total(answer) - 299..=total(answer)).collect::<Vec<_>>());
        assert_eq!(contents(answer).last().unwrap(), "200000");
    }
    let rest = next_output(&mut client, &id, total(&known) - 2);
    assert_eq!(contents(&rest), ["199999", "200000"]);
}

/// Returns an answer as it is for 300 lines.
fn last_of(mut answer: Value) -> Value {
    answer["requestedLines"] = 300.into();
    answer
}

/// A reader that waits is woken by output and by the end, and not held beyond its time; an unfinished line is told
/// once, whole.
#[test]
fn whoever_streams_is_woken() {
    let home = Home::new();
    let mut client = server(&home);
    let line = "while [ ! -e one ]; do sleep 0.01; done; printf half; while [ ! -e two ]; do sleep 0.01; done; echo ' whole'; \
                while [ ! -e three ]; do sleep 0.01; done";
    let id = start(&mut client, json!({"command": line}));
    let wait = |client: &mut Mcp, after: u64, timeout: u64| {
        client.send_call(
            "stream_process_output",
            json!({"processId": id, "afterLine": after, "timeout": timeout}),
        )
    };
    let go = |name: &str| std::fs::write(home.path().join(name), "").unwrap();
    let answer = |client: &mut Mcp, call: u64| -> Value {
        let Answer { text, is_error } = client.plain_answer(call);
        assert!(!is_error, "{text}");
        serde_json::from_str(&text).unwrap()
    };
    // Far less than without a timeout, and far less than with the longest.
    let bound = Duration::from_secs(15);
    soon("an answer after 100 ms", bound, || {
        let waiting = wait(&mut client, 0, 100);
        assert_eq!(answer(&mut client, waiting)["output"], json!([]));
    });
    let waiting = wait(&mut client, 0, 45_000);
    go("one");
    home.wait_for_output(&id, "half");
    assert!(!client.is_answered(waiting), "half a line is not told");
    assert_eq!(output(&mut client, &id, json!({}))["partial"], json!(["half"]), "whoever looks sees it");
    let gone_on = Instant::now();
    go("two");
    let told = answer(&mut client, waiting);
    assert_eq!((contents(&told), &told["status"]), (vec!["half whole".to_owned()], &json!("running")));
    assert!(gone_on.elapsed() < bound, "the line has woken it, not its time");
    let waiting = wait(&mut client, 1, 45_000);
    let given_up = wait(&mut client, 1, 45_000);
    client.cancel(given_up);
    assert!(!client.is_answered(waiting));
    let gone_on = Instant::now();
    go("three");
    let told = answer(&mut client, waiting);
    assert_eq!(
        (contents(&told), &told["status"], &told["afterLine"]),
        (Vec::new(), &json!("stopped"), &json!(1))
    );
    assert!(gone_on.elapsed() < bound, "so has the end");
    proves!("S0-8");
    assert_eq!(client.end(), 0);
}

/// Sessions of the same name of two projects are two; `--all-sessions` sees all.
#[test]
fn projects_have_sessions_of_their_own() {
    let home = Home::new();
    let directories = ["one", "two"].map(|name| home.make_dir(name));
    let started = directories.clone().map(|directory| {
        let mut client = server_in(&home, &[], &directory);
        call(&mut client, "create_shell_session", json!({"name": "dev"}));
        let arguments = json!({"command": "pwd; exec sleep 300", "session": "dev"});
        let id = start(&mut client, arguments);
        let said = contents(&next_output(&mut client, &id, 0));
        assert_eq!(said, [directory.to_str().unwrap()]);
        assert_eq!(ids(&mut client), std::slice::from_ref(&id));
        id
    });
    let mut first = server_in(&home, &[], &directories[0]);
    for (tool, word) in
        [("get_process_output", "output"), ("kill_process", "killed"), ("stream_process_output", "output")]
    {
        let error = refusal(&mut first, tool, json!({"processId": started[1]}));
        assert_eq!(error, format!("Process '{}' not found", started[1]), "{word}");
    }
    let foreign = home.show(&started[1])["session"].as_str().unwrap().to_owned();
    for tool in ["list_processes", "close_shell_session"] {
        let error = refusal(&mut first, tool, json!({"session": foreign}));
        assert_eq!(error, format!("Session '{foreign}' not found"));
    }
    let closed = call(&mut first, "close_shell_session", json!({"session": "dev", "running": "kill"}));
    assert_eq!(closed["killed"], json!([started[0]]));
    proves!("S0-105");
    let status = [&started[0], &started[1]].map(|id| home.show(id)["status"].clone());
    assert_eq!(status, ["killed", "running"], "only what is of the session");
    proves!("S0-6", "S0-121");
    let cli = home.start(["sleep", "300"]);
    let mut all = server_in(&home, &["--all-sessions"], &directories[0]);
    assert_eq!(ids(&mut all), [cli.clone(), started[1].clone(), started[0].clone()]);
    let rows = list(&mut all, json!({"session": foreign}));
    assert_eq!(
        (rows.len(), &rows[0]["id"], &rows[0]["sessionName"]),
        (1, &json!(started[1]), &json!(foreign))
    );
    proves!("S0-11");
    assert_eq!(kill(&mut all, &cli, json!({}))["killed"], true);
    assert_eq!(kill(&mut all, &started[1], json!({}))["killed"], true);
}

/// A session with running processes is only closed with a choice; what is transferred goes on, also for a server that
/// comes later.
#[test]
fn no_process_is_orphaned_by_closing_a_session() {
    let home = Home::new();
    let mut client = server(&home);
    call(&mut client, "create_shell_session", json!({"name": "dev", "env": {"PORT": "1"}}));
    let first = start(&mut client, json!({"command": "exec sleep 300", "session": "dev"}));
    let second = start(&mut client, json!({"command": "exec sleep 300", "session": "dev"}));
    let counts = |client: &mut Mcp| -> Vec<(Value, Value)> {
        let listed = call(client, "list_shell_sessions", json!({}));
        let rows = listed["sessions"].as_array().unwrap().iter();
        rows.map(|row| (row["name"].clone(), row["backgroundProcesses"].clone())).collect()
    };
    assert_eq!(counts(&mut client), [(json!("default"), json!(0)), (json!("dev"), json!(2))]);
    let error = refusal(&mut client, "close_shell_session", json!({"session": "dev"}));
    assert!(error.starts_with("Session 'dev' has 2 running background processes:\n"), "{error}");
    assert!(error.contains(&first) && error.contains(&second) && error.contains("transfer"), "{error}");
    proves!("S0-104");
    let running = list(&mut client, json!({"session": "dev", "status": "running"}));
    assert_eq!(running.len(), 2, "asking has changed nothing");
    proves!("S0-106");
    let closed = call(&mut client, "close_shell_session", json!({"session": "dev", "running": "transfer"}));
    assert_eq!(closed["transferred"], json!([first, second]));
    client.kill();
    let mut client = server(&home);
    let rows = list(&mut client, json!({"session": "default", "status": "running"}));
    assert_eq!(rows.iter().map(|row| row["id"].clone()).collect::<Vec<_>>(), [json!(second), json!(first)]);
    proves!("S0-105");
    assert_eq!(counts(&mut client), [(json!("default"), json!(2))]);
    proves!("S0-107", "S0-121");
    // The name can be used again, and nothing of what was said of it is left.
    call(&mut client, "create_shell_session", json!({"name": "dev"}));
    let arguments = json!({"command": "echo \"[$PORT]\"", "session": "dev"});
    assert_eq!(call(&mut client, "run_command", arguments)["stdout"], "[]");
    for id in [first, second] {
        assert_eq!(kill(&mut client, &id, json!({}))["killed"], true);
    }
}

/// Each session tells how many processes it has, and what they use of processor, memory and room for output.
#[test]
fn sessions_tell_what_is_used() {
    let home = Home::new();
    let mut client = server(&home);
    for name in ["busy", "calm"] {
        call(&mut client, "create_shell_session", json!({"name": name}));
    }
    let over = start(&mut client, json!({"command": "echo over"}));
    ended(&mut client, &over);
    for _ in 0..2 {
        let line = "printf '%300s\\n' z; exec sleep 300";
        let id = start(&mut client, json!({"command": line, "session": "calm"}));
        next_output(&mut client, &id, 0);
    }
    let program =
        "import sys\nkept = bytearray(b'x' * 40000000)\nprint('y' * 5000, flush=True)\nwhile True: pass";
    let begun = Instant::now();
    let id =
        start(&mut client, json!({"command": "exec python3", "args": ["-c", program], "session": "busy"}));
    next_output(&mut client, &id, 0);
    let up = Instant::now();
    // Of one thread, processor time is at most the time that has passed; the clocks are not the same to the millisecond.
    let most = |since: Instant| u64::try_from(since.elapsed().as_millis()).unwrap() + 100;
    let mut sessions = Value::Null;
    until("it has used a while of the processor", || {
        sessions = call(&mut client, "list_shell_sessions", json!({}));
        sessions["sessions"][1]["resourceUsage"]["cpuMs"].as_u64() >= Some(300)
    });
    let rows = sessions["sessions"].as_array().unwrap();
    let told = |field: &str| rows.iter().map(|row| row[field].clone()).collect::<Vec<_>>();
    let used = |field: &str| -> Vec<u64> {
        rows.iter().map(|row| row["resourceUsage"][field].as_u64().unwrap()).collect()
    };
    assert_eq!(
        (told("name"), told("backgroundProcesses")),
        (vec![json!("default"), json!("busy"), json!("calm")], vec![json!(0), json!(1), json!(2)])
    );
    let processor = used("cpuMs");
    assert!(processor[0] == 0 && processor[1] <= most(begun) && processor[2] < 150, "{sessions}");
    proves!("S0-127");
    let memory = used("memoryBytes");
    assert!(memory[0] == 0 && (40_000_000..200_000_000).contains(&memory[1]), "{sessions}");
    assert!((1..20_000_000).contains(&memory[2]), "{sessions}");
    proves!("S0-126", "S0-136");
    assert_eq!((used("processes"), used("outputBytes")), (vec![0, 1, 2], vec![5, 5001, 602]));
    proves!("S0-108");
    assert_eq!(sessions["totalOutputBytes"], 5 + 5001 + 602);
    proves!("S0-101");
    let least = u64::try_from(up.elapsed().as_millis()).unwrap();
    let row = list(&mut client, json!({"session": "busy"}))[0].clone();
    let (runtime, own) = (row["runtime"].as_u64().unwrap(), &row["resourceUsage"]);
    assert!(least <= runtime + 100 && runtime <= most(begun), "{least} {row} {}", most(begun));
    assert!((300..=most(begun)).contains(&own["cpuMs"].as_u64().unwrap()), "{row}");
    assert!((40_000_000..200_000_000).contains(&own["memoryBytes"].as_u64().unwrap()), "{row}");
    assert_eq!((&row["status"], &own["processes"]), (&json!("running"), &json!(1)));
    proves!("S0-3", "S0-59");
    kill(&mut client, &id, json!({"force": true}));
    let listed = call(&mut client, "list_shell_sessions", json!({}));
    let busy = &listed["sessions"][1];
    assert_eq!((&busy["backgroundProcesses"], &busy["resourceUsage"]["memoryBytes"]), (&json!(0), &json!(0)));
    call(&mut client, "close_shell_session", json!({"session": "calm", "running": "kill"}));
}

/// All that is known of a process is in the store, where the command line has it by the same id.
#[test]
fn a_process_is_the_same_for_the_command_line() {
    let home = Home::new();
    let mut client = server(&home);
    let go = home.path().join("go");
    let line = format!("echo seen $$; until [ -e {} ]; do sleep 0.01; done; exit", go.display());
    let arguments = json!({"command": line, "args": ["7"], "cwd": "/usr", "env": {"PORT": "3000"}});
    // Told in whole milliseconds.
    let millis = || u64::try_from(since_1970().as_millis()).unwrap();
    let before = millis();
    let started = call(&mut client, "run_background", arguments);
    let begun = millis();
    let id = started["processId"].as_str().unwrap();
    next_output(&mut client, id, 0);
    let printed = format!("seen {}\n", started["pid"].as_u64().unwrap());
    assert_eq!(home.logs(id), printed.as_bytes(), "also while it runs");
    proves!("S0-45");
    let row = list(&mut client, json!({}))[0].clone();
    let shown = home.show(id);
    assert_eq!((&shown["job"], &shown["pid"]), (&started["processId"], &started["pid"]));
    assert_eq!(row["pid"], started["pid"]);
    proves!("S0-14", "S0-56");
    assert_eq!((&shown["status"], &row["status"]), (&json!("running"), &json!("running")));
    until("its end is told from its start", || millis() >= begun + 50);
    let released = millis();
    std::fs::write(&go, "").unwrap();
    ended(&mut client, id);
    let now = millis();
    let row = list(&mut client, json!({}))[0].clone();
    // By itself, without a server.
    assert_eq!(client.end(), 0);
    let shown = home.show(id);
    assert_eq!(
        (&shown["exit_code"], &shown["status"], &row["status"]),
        (&json!(7), &json!("failed"), &json!("failed"))
    );
    proves!("S0-15");
    assert_eq!((&shown["cwd"], &shown["command"]), (&json!("/usr"), &json!(format!("{line} 7"))));
    proves!("S0-20");
    assert_eq!((&row["command"], &row["args"]), (&json!(line), &json!(["7"])));
    proves!("S0-12", "S0-54", "S0-55");
    let time = |field: &str| Timestamp::parse(row[field].as_str().unwrap()).unwrap().0 / 1000;
    assert!((before..=begun).contains(&time("startTime")), "{before} {row} {begun}");
    assert_eq!(shown["started_at"], row["startTime"]);
    proves!("S0-16", "S0-58");
    assert!((released..=now).contains(&time("endTime")), "{released} {row} {now}");
    assert_eq!(shown["ended_at"], row["endTime"]);
    proves!("S0-17", "S0-92");
    assert_eq!(shown["runtime_ms"], row["runtime"]);
    // Each is cut to the millisecond.
    let least = released - begun - 1;
    assert!((least..=now - before + 1).contains(&row["runtime"].as_u64().unwrap()), "{row}");
    proves!("S0-59");
    let spec: Value =
        serde_json::from_slice(&std::fs::read(home.job_dir(id).join("spec.json")).unwrap()).unwrap();
    assert_eq!((&spec["env_set"], &spec["words"]), (&json!({"PORT": "3000"}), &json!([line, "7"])));
    proves!("S0-13", "S0-21");
    assert_eq!((&spec["window_lines"], &spec["session"]), (&json!(300), &shown["session"]));
    assert_eq!(home.logs(id), printed.as_bytes());
    instead!("S0-141");
}

/// The shell is zsh where the machine has one, else what the engine takes.
#[test]
fn the_shell_is_zsh_where_there_is_one() {
    let home = Home::new();
    let mut client = server(&home);
    let id = start(&mut client, json!({"command": "cat /proc/$$/cmdline | tr '\\0' ' '; :"}));
    let line = contents(&ended(&mut client, &id))[0].clone();
    let shell = line.split(' ').next().unwrap();
    if !Path::new("/bin/zsh").exists() {
        assert!(shell.ends_with("/bash") || shell.ends_with("/sh"), "{shell}");
        return lacks("zsh");
    }
    assert_eq!(shell, "/bin/zsh");
    proves!("S0-82");
}

/// Both tools take and refuse the same, and a command has the rights of its starter.
#[test]
fn commands_run_with_the_rights_of_the_user() {
    let home = Home::new();
    let mut client = server(&home);
    for arguments in [
        json!({}),
        json!({"command": ""}),
        json!({"command": "true", "args": [{}]}),
        json!({"command": "true", "cwd": "/nonexistent"}),
        json!({"command": "a\0b"}),
        json!({"command": "true", "args": ["x".repeat(300_000)]}),
        json!({"command": "true", "env": {"A=B": "c"}}),
    ] {
        let errors = ["run_background", "run_command"]
            .map(|tool| refusal(&mut client, tool, arguments.clone()).replace(tool, "TOOL"));
        assert_eq!(errors[0], errors[1]);
    }
    assert_eq!(ids(&mut client), Vec::<String>::new(), "what is refused leaves nothing");
    proves!("S0-128");
    let line = "grep -E '^(Uid|Gid|CapEff|CapPrm|NoNewPrivs):' /proc/self/status";
    for user in User::all() {
        let home = Home::of(user);
        let mut client = server(&home);
        let own = finish(&home, line);
        // Root has nothing to gain; an ordinary user has.
        assert!(user == User::Myself || own.contains("\t65534\t"), "{own}");
        let id = start(&mut client, json!({"command": line}));
        assert_eq!(contents(&ended(&mut client, &id)).join("\n"), own);
        proves!("S0-130", "S0-131");
        assert_eq!(call(&mut client, "run_command", json!({"command": line}))["stdout"], own);
        proves!("S0-129");
    }
}

/// Runs a line as the tests' own user does.
fn finish(home: &Home, line: &str) -> String {
    let mut command = home.command("sh");
    command.args(["-c", line]);
    outlive_tests::finish(command, b"").ok().text().trim_end().to_owned()
}

/// A foreground command that is answered never was a background process; one that leaves something behind is one.
#[test]
fn foreground_commands_are_not_background_processes() {
    let home = Home::new();
    let mut client = server(&home);
    call(&mut client, "run_command", json!({"command": "echo hi"}));
    until("what was answered is not listed", || ids(&mut client).is_empty());
    call(&mut client, "run_command", json!({"command": "sleep 300 > /dev/null 2>&1 &"}));
    let rows = list(&mut client, json!({}));
    assert_eq!((rows.len(), &rows[0]["status"]), (1, &json!("stopped")));
    let id = rows[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(home.show(&id)["timeout_ms"], 30_000, "where the call does not say");
    let answer = kill(&mut client, &id, json!({}));
    assert_eq!(
        answer,
        json!({"processId": id, "previousStatus": "stopped", "newStatus": "stopped", "killed": true})
    );
    proves!("S0-78", "S0-79");
    // Not after the 30 seconds that it has without a timeout.
    let arguments = json!({"command": "exec sleep 300", "timeout": 100});
    let late: Value = serde_json::from_str(&refusal(&mut client, "run_command", arguments)).unwrap();
    assert_eq!((&late["exitCode"], &late["error"]), (&json!(-1), &json!("ETIMEDOUT")));
    assert!((100..15_000).contains(&late["duration"].as_u64().unwrap()), "{late}");
    instead!("S0-113");
    let answer =
        call(&mut client, "run_command", json!({"command": "yes x | head -n 1000000", "maxOutputLines": 2}));
    assert_eq!(answer["stdout"], "x\nx\n[... 999998 lines omitted ...]");
    assert_eq!(answer["truncation"]["stdout"]["totalLines"], 1_000_000);
}

/// The guide names every tool of the profile.
#[test]
fn the_guide_names_every_tool() {
    let home = Home::new();
    let mut client = server(&home);
    let listed = client.result("tools/list", json!({}));
    let guide =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/guide/profiles/macos-shell.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 9);
    for tool in tools {
        let name = tool["name"].as_str().unwrap();
        assert!(guide.contains(&format!("`{name}`")), "{name}");
        for parameter in tool["inputSchema"]["properties"].as_object().unwrap().keys() {
            assert!(guide.contains(&format!("`{parameter}`")), "{name} {parameter}");
        }
    }
    // Its example is calls as they can be made.
    let example = guide.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let calls =
        example.lines().filter_map(|line| line.split_once(" {").filter(|(tool, _)| !tool.starts_with(' ')));
    let called: Vec<&str> = calls
        .map(|(tool, arguments)| {
            let arguments = format!("{{{}}}", arguments.rsplit_once('}').unwrap().0);
            let arguments: Value = serde_json::from_str(&arguments).unwrap();
            let tool = tools.iter().find(|known| known["name"] == tool.trim_end()).unwrap();
            let known = |name: &String| tool["inputSchema"]["properties"].get(name).is_some();
            assert!(arguments.as_object().unwrap().keys().all(known), "{arguments}");
            tool["name"].as_str().unwrap()
        })
        .collect();
    let told = [
        "create_shell_session",
        "run_background",
        "stream_process_output",
        "get_process_output",
        "kill_process",
    ];
    assert_eq!(called, told);
    proves!("S0-163");
}

/// A process of days is as one of seconds: there is no time after which it is ended, and another front end takes it
/// over.
#[test]
fn nothing_ends_a_process_but_itself_or_somebody() {
    let home = Home::new();
    home.configure("[job]\ntimeout = \"1s\"\n");
    let mut client = server(&home);
    let id = start(&mut client, json!({"command": "exec sleep 300"}));
    let main = pid(&home.show(&id), "pid");
    let spec: Value =
        serde_json::from_slice(&std::fs::read(home.job_dir(&id).join("spec.json")).unwrap()).unwrap();
    assert_eq!(spec["timeout_ms"], Value::Null);
    // A server whose client is gone ends, and does not wait for it.
    assert_eq!(client.end(), 0);
    assert!(Stat::read(main).is_some_and(|stat| !stat.has_ended()));
    proves!("S0-86", "S0-165");
    let mut native = Mcp::start_with(&home, Era::Stateless, &["--all-sessions"], home.path());
    assert!(native.call("list_jobs", json!({})).ok().text.contains(&id));
    native.call("kill", json!({"job": id})).ok();
    let mut client = server(&home);
    assert_eq!(list(&mut client, json!({}))[0]["status"], "killed");
}

/// A project whose directory is gone is told so, and nothing is run elsewhere.
#[test]
fn nothing_runs_where_the_project_is_gone() {
    let home = Home::new();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let mut client = server_in(&home, &[], &project);
    let here = call(&mut client, "run_command", json!({"command": "pwd"}));
    assert_eq!(here["stdout"].as_str().unwrap().trim_end(), project.to_str().unwrap());
    std::fs::remove_dir(&project).unwrap();
    for tool in ["run_command", "run_background"] {
        let error = refusal(&mut client, tool, json!({"command": "pwd"}));
        assert!(error.contains(project.to_str().unwrap()), "{error}");
    }
}

/// A line has its number when it ends, and keeps it: reading on from a number misses nothing.
#[test]
fn what_is_unfinished_has_no_number_yet() {
    let home = Home::new();
    let mut client = server(&home);
    let line = "printf 'Password? '; until [ -e go ]; do sleep 0.01; done; echo wrong >&2; \
        until [ -e end ]; do sleep 0.01; done; printf 'again\\nlast'";
    let id = start(&mut client, json!({"command": line}));
    let mut read =
        |from: u64| call(&mut client, "get_process_output", json!({"processId": id, "fromLine": from}));
    let told = |answer: &Value| -> Vec<(u64, String)> {
        let lines = answer["output"].as_array().unwrap().iter();
        lines
            .map(|line| (line["lineNumber"].as_u64().unwrap(), line["content"].as_str().unwrap().to_owned()))
            .collect()
    };
    let go = |name: &str| std::fs::write(home.path().join(name), "").unwrap();
    until("it asks", || read(1)["partial"] == json!(["Password? "]));
    let asked = read(1);
    assert_eq!((told(&asked), &asked["totalLines"]), (Vec::new(), &json!(0)));
    go("go");
    until("it complains", || told(&read(1)) == [(1, "wrong".to_owned())]);
    assert_eq!(read(1)["partial"], json!(["Password? "]));
    go("end");
    until("it ends", || read(1)["status"] == "stopped");
    let rest = read(2);
    assert_eq!(told(&rest), [(2, "Password? again".to_owned()), (3, "last".to_owned())]);
    assert!(rest.get("partial").is_none(), "{rest}");
}
