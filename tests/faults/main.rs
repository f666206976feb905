//! Kills, stops and fails outlive at every step, and then looks whether the world is as it was promised.
//!
//! A scenario (a new store; start, output on both streams, input, a signal, exit 7; reading, waiting, removing,
//! recovering, collecting; starts that come to nothing) is run for every fault point and every action, and another one
//! ([`telling`]: sessions, readiness, and all who are told of ends; [`terminals`]; [`reruns`]; [`replaced`]; [`projects`]; [`queues`]; [`schedules`]; [`health`]; [`companions`]; [`machines`]) for the points that only it comes to. The one whose
//! turn it is, keeper, starting, waiting or reading front end, hears of the fault through its environment; afterwards fresh front
//! ends, which have none, do what a user would: try again. Then [`world::check`] holds what is found against the design's
//! invariants.
//!
//! `faults [--sample COUNT] [--seed SEED] [--only TEXT]`; the binaries with fault points are those in `OUTLIVE_FAULT_BIN`.

#![expect(clippy::print_stdout, reason = "a suite prints what it found")]
#![expect(clippy::unwrap_used, reason = "a suite that cannot go on must stop loudly")]

mod companions;
mod health;
mod lists;
mod machines;
mod projects;
mod queues;
mod replaced;
mod reruns;
mod scenario;
mod schedules;
mod telling;
mod terminals;
mod world;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use outlive_sys::fault::{Kind, Point};

use crate::scenario::{Fault, Play, Scenario};

/// The errors that a call is made to fail with: no space, I/O, interrupted, try again, too many files, no memory.
const ERRORS: [i32; 6] = [28, 5, 4, 11, 24, 12];

/// What a keeper does at the end.
const ENDING: [&str; 5] =
    ["keeper.outcome.", "keeper.event-end.", "keeper.live.", "keeper.meta-end.", "keeper.done."];

/// What a keeper does with the bytes of a terminal.
const TYPING: [&str; 4] = ["keeper.output.read", "keeper.log.append", "keeper.index.append", "keeper.input."];

/// What a keeper does from its start to its end that a job which is started again comes to as well.
const AGAIN: [&str; 9] = [
    "keeper.launch.",
    "keeper.guard.",
    "keeper.command.",
    "keeper.meta-",
    "keeper.outcome.",
    "keeper.closed.",
    "keeper.event-",
    "keeper.done.",
    "keeper.live.",
];

/// How many runs go on at the same time; most of them wait for something.
const WORKERS: usize = 4;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut sample, mut seed, mut only) = (None, std::process::id() as u64, String::new());
    while let Some(option) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        match option.as_str() {
            "--sample" => sample = value.parse::<usize>().ok(),
            "--seed" => seed = value.parse().unwrap_or(seed),
            "--only" => only = value,
            _ => {
                println!("usage: faults [--sample COUNT] [--seed SEED] [--only TEXT]");
                return ExitCode::from(2);
            }
        }
    }
    let mut faults: Vec<Fault> = Point::ALL
        .iter()
        .flat_map(|&point| faults_at(point))
        .filter(|fault| fault.name().contains(&only))
        .collect();
    let all = faults.len();
    if let Some(count) = sample {
        shuffle(&mut faults, seed);
        faults.truncate(count);
        println!("faults: {} of {all} by seed {seed}", faults.len());
    }
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let violations = Mutex::new(Vec::new());
    let (reached, fired) = (Mutex::new(BTreeSet::new()), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let run = Scenario::run(fault);
                    if run.has_fired {
                        fired.lock().unwrap().insert(fault.point.name());
                    }
                    let name = format!("{} ({:?})", fault.name(), fault.play);
                    reached.lock().unwrap().extend(run.reached);
                    for violation in run.violations {
                        println!("VIOLATION {name}: {violation}");
                        violations.lock().unwrap().push(name.clone());
                    }
                }
            });
        }
    });
    let (reached, fired) = (reached.into_inner().unwrap(), fired.into_inner().unwrap());
    let (mut violated, mut missed) = (violations.into_inner().unwrap(), Vec::new());
    if sample.is_none() && only.is_empty() {
        // To be reached by somebody who does not hear of the fault is not enough.
        missed = Point::ALL.iter().map(|point| point.name()).filter(|name| !fired.contains(name)).collect();
    }
    violated.dedup();
    println!(
        "faults: {} points, {} reached, {} hit, {} runs, {:.0} s, {} violations",
        Point::ALL.len(),
        reached.len(),
        fired.len(),
        faults.len(),
        begun.elapsed().as_secs_f64(),
        violated.len(),
    );
    for name in &missed {
        println!("NEVER HIT {name}");
    }
    if violated.is_empty() && missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lists what can be done at a point.
fn faults_at(point: Point) -> Vec<Fault> {
    let play = Play::of(point);
    let fault = |moment: &str, action: String| Fault { point, moment: moment.to_owned(), action, play };
    let mut faults: Vec<Fault> = ["before", "after"]
        .into_iter()
        .flat_map(|moment| ["kill", "pause"].map(|action| fault(moment, action.to_owned())))
        .collect();
    if point.kind() != Kind::Sure {
        faults.extend(ERRORS.map(|errno| fault("before", errno.to_string())));
    }
    if point.kind() == Kind::Write {
        faults.push(fault("before", "short".to_owned()));
    }
    let is_one_of = |parts: &[&str]| parts.iter().any(|part| point.name().starts_with(part));
    if is_one_of(&TYPING) {
        let deaths = ["before", "after"];
        faults
            .extend(deaths.map(|moment| Fault { play: Play::Terminals, ..fault(moment, "kill".to_owned()) }));
    }
    if is_one_of(&AGAIN) {
        let deaths = ["before", "after"];
        for play in [Play::Reruns, Play::Replaced, Play::Queues, Play::Unguarded, Play::Schedules] {
            faults.extend(deaths.map(|moment| Fault { play, ..fault(moment, "kill".to_owned()) }));
        }
    }
    // The process that starts the jobs of a project may die at each step of a start.
    if play == Play::Life && point.name().starts_with("starter.") {
        let deaths = ["before", "after"];
        faults
            .extend(deaths.map(|moment| Fault { play: Play::Projects, ..fault(moment, "kill".to_owned()) }));
    }
    // Those who are told of an end hear of it whatever becomes of its keeper.
    if is_one_of(&ENDING) {
        let ending = [("before", "kill"), ("after", "kill"), ("before", "28")];
        faults.extend(
            ending.map(|(moment, action)| Fault { play: Play::Telling, ..fault(moment, action.to_owned()) }),
        );
    }
    faults
}

/// Puts them into an order that a seed decides.
fn shuffle(faults: &mut [Fault], mut seed: u64) {
    for last in (1..faults.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        faults.swap(last, (seed >> 33) as usize % (last + 1));
    }
}
