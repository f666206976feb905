//! Watches: what a reader wants to be told of in a job's output, line by line.
//!
//! A watch is a file in the job's directory, and a mark in the store's `watches/` says that the job has one. No process runs for
//! it. A front end that reads events or notices first examines the lines that came since the last look, and appends an event for
//! each that matches. It holds the mark's lock meanwhile, so each line is examined once. See `docs/design/watch.md`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use outlive_core::FORMAT;
use outlive_core::event::{Event, Kind};
use outlive_core::id::{JobId, Nonce, SessionName};
use outlive_core::spec::Spec;
use outlive_core::timestamp::Timestamp;
use outlive_sys::fault::{self, Appending, Point, Replacing};
use outlive_sys::{clock, durable, lock};
use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::notify::events::make_dir;
use crate::notify::rate::{Rate, Told};
use crate::output::Output;
use crate::output::scan::shown;
use crate::output::search::{PatternError, pattern};
use crate::store::Store;

/// The directory of the marks in the store, and of the watches in a job's directory.
pub(crate) const DIRECTORY: &str = "watches";

/// Stands for the reader of a job that was started without one: every reader of the session is told.
const EVERY_READER: &str = "@every";

/// How long to wait for another front end that examines the same job.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often a new watch tries to get its mark, which another front end may just have removed.
const TRIES: usize = 10;

/// Without a match, the place is written after so many lines: fewer are examined again, which costs less than a write.
const FAR: u64 = 1000;

/// Why a job cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The pattern is invalid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The job prints nothing any more.
    #[error("{0} has ended, and prints nothing any more")]
    Ended(JobId),
    /// The store cannot be read or written.
    #[error("cannot use the watch")]
    Store(#[from] io::Error),
}

/// A watch: `watches/<reader>` in the job's directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    format: u32,
    pattern: String,
    /// Number of the first line that was not examined.
    next_line: u64,
    /// How many lines were told lately.
    #[serde(default)]
    rate: Rate,
    /// Lines that an answer to a wait has shown: no notice repeats them. The newest few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shown: Vec<u64>,
}

impl Record {
    fn new(pattern: &str, next_line: u64) -> Self {
        let pattern = pattern.to_owned();
        Self { format: FORMAT, pattern, next_line, rate: Rate::default(), shown: Vec::new() }
    }

    fn read(job: &Job, reader: Option<&SessionName>) -> Option<Self> {
        let file = job.open_file(&file_of(reader)).ok()?;
        serde_json::from_slice(&durable::read_open(&file).ok()?).ok()
    }

    fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn write(&self, job: &Job, reader: Option<&SessionName>) -> io::Result<()> {
        durable::make_dir(job.dir()?, DIRECTORY)?;
        durable::replace(Replacing::WATCH, job.dir()?, &file_of(reader), &self.to_bytes()?)
    }
}

fn file_of(reader: Option<&SessionName>) -> String {
    format!("{DIRECTORY}/{}", reader.map_or(EVERY_READER, SessionName::as_str))
}

impl Job {
    /// Returns the pattern that a reader watches for in the job's output.
    pub fn watched_for(&self, reader: &SessionName) -> Option<String> {
        Record::read(self, Some(reader)).map(|record| record.pattern)
    }

    /// Tells whether an answer to a wait has shown a line to a reader.
    pub(crate) fn has_shown_line(&self, reader: &SessionName, line: u64) -> bool {
        Record::read(self, Some(reader)).is_some_and(|record| record.shown.contains(&line))
    }

    /// Lists the readers that watch the job; `None` stands for every reader of the session.
    fn watchers(&self) -> Vec<Option<SessionName>> {
        let names = self.dir().and_then(|dir| durable::names(durable::open_dir_in(dir, DIRECTORY)?));
        let reader = |name: String| match name.as_str() {
            EVERY_READER => Some(None),
            // What a killed writer left.
            name if name.ends_with(".tmp") => None,
            name => SessionName::parse(name).ok().map(Some),
        };
        names.unwrap_or_default().into_iter().filter_map(reader).collect()
    }
}

impl Store {
    pub(crate) fn watches_dir(&self) -> PathBuf {
        self.root().join(DIRECTORY)
    }

    fn watch_mark(&self, job: &JobId, nonce: Nonce) -> PathBuf {
        self.watches_dir().join(format!("{job}@{nonce}"))
    }

    /// Makes the watch that a job is started with, before the job is visible: `dir` is where it is prepared.
    pub(crate) fn watch_from_start(&self, dir: impl std::os::fd::AsFd, spec: &Spec) -> io::Result<()> {
        let Some(pattern) = &spec.options.watch else { return Ok(()) };
        durable::make_dir(&dir, DIRECTORY)?;
        let record = Record::new(pattern, 1).to_bytes()?;
        durable::replace(Replacing::WATCH, &dir, &file_of(spec.reader.as_ref()), &record)?;
        self.mark_watched(&spec.job, spec.nonce).map(drop)
    }

    /// Removes the mark of a job that is not started after all.
    pub(crate) fn unmark_watched(&self, spec: &Spec) {
        if spec.options.watch.is_some() {
            fs::remove_file(self.watch_mark(&spec.job, spec.nonce)).ok();
        }
    }

    fn mark_watched(&self, job: &JobId, nonce: Nonce) -> io::Result<File> {
        make_dir(&self.watches_dir())?;
        let path = self.watch_mark(job, nonce);
        fault::step(Point::WatchMark, || durable::open_or_create(durable::CWD, &path))
    }

    /// Locks the mark of a job; `None` if it has none, or another front end takes too long.
    fn lock_watched(&self, job: &JobId, nonce: Nonce) -> io::Result<Option<File>> {
        let file = match durable::open_ro(durable::CWD, self.watch_mark(job, nonce)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let is_locked = fault::step(Point::WatchLock, || lock::lock_within(&file, PATIENCE))?;
        // The front end that had the lock may have removed it.
        Ok((is_locked && file.metadata()?.nlink() > 0).then_some(file))
    }

    /// Tells a reader of each line that a job prints from now on and that matches, in place of what it watched for before.
    ///
    /// # Durability
    ///
    /// Written, not synced: a job does not survive a loss of power either.
    ///
    /// # Errors
    ///
    /// If the pattern is invalid, the job has ended, or the store cannot be written.
    pub fn watch(&self, job: &Job, reader: &SessionName, text: &str) -> Result<(), WatchError> {
        pattern(text, false)?;
        if !job.state(self).is_live() {
            return Err(WatchError::Ended(job.id().clone()));
        }
        let nonce = job.spec().nonce;
        let mut tries = 0..TRIES;
        let _mark = loop {
            self.mark_watched(job.id(), nonce)?;
            match self.lock_watched(job.id(), nonce)? {
                Some(mark) => break mark,
                None if tries.next().is_some() => {}
                None => return Err(io::Error::from(io::ErrorKind::WouldBlock).into()),
            }
        };
        // What the watch before has not told yet is told as it was asked for.
        self.examine_watch(job, Some(reader), false).ok();
        let mut output = Output::open(job)?;
        let end = output.end();
        // A line that is not finished counts.
        let next_line = output.assembler_at(end)?.number() + 1;
        Ok(Record::new(text, next_line).write(job, Some(reader))?)
    }

    /// Ends a reader's watch on a job; `false` if there was none.
    ///
    /// # Errors
    ///
    /// If the store cannot be written.
    pub fn unwatch(&self, job: &Job, reader: &SessionName) -> io::Result<bool> {
        // A look in progress would write it again.
        let _mark = self.lock_watched(job.id(), job.spec().nonce)?;
        let was_there = job.open_file(&file_of(Some(reader))).is_ok();
        durable::remove(job.dir()?, &file_of(Some(reader)))?;
        Ok(was_there)
    }

    /// Notes that an answer shows a reader this line, so that no notice repeats it. Without a watch nothing is noted.
    pub fn note_line_shown(&self, job: &Job, reader: &SessionName, line: u64) {
        /// More than one call at a time waits for.
        const KEPT: usize = 8;
        let Ok(Some(_mark)) = self.lock_watched(job.id(), job.spec().nonce) else { return };
        if let Some(mut record) = Record::read(job, Some(reader)) {
            record.shown.push(line);
            let surplus = record.shown.len().saturating_sub(KEPT);
            record.shown.drain(..surplus);
            // If it cannot be written, the line is told again.
            record.write(job, Some(reader)).ok();
        }
    }

    /// Examines what the watched jobs of a session, or all, have printed since the last look, and appends the events of lines that
    /// match. To be called before a read of the events that must not miss one. Returns when lines are due that were held back
    /// because there were too many.
    pub fn examine_watched(&self, session: Option<&SessionName>) -> Option<Timestamp> {
        let marks = self.watched();
        marks.into_iter().filter_map(|(id, nonce)| self.examine_marked(&id, nonce, session)).min()
    }

    /// Lists the marks of watched jobs.
    pub(crate) fn watched(&self) -> Vec<(JobId, Nonce)> {
        let entries = fs::read_dir(self.watches_dir()).into_iter().flatten().flatten();
        let read = |name: &str| {
            let (id, nonce) = name.split_once('@')?;
            Some((JobId::parse(id).ok()?, Nonce::try_from(nonce.to_owned()).ok()?))
        };
        entries.filter_map(|entry| read(entry.file_name().to_str()?)).collect()
    }

    fn examine_marked(&self, id: &JobId, nonce: Nonce, session: Option<&SessionName>) -> Option<Timestamp> {
        // A job that is being prepared has its mark before its place among the jobs. This is checked first: after it, the job
        // is there or never will be.
        if self.new_dir().join(id.as_str()).exists() {
            return None;
        }
        let path = self.watch_mark(id, nonce);
        let job = match self.open_job(id) {
            Ok(Some(job)) if job.spec().nonce == nonce => job,
            Ok(_) => {
                fs::remove_file(path).ok();
                return None;
            }
            // Damaged, or not to be read at the moment.
            Err(_) => return None,
        };
        if session.is_some_and(|session| session != job.session()) {
            return None;
        }
        let _mark = self.lock_watched(id, nonce).ok()??;
        // The state first: after its end it prints nothing.
        let is_last = !job.state(self).is_live();
        let watchers = job.watchers();
        let examined: Vec<_> =
            watchers.iter().map(|reader| self.examine_watch(&job, reader.as_ref(), is_last)).collect();
        if watchers.is_empty() || (is_last && examined.iter().all(Result::is_ok)) {
            // Under the lock, and a new watch of a live job is a new mark.
            fs::remove_file(path).ok();
        }
        examined.into_iter().filter_map(|due| due.ok().flatten()).min()
    }

    /// Examines the new lines of a job for one watch. The caller holds the mark's lock.
    fn examine_watch(
        &self,
        job: &Job,
        reader: Option<&SessionName>,
        is_last: bool,
    ) -> io::Result<Option<Timestamp>> {
        let Some(mut record) = Record::read(job, reader) else { return Ok(None) };
        let Ok(regex) = pattern(&record.pattern, false) else { return Ok(None) };
        let written = record.clone();
        let append = |told: Told| {
            let at = told.at.unwrap_or(Timestamp(clock::wall_us()));
            let event = Event {
                line: Some(told.line),
                text: Some(told.text),
                skipped: Some(told.skipped).filter(|&skipped| skipped > 0),
                reader: reader.cloned(),
                ..Event::new(Kind::Matched, job.id(), job.spec().nonce, at)
            };
            self.append_event(Appending::WATCH_EVENT, job.session(), &event)
        };
        let mut is_appended = true;
        let (first, mut next) = (record.next_line, record.next_line);
        record.rate.begin(Timestamp(clock::wall_us()));
        let mut output = Output::open(job)?;
        output.each_line(output.offset_before_line(first), |line| {
            // A line that tells of lost bytes is outlive's own.
            let counts = line.number >= first && line.lost_bytes == 0 && (line.is_ended || is_last);
            if !counts || !is_appended {
                return;
            }
            let text = shown(&line);
            if regex.is_match(&text)
                && let Some(told) = record.rate.take(line.number, &text, line.time)
            {
                is_appended = append(told);
            }
            if is_appended {
                next = next.max(line.number + 1);
            }
        })?;
        if is_appended && let Some(told) = record.rate.flush(is_last) {
            is_appended = append(told);
        }
        if !is_appended {
            // What was appended before it is a repeat then, which readers of the events drop.
            return Err(io::Error::other("an event could not be written"));
        }
        record.next_line = next;
        let has_matched = record.rate != written.rate;
        if has_matched || is_last || next - first > FAR {
            record.write(job, reader)?;
        }
        Ok(record.rate.due())
    }
}
