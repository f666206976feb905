//! `clear`: what was printed is forgotten, and no writer or reader is disturbed.
//!
//! Proves S0-31 and S0-103 (old output can be cleared), S2-72 and S2-82 (the buffer is emptied, the job stays).

use std::fs;

use outlive::{Output, Piece, Stream};
use outlive_tests::{Home, binary, signal, until, waits_with_open};

use crate::output::{Following, json_lines, raw_log, say, segments, start_puppet, texts};

#[test]
fn a_running_job_goes_on_with_its_numbers_and_offsets() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\ntwo\\n", "two");
    say(&home, &job, "err three\\n", "three");
    let before = home.show(&job);
    assert_eq!(home.json(["clear", &job])["cleared"][0], job.as_str());
    assert_eq!(raw_log(&home.job_dir(&job)), b"", "nothing of it is on the disk");
    let cleared = home.run(["logs", &job]).ok();
    assert_eq!(cleared.text(), "");
    assert!(cleared.error().contains("bytes 0 to 14 are no longer kept"), "{}", cleared.error());
    let after = home.show(&job);
    assert_eq!((&after["status"], &after["pid"]), (&"running".into(), &before["pid"]));
    assert_eq!(after["output"], before["output"], "what was counted stays counted");

    say(&home, &job, "err four\\n", "four");
    let lines = json_lines(&home, &[&job]);
    assert_eq!(lines[0], serde_json::json!({"gap": {"from": 0, "to": 14}}));
    assert_eq!((&lines[1]["line"], &lines[1]["stream"]), (&4.into(), &"stderr".into()));
    assert_eq!(lines[1]["text"], "four");
    assert_eq!(home.run(["logs", "--bytes", "14..18", &job]).ok().text(), "four");
    home.run(["send", "--eof", &job, "out five\\n"]).ok();
    let ended = home.wait(&job);
    assert_eq!((&ended["status"], &ended["output"]["bytes"]), (&"completed".into(), &24.into()));
    assert_eq!(ended["output"]["lines"], 5);
    assert_eq!(home.run(["logs", "-n", "1", &job]).ok().text(), "five\n");
}

#[test]
fn an_ended_job_can_be_cleared_and_stays() {
    let home = Home::new();
    let job = home.start(["seq", "1000"]);
    let ended = home.wait(&job);
    home.run(["clear", &job]).ok();
    assert_eq!(raw_log(&home.job_dir(&job)), b"");
    let cleared = home.run(["logs", &job]).ok();
    assert_eq!(cleared.text(), "");
    assert!(cleared.error().contains("bytes 0 to 3893 are no longer kept"), "{}", cleared.error());
    for view in [&["-n", "5"][..], &["--grep", "7"], &["--from-line", "3"], &["--rendered"]] {
        let mut command = vec!["logs", &job];
        command.extend(view);
        assert_eq!(home.run(command).ok().text(), "", "{view:?}");
    }
    let shown = home.show(&job);
    assert_eq!((&shown["exit_code"], &shown["output"]), (&0.into(), &ended["output"]));
    // A second time changes nothing, and an unknown job cannot be cleared.
    home.run(["clear", &job]).ok();
    assert_eq!(segments(&home.job_dir(&job)).len(), 1);
    home.run(["clear", "no-such-job"]).code(3);
}

#[test]
fn a_job_that_has_printed_nothing_can_be_cleared() {
    let home = Home::new();
    let job = start_puppet(&home);
    home.run(["clear", &job]).ok();
    home.run(["clear", &job]).ok();
    say(&home, &job, "out first\\n", "first");
    let cleared = home.run(["logs", &job]).ok();
    assert_eq!((cleared.text().as_str(), cleared.error().as_str()), ("first\n", ""));
}

#[test]
fn a_line_whose_beginning_was_cleared_keeps_its_number_and_its_length() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\nbegin", "begin");
    home.run(["clear", &job]).ok();
    say(&home, &job, "out +end\\n", "+end");
    let lines = json_lines(&home, &[&job]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!((&lines[1]["line"], &lines[1]["text"]), (&2.into(), &"+end".into()));
    assert_eq!(lines[1]["cut_bytes"], 5, "it had five bytes more");
}

#[test]
fn a_follower_goes_on_over_a_clear() {
    let home = Home::new();
    let job = start_puppet(&home);
    say(&home, &job, "out one\\n", "one");
    let mut plain = Following::start(&home, &[&job]);
    let mut json = Following::start(&home, &["--json", &job]);
    assert_eq!(plain.next().as_deref(), Some("one"));
    assert!(json.next().unwrap().contains(r#""line":1,"#));
    home.run(["clear", &job]).ok();
    for text in ["two", "three"] {
        say(&home, &job, &format!("err {text}\\n"), text);
        assert_eq!(plain.next().as_deref(), Some(text));
    }
    home.run(["send", "--eof", &job, "out four\\n"]).ok();
    assert_eq!(plain.next().as_deref(), Some("four"));
    assert_eq!(plain.end(), 0);
    for (number, stream) in [(2, "stderr"), (3, "stderr"), (4, "stdout")] {
        let line: serde_json::Value = serde_json::from_str(&json.next().unwrap()).unwrap();
        assert_eq!((&line["line"], &line["stream"]), (&number.into(), &stream.into()), "{line}");
    }
    assert_eq!(json.end(), 0);
}

/// A follower that has fallen behind what was dropped is told so, and what it reads after that has its numbers.
#[test]
fn a_follower_that_was_overtaken_is_told_and_numbers_go_on() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start_with(
        &["--stdin", "open", "--output-cap", "256K"],
        ["sh", "-c", r#"echo begin; read go; "$0" lines 100000"#, &floods],
    );
    let mut following = Following::start(&home, &["--json", &job]);
    assert!(following.next().unwrap().contains("begin"));
    let pid = i32::try_from(following.child.id()).unwrap();
    until("the follower waits for more", || waits_with_open(pid, "inotify"));
    signal(pid, "STOP");
    home.run(["send", &job, "go"]).ok();
    home.wait(&job);
    signal(pid, "CONT");
    let mut items = Vec::new();
    while let Some(item) = following.next() {
        items.push(serde_json::from_str::<serde_json::Value>(&item).unwrap());
    }
    assert_eq!(following.end(), 0);
    let gaps: Vec<_> = items.iter().filter(|item| item["gap"].is_object()).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert_eq!(gaps[0]["gap"]["from"], 6);
    assert_eq!(gaps[0]["gap"]["to"], segments(&home.job_dir(&job))[0].0);
    let lines: Vec<_> = items.iter().filter(|item| item["gap"].is_null()).collect();
    // The first one may have lost its beginning.
    for line in &lines[1..] {
        let number: u64 = line["text"].as_str().unwrap()[..15].parse().unwrap();
        assert_eq!((&line["line"], &line["stream"]), (&(number + 1).into(), &"stdout".into()), "{line}");
    }
    assert_eq!(lines.last().unwrap()["line"], 100_001);
}

/// A reader that took its look before the front was dropped finds it gone, and still knows all about the rest.
#[test]
fn a_reader_that_was_overtaken_still_knows_streams_and_times() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start_with(
        &["--stdin", "open", "--output-cap", "256K"],
        ["sh", "-c", r#"echo begin; read go; "$0" lines 100000; echo end >&2"#, &floods],
    );
    home.wait_for_output(&job, "begin");
    let store = home.open();
    let found = store.find(&job, None).unwrap();
    let mut output = Output::open(&found).unwrap();
    home.run(["send", &job, "go"]).ok();
    home.wait(&job);
    let mut place = 0;
    let mut pieces = Vec::new();
    while let Some(piece) = output.piece(place).unwrap() {
        place = match &piece {
            Piece::Output { offset, bytes, .. } => offset + bytes.len() as u64,
            Piece::Gone { to, .. } => *to,
        };
        pieces.push(piece);
        output.refresh().unwrap();
    }
    assert_eq!(place, 6 + 6_400_000 + 4);
    assert!(matches!(pieces[0], Piece::Gone { from: 0, .. }), "{:?}", pieces[0]);
    for piece in &pieces[1..] {
        let Piece::Output { stream, time, .. } = piece else { panic!("only the front is gone: {piece:?}") };
        assert!(stream.is_some() && time.is_some());
    }
    assert!(matches!(pieces.last(), Some(Piece::Output { stream: Some(Stream::Stderr), .. })));
    assert_eq!(output.tail(1, None).unwrap()[0].number, 100_002);
}

#[test]
fn a_flood_is_cleared_again_and_again_and_all_of_it_is_counted() {
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let sign = home.path().join("it was cleared twice");
    let job = home.start([&floods, "lines", "12000000", sign.to_str().unwrap()]);
    let mut clears = 0;
    until("it has ended", || {
        // The job may end between; then what is left of it is cleared as that of an ended one.
        home.run(["clear", &job]).ok();
        clears += 1;
        if clears == 2 {
            fs::write(&sign, "").unwrap();
        }
        for line in json_lines(&home, &["-n", "3", &job]) {
            // What was cleared may have been the beginning of a line, and the end of another may not have come yet.
            let is_whole = line["cut_bytes"].is_null() && line["ended"] == true && line["text"].is_string();
            if !is_whole {
                continue;
            }
            let number: u64 = line["text"].as_str().unwrap().get(..15).unwrap().parse().unwrap();
            assert_eq!(line["line"], number, "{line}");
            // What the keeper has written and not yet noted in the index has neither a stream nor a time.
            match line["time"].is_null() {
                true => assert!(line["stream"].is_null(), "{line}"),
                false => assert_eq!(line["stream"], "stdout", "{line}"),
            }
        }
        home.show(&job)["status"] != "running"
    });
    let ended = home.wait(&job);
    assert_eq!((&ended["exit_code"], &ended["output"]["bytes"]), (&0.into(), &(12_000_000 * 64).into()));
    assert_eq!(
        (&ended["output"]["lines"], &ended["output"]["dropped_bytes"]),
        (&12_000_000.into(), &0.into())
    );
}

#[test]
fn clearing_frees_the_disk_and_the_index_with_it() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::new();
    let floods = binary("floods").display().to_string();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", r#""$0" lines 300000; read go"#, &floods]);
    home.wait_for_output(&job, "000000000300000.");
    let used = |job: &str| -> u64 {
        let files = fs::read_dir(home.job_dir(job)).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        files.map(|data| data.blocks() * 512).sum()
    };
    assert!(used(&job) > 19_000_000);
    home.run(["clear", &job]).ok();
    assert!(used(&job) < 100_000, "{} bytes are still used", used(&job));
    assert_eq!(texts(&json_lines(&home, &["-n", "1", &job])), [""; 0]);
    home.run(["send", &job, "go"]).ok();
    assert_eq!(home.wait(&job)["status"], "completed");
}
