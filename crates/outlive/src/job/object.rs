//! The documented JSON object of a job, for scripts and other programs.

use std::os::fd::BorrowedFd;

use serde::Serialize;

use outlive_core::containment::{Enforcement, Kept, Level};
use outlive_core::duration::{format_duration, format_size};
use outlive_core::id::JobId;
use outlive_core::label::Labels;
use outlive_core::newer::OrNewer;
use outlive_core::options::JobLimits;
use outlive_core::outcome::{Cause, Outcome, Totals, WaitStatus};
use outlive_core::status::Status;
use outlive_core::timestamp::Timestamp;
use outlive_sys::clock;
use outlive_sys::signal::Signal;

use crate::control::awaits::AwaitedObject;
use crate::job::Job;
use crate::job::state::State;
use crate::output::Output;

/// A job as scripts see it. Times are RFC 3339 with milliseconds; unknown is `null`, never 0.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobObject {
    /// Unique in the store.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub job: JobId,
    /// The display name.
    pub name: Option<String>,
    /// The session that owns the job.
    pub session: String,
    /// The group it was started in.
    pub group: Option<String>,
    /// Names and values that the starter attached.
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, String>))]
    pub labels: Labels,
    /// The command line, for people.
    pub command: String,
    /// The working directory of the command.
    pub cwd: String,
    /// How the command is connected: `pipe`, or `pty` in a terminal.
    pub mode: String,
    /// outlive's own word for the state.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub status: Status,
    /// The main process has ended, and other processes of the job go on.
    pub lingering: bool,
    /// The keeper died, and the job goes on.
    pub orphaned: bool,
    /// Belongs to another host or pid namespace.
    pub elsewhere: bool,
    /// A process of it was ended for want of memory, the main one or another.
    pub out_of_memory: bool,
    /// Its processes are frozen or stopped.
    pub paused: bool,
    /// What it waits for from its user; none: nothing that is known.
    pub awaits: Option<AwaitedObject>,
    /// Names of fields from a newer outlive that this version does not understand.
    pub newer: Vec<String>,
    /// Whether it is ready; none if it has no readiness condition.
    pub ready: Option<bool>,
    /// Time of readiness.
    pub ready_at: Option<String>,
    /// The address at which it answered or listens.
    pub ready_url: Option<String>,
    /// The same for people: without a scheme where only a port was looked at.
    #[serde(skip)]
    pub ready_place: Option<String>,
    /// Whether it is healthy; none if nothing says when it would be, or it does not run.
    pub healthy: Option<bool>,
    /// The pid of the main process.
    pub pid: Option<i32>,
    /// The exit code of the main process; none if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process.
    pub signal: Option<String>,
    /// Cause of the end as one word.
    pub cause: Option<String>,
    /// Cause of the end, or of an odd state, as a sentence.
    pub reason: Option<String>,
    /// If the keeper died before the job's end: time of the last recorded output, or of the start. Later output is not
    /// recorded.
    pub recorded_until: Option<String>,
    /// Start of the main process.
    pub started_at: Option<String>,
    /// End of the main process.
    pub ended_at: Option<String>,
    /// From the start to the end, or until now.
    pub runtime_ms: Option<u64>,
    /// Totals of the output.
    pub output: OutputObject,
    /// The job that it was started from.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub parent: Option<JobId>,
    /// The run before it; none of a job that was not restarted.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub previous: Option<JobId>,
    /// How long until a job that waits is started.
    pub starts_in_ms: Option<u64>,
    /// The times at which it is run, in words; none of a job without a schedule.
    pub schedule: Option<String>,
    /// When its next run begins by its schedule: this one, while it waits, else the one after it.
    pub next_run_at: Option<String>,
    /// The queue that it was started in.
    pub queue: Option<String>,
    /// The engine that places it, with its number there and the node that it runs on: `slurm 17 on n1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed_by: Option<String>,
    /// What a job waits for that is not started yet, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// What had to hold of other jobs before it was started: `db-3f9c@ready`.
    pub after: Vec<String>,
    /// Why it is not started again by itself, though it was to be.
    pub gave_up: Option<String>,
    /// What holds its processes together; none if the keeper did not say.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub containment: Option<OrNewer<Level>>,
    /// Resource limits; none if there are none.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub limits: Option<LimitsObject>,
}

/// Resource limits of a job; those that were not requested are absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LimitsObject {
    /// Memory of all its processes together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<LimitObject<u64>>,
    /// Number of processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<LimitObject<u64>>,
    /// Number of processors; fractions count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<LimitObject<f64>>,
    /// Open files of each of its processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<LimitObject<u64>>,
}

/// A resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LimitObject<T> {
    /// The requested amount.
    pub value: T,
    /// How it is enforced on this machine; none if the keeper did not say.
    pub kept: Option<Enforcement>,
}

impl LimitsObject {
    /// Describes a job's limits; `None` if there are none.
    fn new(limits: &JobLimits, kept: Kept) -> Option<Self> {
        let limit = |value: Option<u64>, kept| value.map(|value| LimitObject { value, kept });
        (*limits != JobLimits::default()).then(|| Self {
            memory_bytes: limit(limits.memory_bytes, kept.memory),
            pids: limit(limits.pids, kept.pids),
            cpu: limits.cpu_milli.map(|milli| LimitObject { value: milli as f64 / 1000.0, kept: kept.cpu }),
            open_files: limit(limits.open_files, kept.open_files),
        })
    }
}

/// Totals of a job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutputObject {
    /// Bytes of both streams.
    pub bytes: u64,
    /// Lines of both streams.
    pub lines: u64,
    /// Lines of standard output.
    pub stdout_lines: u64,
    /// Lines of standard error.
    pub stderr_lines: u64,
    /// Bytes that the keeper received and could not store.
    pub dropped_bytes: u64,
}

impl From<Totals> for OutputObject {
    fn from(totals: Totals) -> Self {
        Self {
            bytes: totals.bytes,
            lines: totals.stdout_lines + totals.stderr_lines,
            stdout_lines: totals.stdout_lines,
            stderr_lines: totals.stderr_lines,
            dropped_bytes: totals.dropped_bytes,
        }
    }
}

impl OutputObject {
    /// Counts the output of a job in the given state; by its name in the directory of jobs, where that is given.
    pub(super) fn new(job: &Job, state: &State, jobs: Option<BorrowedFd<'_>>) -> Self {
        let totals = match (&state.closed, &state.outcome) {
            // A closed record of a later format has no totals that are understood here.
            (Some(closed), _) if closed.closed.0 > 0 => closed.totals,
            (None, Some(outcome)) if !state.is_lingering() && !outcome.is_newer() => outcome.totals,
            (None, None) => job.live_totals(jobs),
            _ => Output::open(job).map(|output| output.totals()).unwrap_or_default(),
        };
        totals.into()
    }
}

impl JobObject {
    /// Returns how it ended and after which time, as the end of a sentence: `: exited with 1 after 42s; gave up: …`.
    pub fn how_it_ended(&self) -> String {
        let after =
            self.runtime_ms.map(|time| format!(" after {}", format_duration(time))).unwrap_or_default();
        match self.reason.as_deref().map(|reason| reason.split_once(GAVE_UP).ok_or(reason)) {
            None => after,
            Some(Ok((reason, why))) => format!(": {reason}{after}{GAVE_UP}{why}"),
            // The status said that it was killed.
            Some(Err(reason)) => match reason.strip_prefix("killed by ") {
                Some(by) => format!(" by {by}{after}"),
                None => format!(": {reason}{after}"),
            },
        }
    }

    /// Describes a job in the given state.
    pub fn new(job: &Job, state: &State) -> Self {
        Self::with_output(job, state, OutputObject::new(job, state, None))
    }

    /// Describes a job in the given state, whose output was counted.
    pub fn with_output(job: &Job, state: &State, output: OutputObject) -> Self {
        let spec = job.spec();
        let meta = state.meta.as_ref();
        let signal = match state.outcome.as_ref().map(|outcome| outcome.wait_status) {
            Some(WaitStatus::Signaled { signal, .. }) => Some(signal_name(signal)),
            _ => None,
        };
        let ready = job.ready_now(state);
        let ended = state.outcome.as_ref().map(|outcome| outcome.ended);
        Self {
            job: spec.job.clone(),
            name: job.name().map(str::to_owned),
            session: job.session().to_string(),
            group: spec.options.group.clone(),
            labels: spec.labels.clone().unwrap_or_default(),
            command: spec.command_line(),
            cwd: spec.cwd.to_lossy(),
            mode: match spec.options.pty && !spec.mode.is_newer() {
                true => "pty".to_owned(),
                false => spec.mode.word(),
            },
            status: state.status,
            lingering: state.is_lingering(),
            orphaned: state.is_orphaned(),
            elsewhere: state.is_elsewhere(),
            out_of_memory: state.has_run_out_of_memory(),
            paused: meta.is_some_and(|meta| meta.paused) && state.is_live(),
            awaits: state.awaits().map(|awaited| AwaitedObject::new(job, awaited)),
            newer: state.newer.clone(),
            ready: spec.can_be_ready().then_some(ready.is_some()),
            ready_at: ready.as_ref().map(|ready| ready.at.to_string()),
            ready_place: ready
                .as_ref()
                .and_then(|ready| ready.url.as_deref())
                .map(|url| job.ready_place(url).to_owned()),
            ready_url: ready.and_then(|ready| ready.url),
            healthy: (spec.options.health.is_checked() && state.status == Status::Running)
                .then_some(state.unhealthy.is_none()),
            pid: meta.and_then(|meta| meta.command).map(|command| command.pid),
            exit_code: state.exit_code(),
            signal,
            cause: state.outcome.as_ref().map(|outcome| outcome.cause.word().to_owned()),
            reason: reason(state),
            recorded_until: recorded_until(job, state).map(|time| time.to_string()),
            started_at: meta.and_then(|meta| meta.started).map(|started| started.to_string()),
            ended_at: ended.filter(|ended| ended.0 > 0).map(|ended| ended.to_string()),
            runtime_ms: state.runtime_ms(),
            output,
            parent: spec.parent.clone(),
            previous: spec.previous.clone(),
            starts_in_ms: state.due_boot_us.map(|due| due.saturating_sub(clock::boot_us()).div_ceil(1000)),
            schedule: spec.options.schedule.words(),
            next_run_at: job.next_run_at(state).map(|at| at.to_string()),
            queue: spec.options.queue.as_ref().map(ToString::to_string),
            placed_by: job.placed_by(),
            waits_for: state.waits_for.clone().filter(|_| !state.status.has_ended()),
            after: spec.after.iter().map(ToString::to_string).collect(),
            gave_up: state.gave_up.clone(),
            containment: meta
                .and_then(|meta| meta.containment.as_ref())
                .map(|contained| contained.level.clone()),
            limits: LimitsObject::new(
                &spec.options.limits,
                meta.and_then(|meta| meta.kept.known().copied()).unwrap_or_default(),
            ),
        }
    }

    /// Tells whether the object of this job changes only with its state, its output, its name and its session, but for `runtime_ms`: what
    /// else is told of it is read from no file, asked of no process and counted by no clock.
    pub fn depends_on_state_alone(job: &Job, state: &State) -> bool {
        let spec = job.spec();
        !spec.can_be_ready()
            && spec.placement.is_none()
            && !spec.options.schedule.is_set()
            && state.due_boot_us.is_none()
            && state.awaits().is_none()
            && !state.is_orphaned()
            && !state.outcome.as_ref().is_some_and(is_unkept)
    }
}

/// Tells whether an outcome was written without its keeper, which alone records what a job used.
fn is_unkept(outcome: &Outcome) -> bool {
    outcome.usage.is_none() && !matches!(outcome.cause, Cause::NeverStarted(_)) && outcome.ended.0 > 0
}

/// Returns the name of a signal by its number.
pub fn signal_name(number: i32) -> String {
    Signal::from_number(number).map_or_else(|| format!("signal {number}"), Signal::name)
}

/// Returns the time of the last recorded output, or of the start, for a job whose keeper died before its end; else `None`.
fn recorded_until(job: &Job, state: &State) -> Option<Timestamp> {
    if !state.is_orphaned() && !state.outcome.as_ref().is_some_and(is_unkept) {
        return None;
    }
    let last = Output::open(job).ok().and_then(|output| output.last_time());
    last.or(state.meta.as_ref().and_then(|meta| meta.started))
}

/// Tells whether a job was ended while it waited for its time.
fn is_unstarted(state: &State) -> bool {
    state.meta.as_ref().is_none_or(|meta| meta.command.is_none())
        && state.outcome.as_ref().is_some_and(|outcome| outcome.runtime_ms.is_none())
}

/// Stands between how the last run ended and why no other follows.
const GAVE_UP: &str = "; gave up: ";

/// Returns a sentence about how a job ended, or about what is odd in its state.
pub fn reason(state: &State) -> Option<String> {
    let Some(outcome) = &state.outcome else {
        return match (state.is_orphaned(), state.is_elsewhere()) {
            (true, _) => {
                Some("its keeper died; the command goes on, and its output is not recorded".to_owned())
            }
            (_, true) => Some("it belongs to another host or pid namespace".to_owned()),
            _ => state.unhealthy.as_ref().map(|why| format!("unhealthy: {why}")),
        };
    };
    let status = match outcome.wait_status {
        WaitStatus::Exited { code } => format!("exited with {code}"),
        WaitStatus::Signaled { signal, core: false } => format!("ended by {}", signal_name(signal)),
        WaitStatus::Signaled { signal, core: true } => {
            format!("ended by {}, core dumped", signal_name(signal))
        }
        WaitStatus::Unknown => "its exit status is not known".to_owned(),
    };
    let reason = match &outcome.cause {
        Cause::Natural => status,
        Cause::Timeout => format!("its time was over; {status}"),
        Cause::Kill { by } if is_unstarted(state) => format!("killed by {by} before it was started"),
        Cause::Kill { by } if by.is_empty() => format!("killed; {status}"),
        Cause::Kill { by } => format!("killed by {by}; {status}"),
        Cause::Overlap => format!("ended for its next run; {status}"),
        Cause::Oom => {
            let peak = outcome.usage.and_then(|usage| usage.memory_peak_bytes);
            let peak = peak.map(|bytes| format!(" at {}", format_size(bytes))).unwrap_or_default();
            format!("out of memory{peak}; {status}")
        }
        Cause::NeverStarted(never) => never.sentence(),
        Cause::Lost { why } if outcome.wait_status == WaitStatus::Unknown => why.clone(),
        Cause::Lost { why } => format!("{status}; {why}"),
        Cause::Newer(word) => format!("{status}; its cause is {word:?}, which a newer outlive knows"),
    };
    let reason = match outcome.cause != Cause::Oom && state.has_run_out_of_memory() {
        true => format!("{reason}; a process of it ran out of memory"),
        false => reason,
    };
    let reason = match &state.gave_up {
        Some(why) => format!("{reason}{GAVE_UP}{why}"),
        None => reason,
    };
    Some(match state.is_orphaned() {
        true => format!("{reason}; its keeper died, and other processes of it go on"),
        false => reason,
    })
}
