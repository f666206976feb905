//! Output of many jobs at once, against as many `writer > file` and `writer | cat > file`.
//!
//! The same as `throughput`, but everything competes: for the processors, for the disk, and for the store. The cap is on,
//! as it is by default. Wall time is from the first request to the moment when a waiter for all knows that all
//! have ended; of that, the time until all were started is printed too. Processor time is that of all keepers, or of all
//! `cat`s. It is taken in runs of its own: a shell and a `sleep` for each job keep the keepers alive until they are measured,
//! which would cost ten times what they cost `throughput`. Files are emptied after each run but stay until the end (see
//! [`World::file_micros`] for what deleting would do to the next start).

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use outlive::{Job, Kill, Request, Store, Until};
use outlive_bench::recording::{Contender, Ratio, Way, contenders};
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, expect_bytes, finish, go_on, keeper_of,
    processor_seconds, settle, used_by,
};

/// The longest time, as a multiple of that of the writers alone, by the medians.
const TIME_BOUND: f64 = 1.5;

fn main() -> ExitCode {
    conclude(run)
}

/// One row of the table; times are in seconds, one for each round.
struct Row {
    contender: Contender,
    starting: Samples,
    wall: Samples,
    processor: Samples,
}

/// What one run took, in seconds.
struct Run {
    starting: f64,
    wall: f64,
    processor: f64,
}

fn run() -> Result<bool, Failure> {
    let (options, [writers, bytes, repeats]) =
        Options::parse([("writers", 10), ("bytes", 100 << 20), ("repeats", 7)])?;
    let world = World::new(&options)?;
    let row = |contender| Row {
        contender,
        starting: Samples::default(),
        wall: Samples::default(),
        processor: Samples::default(),
    };
    let others = contenders(&world, &options)?;
    let mut rows: Vec<Row> = std::iter::once(Contender::raw()).chain(others).map(row).collect();
    println!(
        "writers: {writers} at once, each {:.0} MiB of 80-byte lines in 64 KiB writes, {repeats} times; {}, where a new file takes {:.0} µs",
        bytes as f64 / f64::from(1 << 20),
        world.describe(),
        world.file_micros()?
    );
    for repeat in 0..repeats {
        for place in 0..rows.len() {
            go_on()?;
            let row_count = rows.len();
            let row = &mut rows[(place + repeat as usize) % row_count];
            settle(world.path())?;
            let run = match &row.contender.way {
                Way::Raw => to_files(world.path(), repeat, writers, bytes)?,
                Way::Cat => through_cats(world.path(), repeat, writers, bytes)?,
                Way::Job(store) => {
                    let alone = through_keepers(store, writers, bytes, false)?;
                    settle(world.path())?;
                    let asked = through_keepers(store, writers, bytes, true)?;
                    Run { processor: asked.processor, ..alone }
                }
            };
            row.starting.add(run.starting);
            row.wall.add(run.wall);
            row.processor.add(run.processor);
        }
    }
    let all_kept = print(&rows, writers * bytes);
    Ok(all_kept || !options.is_check)
}

/// A writer whose output is a file. Dropping it ends it.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn to_files(directory: &Path, repeat: u64, writers: u64, bytes: u64) -> Result<Run, Failure> {
    let path = |number: u64| directory.join(format!("raw-{repeat}-{number}.log"));
    let asked = Instant::now();
    let mut started = Vec::new();
    for number in 0..writers {
        let mut writer = Command::new(beside("lines")?);
        writer.arg(bytes.to_string()).stdout(File::create_new(path(number))?);
        started.push(Writer(writer.spawn()?));
    }
    let starting = asked.elapsed().as_secs_f64();
    for writer in &mut started {
        if !writer.0.wait()?.success() {
            return Err("a writer failed".into());
        }
    }
    let wall = asked.elapsed().as_secs_f64();
    for number in 0..writers {
        expect_bytes(fs::metadata(path(number))?.len(), bytes)?;
        File::create(path(number))?;
    }
    Ok(Run { starting, wall, processor: 0.0 })
}

/// A writer and the `cat` that reads it. Dropping it ends both.
struct Pipeline {
    writer: Child,
    cat: Child,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        for child in [&mut self.writer, &mut self.cat] {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn through_cats(directory: &Path, repeat: u64, writers: u64, bytes: u64) -> Result<Run, Failure> {
    let paths: Vec<_> =
        (0..writers).map(|number| directory.join(format!("cat-{repeat}-{number}.log"))).collect();
    let asked = Instant::now();
    let mut pipelines = Vec::new();
    for path in &paths {
        let mut writer =
            Command::new(beside("lines")?).arg(bytes.to_string()).stdout(Stdio::piped()).spawn()?;
        let output = writer.stdout.take().ok_or("the writer has no output")?;
        let cat = Command::new("cat").stdin(output).stdout(File::create_new(path)?).spawn();
        match cat {
            Ok(cat) => pipelines.push(Pipeline { writer, cat }),
            Err(error) => {
                writer.kill()?;
                writer.wait()?;
                return Err(error.into());
            }
        }
    }
    let starting = asked.elapsed().as_secs_f64();
    let mut processor = 0.0;
    for pipeline in &pipelines {
        processor += used_by(&pipeline.cat)?;
    }
    let wall = asked.elapsed().as_secs_f64();
    for (pipeline, path) in pipelines.iter_mut().zip(&paths) {
        if !pipeline.cat.wait()?.success() || !pipeline.writer.wait()?.success() {
            return Err("a writer or a cat failed".into());
        }
        expect_bytes(fs::metadata(path)?.len(), bytes)?;
        File::create(path)?;
    }
    Ok(Run { starting, wall, processor })
}

/// The same for jobs. The keepers' processor time is known only if the jobs linger.
fn through_keepers(store: &Store, writers: u64, bytes: u64, do_linger: bool) -> Result<Run, Failure> {
    let program = beside("lines")?;
    let request = if do_linger {
        // Something that lingers keeps a keeper alive after the writer's end, asleep, so that its time can be read.
        let line = format!("sleep 600 </dev/null >/dev/null 2>&1 & exec '{}' {bytes}", program.display());
        Request::shell(line).with_shell("sh")
    } else {
        Request::argv([program.into_os_string(), bytes.to_string().into()])
    };
    let asked = Instant::now();
    let jobs = (0..writers).map(|_| Ok(store.start(&request)?.job)).collect::<Result<Vec<Job>, Failure>>()?;
    let starting = asked.elapsed().as_secs_f64();
    let waited = store.wait(&jobs, Until::All, None);
    let wall = asked.elapsed().as_secs_f64();
    let mut processor = 0.0;
    for (job, state) in jobs.iter().zip(&waited.states) {
        if do_linger {
            processor += processor_seconds(keeper_of(store, job).ok_or("a job has no keeper")?.pid)?;
        }
        expect_bytes(state.outcome.as_ref().ok_or("a job has no outcome")?.totals.bytes, bytes)?;
    }
    for job in &jobs {
        store.kill(job, &Kill { force: true, by: "bench".to_owned(), ..Kill::default() })?;
        finish(store, job)?;
        for entry in fs::read_dir(job.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                File::create(path)?;
            }
        }
    }
    Ok(Run { starting, wall, processor })
}

/// Prints the table; tells whether all bounds were kept.
fn print(rows: &[Row], bytes: u64) -> bool {
    println!(
        "{:<16}{:>10}{:>8}{:>8}{:>8}{:>15}{:>15}{:>10}{:>8}{:>15}",
        "", "started s", "best s", "median", "MB/s", "× raw", "× cat", "CPU s/GB", "median", "× cat"
    );
    let gigabytes = bytes as f64 / 1e9;
    let mut all_kept = true;
    let [raw, cat, ..] = rows else { return false };
    for row in rows {
        let time = Ratio::of(&row.wall, &raw.wall);
        let cost = Ratio::of(&row.processor, &cat.processor);
        let is_fast = time.median <= TIME_BOUND;
        let verdicts = row.contender.judge(is_fast, &format!("≤ {TIME_BOUND} × raw"), cost, &mut all_kept);
        println!(
            "{:<16}{:>10.3}{:>8.3}{:>8.3}{:>8.0}{:>15}{:>15}{:>10.3}{:>8.3}{:>15}{verdicts}",
            row.contender.label,
            row.starting.best(),
            row.wall.best(),
            row.wall.median(),
            gigabytes * 1e3 / row.wall.best(),
            time,
            Ratio::of(&row.wall, &cat.wall),
            row.processor.best() / gigabytes,
            row.processor.median() / gigabytes,
            cost,
        );
    }
    println!("(×: best to best / median to median)");
    all_kept
}
