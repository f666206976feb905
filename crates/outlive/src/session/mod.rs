//! Sessions: whose job it is, and so who sees it.
//!
//! A session is there as soon as a job is started in it. Only what its jobs start from has to be said, and is in a file of its
//! own; everything else is derived from the jobs.

pub(crate) mod agent;
pub(crate) mod presence;
pub(crate) mod reader;
pub(crate) mod task;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
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
use crate::launch::request::Request;
use crate::store::Store;

/// How long to wait for a lease. A keeper that looks whether it is held holds it for an instant.
const LEASE_LIMIT: Duration = Duration::from_secs(1);

/// A session as it is found.
#[derive(Debug)]
pub struct Session {
    /// Its name.
    pub name: SessionName,
    /// What its jobs start from, if anything was said.
    pub settings: Option<Settings>,
    /// Jobs of which something runs.
    pub live: Vec<Job>,
    /// Jobs that have ended and are still in the store.
    pub ended: Vec<Job>,
}

/// A session as scripts see it.
#[derive(Debug, Serialize)]
pub struct SessionObject {
    /// Its name.
    pub session: SessionName,
    /// `open` or `closed`.
    pub state: &'static str,
    /// How many of its jobs are live.
    pub live: usize,
    /// How many of its jobs have ended and are still in the store.
    pub ended: usize,
    /// The directory that its jobs start in; none: that of whoever starts them.
    pub cwd: Option<String>,
    /// Variables that its jobs get; values are shown as `***` unless they are asked for.
    pub env: BTreeMap<String, String>,
    /// When it was made, if that was said.
    pub created_at: Option<String>,
    /// When it was closed.
    pub closed_at: Option<String>,
    /// What its live jobs use together; none if nobody looked.
    pub usage: Option<Usage>,
    /// The live jobs.
    pub live_jobs: Vec<JobId>,
}

/// What becomes of the live jobs of a session that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// It is not closed then.
    Refuse,
    /// They are ended.
    Kill,
    /// They are given to the default session.
    Transfer,
}

/// Why something could not be done with a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is none of this name.
    #[error("no session {0}")]
    Unknown(SessionName),
    /// It was made before.
    #[error("session {0} is there already")]
    Exists(SessionName),
    /// It has live jobs.
    #[error("session {session} has live jobs: {}", names(.live))]
    Live {
        /// Which session.
        session: SessionName,
        /// Which jobs.
        live: Vec<JobId>,
    },
    /// There is nobody to give its jobs to.
    #[error("the jobs of session {0} cannot be given to itself")]
    ToItself(SessionName),
    /// A job of it could not be ended.
    #[error("cannot end {job}")]
    Kill {
        /// Which.
        job: JobId,
        /// Why not.
        source: Box<ControlError>,
    },
    /// Something of a job goes on though everything was tried.
    #[error("{0} is not wholly ended")]
    Survivors(JobId),
    /// A job is of another machine or pid namespace.
    #[error("job {0} belongs to another host or pid namespace")]
    Elsewhere(JobId),
    /// The store cannot be read or written.
    #[error("cannot use the session in the store")]
    Store(#[from] io::Error),
}

/// Names at most five.
fn names(jobs: &[JobId]) -> String {
    let mut names: Vec<String> = jobs.iter().take(5).map(ToString::to_string).collect();
    if jobs.len() > names.len() {
        names.push(format!("{} more", jobs.len() - names.len()));
    }
    names.join(", ")
}

/// A front end is open for a session for as long as this is held: jobs that live with the session go on.
#[derive(Debug)]
pub struct Lease {
    _held: File,
}

impl Store {
    /// Makes a session with what its jobs start from.
    ///
    /// # Errors
    ///
    /// If it was made before and not closed, or the store cannot be written.
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

    /// Finds a session: one that was made, or that has jobs.
    ///
    /// # Errors
    ///
    /// If there is none, or the store cannot be read.
    pub fn session(&self, name: &SessionName) -> Result<Session, SessionError> {
        let settings = self.session_settings(name);
        let (live, ended): (Vec<Job>, Vec<Job>) =
            self.list(Some(name))?.jobs.into_iter().partition(|job| job.state(self).is_live());
        if settings.is_none() && live.is_empty() && ended.is_empty() {
            return Err(SessionError::Unknown(name.clone()));
        }
        Ok(Session { name: name.clone(), settings, live, ended })
    }

    /// Lists all sessions that were made or have jobs, by name.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn list_sessions(&self) -> io::Result<Vec<Session>> {
        let mut sessions: BTreeMap<SessionName, Session> = BTreeMap::new();
        let empty = |name: &SessionName| Session {
            name: name.clone(),
            settings: self.session_settings(name),
            live: Vec::new(),
            ended: Vec::new(),
        };
        for name in self.sessions()? {
            let session = empty(&name);
            if session.settings.is_some() {
                sessions.insert(name, session);
            }
        }
        for job in self.list(None)?.jobs {
            let name = job.session().clone();
            let session = sessions.entry(name.clone()).or_insert_with(|| empty(&name));
            if job.state(self).is_live() { session.live.push(job) } else { session.ended.push(job) }
        }
        Ok(sessions.into_values().collect())
    }

    /// Closes a session: nothing of it runs any more, and what was said of it is forgotten. What its jobs printed stays as
    /// long as that of any other.
    ///
    /// # Errors
    ///
    /// If there is none, it has live jobs and nothing was said of them, or one of them could not be ended.
    pub fn close_session(&self, name: &SessionName, running: Running) -> Result<Session, SessionError> {
        let session = self.session(name)?;
        if !session.live.is_empty() {
            match running {
                Running::Refuse => {
                    let live = session.live.iter().map(|job| job.id().clone()).collect();
                    return Err(SessionError::Live { session: name.clone(), live });
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
        let (created, closed) = (Timestamp(clock::wall_us()), Some(Timestamp(clock::wall_us())));
        let old = session.settings.as_ref();
        let created = old.map_or(created, |settings| settings.created);
        self.make_session(name)?;
        let settings = Settings {
            format: FORMAT,
            cwd: None,
            env_set: BTreeMap::new(),
            created,
            closed,
            newer: BTreeMap::new(),
        };
        self.write_settings(name, &settings)?;
        Ok(session)
    }

    fn end_jobs(&self, jobs: &[Job]) -> Result<(), SessionError> {
        let request =
            Kill { signal: None, grace: None, force: false, by: "outlive session close".to_owned() };
        for (job, killed) in jobs.iter().zip(self.kill_all(jobs, &request)) {
            match killed {
                Ok(killed) if killed.survivors.is_empty() => {}
                Err(ControlError::Ended(_)) => {}
                Ok(_) => return Err(SessionError::Survivors(job.id().clone())),
                Err(source) => {
                    return Err(SessionError::Kill { job: job.id().clone(), source: Box::new(source) });
                }
            }
        }
        Ok(())
    }

    /// Gives a job to another session, which sees it from now on, and whose events tell of it.
    ///
    /// # Durability
    ///
    /// Written, not synced. Whoever dies half-way leaves a job of the one or of the other session, and a mark that is swept.
    ///
    /// # Errors
    ///
    /// If the job is of another machine, or the store cannot be written.
    pub fn transfer(&self, job: &Job, to: &SessionName) -> Result<(), SessionError> {
        if job.session() == to {
            return Ok(());
        }
        if job.state(self).is_elsewhere() {
            return Err(SessionError::Elsewhere(job.id().clone()));
        }
        let lock = self.lock()?;
        self.make_session(to)?;
        durable::replace(Replacing::TRANSFER, job.dir(), file::SESSION, format!("{to}\n").as_bytes())?;
        let (old, new) = (job.live_mark(), format!("{}@{to}", job.id()));
        // Its keeper removes both names. One that ended meanwhile has none.
        let (old, new) = (self.live().join(old), self.live().join(new));
        match fault::step(Point::TransferMark, || fs::rename(old, new)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        drop(lock);
        // Told where it was: whoever follows that session waits for no end of it there.
        self.append_event_of(Appending::TRANSFER_EVENT, job, Kind::Transferred);
        Ok(())
    }

    /// Holds the lease of a session, so that jobs that live with it go on. `None` where no job does, or it cannot be had.
    pub fn hold_lease(&self, name: &SessionName) -> Option<Lease> {
        let dir = durable::open_dir(&self.session_dir(name)).ok()?;
        held(durable::open_rw(&dir, file::LEASE).ok()?)
    }

    /// Holds the lease of a session whether any job lives with it or not; for a front end that runs for long.
    pub fn hold_lease_until_drop(&self, name: &SessionName) -> Option<Lease> {
        self.make_session(name).ok()?;
        let dir = durable::open_dir(&self.session_dir(name)).ok()?;
        held(durable::create_new(&dir, file::LEASE).or_else(|_| durable::open_rw(&dir, file::LEASE)).ok()?)
    }

    /// Reads what was said of a session; `None` if nothing was.
    pub fn session_settings(&self, name: &SessionName) -> Option<Settings> {
        Settings::parse(&fs::read(self.session_dir(name).join(file::SETTINGS)).ok()?)
    }

    fn write_settings(&self, name: &SessionName, settings: &Settings) -> io::Result<()> {
        let dir = durable::open_dir(&self.session_dir(name))?;
        durable::replace(Replacing::SETTINGS, &dir, file::SETTINGS, &settings.to_bytes())
    }

    /// Returns the request with what its session says, which counts where the request itself says nothing. A session that was
    /// closed is opened again.
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

    /// Removes the directories of sessions that nobody needs: closed or never made, without jobs, and silent for so long.
    pub(crate) fn sweep_sessions(&self, kept: Duration) {
        let Ok(listing) = self.list(None) else { return };
        for name in self.sessions().unwrap_or_default() {
            let directory = self.session_dir(&name);
            let is_made = self.session_settings(&name).is_some_and(|settings| settings.closed.is_none());
            let is_used =
                listing.jobs.iter().any(|job| *job.session() == name) || !listing.damaged.is_empty();
            if !is_made && !is_used && is_silent(&directory, kept) {
                fs::remove_dir_all(&directory).ok();
            }
        }
    }
}

/// Tells whether nothing in a directory was changed for so long.
fn is_silent(directory: &std::path::Path, kept: Duration) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let newest = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
    let newest = newest.or_else(|| fs::metadata(directory).ok()?.modified().ok());
    newest.is_some_and(|time| time.elapsed().is_ok_and(|age| age >= kept))
}

/// Takes a lease, and leaves the time for keepers that look when it is free again.
fn held(file: File) -> Option<Lease> {
    file.set_modified(SystemTime::now()).ok();
    lock::share_within(&file, LEASE_LIMIT).ok().filter(|&is_held| is_held)?;
    Some(Lease { _held: file })
}

impl Session {
    /// Describes it. `usage` is what its live jobs use; values of variables only where they are asked for.
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

    /// Finds out what its live jobs use together.
    pub fn usage(&self, store: &Store) -> Usage {
        let mut sum = Usage::default();
        for job in &self.live {
            let state = job.state(store);
            sum += job.usage(&state, job.tree(store, &state).as_ref());
        }
        sum
    }
}
