//! Time from the request to an empty tree, against `kill -KILL -PGID`; and how much of a harder tree each tool's own kill leaves.
//!
//! The floor can only end a tree that stays in its process group: 50 processes. In every round each way ends one such
//! tree, in a rotating order, so that whatever else the machine does hits all alike. All members are pinned before the
//! request, and a tree is empty when the last of them has ended.
//!
//! The harder tree has 21 members: children, sessions of their own, double-forked daemons, and some that ignore TERM. It is
//! asked to end, given five seconds, and killed; after six seconds the processes that are left are counted.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Job, Kill, Level, Request, StartError, Store};
use outlive_bench::{Failure, Options, Samples, World, beside, conclude, end, finish, go_on, judge};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::poll;
use outlive_sys::signal::Signal;

/// How long a tree may take to grow or to go before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The members of the harder tree.
const MENAGERIE: usize = 21;

/// How long it has to end once it was asked to: the default grace of `outlive kill`.
const GRACE: Duration = Duration::from_secs(5);

/// When the processes that are left are counted.
const COUNT_AFTER: Duration = Duration::from_secs(6);

fn main() -> ExitCode {
    conclude(run)
}

/// How a tree is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// `kill -KILL -PGID`, as a program: the usual alternative.
    Program,
    /// The call that this program makes.
    Call,
    /// The library, with the job at this containment level.
    Library(Level),
    /// `outlive kill --force`.
    Cli(Level),
}

/// A tree that grows in the way in which it will be ended.
enum Tree {
    Floor(Child),
    Job(Box<Job>),
}

struct Bench<'a> {
    zoo: PathBuf,
    outlive: &'a Path,
    world: &'a World,
    store: Store,
    trees: usize,
}

fn run() -> Result<bool, Failure> {
    let (options, [rounds, size]) = Options::parse([("rounds", 30), ("size", 50)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    let mut bench = Bench { zoo: beside("zoo")?, outlive: &options.outlive, world: &world, store, trees: 0 };
    let levels = bench.levels()?;
    let mut ways = vec![Way::Call, Way::Program];
    ways.extend(levels.iter().map(|&level| Way::Library(level)));
    ways.extend(levels.iter().map(|&level| Way::Cli(level)));
    println!(
        "kill: request to empty tree of {size}, {rounds} rounds; {} keeper; {}",
        keeper.label,
        world.describe()
    );
    let mut all = vec![Samples::default(); ways.len()];
    // The first round finds nothing in any cache and does not count.
    for round in 0..=rounds as usize {
        for place in 0..ways.len() {
            go_on()?;
            let place = (place + round) % ways.len();
            let micros = bench.end_one(ways[place], size as usize)?;
            if round > 0 {
                all[place].add(micros);
            }
        }
    }
    print(&ways, &all);
    let all_kept = bench.count_survivors(&levels)?;
    Ok(all_kept || !options.is_check)
}

fn print(ways: &[Way], all: &[Samples]) {
    println!("{:<22}{:<9}{:>9}{:>9}{:>9}{:>14}", "through", "level", "best µs", "p50", "p95", "p50 ÷ floor");
    for (way, samples) in ways.iter().zip(all) {
        // A call is compared with the call, a program with the program.
        let (name, level, floor) = match way {
            Way::Call => ("killpg", "", Way::Call),
            Way::Program => ("kill -KILL -PGID", "", Way::Program),
            Way::Library(level) => ("library", level.word(), Way::Call),
            Way::Cli(level) => ("outlive kill --force", level.word(), Way::Program),
        };
        let floor = ways.iter().position(|way| *way == floor).map_or(f64::NAN, |place| all[place].median());
        let (best, median, late) = (samples.best(), samples.median(), samples.quantile(0.95));
        println!("{name:<22}{level:<9}{best:>9.0}{median:>9.0}{late:>9.0}{:>14.2}", median / floor);
    }
}

impl Bench<'_> {
    /// Lists the containment levels of this machine, and says which are missing.
    fn levels(&self) -> Result<Vec<Level>, Failure> {
        let mut levels = Vec::new();
        for level in Level::ALL {
            match self.store.start(&Request::argv(["true"]).containment(level)) {
                Ok(started) => {
                    finish(&self.store, &started.job)?;
                    levels.push(level);
                }
                Err(StartError::NeverStarted { why, .. }) => {
                    println!("kill: without {}: {}", level.word(), why.sentence());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(levels)
    }

    /// Starts a tree and waits until it is complete.
    fn grow(
        &mut self,
        level: Option<Level>,
        kind: &[&str],
        count: usize,
    ) -> Result<(Tree, Vec<ProcessId>), Failure> {
        self.trees += 1;
        let file = self.world.path().join(format!("tree-{}", self.trees));
        let tree = match level {
            None => {
                let mut command = Command::new(&self.zoo);
                command.arg(&file).args(kind).process_group(0);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                Tree::Floor(command.spawn()?)
            }
            Some(level) => {
                let argv = [self.zoo.as_os_str(), file.as_os_str()].into_iter().map(ToOwned::to_owned);
                let request = Request::argv(argv.chain(kind.iter().map(Into::into))).containment(level);
                Tree::Job(Box::new(self.store.start(&request)?.job))
            }
        };
        let until = Instant::now() + PATIENCE;
        loop {
            go_on()?;
            let members = registered(&file);
            if members.len() >= count {
                return Ok((tree, members));
            }
            if Instant::now() > until {
                return Err(format!("only {} of {count} are in {}", members.len(), file.display()).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Grows a tree, ends it in one way, and returns the microseconds until it was empty.
    fn end_one(&mut self, way: Way, size: usize) -> Result<f64, Failure> {
        let level = match way {
            Way::Call | Way::Program => None,
            Way::Library(level) | Way::Cli(level) => Some(level),
        };
        let children = (size - 1).to_string();
        let (tree, members) = self.grow(level, &["many", &children], size)?;
        let handles: Vec<Handle> = members.iter().filter_map(|&member| Handle::open(member)).collect();
        if handles.len() != size {
            return Err(format!("{} of {size} were gone before the kill", size - handles.len()).into());
        }
        let asked = Instant::now();
        match (&tree, way) {
            (Tree::Floor(child), Way::Call) => {
                kill_group(child, Signal::KILL)?;
            }
            (Tree::Floor(child), _) => {
                let group = format!("-{}", child.id());
                succeed(Command::new("kill").args(["-KILL", "--", &group]))?;
            }
            (Tree::Job(job), Way::Cli(_)) => {
                let mut command = Command::new(self.outlive);
                command.args(["kill", "--force", job.id().as_str()]).env("OUTLIVE_HOME", self.store.root());
                command.env_remove("OUTLIVE_CONFIG").env_remove("OUTLIVE_SESSION").stdout(Stdio::null());
                succeed(&mut command)?;
            }
            (Tree::Job(job), _) => {
                let kill = Kill { force: true, by: "bench".to_owned(), ..Kill::default() };
                let killed = self.store.kill(job, &kill)?;
                if !killed.survivors.is_empty() {
                    return Err(format!("{} are left of {}", killed.survivors.len(), job.id()).into());
                }
            }
        }
        for handle in &handles {
            if !poll::readable(handle.as_fd(), Some(PATIENCE))? {
                return Err("a member of the tree does not end".into());
            }
        }
        let micros = asked.elapsed().as_secs_f64() * 1e6;
        match tree {
            Tree::Floor(mut child) => {
                child.wait()?;
            }
            Tree::Job(job) => finish(&self.store, &job)?,
        }
        Ok(micros)
    }

    /// Ends the harder tree in every way at the same time, and counts what is left.
    fn count_survivors(&mut self, levels: &[Level]) -> Result<bool, Failure> {
        let mut trees = Vec::new();
        for level in [None].into_iter().chain(levels.iter().copied().map(Some)) {
            let (tree, members) = self.grow(level, &["menagerie"], MENAGERIE)?;
            trees.push((level, tree, members));
        }
        println!("kill: left of a tree of {MENAGERIE} six seconds after TERM, five seconds, KILL");
        let asked = Instant::now();
        let store = &self.store;
        let named = std::thread::scope(|scope| {
            let threads: Vec<_> = trees
                .iter()
                .map(|(_, tree, _)| {
                    scope.spawn(move || match tree {
                        Tree::Floor(child) => {
                            kill_group(child, Signal::TERM)?;
                            std::thread::sleep(GRACE);
                            // A group that is empty already is the goal.
                            kill_group(child, Signal::KILL).ok();
                            Ok(0)
                        }
                        Tree::Job(job) => {
                            let kill = Kill { by: "bench".to_owned(), ..Kill::default() };
                            let killed = store.kill(job, &kill).map_err(|error| error.to_string())?;
                            Ok::<usize, String>(killed.survivors.len())
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err("it failed".to_owned())))
                .collect::<Vec<_>>()
        });
        while asked.elapsed() < COUNT_AFTER {
            go_on()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut all_kept = true;
        for ((level, tree, members), named) in trees.into_iter().zip(named) {
            let left: Vec<ProcessId> = members.into_iter().filter(|member| member.is_alive()).collect();
            let (name, word) = level.map_or(("kill -PGID", ""), |level| ("outlive kill", level.word()));
            let verdict = match level {
                None => String::new(),
                // With the bare process group, `kill` only promises to name the processes that got away.
                Some(Level::Group) => {
                    let is_kept = named.as_ref().is_ok_and(|&named| named == left.len());
                    format!("  {} (all of them named in the answer)", judge(is_kept, &mut all_kept))
                }
                Some(_) => format!("  {} (0)", judge(left.is_empty() && named == Ok(0), &mut all_kept)),
            };
            println!("{name:<22}{word:<9}{:>9}{verdict}", left.len());
            for member in left {
                if let Some(handle) = Handle::open(member) {
                    handle.signal(Signal::KILL).ok();
                }
            }
            match tree {
                Tree::Floor(mut child) => {
                    child.wait()?;
                }
                Tree::Job(job) => end(&self.store, &job)?,
            }
        }
        Ok(all_kept)
    }
}

/// Sends a signal to the process group that a child leads. The child is not reaped yet, so the number is still its own.
fn kill_group(child: &Child, signal: Signal) -> Result<(), String> {
    let group =
        i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).ok_or("no such group")?;
    let signal =
        if signal == Signal::KILL { rustix::process::Signal::KILL } else { rustix::process::Signal::TERM };
    rustix::process::kill_process_group(group, signal).map_err(|error| error.to_string())
}

fn succeed(command: &mut Command) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}").into()) }
}

/// Returns the processes that the program `zoo` registered in a file.
fn registered(file: &Path) -> Vec<ProcessId> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let parse = |line: &str| {
        let (pid, start_time) = line.split_once(' ')?;
        Some(ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
    };
    // The last line may be half written.
    text.split_inclusive('\n').filter_map(|line| parse(line.strip_suffix('\n')?)).collect()
}
