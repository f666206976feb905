//! Jobs with a schedule: when the next run comes, by the calendar of this machine.
//!
//! The keeper of such a job sleeps until the time in the job's file `planned`. That is written here: by the front end that starts the
//! job, by the program that a keeper starts at the end of a run, and by the same program where a keeper woke too late or its clock was
//! set. See `docs/design/schedules.md`.

use std::path::Path;

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::health::HealthThen;
use outlive_core::options::{JobOptions, Schedule};
use outlive_core::outcome::Cause;
use outlive_core::restart::RestartWhen;
use outlive_core::schedule::{Now, Planned, Ran, TimeZone, Told, Zone};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{Appending, Replacing};
use outlive_sys::local_time::LocalTime;
use outlive_sys::{clock, durable};

use crate::job::Job;
use crate::job::state::State;
use crate::launch::next_run::NextRunError;
use crate::launch::request::{Request, RequestError};
use crate::launch::restart::Restarted;
use crate::launch::start::StartError;
use crate::store::Store;

/// The shortest interval: what is to come more often is a loop of the command's own.
const SHORTEST_MS: u64 = 1000;

/// Where the files of time zones are, unless `TZDIR` says otherwise.
const ZONES: &str = "/usr/share/zoneinfo";

/// The time zone of this process: `TZ` of its environment, else that of the machine.
struct Local;

impl Zone for Local {
    fn offset(&self, seconds: i64) -> i64 {
        LocalTime::offset(seconds)
    }
}

/// Returns the time zone of a job: `TZ` of its environment, else that of the machine. What is no time zone is UTC.
fn zone_of(request: &Request) -> Box<dyn Zone> {
    let of_job = request.variable("TZ");
    if of_job == std::env::var_os("TZ") {
        return Box::new(Local);
    }
    let read = |path: &Path| std::fs::read(path).ok().and_then(|file| TimeZone::from_file(&file));
    let zone = match of_job.as_ref().map(|name| name.to_string_lossy()) {
        None => read(Path::new("/etc/localtime")),
        Some(name) => {
            let name = name.strip_prefix(':').unwrap_or(&name);
            let dir = std::env::var_os("TZDIR").unwrap_or_else(|| ZONES.into());
            read(&Path::new(&dir).join(name)).or_else(|| TimeZone::from_rule(name))
        }
    };
    Box::new(zone.unwrap_or_default())
}

/// Returns the moment, by both clocks.
pub(crate) fn now() -> Now {
    Now::new(clock::wall_us(), clock::boot_us())
}

/// Validates a schedule before a job is started with it.
pub(crate) fn check(options: &JobOptions) -> Result<(), RequestError> {
    let refused = |why: &str| Err(RequestError::Schedule(why.to_owned()));
    let schedule = &options.schedule;
    if let Some(why) = schedule.contradiction() {
        return refused(why);
    }
    if !schedule.is_set() {
        return Ok(());
    }
    if options.restart.when != RestartWhen::No || options.health.then == HealthThen::Restart {
        return refused(
            "a job with a schedule is run again by its schedule: leave out --restart and --health-then restart",
        );
    }
    if schedule.every_ms.is_some_and(|every| every < SHORTEST_MS) {
        return refused("an interval is at least 1s");
    }
    schedule.times().map(drop).map_err(|error| RequestError::Schedule(error.to_string()))
}

/// Plans the first run of a job; `None` for a job without a schedule.
pub(crate) fn first(schedule: &Schedule, request: &Request) -> Result<Option<Planned>, StartError> {
    let wrong = |why: String| StartError::from(RequestError::Schedule(why));
    let Some(times) = schedule.times().map_err(|error| wrong(error.to_string()))? else { return Ok(None) };
    let planned = Planned::first(&times, now(), &*zone_of(request));
    planned.map(Some).ok_or_else(|| wrong("the schedule has no time that could come".to_owned()))
}

impl Job {
    /// Returns when a run of a schedule is or was to begin.
    pub(crate) fn planned(&self) -> Option<Planned> {
        if !self.spec().options.schedule.is_set() {
            return None;
        }
        Planned::parse(&durable::read(self.dir().ok()?, file::PLANNED).ok()?)
    }

    /// Returns the wall-clock time at which the next run of a live job begins by its schedule: this one, while it waits.
    pub(crate) fn next_run_at(&self, state: &State) -> Option<Timestamp> {
        let planned = self.planned().filter(|_| state.is_live() && !state.is_lingering())?;
        let is_waiting = state.status == Status::Queued;
        let due_us = if is_waiting { planned.due_us } else { planned.until_us? };
        let left_us = Planned { due_us, ..planned }.left_us(now());
        Some(Timestamp(clock::wall_us() + left_us))
    }
}

/// Tells whether a job has a schedule, and its keeper came to have it: one whose starter was told that it was not started is not to go on.
fn is_accepted(job: &Job, state: &State) -> bool {
    let is_kept = state.meta.is_some() || job.spec().rerun.is_some();
    is_kept && job.spec().options.schedule.is_set() && state.newer.is_empty()
}

/// Tells whether a job ended only because its keeper and guard, or its machine, did.
fn is_lost(state: &State) -> bool {
    state.outcome.as_ref().is_some_and(|outcome| match &outcome.cause {
        Cause::Lost { .. } => true,
        Cause::NeverStarted(never) => never.step == "keeper",
        _ => false,
    })
}

impl Store {
    /// Plans the run that follows one that has ended, and tells what was left out; `None` if there is no time any more.
    pub(crate) fn plan_next(&self, job: &Job) -> Option<Planned> {
        let schedule = &job.spec().options.schedule;
        let times = schedule.times().ok()??;
        let zone = zone_of(&Request::again(job));
        let is_after_boot = self.host().boot != job.host().boot;
        let planned = match job.planned() {
            Some(planned) if is_after_boot => planned.after_boot(now()),
            Some(planned) => planned,
            None => return Planned::first(&times, now(), &*zone),
        };
        let meta = job.meta();
        let began = meta.and_then(|meta| Some((meta.started?, meta.started_boot_us?)));
        let began = began.map(|(wall, boot)| Now::new(wall.0, boot));
        // One that was lost while it slept is planned for the same time: its run has not been.
        if began.is_none()
            && !matches!(job.records().0.map(|outcome| outcome.cause), Some(Cause::NeverStarted(never)) if never.step != "keeper")
        {
            return Some(planned);
        }
        let (next, told) = match is_after_boot {
            // It ended with the machine: what came while that was off was missed, and came beside no run.
            true => planned.following(&times, now(), &*zone)?.again(schedule, &times, now(), &*zone)?,
            false => {
                let ran = Ran { planned: &planned, began };
                Planned::next(schedule, &times, ran, now(), &*zone)?
            }
        };
        told.iter().for_each(|told| self.tell_planned(job, told));
        Some(next)
    }

    /// Looks again at the time of a run that has not begun, because it is over or the clock was set.
    pub(crate) fn plan_again(&self, job: &Job) -> Result<(), NextRunError> {
        let failed = |error| NextRunError::Start(StartError::Store(self.jobs(), error));
        let schedule = &job.spec().options.schedule;
        let (Some(planned), Ok(Some(times))) = (job.planned(), schedule.times()) else { return Ok(()) };
        let zone = zone_of(&Request::again(job));
        let Some((next, told)) = planned.again(schedule, &times, now(), &*zone) else { return Ok(()) };
        if next == planned {
            return Ok(());
        }
        // The event first: after a crash it may be told twice, but never not at all.
        told.iter().for_each(|told| self.tell_planned(job, told));
        let dir = job.dir().map_err(failed)?;
        durable::replace(Replacing::PLANNED, dir, file::PLANNED, &next.to_bytes()).map_err(failed)
    }

    fn tell_planned(&self, job: &Job, told: &Told) {
        let kind = if told.is_overlap { Kind::Overlapped } else { Kind::Missed };
        let since = LocalTime::at(told.since_us.div_euclid(1_000_000)).map_or_else(
            || Timestamp(told.since_us.max(0).cast_unsigned()).to_string(),
            |at| format!("{}-{:02}-{:02} {:02}:{:02}", at.year, at.month, at.day, at.hour, at.minute),
        );
        let event = Event {
            text: Some(told.sentence(&since)),
            skipped: Some(told.count - told.made_up).filter(|count| *count > 0),
            ..Event::new(kind, job.id(), job.spec().nonce, Timestamp(clock::wall_us()))
        };
        self.append_event(Appending::PLAN_EVENT, job.session(), &event);
    }

    /// Starts the program that lets a schedule go on whose keeper and guard died, or whose machine was restarted.
    pub(crate) fn revive_schedule(&self, job: &Job, state: &State) {
        if is_lost(state) && is_accepted(job, state) {
            let nonce = job.spec().nonce.to_string();
            self.start_helper(&["next-run", job.id().as_str(), &nonce]).ok();
        }
    }

    /// Starts each job anew that is always to be started again and ended only because its machine was restarted. Returns the new runs.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn revive_services(&self) -> std::io::Result<Vec<Job>> {
        let mut revived = Vec::new();
        let jobs = self.list(None)?.jobs;
        for job in jobs.iter().filter(|job| job.spec().options.restart.when == RestartWhen::Always) {
            let state = job.state(self);
            if is_lost(&state)
                && self.host().boot != job.host().boot
                && self.host().machine == job.host().machine
                && self.latest_run(job)?.is_none()
                && let Ok(Restarted::Started(started)) = self.restart(job, None, "outlive boot")
            {
                revived.push(started.job);
            }
        }
        Ok(revived)
    }

    /// Lets each schedule go on that came to an end only because its machine was restarted or its keeper and guard died. Returns the
    /// jobs whose next run was made.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn revive_schedules(&self) -> std::io::Result<Vec<Job>> {
        let mut revived = Vec::new();
        let jobs = self.list(None)?.jobs;
        for job in jobs.iter().filter(|job| job.spec().options.schedule.is_set()) {
            let state = job.state(self);
            if is_lost(&state)
                && is_accepted(job, &state)
                && let Ok(crate::NextRun::Made(next)) = self.make_next_run(job.id(), job.spec().nonce)
            {
                revived.push(next);
            }
        }
        Ok(revived)
    }
}
