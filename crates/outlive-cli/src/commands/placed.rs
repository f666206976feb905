//! `outlive placed`: begins a job that an engine has placed on this node, and waits for its end. The engine's script becomes this; it is
//! not for people.
//!
//! It looks now and then whether the engine still has the job here. A job whose place was taken back is ended, and one whose node cannot
//! reach the engine too, after `--cutoff`.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{Allocation, Job, Kill, Store};
use outlive_sys::poll;
use outlive_sys::signal::{Caught, Signal};

use crate::args::Placed;
use crate::commands::on_exit::take_up;
use crate::failure::Failure;

/// How often to look whether the job has ended.
const LOOK: Duration = Duration::from_millis(200);

/// How often to ask the engine: seldom, for it has many to answer.
const ASK: Duration = Duration::from_secs(60);

/// How long a job that is kept on this node stays readable in its place after its end: the steps of those who follow it end with the place.
const FOLLOWED: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &Placed) -> Result<ExitCode, Failure> {
    let (store, id, nonce) = take_up("placed", &arguments.of)?;
    // Before the job: a signal that comes at once is for it.
    let signals = Caught::new(&[Signal::TERM, Signal::INT, Signal::HUP])
        .map_err(|error| Failure::other("placed", &error))?;
    let placed = match arguments.given {
        true => store.place_given(&given()?, &id, nonce),
        false => store.place(&id, nonce),
    };
    let job = placed.map_err(|error| Failure::other("placed", &error))?;
    let mut watch = Watch::new(&job);
    loop {
        // A wait that fails is only shorter.
        poll::readable(signals.as_fd(), Some(LOOK)).ok();
        let state = job.state(&store);
        if !state.is_live() {
            store.leave_place(&job);
            if arguments.given {
                std::thread::sleep(FOLLOWED);
            }
            let code = state.exit_code().and_then(|code| u8::try_from(code).ok());
            return Ok(code.map_or(ExitCode::FAILURE, ExitCode::from));
        }
        let by = match signals.next() {
            Some(signal) => Some(format!("slurm ({})", signal.name())),
            None => watch.lost(&store, &job),
        };
        if let Some(by) = by {
            // What is left of it is looked at again.
            store.kill(&job, &Kill { by, ..Kill::default() }).ok();
        }
    }
}

/// Reads what the engine's script has brought along.
fn given() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes).map_err(|error| Failure::other("placed", &error))?;
    Ok(bytes)
}

/// Whether the engine still has the job here.
struct Watch {
    cutoff: Option<Duration>,
    every: Duration,
    next: Instant,
    /// When the engine last said yes.
    held: Instant,
    /// How often in a row it said no.
    denials: u32,
}

impl Watch {
    fn new(job: &Job) -> Self {
        let cutoff = job.spec().placement.as_ref().and_then(|placement| placement.cutoff_ms);
        let cutoff = cutoff.map(Duration::from_millis);
        let every = cutoff.map_or(ASK, |cutoff| (cutoff / 4).clamp(Duration::from_secs(1), ASK));
        Self { cutoff, every, next: Instant::now() + every, held: Instant::now(), denials: 0 }
    }

    /// Asks, if it is time, and returns why the job has lost its place.
    fn lost(&mut self, store: &Store, job: &Job) -> Option<String> {
        if Instant::now() < self.next {
            return None;
        }
        let allocation = store.allocation(job);
        self.next = Instant::now() + self.every;
        match allocation {
            Allocation::Held => (self.held, self.denials) = (Instant::now(), 0),
            Allocation::Lost => self.denials += 1,
            Allocation::Unknown => {}
        }
        // Twice: an engine that has just begun the job, or was just restarted, may not know it yet.
        if self.denials > 1 {
            return Some("outlive, because slurm has taken its place back".to_owned());
        }
        let cutoff = self
            .cutoff
            .filter(|cutoff| allocation == Allocation::Unknown && self.held.elapsed() > *cutoff)?;
        Some(format!("outlive, because its node has not reached slurm for {} s", cutoff.as_secs()))
    }
}
