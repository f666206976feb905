//! What a long-lived front end remembers of jobs.
//!
//! Proves that what cannot change is read once, and that whatever another process does to a job shows in the next list: nothing
//! stale is ever shown.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use outlive::{Job, Request, SessionName, Store};
use outlive_tests::{Home, finish, lacks, signal, until};

/// A store of a front end that has listed one job, and remembers it.
struct Remembered {
    home: Home,
    store: Store,
    job: String,
}

impl Remembered {
    fn live() -> Self {
        let home = Home::new();
        let job = home.start(["sleep", "1000"]);
        Self::of(home, job)
    }

    fn ended() -> Self {
        let home = Home::new();
        let job = home.start(["sh", "-c", "echo printed; exit 3"]);
        home.wait(&job);
        Self::of(home, job)
    }

    fn of(home: Home, job: String) -> Self {
        settle(&home.job_dir(&job));
        let store = home.open();
        let remembered = Self { home, store, job };
        // The first reads; the second has all in memory.
        for _ in 0..2 {
            remembered.words();
        }
        remembered
    }

    fn listed(&self) -> Vec<Job> {
        self.store.list(None).expect("the store is readable").jobs
    }

    fn words(&self) -> String {
        self.store.find(&self.job, None).expect("the store is readable").state(&self.store);
        self.listed()[0].state(&self.store).words()
    }
}

/// Waits until a directory has not changed for a while: only then is what is in it remembered.
fn settle(directory: &Path) {
    until("the directory has not changed for a while", || {
        let data = fs::metadata(directory).expect("the store is readable");
        let changed = Duration::new(data.ctime() as u64, data.ctime_nsec() as u32);
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH + changed)
            .is_ok_and(|age| age.as_millis() > 1100)
    });
}

#[test]
fn what_cannot_change_is_read_once() {
    let it = Remembered::ended();
    // Written in place, as no process of outlive does: the directory does not change.
    for name in ["spec.json", "meta.json", "outcome"] {
        fs::write(it.home.job_dir(&it.job).join(name), "not read again").unwrap();
    }
    assert_eq!(it.words(), "failed");
    assert_eq!(it.home.open().list(None).unwrap().damaged.len(), 1, "a new front end reads it");
}

#[test]
fn a_removed_job_is_gone() {
    let it = Remembered::ended();
    it.home.run(["remove", &it.job]).ok();
    // In this order: a list forgets what is not there.
    assert!(it.store.find(&it.job, None).is_err() && it.listed().is_empty());
}

#[test]
fn the_id_of_a_removed_job_can_be_another_jobs() {
    let it = Remembered::ended();
    let before = it.listed().remove(0);
    it.home.run(["remove", &it.job]).ok();
    it.home.open().start(&Request::argv(["true"]).id(before.id().clone())).unwrap();
    assert_eq!(it.store.find(&it.job, None).unwrap().spec().command_line(), "true");
    let listed = it.listed();
    assert_eq!((listed.len(), listed[0].spec().command_line().as_str()), (1, "true"));
    assert!(listed[0].spec().nonce != before.spec().nonce && before.is_removed());
    before.mark_seen();
    assert!(!listed[0].is_seen(), "what is done to the one is not done to the other");
}

#[test]
fn a_job_that_is_held_shows_what_happens_to_it() {
    let it = Remembered::live();
    let held = it.listed().remove(0);
    let words = || held.state(&it.store).words();
    assert_eq!(words(), "running");
    it.home.run(["pause", &it.job]).ok();
    assert_eq!(words(), "running, paused");
    it.home.run(["kill", &it.job]).ok();
    assert_eq!(words(), "killed");
}

#[test]
fn a_new_name_is_shown() {
    for it in [Remembered::live(), Remembered::ended()] {
        let other = it.home.open();
        other.rename(&other.find(&it.job, None).unwrap(), "another").unwrap();
        assert_eq!(it.listed()[0].name(), Some("another"));
        assert_eq!(it.store.find("another", None).unwrap().id().as_str(), it.job);
    }
}

#[test]
fn a_job_that_was_moved_is_in_its_new_session() {
    let it = Remembered::live();
    let (other, to) = (it.home.open(), SessionName::parse("elsewhere").unwrap());
    other.transfer(&other.find(&it.job, None).unwrap(), &to).unwrap();
    assert!(it.store.list(Some(&SessionName::default())).unwrap().jobs.is_empty());
    assert_eq!(it.store.list(Some(&to)).unwrap().jobs.len(), 1);
}

#[test]
fn output_that_was_cleared_is_not_shown() {
    let it = Remembered::ended();
    it.home.run(["clear", &it.job]).ok();
    let output = outlive::Output::open(&it.listed()[0]).unwrap();
    assert_eq!(output.start(), output.end());
}

#[test]
fn a_job_in_quarantine_is_not_listed_until_it_is_back() {
    let it = Remembered::ended();
    let (there, aside) = (it.home.job_dir(&it.job), it.home.store().join("quarantine").join(&it.job));
    fs::rename(&there, &aside).unwrap();
    assert!(it.listed().is_empty());
    fs::rename(&aside, &there).unwrap();
    settle(&there);
    for _ in 0..2 {
        assert_eq!(it.words(), "failed");
    }
    // Restored from a copy: other files under the same names.
    let copied = finish(
        {
            let mut copy = it.home.command("sh");
            copy.args([
                "-c",
                "cp -r \"$1\" \"$2\" && rm -r \"$1\" && mv \"$2\" \"$1\" && : > \"$1\"/spec.json",
                "sh",
            ]);
            copy.args([&there, &aside]);
            copy
        },
        b"",
    );
    copied.ok();
    assert_eq!(it.store.list(None).unwrap().damaged.len(), 1, "its spec is empty now");
}

#[test]
fn a_paused_job_is_shown_as_paused_and_an_ended_one_as_ended() {
    let it = Remembered::live();
    assert_eq!(it.words(), "running");
    it.home.run(["pause", &it.job]).ok();
    assert_eq!(it.words(), "running, paused");
    settle(&it.home.job_dir(&it.job));
    assert_eq!(it.words(), "running, paused");
    it.home.run(["kill", &it.job]).ok();
    assert_eq!(it.words(), "killed");
}

#[test]
fn a_job_whose_keeper_died_is_an_orphan_and_then_lost() {
    let it = Remembered::live();
    let command = it.home.orphan(&it.job);
    assert_eq!(it.words(), "running, orphaned");
    signal(command, "KILL");
    until("it is known to be lost", || it.words() == "lost");
}

/// A job in a list holds no descriptor, or the jobs of a store would be limited by what a program may open.
#[test]
fn more_jobs_than_descriptors_can_be_listed() {
    let home = Home::new();
    home.configure("[limits]\nsession = 100\n");
    for _ in 0..80 {
        home.start(["true"]);
    }
    let mut limited = home.command("sh");
    limited.args(["-c", "ulimit -n 40; exec outlive list --all"]);
    let listed = finish(limited, b"").ok();
    assert_eq!((listed.text().lines().count(), listed.error().as_str()), (81, ""));
}

/// Counts the calls that `outlive list` makes on files and descriptors. `None`, with a note, where tracing is not permitted.
pub(crate) fn calls_of_list(home: &Home) -> Option<usize> {
    let trace = home.path().join("trace");
    let mut traced = home.command("strace");
    traced.args(["-f", "-e", "trace=%file,%desc", "-o"]).arg(&trace).args(["outlive", "list"]);
    let is_traced = traced.output().is_ok_and(|output| output.status.success());
    if !is_traced {
        lacks("strace, and the right to trace");
        return None;
    }
    let calls = fs::read_to_string(&trace).expect("strace has written it");
    // A debug build looks at each descriptor before it closes it.
    Some(calls.lines().filter(|call| call.contains('(') && !call.contains("F_GETFD")).count())
}

#[test]
fn a_list_makes_few_calls_for_each_job() {
    const MORE: usize = 8;
    for (line, most) in [("sleep 1000", 19), ("exit 3", 16)] {
        let home = Home::new();
        let start = || {
            let job = home.start_line(line);
            if most == 16 {
                home.wait(&job);
                until("its keeper is gone", || home.keepers().is_empty());
            }
        };
        start();
        let Some(one) = calls_of_list(&home) else { return };
        (0..MORE).for_each(|_| start());
        let Some(more) = calls_of_list(&home) else { return };
        assert!(more - one <= most * MORE, "{line}: {} calls a job", (more - one) / MORE);
    }
}
