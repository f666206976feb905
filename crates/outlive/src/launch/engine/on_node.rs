//! Jobs that are kept in a store which their node has for itself, because the nodes share none with the submitter, or one that locks do
//! not work on.
//!
//! The engine's script has the whole intent, and the node makes the job in its own store. The submitter's store has the same intent; where
//! the job runs is noted there by the front end that hears it from the engine. When the engine says that the job is over, what the node has
//! recorded is brought home with `ssh`. Until then it is read on the node, in a step beside it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use outlive_core::id::{JobId, Nonce};
use outlive_core::outcome::{CLOSED_AT, Cause, Closed, Outcome};
use outlive_core::placement::{Placed, Placement};
use outlive_core::spec::{Host, Process, Spec, quote};
use outlive_core::timestamp::Timestamp;
use outlive_core::{FORMAT, file, segment};
use outlive_sys::fault::{self, Point, Replacing};
use outlive_sys::{clock, durable};

use super::slurm::{self, Look, Stage};
use super::{ENDING, PlaceError};
use crate::control::{Kill, Killed};
use crate::job::Job;
use crate::job::state::State;
use crate::launch::prepared::Prepared;
use crate::launch::start::StartError;
use crate::store::Store;

/// How long a node that could not be reached is left alone.
const AGAIN: Duration = Duration::from_secs(30);

/// How often the engine is asked while a job is being ended.
const LOOK: Duration = Duration::from_secs(1);

/// What the line that runs on a node exits with where it has none of the jobs.
const NONE_THERE: i32 = 44;

/// The files of a job that are brought home as they are, beside its log.
const BROUGHT: [&str; 6] =
    [file::META, file::READY, file::HEALTH, file::PIPE_CODES, file::COMPLETION, file::GAVE_UP];

/// Jobs that are over by the engine's word, by their node and the directory of its store.
#[derive(Default)]
pub(super) struct Ended<'a>(BTreeMap<(String, String), Vec<Looked<'a>>>);

/// A job, and what was seen of it on its node.
type Looked<'a> = (&'a Job, Option<Look>);

impl Job {
    /// Returns the directory of its store on its node; none: its store is this one.
    pub fn node_store(&self) -> Option<&str> {
        self.spec().placement.as_ref()?.node_store.as_deref()
    }

    /// Returns why its record could not be brought home, the last time that this was tried, and when.
    fn unreached(&self) -> Option<(String, Duration)> {
        let path = self.path().join(file::UNREACHED);
        let age = SystemTime::now().duration_since(fs::metadata(&path).ok()?.modified().ok()?).ok()?;
        Some((fs::read_to_string(path).ok()?, age))
    }
}

impl Store {
    /// Makes a job in this store, a node's own, and becomes the only process that begins it; at most once. `given` is its intent, as
    /// JSON.
    ///
    /// # Errors
    ///
    /// If it is not this job, it was begun before, or the store cannot be written.
    pub fn claim_given(&self, given: &[u8], id: &JobId, nonce: Nonce) -> Result<Job, PlaceError> {
        let mut spec: Spec = serde_json::from_slice(given).map_err(|_| PlaceError::NotFound(id.clone()))?;
        if spec.job != *id || spec.nonce != nonce {
            return Err(PlaceError::NotFound(id.clone()));
        }
        // Here it is in its store.
        spec.placement = spec.placement.map(|placement| Placement { node_store: None, ..placement });
        // Another node, which cannot be asked, has begun it before.
        if slurm::is_started_again() {
            return Err(PlaceError::Over(id.clone()));
        }
        let new = self.new_dir().join(format!("{id}.{nonce}"));
        let failed = |error| StartError::Store(new.clone(), error);
        fault::step(Point::NewMake, || DirBuilder::new().mode(0o700).create(&new)).map_err(failed)?;
        let filled = self.fill(&new, spec, None);
        if !matches!(filled, Ok(Some(_))) {
            fs::remove_dir_all(&new).ok();
        }
        // The id is taken: by this very job, or, once in a million times, by another one of this node.
        let prepared = filled.map_err(failed)?.ok_or_else(|| PlaceError::Over(id.clone()))?;
        let Prepared { job, lock, done, submitted, .. } = prepared;
        drop((lock, done));
        job.dir().and_then(|dir| durable::create_new(dir, file::ENGINE_JOB)).map_err(failed)?;
        let claimed = self.claim(id, nonce);
        // Held until then: free, it would count as one that was never submitted.
        drop(submitted);
        claimed
    }

    /// Decides what the engine's word means for a job that is kept on its node. One that is over is put to the others.
    pub(super) fn judged_on_node<'a>(
        &self,
        job: &'a Job,
        state: &State,
        found: Option<&Look>,
        ended: &mut Ended<'a>,
    ) -> State {
        let known = job.placed().map(|placed| placed.node);
        let node = |look: Option<&Look>| {
            known.clone().or_else(|| look.map(|look| look.node.clone())).filter(|node| !node.is_empty())
        };
        match (found, node(found), job.node_store()) {
            // A controller that was killed may have forgotten that it began the job, and begin it again, on a node whose store knows
            // nothing of that: there is one job, and it is where it was first.
            (Some(Look { stage: Stage::Runs, node: again, .. }), Some(node), _)
                if !again.is_empty() && *again != node =>
            {
                let cancelled =
                    fault::step(Point::Cancel, || Ok(slurm::cancel(job).is_ok())).unwrap_or(false);
                let done =
                    if cancelled { "that copy was cancelled" } else { "that copy could not be cancelled" };
                State {
                    waits_for: Some(format!("slurm began it again on {again}, and {done}; {node} has it")),
                    ..job.state(self)
                }
            }
            (Some(look @ Look { stage: Stage::Runs, .. }), Some(node), _) => {
                self.note_node(job, &node, &look.number);
                job.state(self)
            }
            (None | Some(Look { stage: Stage::Over, .. }), Some(node), Some(store)) => {
                let jobs = ended.0.entry((node, store.to_owned())).or_default();
                jobs.push((job, found.cloned()));
                state.clone()
            }
            _ => self.judged(job, state, found),
        }
    }

    /// Brings home what nodes have recorded of jobs that are over; then each has its new state.
    pub(super) fn bring_home(&self, ended: Ended<'_>, jobs: &mut [&mut (&Job, &mut State)]) {
        for ((node, store), of_node) in ended.0 {
            let reached = self.reach(&node, &store, &of_node);
            for (job, look) in of_node {
                let Some((_, state)) = jobs.iter_mut().find(|(other, _)| other.id() == job.id()) else {
                    continue;
                };
                let word = look.as_ref().map_or("that it does not know it (any more)", |look| &look.word);
                **state = match &reached {
                    Err(why) => State {
                        waits_for: Some(format!("slurm says {word}; {node}, which has its record: {why}")),
                        ..job.state(self)
                    },
                    Ok(()) if job.state(self).is_live() && look.is_some() => {
                        // There is none: it counts as begun, because the engine names its node.
                        self.note_node(job, &node, look.as_ref().map_or("", |look| &look.number));
                        self.judged(job, &job.state(self), look.as_ref())
                    }
                    Ok(()) => job.state(self),
                };
            }
        }
    }

    /// Looks on a node for records of jobs, unless it could not be reached a moment ago; the error says why.
    fn reach(&self, node: &str, store: &str, jobs: &[(&Job, Option<Look>)]) -> Result<(), String> {
        let tried = jobs.iter().filter_map(|(job, _)| job.unreached()).find(|(_, age)| *age < AGAIN);
        if let Some((why, _)) = tried {
            return Err(why);
        }
        let jobs: Vec<&Job> = jobs.iter().map(|(job, _)| *job).collect();
        let fetched = fault::step(Point::HomeFetch, || self.fetch(node, store, &jobs));
        fetched.map_err(|error| {
            let why = crate::notify::notice::one_line(&error.to_string());
            for job in jobs {
                // Where it cannot be noted, it is tried again at once.
                fs::write(job.path().join(file::UNREACHED), &why).ok();
            }
            why
        })
    }

    /// Notes at the submitter that a job runs on a node.
    fn note_node(&self, job: &Job, node: &str, number: &str) {
        let Ok(dir) = job.dir() else { return };
        // Another front end may have been faster.
        fault::step(Point::NodeClaim, || durable::rename(&dir, file::SUBMITTED, file::CLAIMED)).ok();
        if durable::open_ro(&dir, file::PLACED).is_ok() {
            return;
        }
        let host =
            Host { machine: format!("slurm {node}"), boot: String::new(), pid_namespace: String::new() };
        let placed = Placed {
            format: FORMAT,
            host,
            node: node.to_owned(),
            engine_job: number.to_owned(),
            process: Process { pid: 0, start_time: 0 },
            at: Timestamp(clock::wall_us()),
        };
        let bytes = serde_json::to_vec(&placed).unwrap_or_default();
        // What is not noted is heard again.
        durable::replace(Replacing::NODE_PLACED, dir, file::PLACED, &bytes).ok();
    }

    /// Copies what a node has recorded of jobs, and removes it there.
    fn fetch(&self, node: &str, store: &str, jobs: &[&Job]) -> io::Result<()> {
        let program = std::env::current_exe()?.display().to_string();
        let outlive = format!("OUTLIVE_HOME={} {}", quote(store), quote(&program));
        let ids: Vec<&str> = jobs.iter().map(|job| job.id().as_str()).collect();
        let ids = ids.join(" ");
        // The node's own outlive records the end of a job that was killed with its keeper.
        let line = format!(
            "cd {}/jobs 2>/dev/null || exit {NONE_THERE}; there=; for id in {ids}; do [ ! -d $id ] || there=\"$there $id\"; done; \
             [ \"$there\" ] || exit {NONE_THERE}; for id in $there; do {outlive} --json show $id >/dev/null 2>&1; done; \
             exec tar --create --file=- $there",
            quote(store)
        );
        let there = self.new_dir().join(durable::temporary_name("home"));
        DirBuilder::new().mode(0o700).create(&there)?;
        let received = receive(node, &line, &there);
        let is_any = *received.as_ref().unwrap_or(&false);
        let mut brought = String::new();
        let mut failed = received.err();
        for job in jobs.iter().filter(|_| is_any) {
            match self.take_in(job, &there.join(job.id().as_str())) {
                Ok(true) => brought.extend([" ", job.id().as_str()]),
                Ok(false) => {}
                // Its record stays on the node, and is asked for again.
                Err(error) => failed = Some(error),
            }
        }
        fs::remove_dir_all(&there).ok();
        if !brought.is_empty() {
            // What is left there is removed by the node's own rules.
            on(node, &format!("{outlive} rm{brought}")).output().ok();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Takes in what a node has recorded of a job; false: there is nothing of this job.
    fn take_in(&self, job: &Job, from: &Path) -> io::Result<bool> {
        let spec = fs::read(from.join(file::SPEC)).ok();
        let spec: Option<Spec> = spec.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if spec.is_none_or(|spec| spec.nonce != job.spec().nonce) {
            return Ok(false);
        }
        let slots = fs::read(from.join(file::OUTCOME)).unwrap_or_default();
        let closed = slots.get(CLOSED_AT as usize..).and_then(Closed::from_slot);
        let Some(outcome) = Outcome::from_slot(&slots) else { return Ok(false) };
        copy_log(job, from)?;
        let bring = |name: &str| match fs::read(from.join(name)) {
            Ok(bytes) => durable::replace(Replacing::HOME, job.dir()?, name, &bytes),
            Err(_) => Ok(()),
        };
        BROUGHT.into_iter().try_for_each(bring)?;
        // Then: a job that has an outcome is asked for no more.
        if !job.record_brought(self, &outcome, closed.as_ref()) && job.state(self).is_live() {
            return Err(io::Error::other("its record was read, and could not be written here"));
        }
        // Last: the node may be this machine, where a job without an outcome has lost its keeper.
        bring(file::PLACED).ok();
        Ok(true)
    }

    /// Ends a job that is kept on its node. The engine is asked alone: what it starts cannot be held back by a file here.
    pub(super) fn kill_on_node(&self, job: &Job, kill: &Kill) -> Option<Killed> {
        fault::step(Point::Cancel, || Ok(slurm::cancel(job))).ok()?.ok()?;
        let grace = kill.grace.unwrap_or(Duration::from_millis(job.spec().options.grace_ms));
        let until = Instant::now() + grace + ENDING;
        loop {
            let found = slurm::look(&[slurm::name(job)]).ok()?;
            let is_over = |look: &Look| look.stage == Stage::Over && look.node.is_empty();
            // No node has begun it, and none will.
            if (found.is_empty() || found.iter().all(is_over))
                && let Ok(cancelled) = job.cancel_submitted(Point::CancelRename)
            {
                self.recover_placed(job, Cause::Kill { by: kill.by.clone() });
                drop(cancelled);
            }
            let mut state = job.state(self);
            self.ask_engine(&mut [(job, &mut state)]);
            if !state.is_live() {
                return Some(Killed::default());
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Returns a command that runs a line on a node.
fn on(node: &str, line: &str) -> Command {
    let mut command = Command::new("ssh");
    for option in ["BatchMode=yes", "ConnectTimeout=5", "ServerAliveInterval=5", "ServerAliveCountMax=3"] {
        command.args(["-o", option]);
    }
    // The user's shell there may be any; a word in single quotes is the same to all of them.
    command.args(["-T", "--", node, &format!("exec /bin/sh -c {}", quote(line))]).stdin(Stdio::null());
    command
}

/// Unpacks what a line on a node prints; false: there is nothing.
fn receive(node: &str, line: &str, into: &Path) -> io::Result<bool> {
    let mut sender = on(node, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let unpacked = Command::new("tar")
        .args(["--extract", "--no-same-owner", "--file=-", "--directory"])
        .arg(into)
        .stdin(sender.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .output();
    let sent = sender.wait_with_output()?;
    let said = |bytes: &[u8]| io::Error::other(String::from_utf8_lossy(bytes).trim().to_owned());
    match (sent.status.code(), unpacked) {
        (Some(0), Ok(unpacked)) if unpacked.status.success() => Ok(true),
        (Some(0), Ok(unpacked)) => Err(said(&unpacked.stderr)),
        (Some(0), Err(error)) => Err(error),
        (Some(NONE_THERE), _) => Ok(false),
        _ => Err(said(&sent.stderr)),
    }
}

/// Copies a log into the files that are there, which readers may have open: the index first, as a keeper writes it.
fn copy_log(job: &Job, from: &Path) -> io::Result<()> {
    let copy = |name: &str| -> io::Result<()> {
        let bytes = fs::read(from.join(name))?;
        let to = durable::open_or_create(job.dir()?, name)?;
        fault::write(Point::HomeWrite, &bytes, |part| to.write_all_at(part, 0))
    };
    copy(file::INDEX)?;
    let names = fs::read_dir(from)?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut segments: Vec<u64> = names.filter_map(|name| segment::offset(&name)).collect();
    segments.sort_unstable();
    if segments.first().is_some_and(|first| *first > 0) {
        // What was dropped there is not here either.
        durable::remove(job.dir()?, &segment::name(0)).ok();
    }
    segments.into_iter().try_for_each(|offset| copy(&segment::name(offset)))
}
