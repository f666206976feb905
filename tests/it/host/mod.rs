//! The command line over `--host`: the same words, columns and exit statuses, from where the store is.
//!
//! Proves: a verb prints and returns there what it does here; a token allows what it says; what waits or follows goes on over a server
//! that is killed, with no byte twice or missing; all other verbs say where to run them.

mod access;
mod client;
mod cuts;
mod verbs;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use outlive_tests::{Done, Home, LIMIT, end_within, finish};
use serde_json::Value;

/// A server of a home.
pub(crate) struct Served<'a> {
    home: &'a Home,
    child: Child,
    url: Option<String>,
}

impl<'a> Served<'a> {
    pub(crate) fn start(home: &'a Home) -> Self {
        Self::start_with(home, &[])
    }

    fn start_with(home: &'a Home, options: &[&str]) -> Self {
        let mut command = home.outlive(["--json", "serve"]);
        let mut child = command.args(options).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says where");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let url = said["url"].as_str().map(|url| url.trim_end_matches('/').to_owned());
        Self { home, child, url }
    }

    fn address(&self) -> String {
        format!("unix://{}", self.home.store().display())
    }

    /// Returns `outlive --host` with arguments, not yet run.
    pub(crate) fn outlive(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.outlive(["--host", &self.address()]);
        command.args(arguments);
        command
    }

    /// Runs a verb through the server.
    #[must_use = "a test that does not look proves nothing"]
    fn run(&self, arguments: &[&str]) -> Done {
        finish(self.outlive(arguments), b"")
    }

    /// Runs a verb through the server, on TCP, with a token.
    #[must_use = "a test that does not look proves nothing"]
    fn run_as(&self, token: &str, arguments: &[&str]) -> Done {
        let mut command = self.home.outlive(["--host", self.url.as_deref().expect("it listens on TCP")]);
        command.env("OUTLIVE_TOKEN", token).args(arguments);
        finish(command, b"")
    }

    /// Kills it, as a crash does.
    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is our child");
    }

    /// Kills it, and starts another.
    fn restart(&mut self) {
        self.kill();
        let next = Self::start(self.home);
        drop(std::mem::replace(self, next));
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        // It may have been killed already.
        self.child.kill().ok();
        end_within(&mut self.child, LIMIT);
    }
}

/// Lists the verbs that run for a caller elsewhere.
fn verbs_there(home: &Home) -> Vec<i32> {
    let is_verb = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|&byte| byte == 0).nth(1) == Some(b"served")
    };
    home.processes().into_iter().filter(is_verb).collect()
}
