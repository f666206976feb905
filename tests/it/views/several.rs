//! The output of several jobs at once: each line behind the name of its job, in the order of time.
//!
//! By name, by group and by session; what is there and what comes; for people and for scripts.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use outlive_tests::{Home, LIMIT, end_within};

use crate::output::say;

/// Starts a job of this name that prints what it is told.
fn puppet(home: &Home, name: &str) -> String {
    let script = r#"while read -r to text; do
        case $to in out) printf "$text" ;; err) printf "$text" >&2 ;; esac
    done"#;
    home.start_with(&["--stdin", "open", "--name", name, "--group", "g"], ["sh", "-c", script])
}

#[test]
fn lines_of_several_jobs_are_in_the_order_of_time_behind_their_names() {
    let home = Home::new();
    let (web, worker) = (puppet(&home, "web"), puppet(&home, "worker"));
    for number in 1..=3 {
        say(&home, &web, &format!("out web-{number}\\n"), &format!("web-{number}"));
        say(&home, &worker, &format!("err worker-{number}\\n"), &format!("worker-{number}"));
    }
    let expected: String =
        (1..=3).map(|number| format!("web    | web-{number}\nworker | worker-{number}\n")).collect();
    for arguments in
        [&["web", "worker"][..], &["worker", "web", &web], &["--group", "g"], &["--session", "default"]]
    {
        let shown = home.run([&["logs"], arguments].concat()).ok().text();
        assert_eq!(shown, expected, "{arguments:?}");
    }
    let last = home.run(["logs", "-n", "1", "web", "worker"]).ok().text();
    assert_eq!(last, "web    | web-3\nworker | worker-3\n", "of each");
    let found = home.run(["logs", "--grep=-2", "--group", "g"]).ok().text();
    assert_eq!(found, "web    | web-2\nworker | worker-2\n");
    let coloured = home.run(["logs", "--color", "always", "-n", "1", "web", "worker"]).ok().text();
    assert_eq!(coloured, "\x1b[36mweb    |\x1b[0m web-3\n\x1b[33mworker |\x1b[0m worker-3\n");
    let lines = home.run(["logs", "--json", "-n", "1", "web", "worker"]).ok().text();
    let jobs: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&jobs[0]["job"], &jobs[1]["job"]), (&web.as_str().into(), &worker.as_str().into()));
    home.run(["kill", &web, &worker]).ok();
}

#[test]
fn several_jobs_are_followed_until_the_last_has_ended() {
    let home = Home::new();
    let jobs = [puppet(&home, "a"), puppet(&home, "b")];
    say(&home, &jobs[0], "out first\\n", "first");
    let mut command = home.outlive(["logs", "-f", "--group", "g"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("outlive runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("a line"));
    assert_eq!(next().as_deref(), Some("a | first"));
    for (number, (name, job)) in ["b", "a", "b"].into_iter().zip([&jobs[1], &jobs[0], &jobs[1]]).enumerate() {
        say(&home, job, &format!("out more-{number}\\n"), &format!("more-{number}"));
        assert_eq!(next(), Some(format!("{name} | more-{number}")));
    }
    home.run(["send", "--eof", &jobs[0]]).ok();
    home.wait(&jobs[0]);
    say(&home, &jobs[1], "out unfinished", "unfinished");
    home.run(["send", "--eof", &jobs[1]]).ok();
    assert_eq!(next().as_deref(), Some("b | unfinished"));
    assert_eq!(next(), None);
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
}

#[test]
fn what_is_for_one_job_is_refused_for_several_and_a_miss_says_what_to_do() {
    let home = Home::new();
    for job in ["a", "b"] {
        home.wait(&home.start_with(&["--name", job], ["true"]));
    }
    for option in
        [&["--bytes", "0.."][..], &["--cursor", "me"], &["--head", "1"], &["--budget", "8K"], &["--rendered"]]
    {
        let failed = home.run([&["logs", "a", "b"], option].concat()).code(2);
        assert!(failed.error().contains("is for one job"), "{}", failed.error());
    }
    let failed = home.run(["logs"]).code(2);
    assert!(failed.error().contains("outlive logs JOB"), "{}", failed.error());
    let failed = home.run(["logs", "a", "20"]).code(3);
    assert!(failed.error().contains("-n 20"), "{}", failed.error());
    assert!(home.run(["logs", "--group", "none"]).code(3).error().contains("no job of group"));
    assert!(home.run(["--session", "none", "logs"]).code(3).error().contains("there is no session \"none\""));
}

/// Where two jobs have one name, their ids tell them apart.
#[test]
fn jobs_of_one_name_are_told_apart_by_their_ids() {
    let home = Home::new();
    let jobs: Vec<String> = (0..2).map(|_| home.start_with(&["--name", "same"], ["echo", "text"])).collect();
    jobs.iter().for_each(|job| drop(home.wait(job)));
    let shown = home.run(["logs", &jobs[0], &jobs[1]]).ok().text();
    for job in &jobs {
        assert!(shown.contains(&format!("{job} | text\n")), "{shown}");
    }
}
