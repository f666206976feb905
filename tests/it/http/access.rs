//! Who may ask, and for what.
//!
//! Proves: on the socket the kernel says who asks; on TCP every request for data needs a token, and gets no more than its scope and
//! session; a link signs one browser in, once; tokens are kept as hashes and can be revoked.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use outlive_tests::{Home, LIMIT, end_within, until};
use serde_json::{Value, json};

use super::Server;

#[test]
fn the_socket_is_for_this_user_and_a_second_server_is_refused() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    let socket = std::fs::metadata(home.store().join("serve/socket")).expect("it is there");
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    assert_eq!(server.get("/v1/jobs").ok()["total"], 0);
    let failed = home.run(["serve"]).code(1).error();
    assert!(failed.contains("runs already") && failed.contains("hint:"), "{failed}");
    server.stop();
    assert!(!home.store().join("serve/socket").exists());
}

#[test]
fn a_server_that_was_killed_leaves_nothing_in_the_way() {
    let home = Home::new();
    let server = Server::start(&home);
    let (job, port) = (server.run("sleep 300"), server.port);
    drop(server);
    assert!(home.store().join("serve/socket").exists());
    let server = Server::start(&home);
    assert_eq!(server.port, port, "what was opened with the first stays good");
    assert_eq!(server.get(&format!("/v1/jobs/{job}")).ok()["status"], "running");
}

/// The file with its address names its process, so `serve --stop` may signal it as soon as that is there, and before it has said where it
/// listens: the pipe that it says it to is full here.
#[test]
fn a_server_that_has_an_address_can_be_asked_to_end() {
    const TERM: u32 = 15;
    let home = Home::new();
    let (mut said, mut full) = std::io::pipe().expect("a pipe");
    let size = rustix::pipe::fcntl_getpipe_size(&full).expect("it has a size");
    full.write_all(&vec![b' '; size]).expect("there is room");
    let mut command = home.outlive(["--json", "serve", "--tcp"]);
    let mut child = command.stdout(full).spawn().expect("it starts");
    until("it has an address", || home.store().join("serve/server.json").exists());
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("the kernel tells");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
    assert_ne!(caught & (1 << (TERM - 1)), 0, "{caught:x}");
    outlive_tests::signal(child.id().cast_signed(), "TERM");
    drop(command);
    std::io::copy(&mut said, &mut std::io::sink()).expect("it is read to its end");
    assert_eq!(end_within(&mut child, LIMIT), Some(0));
    assert!(!home.store().join("serve/socket").exists());
}

#[test]
fn it_ends_by_itself_when_nobody_asks_and_jobs_do_not_notice() {
    let home = Home::new();
    let mut server = Server::start_with(&home, &["--idle", "200ms"]);
    let job = home.start_line("sleep 300");
    assert_eq!(end_within(&mut server.child, LIMIT), Some(0));
    assert_eq!(home.show(&job)["status"], "running");
}

#[test]
fn on_tcp_every_request_for_data_needs_a_token_and_its_scope() {
    let home = Home::new();
    let server = Server::start(&home);
    let host = server.host();
    server.tcp("GET", "/v1/jobs", &[&host], "").refused(401, "unauthorized");
    let view = server.token("look", &["--scope", "view"]);
    let drive = server.token("do", &["--scope", "drive"]);
    assert_eq!(server.tcp("GET", "/v1/jobs", &[&host, &view], "").ok()["total"], 0);
    let json = "Content-Type: application/json";
    let body = r#"{"command":"sleep 300","name":"web"}"#;
    let refused = server.tcp("POST", "/v1/jobs", &[&host, &view, json], body).refused(403, "forbidden");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("--scope drive")), "{refused}");
    server.tcp("POST", "/v1/jobs", &[&host, &drive, json], body).ok();
    for (method, path) in
        [("POST", "kill"), ("POST", "pause"), ("POST", "restart"), ("POST", "rename"), ("POST", "input")]
    {
        server
            .tcp(method, &format!("/v1/jobs/web/{path}"), &[&host, &view, json], "{}")
            .refused(403, "forbidden");
    }
    server.tcp("DELETE", "/v1/jobs/web", &[&host, &view], "").refused(403, "forbidden");
    assert_eq!(home.show("web")["status"], "running");
    home.run(["token", "revoke", "look"]).ok();
    server.tcp("GET", "/v1/jobs", &[&host, &view], "").refused(401, "unauthorized");
}

#[test]
fn a_token_for_one_session_sees_no_other() {
    let home = Home::new();
    home.run(["--session", "shop", "run", "--name", "web", "sleep 300"]).ok();
    home.run(["--session", "bank", "run", "--name", "vault", "sleep 300"]).ok();
    let server = Server::start(&home);
    let secret = home.run(["--session", "shop", "token", "create", "shop", "--scope", "admin"]).ok().text();
    let (host, token) = (server.host(), format!("Authorization: Bearer {}", secret.trim_end()));
    let get = |path: &str| server.tcp("GET", path, &[&host, &token], "");
    let jobs = get("/v1/jobs").ok();
    assert_eq!((jobs["total"].as_u64(), jobs["jobs"][0]["name"].as_str()), (Some(1), Some("web")));
    get("/v1/jobs/vault").refused(404, "not_found");
    get("/v1/jobs/vault/log").refused(404, "not_found");
    get("/v1/jobs?session=bank").refused(403, "forbidden");
    get("/v1/events?session=bank").refused(403, "forbidden");
    assert_eq!(get("/v1/sessions").ok().as_array().map(Vec::len), Some(1));
    let json = "Content-Type: application/json";
    let start = |body: &str| server.tcp("POST", "/v1/jobs", &[&host, &token, json], body);
    start(r#"{"command":"true","session":"bank"}"#).refused(403, "forbidden");
    assert_eq!(start(r#"{"command":"true"}"#).ok()["session"], "shop");
}

#[test]
fn tokens_are_kept_as_hashes_listed_and_end_by_themselves() {
    let home = Home::new();
    let secret = home.run(["token", "create", "laptop"]).ok().text();
    let secret = secret.trim_end();
    assert!(secret.starts_with("outlive_") && secret.len() == 72, "{secret}");
    let dir = home.store().join("serve/tokens");
    for entry in std::fs::read_dir(dir).expect("it is there").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        assert!(!text.contains(secret) && !entry.path().to_string_lossy().contains(secret));
        assert_eq!(entry.metadata().expect("it is there").permissions().mode() & 0o777, 0o600);
    }
    let failed = home.run(["token", "create", "laptop"]).code(1).error();
    assert!(failed.contains("already"), "{failed}");
    home.run(["token", "create", "brief", "--for", "1ms"]).ok();
    let gone = || home.json(["token", "list"]).as_array().is_some_and(|all| all.len() == 1);
    until("the brief one is over", gone);
    assert_eq!(home.json(["token", "list"])[0]["scope"], "view");
    let failed = home.run(["token", "revoke", "nobody"]).code(3).error();
    assert!(failed.contains("token list"), "{failed}");
    home.run(["token", "revoke", "laptop"]).ok();
}

#[test]
fn a_link_signs_one_browser_in_once() {
    let home = Home::new();
    let server = Server::start(&home);
    let opened = home.json(["open", "--scope", "view"]);
    let link = opened["link"].as_str().expect("a link");
    assert!(link.starts_with(&format!("http://127.0.0.1:{}/#t=outlive_", server.port)), "{link}");
    let secret = link.split_once("#t=").expect("a secret").1;
    let (host, kind) = (server.host(), "Content-Type: application/json");
    let body = json!({ "link": secret }).to_string();
    // The secret of a link is no token.
    server
        .tcp("GET", "/v1/jobs", &[&host, &format!("Authorization: Bearer {secret}")], "")
        .refused(401, "unauthorized");
    let reply = server.tcp("POST", "/v1/login", &[&host, kind], &body);
    let cookie = reply.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict") && cookie.contains("Path=/"), "{cookie}");
    assert_eq!(reply.ok()["scope"], "view");
    server.tcp("POST", "/v1/login", &[&host, kind], &body).refused(401, "unauthorized");
    let cookie = format!("Cookie: other=1; {}", cookie.split(';').next().expect("a pair"));
    assert_eq!(server.tcp("GET", "/v1/jobs", &[&host, &cookie], "").ok()["total"], 0);
    server.tcp("DELETE", "/v1/jobs/x", &[&host, &cookie], "").refused(403, "forbidden");
    // It is a token like any other, and so survives the server, and can be revoked.
    drop(server);
    let server = Server::start(&home);
    assert_eq!(server.tcp("GET", "/v1/jobs", &[&host, &cookie], "").ok()["total"], 0);
    let name = home.json(["token", "list"])[0]["name"].as_str().map(str::to_owned).expect("a name");
    home.run(["token", "revoke", &name]).ok();
    server.tcp("GET", "/v1/jobs", &[&host, &cookie], "").refused(401, "unauthorized");
}

#[test]
fn open_starts_a_server_where_none_runs() {
    let home = Home::new();
    let first = home.json(["open"]);
    let second = home.json(["open"]);
    assert_eq!(first["pid"], second["pid"]);
    assert_ne!(first["link"], second["link"]);
    let pid = outlive_tests::pid(&first, "pid");
    outlive_tests::signal(pid, "TERM");
    until("it is gone", || !outlive_tests::is_running(pid));
}

#[test]
fn every_route_says_the_scope_that_it_needs() {
    let home = Home::new();
    let made = home.run(["reference", "openapi"]).ok().text();
    let written = std::fs::read_to_string(outlive_tests::workspace().join("docs/reference/openapi.json"));
    assert!(
        written.unwrap_or_default() == made,
        "docs/reference/openapi.json is not what outlive makes: ./test bless"
    );
    let openapi: Value = serde_json::from_str(&made).expect("JSON");
    assert_eq!(openapi["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    let paths = openapi["paths"].as_object().expect("paths");
    let mut count = 0;
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            let need = &operation["security"][0];
            let scope = need["token"][0].as_str();
            let is_public = need.as_object().is_some_and(serde_json::Map::is_empty);
            let may_be_public = ["/openapi.json", "/v1/login"].contains(&path.as_str());
            assert!(scope.is_some() || (is_public && may_be_public), "{method} {path}: {need}");
            assert!(method == "get" || scope != Some("view"), "{method} {path} changes something");
            count += 1;
        }
    }
    assert!(count >= 20, "{count} operations");
}

#[test]
fn the_tunnel_for_another_machine_is_printed() {
    let home = Home::new();
    let mut server = home.outlive(["--json", "serve", "--ssh", "me@build"]);
    let mut child = server.stdout(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("piped"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says where");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    let port =
        said["url"].as_str().and_then(|url| url.trim_end_matches('/').rsplit(':').next()).expect("a port");
    assert_eq!(said["tunnel"], format!("ssh -N -L {port}:127.0.0.1:{port} me@build"));
    // Where a server runs already, the tunnel leads to that one.
    let again = home.json(["serve", "--ssh", "you@build"]);
    assert_eq!(again["tunnel"], format!("ssh -N -L {port}:127.0.0.1:{port} you@build"));
    assert_eq!(
        (&again["pid"], &again["url"], &again["socket"]),
        (&said["pid"], &said["url"], &said["socket"])
    );
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    for host in ["-oProxyCommand=x", "a b", "a;b", ""] {
        home.run(["serve", "--ssh", host]).code(2);
    }
}
