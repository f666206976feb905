//! What people type all day, with 200 jobs: the list, the last 100 lines of one, all that is known of one, and the tab key; beside
//! pueue and tsp (task-spooler) with as many jobs, where these are installed (`--tsp FILE`, `--pueue FILE`: elsewhere than on the
//! `PATH`). With `--check` both have to be there.
//!
//! Every job has ended after it printed 200 lines. All programs take turns, each as a new process that writes to a pipe.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Request, Until};
use outlive_bench::{Failure, Options, Samples, World, conclude, finish, go_on, judge};

/// A person who presses the tab key must not notice it.
const COMPLETION_MILLIS: f64 = 20.0;

/// How long the other programs may take to run their jobs.
const PATIENCE: Duration = Duration::from_secs(300);

/// What has ended within the last second is read anew by each list; people look at 200 jobs that have ended before.
const UNSETTLED: Duration = Duration::from_millis(1200);

/// What each job does.
const LINE: &str = "seq 200";

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [jobs, rounds]) = Options::parse([("jobs", 200), ("rounds", 30)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    let mut ours = Vec::new();
    for _ in 0..jobs {
        go_on()?;
        ours.push(store.start(&Request::shell(LINE))?.job);
        if ours.len().is_multiple_of(25) && !store.wait(&ours, Until::All, None).is_reached {
            return Err("a job does not end".into());
        }
    }
    ours.iter().try_for_each(|job| finish(&store, job))?;
    let middle = ours[ours.len() / 2].id().to_string();
    let number = (jobs / 2).to_string();
    let outlive = |arguments: &[&str]| {
        let mut command = Command::new(&options.outlive);
        command.env("OUTLIVE_HOME", store.root()).args(arguments);
        command
    };
    let others = [Other::tsp(&options, world.path(), jobs)?, Other::pueue(&options, world.path(), jobs)?];
    std::thread::sleep(UNSETTLED);
    println!("cli: {jobs} jobs; {}", world.describe());
    println!("{:<14}{:<10}{:>9}{:>9}{:>9}", "", "", "best ms", "p50", "most");
    let mut all_kept = true;
    for (what, own, of_tsp, of_pueue) in [
        ("list", &["list", "--all"][..], Some(&[][..]), Some(&["status"][..])),
        (
            "logs -n 100",
            &["logs", "-n", "100", &middle],
            Some(&["-c", &number]),
            Some(&["log", "--lines", "100", &number]),
        ),
        ("show", &["show", &middle], Some(&["-i", &number]), Some(&["log", "--json", &number])),
        ("completion", &["complete", "--line", "outlive logs ", "--replaced", ""], None, None),
    ] {
        let mut sides = vec![("outlive", outlive(own), Samples::default())];
        for (other, arguments) in others.iter().zip([of_tsp, of_pueue]) {
            if let (Some(other), Some(arguments)) = (other, arguments) {
                sides.push((other.name, other.command(arguments), Samples::default()));
            }
        }
        for _ in 0..rounds {
            go_on()?;
            for (name, command, samples) in &mut sides {
                let begun = Instant::now();
                let done = command.stdin(Stdio::null()).stderr(Stdio::null()).output()?;
                samples.add(begun.elapsed().as_secs_f64() * 1000.0);
                if !done.status.success() || done.stdout.is_empty() {
                    return Err(format!("{name} does not do it: {what}").into());
                }
            }
        }
        let own = sides[0].2.median();
        for (name, _, samples) in &sides {
            let verdict = match *name {
                "outlive" if what == "completion" => judge(own <= COMPLETION_MILLIS, &mut all_kept),
                "outlive" => "",
                _ => judge(own <= samples.median(), &mut all_kept),
            };
            let (best, median, most) = (samples.best(), samples.median(), samples.quantile(1.0));
            println!("{what:<14}{name:<10}{best:>9.1}{median:>9.1}{most:>9.1}  {verdict}");
        }
    }
    Ok(all_kept || !options.is_check)
}

/// Another program that runs jobs, with a server of its own that ends with it.
struct Other {
    name: &'static str,
    program: PathBuf,
    environment: Vec<(&'static str, PathBuf)>,
    server: Option<Child>,
}

impl Other {
    /// Starts task-spooler with as many jobs, and waits for their end; none where it is not installed.
    fn tsp(options: &Options, directory: &Path, jobs: u64) -> Result<Option<Self>, Failure> {
        let directory = directory.join("tsp");
        fs::create_dir_all(&directory)?;
        let environment = vec![
            ("TS_SOCKET", directory.join("socket")),
            ("TMPDIR", directory),
            ("TS_MAXFINISHED", "100000".into()),
            ("TS_SLOTS", "4".into()),
        ];
        let program = options.tsp.clone().unwrap_or_else(|| "tsp".into());
        let other = Self { name: "tsp", program, environment, server: None };
        if !other.is_installed(options)? {
            return Ok(None);
        }
        for _ in 0..jobs {
            go_on()?;
            other.succeed(&["sh", "-c", LINE])?;
        }
        for number in 0..jobs {
            other.succeed(&["-w", &number.to_string()])?;
        }
        Ok(Some(other))
    }

    /// Starts pueue with as many jobs, and waits for their end; none where it is not installed.
    fn pueue(options: &Options, directory: &Path, jobs: u64) -> Result<Option<Self>, Failure> {
        let directory = directory.join("pueue");
        fs::create_dir_all(&directory)?;
        let variables = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"];
        let environment = variables.map(|variable| (variable, directory.clone())).to_vec();
        let program = options.pueue.clone().unwrap_or_else(|| "pueue".into());
        let mut other = Self { name: "pueue", program, environment, server: None };
        if !other.is_installed(options)? {
            return Ok(None);
        }
        let mut server = Command::new(other.program.with_file_name("pueued"));
        server.envs(other.environment.iter().map(|(name, value)| (name, value)));
        other.server = Some(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let deadline = Instant::now() + PATIENCE;
        while other.succeed(&["status"]).is_err() {
            go_on()?;
            if Instant::now() > deadline {
                return Err("pueued does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        other.succeed(&["parallel", "4"])?;
        for _ in 0..jobs {
            go_on()?;
            other.succeed(&["add", "--", LINE])?;
        }
        other.succeed(&["wait"])?;
        Ok(Some(other))
    }

    /// Tells whether it is there; one that was named or that a bound is about has to be.
    fn is_installed(&self, options: &Options) -> Result<bool, Failure> {
        let tried = self.command(&[if self.name == "tsp" { "-V" } else { "--version" }]).output();
        let Err(error) = tried else { return Ok(true) };
        let said = format!("{} cannot be run: {error}", self.program.display());
        if options.is_check || self.program != OsStr::new(self.name) {
            return Err(said.into());
        }
        println!("{said}; it is not measured");
        Ok(false)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).args(arguments);
        command
    }

    fn succeed(&self, arguments: &[&str]) -> Result<(), Failure> {
        let done = self.command(arguments).stdin(Stdio::null()).output()?;
        match done.status.success() {
            true => Ok(()),
            false => Err(format!("{} {}: {}", self.name, arguments.join(" "), done.status).into()),
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        match &mut self.server {
            Some(server) => {
                // It is ours, and ends with the benchmark.
                server.kill().ok();
                server.wait().ok();
            }
            None => {
                self.command(&["-K"]).output().ok();
            }
        }
    }
}
