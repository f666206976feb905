//! `up -f process-compose.yaml`: files of process-compose in the shapes that public projects use.
//!
//! Proves that order, readiness, restarts and stopping are as there, and that what is not taken over is named.

use outlive_tests::{Home, free_port, until, until_seen};

use super::Project;

const FILE: &str = "process-compose.yaml";

fn project<'a>(home: &'a Home, name: &str, yaml: &str) -> Project<'a> {
    let project = Project { home, dir: home.make_dir(name) };
    project.write(FILE, yaml);
    project
}

/// Ends the project, and asserts that nothing of it is left.
fn down(project: &Project<'_>) {
    project.run(&["down", "-f", FILE]).ok();
    until("no process is left", || project.home.processes().is_empty());
}

/// Returns how a job is doing, in words.
fn state(project: &Project<'_>, name: &str) -> String {
    let status = project.json(&["status", "-f", FILE]);
    let job = status["jobs"].as_array().expect("a list").iter().find(|job| job["name"] == name).cloned();
    job.unwrap_or_else(|| panic!("no {name} in {status}"))["state"].as_str().expect("a text").to_owned()
}

#[test]
fn a_stack_with_probes_and_dependencies_comes_up_in_its_order() {
    let home = Home::new();
    let yaml = "version: \"0.5\"\n\
        environment:\n  - 'COMMON=1'\n\
        processes:\n\
        \x20 db:\n\
        \x20   command: 'echo db $COMMON >> order; touch db.up; exec sleep 300'\n\
        \x20   readiness_probe:\n      exec:\n        command: 'test -e db.up'\n      period_seconds: 1\n\
        \x20   availability:\n      restart: on_failure\n      backoff_seconds: 1\n      max_restarts: 3\n\
        \x20   shutdown:\n      signal: 2\n      timeout_seconds: 3\n\
        \x20 migrate:\n\
        \x20   command: |\n      echo migrate >> order\n      exit 0\n\
        \x20   depends_on:\n      db:\n        condition: process_healthy\n\
        \x20 api:\n\
        \x20   command: 'echo api $NAME >> order; echo \"listening (on 1)\"; exec sleep 300'\n\
        \x20   environment:\n      - NAME=a b\n\
        \x20   ready_log_line: 'listening (on'\n\
        \x20   depends_on:\n      migrate:\n        condition: process_completed_successfully\n\
        \x20 web:\n\
        \x20   command: 'echo web >> order; exec sleep 300'\n\
        \x20   depends_on:\n      api:\n        condition: process_log_ready\n\
        \x20 debug:\n    command: 'sleep 300'\n    disabled: true\n";
    let project = project(&home, "stack", yaml);
    let up = project.run(&["up", "-f", FILE, "--wait"]).ok();
    assert!(up.error().contains("`processes.debug` is disabled, and left out"), "{}", up.error());
    let order = std::fs::read_to_string(project.dir.join("order")).expect("they ran");
    assert_eq!(order, "db 1\nmigrate\napi a b\nweb\n");
    assert_eq!((state(&project, "db"), state(&project, "web")), ("running, ready".into(), "running".into()));
    assert_eq!(state(&project, "migrate"), "completed");
    let spec = home.json(["list"]);
    let db = spec.as_array().expect("a list").iter().find(|job| job["name"] == "db").expect("it is there");
    let spec = std::fs::read(home.job_dir(db["job"].as_str().expect("an id")).join("spec.json"))
        .expect("it is there");
    let spec: serde_json::Value = serde_json::from_slice(&spec).expect("JSON");
    assert_eq!((&spec["restart"]["when"], &spec["grace_ms"]), (&"on-failure".into(), &3000.into()), "{spec}");
    assert!(project.run(&["up", "-f", FILE]).ok().error().contains("nothing to do"));
    down(&project);
}

/// A web application as starters have it: a server that is asked by HTTP, and a browser test after it.
#[test]
fn a_server_is_asked_before_what_depends_on_it_is_started() {
    let home = Home::new();
    let port = free_port();
    let yaml = format!(
        "version: \"0.5\"\n\
        is_strict: true\n\
        processes:\n\
        \x20 server:\n\
        \x20   description: the API\n\
        \x20   command: 'exec python3 -m http.server --bind 127.0.0.1 $${{PORT}}'\n\
        \x20   environment:\n      PORT: {port}\n\
        \x20   readiness_probe:\n      http_get:\n        host: 127.0.0.1\n        scheme: http\n        path: /\n        port: {port}\n\
        \x20     initial_delay_seconds: 1\n      period_seconds: 1\n      timeout_seconds: 5\n      success_threshold: 1\n      failure_threshold: 30\n\
        \x20 e2e:\n\
        \x20   command: 'python3 -c \"import urllib.request as u; print(u.urlopen(\\\"http://127.0.0.1:{port}/\\\").status)\"'\n\
        \x20   depends_on:\n      server:\n        condition: process_healthy\n"
    );
    let project = project(&home, "web", &yaml);
    let said = project.run(&["up", "-f", FILE, "--wait"]).ok().error();
    assert!(said.contains("is_strict") && said.contains("timeout_seconds"), "{said}");
    until("the test has ended", || state(&project, "e2e") == "completed");
    assert_eq!(state(&project, "server"), "running, ready");
    down(&project);
}

/// Workers: several of one kind, started again whatever becomes of them.
#[test]
fn replicas_are_jobs_of_their_own_and_are_started_again() {
    let home = Home::new();
    let yaml = "processes:\n\
        \x20 queue:\n    command: 'echo up; exec sleep 300'\n    ready_log_line: up\n\
        \x20 worker:\n\
        \x20   command: 'echo $$PC_PROC_NAME $$PC_REPLICA_NUM >> ran; exec sleep 300'\n\
        \x20   replicas: 2\n\
        \x20   availability:\n      restart: always\n      backoff_seconds: 1\n      max_restarts: 0\n\
        \x20   depends_on:\n      queue:\n        condition: process_log_ready\n\
        \x20 report:\n    command: 'exec sleep 300'\n    depends_on:\n      worker:\n        condition: process_started\n";
    let project = project(&home, "workers", yaml);
    project.run(&["up", "-f", FILE, "--wait"]).ok();
    let status = project.json(&["status", "-f", FILE]);
    let names: Vec<&str> = status["jobs"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|job| job["name"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(names, ["queue", "report", "worker-0", "worker-1"]);
    let ran = || std::fs::read_to_string(project.dir.join("ran")).unwrap_or_default();
    until("both have run", || ran().lines().count() == 2);
    let killed = status["jobs"][2]["job"]["pid"].as_i64().expect("it runs");
    outlive_tests::signal(i32::try_from(killed).expect("a pid"), "KILL");
    until("it runs again", || ran().matches("worker 0").count() == 2);
    down(&project);
}

/// As generators write it: anchors, `x-` for what they share, `vars`, variables of `.env`.
#[test]
fn anchors_vars_and_variables_are_filled_in() {
    let home = Home::new();
    let yaml = "version: '0.5'\n\
        x-common: &common\n  working_dir: app\n  availability:\n    restart: on_failure\n\
        vars:\n  GREETING: hello\n\
        processes:\n\
        \x20 one:\n    <<: *common\n\
        \x20   vars:\n      WHO: one\n\
        \x20   command: \"echo {{.GREETING}} {{ .WHO }} ${COLOUR} ${NONE:-none} $${HOME:+home} $(basename $(pwd)); exec sleep 300\"\n\
        \x20   is_tty: true\n\
        \x20 two:\n    <<: *common\n    entrypoint: ['sh', '-c', 'echo two; exec sleep 300']\n\
        \x20   environment:\n      - LEVEL=${LOST}\n";
    let project = project(&home, "vars", yaml);
    std::fs::create_dir(project.dir.join("app")).expect("a directory");
    project.write(".env", "COLOUR=red\n");
    let said = project.run(&["up", "-f", FILE, "--wait"]).ok().error();
    assert!(said.contains("`${LOST}` is not set") && !said.contains("x-common"), "{said}");
    let id = |name: &str| {
        let status = project.json(&["status", "-f", FILE]);
        let job = status["jobs"].as_array().expect("a list").iter().find(|job| job["name"] == name).cloned();
        job.expect("it is listed")["job"]["job"].as_str().expect("an id").to_owned()
    };
    home.wait_for_output(&id("one"), "hello one red none home app");
    home.wait_for_output(&id("two"), "two\n");
    assert_eq!(home.show(&id("one"))["pty"], true);
    down(&project);
}

/// As a pipeline of one-shots: each when the one before it has ended, whatever became of that.
#[test]
fn what_has_completed_is_told_from_what_has_succeeded() {
    let home = Home::new();
    let yaml = "log_location: all.log\nlog_level: info\n\
        processes:\n\
        \x20 fetch:\n    command: 'exit 3'\n\
        \x20 build:\n    command: 'echo build >> order'\n    depends_on:\n      fetch:\n        condition: process_completed\n\
        \x20 ship:\n    command: 'echo ship >> order'\n    depends_on:\n      build:\n        condition: process_completed_successfully\n\
        \x20 never:\n    command: 'echo never >> order'\n    depends_on:\n      fetch:\n        condition: process_completed_successfully\n";
    let project = project(&home, "steps", yaml);
    let done = project.run(&["up", "-f", FILE, "--wait"]).code(1);
    assert!(
        done.text().contains("never  not started: fetch@succeeded can no longer come"),
        "{}",
        done.text()
    );
    until("they ran", || {
        std::fs::read_to_string(project.dir.join("order")).unwrap_or_default() == "build\nship\n"
    });
    assert_eq!(state(&project, "never"), "not started");
    down(&project);
}

#[test]
fn liveness_and_what_is_not_taken_over() {
    let home = Home::new();
    let yaml = "log_level: debug\n\
        processes:\n\
        \x20 web:\n\
        \x20   command: 'exec sleep 300'\n\
        \x20   namespace: front\n\
        \x20   replicas: 1\n\
        \x20   log_location: web.log\n\
        \x20   liveness_probe:\n\
        \x20     http_get:\n        host: 127.0.0.1\n        port: 1\n        path: /health\n\
        \x20     initial_delay_seconds: 5\n      period_seconds: 7\n      failure_threshold: 2\n\
        \x20   availability:\n      restart: exit_on_failure\n\
        \x20 job:\n    command: 'exec sleep 300'\n    disabled: false\n\
        \x20   depends_on:\n      web:\n        condition: process_started\n        patience: 3\n\
        \x20   readiness_probe:\n      exec:\n        command: 'true'\n        shell: zsh\n\
        \x20     period_seconds: 3\n      failure_threshold: 4\n";
    let project = project(&home, "live", yaml);
    let said = project.run(&["up", "-f", FILE]).ok().error();
    for key in [
        "log_level",
        "web.log_location",
        "liveness_probe.initial_delay_seconds",
        "exit_on_failure",
        "job.depends_on.web.patience",
        "job.readiness_probe.exec.shell",
        "job.readiness_probe.period_seconds",
        "job.readiness_probe.failure_threshold",
    ] {
        assert!(said.contains(key), "{key} is not named: {said}");
    }
    let jobs = home.json(["list"]);
    assert_eq!(
        (&jobs[0]["labels"]["namespace"], &jobs[0]["healthy"]),
        (&"front".into(), &true.into()),
        "{jobs}"
    );
    let shown = std::fs::read(home.job_dir(jobs[0]["job"].as_str().expect("an id")).join("spec.json"))
        .expect("it is there");
    let health = &serde_json::from_slice::<serde_json::Value>(&shown).expect("JSON")["health"];
    assert_eq!(
        health,
        &serde_json::json!({ "http": "http://127.0.0.1:1/health", "interval_ms": 7000, "failures": 2 })
    );
    down(&project);
}

/// What runs at times and what is restarted when its sources change.
#[test]
fn schedules_and_watched_files_are_taken_over() {
    let home = Home::new();
    let yaml = "processes:\n\
        \x20 backup:\n    command: 'echo backup'\n    schedule:\n      cron: '0 2 * * *'\n      timezone: JST-9\n      max_concurrent: 1\n\
        \x20 clean:\n    command: 'echo clean'\n    schedule:\n      interval: 1h\n      run_on_start: true\n\
        \x20 api:\n    command: 'echo run >> runs; exec sleep 300'\n    watch:\n      debounce: 300ms\n      paths:\n\
        \x20       - path: ./src\n          exclude: ['**/*_test.py']\n";
    let project = project(&home, "watched", yaml);
    std::fs::create_dir(project.dir.join("src")).expect("a directory");
    let said = project.run(&["up", "-f", FILE]).ok().error();
    assert!(said.contains("watch.debounce") && !said.contains("schedule"), "{said}");
    let status = project.json(&["status", "-f", FILE]);
    let job = |name: &str| {
        let jobs = status["jobs"].as_array().expect("a list").iter();
        jobs.filter(|job| job["name"] == name).map(|job| job["job"].clone()).next().expect("it is listed")
    };
    // Two o'clock of the job is 17:00 UTC.
    let next = job("backup")["next_run_at"].as_str().expect("a time").to_owned();
    assert!(next.contains("T17:00:00"), "{next}");
    until("the other runs at once", || state(&project, "clean").starts_with("next run in"));
    let runs = || std::fs::read_to_string(project.dir.join("runs")).unwrap_or_default().lines().count();
    until("it runs", || runs() == 1);
    // What is left out counts for nothing, and what comes after it does.
    project.write("src/api_test.py", "");
    project.write("src/api.py", "");
    until("it was restarted", || runs() == 2);
    // The command writes its line before all of its run is noted.
    let why = || project.run(&["why", "-f", FILE, "api"]).ok().text();
    until_seen("the new run says why", why, |why| why.contains("src/api.py changed"));
    down(&project);
}

#[test]
fn what_is_not_to_be_filled_in_stays_and_an_address_may_have_tls() {
    let home = Home::new();
    let yaml = "disable_env_expansion: true\nprocesses:\n  a:\n    command: 'echo ${A:?none}; sleep 300'\n    environment: ['A=b']\n    \
                readiness_probe:\n      http_get:\n        scheme: HTTPS\n        port: 1\n";
    let project = project(&home, "plain", yaml);
    project.run(&["up", "-f", FILE]).ok();
    let job = home.json(["list"])[0]["job"].as_str().expect("an id").to_owned();
    home.wait_for_output(&job, "b\n");
    let spec = std::fs::read_to_string(home.job_dir(&job).join("spec.json")).expect("it is there");
    assert!(spec.contains("\"http\":\"https://127.0.0.1:1/\""), "{spec}");
    down(&project);
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    let home = Home::new();
    let project = project(&home, "wrong", "");
    for (yaml, said) in [
        ("processes:\n  a:\n    comand: x\n", "processes.a: it has no `command`"),
        ("processes: [\n", FILE),
        ("version: '1'\n", "processes: there are none"),
        (
            "processes:\n  a:\n    command: x\n    depends_on:\n      b: {}\n",
            "processes.a.depends_on.b: there is no such process",
        ),
        // devbox#2915: healthy of a process without a probe was waited for without end.
        (
            "processes:\n  a:\n    command: x\n    depends_on:\n      b:\n        condition: process_healthy\n  b:\n    command: x\n",
            "never says when it is ready",
        ),
        (
            "processes:\n  a:\n    command: x\n    depends_on:\n      b: {}\n  b:\n    command: x\n    depends_on:\n      a: {}\n",
            "it would wait for itself",
        ),
        (
            "processes:\n  a:\n    command: x\n    replicas: 0\n",
            "processes.a.replicas: write a number from 1 to",
        ),
        (
            "processes:\n  a:\n    command: x\n    replicas: many\n",
            "processes.a.replicas: write a number from 1 to",
        ),
        ("processes:\n  a:\n    command: x\n    is_daemon: true\n", "stays in the foreground"),
        ("extends: other.yaml\nprocesses: {}\n", "write all processes into one file"),
        (
            "processes:\n  a:\n    command: 'x ${A:?no}'\n",
            "process-compose.yaml:3:1: `${A:?no}` is not known here",
        ),
        ("vars: { A: 1 }\nprocesses:\n  a:\n    command: 'x {{.B}}'\n", "none of its vars: A"),
    ] {
        project.write(FILE, yaml);
        let error = project.run(&["up", "-f", FILE]).code(1).error();
        assert!(error.contains(said), "{yaml}\n{error}");
    }
    assert_eq!(home.json(["list"]), serde_json::json!([]));
}
