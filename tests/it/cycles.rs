//! Starting and ending over and over leaves nothing behind: no process, control group, descriptor, directory or socket.
//!
//! Proves S0-124 (started and ended in quick succession) and S0-106. `OUTLIVE_TEST_CYCLES` says how often; without it, it is
//! a few hundred times.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive::{Kill, Level, Request, Store, Until};
use outlive_sys::identity::ProcessId;
use outlive_tests::{Home, User, cgroups, report, until};

/// How often, unless it is said: a few seconds' worth.
const CYCLES: usize = 300;

/// Starters that work at the same time.
const THREADS: usize = 4;

/// Of each level, every job with a multiple of this number stays in the store, so that a long run does not fill it.
const KEPT: usize = 50;

fn cycles() -> usize {
    std::env::var("OUTLIVE_TEST_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(CYCLES)
}

/// What jobs had while they lived.
#[derive(Default)]
struct Had {
    groups: Vec<PathBuf>,
    processes: Vec<ProcessId>,
    /// The ids of those that were not removed.
    kept: BTreeSet<String>,
}

impl Had {
    fn add(&mut self, other: Self) {
        self.groups.extend(other.groups);
        self.processes.extend(other.processes);
        self.kept.extend(other.kept);
    }
}

/// Starts a tree, ends it, and returns what it had.
fn cycle(home: &Home, store: &Store, level: Level, number: usize) -> Had {
    let lines = [
        "exec sleep 300",
        "sleep 300 & setsid sleep 300 & wait",
        "trap '' TERM; sleep 300 & wait; wait",
        "(setsid sleep 300 >/dev/null 2>&1 &) ; echo out; exit 0",
        "exit 3",
    ];
    // Where a bare process group is all there is, a process that leaves it is left behind.
    let line = lines[if level == Level::Group { [0, 2, 4][number % 3] } else { number % lines.len() }];
    let mut request = Request::argv(["sh", "-c", line]).cwd(home.path()).containment(level);
    request = request.grace(Duration::from_millis(50)).env("OUTLIVE_HOME", home.store());
    if number.is_multiple_of(2) {
        request = request.memory(1 << 30).pids(100).cpu(1000);
    }
    let job = store.start(&request).unwrap().job;
    let meta = job.state(store).meta.unwrap();
    let containment = meta.containment.clone().unwrap();
    assert_eq!(containment.level, level);
    let groups = [containment.group, containment.memory_group, containment.pids_group, containment.cpu_group];
    let processes = [meta.keeper, meta.command].into_iter().flatten();
    let processes = processes.map(|process| ProcessId { pid: process.pid, start_time: process.start_time });
    if number.is_multiple_of(7) {
        store.pause(&job).ok();
    }
    let kill = Kill { force: number.is_multiple_of(3), by: "a test".to_owned(), ..Kill::default() };
    let killed = store.kill(&job, &kill).unwrap();
    assert!(killed.survivors.is_empty(), "{line} at {}: {:?}", level.word(), killed.survivors);
    assert!(store.wait(std::slice::from_ref(&job), Until::All, Some(Duration::from_secs(30))).is_reached);
    let mut kept = BTreeSet::new();
    if number.is_multiple_of(KEPT) {
        kept.insert(job.id().to_string());
    } else {
        store.remove(&job).unwrap();
    }
    Had {
        groups: groups.into_iter().flatten().map(PathBuf::from).collect(),
        processes: processes.collect(),
        kept,
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn names(path: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(path).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Lists the control groups of outlive whose keeper, after which each is named, is dead.
fn ownerless(groups: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let owner = |path: &PathBuf| {
        let (pid, start_time) = path.file_name()?.to_str()?.strip_prefix("job-")?.split_once('-')?;
        Some(ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
    };
    groups.iter().filter(|path| owner(path).is_some_and(|owner| !owner.is_alive())).cloned().collect()
}

#[test]
fn cycles_of_start_and_kill_leave_nothing() {
    let home = Home::of(User::Myself);
    home.configure("[limits]\nsession = 1000\ntotal = 1000\n");
    let levels = home.levels();
    let (store, mut had) = (home.open(), Had { kept: names(&home.store().join("jobs")), ..Had::default() });
    // What is opened once, for the first job, is no leak.
    for (number, &level) in levels.iter().enumerate() {
        had.add(cycle(&home, &store, level, number));
    }
    until("all keepers are gone", || home.keepers().is_empty());
    let (fds_before, groups_before) = (descriptors(), ownerless(&cgroups()));
    let (next, count) = (AtomicUsize::new(0), cycles());
    let work = || {
        let mut had = Had::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return had;
            }
            had.add(cycle(&home, &store, levels[number % levels.len()], number / levels.len()));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().for_each(|thread| had.add(thread.join().unwrap()));
    });
    let Had { groups, processes, kept } = had;
    report(&format!("{count} cycles, {} control groups, {} processes", groups.len(), processes.len()));

    until("no process is left", || !processes.iter().any(|process| process.is_alive()));
    until("no process is left that was not known", || home.processes().is_empty());
    // The keepers are gone, and what they had made is, too.
    let left: Vec<_> = groups.iter().filter(|group| group.exists()).collect();
    assert!(left.is_empty(), "{} control groups are left: {left:?}", left.len());
    let ours = |groups: BTreeSet<PathBuf>| &groups - &groups_before;
    // Those of other tests, which run at the same time, go in time.
    until("no control group is left without its owner", || ours(ownerless(&cgroups())).is_empty());
    assert_eq!(descriptors(), fds_before, "descriptors of this process");
    assert_eq!(names(&home.store().join("new")), BTreeSet::new());
    assert_eq!(names(&home.store().join("live")), BTreeSet::new());
    assert_eq!(names(&home.store().join("jobs")), kept);
    for job in kept {
        // The name stays with the job's other files; what it named must not.
        let socket = UnixStream::connect(home.job_dir(&job).join("ctl"));
        assert_eq!(socket.err().map(|error| error.kind()), Some(ErrorKind::ConnectionRefused), "{job}");
    }
}

#[test]
fn cycles_of_an_ordinary_user_leave_nothing() {
    for user in User::all().into_iter().filter(|&user| user == User::Nobody) {
        let home = Home::of(user);
        home.configure("[limits]\nsession = 1000\ntotal = 1000\n");
        let (levels, groups_before) = (home.levels(), ownerless(&cgroups()));
        let kept = names(&home.store().join("jobs"));
        // Each takes three programs to be started, and there are only so many levels.
        let (next, count) = (AtomicUsize::new(0), cycles() / 5);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                let options = ["--containment", levels[number % levels.len()].word(), "--grace", "50ms"];
                let job = home.start_with(&options, ["sh", "-c", "trap '' TERM; sleep 300 & wait; wait"]);
                let force: &[&str] = if number.is_multiple_of(3) { &["--force"] } else { &[] };
                home.run([&["kill"], force, &[job.as_str()]].concat()).ok();
                home.run(["remove", &job]).ok();
            }
        };
        std::thread::scope(|scope| {
            (0..THREADS).for_each(|_| {
                scope.spawn(work);
            });
        });
        until("no process is left", || home.processes().is_empty());
        let ours = |groups: BTreeSet<PathBuf>| &groups - &groups_before;
        until("no control group is left without its owner", || ours(ownerless(&cgroups())).is_empty());
        assert_eq!(names(&home.store().join("new")), BTreeSet::new());
        assert_eq!(names(&home.store().join("live")), BTreeSet::new());
        assert_eq!(names(&home.store().join("jobs")), kept);
    }
}
