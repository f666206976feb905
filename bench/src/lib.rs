//! What the benchmarks share: their options, a store that cleans up after itself, what the kernel says of a process, and
//! a few statistics.
//!
//! Each benchmark is a program of its own (`start`, `throughput`, `writers`, `idle`, `read`, `kill`, `list`, `cli`, `notify`, `terminal`, `mcp`, `http`, `soak`). A missed bound is printed, and becomes the exit
//! status only with `--check`: the machine may be shared, and a number is worth having in any case.

pub mod last_lines;
pub mod mcp_server;
pub mod recording;
pub mod window;

use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use outlive::{Config, Job, Kill, Store, Until};
use outlive_sys::identity::{Handle, ProcessId};
use outlive_sys::{durable, poll, signal};
use tempfile::TempDir;

/// A failure, as a text for people.
pub type Failure = Box<dyn Error>;

/// How long a job or keeper may take to end before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// The exit status when nothing was measured: wrong options, a wrong build, or a failure on the way.
const UNMEASURED: u8 = 2;

/// The name of the configuration file in a store.
const CONFIG: &str = "config.toml";

/// Limits that no benchmark reaches, and none is off: the cost of keeping them is part of a start.
const LIMITS: &str = "[limits]\nsession = 10000\ntotal = 10000\nbytes = \"4096G\"\n";

/// A program that is a keeper.
#[derive(Debug, Clone)]
pub struct Keeper {
    /// `static`, `dynamic`, or `lone` for `outlive` itself.
    pub label: &'static str,
    /// The program.
    pub path: PathBuf,
}

impl Keeper {
    /// Tells whether this is the build that the bounds on time are about.
    pub fn is_static(&self) -> bool {
        self.label == "static"
    }
}

/// What a benchmark was asked to do.
#[derive(Debug)]
pub struct Options {
    /// The keepers to measure.
    pub keepers: Vec<Keeper>,
    /// The `outlive` program.
    pub outlive: PathBuf,
    /// A missed bound is a failure.
    pub is_check: bool,
    /// Where Desktop Commander is installed, to measure it beside the MCP server.
    pub desktop_commander: Option<PathBuf>,
    /// The program `tsp`, where it is not the one that is found by its name.
    pub tsp: Option<PathBuf>,
    /// The program `pueue`, likewise; `pueued` is beside it.
    pub pueue: Option<PathBuf>,
    directory: Option<PathBuf>,
}

impl Options {
    /// Reads the program's arguments. `numbers` are the options with a number that this program has, with their
    /// defaults; the values come back in the same order.
    ///
    /// # Errors
    ///
    /// If an option is unknown or meaningless.
    pub fn parse<const N: usize>(numbers: [(&str, u64); N]) -> Result<(Self, [u64; N]), Failure> {
        let mut values = numbers.map(|(_, default)| default);
        let (mut is_check, mut directory, mut fixed, mut desktop_commander) = (false, None, None, None);
        let (mut tsp, mut pueue) = (None, None);
        let (mut dynamic, mut outlive) = (beside("outlive-keeper")?, beside("outlive")?);
        let mut arguments = std::env::args_os().skip(1);
        while let Some(argument) = arguments.next() {
            let option = argument.to_string_lossy().into_owned();
            let mut value = || arguments.next().ok_or_else(|| format!("{option} needs a value"));
            match option.as_str() {
                "--check" => is_check = true,
                "--dir" => directory = Some(PathBuf::from(value()?)),
                "--keeper" => dynamic = PathBuf::from(value()?),
                "--static-keeper" => fixed = Some(PathBuf::from(value()?)),
                "--desktop-commander" => desktop_commander = Some(PathBuf::from(value()?)),
                "--tsp" => tsp = Some(std::path::absolute(value()?)?),
                "--pueue" => pueue = Some(std::path::absolute(value()?)?),
                "--outlive" => outlive = PathBuf::from(value()?),
                other => {
                    let place = numbers.iter().position(|(name, _)| other.strip_prefix("--") == Some(name));
                    let place = place.ok_or_else(|| unknown(other, &numbers))?;
                    values[place] = number(&option, &value()?)?;
                }
            }
        }
        if is_check && fixed.is_none() {
            return Err("--check needs --static-keeper: the bounds are about that one".into());
        }
        let keepers = fixed
            .map(|path| ("static", path))
            .into_iter()
            .chain([("dynamic", dynamic)])
            .map(|(label, path)| Ok(Keeper { label, path: std::path::absolute(path)? }))
            .collect::<Result<_, Failure>>()?;
        let outlive = std::path::absolute(outlive)?;
        Ok((Self { keepers, outlive, is_check, desktop_commander, tsp, pueue, directory }, values))
    }
}

fn unknown(option: &str, numbers: &[(&str, u64)]) -> String {
    let own: String = numbers.iter().map(|(name, default)| format!(" [--{name} N ({default})]")).collect();
    format!(
        "no option {option}; there are [--check] [--dir DIR] [--keeper FILE] [--static-keeper FILE] [--outlive FILE]{own}"
    )
}

fn number(option: &str, text: &OsString) -> Result<u64, String> {
    let parsed = text.to_str().and_then(|text| text.parse().ok()).filter(|&number| number > 0);
    parsed.ok_or_else(|| format!("{option} needs a number above 0"))
}

/// Returns the path of a program that was built together with this one.
///
/// # Errors
///
/// If the path of this program is not known.
pub fn beside(program: &str) -> Result<PathBuf, Failure> {
    Ok(std::env::current_exe()?.with_file_name(program))
}

/// Runs a benchmark: refuses a debug build, reports failures, and returns an exit status that says whether
/// all bounds were kept.
pub fn conclude(benchmark: fn() -> Result<bool, Failure>) -> ExitCode {
    if cfg!(debug_assertions) {
        note("this is a debug build, and its numbers mean nothing; use bench/run, or cargo build --release");
        return ExitCode::from(UNMEASURED);
    }
    // Ctrl-C must not leave jobs behind: it ends the benchmark by an error, and the `World` is dropped.
    signal::catch_interrupt();
    match benchmark() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            note(&chain(failure.as_ref()));
            ExitCode::from(UNMEASURED)
        }
    }
}

fn chain(failure: &dyn Error) -> String {
    let causes = std::iter::successors(Some(failure), |&failure| failure.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[expect(clippy::print_stderr, reason = "a benchmark talks to the person who started it")]
fn note(text: &str) {
    eprintln!("bench: {text}");
}

/// Ends the benchmark if Ctrl-C was pressed.
///
/// # Errors
///
/// If Ctrl-C was pressed.
pub fn go_on() -> Result<(), Failure> {
    if signal::interrupted() { Err("interrupted".into()) } else { Ok(()) }
}

/// A directory of its own with a store in it. Dropping it ends every job of the store and removes everything.
#[derive(Debug)]
pub struct World {
    store: Store,
    directory: TempDir,
}

impl World {
    /// Makes one in the directory that was asked for, else in the build's `target`, which is on a disk.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub fn new(options: &Options) -> Result<Self, Failure> {
        let parent = match &options.directory {
            Some(directory) => fs::canonicalize(directory)?,
            None => beside("..")?.canonicalize()?,
        };
        let directory = tempfile::Builder::new().prefix("bench-").tempdir_in(parent)?;
        let store = Store::open_at(&directory.path().join("store"), Config::default())?;
        // In the store, so that the command line is bound by the same limits as the library.
        fs::write(store.root().join(CONFIG), LIMITS)?;
        Ok(Self { store, directory })
    }

    /// Returns the directory, for other files of the benchmark.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Opens its store with this keeper.
    ///
    /// # Errors
    ///
    /// If the store cannot be opened.
    pub fn store(&self, keeper: &Keeper) -> Result<Store, Failure> {
        if !keeper.path.is_file() {
            return Err(format!("there is no {} keeper at {}", keeper.label, keeper.path.display()).into());
        }
        let config = Config::load(&self.store.root().join(CONFIG))?;
        Ok(Store::open_at(self.store.root(), config)?.with_keeper(&keeper.path))
    }

    /// Measures what a new file costs here, in microseconds; the median of a few.
    ///
    /// A start makes about ten. ext4 without a journal does not give out the number of a file that was deleted in the last
    /// minutes, and passes over all of those for each new file: where much was deleted a moment ago, a file takes not
    /// 20 µs but up to 1 ms, and that says more about the time of a start than anything else.
    ///
    /// # Errors
    ///
    /// If no file can be made.
    pub fn file_micros(&self) -> Result<f64, Failure> {
        let directory = self.path().join("files");
        fs::create_dir(&directory)?;
        let mut samples = Samples::default();
        for number in 0..21 {
            let path = directory.join(number.to_string());
            let asked = Instant::now();
            fs::File::create_new(path)?;
            samples.add(asked.elapsed().as_secs_f64() * 1e6);
        }
        Ok(samples.median())
    }

    /// Prints where and under what load the numbers were taken.
    pub fn describe(&self) -> String {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        format!(
            "{} processors, Linux {}, load {}; {} at {}",
            std::thread::available_parallelism().map_or(0, usize::from),
            kernel.trim(),
            load.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" "),
            durable::file_system(self.path()).unwrap_or("unknown file system"),
            self.path().parent().unwrap_or(self.path()).display(),
        )
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The directory goes next, so only what still runs needs to be ended.
        for job in self.store.list(None).map(|listing| listing.jobs).unwrap_or_default() {
            if job.state(&self.store).is_live() {
                end(&self.store, &job).ok();
            }
        }
    }
}

/// Ends a job at once, waits until its keeper is gone, and removes it.
///
/// # Errors
///
/// If it cannot be ended or removed.
pub fn end(store: &Store, job: &Job) -> Result<(), Failure> {
    store.kill(job, &Kill { force: true, by: "bench".to_owned(), ..Kill::default() })?;
    finish(store, job)?;
    Ok(store.remove(job)?)
}

/// Waits until a job has ended and its keeper, which syncs the log last of all, is gone.
///
/// # Errors
///
/// If it does not end.
pub fn finish(store: &Store, job: &Job) -> Result<(), Failure> {
    let waited = store.wait(std::slice::from_ref(job), Until::All, Some(PATIENCE));
    if !waited.is_reached {
        return Err(format!("{} does not end", job.id()).into());
    }
    keeper_of(store, job).map_or(Ok(()), gone)
}

/// Returns the process that keeps a job.
pub fn keeper_of(store: &Store, job: &Job) -> Option<ProcessId> {
    let keeper = job.state(store).meta?.keeper?;
    Some(ProcessId { pid: keeper.pid, start_time: keeper.start_time })
}

/// Returns the guard of a job's keeper.
pub fn guard_of(store: &Store, job: &Job) -> Option<ProcessId> {
    let guard = job.state(store).meta?.guard?;
    Some(ProcessId { pid: guard.pid, start_time: guard.start_time })
}

/// Waits until a process has ended, whether it was reaped or not.
///
/// # Errors
///
/// If it does not end, or Ctrl-C is pressed.
pub fn gone(process: ProcessId) -> Result<(), Failure> {
    let Some(handle) = Handle::open(process) else { return Ok(()) };
    let is_over = poll::readable(handle.as_fd(), Some(PATIENCE))?;
    go_on()?;
    if is_over { Ok(()) } else { Err(format!("process {} does not end", process.pid).into()) }
}

/// Returns the processor time that the first thread of a sleeping or ended process has used, in seconds. Exact to the
/// nanosecond, where `stat` counts ticks of 10 ms.
///
/// # Errors
///
/// If there is no such process, or the kernel does not keep the figure.
pub fn processor_seconds(pid: i32) -> Result<f64, Failure> {
    let path = format!("/proc/{pid}/schedstat");
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let nanos: u64 = text.split_ascii_whitespace().next().unwrap_or_default().parse()?;
    Ok(nanos as f64 / 1e9)
}

/// Waits until a child has ended and returns the seconds of processor time that it has used: the kernel knows as long as
/// it was not reaped.
///
/// # Errors
///
/// If it does not end, or Ctrl-C is pressed.
pub fn used_by(child: &Child) -> Result<f64, Failure> {
    let pid = i32::try_from(child.id())?;
    gone(ProcessId::of(pid).ok_or("a child was reaped by somebody else")?)?;
    processor_seconds(pid)
}

/// Syncs the disk, so that no run pays for the one before.
///
/// # Errors
///
/// If `sync` fails.
pub fn settle(path: &Path) -> Result<(), Failure> {
    let synced = Command::new("sync").arg("--file-system").arg(path).status()?;
    if synced.success() { Ok(()) } else { Err("sync failed".into()) }
}

/// Ends the benchmark if output was lost.
///
/// # Errors
///
/// If not as many bytes arrived as were written.
pub fn expect_bytes(found: u64, expected: u64) -> Result<(), Failure> {
    if found == expected { Ok(()) } else { Err(format!("{found} bytes arrived of {expected}").into()) }
}

/// Returns the sum of the numbers in those lines of a file below `/proc` whose first word is one of `names`.
///
/// # Errors
///
/// If the file cannot be read or has no such line.
pub fn sum_of_lines(path: &str, names: &[&str]) -> Result<u64, Failure> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let numbers = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        names.contains(&name).then(|| rest.split_ascii_whitespace().next()?.parse::<u64>().ok())?
    });
    let numbers: Vec<u64> = numbers.collect();
    if numbers.len() == names.len() {
        Ok(numbers.iter().sum())
    } else {
        Err(format!("{path} has no {}", names.join(" or ")).into())
    }
}

/// Returns how often these processes have given up or lost the processor so far.
///
/// # Errors
///
/// If one of them is gone.
pub fn switches(pids: &[i32]) -> Result<u64, Failure> {
    let names = ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"];
    pids.iter().map(|pid| sum_of_lines(&format!("/proc/{pid}/status"), &names)).sum()
}

/// Sleeps for this long, unless Ctrl-C is pressed.
///
/// # Errors
///
/// If Ctrl-C was pressed.
pub fn rest(time: Duration) -> Result<(), Failure> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        go_on()?;
        std::thread::sleep(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
    }
    Ok(())
}

/// Tells whether a program of this name can be run.
pub fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| path.join(program).is_file())
}

/// Measurements of one thing, in order.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn add(&mut self, sample: f64) {
        let place = self.0.partition_point(|&other| other < sample);
        self.0.insert(place, sample);
    }

    /// Adds all samples of another set.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.0.sort_by(f64::total_cmp);
    }

    /// Returns the smallest.
    pub fn best(&self) -> f64 {
        self.quantile(0.0)
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }

    /// Returns the sample below which this part of all samples lies; NaN if there are none.
    pub fn quantile(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let place = (last as f64 * part).round() as usize;
        self.0.get(place).copied().unwrap_or(f64::NAN)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        Self(samples)
    }
}

/// Records the verdict on one bound, and returns the word for it.
pub fn judge(is_kept: bool, all_kept: &mut bool) -> &'static str {
    *all_kept &= is_kept;
    if is_kept { "PASS" } else { "MISS" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_whatever_the_order() {
        let mut samples = Samples::default();
        for sample in [5.0, 1.0, 4.0, 2.0, 3.0] {
            samples.add(sample);
        }
        assert_eq!((samples.best(), samples.median(), samples.quantile(1.0)), (1.0, 3.0, 5.0));
        assert!(Samples::default().median().is_nan());
    }

    #[test]
    fn own_figures_can_be_read() {
        let path = "/proc/self/status";
        assert!(sum_of_lines(path, &["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"]).is_ok());
        assert!(sum_of_lines(path, &["no_such_line"]).is_err());
        assert!(processor_seconds(i32::try_from(std::process::id()).unwrap()).is_ok());
    }

    #[test]
    fn one_missed_bound_is_remembered() {
        let mut all_kept = true;
        assert_eq!(judge(false, &mut all_kept), "MISS");
        assert_eq!(judge(true, &mut all_kept), "PASS");
        assert!(!all_kept);
    }
}
