//! State of this version is read by the next, an old keeper is controlled by a new front end, and the binaries may go.
//!
//! Proves invariant 10 of the design. The bytes of the control protocol are written out here: a change of them in the code
//! breaks old keepers, and this test.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must stop loudly")]

mod broken;
mod in_place;
mod many;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use outlive_core::outcome::{CLOSED_AT, Cause, Closed, OUTCOME_AT, Outcome, Totals, WaitStatus};
use outlive_core::timestamp::Timestamp;
use outlive_sys::identity::ProcessId;
use outlive_sys::lock;
use outlive_tests::{Home, binary, finish, is_running, pid, until, use_fixture};
use serde_json::{Value, json};

/// Returns a frame: length, type, fields.
fn frame(kind: u8, fields: &[&[u8]]) -> Vec<u8> {
    let contents = [&[kind][..], &fields.concat()].concat();
    [&u32::try_from(contents.len()).unwrap().to_le_bytes()[..], &contents].concat()
}

/// Returns a text or bytes as a field: length and bytes.
fn field(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes()[..], bytes].concat()
}

/// Reads a frame; returns its type and its fields.
fn receive(stream: &mut UnixStream) -> Option<(u8, Vec<u8>)> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut contents = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut contents).ok()?;
    Some((contents[0], contents[1..].to_vec()))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_front_end_of_the_first_version_controls_a_keeper_of_this_one() {
    let home = Home::new();
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", "read word; echo got $word; sleep 300"]);
    let mut stream = UnixStream::connect(home.job_dir(&job).join("ctl")).unwrap();
    let (kind, hello) = receive(&mut stream).unwrap();
    assert_eq!(kind, 1);
    assert!(word(&hello, 0) <= 1 && word(&hello, 4) >= 1, "version 1 is no longer spoken");
    assert_eq!(word(&hello, 8), 16, "the nonce");

    stream.write_all(&frame(18, &[&field(b"this\n")])).unwrap();
    assert_eq!(receive(&mut stream).unwrap().0, 65);
    home.wait_for_output(&job, "got this");
    // An unknown request is refused with a stable word, and the conversation goes on.
    stream.write_all(&frame(63, &[b"of a later version"])).unwrap();
    let (kind, refused) = receive(&mut stream).unwrap();
    assert_eq!((kind, &refused[4..19]), (66, &b"unknown_request"[..]));
    // Pause, resume, a timeout lifted, then a kill with a field that a later version added.
    for request in [21, 22, 23] {
        stream.write_all(&frame(request, &[])).unwrap();
        assert_eq!(receive(&mut stream).unwrap().0, 65);
    }
    let (signal, grace) = (15i32.to_le_bytes(), [&[1][..], &500u64.to_le_bytes()].concat());
    stream.write_all(&frame(17, &[&signal, &grace, &field(b"an old one"), b"later"])).unwrap();
    let (kind, signalled) = receive(&mut stream).unwrap();
    assert_eq!((kind, word(&signalled, 4)), (64, 0), "nobody is left");
    assert!(word(&signalled, 0) >= 1);
    let ended = home.wait(&job);
    assert_eq!(ended["status"], "killed");
    assert!(ended["reason"].as_str().unwrap().contains("an old one"), "{ended}");
}

/// A keeper of another version: it holds the locks of a job and answers in the bytes given here.
struct OldKeeper {
    home: Home,
    job: String,
    command: Child,
    answers: Option<JoinHandle<Vec<u8>>>,
}

/// What such a keeper says first.
#[derive(Clone, Copy)]
struct Hello {
    min: u32,
    max: u32,
    later: &'static [u8],
}

impl OldKeeper {
    fn new(hello: Hello) -> Self {
        let home = Home::new();
        let job = home.start_line("echo recorded");
        home.wait(&job);
        until("its keeper is gone", || home.keepers().is_empty());
        let dir = home.job_dir(&job);
        // The job runs again, with a keeper that is not ours.
        let mut sleep = Command::new("sleep");
        let command = sleep.arg("300").stdin(Stdio::null()).env_clear().spawn().unwrap();
        let id = ProcessId::of(i32::try_from(command.id()).unwrap()).unwrap();
        let mut meta: Value = serde_json::from_slice(&fs::read(dir.join("meta.json")).unwrap()).unwrap();
        meta["status"] = json!("running");
        meta["command"] = json!({"pid": id.pid, "start_time": id.start_time});
        meta["keeper"] = meta["command"].clone();
        meta["protocol"] = json!({"min": hello.min, "max": hello.max});
        (meta["outcome"], meta["closed"], meta["containment"]) = (json!(null), json!(null), json!(null));
        fs::write(dir.join("meta.json"), meta.to_string()).unwrap();
        fs::write(dir.join("outcome"), [0; 4096]).unwrap();
        let held = ["lock", "done"].map(|name| {
            let file = File::open(dir.join(name)).unwrap();
            assert!(lock::try_lock(&file, lock::Kind::Exclusive).unwrap());
            file
        });
        fs::remove_file(dir.join("ctl")).ok();
        let listener = UnixListener::bind(dir.join("ctl")).unwrap();
        let nonce = meta["nonce"].as_str().unwrap().to_owned();
        let nonce: Vec<u8> =
            (0..16).map(|at| u8::from_str_radix(&nonce[2 * at..2 * at + 2], 16).unwrap()).collect();
        let greeting =
            frame(1, &[&hello.min.to_le_bytes(), &hello.max.to_le_bytes(), &field(&nonce), hello.later]);
        let answers = std::thread::spawn(move || answer(&listener, &greeting, &dir, id, held));
        Self { home, job, command, answers: Some(answers) }
    }
}

/// Answers as version 1 did when it knew input, its end, and kill; returns what was written to the command.
fn answer(listener: &UnixListener, hello: &[u8], dir: &Path, command: ProcessId, held: [File; 2]) -> Vec<u8> {
    let mut written = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(hello).unwrap();
        while let Some((kind, fields)) = receive(&mut stream) {
            let reply = match kind {
                17 => frame(64, &[&1u32.to_le_bytes(), &0u32.to_le_bytes()]),
                18 => {
                    // What later front ends add after the text is not for it.
                    let length = u32::from_le_bytes(fields[..4].try_into().unwrap()) as usize;
                    written.extend_from_slice(&fields[4..4 + length]);
                    frame(65, &[])
                }
                19 => frame(65, &[]),
                _ => frame(66, &[&field(b"unknown_request"), &field(b"the message type is not known")]),
            };
            if kind == 17 {
                end(dir, command, &fields);
                held.iter().for_each(|file| lock::unlock(file).unwrap());
                stream.write_all(&reply).unwrap();
                return written;
            }
            stream.write_all(&reply).unwrap();
        }
    }
}

/// Ends the command and writes the outcome.
fn end(dir: &Path, command: ProcessId, fields: &[u8]) {
    let handle = outlive_sys::identity::Handle::open(command).unwrap();
    let signal =
        outlive_sys::signal::Signal::from_number(i32::from_le_bytes(fields[..4].try_into().unwrap()));
    handle.signal(signal.unwrap()).unwrap();
    let by = String::from_utf8(fields[17..].to_vec()).unwrap();
    let ended = Timestamp(1_700_000_000_000_000);
    let outcome = Outcome {
        wait_status: WaitStatus::Signaled { signal: 15, core: false },
        cause: Cause::Kill { by },
        ended,
        runtime_ms: Some(5),
        usage: None,
        totals: Totals::default(),
    };
    let file = File::options().write(true).open(dir.join("outcome")).unwrap();
    file.write_all_at(&outcome.to_slot(), OUTCOME_AT).unwrap();
    file.write_all_at(&Closed { closed: ended, usage: None, totals: Totals::default() }.to_slot(), CLOSED_AT)
        .unwrap();
}

#[test]
fn a_keeper_of_an_earlier_version_is_listed_read_written_to_and_killed() {
    for hello in [Hello { min: 1, max: 1, later: b"" }, Hello { min: 1, max: 9, later: b"more that is new" }]
    {
        let mut old = OldKeeper::new(hello);
        let (home, job) = (&old.home, &old.job);
        let listed = home.json(["list", "--live"]);
        assert_eq!((&listed[0]["job"], &listed[0]["status"]), (&job.as_str().into(), &"running".into()));
        assert_eq!(home.logs(job), b"recorded\n");
        home.run(["send", job, "a word"]).ok();
        home.run(["send", "--eof", job]).ok();
        // It is named, and left as it is.
        let said = home.json(["upgrade"]);
        assert_eq!(
            (&said["jobs"][0]["job"], &said["jobs"][0]["result"]),
            (&job.as_str().into(), &"too_old".into())
        );
        // A request that it does not know is reported in words, and nothing breaks.
        let refused = home.run(["--json", "pause", job]).code(1).error_json()["error"].take();
        assert_eq!(refused["code"], "too_old", "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("earlier version"), "{refused}");
        assert!(refused["hint"].as_str().unwrap().contains("outlive kill"), "{refused}");
        let killed = home.json(["kill", job])[0].take();
        assert_eq!((&killed["status"], &killed["signalled"]), (&"killed".into(), &1.into()), "{killed}");
        assert_eq!(old.answers.take().unwrap().join().unwrap(), b"a word\n");
        assert!(home.show(job)["reason"].as_str().unwrap().contains("outlive kill"));
        old.command.wait().unwrap();
    }
}

#[test]
fn a_keeper_that_speaks_nothing_common_is_read_and_the_reason_is_told() {
    let mut old = OldKeeper::new(Hello { min: 5, max: 7, later: b"" });
    let (home, job) = (&old.home, &old.job);
    assert_eq!(home.show(job)["status"], "running");
    assert_eq!(home.logs(job), b"recorded\n");
    let refused = home.run(["--json", "kill", job]).code(1).error_json()["error"].take();
    assert_eq!(refused["code"], "version", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("control protocol 5 to 7"), "{refused}");
    // It ends when a front end of its version asks it to.
    let mut stream = UnixStream::connect(home.job_dir(job).join("ctl")).unwrap();
    receive(&mut stream).unwrap();
    let grace = [&[0][..], &0u64.to_le_bytes()].concat();
    stream.write_all(&frame(17, &[&15i32.to_le_bytes(), &grace, &field(b"its own")])).unwrap();
    assert_eq!(receive(&mut stream).unwrap().0, 64);
    old.answers.take().unwrap().join().unwrap();
    old.command.wait().unwrap();
}

#[test]
fn the_store_of_format_1_is_read() {
    let home = Home::new();
    use_fixture(&home, "store-1");
    home.configure("[retention]\nkeep = \"36500d\"\nmax_age = \"36500d\"\n");

    let listed = home.run(["--json", "list"]).ok();
    assert!(listed.error().contains("damaged-0007 is damaged"), "{}", listed.error());
    let facts: Vec<(String, String, Value, Value)> = listed
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            let text = |field: &str| job[field].as_str().unwrap().to_owned();
            (text("job"), text("status"), job["exit_code"].clone(), job["signal"].clone())
        })
        .collect();
    let fact = |job: &str, status: &str, code: Value, signal: Value| {
        (job.to_owned(), status.to_owned(), code, signal)
    };
    let expected = [
        fact("well-0001", "completed", json!(0), json!(null)),
        fact("badly-0002", "failed", json!(7), json!(null)),
        fact("ended-0003", "killed", json!(null), json!("SIGTERM")),
        fact("late-0004", "timed_out", json!(null), json!("SIGTERM")),
        fact("gap-0005", "completed", json!(0), json!(null)),
        fact("never-0006", "failed", json!(null), json!(null)),
    ];
    assert_eq!(facts, expected);

    assert_eq!(home.logs("well-0001"), b"hello\nno newline");
    assert_eq!(home.logs("badly-0002"), b"out\nerr\nmore\n");
    assert_eq!(home.run(["logs", "--stream", "stderr", "badly-0002"]).ok().stdout, b"err\n");
    assert_eq!(home.logs("gap-0005"), b"kept\ntoo\n");
    let all = home.run(["--json", "logs", "gap-0005"]).ok();
    assert!(
        all.text().contains("\"from\":0") || all.error().contains("15"),
        "{} {}",
        all.text(),
        all.error()
    );
    let well = home.show("well");
    assert_eq!((&well["env_set"]["GREETING"], &well["cwd"]), (&"***".into(), &"/fixture".into()));
    assert_eq!(well["output"]["lines"], 1);
    assert!(home.show("ended")["reason"].as_str().unwrap().contains("killed by outlive kill"));
    assert!(home.show("never")["reason"].as_str().unwrap().contains("/nowhere/program"));
    assert_eq!(home.wait("badly")["runtime_ms"], home.show("badly")["runtime_ms"]);

    let events = home.run(["events", "--json"]).ok().text();
    let ends = events.lines().filter(|line| line.contains("\"exited\"")).count();
    assert!(ends >= 6, "{events}");

    let report = home.run(["--json", "doctor", "--fix"]).ok().json();
    assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
    assert!(home.store().join("quarantine/damaged-0007.1").is_dir());
    // It is a store like any other: the next job starts in it, and old ones go.
    let job = home.start(["echo", "next"]);
    assert_eq!(home.wait(&job)["status"], "completed");
    assert_eq!(home.json(["kill", "badly"])[0]["already_ended"], true);
    home.run(["remove", "well", "badly", "ended", "late", "gap", "never"]).ok();
    assert_eq!(home.json(["list"]).as_array().unwrap().len(), 1);
}

/// Prints numbered lines on both streams until there is a file `go`, says how many there were, and exits with 7.
const PRINTING: &str = "n=0; until [ -e go ]; do echo o$n; echo e$n >&2; n=$((n+1)); sleep 0.01; done; \
    echo $n > count-$OUTLIVE_JOB; exit 7";

/// Lets such jobs end, and asserts that nothing they printed is lost.
#[track_caller]
fn assert_ends_whole(home: &Home, jobs: &[String]) {
    fs::write(home.path().join("go"), "").unwrap();
    for job in jobs {
        home.wait(job);
        let count = fs::read_to_string(home.path().join(format!("count-{job}"))).unwrap();
        crate::guard::assert_whole(home, job, count.trim().parse().unwrap());
    }
    fs::remove_file(home.path().join("go")).unwrap();
}

/// Lets every user execute a file.
fn make_executable(path: &Path) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// Copies the binaries to a place of their own.
fn installed(home: &Home) -> PathBuf {
    let place = home.path().join("bin");
    fs::create_dir_all(&place).unwrap();
    for name in ["outlive", "outlive-keeper"] {
        // Not over a file that is being executed.
        fs::remove_file(place.join(name)).ok();
        fs::copy(binary(name), place.join(name)).unwrap();
    }
    place
}

#[test]
fn binaries_that_are_replaced_or_deleted_change_nothing_for_running_jobs() {
    let home = Home::new();
    let place = installed(&home);
    let run = |arguments: &[&str]| {
        let mut command = home.command(place.join("outlive"));
        command.args(arguments);
        finish(command, b"")
    };
    let line =
        "read word; echo got $word; until [ -e go-$OUTLIVE_JOB ]; do sleep 0.01; done; echo done; exit 6";
    let start = || run(&["run", "--stdin", "open", "--", "sh", "-c", line]).ok().text().trim().to_owned();
    let (ends, is_killed) = (start(), start());
    let keeper = pid(&home.show(&ends), "keeper_pid");
    let executed = fs::read_link(format!("/proc/{keeper}/exe")).unwrap();
    assert!(executed.starts_with(&place), "{executed:?}");

    fs::remove_dir_all(&place).unwrap();
    assert!(is_running(keeper));
    // With a front end of another place, they are all there.
    for job in [&ends, &is_killed] {
        assert_eq!(home.show(job)["status"], "running");
        home.run(["send", job, "this"]).ok();
        home.wait_for_output(job, "got this");
    }
    // With new files in the old place, too.
    installed(&home);
    assert_eq!(run(&["logs", &is_killed]).ok().text(), "got this\n");
    let killed = run(&["--json", "kill", &is_killed]).ok().json();
    assert_eq!(killed[0]["status"], "killed");
    fs::write(home.path().join(format!("go-{ends}")), "").unwrap();
    let ended = run(&["--json", "wait", &ends]).code(7).json()["jobs"].take();
    assert_eq!((&ended[0]["status"], &ended[0]["exit_code"]), (&"failed".into(), &6.into()));
    assert_eq!(run(&["logs", &ends]).ok().text(), "got this\ndone\n");
    assert_eq!(run(&["run", "--wait", "echo new"]).ok().text(), "new\n");
}

#[test]
fn a_front_end_whose_keeper_is_gone_is_its_own() {
    let home = Home::new();
    let place = installed(&home);
    fs::remove_file(place.join("outlive-keeper")).unwrap();
    let mut command = home.command(place.join("outlive"));
    command.args(["run", "--wait", "echo by itself; readlink /proc/$PPID/exe"]);
    let said = finish(command, b"").ok().text();
    assert_eq!(said, format!("by itself\n{}\n", place.join("outlive").display()));
}
