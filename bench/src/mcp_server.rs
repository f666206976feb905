//! An MCP server under test, asked as a client asks it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::signal::Signal;
use serde_json::{Value, json};

use crate::{Failure, Options, Samples, World};

/// An MCP server and the pipes to it. Dropping it ends it, and what it leaves running of its jobs where those are known by process.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    asked: u64,
    /// Processes that it leaves running.
    pub processes: Vec<ProcessId>,
}

impl Server {
    /// Returns the command for outlive's own, with the benchmark's store.
    pub fn outlive(world: &World, options: &Options) -> Command {
        let mut command = Command::new(&options.outlive);
        command.arg("mcp").env("OUTLIVE_HOME", world.path().join("store")).env_remove("OUTLIVE_CONFIG");
        command.current_dir(world.path());
        command
    }

    /// Starts one and shakes hands; the time to its first answer is a sample.
    ///
    /// # Errors
    ///
    /// If it cannot be started, or does not answer.
    pub fn start(command: &mut Command, starts: &mut Samples) -> Result<Self, Failure> {
        let began = Instant::now();
        let program = Path::new(command.get_program()).display().to_string();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or("a server has no pipes")?;
        let mut server =
            Self { child, stdin, stdout: BufReader::new(stdout), asked: 0, processes: Vec::new() };
        let about = json!({"name": "bench", "version": "1"});
        server.request(
            "initialize",
            &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}),
        )?;
        starts.add(began.elapsed().as_secs_f64() * 1e3);
        server.stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(server)
    }

    /// Returns the number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the server finish its work after an answer, so that it does not count as part of the next request.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn rest(&mut self) -> Result<(), Failure> {
        self.request("ping", &json!({})).map(drop)
    }

    /// Asks, and returns the result and the milliseconds until it came. Other messages of the server are ignored.
    ///
    /// # Errors
    ///
    /// If it answers with an error, or not at all.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<(Value, f64), Failure> {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        let mut line = format!("{request}\n");
        let began = Instant::now();
        self.stdin.write_all(line.as_bytes())?;
        loop {
            line.clear();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err(format!("a server ended at {method}").into());
            }
            let millis = began.elapsed().as_secs_f64() * 1e3;
            let mut answer: Value = serde_json::from_str(&line)?;
            if answer["id"] != self.asked || answer.get("method").is_some() {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(format!("{method}: {error}").into()),
                None => Ok((answer["result"].take(), millis)),
            };
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        for process in &self.processes {
            // Most have ended; a pid that belongs to another process now is not touched.
            if let Some(handle) = Handle::open(*process) {
                handle.signal(Signal::KILL).ok();
            }
        }
    }
}
