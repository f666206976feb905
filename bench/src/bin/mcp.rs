//! The MCP server, asked as a client asks it, beside Desktop Commander in the same run.
//!
//! Each server has so many live jobs. The two take turns, one request at a time, and each request is timed from the first byte that is
//! sent to the last that comes. The floor is a `ping` of the same server: what the pipes, the JSON and the scheduler take. What is
//! asked is not quite the same: outlive's `run` returns when the job is on the disk and kept by a process of its own, and its `kill`
//! when nothing of the job is left; the other's jobs live and end with its server, and its answer to a kill says that it has begun.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::process::{Command, ExitCode};

use outlive_bench::mcp_server::Server;
use outlive_bench::{Failure, Options, Samples, World, conclude, go_on, judge, sum_of_lines};
use outlive_sys::identity::ProcessId;
use serde_json::{Value, json};

/// One client begins its turn without the tools of a server that takes longer to say its first word, in milliseconds.
const FIRST_ANSWER: f64 = 100.0;

/// What each job prints before it sleeps: lines of 40 bytes. It ends by itself if no kill comes.
const JOB: &str = "seq -f %039.0f 1 400; exec sleep 900";

/// So many of its lines are 8 KiB.
const LINES: u64 = 204;

/// So many starts of the other, which takes seconds, and ten times as many of outlive.
const STARTS: u64 = 3;

/// Where the other's program is in the directory that it is installed in.
const COMMANDER: &str = "node_modules/@wonderwhy-er/desktop-commander/dist/index.js";

/// What is measured, in the order of the table.
const ACTS: [&str; 6] = ["floor: ping", "run, to handle", "read, nothing new", "read 8 KiB", "list", "kill"];

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [jobs, rounds]) = Options::parse([("jobs", 200), ("rounds", 100)])?;
    let world = World::new(&options)?;
    println!("mcp: {jobs} live jobs, {rounds} rounds; {}", world.describe());
    let mut all_kept = true;
    let mut sides = vec![Side::new(Kind::Outlive, Server::outlive(&world, &options), STARTS * 10)?];
    match commander(&world, &options)? {
        Some(command) => sides.push(Side::new(Kind::Commander, command, STARTS)?),
        None => println!(
            "Desktop Commander is not installed; npm install in a copy of bench/desktop-commander, then --desktop-commander DIR"
        ),
    }
    measure(&mut sides, jobs, rounds)?;
    for side in &sides {
        side.print(&mut all_kept);
    }
    Ok(all_kept || !options.is_check)
}

/// Returns the other server, with its home in the benchmark's directory and its telemetry off.
fn commander(world: &World, options: &Options) -> Result<Option<Command>, Failure> {
    let Some(program) = options.desktop_commander.as_ref().map(|directory| directory.join(COMMANDER)) else {
        return Ok(None);
    };
    if !program.is_file() {
        return Ok(None);
    }
    let home = world.path().join("commander");
    let settings = home.join(".claude-server-commander");
    fs::create_dir_all(&settings)?;
    fs::write(settings.join("config.json"), "{\"telemetryEnabled\": false}\n")?;
    let mut command = Command::new("node");
    command.arg(fs::canonicalize(program)?).env("HOME", &home).current_dir(&home);
    Ok(Some(command))
}

/// Takes all samples, the sides in turns.
fn measure(sides: &mut [Side], jobs: u64, rounds: u64) -> Result<(), Failure> {
    for _ in 0..jobs {
        each(sides, Side::begin)?;
    }
    // What a job prints takes its time to come; it is read away, so that there is nothing new.
    each(sides, Side::read_all)?;
    for _ in 0..rounds {
        each(sides, Side::ping)?;
        each(sides, Side::read_nothing)?;
        each(sides, Side::read_much)?;
        each(sides, Side::list)?;
    }
    each(sides, Side::weigh)?;
    for _ in 0..jobs {
        each(sides, Side::kill)?;
    }
    Ok(())
}

fn each(sides: &mut [Side], act: fn(&mut Side) -> Result<(), Failure>) -> Result<(), Failure> {
    go_on()?;
    sides.iter_mut().try_for_each(act)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Outlive,
    Commander,
}

/// A server under test, with its jobs and its samples.
struct Side {
    kind: Kind,
    server: Server,
    starts: Samples,
    /// As in [`ACTS`], in milliseconds.
    samples: [Samples; 6],
    jobs: Vec<Value>,
    pss: u64,
}

impl Side {
    fn new(kind: Kind, mut command: Command, count: u64) -> Result<Self, Failure> {
        let mut starts = Samples::default();
        let mut server = Server::start(&mut command, &mut starts)?;
        for _ in 1..count {
            go_on()?;
            server = Server::start(&mut command, &mut starts)?;
        }
        Ok(Self { kind, server, starts, samples: Default::default(), jobs: Vec::new(), pss: 0 })
    }

    /// Calls a tool; returns its text, and keeps the time as a sample of an act.
    fn call(&mut self, act: usize, tools: [&str; 2], arguments: [Value; 2]) -> Result<String, Failure> {
        let side = usize::from(self.kind == Kind::Commander);
        let params = json!({"name": tools[side], "arguments": arguments[side]});
        self.server.rest()?;
        let (result, millis) = self.server.request("tools/call", &params)?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if result["isError"] == true {
            return Err(format!("{}: {text}", tools[side]).into());
        }
        self.samples[act].add(millis);
        Ok(text)
    }

    fn ping(&mut self) -> Result<(), Failure> {
        self.server.rest()?;
        let (_, millis) = self.server.request("ping", &json!({}))?;
        self.samples[0].add(millis);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Failure> {
        let arguments =
            [json!({"command": JOB, "background": true}), json!({"command": JOB, "timeout_ms": 1})];
        let text = self.call(1, ["run", "start_process"], arguments)?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let after = |word: &str| words.iter().skip_while(|&&one| one != word).nth(1).copied();
        let handle = match self.kind {
            Kind::Outlive => after("[outlive]").map(Value::from),
            Kind::Commander => after("PID").and_then(|pid| pid.parse::<i32>().ok()).map(Value::from),
        };
        let handle = handle.ok_or_else(|| format!("no handle in {text}"))?;
        if let Some(process) = handle.as_i64().and_then(|pid| ProcessId::of(i32::try_from(pid).ok()?)) {
            self.server.processes.push(process);
        }
        self.jobs.push(handle);
        Ok(())
    }

    fn job(&self) -> Value {
        self.jobs.first().cloned().unwrap_or_default()
    }

    fn read_new(&mut self, act: usize) -> Result<String, Failure> {
        let job = self.job();
        let arguments = [json!({"job": job}), json!({"pid": job, "timeout_ms": 1})];
        self.call(act, ["read_output", "read_process_output"], arguments)
    }

    /// Reads until all that a job prints was read.
    fn read_all(&mut self) -> Result<(), Failure> {
        let has_more = |text: &str| !text.contains("nothing new") && !text.contains("Reading 0 new lines");
        while has_more(&self.read_new(2)?) {
            go_on()?;
        }
        // These were no samples.
        self.samples[2] = Samples::default();
        Ok(())
    }

    fn read_nothing(&mut self) -> Result<(), Failure> {
        self.read_new(2).map(drop)
    }

    fn read_much(&mut self) -> Result<(), Failure> {
        let job = self.job();
        let arguments = [
            json!({"job": job, "lines": LINES, "max_bytes": 12_000}),
            json!({"pid": job, "timeout_ms": 1, "offset": -i64::try_from(LINES)?}),
        ];
        let text = self.call(3, ["read_output", "read_process_output"], arguments)?;
        if text.len() < 8000 {
            Err(format!("{:?}: only {} bytes were read", self.kind, text.len()).into())
        } else {
            Ok(())
        }
    }

    fn list(&mut self) -> Result<(), Failure> {
        self.call(4, ["list_jobs", "list_sessions"], [json!({}), json!({})]).map(drop)
    }

    fn kill(&mut self) -> Result<(), Failure> {
        let job = self.jobs.pop().unwrap_or_default();
        self.call(5, ["kill", "force_terminate"], [json!({"job": job}), json!({"pid": job})]).map(drop)
    }

    fn weigh(&mut self) -> Result<(), Failure> {
        self.pss = sum_of_lines(&format!("/proc/{}/smaps_rollup", self.server.pid()), &["Pss"])?;
        Ok(())
    }

    fn print(&self, all_kept: &mut bool) {
        let name = match self.kind {
            Kind::Outlive => "outlive mcp",
            Kind::Commander => "Desktop Commander",
        };
        println!("{name:<20}{:>12}{:>12}{:>12}", "p50 ms", "p99 ms", "p50 ÷ ping");
        let floor = self.samples[0].median();
        for (act, samples) in ACTS.iter().zip(&self.samples) {
            let (median, most) = (samples.median(), samples.quantile(0.99));
            println!("  {act:<18}{median:>12.2}{most:>12.2}{:>12.1}", median / floor);
        }
        let start = self.starts.median();
        let verdict = match self.kind {
            Kind::Outlive => {
                format!("  {} (≤ {FIRST_ANSWER} ms)", judge(start <= FIRST_ANSWER, all_kept))
            }
            Kind::Commander => String::new(),
        };
        println!(
            "  start to the first answer: {start:.1} ms, at most {:.1}{verdict}",
            self.starts.quantile(1.0)
        );
        println!("  memory of the server with its jobs: {:.1} MiB (PSS)", self.pss as f64 / 1024.0);
    }
}
