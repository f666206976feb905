//! A front end of one session neither sees nor names another session's jobs.
//!
//! Proves of the design: invariant 8. Ids, prefixes, names, ports and groups of another session are answered exactly as
//! what does not exist.

use outlive_tests::Home;

/// What a command says of a reference, with the reference taken out.
fn answer(home: &Home, arguments: &[&str], reference: &str) -> (i32, String, String) {
    let hidden = |text: String| text.replace(reference, "REFERENCE");
    let arguments: Vec<&str> =
        arguments.iter().map(|&word| if word == "JOB" { reference } else { word }).collect();
    let done = home.run([&["--session", "mine"], arguments.as_slice()].concat());
    (done.code, hidden(done.text()), hidden(done.error()))
}

#[test]
fn no_verb_tells_what_another_session_has() {
    let home = Home::new();
    let options = ["--session", "theirs", "run", "--name", "server", "--group", "web", "--stdin", "open"];
    let serve = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); time.sleep(300)";
    let job =
        home.run([&options[..], &["--", "python3", "-c", serve]].concat()).ok().text().trim().to_owned();
    home.wait_for_output(&job, "\n");
    let port = String::from_utf8_lossy(&home.logs(&job)).trim().to_owned();
    let ended = home.run(["--session", "theirs", "run", "--name", "tests", "--wait=30s", "--", "true"]);
    ended.ok();
    let prefix = &job[..job.len() - 2];
    let verbs: &[&[&str]] = &[
        &["show", "JOB"],
        &["show", "--tree", "JOB"],
        &["logs", "JOB"],
        &["logs", "-f", "JOB"],
        &["logs", "--cursor", "me", "JOB"],
        &["wait", "JOB"],
        &["wait", "--any", "--timeout", "1s", "JOB"],
        &["send", "JOB", "text"],
        &["clear", "JOB"],
        &["kill", "JOB"],
        &["kill", "--nested", "JOB"],
        &["kill", "--signal", "HUP", "JOB"],
        &["pause", "JOB"],
        &["resume", "JOB"],
        &["remove", "JOB"],
        &["session", "transfer", "JOB", "--to", "mine"],
    ];
    for verb in verbs {
        for json in [&[][..], &["--json"]] {
            let verb = [json, verb].concat();
            let unknown = answer(&home, &verb, "nobody-0000");
            assert_eq!(unknown.0, 3, "{verb:?}: {unknown:?}");
            for reference in [job.as_str(), prefix, "server", "tests"] {
                assert_eq!(answer(&home, &verb, reference), unknown, "{verb:?} {reference}");
            }
        }
    }
    // Verbs without a reference say nothing of them either.
    home.run(["session", "create", "mine"]).ok();
    let mine = |arguments: &[&str]| home.run([&["--session", "mine"], arguments].concat());
    for verb in [&["list"][..], &["list", "--usage", "--ports"], &["events"], &["session", "list"]] {
        let done = mine(verb).ok();
        for secret in [job.as_str(), "server", "theirs", "python3", &port] {
            assert!(
                !done.text().contains(secret) && !done.error().contains(secret),
                "{verb:?} tells {secret}"
            );
        }
    }
    for verb in [&["session", "show", "theirs"][..], &["session", "close", "theirs", "--running", "kill"]] {
        let there = mine(verb).code(3).error();
        let nowhere: Vec<&str> =
            verb.iter().map(|&word| if word == "theirs" { "nobody" } else { word }).collect();
        assert_eq!(there.replace("theirs", "X"), mine(&nowhere).code(3).error().replace("nobody", "X"));
    }
    let by_port = mine(&["kill", "--port", &port]).code(3);
    assert!(!by_port.error().contains(&job) && !by_port.error().contains("theirs"), "{}", by_port.error());
    mine(&["kill", "--all"]).ok();
    // A name or prefix that fits jobs of both sessions means the front end's own.
    let own = home.run(["--session", "mine", "run", "--name", "server", "--", "sleep", "300"]).ok().text();
    assert_eq!(mine(&["--json", "show", "server"]).ok().json()["job"], own.trim());
    assert_eq!(mine(&["--json", "show", "server-"]).ok().json()["job"], own.trim());
    mine(&["kill", "--force", "server"]).ok();
    assert_eq!(home.show(&job)["status"], "running");
    // A front end that sees all is told their sessions.
    let all = home.run(["list"]).ok().text();
    assert!(all.contains("SESSION") && all.contains("theirs") && all.contains("mine"), "{all}");
}
