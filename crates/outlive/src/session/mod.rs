//! Sessions: each job belongs to one, and is visible there.
//!
//! A session exists as soon as a job is started in it. Only its settings are a file of their own; everything else is derived
//! from its jobs.

pub(crate) mod agent;
pub(crate) mod connection;
mod hosts;
pub(crate) mod reader;
pub(crate) mod seat;
pub(crate) mod task;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use outlive_core::event::Kind;
use outlive_core::id::{JobId, SessionName};
use outlive_core::rawtext::RawText;
use outlive_core::session::Settings;
use outlive_core::timestamp::Timestamp;
use outlive_core::{FORMAT, file};
use outlive_sys::fault::{self, Appending, Point, Replacing};
use outlive_sys::{clock, durable, lock};
use serde::Serialize;

use crate::control::usage::Usage;
use crate::control::{ControlError, Kill};
use crate::job::Job;
use crate::job::find::list;
use crate::launch::request::Request;
use crate::store::Store;

/// Longest wait for a lease. A keeper that checks the lease holds it only for an instant.
const LEASE_LIMIT: Duration = Duration::from_secs(1);

/// A session and its jobs.
#[derive(Debug)]
pub struct Session {
    /// Unique in the store.
    pub name: SessionName,
    /// Defaults for its jobs; none if the session was never created explicitly.
    pub settings: Option<Settings>,
    /// Jobs with running processes.
    pub live: Vec<Job>,
    /// Jobs that have ended and are still in the store.
    pub ended: Vec<Job>,
}

/// The documented JSON object of a session.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionObject {
    /// The session's name.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub session: SessionName,
    /// `open` or `closed`.
    pub state: &'static str,
    /// How many of its jobs are live.
    pub live: usize,
    /// How many of its jobs have ended and are still in the store.
    pub ended: usize,
    /// Working directory of its jobs; none: the directory of the front end that starts them.
    pub cwd: Option<String>,
    /// Environment variables of its jobs; values are `***` unless requested.
    pub env: BTreeMap<String, String>,
    /// Time of its explicit creation.
    pub created_at: Option<String>,
    /// Time of its closing.
    pub closed_at: Option<String>,
    /// What its live jobs use together; none if not requested.
    pub usage: Option<Usage>,
    /// Ids of the live jobs.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub live_jobs: Vec<JobId>,
}

/// What happens to live jobs when their session is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// The session is not closed.
    Refuse,
    /// The jobs are killed.
    Kill,
    /// The jobs are moved to the default session.
    Transfer,
}

/// Why a request about a session failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No session has this name.
    #[error("no session {0}")]
    Unknown(SessionName),
    /// The session exists and is open.
    #[error("session {0} is there already")]
    Exists(SessionName),
    /// The session has live jobs.
    #[error("session {0} has live jobs: {ids}", ids = list(.1))]
    Live(SessionName, Vec<JobId>),
    /// The default session is to be closed, and its jobs would be moved to it.
    #[error("the jobs of session {0} cannot be given to itself")]
    ToItself(SessionName),
    /// A job of the session could not be killed.
    #[error("cannot end {0}")]
    Kill(JobId, #[source] Box<ControlError>),
    /// Processes of a job survived the kill.
    #[error("{0} is not wholly ended")]
    Survivors(JobId),
    /// The job belongs to another host or pid namespace.
    #[error("job {0} belongs to another host or pid namespace")]
    Elsewhere(JobId),
    /// The store cannot be read or written.
    #[error("cannot use the session in the store")]
    Store(#[from] io::Error),
}

/// While it is held, a front end is open for a session, and the jobs that live with it go on.
#[derive(Debug)]
pub struct Lease {
    _held: File,
}

impl Store {
    /// Creates a session with defaults for its jobs.
    ///
    /// # Errors
    ///
    /// If it exists and is open, or the store cannot be written.
    pub fn create_session(
        &self,
        name: &SessionName,
        cwd: Option<RawText>,
        env_set: BTreeMap<String, RawText>,
    ) -> Result<(), SessionError> {
        let _lock = self.lock()?;
        if self.session_settings(name).is_some_and(|settings| settings.closed.is_none()) {
            return Err(SessionError::Exists(name.clone()));
        }
        self.make_session(name)?;
        let created = Timestamp(clock::wall_us());
        self.write_settings(
            name,
            &Settings { format: FORMAT, cwd, env_set, created, closed: None, newer: BTreeMap::new() },
        )?;
        Ok(())
    }

    /// Finds a session that was created or has jobs.
    ///
    /// # Errors
    ///
    /// If there is no such session, or the store cannot be read.
    pub fn session(&self, name: &SessionName) -> Result<Session, SessionError> {
        let settings = self.session_settings(name);
        let (live, ended): (Vec<Job>, Vec<Job>) =
            self.list(Some(name))?.jobs.into_iter().partition(|job| job.state(self).is_live());
        if settings.is_none() && live.is_empty() && ended.is_empty() {
            return Err(SessionError::Unknown(name.clone()));
        }
        Ok(Session { name: name.clone(), settings, live, ended })
    }

    /// Lists the sessions that were created or have jobs, by name.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn list_sessions(&self) -> io::Result<Vec<Session>> {
        let mut sessions: BTreeMap<SessionName, Session> = BTreeMap::new();
        let empty = |name: SessionName| {
            let settings = self.session_settings(&name);
            (name.clone(), Session { name, settings, live: Vec::new(), ended: Vec::new() })
        };
        let created = self.sessions()?.into_iter().map(empty);
        sessions.extend(created.filter(|(_, session)| session.settings.is_some()));
        for job in self.list(None)?.jobs {
            let name = job.session().clone();
            let session = sessions.entry(name.clone()).or_insert_with(|| empty(name).1);
            if job.state(self).is_live() { session.live.push(job) } else { session.ended.push(job) }
        }
        Ok(sessions.into_values().collect())
    }

    /// Closes a session: its live jobs are killed or moved, and its settings are cleared. Ended jobs are kept as usual.
    ///
    /// # Errors
    ///
    /// If there is no such session, it has live jobs and `running` refuses, or one of them could not be killed.
    pub fn close_session(&self, name: &SessionName, running: Running) -> Result<Session, SessionError> {
        let session = self.session(name)?;
        if !session.live.is_empty() {
            match running {
                Running::Refuse => {
                    let live = session.live.iter().map(|job| job.id().clone()).collect();
                    return Err(SessionError::Live(name.clone(), live));
                }
                Running::Kill => self.end_jobs(&session.live)?,
                Running::Transfer => {
                    let default = SessionName::default();
                    if *name == default {
                        return Err(SessionError::ToItself(default));
                    }
                    session.live.iter().try_for_each(|job| self.transfer(job, &default))?;
                }
            }
        }
        let _lock = self.lock()?;
        let now = Timestamp(clock::wall_us());
        let created = session.settings.as_ref().map_or(now, |settings| settings.created);
        self.make_session(name)?;
        let settings = Settings {
            format: FORMAT,
            cwd: None,
            env_set: BTreeMap::new(),
            created,
            closed: Some(now),
            newer: BTreeMap::new(),
        };
        self.write_settings(name, &settings)?;
        Ok(session)
    }

    fn end_jobs(&self, jobs: &[Job]) -> Result<(), SessionError> {
        let request = Kill { by: "outlive session close".to_owned(), ..Kill::default() };
        for (job, killed) in jobs.iter().zip(self.kill_all(jobs, &request)) {
            match killed {
                Ok(killed) if killed.survivors.is_empty() => {}
                Err(ControlError::Ended(_)) => {}
                Ok(_) => return Err(SessionError::Survivors(job.id().clone())),
                Err(error) => return Err(SessionError::Kill(job.id().clone(), Box::new(error))),
            }
        }
        Ok(())
    }

    /// Moves a job to another session, which sees it from now on and gets its events.
    ///
    /// # Durability
    ///
    /// Written, not synced. A crash leaves the job in one of the two sessions; a stale mark is repaired later.
    ///
    /// # Errors
    ///
    /// If the job belongs to another host, or the store cannot be written.
    pub fn transfer(&self, job: &Job, to: &SessionName) -> Result<(), SessionError> {
        if job.session() == to {
            return Ok(());
        }
        if job.state(self).is_elsewhere() {
            return Err(SessionError::Elsewhere(job.id().clone()));
        }
        let lock = self.lock()?;
        self.make_session(to)?;
        durable::replace(Replacing::TRANSFER, job.dir()?, file::SESSION, format!("{to}\n").as_bytes())?;
        let (old, new) = (job.live_mark(), format!("{}@{to}", job.id()));
        // The keeper removes both names. A job that ended meanwhile has no mark.
        let (old, new) = (self.live().join(old), self.live().join(new));
        match fault::step(Point::TransferMark, || fs::rename(old, new)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        drop(lock);
        // In the old session: its readers stop waiting for this job's end.
        self.append_event_of(Appending::TRANSFER_EVENT, job, Kind::Transferred);
        Ok(())
    }

    /// Holds the lease of a session. `None` if no job lives with the session, or the lease cannot be taken.
    pub fn hold_lease(&self, name: &SessionName) -> Option<Lease> {
        let dir = durable::open_dir(&self.session_dir(name)).ok()?;
        held(durable::open_rw(&dir, file::LEASE).ok()?)
    }

    /// Holds the lease of a session even if no job lives with it yet; for long-running front ends.
    pub fn hold_lease_until_drop(&self, name: &SessionName) -> Option<Lease> {
        self.make_session(name).ok()?;
        let dir = durable::open_dir(&self.session_dir(name)).ok()?;
        held(durable::open_or_create(&dir, file::LEASE).ok()?)
    }

    /// Reads a session's settings; `None` if it has none.
    pub fn session_settings(&self, name: &SessionName) -> Option<Settings> {
        Settings::parse(&durable::read(durable::CWD, self.session_dir(name).join(file::SETTINGS)).ok()?)
    }

    fn write_settings(&self, name: &SessionName, settings: &Settings) -> io::Result<()> {
        let dir = durable::open_dir(&self.session_dir(name))?;
        durable::replace(Replacing::SETTINGS, &dir, file::SETTINGS, &settings.to_bytes())
    }

    /// Returns the request with the session's settings filled in where it sets nothing. A closed session is opened again.
    pub(crate) fn in_session(&self, request: &Request) -> Request {
        let mut request = request.clone();
        let Some(settings) = self.session_settings(&request.session) else { return request };
        if settings.closed.is_some() {
            self.write_settings(&request.session, &Settings { closed: None, ..settings }).ok();
            return request;
        }
        request.take_from(&settings);
        request
    }

    /// Takes out the directories of sessions that are closed or never created, have no jobs, and were unchanged for so long; they
    /// are left to delete. To be called with the store's lock held: a start may be about to use one.
    pub(crate) fn take_out_sessions(&self, kept: Duration) -> Vec<PathBuf> {
        let Ok(listing) = self.list(None) else { return Vec::new() };
        let mut taken = Vec::new();
        for name in self.sessions().unwrap_or_default() {
            let directory = self.session_dir(&name);
            let is_made = self.session_settings(&name).is_some_and(|settings| settings.closed.is_none());
            let is_used =
                listing.jobs.iter().any(|job| *job.session() == name) || !listing.damaged.is_empty();
            if !is_made && !is_used && is_silent(&directory, kept) {
                let gone = self.new_dir().join(format!("{}.gone", durable::temporary_name(name.as_str())));
                taken.extend(fs::rename(&directory, &gone).is_ok().then_some(gone));
            }
        }
        taken
    }
}

/// Tells whether nothing in a directory changed for so long.
fn is_silent(directory: &std::path::Path, kept: Duration) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let newest = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
    let newest = newest.or_else(|| fs::metadata(directory).ok()?.modified().ok());
    newest.is_some_and(|time| time.elapsed().is_ok_and(|age| age >= kept))
}

/// Takes a lease. Its modification time tells keepers when it was last taken.
fn held(file: File) -> Option<Lease> {
    file.set_modified(SystemTime::now()).ok();
    lock::share_within(&file, LEASE_LIMIT).ok().filter(|&is_held| is_held)?;
    Some(Lease { _held: file })
}

impl Session {
    /// Returns the object for scripts; `usage` is for its live jobs, values of variables are shown only if requested.
    pub fn object(&self, usage: Option<Usage>, with_values: bool) -> SessionObject {
        let settings = self.settings.as_ref();
        let value = |value: &RawText| if with_values { value.to_lossy() } else { "***".to_owned() };
        let variables = settings.map(|settings| &settings.env_set).into_iter().flatten();
        let is_closed = settings.is_some_and(|settings| settings.closed.is_some()) && self.live.is_empty();
        SessionObject {
            session: self.name.clone(),
            state: if is_closed { "closed" } else { "open" },
            live: self.live.len(),
            ended: self.ended.len(),
            cwd: settings.and_then(|settings| settings.cwd.as_ref()).map(RawText::to_lossy),
            env: variables.map(|(name, text)| (name.clone(), value(text))).collect(),
            created_at: settings.map(|settings| settings.created.to_string()),
            closed_at: settings.and_then(|settings| settings.closed).map(|time| time.to_string()),
            usage,
            live_jobs: self.live.iter().map(|job| job.id().clone()).collect(),
        }
    }

    /// Sums up what its live jobs use.
    pub fn usage(&self, store: &Store) -> Usage {
        let mut sum = Usage::default();
        for job in &self.live {
            let state = job.state(store);
            sum += job.usage(&state, job.tree(store, &state).as_ref());
        }
        sum
    }
}
