//! Output through a keeper, against `writer | cat > file` with the same writer.
//!
//! Wall time is from the request to the moment when a waiter knows that the command has ended: for `cat`, its own
//! end; for a job, the return of `wait`, before which the keeper has also synced the outcome. Processor time is that of
//! everything but the writer: `cat`, or the keeper. It is taken twice: when the end is told, which is what the bound is
//! about, and when the output is also on the disk. The keeper sees to that itself; after `cat` it takes a `sync`, whose
//! time is added. Each keeper has two rows: one keeps all of the output, one as much as the default cap lets it.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use outlive::{Job, Kill, Request, Store, Until};
use outlive_bench::recording::{Contender, Ratio, Way, contenders};
use outlive_bench::{
    Failure, Options, Samples, World, beside, conclude, expect_bytes, go_on, gone, keeper_of,
    processor_seconds, settle, used_by,
};
use outlive_sys::spawn::{self, Reap};

/// The lowest speed, as a fraction of the speed of `cat`, by the medians.
const SPEED_BOUND: f64 = 0.95;

fn main() -> ExitCode {
    conclude(run)
}

/// One row of the table.
struct Row {
    contender: Contender,
    /// The output is kept as far as the default cap lets it.
    is_capped: bool,
    wall: Vec<f64>,
    /// Seconds of processor time until the end is told.
    recording: Vec<f64>,
    /// The same until everything is over.
    everything: Vec<f64>,
}

/// What one run took, in seconds.
struct Run {
    wall: f64,
    recording: f64,
    everything: f64,
}

fn run() -> Result<bool, Failure> {
    let (options, [bytes, repeats]) = Options::parse([("bytes", 1 << 30), ("repeats", 5)])?;
    let world = World::new(&options)?;
    // A keeper's parent would be init; as its subreaper this program reaps it and learns its processor time.
    if !spawn::adopt_orphans() {
        return Err("this kernel has no subreapers, and what a keeper has used cannot be known".into());
    }
    let row = |contender, is_capped| Row {
        contender,
        is_capped,
        wall: Vec::new(),
        recording: Vec::new(),
        everything: Vec::new(),
    };
    let mut rows: Vec<Row> =
        contenders(&world, &options)?.into_iter().map(|contender| row(contender, false)).collect();
    for mut contender in contenders(&world, &options)?.into_iter().skip(1) {
        contender.label.push_str(", cap");
        rows.push(row(contender, true));
    }
    println!(
        "throughput: {:.2} GiB of 80-byte lines in 64 KiB writes, {repeats} times; {}",
        bytes as f64 / f64::from(1 << 30),
        world.describe()
    );
    for repeat in 0..repeats {
        for place in 0..rows.len() {
            go_on()?;
            let row_count = rows.len();
            let row = &mut rows[(place + repeat as usize) % row_count];
            settle(world.path())?;
            let run = match &row.contender.way {
                Way::Raw | Way::Cat => through_cat(world.path(), bytes)?,
                Way::Job(store) => through_keeper(store, bytes, row.is_capped)?,
            };
            row.wall.push(run.wall);
            row.recording.push(run.recording);
            row.everything.push(run.everything);
        }
    }
    let all_kept = print(&rows, bytes);
    Ok(all_kept || !options.is_check)
}

fn through_cat(directory: &Path, bytes: u64) -> Result<Run, Failure> {
    let path = directory.join("cat.log");
    let file = File::create_new(&path)?;
    let asked = Instant::now();
    let mut writer = Command::new(beside("lines")?).arg(bytes.to_string()).stdout(Stdio::piped()).spawn()?;
    let output = writer.stdout.take().ok_or("the writer has no output")?;
    let mut cat = Command::new("cat").stdin(output).stdout(file).spawn()?;
    let used = used_by(&cat)?;
    let wall = asked.elapsed().as_secs_f64();
    if !cat.wait()?.success() || !writer.wait()?.success() {
        return Err("the writer or cat failed".into());
    }
    expect_bytes(fs::metadata(&path)?.len(), bytes)?;
    let mut sync = Command::new("sync").arg("--data").arg(&path).spawn()?;
    let syncing = used_by(&sync)?;
    sync.wait()?;
    fs::remove_file(&path)?;
    Ok(Run { wall, recording: used, everything: used + syncing })
}

fn through_keeper(store: &Store, bytes: u64, is_capped: bool) -> Result<Run, Failure> {
    // Something that lingers keeps the keeper alive after the writer's end, asleep, so that its time can be read.
    let line =
        format!("sleep 600 </dev/null >/dev/null 2>&1 & exec '{}' {bytes}", beside("lines")?.display());
    let asked = Instant::now();
    let request = Request::shell(line).with_shell("sh");
    let request = if is_capped { request } else { request.output_cap(None) };
    let job = store.start(&request)?.job;
    let waited = store.wait(std::slice::from_ref(&job), Until::All, None);
    let wall = asked.elapsed().as_secs_f64();
    let keeper = keeper_of(store, &job).ok_or("the job has no keeper")?;
    let recording = processor_seconds(keeper.pid)?;
    let outcome = waited.states.into_iter().next().and_then(|state| state.outcome);
    let outcome = outcome.ok_or("the job has no outcome")?;
    expect_bytes(outcome.totals.bytes, bytes)?;
    if !is_capped {
        expect_bytes(log_bytes(&job)?, bytes)?;
    }
    store.kill(&job, &Kill { force: true, by: "bench".to_owned(), ..Kill::default() })?;
    gone(keeper)?;
    // The kernel's figure for a process includes the children that it has reaped, here the writer.
    let writer = outcome.usage.ok_or("nothing is known of the writer")?;
    let everything = reap(keeper.pid)? - (writer.user_ms + writer.system_ms) as f64 / 1e3;
    store.remove(&job)?;
    Ok(Run { wall, recording, everything })
}

/// Returns the size of all segments of a job's log.
fn log_bytes(job: &Job) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in fs::read_dir(job.path())? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("out.") && name.to_string_lossy().ends_with(".log") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// How long a keeper whose locks are free may take to be gone.
const REAP_LIMIT: Duration = Duration::from_secs(10);

/// Reaps the keeper, which has ended, and returns the seconds that all its threads and its own children have used.
fn reap(pid: i32) -> Result<f64, Failure> {
    let begun = Instant::now();
    loop {
        match spawn::find_ended() {
            Reap::Ended(ended) => {
                spawn::reap(ended.pid);
                if ended.pid == pid {
                    return Ok((ended.usage.user_ms + ended.usage.system_ms) as f64 / 1e3);
                }
            }
            // Its locks are free a moment before it is gone.
            Reap::Running if begun.elapsed() < REAP_LIMIT => std::thread::sleep(Duration::from_millis(1)),
            Reap::Running | Reap::None => return Err("the keeper was not ours to reap".into()),
        }
    }
}

/// Prints the table; tells whether all bounds were kept.
fn print(rows: &[Row], bytes: u64) -> bool {
    println!(
        "{:<21}{:>8}{:>8}{:>8}{:>15}{:>10}{:>8}{:>15}{:>11}{:>15}",
        "", "best s", "median", "MB/s", "÷ cat", "CPU s/GB", "median", "÷ cat", "with sync", "÷ cat"
    );
    let gigabytes = bytes as f64 / 1e9;
    let mut all_kept = true;
    let Some(floor) = rows.first() else { return false };
    for row in rows {
        let of = |row: &Row| {
            let per_gigabyte =
                |seconds: &[f64]| -> Samples { seconds.iter().map(|each| each / gigabytes).collect() };
            [&row.wall, &row.recording, &row.everything].map(|seconds| per_gigabyte(seconds))
        };
        let ([wall, recording, everything], [cat_wall, cat_recording, cat_everything]) = (of(row), of(floor));
        let speed = Ratio::of(&cat_wall, &wall);
        let cost = Ratio::of(&recording, &cat_recording);
        let is_fast = speed.median >= SPEED_BOUND;
        let verdicts = row.contender.judge(is_fast, &format!("≥ {SPEED_BOUND}"), cost, &mut all_kept);
        println!(
            "{:<21}{:>8.3}{:>8.3}{:>8.0}{:>15}{:>10.3}{:>8.3}{:>15}{:>11.3}{:>15}{verdicts}",
            row.contender.label,
            wall.best() * gigabytes,
            wall.median() * gigabytes,
            1e3 / wall.best(),
            speed,
            recording.best(),
            recording.median(),
            cost,
            everything.best(),
            Ratio::of(&everything, &cat_everything),
        );
    }
    println!("(÷ cat: best to best / median to median)");
    all_kept
}
