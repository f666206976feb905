//! How long it takes until the jobs of a project are up and ready that do not wait for each other, beside the slowest of them alone; and beside
//! process-compose and pitchfork, where these are installed.
//!
//! A service is ready after a time of its own, which it sleeps: what is measured is what starting several adds.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive_bench::{Failure, Options, Samples, World, conclude, go_on, is_installed, judge};

/// How much longer all of them may take than the slowest alone.
const BOUND: f64 = 1.5;

/// How long the slowest service takes to be ready, in milliseconds.
const SLOWEST: u64 = 1000;

fn main() -> ExitCode {
    conclude(run)
}

/// Returns how long a service takes, in seconds.
fn delay(number: u64, services: u64) -> f64 {
    (SLOWEST * (number + 1)) as f64 / services as f64 / 1000.0
}

fn run() -> Result<bool, Failure> {
    let (options, [services, rounds]) = Options::parse([("services", 10), ("rounds", 10)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    println!("up: {services} services, the slowest ready after {SLOWEST} ms; {}", world.describe());
    let job = |number: u64| {
        format!(
            "[jobs.s{number}]\nrun = \"sleep {}; echo ready; exec sleep 300\"\nready.line = \"ready\"\n",
            delay(number, services)
        )
    };
    let all: String = (0..services).map(job).collect();
    let projects = [("alone", job(services - 1)), ("all", all)];
    let mut samples = [Samples::default(), Samples::default()];
    for (name, toml) in &projects {
        fs::create_dir_all(world.path().join(name))?;
        fs::write(world.path().join(name).join("outlive.toml"), toml)?;
    }
    // The first round finds nothing in any cache and does not count.
    for round in 0..=rounds {
        for ((name, _), samples) in projects.iter().zip(&mut samples) {
            go_on()?;
            let call = |arguments: &[&str]| {
                let mut command = Command::new(&options.outlive);
                command
                    .env("OUTLIVE_HOME", store.root())
                    .current_dir(world.path().join(name))
                    .args(arguments);
                timed(command)
            };
            let took = call(&["up", "--wait"])?;
            call(&["down"])?;
            if round > 0 {
                samples.add(took.as_secs_f64() * 1000.0);
            }
        }
    }
    println!("{:<22}{:>9}{:>9}{:>9}", "", "best ms", "p50", "most");
    for ((name, _), samples) in projects.iter().zip(&samples) {
        print_row(&format!("outlive {name}"), samples);
    }
    for (program, measure) in
        [("process-compose", process_compose as Measure), ("pitchfork", pitchfork as Measure)]
    {
        match is_installed(program) {
            true => print_row(&format!("{program} all"), &measure(world.path(), services, rounds)?),
            false => println!("up: {program} is not installed, and not measured"),
        }
    }
    let ratio = samples[1].median() / samples[0].median();
    let mut all_kept = true;
    println!("all ÷ slowest alone: {ratio:.2}, at most {BOUND} {}", judge(ratio <= BOUND, &mut all_kept));
    Ok(all_kept || !options.is_check)
}

/// Measures another program with the same services, so often.
type Measure = fn(&Path, u64, u64) -> Result<Samples, Failure>;

fn print_row(what: &str, samples: &Samples) {
    println!("{what:<22}{:>9.0}{:>9.0}{:>9.0}", samples.best(), samples.median(), samples.quantile(1.0));
}

/// process-compose: until it says that its project is ready.
fn process_compose(dir: &Path, services: u64, rounds: u64) -> Result<Samples, Failure> {
    let process = |number: u64| {
        format!(
            "  s{number}:\n    command: 'sleep {}; echo ready; exec sleep 300'\n    ready_log_line: ready\n",
            delay(number, services)
        )
    };
    let yaml: String = std::iter::once("processes:\n".to_owned()).chain((0..services).map(process)).collect();
    fs::write(dir.join("process-compose.yaml"), yaml)?;
    let call = |arguments: &[&str]| {
        let mut command = Command::new("process-compose");
        command.current_dir(dir).env("PC_SOCKET_PATH", dir.join("pc.sock")).args(["-U"]).args(arguments);
        timed(command)
    };
    let mut samples = Samples::default();
    for round in 0..=rounds {
        go_on()?;
        let up = call(&["up", "-D", "--tui=false"])?;
        let ready = call(&["project", "is-ready", "--wait"])?;
        call(&["down"])?;
        if round > 0 {
            samples.add((up + ready).as_secs_f64() * 1000.0);
        }
    }
    Ok(samples)
}

/// pitchfork: until its `start` returns, which waits until all are ready. Its supervisor runs before and after.
fn pitchfork(dir: &Path, services: u64, rounds: u64) -> Result<Samples, Failure> {
    let daemon = |number: u64| {
        format!(
            "[daemons.s{number}]\nrun = \"sh -c 'sleep {}; echo ready; exec sleep 300'\"\nready_output = \"ready\"\n",
            delay(number, services)
        )
    };
    let place = dir.join("pitchfork");
    fs::create_dir_all(&place)?;
    fs::write(place.join("pitchfork.toml"), (0..services).map(daemon).collect::<String>())?;
    let call = |arguments: &[&str]| {
        let mut command = Command::new("pitchfork");
        command
            .current_dir(&place)
            .env("PITCHFORK_STATE_DIR", place.join("state"))
            .env("PITCHFORK_CONFIG_DIR", place.join("config"))
            .args(arguments);
        timed(command)
    };
    call(&["supervisor", "start"])?;
    let measure = || {
        let mut samples = Samples::default();
        for round in 0..=rounds {
            go_on()?;
            let took = call(&["start", "--local"])?;
            call(&["stop", "--local"])?;
            if round > 0 {
                samples.add(took.as_secs_f64() * 1000.0);
            }
        }
        Ok(samples)
    };
    let samples = measure();
    call(&["supervisor", "stop"])?;
    samples
}

/// Runs a program to its end.
fn timed(mut command: Command) -> Result<Duration, Failure> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    if !status.success() {
        return Err(format!("{command:?} failed: {status}").into());
    }
    Ok(began.elapsed())
}
