//! The profile duragent.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outlive_tests::{
    Era, Home, Mcp, Terminal, instead, is_running, lacks, pid, proves, signal, soon, until, with_enough_time,
};
use serde_json::{Value, json};

use super::deepchat::{Talk, set_end_back, texts};

const MARK: &str = "[Background Process Completed]\n\n";

fn start(home: &Home, conversation: &str) -> Talk {
    Talk::start(home, "duragent", conversation)
}

/// Spawns without waiting; returns the handle, the pid, and whatever came beside the answer.
#[track_caller]
fn spawn(agent: &mut Talk, arguments: Value) -> (String, i32, Vec<String>) {
    let (mut texts, is_error) = agent.call("spawn_process", arguments);
    assert!(!is_error, "{texts:?}");
    let answer: Value = serde_json::from_str(&texts.remove(0)).unwrap();
    assert_eq!(answer["status"], "running");
    assert_eq!(answer.as_object().unwrap().len(), 3, "{answer}");
    (answer["handle"].as_str().unwrap().to_owned(), pid(&answer, "pid"), texts)
}

#[track_caller]
fn handle(agent: &mut Talk, command: &str) -> String {
    let (handle, _, messages) = spawn(agent, json!({"command": command}));
    assert_eq!(messages, Vec::<String>::new());
    handle
}

/// Returns what an action on a process answers.
#[track_caller]
fn act(agent: &mut Talk, action: &str, handle: &str) -> String {
    agent.text("process", json!({"action": action, "handle": handle}))
}

#[track_caller]
pub(super) fn write(agent: &mut Talk, handle: &str, input: &str) {
    let arguments = json!({"action": "write", "handle": handle, "input": input});
    let (texts, is_error) = agent.call("process", arguments);
    assert!(!is_error && texts == [format!("Wrote to {handle}")], "{texts:?}");
}

/// Lists processes until a message has come, and returns all that came with the same answer.
#[track_caller]
pub(super) fn messages(agent: &mut Talk) -> Vec<String> {
    let mut messages = Vec::new();
    until("a message comes", || {
        let (texts, is_error) = agent.call("process", json!({"action": "list"}));
        assert!(!is_error, "{texts:?}");
        messages = texts[1..].to_vec();
        !messages.is_empty()
    });
    messages
}

/// Asserts that nothing more is told, now and by another server of the same conversation.
#[track_caller]
fn assert_told_once(home: &Home, agent: &mut Talk, conversation: &str) {
    for _ in 0..2 {
        agent.text("process", json!({"action": "list"}));
    }
    start(home, conversation).text("process", json!({"action": "list"}));
}

pub(super) fn line_of<'a>(message: &'a str, name: &str) -> &'a str {
    let begin = format!("{name}: ");
    let line = message.lines().find_map(|line| line.strip_prefix(&begin));
    line.unwrap_or_else(|| panic!("no {name} in {message}"))
}

fn file(home: &Home, handle: &str, kind: &str) -> PathBuf {
    home.path().join(format!(".duragent/processes/{handle}.{kind}"))
}

fn meta(home: &Home, handle: &str) -> Value {
    serde_json::from_slice(&fs::read(file(home, handle, "meta.json")).unwrap()).unwrap()
}

/// Returns which file the snapshot of a process is.
fn inode(home: &Home, handle: &str) -> u64 {
    fs::metadata(file(home, handle, "meta.json")).unwrap().ino()
}

fn has_python(home: &Home) -> bool {
    let has_python = home.command("python3").arg("--version").output().is_ok();
    if !has_python {
        lacks("python3, for real programs");
    }
    has_python
}

/// All of both tools: parameters and defaults, every action, every message and error, all of it without tmux.
#[test]
fn the_dialogue_is_as_the_design_has_it() {
    super::dialogue("duragent");
}

/// Work is delegated to a program; the call returns when that is done, with its whole result, and the agent reads
/// what was changed.
#[test]
fn scenario_1_simple_delegation() {
    let home = Home::new();
    if !has_python(&home) {
        return;
    }
    let mut agent = start(&home, "a");
    fs::write(home.path().join("api.py"), "def create(name):\n    return {'name': name}\n").unwrap();
    // Stands in for a coding agent: it reads, edits and reports in JSON.
    let program = "import json\n\
        text = open('api.py').read()\n\
        head, body = text.split('\\n', 1)\n\
        check = \"    if not name:\\n        raise ValueError('name')\\n\"\n\
        open('api.py', 'w').write(head + '\\n' + check + body)\n\
        print(json.dumps({'type': 'result', 'changed': ['api.py'], 'summary': 'validates name'}))\n";
    fs::write(home.path().join("coder.py"), program).unwrap();
    let arguments = json!({"command": "python3 coder.py", "wait": true, "label": "add-validation"});
    let result = agent.json("spawn_process", arguments);
    assert_eq!((&result["status"], &result["exit_code"]), (&json!("completed"), &json!(0)));
    let report: Value = serde_json::from_str(result["output"].as_str().unwrap()).unwrap();
    assert_eq!(report["changed"], json!(["api.py"]));
    proves!("S3-8");
    assert!(fs::read_to_string(home.path().join("api.py")).unwrap().contains("raise ValueError"));
    proves!("S3-2", "S3-24");
    // It would have had half an hour for it.
    let listed = act(&mut agent, "list", "");
    let handle = listed.split(' ').nth(1).unwrap();
    let status: Value = serde_json::from_str(&act(&mut agent, "status", handle)).unwrap();
    assert_eq!((&status["label"], &status["timeout_seconds"]), (&json!("add-validation"), &json!(1800)));
    assert_eq!(home.show(handle)["timeout_ms"], 1_800_000, "the job has it, too");
    proves!("S3-4", "S3-81");
    assert_told_once(&home, &mut agent, "a");
}

/// A whole test suite runs while the agent goes on; its end is told with what failed, without being asked for, and
/// once.
#[test]
fn scenario_2_fire_and_forget() {
    let home = Home::new();
    if !has_python(&home) {
        return;
    }
    let mut agent = start(&home, "a");
    let suite = "import unittest, sys\n\
        class Suite(unittest.TestCase):\n\
        \x20   def setUp(self):\n\
        \x20       Suite.go = getattr(Suite, 'go', None) or sys.stdin.readline()\n\
        \x20   def test_adds(self):\n\
        \x20       self.assertEqual(1 + 1, 2)\n\
        \x20   def test_breaks(self):\n\
        \x20       self.assertEqual(1 + 1, 3)\n";
    fs::write(home.path().join("test_suite.py"), suite).unwrap();
    let arguments =
        json!({"command": "python3 -m unittest -v test_suite", "label": "full-test-suite", "wait": false});
    let (handle, pid, messages_before) = spawn(&mut agent, arguments);
    assert!(handle.starts_with("proc-") && is_running(pid));
    proves!("S3-9");
    assert_eq!(messages_before, Vec::<String>::new());
    assert_eq!(
        act(&mut agent, "list", ""),
        format!("- {handle} | python3 -m unittest -v test_suite | running | full-test-suite")
    );
    write(&mut agent, &handle, "go\n");
    let told = messages(&mut agent);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("{MARK}Handle: {handle}\nLabel: full-test-suite\n")), "{}", told[0]);
    proves!("S3-30", "S3-62", "S3-92");
    assert_eq!(line_of(&told[0], "Exit code"), "1");
    assert_eq!(home.show(&handle)["timeout_ms"], 1_800_000, "it has half an hour");
    assert!(
        told[0].contains("FAIL: test_breaks") && told[0].ends_with("FAILED (failures=1)\n"),
        "{}",
        told[0]
    );
    proves!("S3-5", "S3-24");
    assert_told_once(&home, &mut agent, "a");
}

/// A handle comes at once, however long the process runs, and is a short one.
#[test]
fn a_spawn_without_wait_answers_at_once() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let handles =
        [json!({"command": "exec sleep 1000"}), json!({"command": "exec sleep 1000", "wait": false})].map(
            |arguments| {
                let spawned = || spawn(&mut agent, arguments.clone());
                let (handle, pid, _) = soon("a spawn without wait", Duration::from_secs(1), spawned);
                assert!(is_running(pid));
                handle
            },
        );
    proves!("S3-9", "S3-62", "S3-86");
    for handle in &handles {
        let id = handle.strip_prefix("proc-").unwrap_or_else(|| panic!("{handle}"));
        assert!(
            id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()),
            "{id}"
        );
    }
    assert_ne!(handles[0], handles[1]);
    proves!("S3-48");
}

/// Three at the same time; the end of each is told as it comes, whichever comes first.
#[test]
fn scenario_3_parallel_agents() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let issues = ["12", "13", "14"];
    let handles = issues.map(|issue| {
        let command = format!("read go; echo fixed issue {issue}; exit $go");
        let (handle, _, messages) =
            spawn(&mut agent, json!({"command": command, "label": format!("issue-{issue}")}));
        assert_eq!(messages, Vec::<String>::new());
        handle
    });
    for (at, code) in [(1, "0"), (2, "4"), (0, "0")] {
        write(&mut agent, &handles[at], &format!("{code}\n"));
        let told = messages(&mut agent);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(line_of(&told[0], "Handle"), handles[at]);
        assert_eq!(line_of(&told[0], "Label"), format!("issue-{}", issues[at]));
        assert_eq!(line_of(&told[0], "Exit code"), code);
        assert!(told[0].ends_with(&format!("fixed issue {}\n", issues[at])), "{}", told[0]);
    }
    proves!("S3-6", "S3-7", "S3-11");
    assert_told_once(&home, &mut agent, "a");
}

/// A build is started and watched; what is to follow its success is done once that is told.
#[test]
fn a_build_is_monitored_and_then_deployed() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let script =
        "for step in compile link package; do echo \"step $step\"; read go; done; echo built > artefact";
    fs::write(home.path().join("build.sh"), script).unwrap();
    let build = handle(&mut agent, "sh build.sh");
    for step in ["compile", "link", "package"] {
        until("the build goes on", || act(&mut agent, "log", &build).ends_with(&format!("step {step}\n")));
        assert!(!home.path().join("artefact").exists());
        write(&mut agent, &build, "\n");
    }
    let told = messages(&mut agent);
    assert_eq!(line_of(&told[0], "Exit code"), "0");
    let deploy =
        json!({"command": "mkdir deployed && cp artefact deployed/ && cat deployed/artefact", "wait": true});
    let result = agent.json("spawn_process", deploy);
    assert_eq!((&result["status"], &result["output"]), (&json!("completed"), &json!("built\n")));
    proves!("S3-1", "S3-7");
}

/// The message to the letter, with the last 2,000 characters of what was printed.
#[test]
fn the_message_has_the_last_two_thousand_characters() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let command = "i=0; while [ $i -lt 3000 ]; do printf 'é%05d\\n' $i; i=$((i+1)); done; read x; exit 9";
    let (handle, _, _) = spawn(&mut agent, json!({"command": command, "label": "many"}));
    until("it has run for a while", || home.show(&handle)["runtime_ms"].as_u64() > Some(1200));
    write(&mut agent, &handle, "\n");
    let told = messages(&mut agent).remove(0);
    let seconds = home.show(&handle)["runtime_ms"].as_u64().unwrap() / 1000;
    let all: String = (0..3000).map(|number| format!("é{number:05}\n")).collect();
    let tail: String = all.chars().skip(all.chars().count() - 2000).collect();
    let duration = match seconds {
        0..60 => format!("{seconds}s"),
        _ => format!("{}m {}s", seconds / 60, seconds % 60),
    };
    let expected = format!(
        "[Background Process Completed]\n\nHandle: {handle}\nLabel: many\nCommand: {command}\nExit code: 9\n\
         Duration: {duration}\n\nOutput (last 2000 chars):\n{tail}"
    );
    assert_eq!(told, expected);
    proves!("S3-31", "S3-34", "S3-35", "S3-36");
}

/// What a call has waited for is told by its answer and by no message, and what ended meanwhile comes beside it.
#[test]
fn no_message_follows_what_was_waited_for() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let other = handle(&mut agent, "read x; echo other");
    // The process that is waited for lets the other end, and waits for that as another reader.
    let ends_other = format!("outlive send {other} go && outlive wait --reader nobody {other}; echo waited");
    let (texts, is_error) = agent.call("spawn_process", json!({"command": ends_other, "wait": true}));
    assert!(!is_error, "{texts:?}");
    let result: Value = serde_json::from_str(&texts[0]).unwrap();
    assert!(
        result.get("handle").is_none() && result["output"].as_str().unwrap().ends_with("waited\n"),
        "{result}"
    );
    let mut told = texts[1..].to_vec();
    if told.is_empty() {
        told = messages(&mut agent);
    }
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(line_of(&told[0], "Handle"), other);
    proves!("S3-33");
    assert_told_once(&home, &mut agent, "a");
}

/// A caller that stops waiting loses nothing: the process goes on, and its message comes.
#[test]
fn a_cancelled_wait_ends_nothing() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let asked = agent.0.send_call("spawn_process", json!({"command": "read x; exit 6", "wait": true}));
    let mut listed = Value::Null;
    until("it runs", || {
        listed = home.json(["list", "--live"]);
        listed.as_array().is_some_and(|jobs| jobs.len() == 1)
    });
    let handle = listed[0]["job"].as_str().unwrap().to_owned();
    agent.0.cancel(asked);
    write(&mut agent, &handle, "\n");
    let told = messages(&mut agent);
    assert_eq!((line_of(&told[0], "Handle"), line_of(&told[0], "Exit code")), (handle.as_str(), "6"));
}

/// The files of a process are where that design has them, whole at any moment, and true whether a server lives or
/// not. The command as it was given is in a third one beside them.
#[test]
fn files_are_true_with_no_server_alive() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let command = "echo one; read x; printf 'tw\\377\\033[1m\\n' >&2; sleep 0.2; exit 3";
    let now = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_micros()).unwrap()
    };
    let before = now();
    let (handle, pid, _) = spawn(&mut agent, json!({"command": command, "label": "files"}));
    let (running, first) = (meta(&home, &handle), inode(&home, &handle));
    assert_eq!((&running["status"], &running["command"]["pid"]), (&json!("running"), &json!(pid)));
    assert_eq!(running["command_line"], command);
    let started = running["started_us"].as_u64().unwrap();
    assert!((before..=now()).contains(&started) && running["outcome"].is_null(), "{before} {running}");
    instead!("S3-18");
    let spec: Value = serde_json::from_slice(&fs::read(file(&home, &handle, "spec.json")).unwrap()).unwrap();
    assert_eq!((&spec["shell_line"], &spec["name"]), (&json!(command), &json!("files")));
    let let_go = now();
    write(&mut agent, &handle, "\n");
    agent.0.kill();
    let mut states = Vec::new();
    until("its end is in the file", || {
        // Parsed at every look: it is never half written.
        let status = meta(&home, &handle)["status"].as_str().unwrap().to_owned();
        states.push(status.clone());
        status != "running"
    });
    states.dedup();
    assert!(states.ends_with(&["failed".to_owned()]) && states.len() <= 2, "{states:?}");
    proves!("S3-70");
    assert_ne!(inode(&home, &handle), first, "it was renamed into its place");
    proves!("S3-71");
    let ended = meta(&home, &handle);
    let time = ended["outcome"]["ended_us"].as_u64().unwrap();
    assert!((let_go..=now()).contains(&time) && ended["started_us"] == started, "{let_go} {ended}");
    assert_eq!((&ended["command_line"], &ended["command"]["pid"]), (&json!(command), &json!(pid)));
    assert_eq!((&running["status"], &ended["status"]), (&json!("running"), &json!("failed")));
    proves!("S3-64");
    assert_eq!(fs::read(file(&home, &handle, "log")).unwrap(), b"one\ntw\xff\x1b[1m\n", "as it was printed");
    proves!("S3-63");
}

/// Where the files cannot be made the process starts all the same, and files of others are left as they are.
#[test]
fn files_that_cannot_be_made_hinder_nothing() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    fs::write(home.path().join(".duragent"), "mine").unwrap();
    let (texts, is_error) = agent.call("spawn_process", json!({"command": "echo ran", "wait": true}));
    assert!(!is_error && texts[0].contains("ran\\n"), "{texts:?}");
    let line = act(&mut agent, "list", "");
    let handle = line.split(' ').nth(1).unwrap();
    let status: Value = serde_json::from_str(&act(&mut agent, "status", handle)).unwrap();
    assert_eq!(fs::read_to_string(status["log_path"].as_str().unwrap()).unwrap(), "ran\n");
    assert_eq!(fs::read_to_string(home.path().join(".duragent")).unwrap(), "mine");
}

/// What ended half an hour ago is removed with its files, once its end was told; what runs or is untold stays, and so
/// does what is not this design's.
#[test]
fn ended_processes_go_after_half_an_hour() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let half_an_hour = Duration::from_secs(30 * 60);
    let waited = |agent: &mut Talk| {
        let before = act(agent, "list", "");
        agent.json("spawn_process", json!({"command": "echo x", "wait": true}));
        let after = act(agent, "list", "");
        let new = after.lines().find(|line| !before.contains(line)).unwrap().to_owned();
        new.split(' ').nth(1).unwrap().to_owned()
    };
    let lost = handle(&mut agent, "exec sleep 1000");
    let main = home.orphan(&lost);
    signal(main, "KILL");
    until("it is gone", || !is_running(main));
    assert_eq!(line_of(&messages(&mut agent)[0], "Handle"), lost);
    let [asked, listed, young] = [(); 3].map(|()| waited(&mut agent));
    let running = handle(&mut agent, "read x");
    let others = home.start_with(&["--session", "a"], ["true"]);
    home.wait(&others);
    for old in [&lost, &asked, &listed, &others] {
        set_end_back(&home, old, half_an_hour);
    }
    set_end_back(&home, &young, half_an_hour - Duration::from_secs(60));
    fs::write(file(&home, "notes", "log"), "mine").unwrap();

    let refused = agent.refusal("process", json!({"action": "status", "handle": asked}));
    assert_eq!(refused, format!("process not found: {asked}"));
    let kinds = ["log", "meta.json", "spec.json"];
    assert!(kinds.iter().all(|kind| fs::symlink_metadata(file(&home, &asked, kind)).is_err()));
    assert!(!home.job_dir(&asked).exists());
    let list = act(&mut agent, "list", "");
    assert!(
        !list.contains(&lost)
            && !list.contains(&listed)
            && [&young, &running, &others].iter().all(|id| list.contains(*id)),
        "{list}"
    );
    assert!(kinds.iter().all(|kind| fs::symlink_metadata(file(&home, &listed, kind)).is_err()));
    proves!("S3-80");
    assert!(file(&home, &young, "log").is_file() && file(&home, &running, "log").is_file());

    // The end of this one was not told: the next call tells it before it is removed.
    write(&mut agent, &running, "\n");
    agent.0.kill();
    until("it ends", || meta(&home, &running)["status"] == "completed");
    proves!("S3-70");
    set_end_back(&home, &running, half_an_hour);
    let mut next = start(&home, "a");
    let told = messages(&mut next);
    assert_eq!(line_of(&told[0], "Handle"), running);
    let list = act(&mut next, "list", "");
    assert!(!list.contains(&running), "{list}");
    instead!("S3-79");
    // The files of what another front end removes go, too; what is not ours stays.
    home.run(["rm", &young]).ok();
    act(&mut next, "list", "");
    assert!(kinds.iter().all(|kind| fs::symlink_metadata(file(&home, &young, kind)).is_err()));
    assert_eq!(fs::read_to_string(file(&home, "notes", "log")).unwrap(), "mine");
}

/// A server that is killed takes nothing along. The next one knows what runs and goes on with it, tells of what ended
/// meanwhile, and of nothing twice.
#[test]
fn processes_are_there_after_a_crash_of_the_server() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let (goes_on, main, _) = spawn(&mut agent, json!({"command": "echo before; read x; echo \"after $x\""}));
    let ends = handle(&mut agent, "read x; echo \"last words\"; exit 8");
    let told_already = handle(&mut agent, "read x; exit 5");
    write(&mut agent, &told_already, "\n");
    assert_eq!(line_of(&messages(&mut agent)[0], "Handle"), told_already);
    // Settled: what the client has was noted.
    act(&mut agent, "list", "");
    agent.0.kill();
    home.run(["send", &ends, "go"]).ok();
    until("one ends while no server is there", || meta(&home, &ends)["status"] == "failed");
    assert!(is_running(main));

    // Neither the files of the design nor tmux are there to be asked.
    fs::rename(home.path().join(".duragent"), home.path().join("moved away")).unwrap();
    let mut next = Talk::start_with(&home, "duragent", "a", &[("PATH", "/nonexistent")]);
    let told = messages(&mut next);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((line_of(&told[0], "Handle"), line_of(&told[0], "Exit code")), (ends.as_str(), "8"));
    assert!(told[0].ends_with("last words\n"), "{}", told[0]);
    proves!("S3-78");
    let status: Value = serde_json::from_str(&act(&mut next, "status", &goes_on)).unwrap();
    assert_eq!((&status["status"], &status["pid"]), (&json!("running"), &json!(main)));
    instead!("S3-17", "S3-18", "S3-73", "S3-74", "S3-77", "S3-96");
    write(&mut next, &goes_on, "the crash\n");
    let told = messages(&mut next);
    assert_eq!(line_of(&told[0], "Handle"), goes_on);
    assert!(told[0].ends_with("before\nafter the crash\n"), "{}", told[0]);
    proves!("S3-95");
    assert_told_once(&home, &mut next, "a");
}

/// A client that names no conversation is told after a crash, too: the project stands for the conversation.
#[test]
fn the_next_connection_of_a_project_hears_what_the_last_did_not() {
    let home = Home::new();
    let connect = || {
        let command = home.outlive(["mcp", "--profile", "duragent"]);
        Talk(Mcp::of(command, Era::Handshake, json!({}), &[]))
    };
    let mut agent = connect();
    let [seen, unseen] = [(); 2].map(|()| handle(&mut agent, "read x; exit 3"));
    write(&mut agent, &seen, "\n");
    assert_eq!(line_of(&messages(&mut agent)[0], "Handle"), seen);
    write(&mut agent, &unseen, "\n");
    agent.0.kill();
    let mut next = connect();
    assert_eq!(line_of(&messages(&mut next)[0], "Handle"), unseen);
    next.text("process", json!({"action": "list"}));
    connect().text("process", json!({"action": "list"}));
}

/// A process whose end was not seen is lost, with what it printed, and that is told, too.
#[test]
fn a_process_that_died_with_its_keeper_is_lost() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let lost = handle(&mut agent, "echo so far; exec sleep 1000");
    until("it prints", || act(&mut agent, "log", &lost) == "so far\n");
    agent.0.kill();
    let command = home.orphan(&lost);
    signal(command, "KILL");
    until("it is gone", || !is_running(command));
    let mut next = start(&home, "a");
    let told = messages(&mut next);
    assert_eq!(line_of(&told[0], "Handle"), lost);
    assert_eq!(line_of(&told[0], "Exit code"), "none (lost)");
    assert!(told[0].ends_with("so far\n"), "{}", told[0]);
    instead!("S3-76");
    assert!(act(&mut next, "list", "").contains(" | lost | "));
    assert_eq!(act(&mut next, "log", &lost), "so far\n");
    assert_eq!(meta(&home, &lost)["status"], "lost");
    proves!("S3-68", "S3-70");
}

/// A timeout asks first, forces after five seconds, reaches everything, and is told as what it is.
#[test]
fn a_timeout_asks_and_then_forces() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let stubborn = "setsid sh -c \"trap '' TERM; echo \\$\\$; while :; do sleep 1; done\" & \
                    trap 'echo asked' TERM; while :; do wait; done";
    // It must have said what it does with TERM before its time is over.
    with_enough_time(Duration::from_secs(1), |time| {
        let time = time.as_secs();
        let arguments = json!({"command": stubborn, "wait": true, "timeout_seconds": time});
        let result = agent.json("spawn_process", arguments);
        assert_eq!((&result["status"], &result["exit_code"]), (&json!("timed_out"), &Value::Null));
        let output = result["output"].as_str().unwrap();
        let child: i32 = output.lines().next()?.parse().ok()?;
        assert!(!is_running(child));
        output.contains("asked\n").then_some(())?;
        assert!(result["duration_seconds"].as_u64() >= Some(time + 5), "{result}");
        Some(())
    });
    proves!("S3-82", "S3-93");
    // Without being waited for, it is told by its message.
    let (late, _, _) = spawn(&mut agent, json!({"command": "sleep 1000", "timeout_seconds": 1}));
    let told = messages(&mut agent);
    assert_eq!(line_of(&told[0], "Handle"), late);
    assert_eq!(line_of(&told[0], "Exit code"), "none (timed out)");
}

/// A kill ends the whole tree, is a status of its own, and no message follows what the answer has told.
#[test]
fn a_kill_reaches_the_whole_tree() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let (tree, main, _) =
        spawn(&mut agent, json!({"command": "setsid sleep 1000 & echo $!; trap 'exit 0' TERM; wait; wait"}));
    let mut child = 0;
    until("its child is told", || {
        child = act(&mut agent, "log", &tree).trim().parse().unwrap_or(0);
        child > 0
    });
    assert_eq!(act(&mut agent, "kill", &tree), format!("Killed process {tree}"));
    assert!(!is_running(main) && !is_running(child));
    // Neither the kill nor the status takes the place of the message.
    assert_eq!(line_of(&messages(&mut agent)[0], "Handle"), tree);
    let status: Value = serde_json::from_str(&act(&mut agent, "status", &tree)).unwrap();
    assert_eq!(status["status"], "killed");
    proves!("S3-57");
    assert_told_once(&home, &mut agent, "a");
}

/// Processes of one conversation are not visible to another, and neither are their ends.
#[test]
fn conversations_are_apart() {
    let home = Home::new();
    let (mut one, mut other) = (start(&home, "one"), start(&home, "other"));
    let private = handle(&mut one, "read x; echo secret");
    assert_eq!(act(&mut other, "list", ""), "No background processes for this session.");
    let own = handle(&mut other, "read y");
    let (others, ones) = (
        format!("- {own} | read y | running | -"),
        format!("- {private} | read x; echo secret | running | -"),
    );
    assert_eq!((act(&mut one, "list", ""), act(&mut other, "list", "")), (ones, others.clone()));
    for action in ["status", "log", "capture", "send_keys", "write", "kill"] {
        let arguments = json!({"action": action, "handle": private, "keys": "n", "input": "no\n"});
        assert_eq!(other.refusal("process", arguments), format!("process not found: {private}"));
    }
    proves!("S3-20", "S3-51");
    write(&mut one, &private, "\n");
    assert_eq!(line_of(&messages(&mut one)[0], "Handle"), private);
    // With nothing beside it.
    assert_eq!(act(&mut other, "list", ""), others);
    proves!("S3-30", "S3-92");
}

/// Of a long result the end is shown, and said to be that; the log has all of it, in pages of lines.
#[test]
fn long_output_is_cut_in_the_result_and_whole_in_the_log() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let result =
        agent.json("spawn_process", json!({"command": "seq 1 5000; printf '\\377end'", "wait": true}));
    let all: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    let whole = format!("{all}\u{fffd}end");
    let output = result["output"].as_str().unwrap();
    let tail: String = whole.chars().skip(whole.chars().count() - 8192).collect();
    assert_eq!(output, format!("...\n{tail}"));
    let list = act(&mut agent, "list", "");
    let handle = list.split(' ').nth(1).unwrap().to_owned();
    let mut pages = String::new();
    loop {
        let offset = pages.lines().count();
        let page = agent
            .text("process", json!({"action": "log", "handle": handle, "offset": offset, "limit": 1234}));
        if page == "(no more output)" {
            break;
        }
        pages.push_str(&page);
        if !page.ends_with('\n') {
            break;
        }
    }
    assert_eq!(pages, whole);
    assert_eq!(act(&mut agent, "log", &handle), (1..=100).map(|n| format!("{n}\n")).collect::<String>());
}

/// What another front end starts is listed in this design's words; one without input has none to write to.
#[test]
fn jobs_of_others_are_processes_too() {
    let home = Home::new();
    let job = home.start_with(&["--session", "a", "--name", "nap"], ["sleep", "1000"]);
    let mut agent = start(&home, "a");
    assert_eq!(act(&mut agent, "list", ""), format!("- {job} | sleep 1000 | running | nap"));
    let refused = agent.refusal("process", json!({"action": "write", "handle": job, "input": "x"}));
    assert_eq!(refused, "process does not have stdin");
    assert_eq!(act(&mut agent, "kill", &job), format!("Killed process {job}"));
    assert_eq!(act(&mut agent, "list", ""), format!("- {job} | sleep 1000 | killed | nap"));
}

/// Of more than the cap the end is kept: lines keep their numbers, and the file leads to what there is.
#[test]
fn more_than_the_cap_keeps_its_lines_and_file() {
    let home = Home::new();
    home.configure("[job]\noutput_cap = \"64K\"\n");
    let mut agent = start(&home, "a");
    let long = handle(&mut agent, "seq 1 40000; read x");
    let last =
        |agent: &mut Talk| agent.text("process", json!({"action": "log", "handle": long, "offset": 39_998}));
    until("it has printed all", || last(&mut agent) == "39999\n40000\n");
    let status: Value = serde_json::from_str(&act(&mut agent, "status", &long)).unwrap();
    assert_eq!(status["log_path"], file(&home, &long, "log").to_str().unwrap());
    let kept = fs::read_to_string(file(&home, &long, "log")).unwrap();
    assert!(!kept.is_empty() && !kept.starts_with("1\n"), "{kept}");
    // A reader of what is gone is told where to go on, and does not get the same page again and again.
    let begin = act(&mut agent, "log", &long);
    let (mark, rest) = begin.split_once('\n').unwrap();
    // The first that is there may have lost its beginning.
    let gone = rest.lines().nth(1).unwrap().parse::<u64>().unwrap() - 2;
    assert_eq!(mark, format!("[{gone} lines are no longer kept: read from offset {gone}]"));
    let there = agent.text("process", json!({"action": "log", "handle": long, "offset": gone}));
    assert_eq!(there, rest);
}

/// A job of another profile is seen by a server that sees all sessions, in this design's words.
#[test]
fn sessions_of_another_profile_are_processes() {
    let home = Home::new();
    let mut chat = Talk::start(&home, "deepchat", "chat");
    let arguments = json!({"command": "sleep 1000", "description": "A long nap", "background": true});
    let id = chat.json("execute_command", arguments)["sessionId"].as_str().unwrap().to_owned();
    let command = home.outlive(["mcp", "--profile", "duragent", "--all-sessions"]);
    let mut agent = Talk(Mcp::of(command, Era::Handshake, json!({}), &[]));
    assert_eq!(act(&mut agent, "list", ""), format!("- {id} | sleep 1000 | running | A long nap"));
    assert_eq!(act(&mut agent, "kill", &id), format!("Killed process {id}"));
    let polled = chat.json("process", json!({"action": "poll", "sessionId": id}));
    assert_eq!(polled, json!({"status": "killed", "output": ""}));
}

/// Many calls at the same time each have their own process and answer, and every end is told once.
#[test]
fn calls_at_the_same_time_do_not_mix() {
    let home = Home::new();
    let mut agent = start(&home, "a");
    let run =
        |number: usize| json!({"command": format!("echo {number}; exit {number}"), "wait": number % 2 == 1});
    let asked: Vec<u64> = (0..12).map(|number| agent.0.send_call("spawn_process", run(number))).collect();
    let (mut expected, mut told) = (Vec::new(), Vec::new());
    for (number, asked) in asked.into_iter().enumerate() {
        let (mut answer, is_error) = texts(&agent.0.answer(asked)["result"]);
        assert!(!is_error, "{answer:?}");
        let result: Value = serde_json::from_str(&answer.remove(0)).unwrap();
        told.extend(answer);
        if number % 2 == 1 {
            let found = (&result["exit_code"], &result["output"]);
            assert_eq!(found, (&json!(number), &json!(format!("{number}\n"))));
        } else {
            expected.push(result["handle"].as_str().unwrap().to_owned());
        }
    }
    while told.len() < expected.len() {
        told.extend(messages(&mut agent));
    }
    let mut handles: Vec<String> = told.iter().map(|told| line_of(told, "Handle").to_owned()).collect();
    handles.sort();
    expected.sort();
    assert_eq!(handles, expected);
    assert_told_once(&home, &mut agent, "a");
}

/// A program that asks, and ends with the second line that it gets.
pub(super) const ASKS: &str = "printf 'Delete the file? [y/N] '; read -r answer; echo \"answer: $answer\"; read -r more; echo \"more: $more\"; exit 4";

/// Captures the screen until it has this text.
#[track_caller]
pub(super) fn shows(agent: &mut Talk, handle: &str, text: &str) {
    until(&format!("the screen has {text:?}"), || act(agent, "capture", handle).contains(text));
}

#[track_caller]
pub(super) fn send_keys(agent: &mut Talk, handle: &str, keys: &str) {
    let sent = agent.text("process", json!({"action": "send_keys", "handle": handle, "keys": keys}));
    assert_eq!(sent, format!("Sent keys to {handle}"));
}

/// A program that asks runs in a terminal that a session of tmux shows. The agent reads its screen and answers; a
/// person attaches, watches and leaves, and the agent goes on.
#[test]
fn a_process_in_tmux_is_watched_and_answered() {
    let home = Home::new();
    let sockets = home.path().to_str().unwrap();
    let mut agent = Talk::start_with(&home, "duragent", "a", &[("TMUX_TMPDIR", sockets)]);
    let answer = agent.json("spawn_process", json!({"command": ASKS, "label": "asks", "tmux": true}));
    let handle = answer["handle"].as_str().unwrap().to_owned();
    let session = format!("duragent-{handle}");
    assert_eq!((&answer["status"], &answer["tmux_session"]), (&json!("running"), &json!(session)));
    proves!("S3-43");
    assert!(is_running(pid(&answer, "pid")), "{answer}");
    proves!("S3-46");
    assert_eq!(answer["attach"], format!("tmux attach -t {session}"));
    proves!("S3-15");
    shows(&mut agent, &handle, "Delete the file? [y/N]");
    // A person, with the command that the agent tells.
    let mut window = Terminal::open(120);
    let mut person =
        window.start(&home, &[("TMUX_TMPDIR", sockets)], ["tmux", "attach", "-t", session.as_str()]);
    window.read_until("Delete the file?");
    proves!("S3-28", "S3-49", "S3-91");
    send_keys(&mut agent, &handle, "n");
    window.read_until("answer: n");
    instead!("S3-27", "S3-55");
    proves!("S3-13", "S3-29");
    shows(&mut agent, &handle, "answer: n");
    instead!("S3-26");
    proves!("S3-12", "S3-90");
    let status = agent.json("process", json!({"action": "status", "handle": handle}));
    assert_eq!((&status["status"], &status["tmux_session"]), (&json!("running"), &json!(session)));
    assert_eq!((&status["command"], &status["session_id"]), (&json!(ASKS), &json!("a")));
    proves!("S3-19");
    // The person leaves, and closes the session: it was only a window.
    drop(window);
    person.wait().unwrap();
    let mut close = home.command("tmux");
    close.env("TMUX_TMPDIR", sockets).args(["kill-session", "-t", &session]);
    assert!(close.status().unwrap().success());
    until("the session is gone", || {
        let status = agent.json("process", json!({"action": "status", "handle": handle}));
        assert_eq!(status["status"], "running");
        status.get("tmux_session").is_none()
    });
    instead!("S3-76");
    write(&mut agent, &handle, "that is all\n");
    let message = messages(&mut agent).remove(0);
    assert_eq!((line_of(&message, "Handle"), line_of(&message, "Exit code")), (handle.as_str(), "4"));
    assert!(message.contains("more: that is all"), "{message}");
    instead!("S3-25", "S3-58", "S3-89");
    proves!("S3-16");
    assert!(act(&mut agent, "capture", &handle).contains("more: that is all"), "the last screen stays");
}

/// The same without tmux, which is told.
#[test]
fn a_terminal_needs_no_tmux() {
    let home = Home::new();
    let mut agent = Talk::start_with(&home, "duragent", "a", &[("PATH", "/nonexistent")]);
    let answer = agent.json("spawn_process", json!({"command": ASKS, "tmux": true}));
    let handle = answer["handle"].as_str().unwrap().to_owned();
    assert_eq!(
        (answer.get("tmux_session"), &answer["attach"]),
        (None, &json!(format!("outlive attach {handle}")))
    );
    assert!(answer["message"].as_str().unwrap().contains("tmux is not available"), "{answer}");
    shows(&mut agent, &handle, "Delete the file? [y/N]");
    send_keys(&mut agent, &handle, "no, not now");
    shows(&mut agent, &handle, "answer: no, not now");
    send_keys(&mut agent, &handle, "C-u Enter");
    assert_eq!(line_of(&messages(&mut agent)[0], "Exit code"), "4");
    proves!("S3-105");
    let log = fs::read_to_string(file(&home, &handle, "log")).unwrap();
    assert!(log.starts_with("Delete the file? [y/N] ") && log.contains("answer: no, not now\r\n"), "{log}");
    instead!("S3-54", "S3-55", "S3-59", "S3-94");
}
