//! Jobs that an engine places: submitted here, begun on a node of its choice, ended by our own record.
//!
//! The intent is in the store before the engine hears of it, with a file `submitted`. The process that renames that decides: a node that begins the
//! job (`claimed`), or a front end that ends it before (`cancelled`). So no second copy is ever begun, whatever the engine starts again. A job
//! is known to the engine by its nonce; the engine's own number alone is never trusted.
//!
//! The starter holds a lock of that file, and so does the engine's command, until it is noted that the engine has the job. Where the lock
//! is free and nothing noted, both were killed before: the next front end that looks gives the job up.

mod asking;
mod on_node;
mod place;
mod slurm;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use outlive_core::file;
use outlive_core::outcome::{Cause, NeverStarted, WaitStatus};
use outlive_core::placement::{Placed, Placement};
use outlive_core::spec::Host;
use outlive_core::status::Status;
use outlive_sys::fault::{self, Point};
use outlive_sys::{durable, lock};

pub(crate) use self::asking::LastAsked;
use self::on_node::Ended;
pub use self::place::{LeftPlace, PlaceError};
pub use self::slurm::EngineError;
use self::slurm::{Look, Stage};
use crate::control::{Kill, Killed};
use crate::job::Job;
use crate::job::recovery::Found;
use crate::job::state::State;
use crate::launch::prepared::Prepared;
use crate::launch::request::Request;
use crate::launch::start::{StartError, Started};
use crate::store::Store;

/// How long a job that is being begun may take until it can be asked.
const BEGINNING: Duration = Duration::from_secs(10);

/// How long the engine may take to end a job that this machine cannot reach, beyond the job's own grace.
const ENDING: Duration = Duration::from_secs(30);

/// How long the lock of a submission is waited for: a front end that only looks holds it for an instant.
const CANCELLING: Duration = Duration::from_millis(200);

/// How often to look.
const LOOK: Duration = Duration::from_millis(50);

/// What a node knows of the place of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// The engine still has it here.
    Held,
    /// The engine has taken it back, or does not know it.
    Lost,
    /// The engine does not answer.
    Unknown,
}

impl Store {
    /// Hands a prepared job to its engine. Its locks are free from now on: the node takes them.
    pub(crate) fn submit(&self, prepared: Prepared, warning: Option<String>) -> Result<Started, StartError> {
        let Prepared { job, submitted, lock, done, .. } = prepared;
        drop((lock, done));
        // A command that cannot be run is as one that refuses.
        let unsubmitted = |error| EngineError::Command("sbatch", error);
        let submit = || Ok(submitted.as_ref().map(|submitted| slurm::submit(self, &job, submitted)));
        let taken = fault::step(Point::Submit, submit).map_err(unsubmitted);
        let taken = taken.and_then(|taken| taken.unwrap_or(Err(unsubmitted(io::ErrorKind::NotFound.into()))));
        let number = match taken {
            Ok(number) => number,
            Err(error) => {
                // If the engine took it all the same, its node finds no job, and starts nothing.
                self.withdraw(&job);
                return Err(error.into());
            }
        };
        let noted = job
            .dir()
            .and_then(|dir| fault::step(Point::EngineJobMake, || durable::create_new(dir, file::ENGINE_JOB)));
        match noted {
            // Without its number the job is found by its nonce all the same.
            Ok(mut file) => drop(fault::write_all(Point::EngineJobWrite, &mut file, number.as_bytes())),
            // Without the file it would count as one that no engine has: it is taken back, unless a node has begun it.
            Err(error) if job.cancel_submitted(Point::CancelRename).is_ok() => {
                slurm::cancel(&job).ok();
                self.withdraw(&job);
                return Err(StartError::Store(job.path().to_owned(), error));
            }
            Err(_) => {}
        }
        Ok(Started { job, pid: None, warning })
    }

    /// Asks the engine, once for all of them, about jobs that it has not begun or that run on other nodes: why they wait, and whether they
    /// are gone without a record of ours.
    pub fn ask_engine(&self, jobs: &mut [(&Job, &mut State)]) {
        let is_asked = |job: &Job, state: &State| {
            let is_unknown = state.status != Status::Running || state.is_elsewhere();
            job.spec().placement.is_some() && state.is_live() && is_unknown
        };
        let mut asked: Vec<_> = jobs.iter_mut().filter(|(job, state)| is_asked(job, state)).collect();
        if asked.is_empty() {
            return;
        }
        let names: Vec<String> = asked.iter().map(|(job, _)| slurm::name(job)).collect();
        let looked = slurm::look(&names);
        let mut ended = Ended::default();
        for (job, state) in &mut asked {
            let found = match &looked {
                Ok(found) => found.iter().find(|look| look.name == slurm::name(job)),
                Err(error) => {
                    state.waits_for = Some(format!("slurm, which does not answer: {error}"));
                    continue;
                }
            };
            **state = match job.node_store() {
                Some(_) => self.judged_on_node(job, state, found, &mut ended),
                None => self.judged(job, state, found),
            };
        }
        self.bring_home(ended, &mut asked);
    }

    /// Decides what the engine's word means for a job.
    fn judged(&self, job: &Job, state: &State, found: Option<&Look>) -> State {
        let waits_for = |text: String| State { waits_for: Some(text), ..state.clone() };
        match found {
            None => waits_for("slurm, which does not know it (any more)".to_owned()),
            // It has not looked at it yet.
            Some(Look { stage: Stage::Waits, reason, .. }) if reason == "None" => state.clone(),
            Some(Look { stage: Stage::Waits, reason, .. }) => waits_for(format!("slurm: {reason}")),
            // As its keeper says.
            Some(Look { stage: Stage::Runs, .. }) if state.status == Status::Running => state.clone(),
            Some(Look { stage: Stage::Runs, .. }) => waits_for("slurm begins it".to_owned()),
            // What goes on at a node that cannot be reached is not known.
            Some(Look { stage: Stage::Unsure, word, .. }) => waits_for(format!("slurm says {word}")),
            Some(Look { stage: Stage::Over, word, .. }) => {
                let detail = format!("slurm says {word}");
                let cancelled = job.cancel_submitted(Point::CancelRename);
                let cause = match &cancelled {
                    Ok(_) => never_queued(detail),
                    Err(_) if job.is_being_cancelled() => return waits_for(detail),
                    Err(_) => Cause::Lost { why: format!("{detail}, and its keeper left no record") },
                };
                // A keeper that lives holds the job's lock, and then nothing is written.
                self.recover_placed(job, cause)
            }
        }
    }

    fn recover_placed(&self, job: &Job, cause: Cause) -> State {
        job.recover(self, Found { cause, wait_status: WaitStatus::Unknown, is_closed: true, is_now: false })
    }

    /// Ends a job that no node has begun, or that a node runs which cannot be asked from here; `None` if its keeper is to be asked.
    pub(crate) fn kill_placed(&self, job: &Job, state: &State, kill: &Kill) -> Option<Killed> {
        job.spec().placement.as_ref()?;
        if job.node_store().is_some() && (state.status == Status::Queued || state.is_elsewhere()) {
            return self.kill_on_node(job, kill);
        }
        if state.status == Status::Queued
            && let Ok(cancelled) = job.cancel_submitted(Point::CancelRename)
        {
            self.recover_placed(job, Cause::Kill { by: kill.by.clone() });
            drop(cancelled);
            // One that stays in the engine's queue finds that it was cancelled.
            fault::step(Point::Cancel, || Ok(slurm::cancel(job).ok())).ok();
            return Some(Killed::default());
        }
        // A node has just begun it.
        let until = Instant::now() + BEGINNING;
        let mut state = job.state(self);
        while matches!(state.status, Status::Queued | Status::Starting) && Instant::now() < until {
            std::thread::sleep(LOOK);
            state = job.state(self);
        }
        if !state.is_elsewhere() && state.status == Status::Running {
            return None;
        }
        // Its own process there gets a signal from the engine, and ends it as its keeper would.
        if slurm::cancel(job).is_ok() {
            let grace = kill.grace.unwrap_or(Duration::from_millis(job.spec().options.grace_ms));
            let until = Instant::now() + grace + ENDING;
            while job.state(self).is_live() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        // A node that failed while it began it leaves no process, and the engine forgets it after a while.
        let is_forgotten = || slurm::look(&[slurm::name(job)]).is_ok_and(|found| found.is_empty());
        if job.unplaced().is_some() && is_forgotten() {
            self.recover_placed(job, Cause::Kill { by: kill.by.clone() });
        }
        (!job.state(self).is_live()).then(Killed::default)
    }

    /// Tells whether the engine still has this job under the number that it began with: then a step can be started beside it.
    pub fn has_place(&self, job: &Job) -> bool {
        let Some(placed) = job.placed() else { return false };
        let is_this = |look: &Look| look.stage == Stage::Runs && look.number == placed.engine_job;
        slurm::look(&[slurm::name(job)]).is_ok_and(|found| found.iter().any(is_this))
    }

    /// Asks, on a node, whether the engine still has this job here.
    pub(crate) fn allocation(&self, job: &Job) -> Allocation {
        let Some(Placed { engine_job, .. }) = job.placed() else { return Allocation::Unknown };
        match slurm::look(&[slurm::name(job)]) {
            Err(_) => Allocation::Unknown,
            Ok(found) => {
                let is_held = |look: &Look| look.stage == Stage::Runs && look.number == engine_job;
                if found.iter().any(is_held) { Allocation::Held } else { Allocation::Lost }
            }
        }
    }
}

fn never_queued(detail: String) -> Cause {
    Cause::NeverStarted(NeverStarted {
        step: "queue".into(),
        detail: Some(detail),
        ..NeverStarted::default()
    })
}

impl Request {
    /// Lets an engine decide where and when it is started.
    pub fn placed_by(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }
}

impl Job {
    /// Returns where its pids are valid: of a job that an engine placed, the node.
    pub(crate) fn host(&self) -> Cow<'_, Host> {
        match self.placed() {
            Some(placed) => Cow::Owned(placed.host),
            None => Cow::Borrowed(&self.spec().host),
        }
    }

    /// Returns where an engine has placed it.
    pub fn placed(&self) -> Option<Placed> {
        self.spec().placement.as_ref()?;
        serde_json::from_slice(&durable::read(self.dir().ok()?, file::PLACED).ok()?).ok()
    }

    /// Returns what the engine called it when it was submitted.
    pub(crate) fn engine_job(&self) -> Option<String> {
        let bytes = durable::read(self.dir().ok()?, file::ENGINE_JOB).ok()?;
        String::from_utf8(bytes).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Names the engine that places it, with its number there and its node.
    pub(crate) fn placed_by(&self) -> Option<String> {
        let engine = self.spec().placement.as_ref()?.engine.word();
        Some(match (self.placed(), self.engine_job()) {
            (Some(placed), _) => format!("{engine} {} on {}", placed.engine_job, placed.node),
            (None, Some(number)) => format!("{engine} {number}"),
            (None, None) => engine.to_owned(),
        })
    }

    /// Returns the status of a job that an engine has and no keeper; `None` once a node has begun it.
    pub(crate) fn unplaced(&self) -> Option<Status> {
        self.spec().placement.as_ref()?;
        let dir = self.dir().ok()?;
        let is_there = |name: &str| durable::open_ro(&dir, name).is_ok();
        if is_there(file::PLACED) {
            return None;
        }
        Some(if is_there(file::SUBMITTED) { Status::Queued } else { Status::Starting })
    }

    /// Ends it before any node has begun it; an error if one has, or it was ended before. What is returned is to be dropped when its
    /// outcome is written: until then no other front end says why it ended.
    fn cancel_submitted(&self, point: Point) -> io::Result<File> {
        let dir = self.dir()?;
        let submitted = durable::open_ro(&dir, file::SUBMITTED)?;
        // Held by the engine's command while it submits the job; then others may have to guess for a moment.
        lock::lock_within(&submitted, CANCELLING).ok();
        fault::step(point, || durable::rename(&dir, file::SUBMITTED, file::CANCELLED))?;
        Ok(submitted)
    }

    /// Tells whether a front end has cancelled it and is about to write down why.
    fn is_being_cancelled(&self) -> bool {
        let file = self.dir().and_then(|dir| durable::open_ro(dir, file::CANCELLED));
        lock::is_held(file.and_then(|file| lock::try_lock(file, lock::Kind::Shared)))
    }

    /// Gives it up if the program that was to submit it is gone, and the engine's command with it, before it was known that the engine has
    /// it; returns why. If the engine has it all the same, its node finds that it was given up, and starts nothing.
    pub(crate) fn give_up_unsubmitted(&self) -> Option<Cause> {
        let file = self.dir().and_then(|dir| durable::open_ro(dir, file::SUBMITTED));
        let is_free = file.and_then(|file| lock::try_lock(file, lock::Kind::Shared));
        // Looked at after the lock: the file is made before that is freed.
        if lock::is_held(is_free) || self.is_noted() {
            return None;
        }
        let _cancelled = self.cancel_submitted(Point::AbandonRename).ok()?;
        Some(self.why_cancelled())
    }

    /// Tells why a job ended that was cancelled, and whose front end died before it could say so.
    pub(crate) fn why_cancelled(&self) -> Cause {
        match self.is_noted() {
            true => Cause::Kill { by: "a program that was killed then".to_owned() },
            false => never_queued("its starter was killed before it knew that slurm has it".to_owned()),
        }
    }

    /// Tells whether it is known that the engine has it, or had it; also where that cannot be seen, for want of descriptors.
    fn is_noted(&self) -> bool {
        let file = self.dir().and_then(|dir| durable::open_ro(dir, file::ENGINE_JOB));
        !file.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Tells whether a front end has ended it before any node began it, and died before it could write that down.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.dir().is_ok_and(|dir| durable::open_ro(dir, file::CANCELLED).is_ok())
            && !self.is_being_cancelled()
    }
}
