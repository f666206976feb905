//! A list of few jobs, all live, by the library, the command line and an MCP server; `outlive list` over a large store, against `ls -l`
//! over the same directories; and the share of it that looks for jobs to recover.
//!
//! Every job is real. *Cold*: a new program, with an empty page cache where this user may drop it. *Warm*: a new program, with
//! everything in memory. *Again*: a program that has listed the jobs before. All take turns.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Job, Request, Store, Until};
use outlive_bench::mcp_server::Server;
use outlive_bench::{Failure, Options, Samples, World, conclude, finish, go_on, judge, settle};
use outlive_sys::durable;
use serde_json::json;

/// `outlive list` may take at most so many times what `ls -l` takes over the same directories.
const BOUND: f64 = 5.0;

/// A front end that lists jobs again may take at most so many microseconds for each: a millisecond for 200.
const AGAIN: f64 = 5.0;

/// What lists the few jobs, and how many milliseconds it may take for 200 where `ls -lR` over the same directories takes [`LS`]; else in
/// proportion.
const FEW: [(&str, f64); 4] = [
    ("ls -lR jobs", f64::INFINITY),
    ("library, again", 1.0),
    ("outlive list", 3.5),
    ("MCP list_jobs, again", 2.0),
];

/// What `ls -lR` took over 200 jobs on the machine that the bounds are for, in milliseconds.
const LS: f64 = 13.1;

/// A front end does not remember what changed within the last second.
const UNSETTLED: Duration = Duration::from_millis(1200);

/// Each further job may take at most so many times what one of the first half takes: growth is linear.
const GROWTH: f64 = 1.5;

/// So many jobs are under way at a time while the store is made.
const BATCH: u64 = 50;

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [ended, live, rounds]) = Options::parse([("ended", 9800), ("live", 200), ("rounds", 5)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    let bench = Bench { store: &store, outlive: &options.outlive };
    let mut all_kept = true;
    let request = Request::argv(["sleep", "3600"]);
    for _ in 0..live {
        go_on()?;
        store.start(&request)?;
    }
    println!("list: {live} live jobs; {}", world.describe());
    let mut command = Server::outlive(&world, &options);
    let mut server = Server::start(command.args(["--session", "default"]), &mut Samples::default())?;
    let few = bench.few(&mut server, rounds * 10, &mut all_kept)?;
    drop(server);
    let asked = Instant::now();
    end_many(&store, ended / 2)?;
    let half = bench.growth(rounds)?;
    end_many(&store, ended - ended / 2)?;
    let all = bench.growth(rounds)?;
    println!(
        "list: {ended} ended jobs and {live} live ones, made in {:.0} s; {}",
        asked.elapsed().as_secs_f64(),
        world.describe()
    );
    for (place, name) in ["library, again", "outlive list"].iter().enumerate() {
        let each = |from: [f64; 2], to: [f64; 2], count| (to[place] - from[place]) * 1e3 / count as f64;
        let (first, second) = (each(few, half, ended / 2), each(half, all, ended - ended / 2));
        let word = judge(second <= first * GROWTH, &mut all_kept);
        println!(
            "{:<6}{name:<38}{:>9.1} ms, {first:.1} µs for each of the first half, {second:.1} of the second  {word} (≤ {GROWTH} ×)",
            "more", all[place]
        );
    }
    let is_cold = drop_caches(world.path()).is_ok();
    if !is_cold {
        println!("nothing is cold: this user may not drop the caches (/proc/sys/vm/drop_caches)");
    }
    println!("{:<6}{:<38}{:>9}{:>9}{:>9}{:>11}", "", "", "best ms", "p50", "most", "p50 ÷ ls");
    for word in ["cold", "warm"].into_iter().skip(usize::from(!is_cold)) {
        bench.measure(word, rounds, ended + live, &mut all_kept)?;
    }
    bench.parts(rounds, &mut all_kept)?;
    Ok(all_kept || !options.is_check)
}

/// Runs so many jobs to their ends, some at a time.
fn end_many(store: &Store, count: u64) -> Result<(), Failure> {
    let mut left = count;
    while left > 0 {
        go_on()?;
        let batch = left.min(BATCH);
        let start = |number| {
            // A mix: some jobs print, some fail.
            let line = format!("echo job {number}; exit {}", number % 3);
            Ok(store.start(&Request::argv(["sh", "-c", &line]))?.job)
        };
        let jobs = (0..batch).map(start).collect::<Result<Vec<Job>, Failure>>()?;
        if !store.wait(&jobs, Until::All, None).is_reached {
            return Err("a job does not end".into());
        }
        for job in &jobs {
            finish(store, job)?;
        }
        left -= batch;
    }
    Ok(())
}

/// Drops the page cache.
fn drop_caches(path: &Path) -> Result<(), Failure> {
    settle(path)?;
    Ok(fs::write("/proc/sys/vm/drop_caches", "3")?)
}

struct Bench<'a> {
    store: &'a Store,
    outlive: &'a Path,
}

impl Bench<'_> {
    /// Measures lists of few jobs, in turns; returns what [`Bench::growth`] returns.
    fn few(&self, server: &mut Server, rounds: u64, all_kept: &mut bool) -> Result<[f64; 2], Failure> {
        std::thread::sleep(UNSETTLED);
        let mut samples = FEW.map(|_| Samples::default());
        for round in 0..=rounds {
            go_on()?;
            let arguments = json!({"name": "list_jobs", "arguments": {}});
            server.rest()?;
            let (answer, listed) = server.request("tools/call", &arguments)?;
            if !answer["content"][0]["text"].as_str().is_some_and(|text| text.contains(" live")) {
                return Err(format!("the server lists no live job: {answer}").into());
            }
            let times = [self.program(FEW[0].0)?.0, self.again()?, self.program(FEW[2].0)?.0, listed];
            // The first has nothing in memory.
            if round > 0 {
                samples.iter_mut().zip(times).for_each(|(samples, time)| samples.add(time));
            }
        }
        println!("{:<6}{:<38}{:>9}{:>9}{:>9}{:>11}", "", "", "best ms", "p50", "most", "p50 ÷ ls");
        let floor = samples[0].median();
        for ((name, bound), samples) in FEW.iter().zip(&samples) {
            let (ratio, bound) = (samples.median() / floor, bound / LS);
            let verdict = match bound.is_finite() {
                true => format!("  {} (≤ {bound:.2})", judge(ratio <= bound, all_kept)),
                false => String::new(),
            };
            println!(
                "{:<6}{name:<38}{:>9.2}{:>9.2}{:>9.2}{ratio:>11.2}{verdict}",
                "few",
                samples.best(),
                samples.median(),
                samples.quantile(1.0)
            );
        }
        Ok([samples[1].median(), samples[2].median()])
    }

    /// Returns the milliseconds of a list by this program, and by a new one.
    fn growth(&self, rounds: u64) -> Result<[f64; 2], Failure> {
        std::thread::sleep(UNSETTLED);
        let mut samples = [Samples::default(), Samples::default()];
        for _ in 0..=rounds {
            go_on()?;
            samples[0].add(self.again()?);
            samples[1].add(self.program("outlive list")?.0);
        }
        Ok(samples.map(|samples| samples.median()))
    }

    /// Lists the jobs with their states, as a server does it again; returns the milliseconds.
    fn again(&self) -> Result<f64, Failure> {
        let asked = Instant::now();
        let jobs = self.store.list_states(None, |_| true)?.jobs;
        let is_any_live = jobs.iter().filter(|(_, state)| state.is_live()).count() > 0;
        let millis = asked.elapsed().as_secs_f64() * 1e3;
        if is_any_live { Ok(millis) } else { Err("no live job is listed".into()) }
    }

    /// Measures whole programs, in turns.
    fn measure(&self, word: &str, rounds: u64, jobs: u64, all_kept: &mut bool) -> Result<(), Failure> {
        let names = ["ls -lR jobs", "ls -l jobs", "outlive list --all", "outlive list --json"];
        let mut samples = names.map(|_| Samples::default());
        for round in 0..rounds {
            for place in 0..names.len() {
                go_on()?;
                let place = (place + round as usize) % names.len();
                if word == "cold" {
                    drop_caches(self.store.root())?;
                } else if round == 0 {
                    self.program(names[place])?;
                }
                let (millis, lines) = self.program(names[place])?;
                if names[place] == "outlive list --all" && lines != jobs + 1 {
                    return Err(format!("{lines} lines are listed of {jobs} jobs").into());
                }
                samples[place].add(millis);
            }
        }
        let floor = samples[0].median();
        for (name, samples) in names.iter().zip(&samples) {
            let ratio = samples.median() / floor;
            let verdict = match *name {
                "outlive list --all" => format!("  {} (≤ {BOUND})", judge(ratio <= BOUND, all_kept)),
                _ => String::new(),
            };
            println!(
                "{word:<6}{name:<38}{:>9.1}{:>9.1}{:>9.1}{ratio:>11.2}{verdict}",
                samples.best(),
                samples.median(),
                samples.quantile(1.0)
            );
        }
        Ok(())
    }

    /// Runs a program and returns the milliseconds and the lines that it printed.
    fn program(&self, name: &str) -> Result<(f64, u64), Failure> {
        let words: Vec<&str> = name.split(' ').collect();
        let mut command = Command::new(if words[0] == "ls" { Path::new("ls") } else { self.outlive });
        command.args(&words[1..]).current_dir(self.store.root());
        command.env("OUTLIVE_HOME", self.store.root()).env_remove("OUTLIVE_CONFIG").stdin(Stdio::null());
        let asked = Instant::now();
        let output = command.output()?;
        let millis = asked.elapsed().as_secs_f64() * 1e3;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        Ok((millis, output.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64))
    }

    /// Measures the parts of a list in this program, with all in memory.
    fn parts(&self, rounds: u64, all_kept: &mut bool) -> Result<(), Failure> {
        let names = [
            "read the names of jobs",
            "open every job, read its spec",
            "find out how ended ones are",
            "find out how live ones are",
            "of that: ask every live one's lock",
            "all of it, as a server does it again",
        ];
        let mut samples = names.map(|_| Samples::default());
        let mut counts = [0; 2];
        for _ in 0..=rounds {
            go_on()?;
            let mut parts = [0.0; 6];
            // A new one each time, which remembers nothing.
            let store = Store::open_at(self.store.root(), self.store.config().clone())?;
            let asked = Instant::now();
            let names = fs::read_dir(self.store.root().join("jobs"))?.count();
            parts[0] = asked.elapsed().as_secs_f64();
            let asked = Instant::now();
            let jobs = store.list(None)?.jobs;
            parts[1] = asked.elapsed().as_secs_f64();
            let (live, ended): (Vec<&Job>, Vec<&Job>) =
                jobs.iter().partition(|job| durable::is_held(job.path(), "lock"));
            for (place, some) in [(2, &ended), (3, &live)] {
                let asked = Instant::now();
                let found = some.iter().filter(|job| job.state(&store).is_live() == (place == 3)).count();
                parts[place] = asked.elapsed().as_secs_f64();
                if found != some.len() {
                    return Err("a job is not what it should be".into());
                }
            }
            let asked = Instant::now();
            let held = live.iter().filter(|job| durable::is_held(job.path(), "lock")).count();
            parts[4] = asked.elapsed().as_secs_f64();
            let asked = Instant::now();
            let again = self.store.list_states(None, |_| true)?.jobs;
            let found = again.iter().filter(|(_, state)| state.is_live()).count();
            parts[5] = asked.elapsed().as_secs_f64();
            if held != live.len() || names != jobs.len() || found != live.len() {
                return Err("a job has changed meanwhile".into());
            }
            counts = [ended.len(), live.len()];
            samples.iter_mut().zip(parts).for_each(|(samples, part)| samples.add(part * 1e3));
        }
        for (place, (name, samples)) in names.iter().zip(&samples).enumerate() {
            let count = match place {
                2 => counts[0],
                3 | 4 => counts[1],
                _ => counts[0] + counts[1],
            };
            let each = samples.median() * 1e3 / count.max(1) as f64;
            let verdict = match place {
                5 => format!("  {} (≤ {AGAIN})", judge(each <= AGAIN, all_kept)),
                _ => String::new(),
            };
            println!(
                "{:<6}{name:<38}{:>9.1}{:>9.1}{:>9.1}{each:>9.1} µs each{verdict}",
                "parts",
                samples.best(),
                samples.median(),
                samples.quantile(1.0)
            );
        }
        let all: f64 = samples[1..4].iter().map(Samples::median).sum();
        println!(
            "looking for what needs recovery is {:.1} ms of {all:.1} ms: an ended job's record says all, and only a live one's lock is asked",
            samples[4].median()
        );
        Ok(())
    }
}
