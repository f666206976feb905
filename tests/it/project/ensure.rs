//! `run --ensure`: a job of a name is there once, however often and by however many programs it is asked for.
//!
//! Proves that nothing is started beside a live job, and that a job which was started in another way is told apart.

use outlive_tests::{Home, finish};
use serde_json::json;

fn ensure(home: &Home, options: &[&str], argv: &[&str]) -> outlive_tests::Done {
    let mut command = home.outlive(["run", "--ensure", "--name", "web"]);
    command.args(options).arg("--").args(argv);
    finish(command, b"")
}

#[test]
fn a_live_job_is_not_started_again() {
    // pm2#1160: a second start made a second process.
    let home = Home::new();
    let first = ensure(&home, &["--env", "A=1"], &["sleep", "300"]).ok().text();
    assert_eq!(ensure(&home, &["--env", "A=1"], &["sleep", "300"]).ok().text(), first);
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(1));
    // One that has ended is.
    home.run(["kill", first.trim()]).ok();
    let second = ensure(&home, &["--env", "A=1"], &["sleep", "300"]).ok().text();
    assert_ne!(second, first);
    // Another session has names of its own.
    let other = ensure(&home, &["--session", "other", "--env", "A=1"], &["sleep", "300"]).ok().text();
    assert_ne!(other, second);
}

#[test]
fn what_differs_is_named_and_nothing_is_started() {
    let home = Home::new();
    let job = ensure(&home, &["--env", "A=1"], &["sleep", "300"]).ok().text();
    for (options, argv, changed) in [
        (&["--env", "A=1"][..], &["sleep", "301"][..], "command"),
        (&["--env", "A=2"], &["sleep", "300"], "environment"),
        (&["--env", "A=1", "--unset", "B"], &["sleep", "300"], "environment"),
        (&["--env", "A=1", "--cwd", "/"], &["sleep", "300"], "directory"),
        (&["--env", "A=1", "--label", "a=b"], &["sleep", "300"], "labels"),
        (&["--env", "A=1", "--grace", "1s", "--memory", "1G"], &["sleep", "300"], "grace, memory"),
    ] {
        let failed = ensure(&home, options, argv).code(1).error();
        let expected = format!("run: {} has that name and runs, with another {changed}\n", job.trim());
        assert!(failed.contains(&expected), "{failed}");
        assert!(failed.contains(&format!("outlive kill {}", job.trim())), "{failed}");
    }
    let failed = ensure(&home, &["--json"], &["true"]).code(1).error_json();
    assert_eq!((&failed["error"]["code"], &failed["error"]["job"]), (&json!("changed"), &json!(job.trim())));
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(1));
    drop(home.run(["run", "--ensure", "true"]).code(2));
}

#[test]
fn many_programs_that_ask_at_once_start_one_job() {
    let home = Home::new();
    let ids: Vec<String> = std::thread::scope(|scope| {
        let ask = || ensure(&home, &[], &["sleep", "300"]).ok().text();
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|asked| asked.join().expect("it answers")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(1));
}
