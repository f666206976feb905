//! Many front ends at the same time.
//!
//! Proves S0-155 (jobs are started and ended reliably, by any number of front ends) and, for front ends that die or stop
//! half-way, S3-95 (what is on the disk is enough for the next one).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use outlive_tests::{Home, LIMIT, end_within, is_running, pid, signal, soon, until};
use serde_json::Value;

/// Asserts that the store is as it should be.
fn assert_sound(home: &Home) {
    assert_eq!(findings(home), [] as [Value; 0]);
    assert_usable(home);
}

/// As [`assert_sound`], after front ends were killed: what they left is told once it is a minute old, and where all takes long it is.
fn assert_sound_but_for_leftovers(home: &Home) {
    let mut findings = findings(home);
    findings.retain(|finding| finding["problem"] != "the start or removal of a job was cut short");
    assert_eq!(findings, [] as [Value; 0]);
    assert_usable(home);
}

fn findings(home: &Home) -> Vec<Value> {
    let examined = home.run(["--json", "doctor"]).text();
    let mut examined: Value = serde_json::from_str(&examined).unwrap();
    examined["findings"].as_array_mut().map(std::mem::take).unwrap()
}

fn assert_usable(home: &Home) {
    let listed = home.run(["--json", "list"]).ok();
    assert_eq!(listed.error(), "", "a job is damaged");
    for job in listed.json().as_array().unwrap() {
        let id = job["job"].as_str().unwrap();
        assert_eq!(home.show(id)["job"], *id);
        home.run(["logs", id]).ok();
    }
    assert_eq!(fs::read_dir(home.store().join("quarantine")).unwrap().count(), 0);
    let next = home.start(["echo", "well"]);
    assert_eq!(home.wait(&next)["status"], "completed");
    assert_eq!(home.logs(&next), b"well\n");
}

fn exit_codes(children: Vec<Child>) -> Vec<i32> {
    children.into_iter().map(|mut child| end_within(&mut child, LIMIT).expect("it ends")).collect()
}

/// One of many front ends: starts, lists, ends and removes jobs, its own and those of all others.
const MEDDLE: &str = r#"
    end=$((SECONDS + 4)); n=0
    fail() { echo "$me: $*" >&2; exit 1; }
    while [ $SECONDS -lt $end ]; do
        n=$((n + 1))
        outlive run --name "job$((n % 5))" "echo $me $n; sleep 0.0$((RANDOM % 9)); exit $((n % 3))" >/dev/null 2>err.$me
        code=$?; [ $code = 0 ] || [ $code = 5 ] || fail "run: $code $(cat err.$me)"
        outlive list --json >list.$me 2>err.$me || fail "list: $? $(cat err.$me)"
        [ -s err.$me ] && fail "list says: $(cat err.$me)"
        id=$(grep -o '"job":"[^"]*"' list.$me | cut -d'"' -f4 | shuf -n 1)
        for verb in "kill --force" "logs -n 1" "show" "remove" "wait --timeout 10ms"; do
            outlive $verb "$id" >/dev/null 2>err.$me; code=$?
            case $verb:$code in
                *:0 | *:3 | wait*:4) ;;
                remove*:1) grep -q 'still live' err.$me || fail "$verb $id: $(cat err.$me)" ;;
                *) [ -z "$id" ] || fail "$verb $id: $code $(cat err.$me)" ;;
            esac
        done
        [ $((n % 10)) = 0 ] && { outlive gc >/dev/null || fail gc; }
    done
    echo "$n rounds"
"#;

#[test]
fn many_who_start_end_list_and_remove_the_same_jobs_corrupt_nothing() {
    let home = Home::new();
    home.configure("[limits]\nsession = 30\n[retention]\nkeep = \"0s\"\n");
    let meddle = |number: usize| {
        let mut command = home.command("bash");
        command.args(["-c", MEDDLE]).env("me", number.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let meddlers: Vec<Child> = (0..8).map(meddle).collect();
    let mut rounds = 0;
    for meddler in meddlers {
        let output = meddler.wait_with_output().unwrap();
        let (said, complained) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{complained}");
        rounds += said.split(' ').next().unwrap().parse::<u32>().unwrap();
    }
    assert!(rounds >= 8, "{rounds} rounds prove nothing");
    assert_sound(&home);
    until("all short jobs are over", || home.json(["list", "--live"]) == Value::Array(Vec::new()));
    until("no process is left", || home.processes().is_empty());
    for job in home.json(["list"]).as_array().unwrap() {
        let (status, code) = (job["status"].as_str().unwrap(), &job["exit_code"]);
        let is_right = matches!(
            (status, code.as_i64()),
            ("completed", Some(0)) | ("failed", Some(1..=2)) | ("killed", _)
        );
        assert!(is_right, "{job}");
    }
    home.run(["gc"]).ok();
    assert_eq!(fs::read_dir(home.store().join("live")).unwrap().count(), 0);
}

#[test]
fn several_who_remove_one_job_at_the_same_time_all_find_it_gone() {
    let home = Home::new();
    for _ in 0..10 {
        let job = home.start(["echo", "once"]);
        home.wait(&job);
        until("it is closed", || home.show(&job)["closed_at"].is_string());
        let remove = || home.outlive(["remove", &job]).stderr(Stdio::null()).spawn().unwrap();
        let codes = exit_codes((0..4).map(|_| remove()).collect());
        assert!(codes.contains(&0) && codes.iter().all(|code| [0, 3].contains(code)), "{codes:?}");
        assert!(!home.job_dir(&job).exists());
    }
    assert_eq!(fs::read_dir(home.store().join("new")).unwrap().count(), 0);
    assert_sound(&home);
}

#[test]
fn many_who_make_the_store_at_the_same_time_share_one() {
    let home = Home::new();
    let run = || home.outlive(["run", "--", "true"]).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(exit_codes((0..16).map(|_| run()).collect()), [0; 16]);
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 16);
    assert_sound(&home);
}

#[test]
fn the_limit_is_kept_when_many_start_at_the_same_time() {
    let home = Home::new();
    home.configure("[limits]\nsession = 5\n");
    let run = || {
        let mut command = home.outlive(["run", "--", "sleep", "300"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let codes = exit_codes((0..16).map(|_| run()).collect());
    let count = |wanted: i32| codes.iter().filter(|&&code| code == wanted).count();
    assert_eq!((count(0), count(5)), (5, 11), "{codes:?}");
    assert_eq!(home.json(["list", "--live"]).as_array().unwrap().len(), 5);
}

/// Runs what a front end does, all of it with a job within this time, while the test holds the store's lock, which each verb waits
/// for one second at most.
fn assert_not_held_up(home: &Home) {
    soon("each", Duration::from_secs(20), || {
        let job = home.start(["sleep", "300"]);
        for verb in ["show", "logs", "kill", "wait", "remove"] {
            // A killed job was not successful, says `wait`.
            home.run([verb, &job]).code(if verb == "wait" { 7 } else { 0 });
        }
        for verb in ["list", "gc", "doctor"] {
            home.run([verb]).ok();
        }
    });
}

#[test]
fn a_held_store_lock_delays_others_by_a_bounded_time_only() {
    let home = Home::new();
    home.wait(&home.start(["true"]));
    let lock = File::open(home.store().join("lock")).unwrap();
    assert!(outlive_sys::lock::try_lock(lock.as_fd(), outlive_sys::lock::Kind::Exclusive).unwrap());
    assert_not_held_up(&home);
    drop(lock);
    assert_sound(&home);
}

#[test]
fn a_process_that_is_stopped_with_the_store_lock_delays_others_by_a_bounded_time_only() {
    let home = Home::new();
    home.wait(&home.start(["true"]));
    let lock = home.store().join("lock");
    let mut holder = home.command("flock");
    let mut holder = holder
        .arg(&lock)
        .args(["sh", "-c", "echo held; exec sleep 300"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut said).unwrap();
    let is_free = || {
        let file = File::open(&lock).unwrap();
        outlive_sys::lock::try_lock(&file, outlive_sys::lock::Kind::Exclusive).unwrap()
    };
    assert!(!is_free());
    signal(i32::try_from(holder.id()).unwrap(), "STOP");
    assert_not_held_up(&home);
    assert!(!is_free(), "nobody was in the way");
    for process in home.processes() {
        signal(process, "KILL");
    }
    holder.wait().unwrap();
    until("the lock is free", is_free);
    assert_sound(&home);
}

/// A small generator of pseudo-random numbers; the seed is printed so that a run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Starts a front end and kills it after a random time, at most a little longer than it needs.
fn start_and_kill(mut command: Command, random: &mut Random, needed: Duration) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let most = u64::try_from(needed.as_micros()).unwrap() * 3 / 2;
    // The time is the fault that is injected, not a way to wait for something.
    std::thread::sleep(Duration::from_micros(random.below(most.max(1))));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn front_ends_killed_in_the_midst_of_starting_leave_whole_jobs_or_none() {
    let home = Home::new();
    home.configure("[limits]\nsession = 200\n");
    let before = Instant::now();
    home.run(["kill", "--force", &home.start(["sleep", "300"])]).ok();
    let needed = before.elapsed() / 2;
    let seed = u64::from(std::process::id()) << 20 | 1;
    outlive_tests::report(&format!("seed {seed}, a start needs about {needed:?}"));
    let mut random = Random(seed);
    for _ in 0..100 {
        start_and_kill(home.outlive(["run", "--", "sleep", "300"]), &mut random, needed);
    }

    let settled = || home.json(["list"]).as_array().unwrap().iter().all(|job| job["status"] != "starting");
    until("every keeper knows what became of its starter", settled);
    for job in home.json(["list"]).as_array().unwrap() {
        match job["status"].as_str().unwrap() {
            "running" => assert!(is_running(pid(job, "pid")), "{job}"),
            "failed" => assert_eq!(job["cause"], "never_started", "{job}"),
            "killed" => {}
            _ => panic!("{job}"),
        }
        let id = job["job"].as_str().unwrap();
        assert!(home.run(["--json", "show", id]).ok().json()["argv"].is_array());
    }
    let running = home.json(["list", "--live"]).as_array().unwrap().len();
    until("there is a keeper for each running job, and no other", || home.keepers().len() == running);
    until("there is a command for each keeper, and no other", || home.processes().len() == 2 * running);
    assert_sound_but_for_leftovers(&home);

    // What the dead left behind counts for nothing and goes in time.
    home.run(["gc"]).ok();
    let marks = fs::read_dir(home.store().join("live")).unwrap().count();
    assert_eq!(marks, running, "a mark of nobody counts against the limit");
}

#[test]
fn front_ends_killed_in_the_midst_of_removing_leave_whole_jobs_or_none() {
    let home = Home::new();
    let jobs: Vec<String> = (0..40).map(|_| home.start(["seq", "100"])).collect();
    for job in &jobs {
        home.wait(job);
    }
    let before = Instant::now();
    home.run(["remove", &jobs[0]]).ok();
    let needed = before.elapsed();
    let seed = u64::from(std::process::id()) << 20 | 1;
    outlive_tests::report(&format!("seed {seed}, a removal needs about {needed:?}"));
    let mut random = Random(seed);
    for job in &jobs[1..] {
        start_and_kill(home.outlive(["remove", job]), &mut random, needed);
    }
    let all: String = (1..=100).map(|number| format!("{number}\n")).collect();
    for job in home.json(["list"]).as_array().unwrap() {
        assert_eq!((&job["status"], &job["exit_code"]), (&"completed".into(), &0.into()));
        assert_eq!(home.logs(job["job"].as_str().unwrap()), all.as_bytes());
    }
    assert_sound_but_for_leftovers(&home);
}
