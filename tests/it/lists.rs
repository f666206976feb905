//! Lists: which jobs they show, what they say of each, and that they fit.
//!
//! A list is for people; with `--json` it has every job and every field.

use outlive_tests::{Home, LIMIT, Terminal, end_within, on_terminal, signal};

#[test]
fn a_list_is_as_wide_as_the_terminal_and_aligned() {
    let home = Home::new();
    let long = "x".repeat(300);
    let jobs = [
        home.start(["sleep", "300"]),
        home.start_with(&["--name", "a-long-name"], ["sh", "-c", "sleep 300", &long]),
    ];
    for (columns, variables, width) in [(60, &[][..], 60), (100, &[], 100), (100, &[("COLUMNS", "70")], 70)] {
        let variables = [&[("NO_COLOR", "1")], variables].concat();
        let shown = on_terminal(&home, columns, &variables, &["list"]);
        let widths: Vec<usize> = shown.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 3, "{shown}");
        assert_eq!(widths.iter().max(), Some(&width), "{shown}");
    }
    let piped = home.run(["list"]).ok().text();
    assert!(!piped.contains(&long) && piped.contains("x…"), "a line of a list stays a line: {piped}");
    assert!(home.run(["list", "--no-trunc"]).ok().text().contains(&long));
    assert_eq!(home.json(["list"])[1]["command"].as_str().map(|command| command.contains(&long)), Some(true));
    let lines: Vec<&str> = piped.lines().collect();
    let column = lines[0].find("STATUS").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("running")), "{piped}");
    assert!(lines[1].starts_with(&jobs[0]) && lines[2].starts_with(&jobs[1]), "the newest is last");
}

#[test]
fn a_list_keeps_to_the_width_with_wide_characters_too() {
    let home = Home::new();
    home.start(["sh", "-c", "sleep 300", &"日本".repeat(100)]);
    let shown = on_terminal(&home, 70, &[("NO_COLOR", "1")], &["list"]);
    let width =
        |line: &str| line.chars().map(|c| if c >= '\u{1100}' && c != '…' { 2 } else { 1 }).sum::<usize>();
    assert!(shown.contains('日'));
    assert!(shown.lines().all(|line| width(line) <= 70), "{shown}");
}

/// Returns the ids of a list for people, in order.
fn ids(home: &Home, arguments: &[&str]) -> Vec<String> {
    let text = home.run([&["list"], arguments].concat()).ok().text();
    text.lines().skip(1).filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_list_says_in_words_what_went_wrong() {
    let home = Home::new();
    for (line, words) in [
        ("exit 3", "failed: 3 "),
        ("kill -SEGV $$", "failed: SIGSEGV "),
        ("exit 0", "completed "),
        ("echo x; sleep 300", "running "),
    ] {
        let job = home.start_line(line);
        if words != "running " {
            home.wait(&job);
        }
        let text = home.run(["list"]).ok().text();
        let row = text.lines().find(|row| row.starts_with(&job)).unwrap();
        assert!(row[job.len()..].trim_start().starts_with(words), "{row}");
        assert!(row.contains("s ago"), "{row}");
    }
    home.run(["run", "--", "no-such-program"]).code(127);
    home.run(["run", "--timeout", "50ms", "--wait", "sleep", "300"]).code(143);
    let text = home.run(["list"]).ok().text();
    assert!(text.contains(" never started: no such file ") && text.contains(" timed out "), "{text}");
}

#[test]
fn a_list_shows_what_is_live_and_the_last_ten_that_ended() {
    let home = Home::new();
    let live = home.start(["sleep", "300"]);
    let ended: Vec<String> = (0..13).map(|_| home.start(["true"])).collect();
    ended.iter().for_each(|job| drop(home.wait(job)));
    let shown = |ended: &[String]| [std::slice::from_ref(&live), ended].concat();
    assert_eq!(ids(&home, &[]), shown(&ended[3..]));
    let told = home.run(["list"]).ok().error();
    assert_eq!(told, "3 jobs have ended before these; `outlive list --all` shows them\n");
    assert_eq!(ids(&home, &["-n", "2"]), shown(&ended[11..]));
    assert_eq!(ids(&home, &["--all"]), shown(&ended));
    assert_eq!(home.run(["list", "--all"]).ok().error(), "");
    assert_eq!(ids(&home, &["--live"]), shown(&[]));
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(14));
    let told = home.run(["list", "-n", "12"]).ok().error();
    assert_eq!(told, "1 job has ended before these; `outlive list --all` shows it\n");
    home.run(["kill", &live]).ok();
    let done = home.run(["list", "-n", "0"]).ok();
    let told = "14 jobs have ended; `outlive list --all` shows them\n";
    assert_eq!((done.text(), done.error()), (String::new(), told.to_owned()));
}

#[test]
fn the_last_that_ended_is_shown_however_long_ago_it_was_started() {
    let home = Home::new();
    let long = home.start_with(&["--stdin", "open"], ["cat"]);
    let short: Vec<String> = (0..11).map(|_| home.start(["true"])).collect();
    short.iter().for_each(|job| drop(home.wait(job)));
    home.run(["send", &long, "--eof"]).ok();
    home.wait(&long);
    assert_eq!(ids(&home, &["-n", "1"]), std::slice::from_ref(&long));
    let shown = ids(&home, &[]);
    assert_eq!((shown.len(), shown.first()), (10, Some(&long)), "{shown:?}");
}

#[test]
fn a_list_is_narrowed_by_how_jobs_are_doing() {
    let home = Home::new();
    let start = |line: &str| home.start_line(line);
    let [live, bad, good, killed] = ["sleep 300", "exit 3", "exit 0", "sleep 400"].map(start);
    home.wait(&bad);
    home.wait(&good);
    home.run(["kill", &killed]).ok();
    home.run(["run", "--timeout", "50ms", "--wait", "sleep", "300"]).code(143);
    let timed_out = home.json(["list", "--status", "timed_out"])[0]["job"].as_str().unwrap().to_owned();
    assert_eq!(ids(&home, &["--failed"]), [bad.clone(), timed_out]);
    assert_eq!(ids(&home, &["--status", "killed", "--status", "running"]), [live, killed]);
    assert_eq!(ids(&home, &["--status", "completed"]), [good]);
    assert_eq!(ids(&home, &["--failed", "--status", "failed"]), [bad]);
    assert_eq!(home.run(["list", "--failed", "--group", "none"]).ok().error(), "no such jobs\n");
    assert!(home.run(["list", "--status", "dead"]).code(2).error().contains("completed"));
}

#[test]
fn a_session_that_does_not_exist_is_an_error_with_the_names_there_are() {
    let home = Home::new();
    home.run(["--session", "default", "list"]).ok();
    home.start_with(&["--session", "ci"], ["true"]);
    home.run(["session", "create", "docs"]).ok();
    home.run(["list", "--session", "docs"]).ok();
    let told = home.run(["--json", "list", "--session", "cu"]).code(3).error_json()["error"].take();
    assert_eq!(told["code"], "not_found");
    assert!(told["message"].as_str().unwrap().contains("\"cu\""), "{told}");
    assert_eq!(told["hint"], "there are: ci, docs");
}

#[test]
fn no_line_of_a_list_is_wider_than_the_terminal() {
    let home = Home::new();
    let long = "x".repeat(200);
    home.start_with(&["--session", "a-long-name-of-a-session"], ["sleep", "300"]);
    let directory = home.make_dir("a-directory-of-this-job").display().to_string();
    home.start_with(&["--cwd", &directory, "--name", "a name"], ["sh", "-c", "sleep 300", &long]);
    home.run(["run", "--", "./no-such-program"]).code(127);
    for columns in [60, 80, 119, 120, 200] {
        let options = [&[][..], &["--usage"], &["--usage", "--ports"]];
        for options in options.into_iter().filter(|options| columns >= 80 || options.is_empty()) {
            let arguments = [&["list"], options].concat();
            let shown = on_terminal(&home, columns, &[("NO_COLOR", "1")], &arguments);
            let widest = shown.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(columns.into()), "{columns} {options:?}:\n{shown}");
            assert!(shown.contains("sleep 300"), "the command has room: {shown}");
            assert_eq!(shown.contains("a-directory-of-this-job"), columns == 200, "{columns}: {shown}");
        }
    }
}

#[test]
fn a_watched_list_is_drawn_in_place_until_ctrl_c() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let mut terminal = Terminal::open(80);
    let mut watching = terminal.start(&home, &[("NO_COLOR", "1")], ["outlive", "list", "--watch"]);
    terminal.read_until("running");
    home.run(["send", &job, "--eof"]).ok();
    terminal.read_until("completed");
    signal(watching.id().cast_signed(), "INT");
    let shown = terminal.read_to_end();
    assert_eq!(end_within(&mut watching, LIMIT), Some(0));
    assert!(shown.contains("\u{1b}[2A") && !shown.contains("\u{1b}[2J"), "it is drawn over: {shown:?}");
    home.run(["list", "--watch"]).code(2);
}
