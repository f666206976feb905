//! Time from the end of a command to the answer of a waiter, against `waitpid` by the command's own parent.
//!
//! The command takes the time as its last action. In every round it is started and waited for in each way, in a
//! rotating order, so that other load of the machine hits all alike. The kernel tells the parent first; outlive's answer comes
//! from another process. The same again while `dd` keeps the store's disk busy: an answer does not wait for the disk.
//!
//! Then: a thousand programs that wait for one job, and what a waiter costs while nothing happens.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Job, Request, Store, Until};
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, end, finish, go_on, is_installed, judge,
    processor_seconds,
};
use outlive_sys::clock;
use outlive_tests::waits_with_open;

/// An answer may take this many times as long as that of the command's own parent.
const BOUND: f64 = 3.0;

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a thread has to go to sleep before the command is told to end: the kernel does not report that it sleeps.
const ASLEEP: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    conclude(run)
}

/// The waiter, and its way to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The command's own parent.
    Waitpid,
    /// A program that has the library.
    Library,
    /// The same, with a deadline: a thread waits for it.
    Deadline,
    /// `outlive wait`.
    Cli,
    /// No wait: `sync` of the outcome's size on the same disk, which an answer that is synced first would cost on top.
    Fsync,
    /// Task spooler's `tsp -w`.
    Tsp,
}

struct Bench<'a> {
    outlive: &'a Path,
    world: &'a World,
    store: Store,
    ends: PathBuf,
    fifo: PathBuf,
    stamps: PathBuf,
    told: UnixDatagram,
}

fn run() -> Result<bool, Failure> {
    let (options, [rounds, waiters]) = Options::parse([("rounds", 60), ("waiters", 1000)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let stamps = world.path().join("stamps");
    let told = UnixDatagram::bind(&stamps)?;
    told.set_read_timeout(Some(PATIENCE))?;
    let fifo = world.path().join("fifo");
    if !Command::new("mkfifo").arg(&fifo).status()?.success() {
        return Err("mkfifo failed".into());
    }
    let store = world.store(keeper)?;
    let bench =
        Bench { outlive: &options.outlive, world: &world, store, ends: beside("ends")?, fifo, stamps, told };
    println!(
        "notify: end of the command to the answer, {rounds} rounds; {} keeper; {}",
        keeper.label,
        world.describe()
    );
    let mut ways = vec![Way::Waitpid, Way::Fsync, Way::Library, Way::Deadline, Way::Cli];
    for (program, way) in [("tsp", Some(Way::Tsp)), ("pueue", None), ("conmon", None)] {
        match (is_installed(program), way) {
            (true, Some(way)) => ways.push(way),
            (true, None) => println!("notify: {program} is not measured here"),
            (false, _) => println!("notify: {program} is not installed"),
        }
    }
    let mut all_kept = true;
    let quiet = bench.samples(&ways, rounds as usize, None)?;
    print("waitpid", &ways, &quiet, &mut all_kept);
    let mut busy = BusyDisk::at(world.path().join("busy"))?;
    let beside_dd = bench.samples(&ways, rounds as usize, Some(&mut busy))?;
    drop(busy);
    print("beside dd", &ways, &beside_dd, &mut all_kept);
    bench.crowd(waiters as usize, &mut all_kept)?;
    bench.rest(&mut all_kept)?;
    Ok(all_kept || !options.is_check)
}

/// Prints a table; the first way is the floor of all others.
fn print(title: &str, ways: &[Way], all: &[Samples], all_kept: &mut bool) {
    let floor = all[0].median();
    println!("{:<26}{:>9}{:>9}{:>9}{:>16}", title, "best µs", "p50", "p95", "p50 ÷ waitpid");
    for (way, samples) in ways.iter().zip(all) {
        let name = match way {
            Way::Waitpid => "waitpid",
            Way::Library => "library",
            Way::Deadline => "library, with a deadline",
            Way::Cli => "outlive wait",
            Way::Fsync => "(write and fdatasync)",
            Way::Tsp => "tsp -w",
        };
        let (best, median, late) = (samples.best(), samples.median(), samples.quantile(0.95));
        let ratio = median / floor;
        let verdict = match way {
            Way::Library => format!("  at most {BOUND}: {}", judge(ratio <= BOUND, all_kept)),
            _ => String::new(),
        };
        println!("{name:<26}{best:>9.0}{median:>9.0}{late:>9.0}{ratio:>16.2}{verdict}");
    }
}

/// A `dd` that writes to a file and syncs each block, for as long as this lives.
struct BusyDisk {
    file: PathBuf,
    dd: Child,
}

impl BusyDisk {
    fn at(file: PathBuf) -> Result<Self, Failure> {
        let dd = Self::write(&file)?;
        Ok(Self { file, dd })
    }

    /// Writes for seconds, over what was written before, so that the disk is never full.
    fn write(file: &Path) -> Result<Child, Failure> {
        let mut dd = Command::new("dd");
        dd.arg("if=/dev/zero").arg(format!("of={}", file.display()));
        dd.args(["bs=1M", "count=1024", "oflag=dsync", "conv=notrunc", "status=none"]);
        Ok(dd.spawn()?)
    }

    /// Goes on where it has come to the end of the file.
    fn go_on(&mut self) -> Result<(), Failure> {
        if self.dd.try_wait()?.is_some() {
            self.dd = Self::write(&self.file)?;
        }
        Ok(())
    }
}

impl Drop for BusyDisk {
    fn drop(&mut self) {
        self.dd.kill().ok();
        self.dd.wait().ok();
        fs::remove_file(&self.file).ok();
    }
}

impl Bench<'_> {
    /// Measures each way in each round; the first round finds nothing in any cache and does not count.
    fn samples(
        &self,
        ways: &[Way],
        rounds: usize,
        mut busy: Option<&mut BusyDisk>,
    ) -> Result<Vec<Samples>, Failure> {
        let mut all = vec![Samples::default(); ways.len()];
        for round in 0..=rounds {
            for place in 0..ways.len() {
                go_on()?;
                busy.as_mut().map_or(Ok(()), |busy| busy.go_on())?;
                let place = (place + round) % ways.len();
                let micros = self.wait_once(ways[place])?;
                if round > 0 {
                    all[place].add(micros);
                }
            }
        }
        Ok(all)
    }

    /// Tells the command to end; returns the time that it reports.
    fn tell(&self) -> Result<u64, Failure> {
        drop(OpenOptions::new().write(true).open(&self.fifo)?);
        let mut stamp = [0; 8];
        self.told.recv(&mut stamp)?;
        Ok(u64::from_le_bytes(stamp))
    }

    fn start(&self) -> Result<Job, Failure> {
        let request = Request::argv([&self.ends, &self.fifo, &self.stamps].map(|path| path.as_os_str()));
        Ok(self.store.start(&request)?.job)
    }

    /// Starts the command, waits for it in this way, and returns how long the answer took, in microseconds.
    fn wait_once(&self, way: Way) -> Result<f64, Failure> {
        let taken = match way {
            Way::Waitpid => {
                let mut child = Command::new(&self.ends).args([&self.fifo, &self.stamps]).spawn()?;
                self.measure(move || Ok(child.wait()?.code() == Some(7)))?
            }
            Way::Library | Way::Deadline => {
                let job = self.start()?;
                let limit = (way == Way::Deadline).then_some(PATIENCE);
                let (store, waited) = (&self.store, &job);
                let taken = self.measure(move || {
                    Ok(store.wait(std::slice::from_ref(waited), Until::All, limit).is_reached)
                })?;
                finish(&self.store, &job)?;
                self.store.remove(&job)?;
                taken
            }
            Way::Cli => {
                let job = self.start()?;
                let mut child = self.waiter(&[job.id().as_str()])?;
                let mut answer = child.stdout.take().ok_or("no output")?;
                let taken = self.measure(move || Ok(answer.read(&mut [0; 512])? > 0))?;
                child.wait()?;
                finish(&self.store, &job)?;
                self.store.remove(&job)?;
                taken
            }
            Way::Fsync => {
                let path = self.world.path().join("synced");
                let file = File::create(&path)?;
                file.set_len(4096)?;
                file.sync_all()?;
                let asked = Instant::now();
                std::os::unix::fs::FileExt::write_all_at(&file, &[7; 256], 0)?;
                file.sync_data()?;
                let taken = asked.elapsed().as_secs_f64() * 1e6;
                fs::remove_file(path)?;
                taken
            }
            Way::Tsp => {
                let tsp = |arguments: &[&str]| {
                    let mut command = Command::new("tsp");
                    command.env("TS_SOCKET", self.world.path().join("tsp")).args(arguments);
                    command
                };
                let place =
                    [&self.ends, &self.fifo, &self.stamps].map(|path| path.to_string_lossy().into_owned());
                let queued = tsp(&["-n"]).args(&place).stdout(Stdio::null()).status()?;
                if !queued.success() {
                    return Err("tsp failed".into());
                }
                let mut child = tsp(&["-w"]).stdout(Stdio::null()).spawn()?;
                let taken = self.measure(move || Ok(child.wait().is_ok()))?;
                tsp(&["-K"]).status()?;
                taken
            }
        };
        Ok(taken)
    }

    /// Waits in a thread, tells the command to end, and returns how much later the answer was there.
    fn measure(&self, wait: impl FnOnce() -> Result<bool, std::io::Error> + Send) -> Result<f64, Failure> {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait().map(|is_told| (is_told, clock::boot_us())));
            std::thread::sleep(ASLEEP);
            let ended = self.tell()?;
            match waiting.join() {
                Ok(Ok((true, answered))) => Ok(answered.saturating_sub(ended) as f64),
                Ok(Ok((false, _))) => Err("somebody was told something else".into()),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err("a waiter panicked".into()),
            }
        })
    }

    /// Starts `outlive wait` and returns when it waits.
    fn waiter(&self, arguments: &[&str]) -> Result<Child, Failure> {
        let mut command = Command::new(self.outlive);
        command.env("OUTLIVE_HOME", self.store.root()).arg("wait").args(arguments);
        let child = command.stdout(Stdio::piped()).spawn()?;
        let awaited = if arguments.len() == 1 { "pidfd" } else { "inotify" };
        let pid = i32::try_from(child.id())?;
        let since = Instant::now();
        while !waits_with_open(pid, awaited) {
            go_on()?;
            if since.elapsed() > PATIENCE {
                return Err("a waiter does not begin to wait".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(child)
    }

    /// Lets many programs wait for one job.
    fn crowd(&self, count: usize, all_kept: &mut bool) -> Result<(), Failure> {
        let job = self.start()?;
        let mut waiting =
            (0..count).map(|_| self.waiter(&[job.id().as_str()])).collect::<Result<Vec<_>, _>>()?;
        let allowed = fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").unwrap_or_default();
        let ended = self.tell()?;
        let mut answered = 0;
        for waiting in &mut waiting {
            let mut text = String::new();
            waiting.stdout.take().ok_or("no output")?.read_to_string(&mut text)?;
            // The job was not successful, and the waiter says so.
            answered += usize::from(waiting.wait()?.code() == Some(7) && text.contains("exited with 7"));
        }
        let millis = (clock::boot_us() - ended) as f64 / 1e3;
        println!(
            "{answered} of {count} programs that waited for one job were told, the last after {millis:.0} ms; inotify instances allowed: {}, used: 0: {}",
            allowed.trim(),
            judge(answered == count, all_kept)
        );
        finish(&self.store, &job)?;
        Ok(self.store.remove(&job)?)
    }

    /// Measures what waiters cost while nothing happens.
    fn rest(&self, all_kept: &mut bool) -> Result<(), Failure> {
        let job = self.start()?;
        let id = job.id().as_str();
        for arguments in [&[id][..], &[id, "--match", "never"], &[id, "--idle", "1h"], &[id, "--event"]] {
            let mut child = self.waiter(arguments)?;
            let pid = i32::try_from(child.id())?;
            std::thread::sleep(Duration::from_millis(200));
            let before = processor_seconds(pid)?;
            std::thread::sleep(Duration::from_secs(2));
            let used = (processor_seconds(pid)? - before) * 1e6;
            child.kill()?;
            child.wait()?;
            let what = arguments[1..].join(" ");
            println!(
                "outlive wait {what:<14} uses {used:.0} µs of processor time in 2 s: {}",
                judge(used == 0.0, all_kept)
            );
        }
        end(&self.store, &job)
    }
}
