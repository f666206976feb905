//! The HTTP server: a list, the end of a long log, how soon an event is with a client against the library's own wait for it, many clients at
//! once, and what an idle server holds.
//!
//! All over the Unix socket of a real server, with a connection that stays open, as a page has one.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{EventScope, Job, Request, Store, Until, WaitFor, WaitReason};
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, end, finish, go_on, judge, sum_of_lines,
};
use outlive_sys::clock;
use serde_json::Value;

/// A list of 200 jobs, and the last lines of 1 GiB, may take so many milliseconds.
const ANSWER: f64 = 2.0;

/// An event may take so many times as long as the library's own wait for it.
const EVENT: f64 = 2.0;

/// An idle server may hold so many MiB.
const IDLE: f64 = 15.0;

/// Of the long log.
const LARGE: u64 = 1 << 30;

/// How long anything may take before the benchmark gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A waiter has so long to go to sleep before something happens.
const ASLEEP: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [live, rounds, streams, terminals]) =
        Options::parse([("live", 200), ("rounds", 100), ("streams", 100), ("terminals", 20)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    let mut all_kept = true;
    println!("http: {} keeper; {}", keeper.label, world.describe());
    let server = Server::start(&options.outlive, &store)?;
    let mut client = server.connect()?;
    client.get("/v1/jobs")?;
    std::thread::sleep(Duration::from_millis(500));
    let idle = server.resident()?;
    let word = judge(idle <= IDLE, &mut all_kept);
    println!("{:<44}{idle:>9.1} MiB            {word} (≤ {IDLE})", "an idle server");

    for _ in 0..live {
        go_on()?;
        store.start(&Request::argv(["sleep", "3600"]))?;
    }
    let log = format!("exec '{}' {LARGE} numbered", beside("lines")?.display());
    let large = store.start(&Request::argv(["sh", "-c", &log]).output_cap(None))?.job;
    finish(&store, &large)?;
    // What changed within the last second is looked at again.
    std::thread::sleep(Duration::from_millis(1500));
    let list = format!("/v1/jobs?limit={live}&status=running");
    let tail = format!("/v1/jobs/{}/output?tail=100", large.id());
    for (name, path) in
        [(format!("list of {live} live jobs"), &list), ("last 100 lines of 1 GiB".to_owned(), &tail)]
    {
        let mut samples = Samples::default();
        for round in 0..=rounds {
            go_on()?;
            let asked = Instant::now();
            let bytes = client.get(path)?;
            // The first has nothing in memory.
            if round > 0 {
                samples.add(asked.elapsed().as_secs_f64() * 1e3);
            }
            serde_json::from_slice::<Value>(&bytes)?;
        }
        let (best, median, late) = (samples.best(), samples.median(), samples.quantile(0.95));
        let word = judge(median <= ANSWER, &mut all_kept);
        println!("{name:<44}{best:>9.2}{median:>9.2}{late:>9.2} ms  {word} (p50 ≤ {ANSWER})");
    }

    let bench = Bench::new(&world, &store)?;
    let mut stream = server.connect()?;
    stream.open_events()?;
    let (mut library, mut events) = (Samples::default(), Samples::default());
    for _ in 0..rounds.min(60) {
        go_on()?;
        library.add(bench.wait_once(|job| {
            let (jobs, mut since) = (std::slice::from_ref(job), None);
            loop {
                let events = Some(EventScope { session: None, since });
                let wait =
                    WaitFor { events, until: Until::Any, limit: Some(PATIENCE), ..WaitFor::exits(jobs) };
                let waited = store.wait_for(&wait).map_err(|error| error.to_string())?;
                match waited.reason {
                    // Its start may be told while its end is waited for.
                    WaitReason::Event(_, told) if !told.event.is_end() => since = Some(told.seq),
                    _ => return Ok(()),
                }
            }
        })?);
        events.add(bench.wait_once(|job| stream.until_ended(job).map_err(|error| error.to_string()))?);
    }
    let ratio = events.median() / library.median();
    let word = judge(ratio <= EVENT, &mut all_kept);
    println!(
        "{:<44}{:>9.0}{:>9.0}{:>9.0} µs",
        "end → the library's wait",
        library.best(),
        library.median(),
        library.quantile(0.95)
    );
    println!(
        "{:<44}{:>9.0}{:>9.0}{:>9.0} µs  {word} ({ratio:.2} ×, ≤ {EVENT})",
        "end → event at a client",
        events.best(),
        events.median(),
        events.quantile(0.95)
    );
    drop(stream);
    many(&server, &store, &bench, streams, terminals, &mut all_kept)?;
    Ok(all_kept || !options.is_check)
}

/// Opens many streams and terminals at once, and looks how soon all have an event, and what the server holds.
fn many(
    server: &Server,
    store: &Store,
    bench: &Bench<'_>,
    streams: u64,
    terminals: u64,
    all_kept: &mut bool,
) -> Result<(), Failure> {
    let shell = store.start(&Request::argv(["sh", "-c", "while :; do date; sleep 1; done"]).pty(true))?.job;
    let mut watching = Vec::new();
    for _ in 0..terminals {
        let mut one = server.connect()?;
        one.open_terminal(&shell)?;
        watching.push(one);
    }
    let mut all = Vec::new();
    for _ in 0..streams {
        let mut one = server.connect()?;
        one.open_events()?;
        all.push(one);
    }
    let last = bench.wait_once(|job| {
        all.iter_mut().try_for_each(|one| one.until_ended(job)).map_err(|error| error.to_string())
    })?;
    let mut drawn = 0;
    for one in &mut watching {
        let mut byte = [0; 64];
        drawn += u64::from(one.0.read(&mut byte)? > 0);
    }
    let word = judge(drawn == terminals, all_kept);
    println!(
        "{:<44}{:>9.1} ms until the last has an event; {:.1} MiB  {word}",
        format!("{streams} streams of events and {drawn} terminals"),
        last / 1e3,
        server.resident()?
    );
    drop((all, watching));
    end(store, &shell)
}

/// A server of the benchmark's store.
struct Server {
    child: Child,
    socket: PathBuf,
}

impl Server {
    fn start(outlive: &Path, store: &Store) -> Result<Self, Failure> {
        let mut command = Command::new(outlive);
        command.args(["--json", "serve"]).env("OUTLIVE_HOME", store.root()).env_remove("OUTLIVE_CONFIG");
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut String::new())?;
        Ok(Self { child, socket: store.root().join("serve/socket") })
    }

    fn connect(&self) -> Result<Client, Failure> {
        let stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Returns its memory, in MiB.
    fn resident(&self) -> Result<f64, Failure> {
        Ok(sum_of_lines(&format!("/proc/{}/status", self.child.id()), &["VmRSS"])? as f64 / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A connection.
struct Client(BufReader<UnixStream>);

impl Client {
    fn send(&mut self, path: &str, lines: &str) -> Result<usize, Failure> {
        write!(self.0.get_mut(), "GET {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n")?;
        let (mut length, mut status) = (0, String::new());
        self.0.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        match status.split(' ').nth(1) {
            Some("200" | "101") => Ok(length),
            _ => Err(format!("{path}: {}", status.trim()).into()),
        }
    }

    fn get(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        let length = self.send(path, "")?;
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn open_events(&mut self) -> Result<(), Failure> {
        self.send("/v1/events", "").map(drop)
    }

    fn open_terminal(&mut self, job: &Job) -> Result<(), Failure> {
        let lines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        self.send(&format!("/v1/jobs/{}/terminal", job.id()), lines).map(drop)
    }

    /// Reads events until one tells of this job's end.
    fn until_ended(&mut self, job: &Job) -> Result<(), std::io::Error> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let is_end = line.contains("\"event\":\"exited\"");
            if line.starts_with("data:") && is_end && line.contains(job.id().as_str()) {
                return Ok(());
            }
        }
    }
}

/// Jobs that tell when they end.
struct Bench<'a> {
    store: &'a Store,
    ends: PathBuf,
    fifo: PathBuf,
    stamps: PathBuf,
    told: UnixDatagram,
}

impl<'a> Bench<'a> {
    fn new(world: &World, store: &'a Store) -> Result<Self, Failure> {
        let (fifo, stamps) = (world.path().join("fifo"), world.path().join("stamps"));
        if !Command::new("mkfifo").arg(&fifo).status()?.success() {
            return Err("mkfifo failed".into());
        }
        let told = UnixDatagram::bind(&stamps)?;
        told.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { store, ends: beside("ends")?, fifo, stamps, told })
    }

    /// Starts a job, waits for its end in this way, and returns how many microseconds later the answer was there.
    fn wait_once(&self, wait: impl FnOnce(&Job) -> Result<(), String> + Send) -> Result<f64, Failure> {
        let request = Request::argv([&self.ends, &self.fifo, &self.stamps].map(|path| path.as_os_str()));
        let job = self.store.start(&request)?.job;
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(&job).map(|()| clock::boot_us()));
            std::thread::sleep(ASLEEP);
            drop(OpenOptions::new().write(true).open(&self.fifo)?);
            let mut stamp = [0; 8];
            self.told.recv(&mut stamp)?;
            match waiting.join() {
                Ok(Ok(answered)) => Ok(answered.saturating_sub(u64::from_le_bytes(stamp)) as f64),
                Ok(Err(error)) => Err(Failure::from(error)),
                Err(_) => Err("a waiter panicked".into()),
            }
        });
        finish(self.store, &job)?;
        self.store.remove(&job)?;
        waited
    }
}
