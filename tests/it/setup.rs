//! `outlive setup`: the entry of the MCP server in the settings of agents' clients.
//!
//! Every test has a home of its own. Where the client's own command matters, a fake of it is put into PATH; else PATH has no client,
//! and the file itself is edited.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outlive_tests::{Done, Home, SmallDisk, finish};
use serde_json::{Value, json};

const CLIENTS: [(&str, &str); 10] = [
    ("claude-code", ".claude.json"),
    ("codex", ".codex/config.toml"),
    ("gemini", ".gemini/settings.json"),
    ("opencode", ".config/opencode/opencode.json"),
    ("goose", ".config/goose/config.yaml"),
    ("qwen", ".qwen/settings.json"),
    ("copilot", ".copilot/mcp-config.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("zed", ".config/zed/settings.json"),
];

/// Runs `outlive setup` with a PATH that has outlive, perhaps fakes, and no real client.
fn setup(home: &Home, arguments: &[&str]) -> Done {
    finish(setup_command(home, arguments), b"")
}

fn setup_command(home: &Home, arguments: &[&str]) -> Command {
    let outlive = home.program("outlive");
    let path = [
        home.path().join("fakes"),
        outlive.parent().expect("it is in a directory").to_owned(),
        "/usr/bin".into(),
        "/bin".into(),
    ];
    let mut command = home.outlive(["setup"]);
    command.args(arguments).env("PATH", std::env::join_paths(path).expect("no colons"));
    command
}

fn put(home: &Home, file: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = home.path().join(file);
    fs::create_dir_all(path.parent().expect("it is in a home")).expect("a directory");
    fs::write(&path, contents).expect("a file");
    path
}

fn backup_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.before-outlive", path.display()))
}

/// Lists everything in a home but the store, with contents.
fn everything(home: &Home) -> Vec<(PathBuf, Vec<u8>)> {
    fn walk(directory: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found)
            } else {
                found.push((path.clone(), fs::read(&path).expect("a file")))
            }
        }
    }
    let mut found = Vec::new();
    walk(home.path(), &mut found);
    found.sort();
    found
}

/// Puts a fake of a client into PATH: it records its arguments, one a line, and then does this.
fn fake(home: &Home, name: &str, then: &str) {
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >>\"$HOME/{name}.called\"\n{then}\n");
    let path = put(home, &format!("fakes/{name}"), script);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

fn called(home: &Home, name: &str) -> Vec<String> {
    let calls = fs::read_to_string(home.path().join(format!("{name}.called"))).unwrap_or_default();
    calls.lines().map(str::to_owned).collect()
}

#[test]
fn without_write_it_only_shows_the_change() {
    let home = Home::new();
    for (client, file) in CLIENTS {
        let text = setup(&home, &[client]).ok().text();
        assert!(text.contains(&format!("~/{file}")) && text.contains("mcp"), "{text}");
        assert!(text.contains(&format!("outlive setup {client} --write")), "{text}");
        let text = setup(&home, &[client, "--remove"]).ok().text();
        assert!(text.starts_with("nothing to do"), "{text}");
    }
    assert_eq!(everything(&home), []);
}

#[test]
fn a_client_s_own_command_is_shown_where_there_is_one() {
    let home = Home::new();
    for (client, program, line) in [
        ("claude-code", "claude", "claude mcp add --scope user outlive -- outlive mcp --session 'a'"),
        ("codex", "codex", "codex mcp add outlive -- outlive mcp --session 'a'"),
        ("gemini", "gemini", "gemini mcp add --scope user outlive outlive mcp --session 'a'"),
    ] {
        fake(&home, program, "exit 1");
        let text = setup(&home, &[client, "--session", "a"]).ok().text();
        assert!(text.contains(&format!("  {}\n", line.replace('\'', ""))), "{text}");
        assert_eq!(called(&home, program), [""; 0], "nothing is run");
    }
    let text = setup(&home, &["codex"]).ok().text();
    assert!(
        text.contains("tool_timeout_sec = 3600") && text.contains("env_vars = [\"OUTLIVE_HOME\""),
        "{text}"
    );
}

/// Settings as people and programs write them, with what must not be touched.
const JSON: [&str; 9] = [
    "{}",
    "{}\n",
    "{\n  \"theme\": \"dark\"\n}",
    "{\n\t\"mcpServers\": {\n\t\t\"other\": {\n\t\t\t\"command\": \"x\",\n\t\t\t\"args\": []\n\t\t}\n\t},\n\t\"n\": 1.50e+3\n}\n",
    "// mine\n{\n    // servers\n    \"mcpServers\": {\n        \"a\": { \"command\": \"b\" } // why\n    } /* end */\n}\n// after\n",
    "{\r\n  \"mcpServers\": {\r\n    \"a\": {\"url\": \"http://localhost:1\"}\r\n  },\r\n  \"k\": \"\\u00e9\\ud83d\\ude00\"\r\n}\r\n",
    "\u{feff}{\"a\":[1,2,{\"b\":null}],\"mcpServers\":{\"z\":{\"command\":\"q\"}}}",
    "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"b\"},\n  },\n}\n",
    "{ \"outlive\": { \"command\": \"not ours\" }, \"x\": \"mcpServers\" }",
];

const TOML: [&str; 8] = [
    "",
    "# only a comment",
    "model = \"x\" # why\n",
    "# mine\nmodel = 'x'\n\n[mcp_servers.a]\ncommand = \"b\" # c\n\n[mcp_servers.a.env]\nK = \"v\"\n\n[z]\nk = 1\n# end",
    "mcp_servers = { a = { command = \"b\", args = [ ] } }\n",
    "mcp_servers.a.command = \"b\"\nmodel = \"y\"\n",
    "model = \"x\"\r\n\r\n[mcp_servers.\"a b\"]\r\ncommand = \"b\"\r\n",
    "[[lists]]\nx=1\n\n[[lists]]\nx=2\n[tui]\n  notifications   =   true\n",
];

const YAML: [&str; 5] = [
    "",
    "# only a comment\n",
    "GOOSE_MODEL: x # why\nextensions:\n  developer:\n    enabled: true\n    type: builtin\nother:\n  outlive: no\n",
    "extensions:\n    a:\n        cmd: b\n\n# end\n",
    "extensions: # mine\n  a:\n    cmd: b\n  outlived:\n    cmd: c\n",
];

/// Returns the name of the object that a client has its servers in.
fn servers_of(client: &str) -> &str {
    match client {
        "opencode" => "mcp",
        "vscode" => "servers",
        "zed" => "context_servers",
        _ => "mcpServers",
    }
}

#[test]
fn everything_else_in_a_file_stays_as_it_is() {
    for (client, file) in CLIENTS {
        let originals = match client {
            "codex" => &TOML[..],
            "goose" => &YAML[..],
            // The others are written by the same code, with another name for the object.
            "claude-code" | "opencode" => &JSON[..],
            _ => &JSON[4..5],
        };
        for original in originals {
            let original = &original.replace("mcpServers", servers_of(client));
            let home = Home::new();
            let path = put(&home, file, original);
            let text = setup(&home, &[client, "--write"]).ok().text();
            assert!(text.contains("outlive added to"), "{text}");
            assert_eq!(fs::read_to_string(backup_of(&path)).unwrap(), *original);
            let added = fs::read_to_string(&path).unwrap();
            let again = setup(&home, &[client, "--write"]).ok().text();
            assert!(again.starts_with("nothing to do"), "{again}");
            assert_eq!(fs::read_to_string(&path).unwrap(), added);
            // What was there is still there, in the same order; only commas and our own lines came.
            let mut rest = added.chars();
            assert!(original.chars().all(|c| rest.any(|other| other == c)), "{original:?} became {added:?}");
            assert!(added.contains("outlive"), "{added}");
            let text = setup(&home, &[client, "--remove", "--write"]).ok().text();
            assert!(text.contains("outlive removed from"), "{text}");
            assert_eq!(fs::read_to_string(&path).unwrap(), *original, "after {added:?}");
            assert_eq!(fs::read_to_string(backup_of(&path)).unwrap(), added);
        }
    }
}

#[test]
fn what_is_written_is_what_the_client_reads() {
    let home = Home::new();
    for (client, file) in CLIENTS {
        assert!(setup(&home, &[client, "--write"]).ok().text().contains("added"));
        let text = fs::read_to_string(home.path().join(file)).unwrap();
        assert_eq!(fs::metadata(home.path().join(file)).unwrap().permissions().mode() & 0o777, 0o600);
        if client == "codex" {
            assert_eq!(
                text,
                "[mcp_servers.outlive]\ncommand = \"outlive\"\nargs = [\"mcp\"]\n\
                 env_vars = [\"OUTLIVE_HOME\", \"OUTLIVE_CONFIG\", \"XDG_STATE_HOME\", \"XDG_CONFIG_HOME\"]\n\
                 tool_timeout_sec = 3600\n"
            );
        } else if client == "goose" {
            assert_eq!(
                text,
                "extensions:\n  outlive:\n    enabled: true\n    type: stdio\n    name: outlive\n    \
                 description: background jobs\n    cmd: \"outlive\"\n    args: [\"mcp\"]\n    timeout: 3600\n"
            );
        } else {
            let written: Value = serde_json::from_str(&text).unwrap();
            let expected = match client {
                "opencode" => json!({ "type": "local", "command": ["outlive", "mcp"], "enabled": true }),
                "copilot" => {
                    json!({ "type": "local", "command": "outlive", "args": ["mcp"], "tools": ["*"] })
                }
                "claude-code" | "vscode" => json!({ "type": "stdio", "command": "outlive", "args": ["mcp"] }),
                _ => json!({ "command": "outlive", "args": ["mcp"] }),
            };
            assert_eq!(written[servers_of(client)]["outlive"], expected, "{client}");
        }
        // What is printed is what is written where there is nothing yet.
        assert_eq!(setup(&home, &[client, "--print"]).ok().text(), text);
    }
}

#[test]
fn an_entry_that_differs_is_changed_and_keeps_what_the_user_added() {
    let home = Home::new();
    fake(&home, "claude", "exit 1");
    let path = put(
        &home,
        ".claude.json",
        "{\"mcpServers\": {\"outlive\": {\"command\": \"/old/outlive\", \"args\": [\"mcp\"], \"env\": {\"A\": \"b\"}, \"timeout\": 5}}}",
    );
    let text = setup(&home, &["claude-code", "--session", "s", "--write"]).ok().text();
    assert!(text.contains("changed in"), "{text}");
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(
        written["mcpServers"]["outlive"],
        json!({ "command": "outlive", "args": ["mcp", "--session", "s"], "env": { "A": "b" }, "timeout": 5 })
    );
    assert_eq!(called(&home, "claude"), [""; 0], "its own command would have lost them");

    let path = put(
        &home,
        ".codex/config.toml",
        "[mcp_servers.outlive] # mine\ncommand = \"/old\" # c\nargs = []\ntool_timeout_sec = 60\n\n[mcp_servers.outlive.env]\nA = \"b\"\n",
    );
    assert!(setup(&home, &["codex", "--write"]).ok().text().contains("changed in"));
    let written = fs::read_to_string(&path).unwrap();
    for kept in [
        "# mine",
        "command = \"outlive\" # c",
        "tool_timeout_sec = 60",
        "[mcp_servers.outlive.env]\nA = \"b\"",
    ] {
        assert!(written.contains(kept), "{kept} in {written}");
    }

    // An address and a command exclude each other.
    let path = put(
        &home,
        ".gemini/settings.json",
        "{\"mcpServers\": {\"outlive\": {\"httpUrl\": \"http://localhost:1\"}}}",
    );
    assert!(setup(&home, &["gemini", "--write"]).ok().text().contains("changed in"));
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(written["mcpServers"]["outlive"], json!({ "command": "outlive", "args": ["mcp"] }));
}

#[test]
fn a_client_s_own_command_makes_the_change() {
    let home = Home::new();
    let claude = put(&home, ".claude.json", "{\"a\": 1}");
    let write = |entry: &str, file: &str| {
        format!("case $2 in add) echo '{entry}' >\"$HOME/{file}\";; *) echo >\"$HOME/{file}\";; esac")
    };
    let in_json = r#"{"mcpServers": {"outlive": {"command": "outlive", "args": ["mcp"]}}}"#;
    fake(&home, "claude", &write(in_json, ".claude.json"));
    assert!(setup(&home, &["claude-code", "--write"]).ok().text().contains("added to Claude Code"));
    assert_eq!(called(&home, "claude"), ["mcp", "add", "--scope", "user", "outlive", "--", "outlive", "mcp"]);
    assert_eq!(fs::read_to_string(backup_of(&claude)).unwrap(), "{\"a\": 1}");
    assert!(setup(&home, &["claude-code", "--write"]).ok().text().starts_with("nothing to do"));
    assert_eq!(called(&home, "claude").len(), 8, "not called again");
    assert!(setup(&home, &["claude-code", "--remove", "--write"]).ok().text().contains("removed"));
    assert_eq!(called(&home, "claude")[8..], ["mcp", "remove", "--scope", "user", "outlive"]);

    let toml = "[mcp_servers.outlive]\ncommand = \"outlive\"\nargs = [\"mcp\"]";
    fs::create_dir(home.path().join(".codex")).unwrap();
    fake(&home, "codex", &write(toml, ".codex/config.toml"));
    assert!(setup(&home, &["codex", "--write"]).ok().text().contains("added to Codex"));
    assert_eq!(called(&home, "codex"), ["mcp", "add", "outlive", "--", "outlive", "mcp"]);
    let written = fs::read_to_string(home.path().join(".codex/config.toml")).unwrap();
    assert!(written.contains("tool_timeout_sec = 3600") && written.contains("env_vars"), "{written}");
    assert!(setup(&home, &["codex", "--write"]).ok().text().starts_with("nothing to do"));

    fs::create_dir(home.path().join(".gemini")).unwrap();
    fake(&home, "gemini", &write(in_json, ".gemini/settings.json"));
    assert!(setup(&home, &["gemini", "--write"]).ok().text().contains("added to Gemini CLI"));
    assert_eq!(called(&home, "gemini"), ["mcp", "add", "--scope", "user", "outlive", "outlive", "mcp"]);
}

#[test]
fn what_a_client_s_command_fails_with_is_told() {
    let home = Home::new();
    fake(&home, "claude", "echo out; echo 'not allowed here' >&2; exit 3");
    let failed = setup(&home, &["claude-code", "--write"]).code(1);
    assert!(
        failed.error().contains("claude mcp add") && failed.error().contains("not allowed here"),
        "{}",
        failed.error()
    );
    // A fake that only claims success.
    fake(&home, "codex", "echo done");
    let failed = setup(&home, &["codex", "--write"]).code(1);
    assert!(failed.error().contains("does not have the entry"), "{}", failed.error());
    assert!(failed.error().contains("hint: look yourself: codex mcp list"), "{}", failed.error());
}

#[test]
fn what_cannot_be_understood_is_left_alone() {
    let deep = "[".repeat(200_000);
    let files: [(&str, &str, &[u8]); 15] = [
        ("goose", ".config/goose/config.yaml", b"extensions: {}\n"),
        ("goose", ".config/goose/config.yaml", b"extensions:\n\ta:\n\t\tcmd: b\n"),
        ("goose", ".config/goose/config.yaml", b"extensions:\n  a:\n    cmd: b\nextensions:\n"),
        ("claude-code", ".claude.json", b"{\"a\": 1"),
        ("claude-code", ".claude.json", b"{'a': 1}"),
        ("claude-code", ".claude.json", b"[]"),
        ("claude-code", ".claude.json", b"{\"a\": \"\xff\"}"),
        ("claude-code", ".claude.json", b"{\"mcpServers\": []}"),
        ("claude-code", ".claude.json", b"{\"mcpServers\": {}} garbage"),
        ("gemini", ".gemini/settings.json", deep.as_bytes()),
        ("gemini", ".gemini/settings.json", b"\0\0\0\0"),
        ("codex", ".codex/config.toml", b"a = 1\na = 2\n"),
        ("codex", ".codex/config.toml", b"[mcp_servers\n"),
        ("codex", ".codex/config.toml", b"mcp_servers = 3\n"),
        ("codex", ".codex/config.toml", b"a = 1\r\nb = 2\n"),
    ];
    for (client, file, contents) in files {
        let home = Home::new();
        let program = if client == "claude-code" { "claude" } else { client };
        fake(&home, program, "exit 0");
        put(&home, file, contents);
        let before = everything(&home);
        for arguments in [&[client][..], &[client, "--write"], &[client, "--remove", "--write"]] {
            let failed = setup(&home, arguments).code(1);
            assert!(
                failed.error().contains(&format!("~/{file}")) && failed.error().contains("hint: "),
                "{}",
                failed.error()
            );
        }
        assert_eq!(everything(&home), before);
    }
}

#[test]
fn what_is_no_file_is_left_alone() {
    let home = Home::new();
    fs::create_dir(home.path().join(".claude.json")).unwrap();
    assert!(setup(&home, &["claude-code", "--write"]).code(1).error().contains("is not a file"));
    fs::create_dir(home.path().join(".codex")).unwrap();
    let pipe = home.path().join(".codex/config.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(setup(&home, &["codex", "--write"]).code(1).error().contains("is not a file"));
    fs::create_dir(home.path().join(".gemini")).unwrap();
    symlink("nowhere.json", home.path().join(".gemini/settings.json")).unwrap();
    assert!(setup(&home, &["gemini", "--write"]).code(1).error().contains("a link to nothing"));
    assert!(!home.path().join(".gemini/nowhere.json").exists());
}

#[test]
fn mode_and_link_are_kept() {
    let home = Home::new();
    let real = put(&home, "dotfiles/claude.json", "{}");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = home.path().join(".claude.json");
    symlink("dotfiles/claude.json", &link).unwrap();
    assert!(setup(&home, &["claude-code", "--write"]).ok().text().contains("added"));
    assert!(link.is_symlink());
    for file in [real.clone(), backup_of(&real)] {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640, "{}", file.display());
    }
    let names: Vec<_> =
        fs::read_dir(real.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
}

#[test]
fn a_full_disk_loses_nothing() {
    let home = Home::new();
    let Some(disk) = SmallDisk::mount("1m") else { return };
    let file = disk.path().join(".claude.json");
    fs::write(&file, "{\n  \"a\": 1\n}\n").unwrap();
    let filler = disk.fill();
    let mut command = setup_command(&home, &["claude-code", "--write"]);
    command.env("CLAUDE_CONFIG_DIR", disk.path());
    let failed = finish(command, b"").code(1);
    assert!(failed.error().contains("No space left"), "{}", failed.error());
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  \"a\": 1\n}\n");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 2, "only the file and {}", filler.display());
}

#[test]
fn home_and_the_clients_own_variables_say_where() {
    let home = Home::new();
    for (client, _) in CLIENTS {
        let mut command = setup_command(&home, &[client]);
        command.env_remove("HOME");
        let failed = finish(command, b"").code(1);
        assert!(
            failed.error().contains("HOME is not set") && failed.error().contains("hint: set HOME"),
            "{}",
            failed.error()
        );
        let mut command = setup_command(&home, &[client, "--write"]);
        command.env("HOME", "relative");
        assert!(finish(command, b"").code(1).error().contains("not an absolute path"));
    }
    for (client, variable, file) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
    ] {
        let elsewhere = home.path().join(format!("elsewhere/{client}"));
        let mut command = setup_command(&home, &[client, "--write"]);
        command.env_remove("HOME").env(variable, &elsewhere);
        assert!(finish(command, b"").ok().text().contains("added"));
        assert!(elsewhere.join(file).is_file());
        let mut command = setup_command(&home, &[client]);
        command.env(variable, "relative");
        assert!(finish(command, b"").code(1).error().contains(variable));
    }
    // `--print` needs neither a home directory nor a store.
    let mut command = setup_command(&home, &["--print"]);
    command.env_remove("HOME").env_remove("OUTLIVE_HOME");
    assert_eq!(
        finish(command, b"").ok().json(),
        json!({ "mcpServers": { "outlive": { "command": "outlive", "args": ["mcp"] } } })
    );
}

/// What `--print` gives is a command that starts a server.
#[test]
fn the_entry_starts_a_server() {
    let home = Home::new();
    let mut command = home.outlive(["setup", "--print", "--session", "s"]);
    command.env("PATH", "relative:/usr/bin:/bin");
    let entry = finish(command, b"").ok().json()["mcpServers"]["outlive"].take();
    let program = entry["command"].as_str().unwrap();
    assert_eq!(Path::new(program), home.program("outlive").canonicalize().unwrap(), "PATH does not find it");
    let arguments: Vec<&str> =
        entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(arguments, ["mcp", "--session", "s"]);
    let mut server = home.command(program);
    server.args(arguments);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let answered = finish(server, format!("{hello}\n").as_bytes()).ok().json();
    assert_eq!(answered["result"]["serverInfo"]["name"], "outlive");
}

#[test]
fn an_entry_that_no_server_would_understand_is_refused() {
    let home = Home::new();
    for profile in ["no-such-profile", "-x", "A B", ""] {
        let failed = setup(&home, &["claude-code", &format!("--profile={profile}"), "--write"]).code(2);
        assert!(failed.error().contains("hint: "), "{}", failed.error());
    }
    for wrong in [&[][..], &["emacs"], &["--list", "zed"], &["--print", "--write"], &["--remove"]] {
        setup(&home, wrong).code(2);
    }
    assert_eq!(everything(&home), []);
}

#[test]
fn an_entry_of_another_form_is_changed_and_keeps_what_the_user_added() {
    let home = Home::new();
    let path = put(
        &home,
        ".config/opencode/opencode.jsonc",
        r#"{"mcp": {"outlive": {"type": "local", "command": ["/old", "mcp"], "timeout": 5}}}"#,
    );
    assert!(setup(&home, &["opencode", "--write"]).ok().text().contains("changed in"));
    let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let expected = json!({ "type": "local", "command": ["outlive", "mcp"], "timeout": 5 });
    assert_eq!(written["mcp"]["outlive"], expected, "in the file that is there");
    let entry = "extensions:\n  outlive:\n    enabled: false\n    cmd: \"outlive\"\n    args: [\"mcp\"]\n";
    put(&home, ".config/goose/config.yaml", entry);
    let text = setup(&home, &["goose", "--write"]).ok().text();
    assert!(text.starts_with("nothing to do"), "what names the command stays as it is: {text}");
}

#[test]
fn clients_are_listed_with_what_they_have() {
    let home = Home::new();
    assert!(setup(&home, &["zed", "--write"]).ok().text().contains("added"));
    let text = setup(&home, &["--list"]).ok().text();
    for (client, file) in CLIENTS {
        let line = text.lines().find(|line| line.starts_with(&format!("{client} "))).expect(client);
        assert!(line.contains(&format!("~/{file}")), "{line}");
        assert_eq!(line.contains(" yes "), client == "zed", "{line}");
        assert_eq!(line.contains("untried"), ["cursor", "vscode", "zed"].contains(&client), "{line}");
    }
    let listed = setup(&home, &["--list", "--json"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), CLIENTS.len());
    assert!(setup(&home, &["cursor"]).ok().text().contains("untried"), "it says so before it is done");
}

#[test]
fn scripts_get_an_object() {
    let home = Home::new();
    let shown = setup(&home, &["gemini", "--json"]).ok().json();
    assert_eq!(
        (&shown["action"], &shown["written"], &shown["command"]),
        (&json!("add"), &json!(false), &Value::Null)
    );
    assert!(shown["diff"].as_str().unwrap().contains("\"outlive\""), "{shown}");
    put(&home, ".gemini/settings.json", "{}");
    let written = setup(&home, &["gemini", "--write", "--json"]).ok().json();
    assert_eq!((&written["action"], &written["written"]), (&json!("add"), &json!(true)));
    assert!(written["backup"].as_str().unwrap().ends_with("settings.json.before-outlive"), "{written}");
    let again = setup(&home, &["gemini", "--write", "--json"]).ok().json();
    assert_eq!((&again["action"], &again["written"]), (&json!("none"), &json!(false)));
    assert_eq!(setup(&home, &["gemini", "--json", "--write"]).ok().json()["diff"], "");
}

/// The second of two either finds it done or is told that the file has changed; neither spoils it.
#[test]
fn two_at_once_make_one_entry() {
    for _ in 0..10 {
        let home = Home::new();
        let path = put(&home, ".claude.json", "{\n  \"a\": 1\n}\n");
        let start = || {
            let mut command = setup_command(&home, &["claude-code", "--write"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut running: Vec<_> = (0..4).map(|_| start()).collect();
        let codes: Vec<i32> = running.iter_mut().map(|child| child.wait().unwrap().code().unwrap()).collect();
        assert!(codes.contains(&0) && codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
        let written: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(written["a"], 1);
        assert_eq!(written["mcpServers"]["outlive"]["args"], json!(["mcp"]));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2, "the file and its backup");
    }
}
