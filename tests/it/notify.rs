//! A job that says itself that it is ready, as services of systemd do.
//!
//! Proves that what it says is not lost whichever process is killed before and after, and that nothing else that it sends means ready.

use outlive_tests::{Home, finish, guard_of, pid, signal, until};
use serde_json::json;

/// Sends each line of its input, and tells that it has.
const SENDER: &str = "import os, socket, sys
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for line in sys.stdin:
    to.sendto(line.rstrip('\\n').encode().decode('unicode_escape').encode('latin1'), os.environ['NOTIFY_SOCKET'])
    print('sent', line, end='', flush=True)";

fn start(home: &Home) -> String {
    home.start_with(&["--stdin", "open", "--ready-notify"], ["python3", "-c", SENDER])
}

/// Lets the command send a message, and waits until it has.
fn say(home: &Home, job: &str, message: &str) {
    home.run(["send", job, message]).ok();
    home.wait_for_output(job, &format!("sent {message}\n"));
}

#[test]
fn its_word_counts_and_no_other() {
    let home = Home::new();
    let job = start(&home);
    // More than the queue of a socket holds: each is taken out of it.
    for number in 0..300 {
        home.run(["send", &job, &format!("STATUS={number} READY=1")]).ok();
    }
    for other in [r"READY=0", r"READY=10", r"\xff\x00", "WATCHDOG=1"] {
        say(&home, &job, other);
    }
    assert_eq!(home.show(&job)["ready"], false);
    say(&home, &job, r"STATUS=up\nREADY=1");
    home.run(["wait", &job, "--ready"]).ok();
    assert_eq!(home.show(&job)["ready"], true);
    let events = home.run(["--json", "events"]).ok().text();
    assert_eq!(events.lines().filter(|line| line.contains("\"ready\"")).count(), 1, "{events}");
}

#[test]
fn no_death_of_a_keeper_loses_it() {
    let home = Home::new();
    for is_guard in [false, true] {
        let job = start(&home);
        let keeper = pid(&home.show(&job), "keeper_pid");
        let victim = if is_guard { guard_of(keeper).expect("it has a guard") } else { keeper };
        signal(victim, "KILL");
        say(&home, &job, "READY=1");
        home.run(["wait", &job, "--ready"]).ok();
    }
}

#[test]
fn a_message_in_the_queue_outlives_the_keeper() {
    let home = Home::new();
    let line = "read -r go; say_ready() { python3 -c \"import os, socket
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', os.environ['NOTIFY_SOCKET'])\"; }
say_ready; : > sent; exec sleep 300";
    let job = home.start_with(&["--stdin", "open", "--ready-notify"], ["sh", "-c", line]);
    let keeper = pid(&home.show(&job), "keeper_pid");
    home.run(["send", &job, "go"]).ok();
    signal(keeper, "STOP");
    until("it has sent it", || home.path().join("sent").exists());
    signal(keeper, "KILL");
    home.run(["wait", &job, "--ready"]).ok();
    assert_eq!(home.show(&job)["ready"], true);
}

#[test]
fn a_store_that_is_too_deep_is_named() {
    let home = Home::new();
    let deep = home.path().join("d".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    let mut command = home.outlive(["--json", "run", "--ready-notify", "--", "true"]);
    command.env("OUTLIVE_HOME", &deep);
    let refused = finish(command, b"").code(2).error_json();
    assert_eq!(refused["error"]["code"], json!("usage"));
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("longer than the kernel takes"),
        "{refused}"
    );
}

#[test]
fn a_project_takes_it() {
    let home = Home::new();
    let script = "import os, socket, time; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'READY=1', os.environ['NOTIFY_SOCKET']); time.sleep(300)";
    let toml =
        format!("[jobs.api]\nrun = [\"python3\", \"-c\", \"{script}\"]\nready = {{ notify = true }}\n");
    std::fs::write(home.path().join("outlive.toml"), toml).unwrap();
    home.run(["up", "--wait"]).ok();
    let jobs = home.json(["status"]);
    assert!(jobs.to_string().contains("\"ready\":true"), "{jobs}");
    home.run(["down"]).ok();
}
