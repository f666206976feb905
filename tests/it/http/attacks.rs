//! What pages of other sites, other users and hostile clients try.
//!
//! Proves: rebinding, other origins, forms, guesses, odd paths, long and slow requests, smuggling and other users get nowhere, and cost the
//! owner nothing.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outlive_tests::{Home, LIMIT, lacks, until};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Server, exchange, parse};

#[test]
fn a_rebound_name_and_another_origin_are_refused_before_anything_else() {
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "admin"]));
    let port = server.port;
    // Rebinding: the page of the attacker is of the same origin, so only the name tells.
    for name in
        ["evil.example", "evil.example:80", "127.0.0.1", "localhost", "127.0.0.1.evil.example", "[::1]", ""]
    {
        for path in ["/", "/app.js", "/v1/jobs", "/openapi.json", "/nothing"] {
            let reply = server.tcp("GET", path, &[&format!("Host: {name}"), &token], "");
            assert_eq!(reply.status, 403, "{name} {path}: {}", reply.text());
        }
    }
    server
        .tcp("GET", "/v1/jobs", &[&format!("Host: 127.0.0.1:{}", port.wrapping_add(1)), &token], "")
        .refused(403, "forbidden");
    // Two names, or another in the request line.
    assert_ne!(server.tcp("GET", "/v1/jobs", &[&host, "Host: evil.example", &token], "").status, 200);
    let absolute =
        format!("GET http://evil.example/v1/jobs HTTP/1.1\r\n{host}\r\n{token}\r\nConnection: close\r\n\r\n");
    assert_ne!(exchange(server.connect_tcp(), absolute.as_bytes()).status, 200);
    let own = format!("Origin: http://127.0.0.1:{port}");
    server.tcp("GET", "/v1/jobs", &[&host, &token, &own], "").ok();
    for line in [
        "Origin: http://evil.example",
        "Origin: null",
        "Origin: https://127.0.0.1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        server.tcp("GET", "/v1/jobs", &[&host, &token, line], "").refused(403, "forbidden");
        let json = "Content-Type: application/json";
        server
            .tcp("POST", "/v1/jobs", &[&host, &token, line, json], r#"{"command":"true"}"#)
            .refused(403, "forbidden");
    }
    let upgrade = [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let mut lines = vec![host.as_str(), &token, "Origin: http://evil.example"];
    lines.extend(upgrade);
    server.tcp("GET", "/v1/jobs/x/terminal", &lines, "").refused(403, "forbidden");
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(0));
}

#[test]
fn the_socket_takes_nothing_that_a_browser_behind_a_tunnel_sends() {
    let home = Home::new();
    let server = Server::start_with(&home, &[]);
    for line in [
        "Host: evil.example",
        "Host: localhost:8080",
        "Host: localhost\r\nOrigin: http://localhost:8080",
        "Host: localhost\r\nSec-Fetch-Site: none",
    ] {
        let request = format!("GET /v1/jobs HTTP/1.1\r\n{line}\r\nConnection: close\r\n\r\n");
        exchange(server.connect(), request.as_bytes()).refused(403, "forbidden");
    }
}

#[test]
fn a_form_of_another_kind_is_not_taken() {
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "admin"]));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
        let reply = server.tcp(
            "POST",
            "/v1/jobs",
            &[&host, &token, &format!("Content-Type: {kind}")],
            r#"{"command":"true"}"#,
        );
        reply.refused(415, "usage");
    }
    server.tcp("POST", "/v1/jobs", &[&host, &token], r#"{"command":"true"}"#).refused(415, "usage");
    assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(0));
}

#[test]
fn guessing_tokens_is_slowed_and_does_not_lock_the_owner_out() {
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &[]));
    let guess = |number: u32| {
        server
            .tcp("GET", "/v1/jobs", &[&host, &format!("Authorization: Bearer outlive_{number:064x}")], "")
            .status
    };
    let statuses: Vec<u16> = (0..40).map(guess).collect();
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429), "{statuses:?}");
    server.tcp("GET", "/v1/jobs", &[&host, &token], "").ok();
    let link = r#"{"link":"outlive_0"}"#;
    let login = || server.tcp("POST", "/v1/login", &[&host, "Content-Type: application/json"], link).status;
    let statuses: Vec<u16> = (0..40).map(|_| login()).collect();
    assert!(
        statuses.contains(&429) && statuses.iter().all(|status| [401, 429].contains(status)),
        "{statuses:?}"
    );
    for odd in ["Bearer ", "Bearer ../../x", "Basic eDp5", "Bearer outlive_\u{e9}"] {
        assert_ne!(server.tcp("GET", "/v1/jobs", &[&host, &format!("Authorization: {odd}")], "").status, 200);
    }
}

#[test]
fn no_path_leads_out_of_the_store_or_the_page() {
    let home = Home::new();
    let server = Server::start(&home);
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/v1/jobs/..%2f..%2fversion",
        "/v1/jobs/%2e%2e/log",
        "/v1/jobs/..%2fx/log",
        "/v1/jobs/%00",
        "/%2e%2e/version",
        "//evil.example/",
        "/v1/jobs/x%0d%0aSet-Cookie:%20a=b/log",
    ] {
        let reply = server.get(path);
        assert!(matches!(reply.status, 400 | 404), "{path}: {} {}", reply.status, reply.text());
        assert_eq!(reply.header("set-cookie"), None);
    }
}

#[test]
fn long_bodies_heads_and_slow_clients_cost_nothing() {
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "admin"]));
    // A gigabyte is announced; what is sent of it is refused long before.
    let mut stream = server.connect_tcp();
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\n{host}\r\n{token}\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("it is sent");
    let piece = vec![b' '; 1 << 16];
    let sent = (0..64).take_while(|_| stream.write_all(&piece).is_ok()).count();
    assert!(sent >= 1, "{sent}");
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).unwrap_or(0);
    assert!(
        count == 0 || parse(&answer[..count]).status == 413,
        "{}",
        String::from_utf8_lossy(&answer[..count])
    );
    // More headers than a request can have, and a longer one.
    let many: String = (0..1000).map(|number| format!("X-{number}: y\r\n")).collect();
    assert_ne!(
        exchange(server.connect_tcp(), format!("GET / HTTP/1.1\r\n{host}\r\n{many}\r\n").as_bytes()).status,
        200
    );
    let long = format!("GET / HTTP/1.1\r\n{host}\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    assert_ne!(exchange(server.connect_tcp(), long.as_bytes()).status, 200);
    // Clients that send nothing, or a head byte by byte, fill TCP, and the socket goes on.
    let mut slow: Vec<_> =
        (0..400).filter_map(|_| std::net::TcpStream::connect(("127.0.0.1", server.port)).ok()).collect();
    slow.iter_mut().step_by(2).for_each(|stream| drop(stream.write_all(b"GET / HTTP/1.1\r\nX: ")));
    let begun = Instant::now();
    server.get("/v1/jobs").ok();
    assert!(begun.elapsed() < LIMIT, "the socket waits for TCP");
    let resident = server.memory_kib("VmRSS:");
    assert!(resident < 64 << 10, "{resident} KiB");
    // They are sent away in their time, however they drip, and others come in.
    let is_over = Arc::new(AtomicBool::new(false));
    let dripping = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                slow.iter_mut().step_by(2).for_each(|stream| drop(stream.write_all(b"y")));
                std::thread::park_timeout(Duration::from_millis(500));
            }
        }
    });
    let stream = server.connect_tcp();
    stream.set_read_timeout(Some(Duration::from_secs(50))).expect("a limit can be set");
    let request = format!("GET /v1/jobs HTTP/1.1\r\n{host}\r\n{token}\r\nConnection: close\r\n\r\n");
    exchange(stream, request.as_bytes()).ok();
    is_over.store(true, Ordering::Relaxed);
    dripping.thread().unpark();
    dripping.join().expect("it only writes");
}

/// What needs no token is asked for again and again, and not read: the answers fill what the kernel holds for the client. One that has shown
/// a token may take its time.
#[test]
fn a_client_without_a_token_that_does_not_read_is_sent_away() {
    const ASKED: usize = 2000;
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "view"]));
    let connections = || {
        let held = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).expect("it runs");
        let links = held.filter_map(|one| std::fs::read_link(one.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
    };
    let before = connections();
    let ask = |access: &str| {
        let mut stream = server.connect_tcp();
        let first = format!("GET /v1/jobs HTTP/1.1\r\n{host}\r\n{access}\r\n\r\n");
        let more = format!("GET /style.css HTTP/1.1\r\n{host}\r\n\r\n").repeat(ASKED);
        let last = format!("GET / HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
        stream.write_all([first, more, last].concat().as_bytes()).expect("the kernel takes it");
        stream
    };
    let answers = |mut stream: std::net::TcpStream| {
        let mut bytes = Vec::new();
        // One that was sent away ends with an error.
        stream.read_to_end(&mut bytes).ok();
        let begin = b"HTTP/1.1 ";
        bytes.windows(begin.len()).filter(|window| window == begin).count()
    };
    let known = ask(&token);
    until("it is connected", || connections() == before + 1);
    let unknown = ask("X-None: 1");
    until("both are connected", || connections() == before + 2);
    until("one is sent away", || connections() == before + 1);
    assert!(answers(unknown) < ASKED);
    assert_eq!(answers(known), ASKED + 2);
}

/// A gigabyte, announced or in chunks without an end, to what takes a body and to what takes none, with a token and without.
#[test]
fn a_body_of_a_gigabyte_is_broken_off_and_kept_nowhere() {
    const PIECE: usize = 1 << 16;
    const PIECES: usize = (1 << 30) / PIECE;
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "admin"]));
    let none = "X-None: 1".to_owned();
    let chunk = [format!("{PIECE:x}\r\n").as_bytes(), &[b' '; PIECE], b"\r\n"].concat();
    let plain = vec![b' '; PIECE];
    for (request, access) in [
        ("POST /v1/jobs", &token),
        ("POST /v1/jobs", &none),
        ("POST /v1/login", &none),
        ("POST /mcp", &token),
        ("DELETE /v1/jobs/x", &token),
        ("GET /v1/jobs", &token),
    ] {
        for (framing, piece) in
            [("Content-Length: 1073741824", &plain), ("Transfer-Encoding: chunked", &chunk)]
        {
            let mut stream = server.connect_tcp();
            stream.set_write_timeout(Some(LIMIT)).expect("a limit can be set");
            let head = format!(
                "{request} HTTP/1.1\r\n{host}\r\n{access}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{framing}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("it is sent");
            let sent = (0..PIECES).take_while(|_| stream.write_all(piece).is_ok()).count();
            // What the kernel holds on the way to a server that reads no more.
            assert!(sent * PIECE < 64 << 20, "{request}, {framing}: {sent} pieces were taken");
        }
    }
    let peak = server.memory_kib("VmHWM:");
    assert!(peak < 64 << 10, "{peak} KiB");
    assert_eq!(server.tcp("GET", "/v1/jobs", &[&host, &token], "").ok()["total"], 0);
}

#[test]
fn ten_thousand_connections_do_not_reach_the_owner() {
    const MANY: usize = 10_000;
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "view"]));
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, ..limit };
    if limit.maximum.is_some_and(|most| most < MANY as u64 + 500)
        || setrlimit(Resource::Nofile, wanted).is_err()
    {
        return lacks("descriptors for 10,000 connections: ulimit -Hn");
    }
    let address = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, server.port);
    let mut asking = Vec::with_capacity(MANY);
    for _ in 0..MANY {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None);
        let socket = socket.expect("there are descriptors");
        // Not waited for: what the kernel has no room for tries again by itself.
        connect(&socket, &address).ok();
        asking.push(socket);
    }
    // Who comes by the socket notices nothing.
    let job = server.run("sleep 300");
    assert_eq!(server.get(&format!("/v1/jobs/{job}")).ok()["status"], "running");
    let resident = server.memory_kib("VmRSS:");
    assert!(resident < 64 << 10, "{resident} KiB");
    let held = std::fs::read_dir(format!("/proc/{}/fd", server.child.id())).expect("it runs").count();
    assert!(held < 600, "{held} descriptors");
    // When they are gone, TCP serves again.
    drop(asking);
    until("TCP serves again", || {
        server.tcp("GET", &format!("/v1/jobs/{job}"), &[&host, &token], "").status == 200
    });
}

#[test]
fn smuggled_requests_are_not_taken_apart() {
    let home = Home::new();
    let server = Server::start(&home);
    let (host, token) = (server.host(), server.token("t", &["--scope", "admin"]));
    let json = "Content-Type: application/json";
    let inner = format!(
        "POST /v1/jobs HTTP/1.1\r\n{host}\r\n{token}\r\n{json}\r\nContent-Length: 18\r\n\r\n{{\"command\":\"true\"}}"
    );
    for lengths in [
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 6",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Content-Length: 99999999999999999999",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding:\r\n chunked",
        "X: y\nTransfer-Encoding: chunked\nContent-Length: 5",
    ] {
        let request =
            format!("POST /v1/login HTTP/1.1\r\n{host}\r\n{json}\r\n{lengths}\r\n\r\n0\r\n\r\n{inner}");
        let mut stream = server.connect_tcp();
        stream.write_all(request.as_bytes()).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let first = parse(&bytes).status;
        assert!(first == 0 || first >= 400, "{lengths}: {text}");
        // Whatever follows a request whose end is in doubt is not read as another.
        assert!(text.matches("HTTP/1.1 ").count() <= 1, "{lengths}: {text}");
        assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(0), "{lengths}");
    }
    // A chunk whose length is not what it says ends the connection, too.
    for chunks in ["5\r\n{}\r\n0\r\n\r\n", "-1\r\n{}", "ffffffffffffffffff\r\n{}", "2\n{}\n0\n\n"] {
        let head = format!(
            "POST /v1/jobs HTTP/1.1\r\n{host}\r\n{token}\r\n{json}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let mut stream = server.connect_tcp();
        stream.write_all([&head, chunks, &inner].concat().as_bytes()).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!text.contains("HTTP/1.1 20"), "{chunks:?}: {text}");
        assert_eq!(home.json(["list"]).as_array().map(Vec::len), Some(0), "{chunks:?}");
    }
}

#[test]
fn another_user_of_the_machine_gets_nowhere() {
    let home = Home::new();
    let server = Server::start(&home);
    if outlive_sys::socket::own_uid() != 0 {
        return lacks("root's rights, to be another user");
    }
    let socket = home.store().join("serve/socket");
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ntry:\n  s.connect(sys.argv[1])\n  s.sendall(b'GET /v1/jobs HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n  print(len(s.recv(100)))\nexcept OSError as e: print('refused')";
    let ask = || {
        let mut command = std::process::Command::new("python3");
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        command.args(["-c", script]).arg(&socket).current_dir("/");
        outlive_tests::finish(command, b"").text()
    };
    assert_eq!(ask().trim(), "refused");
    // Even where the directories let it in, the kernel says who it is.
    for path in [home.path().to_owned(), home.store(), home.store().join("serve")] {
        set_mode(&path, 0o711);
    }
    set_mode(&socket, 0o666);
    until("it is refused", || ["0", "refused"].contains(&ask().trim()));
    // On TCP it has no token, and a link that it saw among the processes is not for it: the owner can still use it.
    let opened = home.json(["open"]);
    let secret = opened["link"].as_str().and_then(|link| link.split_once("#t=")).expect("a secret").1;
    let script = "import sys,urllib.request,urllib.error\nr=urllib.request.Request(sys.argv[1],sys.argv[2].encode() or None,{'Content-Type':'application/json'})\ntry: print(urllib.request.urlopen(r).status)\nexcept urllib.error.HTTPError as e: print(e.status)";
    let body = serde_json::json!({ "link": secret }).to_string();
    for (path, body, expected) in [("v1/jobs", "", "401"), ("v1/login", body.as_str(), "403")] {
        let mut command = std::process::Command::new("python3");
        std::os::unix::process::CommandExt::uid(&mut command, 65_534);
        let url = format!("http://127.0.0.1:{}/{path}", server.port);
        command.args(["-c", script, &url, body]).current_dir("/");
        assert_eq!(outlive_tests::finish(command, b"").text().trim(), expected, "{path}");
    }
    let json = "Content-Type: application/json";
    assert_eq!(server.tcp("POST", "/v1/login", &[&server.host(), json], &body).ok()["scope"], "drive");
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}
