//! The profile neovate.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant, SystemTime};

use outlive::AutoBackground;
use outlive_core::timestamp::Timestamp;
use outlive_sys::identity::Stat;
use outlive_tests::{
    Era, Home, LIMIT, Mcp, instead, is_running, millis, pid, proves, soon, until, with_enough_time,
};
use serde_json::{Value, json};

/// The server of this profile.
fn neovate(home: &Home) -> Mcp {
    Mcp::start_with(home, Era::Handshake, &["--profile", "neovate"], home.path())
}

/// A server of a client that waits for 10 minutes: what moves to the background before has another reason.
fn patient(home: &Home) -> Mcp {
    home.configure("[mcp]\nlongest_wait = \"10m\"\n");
    neovate(home)
}

#[track_caller]
fn bash(mcp: &mut Mcp, command: &str) -> String {
    mcp.plain_call("bash", json!({"command": command})).ok().text
}

/// Starts a task in the background and returns its id.
#[track_caller]
fn start(mcp: &mut Mcp, command: &str) -> String {
    task_id(&mcp.plain_call("bash", json!({"command": command, "run_in_background": true})).ok().text)
}

#[track_caller]
fn output(mcp: &mut Mcp, task: &str) -> String {
    mcp.plain_call("bash_output", json!({"task_id": task})).ok().text
}

#[track_caller]
fn kill(mcp: &mut Mcp, task: &str) -> String {
    mcp.plain_call("kill_bash", json!({"task_id": task})).ok().text
}

/// Returns what comes after the beginning of a line.
#[track_caller]
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    lines.next().unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// Returns the id of a command that moved to the background.
#[track_caller]
fn task_id(text: &str) -> String {
    assert!(text.starts_with("Command has been moved to background execution.\n"), "{text}");
    let id = field(text, "Task ID").to_owned();
    let digits = id.strip_prefix("task_").unwrap_or_else(|| panic!("{id}"));
    assert!(
        digits.len() == 12 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "{id}"
    );
    id
}

/// Returns what is shown below `Output:`, without the exit code.
#[track_caller]
fn printed(text: &str) -> &str {
    let (_, output) = text.split_once("\nOutput:\n").unwrap_or_else(|| panic!("no output: {text}"));
    output.rsplit_once("\n\nExit Code: ").map_or(output, |(output, _)| output)
}

/// Waits until a task has ended and returns what is then shown of it.
#[track_caller]
fn ended(mcp: &mut Mcp, task: &str) -> String {
    let mut text = String::new();
    until("the task ends", || {
        text = output(mcp, task);
        field(&text, "Status") != "running"
    });
    text
}

/// Returns the only live job of a home, once it does not need its starter any more.
fn only_job(home: &Home) -> String {
    let mut job = None;
    until("a job is live", || {
        let jobs = home.json(["list", "--live"]);
        job = jobs[0]["job"].as_str().map(str::to_owned);
        job.is_some() && jobs[0]["status"] != "starting"
    });
    job.unwrap_or_default()
}

/// Waits until a job has run so long.
fn has_run(home: &Home, job: &str, millis: u64) {
    until("it has run so long", || home.show(job)["runtime_ms"].as_u64().is_some_and(|ran| ran > millis));
}

/// All tools with their defaults, texts and errors.
#[test]
fn the_dialogue_is_as_the_design_has_it() {
    super::dialogue("neovate");
}

/// Which commands move to the background by themselves, and when.
#[test]
fn the_rule_is_as_the_design_has_it() {
    let moves = |line: &str, millis: u64, has_output: bool| {
        AutoBackground::of_line(line).is_due(Duration::from_millis(millis), has_output)
    };
    assert!(!moves("npm run dev", 1000, true), "too soon");
    proves!("S4-52");
    assert!(!moves("npm run dev", 3000, false), "silent");
    proves!("S4-53");
    let (early, silent) = (moves("npm run dev", 1999, true), moves("npm run dev", 60_000, false));
    assert!(!early && !silent && moves("npm run dev", 2000, true), "both are needed");
    proves!("S4-47");
    assert!(!moves("echo hello", 3000, true), "no tool of development");
    proves!("S4-54");
    assert!(!moves("", 3000, true) && !moves("&&", 3000, true), "no command");
    proves!("S4-48");
    for line in ["npm run dev", "pnpm dev", "yarn start"] {
        assert!(moves(line, 2500, true), "{line}");
        assert!(moves(line, 2000, true) && !moves(line, 1999, true), "{line}");
    }
    proves!("S4-43", "S4-45", "S4-55");
    let roots = |line: &str| outlive::read_shell_line(line).roots;
    assert_eq!(roots("npm run dev"), ["npm"]);
    assert_eq!(roots("pnpm install"), ["pnpm"]);
    assert_eq!(roots("/usr/bin/node script.js"), ["node"]);
    proves!("S4-50");
    assert_eq!(roots("  (npm start)"), ["npm"]);
    for line in ["{ npm start; }", "npm;ls", "npm&ls", "npm|cat", "\tnpm"] {
        assert_eq!(roots(line).first().map(String::as_str), Some("npm"), "{line}");
    }
    let listed = [
        "npm", "pnpm", "yarn", "node", "python", "python3", "go", "cargo", "make", "docker", "webpack",
        "vite", "jest", "pytest",
    ];
    for command in listed {
        assert!(moves(command, 2000, true) && moves(&command.to_uppercase(), 2000, true), "{command}");
    }
    let others = [
        "bun",
        "deno",
        "npx",
        "nodemon",
        "tsc",
        "next",
        "pip",
        "python2",
        "ruby",
        "php",
        "gcc",
        "rustc",
        "cmake",
        "ninja",
        "mvn",
        "gradle",
        "git",
        "docker-compose",
        "podman",
        "mocha",
        "vitest",
        "tox",
    ];
    for command in others {
        assert!(!moves(command, 60_000, true), "{command}");
    }
    proves!("S4-42");
    // What the shell would run, wherever it stands.
    for line in [
        "FOO=1 npm run dev",
        "cd app && npm run dev",
        "time npm test",
        "env A=1 npm start",
        "npm run dev 2>&1 | tee log",
        "yes | npm init",
    ] {
        assert!(moves(line, 2000, true), "{line}");
    }
    for line in ["echo npm", "grep 'a; npm' x", "ls # npm", "npx vite"] {
        assert!(!moves(line, 60_000, true), "{line}");
    }
    instead!("S4-44", "S4-49");
}

/// A dev server moves by itself, serves, and ends when it is killed.
#[test]
fn a_dev_server_moves_to_the_background_and_serves() {
    let home = Home::new();
    let mut mcp = patient(&home);
    let moved = bash(&mut mcp, "python3 -u -m http.server 0 --bind 127.0.0.1");
    assert!(moved.contains("\n\nInitial output:\nServing HTTP on 127.0.0.1 port "), "{moved}");
    let task = task_id(&moved);
    let shown = output(&mut mcp, &task);
    assert_eq!(field(&shown, "Status"), "running");
    // What it printed before the move is not lost.
    let port = printed(&shown).split("port ").nth(1).and_then(|rest| rest.split(' ').next());
    let address = format!("127.0.0.1:{}", port.unwrap_or_else(|| panic!("{shown}")));
    let mut client = TcpStream::connect(&address).unwrap();
    client.write_all(b"GET /hello HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    client.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.0 404"), "{page}");
    until("the request is in its output", || output(&mut mcp, &task).contains("GET /hello"));
    proves!("S4-82");
    let server = field(&shown, "PID").parse().unwrap();
    assert!(is_running(server));
    assert_eq!(Stat::read(server).map(|stat| stat.group), Some(server), "it leads the group of the task");
    proves!("S4-10", "S4-84");
    assert_eq!(
        kill(&mut mcp, &task),
        format!("Successfully terminated task {task} (python3 -u -m http.server 0 --bind 127.0.0.1)")
    );
    assert!(!is_running(server) && TcpStream::connect(&address).is_err());
    proves!("S4-1", "S4-121");
    let shown = output(&mut mcp, &task);
    assert_eq!(field(&shown, "Status"), "killed");
    assert!(printed(&shown).contains("GET /hello"), "{shown}");
}

/// `npm run dev` moves by itself after 2 s with output, or at once if that is asked for.
#[test]
fn npm_run_dev_moves_to_the_background() {
    let home = Home::new();
    if !home.command("npm").arg("--version").output().is_ok_and(|done| done.status.success()) {
        outlive_tests::lacks("npm");
        return;
    }
    let server = "const s = require('http').createServer((q, r) => r.end('hi')); \
                  s.listen(0, '127.0.0.1', () => console.log('Server running on http://localhost:' + s.address().port));";
    std::fs::write(home.path().join("server.js"), server).unwrap();
    std::fs::write(home.path().join("package.json"), r#"{"scripts": {"dev": "node server.js"}}"#).unwrap();
    let mut mcp = patient(&home);
    // Not before 2 s and not much later, which a busy machine takes now and then.
    let moved = soon("a move by itself", Duration::from_secs(4), || {
        let begun = Instant::now();
        let moved = bash(&mut mcp, "npm run dev");
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
        moved
    });
    let (_, initial) = moved.split_once("\n\nInitial output:\n").unwrap_or_else(|| panic!("{moved}"));
    assert!(!initial.trim_start().starts_with("Use bash_output tool"), "it moves with its output: {moved}");
    let moved = task_id(&moved);
    assert!(home.show(&moved)["runtime_ms"].as_u64().is_some_and(|ran| ran >= 2000));
    proves!("S4-120");
    instead!("S4-124");
    // Sooner than it could by itself.
    let forced = soon("a move that is asked for", Duration::from_secs(1), || start(&mut mcp, "npm run dev"));
    for task in [moved, forced] {
        until("it is ready", || output(&mut mcp, &task).contains("\nServer running on http://localhost:"));
        let shown = output(&mut mcp, &task);
        let port = printed(&shown).trim_end().rsplit(':').next().unwrap_or_default();
        let address = format!("127.0.0.1:{port}");
        assert!(TcpStream::connect(&address).is_ok(), "{shown}");
        // npm runs a shell, which runs node: all of them end.
        kill(&mut mcp, &task);
        assert!(TcpStream::connect(&address).is_err());
        assert_eq!(field(&output(&mut mcp, &task), "Status"), "killed");
    }
    proves!("S4-125");
    instead!("S4-138");
}

/// A command that says nothing is waited for, and its first output decides, however late.
#[test]
fn a_silent_command_moves_when_it_prints() {
    let home = Home::new();
    let mut mcp = patient(&home);
    let wait = |file: &str| format!("until test -e {file}; do sleep 0.02; done");
    let command = &format!("make() {{ {}; echo at last; {}; exit 3; }}; make", wait("go"), wait("over"));
    let id = mcp.send_call("bash", json!({"command": command}));
    let job = only_job(&home);
    has_run(&home, &job, 3000);
    assert!(!mcp.is_answered(id), "it has printed nothing");
    std::fs::write(home.path().join("go"), "").unwrap();
    let moved = mcp.plain_answer(id).ok().text;
    assert_eq!(task_id(&moved), job);
    assert!(moved.contains("\nInitial output:\nat last\n\n"), "{moved}");
    proves!("S4-81");
    assert_eq!(field(&output(&mut mcp, &job), "Status"), "running");
    std::fs::write(home.path().join("over"), "").unwrap();
    let shown = ended(&mut mcp, &job);
    assert_eq!((field(&shown, "Status"), field(&shown, "Exit Code")), ("failed", "3"));
    assert_eq!(printed(&shown), "at last\n");
    proves!("S4-85");
}

/// Other commands are waited for, however long they print; as before.
#[test]
fn other_commands_stay_in_the_foreground() {
    let home = Home::new();
    std::fs::write(home.path().join("some file"), "").unwrap();
    let mut mcp = neovate(&home);
    let listed = bash(&mut mcp, "ls -la");
    assert!(listed.contains("some file"), "{listed}");
    assert_eq!((field(&listed, "Exit Code"), field(&listed, "Signal")), ("0", "(none)"));
    proves!("S4-117");
    let id = mcp.send_call(
        "bash",
        json!({"command": "echo first; until test -e go; do sleep 0.02; done; echo last"}),
    );
    let job = only_job(&home);
    has_run(&home, &job, 3000);
    assert!(!mcp.is_answered(id), "it has run for 3 s and printed something, but is no tool of development");
    std::fs::write(home.path().join("go"), "").unwrap();
    let done = mcp.plain_answer(id).ok().text;
    assert!(done.contains("\nStdout: first\nlast\n\nStderr: (empty)\n"), "{done}");
}

/// The group is the shell's own, and what it leaves behind is named and stays.
#[test]
fn what_a_command_leaves_behind_is_named() {
    let home = Home::new();
    let temporary = home.make_dir("temporary");
    let mut command = home.outlive(["mcp", "--profile", "neovate"]);
    command.env("TMPDIR", &temporary);
    let mut mcp = Mcp::of(command, Era::Handshake, json!({}), &[]);
    let line =
        "ps -o pgid= -p $$; tr '\\0' ' ' < /proc/$$/cmdline > ran; sleep 300 & setsid sleep 301 & true";
    let done = bash(&mut mcp, line);
    assert_eq!(field(&done, "Process Group PGID"), field(&done, "Stdout").trim(), "{done}");
    let ran = std::fs::read_to_string(home.path().join("ran")).unwrap();
    assert!(ran.ends_with(&format!("-c {line} ")), "the shell is given the command as it is: {ran}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "nothing is written beside it");
    let left: Vec<i32> =
        field(&done, "Background PIDs").split(", ").map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(left.len(), 2, "{done}");
    assert!(left.iter().all(|&pid| is_running(pid)), "{done}");
    let group = field(&done, "Process Group PGID").parse().ok();
    until("one of them has left the group", || {
        left.iter().filter(|&&pid| Stat::read(pid).map(|stat| stat.group) == group).count() == 1
    });
    instead!("S4-79", "S4-80", "S4-83", "S4-89", "S4-90");
    // They are of the job, and end with it.
    let job = only_job(&home);
    kill(&mut mcp, &job);
    assert!(!left.iter().any(|&pid| is_running(pid)));
    assert_eq!(field(&output(&mut mcp, &job), "Status"), "completed", "its own end stays what it was");
}

/// A kill ends the whole tree, also what left the group and what ignores SIGTERM, and stays a kill.
#[test]
fn a_kill_ends_the_whole_tree() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let command = "trap '' TERM; setsid sleep 300 & (sleep 300 & sleep 300) & \
                   python3 -c 'import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(300)'";
    let task = start(&mut mcp, command);
    until("all are there", || {
        let shown = output(&mut mcp, &task);
        printed(&shown) == "1\n"
            && home.json(["show", "--tree", &task])["processes"].as_array().unwrap().len() >= 5
    });
    let tree = home.json(["show", "--tree", &task]);
    let pids: Vec<i32> =
        tree["processes"].as_array().unwrap().iter().map(|process| pid(process, "pid")).collect();
    let begun = Instant::now();
    let text = kill(&mut mcp, &task);
    assert_eq!(text, format!("Successfully terminated task {task} ({command})"));
    let taken = begun.elapsed();
    assert!(taken >= Duration::from_millis(200), "{taken:?}");
    assert!(!pids.iter().any(|&pid| is_running(pid)));
    instead!("S4-34");
    proves!("S4-33");
    for _ in 0..3 {
        assert_eq!(field(&output(&mut mcp, &task), "Status"), "killed");
    }
    proves!("S4-35");
    instead!("S4-138");
    let again = mcp.plain_call("kill_bash", json!({"task_id": task})).error();
    assert_eq!(again, format!("Task {task} is not running (status: killed). Cannot terminate."));
    assert_eq!(home.show(&task)["status"], "killed");
}

/// SIGTERM comes first, and a process that obeys has time to; it stays a kill, whatever the exit code.
#[test]
fn who_obeys_has_time_to() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    // A fifth of a second, which a shell on a busy machine may not have the processor in.
    until("one had time to", || {
        // The whole group is asked, and not only the shell.
        let child = "(trap 'echo child; exit 0' TERM; echo up; while :; do sleep 0.02; done) &";
        let main = "trap 'wait; echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
        let task = start(&mut mcp, &format!("{child} {main}"));
        until("both listen", || {
            let shown = output(&mut mcp, &task);
            ["ready", "up"].iter().all(|word| printed(&shown).lines().any(|line| line == *word))
        });
        kill(&mut mcp, &task);
        let shown = output(&mut mcp, &task);
        assert_eq!(field(&shown, "Status"), "killed");
        // Without an exit code it had no time. The shell may say of its sleep that it was terminated, before or after.
        let said = |word: &str| printed(&shown).lines().any(|line| line == word);
        shown.lines().any(|line| line == "Exit Code: 0") && said("bye") && said("child")
    });
    proves!("S4-32");
}

/// A kill that cannot be carried out says so.
#[test]
fn a_kill_that_fails_is_told() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let task = start(&mut mcp, "sleep 300");
    // A keeper that cannot be reached.
    let socket = home.job_dir(&task).join("ctl");
    std::fs::rename(&socket, home.path().join("ctl")).unwrap();
    let failed = mcp.plain_call("kill_bash", json!({"task_id": task}));
    std::fs::rename(home.path().join("ctl"), &socket).unwrap();
    assert_eq!(failed.error(), format!("Failed to terminate task {task}. Process may have already exited."));
    proves!("S4-36", "S4-111");
    assert_eq!(field(&output(&mut mcp, &task), "Status"), "running");
    kill(&mut mcp, &task);
    assert_eq!(field(&output(&mut mcp, &task), "Status"), "killed");
}

/// Tasks are not lost with the server, whatever becomes of it; all of their output is there.
#[test]
fn tasks_survive_the_server() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let task =
        start(&mut mcp, "i=0; until test -e go; do echo line $i; i=$((i+1)); sleep 0.01; done; exit 7");
    until("it prints", || output(&mut mcp, &task).contains("line 20\n"));
    mcp.kill();
    let mut mcp = neovate(&home);
    until("it goes on", || output(&mut mcp, &task).contains("line 60\n"));
    mcp.kill();
    std::fs::write(home.path().join("go"), "").unwrap();
    home.wait(&task);
    let mut mcp = neovate(&home);
    let shown = output(&mut mcp, &task);
    assert_eq!((field(&shown, "Status"), field(&shown, "Exit Code")), ("failed", "7"));
    let lines: Vec<&str> = printed(&shown).lines().collect();
    assert!(lines.len() > 60);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(*line, format!("line {number}"));
    }
    instead!("S4-129", "S4-130", "S4-138");
    assert_eq!(mcp.end(), 0);
}

/// The timeout of a command in the foreground counts though the server is killed; that is a kill.
#[test]
fn a_timeout_counts_whatever_becomes_of_the_server() {
    let home = Home::new();
    let job = with_enough_time(Duration::from_millis(2500), |time| {
        let mut mcp = neovate(&home);
        let time = u64::try_from(time.as_millis()).unwrap();
        mcp.send_call("bash", json!({"command": "echo so far; sleep 300", "timeout": time}));
        let job = only_job(&home);
        mcp.kill();
        let ended = home.wait(&job);
        assert_eq!((&ended["status"], &ended["cause"]), (&"timed_out".into(), &"timeout".into()));
        assert!(ended["runtime_ms"].as_u64() >= Some(time), "{ended}");
        (ended["output"]["lines"] == 1).then_some(job)
    });
    let mut mcp = neovate(&home);
    let shown = output(&mut mcp, &job);
    assert_eq!((field(&shown, "Status"), printed(&shown)), ("killed", "so far\n"));
    proves!("S4-85");
}

/// The timeout of the foreground is at most 10 minutes, and so long by default; that default does not follow a
/// command into the background.
#[test]
fn the_default_timeout_does_not_follow_into_the_background() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let moved = mcp.plain_call("bash", json!({"command": "make() { echo up; sleep 300; }; make"})).ok().text;
    let begun = mcp.plain_call("bash", json!({"command": "sleep 300", "run_in_background": true})).ok().text;
    for task in [&moved, &begun].map(|answer| task_id(answer)) {
        assert_eq!(home.show(&task)["timeout_ms"], Value::Null);
        kill(&mut mcp, &task);
    }
    for (timeout, limit) in [
        (None, 600_000),
        (Some(Value::Null), 600_000),
        (Some(json!(0)), 600_000),
        (Some(json!(1_800_000)), 600_000),
        (Some(json!(599_999)), 599_999),
    ] {
        let mut arguments = json!({"command": "sleep 300"});
        timeout.into_iter().for_each(|timeout| arguments["timeout"] = timeout);
        let id = mcp.send_call("bash", arguments);
        let job = only_job(&home);
        assert_eq!(home.show(&job)["timeout_ms"], limit);
        proves!("S4-59", "S4-77");
        kill(&mut mcp, &job);
        // The call that waited for it reports it.
        let done = mcp.plain_answer(id).ok().text;
        assert_eq!((field(&done, "Exit Code"), field(&done, "Signal")), ("(none)", "SIGTERM"), "{done}");
    }
    instead!("S4-93");
}

/// Each command that the description calls banned is refused.
#[test]
fn what_the_description_bans_is_refused() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let tools = mcp.result("tools/list", json!({}));
    let description = tools["tools"][0]["description"].as_str().unwrap();
    let banned = field(description, "- Verify command is not banned").to_owned();
    assert_eq!(banned.split(", ").count(), 24, "{banned}");
    for command in banned.split(", ") {
        let refused = mcp.plain_call("bash", json!({"command": format!("{command} x")})).error();
        assert_eq!(refused, format!("Command '{command}' is not allowed for security reasons."));
    }
    proves!("S4-66", "S4-78");
}

/// A call that is cancelled leaves the command to its timeout, which still counts.
#[test]
fn a_cancelled_call_leaves_the_timeout() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    // It would move with what it prints.
    let command = "make() { until test -e go; do sleep 0.02; done; echo up; sleep 300; }; make";
    let id = mcp.send_call("bash", json!({"command": command, "timeout": 3000}));
    let job = only_job(&home);
    mcp.cancel(id);
    // The server has heard that when it answers.
    output(&mut mcp, &job);
    std::fs::write(home.path().join("go"), "").unwrap();
    let ended = home.wait(&job);
    assert_eq!(ended["status"], "timed_out");
    assert_eq!(field(&output(&mut mcp, &job), "Status"), "killed");
}

/// A command whose keeper dies moves as others do, and an end that was not seen is no success.
#[test]
fn a_command_without_keeper_is_told_as_it_is() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let id = mcp.send_call("bash", json!({"command": "make() { echo up; sleep 300; }; make"}));
    let job = only_job(&home);
    home.wait_for_output(&job, "up");
    let main = home.orphan(&job);
    assert_eq!(task_id(&mcp.plain_answer(id).ok().text), job);
    assert_eq!(
        kill(&mut mcp, &job),
        format!("Successfully terminated task {job} (make() {{ echo up; sleep 300; }}; make)")
    );
    assert!(!is_running(main));
    assert_eq!(field(&output(&mut mcp, &job), "Status"), "killed");
    let id = mcp.send_call("bash", json!({"command": "echo before; until test -e go; do sleep 0.02; done"}));
    let job = only_job(&home);
    home.wait_for_output(&job, "before");
    let main = home.orphan(&job);
    std::fs::write(home.path().join("go"), "").unwrap();
    let done = mcp.plain_answer(id).ok().text;
    assert_eq!(field(&done, "Stdout"), "before");
    assert_ne!(field(&done, "Error"), "(none)", "{done}");
    assert_eq!(field(&done, "Directory"), home.path().display().to_string());
    assert_eq!(field(&done, "Process Group PGID"), main.to_string());
    instead!("S4-89");
    assert_eq!(field(&output(&mut mcp, &job), "Status"), "failed");
    proves!("S4-12");
}

/// A timeout can be lifted as long as it has not begun to end the job, and not after.
#[test]
fn a_timeout_is_lifted_or_it_is_too_late() {
    let home = Home::new();
    let store = home.open();
    let (job, time) = with_enough_time(Duration::from_secs(2), |time| {
        let job = home.start_with(&["--timeout", &millis(time)], ["sleep", "300"]);
        let lifted = store.find(&job, None).unwrap();
        let is_in_time = store.lift_timeout(&lifted).is_ok();
        is_in_time.then(|| store.lift_timeout(&lifted).unwrap())?;
        Some((job, u64::try_from(time.as_millis()).unwrap()))
    });
    assert_eq!(home.show(&job)["timeout_ms"], Value::Null);
    // A program that ignores SIGTERM, and a grace that does not end within the test.
    let deaf = with_enough_time(Duration::from_millis(500), |time| {
        let deaf = ["sh", "-c", "trap 'echo asked' TERM; while :; do sleep 0.02; done"];
        let deaf = home.start_with(&["--timeout", &millis(time), "--grace", "1h"], deaf);
        let is_asked = || String::from_utf8_lossy(&home.logs(&deaf)).contains("asked\n");
        until("it is asked, or was not yet deaf", || is_asked() || home.show(&deaf)["ended_at"].is_string());
        is_asked().then_some(deaf)
    });
    let late = store.lift_timeout(&store.find(&deaf, None).unwrap());
    assert!(
        matches!(&late, Err(outlive::ControlError::Refused { code, .. }) if code == "ending"),
        "{late:?}"
    );
    home.run(["kill", "--force", &deaf]).ok();
    assert_eq!(home.show(&deaf)["status"], "timed_out");
    let late = store.lift_timeout(&store.find(&deaf, None).unwrap());
    assert!(matches!(late, Err(outlive::ControlError::Ended(_))), "{late:?}");
    // Beyond its time, and alive.
    has_run(&home, &job, time + 500);
    assert_eq!(home.show(&job)["status"], "running");
}

/// No call takes longer than clients wait: what is not done then moves, whatever it is.
#[test]
fn what_takes_too_long_for_a_client_moves() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let moved = soon("a move after 45 seconds", Duration::from_secs(55), || {
        let begun = Instant::now();
        let moved = bash(&mut mcp, "echo quiet from now on; sleep 300");
        assert!(begun.elapsed() > Duration::from_secs(44), "{:?}", begun.elapsed());
        moved
    });
    let task = task_id(&moved);
    assert!(moved.contains("\nInitial output:\nquiet from now on\n\n"), "{moved}");
    instead!("S4-124");
    assert_eq!(home.show(&task)["timeout_ms"], Value::Null);
    kill(&mut mcp, &task);
}

/// A command that is forced into the background answers at once, however silent it is.
#[test]
fn a_forced_command_answers_at_once() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let begun = Instant::now();
    let tasks: Vec<u64> = (0..20)
        .map(|_| mcp.send_call("bash", json!({"command": "sleep 300", "run_in_background": true})))
        .collect();
    let mut tasks: Vec<String> =
        tasks.into_iter().map(|id| task_id(&mcp.plain_answer(id).ok().text)).collect();
    assert!(begun.elapsed() < Duration::from_secs(44), "as others, not at once: {:?}", begun.elapsed());
    tasks.sort_unstable();
    tasks.dedup();
    assert_eq!(tasks.len(), 20, "each has an id of its own");
    let first_digit = |task: &String| task.as_bytes()["task_".len()];
    assert!(tasks.iter().any(|task| first_digit(task) != first_digit(&tasks[0])), "at random: {tasks:?}");
    proves!("S4-7", "S4-8");
    // Sooner than one that moves by itself could.
    soon("a start in the background", Duration::from_secs(1), || start(&mut mcp, "sleep 10"));
    proves!("S4-45", "S4-46", "S4-51", "S4-118");
}

/// What is printed is added to what was there, from both streams, and all of it is shown up to 1 MiB; beyond that the newest, and the
/// log has all of it.
#[test]
fn output_adds_up_to_a_mebibyte() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let task =
        start(&mut mcp, "echo line 1; until test -e go; do sleep 0.02; done; echo line 2 >&2; sleep 300");
    until("the first line is there", || printed(&output(&mut mcp, &task)) == "line 1\n");
    std::fs::write(home.path().join("go"), "").unwrap();
    until("the next line is there", || printed(&output(&mut mcp, &task)) != "line 1\n");
    for _ in 0..2 {
        assert_eq!(printed(&output(&mut mcp, &task)), "line 1\nline 2\n");
    }
    proves!("S4-14", "S4-26");
    instead!("S4-138");
    kill(&mut mcp, &task);
    let lines = "1234567\n".repeat((1 << 20) / 8);
    let fits = start(&mut mcp, "yes 1234567 | head -c 1048576");
    assert!(printed(&ended(&mut mcp, &fits)) == lines, "1 MiB is shown from its first byte on");
    let over = start(&mut mcp, "yes 1234567 | head -c 1048577");
    // From the beginning of a line.
    let newest = format!("... [output truncated] ...\n{}1", &lines[8..]);
    assert!(printed(&ended(&mut mcp, &over)) == newest, "of more the newest is shown");
    assert!(home.logs(&over) == format!("{lines}1").as_bytes(), "the log has the rest");
    instead!("S4-96");
}

/// All that was printed is kept up to 100 MiB, and the newest of it is shown where an answer cannot hold it.
#[test]
fn big_output_is_kept_and_its_end_is_shown() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let task =
        start(&mut mcp, "seq 2000000; head -c 120000000 /dev/zero | tr '\\0' x; echo; seq 300000; exit 2");
    let shown = ended(&mut mcp, &task);
    let text =
        printed(&shown).strip_prefix("... [output truncated] ...\n").unwrap_or_else(|| panic!("no mark"));
    // To the beginning of a line, which has 7 characters.
    assert!(text.len() <= 1 << 20 && text.len() >= (1 << 20) - 7, "{}", text.len());
    let mut numbers = text.lines().map(|line| line.parse::<u64>().unwrap());
    let first = numbers.next().unwrap();
    assert!(numbers.zip(first + 1..).all(|(shown, wanted)| shown == wanted));
    assert!(text.ends_with("\n299999\n300000\n"));
    assert_eq!((field(&shown, "Status"), shown.ends_with("\n\nExit Code: 2")), ("failed", true));
    let object = home.show(&task);
    assert_eq!(object["output_cap_bytes"], 100 << 20);
    assert!(object["output"]["bytes"].as_u64().is_some_and(|bytes| bytes > 120_000_000), "{object}");
    instead!("S4-96");
    let kept = home.logs(&task);
    // What is over is dropped by the eighth.
    assert!(kept.len() >= 100 << 20 && kept.len() <= (100 << 20) / 8 * 9, "{}", kept.len());
    let end: String = (1..=300_000).map(|number| format!("{number}\n")).collect();
    let (long, rest) = kept.split_at(kept.len() - end.len() - 1);
    assert!(rest[1..] == *end.as_bytes() && rest[0] == b'\n', "it is the newest");
    assert!(long.iter().all(|&byte| byte == b'x'), "none of it is missing or another's");
    instead!("S4-131");
    // A foreground command has both streams in full, each with its own end.
    let done = bash(&mut mcp, "seq 400000; echo only this >&2");
    assert!(
        done.contains("\nStdout: ... [output truncated] ...\n") && done.contains("\n400000\n"),
        "{:.200}",
        done
    );
    assert!(done.contains("\nStderr: only this\n"));
    assert!(done.len() < 3 << 19);
}

/// What is no text is shown as text, and characters are whole.
#[test]
fn what_is_no_text_does_no_harm() {
    let home = Home::new();
    let mut mcp = neovate(&home);
    let done = bash(&mut mcp, r"printf 'a\377\000b\033[2J\303\244\r\nc'; printf '\377' >&2");
    assert!(done.contains("\nStdout: a\u{fffd}b\u{e4}\nc\nStderr: \u{fffd}\n"), "{done}");
    let id = mcp.send_call(
        "bash",
        json!({"command": "printf '\\303'; until test -e go; do sleep 0.02; done; printf '\\244'"}),
    );
    let job = only_job(&home);
    until("half a character was printed", || home.show(&job)["output"]["bytes"] == 1);
    assert_eq!(printed(&output(&mut mcp, &job)), "(no output yet)");
    std::fs::write(home.path().join("go"), "").unwrap();
    assert!(mcp.plain_answer(id).ok().text.contains("\nStdout: \u{e4}\nStderr: (empty)\n"));
    assert_eq!(printed(&output(&mut mcp, &job)), "\u{e4}");
    let quoted = bash(&mut mcp, "printf '%s' 'Status: killed'");
    assert!(quoted.contains("\nStdout: Status: killed\n"));
    let huge = format!("true {}", "x".repeat(200_000));
    let refused = mcp.plain_call("bash", json!({"command": huge})).error();
    assert!(refused.starts_with("Command execution failed: "), "{refused:.200}");
}

/// What cannot be started is an error that says why.
#[test]
fn what_cannot_be_started_is_told() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let mut mcp = neovate(&home);
    let refused = mcp.plain_call("bash", json!({"command": "echo \u{0}"})).error();
    assert_eq!(
        refused,
        "Command execution failed: the command line holds a NUL byte, which no program can be given"
    );
    let task = start(&mut mcp, "sleep 300");
    let refused = mcp.plain_call("bash", json!({"command": "true"})).error();
    let reason = refused.strip_prefix("Command execution failed: ").unwrap_or_else(|| panic!("{refused}"));
    assert!(reason.contains("1 "), "it says which limit: {refused}");
    instead!("S4-94");
    kill(&mut mcp, &task);
    assert_eq!(field(&bash(&mut mcp, "true"), "Exit Code"), "0");
}

/// Tasks are jobs: the command line lists and removes them, and jobs of others are tasks here.
#[test]
fn tasks_are_jobs_and_jobs_are_tasks() {
    let home = Home::new();
    let mut mcp =
        Mcp::start_with(&home, Era::Handshake, &["--profile", "neovate", "--all-sessions"], home.path());
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let before = now();
    let tasks = ["sleep 300", "sleep 301"].map(|command| start(&mut mcp, command));
    let created = field(&output(&mut mcp, &tasks[0]), "Created").to_owned();
    let created = u128::from(Timestamp::parse(&created).unwrap().0 / 1000);
    assert!((before..=now()).contains(&created), "{before} {created}");
    proves!("S4-13");
    let listed = home.json(["list"]);
    let ids: Vec<&str> = listed.as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    assert!(tasks.iter().all(|task| ids.contains(&task.as_str())), "{ids:?}");
    instead!("S4-19", "S4-25");
    kill(&mut mcp, &tasks[0]);
    home.run(["remove", &tasks[0]]).ok();
    let gone = mcp.plain_call("bash_output", json!({"task_id": tasks[0]})).error();
    assert_eq!(gone, format!("Task {} not found. Use bash tool to see available tasks.", tasks[0]));
    instead!("S4-22");
    let job = home.start_with(&["--timeout", "1h"], ["sleep", "300 s"]);
    home.wait(&job);
    let shown = output(&mut mcp, &job);
    assert!(shown.starts_with("Command: sleep '300 s'\nStatus: failed\nPID: "), "{shown}");
    let job = home.start_with(&["--timeout", "300ms"], ["sleep", "300"]);
    home.wait(&job);
    assert_eq!(field(&output(&mut mcp, &job), "Status"), "killed", "a timeout is a kill here");
    proves!("S4-12");
    // The beginning of an id is none.
    let beginning = mcp.plain_call("kill_bash", json!({"task_id": tasks[1][..10]})).error();
    assert!(beginning.ends_with("not found. Use bash tool to see available tasks."), "{beginning}");
    kill(&mut mcp, &tasks[1]);
    // Another project's server does not see this one's.
    let elsewhere = home.make_dir("elsewhere");
    let mut other = Mcp::start_with(&home, Era::Handshake, &["--profile", "neovate"], &elsewhere);
    assert!(other.plain_call("bash_output", json!({"task_id": tasks[1]})).is_error);
}

/// A long build in the background is killed to fix something, and built again; a watcher sees the change.
#[test]
fn a_build_is_killed_and_a_watcher_goes_on() {
    let home = Home::new();
    std::fs::write(home.path().join("Makefile"), "all:\n\t@echo building; sleep 300\n").unwrap();
    let mut mcp = neovate(&home);
    let watcher = "last=; while :; do read -r line < Makefile; now=`true`; done";
    // Substitution is not allowed: a watcher that needs none.
    assert!(mcp.plain_call("bash", json!({"command": watcher})).is_error);
    let watcher = "python3 -u -c \"
import os, time
last = None
while True:
    now = os.stat('Makefile').st_size
    if now != last:
        print('size', now)
    last = now
    time.sleep(0.02)\"";
    let watching = task_id(&bash(&mut mcp, watcher));
    let build = soon("a start in the background", Duration::from_secs(1), || start(&mut mcp, "make"));
    until("it builds", || output(&mut mcp, &build).contains("building"));
    let main = field(&output(&mut mcp, &build), "PID").parse().unwrap();
    assert!(is_running(main));
    assert_eq!(kill(&mut mcp, &build), format!("Successfully terminated task {build} (make)"));
    assert_eq!((field(&output(&mut mcp, &build), "Status"), is_running(main)), ("killed", false));
    proves!("S4-128");
    std::fs::write(home.path().join("Makefile"), "all:\n\t@echo built\n").unwrap();
    let done = bash(&mut mcp, "make");
    assert!(done.contains("\nStdout: built\n") && done.contains("\nExit Code: 0\n"), "{done}");
    until("the watcher has seen it", || printed(&output(&mut mcp, &watching)).contains("size 18\n"));
    kill(&mut mcp, &watching);
}

/// A small test suite runs to its end: streams apart, and its code.
#[test]
fn a_test_suite_runs_in_the_foreground() {
    let home = Home::new();
    let suite = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): self.fail('on purpose')\n";
    std::fs::write(home.path().join("test_small.py"), suite).unwrap();
    let mut mcp = neovate(&home);
    let done = bash(&mut mcp, "python3 -m unittest && echo all passed");
    assert!(done.contains("FAILED (failures=1)") && done.contains("\nStdout: (empty)\n"), "{done}");
    assert_eq!((field(&done, "Exit Code"), field(&done, "Error")), ("1", "(none)"));
}

/// The command line does the same with `run --auto-background`.
#[test]
fn the_command_line_does_it_too() {
    let home = Home::new();
    let done = home.run(["run", "--auto-background", "echo out; echo err >&2; exit 3"]).code(3);
    assert_eq!((done.text().as_str(), done.error().as_str()), ("out\n", "err\n"));
    let line = "make() { echo one; until test -e go; do sleep 0.02; done; echo two; exit 5; }; make";
    let done = home.run(["--reader", "me", "run", "--auto-background", line]).ok();
    let told = done.error();
    assert!(done.text() == "one\n" && told.contains(" goes on; the rest: outlive logs "), "{told}");
    let job = told.split_whitespace().nth(1).unwrap_or_default();
    assert!(home.show(job)["runtime_ms"].as_u64().is_some_and(|ran| ran >= 2000));
    std::fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(home.wait(job)["exit_code"], 5);
    assert_eq!(home.run(["logs", job, "--cursor", "me"]).ok().text(), "two\n", "nothing is lost or repeated");
    // A program with its arguments, as an object.
    let server = ["python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"];
    let mut command = vec!["--json", "run", "--auto-background", "--timeout", "50s", "--"];
    command.extend(server);
    let done = home.run(command).ok().json();
    assert_eq!((&done["goes_on"], &done["status"]), (&true.into(), &"running".into()), "{done}");
    assert!(done["text"].as_str().is_some_and(|text| text.starts_with("Serving HTTP")), "{done}");
    assert_eq!(
        home.show(done["job"].as_str().unwrap())["timeout_ms"],
        50_000,
        "what was asked of the job stays"
    );
    // One that is no tool of development is waited for, and so is a silent one.
    for line in ["echo a; sleep 2.5; echo b", "make() { sleep 2.5; printf 'a\\nb\\n'; }; make"] {
        let done = home.run(["run", "--auto-background", line]).ok();
        assert_eq!((done.text().as_str(), done.error().as_str()), ("a\nb\n", ""), "{line}");
    }
    home.run(["run", "--auto-background", "--wait", "true"]).code(2);
    home.run(["run", "--auto-background", "--yield", "1s", "true"]).code(2);
}

/// A command that prints faster than its output is read moves, too.
#[test]
fn a_flood_is_left_to_itself() {
    let home = Home::new();
    let mut command =
        home.outlive(["run", "--output-cap", "16M", "--auto-background", "make() { yes; }; make"]);
    command.stdout(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    assert_eq!(outlive_tests::end_within(&mut child, LIMIT), Some(0));
    let mut mcp = neovate(&home);
    let moved = bash(&mut mcp, "make() { yes; }; make");
    assert!(moved.contains("\ny\n… +"), "{:.400}", moved);
    let task = task_id(&moved);
    assert!(printed(&output(&mut mcp, &task)).starts_with("... [output truncated] ...\ny\n"));
    kill(&mut mcp, &task);
}
