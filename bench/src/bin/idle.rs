//! What an idle job costs: memory, descriptors and wake-ups of its keeper and guard, over many jobs at once.

#![expect(clippy::print_stdout, reason = "a benchmark prints its numbers")]

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use outlive::{Job, QueueChange, QueueName, Request, Store};
use outlive_bench::{
    Failure, Keeper, Options, Samples, World, beside, conclude, end, go_on, guard_of, judge, keeper_of, rest,
    sum_of_lines, switches,
};
use outlive_sys::identity::ProcessId;

/// The share of memory that keeper and guard have together, in KiB: a page that several processes share counts in parts.
const STATIC_BOUND: f64 = 105.0;

/// The same for the dynamic keeper, which has relocated pages of its own.
const DYNAMIC_BOUND: f64 = 150.0;

/// The same for an `outlive` that is its own keeper, as where no keeper was built beside it.
const LONE_BOUND: f64 = 300.0;

/// Open descriptors of one keeper.
const DESCRIPTORS_BOUND: f64 = 16.0;

/// How long keepers have to come to rest: a keeper gives its buffer back after a second.
const REST: Duration = Duration::from_secs(3);

/// How long context switches are counted.
const WATCH: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    conclude(run)
}

fn run() -> Result<bool, Failure> {
    let (options, [count]) = Options::parse([("jobs", 200)])?;
    let world = World::new(&options)?;
    println!("idle: {count} jobs of sleep; {}", world.describe());
    println!(
        "{:<9}{:>14}{:>8}{:>8}{:>14}{:>26}",
        "keeper", "PSS KiB mean", "median", "most", "descriptors", "context switches in 10 s"
    );
    let mut all_kept = true;
    let lone = Keeper { label: "lone", path: beside("outlive")? };
    for keeper in options.keepers.iter().chain([&lone]) {
        let store = world.store(keeper)?;
        let jobs = start_each(&store, &Request::argv(["sleep", "3600"]), count)?;
        measure(&store, &jobs, keeper, &mut all_kept)?;
        for job in &jobs {
            end(&store, job)?;
        }
        // The same for jobs that wait for their turn: nothing of them runs but keeper and guard.
        let queue = QueueName::parse("idle")?;
        store.change_queue(&queue, QueueChange::Parallel(1))?;
        store.change_queue(&queue, QueueChange::Pause)?;
        let jobs = start_each(&store, &Request::argv(["sleep", "3600"]).queue(queue), count)?;
        print!("queued ");
        measure(&store, &jobs, keeper, &mut all_kept)?;
        for job in &jobs {
            end(&store, job)?;
        }
    }
    Ok(all_kept || !options.is_check)
}

fn start_each(store: &Store, request: &Request, count: u64) -> Result<Vec<Job>, Failure> {
    let start = |_| {
        go_on()?;
        Ok(store.start(request)?.job)
    };
    (0..count).map(start).collect()
}

fn measure(store: &Store, jobs: &[Job], keeper: &Keeper, all_kept: &mut bool) -> Result<(), Failure> {
    let both = |job| {
        let pid = |process: Option<ProcessId>| process.map(|process| process.pid);
        pid(keeper_of(store, job)).zip(pid(guard_of(store, job))).ok_or("a job has no keeper or no guard")
    };
    let kept = jobs.iter().map(both).collect::<Result<Vec<(i32, i32)>, _>>()?;
    let pids: Vec<i32> = kept.iter().flat_map(|&(keeper, guard)| [keeper, guard]).collect();
    rest(REST)?;
    let mut memory = Samples::default();
    let mut descriptors = Samples::default();
    for (keeper, guard) in &kept {
        let pss = |pid: &i32| sum_of_lines(&format!("/proc/{pid}/smaps_rollup"), &["Pss"]);
        memory.add((pss(keeper)? + pss(guard)?) as f64);
        // Both have one table of them.
        descriptors.add(fs::read_dir(format!("/proc/{keeper}/fd"))?.count() as f64);
    }
    let before = switches(&pids)?;
    rest(WATCH)?;
    let woken = switches(&pids)? - before;
    let bound = match keeper.label {
        "static" => STATIC_BOUND,
        "lone" => LONE_BOUND,
        _ => DYNAMIC_BOUND,
    };
    println!(
        "{:<9}{:>14.1}{:>8.0}{:>8.0}{:>14.0}{:>26}  {} (≤ {bound} KiB) {} (≤ {DESCRIPTORS_BOUND}) {} (0)",
        keeper.label,
        memory.mean(),
        memory.median(),
        memory.quantile(1.0),
        descriptors.quantile(1.0),
        woken,
        judge(memory.mean() <= bound, all_kept),
        judge(descriptors.quantile(1.0) <= DESCRIPTORS_BOUND, all_kept),
        judge(woken == 0, all_kept),
    );
    Ok(())
}
