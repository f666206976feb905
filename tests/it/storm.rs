//! Front ends that are killed at any moment, by the hundred, while many jobs write: nothing is lost.
//!
//! Proves of the design: `kill -9` of any front end, at any instant, loses nothing, and the next one sees everything (S0-81,
//! S3-72, S3-95, against S0-140 and S4-130). `OUTLIVE_TEST_KILLS` says how many are killed, `OUTLIVE_TEST_SEED` repeats a run
//! as far as the kernel's scheduling allows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::{Request, Store, Until};
use outlive_tests::{Home, Random, binary, counts, report, until};
use serde_json::Value;

/// The jobs that write all the time.
const WRITERS: usize = 50;

/// How many front ends are killed unless `OUTLIVE_TEST_KILLS` says otherwise.
const KILLS: u64 = 150;

/// Front ends that are killed at the same time.
const KILLERS: u64 = 4;

/// A writer's lines: every 25 ms on each stream, so that 50 writers are no load that would slow the storm.
const WRITER: [&str; 4] = ["0", "25000", "64", "11"];

/// Short jobs: a few lines and their own exit code.
const SHORT: [&str; 4] = ["20", "0", "32", "3"];

/// What is killed, and how long it may live at most where it does not end by itself.
const VERBS: [(&str, Option<Duration>); 12] = [
    ("run", None),
    ("run --wait", None),
    ("logs -f", Some(Duration::from_millis(60))),
    ("wait", Some(Duration::from_millis(60))),
    ("list", None),
    ("show", None),
    ("kill", None),
    ("send", None),
    ("remove", None),
    ("gc", None),
    ("doctor", None),
    ("events", None),
];

/// What was asked of outlive, and what it has confirmed.
#[derive(Default)]
struct Ledger {
    /// The jobs that a front end has named.
    started: HashSet<String>,
    /// The jobs whose removal was begun.
    removing: HashSet<String>,
    /// The jobs whose kill was begun.
    killing: HashSet<String>,
    /// What was sent to each writer, and whether the front end said that it was.
    sent: BTreeMap<(usize, String), bool>,
    /// How many of each verb were killed in time, and how many were too fast.
    killed: BTreeMap<&'static str, (u64, u64)>,
}

struct Storm<'a> {
    home: &'a Home,
    store: Store,
    writers: Vec<String>,
    /// How long each verb takes when it is not killed.
    needed: BTreeMap<&'static str, Duration>,
    ledger: Mutex<Ledger>,
    number: AtomicU64,
}

impl<'a> Storm<'a> {
    fn new(home: &'a Home) -> Self {
        let store = home.open();
        let start = |_| {
            let request = Request::argv(argv(WRITER)).stdin(outlive::Stdin::Open);
            store.start(&request).unwrap().job.id().to_string()
        };
        let writers: Vec<String> = (0..WRITERS).map(start).collect();
        let ledger = Mutex::new(Ledger::default());
        Self { home, store, writers, needed: BTreeMap::new(), ledger, number: AtomicU64::new(0) }
    }

    /// Starts a short job and waits for its end.
    fn ended(&self) -> String {
        let job = self.store.start(&Request::argv(argv(SHORT))).unwrap().job;
        let waited = self.store.wait(std::slice::from_ref(&job), Until::All, Some(outlive_tests::LIMIT));
        assert!(waited.is_reached);
        job.id().to_string()
    }

    /// Starts a front end and returns it with what has to be recorded once it has confirmed.
    fn front_end(&self, verb: &'static str, random: &mut Random) -> (Child, Option<(usize, String)>) {
        let place = usize::try_from(random.below(WRITERS as u64)).unwrap();
        let writer = self.writers[place].as_str();
        let mut sent = None;
        let command = match verb {
            "run" | "run --wait" => {
                let mut command = self.home.outlive(verb.split(' '));
                command.arg("--").args(argv(SHORT));
                command
            }
            "kill" => {
                let victim = self.store.start(&Request::argv(["sleep", "300"])).unwrap().job;
                let victim = victim.id().to_string();
                self.ledger.lock().unwrap().killing.insert(victim.clone());
                self.home.outlive(["kill", &victim])
            }
            "remove" => {
                let job = self.ended();
                self.ledger.lock().unwrap().removing.insert(job.clone());
                self.home.outlive(["remove", &job])
            }
            "send" => {
                let text = self.number.fetch_add(1, Ordering::Relaxed).to_string();
                self.ledger.lock().unwrap().sent.insert((place, text.clone()), false);
                let command = self.home.outlive(["send", writer, &text]);
                sent = Some((place, text));
                command
            }
            "logs -f" => self.home.outlive(["logs", "-f", writer]),
            "wait" | "show" => self.home.outlive([verb, writer]),
            _ => self.home.outlive([verb]),
        };
        let mut command = command;
        let stdout = if verb == "run" { Stdio::piped() } else { Stdio::null() };
        (command.stdout(stdout).stderr(Stdio::null()).spawn().unwrap(), sent)
    }

    /// Starts a front end, kills it after a random time, and records what it has confirmed if it was faster.
    fn strike(&self, (verb, longest): (&'static str, Option<Duration>), random: &mut Random) -> bool {
        let (child, sent) = self.front_end(verb, random);
        let most = longest.unwrap_or_else(|| self.needed[verb] * 5 / 4);
        let micros = u64::try_from(most.as_micros()).unwrap().max(1);
        // The time is the fault that is injected, not a way to wait for something.
        std::thread::sleep(Duration::from_micros(random.below(micros)));
        let (is_killed, said) = kill(child, verb);
        let mut ledger = self.ledger.lock().unwrap();
        let tally = ledger.killed.entry(verb).or_default();
        if is_killed {
            tally.0 += 1
        } else {
            tally.1 += 1
        }
        if !is_killed && let Some(sent) = sent {
            ledger.sent.insert(sent, true);
        }
        if said.ends_with('\n') {
            ledger.started.insert(said.trim_end().to_owned());
        }
        is_killed
    }

    /// Lets every verb run to its end once, to know how long that takes.
    fn measure(&mut self) {
        let mut random = Random::new(0);
        for (verb, _) in VERBS.iter().filter(|(_, longest)| longest.is_none()) {
            let (mut child, sent) = self.front_end(verb, &mut random);
            let before = Instant::now();
            let status = outlive_tests::end_within(&mut child, outlive_tests::LIMIT).unwrap();
            assert_eq!(status, if *verb == "run --wait" { 3 } else { 0 }, "{verb}");
            self.needed.insert(verb, before.elapsed());
            if let Some(sent) = sent {
                self.ledger.lock().unwrap().sent.insert(sent, true);
            }
        }
    }

    fn rage(&self, kills: u64, seed: u64) {
        let killed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for number in 0..KILLERS {
                let killed = &killed;
                scope.spawn(move || {
                    let mut random = Random::new(seed.wrapping_add(number));
                    while killed.load(Ordering::Relaxed) < kills {
                        let verb = *random.one_of(&VERBS);
                        killed.fetch_add(u64::from(self.strike(verb, &mut random)), Ordering::Relaxed);
                    }
                });
            }
        });
    }

    /// Ends the writers through their input, and checks everything that they wrote.
    fn check_writers(&self) -> u64 {
        for writer in &self.writers {
            assert_eq!(self.home.show(writer)["status"], "running", "{writer}");
            self.home.run(["send", writer, "stop"]).ok();
        }
        let ledger = self.ledger.lock().unwrap();
        let mut lines = 0;
        for (place, writer) in self.writers.iter().enumerate() {
            let ended = self.home.wait(writer);
            assert_eq!((&ended["status"], &ended["exit_code"]), (&"failed".into(), &11.into()), "{ended}");
            assert_eq!((&ended["cause"], &ended["output"]["dropped_bytes"]), (&"natural".into(), &0.into()));
            let [out, err] = streams(self.home, &ended, 64);
            assert!(out.lines > 0 && out.lines == err.lines, "{writer}");
            let echoes: HashSet<&String> = out.echoes.iter().collect();
            assert_eq!(echoes.len(), out.echoes.len(), "{writer} was sent something twice");
            let sent = ledger.sent.iter().filter(|((of, _), _)| *of == place);
            let sent: BTreeMap<&String, bool> = sent.map(|((_, text), is_sent)| (text, *is_sent)).collect();
            assert!(echoes.iter().all(|text| sent.contains_key(text)), "{writer} read what nobody sent");
            let missing: Vec<_> =
                sent.iter().filter(|(text, is_sent)| **is_sent && !echoes.contains(*text)).collect();
            assert!(missing.is_empty(), "{writer} was never given {missing:?}");
            lines += out.lines + err.lines;
        }
        lines
    }

    /// Checks all other jobs: each is whole and right, or was never there.
    fn check_others(&self) {
        let home = self.home;
        let settled =
            || home.json(["list"]).as_array().unwrap().iter().all(|job| job["status"] != "starting");
        until("every keeper knows what became of its starter", settled);
        let ledger = self.ledger.lock().unwrap();
        let victims: Vec<Value> = home.json(["list", "--live"]).as_array().unwrap().clone();
        for victim in &victims {
            if ledger.killing.contains(id(victim)) {
                home.run(["kill", "--force", id(victim)]).ok();
            } else {
                home.wait(id(victim));
            }
        }
        let listed = home.run(["--json", "list"]).ok();
        assert_eq!(listed.error(), "", "a job is damaged");
        let mut found = HashSet::new();
        for job in listed.json().as_array().unwrap() {
            found.insert(id(job).to_owned());
            if self.writers.iter().any(|writer| writer == id(job)) {
                continue;
            }
            let facts = (job["status"].as_str().unwrap(), job["cause"].as_str().unwrap());
            let is_victim = ledger.killing.contains(id(job));
            match (facts, job["exit_code"].as_i64()) {
                (("failed", "natural"), Some(3)) if !is_victim => {
                    for stream in streams(home, job, 32) {
                        assert_eq!(stream.lines, 20, "{job}");
                    }
                }
                // Its starter died before it had asked.
                (("failed", "never_started"), None) if !ledger.started.contains(id(job)) && !is_victim => {}
                (("killed", "kill"), None) if is_victim => {}
                _ => panic!("{job}"),
            }
        }
        for job in ledger.started.iter().chain(&ledger.killing) {
            assert!(found.contains(job), "{job} is gone");
        }
    }
}

fn id(job: &Value) -> &str {
    job["job"].as_str().unwrap()
}

fn argv(arguments: [&str; 4]) -> Vec<String> {
    let program = binary("counts").display().to_string();
    std::iter::once(program).chain(arguments.map(str::to_owned)).collect()
}

/// Reads both streams of a job that ended by itself: all must be there.
fn streams(home: &Home, job: &Value, width: usize) -> [counts::Counted; 2] {
    let mut lines = 0;
    let streams = [("stdout", 'o'), ("stderr", 'e')].map(|(name, letter)| {
        let bytes = home.run(["logs", "--stream", name, id(job)]).ok().stdout;
        let counted = counts::check(&bytes, letter, width).unwrap_or_else(|error| panic!("{job}: {error}"));
        assert!(counted.is_whole, "the end of {name} is missing: {job}");
        lines += counted.lines + counted.echoes.len() as u64 + 1;
        counted
    });
    assert_eq!(job["output"]["lines"], lines, "{job}");
    streams
}

/// Kills a front end; tells whether it was still alive, and what it said.
fn kill(mut child: Child, verb: &str) -> (bool, String) {
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    match output.status.signal() {
        Some(9) => (true, said),
        Some(signal) => panic!("{verb} was ended by signal {signal}"),
        None => {
            let code = output.status.code().unwrap();
            assert_eq!(code, if verb == "run --wait" { 3 } else { 0 }, "{verb}");
            (false, said)
        }
    }
}

#[test]
fn front_ends_killed_at_random_moments_lose_no_byte_and_no_outcome() {
    let kills = std::env::var("OUTLIVE_TEST_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let seed = Random::seed();
    report(&format!("OUTLIVE_TEST_SEED={seed} repeats it"));
    let home = Home::new();
    home.configure("[limits]\nsession = 2000\ntotal = 2000\nbytes = \"4096G\"\n");
    let mut storm = Storm::new(&home);
    storm.measure();
    let before = Instant::now();
    storm.rage(kills, seed);
    let raged = before.elapsed();
    let lines = storm.check_writers();
    storm.check_others();

    until("no process is left", || home.processes().is_empty());
    assert_eq!(home.json(["doctor"])["findings"], Value::Array(Vec::new()));
    home.run(["gc"]).ok();
    assert_eq!(fs::read_dir(home.store().join("live")).unwrap().count(), 0, "a mark of nobody");
    let next = home.start(["echo", "well"]);
    assert_eq!(home.wait(&next)["status"], "completed");

    let ledger = storm.ledger.lock().unwrap();
    let killed: u64 = ledger.killed.values().map(|(killed, _)| killed).sum();
    assert!(killed >= kills);
    report(&format!(
        "{killed} front ends killed in {raged:?} (each verb: killed, too fast): {:?}; {WRITERS} writers wrote {lines} lines, none is missing",
        ledger.killed
    ));
}
