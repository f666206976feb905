//! Whether a job goes on working: ready by a command or any port, health that is lost and regained, and what is done then.
//!
//! Proves that `ready` goes when health goes and when the port that showed it closes, that a job which stays ill is not restarted for
//! ever, and that a check survives the process that makes it.

use outlive_tests::{Home, instead, signal, until};
use serde_json::{Value, json};

/// Listens on a port of its own while the file `open` is there, and prints it.
const SERVER: &str = "import os, socket, time\n\
    held, port = None, 0\n\
    while True:\n\
    \tif os.path.exists('open') and not held:\n\
    \t\theld = socket.socket(); held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
    \t\theld.bind(('127.0.0.1', port)); held.listen(); port = held.getsockname()[1]; print(port, flush=True)\n\
    \tif not os.path.exists('open') and held:\n\
    \t\theld.close(); held = None\n\
    \ttime.sleep(0.01)\n";

fn touch(home: &Home, name: &str) {
    std::fs::write(home.path().join(name), "").expect("it can be written");
}

fn remove(home: &Home, name: &str) {
    std::fs::remove_file(home.path().join(name)).expect("it is there");
}

fn events(home: &Home, job: &str, kind: &str) -> usize {
    let events = home.run(["--json", "events"]).ok().text();
    let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["event"] == kind && event["job"] == job).count()
}

fn runs(home: &Home, name: &str) -> Vec<Value> {
    let jobs = home.json(["list"]);
    jobs.as_array().expect("a list").iter().filter(|job| job["name"] == name).cloned().collect()
}

#[test]
fn a_command_makes_a_job_ready() {
    let home = Home::new();
    let check = "test -e \"$FILE\"";
    let job = home.start_with(&["--env", "FILE=here", "--ready-command", check], ["sleep", "300"]);
    home.run(["wait", &job, "--ready", "--timeout", "100ms"]).code(4);
    assert_eq!(home.show(&job)["ready"], false);
    touch(&home, "here");
    home.run(["wait", &job, "--ready"]).ok();
    until("its prober has noted it", || home.job_dir(&job).join("ready").exists());
    assert_eq!((&home.show(&job)["ready"], events(&home, &job, "ready")), (&json!(true), 1));
}

#[test]
fn any_port_makes_a_job_ready_until_it_is_closed() {
    let home = Home::new();
    let job = home.start_with(&["--ready-port", "any"], ["python3", "-c", SERVER]);
    assert_eq!(home.show(&job)["ready"], false);
    touch(&home, "open");
    home.run(["wait", &job, "--ready"]).ok();
    let port = String::from_utf8(home.logs(&job)).expect("a number").trim().to_owned();
    let shown = home.show(&job);
    assert_eq!(shown["ready_url"], format!("http://localhost:{port}"), "{shown}");
    // The port closes, and the job goes on.
    remove(&home, "open");
    until("it is not ready", || home.show(&job)["ready"] == false);
    home.run(["wait", &job, "--ready", "--timeout", "100ms"]).code(4);
    touch(&home, "open");
    home.run(["wait", &job, "--ready"]).ok();
    until("it is ready again", || home.show(&job)["ready"] == true);
}

#[test]
fn health_is_lost_and_regained_and_ready_with_it() {
    let home = Home::new();
    touch(&home, "well");
    let options = [
        "--ready-on",
        "up",
        "--health-command",
        "test -e well",
        "--health-interval",
        "50ms",
        "--health-failures",
        "2",
    ];
    let job = home.start_with(&options, ["sh", "-c", "echo up; exec sleep 300"]);
    home.run(["wait", &job, "--ready"]).ok();
    assert_eq!(home.show(&job)["healthy"], true);
    remove(&home, "well");
    until("it is unhealthy", || home.show(&job)["healthy"] == false);
    let shown = home.show(&job);
    assert_eq!((&shown["status"], &shown["ready"]), (&json!("running"), &json!(false)), "{shown}");
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("unhealthy: test -e well")), "{shown}");
    assert!(home.run(["list"]).ok().text().contains("running, unhealthy"));
    instead!("S0-137");
    // The line that made it ready does not do so again.
    home.run(["wait", &job, "--ready", "--timeout", "200ms"]).code(4);
    until("it is told", || events(&home, &job, "unhealthy") == 1);
    // A prober that is killed is replaced by the next look, and goes on from there.
    for pid in home.processes() {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if words.split(|byte| *byte == 0).nth(1) == Some(b"probe") {
            signal(pid, "KILL");
        }
    }
    touch(&home, "well");
    until("it is healthy again", || home.show(&job)["healthy"] == true);
    until("and ready", || home.show(&job)["ready"] == true);
    until("that is told, too", || events(&home, &job, "healthy") == 1);
    assert_eq!((events(&home, &job, "unhealthy"), events(&home, &job, "ready")), (1, 1));
    home.run(["kill", &job]).ok();
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn an_unhealthy_job_is_restarted_and_not_for_ever() {
    // process-compose#403: a probe that fails for ever killed its job for ever. compose#6669: an unhealthy one is never restarted.
    let home = Home::new();
    let options = [
        "--name",
        "web",
        "--health-command",
        "exit 3",
        "--health-interval",
        "30ms",
        "--health-failures",
        "1",
        "--health-then",
        "restart",
        "--restart-tries",
        "2",
        "--restart-delay",
        "10ms",
    ];
    home.start_with(&options, ["sleep", "300"]);
    until("it gives up", || home.run(["events"]).ok().text().contains("gave_up"));
    let runs = runs(&home, "web");
    let statuses: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["killed", "killed", "running"]);
    assert!(runs[0]["reason"].as_str().is_some_and(|why| why.contains("its health check")), "{runs:#?}");
    assert_eq!((&runs[1]["previous"], &runs[2]["healthy"]), (&runs[0]["job"], &json!(false)));
    home.run(["kill", "web"]).ok();
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let home = Home::new();
    for (options, said) in [
        (&["--health-interval", "1s"][..], "nothing by which it would count as healthy"),
        (&["--health-http", "nowhere"], "http://HOST"),
        (&["--health-then", "sing"], "sing"),
        (&["--ready-port", "some"], "any"),
    ] {
        let mut command = home.outlive(["run"]);
        command.args(options).args(["--", "true"]);
        let error = outlive_tests::finish(command, b"").code(2).error();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn the_defaults_are_those_of_the_guide() {
    // process-compose#170: the documentation and the program differed.
    let guide = std::fs::read_to_string(outlive_tests::workspace().join("docs/guide/projects.md"))
        .expect("it is there");
    let health = outlive::Health::default();
    assert_eq!((health.interval_ms(), health.failures()), (10_000, 3));
    assert!(guide.contains("at an `interval` (10 s)") && guide.contains("`failures` in a row (3)"));
}
