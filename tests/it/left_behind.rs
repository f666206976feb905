//! What becomes of processes that the main one leaves behind, as it was asked for; at every containment level that the machine
//! has, by root and by an ordinary user.
//!
//! Proves S0-106 (what a command leaves behind is never lost sight of) for `--survivors kill` and `kill-after`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use outlive::Level;
use outlive_sys::identity::ProcessId;
use outlive_tests::{Home, end, everywhere, lacks, until};
use serde_json::Value;

const GRACE_MS: u64 = 200;

/// A job whose main process has ended.
struct Left<'a> {
    home: &'a Home,
    job: String,
    survivors: Vec<ProcessId>,
    what: String,
}

impl<'a> Left<'a> {
    /// Leaves three behind: one that ends on TERM, one that does not, and one in a session of its own.
    fn behind(home: &'a Home, level: Level, choice: &str) -> Self {
        // Where a bare process group is all there is, no signal reaches a process that has left it.
        let setsid = if level == Level::Group { "" } else { "setsid" };
        let line = format!(
            "sleep 300 & echo $!; {setsid} sleep 300 & echo $!; (trap '' TERM; exec sleep 300) & echo $!; exit 7"
        );
        let grace = format!("{GRACE_MS}ms");
        let options = ["--containment", level.word(), "--grace", &grace, "--survivors", choice];
        let job = home.start_with(&options, ["sh", "-c", &line]);
        let what = format!("{choice} at {} as {:?}", level.word(), home.user());
        let ended = home.wait(&job);
        assert_eq!((&ended["exit_code"], &ended["cause"]), (&7.into(), &"natural".into()), "{what}");
        let pids = String::from_utf8(home.logs(&job)).unwrap();
        // A process that has ended already cannot be left behind.
        let survivors = pids.lines().filter_map(|pid| ProcessId::of(pid.parse().unwrap())).collect();
        Self { home, job, survivors, what }
    }

    fn lives(&self) -> bool {
        self.survivors.iter().any(|survivor| survivor.is_alive())
    }

    /// Waits until the job is closed; asserts that its outcome is what it was, and returns after how long they were gone.
    fn closed_after_ms(&self) -> u64 {
        until(&format!("{}: it is closed", self.what), || self.home.show(&self.job)["closed_at"].is_string());
        assert!(!self.lives(), "{}: it was closed before all were gone", self.what);
        let shown = self.home.show(&self.job);
        assert_eq!((&shown["exit_code"], &shown["cause"]), (&7.into(), &"natural".into()), "{shown}");
        // The snapshot comes right after the record.
        until("the snapshot says so", || {
            let meta = std::fs::read_to_string(self.home.job_dir(&self.job).join("meta.json")).unwrap();
            meta.contains("closed_us")
        });
        let meta = std::fs::read(self.home.job_dir(&self.job).join("meta.json")).unwrap();
        let meta: Value = serde_json::from_slice(&meta).unwrap();
        let micros = |record: &str, field: &str| meta[record][field].as_u64().unwrap();
        (micros("closed", "closed_us") - micros("outcome", "ended_us")) / 1000
    }
}

#[test]
fn survivors_that_are_not_wanted_are_ended_at_once() {
    everywhere(|home, level| {
        let left = Left::behind(home, level, "kill");
        left.closed_after_ms();
    });
}

#[test]
fn survivors_have_the_time_that_they_were_given() {
    everywhere(|home, level| {
        let left = Left::behind(home, level, "kill-after=400ms");
        let after = left.closed_after_ms();
        assert!(after >= 400, "{}: after {after} ms", left.what);
    });
}

#[test]
fn survivors_are_kept_if_nothing_else_is_said() {
    everywhere(|home, level| {
        let left = Left::behind(home, level, "keep");
        let began = Instant::now();
        until("it was looked at for a while", || began.elapsed() >= Duration::from_millis(2 * GRACE_MS));
        assert!(left.survivors.iter().all(|survivor| survivor.is_alive()), "{}", left.what);
        assert_eq!(home.show(&left.job)["lingering"], true, "{}", left.what);
        left.survivors.iter().copied().for_each(end);
        left.closed_after_ms();
    });
}

#[test]
fn control_groups_of_containers_that_are_gone_are_collected() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let meta: Value =
        serde_json::from_slice(&std::fs::read(home.job_dir(&job).join("meta.json")).unwrap()).unwrap();
    let Some(group) = meta["containment"]["group"].as_str().map(Path::new) else {
        return lacks("a control group that this user may make");
    };
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    // Named after keepers of pid namespaces that no process is in.
    let make = |name: &str, made: SystemTime| {
        let path = group.with_file_name(name);
        std::fs::create_dir_all(path.join("below")).unwrap();
        File::open(&path).unwrap().set_modified(made).unwrap();
        path
    };
    let gone = make("job-1-17-4711", long_ago);
    let fresh = make("job-2-17-4711", SystemTime::now());
    let used = make("job-3-17-4711", long_ago);
    let mut inside = Command::new("sleep").arg("300").spawn().unwrap();
    std::fs::write(used.join("below/cgroup.procs"), inside.id().to_string()).unwrap();
    home.run(["gc"]).ok();
    assert!(!gone.exists(), "it is empty and old");
    assert!(fresh.exists(), "its keeper may just have made it");
    assert!(used.join("below").exists(), "a process is in it");
    inside.kill().unwrap();
    inside.wait().unwrap();
    for path in [fresh, used] {
        until("the group is empty", || {
            std::fs::remove_dir(path.join("below")).ok();
            std::fs::remove_dir(&path).is_ok() || !path.exists()
        });
    }
}
