//! Sessions: made, listed, shown, closed; jobs start from their settings and can be transferred.
//!
//! Proves of the design: a session has a name, a directory, additions to the environment, counts and usage; closing one with live
//! jobs asks: kill, transfer, or refuse.

use outlive_tests::{Home, until};
use serde_json::Value;

fn session(home: &Home, name: &str) -> Value {
    home.json(["session", "show", name])
}

#[test]
fn jobs_start_from_what_the_session_says() {
    let home = Home::new();
    let shop = home.make_dir("shop");
    let other = home.make_dir("other");
    let shop = shop.to_str().expect("a path of ours");
    home.run(["session", "create", "shop", "--cwd", shop, "--env", "PORT=3000", "--env", "B=1"]).ok();
    let line = "pwd; echo $PORT $B $OUTLIVE_SESSION";
    let run = |options: &[&str]| {
        home.run([&["--session", "shop", "run", "--wait"], options, &[line]].concat()).ok().text()
    };
    assert_eq!(run(&[]), format!("{shop}\n3000 1 shop\n"));
    // Options of `run` take precedence.
    let there = other.to_str().expect("a path of ours");
    assert_eq!(run(&["--cwd", there, "--env", "PORT=4", "--unset", "B"]), format!("{there}\n4 shop\n"));
    // Other sessions have nothing of it.
    let text = home.run(["run", "--wait", line]).ok().text();
    assert_eq!(text, format!("{}\ndefault\n", home.path().display()));
    let shown = session(&home, "shop");
    assert_eq!(shown["cwd"], shop);
    assert_eq!(shown["env"]["PORT"], "***");
    assert_eq!(home.json(["session", "show", "shop", "--show-env"])["env"]["PORT"], "3000");
}

#[test]
fn a_session_is_there_with_its_first_job_and_counts_them() {
    let home = Home::new();
    assert_eq!(home.json(["session", "list"]), Value::Array(Vec::new()));
    home.run(["--session", "a", "run", "--wait", "true"]).ok();
    let live = home.run(["--session", "a", "run", "--", "sleep", "300"]).ok().text();
    home.run(["session", "create", "empty"]).ok();
    let listed = home.json(["session", "list", "--usage"]);
    let names: Vec<&str> =
        listed.as_array().into_iter().flatten().filter_map(|s| s["session"].as_str()).collect();
    assert_eq!(names, ["a", "empty"]);
    assert_eq!((&listed[0]["live"], &listed[0]["ended"]), (&1.into(), &1.into()));
    assert_eq!(listed[0]["live_jobs"][0], live.trim());
    assert!(listed[0]["usage"]["processes"].as_u64() >= Some(1), "{listed}");
    let text = home.run(["session", "list", "--usage"]).ok().text();
    assert!(text.contains("SESSION") && text.contains("empty"), "{text}");
    let text = home.run(["session", "show", "a"]).ok().text();
    assert!(text.contains(live.trim()) && text.contains(", 1 process\n"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    home.run(["session", "show", "none"]).code(3);
    home.run(["session", "close", "none"]).code(3);
    home.run(["session", "create", "../x"]).code(2);
    home.run(["session", "create", "a", "--cwd", "/nowhere/at/all"]).code(2);
    home.run(["session", "create", "a"]).ok();
    let twice = home.run(["session", "create", "a"]).code(1).error();
    assert!(twice.contains("there already") && twice.contains("outlive session close a"), "{twice}");
    let job = home.start(["sleep", "300"]);
    home.run(["session", "close", "default", "--running", "transfer"]).code(2);
    assert_eq!(home.show(&job)["session"], "default");
}

#[test]
fn closing_with_live_jobs_refuses_and_names_them() {
    let home = Home::new();
    let job = home.run(["--session", "a", "run", "--", "sleep", "300"]).ok().text().trim().to_owned();
    let refused = home.run(["session", "close", "a"]).code(1).error();
    assert!(refused.contains(&job) && refused.contains("--running kill"), "{refused}");
    assert_eq!(home.show(&job)["status"], "running");
    assert_eq!(session(&home, "a")["state"], "open");
}

#[test]
fn closing_can_end_the_jobs() {
    let home = Home::new();
    let job = home.run(["--session", "a", "run", "--", "sleep", "300"]).ok().text().trim().to_owned();
    let closed = home.run(["session", "close", "a", "--running", "kill"]).ok().text();
    assert_eq!(closed, "a closed, 1 ended\n");
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["cause"]), (&"killed".into(), &"kill".into()));
    assert_eq!(session(&home, "a")["state"], "closed");
    // What it printed stays, and the name can be used again.
    home.run(["--session", "a", "logs", &job]).ok();
    home.run(["--session", "a", "run", "--wait", "true"]).ok();
    assert_eq!(session(&home, "a")["state"], "open");
}

#[test]
fn what_a_closed_session_said_is_forgotten() {
    let home = Home::new();
    home.run(["session", "create", "a", "--env", "SECRET=x"]).ok();
    home.run(["session", "close", "a"]).ok();
    let text = home.run(["--session", "a", "run", "--wait", "echo [$SECRET]"]).ok().text();
    assert_eq!(text, "[]\n");
    home.run(["session", "close", "a"]).ok();
    home.run(["session", "create", "a", "--env", "SECRET=y"]).ok();
    let text = home.run(["--session", "a", "run", "--wait", "echo [$SECRET]"]).ok().text();
    assert_eq!(text, "[y]\n");
}

#[test]
fn closing_can_give_the_jobs_to_the_default_session_which_hears_of_their_end() {
    let home = Home::new();
    let command = ["--session", "a", "run", "--stdin", "open", "--", "sh", "-c", "read x; exit 4"];
    let job = home.run(command).ok().text().trim().to_owned();
    home.run(["session", "close", "a", "--running", "transfer"]).ok();
    assert_eq!(home.show(&job)["session"], "default");
    home.run(["--session", "a", "show", &job]).code(3);
    home.run(["--session", "default", "send", &job, "go"]).ok();
    let ended = home.run(["--session", "default", "wait", &job]).code(7).text();
    assert!(ended.contains("exited with 4"), "{ended}");
    let events = |session: &str| home.run(["--session", session, "events"]).ok().text();
    until("the end is told", || events("default").contains("exited"));
    assert!(!events("a").contains("exited") && events("a").contains("transferred"), "{}", events("a"));
    // Nothing is left that counts as live.
    until("no mark is left", || {
        std::fs::read_dir(home.store().join("live")).is_ok_and(|mut marks| marks.next().is_none())
    });
}

#[test]
fn jobs_are_given_to_another_session_and_count_there() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let job = home.run(["--session", "a", "run", "--", "sleep", "300"]).ok().text().trim().to_owned();
    home.run(["--session", "a", "run", "--", "sleep", "300"]).code(5);
    home.run(["session", "transfer", &job, "--to", "b"]).ok();
    assert_eq!(home.show(&job)["session"], "b");
    home.run(["--session", "b", "run", "--", "sleep", "300"]).code(5);
    let second = home.run(["--session", "a", "run", "--", "sleep", "300"]).ok().text().trim().to_owned();
    // A front end of one session cannot take from another.
    home.run(["--session", "b", "session", "transfer", &second, "--to", "b"]).code(3);
    assert_eq!(home.show(&second)["session"], "a");
    home.run(["--session", "b", "kill", &job]).ok();
    home.run(["session", "transfer", &job, "--to", "a"]).ok();
    assert_eq!(home.show(&job)["session"], "a");
}

#[test]
fn inside_a_job_its_session_is_where_new_jobs_start_and_no_restriction() {
    let home = Home::new();
    let outside = home.start(["sleep", "300"]);
    let line = format!("outlive run -- true; outlive list --json; outlive show {outside} --json");
    let text = home.run(["--session", "a", "run", "--wait", &line]).ok().text();
    let mut lines = text.lines();
    let inner = lines.next().unwrap_or_default().to_owned();
    assert_eq!(home.show(&inner)["session"], "a");
    assert!(lines.next().is_some_and(|list| list.contains(&outside)), "{text}");
    assert!(lines.next().is_some_and(|shown| shown.contains("\"session\":\"default\"")), "{text}");
}

#[test]
fn sessions_that_nobody_needs_are_swept() {
    let home = Home::new();
    home.run(["session", "create", "made"]).ok();
    home.run(["--session", "used", "run", "--wait", "true"]).ok();
    home.run(["--session", "live", "run", "--", "sleep", "300"]).ok();
    // Removed at once, it would be gone before its waiter looks.
    home.configure("[retention]\nkeep = \"0s\"\nmax_age = \"0s\"\n");
    until("the session without jobs is gone", || {
        home.run(["gc"]).ok();
        !home.store().join("sessions/used").exists()
    });
    for kept in ["made", "live"] {
        assert!(home.store().join("sessions").join(kept).is_dir(), "{kept}");
    }
}
