//! `up` and `down`: what is wanted becomes so, in the right order, also when a process is killed meanwhile.

pub(crate) mod converge;
pub(crate) mod define;
pub(crate) mod down;
mod pending;
pub(crate) mod record;
pub(crate) mod status;
pub(crate) mod status_there;
pub(crate) mod there;

use std::cell::LazyCell;
use std::time::{Duration, Instant};

use outlive::{QueueChange, SessionName, Store};
use outlive_sys::fault::{self, Point};
use outlive_sys::identity::ProcessId;
use outlive_sys::poll;
use outlive_sys::watch::Watch;

use crate::error::ProjectError;
use crate::project::{Asked, Project};
use record::{Progress, Record, StepState};

/// How long the process that starts the jobs may take to say something. It is executed at once; an earlier one may be ending a job.
const FIRST_WORD: Duration = Duration::from_secs(90);

/// How often to look whether it still lives, and at the progress where the kernel does not tell of changes.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(50));

/// An `up` that was asked for, and is carried out by a process of its own.
#[derive(Debug)]
pub struct Rising<'a> {
    store: &'a Store,
    session: SessionName,
    generation: String,
    /// Names of the jobs that were asked for, and of those that they wait for.
    asked: Vec<String>,
    watch: Watch,
    starter: Starter,
    last: Progress,
    began: Instant,
}

/// Which process starts the jobs.
#[derive(Debug)]
enum Starter {
    /// The one that was executed for this `up`; none: it has ended.
    Own(Option<ProcessId>),
    /// That of another `up`, which took over.
    Other,
}

impl Starter {
    /// Tells whether it is known to have ended.
    fn has_ended(&self) -> bool {
        matches!(self, Self::Own(id) if !id.is_some_and(ProcessId::is_alive))
    }
}

/// Asks for jobs of a project, and for what they wait for. What was asked for before and still waits is
/// started, too.
///
/// # Durability
///
/// When this returns, a process of its own starts the jobs: the caller may end.
///
/// # Errors
///
/// If a name is that of no job, or the store cannot be written.
pub fn bring_up<'a>(
    store: &'a Store,
    project: &Project,
    asked: &Asked<'_>,
) -> Result<Rising<'a>, ProjectError> {
    ask(store, project, asked, asked.names)
}

/// Asks for jobs; those that are `named` are started even if they have completed.
pub(crate) fn ask<'a>(
    store: &'a Store,
    project: &Project,
    asked: &Asked<'_>,
    named: &[String],
) -> Result<Rising<'a>, ProjectError> {
    let session = project.session();
    let wanted = project.with_dependencies(asked)?;
    // One that waits for others may have its directory from them.
    if let Some(fault) =
        wanted.iter().filter(|job| job.after.is_empty()).find_map(|job| job.missing_dir.clone())
    {
        return Err(fault.into());
    }
    let mut wanted: Vec<String> = wanted.iter().map(|job| job.name.clone()).collect();
    store.make_session(&session).map_err(ProjectError::Store)?;
    for (queue, parallel) in &project.queues {
        let changed = store.change_queue(queue, QueueChange::Configure(*parallel));
        changed.map_err(|error| ProjectError::Store(std::io::Error::other(error)))?;
    }
    let _held = record::lock_record(store, &session).map_err(ProjectError::Store)?;
    let asked = wanted.clone();
    let before = Record::read(store, &session);
    // What the last `up` asked for is settled by its own progress alone, and not by what came before it.
    let is_of_last =
        |progress: &Progress| before.as_ref().is_some_and(|before| before.generation == progress.generation);
    let steps = Progress::read(store, &session).filter(is_of_last).map(|progress| progress.jobs);
    let steps = steps.unwrap_or_default();
    // What an earlier `up` asked for and still waits goes on; the rest of it is left as it is. That one may have read a later file than
    // this one, which had to wait for the lock.
    let is_settled = |name: &String| steps.get(name).is_some_and(|step| step.state != StepState::Waiting);
    let mut taken_over = Vec::new();
    if let Some(before) = &before {
        let latest = LazyCell::new(|| Project::load(&before.file, &store.config().hosts).ok());
        let is_defined = |name: &str| {
            project.job(name).is_ok() || latest.as_ref().is_some_and(|latest| latest.job(name).is_ok())
        };
        for name in before.wanted.iter().filter(|name| !is_settled(name)) {
            if !wanted.contains(name) && is_defined(name) {
                wanted.push(name.clone());
            }
            taken_over.push(name.clone());
        }
    }
    let since = before.map(|before| before.since);
    let record = Record::new(project.file.clone(), wanted, named.to_vec(), since).taking_over(taken_over);
    let watch = Watch::new(&store.session_dir(&session));
    record.write(store, &session).map_err(ProjectError::Store)?;
    let words = ["converge", session.as_str(), &record.generation];
    let starter =
        fault::step(Point::ProjectExec, || store.start_helper(&words)).map_err(ProjectError::Store)?;
    let starter = ProcessId::of(starter);
    let last = Progress::new(&record.generation);
    let generation = record.generation;
    let starter = Starter::Own(starter);
    Ok(Rising { store, session, generation, asked, watch, starter, last, began: Instant::now() })
}

impl Rising<'_> {
    /// Waits until there is more to tell, `limit` has passed or `stop` is readable: then the progress is as it was before.
    ///
    /// # Errors
    ///
    /// If the process that starts the jobs was killed, or another `up` or `down` took over.
    pub fn next(
        &mut self,
        limit: Option<Duration>,
        stop: Option<std::os::fd::BorrowedFd<'_>>,
    ) -> Result<&Progress, ProjectError> {
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            self.watch.clear();
            // In this order: what it wrote before it ended is seen.
            let is_over = self.starter.has_ended();
            let is_running = record::is_locked(self.store, &self.session);
            let progress = Progress::read(self.store, &self.session).map(|mut progress| {
                progress.jobs.retain(|name, _| self.asked.contains(name));
                progress
            });
            if let Some(progress) = progress.filter(|progress| progress.generation == self.generation)
                && progress != self.last
            {
                self.last = progress;
                return Ok(&self.last);
            }
            let has_begun = !self.last.jobs.is_empty();
            let record = Record::read(self.store, &self.session);
            match record {
                Some(record) if record.generation == self.generation => {}
                // Another `up` took over, with all that this one wants.
                Some(record) if !record.wanted.is_empty() => {
                    self.last = Progress::new(&record.generation);
                    self.generation = record.generation;
                    self.starter = Starter::Other;
                    continue;
                }
                _ => return Err(ProjectError::Starter("was stopped by `outlive down`")),
            }
            if (!is_running && has_begun) || (is_over && !has_begun) {
                return Err(ProjectError::Starter("was killed: `outlive up` goes on from here"));
            }
            if !has_begun && self.began.elapsed() > FIRST_WORD {
                return Err(ProjectError::Starter("has said nothing for 90 s"));
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(&self.last);
            }
            let pause = if self.watch.is_pushed() { LOOK.0 } else { LOOK.1 };
            let pause = left.map_or(pause, |left| left.min(pause));
            let fds: Vec<_> = self.watch.fd().into_iter().chain(stop).collect();
            poll::any_readable(fds, Some(pause)).map_err(ProjectError::Store)?;
            if let Some(stop) = stop
                && poll::readable(stop, Some(Duration::ZERO)).unwrap_or(false)
            {
                return Ok(&self.last);
            }
        }
    }
}

/// Waits until a job on another machine is ready, over all reconnects; `None`: `is_wanted` said that the answer is not wanted any more.
/// The inner error is the reason why it no longer can be.
///
/// # Errors
///
/// If the project has no such job, or it runs here.
pub fn ready_there(
    store: &Store,
    project: &Project,
    name: &str,
    is_wanted: impl Fn() -> bool,
) -> Result<Option<Result<(), String>>, ProjectError> {
    let host = project.job(name)?.there.as_ref().map_or("", |there| there.host.as_str());
    let part = there::Part::new(store, project, host);
    let part = part.map_err(|failure| ProjectError::There(host.to_owned(), failure.text()))?;
    Ok(part.wait_for(name, crate::project::Milestone::Ready, is_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_up_asked_for_by_a_later_file_is_still_wanted() {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open_at(&home.path().join("store"), outlive::Config::default()).unwrap();
        let file = home.path().join(crate::project::FILE);
        let [first, second] = ["[jobs.train]\nrun = \"true\"\n", "[jobs.quick]\nrun = \"true\"\n"];
        let load = |text: &str| {
            std::fs::write(&file, text).unwrap();
            Project::load(&file, &store.config().hosts).unwrap()
        };
        let [earlier, later] = [first.to_owned(), [first, second].concat()].map(|text| load(&text));
        for (project, name) in [(&later, "quick"), (&earlier, "train")] {
            let names = [name.to_owned()];
            // There is no program beside this test that would start the jobs.
            bring_up(&store, project, &Asked { names: &names, ..Asked::default() }).ok();
        }
        let record = Record::read(&store, &later.session()).unwrap();
        assert_eq!(record.wanted, ["train", "quick"]);
    }
}
