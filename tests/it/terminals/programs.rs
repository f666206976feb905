//! Real programs in a terminal: each is started, seen, answered and ended, from the command line and over MCP.
//!
//! A step waits for a text on the screen before keys are pressed, as a person does.

use std::process::Command;
use std::time::{Duration, Instant};

use outlive_tests::{Era, Home, Mcp, User, finish, lacks, until};
use serde_json::json;

/// A job in a terminal, driven by one of the front ends.
struct Session<'a> {
    home: &'a Home,
    /// Over MCP; else from the command line.
    client: Option<Mcp>,
    job: String,
}

impl Session<'_> {
    /// Starts a line for the shell.
    fn start(&mut self, line: &str) {
        self.job = match &mut self.client {
            Some(client) => {
                client.call("run", json!({ "command": line, "pty": true, "wait_ms": 0 })).ok().job()
            }
            None => super::start(self.home, &[], line),
        };
    }

    /// Returns the rows of the screen, a line break before and after each.
    fn screen(&mut self) -> String {
        match &mut self.client {
            Some(client) => {
                format!(
                    "\n{}\n",
                    client.call("read_screen", json!({ "job": self.job })).ok().body().join("\n")
                )
            }
            None => format!("\n{}\n", self.home.run(["screen", &self.job]).ok().text()),
        }
    }

    /// Waits until the screen contains this text.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        self.shows_any(&[text]);
    }

    /// Waits until the screen contains one of these texts, and returns the screen.
    #[track_caller]
    fn shows_any(&mut self, texts: &[&str]) -> String {
        let limit = Instant::now() + Duration::from_secs(40);
        loop {
            let screen = self.screen();
            if texts.iter().any(|text| screen.contains(text)) {
                return screen;
            }
            assert!(Instant::now() < limit, "{}: none of {texts:?} on the screen: {screen}", self.job);
        }
    }

    /// Presses keys by name.
    #[track_caller]
    fn press(&mut self, keys: &str) {
        match &mut self.client {
            Some(client) => drop(client.call("send_input", json!({ "job": self.job, "keys": keys })).ok()),
            None => drop(self.home.run(["send", &self.job, "--keys", keys]).ok()),
        }
    }

    /// Waits for the end and returns the exit code.
    #[track_caller]
    fn ends(&mut self) -> i64 {
        if let Some(client) = &mut self.client {
            client.call("wait", json!({ "jobs": [self.job], "timeout_ms": 40_000 })).ok();
        }
        self.home.wait(&self.job)["exit_code"].as_i64().expect("it ended by itself")
    }
}

/// Drives a program from the command line and over MCP, each in a home of its own; names it where it is not installed.
fn with(program: &str, user: User, drive: impl Fn(&mut Session<'_>)) {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().expect("a shell");
    if !found.status.success() {
        lacks(program);
        return;
    }
    for is_over_mcp in [false, true] {
        let home = Home::of(user);
        let client = is_over_mcp.then(|| Mcp::start(&home, Era::Handshake));
        drive(&mut Session { home: &home, client, job: String::new() });
    }
}

#[test]
fn bash() {
    with("bash", User::Myself, |session| {
        session.start("bash --norc -i");
        session.shows("bash-");
        session.press("\"echo $((6*7))\" Enter");
        session.shows("\n42\n");
        // Its own history, by a key that is more than one byte.
        session.press("Up BSpace BSpace BSpace \"8))\" Enter");
        session.shows("\n48\n");
        session.press("\"exit 5\" Enter");
        assert_eq!(session.ends(), 5);
    });
}

#[test]
fn python() {
    with("python3", User::Myself, |session| {
        session.start("python3 -q");
        session.shows(">>>");
        session.press("\"6*7\" Enter");
        session.shows("\n42\n");
        session.press("\"input('Who? ')[::-1]\" Enter");
        session.shows("\nWho?");
        session.press("\"abc\" Enter");
        session.shows("\n'cba'\n");
        session.press("C-d");
        assert_eq!(session.ends(), 0);
    });
}

#[test]
fn node() {
    with("node", User::Myself, |session| {
        session.start("node");
        session.shows("\n>");
        session.press("\"6*7\" Enter");
        session.shows("\n42\n");
        session.press("\".exit\" Enter");
        assert_eq!(session.ends(), 0);
    });
}

#[test]
fn vim() {
    with("vim", User::Myself, |session| {
        let file = session.home.path().join("notes.txt");
        std::fs::write(&file, "first\n").unwrap();
        session.start("vim -u NONE -N notes.txt");
        session.shows("\nfirst\n");
        session.press("o \"second\" Escape");
        session.shows("\nfirst\nsecond\n~");
        session.press("Up \"x:wq\" Enter");
        assert_eq!(session.ends(), 0);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "firs\nsecond\n");
    });
}

#[test]
fn less() {
    with("less", User::Myself, |session| {
        session.start("seq 1000 >numbers; less numbers");
        session.shows("\n39\n");
        session.press("G");
        session.shows("\n1000\n");
        session.press("\"?555\" Enter");
        session.shows("\n555\n");
        session.press("q");
        assert_eq!(session.ends(), 0);
    });
}

#[test]
fn top() {
    with("top", User::Myself, |session| {
        session.start("top");
        session.shows("load average");
        session.press("h");
        session.shows("Help for Interactive Commands");
        session.press("Escape");
        session.shows("load average");
        session.press("q");
        assert_eq!(session.ends(), 0);
    });
}

#[test]
fn psql() {
    let Some(programs) = crate::ready::postgresql() else {
        lacks("PostgreSQL (package postgresql)");
        return;
    };
    // Its server refuses to run as root.
    with("psql", User::all().pop().unwrap(), |session| {
        let home = session.home;
        let (data, programs) = (home.path().join("data"), programs.display());
        let mut init = home.command(format!("{programs}/initdb"));
        init.args(["--auth", "trust", "--no-sync", "--username", "test", "--no-locale", "--pgdata"])
            .arg(&data);
        finish(init, b"").ok();
        let line = format!("exec {programs}/postgres -D data -k {} -h '' -F", home.path().display());
        let ready = "database system is ready to accept connections";
        let server = home.start_with(&["--ready-on", ready], ["sh", "-c", &line]);
        home.run(["wait", &server, "--ready", "--timeout", "50s"]).ok();
        session.start(&format!("PAGER=less {programs}/psql -h {} -U test postgres", home.path().display()));
        session.shows("postgres=#");
        session.press("\"select 6*7 as answer;\" Enter");
        session.shows("\n     42\n");
        // Longer than the screen, and so through a pager.
        session.press("\"select generate_series(1, 500);\" Enter");
        session.shows("\n:");
        session.press("G");
        session.shows("(500 rows)");
        session.press("q");
        session.shows("postgres=#");
        session.press("\"\\\\q\" Enter");
        assert_eq!(session.ends(), 0);
        home.run(["kill", "--signal", "INT", "--grace", "30s", &server]).ok();
    });
}

#[test]
fn npm_init() {
    with("npm", User::Myself, |session| {
        session.home.make_dir("demo");
        session.start("cd demo && npm_config_update_notifier=false npm init");
        session.shows("package name: (demo)");
        session.press("\"renamed\" Enter");
        for prompt in
            ["version:", "description:", "entry point:", "test command:", "git repository:", "keywords:"]
        {
            session.shows(prompt);
            session.press("Enter");
        }
        session.shows("author:");
        session.press("\"A. Author\" Enter");
        session.shows("license:");
        session.press("Enter");
        // Later versions ask for it.
        if !session.shows_any(&["type:", "Is this OK?"]).contains("Is this OK?") {
            session.press("Enter");
        }
        session.shows("Is this OK?");
        session.press("\"yes\" Enter");
        assert_eq!(session.ends(), 0);
        let written = std::fs::read_to_string(session.home.path().join("demo/package.json")).unwrap();
        assert!(
            written.contains("\"name\": \"renamed\"") && written.contains("\"author\": \"A. Author\""),
            "{written}"
        );
    });
}

#[test]
fn ssh_keygen() {
    with("ssh-keygen", User::Myself, |session| {
        session.start("ssh-keygen -t ed25519 -f key");
        session.shows("Enter passphrase");
        session.press("\"open sesame\" Enter");
        session.shows("Enter same passphrase again");
        session.press("\"open sesame\" Enter");
        session.shows("randomart image");
        assert_eq!(session.ends(), 0);
        let public = std::fs::read_to_string(session.home.path().join("key.pub")).unwrap();
        assert!(public.starts_with("ssh-ed25519 "), "{public}");
        assert!(!session.screen().contains("sesame"), "a passphrase is not shown");
    });
}

#[test]
fn git_rebase() {
    with("git", User::Myself, |session| {
        let commit = |name: &str| format!("touch {name} && git add {name} && git commit -qm 'add {name}'; ");
        let commits: String = ["base", "dropped", "kept"].map(commit).concat();
        session.start(&format!(
            "export GIT_EDITOR='vim -u NONE -N'; git init -q . && git config user.name a && git config user.email a@b.c; {commits} git rebase -i HEAD~2 && git log --format='%s.'; ls"
        ));
        session.shows("add dropped\n");
        session.press("\"dd:wq\" Enter");
        session.shows("\nadd kept.\nadd base.\n");
        assert_eq!(session.ends(), 0);
        assert!(!session.home.path().join("dropped").exists(), "the commit is gone");
    });
}

#[test]
fn whiptail() {
    with("whiptail", User::Myself, |session| {
        session.start("choice=$(whiptail --menu Choose 12 40 3 a apple b banana c cherry 3>&1 1>&2 2>&3); whiptail --yesno 'Go on?' 8 40; echo \"$choice $?\"");
        session.shows("banana");
        session.press("Down Tab Enter");
        session.shows("Go on?");
        session.press("Right Enter");
        session.shows("\nb 1\n");
        assert_eq!(session.ends(), 0);
    });
}

#[test]
fn fzf() {
    with("fzf", User::Myself, |session| {
        session.start("picked=$(seq 1000 | fzf); echo picked: $picked");
        session.shows("1000/1000");
        session.press("\"577\"");
        session.shows(" 1/1000");
        session.press("Enter");
        session.shows("\npicked: 577\n");
        assert_eq!(session.ends(), 0);
    });
}

/// It asks where the cursor is, and draws nothing before it knows.
#[test]
fn fzf_below_the_prompt() {
    with("fzf", User::Myself, |session| {
        session.start("echo above; picked=$(seq 1000 | fzf --height 10 --reverse); echo picked: $picked");
        session.shows("1000/1000");
        session.press("\"577\"");
        session.shows(" 1/1000");
        assert!(session.screen().starts_with("\nabove\n"), "what was there stays");
        session.press("Enter");
        session.shows("\nabove\npicked: 577\n");
        assert_eq!(session.ends(), 0);
    });
}

/// A survey of a library in Rust, which asks for the cursor before each question, and fails where it is not told.
#[test]
fn a_survey_that_asks_for_the_cursor() {
    let built =
        outlive_tests::binary("outlive").ancestors().nth(2).map(|target| target.join("survey/debug/survey"));
    let Some(survey) = built.filter(|survey| survey.exists()) else {
        lacks("tests/survey, which ./test builds");
        return;
    };
    with("sh", User::Myself, |session| {
        session.start(&format!("echo one; echo two; exec {}", survey.display()));
        session.shows("\none\ntwo\n? Project name");
        session.press("\"hello\" BSpace \"p\" Enter");
        session.shows("? Language");
        session.press("Down Down Enter");
        session.shows("? Make it");
        session.press("y Enter");
        session.shows("\nmade: hellp in Rust, true\n");
        assert_eq!(session.ends(), 0);
        let printed = session.home.run(["logs", "--raw", &session.job]).ok().stdout;
        let questions = printed.windows(4).filter(|bytes| bytes == b"\x1b[6n").count();
        assert!(questions >= 3, "it asked for the cursor {questions} times");
    });
}

/// A process of another user, which the front end may not look into.
#[test]
fn su_to_another_user() {
    let Some(User::Nobody) = User::all().pop() else { return };
    with("su", User::Myself, |session| {
        session.start("su -s /bin/bash nobody");
        session.press("\"echo I am $(id -u)\" Enter");
        session.shows("\nI am 65534\n");
        session.press("\"exit 3\" Enter");
        assert_eq!(session.ends(), 3);
    });
}

/// It runs as root, asks for a password, and gets a wrong one.
#[test]
fn su_to_root() {
    let Some(User::Nobody) = User::all().pop() else { return };
    with("su", User::Nobody, |session| {
        session.start("LC_ALL=C su -c true");
        session.shows("Password:");
        session.press("\"not the password\" Enter");
        session.shows("Authentication failure");
        assert_eq!(session.ends(), 1);
        assert!(!session.screen().contains("not the"), "a password is not shown");
        until("nothing is left", || session.home.keepers().is_empty());
    });
}

/// The accounts and rules of a machine on which `ada` may do everything, after her password.
const SUDOERS: &str = r#"set -e
cat /etc/passwd - > passwd <<< "ada:x:64999:64999::/:/bin/sh"
cat /etc/shadow - > shadow <<< "ada:$(perl -e 'print crypt("sesame", q($6$salt$))'):20000:0:99999:7:::"
echo 'ada ALL=(ALL) ALL' > sudoers
chmod 400 shadow sudoers
for file in passwd shadow sudoers; do mount --bind "$file" "/etc/$file"; done
export LC_ALL=C
exec setpriv --reuid 64999 --regid 64999 --clear-groups sudo -k -u nobody id -un
"#;

/// It has rights of its own, asks for a password in a mode of its own, and becomes a third user. The accounts are those of a mount
/// namespace, so nothing of the machine is changed.
#[test]
fn sudo_as_another_user() {
    let Some(User::Nobody) = User::all().pop() else { return };
    let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
    if !may_mount.is_ok_and(|done| done.status.success()) {
        lacks("a mount namespace");
        return;
    }
    with("sudo", User::Myself, |session| {
        let script = session.home.path().join("sudo.sh");
        std::fs::write(&script, SUDOERS).unwrap();
        session.start("unshare --mount bash sudo.sh");
        session.shows("[sudo] password for ada:");
        until("it is known to ask for a password", || {
            session.home.show(&session.job)["awaits"]["kind"] == "password"
        });
        session.press("\"wrong\" Enter");
        session.shows("Sorry, try again.");
        session.shows_any(&["again.\n[sudo] password for ada:"]);
        session.press("\"sesame\" Enter");
        session.shows("\nnobody\n");
        assert_eq!(session.ends(), 0);
        let printed = String::from_utf8(session.home.logs(&session.job)).unwrap();
        assert!(!printed.contains("sesame") && !printed.contains("wrong"), "no password is recorded");
    });
}
