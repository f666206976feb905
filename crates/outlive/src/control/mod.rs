//! Requests to a job's keeper.

pub(crate) mod awaits;
mod connection;
mod frame;
pub(crate) mod input;
pub(crate) mod orphan;
mod silent;
pub(crate) mod tree;
pub(crate) mod upgrade;
pub(crate) mod usage;
pub(crate) mod viewer;

use std::io;
use std::time::{Duration, Instant};

use outlive_core::control::{NOT_HIDDEN, Reply, Request, SPOKEN, STILL_STOPPING, Survivor};
use outlive_core::file;
use outlive_core::id::JobId;
use outlive_sys::identity::ProcessId;
use outlive_sys::signal::Signal;

use connection::Connection;
pub(crate) use frame::receive_frame;

use crate::job::Job;
use crate::job::state::State;
use crate::store::Store;
use crate::wait::conditions::Until;

/// How long a keeper may take beyond the request's own time; it answers within microseconds unless it is stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a list or an answer is held up by a keeper that is asked for what a missing or damaged `meta.json` does not say.
const SNAPSHOT_LIMIT: Duration = Duration::from_secs(1);

/// How long the processes of a job may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How many deaths of keepers one request outlasts.
const REPLACEMENTS: usize = 10;

/// A grace period without an end: a year.
const NO_END: u64 = 366 * 86_400_000;

/// A keeper's code for a request that only later versions know.
const UNKNOWN_REQUEST: &str = "unknown_request";

/// Which program asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// One that may run inside the job, and would end with it.
    FrontEnd,
    /// The process beside the job. It may be a child of the job's keeper, and is no part of the job all the same.
    Companion,
}

/// How to kill a job.
#[derive(Debug, Clone, Default)]
pub struct Kill {
    /// The first signal; default: TERM.
    pub signal: Option<Signal>,
    /// Time between the first signal and SIGKILL; default: the job's own grace.
    pub grace: Option<Duration>,
    /// Sends SIGKILL at once.
    pub force: bool,
    /// The requester, for the outcome's record.
    pub by: String,
}

/// Result of a kill.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Killed {
    /// The job had ended before, and no process was left.
    pub was_over: bool,
    /// How many processes got a signal.
    pub signalled: u32,
    /// The processes that are left, with the reason for each.
    pub survivors: Vec<Survivor>,
    /// For a job without a keeper: which processes may have been missed.
    pub untraced: Option<String>,
    /// A run after it that outlive had made by itself, and that was ended with it or in its place.
    pub next_run: Option<JobId>,
}

impl Killed {
    /// Adds what became of the run after it.
    fn followed_by(self, next: &Job, next_killed: Self) -> Self {
        if next_killed.was_over {
            return self;
        }
        let next_run = next_killed.next_run.or_else(|| Some(next.id().clone()));
        Self { signalled: self.signalled + next_killed.signalled, next_run, ..next_killed }
    }

    /// Makes the result for a job that had ended before.
    pub fn was_over() -> Self {
        Self { was_over: true, ..Self::default() }
    }
}

/// Why a request to a keeper failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// The job has ended.
    #[error("job {0} has ended")]
    Ended(JobId),
    /// The keeper died; the command runs without it.
    #[error("the keeper of {0} is gone, and the command runs on without it")]
    Orphaned(JobId),
    /// The job belongs to another host or pid namespace.
    #[error("job {0} belongs to another host or pid namespace and is never signalled from here")]
    Elsewhere(JobId),
    /// An engine has it, and no node has begun it.
    #[error("job {0} waits for {1}, and no node has begun it")]
    NotBegun(JobId, &'static str),
    /// The caller runs inside the job, and would end with it.
    #[error("this command runs inside job {0}, and would end with it")]
    OwnAncestor(JobId),
    /// The keeper cannot be reached or does not answer.
    #[error("the keeper of {0} does not answer")]
    Unreachable(JobId, #[source] io::Error),
    /// The keeper and this library have no protocol version in common.
    #[error("the keeper of {job} speaks control protocol {min} to {max}, and this version {ours_min} to {ours_max}", ours_min = SPOKEN.min, ours_max = SPOKEN.max)]
    Version {
        /// The job.
        job: JobId,
        /// The keeper's oldest version.
        min: u32,
        /// The keeper's newest version.
        max: u32,
    },
    /// The keeper is of an earlier version that does not know this request.
    #[error("the keeper of {0} is of an earlier version of outlive, which cannot do this")]
    TooOld(JobId),
    /// The keeper refused the request.
    #[error("{message}")]
    Refused {
        /// The keeper's stable word for the reason.
        code: String,
        /// The reason, for people.
        message: String,
    },
    /// The store cannot be written.
    #[error("cannot change job {0}")]
    Store(JobId, #[source] io::Error),
    /// Its standard input is what another job prints.
    #[error("the standard input of {0} is what {1} prints")]
    Fed(JobId, String),
    /// A secret may be shown where it is typed.
    #[error("{why}; the secret was not sent")]
    NotHidden {
        /// The job.
        job: JobId,
        /// What is in the way.
        why: String,
    },
    /// The command does not read its standard input.
    #[error("the command does not read its input; {accepted} bytes were taken before it stopped")]
    NotReading {
        /// The job.
        job: JobId,
        /// How many bytes the command or its keeper has accepted.
        accepted: u64,
    },
}

impl ControlError {
    /// Tells whether the request failed because the keeper is gone.
    pub(crate) fn is_keeper_gone(&self) -> bool {
        matches!(self, Self::Unreachable(_, error) if is_over_now(error))
    }

    /// Tells whether the keeper was gone in the midst of a request. The socket stays where it is when a guard goes on: where there is
    /// none, asking again is of no use.
    fn is_cut_short(&self) -> bool {
        use io::ErrorKind::{ConnectionRefused, NotFound};
        let was_asked =
            |error: &io::Error| is_over_now(error) && !matches!(error.kind(), ConnectionRefused | NotFound);
        matches!(self, Self::Unreachable(_, error) if was_asked(error))
    }
}

impl Store {
    /// Kills a job: signal, grace, SIGKILL until no process is left. Returns then, or reports what is left. Success for a job
    /// that has ended.
    ///
    /// # Errors
    ///
    /// If the caller runs inside the job, or its keeper cannot be reached.
    pub fn kill(&self, job: &Job, kill: &Kill) -> Result<Killed, ControlError> {
        let killed = self.kill_by(Caller::FrontEnd, job, kill)?;
        match self.run_made_anew(job) {
            Some(next) => {
                let next_killed = self.kill_by(Caller::FrontEnd, &next, kill)?;
                Ok(killed.followed_by(&next, next_killed))
            }
            None => Ok(killed),
        }
    }

    /// As [`Store::kill`].
    pub(crate) fn kill_by(&self, caller: Caller, job: &Job, kill: &Kill) -> Result<Killed, ControlError> {
        let killed = self.kill_run(caller, job, kill)?;
        // A run that outlive made by itself is the same job to the one that stops it.
        match self.run_made_after(job) {
            Some(next) => {
                let next_killed = self.kill_by(caller, &next, kill)?;
                Ok(killed.followed_by(&next, next_killed))
            }
            None => Ok(killed),
        }
    }

    fn kill_run(&self, caller: Caller, job: &Job, kill: &Kill) -> Result<Killed, ControlError> {
        let state = job.state(self);
        if !state.is_live() {
            return Ok(Killed::was_over());
        }
        if caller == Caller::FrontEnd {
            self.refuse_own(job, &state)?;
        }
        if state.is_orphaned() {
            return self.kill_orphan(job, &state, kill);
        }
        if let Some(killed) = self.kill_placed(job, &state, kill) {
            return Ok(killed);
        }
        let signal = if kill.force { Signal::KILL } else { kill.signal.unwrap_or(Signal::TERM) };
        let grace = kill.grace.unwrap_or(Duration::from_millis(job.spec().options.grace_ms));
        let request = Request::Kill {
            signal: signal.number(),
            grace_ms: kill.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
            by: kill.by.clone(),
        };
        let answer = self.ask_kept(job, &state, |state| {
            Connection::open(self, job, state)?.ask_to_signal(&request, grace.saturating_add(PATIENCE))
        });
        match answer {
            // It ended during the request, which is the intended result.
            Err(error) if error.is_keeper_gone() && self.ends_now(job) => Ok(Killed::default()),
            // The keeper died during the request.
            Err(error) if error.is_keeper_gone() && job.state(self).is_orphaned() => {
                self.kill_orphan(job, &job.state(self), kill)
            }
            // It can no longer be asked, and the job is killed without it: perhaps nothing is left by then, so that it is
            // noted before.
            Err(ControlError::Unreachable(_, error))
                if error.kind() == io::ErrorKind::WouldBlock
                    && keeper_of(&state).is_some_and(|keeper| {
                        job.note_kill(&kill.by).ok();
                        silent::end(job, keeper)
                    }) =>
            {
                self.kill_run(caller, job, kill)
            }
            answer => answer,
        }
    }

    /// Kills several jobs at the same time; results are in the order of `jobs`. See [`Store::kill`].
    pub fn kill_all(&self, jobs: &[Job], kill: &Kill) -> Vec<Result<Killed, ControlError>> {
        if let [job] = jobs {
            return vec![self.kill(job, kill)];
        }
        let end = |job: &Job| self.kill(job, kill);
        // In sequence, each job that uses its grace would delay the next.
        std::thread::scope(|scope| {
            let asked: Vec<_> = jobs.iter().map(|job| scope.spawn(move || end(job))).collect();
            let answers = asked.into_iter().map(|asked| asked.join());
            answers.map(|answer| answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        })
    }

    /// Tells whether the caller runs inside a job, so that killing the job would kill the caller.
    pub fn is_inside(&self, job: &Job) -> bool {
        tree::is_inside(self, job, &job.state(self))
    }

    /// Returns the state of a job that something is left of.
    pub(crate) fn live_state(&self, job: &Job) -> Result<State, ControlError> {
        let state = job.state(self);
        if state.is_live() { Ok(state) } else { Err(ControlError::Ended(job.id().clone())) }
    }

    fn refuse_own(&self, job: &Job, state: &State) -> Result<(), ControlError> {
        if tree::is_inside(self, job, state) {
            return Err(ControlError::OwnAncestor(job.id().clone()));
        }
        Ok(())
    }

    /// Sends a job a request to end, without a limit: no SIGKILL follows. Whenever it ends, its cause is the kill. Returns its
    /// state once the main process has ended, or after `limit`.
    ///
    /// # Errors
    ///
    /// If the job has ended, the caller runs inside it, or its keeper cannot be reached.
    pub fn ask_to_end(
        &self,
        job: &Job,
        signal: Signal,
        by: &str,
        limit: Duration,
    ) -> Result<State, ControlError> {
        let state = self.live_state(job)?;
        self.refuse_own(job, &state)?;
        let _keeper = if state.is_orphaned() {
            self.signal_orphan(job, &state, signal, by)?;
            None
        } else {
            let (signal, by) = (signal.number(), by.to_owned());
            let request = Request::Kill { signal, grace_ms: Some(NO_END), by };
            let asked = self.ask_kept(job, &state, |state| {
                Connection::open(self, job, state)
                    .and_then(|mut keeper| keeper.send(&request).map(|()| keeper))
            });
            match asked {
                // The keeper answers when no process is left, which may take long; the store is enough.
                Ok(keeper) => Some(keeper),
                Err(error) if error.is_keeper_gone() && self.ends_now(job) => None,
                Err(error) => return Err(error),
            }
        };
        let mut waited = self.wait(std::slice::from_ref(job), Until::All, Some(limit));
        Ok(waited.states.pop().unwrap_or_else(|| job.state(self)))
    }

    /// Sends one signal to every process of a job; returns how many there were.
    ///
    /// # Errors
    ///
    /// If the job has ended, the caller runs inside it, or its keeper cannot be reached.
    pub fn signal(&self, job: &Job, signal: Signal, by: &str) -> Result<Killed, ControlError> {
        let state = self.live_state(job)?;
        self.refuse_own(job, &state)?;
        if state.is_orphaned() {
            return self.signal_orphan(job, &state, signal, by);
        }
        let request = Request::Signal { signal: signal.number(), by: by.to_owned() };
        Connection::open(self, job, &state)?.ask_to_signal(&request, PATIENCE)
    }

    /// Freezes every process of a job until [`Store::resume`]. A paused job stays paused. Its timeout goes on.
    ///
    /// # Errors
    ///
    /// If the job has ended, the caller runs inside it, or its keeper cannot be reached.
    pub fn pause(&self, job: &Job) -> Result<(), ControlError> {
        // It would stop the caller, too, which could not resume it.
        self.refuse_own(job, &job.state(self))?;
        let until = Instant::now() + STOP_LIMIT;
        loop {
            match self.ask_of_live(job, &Request::Pause) {
                // A keeper has other things to do than to wait, and on a busy machine a process stops when its turn comes.
                Err(ControlError::Refused { code, .. })
                    if code == STILL_STOPPING.0 && Instant::now() < until => {}
                answer => return answer,
            }
        }
    }

    /// Lets a paused job go on. Does nothing if it is not paused.
    ///
    /// # Errors
    ///
    /// If the job has ended or its keeper cannot be reached.
    pub fn resume(&self, job: &Job) -> Result<(), ControlError> {
        self.ask_of_live(job, &Request::Resume)
    }

    fn ask_of_live(&self, job: &Job, request: &Request) -> Result<(), ControlError> {
        let state = self.live_state(job)?;
        if state.is_orphaned() {
            return self.freeze_orphan(job, &state, *request == Request::Pause);
        }
        self.ask_to_accept(job, &state, request)
    }

    /// Lets a job run beyond its timeout, when it goes on in the background after a wait. Does nothing for a job without a timeout.
    /// The keeper has the deadline from the start, so it holds even if the waiting front end dies; only the keeper can lift it.
    ///
    /// # Errors
    ///
    /// If the job has ended or is being killed, or its keeper cannot be reached.
    pub fn lift_timeout(&self, job: &Job) -> Result<(), ControlError> {
        let state = self.live_state(job)?;
        match job.spec().options.timeout_ms {
            Some(_) => self.ask_to_accept(job, &state, &Request::LiftTimeout),
            None => Ok(()),
        }
    }

    /// Waits briefly for the end of a job whose keeper has just gone.
    pub(crate) fn ends_now(&self, job: &Job) -> bool {
        let deadline = Instant::now() + Duration::from_secs(1);
        while job.state(self).is_live() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Names the job's end as the reason where a connection broke because its keeper had done its work and gone.
    fn or_ended<T>(&self, job: &Job, answer: Result<T, ControlError>) -> Result<T, ControlError> {
        match answer {
            Err(error) if error.is_keeper_gone() && self.ends_now(job) => {
                Err(ControlError::Ended(job.id().clone()))
            }
            answer => answer,
        }
    }

    /// Asks the keeper of a job, and asks again if it died meanwhile and its guard goes on in its place. Only for what may be done
    /// twice.
    fn ask_kept<T>(
        &self,
        job: &Job,
        state: &State,
        mut ask: impl FnMut(&State) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        let mut answer = ask(state);
        for _ in 0..REPLACEMENTS {
            if !answer.as_ref().is_err_and(ControlError::is_cut_short) {
                break;
            }
            let state = job.state(self);
            if !state.is_live() || state.is_orphaned() {
                break;
            }
            answer = ask(&state);
        }
        answer
    }

    /// Sends a request that is either done or refused.
    pub(crate) fn ask_to_accept(
        &self,
        job: &Job,
        state: &State,
        request: &Request,
    ) -> Result<(), ControlError> {
        let ask = |state: &State| Connection::open(self, job, state)?.ask(request, PATIENCE);
        match self.ask_kept(job, state, ask)? {
            Reply::Accepted => Ok(()),
            other => Err(unexpected(job, &other)),
        }
    }
}

/// Asks a keeper what `meta.json` says; `None` if it is starting, does not answer soon, or is too old to know.
pub(crate) fn ask_for_meta(job: &Job) -> Option<Vec<u8>> {
    // The socket is made before the command is started, and the snapshot after: there is nothing to wait for yet.
    if !job.path().join(file::CONTROL).exists() {
        return None;
    }
    match Connection::greet(job, None, SNAPSHOT_LIMIT).ok()?.ask(&Request::Snapshot, SNAPSHOT_LIMIT).ok()? {
        Reply::Described(snapshot) => Some(snapshot),
        _ => None,
    }
}

/// Tells whether a connection broke because the keeper is gone, and not because it is silent.
pub(crate) fn is_over_now(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionRefused | ConnectionReset | NotFound | UnexpectedEof)
}

fn unexpected(job: &Job, reply: &Reply) -> ControlError {
    match reply {
        Reply::Refused { code, .. } if code == UNKNOWN_REQUEST => ControlError::TooOld(job.id().clone()),
        Reply::Refused { code, message } if code == NOT_HIDDEN => {
            ControlError::NotHidden { job: job.id().clone(), why: message.clone() }
        }
        Reply::Refused { code, message } => {
            ControlError::Refused { code: code.clone(), message: message.clone() }
        }
        _ => unreachable(job, io::Error::new(io::ErrorKind::InvalidData, "an answer to another question")),
    }
}

fn keeper_of(state: &State) -> Option<ProcessId> {
    state.meta.as_ref()?.keeper.map(tree::identity)
}

fn unreachable(job: &Job, source: io::Error) -> ControlError {
    ControlError::Unreachable(job.id().clone(), source)
}
