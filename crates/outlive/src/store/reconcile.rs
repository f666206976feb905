//! Records the ends of jobs whose keeper died.
//!
//! A keeper appends the ending to the session's events before it removes the job's mark. So the mark of a job without a keeper
//! is a reason to check, and the front end that finds it records what is missing before it removes the mark.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use outlive_core::event::Event;
use outlive_core::id::{JobId, SessionName};
use outlive_sys::fault::{self, Appending, Point};
use outlive_sys::stamp::Stamp;
use outlive_sys::{durable, lock};

use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;

/// Longest wait, in all, for keepers that are about to write an event.
const KEEPER_LIMIT: Duration = Duration::from_secs(1);

impl Store {
    /// Recovers and records the ends of a session's jobs, or of all jobs, whose keeper died, and of those that an engine knows to be
    /// over. To be called before a read of the events that must not miss one.
    pub fn reconcile(&self, session: Option<&SessionName>) {
        let live = self.record_ends(session);
        self.ask_now_and_then(live);
    }

    /// Recovers and records the ends of jobs whose keeper died; returns those without a keeper here that are live all the same.
    fn record_ends(&self, session: Option<&SessionName>) -> Vec<Job> {
        let mut live = Vec::new();
        let deadline = Instant::now() + KEEPER_LIMIT;
        let jobs = durable::open_dir(&self.jobs());
        let look = |id: &JobId| Stamp::in_dir(jobs.as_ref().map_err(|error| error.kind())?, id.as_str());
        for (mark, id) in self.marks(session) {
            let Some(id) = id.filter(|id| !self.is_surely_running(id, || look(id))) else { continue };
            // A damaged job may be running; it counts until doctor moves it.
            let Some(job) = self.open_job(&id).ok().flatten() else { continue };
            self.put_mark_right(&mark, &job);
            let state = job.state(self);
            if state.status.has_ended() {
                wait_for_keeper(&job, deadline);
            }
            self.reconcile_job(&job, &state);
            if state.is_live() {
                live.push(job);
            }
        }
        live
    }

    /// Fast path: the lock is held and there is no outcome. Taken for every live job with every answer of an MCP server.
    fn is_surely_running(&self, id: &JobId, look: impl FnOnce() -> io::Result<Stamp>) -> bool {
        if let Some(is_running) = self.is_known_to_run(id, look) {
            return is_running;
        }
        let path = self.jobs().join(id.as_str());
        let has_no_outcome = || {
            let mut first = [0; 4];
            let outcome = durable::open_ro(durable::CWD, path.join(outlive_core::file::OUTCOME));
            outcome.and_then(|file| file.read_exact_at(&mut first, 0)).is_ok_and(|()| first == [0; 4])
        };
        let is_given_away = || path.join(outlive_core::file::SESSION).exists();
        durable::is_held(&path, outlive_core::file::LOCK) && has_no_outcome() && !is_given_away()
    }

    /// Renames the mark of a job that was moved to another session, if the mover died half-way: the keeper knows only the new
    /// name.
    fn put_mark_right(&self, mark: &OsStr, job: &Job) {
        let right = job.live_mark();
        if mark != right.as_str() {
            let (from, to) = (self.live().join(mark), self.live().join(right));
            // Fails if another front end has done the same.
            fault::step(Point::TransferMark, || fs::rename(from, to)).ok();
        }
    }

    /// Removes the marks of jobs that are gone or closed, after recording their ends. The caller holds the store's lock: a job
    /// that is being prepared has its mark before its directory.
    pub(crate) fn sweep_marks(&self) {
        self.record_ends(None);
        for (name, id) in self.marks(None) {
            let is_gone = id.is_none_or(|id| {
                let is_prepared =
                    || durable::is_held(&self.new_dir().join(id.as_str()), outlive_core::file::LOCK);
                matches!(self.open_job(&id), Ok(None)) && !is_prepared()
            });
            if is_gone {
                fault::step(Point::MarkSweep, || fs::remove_file(self.live().join(name))).ok();
            }
        }
        self.sweep_waiting();
    }

    /// Records the end of a job without a keeper, if it is not recorded, and then removes its mark.
    pub(crate) fn reconcile_job(&self, job: &Job, state: &State) {
        if job.is_kept() || state.is_removed() {
            return;
        }
        let is_told = !state.status.has_ended() || self.tell_ending(job);
        if is_told && !state.is_live() {
            self.remove_live_mark(Point::ReconcileMark, job);
        }
    }

    /// Removes the mark by which a job counts as live.
    pub(crate) fn remove_live_mark(&self, point: Point, job: &Job) {
        fault::step(point, || fs::remove_file(self.live().join(job.live_mark()))).ok();
        if job.spec().waits() || job.spec().placement.is_some() {
            fs::remove_file(self.waiting().join(job.id().as_str())).ok();
        }
    }

    /// Appends the ending of a job to its session's events, unless it is there; `false` if it cannot be written.
    pub(crate) fn tell_ending(&self, job: &Job) -> bool {
        let Some(outcome) = job.records().0 else { return true };
        let (session, nonce) = (job.session(), job.spec().nonce);
        self.ending_in(session, nonce).is_some()
            || self.append_event(
                Appending::RECONCILE_EVENT,
                session,
                &Event::of_outcome(job.id(), nonce, &outcome),
            )
    }

    /// Tells whether a job was moved to a session; its mark may have the old name.
    fn is_given(&self, id: &str, session: &SessionName) -> bool {
        let given = durable::read_line(durable::CWD, self.jobs().join(id).join(outlive_core::file::SESSION));
        given.is_some_and(|given| given == session.as_str())
    }

    /// Lists the marks in `live/` of a session, or all; the id is `None` for a name that is no mark.
    fn marks(&self, session: Option<&SessionName>) -> Vec<(OsString, Option<JobId>)> {
        let entries = fs::read_dir(self.live()).into_iter().flatten().flatten();
        let read = |name: OsString| {
            let parts = name.to_str().and_then(|name| name.split_once('@'));
            let is_wanted = session.is_none_or(|session| {
                parts.is_some_and(|(id, owner)| owner == session.as_str() || self.is_given(id, session))
            });
            let id = parts.and_then(|(id, _)| JobId::parse(id).ok());
            is_wanted.then_some((name, id))
        };
        entries.filter_map(|entry| read(entry.file_name())).collect()
    }
}

/// Waits for a keeper between outcome and event: a front end that sees the end of a job must find the event, too.
fn wait_for_keeper(job: &Job, deadline: Instant) {
    if let Ok(done) = job.done_file() {
        lock::lock_within(&done, deadline.saturating_duration_since(Instant::now())).ok();
    }
}
