//! Durations far beyond any use, at every entry: a sentence or a bound, and never a panic.
//!
//! The command line and `config.toml` refuse more than a hundred years; tools of the MCP server take the longest that they allow.

use std::time::Duration;

use outlive::{Kill, Request, Until};
use outlive_tests::{Era, Home, Mcp};
use serde_json::{Map, Value, json};

/// What no clock holds.
const HUGE: [&str; 4] = ["99999999999999999999", "999999999d", "18446744073709551615ms", "5000000000m"];

const TOO_LONG: &str = "more than a hundred years";

/// The longest that is allowed.
const LONGEST: &str = "36600d";

/// Where a duration is given on the command line; `JOB` is one that has ended.
const OPTIONS: &[&[&str]] = &[
    &["run", "--timeout", "TIME", "true"],
    &["run", "--grace", "TIME", "true"],
    &["run", "--survivors", "kill-after=TIME", "true"],
    &["run", "--ready-timeout", "TIME", "--ready-on", "x", "echo x"],
    &["run", "--lifetime", "until=TIME", "true"],
    &["run", "--yield", "TIME", "true"],
    &["run", "--wait=TIME", "true"],
    &["wait", "--timeout", "TIME", "JOB"],
    &["wait", "--idle", "TIME", "JOB"],
    &["kill", "--grace", "TIME", "JOB"],
    &["logs", "--since", "TIME", "JOB"],
    &["logs", "--until", "TIME", "JOB"],
];

/// Where a duration is given in `config.toml`.
const KEYS: &[(&str, &str)] = &[
    ("job", "timeout"),
    ("job", "grace"),
    ("job", "on_exit_timeout"),
    ("retention", "keep"),
    ("retention", "max_age"),
    ("retention", "max_idle"),
    ("session", "lease"),
    ("session", "absence"),
    ("webhook", "timeout"),
    ("webhook", "give_up"),
    ("webhook", "first_retry"),
];

#[test]
fn the_command_line_refuses_what_no_clock_holds_and_takes_a_hundred_years() {
    let home = Home::new();
    let job = home.start_line("echo x");
    home.wait(&job);
    for option in OPTIONS {
        let with = |time: &str| {
            let words = option.iter().map(|word| word.replace("TIME", time).replace("JOB", &job));
            home.run(words.collect::<Vec<_>>())
        };
        for huge in HUGE {
            let refused = with(huge).code(2).error();
            // Where a time of day is taken, too, a number alone is not understood, however large.
            let is_asked = option[0] == "logs" && refused.contains(&format!("{huge} of what?"));
            assert!(
                refused.contains(huge) && (is_asked || refused.contains(TOO_LONG)),
                "{option:?}: {refused}"
            );
        }
        let taken = with(LONGEST);
        // What the job can no longer do is another failure.
        assert!([0, 6].contains(&taken.code), "{option:?}: {}", taken.error());
    }
}

#[test]
fn the_configuration_refuses_what_no_clock_holds_and_takes_a_hundred_years() {
    let home = Home::new();
    for (table, key) in KEYS {
        for huge in HUGE {
            home.configure(&format!("[{table}]\n{key} = \"{huge}\"\n"));
            let refused = home.run(["run", "true"]).code(1).error();
            assert!(refused.contains(&format!("{table}.{key}")) && refused.contains(TOO_LONG), "{refused}");
        }
        home.configure(&format!("[{table}]\n{key} = \"{LONGEST}\"\n"));
        home.run(["run", "--on-exit", "true", "--wait", "true"]).ok();
        home.run(["inbox"]).ok();
        home.run(["gc"]).ok();
    }
}

#[test]
fn the_library_takes_the_longest_duration_there_is() {
    let home = Home::new();
    let store = home.open();
    let longest = Duration::MAX;
    let request = Request::argv(["sleep", "300"]).timeout(Some(longest)).grace(longest);
    let job = store.start(&request).expect("it is started").job;
    let kill = Kill { grace: Some(longest), by: "test".to_owned(), ..Kill::default() };
    store.kill(&job, &kill).expect("it is ended");
    let waited = store.wait(std::slice::from_ref(&job), Until::All, Some(longest));
    assert_eq!(waited.states[0].words(), "killed");
}

/// Arguments for a tool: all of its numbers are `number`, and its texts something harmless.
fn arguments(tool: &Value, number: &Value) -> Option<Value> {
    let properties = tool["inputSchema"]["properties"].as_object()?;
    let is_number = |kind: &Value| match kind {
        Value::Array(kinds) => kinds.contains(&json!("number")),
        kind => kind == "number" || kind == "integer",
    };
    if !properties.values().any(|property| is_number(&property["type"])) {
        return None;
    }
    let required = tool["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
    let mut arguments = Map::new();
    for (name, property) in properties {
        if is_number(&property["type"]) {
            arguments.insert(name.clone(), number.clone());
        } else if required.contains(&json!(name)) || name == "command" {
            let text = property["enum"].get(0).cloned().unwrap_or_else(|| json!("true"));
            arguments.insert(name.clone(), text);
        }
    }
    Some(arguments.into())
}

#[test]
fn no_number_ends_a_server() {
    for profile in ["native", "macos-shell", "claude-code", "deepchat", "duragent", "neovate"] {
        let home = Home::new();
        let mut client = Mcp::start_with(&home, Era::Handshake, &["--profile", profile], home.path());
        let listed = client.result("tools/list", json!({}));
        let mut asked = 0;
        for number in [json!(1e300), json!(u64::MAX), json!(-1e300), json!("99999999999999999999")] {
            for tool in listed["tools"].as_array().expect("tools are a list") {
                let Some(arguments) = arguments(tool, &number) else { continue };
                let id = client.send_call(tool["name"].as_str().expect("a tool has a name"), arguments);
                let answer = client.answer(id);
                // Of a wrong argument it says what is wrong; an internal error says nothing.
                assert_ne!(answer["error"]["code"], -32603, "{profile}: {answer}");
                asked += 1;
            }
        }
        assert!(asked >= 4, "{profile}: {asked} calls");
        assert_eq!(client.end(), 0, "{profile}");
    }
}
