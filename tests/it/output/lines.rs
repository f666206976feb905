//! Lines: in order, whole, numbered, of one stream or of both, and as they come.
//!
//! Proves S0-33 to S0-36, S0-63 to S0-66, S0-89.

use outlive_tests::Home;

use super::{Following, json_lines, raw_log, say, start_puppet, texts};

#[test]
fn both_streams_are_in_the_order_in_which_they_were_written() {
    let home = Home::new();
    let job = start_puppet(&home);
    let mut expected = String::new();
    for number in 0..8 {
        let (to, text) = (["out", "err"][number % 2], format!("line {number}"));
        say(&home, &job, &format!("{to} {text}\\n"), &format!("{text}\n"));
        expected.push_str(&format!("{text}\n"));
    }
    assert_eq!(String::from_utf8(home.logs(&job)).unwrap(), expected);
    let lines = json_lines(&home, &[&job]);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line["line"], number + 1);
        assert_eq!(line["stream"], ["stdout", "stderr"][number % 2]);
    }
    assert_eq!(lines.len(), 8);
    let shown = home.show(&job);
    assert_eq!((&shown["output"]["stdout_lines"], &shown["output"]["stderr_lines"]), (&4.into(), &4.into()));
}

#[test]
fn a_line_in_two_pieces_around_one_of_the_other_stream_is_whole() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out first-half", "first-half");
    say(&home, &job, "err between\\n", "between\n");
    say(&home, &job, "out +second\\n", "+second\n");
    assert_eq!(home.logs(&job), b"first-halfbetween\n+second\n", "the log is what was written");
    let lines = json_lines(&home, &[&job]);
    assert_eq!(texts(&lines), ["between", "first-half+second"]);
    assert_eq!((&lines[0]["line"], &lines[0]["stream"]), (&1.into(), &"stderr".into()));
    assert_eq!((&lines[1]["line"], &lines[1]["stream"]), (&2.into(), &"stdout".into()));
    assert_eq!(home.run(["logs", "-n", "1", &job]).ok().text(), "first-half+second\n");
    assert_eq!(home.run(["logs", "--stream", "stdout", &job]).ok().text(), "first-half+second\n");
    assert_eq!(home.run(["logs", "--stream", "stderr", &job]).ok().text(), "between\n");
}

#[test]
fn the_last_lines_are_the_last() {
    let home = Home::new();
    let job = home.start(["seq", "1000"]);
    home.wait(&job);
    let last = |count: &str| home.run(["logs", "-n", count, &job]).ok().text();
    assert_eq!(last("0"), "");
    assert_eq!(last("1"), "1000\n");
    assert_eq!(last("3"), "998\n999\n1000\n");
    let all: String = (1..=1000).map(|number| format!("{number}\n")).collect();
    for count in ["1000", "1001", "18446744073709551615"] {
        assert_eq!(last(count), all);
    }
    assert_eq!(home.logs(&job), all.as_bytes());
    home.run(["logs", "-n", "-1", &job]).code(2);
}

#[test]
fn the_last_lines_of_one_stream_are_counted_by_themselves() {
    let home = Home::new();
    let job = home.start_line("seq 1 50; seq 51 53 >&2; seq 54 100");
    home.wait(&job);
    let last = |stream: &str| home.run(["logs", "-n", "2", "--stream", stream, &job]).ok().text();
    assert_eq!(last("stderr"), "52\n53\n");
    assert_eq!(last("stdout"), "99\n100\n");
    assert_eq!(home.run(["logs", "--stream", "stderr", &job]).ok().text(), "51\n52\n53\n");
    home.run(["logs", "--stream", "both", &job]).code(2);
}

#[test]
fn lines_for_scripts_have_number_stream_and_time() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\n", "one");
    say(&home, &job, "err two\\n", "two");
    let started = home.show(&job)["started_at"].as_str().unwrap().to_owned();
    let lines = json_lines(&home, &[&job]);
    assert_eq!(lines.len(), 2);
    let times: Vec<&str> = lines.iter().map(|line| line["time"].as_str().unwrap()).collect();
    assert!(started.as_str() <= times[0] && times[0] <= times[1], "{started} {times:?}");
    assert!(times[0].len() == "2026-01-01T00:00:00.000Z".len() && times[0].ends_with('Z'), "{times:?}");
    assert_eq!((&lines[1]["line"], &lines[1]["stream"]), (&2.into(), &"stderr".into()));
    let tail = json_lines(&home, &["-n", "1", &job]);
    assert_eq!(tail, lines[1..]);
    assert_eq!(json_lines(&home, &["--stream", "stdout", &job]), lines[..1]);
}

#[test]
fn bytes_that_are_no_text_are_shown_as_such_and_kept() {
    let home = Home::new();
    let job = home.start(["printf", r"a\377\376b\nwh\303\251le\n"]);
    home.wait(&job);
    assert_eq!(texts(&json_lines(&home, &[&job])), ["a\u{fffd}\u{fffd}b", "whéle"]);
    assert_eq!(raw_log(&home.job_dir(&job)), b"a\xff\xfeb\nwh\xc3\xa9le\n");
    assert_eq!(home.logs(&job), b"a\xff\xfeb\nwh\xc3\xa9le\n");
}

#[test]
fn text_that_comes_in_pieces_is_decoded_across_them() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, r"out begin\303", "begin");
    say(&home, &job, r"out \251end\n", "end\n");
    assert_eq!(texts(&json_lines(&home, &[&job])), ["beginéend"]);
}

#[test]
fn following_shows_lines_while_the_job_runs_and_ends_with_it() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out before\\n", "before");
    let mut following = Following::start(&home, &[&job]);
    assert_eq!(following.next().as_deref(), Some("before"));
    for text in ["one", "two", "three"] {
        home.run(["send", &job, &format!("out {text}\\n")]).ok();
        assert_eq!(following.next().as_deref(), Some(text));
        assert_eq!(home.show(&job)["status"], "running");
    }
    home.run(["send", "--eof", &job, "err last\\n"]).ok();
    assert_eq!(following.next().as_deref(), Some("last"));
    assert_eq!(following.end(), 0);
    assert_eq!(home.show(&job)["status"], "completed");
}

#[test]
fn following_can_begin_with_the_last_lines() {
    let home = Home::new();
    let job = start_puppet(&home);
    for text in ["one", "two", "three"] {
        say(&home, &job, &format!("out {text}\\n"), text);
    }
    let mut following = Following::start(&home, &["-n", "1", &job]);
    assert_eq!(following.next().as_deref(), Some("three"));
    home.run(["send", "--eof", &job, "out four\\n"]).ok();
    assert_eq!(following.next().as_deref(), Some("four"));
    assert_eq!(following.end(), 0);
}

#[test]
fn following_for_scripts_gives_each_line_once_with_its_number() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\nhal", "hal");
    let mut following = Following::start(&home, &["--json", &job]);
    let mut next = || following.next().map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    assert_eq!(next().map(|line| line["text"].clone()), Some("one".into()));
    home.run(["send", "--eof", &job, "out f\\nend"]).ok();
    let (half, end) = (next().unwrap(), next().unwrap());
    assert_eq!((&half["line"], &half["text"], &half["ended"]), (&2.into(), &"half".into(), &true.into()));
    assert_eq!((&end["line"], &end["text"], &end["ended"]), (&3.into(), &"end".into(), &false.into()));
    assert_eq!(following.end(), 0);
}

#[test]
fn many_followers_all_see_all() {
    let home = Home::new();
    let job = start_puppet(&home);
    let mut followers: Vec<Following> = (0..20).map(|_| Following::start(&home, &[&job])).collect();
    say(&home, &job, "out first\\n", "first");
    for following in &mut followers {
        assert_eq!(following.next().as_deref(), Some("first"));
    }
    home.run(["send", "--eof", &job, "err second\\n"]).ok();
    for mut following in followers {
        assert_eq!(following.next().as_deref(), Some("second"));
        assert_eq!(following.end(), 0);
    }
}

#[test]
fn a_follower_that_is_stopped_holds_up_nobody() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", "read go; seq 200000; echo end >&2"]);
    let following = Following::start(&home, &[&job]);
    let pid = i32::try_from(following.child.id()).unwrap();
    outlive_tests::signal(pid, "STOP");
    home.run(["send", &job, "go"]).ok();
    assert_eq!(home.wait(&job)["output"]["lines"], 200_001);
    outlive_tests::signal(pid, "CONT");
    let mut child = following.child;
    let lines: Vec<String> = following.lines.map(|line| line.unwrap()).collect();
    assert_eq!(lines.len(), 200_001);
    assert_eq!(outlive_tests::end_within(&mut child, outlive_tests::LIMIT), Some(0));
}
