//! Several readers: each has its own endings, and another reader stands in for one that stays away.
//!
//! Proves of the design: a reader is told of the jobs that it started; if it never comes back, the next reader is told.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use outlive_tests::{Home, finish};

use super::*;

/// Kills a program while it looks, at a random moment; returns what it told, and whether it ended before it was killed. If it did
/// not, it may have noted what it told or not.
fn killed(mut command: std::process::Command) -> (Vec<String>, bool) {
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    child.kill().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    let told = serde_json::from_str(&text).map(|document| jobs(&document)).unwrap_or_default();
    (told, child.wait().unwrap().success())
}

#[test]
fn two_readers_at_the_same_time_each_hear_of_their_own_while_one_is_killed_and_restarted() {
    let home = Home::new();
    let is_over = AtomicBool::new(false);
    // How often by programs that were not killed; 0 where only one that was killed told of it.
    let heard: Mutex<BTreeMap<(String, String), usize>> = Mutex::default();
    let own: BTreeMap<&str, Vec<String>> = std::thread::scope(|scope| {
        for reader in ["one", "two"] {
            let (home, is_over, heard) = (&home, &is_over, &heard);
            scope.spawn(move || {
                let mut number = 0;
                loop {
                    let was_over = is_over.load(Ordering::SeqCst);
                    number += 1;
                    let command = home.outlive(["--json", "inbox", "--reader", reader]);
                    let (told, has_ended) = if reader == "two" && number % 2 == 0 && !was_over {
                        killed(command)
                    } else {
                        (jobs(&finish(command, b"").ok().json()), true)
                    };
                    for job in told {
                        *heard.lock().unwrap().entry((reader.to_owned(), job)).or_default() +=
                            usize::from(has_ended);
                    }
                    if was_over {
                        return;
                    }
                }
            });
        }
        let mut own: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for number in 0..24 {
            let reader = ["one", "two"][number % 2];
            own.entry(reader).or_default().push(ended(
                &home,
                reader,
                &["sh", "-c", &format!("exit {number}")],
            ));
        }
        is_over.store(true, Ordering::SeqCst);
        own
    });
    let heard = heard.into_inner().unwrap();
    for (reader, own) in own {
        let of_reader = || heard.iter().filter(|((heard_by, _), _)| heard_by == reader);
        assert_eq!(of_reader().map(|((_, job), _)| job.clone()).collect::<Vec<_>>(), sorted(own), "{reader}");
        assert!(of_reader().all(|(_, count)| *count <= 1 && (reader == "two" || *count == 1)), "{heard:?}");
    }
}

#[test]
fn several_programs_of_one_reader_tell_each_ending_once() {
    let home = Home::new();
    let all: Vec<String> = (0..20).map(|_| start(&home, "me", &["true"])).collect();
    end(&home, &all);
    let told: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| jobs(&inbox(&home, "me")))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(sorted(told), sorted(all));
}

#[test]
fn a_starter_that_stays_away_is_stood_in_for_by_the_next_reader_and_told_when_it_comes() {
    let home = Home::new();
    home.configure("[session]\nabsence = \"1h\"\n");
    let job = ended(&home, "first", &["sh", "-c", "exit 4"]);
    // The starter may still come.
    assert_eq!(jobs(&inbox(&home, "second")), nothing());
    assert_eq!(jobs(&inbox(&home, "second")), nothing());
    home.configure("[session]\nabsence = \"0s\"\n");
    let told = inbox(&home, "second");
    assert_eq!(jobs(&told), std::slice::from_ref(&job));
    assert_eq!(jobs(&inbox(&home, "second")), nothing());
    // One is enough.
    assert_eq!(jobs(&inbox(&home, "third")), nothing());
    let late = inbox(&home, "first");
    assert_eq!(sequences(&late), sequences(&told));
    assert_eq!(jobs(&inbox(&home, "first")), nothing());
}

#[test]
fn a_reader_that_is_there_is_not_stood_in_for() {
    let home = Home::new();
    home.configure("[session]\nabsence = \"0s\"\n");
    let store = home.open();
    let presence = store.be_present(&name("default"), &name("first")).unwrap();
    let again = store.be_present(&name("default"), &name("first")).unwrap();
    let job = ended(&home, "first", &["true"]);
    assert_eq!(jobs(&inbox(&home, "second")), nothing());
    drop(presence);
    assert_eq!(jobs(&inbox(&home, "second")), nothing(), "another front end of it is there");
    drop(again);
    assert_eq!(jobs(&inbox(&home, "second")), [job]);
}

#[test]
fn what_its_starter_was_told_is_told_to_nobody_else() {
    let home = Home::new();
    home.configure("[session]\nabsence = \"0s\"\n");
    let by_inbox = ended(&home, "first", &["true"]);
    assert_eq!(jobs(&inbox(&home, "first")), [by_inbox]);
    let by_wait = ended(&home, "first", &["true"]);
    home.run(["wait", "--reader", "first", &by_wait]).ok();
    assert_eq!(jobs(&inbox(&home, "second")), nothing());
}

#[test]
fn a_sign_of_life_counts_from_the_last_look() {
    let home = Home::new();
    home.configure("[session]\nabsence = \"10m\"\n");
    let own = ended(&home, "second", &["true"]);
    inbox(&home, "first");
    let job = ended(&home, "first", &["true"]);
    let ago = |minutes: u64| std::time::SystemTime::now() - Duration::from_secs(60 * minutes);
    let looked = |minutes: u64| {
        std::fs::File::open(reader_file(&home, "first")).unwrap().set_modified(ago(minutes)).unwrap();
    };
    // The job has only just ended, so no reader has stayed away for long.
    looked(60);
    assert_eq!(jobs(&inbox(&home, "second")), [own]);
    let text = std::fs::read_to_string(reader_file(&home, "second")).unwrap();
    let place: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(place["deferred"].as_array().unwrap().len(), 1, "{place}");
    home.configure("[session]\nabsence = \"1ms\"\n");
    looked(0);
    until("it has stayed away", || !jobs(&peek(&home, "second")).is_empty());
    assert_eq!(jobs(&inbox(&home, "second")), [job]);
}

#[test]
fn a_job_that_was_removed_before_its_starter_was_told_is_told_by_its_event() {
    let home = Home::new();
    let untold = ended(&home, "me", &["sh", "-c", "exit 6"]);
    let told = ended(&home, "me", &["true"]);
    home.run(["wait", "--reader", "me", &told]).ok();
    for job in [&untold, &told] {
        home.run(["remove", "--reader", "somebody", job]).ok();
    }
    let own = ended(&home, "me", &["true"]);
    home.run(["remove", "--reader", "me", &own]).ok();
    let document = inbox(&home, "me");
    assert_eq!(jobs(&document), std::slice::from_ref(&untold));
    let notice = notice(&document, &untold);
    assert_eq!((&notice["status"], &notice["exit_code"]), (&"failed".into(), &6.into()));
    assert!(notice["output"].is_null());
    assert_eq!(jobs(&inbox(&home, "me")), nothing());
    assert_eq!(jobs(&inbox(&home, "somebody")), nothing());
}

#[test]
fn a_job_of_nobody_is_told_to_every_reader() {
    let home = Home::new();
    let store = home.open();
    let job = store.start(&outlive::Request::argv(["true"])).unwrap().job.id().to_string();
    end(&home, std::slice::from_ref(&job));
    for reader in ["one", "two"] {
        assert_eq!(jobs(&inbox(&home, reader)), std::slice::from_ref(&job));
        assert_eq!(jobs(&inbox(&home, reader)), nothing());
    }
}

/// A front end that tells several endings at the same time notes those that were heard, in any order; the others come again.
#[test]
fn those_that_were_told_are_noted_and_no_others() {
    let home = Home::new();
    let store = home.open();
    let session = SessionName::default();
    let reader = outlive::reader_name("late");
    let pending = || {
        let mut inbox = store.inbox(&session, &reader, outlive_tests::LIMIT).unwrap();
        let codes: Vec<_> =
            inbox.pending().unwrap().notices.iter().map(|notice| (notice.seq, notice.exit_code)).collect();
        (inbox, codes)
    };
    let started: Vec<String> = (4..=6)
        .map(|number| {
            let request =
                outlive::Request::argv(["sh", "-c", &format!("exit {number}")]).reader(reader.clone());
            store.start(&request).unwrap().job.id().to_string()
        })
        .collect();
    for job in &started {
        home.run(["--reader", "a", "wait", job]).code(7);
    }
    let (mut inbox, found) = pending();
    assert_eq!(found.iter().map(|(_, code)| code.unwrap()).collect::<Vec<_>>(), [4, 5, 6]);
    inbox.acknowledge_these(&[found[2].0]).unwrap();
    drop(inbox);
    let (mut inbox, left) = pending();
    assert_eq!(left, found[..2], "the last was heard, the others were not");
    inbox.acknowledge_these(&[found[0].0]).unwrap();
    drop(inbox);
    assert_eq!(pending().1, found[1..2]);
}
