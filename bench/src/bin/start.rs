//! From the request to the command's first instruction, against `std::process::Command`.
//!
//! In every round each way starts the same command once, in a rotating order, so that whatever else the machine does hits
//! all alike; the rounds are repeated as a whole, and a bound is judged on the best repetition. Between two starts
//! everything of the first is over: the command, its keeper, the keeper's sync. Its files stay until the very end, as a
//! user's do (see [`World::file_micros`] for what deleting would do to the next start).

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use outlive::{Request, Store};
use outlive_bench::{Failure, Keeper, Options, Samples, World, beside, conclude, finish, go_on, judge};
use outlive_sys::clock;

/// At most so many times what `std::process::Command` takes, with the static keeper, for a line of the shell's. That is the
/// command that the bound was found with. A program alone is over sooner, and what a job costs is the same: its rows
/// are printed without a verdict.
const LIBRARY_BOUND: f64 = 1.8;

/// The same in a program that has a spare keeper ready.
const SPARE_BOUND: f64 = 1.3;

/// The same through the command line, which is a program to be started first.
const CLI_BOUND: f64 = 1.8;

/// How long a command may take to its first instruction before the benchmark gives up.
const STAMP_LIMIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    conclude(run)
}

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A line for `sh`.
    Shell,
    /// The program itself.
    Argv,
}

/// How it is started.
enum Way {
    Floor,
    Library(Box<Store>),
    Cli(PathBuf),
}

/// One row of the table.
struct Row {
    shape: Shape,
    way: Way,
    /// The name of the way and of the keeper in the table.
    labels: [&'static str; 2],
    /// None where there is no bound.
    bound: Option<f64>,
    /// In microseconds, one set per repetition.
    repeats: Vec<Samples>,
}

fn run() -> Result<bool, Failure> {
    let (options, [rounds, repeats]) = Options::parse([("rounds", 200), ("repeats", 5)])?;
    let world = World::new(&options)?;
    let starter = Starter::new(&options, &world)?;
    let mut rows = Vec::new();
    for shape in [Shape::Shell, Shape::Argv] {
        rows.push(Row { shape, way: Way::Floor, labels: ["Command", ""], bound: None, repeats: Vec::new() });
        for keeper in &options.keepers {
            rows.extend(rows_of(shape, keeper, &world)?);
        }
    }
    println!(
        "start: request to first instruction, {repeats} times {rounds} rounds; {}, where a new file takes {:.0} µs",
        world.describe(),
        world.file_micros()?
    );
    let mut tag = 0;
    // The first round finds nothing in any cache and does not count.
    for repeat in 0..=repeats {
        rows.iter_mut().for_each(|row| row.repeats.push(Samples::default()));
        for round in 0..if repeat == 0 { 1 } else { rounds } {
            for place in 0..rows.len() {
                go_on()?;
                tag += 1;
                let place = (place + round as usize) % rows.len();
                let micros = starter.start(&rows[place].way, rows[place].shape, tag)?;
                if let Some(samples) = rows[place].repeats.last_mut() {
                    samples.add(micros);
                }
            }
        }
        if repeat == 0 {
            rows.iter_mut().for_each(|row| row.repeats.clear());
        }
    }
    let all_kept = print(&rows);
    Ok(all_kept || !options.is_check)
}

fn rows_of(shape: Shape, keeper: &Keeper, world: &World) -> Result<[Row; 3], Failure> {
    let row = |way, name, bound| Row {
        shape,
        way,
        labels: [name, keeper.label],
        bound: (keeper.is_static() && shape == Shape::Shell).then_some(bound),
        repeats: Vec::new(),
    };
    Ok([
        row(Way::Library(Box::new(world.store(keeper)?)), "library", LIBRARY_BOUND),
        row(Way::Library(Box::new(world.store(keeper)?.with_spare_keepers())), "with a spare", SPARE_BOUND),
        row(Way::Cli(keeper.path.clone()), "outlive run", CLI_BOUND),
    ])
}

/// What every start needs.
struct Starter<'a> {
    stamp: PathBuf,
    outlive: &'a Path,
    store: Store,
    /// Apart from the store, whose path may be too long for a socket's address.
    _directory: tempfile::TempDir,
    socket: PathBuf,
    stamps: UnixDatagram,
}

impl<'a> Starter<'a> {
    fn new(options: &'a Options, world: &World) -> Result<Self, Failure> {
        let keeper = options.keepers.last().ok_or("there is no keeper")?;
        let directory = tempfile::Builder::new().prefix("outlive-bench-").tempdir()?;
        let socket = directory.path().join("stamps");
        let stamps = UnixDatagram::bind(&socket)?;
        stamps.set_read_timeout(Some(STAMP_LIMIT))?;
        Ok(Self {
            stamp: beside("stamp")?,
            outlive: &options.outlive,
            store: world.store(keeper)?,
            _directory: directory,
            socket,
            stamps,
        })
    }

    /// Starts the command in one way, waits until it and its keeper are gone, and returns the microseconds.
    fn start(&self, way: &Way, shape: Shape, tag: u64) -> Result<f64, Failure> {
        let argv = [self.stamp.as_os_str(), self.socket.as_os_str(), tag.to_string().as_ref()]
            .map(|argument| argument.to_owned());
        let words: Vec<String> = argv.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        let line = format!("exec {}", words.join(" "));
        match way {
            Way::Floor => {
                let mut command = match shape {
                    Shape::Shell => Command::new("sh"),
                    Shape::Argv => Command::new(&self.stamp),
                };
                match shape {
                    Shape::Shell => command.arg("-c").arg(line),
                    Shape::Argv => command.args(&argv[1..]),
                };
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let asked = clock::boot_us();
                let mut child = command.spawn()?;
                let micros = self.stamped(asked, tag);
                child.wait()?;
                micros
            }
            Way::Library(store) => {
                let request = match shape {
                    Shape::Shell => Request::shell(line).with_shell("sh"),
                    Shape::Argv => Request::argv(argv),
                };
                let asked = clock::boot_us();
                let started = store.start(&request)?;
                let micros = self.stamped(asked, tag);
                finish(store, &started.job)?;
                micros
            }
            Way::Cli(keeper) => {
                let mut command = Command::new(self.outlive);
                command.arg("run");
                match shape {
                    Shape::Shell => command.args(["--shell", "sh"]).arg(line),
                    Shape::Argv => command.arg("--").args(argv),
                };
                command.env("OUTLIVE_HOME", self.store.root()).env("OUTLIVE_KEEPER", keeper);
                command.env_remove("OUTLIVE_CONFIG").env_remove("OUTLIVE_SESSION");
                command.stdin(Stdio::null());
                let asked = clock::boot_us();
                let output = command.output()?;
                if !output.status.success() {
                    return Err(String::from_utf8_lossy(&output.stderr).trim().into());
                }
                let micros = self.stamped(asked, tag);
                let job = String::from_utf8(output.stdout)?;
                finish(&self.store, &self.store.find(job.trim(), None)?)?;
                micros
            }
        }
    }

    /// Waits for the stamp with this tag.
    fn stamped(&self, asked: u64, tag: u64) -> Result<f64, Failure> {
        let mut message = [0; 64];
        let count =
            self.stamps.recv(&mut message).map_err(|error| format!("no stamp from the command: {error}"))?;
        let message = std::str::from_utf8(&message[..count])?;
        match message.split_once(' ') {
            Some((number, time)) if number == tag.to_string() => {
                Ok(time.parse::<u64>()?.saturating_sub(asked) as f64)
            }
            _ => Err(format!("a stamp that was not asked for: {message}").into()),
        }
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Prints the table; tells whether all bounds were kept.
fn print(rows: &[Row]) -> bool {
    println!(
        "{:<7}{:<13}{:<9}{:>8}{:>8}{:>8}   {:>14}  {:>14}",
        "", "through", "keeper", "best µs", "p50", "p95", "best ÷ floor", "p50 ÷ floor"
    );
    println!("{:53}   {:>14}  {:>14}", "", "best / median", "best / median");
    let mut all_kept = true;
    let mut floor: &[Samples] = &[];
    for row in rows {
        let mut all = Samples::default();
        row.repeats.iter().for_each(|samples| all.extend(samples));
        let shape = if row.shape == Shape::Shell { "sh -c" } else { "argv" };
        let [through, keeper] = row.labels;
        let (best, median, late) = (all.best(), all.median(), all.quantile(0.95));
        let figures = format!("{shape:<7}{through:<13}{keeper:<9}{best:>8.0}{median:>8.0}{late:>8.0}");
        if matches!(row.way, Way::Floor) {
            floor = &row.repeats;
            println!("{figures}");
            continue;
        }
        let ratios = |of: fn(&Samples) -> f64| -> Samples {
            row.repeats.iter().zip(floor).map(|(ours, theirs)| of(ours) / of(theirs)).collect()
        };
        let [bests, medians] = [ratios(Samples::best), ratios(Samples::median)];
        let verdict = row.bound.map_or(String::new(), |bound| {
            let is_kept = bests.best() <= bound && medians.best() <= bound;
            format!("  {} (≤ {bound})", judge(is_kept, &mut all_kept))
        });
        println!(
            "{figures}   {:>6.2} / {:<5.2}  {:>6.2} / {:<5.2}{verdict}",
            bests.best(),
            bests.median(),
            medians.best(),
            medians.median()
        );
    }
    all_kept
}
