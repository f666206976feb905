//! Whatever is killed in the middle, no ending is missed, and a repeat has the same sequence.
//!
//! Proves of the design: telling comes before noting; an ending that a keeper could not tell is told by the front end that looks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use outlive_tests::{Home, LIMIT, Random, SmallDisk, end_within, report};
use serde_json::Value;

use super::*;

/// Starts jobs that fail with much to say.
fn talkative(home: &Home, count: usize) -> Vec<String> {
    let line = "i=0; while [ $i -lt 100 ]; do echo $i xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done; exit 1";
    let started: Vec<String> = (0..count).map(|_| start(home, "me", &["sh", "-c", line])).collect();
    end(home, &started);
    started
}

#[test]
fn killed_between_telling_and_noting_it_is_told_again_with_the_same_sequences() {
    let home = Home::new();
    let all = talkative(&home, 45);
    let before = sequences(&peek(&home, "me"));
    let mut child = home.outlive(["inbox", "--reader", "me"]).stdout(Stdio::piped()).spawn().unwrap();
    // It has begun to tell, and cannot finish: a pipe takes less than there is.
    let mut some = [0; 100];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    assert!(String::from_utf8_lossy(&some).starts_with("45 jobs"));
    // No other program of this reader tells meanwhile.
    assert_eq!(
        home.run(["--json", "inbox", "--reader", "me"]).code(4).error_json()["error"]["code"],
        "timed_out"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let after = inbox(&home, "me");
    assert_eq!(sequences(&after), before);
    assert_eq!(jobs(&after), sorted(all));
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
}

#[test]
fn a_reader_that_went_away_before_the_end_of_it_is_told_again() {
    let home = Home::new();
    let all = talkative(&home, 45);
    let mut child = home.outlive(["inbox", "--reader", "me"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 100];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    drop(child.stdout.take());
    end_within(&mut child, LIMIT).unwrap();
    assert_eq!(jobs(&inbox(&home, "me")), sorted(all));
}

#[test]
fn killed_at_any_moment_nothing_is_missed_and_nothing_noted_is_repeated() {
    let home = Home::new();
    let seed = Random::seed();
    report(&format!("seed {seed}"));
    let mut random = Random::new(seed);
    let (mut told, mut noted) = (BTreeMap::<String, u64>::new(), BTreeSet::new());
    let (mut all, mut kills, mut repeats) = (Vec::new(), 0, 0);
    for round in 0..40 {
        if round % 2 == 0 {
            all.push(ended(&home, "me", &["sh", "-c", "echo said; exit 3"]));
        }
        let mut child =
            home.outlive(["--json", "inbox", "--reader", "me"]).stdout(Stdio::piped()).spawn().unwrap();
        if round < 36 {
            std::thread::sleep(Duration::from_micros(random.below(12_000)));
            child.kill().ok();
        }
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let is_noted = child.wait().unwrap().success();
        kills += usize::from(!is_noted);
        let Ok(document) = serde_json::from_str::<Value>(&text) else { continue };
        for (job, seq) in sequences(&document) {
            assert!(!noted.contains(&job), "{job} was told and noted, and is told again");
            repeats += usize::from(told.contains_key(&job));
            assert_eq!(*told.entry(job).or_insert(seq), seq);
        }
        if is_noted {
            noted.extend(sequences(&document).into_keys());
        }
    }
    report(&format!("{kills} killed, {repeats} endings repeated"));
    assert!(kills > 0, "none was killed: the test shows nothing");
    assert_eq!(told.into_keys().collect::<Vec<_>>(), sorted(all));
}

#[test]
fn a_keeper_killed_between_outcome_and_event_has_its_end_told_by_whoever_looks() {
    let home = Home::new();
    let job = ended(&home, "me", &["sh", "-c", "echo last words; exit 5"]);
    until("its keeper is gone", || home.keepers().is_empty());
    let others = ended(&home, "me", &["true"]);
    // As it leaves the store: the outcome is there, no event, and the mark.
    let text = fs::read_to_string(events_file(&home)).unwrap();
    let is_its_end = |line: &&str| line.contains(&job) && line.contains("\"exited\"");
    assert_eq!(text.lines().filter(is_its_end).count(), 1);
    let rest: Vec<&str> = text.lines().filter(|line| !is_its_end(line)).collect();
    let forget = || {
        fs::write(events_file(&home), rest.join("\n") + "\n").unwrap();
        fs::write(home.store().join("live").join(format!("{job}@default")), "").unwrap();
    };
    let written = || {
        let text = fs::read_to_string(events_file(&home)).unwrap();
        text.lines().filter(is_its_end).count()
    };
    for look in [&["events"][..], &["inbox", "--peek", "--reader", "me"], &["gc"], &["doctor"]] {
        forget();
        home.run(look).ok();
        assert_eq!(written(), 1, "{look:?}");
        assert!(!home.store().join("live").join(format!("{job}@default")).exists(), "{look:?}");
        // Once.
        home.run(look).ok();
        assert_eq!(written(), 1, "{look:?}");
    }
    forget();
    let told = inbox(&home, "me");
    assert_eq!(jobs(&told), sorted(vec![job.clone(), others]));
    assert_eq!(
        (&notice(&told, &job)["exit_code"], &notice(&told, &job)["cause"]),
        (&5.into(), &"natural".into())
    );
    // Also by the front end that removes it.
    forget();
    home.run(["remove", "--reader", "somebody", &job]).ok();
    assert_eq!(written(), 1);
}

#[test]
fn keepers_killed_at_any_moment_cost_no_ending() {
    let home = Home::new();
    let seed = Random::seed();
    report(&format!("seed {seed}"));
    let mut random = Random::new(seed);
    let store = home.open();
    let request = outlive::Request::shell("echo said; exit 1").reader(name("me"));
    let (mut all, mut sequences_told) = (Vec::new(), BTreeMap::new());
    for _ in 0..8 {
        let started: Vec<_> = (0..5).map(|_| store.start(&request).unwrap().job).collect();
        for job in &started {
            std::thread::sleep(Duration::from_micros(random.below(2_000)));
            if let Some(keeper) = job.state(&store).meta.and_then(|meta| meta.keeper) {
                outlive_tests::end(outlive_sys::identity::ProcessId {
                    pid: keeper.pid,
                    start_time: keeper.start_time,
                });
            }
        }
        let ids: Vec<String> = started.iter().map(|job| job.id().to_string()).collect();
        end(&home, &ids);
        for (job, seq) in sequences(&inbox(&home, "me")) {
            assert_eq!(sequences_told.insert(job, seq), None);
        }
        all.extend(ids);
    }
    assert_eq!(sequences_told.into_keys().collect::<Vec<_>>(), sorted(all));
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
}

#[test]
fn a_damaged_place_costs_no_ending_and_repeats_none_that_is_still_known() {
    let home = Home::new();
    let first = ended(&home, "me", &["true"]);
    assert_eq!(jobs(&inbox(&home, "me")), [first]);
    for (number, damage) in [
        &b""[..],
        b"{",
        b"\0\0\0\0",
        b"{\"format\":1,\"cursor\":-3}",
        b"{\"format\":1,\"cursor\":99999999}",
        b"\xff\xfe",
    ]
    .iter()
    .enumerate()
    {
        fs::write(reader_file(&home, "me"), damage).unwrap();
        let job = ended(&home, "me", &["sh", "-c", &format!("exit {number}")]);
        assert_eq!(jobs(&inbox(&home, "me")), [job], "{}", damage.escape_ascii());
        assert_eq!(jobs(&inbox(&home, "me")), nothing());
    }
    // A directory in its place: what cannot be noted is reported, and told again.
    let job = ended(&home, "me", &["true"]);
    fs::remove_file(reader_file(&home, "me")).unwrap();
    fs::create_dir(reader_file(&home, "me")).unwrap();
    for _ in 0..2 {
        let done = home.run(["--json", "inbox", "--reader", "me"]).code(1);
        assert_eq!(jobs(&done.json()), std::slice::from_ref(&job));
        assert!(done.error().contains("told again"), "{}", done.error());
    }
    fs::remove_dir(reader_file(&home, "me")).unwrap();
    assert_eq!(jobs(&inbox(&home, "me")), [job]);
}

#[test]
fn an_ending_whose_event_is_no_longer_kept_is_told_all_the_same() {
    let home = Home::new();
    let told = ended(&home, "me", &["true"]);
    assert_eq!(jobs(&inbox(&home, "me")), std::slice::from_ref(&told));
    let job = ended(&home, "me", &["sh", "-c", "exit 9"]);
    // Much happens, and the store is collected.
    let other = r#"{"event":"limit_near","job":"a-1","nonce":"03030303030303030303030303030303","at_us":1,"limit":"l"}"#;
    let filling = format!("\n{other}\n").repeat((3 << 20) / other.len());
    let mut events = fs::OpenOptions::new().append(true).open(events_file(&home)).unwrap();
    events.write_all(filling.as_bytes()).unwrap();
    home.run(["gc"]).ok();
    let kept = home.run(["--json", "--session", "default", "events", "--since", "0"]).ok();
    let first: Value = serde_json::from_str(kept.text().lines().next().unwrap()).unwrap();
    if first["gap"].is_null() {
        outlive_tests::lacks("a file system that gives parts of files back");
        return;
    }
    assert_eq!(first["gap"]["from"], 0);
    assert!(first["gap"]["to"].as_u64() > Some(1 << 20), "{first}");
    assert!(!kept.text().contains(&job), "its event is gone");
    assert_eq!(jobs(&inbox(&home, "me")), [job]);
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
}

#[test]
fn an_ending_on_a_full_disk_is_told_once_there_is_room() {
    let Some(disk) = SmallDisk::mount("4m") else { return };
    let home = Home::in_dir(disk.path());
    let before = ended(&home, "me", &["true"]);
    let job = home.start_with(&["--reader", "me", "--stdin", "open"], ["sh", "-c", "read go; exit 3"]);
    until("it is started", || fs::read_to_string(events_file(&home)).unwrap().contains(&job));
    // What has no block of its own yet finds none.
    let mut events = fs::OpenOptions::new().append(true).open(events_file(&home)).unwrap();
    let length = usize::try_from(events.metadata().unwrap().len()).unwrap();
    events.write_all(&vec![b'\n'; 4096 - length % 4096]).unwrap();
    let filler = disk.fill();
    home.run(["send", &job, "go"]).ok();
    end(&home, std::slice::from_ref(&job));
    until("its keeper is gone", || home.keepers().is_empty());
    assert!(
        home.store().join("live").join(format!("{job}@default")).exists(),
        "there is something to be found"
    );
    // What cannot be noted is told all the same, with the word that it comes again.
    let done = home.run(["--json", "inbox", "--reader", "me"]).code(1);
    assert_eq!(jobs(&done.json()), std::slice::from_ref(&before));
    fs::remove_file(filler).unwrap();
    assert_eq!(jobs(&inbox(&home, "me")), sorted(vec![before, job.clone()]));
    assert!(!home.store().join("live").join(format!("{job}@default")).exists());
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
}
