//! One job of a wait: its conditions, and the sources that report them.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::watch::Watches;
use regex::bytes::Regex;

use crate::job::Job;
use crate::job::state::State;
use crate::output::Output;
use crate::output::scan::Scanner;
use crate::store::Store;
use crate::wait::conditions::{Conditions, WaitError, WaitReason};
use crate::wait::exits::ExitWatch;
use crate::wait::http::HttpProbe;
use crate::wait::input::InputProbe;
use crate::wait::probe::PortProbe;
use crate::wait::ready::Readiness;
use crate::wait::silence::Silence;

/// One job of a wait.
pub(super) struct JobWait<'a> {
    job: &'a Job,
    conditions: &'a Conditions,
    state: Option<State>,
    /// The condition that was met; none yet.
    pub(super) reason: Option<WaitReason>,
    /// Time of that, then time of the job's end: orders jobs that met theirs in the same turn.
    pub(super) order: Option<(Instant, Option<Timestamp>)>,
    exit: ExitWatch,
    /// The keeper has freed `done`, which was waited for.
    is_done: bool,
    scanner: Option<Scanner>,
    readiness: Option<Readiness>,
    /// Deadline of the readiness condition.
    ready_until: Option<Instant>,
    port: Option<PortProbe>,
    http: Option<HttpProbe>,
    silence: Option<Silence>,
    input: Option<InputProbe>,
}

impl<'a> JobWait<'a> {
    pub(super) fn new(
        job: &'a Job,
        conditions: &'a Conditions,
        watches: &mut Watches,
    ) -> Result<Self, WaitError> {
        let needs_lines = conditions.matches.is_some() || conditions.fail_matches.is_some();
        // The watch starts before the first look, so that nothing is missed in between.
        let watch = (!conditions.is_empty()).then(|| watches.add(job.path()));
        if conditions.ready && !job.spec().can_be_ready() {
            return Err(WaitError::NoReady(job.id().clone()));
        }
        if conditions.input.is_some() && !job.spec().options.takes_input() {
            return Err(WaitError::NoInput(job.id().clone()));
        }
        let readiness = conditions.ready.then(|| Readiness::new(job)).transpose()?;
        Ok(Self {
            job,
            conditions,
            state: None,
            reason: None,
            order: None,
            exit: ExitWatch::new(watch),
            is_done: false,
            scanner: needs_lines.then(|| Scanner::new(job, conditions.from_line)).transpose()?,
            readiness,
            ready_until: None,
            port: conditions.port.map(PortProbe::new),
            http: conditions.http.as_ref().map(HttpProbe::start).transpose()?,
            silence: None,
            input: conditions.input.map(InputProbe::new),
        })
    }

    /// Examines the job after a kernel event (`is_signalled`), a change of its directory or an expired timer, and records the
    /// result.
    pub(super) fn look(
        &mut self,
        store: &Store,
        watches: &mut Watches,
        (is_signalled, changed): (bool, &[bool]),
        now: Instant,
    ) -> Result<(), WaitError> {
        let has_changed = self.exit.has_changed(changed);
        let is_wanted = is_signalled || has_changed || self.due().is_some_and(|due| due <= now);
        if self.reason.is_some() || !is_wanted {
            return Ok(());
        }
        let is_ending = self.is_done || self.exit.is_ending();
        let is_announced = self.is_done || (is_ending && self.job.is_announced());
        if is_ending && !is_announced && self.conditions.is_empty() {
            self.exit.pause(now);
            return Ok(());
        }
        self.exit.prepare(store, self.job, watches);
        // The state first, then the output: the main process writes nothing after its end.
        let state = self.job.state(store);
        let found = match self.find(store, &state, now, has_changed) {
            Err(WaitError::Io(_)) if self.job.is_removed() => None,
            found => found?,
        };
        // An end counts once it is announced: then it is synced, and its event is written.
        let is_over =
            || state.status.has_ended() && (is_announced || state.is_removed() || self.job.is_announced());
        self.reason = found.or_else(|| is_over().then_some(WaitReason::Exit));
        if self.reason.is_some() {
            self.order = Some((now, state.outcome.as_ref().map(|outcome| outcome.ended)));
            // Frees descriptors that other jobs may need.
            self.exit = ExitWatch::default();
        } else {
            self.exit.note(store, self.job, &state, now);
        }
        self.state = Some(state);
        Ok(())
    }

    /// Checks the conditions before the end.
    fn find(
        &mut self,
        store: &Store,
        state: &State,
        now: Instant,
        has_changed: bool,
    ) -> Result<Option<WaitReason>, WaitError> {
        let has_ended = state.status.has_ended();
        if let Some(scanner) = &mut self.scanner {
            let is_match = |pattern: &Option<Regex>, text: &[u8]| {
                pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
            };
            let judge = |text: &[u8]| match is_match(&self.conditions.fail_matches, text) {
                true => Some(false),
                false => is_match(&self.conditions.matches, text).then_some(true),
            };
            match scanner.look(now, has_ended, judge)? {
                Some((true, line)) => return Ok(Some(WaitReason::Match(line))),
                Some((false, line)) => return Ok(Some(WaitReason::FailMatch(line))),
                None => {}
            }
        }
        if let Some(readiness) = &mut self.readiness {
            let left = self.job.ready_time_left(state);
            self.ready_until = left.flatten().and_then(|left| now.checked_add(left));
            // After the deadline, only an earlier `ready` mark counts.
            let ready = match left {
                Some(_) => readiness.look((store, self.job, state), now, has_changed)?,
                None => self.job.ready_now(state).map(|_| None),
            };
            // One that was ready and did its work counts; one that failed or was killed is no longer ready.
            let is_undone = has_ended && state.status != Status::Completed;
            match ready.filter(|_| !is_undone) {
                Some(line) => return Ok(Some(WaitReason::Ready(line))),
                None if left.is_none() && !has_ended => return Ok(Some(WaitReason::Timeout)),
                None => {}
            }
        }
        if has_ended {
            return Ok(None);
        }
        if let Some(probe) = &mut self.port
            && let Some(port) = probe.look(store, self.job, state, now, has_changed)
        {
            return Ok(Some(WaitReason::Port(port)));
        }
        if let Some(status) = self.http.as_ref().and_then(HttpProbe::status) {
            return Ok(Some(WaitReason::Http(status)));
        }
        if let Some(awaited) = self.input.as_mut().and_then(|probe| probe.look(store, self.job, state, now)) {
            return Ok(Some(WaitReason::Input(awaited)));
        }
        if let Some(wanted) = self.conditions.idle {
            let output = Output::open(self.job)?;
            let silence = self.silence.get_or_insert_with(|| Silence::so_far(&output, state, now, wanted));
            if silence.look(&output, now) {
                return Ok(Some(WaitReason::Idle));
            }
        }
        Ok(None)
    }

    /// Returns when to look again without a kernel event.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = [
            self.exit.due(),
            self.scanner.as_ref().and_then(Scanner::due),
            self.readiness.as_ref().and_then(Readiness::due),
            self.ready_until,
            self.port.as_ref().and_then(PortProbe::due),
            self.silence.as_ref().and_then(Silence::due),
            self.input.as_ref().and_then(InputProbe::due),
        ];
        due.into_iter().flatten().min()
    }

    /// Returns what was seen last of a condition that does not hold, for people.
    pub(super) fn missing(&self) -> Option<String> {
        let (address, probe) = (self.conditions.http.as_ref()?, self.http.as_ref()?);
        Some(format!("{} {}", address.as_str(), probe.seen()?))
    }

    /// Returns the descriptors to poll, beside the watches.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let http = self.http.as_ref().map(HttpProbe::fd);
        let probes = http.into_iter().chain(self.readiness.as_ref().and_then(Readiness::fd));
        // After the job's end a probe's answer decides nothing, and its descriptor would stay readable.
        self.exit.fds().chain(probes.filter(|_| self.exit.due().is_none()))
    }

    /// Waits, without limit, until its keeper frees `done`; `false` if more than that is waited for, or `done` is free already.
    pub(super) fn wait_done(&mut self) -> bool {
        let is_awaited = self.conditions.is_empty() && !self.is_done && !self.job.is_announced();
        let is_freed = is_awaited && self.job.wait_announced().is_ok();
        self.is_done |= is_freed;
        is_freed
    }

    /// Returns the job's state, read again unless it has ended, so that all states are of one moment.
    pub(super) fn state(&self, store: &Store) -> State {
        match &self.state {
            Some(state) if state.status.has_ended() => state.clone(),
            _ => self.job.state(store),
        }
    }
}
