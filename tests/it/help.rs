//! Help in the terminal: verbs, guides and manual pages, and messages that say what to do.
//!
//! Every guide of `docs/guide` can be read; nothing is wider than the terminal; manual pages are made for every verb.

use std::fs;

use outlive_tests::{Home, Terminal, binary, finish, workspace};

/// Runs `outlive` on a terminal of this width and returns what was written there.
fn on_terminal(home: &Home, columns: u16, arguments: &[&str]) -> String {
    let terminal = Terminal::open(columns);
    let program = binary("outlive").display().to_string();
    let mut child = terminal.start(
        home,
        &[("NO_COLOR", "1"), ("PAGER", "cat")],
        [&[program.as_str()], arguments].concat(),
    );
    let shown = terminal.read_to_end().replace("\r\n", "\n");
    child.wait().expect("it ends");
    shown
}

#[test]
fn every_guide_is_a_topic_and_fits_the_terminal() {
    let home = Home::new();
    for entry in fs::read_dir(workspace().join("docs/guide")).expect("the guides") {
        let path = entry.expect("a guide").path();
        let Some(name) = path.file_stem().filter(|_| path.is_file()).and_then(|name| name.to_str()) else {
            continue;
        };
        let text = on_terminal(&home, 80, &["help", name]);
        let title =
            fs::read_to_string(&path).expect("a page").lines().next().expect("a title").replace("# ", "");
        assert!(text.lines().any(|line| line == title), "{name}: {text}");
        // Commands that are to be copied are not broken, nor are words.
        for line in text.lines().filter(|line| !line.starts_with("    ")) {
            assert!(line.chars().count() <= 80 || !line.trim().contains(' '), "{name}: {line}");
        }
        assert!(!text.contains("](") && !text.contains("```") && !text.contains("| --- |"), "{text}");
        assert!(home.run(["help"]).ok().text().contains(name), "{name} is named");
    }
    assert_eq!(home.run(["help", "run"]).ok().text(), home.run(["run", "--help"]).ok().text());
    assert!(home.run(["help", "session", "create"]).ok().text().contains("--cwd"));
    let failed = home.run(["help", "nothing"]).code(3);
    assert!(failed.error().contains("scripts") && failed.error().contains("terminals"), "{}", failed.error());
}

#[test]
fn manual_pages_are_made_for_every_verb() {
    let home = Home::new();
    let directory = home.path().join("share/man/man1");
    let said = home.run(["man", directory.to_str().expect("text")]).ok().text();
    assert!(said.contains("pages in "), "{said}");
    for (page, text) in [
        ("outlive.1", "Background processes"),
        ("outlive-run.1", "LINE"),
        ("outlive-session-create.1", "cwd"),
        ("outlive-logs.1", "color"),
    ] {
        let path = directory.join(page);
        let written = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{page}: {error}"));
        assert!(written.contains(text) && written.contains(".SH NAME"), "{page}: {written}");
    }
    assert!(!directory.join("outlive-probe.1").exists(), "what is hidden has no page");
}

/// Who writes `man run` wants to read a page, and not to write 65 of them.
#[test]
fn the_page_of_a_verb_is_shown_where_one_is_named() {
    let home = Home::new();
    let run = home.run(["man", "run"]).ok();
    assert_eq!(run.text(), home.run(["run", "--help"]).ok().text());
    assert!(run.error().contains("outlive man ./run"), "{}", run.error());
    assert!(home.run(["man", "terminals"]).ok().text().contains("Attaching"));
    assert!(!home.path().join("run").exists() && !home.path().join("terminals").exists());
    assert!(home.run(["man", "./run"]).ok().text().contains("pages in ./run"));
    assert!(home.run(["man", "run"]).ok().text().contains("pages in run"), "it is a directory");
}

#[test]
fn messages_break_between_words_and_say_what_to_do() {
    let home = Home::new();
    let shown = on_terminal(&home, 50, &["logs", "nothing-of-this-name"]);
    let joined = shown.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let piped = home.run(["logs", "nothing-of-this-name"]).code(3).error();
    assert_eq!(joined, piped.trim_end().replace('\n', " "));
    assert!(shown.lines().all(|line| line.len() <= 50), "{shown}");
    for (arguments, hint) in [
        (&["run", "--timeout", "0", "--", "true"][..], "none for no limit"),
        (&["session", "create", "--", "-x"], "must begin with a letter or digit"),
        (&["session", "create", "a b"], "' ' is not allowed"),
    ] {
        let failed = home.run(arguments).code(2).error();
        assert!(failed.contains(hint), "{failed}");
    }
}

#[test]
fn a_verb_says_what_it_did() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open", "--timeout", "1h"], ["cat"]);
    assert_eq!(home.run(["send", &job, "hello"]).ok().text(), format!("{job}: 6 bytes sent\n"));
    assert_eq!(home.run(["send", "-n", &job, "x"]).ok().text(), format!("{job}: 1 byte sent\n"));
    assert!(home.run(["show", &job]).ok().text().contains("survives"));
    assert_eq!(home.run(["send", "--eof", &job]).ok().text(), format!("{job}: its input closed\n"));
    home.wait(&job);
    assert!(!home.run(["show", &job]).ok().text().contains("survives"), "what has ended survives nothing");
    let late = home.start_with(&["--timeout", "1ms", "--grace", "0s"], ["sleep", "300"]);
    home.wait(&late);
    assert!(home.run(["show", &late]).ok().text().contains("timed out"));
    let mut command = home.outlive(["wait", &late]);
    command.env("NO_COLOR", "1");
    let said = finish(command, b"");
    assert!(said.text().contains("timed out") && !said.text().contains("timed_out"), "{}", said.text());
}
