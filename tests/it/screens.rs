//! Screens of the commonest commands, as a person sees them: in a real terminal of 80 and of 200 columns, with colours and without.
//!
//! Compared with the texts in `tests/fixtures/screens`; `BLESS=1` writes these anew, to be looked at. Ids, numbers and the widths of
//! columns differ from run to run, and are made the same first.

use std::fs;

use outlive_tests::{Home, binary, until, workspace};

use crate::terminals::Tmux;

/// What is typed, where the jobs `web`, `tests` and `repl` were started before.
const COMMANDS: [&str; 16] = [
    "outlive",
    "outlive run --name api 'echo up; sleep 600'",
    "outlive run --wait 'echo one; echo two >&2; exit 3'",
    "outlive list",
    "outlive list --failed",
    "outlive show tests",
    "outlive logs -n 3 tests",
    "outlive logs tests repl",
    "outlive logs nothing",
    "outlive wait tests",
    "outlive send repl hello",
    "outlive pause web",
    "outlive resume web",
    "outlive kill web repl api",
    "outlive session list",
    "outlive rm tests",
];

/// Lines of `show` that tell of this machine and this run.
const OF_THE_RUN: [&str; 6] = ["pid ", "keeper ", "containment ", "usage ", "files ", "directory "];

#[test]
fn the_commonest_commands_look_as_they_should() {
    let mut wrong = Vec::new();
    for (columns, has_colour) in [(80, false), (80, true), (200, false), (200, true)] {
        let name = format!("{columns}{}.txt", if has_colour { "-colour" } else { "" });
        let path = workspace().join("tests/fixtures/screens").join(&name);
        let seen = screens(columns, has_colour);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &seen).expect("the text is written");
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        let pairs = seen.split("\n$ ").zip(expected.split("\n$ "));
        wrong.extend(
            pairs
                .filter(|(seen, expected)| seen != expected)
                .map(|(seen, expected)| format!("{name}: {seen}\n-- in place of\n{expected}")),
        );
        assert_eq!(seen.matches("\n$ ").count(), expected.matches("\n$ ").count(), "{name}");
    }
    assert!(wrong.is_empty(), "look at them, then BLESS=1:\n{}", wrong.join("\n\n"));
}

/// Types all commands into a terminal of this width, and returns what it showed.
fn screens(columns: u16, has_colour: bool) -> String {
    let home = Home::new();
    let web = home.start_with(&["--name", "web"], ["sleep", "600"]);
    let script =
        "for i in 1 2 3; do echo \"test $i ok\"; done; printf '\\033[31mtest 4 FAILED\\033[0m\\n'; exit 1";
    fs::write(home.path().join("tests.sh"), script).expect("a script");
    let tests = home.start_with(&["--name", "tests"], ["sh", "tests.sh"]);
    home.wait(&tests);
    let repl = home.start_with(&["--name", "repl", "--stdin", "open"], ["sh", "-c", "echo ready; exec cat"]);
    home.wait_for_output(&repl, "ready");
    until("it waits for a line", || home.show(&repl)["awaits"].is_object());
    let tmux = Tmux::open(&home, columns, 60);
    let directory = binary("outlive").parent().expect("a directory").display().to_string();
    let colour = if has_colour { "unset NO_COLOR" } else { "export NO_COLOR=1" };
    tmux.line("one", &format!("PATH={directory}:$PATH; TZ=UTC; export TZ; {colour}"));
    let mut all = String::new();
    for (number, command) in COMMANDS.into_iter().enumerate() {
        let end = format!("== end of {number} ==");
        tmux.line("one", &format!("clear; {command}; echo '== end ''of {number} =='"));
        until(&end, || tmux.screen("one").lines().any(|line| line == end));
        let screen = tmux.tell(&["capture-pane", "-p", "-t", "one", if has_colour { "-e" } else { "-J" }]);
        let plain = tmux.tell(&["capture-pane", "-p", "-t", "one"]);
        let joined = tmux.tell(&["capture-pane", "-p", "-J", "-t", "one"]);
        let count = |text: &str| text.trim_end().lines().count();
        assert_eq!(count(&plain), count(&joined), "{command} wraps at {columns} columns:\n{plain}");
        let lines = screen.lines().take_while(|line| !line.contains("== end of"));
        let lines = lines.filter(|line| !OF_THE_RUN.iter().any(|name| line.starts_with(name)));
        all.push_str(&format!(
            "\n$ {command}\n{}\n",
            lines.map(|line| same(&home, line)).collect::<Vec<_>>().join("\n").trim_end()
        ));
    }
    drop(tmux);
    for job in home.json(["list"]).as_array().expect("a list") {
        if job["status"] == "running" {
            home.run(["kill", job["job"].as_str().expect("an id")]).ok();
        }
    }
    drop((web, repl));
    all
}

/// Makes what differs from run to run the same: the last part of ids, numbers, units of time, the home, and the widths of columns.
fn same(home: &Home, line: &str) -> String {
    let line = line.replace(&home.path().display().to_string(), "~");
    let mut text = String::new();
    let mut rest = line.trim_end();
    while let Some(next) = rest.chars().next() {
        // Colours stay as they are.
        if next == '\x1b' {
            let end = rest.find('m').map_or(rest.len(), |end| end + 1);
            text.push_str(&rest[..end].replace('\x1b', "ESC"));
            rest = &rest[end..];
            continue;
        }
        let word = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default();
        if word.is_empty() {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            text.push_str(&of_no_run(word));
            rest = &rest[word.len()..];
        }
    }
    while text.contains("   ") {
        text = text.replace("   ", "  ");
    }
    text
}

/// Returns a word without what is of this run: `web-jq3p` is `web-ID`, `18ms` and `1s` are `0s`, and other numbers are 0.
fn of_no_run(word: &str) -> String {
    let id = word.rsplit_once('-').filter(|(name, last)| {
        last.len() == 4 && ["web", "tests", "repl", "api", "echo", "sh"].contains(name)
    });
    if let Some((name, _)) = id {
        return format!("{name}-ID");
    }
    let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
    match digits {
        "ms" | "s" | "m" if digits.len() < word.len() => "0s".to_owned(),
        "" => "0".to_owned(),
        _ if word.len() > 1 && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => {
            "DATE".to_owned()
        }
        _ => word.to_owned(),
    }
}
