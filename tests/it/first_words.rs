//! The first words of a new user: what is typed without having read anything.
//!
//! Verbs of other tools work here, or their message names the one that does.

use outlive_tests::{Home, finish, until};

#[test]
fn alone_it_shows_the_live_jobs_and_where_to_begin() {
    let home = Home::new();
    let empty = home.run([] as [&str; 0]).ok();
    assert_eq!(empty.error(), "no live jobs\n");
    for verb in ["run", "list", "logs -f", "wait", "kill"] {
        assert!(empty.text().contains(&format!("outlive {verb}")), "{}", empty.text());
    }
    let live = home.start(["sleep", "300"]);
    let ended = home.start(["true"]);
    home.wait(&ended);
    let shown = home.run([] as [&str; 0]).ok().text();
    assert!(shown.contains(&live) && !shown.contains(&ended), "{shown}");
    assert_eq!(home.json([] as [&str; 0])[0]["job"], live);
}

#[test]
fn verbs_of_other_tools_work_or_are_answered_with_ours() {
    let home = Home::new();
    let job = home.start_line("echo said; exec sleep 300");
    home.wait_for_output(&job, "said");
    assert!(home.run(["ls"]).ok().text().contains(&job));
    assert_eq!(home.run(["log", &job]).ok().text(), "said\n");
    assert_eq!(home.run(["version"]).ok().text(), home.run(["--version"]).ok().text());
    for (line, named) in [
        (&["start", "web"][..], "outlive run"),
        (&["tail", "web"], "outlive logs"),
        (&["jobs"], "outlive list"),
        (&["inspect", "web"], "outlive show"),
        (&["prune"], "outlive rm --ended"),
        (&["new-session", "-d"], "outlive run -t"),
        (&["send-keys", "web"], "outlive send"),
        (&["sleep", "300"], "outlive run sleep"),
        (&["npm run dev"], "outlive run 'npm run dev'"),
        (&["lsit"], "did you mean: outlive list"),
        // Nothing that only outlive itself starts is suggested.
        (&["frob"], "outlive --help tells what there is"),
    ] {
        let told = home.run(line).code(2).error();
        assert!(told.contains(&format!("there is no command {:?}", line[0])), "{told}");
        assert!(told.lines().any(|line| line.starts_with("hint: ") && line.contains(named)), "{told}");
    }
    assert!(home.run(["stop", &job]).ok().text().contains("ended"));
}

#[test]
fn verbs_say_what_they_did_and_refuse_what_makes_no_sense() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    assert_eq!(home.run(["send", &job, "hello"]).ok().text(), format!("{job}: 6 bytes sent\n"));
    let told = home.run(["wait", "--timeout", "1ms", &job]).code(4).error();
    assert!(told.contains(&format!("it goes on; wait again, or end it with: outlive kill {job}")), "{told}");
    assert_eq!(home.run(["send", &job, "--eof"]).ok().text(), format!("{job}: its input closed\n"));
    home.wait(&job);
    let told = home.run(["wait", "--timeout", "0", &job]).code(2).error();
    assert!(told.contains("--timeout 0") && told.contains("as long as it takes"), "{told}");
    let told = home.run(["run", "--timeout", "0", "true"]).code(2).error();
    assert!(told.contains("'0'") && told.contains("none for no limit"), "{told}");
    home.run(["run", "--timeout", "50ms", "--name", "slow", "sleep", "300"]).ok();
    let ended = home.run(["wait", "slow"]).code(7).text();
    assert!(ended.contains(" timed out: its time was over"), "{ended}");
}

#[test]
fn a_job_where_none_is_taken_is_answered_with_the_verb_that_takes_one() {
    let home = Home::new();
    for (line, hint) in [
        (&["down", "worker"][..], "outlive kill worker"),
        (&["status", "worker"], "outlive why worker"),
        (&["show", "a", "b"], "one job at a time: outlive show b"),
        (&["serve", "--tcp", "127.0.0.1:8777"], "write it with =: outlive serve --tcp=127.0.0.1:8777"),
    ] {
        let told = home.run(line).code(2).error();
        assert!(told.lines().any(|line| line.starts_with("hint: ") && line.contains(hint)), "{told}");
    }
}

#[test]
fn what_is_long_is_not_repeated_in_an_error() {
    let home = Home::new();
    let long = "x".repeat(100_000);
    for line in [
        &["list", "--session", &long][..],
        &["show", &long],
        &["run", "--session", &long, "true"],
        &["logs", "--since", &long, "a"],
        &["wait", "--match", &format!("({long}"), "a"],
    ] {
        let done = home.run(line);
        assert!(done.code != 0 && done.error().len() < 1000, "{:.300}", done.error());
    }
}

#[test]
fn what_was_most_likely_meant_is_suggested() {
    let home = Home::new();
    let job = home.start_with(&["--name", "web"], ["sleep", "300"]);
    let failed = home.run(["logs", "wbe"]).code(3).error();
    assert!(failed.contains(&format!("did you mean {job}?")), "{failed}");
    let failed = home.run(["run", "--stdin-from", "web:foo", "cat"]).code(2).error();
    assert!(failed.contains("a job has no stream \"foo\"") && failed.contains("web:stdout"), "{failed}");
    let config = home.path().join("config.toml");
    std::fs::write(&config, "[job]\ntimeot = \"5m\"\n").expect("the directory is there");
    let mut command = home.outlive(["list"]);
    command.env("OUTLIVE_CONFIG", &config);
    let failed = finish(command, b"").code(1).error();
    assert!(
        failed.contains("did you mean `timeout`?") && failed.contains("outlive help configuration"),
        "{failed}"
    );
}

#[test]
fn what_may_not_be_meant_is_told() {
    let home = Home::new();
    let first = home.start_with(&["--name", "web"], ["sleep", "300"]);
    let second = home.run(["run", "--name", "web", "sleep", "300"]).ok();
    assert!(
        second.error().contains(&format!("warning: {first} has this name and runs, too")),
        "{}",
        second.error()
    );
    home.run(["kill", &first]).ok();
    let told = home.run(["run", "--name", "tick", "--every", "1h", "--wait", "true"]).ok().error();
    assert!(told.contains("it is run again, every 1h") && told.contains("outlive kill tick"), "{told}");
    let outer = home.start_line("outlive run --name inner sleep 300; sleep 300");
    // Its starter is a process of the outer job, and would be ended with that while it starts it.
    until("the inner one runs", || {
        home.run(["--json", "show", "inner"]).text().contains(r#""status":"running""#)
    });
    let inner = home.show("inner")["job"].as_str().expect("an id").to_owned();
    let told = home.run(["kill", &outer]).ok().error();
    assert!(told.contains(&format!("{inner} was started from inside and goes on; --nested ends")), "{told}");
    home.run(["kill", "--all"]).ok();
}

#[test]
fn words_of_libraries_are_put_into_plain_ones() {
    let home = Home::new();
    home.start_with(&["--name", "web"], ["sleep", "300"]);
    for (line, part) in [
        (&["list", "-n", "x"][..], "write a whole number"),
        (&["logs", "web", "--stream", "x"], ": there are stdout, stderr"),
        (&["run", "--on-exit", "", "true"], "--on-exit has no line to run"),
        (&["run", "--on", "nowhere", "true"], "there is no machine \"nowhere\""),
    ] {
        let told = home.run(line).error();
        assert!(told.contains(part), "{line:?}: {told}");
    }
    let help = home.run(["run", "--help"]).ok().text();
    assert!(help.contains("@healthy"), "{help}");
    assert!(home.run(["list", "--help"]).ok().text().contains("queued"));
}

#[test]
fn the_log_of_a_job_that_was_not_begun_says_so() {
    let home = Home::new();
    home.run(["run", "--name", "typo", "--", "./nothing-here"]).code(127);
    let told = home.run(["logs", "typo"]).ok().error();
    assert!(told.contains(" was never started: no such file"), "{told}");
    assert!(home.run(["logs", "-f", "typo"]).ok().error().contains(" was never started: no such file"));
    let first = home.start_with(&["--name", "first", "--queue", "one"], ["sleep", "600"]);
    until("it runs", || home.show(&first)["status"] == "running");
    home.run(["run", "--name", "second", "--queue", "one", "true"]).ok();
    let told = home.run(["logs", "second"]).ok().error();
    assert!(told.contains(" has not begun, queued: in one"), "{told}");
    let told = home.run(["logs", "second", "first"]).ok().error();
    assert!(told.contains(" has not begun, queued: in one") && told.lines().count() == 1, "{told}");
    assert_eq!(home.run(["logs", "first"]).ok().error(), "", "it has begun, and printed nothing");
    assert_eq!(home.run(["--json", "logs", "typo"]).ok().error(), "");
    home.run(["kill", "second", &first]).ok();
}

#[test]
fn an_option_of_outlive_behind_the_program_is_told() {
    let home = Home::new();
    let told = home.run(["run", "sh", "-c", "true", "--name", "web"]).ok().error();
    assert!(told.contains("--name goes to sh; options of outlive stand before the command"), "{told}");
    assert!(home.run(["run", "true", "--ready-port=80"]).ok().error().contains("--ready-port goes to true"));
    for line in [
        &["--json", "run", "true", "--name", "web"][..],
        &["run", "--", "true", "--name", "web"],
        &["run", "true", "--help"],
        // A program that starts others has such options itself.
        &["run", "true", "run", "--name", "web", "nginx", "-q"],
    ] {
        assert_eq!(home.run(line).ok().error(), "", "{line:?}");
    }
}

#[test]
fn options_and_verbs_that_are_guessed_are_answered_with_ours() {
    let home = Home::new();
    for (line, hint) in [
        (&["logs", "web", "--stderr"][..], "--stream stderr"),
        (&["run", "--port", "8000", "true"], "--ready-port"),
        (&["parallel", "3"], "outlive queue parallel"),
        (&["gc", "--dry-run"], "outlive rm --ended"),
    ] {
        let told = home.run(line).code(2).error();
        assert!(told.lines().any(|line| line.starts_with("hint: ") && line.contains(hint)), "{told}");
    }
    let job = home.start_line("echo one\necho two");
    home.wait(&job);
    assert_eq!(home.json(["wait", "--any", &job, &job])["jobs"].as_array().map(Vec::len), Some(1));
    assert_eq!(home.run(["wait", &job, &job]).ok().text().lines().count(), 1);
    let shown = home.run(["show", &job]).ok().text();
    assert!(shown.contains("echo one ↵ echo two"), "{shown}");
}
