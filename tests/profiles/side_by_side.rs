//! All profiles at once on one store: whatever one has started, the command line and the others see, each in its own words.

use std::collections::BTreeMap;

use outlive_tests::{Era, Home, Mcp, until};
use serde_json::{Value, json};

pub(super) const PROFILES: [&str; 5] = ["macos-shell", "claude-code", "deepchat", "duragent", "neovate"];

/// Starts a server of a profile that sees the jobs of all sessions.
fn server(home: &Home, profile: &str) -> Mcp {
    Mcp::start_with(home, Era::Handshake, &["--profile", profile, "--all-sessions"], home.path())
}

/// Calls a tool, which must succeed, and returns its text; endings that are told beside it are not looked at.
pub(super) fn call(client: &mut Mcp, tool: &str, arguments: Value) -> String {
    let result = client.result("tools/call", json!({"name": tool, "arguments": arguments}));
    assert_ne!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().expect("an answer has a text").to_owned()
}

/// Starts a command in the background with the profile's own tool, and returns its id.
pub(super) fn start(client: &mut Mcp, profile: &str, command: &str) -> String {
    let (tool, arguments, before) = match profile {
        "macos-shell" => ("run_background", json!({"command": command}), "\"processId\":\""),
        "claude-code" => ("run_command", json!({"command": command, "run_in_background": true}), "ID: shell"),
        "deepchat" => (
            "execute_command",
            json!({"command": command, "description": "runs beside others", "background": true}),
            "\"sessionId\":\"",
        ),
        "duragent" => ("spawn_process", json!({"command": command}), "\"handle\":\""),
        _ => ("bash", json!({"command": command, "run_in_background": true}), "Task ID: "),
    };
    let answer = call(client, tool, arguments);
    let at = answer.find(before).unwrap_or_else(|| panic!("{profile}: {}", answer)) + before.len();
    let id: String =
        answer[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    if profile == "claude-code" { format!("shell{id}") } else { id }
}

/// Returns the profile's word for the status of a job.
fn word(client: &mut Mcp, profile: &str, id: &str) -> String {
    let listed = |answer: &str, list: &str, key: &str| {
        let rows: Value = serde_json::from_str(answer).expect("a list is JSON");
        let rows = if list.is_empty() { &rows } else { &rows[list] };
        let row = rows.as_array().into_iter().flatten().find(|row| row[key] == id);
        row.unwrap_or_else(|| panic!("{profile} does not list {id}: {answer}"))["status"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    match profile {
        "macos-shell" => listed(&call(client, "list_processes", json!({})), "processes", "id"),
        "claude-code" => listed(&call(client, "list_shells", json!({})), "", "id"),
        "deepchat" => listed(&call(client, "process", json!({"action": "list"})), "sessions", "sessionId"),
        "duragent" => {
            let answer = call(client, "process", json!({"action": "list"}));
            let line = answer.lines().find(|line| line.contains(id));
            let line = line.unwrap_or_else(|| panic!("{profile} does not list {id}: {answer}"));
            line.split(" | ")
                .nth(2)
                .and_then(|status| status.split_whitespace().next())
                .unwrap_or_default()
                .to_owned()
        }
        _ => {
            let answer = call(client, "bash_output", json!({"task_id": id}));
            let line = answer.lines().find_map(|line| line.strip_prefix("Status: "));
            line.unwrap_or_else(|| panic!("{answer}")).to_owned()
        }
    }
}

#[test]
fn a_job_that_waits_has_a_word_in_every_profile() {
    let home = Home::new();
    // For its turn, for its time, and after a failure.
    home.start_with(&["--queue", "line"], ["sleep", "300"]);
    let queued = home.start_with(&["--queue", "line"], ["true"]);
    home.start_with(&["--every", "1h", "--name", "hourly"], ["true"]);
    home.start_with(&["--restart", "on-failure", "--restart-delay", "1h", "--name", "ill"], ["false"]);
    let waiting = |name: &str| {
        until("its next run waits", || home.show(name)["status"] == "queued");
        home.show(name)["job"].as_str().expect("an id").to_owned()
    };
    let (sleeping, backing_off) = (waiting("hourly"), waiting("ill"));
    for profile in PROFILES {
        let mut client = server(&home, profile);
        let wanted = if profile == "macos-shell" { "starting" } else { "running" };
        for id in [&queued, &sleeping, &backing_off] {
            assert_eq!(word(&mut client, profile, id), wanted, "{profile}");
        }
    }
}

#[test]
fn a_start_that_has_to_wait_is_answered_in_every_profile() {
    let home = Home::new();
    home.configure("[limits]\ntotal = 1\noverflow = \"later\"\n");
    home.start(["sleep", "300"]);
    home.run(["queue", "parallel", "later", "1"]).ok();
    home.run(["queue", "pause", "later"]).ok();
    for profile in PROFILES {
        let mut client = server(&home, profile);
        let id = start(&mut client, profile, "true");
        let wanted = if profile == "macos-shell" { "starting" } else { "running" };
        assert_eq!(word(&mut client, profile, &id), wanted, "{profile}");
        assert_eq!(home.show(&id)["status"], "queued", "{profile}");
    }
}

#[test]
fn a_job_of_one_is_seen_by_all_in_their_own_words() {
    let home = Home::new();
    let mut clients: BTreeMap<&str, Mcp> =
        PROFILES.into_iter().map(|profile| (profile, server(&home, profile))).collect();
    // One of each that goes on, one that ends well, one that does not, one that is killed.
    let mut running = Vec::new();
    let mut ended = Vec::new();
    for profile in PROFILES {
        let client = clients.get_mut(profile).unwrap();
        running.push(start(client, profile, "sleep 300"));
        for (code, native) in [("exit 0", "completed"), ("exit 3", "failed"), ("sleep 301", "killed")] {
            // Not before it was answered: one of them looks whether it fails at once.
            let gate = format!("{profile}-{native}");
            let id = start(client, profile, &format!("until test -e {gate}; do sleep 0.02; done; {code}"));
            std::fs::write(home.path().join(&gate), "").expect("the home is there");
            if native == "killed" {
                home.run(["kill", "--force", &id]).ok();
            }
            assert_eq!(home.run(["wait", "--json", &id]).json()["status"], native);
            ended.push((id, native));
        }
    }
    let words = |profile: &str, native: &str| match (profile, native) {
        ("macos-shell", "completed") => "stopped".to_owned(),
        ("deepchat", "completed") => "done".to_owned(),
        ("deepchat", "failed") => "error".to_owned(),
        _ => native.to_owned(),
    };
    for profile in PROFILES {
        let client = clients.get_mut(profile).unwrap();
        for id in &running {
            assert_eq!(word(client, profile, id), "running", "{profile}, {id}");
        }
        for (id, native) in &ended {
            assert_eq!(word(client, profile, id), words(profile, native), "{profile}, {id}");
        }
    }
    // The command line knows each by the same id.
    let listed = home.run(["list", "--json"]).ok().json();
    let status = |id: &str| {
        let row = listed.as_array().unwrap().iter().find(|row| row["job"] == id);
        row.unwrap_or_else(|| panic!("{id} is not listed"))["status"].as_str().unwrap().to_owned()
    };
    assert!(running.iter().all(|id| status(id) == "running"));
    assert!(ended.iter().all(|(id, native)| status(id) == *native));
    for id in &running {
        home.run(["kill", "--force", id]).ok();
    }
}

/// What a command leaves behind for a moment prints into the same answer: the end of the main process is not the end of the output.
#[test]
fn the_last_words_of_what_is_left_behind_are_in_the_answer() {
    let home = Home::new();
    for profile in PROFILES {
        let mut client = server(&home, profile);
        for line in ["/bin/echo late & exit 0", "(/bin/echo late) & (/bin/echo late >&2) &"] {
            let (tool, arguments) = match profile {
                "macos-shell" | "claude-code" => ("run_command", json!({"command": line})),
                "deepchat" => ("execute_command", json!({"command": line, "description": "prints late"})),
                "duragent" => ("spawn_process", json!({"command": line, "wait": true})),
                _ => ("bash", json!({"command": line})),
            };
            for _ in 0..5 {
                let answer = call(&mut client, tool, arguments.clone());
                let wanted = line.matches("late").count();
                assert_eq!(answer.replace(line, "").matches("late").count(), wanted, "{profile}: {answer}");
            }
        }
    }
}

/// However long a design waits by itself, `[mcp] longest_wait` is the longest.
#[test]
fn every_design_waits_no_longer_than_configured() {
    let home = Home::new();
    home.configure("[mcp]\nlongest_wait = \"1s\"\n");
    let line = "sleep 300";
    for (profile, tool, arguments, goes_on) in [
        (
            "claude-code",
            "run_command",
            json!({"command": line}),
            "Not done after 1s in the foreground: it goes on in the background",
        ),
        (
            "deepchat",
            "execute_command",
            json!({"command": line, "description": "sleeps", "yieldMs": 40_000}),
            r#""status":"running""#,
        ),
        ("macos-shell", "run_command", json!({"command": line, "timeout": 200_000}), r#""status":"running""#),
        ("neovate", "bash", json!({"command": line}), "Command has been moved to background execution."),
    ] {
        let mut client = Mcp::start_with(&home, Era::Handshake, &["--profile", profile], home.path());
        let began = std::time::Instant::now();
        let answer = client.plain_call(tool, arguments);
        assert!(answer.text.contains(goes_on), "{profile}: {}", answer.text);
        // Far less than the 45 s that it would wait otherwise.
        assert!(began.elapsed() < std::time::Duration::from_secs(30), "{profile}");
        assert_eq!(client.end(), 0);
    }
    home.run(["kill", "--all"]).ok();
}

/// A command that was moved to the background stays in the list when its end was told, however short the configured wait.
#[test]
fn what_was_moved_stays_in_the_list() {
    let home = Home::new();
    home.configure("[mcp]\nlongest_wait = \"1s\"\n");
    for (profile, list, ended) in
        [("macos-shell", "list_processes", "stopped"), ("claude-code", "list_shells", "completed")]
    {
        let mut client = Mcp::start_with(&home, Era::Handshake, &["--profile", profile], home.path());
        let moved =
            client.plain_call("run_command", json!({"command": "until test -e go; do sleep 0.02; done"}));
        assert!(moved.text.contains("running"), "{profile}: {}", moved.text);
        std::fs::write(home.path().join("go"), "").expect("the home is there");
        until("its end is told", || client.plain_call(list, json!({})).text.contains(ended));
        // Noted as told with the next call.
        for _ in 0..3 {
            let listed = client.plain_call(list, json!({})).text;
            assert!(listed.contains(ended), "{profile}: {listed}");
        }
        assert_eq!(client.end(), 0);
        std::fs::remove_file(home.path().join("go")).expect("it was made");
    }
}
