//! Views: which lines of a log, in which form, and how much of them.
//!
//! Proves S0-30, S0-64, S0-65, S0-66, S0-111 (the last lines, from a line, one stream), S1-60, S1-65, S1-97 (a filter by
//! regular expression, in either case), S2-53 and S2-69 (offset and limit), S3-36 (the end within a budget), S3-53.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

mod budget;
mod forms;
mod several;
mod times;

use outlive_tests::{Home, until};
use serde_json::Value;

use crate::output::{json_lines, say, start_puppet, texts};

/// Runs `outlive logs` on a job and returns what it prints.
fn logs(home: &Home, job: &str, arguments: &[&str]) -> String {
    let mut command = vec!["logs", job];
    command.extend(arguments);
    home.run(command).ok().text()
}

/// Starts a job that prints this with the escapes of `printf`, and waits for its end.
fn printed(home: &Home, text: &str) -> String {
    let job = home.start(["printf", text]);
    home.wait(&job);
    job
}

fn sequence(from: u64, to: u64) -> String {
    (from..=to).map(|number| format!("{number}\n")).collect()
}

#[test]
fn from_a_line_on_and_so_many_of_them() {
    let home = Home::new();
    let job = home.start(["seq", "5000"]);
    home.wait(&job);
    assert_eq!(logs(&home, &job, &["--from-line", "4998"]), sequence(4998, 5000));
    assert_eq!(logs(&home, &job, &["--from-line", "1", "-n", "2"]), "1\n2\n");
    assert_eq!(logs(&home, &job, &["--from-line", "0", "-n", "2"]), "1\n2\n");
    assert_eq!(logs(&home, &job, &["--from-line", "2500", "-n", "3"]), sequence(2500, 2502));
    assert_eq!(logs(&home, &job, &["--from-line", "4990", "--tail", "2"]), sequence(4999, 5000));
    assert_eq!(logs(&home, &job, &["--from-line", "4990", "--head", "2"]), sequence(4990, 4991));
    assert_eq!(logs(&home, &job, &["--from-line", "5001"]), "");
    assert_eq!(logs(&home, &job, &["--from-line", "5", "-n", "0"]), "");
    assert_eq!(logs(&home, &job, &["--from-line", "18446744073709551615"]), "");
}

#[test]
fn lines_of_many_chunks_and_both_streams_are_found_by_number() {
    let home = Home::new();
    let job = start_puppet(&home);
    for number in 1..=12 {
        let to = ["out", "err"][number % 2];
        say(&home, &job, &format!("{to} line-{number}.\\n"), &format!("line-{number}."));
    }
    for number in 1..=12 {
        let text = logs(&home, &job, &["--from-line", &number.to_string(), "-n", "1"]);
        assert_eq!(text, format!("line-{number}.\n"));
    }
    assert_eq!(
        logs(&home, &job, &["--from-line", "4", "-n", "2", "--stream", "stdout"]),
        "line-4.\nline-6.\n"
    );
    assert_eq!(logs(&home, &job, &["--from-line", "9", "--grep", "2"]), "line-12.\n");
}

#[test]
fn ranges_of_bytes_are_exact() {
    let home = Home::new();
    let job = printed(&home, "0123456789\\nabcdef\\n");
    for (range, bytes) in [
        ("0..4", "0123"),
        ("..4", "0123"),
        ("9..12", "9\na"),
        ("11..", "abcdef\n"),
        ("17..", "\n"),
        ("0..1000", "0123456789\nabcdef\n"),
        ("18..", ""),
        ("1000..2000", ""),
        ("5..5", ""),
    ] {
        assert_eq!(logs(&home, &job, &["--bytes", range]), bytes, "{range}");
    }
    for wrong in ["5", "x..y", "9..3", "-1..3", ""] {
        home.run(["logs", &job, &format!("--bytes={wrong}")]).code(2);
    }
}

/// A time that was shown can be handed back: it means the line that it was shown for, in both directions.
#[test]
fn since_and_until_take_the_times_that_are_shown() {
    let home = Home::new();
    let job = start_puppet(&home);
    let mut last = String::new();
    for text in ["one", "two", "three"] {
        // Each in a millisecond of its own, far enough for a chunk of its own.
        until("the clock has moved on", || {
            let now = json_time(&home);
            now.as_str() > last.as_str()
        });
        say(&home, &job, &format!("out {text}\\n"), text);
        last = json_lines(&home, &["-n", "1", &job])[0]["time"].as_str().unwrap().to_owned();
    }
    let times: Vec<String> =
        json_lines(&home, &[&job]).iter().map(|line| line["time"].as_str().unwrap().to_owned()).collect();
    assert!(times.is_sorted() && times[0] < times[1] && times[1] < times[2], "{times:?}");
    assert_eq!(logs(&home, &job, &["--since", &times[1]]), "two\nthree\n");
    assert_eq!(logs(&home, &job, &["--until", &times[1]]), "one\ntwo\n");
    assert_eq!(logs(&home, &job, &["--since", &times[1], "--until", &times[1]]), "two\n");
    assert_eq!(logs(&home, &job, &["--since", "1h"]), "one\ntwo\nthree\n");
    assert_eq!(logs(&home, &job, &["--until", "1h"]), "");
    assert_eq!(logs(&home, &job, &["--since", &times[0], "-n", "1"]), "three\n");
    assert_eq!(logs(&home, &job, &["--since", &times[1], "--grep", "e$"]), "three\n");
    home.run(["logs", "--since", "tomorrow", &job]).code(2);
    // The clock of the test is at UTC, as that of most servers.
    let stamped = logs(&home, &job, &["--timestamps", "-n", "1"]);
    assert_eq!(stamped, format!("{} three\n", times[2].replace('T', " ").trim_end_matches('Z')));
}

/// The time of now, as the store's clock shows it.
fn json_time(home: &Home) -> String {
    let job = home.start(["echo", "tick"]);
    home.wait(&job);
    json_lines(home, &[&job])[0]["time"].as_str().unwrap().to_owned()
}

#[test]
fn patterns_include_exclude_and_show_what_is_around() {
    let home = Home::new();
    let job = printed(&home, "alpha\\nBeta\\ngamma\\ndelta\\nepsilon\\nzeta\\neta\\ntheta\\n");
    for (arguments, expected) in [
        (&["--grep", "eta"][..], "Beta\nzeta\neta\ntheta\n"),
        (&["-g", "^eta$"], "eta\n"),
        (&["--grep", "beta"], ""),
        (&["--grep", "beta", "-i"], "Beta\n"),
        (&["--grep", "a$", "--invert"], "epsilon\n"),
        (&["--grep", "A$", "--invert", "-i"], "epsilon\n"),
        (&["--grep", "gamma", "-C", "1"], "Beta\ngamma\ndelta\n"),
        (&["--grep", "alpha|theta", "-C", "1"], "alpha\nBeta\n--\neta\ntheta\n"),
        (&["--grep", "eta", "-C", "100"], "alpha\nBeta\ngamma\ndelta\nepsilon\nzeta\neta\ntheta\n"),
        (&["--grep", "eta", "-n", "2"], "eta\ntheta\n"),
        (&["--grep", "eta", "--head", "1"], "Beta\n"),
        (&["--grep", "eta", "--from-line", "3", "-n", "1"], "zeta\n"),
        (&["--grep", "lt.*\\n?e"], ""),
        (&["--grep", ""], "alpha\nBeta\ngamma\ndelta\nepsilon\nzeta\neta\ntheta\n"),
    ] {
        assert_eq!(logs(&home, &job, arguments), expected, "{arguments:?}");
    }
    let wrong = home.run(["logs", "--grep", "a(b", &job]).code(2);
    assert!(wrong.error().contains("a(b") && wrong.error().contains("hint: "), "{}", wrong.error());
    let found = json_lines(&home, &["--grep", "eta", &job]);
    assert_eq!(found.iter().map(|line| line["line"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 6, 7, 8]);
}

/// A pattern is about a line: its beginning and end are those of the line, whatever stands before and after it.
#[test]
fn a_pattern_sees_one_line_only() {
    let home = Home::new();
    let job = printed(&home, "alpha\\ngamma\\nepsilon\\nzeta\\n");
    for (pattern, expected) in
        [(r"\Ag", "gamma\n"), (r"on\z", "epsilon\n"), (r"^(?s:.)*ps", "epsilon\n"), (r"a(?s:.)*g", "")]
    {
        assert_eq!(logs(&home, &job, &["--grep", pattern]), expected, "{pattern}");
    }
}

/// The pattern over whole chunks and the one over lines find the same.
#[test]
fn a_search_finds_the_same_by_either_way() {
    let home = Home::new();
    let job = home.start_line("seq 1 20000; seq 20001 20500 >&2; seq 20501 60000; printf '12345 unfinished'");
    home.wait(&job);
    for pattern in ["99$", "^1.*7$", "345", "^$", "unf", r"\d{5}\s*$", "[^0-4\\n]{4,}"] {
        for stream in [&[][..], &["--stream", "stderr"], &["--stream", "stdout"]] {
            let by_chunks = [&[&job, "--grep", pattern], stream].concat();
            let by_lines = [&[&job, "--grep", pattern, "--from-line", "1"], stream].concat();
            let (by_chunks, by_lines) = (json_lines(&home, &by_chunks), json_lines(&home, &by_lines));
            assert_eq!(by_chunks.len(), by_lines.len(), "{pattern} {stream:?}");
            assert!(by_chunks == by_lines, "{pattern} {stream:?}");
        }
    }
    let crlf = printed(&home, "one\\r\\ntwo\\r\\n");
    assert_eq!(logs(&home, &crlf, &["--grep", "two$"]), "two\r\n");
}

#[test]
fn the_unterminated_last_line_is_visible_and_grows() {
    let home = Home::new();
    let job = start_puppet(&home);
    let views: [&[&str]; 8] = [
        &[],
        &["-n", "1"],
        &["--from-line", "2"],
        &["--grep", "Pass"],
        &["--grep", "Pass", "-C", "0", "-n", "5"],
        &["--plain", "-n", "1"],
        &["--rendered", "-n", "1"],
        &["--budget", "1K"],
    ];
    say(&home, &job, "out one\\nPass", "Pass");
    for view in views {
        assert!(logs(&home, &job, view).trim_end().ends_with("Pass"), "{view:?}");
    }
    say(&home, &job, "out word:", "word:");
    for view in views {
        assert!(logs(&home, &job, view).trim_end().ends_with("Password:"), "{view:?}");
    }
    let lines = json_lines(&home, &[&job]);
    assert_eq!((&lines[1]["line"], &lines[1]["ended"]), (&2.into(), &false.into()));
    // The other stream's line gets the number first, as it is ended first.
    say(&home, &job, "err between\\n", "between");
    let lines = json_lines(&home, &[&job]);
    assert_eq!(texts(&lines), ["one", "between", "Password:"]);
    say(&home, &job, "out x\\n", "Password:between\nx");
    assert_eq!(texts(&json_lines(&home, &[&job])), ["one", "between", "Password:x"]);
    assert_eq!(json_lines(&home, &["-n", "1", &job])[0]["ended"], true);
}

#[test]
fn every_kind_of_item_is_an_object_of_its_own() {
    let home = Home::new();
    let floods = outlive_tests::binary("floods").display().to_string();
    let job = home.start_with(&["--output-cap", "128K"], [&floods, "lines", "10000"]);
    home.wait(&job);
    let items = json_lines(&home, &["--budget", "10l", &job]);
    let keys = |item: &Value| item.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let mut kinds: Vec<String> = items.iter().map(keys).collect();
    kinds.dedup();
    let line = "ended line stream text time";
    assert_eq!(kinds, ["gap", line, "omitted", line]);
    let omitted = items.iter().find(|item| item["omitted"].is_object()).unwrap();
    assert_eq!(keys(&omitted["omitted"]), "bytes from_line lines rescued to_line");
    let repeated = printed(&home, "same\\nsame\\nsame\\n");
    let items = json_lines(&home, &["--rendered", &repeated]);
    assert_eq!((items.len(), &items[0]["repeated"], &items[0]["text"]), (1, &3.into(), &"same".into()));
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_read() {
    let home = Home::new();
    let job = printed(&home, "x\\n");
    for arguments in [
        &["--raw", "--plain"][..],
        &["--plain", "--rendered"],
        &["--rendered", "-f"],
        &["--head", "1", "-n", "1"],
        &["--tail", "1", "-n", "1"],
        &["--budget", "1K", "--head", "1"],
        &["--budget", "1K", "-f"],
        &["--budget", "lots"],
        &["--budget", "10x"],
        &["--from-line", "1", "--bytes", "0..1"],
        &["--from-line", "x"],
        &["--invert"],
        &["-i"],
        &["-C", "1"],
        &["--stream", "stdin"],
        &["--since", ""],
        &["--until", "2026-13-01T00:00:00Z"],
    ] {
        let mut command = vec!["logs", &job];
        command.extend(arguments);
        let refused = home.run(command).code(2);
        assert_eq!(refused.text(), "", "{arguments:?}");
        assert!(!refused.error().is_empty(), "{arguments:?}");
    }
    home.run(["logs", "no-such-job"]).code(3);
}

#[test]
fn a_range_of_characters_is_cut_between_characters() {
    let home = Home::new();
    let line = r"printf 'a\303\244\342\202\254z\377\n'; read x; echo e >&2";
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", line]);
    until("the first line is there", || home.show(&job)["output"]["lines"] == 1);
    home.run(["send", &job, "go on"]).ok();
    home.wait(&job);
    let store = home.open();
    let found = store.find(&job, None).unwrap();
    let mut output = outlive::Output::open(&found).unwrap();
    let mut characters = |from, count, stream| output.characters(from, count, stream).unwrap();
    assert_eq!(characters(0, 100, None), "aä€z\u{fffd}\ne\n");
    assert_eq!(characters(1, 2, None), "ä€");
    assert_eq!(characters(5, 2, None), "\ne");
    assert_eq!(characters(0, 9, Some(outlive::Stream::Stderr)), "e\n");
    assert_eq!(characters(50, 9, None), "");
}
