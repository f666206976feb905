//! `jobs.cache`: what a program need not read that another has read.
//!
//! Proves that a list is the same with the cache and without it, that whatever happens to a job shows in the next list, and that a file
//! which is damaged, of another user or gone does no harm.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outlive::{JobId, Request, SessionName, Until};
use outlive_tests::{Home, SmallDisk, finish, signal, until};
use serde_json::Value;

use crate::memory::calls_of_list;

/// Fewer jobs are not worth a file.
const ENOUGH: usize = 20;

fn cache(home: &Home) -> PathBuf {
    home.store().join("jobs.cache")
}

/// Makes ended jobs, enough for a cache.
fn many(home: &Home) -> Vec<String> {
    home.configure("[limits]\nsession = 100\n");
    let store = home.open();
    let start =
        |number| store.start(&Request::shell(format!("echo {number}; exit {}", number % 3))).unwrap().job;
    let jobs: Vec<_> = (0..ENOUGH).map(start).collect();
    assert!(store.wait(&jobs, Until::All, None).is_reached);
    for job in &jobs {
        until("its keeper is gone", || !outlive_sys::durable::is_held(job.path(), "lock"));
    }
    jobs.iter().map(|job| job.id().to_string()).collect()
}

/// Waits until no job has changed for a while: only then is it remembered.
fn settle(home: &Home) {
    let age = |path: &PathBuf| {
        let data = fs::metadata(path).unwrap();
        let changed = Duration::new(data.ctime() as u64, data.ctime_nsec() as u32);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + changed).unwrap_or_default()
    };
    let jobs = || fs::read_dir(home.store().join("jobs")).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<PathBuf> = jobs().flat_map(|job| [job.join("outcome"), job]).collect();
    until("no job has changed for a while", || {
        paths.iter().filter(|path| path.exists()).all(|path| age(path).as_millis() > 1100)
    });
}

/// Lists all jobs as scripts see them; how long a live one has run is another number each time.
fn list(home: &Home) -> String {
    let text = home.run(["--json", "list"]).ok().text();
    let mut jobs: Vec<Value> = serde_json::from_str(&text).unwrap();
    for job in jobs.iter_mut().filter(|job| job["ended_at"].is_null()) {
        job["runtime_ms"] = Value::Null;
    }
    serde_json::to_string(&jobs).unwrap()
}

/// A store with a cache of its jobs.
fn cached() -> (Home, Vec<String>) {
    let home = Home::new();
    let jobs = many(&home);
    settle(&home);
    list(&home);
    assert!(cache(&home).exists());
    (home, jobs)
}

fn status(home: &Home, job: &str) -> String {
    let listed: Vec<Value> = serde_json::from_str(&list(home)).unwrap();
    let found = listed.iter().find(|listed| listed["job"] == job);
    found.map_or("gone".to_owned(), |job| job["status"].as_str().unwrap().to_owned())
}

#[test]
fn a_list_is_the_same_with_the_cache_and_without_it() {
    let home = Home::new();
    let ended = many(&home);
    // A zoo.
    let sleep = ["sleep", "1000"];
    let plain =
        home.start_with(&["--name", "plain", "--label", "a=b", "--group", "g", "--memory", "1G"], sleep);
    let paused = home.start_with(&["--timeout", "1h", "--env", "A=b"], sleep);
    home.run(["pause", &paused]).ok();
    let killed = home.start(sleep);
    home.run(["kill", &killed]).ok();
    let late = home.start_with(&["--timeout", "1ms"], sleep);
    home.wait(&late);
    assert_ne!(home.run(["run", "--", "/nowhere/program"]).code, 0);
    let left = home.start(["sh", "-c", "sleep 1000 & exit 7"]);
    home.wait(&left);
    let (widow, orphan) = (home.start(sleep), home.start(sleep));
    signal(home.orphan(&widow), "KILL");
    home.orphan(&orphan);
    let store = home.open();
    store.rename(&store.find(&ended[0], None).unwrap(), "another").unwrap();
    store.transfer(&store.find(&ended[1], None).unwrap(), &SessionName::parse("elsewhere").unwrap()).unwrap();
    store.transfer(&store.find(&plain, None).unwrap(), &SessionName::parse("elsewhere").unwrap()).unwrap();
    until("the widow is lost", || status(&home, &widow) == "lost");
    fs::remove_file(cache(&home)).ok();
    settle(&home);
    let without = list(&home);
    assert_eq!(fs::metadata(cache(&home)).unwrap().mode() & 0o777, 0o600);
    let written = fs::metadata(cache(&home)).unwrap().ino();
    assert_eq!(list(&home), without);
    assert_eq!(
        fs::metadata(cache(&home)).unwrap().ino(),
        written,
        "a file that is up to date is not written again"
    );
    for arguments in
        [&["list", "--all"][..], &["list", "--session", "elsewhere"], &["list", "--status", "failed"]]
    {
        let names = |home: &Home| -> Vec<String> {
            let text = home.run(arguments).ok().text();
            text.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
        };
        let with = names(&home);
        fs::rename(cache(&home), home.path().join("aside")).unwrap();
        let without = names(&home);
        fs::rename(home.path().join("aside"), cache(&home)).unwrap();
        assert_eq!(with, without, "{arguments:?}");
    }
    assert!(
        !home.run(["doctor"]).code(1).text().contains("jobs.cache"),
        "it finds the orphan, and nothing wrong with the file"
    );
}

/// A live job: its directory's stamp, that of its outcome, its lock opened and asked. An ended one: its directory's stamp.
#[test]
fn a_list_makes_few_calls_for_each_cached_job() {
    for (line, most) in [("sleep 1000", 4), ("exit 3", 1)] {
        let home = Home::new();
        home.configure("[limits]\nsession = 100\n");
        let more = || {
            let jobs: Vec<String> = (0..ENOUGH).map(|_| home.start_line(line)).collect();
            if most == 1 {
                jobs.iter().for_each(|job| drop(home.wait(job)));
                until("the keepers are gone", || home.keepers().is_empty());
            }
            fs::remove_file(cache(&home)).ok();
            settle(&home);
            list(&home);
            calls_of_list(&home)
        };
        let (Some(once), Some(twice)) = (more(), more()) else { return };
        assert!(
            twice - once <= most * ENOUGH + ENOUGH / 2,
            "{line}: {} calls for {ENOUGH} jobs",
            twice - once
        );
    }
}

/// Jobs that were too young for the first list are a small share of all, and read in every list until they are in the file.
#[test]
fn jobs_that_came_later_get_into_the_file_though_most_are_in_it() {
    let home = Home::new();
    (0..4).for_each(|_| drop(many(&home)));
    settle(&home);
    list(&home);
    let later = many(&home);
    settle(&home);
    list(&home);
    let written = fs::read(cache(&home)).unwrap();
    for job in later {
        assert!(written.windows(job.len()).any(|bytes| bytes == job.as_bytes()), "{job}");
    }
}

#[test]
fn what_was_cached_is_not_read_and_doctor_reads_it() {
    let (home, jobs) = cached();
    let before = list(&home);
    // Written in place, as no process of outlive does: the directory does not change.
    fs::write(home.job_dir(&jobs[3]).join("spec.json"), "not read").unwrap();
    assert_eq!(list(&home), before);
    let findings = home.run(["doctor"]).text();
    assert!(findings.contains(&jobs[3]) && findings.contains("spec.json"), "{findings}");
    home.run(["doctor", "--fix"]).ok();
    assert_eq!(status(&home, &jobs[3]), "gone");
}

#[test]
fn whatever_happens_to_a_job_shows_in_the_next_list() {
    let home = Home::new();
    let ended = many(&home);
    let live: Vec<String> = (0..5).map(|_| home.start(["sleep", "1000"])).collect();
    settle(&home);
    list(&home);
    let with_live = fs::metadata(cache(&home)).unwrap().ino();
    assert_eq!(live.iter().map(|job| status(&home, job)).collect::<Vec<_>>(), ["running"; 5]);
    // On a busy machine the kernel takes its time to stop a process, and the command says so.
    until("it is paused", || home.run(["pause", &live[0]]).code == 0);
    assert!(list(&home).contains("\"paused\":true"));
    home.run(["kill", &live[1]]).ok();
    assert_eq!(status(&home, &live[1]), "killed");
    // Its main process ends by itself, and nothing else happens.
    signal(home.show(&live[2])["pid"].as_i64().unwrap() as i32, "KILL");
    home.wait(&live[2]);
    assert_eq!(status(&home, &live[2]), "failed");
    signal(home.orphan(&live[3]), "KILL");
    until("it is known to be lost", || status(&home, &live[3]) == "lost");
    assert_eq!(status(&home, &live[4]), "running");
    let store = home.open();
    store.rename(&store.find(&ended[0], None).unwrap(), "renamed").unwrap();
    assert!(list(&home).contains("\"renamed\""));
    assert_eq!(
        fs::metadata(cache(&home)).unwrap().ino(),
        with_live,
        "few changes do not make it worth a new file"
    );
    assert_eq!(home.show("renamed")["job"], ended[0].as_str());
}

#[test]
fn a_removed_job_leaves_nothing_and_its_id_can_be_anothers() {
    let (home, jobs) = cached();
    let kept = home.path().join("kept");
    fs::copy(cache(&home), &kept).unwrap();
    home.run(["remove", &jobs[0]]).ok();
    assert!(!cache(&home).exists(), "what is removed is gone");
    assert_eq!(status(&home, &jobs[0]), "gone");
    let store = home.open();
    let again = store.start(&Request::argv(["true"]).id(JobId::parse(&jobs[0]).unwrap())).unwrap().job;
    store.wait(&[again], Until::All, None);
    // As if a writer had been stopped before it could see the removal.
    fs::copy(&kept, cache(&home)).unwrap();
    fs::set_permissions(cache(&home), fs::Permissions::from_mode(0o600)).unwrap();
    let listed: Vec<Value> = serde_json::from_str(&list(&home)).unwrap();
    let found = listed.iter().find(|job| job["job"] == jobs[0].as_str()).unwrap();
    assert_eq!((found["command"].as_str(), found["exit_code"].as_i64()), (Some("true"), Some(0)));
}

#[test]
fn a_file_that_is_damaged_or_not_ones_own_does_no_harm() {
    let (home, _) = cached();
    let (right, file) = (list(&home), cache(&home));
    let bytes = fs::read(&file).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    let mut other_build = bytes.clone();
    other_build[9] ^= 1;
    for contents in
        [&b""[..], b"x", &bytes[..20], &bytes[..bytes.len() - 1], &flipped, &other_build, &[0; 5000]]
    {
        fs::write(&file, contents).unwrap();
        assert_eq!(list(&home), right, "{} bytes", contents.len());
        assert_eq!(fs::read(&file).unwrap().len(), bytes.len(), "it is written anew");
    }
    // Others could have written it: it is not believed.
    fs::write(&file, &flipped).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(list(&home), right);
    let elsewhere = home.path().join("elsewhere");
    fs::rename(&file, &elsewhere).unwrap();
    symlink(&elsewhere, &file).unwrap();
    assert_eq!(list(&home), right);
    fs::remove_file(&file).unwrap();
    finish(
        {
            let mut make = home.command("mkfifo");
            make.arg(&file);
            make
        },
        b"",
    )
    .ok();
    assert_eq!(list(&home), right, "a pipe is not waited for");
    fs::remove_file(&file).ok();
    fs::create_dir(&file).unwrap();
    assert_eq!(list(&home), right);
    fs::remove_dir(&file).unwrap();
    File::create(&file).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(list(&home), right, "a file that is too long is not read");
    assert_eq!(home.json(["doctor"])["findings"], serde_json::json!([]));
}

#[test]
fn programs_that_write_it_at_once_leave_it_whole() {
    let (home, _) = cached();
    let right = list(&home);
    for _ in 0..3 {
        fs::remove_file(cache(&home)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| assert_eq!(list(&home), right));
            }
        });
        assert!(cache(&home).exists());
        assert_eq!(list(&home), right);
    }
    let left = fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().ends_with(".tmp")).count(), 0);
}

#[test]
fn a_store_that_cannot_be_written_is_listed_and_few_jobs_make_no_file() {
    let few = Home::new();
    few.start(["true"]);
    settle(&few);
    list(&few);
    assert_eq!(fs::metadata(cache(&few)).unwrap_err().kind(), ErrorKind::NotFound);
    let Some(disk) = SmallDisk::mount("16m") else { return };
    let home = Home::in_dir(disk.path());
    many(&home);
    settle(&home);
    disk.remount("ro");
    let before = list(&home);
    assert!(!cache(&home).exists());
    disk.remount("rw");
    assert_eq!(list(&home), before);
    assert!(cache(&home).exists());
    disk.remount("ro");
    assert_eq!(list(&home), before);
    disk.remount("rw");
}
