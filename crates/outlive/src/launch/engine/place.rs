//! Beginning a job on the node that an engine has chosen.
//!
//! The process of the engine's script claims the job and becomes the guard of its keeper: for the engine the job is what that process is.
//! Another process, which ends soon, prepares the job meanwhile as a front end does, and sends the keeper the launch request.

use std::convert::Infallible;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;

use outlive_core::id::{JobId, Nonce};
use outlive_core::launch::LaunchReply;
use outlive_core::outcome::WaitStatus;
use outlive_core::placement::Placed;
use outlive_core::spec::Process;
use outlive_core::timestamp::Timestamp;
use outlive_core::{FORMAT, file};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::identity::ProcessId;
use outlive_sys::keeper::{FOREGROUND, PROGRAM};
use outlive_sys::{clock, detach, durable, socket};

use super::slurm;
use crate::job::Job;
use crate::launch::prepared::Prepared;
use crate::launch::request::Request;
use crate::launch::start::{StartError, talk};
use crate::store::Store;

/// Why a job was not begun on a node.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// It was cancelled, or another process has begun it.
    #[error("{0} was cancelled, or was begun before; it is not begun twice")]
    Over(JobId),
    /// The store has no such job.
    #[error("the store has no job {0} with this nonce")]
    NotFound(JobId),
    /// The process that prepares it cannot be started.
    #[error("cannot start the process that prepares {0}")]
    Starter(JobId, #[source] io::Error),
    /// No keeper can be executed.
    #[error("cannot execute a keeper for {0}")]
    Keeper(JobId, #[source] io::Error),
    /// It could not be started; the job says so.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A place that has ended with its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftPlace {
    /// What the engine is to be told: the exit code of the main process, as shells give it.
    pub code: u8,
}

impl Store {
    /// Becomes the only process that begins a job which was submitted: at most once for each job.
    ///
    /// # Errors
    ///
    /// If it was cancelled or begun before.
    pub fn claim(&self, id: &JobId, nonce: Nonce) -> Result<Job, PlaceError> {
        let job = self.find_exactly(id, nonce).ok_or_else(|| PlaceError::NotFound(id.clone()))?;
        let over = |_| PlaceError::Over(id.clone());
        let dir = job.dir().map_err(over)?;
        fault::step(Point::Claim, || durable::rename(dir, file::SUBMITTED, file::CLAIMED)).map_err(over)?;
        Ok(job)
    }

    /// Becomes the keeper's process, in the foreground, for a job that this process has claimed: as the first guard, which ends with the
    /// job. Signals that have come are for the job. `is_followed`: steps beside the job, which end with its place, may read it.
    ///
    /// Returns only if that is not possible.
    pub fn become_keeper(&self, job: &Job, is_followed: bool) -> PlaceError {
        let id = || job.id().clone();
        let (ours, theirs) = match fault::step(Point::KeeperPair, socket::pair) {
            Ok(pair) => pair,
            Err(error) => return PlaceError::Starter(id(), error),
        };
        let started = fault::step(Point::StarterExec, || self.begin_starter(job, is_followed, &ours));
        if let Err(error) = started {
            return PlaceError::Starter(id(), error);
        }
        drop(ours);
        let become_keeper = || -> io::Result<Infallible> {
            let programs =
                self.keeper.candidates().map(|path| CString::new(path.into_os_string().into_vec()));
            let programs = programs.collect::<Result<Vec<_>, _>>()?;
            let words = [PROGRAM, FOREGROUND].map(CString::new).into_iter().collect::<Result<Vec<_>, _>>()?;
            Err(detach::become_one_of(&programs, &words, &[theirs.as_fd()]))
        };
        match fault::step(Point::ForegroundExec, become_keeper) {
            Err(error) => PlaceError::Keeper(id(), error),
        }
    }

    /// Starts the process that prepares the job, with this one's environment, and its standard error for what cannot be said elsewhere.
    fn begin_starter(&self, job: &Job, is_followed: bool, ours: &UnixStream) -> io::Result<()> {
        let program = self.helper_program().ok_or(io::ErrorKind::NotFound)?;
        let mut words = self.helper_arguments("placed", job.spec());
        words.push(b"--script".to_vec());
        words.push(std::process::id().to_string().into_bytes());
        words.extend(is_followed.then(|| b"--given".to_vec()));
        let words = words.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let join = |(name, value): (OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let environment = std::env::vars_os().map(join).collect::<Result<Vec<_>, _>>()?;
        let program = CString::new(program.into_os_string().into_vec())?;
        let said = io::stderr();
        detach::start(program, words, environment, &[ours.as_fd(), said.as_fd()]).map(drop)
    }

    /// Begins a job that the process of the engine's script has claimed, which becomes the keeper's at the other end of the socket.
    ///
    /// # Errors
    ///
    /// If it has ended before, or cannot be started.
    pub fn place(
        &self,
        id: &JobId,
        nonce: Nonce,
        script: i32,
        is_followed: bool,
        keeper: UnixStream,
    ) -> Result<(), PlaceError> {
        let job = self.find_exactly(id, nonce).ok_or_else(|| PlaceError::NotFound(id.clone()))?;
        let over = || PlaceError::Over(id.clone());
        let script = ProcessId::of(script).ok_or_else(over)?;
        // Before the place is told: a placed job whose locks are free counts as one whose keeper died.
        let prepared = Prepared::reopen(job).map_err(|error| StartError::Store(self.jobs(), error))?;
        let job = prepared.job();
        if job.records().0.is_some() {
            return Err(over());
        }
        self.note_place(job, script)?;
        let request = Request::again(job);
        let path = request.path();
        let resolved = request.resolve(self.config(), path.as_deref()).map_err(StartError::from)?;
        let helper = self.open_helper().ok();
        let frame = self.launch_frame(&request, &resolved, job, is_followed)?;
        let why = match talk(keeper, &prepared, helper.as_ref(), &frame, || Ok(())) {
            Ok(Some(LaunchReply::Started(_) | LaunchReply::Queued)) => {
                self.start_prober(prepared.job());
                return Ok(());
            }
            Ok(Some(LaunchReply::NotStarted(why))) => StartError::NeverStarted { job: id.clone(), why },
            Ok(Some(LaunchReply::OtherVersion(version))) => {
                StartError::KeeperVersion(PROGRAM.into(), version)
            }
            Ok(None) => StartError::Silent(id.clone()),
            Err(error) => return Err(PlaceError::Keeper(id.clone(), error)),
        };
        Err(why.into())
    }

    /// Writes down that a job is here, in the process that the engine started.
    fn note_place(&self, job: &Job, script: ProcessId) -> Result<(), StartError> {
        let placed = Placed {
            format: FORMAT,
            host: self.host().clone(),
            node: slurm::own_node(),
            engine_job: slurm::own_number().unwrap_or_default(),
            process: Process { pid: script.pid, start_time: script.start_time },
            at: Timestamp(clock::wall_us()),
        };
        let failed = |error| StartError::Store(job.path().to_owned(), error);
        let bytes = serde_json::to_vec(&placed).map_err(|error| failed(error.into()))?;
        job.dir()
            .and_then(|dir| durable::replace(Replacing::PLACED, dir, file::PLACED, &bytes))
            .map_err(failed)
    }

    /// Removes the mark of a job that has ended on this node; `None` for one that no engine placed. Until then it counts as one that
    /// waits: it is no load of the machine that submitted it.
    pub fn leave_place(&self, id: &JobId, nonce: Nonce) -> Option<LeftPlace> {
        let job = self.find_exactly(id, nonce).filter(|job| job.spec().placement.is_some())?;
        fault::step(Point::PlaceLeave, || fs::remove_file(self.waiting().join(id.as_str()))).ok();
        let code = match job.records().0.map(|outcome| outcome.wait_status) {
            Some(WaitStatus::Exited { code }) => code as u8,
            Some(WaitStatus::Signaled { signal, .. }) => (128 + signal) as u8,
            Some(WaitStatus::Unknown) | None => 1,
        };
        Some(LeftPlace { code })
    }
}
