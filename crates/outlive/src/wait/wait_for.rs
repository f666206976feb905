//! Waiting for more than the end: a line, a port, an answer, silence, an event.
//!
//! The kernel tells when a job's directory or a session's events change, and one look then decides. Only for a port and
//! for an address is there nobody who tells: those are asked now and then. A job that nobody keeps any more is watched by
//! the handle of its main process.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_core::lines::Line;
use outlive_sys::clock;
use outlive_sys::poll::{PollFd, PollFlags, poll, readable};
use outlive_sys::watch::Watches;
use regex::bytes::Regex;

use crate::control::orphan::MainHandle;
use crate::control::tree::Port;
use crate::job::Job;
use crate::job::state::State;
use crate::launch::request::RequestError;
use crate::notify::events::{Events, Numbered};
use crate::output::Output;
use crate::output::scan::Scanner;
use crate::store::Store;
use crate::wait::Until;
use crate::wait::http::{HttpAddress, HttpProbe};
use crate::wait::probe::PortProbe;
use crate::wait::ready::Readiness;

/// How soon to look again at a job whose outcome is written and not yet announced. The kernel tells that, too: this is for a
/// keeper that is killed in between on a file system that does not.
const ANNOUNCEMENT: Duration = Duration::from_millis(50);

/// Who waits for ends alone notices so late that it is to stop.
const STOPPED_WITHIN: Duration = Duration::from_millis(200);

/// What to wait for.
#[derive(Debug)]
pub struct WaitFor<'a> {
    /// Of these jobs.
    pub jobs: &'a [Job],
    /// Of one of them, or of each.
    pub until: Until,
    /// What is to come. The end of a job ends the waiting for it, too.
    pub conditions: Conditions,
    /// Or the next event.
    pub events: Option<EventScope>,
    /// At most so long.
    pub limit: Option<Duration>,
}

/// What may come of a job, beside its end: whichever is first.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// It is ready, by the condition that it was started with.
    pub ready: bool,
    /// A line of its output matches.
    pub matches: Option<Regex>,
    /// A line of its output matches, and the rest can no longer come.
    pub fail_matches: Option<Regex>,
    /// Lines before this one do not count.
    pub from_line: Option<u64>,
    /// One of its processes listens on this TCP port.
    pub port: Option<u16>,
    /// This address answers with a status below 400.
    pub http: Option<HttpAddress>,
    /// It has printed nothing for so long.
    pub idle: Option<Duration>,
}

impl Conditions {
    /// Tells whether there is anything to wait for but the end.
    fn is_empty(&self) -> bool {
        !self.has_goal() && self.fail_matches.is_none()
    }

    /// Tells whether something is to come before the end.
    fn has_goal(&self) -> bool {
        self.ready
            || self.matches.is_some()
            || self.port.is_some()
            || self.http.is_some()
            || self.idle.is_some()
    }
}

/// Which events to wait for: those of the jobs, or all if no jobs are given.
#[derive(Debug, Clone, Default)]
pub struct EventScope {
    /// Of this session; none: of any.
    pub session: Option<SessionName>,
    /// After this sequence; none: after now.
    pub since: Option<u64>,
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Came {
    /// It ended.
    Exit,
    /// It is ready; by this line, where a line said so.
    Ready(Option<Line>),
    /// This line matches.
    Match(Line),
    /// This line matches what must not come.
    FailMatch(Line),
    /// It listens.
    Port(Port),
    /// It answers with this status.
    Http(u16),
    /// It has been silent.
    Idle,
    /// Something happened in this session.
    Event(SessionName, Numbered),
    /// The time was over.
    Timeout,
}

impl Came {
    /// Returns the word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Ready(_) => "ready",
            Self::Match(_) => "match",
            Self::FailMatch(_) => "fail_match",
            Self::Port(_) => "port",
            Self::Http(_) => "http",
            Self::Idle => "idle",
            Self::Event(..) => "event",
            Self::Timeout => "timeout",
        }
    }

    /// Returns the line, where there is one.
    pub fn line(&self) -> Option<&Line> {
        match self {
            Self::Match(line) | Self::FailMatch(line) | Self::Ready(Some(line)) => Some(line),
            _ => None,
        }
    }
}

/// What waiting came to.
#[derive(Debug)]
pub struct Arrival {
    /// What decided it.
    pub came: Came,
    /// Of which of the jobs.
    pub job: Option<usize>,
    /// Whether that is what was waited for.
    pub is_reached: bool,
    /// Whether it can still come: the time was over, and no more.
    pub can_still_come: bool,
    /// The state of each job, in the order given.
    pub states: Vec<State>,
    /// What came of each job.
    pub each: Vec<Option<Came>>,
    /// Sequences of events that were asked for and are no longer kept.
    pub gap: Option<(u64, u64)>,
}

impl Arrival {
    /// Of no jobs at all, all have ended and none will ever be the first.
    fn of_nobody(until: Until) -> Self {
        Self {
            came: Came::Exit,
            job: None,
            is_reached: until == Until::All,
            can_still_come: false,
            states: Vec::new(),
            each: Vec::new(),
            gap: None,
        }
    }
}

/// Why something cannot be waited for.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// Nothing was said about when it is ready.
    #[error("{0} was started without saying when it is ready")]
    NoReady(JobId),
    /// What was said makes no sense.
    #[error(transparent)]
    Condition(#[from] RequestError),
    /// The kernel gives no more, or the output cannot be read.
    #[error("cannot wait")]
    Io(#[from] io::Error),
}

impl Store {
    /// Waits until something comes of any or of all jobs, or an event; at most as long as is said.
    ///
    /// # Errors
    ///
    /// If a job that is to be ready was not started with a condition for that, its output cannot be read, or the kernel is
    /// out of memory.
    pub fn wait_for(&self, wanted: &WaitFor<'_>) -> Result<Arrival, WaitError> {
        self.wait_for_unless(wanted, None)
    }

    /// As [`Store::wait_for`], but no longer than until `stop` can be read: what came is then that the time was over.
    ///
    /// # Errors
    ///
    /// As [`Store::wait_for`].
    pub fn wait_for_unless(
        &self,
        wanted: &WaitFor<'_>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Arrival, WaitError> {
        if wanted.jobs.is_empty() && wanted.events.is_none() {
            return Ok(Arrival::of_nobody(wanted.until));
        }
        if wanted.conditions.is_empty() && wanted.events.is_none() {
            return self.wait_for_ends_unless(wanted, stop);
        }
        let deadline = wanted.limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut watches = Watches::new();
        // Watching begins before the first look, so that nothing is missed between the two.
        let mut waiting = Vec::with_capacity(wanted.jobs.len());
        for job in wanted.jobs {
            watches.add(job.path());
            waiting.push(Waiting::new(self, job, &wanted.conditions)?);
        }
        let mut awaited =
            wanted.events.as_ref().map(|scope| Awaited::new(self, scope, wanted.jobs, &mut watches));
        let mut is_first = true;
        loop {
            let changed = watches.changed();
            let now = Instant::now();
            for (waiting, &has_changed) in waiting.iter_mut().zip(&changed) {
                if is_first || has_changed || waiting.is_due(now) {
                    waiting.look(self, &wanted.conditions, now, has_changed)?;
                }
            }
            // After the jobs: the event of an end is written before the end is announced.
            let event = match &mut awaited {
                Some(awaited) => awaited.look(self, &mut watches)?,
                None => None,
            };
            is_first = false;
            let gap = awaited.as_mut().and_then(|awaited| awaited.gap.take());
            let decided = match event {
                Some((session, event)) => {
                    let job = wanted.jobs.iter().position(|job| job.spec().nonce == event.event.nonce);
                    Some((Came::Event(session, event), job, true))
                }
                None if wanted.jobs.is_empty() => None,
                None => decide(&waiting, wanted),
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if let Some((came, job, is_reached)) = decided {
                return Ok(arrival(self, waiting, came, job, is_reached, gap));
            }
            if left.is_some_and(|left| left.is_zero()) || is_readable(stop)? {
                let job = waiting.iter().position(|waiting| waiting.came.is_none());
                let arrived = arrival(self, waiting, Came::Timeout, job, false, gap);
                return Ok(Arrival { can_still_come: true, ..arrived });
            }
            sleep(&waiting, &watches, stop, left)?;
        }
    }

    /// Waits for ends only. Whoever waits for a lock cannot be told to stop: it looks now and then.
    fn wait_for_ends_unless(
        &self,
        wanted: &WaitFor<'_>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<Arrival, WaitError> {
        if stop.is_none() {
            return Ok(self.wait_for_ends(wanted));
        }
        let deadline = wanted.limit.and_then(|limit| Instant::now().checked_add(limit));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let limit = Some(left.map_or(STOPPED_WITHIN, |left| left.min(STOPPED_WITHIN)));
            let conditions = Conditions::default();
            let arrival = self.wait_for_ends(&WaitFor {
                jobs: wanted.jobs,
                until: wanted.until,
                conditions,
                events: None,
                limit,
            });
            if arrival.is_reached
                || !arrival.can_still_come
                || left.is_some_and(|left| left <= STOPPED_WITHIN)
                || is_readable(stop)?
            {
                return Ok(arrival);
            }
        }
    }

    /// Waits for ends only, which needs none of all this.
    fn wait_for_ends(&self, wanted: &WaitFor<'_>) -> Arrival {
        let waited = self.wait(wanted.jobs, wanted.until, wanted.limit);
        let each: Vec<_> =
            waited.states.iter().map(|state| state.status.has_ended().then_some(Came::Exit)).collect();
        let ended_at = |at: usize| waited.states[at].outcome.as_ref().map(|outcome| outcome.ended);
        let ended = (0..each.len()).filter(|&at| each[at].is_some());
        let job = match (waited.is_reached, wanted.until) {
            (false, _) => each.iter().position(Option::is_none),
            (true, Until::Any) => ended.min_by_key(|&at| ended_at(at)),
            (true, Until::All) => ended.max_by_key(|&at| ended_at(at)),
        };
        Arrival {
            came: if waited.is_reached { Came::Exit } else { Came::Timeout },
            job,
            is_reached: waited.is_reached,
            can_still_come: !waited.is_reached,
            states: waited.states,
            each,
            gap: None,
        }
    }
}

fn arrival(
    store: &Store,
    waiting: Vec<Waiting<'_>>,
    came: Came,
    job: Option<usize>,
    is_reached: bool,
    gap: Option<(u64, u64)>,
) -> Arrival {
    // Those that were not looked at lately are looked at once more: the answer is of one moment.
    let states = waiting.iter().map(|waiting| match &waiting.state {
        Some(state) if state.status.has_ended() => state.clone(),
        _ => waiting.job.state(store),
    });
    let states = states.collect();
    let each = waiting.into_iter().map(|waiting| waiting.came).collect();
    Arrival { came, job, is_reached, can_still_come: false, states, each, gap }
}

/// Decides whether what is known of the jobs is enough.
fn decide(waiting: &[Waiting<'_>], wanted: &WaitFor<'_>) -> Option<(Came, Option<usize>, bool)> {
    let came = || waiting.iter().enumerate().filter_map(|(at, waiting)| Some((at, waiting.came.as_ref()?)));
    if let Some((at, failed)) = came().find(|(_, came)| matches!(came, Came::FailMatch(_))) {
        return Some((failed.clone(), Some(at), false));
    }
    // Where only failure was looked for, the end is the goal. Where events are, it is not: it is one of them.
    let is_end_a_goal = !wanted.conditions.has_goal() && wanted.events.is_none();
    let is_goal = |came: &Came| match came {
        Came::Exit => is_end_a_goal,
        Came::Timeout => false,
        _ => true,
    };
    let last = waiting.iter().enumerate().filter(|(_, waiting)| waiting.came.is_some());
    let last = last.max_by_key(|(_, waiting)| waiting.came_at).map(|(at, _)| at);
    let all_came = waiting.iter().all(|waiting| waiting.came.is_some());
    let missed = || came().find(|(_, came)| !is_goal(came));
    match wanted.until {
        Until::Any => match came().find(|(_, came)| is_goal(came)) {
            Some((at, came)) => Some((came.clone(), Some(at), true)),
            None if all_came => {
                let at = last?;
                Some((waiting[at].came.clone()?, Some(at), false))
            }
            None => None,
        },
        Until::All => match missed() {
            // Events may still come of the others.
            Some(_) if wanted.events.is_some() && !all_came => None,
            Some((at, came)) => Some((came.clone(), Some(at), false)),
            None if all_came => {
                let at = last?;
                Some((waiting[at].came.clone()?, Some(at), true))
            }
            None => None,
        },
    }
}

/// Tells whether there is something to read.
fn is_readable(fd: Option<BorrowedFd<'_>>) -> io::Result<bool> {
    fd.map_or(Ok(false), |fd| readable(fd, Some(Duration::ZERO)))
}

/// Sleeps until something may have happened.
fn sleep(
    waiting: &[Waiting<'_>],
    watches: &Watches,
    stop: Option<BorrowedFd<'_>>,
    left: Option<Duration>,
) -> io::Result<()> {
    let now = Instant::now();
    let open = || waiting.iter().filter(|waiting| waiting.came.is_none());
    let due = open().filter_map(Waiting::due).min().map(|due| due.saturating_duration_since(now));
    let nap = [left, due, watches.nap()].into_iter().flatten().min();
    let fds = open().flat_map(Waiting::fds).chain(watches.fd()).chain(stop);
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // A moment longer than the clock's own grain, so as not to wake just before it is time.
    poll(&mut fds, nap.map(|nap| nap + Duration::from_micros(100)))?;
    Ok(())
}

/// One job that is waited for.
struct Waiting<'a> {
    job: &'a Job,
    state: Option<State>,
    /// What came of it, and when it was seen.
    came: Option<Came>,
    came_at: Option<Instant>,
    scanner: Option<Scanner>,
    readiness: Option<Readiness>,
    /// When the time to be ready is over.
    ready_until: Option<Instant>,
    port: Option<PortProbe>,
    http: Option<HttpProbe>,
    silence: Option<Silence>,
    /// The outcome is written, and the announcement is to come.
    announced_by: Option<Instant>,
    /// The main process, for the case that its keeper dies.
    main: Option<MainHandle>,
    /// Says to others that we hold it, once nobody keeps it.
    held: Option<Option<File>>,
}

impl<'a> Waiting<'a> {
    fn new(store: &Store, job: &'a Job, conditions: &Conditions) -> Result<Self, WaitError> {
        let needs_lines = conditions.matches.is_some() || conditions.fail_matches.is_some();
        let readiness = match (job.spec().ready(), conditions.ready) {
            (_, false) => None,
            (Some(ready), true) => Some(Readiness::new(job, ready)?),
            (None, true) => return Err(WaitError::NoReady(job.id().clone())),
        };
        Ok(Self {
            job,
            state: None,
            came: None,
            came_at: None,
            scanner: needs_lines.then(|| Scanner::new(job, conditions.from_line)).transpose()?,
            readiness,
            ready_until: None,
            port: conditions.port.map(PortProbe::new),
            http: conditions.http.as_ref().map(HttpProbe::start).transpose()?,
            silence: None,
            announced_by: None,
            main: MainHandle::of(store, job),
            held: None,
        })
    }

    /// Looks at the job, and notes what came.
    fn look(
        &mut self,
        store: &Store,
        conditions: &Conditions,
        now: Instant,
        has_changed: bool,
    ) -> Result<(), WaitError> {
        if self.came.is_some() {
            return Ok(());
        }
        if let Some(main) = &self.main {
            main.tell(store, self.job);
        }
        // The state first, then the output: nothing of the main process is written after its end.
        let state = self.job.state(store);
        let has_ended = state.status.has_ended();
        let is_announced = has_ended && (state.is_removed || self.job.is_announced());
        self.announced_by = (has_ended && !is_announced).then(|| now + ANNOUNCEMENT);
        if state.is_orphaned && !has_ended && self.held.is_none() {
            self.main = self.main.take().or_else(|| MainHandle::of(store, self.job));
            self.held = self.main.as_ref().map(|main| main.hold(store, self.job));
        }
        let came = self.find(store, conditions, &state, now, has_changed);
        self.state = Some(state);
        let came = match came {
            // It is being removed.
            Err(WaitError::Io(_)) if self.job.is_removed() => None,
            came => came?,
        };
        self.came = came.or_else(|| is_announced.then_some(Came::Exit));
        self.came_at = self.came.as_ref().map(|_| now);
        Ok(())
    }

    /// Looks for what is to come before the end.
    fn find(
        &mut self,
        store: &Store,
        conditions: &Conditions,
        state: &State,
        now: Instant,
        has_changed: bool,
    ) -> Result<Option<Came>, WaitError> {
        let has_ended = state.status.has_ended();
        if let Some(scanner) = &mut self.scanner {
            let is_match = |pattern: &Option<Regex>, text: &[u8]| {
                pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
            };
            let judge = |text: &[u8]| match is_match(&conditions.fail_matches, text) {
                true => Some(false),
                false => is_match(&conditions.matches, text).then_some(true),
            };
            match scanner.look(now, has_ended, judge)? {
                Some((true, line)) => return Ok(Some(Came::Match(line))),
                Some((false, line)) => return Ok(Some(Came::FailMatch(line))),
                None => {}
            }
        }
        if let Some(readiness) = &mut self.readiness {
            let left = self.job.ready_time_left(state);
            self.ready_until = left.flatten().and_then(|left| now.checked_add(left));
            // Once its time is over, only what was seen before counts.
            let ready = match left {
                Some(_) => readiness.look((store, self.job, state), now, has_changed)?,
                None => self.job.ready_record().map(|_| None),
            };
            match ready {
                Some(line) => return Ok(Some(Came::Ready(line))),
                None if left.is_none() && !has_ended => return Ok(Some(Came::Timeout)),
                None => {}
            }
        }
        if let Some(probe) = self.port.as_mut().filter(|_| !has_ended)
            && let Some(port) = probe.look(store, self.job, state, now, has_changed)
        {
            return Ok(Some(Came::Port(port)));
        }
        if let Some(status) = self.http.as_ref().filter(|_| !has_ended).and_then(HttpProbe::status) {
            return Ok(Some(Came::Http(status)));
        }
        if let Some(wanted) = conditions.idle.filter(|_| !has_ended) {
            let output = Output::open(self.job)?;
            let silence = self.silence.get_or_insert_with(|| Silence::so_far(&output, state, now, wanted));
            if silence.look(&output, now) {
                return Ok(Some(Came::Idle));
            }
        }
        Ok(None)
    }

    /// Returns when to look again though nothing has happened.
    fn due(&self) -> Option<Instant> {
        let due = [
            self.scanner.as_ref().and_then(Scanner::due),
            self.readiness.as_ref().and_then(Readiness::due),
            self.ready_until,
            self.port.as_ref().and_then(PortProbe::due),
            self.silence.as_ref().and_then(|silence| silence.until),
            self.announced_by,
        ];
        due.into_iter().flatten().min()
    }

    /// Tells whether it is time to look: by the clock, or because somebody told.
    fn is_due(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due <= now)
            || self.http.as_ref().is_some_and(|http| http.status().is_some())
            || self.readiness.as_ref().is_some_and(Readiness::is_answered)
            || self.fds().any(|fd| readable(fd, Some(Duration::ZERO)).unwrap_or(true))
    }

    /// Returns what tells of it, beside its directory.
    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let main = self.main.as_ref().filter(|_| self.held.is_some()).map(MainHandle::fd);
        let http = self.http.as_ref().filter(|http| http.status().is_none()).map(HttpProbe::fd);
        main.into_iter().chain(http).chain(self.readiness.as_ref().and_then(Readiness::fd))
    }
}

/// How long a job has printed nothing.
struct Silence {
    wanted: Duration,
    length: u64,
    /// When it will have been long enough; none: beyond all time.
    until: Option<Instant>,
}

impl Silence {
    /// Takes what is recorded: since the last output, or since the start.
    fn so_far(output: &Output, state: &State, now: Instant, wanted: Duration) -> Self {
        let started = state.meta.as_ref().and_then(|meta| meta.started);
        let last = output.last_time().max(started).map_or(u64::MAX, |time| time.0);
        let silent = Duration::from_micros(clock::wall_us().saturating_sub(last));
        // The wall clock may have been set since; nothing is silent for longer than it has run.
        let silent = silent.min(Duration::from_millis(state.runtime_ms().unwrap_or(0)));
        Self { wanted, length: output.end(), until: now.checked_add(wanted.saturating_sub(silent)) }
    }

    /// Tells whether it has been long enough.
    fn look(&mut self, output: &Output, now: Instant) -> bool {
        if output.end() != self.length {
            self.length = output.end();
            self.until = now.checked_add(self.wanted);
        }
        self.until.is_some_and(|until| until <= now)
    }
}

/// A session whose events are waited for.
struct Known {
    session: SessionName,
    events: Events,
    is_watched: bool,
}

impl Known {
    /// Watches it as soon as it is there.
    fn watch(&mut self, watches: &mut Watches) {
        if !self.is_watched && self.events.directory().is_dir() {
            watches.add(self.events.directory());
            self.is_watched = true;
        }
    }
}

/// Events that are waited for.
struct Awaited {
    scope: EventScope,
    /// Only of these; none: of all.
    jobs: Option<HashSet<Nonce>>,
    known: Vec<Known>,
    /// New sessions count, too.
    is_open: bool,
    gap: Option<(u64, u64)>,
}

impl Awaited {
    fn new(store: &Store, scope: &EventScope, jobs: &[Job], watches: &mut Watches) -> Self {
        let nonces = jobs.iter().map(|job| job.spec().nonce).collect();
        let mut awaited = Self {
            scope: scope.clone(),
            jobs: (!jobs.is_empty()).then_some(nonces),
            known: Vec::new(),
            is_open: false,
            gap: None,
        };
        let sessions: Vec<SessionName> = match &scope.session {
            Some(session) => vec![session.clone()],
            None if !jobs.is_empty() => {
                let sessions: BTreeSet<&SessionName> = jobs.iter().map(Job::session).collect();
                sessions.into_iter().cloned().collect()
            }
            None => {
                awaited.is_open = true;
                store.sessions().unwrap_or_default()
            }
        };
        for session in sessions {
            awaited.add(store, session, scope.since, watches);
        }
        // One that is not there yet, and perhaps never will be, is not made by asking for it.
        if awaited.is_open || awaited.known.iter().any(|known| !known.is_watched) {
            std::fs::create_dir_all(store.sessions_dir()).ok();
            watches.add(&store.sessions_dir());
        }
        awaited
    }

    fn add(&mut self, store: &Store, session: SessionName, since: Option<u64>, watches: &mut Watches) {
        let events = store.events(&session, since.unwrap_or(0));
        let mut known = Known { session, events, is_watched: false };
        known.watch(watches);
        if since.is_none() {
            // What happened before is not news. Whoever cannot read it now will be told then.
            known.events.read().ok();
        }
        self.known.push(known);
    }

    /// Returns the next event.
    fn look(
        &mut self,
        store: &Store,
        watches: &mut Watches,
    ) -> Result<Option<(SessionName, Numbered)>, WaitError> {
        if self.is_open {
            for session in store.sessions()? {
                if !self.known.iter().any(|known| known.session == session) {
                    // A session that is new has no events from before.
                    self.add(store, session, Some(0), watches);
                }
            }
        }
        for known in &mut self.known {
            known.watch(watches);
            let fresh = known.events.read()?;
            self.gap = known.events.take_gap().filter(|_| self.scope.since.is_some()).or(self.gap);
            let is_wanted =
                |event: &Numbered| self.jobs.as_ref().is_none_or(|jobs| jobs.contains(&event.event.nonce));
            if let Some(event) = fresh.into_iter().find(is_wanted) {
                return Ok(Some((known.session.clone(), event)));
            }
        }
        Ok(None)
    }
}
