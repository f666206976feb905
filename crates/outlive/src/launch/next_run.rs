//! The next run of a job that is started again by itself: made by the program that its keeper starts at the end, with its environment.
//!
//! However often it is asked for, one run is made: under the lock of the job's name it is looked for first.
//!
//! The process beside a job has its run followed by another in the same way: it asks the keeper, and may be killed after that.

use std::time::{Duration, Instant};

use outlive_core::control::{self, ENDING};
use outlive_core::duration::format_duration;
use outlive_core::event::Kind;
use outlive_core::file;
use outlive_core::id::{JobId, Nonce};
use outlive_core::outcome::{Cause, Outcome};
use outlive_core::restart::{Next, Rerun};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point, Replacing};
use outlive_sys::{clock, durable, random};
use serde::{Deserialize, Serialize};

use crate::control::{Caller, ControlError, Kill};
use crate::failure::chain;
use crate::job::Job;
use crate::launch::request::Request;
use crate::launch::start::StartError;
use crate::store::Store;

/// How long the next run is waited for: what a run has left behind has its grace, and may be asked to end first.
const MAKING_LIMIT: Duration = Duration::from_secs(30);

/// A next run is usually made in some milliseconds; a busy machine may need longer.
const USUAL_LIMIT: Duration = Duration::from_secs(1);

/// How many keepers may die before they have the job; what ends one may end them all.
const ATTEMPTS: u32 = 5;

/// How often to look whether it was made.
const LOOK: Duration = Duration::from_millis(5);

/// What became of the next run.
#[derive(Debug)]
pub enum NextRun {
    /// It is in the store, and its keeper waits until it may start.
    Made(Job),
    /// There is one.
    Already,
    /// None is to follow, and the job says why.
    GivenUp(String),
}

/// Why it is not known what follows; to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum NextRunError {
    /// The store has no such job.
    #[error("there is no job {0} with this nonce")]
    NotFound(JobId),
    /// The job has not ended, or is not to be started again.
    #[error("no run is to follow {0}")]
    Unwanted(JobId),
    /// Another program starts or restarts the job, or the store cannot be used.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The file that says why no run follows.
#[derive(Serialize, Deserialize)]
struct GaveUp {
    why: String,
    #[serde(rename = "at_us")]
    at: Timestamp,
}

/// What the next run is made from that the process beside a job asks for: the contents of the file `next_run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replacement {
    /// Why it follows: `a.py changed`.
    pub(crate) because: Option<String>,
    /// When it may start, and what it has from the runs before.
    pub(crate) rerun: Rerun,
}

impl Store {
    /// Makes the run that follows a job which has ended by itself, with the caller's environment; unless there is one. The keeper of
    /// the new run waits until it may start.
    ///
    /// # Durability
    ///
    /// When this returns, the run is in the store, or the reason why there is none is.
    ///
    /// # Errors
    ///
    /// If the job has not ended or is not to be followed, or another program holds its name at the moment.
    pub fn make_next_run(&self, id: &JobId, nonce: Nonce) -> Result<NextRun, NextRunError> {
        let job = self.find_exactly(id, nonce).ok_or_else(|| NextRunError::NotFound(id.clone()))?;
        let options = &job.spec().options;
        if options.schedule.is_set() && job.state(self).status == Status::Queued {
            let _held = self.try_lock_name(job.session(), job.name().unwrap_or(id.as_str()))?;
            return self.plan_again(&job).map(|()| NextRun::Already);
        }
        let outcome = job.records().0.ok_or_else(|| NextRunError::Unwanted(id.clone()))?;
        // The keeper removes it where the job was stopped after that.
        let is_killed = matches!(outcome.cause, Cause::Kill { .. });
        let replacement = is_killed.then(|| job.replacement()).flatten();
        if replacement.is_none()
            && !options.restart.is_wanted_after(&outcome)
            && !options.schedule.is_wanted_after(&outcome)
        {
            return Err(NextRunError::Unwanted(id.clone()));
        }
        let _held = self.try_lock_name(job.session(), job.name().unwrap_or(id.as_str()))?;
        let failed = |error| StartError::Store(self.jobs(), error);
        let latest = self.latest_run(&job).map_err(failed)?;
        let is_followed = latest.as_ref().is_some_and(|latest| !self.was_cut_short(latest));
        if is_followed || latest.as_ref().unwrap_or(&job).gave_up().is_some() {
            return Ok(NextRun::Already);
        }
        let because = replacement.as_ref().and_then(|replacement| replacement.because.clone());
        let (rerun, planned) = match (options.schedule.is_set(), replacement) {
            (true, _) => match self.plan_next(&job) {
                Some(planned) => (Rerun::default(), Some(planned)),
                None => return Ok(self.give_up(&job, "its schedule has no further time".to_owned())),
            },
            (false, Some(replacement)) => (replacement.rerun, None),
            (false, None) => match self.restart_after(&job, &outcome) {
                Next::Run(rerun) => (rerun, None),
                Next::GiveUp { tries, window_ms } => return Ok(self.give_up_after(&job, tries, window_ms)),
            },
        };
        let mut request = Request::again(&job);
        request.rerun = Some((rerun, job.spec().parent.clone()));
        (request.planned, request.because) = (planned, because);
        let mut previous = latest.map_or(id.clone(), |latest| latest.id().clone());
        let mut attempts = 0;
        loop {
            request.previous = Some(previous);
            attempts += 1;
            return match self.start(&request) {
                Ok(started) => Ok(NextRun::Made(started.job)),
                // What a keeper did not answer to may still start.
                Err(StartError::Silent(_)) => Ok(NextRun::Already),
                Err(StartError::NeverStarted { job: run, why }) if why.step == "keeper" => {
                    // A keeper that lives though its answer was lost has the job.
                    let made = self.latest_run(&job).map_err(failed)?.filter(|latest| *latest.id() == run);
                    if made.is_some_and(|made| !self.is_soon_cut_short(&made)) {
                        return Ok(NextRun::Already);
                    }
                    if attempts == ATTEMPTS {
                        return Ok(
                            self.give_up(&job, "it cannot be started again: its keepers die".to_owned())
                        );
                    }
                    previous = run;
                    continue;
                }
                Err(error) => {
                    Ok(self.give_up(&job, format!("it cannot be started again: {}", chain(&error))))
                }
            };
        }
    }

    /// Decides by the restart policy what follows a run that ended so.
    fn restart_after(&self, job: &Job, outcome: &Outcome) -> Next {
        let bytes = random::bytes16();
        let chance = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let runtime_ms = outcome.runtime_ms.unwrap_or(0);
        // A run whose wait was cut short because files changed is a new beginning.
        let before = job.spec().rerun.as_ref().filter(|_| job.replacement().is_none());
        job.spec().options.restart.after(before, runtime_ms, clock::boot_us(), chance)
    }

    /// Tells whether the process that made a run, or its keeper, was killed before the keeper had the job.
    fn was_cut_short(&self, run: &Job) -> bool {
        let outcome = run.state(self).outcome;
        run.spec().rerun.is_some()
            && matches!(outcome.map(|outcome| outcome.cause), Some(Cause::NeverStarted(why)) if why.step == "keeper")
    }

    /// As [`Store::was_cut_short`], of a run whose keeper has closed its connection: the processes of a keeper that died free its locks
    /// a moment later.
    fn is_soon_cut_short(&self, run: &Job) -> bool {
        let until = Instant::now() + USUAL_LIMIT;
        while !self.was_cut_short(run) {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Returns the run that followed a job by itself. Waits for it while it is being made; `None` if none follows.
    pub fn next_run_of(&self, job: &Job) -> Option<Job> {
        self.next_run_within(job, MAKING_LIMIT)
    }

    /// As [`Store::next_run_of`], for what is told beside something else: it is waited for no longer than a next run usually takes to be
    /// made.
    pub fn next_run_soon(&self, job: &Job) -> Option<Job> {
        self.next_run_within(job, USUAL_LIMIT)
    }

    fn next_run_within(&self, job: &Job, limit: Duration) -> Option<Job> {
        if !job.restarts_by_itself() {
            return None;
        }
        // A job that is followed is closed when its next run is in the store.
        let until = Instant::now() + limit;
        while job.state(self).is_lingering() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        self.latest_run(job).ok()?.filter(|next| next.spec().rerun.is_some())
    }

    /// Returns the live run that follows a job which has ended: made by itself, or by a program that restarts it at the moment. Waits for it
    /// while it is being made; `None` if none follows.
    pub fn run_after(&self, job: &Job) -> Option<Job> {
        if let Some(next) = self.next_run_of(job) {
            return Some(next);
        }
        // The process that restarts it has this until the next run is there.
        let _held = self.lock_name(job.session(), job.name()?).ok()?;
        let latest = self.latest_run(job).ok()?;
        latest.filter(|latest| latest.state(self).is_live())
    }

    /// Finds the run that outlive itself made after a job.
    pub(crate) fn run_made_after(&self, job: &Job) -> Option<Job> {
        if !job.restarts_by_itself() {
            return None;
        }
        let latest = self.latest_run(job).ok()??;
        latest.spec().rerun.is_some().then_some(latest).filter(|latest| latest.state(self).is_live())
    }

    /// Lets no run follow one that was cut short while it was made, because the job is to be stopped; returns the one that has followed
    /// meanwhile.
    pub(crate) fn run_made_anew(&self, job: &Job) -> Option<Job> {
        if !job.restarts_by_itself() {
            return None;
        }
        let latest = self.latest_run(job).ok()?;
        let latest = latest.as_ref().unwrap_or(job);
        if !self.was_cut_short(latest) {
            return None;
        }
        let _held = self.lock_name(job.session(), job.name().unwrap_or(job.id().as_str())).ok()?;
        let next = self.run_made_after(latest);
        if next.is_none() {
            self.give_up(latest, "it was stopped".to_owned());
        }
        next
    }

    /// Notes that so many restarts within the window were too many.
    pub(crate) fn give_up_after(&self, job: &Job, tries: u64, window_ms: u64) -> NextRun {
        let restarts = if tries == 1 { "restart" } else { "restarts" };
        self.give_up(job, format!("{tries} {restarts} within {}", format_duration(window_ms)))
    }

    /// Replaces a job with another run because the process beside it has seen a reason to; `false` if it could not be, and still runs: what
    /// is left of it may be gone at the next try.
    ///
    /// The keeper ends the job and lets the run follow, so that this process may be killed at any moment.
    pub(crate) fn replace_by_itself(&self, job: &Job, replacement: Replacement, by: &str) -> bool {
        let mut request = Request::again(job);
        if self.check_again(&request).is_err() {
            return false;
        }
        match fault::around(Point::ReplaceAsk, || self.ask_to_replace(job, &replacement, by)) {
            Ok(()) | Err(ControlError::Ended(_)) => return true,
            Err(ControlError::Refused { code, .. }) if code == ENDING => return true,
            // A keeper of an earlier version, or none.
            Err(_) => {}
        }
        request.because = replacement.because;
        request.rerun = Some((replacement.rerun, job.spec().parent.clone()));
        let kill = Kill { by: by.to_owned(), ..Kill::default() };
        match self.replace_by(Caller::Companion, job, request, &kill) {
            Ok(_) => true,
            Err(_) if !job.state(self).status.has_ended() => false,
            Err(error) => {
                self.give_up(job, format!("it cannot be started again: {}", chain(&error)));
                true
            }
        }
    }

    fn ask_to_replace(&self, job: &Job, replacement: &Replacement, by: &str) -> Result<(), ControlError> {
        let next_run = serde_json::to_vec(replacement).unwrap_or_default();
        let request = control::Request::Replace { by: by.to_owned(), next_run };
        self.ask_to_accept(job, &self.live_state(job)?, &request)
    }

    fn give_up(&self, job: &Job, why: String) -> NextRun {
        let record = GaveUp { why: why.clone(), at: Timestamp(clock::wall_us()) };
        let mut bytes = serde_json::to_vec(&record).unwrap_or_default();
        bytes.push(b'\n');
        // On a full disk the job is as if it had no policy: it has ended, and none follows.
        job.dir().and_then(|dir| durable::replace(Replacing::GAVE_UP, dir, file::GAVE_UP, &bytes)).ok();
        self.append_event_of(Appending::GAVE_UP_EVENT, job, Kind::GaveUp);
        NextRun::GivenUp(why)
    }
}

impl Job {
    /// Returns what the process beside it has asked for in its place.
    fn replacement(&self) -> Option<Replacement> {
        serde_json::from_slice(&durable::read(self.dir().ok()?, file::NEXT_RUN).ok()?).ok()
    }

    /// Returns why no run follows by itself, if that was decided.
    pub(crate) fn gave_up(&self) -> Option<String> {
        if !self.restarts_by_itself() {
            return None;
        }
        let bytes = durable::read(self.dir().ok()?, file::GAVE_UP).ok()?;
        serde_json::from_slice::<GaveUp>(&bytes).ok().map(|record| record.why)
    }
}
