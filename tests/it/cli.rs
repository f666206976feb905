//! The command line: contract for scripts, texts for people.
//!
//! Proves S0-33 to S0-36 (lines with time, stream, text and number), S0-47 and S0-54 to S0-60 (what a list tells), S0-161 (errors
//! that help), S1-62, S1-68 and S2-59 (an unknown job), S1-79 (times in ISO 8601), S2-61 (a second kill is none), S3-51,
//! S3-52, S3-61, S3-87 and S3-88.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::Duration;

use outlive_tests::waits_with_open;
use outlive_tests::{
    Home, LIMIT, binary, end_within, finish, is_running, millis, on_terminal, pattern, pid, signal, until,
    with_enough_time,
};
use serde_json::{Value, json};

const VERBS: [&str; 11] =
    ["run", "list", "show", "logs", "wait", "send", "kill", "remove", "gc", "doctor", "completions"];

/// Tells whether a text is a time as RFC 3339 has it, in UTC with milliseconds.
fn is_time(text: &str) -> bool {
    let shape = |c: char| if c.is_ascii_digit() { '9' } else { c };
    let number = |from: usize| text[from..from + 2].parse::<u32>().unwrap_or(99);
    text.chars().map(shape).collect::<String>() == "9999-99-99T99:99:99.999Z"
        && (1..=12).contains(&number(5))
        && (1..=31).contains(&number(8))
        && number(11) < 24
        && number(14) < 60
        && number(17) < 60
        && text >= "2024"
}

/// Asserts that a job object has every field of the contract, with the right type.
fn assert_job_object(job: &Value) {
    let null_or = |field: &str, is_right: fn(&Value) -> bool| {
        let value = job.get(field).unwrap_or_else(|| panic!("no {field} in {job}"));
        assert!(value.is_null() || is_right(value), "{field} is {value}");
    };
    for field in ["job", "session", "command", "cwd"] {
        assert!(job[field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {job}");
    }
    assert_eq!(job["mode"], "pipe");
    let words = ["starting", "running", "completed", "failed", "killed", "timed_out", "lost"];
    assert!(words.contains(&job["status"].as_str().expect("a word")), "{job}");
    for field in ["lingering", "orphaned", "elsewhere"] {
        assert!(job[field].is_boolean(), "{field} in {job}");
    }
    for field in ["name", "group", "signal", "cause", "reason", "parent"] {
        null_or(field, |value| value.as_str().is_some_and(|text| !text.is_empty()));
    }
    for field in ["pid", "exit_code"] {
        null_or(field, Value::is_i64);
    }
    for field in ["started_at", "ended_at"] {
        null_or(field, |value| value.as_str().is_some_and(is_time));
    }
    null_or("runtime_ms", Value::is_u64);
    for field in ["bytes", "lines", "stdout_lines", "stderr_lines", "dropped_bytes"] {
        assert!(job["output"][field].is_u64(), "output.{field} in {job}");
    }
}

#[test]
fn every_command_tells_of_a_job_in_the_same_object() {
    let home = Home::new();
    let line = "echo one; echo two; echo err >&2; exit 3";
    let started = home.json(["run", "--name", "a name", "--session", "mine", line]);
    assert_job_object(&started);
    let job = started["job"].as_str().unwrap();
    let waited = home.run(["--json", "wait", job]).code(7).json()["jobs"].take();
    assert_eq!(waited.as_array().unwrap().len(), 1);
    until("it is closed", || home.show(job)["lingering"] == false);
    let listed = home.json(["list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let (ended, shown) = (&listed[0], home.show(job));
    for object in [&waited[0], ended, &shown] {
        assert_job_object(object);
        for (field, value) in [
            ("job", json!(job)),
            ("name", json!("a name")),
            ("session", json!("mine")),
            ("command", json!(line)),
            ("cwd", json!(home.path().to_str())),
            ("status", json!("failed")),
            ("exit_code", json!(3)),
            ("cause", json!("natural")),
            ("pid", started["pid"].clone()),
            (
                "output",
                json!({ "bytes": 12, "lines": 3, "stdout_lines": 2, "stderr_lines": 1, "dropped_bytes": 0 }),
            ),
        ] {
            assert_eq!(object[field], value, "{field}");
        }
        assert!(object["started_at"].as_str() <= object["ended_at"].as_str());
    }
    assert_eq!(home.json(["ps"]), listed, "ps is list");
}

#[test]
fn what_is_not_known_yet_is_null() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let shown = home.show(&job);
    assert_job_object(&shown);
    for field in
        ["name", "exit_code", "signal", "cause", "reason", "ended_at", "closed_at", "timeout_ms", "parent"]
    {
        assert_eq!(shown.get(field), Some(&Value::Null), "{field}");
    }
    assert!(shown["pid"].is_i64() && shown["started_at"].is_string() && shown["runtime_ms"].is_u64());
    assert_eq!(shown["argv"], json!(["sleep", "300"]));
    assert!(shown["survives"]["starter"].is_string() && shown["keeper_pid"].is_i64());
}

#[test]
fn lines_are_objects_with_number_stream_and_time() {
    let home = Home::new();
    let line = "echo one; read x; echo two >&2; read x; printf three";
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", line]);
    for said in ["one", "two"] {
        home.wait_for_output(&job, said);
        home.run(["send", &job, "go on"]).ok();
    }
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let text = home.run(["--json", "logs", &job]).ok().text();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted = [("stdout", "one", true), ("stderr", "two", true), ("stdout", "three", false)];
    assert_eq!(lines.len(), wanted.len());
    for (number, (line, (stream, text, ended))) in lines.iter().zip(wanted).enumerate() {
        assert_eq!(
            (&line["stream"], &line["text"], &line["ended"]),
            (&json!(stream), &json!(text), &json!(ended))
        );
        assert_eq!(line["line"], number + 1);
        assert!(is_time(line["time"].as_str().unwrap()));
    }
}

#[test]
fn a_kill_says_what_it_came_to() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let killed = home.json(["kill", &job]);
    let wanted = json!([{ "job": job, "status": "killed", "already_ended": false, "signalled": 1, "survivors": [], "untraced": null, "next_run": null }]);
    assert_eq!(killed, wanted);
    let again = home.json(["kill", &job]);
    assert_eq!((&again[0]["already_ended"], &again[0]["signalled"]), (&json!(true), &json!(0)));
    assert_eq!(home.run(["kill", &job]).ok().text(), format!("{job} had already ended\n"));
}

#[test]
fn every_exit_status_means_what_the_table_says() {
    let home = Home::new();
    home.configure("[limits]\nsession = 1\n");
    let job = home.start(["sleep", "300"]);
    let job = job.as_str();
    let table: [(&[&str], i32, &str); 12] = [
        (&["list"], 0, ""),
        (&["send", job, "x"], 1, "stdin_closed"),
        (&["remove", job], 1, "live"),
        (&["no-such-verb"], 2, "usage"),
        (&["run", "--no-such-option", "--", "true"], 2, "usage"),
        (&["wait", "--timeout", "soon", job], 2, "usage"),
        (&["run"], 2, "usage"),
        (&["show", "no-such-job"], 3, "not_found"),
        (&["wait", "--timeout", "1ms", job], 4, "timed_out"),
        (&["run", "--", "true"], 5, "limit_reached"),
        (&["run", "--session", "b", "--", "/"], 126, "not_started"),
        (&["run", "--session", "c", "--", "no-such-program"], 127, "not_started"),
    ];
    for (arguments, status, code) in table {
        let plain = home.run(arguments).code(status);
        let told = home.run([&["--json"], arguments].concat()).code(status);
        if status == 0 {
            assert_eq!((plain.error(), told.error()), (String::new(), String::new()));
            continue;
        }
        assert_eq!(plain.text(), "", "{arguments:?}");
        let error = told.error_json();
        assert_eq!(error.as_object().map(serde_json::Map::len), Some(1));
        assert_eq!(error["error"]["code"], code, "{arguments:?}");
        assert!(
            error["error"]["message"].as_str().is_some_and(|text| !text.is_empty() && !text.contains('\n'))
        );
        assert!(error["error"]["hint"].as_str().is_some_and(|text| !text.is_empty()));
        // Verbs for several jobs also report on each job: here, that one still runs, and that none was removed.
        match arguments[0] {
            "wait" if status == 4 => assert_eq!(told.json()["jobs"][0]["status"], "running"),
            "remove" => assert_eq!(told.json(), json!({ "removed": [] })),
            _ => assert_eq!(told.text(), "", "{arguments:?}"),
        }
    }
}

#[test]
fn every_error_says_what_and_why_and_what_to_do() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let commands: [&[&str]; 7] = [
        &["show", "no-such-job"],
        &["send", &job, "x"],
        &["wait", "--timeout", "1ms", &job],
        &["run", "--", "no-such-program"],
        &["run"],
        &["run", "--no-such-option", "--", "true"],
        &["no-such-verb"],
    ];
    for arguments in commands {
        let error = home.run(arguments).error();
        assert!(error.starts_with("outlive: "), "{arguments:?}: {error}");
        assert!(error.lines().any(|line| line.starts_with("hint: ")), "{arguments:?}: {error}");
    }
}

#[test]
fn options_of_the_command_are_the_commands_own() {
    let home = Home::new();
    let echoed = home.run(["run", "--wait", "--", "echo", "--json", "--session", "x", "--help"]).ok();
    assert_eq!(echoed.text(), "--json --session x --help\n");
    let failed = home.run(["run", "--", "no-such-program", "--json"]).code(127);
    assert!(failed.error().starts_with("outlive: run: "), "{}", failed.error());
}

#[test]
fn run_and_wait_streams_both_streams_and_takes_the_code() {
    let home = Home::new();
    let done = home.run(["run", "--wait", "echo out; echo err >&2; printf end; exit 5"]).code(5);
    assert_eq!((done.text(), done.error()), ("out\nend".to_owned(), "err\n".to_owned()));
    let mut command = home.outlive(["run", "--wait", "--"]);
    command.arg(binary("writes")).args(["3000000", "stdout"]);
    let done = finish(command, b"").ok();
    assert_eq!((done.stdout.len(), pattern::first_difference(&done.stdout, 0)), (3_000_000, None));
    for code in [0, 1, 126, 255] {
        assert_eq!(home.run(["run", "--wait", &format!("exit {code}")]).code(code).error(), "");
    }
}

#[test]
fn run_and_wait_exits_with_128_and_the_signal() {
    let home = Home::new();
    for (name, number) in [("HUP", 1), ("KILL", 9), ("TERM", 15), ("USR1", 10)] {
        let done = home.run(["run", "--wait", "--", "sh", "-c", &format!("kill -{name} $$; sleep 300")]);
        assert_eq!(done.code(128 + number).text(), "");
    }
    let timed_out = home.run(["run", "--wait", "--timeout", "50ms", "--", "sleep", "300"]).code(128 + 15);
    assert!(timed_out.error().contains("timed out"), "{}", timed_out.error());
}

#[test]
fn waiting_only_so_long_gives_4_and_the_job_goes_on() {
    let home = Home::new();
    let (done, name) = with_enough_time(Duration::from_millis(200), |time| {
        let (wait, name) = (format!("--wait={}", millis(time)), format!("slow {}", millis(time)));
        let command = ["sh", "-c", "echo begun; exec sleep 300"];
        let done = home.run([&["run", &wait, "--name", &name, "--"], &command[..]].concat()).code(4);
        (done.text() == "begun\n").then_some((done, name))
    });
    let shown = home.show(&name);
    assert_eq!(shown["status"], "running");
    assert!(done.error().contains(shown["job"].as_str().unwrap()) && done.error().contains("\nhint: "));
    assert_eq!(home.run(["run", "--wait=50s", "--", "sh", "-c", "exit 6"]).code(6).error(), "");
}

#[test]
fn waiting_only_so_long_holds_for_a_job_that_prints_all_the_time() {
    let home = Home::new();
    let mut command = home.outlive(["run", "--wait=300ms", "--output-cap", "8M", "--", "yes"]);
    let mut waiter = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(end_within(&mut waiter, LIMIT), Some(4));
}

/// Starts `run --wait` with a job that prints `ready`, and returns it when it was printed. Then the job runs the script: what
/// that prints could push `ready` out of the log before it was read.
fn waiter(home: &Home, script: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let script = &format!("echo ready; until [ -e go ]; do sleep 0.05; done; {script}");
    let mut command =
        home.outlive(["run", "--wait", "--name", "watched", "--output-cap", "8M", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it prints text");
    assert_eq!(line, "ready\n");
    std::fs::write(home.path().join("go"), "").expect("the home is writable");
    (child, stdout)
}

/// Asserts that the waiter ended the waiting, and said that the job goes on.
fn assert_let_go(home: &Home, mut waiter: Child) {
    assert_eq!(end_within(&mut waiter, LIMIT), Some(130));
    let mut error = String::new();
    waiter.stderr.take().expect("it is piped").read_to_string(&mut error).expect("it is text");
    let shown = home.show("watched");
    let job = shown["job"].as_str().expect("an id");
    assert!(error.contains(&format!("{job} goes on")), "{error}");
    assert!(error.contains(&format!("outlive kill {job}")), "{error}");
    assert_eq!(shown["status"], "running");
    assert!(is_running(pid(&shown, "pid")));
}

#[test]
fn ctrl_c_ends_the_waiting_and_not_the_job() {
    let home = Home::new();
    let (waiter, _stdout) = waiter(&home, "exec sleep 300");
    until("it waits for more", || waits_with_open(waiter.id().cast_signed(), "inotify"));
    signal(waiter.id().cast_signed(), "INT");
    assert_let_go(&home, waiter);
}

#[test]
fn ctrl_c_ends_the_waiting_for_a_job_that_prints_all_the_time() {
    let home = Home::new();
    let (waiter, mut stdout) = waiter(&home, "exec yes");
    let drained = std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
    signal(waiter.id().cast_signed(), "INT");
    assert_let_go(&home, waiter);
    drained.join().unwrap().unwrap();
}

#[test]
fn ctrl_c_ends_the_waiting_though_nobody_reads_the_output() {
    let home = Home::new();
    let (waiter, _unread) = waiter(&home, "exec yes");
    // It has filled the pipe and waits for the reader when it no longer reads the log.
    let position = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/io")).expect("it is ours");
    let mut before = String::new();
    until("it is stuck", || {
        let now = position(waiter.id());
        std::mem::replace(&mut before, now.clone()) == now
            && waits_with_open(waiter.id().cast_signed(), "inotify")
    });
    signal(waiter.id().cast_signed(), "INT");
    assert_let_go(&home, waiter);
}

#[test]
fn colours_are_for_terminals_only_and_can_be_turned_off() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    assert_eq!(home.wait(&home.start_line("exit 1"))["exit_code"], 1);
    for arguments in [&["list"][..], &["show", &job]] {
        let coloured = on_terminal(&home, 120, &[("NO_COLOR", "")], arguments);
        assert!(coloured.contains("\u{1b}[36mrunning\u{1b}[0m"), "{coloured:?}");
        let plain = on_terminal(&home, 120, &[("NO_COLOR", "1")], arguments);
        assert!(plain.contains("running") && !plain.contains('\u{1b}'), "{plain:?}");
        let piped = home.run(arguments).ok().text();
        assert!(piped.contains("running") && !piped.contains('\u{1b}'), "{piped:?}");
    }
    assert!(on_terminal(&home, 120, &[], &["list"]).contains("\u{1b}[31mfailed"));
    assert!(!on_terminal(&home, 80, &[("NO_COLOR", "1")], &["--help"]).contains('\u{1b}'));
    assert!(!on_terminal(&home, 80, &[], &["--json", "list"]).contains('\u{1b}'));
}

#[test]
fn one_line_is_a_line_and_two_are_lines() {
    let home = Home::new();
    for (line, output) in [("echo one", "4 B in 1 line\n"), ("echo 1; echo 2", "4 B in 2 lines\n")] {
        let job = home.start_line(line);
        home.wait(&job);
        let shown = home.run(["show", &job]).ok().text();
        assert!(shown.contains(output), "{shown}");
    }
}

/// Text that would clear a terminal, rename it and go back in the line.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2Jb\u{9b}31m\rc\nd\u{8}e\u{7f}";

fn assert_harmless(text: &str) {
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn hostile_commands_cannot_touch_the_terminal_in_listings() {
    let home = Home::new();
    let running = home.start_with(&["--env", &format!("X={HOSTILE}")], ["sh", "-c", "sleep 300", HOSTILE]);
    let failed = home.run(["--json", "run", "--", HOSTILE]).code(127).error_json();
    let failed = failed["error"]["job"].as_str().unwrap();
    let commands: [&[&str]; 5] = [
        &["list"],
        &["show", &running],
        &["show", "--show-env", &running],
        &["show", failed],
        &["kill", &running],
    ];
    for arguments in commands {
        let done = home.run(arguments).ok();
        assert_harmless(&done.text());
        assert_harmless(&done.error());
    }
    assert_eq!(home.run(["list"]).ok().text().lines().count(), 3, "a job is one line, whatever its command");
    for name in ["a\u{1b}[2J", "a\nb", ""] {
        assert!(home.run(["run", "--name", name, "--", "true"]).code(2).error().contains("hint: "));
    }
}

#[test]
fn hostile_commands_cannot_touch_the_terminal_in_messages() {
    let home = Home::new();
    let failed = home.run(["--json", "run", "--", HOSTILE]).code(127).error_json();
    let failed = failed["error"]["job"].as_str().unwrap();
    let told = [
        home.run(["wait", failed]).code(7).text(),
        home.run(["run", "--", HOSTILE]).code(127).error(),
        home.run(["run", "--cwd", HOSTILE, "--", "true"]).code(126).error(),
        home.run(["show", HOSTILE]).code(3).error(),
    ];
    for text in told {
        assert_harmless(&text);
    }
}

#[test]
fn a_reader_that_has_gone_is_nobodys_failure() {
    let home = Home::new();
    let job = home.start_line("seq 100000");
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let commands: [&[&str]; 8] = [
        &["list"],
        &["--json", "list"],
        &["show", &job],
        &["logs", &job],
        &["logs", "-n", "5", &job],
        &["--help"],
        &["run", "--help"],
        &["completions", "bash"],
    ];
    for arguments in commands {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = home.outlive(arguments).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let code = end_within(&mut child, LIMIT).unwrap();
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert!([0, 141].contains(&code), "{arguments:?} ends with {code}");
        assert_eq!(error, "", "{arguments:?}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let home = Home::new();
    // bash, zsh and fish ask; the scripts of others hold what there is.
    let asked = home.run(["complete", "1", "--", "outlive", ""]).ok().text();
    let script = home.run(["completions", "elvish"]).ok().text();
    for verb in VERBS {
        assert!(asked.contains(&format!("{verb}\t")), "{verb}: {asked}");
        assert!(script.contains(verb), "elvish does not know {verb}");
    }
    assert!(home.run(["complete", "2", "--", "outlive", "show", "--"]).ok().text().contains("--show-env\t"));
    let mut bash = home.command("bash");
    bash.args(["-c", "source <(outlive completions bash) && complete -p outlive"]);
    assert!(finish(bash, b"").ok().text().contains("outlive"));
}

#[test]
fn help_tells_what_there_is() {
    let home = Home::new();
    let help = home.run(["--help"]).ok().text();
    for verb in VERBS {
        assert!(help.lines().any(|line| line.trim_start().starts_with(verb)), "{verb} is not in the help");
        let own = home.run([verb, "--help"]).ok();
        assert!(own.text().contains(&format!("outlive {verb}")) && own.text().lines().count() > 5, "{verb}");
        assert_eq!(own.error(), "");
    }
    assert!(help.contains("OUTLIVE_HOME"));
    assert!(home.run(["--version"]).ok().text().starts_with("outlive "));
    assert!(!home.store().exists(), "asking for help makes no store");
}
