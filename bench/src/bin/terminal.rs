//! Jobs in a terminal, beside the programs that people use for that: dtach, which passes bytes on and knows no screen, and tmux, which
//! keeps one.
//!
//! Time from a key to its echo in a viewer's window; keys come to the three in turn, and not faster than a person types. Time of a
//! long output to the last line in the window. The screen of the log that this leaves: at the first look, and where an earlier look
//! has left checkpoints. At last what a job in a terminal costs while nothing happens.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Job, Request, Store, TerminalSize};
use outlive_bench::window::Window;
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, end, go_on, is_installed, judge, rest, sum_of_lines,
    switches,
};
use outlive_tests::keepers_of;

/// The size of every window, columns and rows.
const SIZE: (u16, u16) = (120, 40);

/// A key may take so many times as long as with dtach.
const ECHO_BOUND: f64 = 1.5;

/// The most milliseconds for a screen with a checkpoint, and for the first look.
const SCREEN_BOUNDS: [f64; 2] = [20.0, 2000.0];

/// A keeper's share of memory in KiB, and that of whatever else outlive runs for an idle job.
const MEMORY_BOUND: f64 = 115.0;

/// Between two keys at one window; a fast typist takes three times as long.
const PAUSE: Duration = Duration::from_millis(20);

/// A viewer that has shown nothing for so long is there and waits.
const QUIET: Duration = Duration::from_millis(500);

/// Shown in turn; none of them is in a sequence that any of the viewers sends.
const LETTERS: &[u8] = b"ABCDEFG";

/// Shows each letter in place of the one before.
const ECHOES: &str = "stty raw -echo; exec cat";

/// The last line of the long output.
const LAST: &str = "this-is-all";

/// How long keepers have to come to rest, and how long they are watched.
const IDLE: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(10)];

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let defaults = [("keys", 300), ("bytes", 103_000_000), ("repeats", 5), ("jobs", 50)];
    let (options, [keys, bytes, repeats, jobs]) = Options::parse(defaults)?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    println!("terminal: windows of {}x{}, {} keeper; {}", SIZE.0, SIZE.1, keeper.label, world.describe());
    let mut others = Vec::new();
    for (program, way) in [("dtach", Way::Dtach), ("tmux", Way::Tmux)] {
        match is_installed(program) {
            true => others.push(way),
            false => {
                println!("terminal: {program} is not installed, and what is promised beside it is not judged")
            }
        }
    }
    let ways: Vec<Way> = others.into_iter().chain([Way::Outlive]).collect();
    let bench = Bench { outlive: &options.outlive, world: &world, store: world.store(keeper)?, ways };
    let mut all_kept = true;
    bench.echo(keys, &mut all_kept)?;
    let job = bench.flood(bytes, repeats, &mut all_kept)?;
    bench.screen(&job, repeats, &mut all_kept)?;
    end(&bench.store, &job)?;
    bench.idle(jobs, &mut all_kept)?;
    Ok(all_kept || !options.is_check)
}

/// What shows a program in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Dtach,
    Tmux,
    Outlive,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Dtach => "dtach",
            Self::Tmux => "tmux",
            Self::Outlive => "outlive attach",
        }
    }
}

struct Bench<'a> {
    outlive: &'a Path,
    world: &'a World,
    store: Store,
    ways: Vec<Way>,
}

/// A program behind a viewer in a window. Dropping it ends all of it but the job.
struct Shown {
    window: Window,
    job: Option<Job>,
    server: Server,
}

/// What keeps the program beside the viewer.
enum Server {
    /// The job's keeper.
    Keeper,
    Process(Child),
    /// The socket of tmux.
    Tmux(PathBuf),
}

impl Drop for Server {
    fn drop(&mut self) {
        match self {
            Self::Keeper => {}
            Self::Process(child) => {
                child.kill().ok();
                child.wait().ok();
            }
            Self::Tmux(socket) => drop(tmux(socket).arg("kill-server").stderr(Stdio::null()).status()),
        }
    }
}

fn tmux(socket: &Path) -> Command {
    let mut command = Command::new("tmux");
    command.arg("-S").arg(socket).args(["-f", "/dev/null"]);
    command
}

impl Bench<'_> {
    /// Runs a line for the shell, with a viewer that is ready for keys.
    fn show(&self, way: Way, line: &str) -> Result<Shown, Failure> {
        let socket = self.world.path().join(way.name());
        let (viewer, job, server) = match way {
            Way::Dtach => {
                // An earlier one leaves its socket behind when it is ended.
                fs::remove_file(&socket).ok();
                let mut command = Command::new("dtach");
                command.arg("-N").arg(&socket).args(["-r", "none", "sh", "-c", line]);
                let server = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
                while !socket.exists() {
                    rest(Duration::from_millis(1))?;
                }
                let mut viewer = Command::new("dtach");
                viewer.arg("-a").arg(&socket).args(["-E", "-z", "-r", "none"]);
                (viewer, None, Server::Process(server))
            }
            Way::Tmux => {
                let mut viewer = tmux(&socket);
                viewer.args(["new-session", line, ";", "set-option", "status", "off"]);
                (viewer, None, Server::Tmux(socket))
            }
            Way::Outlive => {
                let request = Request::shell(line).with_shell("sh").pty(true);
                let job = self.store.start(&request.size(TerminalSize::new(SIZE.0, SIZE.1)))?.job;
                let mut viewer = self.command();
                viewer.args(["attach", job.id().as_str()]);
                (viewer, Some(job), Server::Keeper)
            }
        };
        let mut window = Window::open(SIZE, &viewer)?;
        window.settle(QUIET)?;
        Ok(Shown { window, job, server })
    }

    /// Returns `outlive` with the benchmark's store.
    fn command(&self) -> Command {
        let mut command = Command::new(self.outlive);
        command.env("OUTLIVE_HOME", self.world.path().join("store")).env_remove("OUTLIVE_CONFIG");
        command
    }

    fn echo(&self, keys: u64, all_kept: &mut bool) -> Result<(), Failure> {
        let mut all = self.ways.iter().map(|&way| self.show(way, ECHOES)).collect::<Result<Vec<_>, _>>()?;
        let mut samples = vec![Samples::default(); all.len()];
        // The first key of each pays for what is done once.
        for key in 0..=keys {
            for (shown, samples) in all.iter_mut().zip(&mut samples) {
                rest(PAUSE)?;
                let letter = LETTERS[key as usize % LETTERS.len()];
                let asked = Instant::now();
                shown.window.press(&[b'\r', letter])?;
                shown.window.shows(&[letter])?;
                if key > 0 {
                    samples.add(asked.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
        println!("{:<24}{:>9}{:>9}{:>9}{:>14}", "key to echo", "best µs", "p50", "p95", "p50 ÷ dtach");
        let dtach = self.floor(Way::Dtach, &samples);
        for (way, samples) in self.ways.iter().zip(&samples) {
            let ratio = dtach.map(|dtach| samples.median() / dtach.median());
            let verdict = match (way, ratio) {
                (Way::Outlive, Some(ratio)) => {
                    format!("  {} (≤ {ECHO_BOUND})", judge(ratio <= ECHO_BOUND, all_kept))
                }
                _ => String::new(),
            };
            println!(
                "{:<24}{:>9.0}{:>9.0}{:>9.0}{:>14.2}{verdict}",
                way.name(),
                samples.best(),
                samples.median(),
                samples.quantile(0.95),
                ratio.unwrap_or(f64::NAN),
            );
        }
        all.into_iter().try_for_each(|shown| self.finish(shown))
    }

    fn floor<'a>(&self, way: Way, samples: &'a [Samples]) -> Option<&'a Samples> {
        samples.get(self.ways.iter().position(|&other| other == way)?)
    }

    /// Ends what was shown.
    fn finish(&self, shown: Shown) -> Result<(), Failure> {
        let Shown { window, job, server } = shown;
        drop((window, server));
        job.map_or(Ok(()), |job| end(&self.store, &job))
    }

    /// Measures a long output; returns the job of the last run, which still runs.
    fn flood(&self, bytes: u64, repeats: u64, all_kept: &mut bool) -> Result<Job, Failure> {
        let line = format!("read go; '{}' {bytes}; echo; echo {LAST}; exec cat", beside("lines")?.display());
        let mut samples = vec![Samples::default(); self.ways.len()];
        let mut last = None;
        for repeat in 0..repeats as usize {
            for place in 0..self.ways.len() {
                let place = (place + repeat) % self.ways.len();
                let way = self.ways[place];
                let mut shown = self.show(way, &line)?;
                let asked = Instant::now();
                shown.window.press(b"\r")?;
                shown.window.shows(LAST.as_bytes())?;
                samples[place].add(asked.elapsed().as_secs_f64());
                if way == Way::Outlive {
                    let before = std::mem::replace(&mut last, shown.job.take());
                    before.map_or(Ok(()), |job| end(&self.store, &job))?;
                }
                self.finish(shown)?;
            }
        }
        let megabytes = bytes as f64 / 1e6;
        let title = format!("{megabytes:.0} MB to a window");
        println!("{title:<24}{:>9}{:>9}{:>9}{:>14}", "best s", "median", "MB/s", "median ÷ tmux");
        let tmux = self.floor(Way::Tmux, &samples);
        for (way, samples) in self.ways.iter().zip(&samples) {
            let ratio = tmux.map(|tmux| samples.median() / tmux.median());
            let verdict = match (way, ratio) {
                (Way::Outlive, Some(ratio)) => format!("  {} (≤ 1)", judge(ratio <= 1.0, all_kept)),
                _ => String::new(),
            };
            println!(
                "{:<24}{:>9.2}{:>9.2}{:>9.0}{:>14.2}{verdict}",
                way.name(),
                samples.best(),
                samples.median(),
                megabytes / samples.median(),
                ratio.unwrap_or(f64::NAN),
            );
        }
        last.ok_or_else(|| "no job has printed".into())
    }

    /// Measures `outlive screen` of a long log and of a job that has printed nothing, which is the floor.
    fn screen(&self, job: &Job, repeats: u64, all_kept: &mut bool) -> Result<(), Failure> {
        let silent = self.store.start(&Request::argv(["cat"]).pty(true))?.job;
        let [mut floor, mut known, mut first] = [(); 3].map(|()| Samples::default());
        for _ in 0..repeats {
            remove_checkpoints(job)?;
            first.add(self.look(job)?);
            for _ in 0..4 {
                known.add(self.look(job)?);
                floor.add(self.look(&silent)?);
            }
        }
        println!("{:<24}{:>9}{:>9}{:>9}", "screen", "best ms", "p50", "most");
        let rows = [
            ("of an empty log", &floor, None),
            ("with a checkpoint", &known, Some(SCREEN_BOUNDS[0])),
            ("at the first look", &first, Some(SCREEN_BOUNDS[1])),
        ];
        for (name, samples, bound) in rows {
            let verdict =
                bound.map(|bound| format!("  {} (≤ {bound} ms)", judge(samples.median() <= bound, all_kept)));
            println!(
                "{name:<24}{:>9.1}{:>9.1}{:>9.1}{}",
                samples.best(),
                samples.median(),
                samples.quantile(1.0),
                verdict.unwrap_or_default()
            );
        }
        end(&self.store, &silent)
    }

    /// Returns the milliseconds that `outlive screen` takes.
    fn look(&self, job: &Job) -> Result<f64, Failure> {
        go_on()?;
        let asked = Instant::now();
        let done = self.command().args(["screen", job.id().as_str()]).output()?;
        let millis = asked.elapsed().as_secs_f64() * 1e3;
        if done.status.success() { Ok(millis) } else { Err("outlive screen failed".into()) }
    }

    fn idle(&self, count: u64, all_kept: &mut bool) -> Result<(), Failure> {
        let request = Request::argv(["cat"]).pty(true);
        let jobs = (0..count)
            .map(|_| go_on().and_then(|()| Ok(self.store.start(&request)?.job)))
            .collect::<Result<Vec<_>, Failure>>()?;
        rest(IDLE[0])?;
        let pids = keepers_of(self.store.root());
        let memory = pids.iter().map(|pid| sum_of_lines(&format!("/proc/{pid}/smaps_rollup"), &["Pss"]));
        let memory = memory.sum::<Result<u64, Failure>>()? as f64 / count as f64;
        let before = switches(&pids)?;
        rest(IDLE[1])?;
        let woken = switches(&pids)? - before;
        println!(
            "{count} idle jobs: {memory:.1} KiB each, {woken} context switches in 10 s  {} (≤ {MEMORY_BOUND} KiB) {} (0)",
            judge(memory <= MEMORY_BOUND, all_kept),
            judge(woken == 0, all_kept),
        );
        jobs.iter().try_for_each(|job| end(&self.store, job))
    }
}

/// Removes the screens that earlier looks have kept.
fn remove_checkpoints(job: &Job) -> Result<(), Failure> {
    for entry in fs::read_dir(job.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "checkpoint") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
