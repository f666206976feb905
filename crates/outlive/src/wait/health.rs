//! Health of a job: whether it goes on working once it is ready.
//!
//! The prober checks it at intervals for as long as the job runs. What it found last is in the job's file `health`; while the job is
//! unhealthy it is not ready either. If the prober is killed, the next front end that reads the job starts another, which goes on from
//! what is in the file.

use std::io;
use std::time::{Duration, Instant};

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::health::HealthThen;
use outlive_core::options::Health;
use outlive_core::restart::{Next, RestartWhen};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{Appending, Replacing};
use outlive_sys::poll;
use outlive_sys::ports::Listeners;
use outlive_sys::watch::Watch;
use outlive_sys::{clock, durable, random, stamp};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::job::state::State;
use crate::launch::next_run::Replacement;
use crate::launch::request::RequestError;
use crate::output::Output;
use crate::output::scan::Scanner;
use crate::output::search::pattern;
use crate::store::Store;
use crate::wait::command::CommandCheck;
use crate::wait::http::HttpAddress;
use crate::wait::ready::ReadyRecord;

/// The longest that one check may take, where the interval is longer.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// How often to look where the kernel does not tell of changes.
const LOOK: Duration = Duration::from_secs(1);

/// The content of the file `health`; without it the job is healthy, as far as is known.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct HealthRecord {
    format: u32,
    /// Why it is unhealthy; none: it is healthy again.
    why: Option<String>,
    #[serde(rename = "at_us")]
    at: Timestamp,
    /// Since when it was ready, to be so again.
    #[serde(default)]
    ready: Option<ReadyRecord>,
}

/// Validates conditions before a job is started with them.
pub(crate) fn check(health: &Health) -> Result<(), RequestError> {
    if let Some(url) = &health.http {
        url.parse::<HttpAddress>()?;
    }
    if let Some(text) = &health.line {
        pattern(text, false)?;
    }
    match health.is_checked() || *health == Health::default() {
        true => Ok(()),
        false => Err(RequestError::NothingHealthy),
    }
}

impl Job {
    /// Returns why the job is unhealthy; `None` if it is not, or nothing says when it would be.
    pub fn unhealthy(&self) -> Option<String> {
        self.health_record().and_then(|record| record.why)
    }

    /// Tells whether a check of its health has succeeded, and none has failed too often since.
    pub fn is_healthy(&self) -> bool {
        self.health_record().is_some_and(|record| record.why.is_none())
    }

    fn health_record(&self) -> Option<HealthRecord> {
        if !self.spec().options.health.is_checked() {
            return None;
        }
        serde_json::from_slice(&durable::read(self.dir().ok()?, file::HEALTH).ok()?).ok()
    }

    fn write_health(&self, why: Option<String>, ready: Option<ReadyRecord>) -> io::Result<()> {
        let at = Timestamp(clock::wall_us());
        let record = HealthRecord { format: outlive_core::FORMAT, why, at, ready };
        let mut bytes = serde_json::to_vec(&record)?;
        bytes.push(b'\n');
        durable::replace(Replacing::HEALTH, self.dir()?, file::HEALTH, &bytes)
    }
}

impl Store {
    /// Waits while a job is queued.
    pub(crate) fn wait_begun(&self, job: &Job) {
        let watch = Watch::for_replaced(job.path());
        let pause = (!watch.is_pushed()).then_some(LOOK);
        loop {
            watch.clear();
            if job.state(self).status != Status::Queued {
                return;
            }
            if poll::any_readable(watch.fd(), pause).is_err() {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Checks the health of a job until it has ended or is restarted.
    pub(crate) fn check_health(&self, job: &Job) {
        let health = &job.spec().options.health;
        let interval = Duration::from_millis(health.interval_ms());
        let mut check = Check::new(job, health, interval.min(CHECK_LIMIT));
        let mut failures = if job.unhealthy().is_some() { health.failures() } else { 0 };
        // The first check is at once, for those that wait for it; that it fails does not count. What is to be said in each interval
        // has not been said yet.
        let mut is_first = job.health_record().is_none() && health.line.is_none() && !health.notify;
        let mut next = Instant::now() + if is_first { Duration::ZERO } else { interval };
        loop {
            if !self.sleep_while_live(job, next) {
                return;
            }
            next = Instant::now() + interval;
            let state = job.state(self);
            // What is paused answers nothing, and is not ill; nor is what goes on only now.
            if state.meta.as_ref().is_some_and(|meta| meta.paused) {
                is_first = true;
                continue;
            }
            let Err(why) = check.run(self, job, &state) else {
                failures = 0;
                match job.health_record() {
                    Some(HealthRecord { why: Some(_), .. }) => self.note_healthy(job),
                    Some(_) => {}
                    None => drop(job.write_health(None, None)),
                }
                is_first = false;
                continue;
            };
            if std::mem::take(&mut is_first) {
                continue;
            }
            // It may have ended meanwhile.
            if job.state(self).status.has_ended() {
                return;
            }
            failures += 1;
            if failures < health.failures() {
                continue;
            }
            if job.unhealthy().is_none() {
                self.note_unhealthy(job, why);
            }
            if health.then == HealthThen::Restart && self.restart_unhealthy(job, &state) {
                return;
            }
        }
    }

    /// Sleeps until a moment; `false` if the job has ended before.
    pub(crate) fn sleep_while_live(&self, job: &Job, until: Instant) -> bool {
        let watch = Watch::for_replaced(job.path());
        loop {
            watch.clear();
            if job.state(self).status.has_ended() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            let pause = if watch.is_pushed() { left } else { left.min(LOOK) };
            if poll::any_readable(watch.fd(), Some(pause)).is_err() {
                std::thread::sleep(pause.min(LOOK));
            }
        }
    }

    /// Notes that a job is unhealthy, and no longer ready.
    fn note_unhealthy(&self, job: &Job, why: String) {
        // The record before `ready` goes: it keeps that from being noted again.
        if self.tell_health(job, Kind::Unhealthy) && job.write_health(Some(why), job.ready_record()).is_ok() {
            job.dir().and_then(|dir| durable::remove(dir, file::READY)).ok();
        }
    }

    /// Notes that it is healthy again, and ready if it was.
    fn note_healthy(&self, job: &Job) {
        if !self.tell_health(job, Kind::Healthy) {
            return;
        }
        // In this order: a crash in between leaves it unhealthy, which the next prober finds. What it was given up for is over.
        job.dir().and_then(|dir| durable::remove(dir, file::GAVE_UP)).ok();
        if let Some(ready) = job.health_record().and_then(|record| record.ready) {
            job.write_ready(&ready);
        }
        job.write_health(None, None).ok();
    }

    /// Writes the event. It comes first: after a crash it may be told twice, but never not at all.
    fn tell_health(&self, job: &Job, kind: Kind) -> bool {
        let event = Event::new(kind, job.id(), job.spec().nonce, Timestamp(clock::wall_us()));
        self.append_event(Appending::HEALTH_EVENT, job.session(), &event)
    }

    /// Restarts an unhealthy job as its restart policy says; `false` if it is not to be restarted any more.
    fn restart_unhealthy(&self, job: &Job, state: &State) -> bool {
        if job.gave_up().is_some() {
            return false;
        }
        let bytes = random::bytes16();
        let chance = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let policy = job.spec().options.restart;
        let runtime_ms = state.runtime_ms().unwrap_or(0);
        let rerun = match policy.after(job.spec().rerun.as_ref(), runtime_ms, clock::boot_us(), chance) {
            Next::Run(rerun) => rerun,
            Next::GiveUp { tries, window_ms } => {
                self.give_up_after(job, tries, window_ms);
                return false;
            }
        };
        let because = job.unhealthy().map(|why| format!("it was unhealthy: {why}"));
        self.replace_by_itself(job, Replacement { because, rerun }, "its health check")
    }
}

impl Job {
    /// Tells whether outlive may start another run of it without being asked.
    pub(crate) fn restarts_by_itself(&self) -> bool {
        let options = &self.spec().options;
        options.restart.when != RestartWhen::No
            || options.schedule.is_set()
            || options.health.then == HealthThen::Restart
            || !self.spec().restart_on_change.is_empty()
    }
}

/// Returns what reads the lines that a job prints from now on.
fn new_lines(job: &Job) -> Option<Scanner> {
    let printed = Output::open(job).ok()?.line_count();
    Scanner::new(job, Some(printed)).ok()
}

/// Returns when a job last said on its socket that it goes on working, in nanoseconds since 1970; 0 if it said that it does not.
fn said_ns(job: &Job) -> Option<i128> {
    stamp::modified_ns(job.dir().ok()?, file::NOTIFY).ok()
}

/// What is checked.
struct Check {
    port: Option<u16>,
    http: Option<HttpAddress>,
    command: Option<CommandCheck>,
    /// The pattern of a line, and what was printed since the last check.
    line: Option<(Regex, Option<Scanner>)>,
    /// It is to say so itself; when it had last done so at the last check.
    said: Option<Option<i128>>,
    limit: Duration,
}

impl Check {
    fn new(job: &Job, health: &Health, limit: Duration) -> Self {
        Self {
            port: health.port,
            http: health.http.as_ref().and_then(|url| url.parse().ok()),
            command: health.command.as_ref().map(|line| CommandCheck::new(job, line)),
            line: health
                .line
                .as_ref()
                .and_then(|text| pattern(text, false).ok())
                .map(|text| (text, new_lines(job))),
            said: health.notify.then(|| said_ns(job)),
            limit,
        }
    }

    /// Checks once; the error says what does not hold.
    fn run(&mut self, store: &Store, job: &Job, state: &State) -> Result<(), String> {
        if let Some(port) = self.port {
            let listened = job.tree(store, state).map(|tree| tree.ports(&mut Listeners::new()));
            if !listened.iter().flatten().any(|listened| listened.port == port) {
                return Err(format!("nothing of it listens on port {port}"));
            }
        }
        if let Some(address) = &self.http {
            match address.ask() {
                Ok(status) if status < 400 => {}
                Ok(status) => return Err(format!("{} answers with {status}", address.as_str())),
                Err(error) => return Err(format!("{} does not answer: {error}", address.as_str())),
            }
        }
        if let Some(before) = &mut self.said {
            let said = said_ns(job);
            if said == Some(0) {
                return Err("it said WATCHDOG=trigger on $NOTIFY_SOCKET".to_owned());
            }
            if std::mem::replace(before, said) == said {
                return Err("it has not said WATCHDOG=1 on $NOTIFY_SOCKET".to_owned());
            }
        }
        if let Some((pattern, scanner)) = &mut self.line {
            *scanner = scanner.take().or_else(|| new_lines(job));
            let Some(scanner) = scanner else { return Err("its output cannot be read".to_owned()) };
            let mut has_matched = false;
            // Each look ends with the first line that matches.
            while let Ok(Some(_)) =
                scanner.look(Instant::now(), true, |text| pattern.is_match(text).then_some(()))
            {
                has_matched = true;
            }
            if !has_matched {
                return Err(format!("no line matches /{pattern}/"));
            }
        }
        self.command.as_ref().map_or(Ok(()), |command| command.run(self.limit))
    }
}
