//! Finds jobs by id, name, port or, to read them only, by the beginning of an id.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_core::label::{LabelFilter, Labels};
use outlive_core::nearest::nearest;
use outlive_sys::durable;
use outlive_sys::names::Names;
use outlive_sys::ports::{self, Listeners};
use outlive_sys::stamp::Stamp;

use crate::job::state::State;
use crate::job::{DamageError, Job};
use crate::store::Store;

/// The content of `jobs/`.
#[derive(Debug, Default)]
pub struct Listing {
    /// Oldest first.
    pub jobs: Vec<Job>,
    /// Directories that are there and cannot be used.
    pub damaged: Vec<Damaged>,
    /// How many jobs had to be read that the next program need not read.
    read: usize,
}

/// The content of `jobs/`, and how each job is doing.
#[derive(Debug, Default)]
pub struct States {
    /// Oldest first.
    pub jobs: Vec<(Job, State)>,
    /// Directories that are there and cannot be used.
    pub damaged: Vec<Damaged>,
}

impl Listing {
    /// Keeps only the jobs whose labels meet all conditions.
    pub fn with_labels(mut self, filters: &[LabelFilter]) -> Self {
        let none = Labels::new();
        self.jobs.retain(|job| {
            let labels = job.spec().labels.as_ref().unwrap_or(&none);
            filters.iter().all(|filter| filter.matches(labels))
        });
        self
    }
}

/// A directory in `jobs/` that cannot be used.
#[derive(Debug)]
pub struct Damaged {
    /// The directory's name.
    pub name: std::ffi::OsString,
    /// Why it cannot be used.
    pub error: DamageError,
}

/// Why a job was not found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// No job has this id or name; the ids of those whose id or name begins with it, newest first.
    #[error("there is no job {0:?}")]
    Unknown(String, Vec<JobId>),
    /// Several jobs match the text that was given; each with its session.
    #[error("{0:?} is not one job but {candidates}", candidates = candidates(.1))]
    Ambiguous(String, Vec<(JobId, SessionName)>),
    /// The job is there and cannot be used.
    #[error("job {0} {what}", what = verdict(.1))]
    Damaged(JobId, #[source] DamageError),
    /// No live job listens on the port.
    #[error("no live job listens on port {port}")]
    Port {
        /// The TCP port.
        port: u16,
        /// A process that belongs to none of the jobs listens there.
        is_taken: bool,
    },
    /// The store cannot be read.
    #[error("cannot read the store")]
    Store(#[from] io::Error),
}

/// Message for a job that this version does not wholly understand.
pub const NEWER: &str = "was written by a newer outlive: upgrade to read all of it";

fn verdict(damage: &DamageError) -> &'static str {
    match (damage.is_newer(), damage.is_foreign()) {
        (true, _) => NEWER,
        (_, true) => "is not used",
        _ => "is damaged",
    }
}

fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id().clone()).collect()
}

/// Tells whether the next program need not read a job that was read.
fn is_worth_caching(job: Option<&Job>) -> bool {
    job.is_some_and(|job| job.known.is_settled)
}

/// Returns the only job that matches a reference.
fn only(mut jobs: Vec<Job>, reference: &str, none: impl FnOnce() -> FindError) -> Result<Job, FindError> {
    if jobs.len() > 1 {
        let candidates = jobs.iter().map(|job| (job.id().clone(), job.session().clone()));
        return Err(FindError::Ambiguous(reference.to_owned(), candidates.collect()));
    }
    jobs.pop().ok_or_else(none)
}

/// Joins at most five ids.
pub(crate) fn list(candidates: &[JobId]) -> String {
    join(candidates.iter().map(ToString::to_string))
}

/// Joins at most five ids, each with its session where these differ.
fn candidates(candidates: &[(JobId, SessionName)]) -> String {
    let differ = candidates.iter().any(|(_, session)| *session != candidates[0].1);
    join(candidates.iter().map(|(id, session)| match differ {
        true => format!("{id} (session {session})"),
        false => id.to_string(),
    }))
}

/// Joins at most five names.
fn join(names: impl ExactSizeIterator<Item = String>) -> String {
    let count = names.len();
    let mut names: Vec<String> = names.take(5).collect();
    if count > names.len() {
        names.push(format!("{} more", count - names.len()));
    }
    names.join(", ")
}

impl Store {
    /// Opens a job by its whole id; `None` if there is no such job.
    pub(crate) fn open_job(&self, id: &JobId) -> Result<Option<Job>, DamageError> {
        let path = self.jobs().join(id.as_str());
        match self.known.get(id.as_str(), || Stamp::at(&path)) {
            Some(known) => Ok(Some(Job::of(path, known, None))),
            None => self.open_unknown(id),
        }
    }

    fn open_unknown(&self, id: &JobId) -> Result<Option<Job>, DamageError> {
        let job = Job::open(self.jobs().join(id.as_str()), id)?;
        if let Some(job) = &job {
            self.known.insert(&job.known);
        }
        Ok(job)
    }

    /// Tells whether a job has a keeper and no outcome, and is where it was started. `None` if nothing is in memory of it; `look` looks
    /// at its directory.
    pub(crate) fn is_known_to_run(
        &self,
        id: &JobId,
        look: impl FnOnce() -> io::Result<Stamp>,
    ) -> Option<bool> {
        let known = self.known.get(id.as_str(), look)?;
        Some(known.is_running().unwrap_or_else(|| {
            let job = Job::of(self.jobs().join(id.as_str()), known, None);
            job.is_kept() && job.records() == (None, None) && !job.is_given_away()
        }))
    }

    /// Tells whether a reference is the whole id of a job.
    pub fn is_id(&self, reference: &str) -> bool {
        JobId::parse(reference).is_ok_and(|id| self.jobs().join(id.as_str()).exists())
    }

    /// Finds the job that an event is about, though its id may have been reused. `None` if it is gone or damaged.
    pub fn find_exactly(&self, id: &JobId, nonce: Nonce) -> Option<Job> {
        self.open_job(id).ok().flatten().filter(|job| job.spec().nonce == nonce)
    }

    /// Lists the jobs of one session, or of all.
    ///
    /// # Errors
    ///
    /// If the store cannot be read. A damaged job is no error: it is in the listing.
    pub fn list(&self, session: Option<&SessionName>) -> io::Result<Listing> {
        self.list_known(session, durable::open_dir(&self.jobs())?.as_fd())
    }

    /// As [`Store::list`], by the directory of jobs, which was just opened.
    fn list_known(&self, session: Option<&SessionName>, dir: BorrowedFd<'_>) -> io::Result<Listing> {
        self.load_cache();
        let path = self.jobs();
        self.list_with(session, dir, |id| {
            let known = self.known.get(id, || Stamp::in_dir(dir, id))?;
            Some(Job::of(path.join(id), known, None))
        })
    }

    /// As [`Store::list`] of all jobs, each read anew, whatever is known of it.
    pub(crate) fn list_anew(&self) -> io::Result<Listing> {
        self.list_with(None, durable::open_dir(&self.jobs())?.as_fd(), |_| None)
    }

    fn list_with(
        &self,
        session: Option<&SessionName>,
        dir: BorrowedFd<'_>,
        known: impl Fn(&str) -> Option<Job>,
    ) -> io::Result<Listing> {
        let names = Names::read(dir)?;
        self.known.retain(&names);
        let mut listing = Listing { jobs: Vec::with_capacity(names.count()), ..Listing::default() };
        for name in names.iter() {
            let read = || match name.to_str().and_then(|name| JobId::parse(name).ok()) {
                Some(id) => self.open_unknown(&id),
                None => Err(DamageError::Name(name.to_owned())),
            };
            let job = name.to_str().and_then(&known).map_or_else(
                || read().inspect(|job| listing.read += usize::from(is_worth_caching(job.as_ref()))),
                |job| Ok(Some(job)),
            );
            match job {
                Ok(Some(job)) if session.is_none_or(|session| job.session() == session) => {
                    listing.jobs.push(job);
                }
                Ok(_) => {}
                Err(error) => listing.damaged.push(Damaged { name: name.to_owned(), error }),
            }
        }
        listing.jobs.sort_unstable_by(|a, b| {
            a.spec().created.cmp(&b.spec().created).then_with(|| a.id().cmp(b.id()))
        });
        Ok(listing)
    }

    /// Lists the jobs of one session, or of all, that are wanted, with their states. It takes half as many looks at the store as to
    /// list the jobs and to ask each for its state.
    ///
    /// # Errors
    ///
    /// As [`Store::list`].
    pub fn list_states(
        &self,
        session: Option<&SessionName>,
        mut is_wanted: impl FnMut(&Job) -> bool,
    ) -> io::Result<States> {
        let (dir, before) = Stamp::open_dir(&self.jobs())?;
        let Listing { jobs, damaged, read } = self.list_known(session, dir.as_fd())?;
        let listed = jobs.len();
        let mut states = Vec::with_capacity(listed);
        for job in jobs.into_iter().filter(|job| is_wanted(job)) {
            let state = job.state_when_listed(self, dir.as_fd());
            states.push((job, state));
        }
        self.save_cache(listed, read, before);
        Ok(States { jobs: states, damaged })
    }

    /// Finds a job that is only read: as [`Store::find_to_change`], else by the beginning of its id.
    ///
    /// # Errors
    ///
    /// If no job or several jobs match, or the job is damaged.
    pub fn find(&self, reference: &str, session: Option<&SessionName>) -> Result<Job, FindError> {
        self.find_or(reference, session, |job| {
            !reference.is_empty() && job.id().as_str().starts_with(reference)
        })
    }

    /// Finds a job that is ended, removed or otherwise changed: by its id, else by its name or the word that its id begins with
    /// (`psql` of `psql-3f9c`), else by the last part of its id (`3f9c`). The beginning of an id is not enough: `s1` must not
    /// end `s10-m285`.
    ///
    /// Of several jobs with one name or word, the live one is meant, and if none is live the newest.
    ///
    /// # Errors
    ///
    /// If no job or several jobs match, or the job is damaged.
    pub fn find_to_change(&self, reference: &str, session: Option<&SessionName>) -> Result<Job, FindError> {
        self.find_or(reference, session, |_| false)
    }

    /// Finds a job by its exact references, else by `matches`.
    fn find_or(
        &self,
        reference: &str,
        session: Option<&SessionName>,
        matches: impl Fn(&Job) -> bool,
    ) -> Result<Job, FindError> {
        let is_visible = |job: &Job| session.is_none_or(|session| job.session() == session);
        if let Ok(id) = JobId::parse(reference) {
            match self.open_job(&id) {
                Ok(Some(job)) if is_visible(&job) => return Ok(job),
                Ok(_) => {}
                Err(error) => return Err(FindError::Damaged(id, error)),
            }
        }
        let (called, mut others): (Vec<Job>, Vec<Job>) = self
            .list(session)?
            .jobs
            .into_iter()
            .partition(|job| job.name() == Some(reference) || job.word() == Some(reference));
        let mut matching = self.preferred(called, reference);
        let tail = |job: &Job| job.id().parts().is_some_and(|(_, tail)| tail == reference);
        for matches in [&tail as &dyn Fn(&Job) -> bool, &matches] {
            if matching.is_empty() {
                (matching, others) = others.into_iter().partition(matches);
            }
        }
        only(matching, reference, || {
            let begins = |text: &str| !reference.is_empty() && text.starts_with(reference);
            let (mut similar, others): (Vec<Job>, Vec<Job>) = others
                .into_iter()
                .partition(|job| begins(job.id().as_str()) || job.name().is_some_and(begins));
            if similar.is_empty() {
                let words = |job: &Job| [job.name(), job.word()].map(|word| word.map(str::to_owned));
                let known: Vec<String> = others.iter().flat_map(words).flatten().collect();
                let meant = nearest(reference, known.iter().map(String::as_str)).map(str::to_owned);
                similar = others;
                similar.retain(|job| meant.is_some() && words(job).contains(&meant));
            }
            similar.reverse();
            FindError::Unknown(reference.to_owned(), ids(&similar))
        })
    }

    /// Chooses among jobs with one name or word, oldest first: the live ones, and of those the ones with that name; if none is
    /// live, the newest.
    fn preferred(&self, mut jobs: Vec<Job>, name: &str) -> Vec<Job> {
        if jobs.len() > 1 {
            let (mut live, mut ended): (Vec<_>, Vec<_>) =
                jobs.into_iter().partition(|job| job.state(self).is_live());
            if live.iter().any(|job| job.name() == Some(name)) {
                live.retain(|job| job.name() == Some(name));
            }
            // A run that has ended is live until the run that follows it is there; one between them may never have begun.
            let mut followed: Vec<JobId> =
                live.iter().filter_map(|job| job.spec().previous.clone()).collect();
            for job in ended.iter().rev().filter(|job| job.spec().previous.is_some()) {
                if followed.contains(job.id()) {
                    followed.extend(job.spec().previous.clone());
                }
            }
            live.retain(|job| !followed.contains(job.id()));
            jobs = if live.is_empty() { ended.pop().into_iter().collect() } else { live };
        }
        jobs
    }

    /// Finds another live job of the same session that has the name of this one. Only live jobs are looked at, however many have ended.
    pub fn live_namesake(&self, job: &Job) -> Option<Job> {
        let name = job.name()?;
        let open = |id: String| self.open_job(&JobId::parse(&id).ok()?).ok().flatten();
        let is_other = |other: &Job| {
            other.id() != job.id() && other.session() == job.session() && other.name() == Some(name)
        };
        self.live_ids().filter_map(open).filter(is_other).find(|other| other.state(self).is_live())
    }

    /// Finds the live job whose processes listen on a TCP port.
    ///
    /// # Errors
    ///
    /// If no job or several jobs do.
    pub fn find_by_port(&self, port: u16, session: Option<&SessionName>) -> Result<Job, FindError> {
        let mut listeners = Listeners::new();
        let mut listens = |job: &Job| {
            let state = job.state(self);
            let tree = if state.is_live() { job.tree(self, &state) } else { None };
            tree.is_some_and(|tree| tree.ports(&mut listeners).iter().any(|found| found.port == port))
        };
        let jobs = self.list(session)?.jobs;
        let matching = jobs.into_iter().filter(|job| listens(job)).collect();
        only(matching, &format!("port {port}"), || FindError::Port { port, is_taken: ports::is_taken(port) })
    }

    /// Lists the jobs that were started from inside a job, directly or through others, oldest first; ended jobs, too.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn nested(&self, job: &Job, session: Option<&SessionName>) -> io::Result<Vec<Job>> {
        let mut above = vec![(job.id().clone(), job.spec().created)];
        let mut nested = Vec::new();
        // The list is oldest first, and no job is older than its parent: an older one had a parent with a reused id.
        for job in self.list(session)?.jobs {
            let spec = job.spec();
            let is_nested = |(id, created): &(JobId, _)| {
                spec.parent.as_ref() == Some(id) && spec.created >= *created && spec.job != *id
            };
            if above.iter().any(is_nested) {
                above.push((spec.job.clone(), spec.created));
                nested.push(job);
            }
        }
        Ok(nested)
    }
}
