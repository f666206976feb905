//! Queues: of the jobs of one, only so many run at once, and the others wait in their order.
//!
//! The order and the slots are the keepers' own (see `outlive-keeper`, `turn::queue`). A front end makes the directories, writes how
//! the queue is set, and reads from the jobs who waits and who runs.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use outlive_core::file;
use outlive_core::id::{JobId, QueueName};
use outlive_core::queue::{MOST_PARALLEL, QueueSettings};
use outlive_core::status::Status;
use outlive_sys::durable;
use outlive_sys::fault::{self, Point, Replacing};
use serde::Serialize;

use crate::store::Store;

/// Why a queue could not be changed or read.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// No job was ever put into it, and nothing says how it is set.
    #[error("there is no queue {0}")]
    Unknown(QueueName, Vec<QueueName>),
    /// So many jobs cannot run at once.
    #[error("{0} jobs of a queue cannot run at once: write a number from 1 to {MOST_PARALLEL}")]
    Parallel(u64),
    /// The store cannot be used.
    #[error("cannot use {0}")]
    Store(PathBuf, #[source] io::Error),
}

/// A change of how a queue is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// No more of its jobs are started; those that run go on.
    Pause,
    /// They are started again.
    Resume,
    /// So many of its jobs run at once.
    Parallel(u64),
    /// As many as a project's file says; what was set by hand stays while the file says the same.
    Configure(u64),
}

/// A queue as scripts see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueObject {
    /// Its name.
    pub queue: QueueName,
    /// How many of its jobs run at once.
    pub parallel: u32,
    /// No more of its jobs are started.
    pub paused: bool,
    /// Its jobs that run.
    pub running: Vec<JobId>,
    /// Its jobs that wait, in the order in which they are started; last those that wait for something else first.
    pub queued: Vec<JobId>,
}

impl Store {
    fn queues(&self) -> PathBuf {
        self.root().join(outlive_core::QUEUES)
    }

    fn queue_dir(&self, queue: &QueueName) -> PathBuf {
        self.queues().join(queue.as_str())
    }

    /// Makes the directories of a queue, and takes over what the configuration says of it.
    pub(crate) fn make_queue(&self, queue: &QueueName) -> Result<(), QueueError> {
        let path = self.queue_dir(queue);
        let made = fault::step(Point::QueueMake, || {
            for part in [file::TICKETS, file::SLOTS] {
                DirBuilder::new().mode(0o700).recursive(true).create(path.join(part))?;
            }
            Ok(())
        });
        made.map_err(|error| QueueError::Store(path, error))?;
        let configured = self.config().queues.get(queue).map(|rules| rules.parallel);
        if self.queue_settings(queue).is_some_and(|settings| !settings.clone().configure(configured)) {
            return Ok(());
        }
        self.set_queue(queue, |settings| {
            settings.configure(configured);
        })
        .map(drop)
    }

    /// Returns how a queue is set; `None` if it is not there yet.
    fn queue_settings(&self, queue: &QueueName) -> Option<QueueSettings> {
        let dir = durable::open_dir(&self.queue_dir(queue)).ok()?;
        durable::read(dir, file::QUEUE_SETTINGS).ok().map(|text| QueueSettings::parse(&text))
    }

    /// Changes how a queue is set. The first job that waits in it is woken by that.
    fn set_queue(
        &self,
        queue: &QueueName,
        change: impl FnOnce(&mut QueueSettings),
    ) -> Result<QueueSettings, QueueError> {
        let path = self.queue_dir(queue);
        let set = || {
            let dir = durable::open_dir(&path)?;
            // So that of two changes at the same time none is lost.
            let _held = self.lock()?;
            let mut settings = self.queue_settings(queue).unwrap_or_default();
            change(&mut settings);
            durable::replace(Replacing::QUEUE, &dir, file::QUEUE_SETTINGS, settings.to_text().as_bytes())?;
            Ok(settings)
        };
        set().map_err(|error| QueueError::Store(path.clone(), error))
    }

    /// Changes how a queue is set, and returns it. To set how many run at once makes a queue that is not there yet.
    ///
    /// # Errors
    ///
    /// If there is no such queue to pause or resume, the number is out of bounds, or the store cannot be written.
    pub fn change_queue(&self, queue: &QueueName, change: QueueChange) -> Result<QueueObject, QueueError> {
        let is_known = self.queue_dir(queue).is_dir() || self.config().queues.contains_key(queue);
        let makes = matches!(change, QueueChange::Parallel(_) | QueueChange::Configure(_));
        if !is_known && !makes {
            return Err(QueueError::Unknown(queue.clone(), self.queue_names()?));
        }
        let count = |parallel: u64| {
            let count = u32::try_from(parallel).ok().filter(|count| (1..=MOST_PARALLEL).contains(count));
            count.ok_or(QueueError::Parallel(parallel))
        };
        let parallel = match change {
            QueueChange::Parallel(parallel) | QueueChange::Configure(parallel) => Some(count(parallel)?),
            QueueChange::Pause | QueueChange::Resume => None,
        };
        self.make_queue(queue)?;
        self.set_queue(queue, |settings| match change {
            QueueChange::Pause => settings.is_paused = true,
            QueueChange::Resume => settings.is_paused = false,
            QueueChange::Parallel(_) => settings.parallel = parallel.unwrap_or(settings.parallel),
            QueueChange::Configure(_) => {
                settings.configure(parallel);
            }
        })?;
        let mut listed = self.list_queues()?;
        listed.retain(|listed| listed.queue == *queue);
        listed.pop().ok_or_else(|| QueueError::Unknown(queue.clone(), Vec::new()))
    }

    fn queue_names(&self) -> Result<Vec<QueueName>, QueueError> {
        let path = self.queues();
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            entries => Some(entries.map_err(|error| QueueError::Store(path, error))?),
        };
        let there = entries.into_iter().flatten().flatten();
        let there = there.filter_map(|entry| QueueName::parse(entry.file_name().to_str()?).ok());
        let mut names: Vec<QueueName> = there.chain(self.config().queues.keys().cloned()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Lists the queues that the configuration names or that jobs were put into, with their jobs.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn list_queues(&self) -> Result<Vec<QueueObject>, QueueError> {
        let names = self.queue_names()?;
        let failed = |error| QueueError::Store(self.jobs(), error);
        let mut queues: Vec<QueueObject> = names.into_iter().map(|name| self.described(name)).collect();
        if queues.is_empty() {
            return Ok(queues);
        }
        for (job, state) in self.list_states(None, |_| true).map_err(failed)?.jobs {
            let queue =
                queues.iter_mut().find(|queue| job.spec().options.queue.as_ref() == Some(&queue.queue));
            let Some(queue) = queue else { continue };
            match state.status {
                Status::Queued => queue.queued.push(job.id().clone()),
                Status::Starting | Status::Running => queue.running.push(job.id().clone()),
                _ => {}
            }
        }
        for queue in &mut queues {
            let order = self.tickets(&queue.queue);
            let place = |job: &JobId| order.iter().position(|ticket| ticket == job).unwrap_or(usize::MAX);
            queue.queued.sort_by_key(place);
        }
        Ok(queues)
    }

    fn described(&self, queue: QueueName) -> QueueObject {
        let configured = self.config().queues.get(&queue).map(|rules| rules.parallel);
        let mut settings = self.queue_settings(&queue).unwrap_or_default();
        settings.configure(configured);
        let (parallel, paused) = (settings.parallel, settings.is_paused);
        QueueObject { queue, parallel, paused, running: Vec::new(), queued: Vec::new() }
    }

    /// Lists the jobs that have a ticket, in their order; of some the keeper may be dead.
    fn tickets(&self, queue: &QueueName) -> Vec<JobId> {
        let mut names = fs::read_dir(self.queue_dir(queue).join(file::TICKETS))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
            .collect::<Vec<_>>();
        names.sort_unstable();
        names.iter().filter_map(|name| JobId::parse(name.split_once('.')?.1).ok()).collect()
    }

    /// Removes marks and tickets of jobs that wait no more, because their keeper and its guard were killed at once. The caller holds
    /// the store's lock, so that no job is being prepared, and has removed the marks in `live/` of jobs that are gone.
    pub(crate) fn sweep_waiting(&self) {
        let live: std::collections::HashSet<String> = self.live_ids().collect();
        let sweep = |directory: PathBuf| {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                let job = name.split_once('.').map_or(name, |(_, job)| job);
                if !live.contains(job) {
                    fault::step(Point::MarkSweep, || fs::remove_file(entry.path())).ok();
                }
            }
        };
        sweep(self.waiting());
        for queue in fs::read_dir(self.queues()).into_iter().flatten().flatten() {
            sweep(queue.path().join(file::TICKETS));
        }
    }
}
