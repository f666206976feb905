//! What a project's session keeps about `up`: what is wanted, and how far that has come.
//!
//! Two files, each with one writer: `project.json` is written by `up` and `down`, `progress.json` by the process that starts the jobs,
//! for as long as it holds `up.lock`. A generation that is replaced tells that process to stop.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use outlive::{JobId, SessionName, Store, Timestamp};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{clock, durable, lock, random};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const RECORD: &str = "project.json";
const PROGRESS: &str = "progress.json";
const LOCK: &str = "up.lock";
const RECORD_LOCK: &str = "project.lock";

/// The format of both files.
const FORMAT: u32 = 1;

/// How long the process that starts the jobs may take to stop: it may be ending a job, which has its grace.
pub(crate) const LOCK_LIMIT: Duration = Duration::from_secs(60);

/// What is wanted: `project.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    /// Another one with each `up` and `down`.
    pub generation: String,
    /// The file of the project.
    pub file: PathBuf,
    /// Names of the jobs that are to be started.
    pub wanted: Vec<String>,
    /// Names of the jobs that were asked for one by one, and so are started even if they have completed.
    #[serde(default)]
    pub named: Vec<String>,
    /// Names of the jobs that an `up` before this one was still starting: what becomes of them is told with this one.
    #[serde(default)]
    pub(crate) taken_over: Vec<String>,
    /// The first `up` since the last `down`: what completed since then is not started again.
    #[serde(rename = "since_us")]
    pub since: Timestamp,
}

/// How far it has come: `progress.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    format: u32,
    /// The generation that it is about.
    pub generation: String,
    /// What became of each job so far.
    pub jobs: BTreeMap<String, Step>,
    /// Nothing more will be started.
    pub is_over: bool,
}

/// What became of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// How far it has come.
    pub state: StepState,
    /// Its job in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// What it waits for, what changed, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The other machine that its job is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Which definition was sent to that machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) definition: Option<String>,
}

/// How far `up` has come with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// It waits for another job.
    Waiting,
    /// It was started.
    Started,
    /// It ran, was started in another way, and is started again.
    Restarted,
    /// It ran already.
    Kept,
    /// It has completed, and is not started again.
    Completed,
    /// It could not be started.
    Failed,
}

impl Record {
    /// Makes the record of a new generation.
    pub(crate) fn new(
        file: PathBuf,
        wanted: Vec<String>,
        named: Vec<String>,
        since: Option<Timestamp>,
    ) -> Self {
        let generation = random::bytes16().iter().map(|byte| format!("{byte:02x}")).collect();
        let since = since.unwrap_or_else(|| Timestamp(clock::wall_us()));
        Self { format: FORMAT, generation, file, wanted, named, taken_over: Vec::new(), since }
    }

    /// Says which jobs an `up` before this one was still starting.
    pub(crate) fn taking_over(self, taken_over: Vec<String>) -> Self {
        Self { taken_over, ..self }
    }

    /// Reads what is wanted in a session; `None` before the first `up` and after `down`.
    pub fn read(store: &Store, session: &SessionName) -> Option<Self> {
        read(store, session, RECORD)
    }

    /// # Durability
    ///
    /// Written, not synced: jobs do not survive a loss of power either.
    pub(crate) fn write(&self, store: &Store, session: &SessionName) -> io::Result<()> {
        write(Replacing::PROJECT, store, session, RECORD, self)
    }

    /// Forgets what was wanted; and what became of it, unless something of that is left to be ended.
    pub(crate) fn remove(store: &Store, session: &SessionName, is_all_ended: bool) -> io::Result<()> {
        let dir = durable::open_dir(&store.session_dir(session))?;
        let names = if is_all_ended { &[RECORD, PROGRESS][..] } else { &[RECORD] };
        names.iter().try_for_each(|name| fault::step(Point::ProjectRemove, || durable::remove(&dir, name)))
    }
}

impl Step {
    pub(crate) fn new(state: StepState, job: Option<JobId>, why: Option<String>) -> Self {
        Self { state, job, why, host: None, definition: None }
    }

    /// Tells whether it was started, or need not be.
    pub(crate) fn is_done(&self) -> bool {
        !matches!(self.state, StepState::Waiting | StepState::Failed)
    }

    /// Tells whether another machine is being asked for it: what becomes of it is known soon.
    pub fn is_asked_for(&self) -> bool {
        self.state == StepState::Waiting && self.host.is_some() && self.why == self.host
    }

    /// Returns the id by which the job is found here: that of one on another machine begins with its name.
    pub fn id(&self) -> Option<String> {
        let id = self.job.as_ref()?;
        Some(self.host.as_ref().map_or_else(|| id.to_string(), |host| format!("{host}/{id}")))
    }
}

impl Progress {
    pub(crate) fn new(generation: &str) -> Self {
        Self { format: FORMAT, generation: generation.to_owned(), ..Self::default() }
    }

    /// Reads how far a session has come.
    pub fn read(store: &Store, session: &SessionName) -> Option<Self> {
        read(store, session, PROGRESS)
    }

    pub(crate) fn write(&self, store: &Store, session: &SessionName) -> io::Result<()> {
        write(Replacing::PROGRESS, store, session, PROGRESS, self)
    }
}

fn read<T: DeserializeOwned>(store: &Store, session: &SessionName, name: &str) -> Option<T> {
    let dir = durable::open_dir(&store.session_dir(session)).ok()?;
    serde_json::from_slice(&durable::read(dir, name).ok()?).ok()
}

fn write(
    at: Replacing,
    store: &Store,
    session: &SessionName,
    name: &str,
    value: &impl Serialize,
) -> io::Result<()> {
    let dir = durable::open_dir(&store.session_dir(session))?;
    let bytes = serde_json::to_vec(value).map_err(io::Error::other)?;
    durable::replace(at, &dir, name, &bytes)
}

/// Becomes the only process that starts or ends the jobs of a project.
pub(crate) fn lock(store: &Store, session: &SessionName) -> io::Result<File> {
    take(Point::ProjectLock, store, session, LOCK)
}

/// Becomes the only process that changes what is wanted: it depends on what was wanted before.
pub(crate) fn lock_record(store: &Store, session: &SessionName) -> io::Result<File> {
    take(Point::ProjectRecordLock, store, session, RECORD_LOCK)
}

fn take(point: Point, store: &Store, session: &SessionName, name: &str) -> io::Result<File> {
    let dir = durable::open_dir(&store.session_dir(session))?;
    let file = durable::open_or_create(&dir, name)?;
    match fault::step(point, || lock::lock_within(&file, LOCK_LIMIT))? {
        true => Ok(file),
        false => Err(io::Error::other("another `outlive up` or `down` has been at it for a minute")),
    }
}

/// Tells whether a process starts the jobs of a project now.
pub(crate) fn is_locked(store: &Store, session: &SessionName) -> bool {
    durable::is_held(&store.session_dir(session), LOCK)
}
