//! Waiting for what is needed next.
//!
//! Proves every condition of `wait`, that a timeout ends no job, and that `run` returns when its job is ready.

use outlive_tests::{ERAS, Era, Home, Mcp, activity, until};
use serde_json::json;

#[test]
fn the_end_of_a_job_comes_with_its_new_output() {
    let home = Home::new();
    for era in ERAS {
        let mut client = Mcp::start(&home, era);
        let line = "echo first; read x; echo second; exit 5";
        let mut seen = client.call("run", json!({"command": line, "stdin": "open", "wait_ms": 0})).ok();
        let job = seen.job();
        while !seen.text.contains("first") {
            seen = client.call("read_output", json!({"job": job, "wait_ms": 20_000})).ok();
        }
        let waiting = client.send_call("wait", json!({"jobs": job}));
        client.call("send_input", json!({"job": job, "text": "go", "wait_ms": 0})).ok();
        let answer = client.tool_answer(waiting).ok();
        assert!(answer.header().contains("failed, exit 5"), "{}", answer.text);
        assert!(!answer.body().contains(&"first"), "{}", answer.text);
        // Once, by the first of the two calls.
        let again = client.call("read_output", json!({"job": job})).ok();
        assert!(again.body().is_empty(), "{}", again.text);
        assert_eq!(client.end(), 0);
    }
}

#[test]
fn when_the_time_is_over_jobs_go_on() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    let answer = client.call("wait", json!({"jobs": [job], "timeout_ms": "100"})).ok();
    assert!(answer.header().contains("not yet after"), "{}", answer.text);
    assert!(answer.text.contains(&format!("wait jobs=[\"{job}\"]")), "{}", answer.text);
    assert_eq!(home.show(&job)["status"], "running");
    let answer = client.call("wait", json!({"timeout_ms": 50})).ok();
    assert!(answer.header().contains("nothing has happened"), "{}", answer.text);
}

#[test]
fn lines_ports_and_silence_are_waited_for() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let server = "exec python3 -c 'import socket,time\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen()\nprint(\"listening on\",s.getsockname()[1],flush=True);time.sleep(100)'";
    let job = client.call("run", json!({"command": server, "background": true})).ok().job();
    let answer =
        client.call("wait", json!({"jobs": [job], "for": "match", "pattern": "listening on (\\d+)"})).ok();
    assert!(answer.header().contains("line 1 matches"), "{}", answer.text);
    let port: u16 = answer.body()[0].rsplit(' ').next().unwrap().parse().unwrap();
    let answer = client.call("wait", json!({"jobs": [job], "port": port})).ok();
    assert!(answer.header().contains(&format!(":{port}")), "{}", answer.text);
    let answer = client.call("wait", json!({"jobs": [job], "for": "idle", "idle_ms": 100})).ok();
    assert!(answer.header().contains("silent"), "{}", answer.text);
    let answer =
        client.call("wait", json!({"jobs": [job], "pattern": "never", "fail_pattern": "listening"})).ok();
    assert!(answer.header().contains("failed: "), "{}", answer.text);
    for (arguments, expected) in [
        (json!({"jobs": [job], "for": "ready"}), "ready_on"),
        (json!({"jobs": [job], "for": "match"}), "needs pattern"),
        (json!({"jobs": [job], "for": "match", "pattern": "("}), "regular expression"),
        (json!({"jobs": [job], "for": "port"}), "needs port"),
        (json!({"jobs": [job], "for": "dinner"}), "exit, ready"),
        (json!({"group": "none"}), "no job is in group"),
        (json!({"jobs": ["nope"]}), job.as_str()),
    ] {
        let error = client.call("wait", arguments.clone()).error();
        assert!(error.contains(expected) && error.contains("next: "), "{arguments}: {error}");
    }
}

#[test]
fn run_returns_when_its_job_is_ready() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let line = "echo starting; echo up and running; sleep 100";
    let answer = client.call("run", json!({"command": line, "ready_on": "up and", "wait_ms": 45_000})).ok();
    assert!(answer.header().contains("running") && answer.header().contains("ready"), "{}", answer.text);
    let again = client.call("wait", json!({"jobs": [answer.job()], "for": "ready"})).ok();
    assert!(again.header().contains("ready"), "{}", again.text);
    let error = client.call("run", json!({"command": "true", "ready_on": "("})).error();
    assert!(error.contains("regular expression"), "{error}");
}

#[test]
fn a_group_is_waited_for_as_a_whole_or_for_its_first() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let start = |client: &mut Mcp, command: &str| {
        let arguments = json!({"command": command, "group": "g", "stdin": "open", "background": true});
        client.call("run", arguments).ok().job()
    };
    let (quick, slow) = (start(&mut client, "exit 1"), start(&mut client, "read x; exit 2"));
    let first = client.call("wait", json!({"group": "g"})).ok();
    assert!(first.header().contains("1 of 2 ended"), "{}", first.text);
    assert!(first.text.contains(&format!("[outlive] {quick} failed, exit 1")), "{}", first.text);
    let waiting = client.send_call("wait", json!({"group": "g", "all": true}));
    assert!(!client.is_answered(waiting));
    client.call("send_input", json!({"job": slow, "text": "", "wait_ms": 0})).ok();
    let all = client.tool_answer(waiting).ok();
    assert!(all.text.contains("exit 1") && all.text.contains("exit 2"), "{}", all.text);
}

/// Each of several jobs has one line, with what it printed below, and no other line tells its end once more.
#[test]
fn a_wait_for_several_tells_each_end_once_with_its_output() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let commands = ["echo lint is done", "echo types are done; exit 2", "echo units are done"];
    let jobs = commands.map(|command| {
        let command = format!("until [ -e gate ]; do sleep 0.02; done; {command}");
        client.call("run", json!({"command": command, "background": true})).ok().job()
    });
    let waiting = client.send_call("wait", json!({"jobs": jobs, "all": true}));
    std::fs::write(home.path().join("gate"), "").unwrap();
    let all = client.tool_answer(waiting).ok();
    assert_eq!(all.header(), "[outlive] all 3 have ended");
    for (job, line) in jobs.iter().zip(["lint is done", "types are done", "units are done"]) {
        assert_eq!(all.text.matches(job.as_str()).count(), 1, "{}", all.text);
        assert_eq!(all.text.matches(line).count(), 1, "{}", all.text);
    }
    assert!(all.text.len() < 300, "{} bytes: {}", all.text.len(), all.text);
    let next = client.call("list_jobs", json!({})).ok();
    assert!(!next.text.contains("since your last call"), "{}", next.text);
}

/// Without jobs, the next thing that happens to any job of the session is told, and of no other.
#[test]
fn without_jobs_the_next_event_is_told() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Stateless);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    // The keeper answers the starter before it writes the event of the start.
    let session = home.show(&job)["session"].as_str().unwrap().to_owned();
    assert_eq!(
        home.json(["wait", "--session", &session, "--event", "--since", "0"])["event"]["event"],
        "started"
    );
    let waiting = client.send_call("wait", json!({}));
    // Of another session.
    home.run(["run", "--wait", "--", "true"]).ok();
    assert!(!client.is_answered(waiting));
    // Not by the client itself.
    home.run(["kill", &job]).ok();
    let answer = client.tool_answer(waiting).ok();
    assert!(answer.header().contains(&job) && answer.header().contains("killed"), "{}", answer.text);
}

/// A wait that is cancelled ends at once, whatever it waits for, and does not keep the server at its end.
#[test]
fn every_wait_can_be_cancelled() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "sleep 100", "background": true})).ok().job();
    let waits: Vec<u64> = [
        json!({"jobs": [job]}),
        json!({"jobs": [job], "pattern": "x"}),
        json!({"jobs": [job], "idle_ms": 80_000_000}),
        json!({"timeout_ms": 80_000_000}),
        json!({"jobs": [job], "port": 1}),
    ]
    .into_iter()
    .map(|arguments| client.send_call("wait", arguments))
    .collect();
    client.call("list_jobs", json!({})).ok();
    let threads = |client: &Mcp| std::fs::read_dir(format!("/proc/{}/task", client.pid())).unwrap().count();
    waits.iter().for_each(|&id| client.cancel(id));
    client.call("list_jobs", json!({})).ok();
    // Threads that have nothing to do end by themselves.
    until("the waiting threads are gone", || threads(&client) <= 6);
    assert_eq!(home.show(&job)["status"], "running");
    assert_eq!(client.end(), 0);
}

/// While nothing happens, nothing wakes a server that waits.
#[test]
fn a_server_that_waits_sleeps() {
    let home = Home::new();
    home.configure("[mcp]\nlongest_wait = \"1d\"\n");
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "sleep 300", "background": true})).ok().job();
    let long = 80_000_000;
    let waits = [
        json!({"jobs": [job], "timeout_ms": long}),
        json!({"jobs": [job], "pattern": "x", "timeout_ms": long}),
        json!({"jobs": [job], "idle_ms": long, "timeout_ms": long}),
        json!({"timeout_ms": long}),
    ];
    let waits = waits.map(|arguments| client.send_call("wait", arguments));
    // Once: the calls may still begin, and threads that have nothing to do any more end after a while.
    until("it sleeps for a second", || {
        let before = activity(client.pid());
        let other = home.start_with(&["--session", "other"], ["sleep", "1"]);
        assert_eq!(home.wait(&other)["exit_code"], 0);
        activity(client.pid()) == before
    });
    assert!(waits.iter().all(|&id| !client.is_answered(id)));
    assert_eq!(home.show(&job)["status"], "running");
}

/// How long a call may wait depends on the client, or is configured.
#[test]
fn a_wait_is_as_long_as_the_client_takes() {
    let home = Home::new();
    let longest = |client: &mut Mcp, meta: serde_json::Value| {
        let arguments = json!({"command": "true", "wait_ms": 86_400_000});
        let id = client.send("tools/call", json!({"name": "run", "arguments": arguments, "_meta": meta}));
        let text = client.tool_answer(id).ok().text;
        let (_, taken) = text.split_once("was taken as ").unwrap_or_else(|| panic!("{text}"));
        taken.split(' ').next().unwrap().to_owned()
    };
    let mut client = Mcp::start(&home, Era::Handshake);
    assert_eq!(longest(&mut client, json!({})), "45000");
    assert_eq!(longest(&mut client, json!({"progressToken": 1})), "200000");
    let mut known = Mcp::silent(home.outlive(["mcp"]));
    let about = json!({"name": "codex-mcp-client", "version": "1"});
    known.result(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}),
    );
    known.notify("notifications/initialized", json!({}));
    assert_eq!(longest(&mut known, json!({})), "200000");
    home.configure("[mcp]\nlongest_wait = \"7s\"\n");
    let mut client = Mcp::start(&home, Era::Handshake);
    assert_eq!(longest(&mut client, json!({"progressToken": 1})), "7000");
}

#[test]
fn the_advice_to_wait_on_repeats_every_condition() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let job = client.call("run", json!({"command": "sleep 300", "background": true})).ok().job();
    let answer = client
        .call("wait", json!({"job": job, "regex": "up \"now\"", "fail_pattern": "down", "timeout_ms": 20}))
        .ok();
    let again = format!(
        r#"call it again: wait jobs=["{job}"] pattern="up \"now\"" fail_pattern="down" timeout_ms=20"#
    );
    assert!(answer.text.contains(&again), "{}", answer.text);
}

/// What this reader does itself is no news to it; what others do is, and an end is told once.
#[test]
fn without_jobs_own_events_are_passed_over() {
    let home = Home::new();
    let (mut client, mut other) = (Mcp::start(&home, Era::Handshake), Mcp::start(&home, Era::Handshake));
    let waiting = client.send_call("wait", json!({}));
    // It does not read its input: that it waits for some would be news.
    let line = "until [ -e go ]; do sleep 0.05; done; echo the last word; exit 4";
    let job = client.call("run", json!({"command": line, "background": true})).ok().job();
    let killed = client.call("run", json!({"command": "sleep 300", "background": true})).ok().job();
    client.call("kill", json!({"job": killed})).ok();
    client.call("run", json!({"command": "exit 3"})).ok();
    if client.is_answered(waiting) {
        panic!("its own starts and ends: {}", client.tool_answer(waiting).text);
    }
    std::fs::write(home.path().join("go"), "").unwrap();
    let answer = client.tool_answer(waiting).ok();
    assert_eq!(answer.text.matches(&job).count(), 1, "{}", answer.text);
    assert!(answer.header().contains(&format!("{job} failed, exit 4")), "{}", answer.text);
    assert_eq!(answer.body(), ["the last word"]);
    assert!(!client.call("list_jobs", json!({"status": "live"})).ok().text.contains("since your last call"));
    let waiting = client.send_call("wait", json!({}));
    assert!(!client.is_answered(waiting));
    let theirs = other.call("run", json!({"command": "sleep 300", "background": true})).ok().job();
    let answer = client.tool_answer(waiting).ok();
    assert!(answer.header().contains(&format!("{theirs} started")), "{}", answer.text);
}

/// Readiness is told with what showed it, and its lack is told, too.
#[test]
fn readiness_is_told_with_the_address_or_the_line() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    for (printed, pattern, told) in [
        ("  Local:   http://127.0.0.1:5173/", "Local:", "ready at http://127.0.0.1:5173/;"),
        ("worker is up", "is up", "ready: \"worker is up\";"),
    ] {
        let line = format!("echo begin; echo '{printed}'; sleep 300");
        let answer =
            client.call("run", json!({"command": line, "ready_on": pattern, "wait_ms": 45_000})).ok();
        assert!(answer.header().contains(told), "{}", answer.text);
        let again = client.call("wait", json!({"jobs": [answer.job()], "for": "ready"})).ok();
        assert!(again.header().contains(told.trim_end_matches(';')), "{}", again.text);
    }
    let answer = client.call("run", json!({"command": "sleep 300", "ready_on": "never", "wait_ms": 50})).ok();
    assert!(
        answer.header().contains("running, ") && answer.header().contains(", not ready"),
        "{}",
        answer.text
    );
}

#[test]
fn a_port_in_use_names_the_job_that_holds_it() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let server = "exec python3 -c 'import socket,time\ns=socket.socket();s.bind((\"127.0.0.1\",0));s.listen()\nprint(\"on\",s.getsockname()[1],flush=True);time.sleep(300)'";
    let holder = client.call("run", json!({"command": server, "ready_on": "^on ", "wait_ms": 45_000})).ok();
    let port = holder.body()[0].trim_start_matches("on ").to_owned();
    assert!(holder.header().ends_with(&format!("; listens on {port}")), "{}", holder.text);
    let told = format!("port {port} is held by {}: kill port={port} ends it", holder.job());
    for line in [
        format!("echo 'Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}' >&2; exit 1"),
        format!("echo 'OSError: [Errno 98] Address already in use' >&2; exit 1; : {port}"),
        format!("echo 'OSError: [Errno 98] Address already in use' >&2; exit 1; : {port} --bind 127.0.0.1"),
    ] {
        let answer = client.call("run", json!({"command": line, "wait_ms": 45_000})).ok();
        assert!(answer.text.contains(&told), "{}", answer.text);
    }
}

#[test]
fn a_command_that_runs_already_is_named_reused_or_restarted() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let mut run = |more: serde_json::Value| {
        let mut arguments = json!({"command": "sleep 300", "background": true});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.call("run", arguments).ok()
    };
    let first = run(json!({"name": "web"})).job();
    let same = run(json!({"name": "web"}));
    assert_eq!(same.job(), first, "{}", same.text);
    assert!(same.header().ends_with("it ran already and was not started again"), "{}", same.text);
    let second = run(json!({}));
    assert_ne!(second.job(), first);
    assert!(second.header().ends_with(&format!("; {first} runs the same already")), "{}", second.text);
    let third = run(json!({"if_running": "restart"}));
    assert!(third.header().ends_with(&format!("; {} was ended for it", second.job())), "{}", third.text);
    assert_eq!(home.show(&second.job())["status"], "killed");
    assert_eq!(run(json!({"if_running": "reuse"})).job(), third.job());
    assert!(!run(json!({"cwd": "/"})).header().contains("already"), "another directory");
}

/// Before this, clients that asked at the same time started one each.
#[test]
fn clients_that_ask_for_a_name_at_once_start_one_job() {
    let home = Home::new();
    let mut clients: Vec<Mcp> = (0..6).map(|_| Mcp::start(&home, Era::Handshake)).collect();
    let ask = |client: &mut Mcp| {
        client.call("run", json!({"command": "sleep 300", "name": "web", "background": true})).ok().job()
    };
    for round in 0..3 {
        let jobs: Vec<String> = std::thread::scope(|scope| {
            let asked: Vec<_> = clients.iter_mut().map(|client| scope.spawn(|| ask(client))).collect();
            asked.into_iter().map(|asked| asked.join().expect("it answers")).collect()
        });
        assert!(jobs.iter().all(|job| *job == jobs[0]), "round {round}: {jobs:?}");
        home.run(["kill", &jobs[0]]).ok();
    }
}

#[test]
fn the_end_of_a_pipe_does_not_pass_for_a_success() {
    let home = Home::new();
    let mut client = Mcp::start(&home, Era::Handshake);
    let told = |client: &mut Mcp, line: &str| {
        let answer = client.call("run", json!({"command": line, "wait_ms": 45_000})).ok();
        let note = answer.text.lines().find_map(|line| line.strip_prefix("[outlive] exit 0 is that of "));
        (answer.header().split(", after").next().unwrap().to_owned(), note.unwrap_or_default().to_owned())
    };
    let unknown = "tail, the end of a pipe; the codes before it are not known";
    for (line, codes, note) in [
        ("false | tail -5", " (pipe exits 1, 0)", ""),
        ("cd / && (echo a; exit 3) | cat | tail -1", " (pipe exits 3, 0, 0)", ""),
        ("false |\n tee out", " (pipe exits 1, 0)", ""),
        // What has no more to read for is ended by its reader, and that is no failure.
        ("yes | head -1", "", ""),
        ("echo a | cat", "", ""),
        ("false | cat; true", "", ""),
        // A text stays as it is, and so does a trace, and the codes unknown.
        ("cat <<X | tail\nit is\nX", "", ""),
        ("set -x; false | tail", "", unknown),
        // The shell that has the codes is another one.
        ("(false | tail)", "", unknown),
    ] {
        let (header, found) = told(&mut client, line);
        assert!(header.ends_with(&format!("completed, exit 0{codes}")), "{line}: {header}");
        assert_eq!(found, note, "{line}");
    }
    for (line, code) in
        [("true | exit 7", 7), ("set -e; true | false", 1), ("true | (kill -9 $BASHPID)", 137)]
    {
        let (header, found) = told(&mut client, line);
        assert!(header.ends_with(&format!("failed, exit {code}")), "{line}: {header}");
        assert_eq!(found, "", "{line}");
    }
    // However it is told. The line stays what it was, for all who look at the job.
    let job =
        client.call("run", json!({"command": "read x; false | cat", "stdin": "open", "background": true}));
    let job = job.ok().job();
    home.run(["send", &job, "go"]).ok();
    home.run(["--reader", "another", "wait", "--timeout", "50s", &job]).ok();
    let notice = format!("since your last call: {job} completed, exit 0 (pipe exits 1, 0)");
    let told = client.call("list_jobs", json!({"status": "live"})).ok().text;
    assert!(told.contains(&notice), "{told}");
    let row = format!("{job} completed, exit 0 (pipe exits 1, 0)");
    assert!(client.call("list_jobs", json!({})).ok().text.contains(&row));
    assert!(client.call("wait", json!({"jobs": [job]})).ok().text.contains(&row));
    assert!(client.call("read_output", json!({"job": job})).ok().text.contains(&row));
    assert_eq!(home.show(&job)["command"], "read x; false | cat");
    // Another shell knows but the last.
    home.configure("[job]\nshell = \"/bin/sh\"\n");
    let mut client = Mcp::start(&home, Era::Handshake);
    let answer = client.call("run", json!({"command": "false | tail -5", "wait_ms": 45_000})).ok();
    assert!(
        answer.text.contains("tail, the end of a pipe; the codes before it are not known"),
        "{}",
        answer.text
    );
}
