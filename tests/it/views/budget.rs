//! Beginning and end within a budget: what is left out is told exactly, and can be fetched as it is told.
//!
//! Proves S1-55 (how many more lines there are), S2-53, S3-36 (the end within a budget).

use outlive_tests::Home;
use serde_json::Value;

use super::{logs, printed, sequence};
use crate::output::json_lines;

/// Returns the item that says what was left out.
fn omitted(items: &[Value]) -> Value {
    let mut found = items.iter().filter(|item| item["omitted"].is_object());
    let first = found.next().unwrap_or_else(|| panic!("nothing was left out: {items:?}"));
    assert_eq!(found.next(), None);
    first["omitted"].clone()
}

/// Checks that what is shown and what is left out are the whole, in both forms of telling.
fn adds_up(home: &Home, job: &str, view: &[&str], whole: &str) {
    let arguments = [view, &[job]].concat();
    let items = json_lines(home, &arguments);
    let left_out = omitted(&items);
    let number = |field: &str| left_out[field].as_u64().unwrap();
    let is_line = |item: &&Value| item["line"].is_u64();
    let place = items.iter().position(|item| item["omitted"].is_object()).unwrap();
    let text = |items: &[Value]| -> String {
        items.iter().filter(is_line).map(|item| format!("{}\n", item["text"].as_str().unwrap())).collect()
    };
    let (from, count) = (number("from_line").to_string(), number("lines").to_string());
    let fetched = logs(home, job, &["--from-line", &from, "-n", &count]);
    assert_eq!(text(&items[..place]) + &fetched + &text(&items[place..]), whole, "{view:?}");
    assert_eq!(number("to_line") - number("from_line") + 1, number("lines"), "{view:?}");
    assert_eq!(number("bytes"), fetched.len() as u64, "{view:?}");

    // The command in the text for people does the same.
    let shown = logs(home, job, view);
    let (head, rest) = shown.split_once('[').unwrap();
    let (note, rest) = rest.split_once("]\n").unwrap();
    let tail = rest.split_once("[end of errors]\n").map_or(rest, |(_, tail)| tail);
    let told = note.split_once("outlive ").unwrap().1;
    let fetched = home.run(told.split(' ')).ok().text();
    assert_eq!(format!("{head}{fetched}{tail}"), whole, "{view:?}: {note}");
}

#[test]
fn a_view_and_what_it_leaves_out_add_up_to_the_whole() {
    let home = Home::new();
    let job = home.start(["seq", "3000"]);
    home.wait(&job);
    for view in [
        &["--head", "3", "--tail", "5"][..],
        &["--head", "0", "--tail", "5"],
        &["--head", "3", "--tail", "0"],
        &["--budget", "20l"],
        &["--budget", "1K"],
        &["--budget", "300t"],
        &["--budget", "100l,500"],
        &["--budget", "1l"],
        &["--budget", "0"],
    ] {
        adds_up(&home, &job, view, &sequence(1, 3000));
    }
    let partly = home.start_line("seq 1 200; seq 201 400 >&2; seq 401 600; echo error here; seq 602 900");
    home.wait(&partly);
    let whole = logs(&home, &partly, &[]);
    for view in [&["--budget", "30l"][..], &["--head", "10", "--tail", "10"]] {
        adds_up(&home, &partly, view, &whole);
    }
}

#[test]
fn all_that_is_shown_is_within_the_budget() {
    let home = Home::new();
    let job = home.start_line("for n in $(seq 400); do echo \"line $n: error $n\"; done");
    home.wait(&job);
    let shown = |budget: &str| {
        let items = json_lines(&home, &["--budget", budget, &job]);
        let rescued = omitted(&items)["rescued"].as_array().unwrap().clone();
        let lines: Vec<Value> =
            items.into_iter().filter(|item| item["line"].is_u64()).chain(rescued).collect();
        let bytes: usize = lines.iter().map(|line| line["text"].as_str().unwrap().len() + 1).sum();
        (lines.len(), bytes)
    };
    let (lines, _) = shown("50l");
    assert!((45..=50).contains(&lines), "{lines}");
    let (_, bytes) = shown("2K");
    assert!((1800..=2048).contains(&bytes), "{bytes}");
    let (_, bytes) = shown("500t");
    assert!((1500..=2000).contains(&bytes), "{bytes}");
    // What fits is shown whole and without a word.
    assert_eq!(logs(&home, &job, &["--budget", "10M"]), logs(&home, &job, &[]));
}

#[test]
fn errors_are_rescued_from_what_is_left_out() {
    let home = Home::new();
    let job = home.start_line(
        "seq 1 500; echo 'src/x.rs:3: error: no such thing'; seq 502 999; echo FATAL; seq 1001 2000",
    );
    home.wait(&job);
    let items = json_lines(&home, &["--budget", "40l", &job]);
    let left_out = omitted(&items);
    let rescued = left_out["rescued"].as_array().unwrap();
    assert_eq!(rescued.len(), 2, "{left_out}");
    assert_eq!((&rescued[0]["line"], &rescued[1]["line"]), (&501.into(), &1000.into()));
    assert_eq!(rescued[0]["text"], "src/x.rs:3: error: no such thing");
    let text = logs(&home, &job, &["--budget", "40l"]);
    assert!(text.contains("501: src/x.rs:3: error: no such thing\n1000: FATAL\n"), "{text}");
    adds_up(&home, &job, &["--budget", "40l"], &logs(&home, &job, &[]));
}

/// Of a view that leaves out lines for other reasons too, what was left out to fit is fetched by the same view.
#[test]
fn what_is_told_fetches_what_is_missing_of_a_filtered_view_too() {
    let home = Home::new();
    let job = home.start_line("for n in $(seq 100); do echo o$n; echo e$n >&2; done");
    home.wait(&job);
    for filter in [
        &["--stream", "stderr"][..],
        &["--grep", "7|3"],
        &["--grep", "5", "--invert"],
        &["--grep", "9", "-C", "1"],
    ] {
        let all = logs(&home, &job, filter);
        let shown = logs(&home, &job, &[filter, &["--head", "2", "--tail", "2"]].concat());
        let (head, rest) = shown.split_once('[').unwrap();
        let (note, tail) = rest.split_once("]\n").unwrap();
        let told = note.split_once("outlive ").unwrap().1;
        let fetched = home.run(told.split(' ').map(|word| word.trim_matches('\''))).ok().text();
        let found: Vec<&str> = head.lines().chain(fetched.lines()).chain(tail.lines()).collect();
        let missing: Vec<&str> = all.lines().filter(|line| *line != "--" && !found.contains(line)).collect();
        assert_eq!(missing, [""; 0], "{filter:?}: {note}");
    }
}

/// A line that is several in plain text has one number; no part of it may fall between.
#[test]
fn a_line_of_many_frames_is_left_out_whole_or_not_at_all() {
    let home = Home::new();
    let job = printed(&home, "one\\n10%%\\r20%%\\r30%%\\r40%%\\r50%%\\n2\\n3\\n4\\n5\\n6\\nend\\n");
    let whole = logs(&home, &job, &["--plain"]);
    for head in ["1", "2", "3", "4", "6", "7"] {
        let view = ["--plain", "--head", head, "--tail", "1"];
        let items = json_lines(&home, &[&view[..], &[&job]].concat());
        let left_out = omitted(&items);
        let (from, to) = (left_out["from_line"].as_u64().unwrap(), left_out["to_line"].as_u64().unwrap());
        let fetched = logs(
            &home,
            &job,
            &["--plain", "--from-line", &from.to_string(), "-n", &left_out["lines"].to_string()],
        );
        let shown: Vec<&str> = items.iter().filter_map(|item| item["text"].as_str()).collect();
        let missing: Vec<&str> = whole
            .lines()
            .filter(|line| !shown.contains(line) && !fetched.lines().any(|got| got == *line))
            .collect();
        assert_eq!(missing, [""; 0], "--head {head} leaves out lines {from} to {to}");
    }
}

#[test]
fn one_end_alone_is_no_news_about_the_other() {
    let home = Home::new();
    let job = home.start(["seq", "100"]);
    home.wait(&job);
    assert_eq!(logs(&home, &job, &["--head", "3"]), sequence(1, 3));
    assert_eq!(logs(&home, &job, &["--tail", "3"]), sequence(98, 100));
    assert_eq!(logs(&home, &job, &["--head", "60", "--tail", "60"]), sequence(1, 100));
    assert_eq!(json_lines(&home, &["--tail", "1", &job]).len(), 1);
}
