//! Lines of the designs that no dialogue and no scenario shows: a test each, as short as it can be.

use std::time::{Duration, Instant};

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

/// An hour and half an hour are the designs'; a configuration decides.
#[test]
fn how_long_an_ended_process_stays_is_configured() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\n");
    let mut client = connect(&home, "macos-shell", &[]);
    object(&mut client, "run_background", json!({"command": "true"}));
    let mut listed = || object(&mut client, "list_processes", json!({}))["processes"].take();
    assert_eq!(listed().as_array().map(Vec::len), Some(1), "not before it was told");
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
        proves!("S0-50");
        // Also those that are no longer in the buffer.
        assert_eq!(row(json!({}))["outputLines"], 400);
        proves!("S0-60");
        let last: Vec<String> = (391..=400).map(|number: u32| number.to_string()).collect();
        assert_eq!(row(json!({"includeOutput": true}))["recentOutput"], json!(last));
        proves!("S0-61");
    }

    #[test]
    fn a_process_has_nothing_to_read_and_a_session_of_its_own() {
        let home = Home::new();
        let mut client = connect(&home, "macos-shell", &[]);
        let id = start(&mut client, "cat; readlink /proc/self/fd/0; echo over")["processId"].clone();
        let told = ended(&mut client, &id);
        let lines: Vec<&Value> =
            told["output"].as_array().into_iter().flatten().map(|line| &line["content"]).collect();
        assert_eq!(lines, ["/dev/null", "over"]);
        proves!("S0-85");
        let sleeper = soon("a start in the background", Duration::from_secs(1), || {
            start(&mut client, "exec sleep 300")
        });
        proves!("S0-37");
        let of = |pid: i32| Stat::read(pid).map(|stat| (stat.group, stat.session)).expect("it runs");
        let pid = outlive_tests::pid(&sleeper, "pid");
        assert_eq!(of(pid).0, pid, "it leads its group");
        assert_ne!(of(pid).1, of(client.pid()).1, "it has another session than the server");
        proves!("S0-81");
        object(&mut client, "kill_process", json!({"processId": sleeper["processId"]}));
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
        let begun = Instant::now();
        let moved = object(&mut client, "run_command", arguments);
        assert_eq!(moved["status"], "running", "{moved}");
        assert!(begun.elapsed() > Duration::from_secs(44), "{:?}", begun.elapsed());
        instead!("S0-113");
        object(&mut client, "kill_process", json!({"processId": moved["processId"]}));
    }
}

mod deepchat {
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

    /// The window of a command in the foreground that does not say how long it is.
    #[test]
    fn a_command_yields_after_ten_seconds() {
        let home = Home::new();
        let mut client = connect(&home, "deepchat", &[]);
        let begun = Instant::now();
        let arguments = json!({"command": "exec sleep 300", "description": "Longer than the window"});
        let moved = object(&mut client, "execute_command", arguments);
        let took = begun.elapsed();
        assert_eq!(moved["status"], "running", "{moved}");
        // Before the 45 seconds after which any command moves.
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(40), "{took:?}");
        proves!("S2-32");
        object(&mut client, "process", json!({"action": "remove", "sessionId": moved["sessionId"]}));
    }
}

mod duragent {
    use super::super::deepchat::Talk;
    use super::super::duragent::{ASKS, line_of, messages, send_keys, shows, write};
    use super::*;

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
        proves!("S3-54");
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
