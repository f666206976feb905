//! Limits on the number of live jobs, and on the room for their output.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use outlive_core::duration::format_size;
use outlive_core::id::{JobId, SessionName};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Point};

use crate::job::Job;
use crate::store::Store;
use crate::store::remove::disk_bytes;

/// Part of a limit from which on the caller is warned.
const WARN_AT_PERCENT: usize = 80;

/// Fixed length, so that the number is replaced in place.
const DIGITS: usize = 20;

/// Why no job can be started now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too many live jobs in the session.
    #[error("{live} jobs are live in session {session}, and the limit is {limit}")]
    Session {
        /// The session that is full.
        session: SessionName,
        /// Live jobs now.
        live: usize,
        /// The configured limit.
        limit: usize,
    },
    /// Too many jobs wait to be started.
    #[error("{queued} jobs wait to be started, and the limit is {limit}")]
    Queued {
        /// Jobs that wait now.
        queued: usize,
        /// The configured limit.
        limit: usize,
    },
    /// No room in the store for what the job may print.
    #[error("the output of jobs takes {} of {}, and {} more would be reserved", format_size(*.used), format_size(*.limit), format_size(*.wanted))]
    Bytes {
        /// Used or reserved, after all that could be removed is gone.
        used: u64,
        /// What the new job would reserve.
        wanted: u64,
        /// The configured limit.
        limit: u64,
    },
    /// Too many live jobs in the store.
    #[error("{live} jobs are live in all, and the limit is {limit}")]
    Total {
        /// Live jobs now.
        live: usize,
        /// The configured limit.
        limit: usize,
    },
}

/// What the output of jobs takes.
pub(crate) struct Measured {
    /// Of all jobs.
    pub(crate) used: u64,
    /// Of live ones alone.
    live: u64,
    /// Ended jobs: when, and how much each has.
    ended: Vec<(Option<Timestamp>, u64, Job)>,
}

impl Store {
    /// Checks whether one more job may start; returns a warning when a limit comes near, with the first job that is near it.
    pub(crate) fn check_limits(&self, session: &SessionName) -> Result<Option<String>, LimitError> {
        let limits = &self.config().limits;
        let (mut own, mut all) = self.count_live(session);
        if own >= limits.session || all >= limits.total {
            // Stale marks are swept only when they would matter.
            self.sweep_marks();
            (own, all) = self.count_live(session);
        }
        if own >= limits.session {
            return Err(LimitError::Session { session: session.clone(), live: own, limit: limits.session });
        }
        if all >= limits.total {
            return Err(LimitError::Total { live: all, limit: limits.total });
        }
        let is_near = |live: usize, limit: usize| live * 100 >= limit * WARN_AT_PERCENT;
        let near = |live: usize, limit: usize| is_near(live + 1, limit) && !is_near(live, limit);
        Ok(if near(own, limits.session) {
            Some(format!("{} of {} live jobs of session {session} are used", own + 1, limits.session))
        } else if near(all, limits.total) {
            Some(format!("{} of {} live jobs are used", all + 1, limits.total))
        } else {
            None
        })
    }

    /// Checks whether one more job may wait to be started.
    pub(crate) fn check_queued(&self) -> Result<(), LimitError> {
        let limit = self.config().limits.queued;
        let count = || self.waiting_ids().len();
        let mut queued = count();
        if queued >= limit {
            self.sweep_marks();
            queued = count();
        }
        if queued >= limit { Err(LimitError::Queued { queued, limit }) } else { Ok(()) }
    }

    /// Counts the live jobs of a session, and of all, without those that wait to be started.
    fn count_live(&self, session: &SessionName) -> (usize, usize) {
        let waiting = self.waiting_ids();
        let (mut own, mut all) = (0, 0);
        for entry in fs::read_dir(self.live()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let mark = name.to_str().and_then(|name| name.split_once('@'));
            if mark.is_some_and(|(id, _)| waiting.contains(id)) {
                continue;
            }
            all += 1;
            own += usize::from(mark.is_some_and(|(_, owner)| owner == session.as_str()));
        }
        (own, all)
    }

    /// Lists the jobs with a mark in `live/`.
    pub(crate) fn live_ids(&self) -> impl Iterator<Item = String> {
        let entries = fs::read_dir(self.live()).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.file_name().to_str()?.split_once('@')?.0.to_owned()))
    }

    /// Lists the jobs with a mark in `waiting/`.
    fn waiting_ids(&self) -> HashSet<String> {
        let entries = fs::read_dir(self.waiting()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Reserves room for a job's output. To be called with the store's lock held; `gone` is what is left to delete when it is free.
    ///
    /// A job's output cap counts from its start, so that the store cannot overrun. The file `reserved` holds an upper bound: each
    /// start adds its cap, and nothing is subtracted. When the bound reaches the ceiling, the real use is measured, and the oldest
    /// ended jobs are removed if that is too much.
    ///
    /// Returns a warning when live jobs may come to take most of the room, with the first job that makes it so.
    pub(crate) fn reserve(
        &self,
        cap: Option<u64>,
        gone: &mut Vec<PathBuf>,
    ) -> Result<Option<String>, LimitError> {
        let Some(limit) = self.config().limits.bytes else { return Ok(None) };
        // A job without a cap reserves nothing; its output counts at the next measurement.
        let cap = cap.unwrap_or(0);
        let file = self.open_or_create("reserved").ok();
        let mut digits = [0; DIGITS];
        let known = file.as_ref().and_then(|file| {
            file.read_exact_at(&mut digits, 0).ok()?;
            std::str::from_utf8(&digits).ok()?.trim().parse::<u64>().ok()
        });
        let fitting = known.and_then(|known| known.checked_add(cap)).filter(|&bound| bound <= limit);
        let bound = match fitting {
            Some(bound) => bound,
            None => self.make_room(cap, limit, gone)? + cap,
        };
        // In place, because some file systems are slow to truncate. After a failed write the next start measures again.
        if let Some(file) = file {
            fault::write_all_at(Point::ReserveWrite, &file, format!("{bound:DIGITS$}").as_bytes(), 0).ok();
        }
        // The bound alone says little: ended jobs make room.
        let is_near = |bytes: u64| bytes / WARN_AT_PERCENT as u64 >= limit / 100;
        if !is_near(bound) {
            return Ok(None);
        }
        let live = self.live_reserved();
        let taken = live.saturating_add(cap);
        Ok((is_near(taken) && !is_near(live)).then(|| {
            format!(
                "the output of live jobs may take {} of {}; when all of it is used, no job can be started",
                format_size(taken),
                format_size(limit)
            )
        }))
    }

    /// Adds up what the live jobs may come to print.
    fn live_reserved(&self) -> u64 {
        let jobs = self.live_ids().filter_map(|id| self.open_job(&JobId::parse(&id).ok()?).ok()?);
        jobs.map(|job| job.spec().options.output_cap_bytes.unwrap_or(0)).fold(0, u64::saturating_add)
    }

    /// Measures what the output of jobs takes: of ended jobs what they have, of live ones what they may come to print.
    pub(crate) fn measure(&self) -> Measured {
        let (mut used, mut live) = (0u64, 0u64);
        let mut ended = Vec::new();
        for job in self.list(None).map(|listing| listing.jobs).unwrap_or_default() {
            let state = job.state(self);
            let bytes = disk_bytes(job.path());
            if state.is_live() || state.is_elsewhere() {
                // What waits prints nothing yet. It counts from the next measurement after its start.
                let cap = job.spec().options.output_cap_bytes.filter(|_| state.status != Status::Queued);
                let reserved = cap.unwrap_or(0).max(bytes);
                (used, live) = (used + reserved, live + reserved);
            } else {
                used += bytes;
                ended.push((state.outcome.map(|outcome| outcome.ended), bytes, job));
            }
        }
        Measured { used, live, ended }
    }

    /// Measures the use and removes the oldest ended jobs until there is room; removes none if that would not be enough.
    fn make_room(&self, wanted: u64, limit: u64, gone: &mut Vec<PathBuf>) -> Result<u64, LimitError> {
        let Measured { mut used, live, mut ended } = self.measure();
        if live.saturating_add(wanted) > limit {
            return Err(LimitError::Bytes { used, wanted, limit });
        }
        ended.sort_by_key(|(end, ..)| *end);
        for (_, bytes, job) in ended {
            if used.saturating_add(wanted) <= limit {
                break;
            }
            if let Ok(taken) = self.take_out(&job) {
                gone.extend(taken);
                used -= bytes;
            }
        }
        let has_room = used.saturating_add(wanted) <= limit;
        if has_room { Ok(used) } else { Err(LimitError::Bytes { used, wanted, limit }) }
    }
}
