//! Each verb, there and here.
//!
//! Proves: what a verb prints, reads and returns is the same through a server; hints can be typed as they are.

use std::process::Stdio;

use outlive_tests::{Home, LIMIT, Terminal, end_within, finish, signal, until};

use super::{Served, verbs_there};

#[test]
fn verbs_that_look_print_the_same_there_as_here() {
    let home = Home::new();
    let server = Served::start(&home);
    let job =
        home.start_with(&["--name", "talks"], ["sh", "-c", "echo one; echo two >&2; echo three; exit 3"]);
    home.wait(&job);
    let done = home.start(["true"]);
    home.wait(&done);
    for arguments in [
        &["list", "--failed", "--json"][..],
        &["list", "--json"],
        &["list", "--group", "none"],
        &["show", "talks", "--json"],
        &["show", "talks"],
        &["logs", "talks"],
        &["logs", "-n", "1", &job],
        &["logs", "--json", &job],
        &["logs", "--stream", "stderr", &job],
        &["logs", "-f", &job],
        &["logs", &job, &done],
        &["logs", "--grep", "t", &job],
        &["wait", "talks", &done],
        &["wait", "--json", "talks"],
        &["wait", "--exit-code", "talks"],
        &["wait", "--match", "nothing", "talks"],
        &["events", "--json"],
        &["events"],
        &["inbox", "--peek"],
        &["session", "list"],
        &["--session", "default", "session", "show", "--json"],
        &["screen", "talks"],
        &["show", "nobody"],
        &["--json", "show", "nobody"],
        &["export", "--txt", &job],
        &["wait", "--timeout", "0", &job],
    ] {
        let here = home.run(arguments);
        let there = server.run(arguments);
        let text = format!("{arguments:?}: {} and {}", here.error(), there.error());
        assert_eq!((there.code, there.text()), (here.code, here.text()), "{text}");
        // Hints name the machine; all else is the same.
        let address = format!("--host {} ", server.address());
        assert_eq!(there.error().replace(&address, ""), here.error(), "{arguments:?}");
    }
}

#[test]
fn jobs_are_started_answered_paused_restarted_ended_and_removed() {
    let home = Home::new();
    let server = Served::start(&home);
    let work = home.make_dir("work");
    let mut start = server.outlive(&["run", "--name", "web", "--stdin", "open", "--env", "X=y", "--"]);
    start.args(["sh", "-c", "pwd; echo $X; read a; echo got $a; exec sleep 300"]).current_dir(&work);
    let first = finish(start, b"").ok().text().trim_end().to_owned();
    assert_eq!(home.show("web")["job"], first.as_str(), "an address is no name, so the id is alone");
    server.run(&["send", "web", "hello"]).ok();
    home.wait_for_output("web", "got hello");
    assert!(home.logs("web").starts_with(format!("{}\ny\n", work.display()).as_bytes()));
    assert_eq!(server.run(&["pause", "web"]).ok().text(), format!("{first} paused\n"));
    server.run(&["resume", "web"]).ok();
    server.run(&["clear", "web"]).ok();
    assert_eq!(home.logs("web"), b"");
    let next = server.run(&["restart", "web"]).ok().text().trim_end().to_owned();
    assert_ne!(next, first);
    assert_eq!(server.run(&["kill", "web"]).ok().text(), format!("{next} ended, 1 process\n"));
    server.run(&["session", "create", "shop"]).ok();
    server.run(&["session", "transfer", &next, "--to", "shop"]).ok();
    assert_eq!(home.show(&next)["session"], "shop");
    server.run(&["rm", &first, &next]).ok();
    server.run(&["show", &first]).code(3);
    assert_eq!(server.run(&["run", "nobody-has-this-program", "x"]).code, 127);
}

#[test]
fn a_command_that_is_waited_for_has_its_streams_its_input_and_its_code() {
    let home = Home::new();
    let server = Served::start(&home);
    let done =
        finish(server.outlive(&["run", "--wait", "cat; echo bad >&2; exit 9"]), b"some\x00input\n").code(9);
    assert_eq!((done.stdout.as_slice(), done.error().as_str()), (&b"some\x00input\n"[..], "bad\n"));
    let long = "yes 0123456789 | head -c 3000000";
    assert_eq!(server.run(&["run", "--wait", long]).ok().stdout.len(), 3_000_000);
    let object = server.run(&["--json", "run", "--wait", "exit 4"]).code(4).json();
    assert_eq!(object["exit_code"], 4);
    assert_eq!(server.run(&["run", "--wait=100ms", "sleep 300"]).code, 4);
}

#[test]
fn a_verb_that_reads_nothing_leaves_standard_input_alone() {
    let home = Home::new();
    let server = Served::start(&home);
    let job = home.start(["true"]);
    home.wait(&job);
    let mut shell = home.command("sh");
    let line = format!(
        "while read job; do outlive --host {} --json show \"$job\" >/dev/null && echo \"seen $job\"; done",
        server.address()
    );
    shell.args(["-c", &line]);
    let done = finish(shell, format!("{job}\n{job}\n{job}\n").as_bytes()).ok();
    assert_eq!(done.text(), format!("seen {job}\n").repeat(3));
}

#[test]
fn other_verbs_say_where_to_run_them() {
    let home = Home::new();
    let server = Served::start(&home);
    for (arguments, named) in [
        (&["doctor"][..], "ssh HOST"),
        (&["up"], "project"),
        (&["top"], "list --watch"),
        (&["export", "x", "--txt", "-o", "file"], "redirect"),
        (&["logs", "--pager", "x"], "less"),
        (&["token", "list"], "ssh HOST"),
    ] {
        let refused = server.run(arguments).code(2);
        assert!(refused.error().contains(named), "{arguments:?}: {}", refused.error());
    }
    // What is about this program alone does not care.
    server.run(&["version"]).ok();
    let lost = home.run(["--host", "nobody", "list"]).code(3);
    assert!(lost.error().contains("[hosts.nobody]"), "{}", lost.error());
    let wrong = home.run(["--host", "https://a", "list"]).code(2);
    assert!(wrong.error().contains("ssh://"), "{}", wrong.error());
    let none = home.run(["--host", "unix:///nowhere/at/all", "list"]).code(1);
    assert!(none.error().contains("outlive serve"), "{}", none.error());
    let json = home.run(["--host", "unix:///nowhere/at/all", "--json", "list"]).code(1).error_json();
    assert_eq!(json["error"]["code"], "unreachable");
}

#[test]
fn hints_can_be_typed_as_they_are() {
    let home = Home::new();
    let server = Served::start(&home);
    let job = home.start(["sleep", "300"]);
    let address = server.address();
    let hint = format!("outlive --host {address} kill {job}");
    let waited = server.run(&["wait", "--timeout", "10ms", &job]).code(4);
    assert!(waited.error().contains(&hint), "{}", waited.error());
    // One whose environment names the machine types no more than on that machine.
    let mut command = home.outlive(["wait", "--timeout", "10ms", &job]);
    command.env("OUTLIVE_HOST", &address);
    let waited = finish(command, b"").code(4);
    assert!(waited.error().contains(&format!("outlive kill {job}")), "{}", waited.error());
}

#[test]
fn ctrl_c_ends_what_waits_with_its_last_words() {
    let home = Home::new();
    let server = Served::start(&home);
    let job = home.start(["sleep", "300"]);
    for arguments in [&["events", "-f"][..], &["run", "--wait", "echo begun; exec sleep 300"]] {
        let mut child = server
            .outlive(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut byte = [0];
        let stdout = child.stdout.as_mut().expect("piped");
        std::io::Read::read_exact(stdout, &mut byte).expect("it prints");
        signal(child.id().cast_signed(), "INT");
        assert_eq!(end_within(&mut child, LIMIT), Some(130), "{arguments:?}");
        let mut said = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().expect("piped"), &mut said).expect("text");
        assert_eq!(said.contains("goes on"), arguments[0] == "run", "{said}");
    }
    assert_eq!(home.show(&job)["status"], "running");
    until("no verb is left", || verbs_there(&home).is_empty());
}

#[test]
fn a_terminal_is_a_terminal_there_too() {
    let home = Home::new();
    let server = Served::start(&home);
    let address = server.address();
    let job = home.start_with(&["--name", "ended"], ["sh", "-c", "exit 3"]);
    home.wait(&job);
    // Coloured, and cut to the width of this terminal.
    let shown = outlive_tests::on_terminal(&home, 72, &[], &["--host", &address, "list"]);
    assert!(shown.contains("\x1b[31m"), "{shown:?}");
    let here = outlive_tests::on_terminal(&home, 72, &[], &["list"]);
    assert_eq!(shown.lines().next().map(|line| line.trim_end()), here.lines().next(), "{shown}");
    // A job's terminal, in this one.
    home.start_with(&["--pty", "--name", "talks"], ["sh", "-c", "echo ready; read a; echo got $a; read b"]);
    let mut terminal = Terminal::open(80);
    let mut child = terminal.start(&home, &[], ["outlive", "--host", &address, "attach", "talks"]);
    terminal.read_until("ready");
    terminal.write(b"hello\r");
    terminal.read_until("got hello");
    terminal.write(b"\x1cd");
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    let shown = terminal.read_to_end();
    assert!(shown.contains("detached"), "{shown}");
    assert_eq!(home.show("talks")["status"], "running");
    // A password is asked for without showing it.
    home.start_with(
        &["--stdin", "open", "--name", "asks"],
        ["sh", "-c", "read a; echo got $a; exec sleep 300"],
    );
    let mut terminal = Terminal::open(80);
    let mut child = terminal.start(&home, &[], ["outlive", "--host", &address, "send", "asks", "--secret"]);
    terminal.read_until("not shown");
    until("its terminal shows nothing", || verbs_there(&home).iter().any(|pid| is_silent(*pid)));
    terminal.write(b"s3cret\r");
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    assert!(!terminal.read_to_end().contains("s3cret"));
    home.wait_for_output("asks", "got s3cret");
}

/// Tells whether the terminal of a process does not show what is typed.
fn is_silent(pid: i32) -> bool {
    use rustix::termios::{LocalModes, tcgetattr};
    let terminal = std::fs::File::open(format!("/proc/{pid}/fd/0"));
    terminal.is_ok_and(|terminal| {
        tcgetattr(&terminal).is_ok_and(|settings| !settings.local_modes.contains(LocalModes::ECHO))
    })
}
