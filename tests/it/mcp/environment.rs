//! The environment of jobs that an agent starts.
//!
//! Proves `inherit`, `login` and `clean`, and what keeps programs from waiting for a person.

use outlive_tests::{Answer, Era, Home, Mcp};
use serde_json::json;

fn environment(home: &Home, options: &[&str], script: &str) -> Answer {
    let shell = home.path().join("shell");
    std::fs::write(&shell, script).unwrap();
    let mut mode = std::fs::metadata(&shell).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&shell, mode).unwrap();
    let mut command = home.outlive(["mcp"]);
    command.args(options).env("SHELL", &shell).env("API_KEY", "secret").env("PAGER", "less");
    let mut client = Mcp::of(command, Era::Handshake, json!({}), &[]);
    client
        .call("run", json!({"command": "env", "env": {"MINE": 7, "GIT_PAGER": "mine"}, "wait_ms": 45_000}))
        .ok()
}

const LOGIN: &str = "#!/bin/sh\necho welcome\nexport FROM_LOGIN=yes\nshift\nexec /bin/sh \"$@\"\n";

#[test]
fn a_job_has_the_environment_that_was_chosen() {
    let home = Home::new();
    let has = |answer: &Answer, line: &str| answer.body().contains(&line);
    let inherited = environment(&home, &[], LOGIN);
    assert!(has(&inherited, "API_KEY=secret") && !has(&inherited, "FROM_LOGIN=yes"), "{}", inherited.text);
    let login = environment(&home, &["--env", "login"], LOGIN);
    assert!(!has(&login, "API_KEY=secret") && has(&login, "FROM_LOGIN=yes"), "{}", login.text);
    let clean = environment(&home, &["--env", "clean"], LOGIN);
    assert!(!has(&clean, "API_KEY=secret") && !has(&clean, "FROM_LOGIN=yes"), "{}", clean.text);
    for answer in [&inherited, &login, &clean] {
        for line in
            ["PAGER=cat", "GIT_PAGER=mine", "GH_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "NO_COLOR=1", "MINE=7"]
        {
            assert!(has(answer, line), "{line}: {}", answer.text);
        }
        assert!(answer.body().iter().any(|line| line.starts_with("PATH=")), "{}", answer.text);
    }
    // A shell that does not work costs nothing but its variables.
    let broken = environment(&home, &["--env", "login"], "#!/bin/sh\nexit 1\n");
    assert!(has(&broken, "MINE=7") && !has(&broken, "API_KEY=secret"), "{}", broken.text);
    home.configure("[mcp]\nenv = \"clean\"\n");
    let configured = environment(&home, &[], LOGIN);
    assert!(!has(&configured, "API_KEY=secret"), "{}", configured.text);
}
