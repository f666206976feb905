//! How long ended jobs stay.
//!
//! Proves S0-100 and S3-79 (ended jobs go after a configurable time), S3-80 (their output goes with them), S1-23 and
//! S1-24 (the oldest go first, those that run never), S2-57 (what has ended does not pile up).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use outlive::Timestamp;
use outlive_core::outcome::{Outcome, SLOT_BYTES};
use outlive_tests::{Home, binary, until};

fn ids(home: &Home) -> Vec<String> {
    let listed = home.json(["list"]);
    listed.as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect()
}

/// Runs a job to its end; the end is reported to no reader.
fn end_unseen(home: &Home, argv: &[&str]) -> String {
    let job = home.start(argv);
    let is_over = || {
        let listed = home.json(["list"]);
        listed
            .as_array()
            .unwrap()
            .iter()
            .any(|object| object["job"] == *job && !object["exit_code"].is_null())
    };
    until("it has ended", is_over);
    assert!(!home.job_dir(&job).join("seen").exists());
    job
}

fn end_seen(home: &Home, argv: &[&str]) -> String {
    let job = home.start(argv);
    home.wait(&job);
    job
}

fn make_old(path: &Path) {
    let two_hours_ago = SystemTime::now() - Duration::from_secs(7200);
    File::open(path).unwrap().set_modified(two_hours_ago).unwrap();
}

#[test]
fn without_configuration_a_job_that_has_just_ended_stays() {
    let home = Home::new();
    let jobs = [end_seen(&home, &["true"]), end_unseen(&home, &["true"])];
    let collected = home.json(["gc"]);
    assert_eq!((&collected["removed"], &collected["kept"]), (&serde_json::json!([]), &2.into()));
    assert_eq!(ids(&home), jobs);
}

/// Lets a job have ended so many hours ago.
fn age(home: &Home, job: &str, hours: u64) {
    let path = home.job_dir(job).join("outcome");
    let mut bytes = fs::read(&path).unwrap();
    let outcome = Outcome::from_slot(&bytes[..SLOT_BYTES]).unwrap();
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() - Duration::from_secs(hours * 3600);
    let ended = Timestamp(u64::try_from(now.as_micros()).unwrap());
    bytes[..SLOT_BYTES].copy_from_slice(&Outcome { ended, ..outcome }.to_slot());
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_job_stays_for_a_week_whether_its_end_was_told_or_not() {
    let home = Home::new();
    let jobs = [end_seen(&home, &["true"]), end_unseen(&home, &["true"])];
    jobs.iter().for_each(|job| age(&home, job, 24 * 7 - 1));
    assert_eq!(home.json(["gc"])["removed"], serde_json::json!([]));
    jobs.iter().for_each(|job| age(&home, job, 24 * 7 + 1));
    home.configure("[retention]\nmax_age = \"off\"\nkeep = \"off\"\n");
    assert_eq!(home.json(["gc"])["removed"], serde_json::json!([]));
    home.configure("");
    assert_eq!(home.json(["gc"])["removed"].as_array().unwrap().len(), 2);
}

#[test]
fn a_job_goes_once_somebody_was_told_and_its_time_is_over() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\n");
    let unseen = end_unseen(&home, &["echo", "unseen"]);
    let seen = end_seen(&home, &["echo", "seen"]);
    let collected = home.json(["gc"]);
    assert_eq!(collected["removed"], serde_json::json!([seen]));
    assert_eq!(collected["kept"], 1);
    assert!(collected["bytes"].as_u64() >= Some(4096), "{collected}");
    assert!(!home.job_dir(&seen).exists());
    assert_eq!(home.logs(&unseen), b"unseen\n");
    home.show(&unseen);
    assert_eq!(home.json(["gc"])["removed"], serde_json::json!([unseen]));
    assert_eq!(ids(&home), Vec::<String>::new());
    home.run(["show", &seen]).code(3);
}

#[test]
fn a_job_of_the_greatest_age_goes_told_or_not() {
    let home = Home::new();
    end_unseen(&home, &["true"]);
    end_seen(&home, &["true"]);
    home.configure("[retention]\nmax_age = \"0s\"\n");
    assert_eq!(home.json(["gc"])["removed"].as_array().unwrap().len(), 2);
    assert_eq!(ids(&home), Vec::<String>::new());
}

#[test]
fn of_too_many_the_oldest_go() {
    let home = Home::new();
    home.configure("[retention]\nmax_jobs = 2\n");
    let jobs: Vec<String> = (0..5).map(|_| end_unseen(&home, &["true"])).collect();
    let running = home.start(["sleep", "300"]);
    let collected = home.json(["gc"]);
    assert_eq!(collected["removed"].as_array().unwrap().len(), 3);
    assert_eq!(collected["kept"], 3);
    assert_eq!(ids(&home), [jobs[3].clone(), jobs[4].clone(), running]);
}

#[test]
fn of_too_much_output_the_oldest_goes() {
    let home = Home::new();
    home.configure("[retention]\nmax_bytes = \"250K\"\n");
    let writes = binary("writes").display().to_string();
    let jobs: Vec<String> = (0..4).map(|_| end_unseen(&home, &[&writes, "100000", "stdout"])).collect();
    let collected = home.json(["gc"]);
    assert!(collected["bytes"].as_u64() >= Some(200_000), "{collected}");
    assert_eq!(ids(&home), jobs[2..]);
}

#[test]
fn what_is_live_never_goes() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\nmax_age = \"0s\"\nmax_jobs = 0\nmax_bytes = \"0\"\n");
    let running = home.start(["sleep", "300"]);
    let lingering = home.start_line("sleep 300 & exit 0");
    home.wait(&lingering);
    let orphaned = home.start(["sleep", "300"]);
    let shown = home.show(&orphaned);
    let (keeper, command) = (outlive_tests::pid(&shown, "keeper_pid"), outlive_tests::pid(&shown, "pid"));
    outlive_tests::kill_with_guard(keeper);
    until("its keeper is gone", || !outlive_tests::is_running(keeper));
    let collected = home.json(["gc"]);
    assert_eq!((&collected["removed"], &collected["kept"]), (&serde_json::json!([]), &3.into()));
    assert_eq!(ids(&home), [running, lingering, orphaned]);
    outlive_tests::signal(command, "KILL");
    until("its command is gone", || !outlive_tests::is_running(command));
    assert_eq!(home.json(["gc"])["removed"].as_array().unwrap().len(), 1);
}

#[test]
fn whoever_starts_a_job_collects_now_and_then() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\n");
    let old = end_seen(&home, &["true"]);
    assert!(home.store().join("collected").is_file(), "the first start has collected");
    let next = end_seen(&home, &["true"]);
    assert_eq!(ids(&home), [old, next], "it is not time yet");
    make_old(&home.store().join("collected"));
    let last = home.start(["sleep", "300"]);
    assert_eq!(ids(&home), [last]);
}

/// Leaves a directory in `new/` as a crashed starter or remover does.
fn leave(home: &Home, name: &str) -> PathBuf {
    let path = home.store().join("new").join(name);
    fs::create_dir(&path).unwrap();
    for file in ["lock", "done", "spec.json"] {
        fs::write(path.join(file), "").unwrap();
    }
    path
}

#[test]
fn leftovers_of_a_crash_are_swept_after_an_hour() {
    let home = Home::new();
    end_seen(&home, &["true"]);
    let (old, removed, fresh) =
        (leave(&home, "old-0001"), leave(&home, "gone-0002.77.gone"), leave(&home, "new-0003"));
    let empty = home.store().join("new/empty-0004");
    fs::create_dir(&empty).unwrap();
    let held = leave(&home, "held-0005");
    let lock = File::open(held.join("lock")).unwrap();
    assert!(outlive_sys::lock::try_lock(&lock, outlive_sys::lock::Kind::Exclusive).unwrap());
    for path in [&old, &removed, &empty, &held] {
        make_old(path);
    }
    home.run(["gc"]).ok();
    assert!(!old.exists() && !removed.exists() && !empty.exists(), "what a crash left is still there");
    assert!(fresh.exists(), "it may be a starter's that is at work");
    assert!(held.exists(), "its starter is only slow");
}

#[test]
fn gc_for_people_says_what_it_did() {
    let home = Home::new();
    home.configure("[retention]\nkeep = \"0s\"\n");
    end_seen(&home, &["true"]);
    let text = home.run(["gc"]).ok().text();
    assert!(text.starts_with("1 removed, ") && text.ends_with(", 0 kept\n"), "{text}");
}

/// Says that it is over when it goes.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn removing_is_all_or_nothing_for_whoever_lists_meanwhile() {
    let home = Home::new();
    let (store, is_over) = (home.open(), AtomicBool::new(false));
    // Each of these jobs exits with 0: whatever else is said of one was made up from half a directory.
    let list = || {
        let store = home.open();
        let mut odd = Vec::new();
        while !is_over.load(Ordering::SeqCst) {
            let listing = store.list(None).unwrap();
            odd.extend(listing.damaged.iter().map(|damaged| format!("{damaged:?}")));
            let states = listing.jobs.iter().map(|job| (job.id(), job.state(&store)));
            // A job that was removed during the look is reported as removed, and nothing about its end.
            let states =
                states.filter(|(_, state)| !state.is_removed()).map(|(id, state)| (id, state.status));
            let odd_states =
                states.filter(|(_, status)| !["starting", "running", "completed"].contains(&status.word()));
            odd.extend(odd_states.map(|(id, status)| format!("{id} is {status}")));
        }
        odd
    };
    std::thread::scope(|scope| {
        let listers = [scope.spawn(list), scope.spawn(list)];
        // The listers end also if this thread fails.
        let _over = Over(&is_over);
        for _ in 0..8 {
            let jobs: Vec<String> = (0..20).map(|_| home.start(["true"])).collect();
            for job in &jobs {
                home.wait(job);
            }
            for job in jobs {
                let job = store.find(&job, None).unwrap();
                until("it is removed", || store.remove(&job).is_ok());
            }
        }
        is_over.store(true, Ordering::SeqCst);
        let odd: Vec<String> = listers.into_iter().flat_map(|lister| lister.join().unwrap()).collect();
        assert_eq!(odd, Vec::<String>::new());
    });
    assert_eq!(ids(&home), Vec::<String>::new());
    assert_eq!(fs::read_dir(home.store().join("new")).unwrap().count(), 0);
}

#[test]
fn a_leftover_in_the_way_does_not_make_removing_a_lie() {
    let home = Home::new();
    let job = end_seen(&home, &["true"]);
    // What an earlier process of the same number left when it died while removing a job of the same id.
    leave(&home, &format!("{job}.{}.gone", std::process::id()));
    let store = home.open();
    let found = store.find(&job, None).unwrap();
    let removed = store.remove(&found);
    assert_eq!(removed.is_ok(), !home.job_dir(&job).exists(), "{removed:?}");
}

#[test]
fn removing_what_is_gone_or_unknown_says_so() {
    let home = Home::new();
    let job = end_seen(&home, &["true"]);
    let removed = home.json(["remove", &job]);
    assert_eq!(removed["removed"], serde_json::json!([job]));
    home.run(["remove", &job]).code(3);
    let live = home.start(["sleep", "300"]);
    assert_eq!(home.run(["--json", "remove", &live]).code(1).error_json()["error"]["code"], "live");
    assert_eq!(home.show(&live)["status"], "running");
}
