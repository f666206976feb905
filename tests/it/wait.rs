//! Waiting for jobs to end.
//!
//! Proves S3-8, S3-42, S3-61 and S3-87 (a caller may wait for the result), S3-68 (`lost` is a word of its own, never a success),
//! and of S3-104 that a caller can wait for all or for any of several.

use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use outlive::{Cancel, Conditions, Until, WaitFor, WaitReason};
use outlive_tests::{
    Home, LIMIT, Terminal, activity, binary, end_within, free_port, is_running, pid, signal, until,
    waits_with_open, with_enough_time,
};
use serde_json::{Value, json};

/// A job that ends with this code when its input ends.
fn start_ending_with(home: &Home, code: i32) -> String {
    home.start_with(&["--stdin", "open"], ["sh", "-c", &format!("cat; exit {code}")])
}

/// Starts a waiter, and returns when it waits.
fn waiter(home: &Home, arguments: &[&str]) -> Child {
    let mut command = home.outlive(["wait"]);
    let child =
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it is built");
    until("it waits", || waits_with_open(child.id().cast_signed(), "pidfd"));
    child
}

/// Returns the code and the text of a waiter that has been answered.
fn answer(mut child: Child) -> (Option<i32>, String) {
    let code = end_within(&mut child, LIMIT);
    let output = child.wait_with_output().expect("it has ended");
    (code, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_waiter_is_answered_when_the_job_ends() {
    let home = Home::new();
    let job = start_ending_with(&home, 7);
    let waiting = waiter(&home, &[&job]);
    home.run(["send", &job, "--eof"]).ok();
    let (code, text) = answer(waiting);
    assert_eq!(code, Some(7), "the job was not successful");
    assert!(text.starts_with(&format!("{job} failed: exited with 7 after ")), "{text}");
}

#[test]
fn the_exit_status_tells_whether_all_were_successful() {
    let home = Home::new();
    let good = home.start_line("exit 0");
    home.run(["wait", &good]).ok();
    let bad = ["exit 3", "kill -9 $$", "exec no-such-program"].map(|line| home.start_line(line));
    for job in &bad {
        home.run(["wait", job]).code(7);
        home.run(["wait", &good, job]).code(7);
    }
    let live = home.start_line("echo up; exec sleep 300");
    home.run(["wait", &live, "--match", "up"]).ok();
    home.run(["wait", "--any", &live, &good]).ok();
    home.run(["wait", "--any", &live, &bad[0]]).code(7);
    home.run(["wait", &live, &bad[0], "--timeout", "1ms"]).code(4);
    home.run(["kill", &live]).ok();
    home.run(["wait", &live]).code(7);
    // A condition that came is not enough where the job has failed since.
    home.run(["wait", &live, "--match", "up"]).code(7);
    home.run(["wait", &live, "--match", "down"]).code(6);
}

#[test]
fn a_terminal_shows_meanwhile_what_is_waited_for_and_a_pipe_nothing() {
    let home = Home::new();
    let job = home.start_line("echo first; echo the last line; exec sleep 300");
    home.wait_for_output(&job, "last");
    let mut terminal = Terminal::open(80);
    let mut child = terminal.start(&home, &[], ["outlive", "wait", &job]);
    terminal.read_until(&format!("s  {job}: the last line"));
    home.run(["kill", &job]).ok();
    assert_eq!(end_within(&mut child, LIMIT), Some(7));
    let shown = terminal.read_to_end();
    assert!(shown.contains(&format!("\r\u{1b}[K{job} killed")), "the line is gone: {shown:?}");
    let quiet = home.start(["sleep", "2"]);
    assert_eq!(home.run(["wait", &quiet]).ok().error(), "");
}

#[test]
fn one_job_gives_its_own_exit_code_on_request() {
    let home = Home::new();
    for (line, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
        let job = home.start_line(line);
        let waited = home.run(["wait", "--exit-code", &job]).code(code);
        assert!(waited.text().starts_with(&job) && waited.error().is_empty(), "{}", waited.error());
    }
    let live = home.start(["sleep", "300"]);
    home.run(["wait", "--exit-code", "--timeout", "1ms", &live]).code(4);
    for wrong in [&[live.as_str(), &live][..], &[&live, "--ready"], &[&live, "--any"], &["--group", "g"]] {
        home.run([&["wait", "--exit-code"], wrong].concat()).code(2);
    }
}

#[test]
fn what_has_ended_is_answered_at_once() {
    let home = Home::new();
    let jobs = [0, 7].map(|code| home.start_line(&format!("exit {code}")));
    for _ in 0..2 {
        let ended = home.run(["--json", "wait", "--timeout", "50s", &jobs[0], &jobs[1]]).code(7).json();
        let ended = &ended["jobs"];
        assert_eq!([&ended[0]["exit_code"], &ended[1]["exit_code"]], [&json!(0), &json!(7)]);
    }
    let first = home.json(["wait", "--any", &jobs[0]]);
    assert_eq!((&first["outcome"], &first["job"]), (&json!("exit"), &json!(jobs[0])));
    assert_eq!((&first["status"], &first["jobs"][0]["status"]), (&json!("completed"), &json!("completed")));
}

#[test]
fn all_means_all() {
    let home = Home::new();
    let jobs = [1, 2, 3].map(|code| start_ending_with(&home, code));
    for options in [&[][..], &["--all"]] {
        let timed_out =
            home.run([&["wait", "--timeout", "1ms"], options, &jobs.each_ref().map(String::as_str)].concat());
        assert_eq!(timed_out.code(4).text(), "");
    }
    let mut waiting = waiter(&home, &["--all", &jobs[0], &jobs[1], &jobs[2]]);
    home.run(["send", &jobs[1], "--eof"]).ok();
    assert_eq!(home.wait(&jobs[1])["exit_code"], 2);
    home.run(["send", &jobs[0], "--eof"]).ok();
    assert_eq!(home.wait(&jobs[0])["exit_code"], 1);
    assert_eq!(waiting.try_wait().unwrap(), None, "one of them still runs");
    home.run(["send", &jobs[2], "--eof"]).ok();
    let (code, text) = answer(waiting);
    assert_eq!(code, Some(7));
    let first_words: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(first_words, jobs, "in the order asked for");
}

#[test]
fn any_means_the_first() {
    let home = Home::new();
    let jobs = [1, 2, 3].map(|code| start_ending_with(&home, code));
    let waiting = waiter(&home, &["--any", "--json", &jobs[0], &jobs[1], &jobs[2]]);
    home.run(["send", &jobs[1], "--eof"]).ok();
    let (code, text) = answer(waiting);
    assert_eq!(code, Some(7), "the one that ended was not successful");
    let answered: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answered["outcome"], &answered["job"]), (&json!("exit"), &json!(jobs[1])));
    let answered = &answered["jobs"];
    let states: Vec<&Value> = (0..3).map(|at| &answered[at]["status"]).collect();
    assert_eq!(states, ["running", "failed", "running"]);
    assert_eq!([&answered[0]["job"], &answered[2]["job"]], [&jobs[0], &jobs[2]]);
    assert_eq!(home.show(&jobs[0])["status"], "running");
}

#[test]
fn the_end_of_the_time_is_told_and_the_job_goes_on() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let begin = Instant::now();
    let waited = home.run(["wait", "--timeout", "150ms", &job]).code(4);
    assert!(begin.elapsed() >= Duration::from_millis(150));
    assert_eq!(waited.text(), "");
    assert!(waited.error().contains(&job) && waited.error().contains("\nhint: "), "{}", waited.error());
    let waited = home.run(["--json", "wait", "--timeout", "1ms", &job]).code(4);
    assert_eq!(waited.error_json()["error"]["code"], "timed_out");
    let answer = waited.json();
    assert_eq!((&answer["outcome"], &answer["job"]), (&json!("timeout"), &json!(job)));
    assert_eq!((&answer["status"], &answer["effective_timeout_ms"]), (&json!("running"), &json!(1)));
    assert!(is_running(pid(&home.show(&job), "pid")));
}

#[test]
fn an_unknown_job_is_told_at_once_even_among_others() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    for arguments in [&["no-such-job"][..], &[job.as_str(), "no-such-job"], &["--any", "no-such-job", &job]] {
        let error = home.run([&["--json", "wait"], arguments].concat()).code(3).error_json();
        assert_eq!(error["error"]["code"], "not_found");
        assert!(error["error"]["message"].as_str().unwrap().contains("no-such-job"));
    }
}

#[test]
fn a_command_that_ends_with_its_keeper_is_lost_and_waiters_are_told() {
    let home = Home::new();
    let job = home.start(["sh", "-c", "echo before; exec sleep 300"]);
    home.wait_for_output(&job, "before");
    let shown = home.show(&job);
    let (keeper, command) = (pid(&shown, "keeper_pid"), pid(&shown, "pid"));
    let waiting = [waiter(&home, &["--json", &job]), waiter(&home, &["--json", "--timeout", "50s", &job])];
    // A keeper that is stopped cannot write down how its command ended.
    signal(keeper, "STOP");
    signal(command, "KILL");
    until("the command is dead", || !is_running(command));
    outlive_tests::kill_with_guard(keeper);
    for waiting in waiting {
        let (code, text) = answer(waiting);
        assert_eq!(code, Some(7), "{text}");
        let ended = serde_json::from_str::<Value>(&text).unwrap()["jobs"].take();
        assert_eq!((&ended[0]["status"], &ended[0]["cause"]), (&json!("lost"), &json!("lost")));
    }
    let shown = home.show(&job);
    assert_eq!(shown["status"], "lost");
    assert_eq!((&shown["exit_code"], &shown["runtime_ms"]), (&Value::Null, &Value::Null));
    // The waiters had hold of it; what the kernel told them is recorded.
    let known = outlive_sys::exit::can_tell().then_some("SIGKILL");
    assert_eq!(shown["signal"], json!(known));
    assert!(shown["reason"].as_str().unwrap().contains("keeper died"));
    assert_eq!(home.logs(&job), b"before\n", "what was recorded stays");
    assert_eq!(home.json(["list", "--live"]), json!([]));
}

#[test]
fn a_command_that_outlives_its_keeper_is_waited_for() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let shown = home.show(&job);
    let command = pid(&shown, "pid");
    let mut waiting =
        [waiter(&home, &["--json", &job]), waiter(&home, &["--json", "--timeout", "50s", &job])];
    outlive_tests::kill_with_guard(pid(&shown, "keeper_pid"));
    until("it is an orphan", || home.show(&job)["orphaned"] == true);
    assert_eq!(home.show(&job)["status"], "running");
    for waiting in &mut waiting {
        assert_eq!(waiting.try_wait().unwrap(), None, "the command still runs");
    }
    signal(command, "KILL");
    for waiting in waiting {
        let (code, text) = answer(waiting);
        assert_eq!(code, Some(7));
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap()["status"],
            "lost",
            "nobody saw how it ended"
        );
    }
}

#[test]
fn waiting_and_following_cost_nothing() {
    let home = Home::new();
    let job = home.start(["sleep", "300"]);
    let mut follower = home.outlive(["logs", "-f", &job]).stdout(Stdio::null()).spawn().unwrap();
    until("it follows", || waits_with_open(follower.id().cast_signed(), "inotify"));
    let mut waiting = [waiter(&home, &[&job]), waiter(&home, &["--timeout", "10m", &job])];
    let conditions = [&["--match", "never"][..], &["--fail-match", "never"], &["--idle", "1h"], &["--event"]];
    let mut waiting_for: Vec<Child> = conditions
        .into_iter()
        .map(|condition| {
            let mut command = home.outlive(["wait", job.as_str()]);
            let child = command.args(condition).stdout(Stdio::null()).spawn().unwrap();
            until("it waits", || waits_with_open(child.id().cast_signed(), "inotify"));
            child
        })
        .collect();
    let keeper = pid(&home.show(&job), "keeper_pid");
    let waiters = waiting.iter().chain(&waiting_for).chain([&follower]);
    let all: Vec<i32> = [keeper].into_iter().chain(waiters.map(|child| child.id().cast_signed())).collect();
    let measure = || all.iter().copied().map(activity).collect::<Vec<u64>>();
    // The last of the start may still be under way, so it is looked again; what wakes now and then always does.
    until("nothing wakes while another job runs for a second", || {
        let before = measure();
        // In a session of its own: a waiter for events is woken by those of its job's session.
        let other = home.start_with(&["--session", "other"], ["sleep", "1"]);
        assert_eq!(home.wait(&other)["exit_code"], 0);
        measure() == before
    });
    for child in waiting.iter_mut().chain(&mut waiting_for).chain([&mut follower]) {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn exits_need_no_thread_and_no_inotify_instance() {
    let home = Home::new();
    let jobs = [1, 2].map(|code| start_ending_with(&home, code));
    for options in [&["--any"][..], &["--all", "--timeout", "10m"]] {
        let mut waiting = waiter(&home, &[options, &[&jobs[0], &jobs[1]]].concat());
        let of = |what: &str| {
            std::fs::read_dir(format!("/proc/{}/{what}", waiting.id()))
                .unwrap()
                .map(|entry| entry.unwrap().path())
        };
        assert_eq!(of("task").count(), 1);
        let mut open = of("fd").filter_map(|path| std::fs::read_link(path).ok());
        assert!(!open.any(|path| path.to_string_lossy().contains("inotify")));
        waiting.kill().unwrap();
        waiting.wait().unwrap();
    }
}

#[test]
fn more_jobs_than_descriptors_are_waited_for() {
    let home = Home::new();
    let jobs: Vec<String> = (0..8).map(|code| start_ending_with(&home, code)).collect();
    // Each job takes one descriptor to be open, and two to be waited for.
    let mut command = home.command("sh");
    command.args(["-c", r#"ulimit -n 20 && exec "$0" wait "$@""#]).arg(binary("outlive")).args(&jobs);
    let waiting = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it waits", || waits_with_open(waiting.id().cast_signed(), "pidfd"));
    for job in &jobs {
        home.run(["send", job, "--eof"]).ok();
    }
    let (code, text) = answer(waiting);
    assert_eq!((code, text.lines().count()), (Some(7), jobs.len()), "{text}");
}

#[test]
fn a_wait_is_cancelled_from_another_thread() {
    let home = Home::new();
    let store = home.open();
    let job = store.find(&home.start(["sleep", "300"]), None).unwrap();
    let idle = Conditions { idle: Some(Duration::from_secs(3600)), ..Conditions::default() };
    for conditions in [Conditions::default(), idle] {
        let cancel = Cancel::new().unwrap();
        let stop = Some(cancel.as_fd());
        let wanted = WaitFor { conditions, stop, ..WaitFor::exits(std::slice::from_ref(&job)) };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| store.wait_for(&wanted).unwrap());
            cancel.cancel();
            let result = waiting.join().unwrap();
            assert_eq!(result.reason, WaitReason::Timeout);
            assert!(!result.is_reached && result.can_still_come);
        });
    }
}

#[test]
fn fifty_waiters_for_one_job_are_all_answered() {
    let home = Home::new();
    let job = start_ending_with(&home, 3);
    let waiting: Vec<Child> = (0..50).map(|_| waiter(&home, &["--json", &job])).collect();
    home.run(["send", &job, "--eof"]).ok();
    for waiting in waiting {
        let (code, text) = answer(waiting);
        assert_eq!(code, Some(7));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["jobs"][0]["exit_code"], 3);
    }
}

#[test]
fn many_threads_of_one_program_wait_at_once() {
    let home = Home::new();
    let job = start_ending_with(&home, 3);
    let store = home.open();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|number| {
                let (store, reference) = (&store, job.as_str());
                scope.spawn(move || {
                    let found = store.find(reference, None).unwrap();
                    let limit = (number % 2 == 0).then_some(LIMIT);
                    store.wait(std::slice::from_ref(&found), Until::Any, limit).is_reached
                })
            })
            .collect();
        home.run(["send", &job, "--eof"]).ok();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}

/// A job may end while a waiter with a deadline looks at it: whatever it saw first, it must not sleep until the deadline.
#[test]
fn a_job_that_ends_while_it_is_looked_at_is_not_waited_for_until_the_deadline() {
    let home = Home::new();
    let store = home.open();
    let begun = Instant::now();
    for _ in 0..150 {
        let job = store.start(&outlive::Request::argv(["true"])).unwrap().job;
        assert!(store.wait(std::slice::from_ref(&job), Until::All, Some(2 * LIMIT)).is_reached);
        assert!(begun.elapsed() < LIMIT, "a waiter slept through the end of {}", job.id());
    }
}

#[test]
fn a_wait_that_is_over_says_what_the_address_answered() {
    let home = Home::new();
    let port = free_port().to_string();
    let url = format!("http://127.0.0.1:{port}/nothing");
    let look = |job: &str, limit: Duration| {
        let limit = format!("{}ms", limit.as_millis());
        home.run(["wait", job, "--http", &url, "--timeout", &limit]).code(4).error()
    };
    let idle = home.start(["sleep", "600"]);
    let server = home.start(["python3", "-m", "http.server", "--bind", "127.0.0.1", &port]);
    for (job, answer) in [(&server, "answers with 404"), (&idle, "answers with 404")] {
        let wanted = format!("still running: {job}; {url} {answer}\n");
        with_enough_time(Duration::from_millis(200), |limit| {
            look(job, limit).contains(&wanted).then_some(())
        });
    }
    home.run(["kill", &server]).ok();
    let wanted = format!("{url} does not answer: ");
    with_enough_time(Duration::from_millis(200), |limit| look(&idle, limit).contains(&wanted).then_some(()));
    home.run(["kill", &idle]).ok();
}
