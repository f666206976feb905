//! What happened to jobs is told once, in order, whichever process wrote it down.
//!
//! Proves of the design: every fact is one event; a limit that is near, output that is no longer kept and an ending that a front
//! end finds out are events, once; what was given back of the file is told as a gap; what a crash left of one record costs no
//! other.

use std::collections::HashSet;

use outlive_tests::{Home, pid, signal, until};
use serde_json::Value;

fn events(home: &Home, arguments: &[&str]) -> Vec<Value> {
    let done = home.run([&["events", "--json"], arguments].concat()).ok();
    let text = done.text();
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
}

/// Reads the events once there are this many.
fn told(home: &Home, count: usize, arguments: &[&str]) -> Vec<Value> {
    until("the events are told", || events(home, arguments).len() >= count);
    events(home, arguments)
}

fn words(events: &[Value], job: &str) -> Vec<String> {
    let of_job = events.iter().filter(|event| event["job"] == job);
    of_job.map(|event| event["event"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_job_is_started_exits_and_is_removed() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "exit 7"]);
    home.run(["wait", &job]).code(7);
    let told = told(&home, 2, &[]);
    assert_eq!(words(&told, &job), ["started", "exited"]);
    assert_eq!((&told[1]["exit_code"], &told[1]["status"]), (&7.into(), &"failed".into()));
    home.run(["remove", &job]).ok();
    assert_eq!(words(&events(&home, &[]), &job), ["started", "exited", "removed"]);
}

#[test]
fn what_comes_after_a_sequence_is_told_alone() {
    let home = Home::new();
    let job = home.start(["true"]);
    home.run(["wait", &job]).ok();
    let told = told(&home, 2, &["--session", "default"]);
    let first = told[0]["seq"].to_string();
    assert_eq!(events(&home, &["--session", "default", "--since", &first]), told[1..]);
    let last = told[1]["seq"].to_string();
    assert!(events(&home, &["--session", "default", "--since", &last]).is_empty());
}

/// A record of a session's log, as a keeper would have written it.
fn record(job: &str, at_us: u64) -> String {
    let nonce = "03".repeat(16);
    format!(
        "\n{{\"event\":\"limit_near\",\"job\":\"{job}\",\"nonce\":\"{nonce}\",\"at_us\":{at_us},\"limit\":\"{at_us}\"}}\n"
    )
}

#[test]
fn a_session_comes_in_the_order_of_its_sequences_whatever_its_times_say() {
    let home = Home::new();
    home.open();
    for (session, times) in [("one", [10, 30, 20, 50]), ("two", [40, 15, 25, 60])] {
        let directory = home.store().join("sessions").join(session);
        std::fs::create_dir_all(&directory).expect("it is made");
        let records: String = times.iter().map(|&at| record(session, at)).collect();
        std::fs::write(directory.join("events"), records).expect("it is written");
    }
    let told = events(&home, &[]);
    let times: Vec<u64> = told.iter().filter_map(|event| event["limit"].as_str()?.parse().ok()).collect();
    assert_eq!(times, [10, 30, 20, 40, 15, 25, 50, 60], "each session in its order, and else by time");
    let one = ["--session", "one"];
    let told = events(&home, &one);
    assert!(told.is_sorted_by_key(|event| event["seq"].as_u64()), "{told:?}");
    for (at, event) in told.iter().enumerate() {
        let since = event["seq"].to_string();
        assert_eq!(events(&home, &[&one[..], &["--since", &since]].concat()), told[at + 1..]);
    }
}

#[test]
fn a_command_that_never_started_is_an_event_and_so_is_a_limit_that_is_near() {
    let home = Home::new();
    home.run(["run", "--", "/nowhere/program"]).code(127);
    let told = told(&home, 1, &[]);
    assert_eq!((&told[0]["event"], &told[0]["status"]), (&"exited".into(), &"failed".into()));
    let job = home.start_with(&["--pids", "4"], ["sh", "-c", "sleep 60 & sleep 60 & sleep 60 & wait"]);
    let near = || events(&home, &[]).into_iter().find(|event| event["event"] == "limit_near");
    until("the limit is near", || near().is_some());
    let near = near().unwrap_or_default();
    assert_eq!((&near["job"], &near["limit"]), (&Value::from(job), &"pids".into()));
}

#[test]
fn a_job_whose_keeper_dies_is_orphaned_once_and_lost_once() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let shown = home.show(&job);
    // Its keeper tells that it was started after the starter has its answer.
    until("it is told", || words(&events(&home, &[]), &job) == ["started"]);
    outlive_tests::kill_with_guard(pid(&shown, "keeper_pid"));
    until("it is orphaned", || home.show(&job)["orphaned"] == true);
    home.run(["list"]).ok();
    assert_eq!(words(&events(&home, &[]), &job), ["started", "orphaned"]);
    signal(pid(&shown, "pid"), "KILL");
    until("it is lost", || home.show(&job)["status"] == "lost");
    home.run(["list"]).ok();
    assert_eq!(words(&events(&home, &[]), &job), ["started", "orphaned", "lost"]);
}

#[test]
fn many_writers_at_once_lose_nothing() {
    let home = Home::new();
    let store = home.open();
    let ids: HashSet<String> = std::thread::scope(|scope| {
        let start = || {
            let started = (0..10).map(|_| store.start(&outlive::Request::argv(["true"])).expect("it starts"));
            started.map(|started| started.job.id().to_string()).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no thread fails")).collect()
    });
    let told = told(&home, 80, &[]);
    for id in &ids {
        let mut words = words(&told, id);
        words.sort();
        assert_eq!(words, ["exited", "started"], "{id}");
    }
}

fn events_file(home: &Home) -> std::path::PathBuf {
    home.store().join("sessions/default/events")
}

fn append(home: &Home, bytes: &[u8]) {
    let mut file = std::fs::OpenOptions::new().append(true).open(events_file(home)).expect("it is there");
    std::io::Write::write_all(&mut file, bytes).expect("it is written");
}

#[test]
fn an_ending_comes_with_its_outcome_and_the_end_of_the_output() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "seq 1000; echo '\x1b[31m2026 job exited'; exit 7"]);
    home.wait(&job);
    let exited = |events: &[Value]| {
        events.iter().find(|event| event["event"] == "exited").cloned().unwrap_or_default()
    };
    let told = exited(&events(&home, &[]));
    assert_eq!(
        (&told["status"], &told["exit_code"], &told["cause"]),
        (&"failed".into(), &7.into(), &"natural".into())
    );
    let tail = told["tail"].as_str().unwrap_or_default();
    assert!(tail.ends_with("1000\n2026 job exited\n") && tail.len() <= 240, "{tail}");
    let text = home.run(["events"]).ok().text();
    assert!(text.lines().any(|line| line.ends_with("exited failed, 7")), "{text}");
    assert!(text.contains("    | 2026 job exited\n"), "{text}");
    let started = events(&home, &[]).remove(0);
    assert!(started["tail"].is_null() && started["cause"].is_null(), "{started}");
    home.run(["remove", &job]).ok();
    let told = exited(&events(&home, &[]));
    assert!(told["tail"].is_null() && told["exit_code"] == 7, "{told}");
    // Another job of the same id is another job.
    assert_eq!(words(&events(&home, &[]), &job), ["started", "exited", "removed"]);
}

#[test]
fn output_that_is_no_longer_kept_is_an_event_once() {
    let home = Home::new();
    let quiet = home.start_with(&["--output-cap", "64K"], ["sh", "-c", "head -c 60000 /dev/zero"]);
    let loud = home.start_with(&["--output-cap", "64K"], ["sh", "-c", "head -c 1000000 /dev/zero"]);
    let cleared =
        home.start_with(&["--output-cap", "64K"], ["sh", "-c", "head -c 20000 /dev/zero; sleep 300"]);
    until("it has printed", || home.logs(&cleared).len() == 20000);
    home.run(["clear", &cleared]).ok();
    home.run(["kill", "--force", &cleared]).ok();
    home.wait(&quiet);
    home.wait(&loud);
    let told = events(&home, &[]);
    assert_eq!(words(&told, &loud), ["started", "output_flood", "exited"]);
    assert_eq!(words(&told, &quiet), ["started", "exited"]);
    assert_eq!(words(&told, &cleared), ["started", "exited"]);
}

#[test]
fn a_repeat_of_what_came_before_the_sequence_is_dropped() {
    let home = Home::new();
    let job = home.start(["true"]);
    home.wait(&job);
    let told = told(&home, 2, &["--session", "default"]);
    let text = std::fs::read_to_string(events_file(&home)).expect("it is there");
    let record = text.lines().find(|line| line.contains("exited")).expect("it is written");
    append(&home, format!("\n{record}\n").as_bytes());
    let last = told[1]["seq"].to_string();
    assert!(events(&home, &["--session", "default", "--since", &last]).is_empty());
    assert_eq!(events(&home, &["--session", "default"]), told);
}

#[test]
fn what_a_crash_left_of_a_record_costs_no_other_even_while_it_is_followed() {
    let home = Home::new();
    let heard = home.path().join("heard");
    let first = home.start(["true"]);
    home.wait(&first);
    let mut follower = home.outlive(["--json", "--session", "default", "events", "-f"]);
    let out = std::fs::File::create(&heard).expect("it is made");
    let mut follower = follower.stdout(out).spawn().expect("it runs");
    let text = std::fs::read_to_string(events_file(&home)).expect("it is there");
    let record = text.lines().find(|line| line.contains("exited")).expect("it is written").to_owned();
    let mut jobs = vec![first];
    for cut in [1, 2, 10, record.len() / 2, record.len() - 1] {
        append(&home, format!("\n{}", &record[..cut]).as_bytes());
        let job = home.start(["true"]);
        home.wait(&job);
        append(&home, b"\xff\x00{}\n[1]\n");
        jobs.push(job);
    }
    let followed = || -> Vec<Value> {
        let text = std::fs::read_to_string(&heard).expect("it is there");
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).expect("a JSON object a line")).collect()
    };
    until("all is heard", || followed().len() >= 2 * jobs.len());
    follower.kill().expect("it is killed");
    follower.wait().expect("it ends");
    for told in [followed(), events(&home, &["--session", "default"])] {
        assert_eq!(told.len(), 2 * jobs.len(), "{told:?}");
        for job in &jobs {
            assert_eq!(words(&told, job), ["started", "exited"]);
        }
    }
}

/// Writes over a part of the log.
fn overwrite(home: &Home, at: u64, bytes: &[u8]) {
    let file = std::fs::OpenOptions::new().write(true).open(events_file(home)).expect("it is there");
    std::os::unix::fs::FileExt::write_all_at(&file, bytes, at).expect("it is written");
}

/// As a restored store or a loss of power leaves it: longer than what is read at a time, at the end and then in the middle.
#[test]
fn zeros_or_garbage_cost_what_they_cover_and_are_told() {
    let mut random = outlive_tests::Random::new(7);
    let garbage: Vec<u8> = (0..200_000).map(|_| u8::try_from(random.below(256)).unwrap_or(0)).collect();
    let no_line: Vec<u8> = garbage.iter().map(|byte| byte | 128).collect();
    // A line of garbage that has no end yet could be one that is being written.
    let [garbage, no_line] = [garbage, no_line].map(|bytes| [&bytes[..], b"\n"].concat());
    for damage in [vec![0; 64 << 10], vec![0; 200_000], vec![0; 100], garbage, no_line] {
        let home = Home::new();
        let session = ["--session", "default"];
        let first = home.start(["true"]);
        home.wait(&first);
        told(&home, 2, &session);
        let from = std::fs::metadata(events_file(&home)).expect("it is there").len();
        append(&home, &damage);
        let gap = |events: &[Value]| events.iter().find(|event| !event["gap"].is_null()).cloned();
        let to = from + damage.len() as u64;
        let is_told = |gap: Option<Value>| {
            let gap = gap.unwrap_or_default();
            // What happens to be a newline belongs to no damage.
            let at = ["from", "to"].map(|end| gap["gap"][end].as_u64().unwrap_or_default());
            assert!(at[0].abs_diff(from) < 10 && at[1].abs_diff(to) < 10, "{gap} of {from} to {to}");
        };
        is_told(gap(&events(&home, &session)));
        let second = home.start(["true"]);
        home.wait(&second);
        let all = told(&home, 5, &session);
        is_told(gap(&all));
        // Before what came later, and after what was there: a reader that breaks off at the gap has missed nothing.
        let at = |job: &str| all.iter().rposition(|event| event["job"] == job).unwrap_or_default();
        let place = all.iter().position(|event| !event["gap"].is_null()).unwrap_or_default();
        assert!(at(&first) < place && place < at(&second), "{all:?}");
        for job in [&first, &second] {
            assert_eq!(words(&all, job), ["started", "exited"], "{} bytes", damage.len());
        }
    }
}

/// An ending that was lost with the part of the log that it stood in is told all the same.
#[test]
fn an_ending_that_zeros_cover_reaches_its_reader() {
    let home = Home::new();
    let job = home.start_with(&["--reader", "me"], ["true"]);
    home.wait(&job);
    told(&home, 2, &[]);
    let length = std::fs::metadata(events_file(&home)).expect("it is there").len();
    overwrite(&home, 0, &vec![0; usize::try_from(length).expect("it is short")]);
    append(&home, &[0; 70_000]);
    let inbox = home.json(["inbox", "--reader", "me"]);
    assert_eq!(inbox["notices"][0]["job"], job.as_str(), "{inbox}");
    assert_eq!(home.json(["inbox", "--reader", "me"])["notices"], serde_json::json!([]));
}
