//! Finds damage in a store, and moves it out of the way.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use outlive_core::control::SPOKEN;
use outlive_core::file;
use outlive_core::id::JobId;
use outlive_core::index::{RECORD_BYTES, Record};
use outlive_core::outcome::{CLOSED_AT, Closed, FILE_BYTES, Outcome};
use outlive_sys::durable;
use outlive_sys::fault::{self, Point};

use crate::control::tree::identity;
use crate::delivery::webhook::origin;
use crate::job::Job;
use crate::job::cache::CACHE;
use crate::job::find::{Damaged, Listing, NEWER};
use crate::job::state::{Custody, State};
use crate::store::{DIRECTORIES, LATER_DIRECTORIES, Store};

/// A problem.
#[derive(Debug)]
pub struct Finding {
    /// The file or directory with the problem.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
    /// What was done about it, if anything.
    pub action: Option<String>,
    /// What `--fix` would do, if it was not given.
    pub fix: Option<String>,
    /// Nothing needs to be done any more.
    pub is_handled: bool,
}

impl Finding {
    pub(super) fn open(path: &Path, problem: impl Into<String>) -> Self {
        let (path, problem) = (path.to_owned(), problem.into());
        Self { path, problem, action: None, fix: None, is_handled: false }
    }

    pub(super) fn with_fix(self, fix: &str) -> Self {
        Self { fix: Some(fix.to_owned()), ..self }
    }

    pub(super) fn done(self, action: impl Into<String>, is_handled: bool) -> Self {
        Self { action: Some(action.into()), is_handled, ..self }
    }
}

/// Result of an examination.
#[derive(Debug)]
pub struct Examination {
    /// Number of sound jobs.
    pub jobs: usize,
    /// How many of them are live.
    pub live: usize,
    /// Live jobs whose keeper has no guard that would go on in its place: a version without guards started them, or the next guard
    /// is just being made.
    pub unguarded: Vec<JobId>,
    /// The problems, in the order of the examination.
    pub findings: Vec<Finding>,
}

/// Action for a job that a newer outlive wrote.
const LEFT_TO_NEWER: &str = "left alone: it can be listed, read and killed here";

/// Names that belong in the store's directory besides those of its own directories.
const KNOWN: [&str; 8] =
    ["version", "lock", "collected", "reserved", "config.toml", "templates", "agents", CACHE];

impl Store {
    /// Examines the store. With `fixes`, damaged jobs without a keeper are moved to `quarantine/`, so that nothing is lost, missing
    /// directories are made, and leftovers of programs that were killed removed; else problems are only reported.
    ///
    /// # Errors
    ///
    /// If the store cannot be read at all.
    pub fn examine(&self, fixes: bool) -> io::Result<Examination> {
        let mut findings = Vec::new();
        if let Some(kind @ ("nfs" | "smb" | "9p" | "fuse")) = durable::file_system(self.root()) {
            let problem = format!("the store is on {kind}, where locks may not hold between hosts");
            findings.push(Finding::open(self.root(), problem));
        }
        findings.extend(self.full_disk());
        findings.extend(self.open_ancestors());
        for name in DIRECTORIES {
            let path = self.root().join(name);
            if path.is_dir() {
                continue;
            }
            let finding = Finding::open(&path, "it is missing");
            findings.push(match fixes.then(|| fs::DirBuilder::new().mode(0o700).create(&path)) {
                None => finding.with_fix("makes it anew"),
                Some(Ok(())) => finding.done("made anew", true),
                Some(Err(error)) => finding.done(format!("could not be made: {error}"), false),
            });
        }
        for entry in fs::read_dir(self.root())?.flatten() {
            let name = entry.file_name();
            // Temporary files are leftovers, reported below.
            let is_temporary = name.as_encoded_bytes().ends_with(b".tmp");
            let mut known = DIRECTORIES.iter().chain(&LATER_DIRECTORIES).chain(&KNOWN);
            if !is_temporary && !known.any(|known| name == *known) {
                findings.push(Finding::open(&entry.path(), "it does not belong to the store"));
            }
        }
        // A missing directory is reported above.
        let listing = if self.jobs().is_dir() { self.list_anew()? } else { Listing::default() };
        for damaged in &listing.damaged {
            findings.push(self.quarantine_job(damaged, fixes));
        }
        let (mut live, mut unguarded) = (0, Vec::new());
        for job in &listing.jobs {
            // Before the state: that treats a torn record as missing, and records the end as unknown.
            let records = damaged_records(job);
            let state = job.state(self);
            if !state.is_live() && !state.is_removed() {
                findings.extend(records.into_iter().map(|problem| Finding::open(job.path(), problem)));
                findings.extend(damaged_index(job, &state).map(|problem| Finding::open(job.path(), problem)));
            }
            if state.is_live() && !state.is_elsewhere() {
                findings.extend(unspoken(&state).map(|problem| Finding::open(job.path(), problem)));
            }
            if job.has_damaged_meta() && !state.is_removed() {
                findings.push(damaged_meta(job, fixes));
            }
            if !state.newer.is_empty() {
                let problem = format!("it {NEWER} (not understood: {})", state.newer.join(", "));
                findings.push(Finding::open(job.path(), problem).done(LEFT_TO_NEWER, true));
            }
            live += usize::from(state.is_live());
            unguarded.extend(is_unguarded(&state).then(|| job.id().clone()));
            if state.is_orphaned() {
                let problem = "its keeper died; the command goes on, and its output is not recorded";
                let finding = Finding::open(job.path(), problem);
                findings.push(finding.done(format!("left alone: outlive kill {} ends it", job.id()), false));
            }
            if state.is_elsewhere() {
                findings.push(Finding::open(job.path(), "it belongs to another host or pid namespace"));
            }
        }
        findings.extend(self.undelivered());
        findings.extend(self.leftovers(fixes));
        let strangers = self.strangers(fixes);
        findings.retain(|finding| strangers.iter().all(|stranger| stranger.path != finding.path));
        findings.extend(strangers);
        if let Some((program, problem)) = self.keeper_problem() {
            findings.push(Finding::open(&program, problem));
        }
        // Under the lock: a job that is being prepared has its mark before its directory.
        match self.lock() {
            Ok(lock) if lock.is_held => self.sweep_marks(),
            // Another process holds the lock; the next count of live jobs sweeps the marks.
            Ok(_) => {}
            Err(error) => findings.push(Finding::open(self.root(), format!("it cannot be written: {error}"))),
        }
        Ok(Examination { jobs: listing.jobs.len(), live, unguarded, findings })
    }

    /// Lists the notices that did not arrive.
    fn undelivered(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.spool_pending().into_iter().map(|warning| Finding::open(&self.spool(), warning)).collect();
        for (path, entry) in self.set_aside_entries() {
            let (problem, done) = match entry {
                Ok(entry) => {
                    let to = origin(&entry.url);
                    let why = entry.error.as_deref().unwrap_or("nobody said why");
                    let (job, attempts) = (&entry.job, entry.attempts);
                    let problem =
                        format!("the notice of {job} to {to} was given up after {attempts} attempts: {why}");
                    (problem, "kept: outlive deliver --retry sends it anew")
                }
                Err(why) => {
                    let problem = format!("a notice that was to be sent is damaged: {why}");
                    (problem, "kept, and in nobody's way: remove it when it is no longer needed")
                }
            };
            findings.push(Finding::open(&path, problem).done(done, false));
        }
        findings
    }

    fn quarantine_job(&self, damaged: &Damaged, fixes: bool) -> Finding {
        let path = self.jobs().join(&damaged.name);
        let causes = std::iter::successors(Some(&damaged.error as &dyn Error), |error| (**error).source());
        let problem = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let finding = Finding::open(&path, problem);
        let (action, is_handled) = if damaged.error.is_foreign() {
            (
                "left alone: nothing in it is believed, and only its owner or root can remove it".to_owned(),
                false,
            )
        } else if !damaged.error.is_certain() {
            ("left alone: it could not be read just now".to_owned(), false)
        } else if damaged.error.is_newer() {
            ("left alone: a newer outlive wrote it".to_owned(), true)
        } else if durable::is_held(&path, file::LOCK) {
            ("left alone: a keeper still holds it".to_owned(), false)
        } else if !fixes {
            return finding.with_fix("moves it to quarantine, with all it has");
        } else {
            match self.move_to_quarantine(&path, &damaged.name) {
                Ok(to) => (format!("moved to {}", to.display()), true),
                Err(error) => (format!("could not be moved to quarantine: {error}"), false),
            }
        };
        finding.done(action, is_handled)
    }

    fn move_to_quarantine(&self, path: &Path, name: &OsStr) -> io::Result<PathBuf> {
        for number in 1..10_000 {
            let mut place = name.to_owned();
            place.push(format!(".{number}"));
            let to = self.quarantine().join(place);
            if fault::step(Point::QuarantineMove, || durable::rename_new(path, &to))? {
                self.drop_cache();
                return Ok(to);
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }
}

/// Reports a damaged `meta.json`. Without it a job that has ended has neither pid nor start; its outcome is elsewhere.
fn damaged_meta(job: &Job, fixes: bool) -> Finding {
    let finding = Finding::open(&job.meta_file(), "it is damaged: it tells neither pids nor the start");
    if job.is_kept() {
        return finding.done("left alone: the keeper knows what it said, and replaces it at the end", true);
    }
    match fixes.then(|| fs::remove_file(job.meta_file())) {
        None => finding.with_fix("removes it; what the job printed and how it ended stays"),
        Some(Ok(())) => finding.done("removed", true),
        Some(Err(error)) => finding.done(format!("could not be removed: {error}"), false),
    }
}

/// Lists which of a job's two records exist and cannot be read.
fn damaged_records(job: &Job) -> Vec<String> {
    let mut bytes = vec![0; FILE_BYTES as usize];
    let Ok(file) = job.open_file(file::OUTCOME) else {
        return vec!["its outcome file is missing".to_owned()];
    };
    let length = file.metadata().map_or(0, |data| data.len());
    if length < FILE_BYTES || file.read_exact_at(&mut bytes, 0).is_err() {
        return vec![format!("its outcome file has {length} bytes in place of {FILE_BYTES}")];
    }
    let (outcome, closed) = bytes.split_at(CLOSED_AT as usize);
    let is_bad = |slot: &[u8], is_read: bool| !is_read && slot.iter().any(|&byte| byte != 0);
    let mut problems = Vec::new();
    if is_bad(outcome, Outcome::from_slot(outcome).is_some()) {
        problems
            .push("its outcome record is damaged: how it ended is not known, and counts as lost".to_owned());
    }
    if is_bad(closed, Closed::from_slot(closed).is_some()) {
        problems.push("its closed record is damaged: when its last process ended is not known".to_owned());
    }
    problems
}

/// Returns what is wrong with the index of an ended job. The bytes of its output are not affected.
fn damaged_index(job: &Job, state: &State) -> Option<String> {
    let consequence = "of what was printed from there on, stream and time are not known";
    let expected = state.closed.map(|closed| closed.totals.index_records);
    let expected =
        expected.or(state.outcome.as_ref().map(|outcome| outcome.totals.index_records)).unwrap_or(0);
    let bytes = job.dir().and_then(|dir| durable::read(dir, file::INDEX)).unwrap_or_default();
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    // Records of dropped or cleared output are punched out, and read as zeros.
    let forgotten = records.iter().take_while(|record| **record == [0; RECORD_BYTES]).count();
    let bad = records.iter().skip(forgotten).position(|record| Record::from_bytes(record).is_none());
    if let Some(bad) = bad {
        return Some(format!("record {} of its index is damaged: {consequence}", forgotten + bad));
    }
    // A keeper that died while it wrote leaves part of a record.
    let found = records.len() as u64;
    (found < expected).then(|| {
        let rest = if rest.is_empty() { String::new() } else { format!(" and {} bytes", rest.len()) };
        format!("its index has {found} records{rest} in place of {expected}: {consequence}")
    })
}

/// Tells whether a keeper has a job to itself, so that its death would leave an orphan.
fn is_unguarded(state: &State) -> bool {
    let is_kept = state.is_live() && matches!(state.custody, Custody::Keeper | Custody::Lingering);
    let Some(meta) = state.meta.as_ref().filter(|_| is_kept) else { return false };
    !meta.guard.is_some_and(|guard| identity(guard).is_alive())
}

/// Reports a live job whose keeper has no control protocol in common with this version.
fn unspoken(state: &State) -> Option<String> {
    let theirs = state.meta.as_ref()?.protocol;
    SPOKEN.common(theirs).is_none().then(|| {
        format!(
            "its keeper speaks control protocol {} to {}, and this version {} to {}: it can be read and not controlled",
            theirs.min, theirs.max, SPOKEN.min, SPOKEN.max
        )
    })
}
