//! Whether a job goes on working: ready by a command or any port, health that is lost and regained, and what is done then.
//!
//! Proves that `ready` goes when health goes and when the port that showed it closes, that a job which stays ill is not restarted for
//! ever, and that a check survives the process that makes it.

use std::time::Duration;

use outlive_tests::{Home, finish, free_port, instead, pid, signal, until, with_enough_time};
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

/// tilt#3109: a service whose port is not known beforehand.
#[test]
fn any_port_makes_a_job_ready_until_it_is_closed() {
    let home = Home::new();
    let job = home.start_with(&["--ready-port", "any"], ["python3", "-c", SERVER]);
    assert_eq!(home.show(&job)["ready"], false);
    touch(&home, "open");
    home.run(["wait", &job, "--ready"]).ok();
    // It listens before it says where.
    until("it prints its port", || home.logs(&job).ends_with(b"\n"));
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
        "1s",
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
    // process-compose#403 (and its PR 407): a probe that fails for ever killed its job for ever. compose#6669, #12428: an unhealthy one is never restarted.
    let home = Home::new();
    let options = [
        "--name",
        "web",
        "--health-command",
        "test -e well",
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
    home.start_with(&options, ["sh", "-c", "echo what it said last; exec sleep 300"]);
    until("it gives up", || home.run(["events"]).ok().text().contains("gave_up"));
    let runs = runs(&home, "web");
    let statuses: Vec<&Value> = runs.iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["killed", "killed", "running"]);
    assert!(runs[0]["reason"].as_str().is_some_and(|why| why.contains("its health check")), "{runs:#?}");
    assert_eq!((&runs[1]["previous"], &runs[2]["healthy"]), (&runs[0]["job"], &json!(false)));
    // Giving up is a state of the run that goes on, with its reason and the last lines.
    assert_eq!(runs[2]["gave_up"], "2 restarts within 1m 0s");
    assert!(home.run(["list"]).ok().text().contains("running, gave up, unhealthy"));
    assert!(home.run(["show", "web"]).ok().text().contains("2 restarts within 1m 0s"));
    let why = home.run(["why", "web"]).ok().text();
    assert!(why.contains("it is not restarted any more: 2 restarts within 1m 0s"), "{why}");
    assert!(why.contains("what it said last"), "{why}");
    // One that is healthy again has not given up.
    touch(&home, "well");
    until("it is healthy", || home.show("web")["healthy"] == true);
    assert_eq!(home.show("web")["gave_up"], Value::Null);
    assert!(!home.job_dir(runs[2]["job"].as_str().expect("an id")).join("gave_up").exists());
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
        let error = finish(command, b"").code(2).error();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_job_is_started_when_another_is_healthy() {
    let home = Home::new();
    let options = ["--name", "db", "--health-command", "test -e well", "--health-interval", "30ms"];
    let db = home.start_with(&options, ["sleep", "300"]);
    let web = home.start_with(&["--name", "web", "--after", "db@healthy"], ["sleep", "300"]);
    until("it is unhealthy", || home.show(&db)["healthy"] == false);
    assert_eq!(home.show(&web)["status"], "queued");
    touch(&home, "well");
    until("the other is started", || home.show(&web)["status"] == "running");
    // One that can never be is refused, and one that ends is told.
    let refused = home.run(["run", "--after", "web@healthy", "true"]).code(6).error();
    assert!(refused.contains("without a health condition"), "{refused}");
    remove(&home, "well");
    until("it is unhealthy again", || home.show(&db)["healthy"] == false);
    let late = home.start_with(&["--after", "db@healthy"], ["true"]);
    home.run(["kill", "db"]).ok();
    let shown = home.wait(&late);
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("it was killed")), "{shown}");
    home.run(["kill", "web"]).ok();
    let toml = "[jobs.db]\nrun = 'sleep 300'\nhealth = { command = 'test -e well', interval = '30ms' }\n\
        [jobs.web]\nrun = 'sleep 300'\nafter = ['db@healthy']\n";
    let dir = home.make_dir("shop");
    std::fs::write(dir.join("outlive.toml"), toml).expect("it can be written");
    let project = |arguments: &[&str]| {
        let mut command = home.outlive(arguments);
        command.current_dir(&dir);
        finish(command, b"").ok().text()
    };
    project(&["up"]);
    until("one waits", || project(&["status"]).contains("waits for db@healthy"));
    std::fs::write(dir.join("well"), "").expect("it can be written");
    until("both run", || project(&["status"]).matches("running").count() == 2);
    project(&["down"]);
}

#[test]
fn lines_keep_a_job_healthy() {
    let home = Home::new();
    let options = ["--health-line", "^beat", "--health-interval", "300ms", "--health-failures", "2"];
    let line = "while :; do [ -e quiet ] || echo beat; sleep 0.02; done";
    let job = home.start_with(&options, ["sh", "-c", line]);
    until("a check has succeeded", || {
        home.job_dir(&job).join("health").exists() && home.show(&job)["healthy"] == true
    });
    touch(&home, "quiet");
    until("it is unhealthy", || home.show(&job)["healthy"] == false);
    let shown = home.show(&job);
    assert!(shown["reason"].as_str().is_some_and(|why| why.contains("no line matches /^beat/")), "{shown}");
    remove(&home, "quiet");
    until("it is healthy again", || home.show(&job)["healthy"] == true);
}

/// Says on its socket that it goes on working, until the file `quiet` is there; with the file `trigger` that it does not.
const WATCHED: &str = "import os, socket, time\n\
    to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
    print(os.environ['WATCHDOG_USEC'], os.environ.get('WATCHDOG_PID'), flush=True)\n\
    while True:\n\
    \tword = b'WATCHDOG=trigger' if os.path.exists('trigger') else b'WATCHDOG=1'\n\
    \tif not os.path.exists('quiet'): to.sendto(word, os.environ['NOTIFY_SOCKET'])\n\
    \ttime.sleep(float(os.environ.get('PERIOD', '0.02')))\n";

#[test]
fn its_own_word_keeps_a_job_healthy() {
    let home = Home::new();
    let options = ["--health-notify", "--health-interval", "300ms", "--health-failures", "2"];
    let mut start = home.outlive(["run"]);
    // Those of a service manager that watches the starter mean nothing to the job.
    start.args(options).args(["python3", "-c", WATCHED]).env("WATCHDOG_PID", "1").env("WATCHDOG_USEC", "1");
    let job = finish(start, b"").ok().text().trim().to_owned();
    home.wait_for_output(&job, "\n");
    assert_eq!(String::from_utf8_lossy(&home.logs(&job)), "300000 None\n");
    for (file, said) in [("quiet", "it has not said WATCHDOG=1"), ("trigger", "it said WATCHDOG=trigger")] {
        until("it is healthy", || home.show(&job)["healthy"] == true);
        touch(&home, file);
        until("it is unhealthy, and says why", || {
            let shown = home.show(&job);
            shown["healthy"] == false && shown["reason"].as_str().is_some_and(|why| why.contains(said))
        });
        remove(&home, file);
    }
    until("it is healthy again", || home.show(&job)["healthy"] == true);
    // It goes on to be heard whichever of the two keeps it.
    signal(pid(&home.show(&job), "keeper_pid"), "KILL");
    touch(&home, "quiet");
    until("it is unhealthy", || home.show(&job)["healthy"] == false);
    remove(&home, "quiet");
    until("it is healthy again", || home.show(&job)["healthy"] == true);
    home.run(["kill", &job]).ok();
    until("no process is left", || home.processes().is_empty());
}

#[test]
fn a_paused_job_is_not_ill() {
    let home = Home::new();
    with_enough_time(Duration::from_secs(1), |interval| {
        // Twice in an interval, so that a check right after the pause may come before its next word.
        let period = format!("PERIOD={}", interval.as_secs_f64() * 0.45);
        let every = format!("{}ms", interval.as_millis());
        let options =
            ["--health-notify", "--health-interval", &every, "--health-failures", "1", "--env", &period];
        let job = home.start_with(&options, ["python3", "-c", WATCHED]);
        until("it is healthy", || {
            home.job_dir(&job).join("health").exists() && home.show(&job)["healthy"] == true
        });
        let before = events(&home, &job, "unhealthy");
        let pass = |intervals: u32| {
            let time = format!("{}ms", (interval * intervals).as_millis());
            home.run(["wait", &job, "--timeout", &time]).code(4);
        };
        // Without a pause it is well for as long, or the machine is too busy for this interval.
        pass(6);
        let is_quick = events(&home, &job, "unhealthy") == before;
        home.run(["pause", &job]).ok();
        pass(3);
        home.run(["resume", &job]).ok();
        pass(3);
        let is_well = events(&home, &job, "unhealthy") == before && home.show(&job)["healthy"] == true;
        home.run(["kill", &job]).ok();
        (is_quick && is_well).then_some(())
    });
}

/// Answers on $PORT, prints, says READY=1 and WATCHDOG=1, and has the file `NAME.ok`; while there is a file `ill`, none of it.
const EVERYTHING: &str = r#"
import http.server, os, socket, sys, threading, time
name, port = sys.argv[1], int(os.environ["PORT"])
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
class Server(http.server.HTTPServer):
    allow_reuse_address = True
server = None
while True:
    ill = os.path.exists("ill")
    if server is None and not ill:
        server = Server(("127.0.0.1", port), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        open(name + ".ok", "w").close()
    if server is not None and ill:
        server.shutdown(); server.server_close(); server = None
        os.remove(name + ".ok")
    if not ill:
        print("beat", flush=True)
        if "NOTIFY_SOCKET" in os.environ:
            to.sendto(b"READY=1\nWATCHDOG=1", os.environ["NOTIFY_SOCKET"])
    time.sleep(0.05)
"#;

#[test]
fn each_way_of_a_file_says_ready_and_healthy() {
    let home = Home::new();
    let dir = home.make_dir("shop");
    std::fs::write(dir.join("everything.py"), EVERYTHING).expect("it can be written");
    std::fs::write(dir.join("ill"), "").expect("it can be written");
    let ways = ["line", "port", "http", "command", "notify"];
    let condition = |way: &str, port: u16| match way {
        "line" => "line = '^beat$'".to_owned(),
        "port" => format!("port = {port}"),
        "http" => format!("http = 'http://127.0.0.1:{port}/everything.py'"),
        "command" => "command = 'test -e \"$FILE\"'".to_owned(),
        _ => "notify = true".to_owned(),
    };
    // Each is ready in one way and healthy in another: ten in all.
    let jobs = (0..ways.len()).map(|at| {
        let (ready, health, port) = (ways[at], ways[(at + 1) % ways.len()], free_port());
        format!(
            "[jobs.{ready}]\nrun = ['python3', 'everything.py', '{ready}']\nport = {port}\nenv.FILE = '{ready}.ok'\n\
             ready = {{ {} }}\nhealth = {{ {}, interval = '500ms', failures = 1 }}\n",
            condition(ready, port),
            condition(health, port)
        )
    });
    std::fs::write(dir.join("outlive.toml"), jobs.collect::<String>()).expect("it can be written");
    let project = |arguments: &[&str]| {
        let mut command = home.outlive(arguments);
        command.current_dir(&dir);
        finish(command, b"")
    };
    let seen = |key: &str, value: bool| {
        let status = project(&["--json", "status"]).ok().json();
        let of_jobs = status["jobs"].as_array().expect("a list").iter();
        of_jobs.filter(|job| job["job"][key] == value).count()
    };
    project(&["up"]).ok();
    assert_eq!(seen("ready", false), ways.len(), "{}", project(&["status"]).text());
    std::fs::remove_file(dir.join("ill")).expect("it is there");
    project(&["up", "--wait"]).ok();
    assert_eq!(seen("ready", true), ways.len());
    until("each is found healthy", || seen("healthy", true) == ways.len());
    std::fs::write(dir.join("ill"), "").expect("it can be written");
    until("each is unhealthy", || seen("healthy", false) == ways.len());
    assert_eq!(seen("ready", false), ways.len(), "what is ill is not ready");
    // What made it ready is not missing: it is ill.
    let why = project(&["why", "notify"]).ok().text();
    assert!(why.contains("and is not ready, for it is unhealthy: no line matches"), "{why}");
    std::fs::remove_file(dir.join("ill")).expect("it is there");
    until("each is healthy again", || seen("healthy", true) == ways.len());
    until("and ready", || seen("ready", true) == ways.len());
    project(&["down"]).ok();
    until("no process is left", || home.processes().is_empty());
}

/// A server with a certificate that it signed itself; prints its port.
const ENCRYPTED: &str = "import http.server, ssl\n\
    server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n\
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('cert.pem', 'key.pem')\n\
    server.socket = context.wrap_socket(server.socket, server_side=True)\n\
    print(server.server_address[1], flush=True); server.serve_forever()\n";

#[test]
fn an_address_with_tls_is_asked() {
    let home = Home::new();
    let made = std::process::Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(home.path())
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return outlive_tests::lacks("openssl");
    }
    let server = home.start(["python3", "-c", ENCRYPTED]);
    home.wait_for_output(&server, "\n");
    let port = String::from_utf8(home.logs(&server)).expect("a number").trim().to_owned();
    let url = format!("https://localhost:{port}/");
    let job = home.start_with(&["--ready-http", &url, "--health-http", &url], ["sleep", "300"]);
    home.run(["wait", &job, "--ready", "--timeout", "60s"]).ok();
    until("it is found healthy", || home.job_dir(&job).join("health").exists());
    assert_eq!(home.show(&job)["ready_url"], json!(url));
}

#[test]
fn a_killed_prober_is_started_again_by_the_keeper() {
    let home = Home::new();
    touch(&home, "well");
    let options = ["--health-command", "test -e well", "--health-interval", "50ms"];
    let job = home.start_with(&options, ["sleep", "300"]);
    let file = home.job_dir(&job).join("health");
    until("a check has succeeded", || file.exists());
    let probers = || {
        let is_prober = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let verb = words.split(|byte| *byte == 0).nth(1).map(<[u8]>::to_vec);
            verb.is_some_and(|verb| verb == b"probe" || verb == b"next-run")
        };
        home.processes().into_iter().filter(is_prober).collect::<Vec<i32>>()
    };
    // The one of the front end, and then the keeper's own.
    for _ in 0..2 {
        until("it has one", || probers().len() == 1);
        signal(probers()[0], "KILL");
        until("it is gone", || probers().is_empty());
    }
    remove(&home, "well");
    // No front end looks at it meanwhile.
    let is_ill = || std::fs::read_to_string(&file).unwrap_or_default().contains("test -e well");
    until("another finds it ill", is_ill);
    assert_eq!(home.show(&job)["lingering"], false);
    home.run(["kill", &job]).ok();
    until("no process is left", || home.processes().is_empty());
}

/// Before this, no run followed.
#[test]
fn the_next_run_comes_though_the_prober_is_killed_during_the_restart() {
    let home = Home::new();
    touch(&home, "well");
    let line = "trap 'touch stopping; until test -e go; do sleep 0.02; done; exit 3' TERM; \
        echo run >> runs; while :; do sleep 0.02; done";
    let options = ["--name", "ill", "--health-command", "test -e well", "--health-interval", "2s"];
    let more = ["--health-failures", "1", "--health-then", "restart", "--grace", "300s"];
    home.start_with(&[&options[..], &more].concat(), ["sh", "-c", line]);
    let runs = || std::fs::read_to_string(home.path().join("runs")).unwrap_or_default().lines().count();
    until("it runs", || runs() == 1);
    remove(&home, "well");
    until("it is asked to end", || home.path().join("stopping").exists());
    touch(&home, "well");
    let is_prober = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(b"probe")
    };
    home.processes().into_iter().filter(is_prober).for_each(|pid| signal(pid, "KILL"));
    touch(&home, "go");
    // No front end looks at it meanwhile.
    until("the next run comes", || runs() == 2);
    let shown = home.show("ill");
    assert!(shown["because"].as_str().is_some_and(|because| because.contains("test -e well")), "{shown}");
    assert_eq!(home.json(["list", "--all"]).as_array().map(Vec::len), Some(2));
    home.run(["kill", "--force", "ill"]).ok();
    until("no process is left", || home.processes().is_empty());
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
