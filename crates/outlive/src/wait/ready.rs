//! Readiness of a job: by a line of its output, a port that it listens on, an address that answers, a command, its own word.
//!
//! The condition is stored with the job. The first process that finds it met writes the event and the job's file `ready`. A
//! prober in the background checks from the start on. If it is killed, the next front end that reads the job starts another,
//! and a front end that waits for readiness checks by itself.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_core::event::{Event, Kind};
use outlive_core::file;
use outlive_core::id::{JobId, Nonce};
use outlive_core::lines::Line;
use outlive_core::options::Ready;
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point, Replacing};
use outlive_sys::{clock, durable, lock, ports};
use regex::bytes::Regex;
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::job::state::State;
use crate::launch::request::RequestError;
use crate::output::scan::Scanner;
use crate::output::search::pattern;
use crate::store::Store;
use crate::wait::command::CommandCheck;
use crate::wait::conditions::{Conditions, WaitError, WaitFor};
use crate::wait::http::{HttpAddress, HttpProbe};
use crate::wait::probe::PortProbe;

/// The longest that a line may take which tells whether a job is ready.
const CHECK_LIMIT: Duration = Duration::from_secs(5);

/// How long a prober waits for the mark that there is one.
const LOOK_LIMIT: Duration = Duration::from_millis(200);

/// The content of the file `ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadyRecord {
    /// When the condition was found met.
    #[serde(rename = "at_us")]
    pub at: Timestamp,
    /// Number of the line that matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_number: Option<u64>,
    /// The address that answers or listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The port that it listens on, where that has shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Validates a condition before a job is started with it.
pub(crate) fn check(ready: &Ready) -> Result<(), RequestError> {
    if let Some(text) = &ready.on {
        pattern(text, false)?;
    }
    if let Some(url) = &ready.http {
        url.parse::<HttpAddress>()?;
    }
    match ready {
        Ready { on: None, port: None, http: None, command: None, notify: false, .. } => {
            Err(RequestError::NothingReady)
        }
        _ => Ok(()),
    }
}

impl Job {
    /// Returns what a person is told of the address at which it is ready: that something listens does not say what it speaks.
    pub fn ready_place<'a>(&self, url: &'a str) -> &'a str {
        let ready = &self.spec().options.ready;
        let is_port = ready.port.is_some() && ready.http.is_none();
        url.strip_prefix("http://").filter(|_| is_port).unwrap_or(url)
    }

    /// Returns the record of readiness; `None` if the job is not ready, or has no condition.
    pub fn ready_record(&self) -> Option<ReadyRecord> {
        if !self.spec().can_be_ready() {
            return None;
        }
        let file = self.open_file(file::READY).ok()?;
        let text = durable::read_open(&file).unwrap_or_default();
        // The file may be empty, after a crash or on a full disk.
        let at = made_at(&file).unwrap_or(Timestamp(0));
        let made = ReadyRecord { at, line_number: None, url: None, port: None };
        Some(serde_json::from_slice(&text).unwrap_or(made))
    }

    /// Returns the record of readiness of a job that is still so: nothing says that of a live job any more whose port is closed.
    pub fn ready_now(&self, state: &State) -> Option<ReadyRecord> {
        let is_open = |record: &ReadyRecord| {
            state.status.has_ended() || state.is_elsewhere() || record.port.is_none_or(ports::is_taken)
        };
        self.ready_record().filter(is_open)
    }

    /// Records readiness, once. In a read-only store it is not recorded.
    fn mark_ready(&self, store: &Store, record: &ReadyRecord) {
        if self.open_file(file::READY).is_ok() {
            return;
        }
        // The event first: a crash in between causes a repeat, which readers drop. Without the event there is no mark, so that
        // the next process tries again.
        let ready = Event::new(Kind::Ready, self.id(), self.spec().nonce, record.at);
        let ready = Event { url: record.url.clone(), ..ready };
        if !store.append_event(Appending::READY_EVENT, self.session(), &ready) {
            return;
        }
        self.write_ready(record);
    }

    /// Writes the mark.
    pub(crate) fn write_ready(&self, record: &ReadyRecord) {
        // Whole at once: a reader that sees the mark sees the address, too.
        let mut text = serde_json::to_vec(record).unwrap_or_default();
        text.push(b'\n');
        self.dir().and_then(|dir| durable::replace(Replacing::READY, dir, file::READY, &text)).ok();
    }

    /// Tells whether a prober runs.
    fn is_probed(&self) -> bool {
        self.open_file(file::PROBE)
            .and_then(|held| lock::try_lock(&held, lock::Kind::Shared))
            .is_ok_and(|is_free| !is_free)
    }

    /// Returns the time left to become ready; `Some(None)` without a limit, `None` after it.
    pub(crate) fn ready_time_left(&self, state: &State) -> Option<Option<Duration>> {
        let Some(limit) = self.spec().ready().and_then(|ready| ready.timeout_ms) else {
            return Some(None);
        };
        let left = limit.saturating_sub(state.runtime_ms().unwrap_or(0));
        (left > 0).then_some(Some(Duration::from_millis(left)))
    }
}

fn made_at(file: &std::fs::File) -> Option<Timestamp> {
    let made = file.metadata().ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(u64::try_from(made.as_micros()).ok()?))
}

impl Store {
    /// Starts a prober for a job that can become ready and has none; for front ends that read the job.
    pub fn probe_in_passing(&self, job: &Job, state: &State) {
        let can_be_ready = || {
            job.spec().ready().is_some()
                && job.ready_time_left(state).is_some()
                && job.ready_record().is_none()
        };
        let is_wanted = !state.status.has_ended()
            && !state.is_elsewhere()
            && job.is_here(self)
            && (job.spec().options.health.is_checked() || job.needs_companion() || can_be_ready())
            && !job.is_probed();
        if is_wanted {
            self.start_prober(job);
        }
    }

    /// Starts a prober. If that fails, a front end that waits for readiness checks by itself.
    pub(crate) fn start_prober(&self, job: &Job) {
        // In a read-only store a prober can record nothing.
        let made = fault::step(Point::ProbeMake, || durable::create_new(job.dir()?, file::PROBE));
        if made.err().is_none_or(|error| error.kind() == io::ErrorKind::AlreadyExists) {
            self.start_helper(&["probe", job.id().as_str(), &job.spec().nonce.to_string()]).ok();
        }
    }

    /// Checks a job until it is ready, has ended, or its time to become ready is over; then its health, if that is to be checked, until it
    /// has ended. Meanwhile it passes on what another job prints, watches files, and asks the engine about its place, where there is such a
    /// thing. Returns at once if another prober runs, or the job is gone.
    ///
    /// # Errors
    ///
    /// If the kernel is out of memory.
    pub fn probe(&self, id: &JobId, nonce: Nonce) -> Result<(), WaitError> {
        let Ok(Some(job)) = self.open_job(id) else { return Ok(()) };
        let held = job.open_file(file::PROBE);
        // A front end that only looks whether there is one holds it for a moment, too.
        let is_ours = held.as_ref().is_ok_and(|held| lock::lock_within(held, LOOK_LIMIT).unwrap_or(false));
        let has_health = job.spec().options.health.is_checked();
        let is_placed = job.spec().placement.is_some();
        let is_asked = job.spec().ready().is_some() || has_health || job.needs_companion() || is_placed;
        if job.spec().nonce != nonce || !is_ours || !is_asked {
            return Ok(());
        }
        std::thread::scope(|scope| {
            let thread = || std::thread::Builder::new();
            // Where there is no thread, this process ends, and the keeper starts another.
            if let Some(from) = &job.spec().stdin_from {
                thread().spawn_scoped(scope, || self.feed(&job, from))?;
            }
            if !job.spec().restart_on_change.is_empty() {
                thread().spawn_scoped(scope, || self.restart_on_change(&job))?;
            }
            if is_placed {
                thread().spawn_scoped(scope, || self.keep_place(&job))?;
            }
            self.check(&job, has_health)
        })
    }

    /// Checks whether a job is ready, and then its health, for as long as there is something to check.
    fn check(&self, job: &Job, has_health: bool) -> Result<(), WaitError> {
        // Of a job that waits to be started there is nothing to look at.
        self.wait_begun(job);
        if job.spec().ready().is_some() && job.ready_record().is_none() && job.unhealthy().is_none() {
            let conditions = Conditions { ready: true, ..Conditions::default() };
            self.wait_for(&WaitFor { conditions, ..WaitFor::exits(std::slice::from_ref(job)) })?;
        }
        if has_health {
            self.check_health(job);
        }
        Ok(())
    }
}

/// Returns the first address in a line, without what ends a sentence or closes a bracket after it.
fn url_in(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let begin = ["http://", "https://"].iter().filter_map(|scheme| text.find(scheme)).min()?;
    let rest = &text[begin..];
    let is_outside =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    let url = &rest[..rest.find(is_outside).unwrap_or(rest.len())];
    let url = url.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}']);
    // A scheme alone leads nowhere.
    url.split_once("://").filter(|(_, host)| !host.is_empty()).map(|_| url.to_owned())
}

/// Checks the readiness of a job: a line, then the port, then the address.
#[derive(Debug)]
pub(crate) struct Readiness {
    pattern: Option<(Regex, Scanner)>,
    /// It has to say so itself.
    is_told: bool,
    port: Option<PortProbe>,
    http: Option<HttpAddress>,
    asking: Option<HttpProbe>,
    command: Option<CommandCheck>,
    running: Option<HttpProbe>,
    /// The port that it listens on, where that is asked for.
    listened: Option<u16>,
    /// The line that matched.
    line: Option<Line>,
    /// The address at which it answers or listens, else the one in the line.
    url: Option<String>,
    /// Only a later version understands the condition: this one waits for the mark that it makes.
    is_newer: bool,
}

impl Readiness {
    /// Prepares the check; the condition was validated at the job's start.
    pub(crate) fn new(job: &Job) -> Result<Self, WaitError> {
        let (asked, none) = (job.spec().ready(), Ready::default());
        let ready = asked.unwrap_or(&none);
        asked.map(check).transpose()?;
        let pattern = ready.on.as_ref().and_then(|text| pattern(text, false).ok());
        let pattern = pattern.map(|pattern| Scanner::new(job, None).map(|scanner| (pattern, scanner)));
        let http = ready.http.as_ref().map(|url| url.parse()).transpose()?;
        Ok(Self {
            pattern: pattern.transpose()?,
            is_told: ready.notify,
            port: ready.port.map(PortProbe::new),
            http,
            asking: None,
            command: ready.command.as_ref().map(|line| CommandCheck::new(job, line)),
            running: None,
            listened: None,
            line: None,
            url: None,
            is_newer: asked.is_none(),
        })
    }

    /// Checks once; returns whether the job is ready, with the line that matched.
    pub(crate) fn look(
        &mut self,
        (store, job, state): (&Store, &Job, &State),
        now: Instant,
        has_changed: bool,
    ) -> io::Result<Option<Option<Line>>> {
        if job.ready_now(state).is_some() {
            return Ok(Some(self.line.take()));
        }
        if self.is_newer || job.unhealthy().is_some() || state.status == Status::Queued {
            return Ok(None);
        }
        let has_ended = state.status.has_ended();
        if let Some((pattern, scanner)) = &mut self.pattern {
            let judge = |text: &[u8]| pattern.is_match(text).then(|| url_in(text));
            let Some((url, line)) = scanner.look(now, has_ended, judge)? else { return Ok(None) };
            self.url = url;
            self.line = Some(line);
            self.pattern = None;
        }
        if self.is_told && !state.meta.as_ref().is_some_and(|meta| meta.notified) {
            return Ok(None);
        }
        // A job that has ended does not listen: another program answers at the address.
        if has_ended && (self.port.is_some() || self.http.is_some() || self.command.is_some()) {
            return Ok(None);
        }
        if let Some(probe) = &mut self.port {
            let Some(port) = probe.look(store, job, state, now, has_changed) else { return Ok(None) };
            // Where it listens in a network of its own, its end is not seen from here.
            self.listened = Some(port.port).filter(|port| ports::is_taken(*port));
            self.url = Some(port.url);
            self.port = None;
        }
        if let Some(address) = &self.http {
            let asking = match &mut self.asking {
                Some(asking) => asking,
                asking => asking.insert(HttpProbe::start(address)?),
            };
            if asking.status().is_none() {
                return Ok(None);
            }
            self.url = Some(address.as_str().to_owned());
        }
        if let Some(check) = &self.command {
            let running = match &mut self.running {
                Some(running) => running,
                running => {
                    let check = check.clone();
                    running.insert(HttpProbe::repeat(move || check.run(CHECK_LIMIT).ok().map(|()| 0))?)
                }
            };
            if running.status().is_none() {
                return Ok(None);
            }
        }
        let line_number = self.line.as_ref().map(|line| line.number);
        let at = Timestamp(clock::wall_us());
        job.mark_ready(store, &ReadyRecord { at, line_number, url: self.url.clone(), port: self.listened });
        Ok(Some(self.line.take()))
    }

    /// Returns when to check again without a change.
    pub(crate) fn due(&self) -> Option<Instant> {
        match (&self.pattern, &self.port) {
            (Some((_, scanner)), _) => scanner.due(),
            (None, Some(port)) => port.due(),
            (None, None) => None,
        }
    }

    /// Returns the descriptor to poll.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().or(self.asking.as_ref()).map(HttpProbe::fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_a_line_is_found() {
        let url = |line: &str| url_in(line.as_bytes());
        assert_eq!(url("Local:   http://localhost:5173/").as_deref(), Some("http://localhost:5173/"));
        assert_eq!(url("up (see https://[::1]:8/a?b=1#c).").as_deref(), Some("https://[::1]:8/a?b=1#c"));
        assert_eq!(url("open <http://h> or \"http://i\"").as_deref(), Some("http://h"));
        assert_eq!((url("http://"), url("ready")), (None, None));
    }
}
