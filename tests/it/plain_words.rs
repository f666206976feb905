//! Where a new user was in doubt.
//!
//! Proves that what is mistyped, waited for or asked about is answered with what to do, and never with silence.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within, finish, on_terminal, signal, until, waits_with_open};

fn hint(told: &str) -> &str {
    told.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_default()
}

#[test]
fn a_session_that_is_mistyped_is_never_silence() {
    let home = Home::new();
    home.run(["--session", "shop", "run", "--wait", "exit 3"]).code(3);
    for line in [
        &["wait"][..],
        &["kill", "--all"],
        &["rm", "--ended"],
        &["pause", "--all"],
        &["resume", "--all"],
        &["events"],
    ] {
        let told = home.run([&["--session", "typo"], line].concat()).code(3).error();
        assert!(told.contains("there is no session \"typo\""), "{line:?}: {told}");
        assert_eq!(hint(&told), "there are: shop", "{line:?}");
    }
    // What has failed already counts as in a group.
    let done = home.run(["wait", "--session", "shop"]).code(7);
    assert!(done.text().contains(" failed: exited with 3"), "{}", done.text());
    home.run(["--session", "shop", "rm", "--ended"]).ok();
    let empty = home.run(["wait", "--session", "shop"]).ok();
    assert!(empty.error().contains("session shop has no jobs to wait for"), "{}", empty.error());
}

#[test]
fn a_program_that_there_is_not_is_told_at_once() {
    let home = Home::new();
    for word in ["nope-there-is-none", "./nope-there-is-none"] {
        let told = home.run(["run", word]);
        assert_ne!(told.code, 0, "{}", told.text());
        assert!(told.error().contains("no such file or directory"), "{}", told.error());
    }
    // What only a shell knows, and what it finds, is left to it.
    for line in ["true", "exit", "pwd", "ls"] {
        home.run(["run", "--wait", line]).ok();
    }
    home.run(["run", "--cwd", "/nope", "--name", "lost", "sleep", "1"]).code(126);
    let listed = home.run(["list", "lost"]).ok().text();
    assert!(listed.contains("never started: no such directory"), "{listed}");
}

#[test]
fn habits_of_other_tools_are_answered_with_the_right_words() {
    let home = Home::new();
    for (line, words) in [
        (&["run", "-d", "x"][..], "not needed"),
        (&["run", "-e", "A=1", "x"], "--env NAME=VALUE"),
        (&["run", "-it", "bash"], "-t gives it a terminal"),
        (&["run", "--rm", "x"], "not needed"),
        (&["run", "-n", "x", "true"], "--name NAME"),
        (&["run", "-w", "/tmp", "true"], "--cwd DIR"),
        (&["up", "-d"], "not needed"),
        (&["kill", "-9", "web"], "outlive kill --force JOB"),
        (&["rm", "-f", "web"], "outlive kill JOB"),
        (&["logs", "-100", "web"], "outlive logs -n 100 JOB"),
        (&["logs", "-n", "-5", "web"], "outlive logs -n 5 JOB"),
        (&["logs", "-A", "3", "web"], "-C COUNT"),
        (&["logs", "-v", "x", "web"], "--invert"),
        (&["rename", "a", "b"], "outlive run --name NAME"),
        (&["port", "web"], "outlive list --ports"),
        (&["rnu", "x"], "did you mean: outlive run"),
        (&["q"], "outlive --help"),
        (&["stop"], "outlive kill <JOB>"),
        (&["list", "--statsu", "failed"], "did you mean --status?"),
        (&["run", "--delay", "5s", "x"], "sleep 5; COMMAND"),
        (&["run", "--in", "5s", "x"], "--at 18:00"),
        (&["startup"], "outlive setup boot"),
        (&["save"], "outlive setup boot"),
        (&["list", "--running"], "--live"),
        (&["send", "sh", "print", "1"], "put the text in quotes"),
        (&["why"], "`outlive list` shows the jobs"),
    ] {
        let told = home.run(line).code(2).error();
        assert!(hint(&told).contains(words), "{line:?}: {told}");
        assert!(!told.contains("tip:") && !told.contains("as a value"), "{line:?}: {told}");
    }
    let told = home.run(["rm", "--older", "abc"]).code(2).error();
    assert!(told.contains("90m, 12h, 2d") && !told.contains("seconds"), "{told}");
    let told = home.run(["logs", ""]).code(3).error();
    assert!(!told.contains("-n  JOB"), "{told}");
    let told = home.run(["logs", "--since", "5m", "--until", "10m", "x"]).code(2).error();
    assert!(told.contains("--until is before --since"), "{told}");
}

#[test]
fn verbs_with_verbs_of_their_own_list_where_they_stand_alone() {
    let home = Home::new();
    let job = home.start_with(&["--queue", "build"], ["sleep", "300"]);
    until("its turn has come", || home.show(&job)["status"] == "running");
    for verb in ["queue", "session"] {
        let (alone, list) = (home.run([verb]).ok(), home.run([verb, "list"]).ok());
        assert_eq!((alone.text(), alone.error()), (list.text(), list.error()), "{verb}");
    }
    assert!(home.run(["queue"]).ok().text().contains("build"));
    home.run(["kill", "--all"]).ok();
}

#[test]
fn a_list_takes_words_and_prints_ids_alone() {
    let home = Home::new();
    let web = home.start_with(&["--name", "web"], ["sleep", "300"]);
    for _ in 0..2 {
        home.run(["run", "--name", "tests", "--wait", "exit 1"]).code(1);
    }
    let listed = home.run(["list", "web"]).ok().text();
    assert!(listed.contains(&web) && !listed.contains("tests"), "{listed}");
    assert!(home.run(["list", "failed"]).ok().text().contains("tests"));
    assert_eq!(home.run(["ps", "-q", "web"]).ok().text(), format!("{web}\n"));
    // The line on what is not shown keeps the conditions.
    let more = home.run(["list", "--status", "failed", "-n", "1"]).ok().error();
    assert!(more.contains("`outlive list --all --status failed` shows it"), "{more}");
    home.run(["kill", &web]).ok();
}

#[test]
fn what_is_so_already_is_told_as_such() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    assert_eq!(home.run(["resume", &job]).ok().text(), format!("{job} was not paused\n"));
    assert_eq!(home.run(["pause", &job]).ok().text(), format!("{job} paused\n"));
    assert_eq!(home.run(["pause", &job]).ok().text(), format!("{job} is paused already\n"));
    let why = home.run(["why", &job]).ok().text();
    assert!(why.contains(&format!("and is paused: `outlive resume {job}`")), "{why}");
    assert_eq!(home.run(["resume", &job]).ok().text(), format!("{job} resumed\n"));
    home.run(["kill", &job]).ok();
}

#[test]
fn why_says_what_a_job_waits_for() {
    let home = Home::new();
    let [first, second, third] = ["one", "two", "three"]
        .map(|name| home.start_with(&["--queue", "q", "--name", name], ["sleep", "300"]));
    until("the turn of the first has come", || home.show(&first)["status"] == "running");
    let why = home.run(["why", "three"]).ok().text();
    let expected = format!("number 2 of 2 that wait; running: {first} of at most 1; before it: {second}");
    assert!(why.contains(&third) && why.contains(&expected), "{why}");
    let after = home.start_with(&["--after", &first], ["true"]);
    let why = home.run(["why", &after]).ok().text();
    assert!(why.contains(&format!("\n  one runs as {first}")), "{why}");
    // A question, with what stands on the terminal as a person sees it.
    let asks = home.start_with(
        &["-t", "--name", "asks"],
        ["bash", "-c", "read -rsp $'\\e[1mPassword: \\e[K' x; echo $x"],
    );
    home.wait_for_output(&asks, "Password");
    home.run(["wait", "--input", &asks]).ok();
    let why = home.run(["why", "asks"]).ok();
    assert!(why.text().contains("and asks for a password"), "{}", why.text());
    assert!(why.text().contains("| Password:") && !why.text().contains('\u{fffd}'), "{}", why.text());
    assert!(why.error().contains("outlive logs -n 40 asks"), "{}", why.error());
    home.run(["kill", "--all"]).ok();
}

#[test]
fn what_only_listens_is_not_called_http() {
    let home = Home::new();
    let line = "python3 -c 'import socket,time; s=socket.create_server((\"127.0.0.1\",0)); time.sleep(300)'";
    home.run(["run", "--name", "db", "--ready-port", "any", line]).ok();
    let said = home.run(["wait", "db", "--ready"]).ok().text();
    assert!(said.contains(" is ready at localhost:") && !said.contains("http:"), "{said}");
    assert!(home.show("db")["ready_url"].as_str().is_some_and(|url| url.starts_with("http://localhost:")));
    for line in [&["show", "db"][..], &["events"]] {
        let said = home.run(line).ok().text();
        assert!(said.contains("localhost:") && !said.contains("http:"), "{said}");
    }
    assert!(home.run(["list"]).ok().text().contains("running, ready"));
    home.run(["kill", "db"]).ok();
}

#[test]
fn a_job_that_fails_before_it_is_ready_is_told_once() {
    let home = Home::new();
    let job = home.start_with(&["--ready-on", "listening"], ["sh", "-c", "exit 4"]);
    let done = home.run(["wait", &job, "--ready"]).code(6);
    assert!(done.text().contains(" failed: exited with 4"), "{}", done.text());
    assert_eq!(
        done.error().lines().next(),
        Some(&*format!("outlive: wait: it can no longer come: {job} has ended"))
    );
}

#[test]
fn a_job_that_was_killed_is_no_longer_ready() {
    let home = Home::new();
    let job = home.start_with(&["--ready-on", "up"], ["sh", "-c", "echo up; exec sleep 300"]);
    home.run(["wait", &job, "--ready"]).ok();
    home.run(["kill", &job]).ok();
    let done = home.run(["wait", &job, "--ready"]).code(6);
    assert!(done.text().starts_with(&format!("{job} killed")), "{}", done.text());
    let told = done.error();
    assert_eq!(told.lines().next(), Some(&*format!("outlive: wait: {job} is no longer ready: it has ended")));
    assert_eq!(home.run(["--json", "wait", &job, "--ready"]).code(6).json()["outcome"], "exit");
}

#[test]
fn a_wait_that_is_over_says_what_is_queued() {
    let home = Home::new();
    let [first, second] = [(); 2].map(|()| home.start_with(&["--queue", "q"], ["sleep", "300"]));
    until("the turn of the first has come", || home.show(&first)["status"] == "running");
    let told = home.run(["wait", &second, "--timeout", "10ms"]).code(4).error();
    assert!(told.starts_with(&format!("outlive: wait: still queued: {second} (in q)\n")), "{told}");
    let told = home.run(["wait", &first, &second, "--timeout", "10ms"]).code(4).error();
    let expected = format!("outlive: wait: still running: {first}; still queued: {second} (in q)\n");
    assert!(told.starts_with(&expected), "{told}");
    let nightly = home.start_with(&["--schedule", "0 3 1 1 *"], ["true"]);
    let told = home.run(["wait", &nightly, "--timeout", "10ms"]).code(4).error();
    assert!(told.contains(&format!("still queued: {nightly} (starts in ")), "{told}");
    home.run(["kill", "--all"]).ok();
}

/// A shell ends its script only if the command in the foreground was ended by SIGINT itself.
#[test]
fn ctrl_c_ends_a_wait_by_the_signal() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let mut followed = home.outlive(["events", "-f"]);
    let mut followed = followed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is built");
    until("it watches", || waits_with_open(followed.id().cast_signed(), "inotify"));
    signal(followed.id().cast_signed(), "INT");
    assert_eq!(end_within(&mut followed, LIMIT), Some(130));
    assert_eq!(followed.wait().expect("it has ended").signal(), Some(2));
    home.run(["kill", &job]).ok();
}

#[test]
fn events_are_chosen_by_job_and_time() {
    let home = Home::new();
    let [first, second] = [(); 2].map(|()| {
        let job = home.start(["true"]);
        home.wait(&job);
        job
    });
    let told = home.run(["events", &second]).ok().text();
    assert!(told.contains(&second) && !told.contains(&first), "{told}");
    let told = home.run(["events", "--since", "1h"]).ok().text();
    assert!(told.contains(&first) && told.contains(&second), "{told}");
    let told = home.run(["events", "--since", "17"]).code(2).error();
    assert!(told.contains("needs --session"), "{told}");
}

#[test]
fn followers_of_several_jobs_hear_how_each_ended() {
    let home = Home::new();
    let [good, bad] = ["exit 0", "exit 5"].map(|end| home.start(["sh", "-c", &format!("echo said; {end}")]));
    let told = home.run(["logs", "-f", &good, &bad]).ok().error();
    assert!(told.contains(&format!("{bad} failed: exited with 5")), "{told}");
    assert!(told.contains(&format!("{good} completed")), "{told}");
}

#[test]
fn taking_completion_out_again_leaves_nothing_behind() {
    let home = Home::new();
    let bashrc = home.path().join(".bashrc");
    std::fs::write(&bashrc, "alias x=y\n").expect("the home is writable");
    let backup = home.path().join(".bashrc.before-outlive");
    let setup = |arguments: &[&str]| {
        let mut command = home.outlive([&["setup", "shell", "--shell", "bash"], arguments].concat());
        command.env("HOME", home.path());
        finish(command, b"").ok()
    };
    setup(&[]);
    assert_eq!(std::fs::read_to_string(&backup).expect("it is there"), "alias x=y\n");
    setup(&["--remove"]);
    assert_eq!(std::fs::read_to_string(&bashrc).expect("it is there"), "alias x=y\n");
    assert!(!backup.exists());
}

#[test]
fn lines_break_between_words_on_a_terminal() {
    let home = Home::new();
    let shown =
        |arguments: &[&str]| on_terminal(&home, 80, &[("NO_COLOR", "1"), ("PAGER", "cat")], arguments);
    let asks = home.start_with(
        &["-t", "--name", "a-question-with-a-name"],
        [
            "bash",
            "-c",
            "read -rp 'Shall the whole table really be dropped and made anew? (y/n) ' x; sleep 300",
        ],
    );
    home.wait_for_output(&asks, "anew?");
    let lines = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf 'some words %s ' $i; done; echo";
    home.wait(&home.start(["sh", "-c", lines]));
    for text in [shown(&["wait", "--input", &asks]), shown(&["inbox"]), shown(&["help", "projects"])] {
        let first = text.lines().take_while(|line| !line.contains("window = ")).take(40);
        for line in first {
            assert!(line.chars().count() <= 80, "{line:?} in\n{text}");
        }
        assert!(text.lines().count() > 1, "{text}");
    }
    home.run(["kill", &asks]).ok();
}

#[test]
fn times_are_local_for_people() {
    let home = Home::new();
    let zone = |arguments: &[&str]| {
        let mut command = home.outlive(arguments);
        command.env("TZ", "XST-5:30");
        finish(command, b"")
    };
    let job = zone(&["run", "--lifetime", "until=05:00", "sleep", "300"]).ok().text().trim().to_owned();
    let until = home.show(&job)["lifetime"]["until"]["at_us"].as_u64().unwrap_or_default();
    let shown = zone(&["show", &job]).ok().text();
    let line = shown.lines().find(|line| line.starts_with("lifetime")).unwrap_or_default();
    assert!(line.contains("until 20") && line.ends_with(" 05:00:00"), "{shown}");
    // Half past eleven in the evening there.
    assert_eq!(until / 1_000_000 % 86_400, (23 * 60 + 30) * 60, "{until}");
    zone(&["run", "--lifetime", "until=25:00", "true"]).code(2);
    let drawn = home.start_with(&["-t"], ["sh", "-c", "echo drawn; exec sleep 300"]);
    home.wait_for_output(&drawn, "drawn");
    let told = zone(&["screen", &drawn, "--at", "2026-01-01 00:00"]).ok().error();
    assert!(told.contains("look at '20") && !told.contains('Z'), "{told}");
    home.run(["kill", &job, &drawn]).ok();
}

#[test]
fn a_list_cuts_a_long_status_before_it_takes_columns_away() {
    let home = Home::new();
    home.run(["--session", "other", "run", "--name", "long", "--cwd", "/nope", "sleep", "1"]).code(126);
    let job = home.start_with(&["--name", "web"], ["sleep", "300"]);
    let shown = on_terminal(&home, 80, &[("NO_COLOR", "1")], &["list"]);
    let header = shown.lines().next().unwrap_or_default();
    assert!(header.contains("STARTED") && header.contains("TIME"), "{shown}");
    assert!(header.contains("SESSION") && shown.contains("never started:"), "{shown}");
    home.run(["kill", &job]).ok();
}

#[test]
fn what_was_killed_is_said_once() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    home.run(["kill", &job]).ok();
    let told = home.run(["wait", &job]).code(7).text();
    assert!(told.starts_with(&format!("{job} killed by outlive kill; ended by SIGTERM after ")), "{told}");
}

#[test]
fn only_near_words_are_suggested() {
    let home = Home::new();
    let one = home.start_with(&["--name", "one"], ["true"]);
    home.wait(&one);
    for line in [&["list", "--sort", "x"][..], &["exit"], &["list", "--stat"], &["show", "nope"]] {
        let told = home.run(line).error();
        assert!(!told.contains("did you mean"), "{line:?}: {told}");
    }
    assert!(hint(&home.run(["start", "one"]).code(2).error()).contains("outlive restart one"));
    assert!(hint(&home.run(["start", "two"]).code(2).error()).contains("outlive run COMMAND"));
    for verb in ["stop", "logs"] {
        assert!(hint(&home.run([verb, "all"]).code(3).error()).contains("--all"));
    }
    let told = home.run(["list", "--status", "x"]).code(2).error();
    assert!(told.contains("there are queued, ") && !told.contains(['[', ']']), "{told}");
    let told = home.run(["play", "one"]).error();
    assert!(hint(&told).contains(&format!("outlive logs {one}")) && !told.contains("-f"), "{told}");
}

#[test]
fn jobs_are_meant_by_their_queue() {
    let home = Home::new();
    let [first, second] = [(); 2].map(|()| home.start_with(&["--queue", "q"], ["sleep", "300"]));
    let other = home.start(["sleep", "300"]);
    until("the turn of the first has come", || home.show(&first)["status"] == "running");
    assert_eq!(home.run(["list", "-q", "--queue", "q"]).ok().text(), format!("{first}\n{second}\n"));
    home.run(["wait", "--queue", "q", "--timeout", "10ms"]).code(4);
    home.run(["kill", &first, &second]).ok();
    let told = home.run(["wait", "--queue", "q"]).ok().error();
    assert!(told.contains("no job waits or runs in queue q"), "{told}");
    for verb in ["queue", "session"] {
        assert_eq!(home.run([verb, "ls"]).ok().text(), home.run([verb, "list"]).ok().text());
        assert_eq!(home.run([verb, "help"]).ok().text(), home.run([verb, "--help"]).ok().text());
    }
    home.run(["kill", &other]).ok();
}
