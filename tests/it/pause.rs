//! A paused job stands still, wherever its processes are, and goes on as if nothing had been; at every containment level that
//! the machine has, by root and by an ordinary user.
//!
//! Proves S0-72 and S0-75 for a paused job (it can be ended) and S2-58 (its deadline holds).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive::Level;
use outlive_tests::{Home, everywhere, millis, registered, until, with_enough_time};

/// So long nothing may move; the counters count a thousand times a second.
const STILL: Duration = Duration::from_millis(100);

/// A job of three that count: its main process, a child, and one in a session of its own.
struct Counting<'a> {
    home: &'a Home,
    job: String,
    counters: Vec<PathBuf>,
    what: String,
}

impl<'a> Counting<'a> {
    /// Starts it; `None` if it has ended before all of them count.
    fn start(home: &'a Home, level: Level, options: &[&str]) -> Option<Self> {
        let what = format!("{} as {:?}", level.word(), home.user());
        let place = tempfile_in(home);
        let counters = ["main", "child", "session"].map(|name| place.join(name));
        // Where a bare process group is all there is, no signal reaches a process that has left it.
        let setsid = if level == Level::Group { "" } else { "setsid" };
        let line = "\"$0\" \"$2\" counts & $4 \"$0\" \"$3\" counts & exec \"$0\" \"$1\" counts";
        let mut argv = vec!["sh".to_owned(), "-c".to_owned(), line.to_owned()];
        argv.push(home.program("zoo").display().to_string());
        argv.extend(counters.iter().map(|counter| counter.display().to_string()));
        argv.push(setsid.to_owned());
        // A grace that no test waits for: a process that does not handle the signal is not gone in time.
        let options = [&["--containment", level.word(), "--grace", "1h"], options].concat();
        let job = home.start_with(&options, argv);
        let counting = Self { home, job, counters: counters.to_vec(), what };
        let all_count = || counting.counters.iter().all(|counter| count(counter) > 0);
        let has_ended = || home.show(&counting.job)["ended_at"].is_string();
        until("all count, or it has ended", || all_count() || has_ended());
        all_count().then_some(counting)
    }

    fn counts(&self) -> Vec<u64> {
        self.counters.iter().map(|counter| count(counter)).collect()
    }

    /// Pauses it and asserts that from then on no counter grows.
    fn pause(&self) {
        self.home.run(["pause", &self.job]).ok();
        self.assert_still();
    }

    fn assert_still(&self) {
        let (before, began) = (self.counts(), Instant::now());
        until("it was looked at for a while", || began.elapsed() >= STILL);
        assert_eq!(self.counts(), before, "{}: it goes on", self.what);
    }

    fn resume(&self) {
        let before = self.counts();
        self.home.run(["resume", &self.job]).ok();
        let goes_on = || self.counts().iter().zip(&before).all(|(now, before)| now > before);
        until(&format!("{}: all go on", self.what), goes_on);
    }

    fn is_gone(&self) -> bool {
        self.counters.iter().flat_map(|counter| registered(counter)).all(|process| !process.is_alive())
    }
}

fn tempfile_in(home: &Home) -> PathBuf {
    let number = std::fs::read_dir(home.path()).unwrap().count();
    home.make_dir(&format!("counters-{number}"))
}

fn count(counter: &Path) -> u64 {
    let text = std::fs::read_to_string(counter.with_extension("count")).unwrap_or_default();
    text.parse().unwrap_or(0)
}

#[test]
fn a_paused_job_stands_still_and_goes_on_when_resumed() {
    everywhere(|home, level| {
        let counting = Counting::start(home, level, &[]).unwrap();
        // Resuming what goes on, and pausing what stands still, is no failure.
        counting.resume();
        counting.pause();
        counting.pause();
        let shown = home.show(&counting.job);
        assert_eq!((&shown["status"], &shown["paused"]), (&"running".into(), &true.into()), "{shown}");
        counting.resume();
        assert_eq!(home.show(&counting.job)["paused"], false, "{}", counting.what);
        counting.pause();
        counting.resume();
        home.run(["kill", "--force", &counting.job]).ok();
        assert!(counting.is_gone(), "{}", counting.what);
        home.run(["pause", &counting.job]).code(1);
        home.run(["resume", &counting.job]).code(1);
    });
}

#[test]
fn a_paused_job_can_be_killed() {
    everywhere(|home, level| {
        for options in [["--force"].as_slice(), &[]] {
            let counting = Counting::start(home, level, &[]).unwrap();
            counting.pause();
            let killed = home.json([&["kill"], options, &[counting.job.as_str()]].concat())[0].take();
            assert!(counting.is_gone(), "{}: {killed}", counting.what);
            let shown = home.show(&counting.job);
            assert_eq!((&shown["status"], &shown["cause"]), (&"killed".into(), &"kill".into()), "{shown}");
            // Without force it was asked first, and handled the signal.
            let signal = if options.is_empty() { "SIGTERM" } else { "SIGKILL" };
            assert_eq!(shown["signal"], signal, "{}", counting.what);
        }
    });
}

#[test]
fn the_deadline_of_a_paused_job_holds() {
    everywhere(|home, level| {
        with_enough_time(Duration::from_millis(700), |timeout| {
            let counting = Counting::start(home, level, &["--timeout", &millis(timeout)])?;
            // It must be paused before its time is over.
            let is_paused = home.run(["pause", &counting.job]).code == 0;
            let ended = home.wait(&counting.job);
            assert_eq!(
                (&ended["status"], &ended["signal"]),
                (&"timed_out".into(), &"SIGTERM".into()),
                "{ended}"
            );
            assert!(ended["runtime_ms"].as_u64().unwrap() >= 700, "{ended}");
            until("nothing is left", || counting.is_gone());
            is_paused.then_some(())
        });
    });
}
