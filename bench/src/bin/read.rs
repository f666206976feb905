//! Reading what jobs printed: places of a large log against the same places of a small one, searching against `grep`,
//! following against a pipe, and what followers cost the keeper.
//!
//! Every log is made by a real job. All is in the page cache, for both sides of a comparison, and both take turns, so that
//! whatever else the machine does hits both.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outlive::{
    Followed, Follower, Form, Job, Output, Piece, Request, SessionName, Signal, Store, Timestamp, View,
    ViewItem,
};
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, end, expect_bytes, finish, go_on, judge, keeper_of,
    last_lines, processor_seconds, sum_of_lines,
};
use outlive_sys::clock;
use outlive_sys::identity::{Handle, ProcessId};

/// A place in the large log may take at most so many times what it takes in the small one.
const PLACE_BOUND: f64 = 3.0;

/// The longest time, in microseconds, to learn that there is nothing new.
const NOTHING_NEW_BOUND: f64 = 100.0;

/// A search may take at most so many times what `grep -c` takes.
const SEARCH_BOUND: f64 = 2.0;

/// The keeper's system calls with followers may be so many times those without: equal, but for the odd write that the
/// machine delays until the next.
const FOLLOWED_BOUND: std::ops::RangeInclusive<f64> = 0.95..=1.05;

/// The large log.
const LARGE: u64 = 1 << 30;

/// The small log.
const SMALL: u64 = 10 << 20;

/// A line, as `lines` writes them.
const LINE: u64 = 80;

/// The line that is looked up in the large log.
const LARGE_LINE: u64 = 5_000_000;

/// How many lines a reader wants.
const WANTED: u64 = 100;

/// Positions are taken from this many lines around the middle: how far into its chunk of 1 MiB a line lies decides its
/// cost, and one line alone would measure its luck rather than the size of the log.
const SPREAD: u64 = 50_000;

/// What is searched for; the same to `grep` and to us. Rare, one line of a hundred, and a pattern without any fixed text.
const PATTERNS: [&str; 3] = ["panicked", "[0-9] warning: [^ ]*", "[0-9][0-9]ms [a-m]*  *[A-Z]"];

/// Prints 7 MB of lines that are shorter than most: a chunk of the index has many of them.
const SHORT_LINES: &str = "seq 1000000";

/// How many followers there are where there are many.
const FOLLOWERS: usize = 20;

/// How long anything may take before the benchmark gives up.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [rounds, copies, searches, ticks]) =
        Options::parse([("rounds", 200), ("copies", 3), ("searches", 5), ("ticks", 300)])?;
    let world = World::new(&options)?;
    let keeper = options.keepers.first().ok_or("there is no keeper")?;
    let store = world.store(keeper)?;
    println!("read: {} keeper; {}", keeper.label, world.describe());
    let bench = Bench { store: &store, outlive: &options.outlive, directory: world.path() };
    let mut all_kept = true;
    // Where the last chunk begins decides what the last lines cost, and is luck: so there are several of each.
    let mut logs = Vec::new();
    for _ in 0..copies {
        logs.push([bench.write(SMALL, SMALL / LINE / 2)?, bench.write(LARGE, LARGE_LINE)?]);
    }
    let [_, large] = logs.first().ok_or("there is no log")?;
    bench.places(&logs, rounds, &mut all_kept)?;
    let counted = bench.start(SHORT_LINES.to_owned())?;
    finish(&store, &counted)?;
    let tails = [("7 MB of seq", &counted), ("1 GiB", &large.job)];
    last_lines::compare(&options.outlive, &store, &tails, rounds, &mut all_kept)?;
    bench.nothing_new(large, rounds, &mut all_kept)?;
    bench.search(large, searches, &mut all_kept)?;
    bench.follow(ticks)?;
    bench.followed(&mut all_kept)?;
    Ok(all_kept || !options.is_check)
}

/// A finished log of numbered lines.
struct Log {
    job: Job,
    /// Its whole lines.
    lines: u64,
    /// The line that is looked up.
    middle: u64,
    /// From when to when it was written.
    time: [u64; 2],
}

/// Where a reader looks.
#[derive(Clone, Copy)]
enum Place {
    Tail,
    Line(u64),
    Time(Timestamp),
}

/// What every measurement needs.
struct Bench<'a> {
    store: &'a Store,
    outlive: &'a Path,
    directory: &'a Path,
}

impl Bench<'_> {
    fn start(&self, line: String) -> Result<Job, Failure> {
        go_on()?;
        Ok(self.store.start(&Request::shell(line).with_shell("sh").output_cap(None))?.job)
    }

    /// Has a job write a log.
    fn write(&self, bytes: u64, middle: u64) -> Result<Log, Failure> {
        let job = self.start(format!("exec '{}' {bytes} numbered", beside("lines")?.display()))?;
        finish(self.store, &job)?;
        let mut output = Output::open(&job)?;
        expect_bytes(output.end(), bytes)?;
        let mut time_at = |offset| match output.piece(offset)? {
            Some(Piece::Output { time: Some(time), .. }) => Ok(time.0),
            _ => Err(Failure::from("a log has no times")),
        };
        let time = [time_at(0)?, time_at(bytes - 1)?];
        Ok(Log { job, lines: bytes / LINE, middle, time })
    }

    /// Looks at three places of each log, through the library and through the command line.
    fn places(&self, logs: &[[Log; 2]], rounds: u64, all_kept: &mut bool) -> Result<(), Failure> {
        println!(
            "\n{:<32}{:>10}{:>8}{:>8}{:>10}{:>8}{:>8}",
            "", "10 MiB µs", "p50", "p95", "1 GiB µs", "p50", "p95"
        );
        let names = ["last 100 lines", "a line in the middle", "a time in the middle, 100 lines"];
        let mut table: [[Samples; 2]; 3] = Default::default();
        for round in 0..rounds {
            go_on()?;
            let pair = &logs[round as usize % logs.len()];
            for (row, samples) in table.iter_mut().enumerate() {
                for turn in 0..2 {
                    let size = (turn + round as usize) % 2;
                    let place = place(&pair[size], row, round);
                    samples[size].add(look(&pair[size], place)?);
                }
            }
        }
        for (name, samples) in names.iter().zip(&table) {
            let ratio = samples[1].median() / samples[0].median();
            let word = judge(ratio <= PLACE_BOUND, all_kept);
            println!("{}  {ratio:>5.2}  {word} (≤ {PLACE_BOUND})", figures(name, samples));
        }
        // A program to be started, which takes its own time: fewer rounds, and no bound.
        let names =
            ["outlive logs -n 100", "… --from-line N -n 100", "… --since T --until T+5ms", "tail -n 100"];
        let mut table: [[Samples; 2]; 4] = Default::default();
        for round in 0..rounds.div_ceil(8) {
            go_on()?;
            let pair = &logs[round as usize % logs.len()];
            for (row, samples) in table.iter_mut().enumerate() {
                for turn in 0..2 {
                    let size = (turn + round as usize) % 2;
                    samples[size].add(self.look_by_program(&pair[size], row, round)?);
                }
            }
        }
        for (name, samples) in names.iter().zip(&table) {
            println!("{}  {:>5.2}", figures(name, samples), samples[1].median() / samples[0].median());
        }
        Ok(())
    }

    /// Runs `outlive logs`, or `tail` for the last row; returns the microseconds.
    fn look_by_program(&self, log: &Log, row: usize, round: u64) -> Result<f64, Failure> {
        let mut command = match row {
            3 => Command::new("tail"),
            _ => self.logs(&log.job),
        };
        match place(log, row, round) {
            Place::Line(number) => command.arg("--from-line").arg(number.to_string()).args(["-n", "100"]),
            Place::Time(since) => {
                let until = Timestamp(since.0 + 5000);
                command.args([
                    "--since".to_owned(),
                    since.to_string(),
                    "--until".to_owned(),
                    until.to_string(),
                ])
            }
            Place::Tail => command.args(["-n", "100"]),
        };
        if row == 3 {
            command.arg(log_file(&log.job)?);
        }
        let asked = Instant::now();
        let output = command.output()?;
        let micros = asked.elapsed().as_secs_f64() * 1e6;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        let found = output.stdout.iter().filter(|&&byte| byte == b'\n').count() as u64;
        // The last line has no newline if the size is no multiple of a line's.
        if row != 2 && found + 1 < WANTED {
            return Err(format!("{found} lines came instead of {WANTED}").into());
        }
        Ok(micros)
    }

    /// Returns the command `outlive logs JOB`.
    fn logs(&self, job: &Job) -> Command {
        let mut command = Command::new(self.outlive);
        command.arg("logs").arg(job.id().to_string());
        command
            .env("OUTLIVE_HOME", self.store.root())
            .env_remove("OUTLIVE_CONFIG")
            .env_remove("OUTLIVE_SESSION");
        command.stdin(Stdio::null());
        command
    }

    /// Asks what is new since a cursor when nothing is.
    fn nothing_new(&self, large: &Log, rounds: u64, all_kept: &mut bool) -> Result<(), Failure> {
        println!("\n{:<32}{:>10}{:>8}{:>8}", "nothing new since a cursor", "best µs", "p50", "p95");
        let running = self.start(format!("'{}' {SMALL}; exec sleep 600", beside("lines")?.display()))?;
        await_bytes(&running, SMALL)?;
        let reader = SessionName::parse("bench")?;
        for (name, job) in [("of 1 GiB, ended", &large.job), ("of 10 MiB, running", &running)] {
            job.set_cursor(&reader, None, Output::open(job)?.end())?;
            let mut samples = Samples::default();
            for _ in 0..rounds * 10 {
                let asked = Instant::now();
                let cursor = job.cursor(&reader, None).ok_or("the cursor is gone")?;
                let piece = Output::open(job)?.piece(cursor)?;
                samples.add(asked.elapsed().as_secs_f64() * 1e6);
                if piece.is_some() {
                    return Err("there was something new".into());
                }
            }
            println!(
                "{name:<32}{:>10.1}{:>8.1}{:>8.1}  {} (≤ {NOTHING_NEW_BOUND} µs)",
                samples.best(),
                samples.median(),
                samples.quantile(0.95),
                judge(samples.median() <= NOTHING_NEW_BOUND, all_kept)
            );
        }
        end(self.store, &running)
    }

    /// Searches the large log.
    fn search(&self, large: &Log, repeats: u64, all_kept: &mut bool) -> Result<(), Failure> {
        println!(
            "\n{:<32}{:>10}{:>10}{:>8}{:>10}{:>8}{:>15}",
            "search of 1 GiB", "lines", "grep -c s", "median", "library s", "median", "÷ grep"
        );
        let file = log_file(&large.job)?;
        for text in PATTERNS {
            let [mut theirs, mut ours] = [Samples::default(), Samples::default()];
            let mut lines = 0;
            for _ in 0..repeats {
                go_on()?;
                let asked = Instant::now();
                lines = grep(text, &file)?;
                theirs.add(asked.elapsed().as_secs_f64());
                let asked = Instant::now();
                let found = find(text, &large.job)?;
                ours.add(asked.elapsed().as_secs_f64());
                if found != lines {
                    return Err(format!("{text}: grep found {lines} lines, and we {found}").into());
                }
            }
            let ratio = ours.best() / theirs.best();
            println!(
                "{text:<32}{lines:>10}{:>10.3}{:>8.3}{:>10.3}{:>8.3}{:>15}  {} (≤ {SEARCH_BOUND})",
                theirs.best(),
                theirs.median(),
                ours.best(),
                ours.median(),
                format!("{ratio:.2} / {:.2}", ours.median() / theirs.median()),
                judge(ratio <= SEARCH_BOUND, all_kept)
            );
        }
        println!("(÷ grep: best to best / median to median)");
        Ok(())
    }

    /// Measures how long a line takes from its writer to its reader.
    fn follow(&self, ticks: u64) -> Result<(), Failure> {
        println!(
            "\n{:<32}{:>10}{:>8}{:>8}{:>8}{:>8}{:>9}",
            "write → reader has it", "best µs", "p50", "p95", "p99", "most", "÷ pipe"
        );
        let mut table: [Samples; 3] = Default::default();
        for round in 0..3 {
            for turn in 0..3 {
                go_on()?;
                let way = (turn + round) % 3;
                let samples = match way {
                    0 => through_pipe(ticks)?,
                    1 => self.through_follower(ticks)?,
                    _ => self.through_logs(ticks)?,
                };
                table[way].extend(&samples);
            }
        }
        let floor = table[0].median();
        for (name, samples) in ["a pipe", "Follower", "outlive logs -f"].iter().zip(&table) {
            let [p50, p95, p99, most] = [0.5, 0.95, 0.99, 1.0].map(|part| samples.quantile(part));
            let ratio = p50 / floor;
            println!(
                "{name:<32}{:>10.0}{p50:>8.0}{p95:>8.0}{p99:>8.0}{most:>8.0}{ratio:>9.2}",
                samples.best()
            );
        }
        Ok(())
    }

    fn through_follower(&self, ticks: u64) -> Result<Samples, Failure> {
        let job = self.start(format!("exec {}", ticking(ticks)?))?;
        let mut follower = Follower::new(self.store, &job, 0)?;
        let mut arrivals = Arrivals::default();
        loop {
            match follower.next(Some(LIMIT))? {
                Followed::Piece(Piece::Output { bytes, .. }) => arrivals.take(&bytes)?,
                Followed::End => break,
                _ => return Err("the followed job fell silent".into()),
            }
        }
        finish(self.store, &job)?;
        arrivals.all(ticks)
    }

    fn through_logs(&self, ticks: u64) -> Result<Samples, Failure> {
        let job = self.start(format!("exec {}", ticking(ticks)?))?;
        let child = Ours(self.logs(&job).arg("-f").stdout(Stdio::piped()).spawn()?);
        through_child(child, ticks)
    }

    /// Counts the keeper's system calls without and with followers.
    fn followed(&self, all_kept: &mut bool) -> Result<(), Failure> {
        println!(
            "\n{:<32}{:>12}{:>14}{:>8}{:>14}{:>8}",
            "keeper's calls per MiB", "0 followers", "20 followers", "÷ 0", "CPU µs/MiB", "÷ 0"
        );
        let block = 64 << 10;
        // Further apart than a chunk is long, so that every block is one read, one record and one write.
        let paced = format!("'{}' 256 12000 {block}", beside("ticks")?.display());
        let flood = format!("'{}' {}", beside("lines")?.display(), 256 << 20);
        let mut rows = vec![
            ("64 KiB every 12 ms, read + write", &paced, 256 * block, false, true),
            ("as fast as it can, read + write", &flood, 256 << 20, false, false),
        ];
        if Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
            rows.insert(0, ("64 KiB every 12 ms, all calls", &paced, 256 * block, true, true));
        } else {
            println!("(there is no strace: only reads and writes are counted, which the kernel does)");
        }
        for (name, line, bytes, is_traced, is_bound) in rows {
            let [mut calls, mut processor]: [[Samples; 2]; 2] = Default::default();
            for round in 0..3 {
                for turn in 0..2 {
                    let place = (turn + round) % 2;
                    let followers = if place == 0 { 0 } else { FOLLOWERS };
                    let (count, seconds) = self.calls(line, bytes, followers, is_traced)?;
                    let mebibytes = bytes as f64 / f64::from(1 << 20);
                    calls[place].add(count as f64 / mebibytes);
                    processor[place].add(seconds * 1e6 / mebibytes);
                }
            }
            let ratio = calls[1].median() / calls[0].median();
            let word = if is_bound {
                let bound = format!("{}–{}", FOLLOWED_BOUND.start(), FOLLOWED_BOUND.end());
                format!("  {} ({bound})", judge(FOLLOWED_BOUND.contains(&ratio), all_kept))
            } else {
                String::new()
            };
            let [without, with] = [&processor[0], &processor[1]].map(Samples::median);
            // Being traced costs the keeper far more than its work does.
            let cost = if is_traced {
                format!("{:>14}{:>8}", "", "")
            } else {
                format!("{:>14}{:>8.2}", format!("{without:.0} / {with:.0}"), with / without)
            };
            println!(
                "{name:<32}{:>12.2}{:>14.2}{ratio:>8.3}{cost}{word}",
                calls[0].median(),
                calls[1].median()
            );
        }
        Ok(())
    }

    /// Returns the system calls and the seconds of processor time that a keeper takes for a command's output.
    fn calls(
        &self,
        line: &str,
        bytes: u64,
        followers: usize,
        is_traced: bool,
    ) -> Result<(u64, f64), Failure> {
        // The command waits until all is set up, and stays, so that nothing but its output is counted.
        let go = self.directory.join("go");
        let job = self
            .start(format!("until [ -e '{}' ]; do sleep 0.01; done; {line}; exec sleep 600", go.display()))?;
        let keeper = keeper_of(self.store, &job).ok_or("the job has no keeper")?;
        let is_over = AtomicBool::new(false);
        let counted = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..followers)
                .map(|_| scope.spawn(|| count_followed(self.store, &job, bytes, &is_over)))
                .collect();
            let counted = count_calls(&job, keeper, bytes, &go, is_traced);
            if counted.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            for thread in threads {
                let followed = thread.join().map_err(|_| "a follower panicked")??;
                if counted.is_ok() {
                    expect_bytes(followed, bytes)?;
                }
            }
            counted
        });
        fs::remove_file(&go).ok();
        end(self.store, &job)?;
        counted
    }
}

/// Lets the job write, waits until all is in its log, and counts what the keeper did meanwhile.
fn count_calls(
    job: &Job,
    keeper: ProcessId,
    bytes: u64,
    go: &Path,
    is_traced: bool,
) -> Result<(u64, f64), Failure> {
    let path = format!("/proc/{}/io", keeper.pid);
    let transfers = || sum_of_lines(&path, &["syscr", "syscw"]);
    let trace = go.with_file_name("strace");
    let tracer = if is_traced { Some(attach(keeper.pid, &trace)?) } else { None };
    // Followers sleep by now; the keeper has slept for long.
    std::thread::sleep(Duration::from_millis(200));
    let before = (transfers()?, processor_seconds(keeper.pid)?);
    File::create(go)?;
    await_bytes(job, bytes)?;
    let after = (transfers()?, processor_seconds(keeper.pid)?);
    let calls = match tracer {
        None => after.0 - before.0,
        Some(mut tracer) => {
            let process = ProcessId::of(i32::try_from(tracer.0.id())?).ok_or("strace has ended")?;
            let interrupt = Signal::parse("INT").ok_or("there is no INT")?;
            Handle::open(process).ok_or("strace has ended")?.signal(interrupt)?;
            tracer.0.wait()?;
            traced_calls(&fs::read_to_string(&trace)?)?
        }
    };
    Ok((calls, after.1 - before.1))
}

/// Follows a job until so many bytes have come; returns how many came.
fn count_followed(store: &Store, job: &Job, bytes: u64, is_over: &AtomicBool) -> Result<u64, String> {
    let told = |error: io::Error| error.to_string();
    let mut follower = Follower::new(store, job, 0).map_err(told)?;
    while follower.position() < bytes && !is_over.load(Ordering::Relaxed) {
        follower.next(Some(LIMIT)).map_err(told)?;
    }
    Ok(follower.position())
}

/// A child that does not outlive the benchmark.
struct Ours(Child);

impl Drop for Ours {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Has `strace` count the system calls of a process.
fn attach(pid: i32, trace: &Path) -> Result<Ours, Failure> {
    let mut command = Command::new("strace");
    command.args(["-c", "-f", "-q", "-p"]).arg(pid.to_string()).arg("-o").arg(trace);
    let tracer = Ours(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let since = Instant::now();
    while sum_of_lines(&format!("/proc/{pid}/status"), &["TracerPid"])? == 0 {
        if since.elapsed() > LIMIT {
            return Err("strace does not attach".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(tracer)
}

/// Adds up the column of calls in what `strace -c` has written.
fn traced_calls(text: &str) -> Result<u64, Failure> {
    let rows = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|row| row.len() >= 5 && row.last().is_some_and(|&name| name != "total"));
    let calls: u64 = rows.filter_map(|row| row[3].parse::<u64>().ok()).sum();
    if calls > 0 { Ok(calls) } else { Err("strace has counted nothing".into()) }
}

/// Waits until a job's log has so many bytes.
fn await_bytes(job: &Job, bytes: u64) -> Result<(), Failure> {
    let since = Instant::now();
    loop {
        go_on()?;
        let there = Output::open(job)?.end();
        if there >= bytes {
            return expect_bytes(there, bytes);
        }
        if since.elapsed() > LIMIT {
            return Err(format!("only {there} bytes of {bytes} were written").into());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Chooses the place of a round: the first is exactly in the middle, the others around it.
fn place(log: &Log, row: usize, round: u64) -> Place {
    // Multiples of an odd number hit every place of the spread before they come back.
    let shift = (round * 7919) % SPREAD;
    match row {
        1 => Place::Line(log.middle + shift - if shift > SPREAD / 2 { SPREAD } else { 0 }),
        2 => {
            let [from, to] = log.time;
            let part = 0.5 + (shift as f64 / SPREAD as f64 + 0.5).fract() / 5.0 - 0.1;
            Place::Time(Timestamp(from + ((to - from) as f64 * part) as u64))
        }
        _ => Place::Tail,
    }
}

/// Looks at a place through the library; returns the microseconds from opening the log to having the lines.
fn look(log: &Log, place: Place) -> Result<f64, Failure> {
    let asked = Instant::now();
    let mut output = Output::open(&log.job)?;
    let (texts, first) = match place {
        Place::Tail => {
            let lines = output.tail(WANTED, None)?;
            let first = lines.first().map(|line| line.number);
            (lines.into_iter().map(|line| line.text).collect(), first)
        }
        Place::Line(number) => {
            let offset = output.offset_before_line(number);
            view(&mut output, offset, |view| view.from_line(number))?
        }
        Place::Time(since) => {
            let offset = output.offset_before_time(since);
            view(&mut output, offset, |view| view.between(Some(since), None))?
        }
    };
    let micros = asked.elapsed().as_secs_f64() * 1e6;
    let first = first.ok_or("nothing was found")?;
    let expected = match place {
        // The last line may be an unfinished one.
        Place::Tail => Some(log.lines.max((Output::open(&log.job)?.end()).div_ceil(LINE)) + 1 - WANTED),
        Place::Line(number) => Some(number),
        Place::Time(_) => None,
    };
    let is_right = texts.first().is_some_and(|text| text.starts_with(format!("{first:010} ").as_bytes()));
    if texts.len() as u64 != WANTED || !is_right || expected.is_some_and(|expected| expected != first) {
        return Err(format!("{} lines from {first} came, and not those wanted", texts.len()).into());
    }
    Ok(micros)
}

/// Reads the wanted lines of a view from `offset` on, with the number of the first.
fn view(
    output: &mut Output,
    mut offset: u64,
    shape: impl FnOnce(View) -> View,
) -> Result<(Vec<Vec<u8>>, Option<u64>), Failure> {
    let assembler = output.assembler_at(offset)?;
    let mut view = shape(View::new(Form::Raw, assembler)).limit(Some(WANTED));
    let (mut texts, mut first) = (Vec::new(), None);
    while !view.is_full() {
        let Some(piece) = output.piece(offset)? else { break };
        let Piece::Output { bytes, .. } = &piece else { return Err("the log has a hole".into()) };
        offset += bytes.len() as u64;
        view.push(&piece, |item| {
            if let ViewItem::Line(line) = item {
                first.get_or_insert(line.number);
                texts.push(line.text);
            }
        });
    }
    Ok((texts, first))
}

fn figures(name: &str, samples: &[Samples; 2]) -> String {
    let [small, large] = samples;
    format!(
        "{name:<32}{:>10.0}{:>8.0}{:>8.0}{:>10.0}{:>8.0}{:>8.0}",
        small.best(),
        small.median(),
        small.quantile(0.95),
        large.best(),
        large.median(),
        large.quantile(0.95)
    )
}

/// Returns the one file that a log without a cap is.
fn log_file(job: &Job) -> Result<PathBuf, Failure> {
    let entries = fs::read_dir(job.path())?.collect::<Result<Vec<_>, _>>()?;
    let paths = entries.iter().map(fs::DirEntry::path);
    let mut files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let file = files.next().ok_or("there is no log")?;
    if files.next().is_none() { Ok(file) } else { Err("the log is not one file".into()) }
}

fn grep(text: &str, file: &Path) -> Result<u64, Failure> {
    let output = Command::new("grep").env("LC_ALL", "C").args(["-c", "-e", text]).arg(file).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn find(text: &str, job: &Job) -> Result<u64, Failure> {
    let pattern = outlive::pattern(text, false)?;
    let mut found = 0;
    Output::open(job)?.find_lines(0, &pattern, None, |_| found += 1)?;
    Ok(found)
}

/// Returns the command whose output is followed: a line every 3 ms.
fn ticking(ticks: u64) -> Result<String, Failure> {
    Ok(format!("'{}' {ticks} 3000 40", beside("ticks")?.display()))
}

fn through_pipe(ticks: u64) -> Result<Samples, Failure> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {}", ticking(ticks)?)).stdin(Stdio::null()).stdout(Stdio::piped());
    through_child(Ours(command.spawn()?), ticks)
}

fn through_child(mut child: Ours, ticks: u64) -> Result<Samples, Failure> {
    let mut output = child.0.stdout.take().ok_or("the child has no output")?;
    let mut arrivals = Arrivals::default();
    let mut buffer = [0; 4096];
    loop {
        let count = output.read(&mut buffer)?;
        if count == 0 {
            return arrivals.all(ticks);
        }
        arrivals.take(&buffer[..count])?;
    }
}

/// When lines came, against when they were written.
#[derive(Default)]
struct Arrivals {
    rest: Vec<u8>,
    /// In microseconds.
    late: Vec<f64>,
}

impl Arrivals {
    /// Takes what has come just now.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let now = clock::boot_us();
        self.rest.extend_from_slice(bytes);
        while let Some(at) = self.rest.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=at).collect();
            let time = std::str::from_utf8(&line)?.split(' ').next().unwrap_or_default();
            self.late.push(now.saturating_sub(time.parse()?) as f64);
        }
        Ok(())
    }

    /// Returns how late each was.
    fn all(self, ticks: u64) -> Result<Samples, Failure> {
        expect_bytes(self.late.len() as u64, ticks)?;
        Ok(self.late.into_iter().collect())
    }
}
