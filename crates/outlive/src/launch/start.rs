//! Starts a job.
//!
//! The order of steps is that of `docs/on-disk-format.md`: a crash at any step leaves nothing, or a whole intent.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use outlive_core::file;
use outlive_core::id::JobId;
use outlive_core::launch::{Launch, LaunchReply};
use outlive_core::options::{JobOptions, Ready};
use outlive_core::outcome::NeverStarted;
use outlive_core::restart::RestartWhen;
use outlive_core::spec::Lifetime;
use outlive_core::wire::{HEADER, MAX_FRAME};
use outlive_sys::fault::{self, Point};
use outlive_sys::{durable, socket};

use crate::companion::files;
use crate::control::{is_over_now, receive_frame};
use crate::job::Job;
use crate::launch::after::AfterError;
use crate::launch::engine::EngineError;
use crate::launch::pipe;
use crate::launch::prepared::Prepared;
use crate::launch::programs::SpareKeeper;
use crate::launch::queue::QueueError;
use crate::launch::request::{Request, RequestError};
use crate::launch::resolve::Resolved;
use crate::store::Store;
use crate::store::limits::LimitError;
use crate::store::remove;

/// How long a keeper may take until the command runs; only a working directory on a dead network file system takes longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A job that was started.
#[derive(Debug)]
pub struct Started {
    /// The job, as it is in the store.
    pub job: Job,
    /// The pid of its main process; none while it waits for its time.
    pub pid: Option<i32>,
    /// Something the caller should know, such as a limit that is near.
    pub warning: Option<String>,
}

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Too many jobs are live.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// It is to be started after something that can never come.
    #[error(transparent)]
    After(#[from] AfterError),
    /// Its queue cannot be used.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The store cannot be written.
    #[error("cannot prepare the job in {0}")]
    Store(PathBuf, #[source] io::Error),
    /// No keeper program was found.
    #[error("there is no outlive-keeper beside this program or in PATH")]
    NoKeeper,
    /// No program for the on-exit work was found.
    #[error("there is no outlive beside this program or in PATH to tell of the job's end")]
    NoHelper,
    /// The keeper's program cannot be executed.
    #[error("cannot execute the keeper {0}")]
    Keeper(PathBuf, #[source] io::Error),
    /// The keeper accepts launch requests of another version than this library's.
    #[error("the keeper {0} is of another version (it takes launch request {1})")]
    KeeperVersion(PathBuf, u32),
    /// The command was not executed; the job is in the store with this outcome.
    #[error("{}", .why.sentence())]
    NeverStarted {
        /// The job that records the failure.
        job: JobId,
        /// The step that failed, and the error.
        why: NeverStarted,
    },
    /// The engine that was to place it did not take it.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The keeper does not answer; the job is in the store and may still start.
    #[error("the keeper of {0} has not answered")]
    Silent(JobId),
}

impl Store {
    /// Starts a job and returns at once; the job outlives the caller.
    ///
    /// # Durability
    ///
    /// When this returns, the job is in the store (written, not synced) and its command was executed.
    ///
    /// # Errors
    ///
    /// If the request is invalid, a limit is reached, the store cannot be written or the command cannot be executed.
    pub fn start(&self, request: &Request) -> Result<Started, StartError> {
        // Starts now, so that it is ready when the job is prepared.
        let spare = self.keeper.take_spare();
        let mut request = self.in_session(request);
        let path = request.path();
        let resolved = request.resolve(self.config(), path.as_deref())?;
        files::check(&resolved.cwd, &request.restart_on_change)?;
        if resolved.options.is_notified() {
            self.check_socket_path(request.id.as_ref())?;
        }
        if request.planned.is_none() {
            request.planned = crate::launch::schedule::first(&resolved.options.schedule, &request)?;
        }
        let request = &request;
        // Before anything is written: without a helper, a job with on-exit work is not started.
        let options = &resolved.options;
        let needs_helper = !options.completion.is_empty() || runs_again(options);
        let helper = match !needs_helper {
            // Without it a command that asks its terminal for the cursor gets no answer, and a process that checks the job and is
            // killed is not started again by the keeper.
            true => {
                let has_companion = is_probed(options) || !request.restart_on_change.is_empty();
                (options.pty || has_companion).then(|| self.open_helper().ok()).flatten()
            }
            false => Some(self.open_helper().map_err(|_| StartError::NoHelper)?),
        };
        self.check_after(&request.after)?;
        if let Some(queue) = &options.queue {
            self.make_queue(queue)?;
        }
        let mut gone = Vec::new();
        let prepared = self.prepare(request, &resolved, &mut gone);
        // With the store's lock free: no other front end waits for this.
        gone.iter().for_each(|gone| drop(remove::delete(gone)));
        let (prepared, warning) = prepared?;
        // The keeper writes events there; without the directory the job runs and has no events.
        fault::step(Point::SessionMake, || self.make_session(&request.session)).ok();
        // The lease of a job that lives with its session begins now.
        let is_leased = matches!(resolved.options.lifetime, Lifetime::Session { .. });
        let _lease = if is_leased { self.hold_lease_until_drop(&request.session) } else { None };
        if request.placement.is_some() {
            return self.submit(prepared, warning);
        }
        let pid = self.launch(request, &resolved, &prepared, helper.as_ref(), spare)?;
        self.keeper.make_spare();
        let job = prepared.job;
        if is_probed(&job.spec().options) || job.needs_companion() {
            self.start_prober(&job);
        }
        // A failed collection is not the caller's failure.
        self.collect_in_passing().ok();
        Ok(Started { job, pid, warning })
    }

    /// Checks that a command can send to a socket in the directory of a job: the kernel takes no longer address.
    fn check_socket_path(&self, id: Option<&JobId>) -> Result<(), RequestError> {
        let longest = id.map_or(JobId::GENERATED_MAX, |id| id.as_str().len());
        let path = self.jobs().as_os_str().len() + "/".len() + longest + "/".len() + file::NOTIFY.len();
        match path <= socket::LONGEST_PATH {
            true => Ok(()),
            false => Err(RequestError::SocketPath(self.root().to_owned())),
        }
    }

    /// Executes a keeper and sends it the launch request; returns the pid of the command. `helper` is the program that the keeper
    /// executes at the end, if the job has an on-exit command or a webhook or may be started again, and to learn where the cursor of a terminal is.
    pub(crate) fn launch(
        &self,
        request: &Request,
        resolved: &Resolved,
        prepared: &Prepared,
        helper: Option<&File>,
        mut spare: Option<SpareKeeper>,
    ) -> Result<Option<i32>, StartError> {
        let job = &prepared.job;
        let frame = match self.launch_frame(request, resolved, job, false) {
            Ok(frame) => frame,
            Err(error) => {
                self.withdraw(job);
                return Err(error);
            }
        };
        let mut failure = StartError::NoKeeper;
        for program in self.keeper.candidates() {
            let waiting = spare.take().filter(|spare| spare.program == program);
            let waiting = waiting.filter(SpareKeeper::is_fit);
            let keeper = waiting.map_or_else(|| SpareKeeper::of(&program), Ok);
            let job = job.id().clone();
            let talked = keeper
                .map(SpareKeeper::into_parts)
                .and_then(|(socket, is_executed)| talk(socket, prepared, helper, &frame, is_executed));
            failure = match talked {
                Ok(Some(LaunchReply::Started(process))) => return Ok(Some(process.pid)),
                Ok(Some(LaunchReply::Queued)) => return Ok(None),
                Ok(Some(LaunchReply::NotStarted(why))) => return Err(StartError::NeverStarted { job, why }),
                Ok(Some(LaunchReply::OtherVersion(version))) => StartError::KeeperVersion(program, version),
                Ok(None) => return Err(StartError::Silent(job)),
                Err(error) => StartError::Keeper(program, error),
            };
        }
        self.withdraw(job);
        Err(failure)
    }

    /// Returns the launch request of a job. `is_followed`: it is kept on this node, and steps beside it may read it until its place ends.
    pub(crate) fn launch_frame(
        &self,
        request: &Request,
        resolved: &Resolved,
        job: &Job,
        is_followed: bool,
    ) -> Result<Vec<u8>, StartError> {
        let spec = job.spec();
        let socket = spec.options.is_notified().then(|| job.path().join(file::NOTIFY));
        let health = &spec.options.health;
        let watchdog = health.notify.then(|| (health.interval_ms() * 1000).to_string());
        let own = [("OUTLIVE_JOB", spec.job.as_str()), ("OUTLIVE_SESSION", spec.session.as_str())];
        let mut own = Vec::from(own.map(|(name, value)| (name, OsStr::new(value))));
        own.extend(socket.as_ref().map(|socket| ("NOTIFY_SOCKET", socket.as_os_str())));
        own.extend(watchdog.as_ref().map(|interval_us| ("WATCHDOG_USEC", OsStr::new(interval_us))));
        let environment = request.environment(&own, spec.options.pty);
        // The engine learns from it how the job has ended.
        let is_placed = spec.placement.is_some();
        let mut completion = match spec.options.completion.is_empty() && !is_placed {
            true => Vec::new(),
            false => self.helper_arguments("on-exit", spec),
        };
        completion.extend(is_followed.then(|| b"--followed".to_vec()));
        let is_watching = !spec.restart_on_change.is_empty() || is_placed;
        let next_run = match runs_again(&spec.options) || is_probed(&spec.options) || is_watching {
            false => Vec::new(),
            true => self.helper_arguments("next-run", spec),
        };
        let noting = request.notes_pipe_codes.then(|| pipe::noting_codes(spec, job.path())).flatten();
        let mut argv: Vec<&[u8]> = spec.argv.iter().map(|argument| argument.0.as_slice()).collect();
        if let (Some(noting), Some(line)) = (&noting, argv.last_mut()) {
            *line = noting.as_bytes();
        }
        let frame = Launch {
            job: spec.job.clone(),
            nonce: spec.nonce,
            live_mark: job.live_mark(),
            candidates: resolved.candidates.iter().map(Vec::as_slice).collect(),
            argv,
            environment: environment.iter().map(Vec::as_slice).collect(),
            cwd: &spec.cwd.0,
            options: spec.options.clone(),
            sync: self.config().store.sync,
            completion: completion.iter().map(Vec::as_slice).collect(),
            next_run: next_run.iter().map(Vec::as_slice).collect(),
            is_watching,
            due_boot_us: spec.rerun.as_ref().map_or(0, |rerun| rerun.due_boot_us),
            after: spec.after.clone(),
        }
        .to_frame();
        match frame.len() - HEADER <= MAX_FRAME {
            true => Ok(frame),
            false => Err(RequestError::TooLarge(frame.len()).into()),
        }
    }

    /// Takes an intent back of which nothing was started: in one step, so that no reader finds half of it and calls it damaged.
    pub(crate) fn withdraw(&self, job: &Job) {
        let spec = job.spec();
        self.remove_live_mark(Point::BackMark, job);
        self.unmark_pending(spec);
        self.unmark_watched(spec);
        let gone = self.gone_path(job);
        let moved = fault::step(Point::BackRename, || durable::rename_new(job.path(), &gone));
        if moved.is_ok_and(|is_moved| is_moved) {
            fault::step(Point::BackDelete, || fs::remove_dir_all(&gone)).ok();
        }
    }
}

/// Tells whether a process checks whether the job is ready or healthy.
pub(crate) fn is_probed(options: &JobOptions) -> bool {
    options.ready != Ready::default() || options.health.is_checked()
}

/// Tells whether the keeper may have to let another run follow.
fn runs_again(options: &JobOptions) -> bool {
    options.restart.when != RestartWhen::No || options.schedule.is_set()
}

/// Hands a keeper its descriptors and the launch request; returns its answer, or `None` if it does not answer in time. One that is gone is asked
/// whether it `is_executed`: an error of that is the answer.
pub(crate) fn talk(
    ours: UnixStream,
    prepared: &Prepared,
    helper: Option<&File>,
    frame: &[u8],
    is_executed: impl FnOnce() -> io::Result<()>,
) -> io::Result<Option<LaunchReply>> {
    ours.set_read_timeout(Some(ANSWER_LIMIT))?;
    ours.set_write_timeout(Some(ANSWER_LIMIT))?;
    let Prepared { job, lock, done, outcome, index, log, submitted: _ } = prepared;
    let dir = job.dir()?;
    let mut fds = vec![lock.as_fd(), done.as_fd(), dir.as_fd()];
    fds.extend([outcome, index, log].into_iter().chain(helper).map(AsFd::as_fd));
    // A keeper that rejects the request answers before it has read all of it.
    let sent = fault::write(Point::LaunchSend, frame, |part| socket::send_with(&ours, part, &fds));
    if sent.is_err() {
        // So that neither process waits for the other.
        ours.shutdown(Shutdown::Write).ok();
    }
    match fault::step(Point::LaunchAnswer, || receive_frame(&ours)) {
        Ok(contents) => LaunchReply::parse(&contents).map(Some).map_err(io::Error::other),
        // The keeper may be alive and still start the job.
        Err(error) if !is_over_now(&error) => Ok(None),
        Err(_) => {
            is_executed()?;
            // The keeper died. Its progress is in the store, or nowhere.
            let detail = sent.err().map(|error| error.to_string());
            let why = NeverStarted { step: "keeper".into(), detail, ..NeverStarted::default() };
            Ok(Some(LaunchReply::NotStarted(why)))
        }
    }
}
