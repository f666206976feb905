//! The command line over `--host`: with `OUTLIVE_TEST_HOST=1` every verb that can be called on another machine is called through a server
//! of the home's own, so that tests written for the local command line prove the other one, too.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use crate::{Home, LIMIT, end_within, signal};

/// The verbs that are called through the server; as `args/reach.rs` says.
const REACHED: &[&str] = &[
    "run", "list", "ls", "ps", "show", "logs", "log", "screen", "export", "play", "wait", "clear", "send",
    "resize", "kill", "stop", "restart", "pause", "resume", "remove", "rm", "events", "session", "inbox",
    "queue", "watch",
];

/// A server of a home.
#[derive(Debug, Default)]
pub struct HostServer(Mutex<Option<Child>>);

/// Tells whether verbs are called over `--host`.
pub fn is_over_host() -> bool {
    std::env::var_os("OUTLIVE_TEST_HOST").is_some_and(|flag| flag == "1")
}

/// Tells whether a command line is one that another machine can be asked for.
fn is_reached(words: &[&OsStr]) -> bool {
    let verb = words.iter().find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    // A value of a global option may stand before the verb.
    let verb = match words.first().and_then(|word| word.to_str()) {
        Some("--session" | "--reader") => {
            words.iter().skip(2).find(|word| !word.as_encoded_bytes().starts_with(b"-"))
        }
        _ => verb,
    };
    let has = |option: &str| words.iter().any(|word| *word == option);
    verb.and_then(|verb| verb.to_str()).is_some_and(|verb| REACHED.contains(&verb))
        && !has("--pager")
        && !has("-o")
        && !has("--output")
        && !has("--help")
        && !has("-h")
}

impl HostServer {
    /// Lets a command be called through the server, which is started with the first.
    pub(crate) fn address(&self, home: &Home, command: &mut Command) {
        let words: Vec<&OsStr> = command.get_args().collect();
        if !is_over_host() || !is_reached(&words) {
            return;
        }
        let mut server = self.0.lock().unwrap();
        let is_gone = server.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some());
        if is_gone {
            *server = start(home);
        }
        if server.is_some() {
            command.env("OUTLIVE_HOST", format!("unix://{}", home.store().display()));
        }
    }

    /// Returns the process of the server, which is none of the home's jobs.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.0.lock().unwrap().as_ref().map(|child| child.id().cast_signed())
    }

    /// Ends the server.
    pub(crate) fn stop(&self) {
        if let Some(mut child) = self.0.lock().unwrap().take() {
            signal(child.id().cast_signed(), "TERM");
            end_within(&mut child, LIMIT);
        }
    }
}

/// Starts a server and waits until it listens; `None` where the store cannot be served: then the verb itself says why.
fn start(home: &Home) -> Option<Child> {
    let mut command = home.command(home.program("outlive"));
    let mut child =
        command.args(["--json", "serve"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.is_empty() {
        child.wait().unwrap();
        return None;
    }
    Some(child)
}
