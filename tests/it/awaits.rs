//! What waits for an answer: a table of real programs with what each waits for, as the kernel tells it.
//!
//! Every program is looked at as root and as a plain user; servers and builds must never count as waiting. What is found is in
//! `show`, `list`, the events and the wait for it, and is gone with the answer.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::time::{Duration, Instant};

use outlive_tests::{Era, Home, Mcp, User, lacks, report, until};
use serde_json::json;

/// Programs in a terminal, by the first word the one that must be installed, and what they wait for.
const PROGRAMS: &[(&str, &str, &str)] = &[
    // They want a line.
    ("cat", "line", "cat"),
    ("sh", "line", "printf 'Go on? '; read answer"),
    ("bash", "line", "bash -c 'read -p \"Go on? \" answer'"),
    ("bash", "line", "bash -c 'read -t 1000 answer'"),
    ("sh", "line", "read answer </dev/tty"),
    ("bash", "line", "bash -c 'select choice in a b; do break; done'"),
    ("bash", "line", "bash -c 'set -m; cat & sleep 1000'"),
    ("dash", "line", "dash"),
    ("python3", "line", "python3 -c 'input(\"name? \")'"),
    ("python3", "line", "python3 -c 'import sys; sys.stdin.read()'"),
    ("perl", "line", "perl -e '$answer = <STDIN>'"),
    ("node", "line", "node -e 'process.stdout.write(\"name? \"); process.stdin.once(\"data\", () => 0)'"),
    ("xargs", "line", "echo a | xargs -p echo"),
    ("rm", "line", "touch kept && rm -i kept"),
    ("ed", "line", "ed"),
    ("sort", "line", "sort"),
    ("awk", "line", "awk '{ print }'"),
    ("setsid", "line", "setsid -w cat"),
    // They want a line, and do not show it.
    ("bash", "password", "bash -c 'read -s answer'"),
    ("python3", "password", "python3 -c 'import getpass; getpass.getpass()'"),
    ("ssh-keygen", "password", "ssh-keygen -q -t ed25519 -f key"),
    ("openssl", "password", "openssl genrsa -aes128 -out key.pem 2048"),
    ("su", "password", "test $(id -u) != 0 || drop='setpriv --reuid=65534 --clear-groups'; $drop su root"),
    ("stty", "password", "stty -echo; read answer"),
    // They take keys.
    ("bash", "keys", "bash -c 'read -n1 answer'"),
    ("bash", "keys", "bash --norc -i"),
    ("python3", "keys", "python3 -q"),
    ("node", "keys", "node"),
    (
        "node",
        "keys",
        "node -e 'require(\"readline\").createInterface({ input: process.stdin, output: process.stdout }).question(\"n? \", () => 0)'",
    ),
    ("npm", "keys", "npm init --offline --no-update-notifier"),
    ("vim", "keys", "vim -u NONE"),
    ("less", "keys", "less /etc/passwd"),
    ("more", "keys", "more /etc/services"),
    ("top", "keys", "top"),
    ("sqlite3", "keys", "sqlite3"),
    ("gdb", "keys", "gdb -q"),
    ("fzf", "keys", "fzf < /etc/passwd"),
    ("whiptail", "keys", "whiptail --yesno question 10 30"),
    ("dialog", "keys", "dialog --inputbox question 10 30"),
    ("nano", "keys", "nano"),
    ("tmux", "keys", "SHELL=/bin/sh tmux -f /dev/null -S socket new"),
    // They wait for something else.
    ("sleep", "nothing", "sleep 1000"),
    ("sleep", "nothing", "sleep 1000; read answer"),
    ("sh", "nothing", "while :; do :; done"),
    ("tail", "nothing", "tail -f /etc/passwd"),
    ("sleep", "nothing", "sleep 1000 | cat"),
    ("sleep", "nothing", "printf 'Done? '; sleep 1000"),
    ("sleep", "nothing", "stty -echo; sleep 1000"),
    ("bash", "nothing", "bash -c 'sleep 1000 & wait'"),
];

/// Servers and builds, some of which listen to the terminal beside their work.
const WORKERS: &[(&str, &str)] = &[
    ("python3", "python3 -m http.server --bind 127.0.0.1 0"),
    (
        "node",
        "node -e 'require(\"http\").createServer().listen(0, \"127.0.0.1\", () => console.log(\"listening\"))'",
    ),
    // As nodemon does, which takes `rs` for a restart.
    ("node", "node -e 'console.log(\"watching, type rs to restart\"); process.stdin.on(\"data\", () => 0)'"),
    ("python3", "python3 -c 'import asyncio; asyncio.run(asyncio.sleep(1000))'"),
    (
        "python3",
        "python3 -c 'import select, sys; print(\"serving\", flush=True); r = select.poll(); r.register(0, select.POLLPRI); r.poll()'",
    ),
    ("tail", "tail -f /etc/passwd | cat"),
    ("make", "printf 'all:\\n\\t@while :; do echo CC $$$$; sleep 0.7; done\\n' > makefile && make"),
    ("make", "printf 'all:\\n\\t@printf \"Linking... \"; sleep 1000\\n' > quiet && make -f quiet"),
    ("sh", "while :; do printf '\\r[==>   ] 3/9'; sleep 0.5; done"),
    ("sh", "printf 'Downloading: '; while :; do sleep 1; done"),
    ("sh", "while :; do sleep 0.2; echo request; done"),
    ("npm", "npm --offline --no-update-notifier exec -c 'sleep 1000'"),
];

/// How many of them are enough to judge by: those that were measured before there was a keeper, and ten more.
const ENOUGH: usize = 39;

/// How long workers are watched; `OUTLIVE_TEST_WORKERS` gives another number of seconds.
const WATCHED_SECONDS: u64 = 10;

fn is_installed(home: &Home, program: &str) -> bool {
    let mut command = home.command("sh");
    command.args(["-c", "command -v \"$1\"", "sh", program]);
    outlive_tests::finish(command, b"").code == 0
}

/// Starts a line in a terminal.
fn start(home: &Home, line: &str) -> String {
    let directory = home.path().to_str().unwrap();
    home.run(["run", "--pty", "--cwd", directory, line]).ok().text().trim_end().to_owned()
}

/// Returns what a job waits for, and how that is known.
fn awaits(home: &Home, job: &str) -> (String, String) {
    let shown = home.show(job);
    assert_eq!(shown["status"], "running", "{shown}");
    let awaits = &shown["awaits"];
    let word = |field: &str| awaits[field].as_str().unwrap_or("nothing").to_owned();
    (word("kind"), word("known"))
}

/// Checks the table in parts: so many programs at once that the machine's other work lets them get to their wait.
fn table_as(user: User) {
    let home = Home::of(user);
    let (mut right, mut wrong, mut missing) = (0, Vec::new(), Vec::new());
    for programs in PROGRAMS.chunks(8) {
        let mut jobs = Vec::new();
        for &(program, wanted, line) in programs {
            if is_installed(&home, program) {
                jobs.push((start(&home, line), wanted, line));
            } else {
                missing.push(program);
            }
        }
        for (job, wanted, line) in &jobs {
            if *wanted != "nothing" {
                drop(home.run(["wait", "--input", "--timeout", "50s", job]));
            }
            let (kind, known) = awaits(&home, job);
            // Of a program with rights of its own, or one that waits for other things as well, not all is known.
            let is_unsure = (user == User::Nobody && line.ends_with("su root")) || line.contains("once");
            if kind == *wanted && (known == "likely") == is_unsure {
                right += 1;
            } else {
                wrong.push(format!("{line}: {kind}, {known}"));
            }
        }
        home.run(["kill", "--all", "--force"]).ok();
    }
    report(&format!("{right} of {} are right; not installed: {missing:?}", right + wrong.len()));
    assert!(wrong.is_empty(), "{right} are right, and these are wrong: {wrong:#?}");
    if right < ENOUGH {
        lacks(&format!("{} for the table of programs that wait", missing.join(", ")));
    }
}

#[test]
fn what_programs_wait_for_is_known() {
    table_as(User::Myself);
}

#[test]
fn what_programs_of_a_plain_user_wait_for_is_known() {
    if User::all().contains(&User::Nobody) {
        table_as(User::Nobody);
    }
}

#[test]
fn servers_and_builds_never_ask() {
    let home = Home::new();
    let installed = WORKERS.iter().filter(|(program, _)| is_installed(&home, program));
    let jobs: Vec<_> = installed.map(|(_, line)| (start(&home, line), line)).collect();
    let seconds = std::env::var("OUTLIVE_TEST_WORKERS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(WATCHED_SECONDS));
    while Instant::now() < end {
        for (job, line) in &jobs {
            assert_eq!(awaits(&home, job).0, "nothing", "{line}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let events = home.run(["events"]).ok().text();
    assert!(!events.contains("awaits_input"), "{events}");
}

#[test]
fn a_question_is_told_and_gone_with_the_answer() {
    let home = Home::new();
    let job = start(&home, "printf 'Your name? '; read name; echo hello $name; sleep 1000");
    // Without any front end that asks.
    until("it is in the list", || home.run(["list"]).ok().text().contains("running, asks"));
    let shown = home.show(&job);
    let awaits = &shown["awaits"];
    assert_eq!((&awaits["kind"], &awaits["known"]), (&"line".into(), &"kernel".into()), "{shown}");
    assert_eq!(awaits["prompt"], "Your name?");
    assert!(awaits["since"].as_str().unwrap() > shown["started_at"].as_str().unwrap(), "{shown}");
    assert_eq!(home.json(["screen", &job])["awaits"]["kind"], "line");
    let text = home.run(["show", &job]).ok().text();
    assert!(text.contains("asks for a line: \"Your name?\""), "{text}");
    assert!(text.contains(&format!("outlive send {job} TEXT")), "{text}");
    let events = home.run(["events"]).ok().text();
    assert_eq!(events.matches("awaits_input line").count(), 1, "{events}");
    home.run(["send", &job, "you"]).ok();
    home.wait_for_output(&job, "hello you");
    until("it is answered", || home.show(&job)["awaits"].is_null());
    assert!(!home.run(["list"]).ok().text().contains("asks"));
    let snapshot = std::fs::read_to_string(home.job_dir(&job).join("meta.json")).unwrap();
    assert!(!snapshot.contains("awaits"), "{snapshot}");
}

/// It prints nothing when it gives up, so its keeper is not woken.
#[test]
fn a_question_that_is_given_up_is_no_more() {
    let home = Home::new();
    let job = start(&home, "printf 'Your name? '; read -t 3 name; touch given-up; sleep 1000");
    until("it asks", || home.run(["list"]).ok().text().contains("running, asks"));
    until("it gives up", || home.path().join("given-up").exists());
    assert!(!home.run(["list"]).ok().text().contains("asks"), "the list knows");
    let told = home.run(["inbox", "--peek"]).ok().text();
    assert!(!told.contains("Your name?"), "{told}");
    home.run(["kill", &job]).ok();
}

#[test]
fn a_keeper_whose_job_asks_sleeps() {
    let home = Home::new();
    let job = start(&home, "printf 'Name? '; read name");
    until("it asks", || home.run(["list"]).ok().text().contains("running, asks"));
    let keeper = home.show(&job)["keeper_pid"].as_i64().unwrap();
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap().to_owned()
    };
    // Its buffer is given back a second after the last output; then there is nothing to do.
    until("it sleeps", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(1500));
        before == switches()
    });
    let before = switches();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(before, switches());
}

#[test]
fn each_question_is_an_event() {
    let home = Home::new();
    let job = start(&home, "for each in 1 2; do printf \"number $each? \"; read answer; done");
    for answer in ["a", "b"] {
        let waited = home.json(["wait", "--input", "--timeout", "50s", &job]);
        assert_eq!(waited["outcome"], "input", "{waited}");
        home.run(["send", &job, answer]).ok();
    }
    assert_eq!(home.wait(&job)["exit_code"], 0);
    let events = home.run(["events"]).ok().text();
    assert_eq!(events.matches("awaits_input line").count(), 2, "{events}");
}

#[test]
fn a_password_is_left_to_a_person() {
    let home = Home::new();
    let job = start(&home, "stty -echo; printf 'Password: '; read secret; sleep 1000");
    let waited = home.run(["wait", "--input", "--timeout", "50s", &job]).ok().text();
    assert!(waited.contains("asks for a password: \"Password:\""), "{waited}");
    assert!(waited.contains(&format!("outlive attach {job}")), "{waited}");
    assert!(home.run(["list"]).ok().text().contains("running, asks for a password"));
}

#[test]
fn a_pipe_that_is_open_is_waited_for_too() {
    let home = Home::new();
    let reader = home.start_with(&["--stdin", "open"], ["cat"]);
    let waited = home.json(["wait", "--input", "--timeout", "50s", &reader]);
    assert_eq!((&waited["awaits"]["kind"], &waited["awaits"]["known"]), (&"line".into(), &"kernel".into()));
    let sleeper = home.start_with(&["--stdin", "open"], ["sleep", "1000"]);
    assert_eq!(awaits(&home, &sleeper).0, "nothing");
    let python = ["python3", "-c", "input('name? ')"];
    let python = home.start_with(&["--stdin", "open"], python);
    let waited = home.json(["wait", "--input", "--timeout", "50s", &python]);
    assert_eq!((&waited["awaits"]["kind"], &waited["awaits"]["prompt"]), (&"line".into(), &"name?".into()));
    // Its input is closed, and it can wait for none.
    let closed = home.start(["cat"]);
    let refused = home.run(["--json", "wait", "--input", &closed]).code(2).error_json();
    assert!(refused["error"]["hint"].as_str().unwrap().contains("--pty"), "{refused}");
    home.run(["send", &reader, "--eof"]).ok();
    assert_eq!(home.wait(&reader)["exit_code"], 0);
}

#[test]
fn an_agent_is_told_what_to_answer() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "printf 'Go on? [y/N] '; read answer; echo \"got $answer\"; stty -echo; printf 'Password: '; read secret";
    // Its answer comes with the question, and not at the end of the time.
    let asked = client.call("run", json!({"command": line, "pty": true, "wait_ms": 45_000})).ok();
    let job = asked.job();
    assert!(asked.header().contains("running, asks"), "{}", asked.text);
    let advice = format!("asks for a line: \"Go on? [y/N]\"; answer it: send_input job={job} text=");
    assert!(asked.text.contains(&advice), "{}", asked.text);
    let again = client.call("read_output", json!({"job": job})).ok();
    assert!(again.text.contains(&advice), "{}", again.text);
    let seen = client.call("read_screen", json!({"job": job})).ok();
    assert!(seen.text.contains(&advice), "{}", seen.text);
    client.call("send_input", json!({"job": job, "text": "y"})).ok();
    let waited = client.call("wait", json!({"jobs": [job], "for": "input"})).ok();
    assert!(waited.header().contains("running, asks for a password"), "{}", waited.text);
    assert!(waited.text.contains(&format!("let your user type it: outlive attach {job}")), "{}", waited.text);
    // In a terminal with a REPL there is nothing to answer, and it is ready for what is typed.
    let shell =
        client.call("run", json!({"command": "bash --norc -i", "pty": true, "background": true})).ok();
    let taken = client.call("wait", json!({"jobs": [shell.job()], "for": "input"})).ok();
    assert!(taken.header().contains("takes keys"), "{}", taken.text);
    assert_eq!(client.end(), 0);
}

#[test]
fn an_open_question_is_a_notice() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "sleep 0.2; printf 'Name? '; read name; echo hello";
    let job = client.call("run", json!({"command": line, "pty": true, "background": true})).ok().job();
    until("it asks", || home.run(["list"]).ok().text().contains("running, asks"));
    // An answer of any tool has it, once.
    let told =
        format!("since your last call: {job} asks for a line: \"Name?\"; answer it: send_input job={job}");
    let first = client.call("list_jobs", json!({})).ok();
    assert!(first.text.contains(&told), "{}", first.text);
    let second = client.call("list_jobs", json!({})).ok();
    assert!(!second.text.contains("since your last call"), "{}", second.text);
    // An inbox has it until it is answered.
    let other = start(&home, "printf 'Really? '; read answer");
    until("it asks, too", || home.json(["show", &other])["awaits"].is_object());
    let peeked = home.json(["inbox", "--peek"]);
    let asking: Vec<_> = peeked["notices"].as_array().unwrap().iter().map(|notice| &notice["job"]).collect();
    assert_eq!(asking, [other.as_str()], "{peeked}");
    let text = home.run(["inbox", "--peek"]).ok().text();
    assert!(text.starts_with("1 job of session default asks for an answer:\n"), "{text}");
    assert!(
        text.contains(&format!("asks for a line: \"Really?\"; answer it with: outlive send {other} TEXT")),
        "{text}"
    );
    home.run(["send", &other, "yes"]).ok();
    home.wait(&other);
    let peeked = home.json(["inbox", "--peek"]);
    let endings: Vec<_> =
        peeked["notices"].as_array().unwrap().iter().map(|notice| &notice["awaits"]).collect();
    assert!(endings.iter().all(|awaits| awaits.is_null()), "{peeked}");
    assert_eq!(client.end(), 0);
}

#[test]
fn an_end_ends_the_wait_for_input() {
    let home = Home::new();
    let job = start(&home, "sleep 0.5; exit 3");
    home.run(["wait", "--input", "--timeout", "50s", &job]).code(6);
}
