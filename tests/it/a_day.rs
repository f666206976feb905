//! A day's work of a person who knows the README alone, in a real window of 80 columns and 24 rows: a server, a watcher, tests that fail, a
//! long build, something to talk to, three jobs at once, and cleaning up.
//!
//! What is asserted is what that person has to see to go on without doubt.

use std::cell::Cell;

use outlive_tests::{Home, binary, until};

use crate::terminals::Tmux;

/// A shell in a window of 80 columns, in which `outlive` is a command.
struct Window<'a> {
    tmux: Tmux<'a>,
    /// How many lines were typed.
    lines: Cell<u32>,
}

impl<'a> Window<'a> {
    fn open(home: &'a Home, rows: u16) -> Self {
        let tmux = Tmux::open(home, 80, rows);
        let directory = binary("outlive").parent().expect("a directory").display().to_string();
        tmux.line("one", &format!("PATH={directory}:$PATH; export NO_COLOR=1"));
        Self { tmux, lines: Cell::new(0) }
    }

    /// Begins a line in an empty window.
    fn begin(&self, line: &str) {
        self.tmux.line("one", &format!("clear; {line}"));
    }

    /// Types a line in an empty window, waits for its end, and returns what it showed.
    fn shows(&self, line: &str) -> String {
        let number = self.lines.replace(self.lines.get() + 1);
        let end = format!("== end of {number} ==");
        self.begin(&format!("{line}; echo '== end ''of {number} =='"));
        until(line, || self.tmux.screen("one").contains(&end));
        let plain = self.tmux.screen("one");
        let joined = self.tmux.tell(&["capture-pane", "-p", "-J", "-t", "one"]);
        // The shell's next prompt may come between the two looks.
        let rows = |text: &str| text.split(&end).next().map_or(0, |shown| shown.trim_end().lines().count());
        assert_eq!(rows(&plain), rows(&joined), "{line} breaks within a word:\n{plain}");
        plain.split(&end).next().unwrap_or_default().to_owned()
    }

    /// Presses keys, by the names that tmux has for them.
    fn press(&self, keys: &[&str]) {
        self.tmux.tell(&[&["send-keys", "-t", "one"], keys].concat());
    }

    fn waits_for(&self, text: &str) {
        self.tmux.shows("one", text);
    }
}

/// Asserts that a text has all of these parts.
#[track_caller]
fn has(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "no {part:?} in:\n{text}"));
}

#[test]
fn a_days_work() {
    let home = Home::new();
    let window = Window::open(&home, 24);
    has(&window.shows("outlive"), &["no live jobs", "outlive run COMMAND", "outlive logs -f JOB"]);

    // A server, and a watcher that is followed; Ctrl-C stops only the following.
    has(
        &window.shows("outlive run --name web python3 -m http.server 0"),
        &["web-", "; outlive logs -f web-"],
    );
    window.shows("outlive run --name watcher 'while sleep 0.2; do echo changed; done'");
    window.begin("outlive logs -f watcher");
    window.waits_for("\nchanged\nchanged");
    window.press(&["C-c"]);
    has(&window.shows("outlive list"), &["web-", "watcher-", "running"]);

    // Tests that fail, and run again.
    let tests = "outlive run --name tests 'echo test 1 ok; echo test 2 FAILED >&2; exit 1'";
    window.shows(tests);
    has(&window.shows("outlive wait tests && echo deployed"), &["failed: exited with 1"]);
    assert!(!window.shows("outlive wait tests && echo deployed").contains("deployed"));
    has(&window.shows("outlive logs -n 1 tests"), &["test 2 FAILED"]);
    has(&window.shows("outlive restart tests"), &["tests-"]);

    // A long build: what it is at is shown, and Ctrl-C says that it goes on.
    window.shows("outlive run --name build 'for i in $(seq 1000); do echo compiling $i; sleep 0.1; done'");
    window.begin("outlive wait build");
    window.waits_for("build-");
    window.waits_for(": compiling ");
    window.press(&["C-c"]);
    window.waits_for("outlive: no longer waiting; build-");
    has(&window.tmux.screen("one"), &["goes on. Stop it with: outlive kill"]);
    assert!(!window.tmux.screen("one").contains("^C"), "{}", window.tmux.screen("one"));

    // Something to talk to: how to get there is said where it is started.
    has(&window.shows("outlive run -t --name repl cat"), &["; outlive attach repl-"]);
    window.shows("outlive send repl hello");
    window.begin("outlive attach repl");
    window.waits_for("hello\nhello");
    window.tmux.line("one", "typed");
    window.waits_for("typed\ntyped");
    window.press(&["C-\\", "d"]);
    window.waits_for("goes on: outlive attach");

    // Three at once.
    window.shows("for n in a b c; do outlive run --group trio --name $n \"echo $n is done\"; done");
    has(&window.shows("outlive wait --group trio"), &["a-", "b-", "c-", "completed"]);
    has(&window.shows("outlive logs --group trio"), &["a | a is done", "b | b is done", "c | c is done"]);

    window.begin("outlive list --watch");
    window.waits_for("JOB");
    window.press(&["C-c"]);
    until("the prompt is in a line of its own", || !window.tmux.screen("one").contains("^C"));

    // Cleaning up.
    has(&window.shows("outlive rm --ended --dry-run"), &["tests-", "would be removed"]);
    has(&window.shows("outlive kill --all"), &["web-", "watcher-", "build-", "repl-", "ended"]);
    has(&window.shows("outlive rm --ended"), &["web-", "removed"]);
    has(&window.shows("outlive rm --ended; outlive list"), &["no ended jobs", "no jobs; start one with"]);
}

#[test]
fn a_kill_that_takes_long_says_what_it_waits_for() {
    let home = Home::new();
    let window = Window::open(&home, 24);
    window.shows(
        "outlive run --name stubborn --grace 1h 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done'",
    );
    home.wait_for_output("stubborn", "ready");
    window.begin("outlive kill stubborn; echo it is o''ver");
    window.waits_for("s  waiting for the end of stubborn-");
    home.run(["kill", "--force", "stubborn"]).ok();
    window.waits_for("it is over");
    let screen = window.tmux.screen("one");
    assert!(!screen.contains("waiting for the end"), "the line is gone: {screen}");
}

#[test]
fn a_verb_without_its_job_says_where_jobs_are() {
    let home = Home::new();
    for (verb, rest) in
        [("show", "<JOB>"), ("attach", "<JOB>"), ("kill", "<JOB>"), ("resize", "<JOB> <SIZE>")]
    {
        let said = home.run([verb]).code(2).error();
        assert!(said.contains(&format!("{verb}: no job is named\n")), "{said}");
        assert!(
            said.contains(&format!("`outlive list` shows the jobs; then: outlive {verb} {rest}\n")),
            "{said}"
        );
    }
}

#[test]
fn an_age_needs_a_unit() {
    let home = Home::new();
    let job = home.start(["true"]);
    home.wait(&job);
    let said = home.run(["rm", "--older", "2"]).code(2).error();
    assert!(said.contains("2 of what? Write 2d for days"), "{said}");
    home.run(["rm", "--older", "2d"]).ok();
    home.show(&job);
}

#[test]
fn nothing_breaks_within_a_word() {
    let home = Home::new();
    let window = Window::open(&home, 60);
    let words = "echo one two three four five six seven eight nine ten eleven twelve; sleep 600";
    window.shows(&format!("outlive run -t --name long --env A=1 --label of=this '{words}'"));
    let shown = window.shows("outlive show long");
    has(&shown, &["command      echo one two", "\n             twelve; sleep 600\n"]);
    for line in [
        "outlive doctor",
        "outlive show nothing",
        "outlive logs",
        "outlive run",
        "outlive run --timeout 0 true",
        "outlive logs long --since 5",
        "outlive list --status unheard",
        "outlive wait long --timeout 100ms",
        "outlive send long --secret </dev/null",
        "outlive restart nothing-at-all",
        "outlive setup --list",
        "outlive setup opencode",
        "outlive session list",
        "outlive up",
        "outlive why it",
        "outlive inbox",
        "outlive gc",
        "outlive help | head -20",
        "outlive list --session other",
        "outlive rm long",
        "outlive attach --size 3 long",
    ] {
        window.shows(line);
    }
    home.run(["kill", "--all", "--force"]).ok();
}
