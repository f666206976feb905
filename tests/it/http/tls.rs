//! Listening where other machines can ask.
//!
//! Proves: not without TLS; with it, what the certificate names is asked, over TLS alone, with a token; a browser gets a cookie that goes over
//! TLS alone, and the link is drawn for a phone.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use outlive_tests::{Home, LIMIT, lacks};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};

use super::{Reply, Server, exchange};

/// Makes a certificate for these names; none where that cannot be done.
fn certificate(home: &Home, names: &str) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    openssl.args(["-days", "2", "-subj", "/CN=outlive", "-addext", &format!("subjectAltName={names}")]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-out").arg(&certificate).arg("-keyout").arg(&key);
    openssl.output().is_ok_and(|made| made.status.success()).then_some((certificate, key))
}

/// Asks over TLS, as a client that trusts this certificate and calls the server by this name.
fn ask(server: &Server<'_>, trusted: &PathBuf, name: &str, head: &[&str], body: &str) -> Reply {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(trusted).expect("a certificate")).expect("it can be trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("they are known").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
    let lines: String = head[1..].iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!(
        "{} HTTP/1.1\r\n{lines}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        head[0],
        body.len()
    );
    exchange(StreamOwned::new(client, stream), request.as_bytes())
}

#[test]
fn other_machines_can_ask_over_tls_alone() {
    let home = Home::new();
    let Some((certificate, key)) = certificate(&home, "DNS:jobs.example,DNS:*.many.example,IP:192.0.2.7")
    else {
        return lacks("openssl");
    };
    let files = [&certificate, &key].map(|file| file.to_str().expect("text"));
    for address in ["0.0.0.0", "0.0.0.0:8080", "[::]:8080", "192.168.1.10:80"] {
        let failed = home.run(["serve".to_owned(), format!("--tcp={address}")]).code(2).error();
        assert!(failed.contains("ssh -L") && failed.contains("--tls CERT KEY"), "{address}: {failed}");
    }
    let server = Server::start_with(&home, &["--tcp=0.0.0.0", "--tls", files[0], files[1]]);
    let opened: Value = home.json(["open"]);
    let url = format!("https://jobs.example:{}/", server.port);
    assert_eq!(opened["url"], url);
    let secret =
        opened["link"].as_str().and_then(|link| link.strip_prefix(&format!("{url}#t="))).expect("a link");
    // Who does not speak TLS gets nothing.
    let plain = server.tcp("GET", "/v1/jobs", &[&server.host()], "");
    assert_eq!((plain.status, plain.body.len()), (0, 0));
    let token = server.token("phone", &["--scope", "view"]);
    let host = format!("Host: jobs.example:{}", server.port);
    let get =
        |lines: &[&str]| ask(&server, &certificate, "jobs.example", &[&["GET /v1/jobs"], lines].concat(), "");
    get(&[&host]).refused(401, "unauthorized");
    assert_eq!(get(&[&host, &token]).ok()["total"], 0);
    // Only by the names of the certificate, and from our own page.
    for wrong in ["evil.example", "127.0.0.1", "192.0.2.8", "a.b.many.example", "localhost", ""] {
        let host = format!("Host: {wrong}:{}", server.port);
        get(&[&host, &token]).refused(403, "forbidden");
    }
    get(&["Host: jobs.example", &token]).refused(403, "forbidden");
    for name in ["192.0.2.7", "one.many.example", "jobs.example"] {
        let (host, origin) =
            (format!("Host: {name}:{}", server.port), format!("Origin: https://{name}:{}", server.port));
        assert_eq!(get(&[&host, &origin, &token]).ok()["total"], 0);
        get(&[&host, &origin.replace("https", "http"), &token]).refused(403, "forbidden");
    }
    // The cookie of a browser is for TLS and this host alone.
    let login = ask(
        &server,
        &certificate,
        "jobs.example",
        &["POST /v1/login", &host],
        &json!({ "link": secret }).to_string(),
    );
    let cookie = login.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.starts_with(&format!("__Host-outlive-{}=", server.port)), "{cookie}");
    for rule in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.split("; ").any(|part| part == rule), "{cookie}");
    }
    let pair = format!("Cookie: {}", cookie.split(';').next().unwrap_or_default());
    assert_eq!(get(&[&host, &pair]).ok()["total"], 0);
    server.stop();
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_of() {
    let home = Home::new();
    let Some((certificate, key)) = certificate(&home, "IP:192.0.2.7") else { return lacks("openssl") };
    let other = home.path().join("other.pem");
    let made =
        Command::new("openssl").args(["genpkey", "-algorithm", "ed25519", "-out"]).arg(&other).output();
    assert!(made.is_ok_and(|made| made.status.success()));
    let refused = |certificate: &PathBuf, key: &PathBuf| {
        let mut serve = home.outlive(["serve", "--tcp=127.0.0.1", "--tls"]);
        serve.arg(certificate).arg(key);
        outlive_tests::finish(serve, b"").code(2).error()
    };
    assert!(refused(&home.path().join("none.pem"), &key).contains("cannot read"));
    assert!(refused(&key, &key).contains("has no certificate"));
    assert!(refused(&certificate, &certificate).contains("has no private key"));
    assert!(refused(&certificate, &other).contains("cannot be used together"));
    // A browser could ask by no name that is in it.
    let nameless = refused(&certificate, &key);
    assert!(nameless.contains("127.0.0.1") && nameless.contains("subjectAltName"), "{nameless}");
    // Nothing is left in the way of the next.
    Server::start(&home).stop();
}

#[test]
fn the_link_is_drawn_for_a_phone() {
    let home = Home::new();
    let server = Server::start(&home);
    let drawn = home.run(["open", "--qr"]).ok();
    let text = drawn.text();
    let link = text.lines().last().expect("a link");
    assert!(link.starts_with(&format!("http://127.0.0.1:{}/#t=", server.port)), "{text}");
    let image: Vec<&str> = text.lines().filter(|line| !line.starts_with("http")).collect();
    let width = image.first().map_or(0, |line| line.chars().count());
    // Two modules high, with four of margin on each side; a link of this length needs 33 to 41.
    assert!((41..=49).contains(&width), "{text}");
    assert_eq!(image.len(), width.div_ceil(2));
    assert!(
        image.iter().all(|line| line.chars().count() == width && line.chars().all(|c| " ▀▄█".contains(c))),
        "{text}"
    );
    assert!(drawn.error().contains("this machine alone"), "{}", drawn.error());
    home.run(["open", "--qr", "--print"]).code(2);
    server.stop();
}
