//! What a token allows over `--host`, and what not.
//!
//! Proves: a scope and a session bound what a call can do, and nothing but a verb for other machines is run.

use outlive_tests::Home;

use super::Served;

fn token(home: &Home, name: &str, options: &[&str]) -> String {
    let mut command = home.outlive(["token", "create", name]);
    command.args(options);
    outlive_tests::finish(command, b"").ok().text().trim_end().to_owned()
}

#[test]
fn a_token_allows_what_its_scope_says() {
    let home = Home::new();
    let server = Served::start_with(&home, &["--tcp"]);
    let (view, drive) =
        (token(&home, "looks", &["--scope", "view"]), token(&home, "drives", &["--scope", "drive"]));
    let job = server.run_as(&drive, &["run", "echo hi; exec sleep 300"]).ok().text().trim_end().to_owned();
    home.wait_for_output(&job, "hi");
    for arguments in [
        &["list"][..],
        &["show", &job],
        &["logs", &job],
        &["wait", "--match", "hi", &job],
        &["inbox", "--peek"],
    ] {
        server.run_as(&view, arguments).ok();
    }
    for arguments in [
        &["run", "true"][..],
        &["kill", &job],
        &["send", &job, "x"],
        &["rm", "--ended"],
        &["inbox"],
        &["logs", "--cursor", "me", &job],
        &["show", "--show-env", &job],
        &["session", "create", "x"],
        &["attach", &job],
    ] {
        let refused = server.run_as(&view, arguments);
        assert_eq!(refused.code, 1, "{arguments:?}");
        assert!(refused.error().contains("--scope"), "{arguments:?}: {}", refused.error());
    }
    assert_eq!(server.run_as(&drive, &["session", "create", "x"]).code, 1, "sessions are for admin");
    assert_eq!(home.show(&job)["status"], "running");
    for (token, code) in [("", "unauthorized"), ("outlive_wrong", "unauthorized")] {
        let refused = server.run_as(token, &["--json", "list"]).code(1).error_json();
        assert_eq!(refused["error"]["code"], code);
    }
    // Who only looks moves no other reader's position.
    server.run_as(&drive, &["kill", &job]).ok();
    let done = home.start(["true"]);
    server.run_as(&view, &["wait", &done]).ok();
    let told = home.json(["inbox", "--peek"]);
    assert!(told["notices"].to_string().contains(&done), "{told}");
}

#[test]
fn a_token_of_one_session_is_kept_to_it() {
    let home = Home::new();
    let server = Served::start_with(&home, &["--tcp"]);
    let token = token(&home, "shop", &["--scope", "admin", "--session", "shop"]);
    let other = home.start(["sleep", "300"]);
    let own = server.run_as(&token, &["run", "sleep 300"]).ok().text().trim_end().to_owned();
    assert_eq!(home.show(&own)["session"], "shop");
    let listed = server.run_as(&token, &["--json", "list"]).ok().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    server.run_as(&token, &["show", &other]).code(3);
    server.run_as(&token, &["kill", &other]).code(3);
    server.run_as(&token, &["--session", "default", "list"]).code(1);
    server.run_as(&token, &["session", "transfer", &other, "--to", "shop"]).code(1);
    server.run_as(&token, &["kill", "--all"]).ok();
    assert_eq!(home.show(&other)["status"], "running");
}

#[test]
fn nothing_but_a_call_is_run() {
    let home = Home::new();
    let _server = Served::start(&home);
    for terms in ["", "{}", "{\"scope\":\"root\",\"session\":null,\"caller\":\"x\"}"] {
        home.run(["served", terms, "list"]).code(2);
    }
    // What is about the machine is refused there, too, whatever a client says.
    let terms = r#"{"scope":"admin","session":null,"caller":"x"}"#;
    for arguments in [
        &["doctor"][..],
        &["serve"],
        &["token", "create", "x"],
        &["on-exit", "a", "b"],
        &["reference", "cli"],
    ] {
        let refused = home.run([&["served", terms], arguments].concat());
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.error());
    }
}
