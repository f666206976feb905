//! What can be asked for.
//!
//! Proves: the answers are the objects of the command line; output is read in every way; waits end when the client goes; the page runs
//! nothing but its own files.

use outlive_tests::{Home, until};
use serde_json::json;

use super::{Server, exchange};

#[test]
fn a_job_is_the_same_object_as_at_the_command_line() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = server.run("echo out; echo err >&2; exit 3");
    home.wait(&job);
    let shown = server.get(&format!("/v1/jobs/{job}")).ok();
    assert_eq!(shown, home.show(&job));
    assert_eq!((shown["status"].as_str(), shown["exit_code"].as_i64()), (Some("failed"), Some(3)));
    let listed = server.get("/v1/jobs").ok();
    assert_eq!(listed["jobs"][0], home.json(["list"])[0]);
    let described = server.get("/openapi.json").ok();
    let schemas = &described["components"]["schemas"];
    let of = |part: &str| schemas[part]["properties"].as_object().cloned().unwrap_or_default();
    let known = of("JobObject");
    for (key, _) in listed["jobs"][0].as_object().expect("an object") {
        assert!(known.contains_key(key), "{key} is not described");
    }
}

#[test]
fn jobs_are_listed_in_pages_and_filtered() {
    let home = Home::new();
    let server = Server::start(&home);
    for (name, line) in [("a", "true"), ("b", "exit 1"), ("c", "sleep 300")] {
        server
            .post(
                "/v1/jobs",
                json!({ "command": line, "name": name, "group": "g", "labels": { "owner": name } }),
            )
            .ok();
    }
    home.wait("a");
    home.wait("b");
    let names = |path: &str| -> Vec<String> {
        let answer = server.get(path).ok();
        let jobs = answer["jobs"].as_array().expect("a list").clone();
        jobs.iter().map(|job| job["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names("/v1/jobs"), ["c", "b", "a"]);
    assert_eq!(names("/v1/jobs?live=true"), ["c"]);
    assert_eq!(names("/v1/jobs?status=failed,completed"), ["b", "a"]);
    assert_eq!(names("/v1/jobs?label=owner=a"), ["a"]);
    assert_eq!(names("/v1/jobs?search=EXIT"), ["b"]);
    let page = server.get("/v1/jobs?limit=2").ok();
    let next = page["next"].as_str().expect("another page");
    assert_eq!(page["total"], 3);
    assert_eq!(names(&format!("/v1/jobs?limit=2&after={next}")), ["a"]);
    server.get("/v1/jobs?status=odd").refused(400, "usage");
    server.get("/v1/jobs?sttus=failed").refused(400, "usage");
    let usage = server.get("/v1/jobs?live=true&usage=true&ports=true").ok();
    assert!(usage["jobs"][0]["usage"]["processes"].as_u64() >= Some(1), "{usage}");
    server.post("/v1/jobs", json!({ "command": "true", "name": "daily", "at": "18:00" })).ok();
    assert_eq!(names("/v1/jobs?scheduled=true"), ["daily"]);
    assert!(server.get("/v1/jobs?scheduled=true").ok()["jobs"][0]["next_run_at"].is_string());
}

#[test]
fn a_list_counts_what_was_printed_since_the_last() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let job = home.start_with(&["--stdin", "open"], ["cat"]);
    let printed = || server.get("/v1/jobs?limit=1").ok()["jobs"][0]["output"].clone();
    for round in 1..=6 {
        // Long enough for what is remembered of a log at rest.
        (0..40).for_each(|_| drop(printed()));
        home.run(["send", &job, "four"]).ok();
        until("it is counted", || printed()["bytes"] == 5 * round && printed()["lines"] == round);
    }
}

#[test]
fn output_is_read_by_line_time_stream_form_and_search() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = server
        .run(r"for i in 1 2 3 4 5; do echo line $i; done; printf '\033[31mred\033[0m\n' >&2; printf end");
    home.wait(&job);
    let texts = |query: &str| -> Vec<String> {
        let answer = server.get(&format!("/v1/jobs/{job}/output?{query}")).ok();
        let lines = answer["lines"].as_array().expect("lines").clone();
        lines.iter().map(|line| line["text"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(texts("from_line=2&lines=2"), ["line 2", "line 3"]);
    assert_eq!(texts("tail=2&stream=stdout"), ["line 5", "end"]);
    assert_eq!(texts("stream=stderr"), ["red"]);
    assert_eq!(texts("stream=stderr&form=raw"), ["\u{1b}[31mred\u{1b}[0m"]);
    assert_eq!(texts("search=LINE.[24]&ignore_case=true"), ["line 2", "line 4"]);
    assert_eq!(texts("search=line&invert=true&stream=stdout"), ["end"]);
    assert_eq!(texts("from_byte=7&lines=1"), ["line 2"]);
    assert_eq!(texts("since=2100-01-01T00:00:00Z"), [""; 0]);
    let page = server.get(&format!("/v1/jobs/{job}/output?lines=3")).ok();
    assert_eq!((page["more"].as_bool(), page["total_lines"].as_u64()), (Some(true), Some(7)));
    server.get(&format!("/v1/jobs/{job}/output?search=(")).refused(400, "usage");
    server.get(&format!("/v1/jobs/{job}/output?form=odd")).refused(400, "usage");
}

#[test]
fn the_raw_log_comes_whole_or_in_ranges() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = server.run("seq 1 200000");
    home.wait(&job);
    let log = home.logs(&job);
    let whole = server.get(&format!("/v1/jobs/{job}/log"));
    assert_eq!(
        whole.header("content-disposition"),
        Some(format!("attachment; filename=\"{job}.log\"").as_str())
    );
    assert!(whole.body == log, "{} and {} bytes", whole.body.len(), log.len());
    let part = |range: &str| {
        let head = format!(
            "GET /v1/jobs/{job}/log HTTP/1.1\r\nHost: localhost\r\nRange: {range}\r\nConnection: close\r\n\r\n"
        );
        exchange(server.connect(), head.as_bytes())
    };
    let middle = part("bytes=1000-1999");
    assert_eq!((middle.status, &middle.body[..]), (206, &log[1000..2000]));
    assert_eq!(middle.header("content-range"), Some(format!("bytes 1000-1999/{}", log.len()).as_str()));
    assert_eq!(part("bytes=-5").body, log[log.len() - 5..]);
    assert_eq!(part("bytes=99999999-").status, 416);
}

#[test]
fn jobs_are_started_answered_paused_renamed_restarted_ended_and_removed() {
    let home = Home::new();
    let server = Server::start(&home);
    let started = server.post(
        "/v1/jobs",
        json!({ "argv": ["sh", "-c", "read a; echo got $a; pwd; echo $X; exec sleep 300"], "name": "web",
            "stdin": "open", "cwd": "/", "env": { "X": "y" }, "timeout": "1h", "memory": "1G" }),
    );
    assert_eq!(started.status, 201);
    let first = started.ok()["job"].as_str().expect("an id").to_owned();
    assert_eq!(server.post("/v1/jobs/web/input", json!({ "text": "hello" })).ok()["bytes"], 6);
    home.wait_for_output("web", "got hello\n/\ny\n");
    server.post("/v1/jobs/web/pause", json!({})).ok();
    assert_eq!(home.show("web")["paused"], true);
    server.post("/v1/jobs/web/resume", json!({})).ok();
    server.post("/v1/jobs/web/rename", json!({ "name": "site" })).ok();
    let next = server.post("/v1/jobs/site/restart", json!({})).ok();
    assert_eq!(next["previous"], first.as_str());
    server.ask("DELETE", "/v1/jobs/site", None).refused(409, "live");
    let killed = server.post("/v1/jobs/site/kill", json!({ "grace_ms": 1000 })).ok();
    assert_eq!(
        (killed["status"].as_str(), killed["survivors"].as_array().map(Vec::len)),
        (Some("killed"), Some(0))
    );
    assert!(home.show("site")["reason"].as_str().is_some_and(|reason| reason.contains("outlive serve")));
    assert_eq!(server.post("/v1/jobs/site/kill", json!({})).ok()["already_ended"], true);
    server.ask("DELETE", &format!("/v1/jobs/{first}"), None).ok();
    server.get(&format!("/v1/jobs/{first}")).refused(404, "not_found");
    server.post("/v1/jobs", json!({})).refused(400, "usage");
    server.post("/v1/jobs", json!({ "command": "true", "tiemout": "1s" })).refused(400, "usage");
    server.post("/v1/jobs", json!({ "command": "true", "timeout": "soon" })).refused(400, "usage");
    server.post("/v1/jobs", json!({ "argv": ["/nowhere/at-all"] })).refused(422, "not_started");
}

#[test]
fn a_wait_answers_when_it_happens_and_ends_when_the_client_goes() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = home.start_with(&["--stdin", "open"], ["sh", "-c", "echo up; read a; exit 4"]);
    let matched = server.get(&format!("/v1/jobs/{job}/wait?match=up&timeout_ms=50000")).ok();
    assert_eq!((matched["outcome"].as_str(), matched["line"].as_str()), (Some("match"), Some("up")));
    let limited = server.get(&format!("/v1/jobs/{job}/wait?timeout_ms=1")).ok();
    assert_eq!((limited["outcome"].as_str(), limited["reached"].as_bool()), (Some("timeout"), Some(false)));
    // A client that goes: the thread that waits for it has the job's lock open, and lets it go.
    let pid = server.child.id().cast_signed();
    let mut stream = server.connect();
    let head = format!("GET /v1/jobs/{job}/wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("it is sent");
    let waiting = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        tasks
            .filter(|fd| {
                std::fs::read_link(fd.path()).is_ok_and(|link| link.to_string_lossy().contains("eventfd"))
            })
            .count()
    };
    let idle = waiting();
    until("it waits", || waiting() > idle || waiting() > 1);
    let busy = waiting();
    drop(stream);
    until("it waits no more", || waiting() < busy);
    server.post(&format!("/v1/jobs/{job}/input"), json!({ "text": "" })).ok();
    let ended = server.get(&format!("/v1/jobs/{job}/wait")).ok();
    assert_eq!((ended["outcome"].as_str(), ended["job"]["exit_code"].as_i64()), (Some("exit"), Some(4)));
}

#[test]
fn the_page_is_served_with_a_policy_that_lets_nothing_else_run() {
    let home = Home::new();
    let server = Server::start(&home);
    let host = server.host();
    let page = server.tcp("GET", "/", &[&host], "");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let text = page.text();
    assert!(!text.contains("<script>") && !text.contains("onclick") && !text.contains("style="), "{text}");
    let tag = page.header("etag").expect("a tag").to_owned();
    assert_eq!(server.tcp("GET", "/", &[&host, &format!("If-None-Match: {tag}")], "").status, 304);
    // Every file that a file of the page names is there.
    let mut names = vec!["app.js".to_owned(), "style.css".to_owned(), "icon.svg".to_owned()];
    let mut at = 0;
    while let Some(name) = names.get(at).cloned() {
        let file = server.tcp("GET", &format!("/{name}"), &[&host], "");
        assert_eq!(file.status, 200, "{name}");
        let text = file.text();
        let folder = name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        for import in text.split("from '").skip(1).filter_map(|rest| rest.split('\'').next()) {
            let import = match import.strip_prefix("../") {
                Some(above) => above.to_owned(),
                None => format!("{folder}{}", import.trim_start_matches("./")),
            };
            if !names.contains(&import) {
                names.push(import);
            }
        }
        assert!(!text.contains("innerHTML") && !text.contains("eval("), "{name}");
        at += 1;
    }
    assert!(names.len() >= 10, "{names:?}");
}

#[test]
fn sessions_are_made_shown_closed_and_given_jobs() {
    let home = Home::new();
    let server = Server::start(&home);
    let made = server.post("/v1/sessions", json!({ "name": "shop", "cwd": "/", "env": { "PORT": "3000" } }));
    assert_eq!(made.status, 201);
    assert_eq!(made.ok()["env"]["PORT"], "***");
    server.post("/v1/sessions", json!({ "name": "shop" })).refused(409, "exists");
    server.post("/v1/sessions", json!({ "name": "x", "cwd": "not/absolute" })).refused(400, "usage");
    server.post("/v1/sessions", json!({ "name": "a b" })).refused(400, "usage");
    let job = server.run("exec sleep 300");
    server.post(&format!("/v1/jobs/{job}/transfer"), json!({ "to": "shop" })).ok();
    assert_eq!(home.show(&job)["session"], "shop");
    let shown = server.get("/v1/sessions/shop").ok();
    assert_eq!((shown["live"].as_u64(), shown["live_jobs"][0].as_str()), (Some(1), Some(job.as_str())));
    server.get("/v1/sessions/nobody").refused(404, "not_found");
    server.post("/v1/sessions/shop/close", json!({})).refused(409, "live");
    server.post("/v1/sessions/shop/close", json!({ "running": "perhaps" })).refused(400, "usage");
    assert_eq!(server.post("/v1/sessions/shop/close", json!({ "running": "kill" })).ok()["state"], "closed");
    assert_eq!(home.show(&job)["status"], "killed");
    // Sessions are for `admin`, and a token of one session sees no other.
    let drive = server.token("drives", &["--scope", "drive"]);
    let body = r#"{"name": "x"}"#;
    let json = "Content-Type: application/json";
    server.tcp("POST", "/v1/sessions", &[&server.host(), &drive, json], body).refused(403, "forbidden");
    let own = server.token("own", &["--scope", "admin", "--session", "default"]);
    server.tcp("GET", "/v1/sessions/shop", &[&server.host(), &own], "").refused(403, "forbidden");
    server
        .tcp("POST", &format!("/v1/jobs/{job}/transfer"), &[&server.host(), &own, json], r#"{"to": "x"}"#)
        .refused(403, "forbidden");
}

#[test]
fn output_is_forgotten_and_endings_are_told_until_they_are_acknowledged() {
    let home = Home::new();
    let server = Server::start(&home);
    let job = server.run("echo hi; while [ ! -e stop ]; do sleep 0.01; done");
    home.wait_for_output(&job, "hi");
    server.post(&format!("/v1/jobs/{job}/clear"), json!({})).ok();
    assert_eq!(home.logs(&job), b"");
    assert_eq!(server.get("/v1/inbox?reader=me").ok()["notices"], json!([]));
    server.post(&format!("/v1/jobs/{job}/kill"), json!({})).ok();
    // The server started it for the reader `default`.
    let told = server.get("/v1/inbox").ok();
    assert_eq!(told["notices"][0]["job"], job.as_str(), "{told}");
    assert_eq!(server.get("/v1/inbox").ok(), told, "a look acknowledges nothing");
    let said = server.post("/v1/inbox/acknowledge", json!({ "up_to": told["up_to"] })).ok();
    assert_eq!(said["reader"], "default");
    assert_eq!(server.get("/v1/inbox").ok()["notices"], json!([]));
    assert_eq!(home.json(["inbox", "--peek"])["notices"], json!([]));
    server.post("/v1/inbox/acknowledge", json!({})).refused(400, "usage");
}

#[test]
fn queues_are_listed_paused_and_widened() {
    let home = Home::new();
    let server = Server::start(&home);
    assert_eq!(server.get("/v1/queues").ok(), json!([]));
    let start = || {
        let started = server.post("/v1/jobs", json!({ "command": "sleep 300", "queue": "builds" })).ok();
        started["job"].as_str().expect("an id").to_owned()
    };
    let jobs = [start(), start(), start()];
    until("one runs", || server.get("/v1/queues").ok()[0]["running"] == json!([jobs[0]]));
    let queue = server.get("/v1/queues").ok()[0].clone();
    assert_eq!(queue["queued"], json!([jobs[1], jobs[2]]));
    assert_eq!(server.post("/v1/queues/builds", json!({ "paused": true })).ok()["paused"], true);
    let widened = server.post("/v1/queues/builds", json!({ "paused": false, "parallel": 2 })).ok();
    assert_eq!((widened["paused"].as_bool(), widened["parallel"].as_u64()), (Some(false), Some(2)));
    until("two run", || server.get("/v1/queues").ok()[0]["running"] == json!([jobs[0], jobs[1]]));
    server.post("/v1/queues/builds", json!({})).refused(400, "usage");
    server.post("/v1/queues/builds", json!({ "parallel": 0 })).refused(400, "usage");
    server.post("/v1/queues/nobody", json!({ "paused": true })).refused(404, "not_found");
    server.post("/v1/queues/a%2fb", json!({ "paused": true })).refused(400, "usage");
    // A token for one session sees no other's jobs, and changes nothing that others share.
    let secret = home.run(["--session", "shop", "token", "create", "shop", "--scope", "drive"]).ok().text();
    let (host, token) = (server.host(), format!("Authorization: Bearer {}", secret.trim()));
    let seen = server.tcp("GET", "/v1/queues", &[&host, &token], "").ok();
    assert_eq!((&seen[0]["running"], &seen[0]["queued"]), (&json!([]), &json!([])));
    let json = "Content-Type: application/json";
    let refused = server.tcp("POST", "/v1/queues/builds", &[&host, &token, json], r#"{"paused":true}"#);
    refused.refused(403, "forbidden");
}

#[test]
fn a_project_is_brought_up_explained_and_ended() {
    let home = Home::new();
    let server = Server::start(&home);
    let dir = home.make_dir("shop");
    let file = "[jobs.db]\nrun = \"echo up; exec sleep 300\"\n[jobs.web]\nrun = \"exec sleep 300\"\nafter = [\"db@succeeded\"]\n";
    std::fs::write(dir.join("outlive.toml"), file).expect("written");
    assert_eq!(server.get("/v1/projects").ok(), json!([]));
    server.post("/v1/projects", json!({ "file": "shop" })).refused(400, "usage");
    let nameless = json!({ "job": {}, "named": true, "project": "" });
    server.ask("PUT", "/v1/projects/0/jobs/0", Some(nameless)).refused(400, "usage");
    let brought = server.post("/v1/projects", json!({ "file": dir.display().to_string() }));
    assert_eq!(brought.status, 202);
    let brought = brought.json();
    let session = brought["session"].as_str().expect("a session").to_owned();
    assert_eq!(brought["wanted"], json!(["db", "web"]));
    assert_eq!(server.get("/v1/projects").ok()[0]["session"], session.as_str());
    let path = format!("/v1/projects/{session}");
    until("db runs", || server.get(&path).ok()["jobs"][0]["job"]["status"] == "running");
    let status = server.get(&path).ok();
    assert_eq!((status["jobs"][1]["name"].as_str(), status["jobs"][1]["job"].is_null()), (Some("web"), true));
    assert_eq!(status["after"], json!([{ "job": "web", "on": "db", "milestone": "succeeded" }]));
    // `up` goes on by itself, and says a moment later what it waits for.
    until("why tells", || server.get(&format!("{path}/why/web")).ok().to_string().contains("db"));
    server.get(&format!("{path}/why/nobody")).refused(404, "not_found");
    server.get("/v1/projects/nobody").refused(404, "not_found");
    let ended = server.post(&format!("{path}/down"), json!({})).ok();
    assert_eq!((ended[0]["name"].as_str(), ended[0]["is_ended"].as_bool()), (Some("db"), Some(true)));
    assert_eq!(server.get("/v1/projects").ok(), json!([]));
}

#[test]
fn what_is_not_found_says_where_to_look() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    server.post("/v1/jobs", json!({ "command": "true", "name": "build" })).ok();
    for (path, words, hint) in [
        ("/v1/jobs/nothing", "nothing", "GET /v1/jobs lists all jobs"),
        ("/v1/jobs/biuld/log", "biuld", "did you mean build-"),
        ("/v1/sessions/nobody", "nobody", "GET /v1/sessions lists all sessions"),
        ("/v1/projects/nobody", "nobody", "GET /v1/projects lists those that are"),
        (
            "/v1/jbos",
            "there is no \"/v1/jbos\" here",
            "did you mean /v1/jobs? GET /openapi.json lists every path",
        ),
        ("/nothing/at/all", "/nothing/at/all", "GET /openapi.json lists every path"),
    ] {
        let problem = server.get(path).refused(404, "not_found");
        let [title, detail, next] =
            ["title", "detail", "hint"].map(|key| problem[key].as_str().unwrap_or_default());
        let is_path = words.contains('/');
        assert_eq!(title, if is_path { "no such path" } else { "no such job, session or agent" }, "{path}");
        assert!(next.contains(hint), "{path}: {problem}");
        assert!(detail.contains(words) && detail.ends_with(next), "{path}: {problem}");
    }
}

#[test]
fn several_jobs_are_waited_for_in_one_request() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let long = server.run("exec sleep 300");
    let short = server.run("exit 3");
    let any = server.get(&format!("/v1/wait?jobs={long},{short}&until=any")).ok();
    assert_eq!((any["outcome"].as_str(), any["reached"].as_bool()), (Some("exit"), Some(true)));
    assert_eq!(
        (any["jobs"][0]["job"].as_str(), any["jobs"][1]["exit_code"].as_i64()),
        (Some(&*long), Some(3))
    );
    let all = server.get(&format!("/v1/wait?jobs={long},{short}&timeout_ms=1")).ok();
    assert_eq!((all["outcome"].as_str(), all["reached"].as_bool()), (Some("timeout"), Some(false)));
    server.post(&format!("/v1/jobs/{long}/kill"), json!({})).ok();
    assert_eq!(server.get(&format!("/v1/wait?jobs={long},{short}")).ok()["jobs"][0]["status"], "killed");
    server.get("/v1/wait?jobs=").refused(400, "usage");
    server.get(&format!("/v1/wait?jobs={long}&until=some")).refused(400, "usage");
    server.get("/v1/wait?jobs=nothing").refused(404, "not_found");
}

#[test]
fn an_export_is_that_of_the_command_line() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let line = r"printf '\033[31m<b>red</b>\033[0m\n'; seq 1 3000";
    let job = home.start_with(&["--pty"], ["sh", "-c", line]);
    home.wait(&job);
    for form in ["cast", "txt", "html"] {
        let reply = server.get(&format!("/v1/jobs/{job}/export?form={form}"));
        assert_eq!(reply.status, 200, "{}", reply.text());
        // A file, and no page of this site.
        assert_eq!(reply.header("content-type"), Some("application/octet-stream"));
        let name = format!("attachment; filename=\"{job}.{form}\"");
        assert_eq!(reply.header("content-disposition"), Some(name.as_str()));
        let written = home.run(["export", &format!("--{form}"), &job]).ok().stdout;
        assert!(
            unchunked(&reply.body) == written,
            "{form}: {} and {} bytes",
            reply.body.len(),
            written.len()
        );
    }
    server.get(&format!("/v1/jobs/{job}/export?form=pdf")).refused(400, "usage");
    server.get("/v1/jobs/nothing/export?form=txt").refused(404, "not_found");
}

/// Joins the chunks of a body.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = body.windows(2).position(|pair| pair == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&body[..end]), 16).expect("a length");
        whole.extend_from_slice(&body[end + 2..end + 2 + length]);
        body = &body[end + 4 + length..];
    }
    whole
}

#[test]
fn a_list_is_never_older_than_what_it_tells() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let labels = json!({ "a": "1", "runtime_ms": "x" });
    let body = json!({ "command": "read a; exit 4 # ,\"runtime_ms\":7", "stdin": "open", "labels": labels });
    let job = server.post("/v1/jobs", body).ok()["job"].as_str().expect("an id").to_owned();
    let listed = || server.get("/v1/jobs").ok()["jobs"][0].clone();
    // Asked for again and again, it is remembered; what changes is seen at once, and it is what the command line says.
    let same = |what: &str| {
        (0..3).for_each(|_| drop(listed()));
        let (mut over_http, mut local) = (listed(), home.json(["list"])[0].clone());
        for object in [&mut over_http, &mut local] {
            object["runtime_ms"] = json!(object["runtime_ms"].is_u64());
        }
        assert_eq!(over_http, local, "{what}");
        over_http
    };
    assert_eq!(same("started")["labels"], labels);
    let first = listed()["runtime_ms"].as_u64();
    until("its time goes on", || listed()["runtime_ms"].as_u64() > first);
    home.run(["pause", &job]).ok();
    assert_eq!(same("paused")["paused"], true);
    home.run(["resume", &job]).ok();
    server.post(&format!("/v1/jobs/{job}/rename"), json!({ "name": "other" })).ok();
    assert_eq!(same("renamed")["name"], "other");
    server.post("/v1/sessions", json!({ "name": "shop" })).ok();
    server.post(&format!("/v1/jobs/{job}/transfer"), json!({ "to": "shop" })).ok();
    assert_eq!(same("transferred")["session"], "shop");
    home.run(["send", &job, "x"]).ok();
    home.wait(&job);
    let ended = same("ended");
    assert_eq!((ended["status"].as_str(), ended["exit_code"].as_i64()), (Some("failed"), Some(4)));
    server.ask("DELETE", &format!("/v1/jobs/{job}"), None).ok();
    assert_eq!(server.get("/v1/jobs").ok()["jobs"], json!([]));
}
