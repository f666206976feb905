//! Lines of the designs that no dialogue and no scenario shows: a test each, as short as it can be.

use std::time::{Duration, Instant, SystemTime};

use outlive_core::timestamp::Timestamp;
use outlive_sys::identity::Stat;
use outlive_tests::{Era, Home, Mcp, Terminal, instead, proves, soon, until};
use serde_json::{Value, json};

fn connect(home: &Home, profile: &str, options: &[&str]) -> Mcp {
    Mcp::start_with(home, Era::Handshake, &[&["--profile", profile], options].concat(), home.path())
}

/// Calls a tool, which must succeed, and returns its object.
#[track_caller]
fn object(client: &mut Mcp, tool: &str, arguments: Value) -> Value {
    let text = client.plain_call(tool, arguments).ok().text;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the time as the milliseconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(now.as_millis()).expect("it is before the year 292 million")
}

/// Asserts that a job which is told to end, and ignores it, is ended by SIGKILL when the design's time for it is over, in milliseconds,
/// and not much later: twice the time is too much, and so are two seconds more. `end` starts one and tells it to end: it returns the job,
/// and since when its time counts.
#[track_caller]
fn assert_forced(home: &Home, time: u64, mut end: impl FnMut() -> (String, u64)) {
    // A busy machine takes longer now and then, or does not let it say in time what it ignores.
    until("it is ended in time", || {
        let (job, begun) = end();
        let ended = home.wait(&job);
        let at = ended["ended_at"].as_str().and_then(|at| Timestamp::parse(at).ok()).expect("it has ended");
        let took = at.0 / 1000 - begun;
        let is_deaf = home.logs(&job).starts_with(b"ready\n");
        assert!(!is_deaf || (ended["signal"] == "SIGKILL" && took >= time), "{took} ms: {ended}");
        is_deaf && took < time + time.min(2000)
    });
}

/// An hour and half an hour are the designs'; a configuration decides.
#[test]
fn how_long_an_ended_process_stays_is_configured() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\n");
    let mut client = connect(&home, "macos-shell", &[]);
    object(&mut client, "run_background", json!({"command": "true"}));
    until("it has ended, and its client does not know", || !home.json(["list"])[0]["exit_code"].is_null());
    home.run(["gc"]).ok();
    let mut listed = || object(&mut client, "list_processes", json!({}))["processes"].take();
    let told = listed();
    assert_eq!(
        (told.as_array().map(Vec::len), &told[0]["status"]),
        (Some(1), &json!("stopped")),
        "not before it was told"
    );
    until("it is gone", || listed() == json!([]));
    instead!("S0-100");
    let mut client = connect(&home, "duragent", &[]);
    client.plain_call("spawn_process", json!({"command": "true", "wait": true})).ok();
    until("it is gone", || {
        let listed = client.plain_call("process", json!({"action": "list"})).ok().text;
        listed == "No background processes for this session."
    });
    instead!("S3-79");
}

mod macos_shell {
    use super::*;

    fn start(client: &mut Mcp, command: &str) -> Value {
        object(client, "run_background", json!({"command": command}))
    }

    fn ended(client: &mut Mcp, id: &Value) -> Value {
        let mut told = Value::Null;
        until("it has ended", || {
            told = object(client, "get_process_output", json!({"processId": id}));
            told["status"] != "running"
        });
        told
    }

    #[test]
    fn recent_output_is_the_last_ten_lines_where_it_is_asked_for() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell", &[]);
        let id = start(&mut client, "seq 1 400")["processId"].clone();
        ended(&mut client, &id);
        let mut row =
            |arguments: Value| object(&mut client, "list_processes", arguments)["processes"][0].take();
        for arguments in [json!({}), json!({"includeOutput": false})] {
            assert_eq!(row(arguments).get("recentOutput"), None);
        }
        // Also those that are no longer in the buffer.
        assert_eq!(row(json!({}))["outputLines"], 400);
        proves!("S0-60");
        let last: Vec<String> = (391..=400).map(|number: u32| number.to_string()).collect();
        assert_eq!(row(json!({"includeOutput": true}))["recentOutput"], json!(last));
        proves!("S0-50", "S0-61");
    }

    #[test]
    fn a_process_has_nothing_to_read_and_a_session_of_its_own() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell", &[]);
        let line = "cat; for fd in 0 1 2; do readlink /proc/self/fd/$fd; done; echo over";
        let id = start(&mut client, line)["processId"].clone();
        let told = ended(&mut client, &id);
        let lines: Vec<&str> = told["output"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|line| line["content"].as_str()?.split('[').next())
            .collect();
        assert_eq!(lines, ["/dev/null", "pipe:", "pipe:", "over"]);
        proves!("S0-85");
        let sleeper = soon("a start in the background", Duration::from_secs(1), || {
            start(&mut client, "exec sleep 300")
        });
        proves!("S0-37");
        let of = |pid: i32| Stat::read(pid).map(|stat| (stat.group, stat.session)).expect("it runs");
        let pid = outlive_tests::pid(&sleeper, "pid");
        assert_eq!(of(pid).0, pid, "it leads its group");
        let other = start(&mut client, "exec sleep 300");
        let sessions = [pid, outlive_tests::pid(&other, "pid"), client.pid()].map(|pid| of(pid).1);
        assert!(
            sessions[0] != sessions[1] && !sessions[..2].contains(&sessions[2]),
            "each has a session of its own: {sessions:?}"
        );
        proves!("S0-81");
        for id in [&sleeper["processId"], &other["processId"]] {
            object(&mut client, "kill_process", json!({"processId": id}));
        }
    }

    #[test]
    fn what_waits_for_its_turn_is_starting() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell", &["--session", "shared"]);
        let options =
            ["--session", "shared", "--name", "web", "--restart", "on-failure", "--restart-delay", "5m"];
        home.start_with(&options, ["false"]);
        let mut listed = Value::Null;
        until("the next run waits", || {
            listed = object(&mut client, "list_processes", json!({"status": "starting"}));
            listed["processes"].as_array().is_some_and(|rows| !rows.is_empty())
        });
        let row = &listed["processes"][0];
        assert_eq!((&row["status"], &row["pid"]), (&json!("starting"), &Value::Null));
        proves!("S0-14", "S0-22", "S0-56");
        home.run(["kill", "web"]).ok();
    }

    #[test]
    fn a_long_command_in_the_foreground_goes_on_in_the_background() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell", &[]);
        let arguments = json!({"command": "echo begun; exec sleep 300", "timeout": 200_000});
        let moved = soon("a move after 45 seconds", Duration::from_secs(55), || {
            let begun = Instant::now();
            let moved = object(&mut client, "run_command", arguments.clone());
            assert!(begun.elapsed() > Duration::from_secs(44), "{:?}", begun.elapsed());
            moved
        });
        assert_eq!(moved["status"], "running", "{moved}");
        let mut fields: Vec<&str> =
            moved.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["pid", "processId", "status"], "as one that was begun in the background");
        let shown = home.show(moved["processId"].as_str().expect("an id"));
        assert_eq!((&shown["pid"], &shown["timeout_ms"]), (&moved["pid"], &json!(200_000)));
        assert_eq!(shown["status"], "running", "it goes on");
        instead!("S0-113");
        object(&mut client, "kill_process", json!({"processId": moved["processId"]}));
    }
}

mod claude_code {
    use super::super::letter::STUBBORN;
    use super::*;

    fn start(client: &mut Mcp, command: &str) -> u64 {
        client.send_call("run_command", json!({"command": command, "run_in_background": true}))
    }

    fn listed(client: &mut Mcp) -> Vec<Value> {
        object(client, "list_shells", json!({})).as_array().cloned().expect("a list")
    }

    /// Its start is answered a second and a half later.
    #[test]
    fn a_process_is_listed_before_its_start_is_answered() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code", &[]);
        let mut count = 0;
        until("the list has it first", || {
            count += 1;
            let asked = start(&mut client, "exec sleep 300");
            until("it is listed", || listed(&mut client).len() == count);
            let was_answered = client.is_answered(asked);
            client.plain_answer(asked).ok();
            !was_answered
        });
        proves!("S1-43");
        let row = listed(&mut client).pop().expect("it is listed");
        let id = row["id"].as_str().expect("an id");
        let read = object(&mut client, "bash_output", json!({"bash_id": id}));
        assert_eq!(
            (&row["status"], &row["outputLines"], &row["errorLines"], read),
            (
                &json!("running"),
                &json!(0),
                &json!(0),
                json!({"id": id, "status": "running", "newOutput": "", "newErrors": ""})
            )
        );
        proves!("S1-30");
    }

    #[test]
    fn what_ignores_a_kill_is_forced_after_five_seconds() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code", &[]);
        let begin = || {
            let asked = start(&mut client, STUBBORN);
            let text = client.plain_answer(asked).ok().text;
            let id = text.lines().find_map(|line| line.strip_prefix("  ID: ")).expect("an id").to_owned();
            home.wait_for_output(&id, "ready");
            let begun = now();
            object(&mut client, "kill_shell", json!({"shell_id": id}));
            (id, begun)
        };
        assert_forced(&home, 5000, begin);
        proves!("S1-70");
    }

    #[test]
    fn what_ignores_its_timeout_is_forced_after_five_seconds() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code", &[]);
        let begin = || {
            let begun = now();
            let arguments = json!({"command": STUBBORN, "run_in_background": true, "timeout": 2000});
            let text = client.plain_call("run_command", arguments).ok().text;
            let id = text.lines().find_map(|line| line.strip_prefix("  ID: ")).expect("an id");
            (id.to_owned(), begun)
        };
        assert_forced(&home, 2000 + 5000, begin);
        instead!("S1-42");
    }

    #[test]
    fn a_row_has_the_time_of_the_start_and_fifty_characters_of_the_command() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code", &[]);
        // Each says itself what time it is: it was started between that and its call.
        let line = |length: usize| format!("{:x<length$}", "date +%s%3N; : ");
        let times = [50, 51].map(|length| {
            let before = now();
            let asked = start(&mut client, &line(length));
            let text = client.plain_answer(asked).ok().text;
            let id = text.lines().find_map(|line| line.strip_prefix("  ID: ")).expect("an id").to_owned();
            home.wait(&id);
            let said = String::from_utf8(home.logs(&id)).expect("digits").trim().parse::<u64>();
            before..=said.expect("a number")
        });
        let rows = listed(&mut client);
        let mut drawn = Vec::new();
        for (row, times) in rows.iter().zip(&times) {
            let id = row["id"].as_str().expect("an id");
            let parts: Vec<&str> = id.split('-').collect();
            let millis: u64 = parts[1].parse().expect("a number");
            assert!(times.contains(&millis), "{id} {times:?}");
            drawn.push(parts[2].to_owned());
        }
        assert_ne!(drawn[0], drawn[1], "of 36⁴ at random");
        proves!("S1-22");
        for (row, times) in rows.iter().zip(&times) {
            let started =
                row["startedAt"].as_str().and_then(|time| Timestamp::parse(time).ok()).expect("a time");
            assert!(times.contains(&(started.0 / 1000)), "{row} {times:?}");
        }
        proves!("S1-10");
        let commands: Vec<&str> = rows.iter().filter_map(|row| row["command"].as_str()).collect();
        assert_eq!(commands, [line(50), format!("{}...", &line(51)[..47])]);
        proves!("S1-78");
    }
}

mod deepchat {
    use super::super::letter::STUBBORN;
    use super::*;

    /// Of an output that has no file yet.
    #[test]
    fn a_poll_shows_the_last_five_hundred_characters() {
        let home = Home::new();
        let mut client = connect(&home, "deepchat", &[]);
        let command = "i=100; while [ $i -lt 400 ]; do printf \"$i \"; i=$((i+1)); done";
        let arguments =
            json!({"command": command, "description": "Prints 1200 characters", "background": true});
        let id = object(&mut client, "execute_command", arguments)["sessionId"].clone();
        let mut polled = Value::Null;
        until("it has ended", || {
            polled = object(&mut client, "process", json!({"action": "poll", "sessionId": id}));
            polled["status"] == "done"
        });
        let last: String = (275..400).map(|number: u32| format!("{number} ")).collect();
        assert_eq!(polled, json!({"status": "done", "output": last, "exitCode": 0}));
        proves!("S2-53");
    }

    #[test]
    fn what_ignores_a_kill_is_forced_after_two_seconds() {
        let home = Home::new();
        let mut client = connect(&home, "deepchat", &[]);
        let arguments = json!({"command": STUBBORN, "description": "Ignores SIGTERM", "background": true});
        let begin = || {
            let started = object(&mut client, "execute_command", arguments.clone());
            let id = started["sessionId"].as_str().expect("an id").to_owned();
            home.wait_for_output(&id, "ready");
            let begun = now();
            object(&mut client, "process", json!({"action": "kill", "sessionId": id}));
            (id, begun)
        };
        assert_forced(&home, 2000, begin);
        proves!("S2-42", "S2-58");
    }

    /// The window of a command in the foreground that does not say how long it is.
    #[test]
    fn a_command_yields_after_ten_seconds() {
        let home = Home::new();
        let mut client = connect(&home, "deepchat", &[]);
        // Beside it one with a longer window, which it does not need.
        let patient =
            json!({"command": "sleep 11; echo done", "description": "Within its window", "yieldMs": 40_000});
        let patient = client.send_call("execute_command", patient);
        let arguments = json!({"command": "exec sleep 300", "description": "Longer than the window"});
        let moved = soon("a window that is not said", Duration::from_secs(15), || {
            let begun = Instant::now();
            let moved = object(&mut client, "execute_command", arguments.clone());
            assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
            moved
        });
        assert_eq!(moved["status"], "running", "{moved}");
        proves!("S2-79");
        assert_eq!(client.plain_answer(patient).ok().text, "done\nExit Code: 0");
        proves!("S2-32");
        object(&mut client, "process", json!({"action": "remove", "sessionId": moved["sessionId"]}));
    }
}

mod duragent {
    use super::super::deepchat::Talk;
    use super::super::duragent::{ASKS, line_of, messages, send_keys, shows, write};
    use super::super::letter::STUBBORN;
    use super::*;

    #[test]
    fn what_ignores_its_timeout_is_forced_after_five_seconds() {
        let home = Home::new();
        let mut agent = Talk::start(&home, "duragent", "a");
        let begin = || {
            let begun = now();
            let (texts, _) = agent.call("spawn_process", json!({"command": STUBBORN, "timeout_seconds": 2}));
            let started: Value = serde_json::from_str(&texts[0]).expect("an object");
            (started["handle"].as_str().expect("a handle").to_owned(), begun)
        };
        assert_forced(&home, 2000 + 5000, begin);
        proves!("S3-82");
    }

    #[test]
    fn a_person_takes_over_and_the_screen_is_clean_text() {
        let home = Home::new();
        let sockets = home.path().display().to_string();
        let variables = [("TMUX_TMPDIR", sockets.as_str())];
        let mut agent = Talk::start_with(&home, "duragent", "a", &variables);
        let command = "printf '\\033[1;31mDelete?\\033[0m \\033[4my\\033[0m/N\\n'; read -r answer; echo \"got $answer\"; exit 4";
        let answer = agent.json("spawn_process", json!({"command": command, "tmux": true}));
        let handle = answer["handle"].as_str().expect("a handle").to_owned();
        let capture = json!({"action": "capture", "handle": handle});
        until("it asks", || agent.text("process", capture.clone()).trim_end() == "Delete? y/N");
        instead!("S3-54");
        let mut window = Terminal::open(120);
        let session = format!("duragent-{handle}");
        let mut person = window.start(&home, &variables, ["tmux", "attach", "-t", session.as_str()]);
        window.read_until("Delete?");
        window.write(b"by hand\r");
        let told = messages(&mut agent).remove(0);
        assert!(told.contains("got by hand"), "{told}");
        proves!("S3-14");
        drop(window);
        person.wait().expect("it was started");
    }

    /// No program of that name can be found.
    #[test]
    fn a_plain_process_is_listed_read_and_ended_without_tmux() {
        let home = Home::new();
        let mut agent = Talk::start_with(&home, "duragent", "a", &[("PATH", "/nonexistent")]);
        // Another stream once the first was read: their order is not known otherwise.
        let command = "printf '1\\n2\\n3\\n4\\n'; read x; \
                       [ -p /dev/stdout ] && [ -p /dev/stderr ] && echo \"pipes $x\" >&2; while :; do read y; done";
        let arguments = json!({"command": command, "tmux": false});
        let answer = agent.json("spawn_process", arguments);
        let handle = answer["handle"].as_str().expect("a handle").to_owned();
        assert_eq!(answer, json!({"handle": handle, "status": "running", "pid": answer["pid"]}));
        proves!("S3-43");
        let mut act = |action: &str| {
            let arguments =
                json!({"action": action, "handle": handle, "offset": 1, "limit": 2, "input": "x\n"});
            let (mut texts, is_error) = agent.call("process", arguments);
            assert!(!is_error, "{texts:?}");
            texts.remove(0)
        };
        assert_eq!(act("list"), format!("- {handle} | {command} | running | -"));
        proves!("S3-51");
        let status = |text: &str| serde_json::from_str::<Value>(text).expect("an object")["status"].clone();
        assert_eq!(status(&act("status")), "running");
        until("it has printed", || act("log") == "2\n3\n");
        proves!("S3-53");
        assert_eq!(act("write"), format!("Wrote to {handle}"));
        let log = home.path().join(format!(".duragent/processes/{handle}.log"));
        let printed = b"1\n2\n3\n4\npipes x\n";
        until("its file has all of it", || std::fs::read(&log).is_ok_and(|bytes| bytes == printed));
        proves!("S3-21");
        instead!("S3-56", "S3-59");
        assert_eq!(act("kill"), format!("Killed process {handle}"));
        assert_eq!(status(&act("status")), "killed");
        proves!("S3-52", "S3-57", "S3-88");
        instead!("S3-94");
    }

    #[test]
    fn a_process_in_tmux_is_there_after_a_crash_of_the_server() {
        let home = Home::new();
        let sockets = home.path().display().to_string();
        let start = || Talk::start_with(&home, "duragent", "a", &[("TMUX_TMPDIR", &sockets)]);
        let mut agent = start();
        let answer = agent.json("spawn_process", json!({"command": ASKS, "tmux": true}));
        let handle = answer["handle"].as_str().expect("a handle").to_owned();
        let session = format!("duragent-{handle}");
        shows(&mut agent, &handle, "Delete the file? [y/N]");
        agent.0.kill();
        let mut ask = home.command("tmux");
        ask.env("TMUX_TMPDIR", &sockets).args(["has-session", "-t", &session]);
        assert!(ask.status().expect("there is tmux").success());
        let log = home.path().join(format!(".duragent/processes/{handle}.log"));
        assert!(std::fs::read_to_string(&log).expect("it is there").contains("Delete the file?"));
        proves!("S3-72");
        let mut next = start();
        shows(&mut next, &handle, "Delete the file? [y/N]");
        send_keys(&mut next, &handle, "n");
        shows(&mut next, &handle, "answer: n");
        write(&mut next, &handle, "over\n");
        let told = messages(&mut next).remove(0);
        assert_eq!((line_of(&told, "Handle"), line_of(&told, "Exit code")), (handle.as_str(), "4"));
        proves!("S3-75");
        instead!("S3-96");
    }
}

mod neovate {
    use super::super::letter::STUBBORN;
    use super::*;

    #[test]
    fn what_ignores_a_kill_is_forced_after_a_fifth_of_a_second() {
        let home = Home::new();
        let mut client = connect(&home, "neovate", &[]);
        let begin = || {
            let arguments = json!({"command": STUBBORN, "run_in_background": true});
            let text = client.plain_call("bash", arguments).ok().text;
            let id = text.lines().find_map(|line| line.strip_prefix("Task ID: ")).expect("an id").to_owned();
            home.wait_for_output(&id, "ready");
            let begun = now();
            client.plain_call("kill_bash", json!({"task_id": id})).ok();
            (id, begun)
        };
        assert_forced(&home, 200, begin);
        proves!("S4-33");
    }
}
