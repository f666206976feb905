//! Cursors: each reader goes on from where it was, and no other reader notices.
//!
//! Proves S1-16, S1-17, S1-63 and S1-95 (only what is new since the last read, each stream for itself), S1-64 (what a filter
//! holds back is read all the same), S0-65 (reading on from a place).

use std::fs;

use outlive::{Output, Piece, SessionName, Stream};
use outlive_tests::{Home, binary, until};

use crate::output::{json_lines, say, start_puppet, texts};

fn new(home: &Home, job: &str, reader: &str) -> String {
    home.run(["logs", "--cursor", reader, job]).ok().text()
}

#[test]
fn each_reader_sees_everything_once_and_the_log_stays() {
    let home = Home::new();
    let job = start_puppet(&home);
    assert_eq!(new(&home, &job, "alice"), "");
    say(&home, &job, "out one\\n", "one");
    assert_eq!(new(&home, &job, "alice"), "one\n");
    assert_eq!(new(&home, &job, "alice"), "");
    say(&home, &job, "err two\\n", "two");
    assert_eq!(new(&home, &job, "bob"), "one\ntwo\n");
    assert_eq!(new(&home, &job, "alice"), "two\n");
    assert_eq!((new(&home, &job, "alice"), new(&home, &job, "bob")), (String::new(), String::new()));
    assert_eq!(home.logs(&job), b"one\ntwo\n", "nobody took anything");
    // What is read without a cursor moves none.
    say(&home, &job, "out three\\n", "three");
    home.run(["logs", "-n", "1", &job]).ok();
    assert_eq!(new(&home, &job, "alice"), "three\n");
    home.run(["send", "--eof", &job, "out end"]).ok();
    home.wait(&job);
    assert_eq!(
        (new(&home, &job, "alice"), new(&home, &job, "bob")),
        ("end".to_owned(), "three\nend".to_owned())
    );
    assert_eq!(new(&home, &job, "alice"), "");
}

#[test]
fn a_cursor_of_one_stream_is_another_than_that_of_both() {
    let home = Home::new();
    let job = start_puppet(&home);
    let of = |stream: &str| home.run(["logs", "--cursor", "me", "--stream", stream, &job]).ok().text();
    say(&home, &job, "out o1\\n", "o1");
    say(&home, &job, "err e1\\n", "e1");
    assert_eq!(of("stdout"), "o1\n");
    assert_eq!(of("stdout"), "");
    assert_eq!(of("stderr"), "e1\n");
    assert_eq!(new(&home, &job, "me"), "o1\ne1\n");
    say(&home, &job, "err e2\\n", "e2");
    say(&home, &job, "out o2\\n", "o2");
    assert_eq!((of("stderr"), of("stdout")), ("e2\n".to_owned(), "o2\n".to_owned()));
    assert_eq!(new(&home, &job, "me"), "e2\no2\n");
}

#[test]
fn an_unfinished_line_is_shown_and_shown_again_when_it_has_grown() {
    let home = Home::new();
    let job = start_puppet(&home);
    let lines = |job: &str| json_lines(&home, &["--cursor", "me", job]);
    say(&home, &job, "out one\\nhal", "hal");
    let first = lines(&job);
    assert_eq!(texts(&first), ["one", "hal"]);
    assert_eq!(first[1]["ended"], false);
    assert_eq!(lines(&job).len(), 0, "it has not grown");
    say(&home, &job, "out f\\ntwo\\n", "two");
    let second = lines(&job);
    assert_eq!(texts(&second), ["half", "two"]);
    assert_eq!((&second[0]["line"], &second[0]["ended"]), (&2.into(), &true.into()));
}

#[test]
fn what_a_filter_holds_back_is_read_all_the_same() {
    let home = Home::new();
    let job = start_puppet(&home);
    let matching = |pattern: &str| home.run(["logs", "--cursor", "me", "--grep", pattern, &job]).ok().text();
    say(&home, &job, "out apple\\nberry\\ncherry\\n", "cherry");
    assert_eq!(matching("^b"), "berry\n");
    assert_eq!(matching("."), "");
    say(&home, &job, "out date\\nbanana\\n", "banana");
    assert_eq!(matching("^b"), "banana\n");
    assert_eq!(new(&home, &job, "me"), "");
}

/// A budget may leave out what is in the middle, but all of it counts as read; the omitted range says how to get it.
#[test]
fn a_budget_applies_to_what_is_new() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", "seq 100; read go; seq 101 200"]);
    home.wait_for_output(&job, "100\n");
    assert_eq!(new(&home, &job, "me").lines().count(), 100);
    home.run(["send", &job, "go"]).ok();
    home.wait(&job);
    let items = json_lines(&home, &["--cursor", "me", "--budget", "10l", &job]);
    assert_eq!(items[0]["text"], "101");
    assert_eq!(items.last().unwrap()["text"], "200");
    let omitted = items.iter().find(|item| item["omitted"].is_object()).unwrap();
    assert_eq!(
        (&omitted["omitted"]["from_line"], &omitted["omitted"]["to_line"]),
        (&104.into(), &194.into())
    );
    assert_eq!(new(&home, &job, "me"), "");
}

#[test]
fn the_beginning_alone_does_not_pass_over_the_rest() {
    let home = Home::new();
    let job = home.start(["seq", "10"]);
    home.wait(&job);
    let some = home.run(["logs", "--cursor", "me", "--head", "3", &job]);
    // Either the two do not go together, or nothing that was not shown counts as read.
    if some.code == 0 {
        assert_eq!(some.text(), "1\n2\n3\n");
        assert_eq!(new(&home, &job, "me"), "4\n5\n6\n7\n8\n9\n10\n");
    } else {
        some.code(2);
    }
}

#[test]
fn a_cursor_behind_the_gap_says_so() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start_with(
        &["--stdin", "open", "--output-cap", "128K"],
        ["sh", "-c", r#"echo begin; read go; "$0" lines 10000"#, &floods],
    );
    home.wait_for_output(&job, "begin\n");
    for reader in ["me", "json"] {
        assert_eq!(new(&home, &job, reader), "begin\n");
    }
    home.run(["send", &job, "go"]).ok();
    home.wait(&job);
    let start = crate::output::segments(&home.job_dir(&job))[0].0;
    let read = home.run(["logs", "--cursor", "me", &job]).ok();
    assert!(read.error().contains(&format!("bytes 6 to {start} are no longer kept")), "{}", read.error());
    assert_eq!(read.stdout.len() as u64, 6 + 640_000 - start);
    let again = home.run(["logs", "--cursor", "me", &job]).ok();
    assert_eq!((again.text().as_str(), again.error().as_str()), ("", ""), "it is told once");
    let items = json_lines(&home, &["--cursor", "json", &job]);
    assert_eq!(items[0], serde_json::json!({"gap": {"from": 6, "to": start}}));
    assert_eq!(items.last().unwrap()["line"], 10_001);
}

#[test]
fn a_cursor_of_a_removed_job_is_none_of_a_later_one() {
    let home = Home::new();
    let first = home.start_with(&["--name", "same"], ["echo", "first of all"]);
    home.wait(&first);
    assert_eq!(new(&home, "same", "me"), "first of all\n");
    let cursor = home.job_dir(&first).join("cursors").join("me");
    let kept = fs::read(&cursor).unwrap();
    home.run(["remove", &first]).ok();
    let second = home.start_with(&["--name", "same"], ["echo", "second"]);
    home.wait(&second);
    // Even if the file is copied over: a position is bound to its job.
    fs::create_dir(home.job_dir(&second).join("cursors")).unwrap();
    fs::write(home.job_dir(&second).join("cursors").join("me"), kept).unwrap();
    assert_eq!(new(&home, "same", "me"), "second\n");
}

#[test]
fn a_damaged_cursor_misses_nothing_and_is_mended() {
    let home = Home::new();
    let job = home.start(["seq", "3"]);
    home.wait(&job);
    assert_eq!(new(&home, &job, "me"), "1\n2\n3\n");
    let path = home.job_dir(&job).join("cursors").join("me");
    let good = fs::read_to_string(&path).unwrap();
    let (nonce, _) = good.trim_end().split_once('-').unwrap();
    let beyond = format!("{nonce}-ffffff\n");
    for damaged in [
        "",
        "nonsense",
        &good[..good.len() / 2],
        &format!("{nonce}-"),
        &format!("{nonce}-xyz"),
        "\0\0\0\0",
        &beyond,
    ] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(new(&home, &job, "me"), "1\n2\n3\n", "after {damaged:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), good, "after {damaged:?}");
    }
    fs::write(&path, [0xff; 64]).unwrap();
    assert_eq!(new(&home, &job, "me"), "1\n2\n3\n");
}

#[test]
fn readers_have_names_that_are_names() {
    let home = Home::new();
    let job = home.start(["echo", "x"]);
    home.wait(&job);
    for name in ["", "../x", "a/b", "a b", ".hidden", "me@stdout"] {
        home.run(["logs", "--cursor", name, &job]).code(2);
    }
    for with in [&["-n", "1"][..], &["--tail", "1"], &["--from-line", "1"], &["--bytes", "0..1"]] {
        let mut command = vec!["logs", "--cursor", "me", &job];
        command.extend(with);
        home.run(command).code(2);
    }
    assert!(!home.job_dir(&job).join("cursors").exists(), "nothing was written");
}

#[test]
fn concurrent_readers_each_see_every_byte_in_order() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start([&floods, "lines", "200000"]);
    std::thread::scope(|scope| {
        let (home, job) = (&home, &job);
        for reader in ["a", "b", "c"] {
            scope.spawn(move || {
                let mut seen = Vec::new();
                until("it has read all", || {
                    let has_ended = home.show(job)["status"] != "running";
                    seen.extend(home.run(["logs", "--cursor", reader, job]).ok().stdout);
                    has_ended
                });
                assert_eq!(seen.len(), 200_000 * 64);
                for (number, line) in (1u64..).zip(seen.chunks(64)) {
                    assert!(
                        line.starts_with(format!("{number:015}.").as_bytes()),
                        "line {number} of {reader}"
                    );
                }
            });
        }
    });
}

#[test]
fn a_reader_that_follows_notes_how_far_it_came() {
    let home = Home::new();
    let job = start_puppet(&home);
    let mut following = crate::output::Following::start(&home, &["--cursor", "me", &job]);
    for text in ["one", "two"] {
        say(&home, &job, &format!("out {text}\\n"), text);
        assert_eq!(following.next().as_deref(), Some(text));
    }
    let path = home.job_dir(&job).join("cursors").join("me");
    until("the place is noted", || {
        fs::read_to_string(&path).is_ok_and(|text| text.trim_end().ends_with("-8"))
    });
    following.child.kill().unwrap();
    following.child.wait().unwrap();
    say(&home, &job, "out three\\n", "three");
    assert_eq!(new(&home, &job, "me"), "three\n");
}

#[test]
fn the_library_and_the_command_have_the_same_cursors() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\n", "one");
    let store = home.open();
    let found = store.find(&job, None).unwrap();
    let me = SessionName::try_from("me".to_owned()).unwrap();
    assert_eq!(found.cursor(&me, None), None);
    assert_eq!(new(&home, &job, "me"), "one\n");
    assert_eq!(found.cursor(&me, None), Some(4));
    assert_eq!(found.cursor(&me, Some(Stream::Stderr)), None);

    say(&home, &job, "err two\\n", "two");
    let mut output = Output::open(&found).unwrap();
    let Some(Piece::Output { offset, bytes, stream, .. }) = output.piece(4).unwrap() else { panic!() };
    assert_eq!((offset, bytes.as_slice(), stream), (4, &b"two\n"[..], Some(Stream::Stderr)));
    assert_eq!(output.piece(8).unwrap(), None);
    found.set_cursor(&me, None, 8).unwrap();
    found.set_cursor(&me, Some(Stream::Stderr), 6).unwrap();
    assert_eq!(new(&home, &job, "me"), "");
    assert_eq!(home.run(["logs", "--cursor", "me", "--stream", "stderr", &job]).ok().text(), "o\n");
    // Another program, another day: the position is on the disk.
    let other = home.open();
    assert_eq!(other.find(&job, None).unwrap().cursor(&me, Some(Stream::Stderr)), Some(8));
}

#[test]
fn a_cursor_does_not_bring_a_removed_job_back() {
    let home = Home::new();
    let id = home.start(["echo", "short"]);
    home.wait(&id);
    let job = home.open().find(&id, None).unwrap();
    home.run(["remove", &id]).ok();
    let reader = SessionName::parse("late").unwrap();
    assert_eq!(job.set_cursor(&reader, None, 6).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert!(!home.job_dir(&id).exists());
    assert_eq!(home.run(["list"]).ok().error(), "no jobs; start one with: outlive run COMMAND\n");
}
