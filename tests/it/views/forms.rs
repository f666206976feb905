//! Forms: raw into a pipe, as a person reads it on a terminal, and what a terminal would have left on the page.
//!
//! Proves S3-63 (the log is raw) and S0-71 (text, stream, time and number of each line), in every form.

use outlive_tests::{Home, LIMIT, Terminal, binary, end_within, until_seen};

use super::{logs, printed, sequence};
use crate::output::{json_lines, texts};
use crate::terminals::Tmux;

const COLOURS: &str = r"\033[32mok\033[0m 1\n 10%%\r 50%%\r100%%\n\033]0;title\007done\n";

#[test]
fn three_forms_of_the_same() {
    let home = Home::new();
    let job = printed(&home, COLOURS);
    assert_eq!(
        logs(&home, &job, &["--raw"]),
        "\x1b[32mok\x1b[0m 1\n 10%\r 50%\r100%\n\x1b]0;title\x07done\n"
    );
    assert_eq!(logs(&home, &job, &["--plain"]), "ok 1\n 10%\n 50%\n100%\ndone\n");
    assert_eq!(logs(&home, &job, &["--rendered"]), "ok 1\n100%\ndone\n");
    assert_eq!(texts(&json_lines(&home, &["--rendered", &job])), ["ok 1", "100%", "done"]);
    let plain = json_lines(&home, &["--plain", &job]);
    assert_eq!(texts(&plain), ["ok 1", " 10%", " 50%", "100%", "done"]);
    let numbers: Vec<_> = plain.iter().map(|line| line["line"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 2, 2, 3].map(Some), "frames are of the line that they are of");
    // What is searched is what is shown.
    assert_eq!(logs(&home, &job, &["--plain", "--grep", "^ok 1$"]), "ok 1\n");
    assert_eq!(logs(&home, &job, &["--raw", "--grep", "^ok 1$"]), "");
    assert_eq!(logs(&home, &job, &["--rendered", "--grep", "%"]), "100%\n");
    assert_eq!(logs(&home, &job, &["--rendered", "-n", "2"]), "100%\ndone\n");
}

/// Runs `outlive` on a terminal and returns what was written there.
fn on_terminal_with(home: &Home, variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let terminal = Terminal::open(80);
    let program = binary("outlive").display().to_string();
    let mut child = terminal.start(home, variables, [&[program.as_str()], arguments].concat());
    let shown = terminal.read_to_end().replace("\r\n", "\n");
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    shown
}

/// A progress bar that is followed is one line of a real terminal, in each of its states.
#[test]
fn a_progress_bar_that_is_followed_is_one_line() {
    let home = Home::new();
    let job = crate::output::start_puppet(&home);
    let say = |order: &str, shown: &str| crate::output::say(&home, &job, order, shown);
    say("out before\\n", "before");
    let tmux = Tmux::open(&home, 60, 10);
    for (number, arguments) in ["logs -f", "logs -f -n 2"].into_iter().enumerate() {
        tmux.line("one", "clear");
        say(&format!("out step {number}: 0%%"), &format!("step {number}: 0%"));
        tmux.outlive("one", &format!("{arguments} {job}"));
        tmux.shows("one", &format!("step {number}: 0%"));
        for percent in [10, 50, 99] {
            let state = format!("step {number}: {percent}%");
            say(&format!("out \\r\\033[32m{state}%\\033[0m"), &state);
            // A screen that is taken while it is drawn may show a part of both states.
            let is_one = |screen: &str| screen.contains(&state) && screen.matches('%').count() == 1 + number;
            until_seen(&format!("one line: {state}"), || tmux.screen("one"), is_one);
        }
        // Longer than the window is wide, and short again.
        let long = format!("{number}{}", "x".repeat(100));
        say(&format!("out \\r{long}"), &long);
        tmux.shows("one", "xxxx");
        say(&format!("out \\r\\033[Kstep {number}: 100%%\\n"), &format!("step {number}: 100%"));
        let last = format!("step {number}: 100%");
        let is_last = |screen: &str| screen.contains(&last) && !screen.contains("xx");
        until_seen("nothing is left of the long line", || tmux.screen("one"), is_last);
        tmux.tell(&["send-keys", "-t", "one", "C-c"]);
    }
    home.run(["kill", &job]).ok();
}

#[test]
fn a_pipe_gets_the_bytes_and_a_terminal_what_a_person_reads() {
    let home = Home::new();
    let job = printed(&home, COLOURS);
    assert_eq!(home.logs(&job), logs(&home, &job, &["--raw"]).as_bytes());
    let on_terminal =
        |arguments: &[&str]| on_terminal_with(&home, &[], &[&["logs", &job], arguments].concat());
    let seen = "\x1b[0;32mok\x1b[0m 1\n100%\ndone\n";
    assert_eq!(on_terminal(&[]), seen);
    assert_eq!(on_terminal(&["-f"]), seen);
    assert_eq!(on_terminal(&["-n", "9"]), seen);
    assert_eq!(on_terminal(&["--grep", "^ok 1$|^1|done"]), seen, "what is searched is what is read");
    assert_eq!(on_terminal(&["--color", "never"]), "ok 1\n100%\ndone\n");
    assert_eq!(on_terminal_with(&home, &[("NO_COLOR", "1")], &["logs", &job]), "ok 1\n100%\ndone\n");
    assert_eq!(logs(&home, &job, &["--color", "always"]), seen, "in a pipe, too");
    assert_eq!(logs(&home, &job, &["--color", "always", "-f"]), seen);
    assert_eq!(logs(&home, &job, &["--color", "never"]), "ok 1\n100%\ndone\n");
    assert_eq!(on_terminal(&["--plain"]), "ok 1\n 10%\n 50%\n100%\ndone\n");
    assert_eq!(on_terminal(&["-n", "1"]), "done\n");
    assert!(on_terminal(&["--raw"]).contains("\x1b[32mok"), "who asks for it gets it");
    assert_eq!(on_terminal(&["--rendered"]), "ok 1\n100%\ndone\n");
    assert!(!on_terminal(&["--json", "--plain"]).contains('\x1b'));
}

#[test]
fn plain_text_is_the_same_however_it_is_asked_for() {
    let home = Home::new();
    let job = printed(&home, r"a\033[1\nb\033]0;title\007\nc\n\342\202\nd\r\n\r\ne\010f\n10%%\r20%%\n");
    let bytewise = logs(&home, &job, &["--plain"]);
    for view in
        [&["-n", "100"][..], &["--from-line", "1"], &["--since", "1h"], &["--grep", ""], &["--head", "100"]]
    {
        assert_eq!(logs(&home, &job, &[&["--plain"], view].concat()), bytewise, "{view:?}");
    }
}

/// A program that fails while it has the whole screen does not hide why.
#[test]
fn an_alternate_screen_that_was_left_open_hides_nothing() {
    let home = Home::new();
    let job = home.start(["sh", "-c", r"printf 'before\n\033[?1049h'; echo FAILED; exit 1"]);
    home.wait(&job);
    assert_eq!(logs(&home, &job, &["--rendered"]), "before\nFAILED\n");
    let closed = printed(&home, r"before\n\033[?1049hpainted\n\033[?1049lafter\n");
    assert_eq!(logs(&home, &closed, &["--rendered"]), "before\nafter\n");
}

/// A sequence that began before the place where a view begins does not change what the view shows from there.
#[test]
fn a_page_is_rendered_the_same_from_any_place() {
    let home = Home::new();
    let job = crate::output::start_puppet(&home);
    for number in 1..=6 {
        crate::output::say(&home, &job, &format!("out row-{number};\\n"), &format!("row-{number};"));
    }
    let page = logs(&home, &job, &["--rendered"]);
    assert_eq!(page.lines().count(), 6);
    for number in 1..=6 {
        let lines: Vec<&str> = page.lines().skip(number - 1).collect();
        let from = logs(&home, &job, &["--rendered", "--from-line", &number.to_string()]);
        assert_eq!(from.lines().collect::<Vec<_>>(), lines, "from line {number}");
        let numbered = json_lines(&home, &["--rendered", "-n", &number.to_string(), &job]);
        assert_eq!(numbered[0]["line"], 7 - number, "the last {number}");
    }
}

#[test]
fn long_lines_are_cut_with_a_note_where_lines_are_shown() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start([&floods, "3000000", "y", r"first\x0a", r"tail\x0alast\x0a"]);
    home.wait(&job);
    let more = 3_000_004 - (1 << 20);
    for form in ["--raw", "--plain"] {
        let text = logs(&home, &job, &[form, "-n", "2"]);
        assert!(text.ends_with(&format!("y [{more} more]\nlast\n")), "{form}: {}", &text[text.len() - 40..]);
    }
    let lines = json_lines(&home, &["-n", "2", &job]);
    assert_eq!((&lines[0]["line"], &lines[0]["cut_bytes"]), (&2.into(), &more.into()));
    let rendered = logs(&home, &job, &["--rendered"]);
    assert!(rendered.ends_with(&format!("y [{} more]\nlast\n", 3_000_004 - 4096)), "{}", &rendered[4090..]);
    // Nothing is lost: the bytes are there.
    assert_eq!(home.logs(&job).len(), 6 + 3_000_004 + 1 + 5);
    assert_eq!(logs(&home, &job, &["--bytes", "3000006..3000010"]), "tail");
}

#[test]
fn runs_of_the_same_line_are_one_with_a_count() {
    let home = Home::new();
    let job = printed(&home, "start\\nwaiting\\nwaiting\\nwaiting\\n\\n\\n\\nend\\n");
    assert_eq!(logs(&home, &job, &["--rendered"]), "start\nwaiting [3 times]\n\nend\n");
    let lines = json_lines(&home, &["--rendered", &job]);
    let numbers: Vec<_> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 5, 8]);
    assert_eq!(logs(&home, &job, &["--plain"]).lines().count(), 8, "only a page is shortened");
}

#[test]
fn times_stand_before_each_line_in_every_form() {
    let home = Home::new();
    let job = home.start(["seq", "3"]);
    home.wait(&job);
    for form in ["--raw", "--plain", "--rendered"] {
        let stamped = logs(&home, &job, &[form, "-t"]);
        // As 2026-11-15 06:21:09.123, and a blank.
        let texts: String = stamped.lines().map(|line| format!("{}\n", &line[24..])).collect();
        assert_eq!(texts, sequence(1, 3), "{form}");
        assert!(
            stamped.lines().all(|line| line.starts_with("20") && line.find(' ') == Some(10)),
            "{stamped}"
        );
    }
}
