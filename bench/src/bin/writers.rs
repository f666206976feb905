//! Output of many jobs at once, against as many `writer | cat > file`.
//!
//! The same as `throughput`, but everything competes: for the processors, for the disk, and for the store. The cap is on,
//! as it is by default. Wall time is from the first request to the moment when somebody who waits for all knows that all
//! have ended; processor time is that of all keepers, or of all `cat`s.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

use outlive::{Job, Request, Store, Until};
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, end, expect_bytes, go_on, judge, keeper_of,
    processor_seconds, settle, used_by,
};

/// At least so fast, as a part of the speed of the `cat`s.
const SPEED_BOUND: f64 = 0.9;

/// At most so many times the processor time of the `cat`s.
const PROCESSOR_BOUND: f64 = 1.15;

fn main() -> ExitCode {
    conclude(run)
}

enum Way {
    Cat,
    Job(Box<Store>),
}

/// One row of the table; times are in seconds, one for each round.
struct Row {
    way: Way,
    label: String,
    is_bound: bool,
    wall: Samples,
    processor: Samples,
}

fn run() -> Result<bool, Failure> {
    let (options, [writers, bytes, repeats]) =
        Options::parse([("writers", 10), ("bytes", 100 << 20), ("repeats", 7)])?;
    let world = World::new(&options)?;
    let row = |way, label, is_bound| Row {
        way,
        label,
        is_bound,
        wall: Samples::default(),
        processor: Samples::default(),
    };
    let mut rows = vec![row(Way::Cat, "| cat > file".to_owned(), false)];
    for keeper in &options.keepers {
        let label = format!("{} keeper", keeper.label);
        rows.push(row(Way::Job(Box::new(world.store(keeper)?)), label, keeper.is_static()));
    }
    println!(
        "writers: {writers} at once, each {:.0} MiB of 80-byte lines in 64 KiB writes, {repeats} times; {}",
        bytes as f64 / f64::from(1 << 20),
        world.describe()
    );
    for repeat in 0..repeats {
        for place in 0..rows.len() {
            go_on()?;
            let row_count = rows.len();
            let row = &mut rows[(place + repeat as usize) % row_count];
            settle(world.path())?;
            let (wall, processor) = match &row.way {
                Way::Cat => through_cats(world.path(), writers, bytes)?,
                Way::Job(store) => through_keepers(store, writers, bytes)?,
            };
            row.wall.add(wall);
            row.processor.add(processor);
        }
    }
    let all_kept = print(&rows, writers * bytes);
    Ok(all_kept || !options.is_check)
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

/// Returns the seconds that have passed and the seconds of processor time.
fn through_cats(directory: &Path, writers: u64, bytes: u64) -> Result<(f64, f64), Failure> {
    let paths: Vec<_> = (0..writers).map(|number| directory.join(format!("cat-{number}.log"))).collect();
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
        fs::remove_file(path)?;
    }
    Ok((wall, processor))
}

/// The same for jobs.
fn through_keepers(store: &Store, writers: u64, bytes: u64) -> Result<(f64, f64), Failure> {
    // Something that lingers keeps a keeper alive after the writer's end, asleep, so that its time can be read.
    let line =
        format!("sleep 600 </dev/null >/dev/null 2>&1 & exec '{}' {bytes}", beside("lines")?.display());
    let request = Request::shell(line).with_shell("sh");
    let asked = Instant::now();
    let jobs = (0..writers).map(|_| Ok(store.start(&request)?.job)).collect::<Result<Vec<Job>, Failure>>()?;
    let waited = store.wait(&jobs, Until::All, None);
    let wall = asked.elapsed().as_secs_f64();
    let mut processor = 0.0;
    for (job, state) in jobs.iter().zip(&waited.states) {
        processor += processor_seconds(keeper_of(store, job).ok_or("a job has no keeper")?.pid)?;
        expect_bytes(state.outcome.as_ref().ok_or("a job has no outcome")?.totals.bytes, bytes)?;
    }
    for job in &jobs {
        end(store, job)?;
    }
    Ok((wall, processor))
}

/// Prints the table; tells whether all bounds were kept.
fn print(rows: &[Row], bytes: u64) -> bool {
    println!(
        "{:<16}{:>8}{:>8}{:>8}{:>15}{:>10}{:>8}{:>15}",
        "", "best s", "median", "MB/s", "÷ cat", "CPU s/GB", "median", "÷ cat"
    );
    let gigabytes = bytes as f64 / 1e9;
    let mut all_kept = true;
    let Some(floor) = rows.first() else { return false };
    for row in rows {
        let ratio =
            |over: &Samples, under: &Samples| [over.best() / under.best(), over.median() / under.median()];
        let speed = ratio(&floor.wall, &row.wall);
        let cost = ratio(&row.processor, &floor.processor);
        let verdicts = if row.is_bound {
            let speed_word = judge(speed[0] >= SPEED_BOUND, &mut all_kept);
            let cost_word = judge(cost[0] <= PROCESSOR_BOUND, &mut all_kept);
            format!("  {speed_word} (≥ {SPEED_BOUND}) {cost_word} (≤ {PROCESSOR_BOUND})")
        } else {
            String::new()
        };
        let shown = |ratios: [f64; 2]| format!("{:.2} / {:.2}", ratios[0], ratios[1]);
        println!(
            "{:<16}{:>8.3}{:>8.3}{:>8.0}{:>15}{:>10.3}{:>8.3}{:>15}{verdicts}",
            row.label,
            row.wall.best(),
            row.wall.median(),
            gigabytes * 1e3 / row.wall.best(),
            shown(speed),
            row.processor.best() / gigabytes,
            row.processor.median() / gigabytes,
            shown(cost),
        );
    }
    println!("(÷ cat: best to best / median to median)");
    all_kept
}
