//! Where a profile follows its design to the letter: what a dialogue cannot show, because it takes time or an environment.

use std::time::{Duration, Instant};

use outlive_tests::{Era, Home, Mcp, instead, proves, until};
use serde_json::{Value, json};

fn connect(home: &Home, profile: &str) -> Mcp {
    Mcp::start_with(home, Era::Handshake, &["--profile", profile], home.path())
}

/// Calls a tool and returns its result.
fn result(client: &mut Mcp, tool: &str, arguments: Value) -> Value {
    client.result("tools/call", json!({"name": tool, "arguments": arguments}))
}

fn text(client: &mut Mcp, tool: &str, arguments: Value) -> String {
    result(client, tool, arguments)["content"][0]["text"].as_str().expect("an answer has a text").to_owned()
}

fn object(client: &mut Mcp, tool: &str, arguments: Value) -> Value {
    let text = text(client, tool, arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// A command that no SIGTERM ends.
pub(super) const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 0.05; done";

mod macos_shell {
    use super::*;

    fn run(client: &mut Mcp, arguments: Value) -> String {
        word(&object(client, "run_background", arguments)["processId"])
    }

    fn output(client: &mut Mcp, id: &str) -> Value {
        object(client, "get_process_output", json!({"processId": id}))
    }

    #[test]
    fn a_session_that_a_call_names_is_made() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell");
        let id = run(&mut client, json!({"command": "sleep 300", "session": "dev"}));
        let sessions = object(&mut client, "list_shell_sessions", json!({}));
        let names: Vec<&Value> =
            sessions["sessions"].as_array().into_iter().flatten().map(|row| &row["name"]).collect();
        assert_eq!(names, ["default", "dev"]);
        let listed = object(&mut client, "list_processes", json!({"session": "dev"}));
        assert_eq!(
            (&listed["processes"][0]["id"], &listed["processes"][0]["sessionName"]),
            (&json!(id), &json!("dev"))
        );
        object(&mut client, "close_shell_session", json!({"session": "dev", "running": "kill"}));
        // A closed one is made anew.
        object(&mut client, "run_command", json!({"command": "true", "session": "dev"}));
        assert!(text(&mut client, "list_shell_sessions", json!({})).contains("\"name\":\"dev\""));
    }

    #[test]
    fn the_end_is_shown_with_its_code_and_time_and_failures_are_alerts() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell");
        let good = run(&mut client, json!({"command": "true"}));
        let bad = run(&mut client, json!({"command": "exit 3"}));
        let runs = run(&mut client, json!({"command": "sleep 300", "group": "web"}));
        for id in [&good, &bad] {
            assert!(home.run(["--reader", "other", "wait", id]).text().contains(id.as_str()));
            // Not told to anybody yet: waiting marked it as seen, which is what an alert goes by.
            std::fs::remove_file(home.job_dir(id).join("seen")).ok();
        }
        let listed = object(&mut client, "list_processes", json!({}));
        let row = |id: &str| {
            let rows = listed["processes"].as_array().into_iter().flatten();
            rows.clone().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id}: {listed}")).clone()
        };
        assert_eq!((&row(&good)["exitCode"], &row(&bad)["exitCode"]), (&json!(0), &json!(3)));
        assert!(word(&row(&bad)["endTime"]).ends_with('Z'));
        assert!(row(&runs).get("exitCode").is_none() && row(&runs).get("endTime").is_none());
        proves!("S0-17", "S0-18");
        assert!(row(&runs)["resourceUsage"]["processes"].as_u64() >= Some(1), "{listed}");
        assert_eq!(listed["alerts"].as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!(
            listed["alerts"][0],
            json!({"processId": bad, "status": "failed", "exitCode": 3, "message": "exited with 3"})
        );
        proves!("S0-138");
        assert!(
            object(&mut client, "list_processes", json!({})).get("alerts").is_none(),
            "an alert comes once"
        );
        let told = output(&mut client, &bad);
        assert_eq!(told["exitCode"], 3);
        object(&mut client, "kill_process", json!({"group": "web"}));
    }

    #[test]
    fn a_group_is_listed_and_killed_together() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell");
        let web = [1, 2]
            .map(|number| run(&mut client, json!({"command": format!("sleep 30{number}"), "group": "web"})));
        let other = run(&mut client, json!({"command": "sleep 303"}));
        let listed = object(&mut client, "list_processes", json!({"group": "web"}));
        let rows = listed["processes"].as_array().into_iter().flatten();
        let mut ids: Vec<&str> = rows.filter_map(|row| row["id"].as_str()).collect();
        let mut grouped = web.each_ref().map(String::as_str);
        ids.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(ids, grouped);
        proves!("S0-132");
        let killed = object(&mut client, "kill_process", json!({"group": "web"}));
        assert!(
            killed["processes"].as_array().into_iter().flatten().all(|row| row["killed"] == true),
            "{killed}"
        );
        assert!(web.iter().all(|id| home.show(id)["status"] == "killed"));
        assert_eq!(home.show(&other)["status"], "running");
        proves!("S0-133");
        instead!("S0-74");
        let refusal = result(&mut client, "kill_process", json!({"group": "web"}));
        assert_eq!(refusal["content"][0]["text"], "Group 'web' has no running process");
        object(&mut client, "kill_process", json!({"processId": other}));
    }

    #[test]
    fn output_is_cleared_once_it_was_returned() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell");
        let id = run(&mut client, json!({"command": "echo one; echo two; sleep 300"}));
        until("it has printed", || output(&mut client, &id)["totalLines"] == 2);
        let last = object(&mut client, "get_process_output", json!({"processId": id, "clearOutput": true}));
        assert_eq!(last["output"].as_array().map(Vec::len), Some(2));
        let cleared = output(&mut client, &id);
        assert_eq!(
            (cleared["output"].as_array().map(Vec::len), &cleared["totalLines"]),
            (Some(0), &json!(2))
        );
        proves!("S0-31", "S0-103");
        object(&mut client, "kill_process", json!({"processId": id}));
    }

    #[test]
    fn a_kill_answers_at_once_and_its_effect_is_reported_later() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell");
        let line = "trap 'until test -e go; do sleep 0.02; done; exit 4' TERM; echo ready; while :; do sleep 0.05; done";
        let id = run(&mut client, json!({"command": line}));
        until("it is ready", || output(&mut client, &id)["totalLines"] == 1);
        let began = Instant::now();
        let answer = object(&mut client, "kill_process", json!({"processId": id}));
        // Far below the five seconds that it takes a stubborn process to be given up.
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert_eq!((&answer["newStatus"], &answer["killed"]), (&json!("running"), &json!(false)));
        std::fs::write(home.path().join("go"), "").expect("the home is there");
        until("it is reported", || {
            object(&mut client, "list_processes", json!({}))["processes"][0]["status"] == "killed"
        });
    }

    #[test]
    fn an_unfinished_line_is_none_yet_for_every_tool() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell");
        let id = run(&mut client, json!({"command": "echo one; printf part; sleep 300"}));
        until("it has printed", || output(&mut client, &id)["partial"] == json!(["part"]));
        assert_eq!(output(&mut client, &id)["totalLines"], 1);
        let listed = object(&mut client, "list_processes", json!({"includeOutput": true}));
        assert_eq!(
            (&listed["processes"][0]["outputLines"], &listed["processes"][0]["recentOutput"]),
            (&json!(1), &json!(["one"]))
        );
        let streamed = object(&mut client, "stream_process_output", json!({"processId": id, "timeout": 0}));
        assert_eq!((&streamed["totalLines"], &streamed["afterLine"]), (&json!(1), &json!(1)));
        object(&mut client, "kill_process", json!({"processId": id}));
    }
}

mod claude_code {
    use super::*;

    fn run(client: &mut Mcp, mut arguments: Value) -> String {
        arguments["run_in_background"] = true.into();
        let text = text(client, "run_command", arguments);
        let id = text.lines().find_map(|line| line.trim().strip_prefix("ID: "));
        id.unwrap_or_else(|| panic!("no id: {text}")).to_owned()
    }

    fn read(client: &mut Mcp, id: &str, filter: &str) -> Value {
        object(client, "bash_output", json!({"bash_id": id, "filter": filter}))
    }

    #[test]
    fn a_timeout_holds_in_the_background() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code");
        let id = run(&mut client, json!({"command": "sleep 300", "timeout": 2500}));
        assert_eq!(home.run(["wait", "--json", &id]).json()["status"], "timed_out");
        let told = read(&mut client, &id, "");
        assert_eq!(
            (&told["status"], &told["newErrors"]),
            (&json!("killed"), &json!("Process killed after 2500ms timeout"))
        );
        assert_eq!(home.show(&id)["signal"], "SIGTERM", "it is asked");
        instead!("S1-42");
        let id = run(&mut client, json!({"command": "sleep 300"}));
        assert_eq!(home.show(&id)["timeout_ms"], 600_000);
        proves!("S1-27");
        object(&mut client, "kill_shell", json!({"shell_id": id}));
    }

    #[test]
    fn a_prompt_is_seen_and_patterns_look_around() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code");
        let id =
            run(&mut client, json!({"command": "echo error 1; echo errors 2; printf 'Name? '; sleep 300"}));
        until("all is there", || home.logs(&id).ends_with(b"Name? "));
        let mut seen = String::new();
        until("the prompt is seen", || {
            seen.push_str(
                read(&mut client, &id, "error(?!s)|name")["newOutput"].as_str().unwrap_or_default(),
            );
            seen.contains("Name? ")
        });
        assert!(seen.contains("error 1") && !seen.contains("errors 2"), "{seen}");
        object(&mut client, "kill_shell", json!({"shell_id": id}));
    }

    #[test]
    fn a_kill_answers_at_once_with_killed() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code");
        let id = run(&mut client, json!({"command": STUBBORN}));
        let began = Instant::now();
        let answer = object(&mut client, "kill_shell", json!({"shell_id": id}));
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert_eq!(answer, json!({"success": true, "message": format!("Process {id} killed")}));
        assert_eq!(object(&mut client, "list_shells", json!({}))[0]["status"], "killed");
        proves!("S1-71");
        assert_eq!(read(&mut client, &id, "")["status"], "killed");
        let again = text(&mut client, "kill_shell", json!({"shell_id": id}));
        assert!(again.contains("Process already killed"), "{again}");
        assert_eq!(home.run(["wait", "--json", &id]).json()["status"], "killed");
    }

    #[test]
    fn both_names_of_the_directory_are_taken() {
        let home = Home::new();
        let mut client = connect(&home, "claude-code");
        let inner = home.make_dir("inner").display().to_string();
        for name in ["cwd", "working_directory"] {
            assert_eq!(
                text(&mut client, "run_command", json!({"command": "pwd", name: inner})).trim(),
                inner
            );
            let id = run(&mut client, json!({"command": "pwd", name: inner}));
            home.wait(&id);
            assert_eq!(read(&mut client, &id, "")["newOutput"], inner);
        }
        proves!("S1-26");
    }
}

mod deepchat {
    use super::*;

    fn run(client: &mut Mcp, command: &str, is_background: bool) -> String {
        let arguments =
            json!({"command": command, "description": "to the letter", "background": is_background});
        text(client, "execute_command", arguments)
    }

    #[test]
    fn only_the_background_has_an_open_input() {
        let home = Home::new();
        let mut client = connect(&home, "deepchat");
        assert_eq!(run(&mut client, "cat; echo over", false), "over\nExit Code: 0");
        let started: Value = serde_json::from_str(&run(&mut client, "cat", true)).expect("an object");
        let id = word(&started["sessionId"]);
        let written = json!({"action": "write", "sessionId": id, "data": "x\n", "eof": true});
        assert_eq!(object(&mut client, "process", written)["status"], "ok");
        until("it has ended", || {
            object(&mut client, "process", json!({"action": "poll", "sessionId": id}))["status"] == "done"
        });
    }

    #[test]
    fn messages_are_in_the_language_of_the_user() {
        let home = Home::new();
        for (locale, not_found, not_running, no_input) in [
            (
                "en_US.UTF-8",
                "Session ID not found",
                "Session ID is not running",
                "Session ID stdin is not available",
            ),
            ("zh_CN.UTF-8", "未找到会话 ID", "会话 ID 未在运行", "会话 ID 的标准输入不可用"),
            (
                "fr_FR.UTF-8",
                "Session ID introuvable",
                "La session ID n'est pas en cours d'exécution",
                "L'entrée standard de la session ID n'est pas disponible",
            ),
        ] {
            let mut command = home.outlive(["mcp", "--profile", "deepchat"]);
            command.env("LC_ALL", locale);
            let mut client = Mcp::of(command, Era::Handshake, json!({}), &[]);
            let started: Value =
                serde_json::from_str(&run(&mut client, "sleep 300", true)).expect("an object");
            let id = word(&started["sessionId"]);
            let mut write = |session: &str, is_last: bool| {
                let written = json!({"action": "write", "sessionId": session, "data": "x", "eof": is_last});
                text(&mut client, "process", written).replace(session, "ID")
            };
            assert_eq!(write("bg_1", false), not_found);
            write(&id, true);
            assert_eq!(write(&id, false), no_input);
            home.run(["kill", &id]).ok();
            assert_eq!(write(&id, false), not_running);
        }
        proves!("S2-64", "S2-65", "S2-66");
    }

    #[test]
    fn how_long_a_session_stays_is_configured() {
        let home = Home::new();
        home.configure("[retention]\nkeep = \"0s\"\n");
        let mut client = connect(&home, "deepchat");
        let started: Value = serde_json::from_str(&run(&mut client, "true", true)).expect("an object");
        let id = word(&started["sessionId"]);
        until("it is gone", || {
            text(&mut client, "process", json!({"action": "poll", "sessionId": id})).ends_with("not found")
        });
    }
}

mod duragent {
    use super::*;

    /// The design's own limit for a tool is 2 minutes, and `wait: true` goes beyond it.
    #[test]
    fn a_wait_of_more_than_two_minutes_goes_to_the_end() {
        let home = Home::new();
        let mut client = connect(&home, "duragent");
        let answer =
            object(&mut client, "spawn_process", json!({"command": "sleep 122; echo done", "wait": true}));
        assert_eq!((&answer["status"], &answer["output"]), (&json!("completed"), &json!("done\n")));
        assert!(answer["duration_seconds"].as_u64() >= Some(122), "{answer}");
        proves!("S3-84");
    }

    /// `wait: true` blocks to the end, whatever the limit of other calls.
    #[test]
    fn a_wait_goes_to_the_end() {
        let home = Home::new();
        // Far shorter than the command: it does not count here.
        home.configure("[mcp]\nlongest_wait = \"1s\"\n");
        let mut client = connect(&home, "duragent");
        let answer =
            object(&mut client, "spawn_process", json!({"command": "sleep 2.2; echo done", "wait": true}));
        assert_eq!(
            (&answer["status"], &answer["exit_code"], &answer["output"]),
            (&json!("completed"), &json!(0), &json!("done\n"))
        );
        assert!(answer["duration_seconds"].as_u64() >= Some(2), "{answer}");
        proves!("S3-61", "S3-85");
    }

    #[test]
    fn neither_status_nor_kill_swallows_the_message() {
        let home = Home::new();
        let mut client = connect(&home, "duragent");
        let started = object(&mut client, "spawn_process", json!({"command": "sleep 300"}));
        let handle = word(&started["handle"]);
        let killed = result(&mut client, "process", json!({"action": "kill", "handle": handle}));
        assert_eq!(killed["content"][0]["text"], format!("Killed process {handle}"));
        let status = result(&mut client, "process", json!({"action": "status", "handle": handle}));
        let message =
            [&killed, &status].into_iter().filter_map(|answer| answer["content"][1]["text"].as_str());
        let message: Vec<&str> = message.collect();
        assert_eq!(message.len(), 1, "it comes once: {killed} {status}");
        assert!(message[0].starts_with("[Background Process Completed]"), "{message:?}");
        assert!(message[0].contains(&format!("Handle: {handle}\n")), "{message:?}");
    }
}

mod neovate {
    use super::*;

    #[test]
    fn the_client_gets_what_is_not_for_the_model() {
        let home = Home::new();
        let mut client = connect(&home, "neovate");
        let twenty: String = (1..=20).map(|number| format!("{number}\n")).collect();
        for (arguments, display) in [
            (json!({"command": "echo hello"}), "hello\n"),
            (json!({"command": "seq 30"}), &format!("{twenty}… +11 lines")),
            (json!({"command": "true"}), "Command executed successfully."),
            (json!({"command": "exit 3"}), "Command exited with code: 3"),
            (json!({"command": "kill -KILL $$"}), "Command execution was terminated by signal SIGKILL."),
            (
                json!({"command": "sleep 300", "timeout": 300}),
                "Command execution timed out and was cancelled.",
            ),
        ] {
            let answer = result(&mut client, "bash", arguments);
            assert_eq!(answer["_meta"]["returnDisplay"], display, "{answer}");
        }
        // One whose end no process saw.
        let asked = client.send_call("bash", json!({"command": "until test -e go; do sleep 0.02; done"}));
        let mut live = Value::Null;
        until("it runs", || {
            live = home.json(["list", "--live"]);
            live[0]["status"] == "running"
        });
        home.orphan(&word(&live[0]["job"]));
        std::fs::write(home.path().join("go"), "").expect("the home is there");
        let answer = client.answer(asked)["result"].clone();
        let display = word(&answer["_meta"]["returnDisplay"]);
        let reason = display.strip_prefix("Command failed: ").unwrap_or_else(|| panic!("{answer}"));
        assert!(!reason.trim().is_empty(), "{answer}");
        proves!("S4-91");
        let answer = result(&mut client, "bash", json!({"command": "sleep 300", "run_in_background": true}));
        let id = word(&answer["_meta"]["backgroundTaskId"]);
        assert!(word(&answer["content"][0]["text"]).contains(&format!("Task ID: {id}\n")), "{answer}");
        proves!("S4-86");
        text(&mut client, "kill_bash", json!({"task_id": id}));
    }

    #[test]
    fn the_foreground_lasts_as_long_as_the_client_waits() {
        let home = Home::new();
        home.configure("[mcp]\nlongest_wait = \"3m\"\n");
        let mut client = connect(&home, "neovate");
        let asked = client.send_call("bash", json!({"command": "until test -e go; do sleep 0.02; done"}));
        assert!(!client.is_answered(asked));
        std::fs::write(home.path().join("go"), "").expect("the home is there");
        assert!(client.plain_answer(asked).text.contains("Exit Code: 0"));
        // As short as it is configured, it moves to the background.
        home.configure("[mcp]\nlongest_wait = \"1s\"\n");
        let mut client = connect(&home, "neovate");
        let moved = result(&mut client, "bash", json!({"command": "sleep 300"}));
        text(&mut client, "kill_bash", json!({"task_id": moved["_meta"]["backgroundTaskId"]}));
    }

    #[test]
    fn a_timeout_that_was_given_holds_in_the_background() {
        let home = Home::new();
        home.configure("[mcp]\nlongest_wait = \"1s\"\n");
        let mut client = connect(&home, "neovate");
        let given = json!({"command": "sleep 300", "run_in_background": true, "timeout": 1500});
        let moved = json!({"command": "sleep 301", "timeout": 2500});
        for arguments in [given, moved] {
            let answer = result(&mut client, "bash", arguments);
            let id = word(&answer["_meta"]["backgroundTaskId"]);
            assert_eq!(home.run(["wait", "--json", &id]).json()["status"], "timed_out");
        }
        let none = result(&mut client, "bash", json!({"command": "sleep 302", "run_in_background": true}));
        let id = word(&none["_meta"]["backgroundTaskId"]);
        assert_eq!(home.show(&id)["timeout_ms"], Value::Null);
        instead!("S4-93");
        text(&mut client, "kill_bash", json!({"task_id": id}));
    }
}
