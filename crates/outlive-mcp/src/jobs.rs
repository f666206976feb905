//! Jobs as an agent sees them: found, described, waited for.

use std::time::{Duration, Instant};

use outlive::duration::format_duration;
use outlive::{
    AwaitedObject, Cause, Conditions, Form, InputWanted, Job, Notice, SessionName, State, Status, Store,
    Stream, WaitError, WaitFor, WaitStatus,
};

use crate::arguments::shown;
use crate::reading::{Begin, Room, Selection, show};
use crate::reply::{Failure, Reply, quoted};
use crate::scope::Scope;
use crate::tools::Call;

/// The longest that a call waits, in milliseconds: below the shortest timeout of known clients.
pub(crate) const LONGEST_WAIT_MS: u64 = 45_000;

/// As [`LONGEST_WAIT_MS`], for clients that take longer: below the timeout of each of them.
pub(crate) const PATIENT_WAIT_MS: u64 = 200_000;

/// [`LONGEST_WAIT_MS`] as a duration.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(LONGEST_WAIT_MS);

/// What asks for the end of a job, for the record of its outcome.
pub(crate) const BY: &str = "outlive mcp";

/// How long a job may leave its input unread before the caller is told.
pub(crate) const UNREAD: Duration = Duration::from_secs(10);

/// How many ids an error names.
const NAMED: usize = 10;

/// Finds a job that is only read.
pub(crate) fn find(call: &Call<'_>, reference: &str) -> Result<Job, Failure> {
    call.store.find(reference.trim(), call.scope.seen()).map_err(|error| failed(call, "", error))
}

/// Finds a job that is to be changed: the beginning of its id is not enough.
pub(crate) fn find_to_change(call: &Call<'_>, reference: &str) -> Result<Job, Failure> {
    call.store.find_to_change(reference.trim(), call.scope.seen()).map_err(|error| failed(call, "", error))
}

/// Lists the jobs that the caller sees, the oldest first.
pub(crate) fn list(call: &Call<'_>) -> Result<Vec<Job>, Failure> {
    let listing = call.store.list(call.scope.seen());
    listing.map(|listing| listing.jobs).map_err(|error| Failure::of("cannot list jobs", &error))
}

/// Lists the wanted jobs of those that the caller sees, the oldest first, with their states.
pub(crate) fn list_states(
    call: &Call<'_>,
    is_wanted: impl FnMut(&Job) -> bool,
) -> Result<Vec<(Job, State)>, Failure> {
    let states = call.store.list_states(call.scope.seen(), is_wanted);
    states.map(|states| states.jobs).map_err(|error| Failure::of("cannot list jobs", &error))
}

/// Words a failure of the library for an agent: what was not done, why, and what to call next.
pub(crate) fn failed(call: &Call<'_>, what: &str, error: impl Into<outlive::Failure>) -> Failure {
    let failure = error.into().during(what);
    let live = failure.lists_live_jobs.then(|| live_ids(call.store, call.scope));
    let next: Vec<String> = failure.tool_hint.iter().map(ToString::to_string).chain(live).collect();
    let failed = Failure::new(failure.text());
    if next.is_empty() { failed } else { failed.next(next.join("; ")) }
}

/// Names the live jobs; if there are none, the ended ones.
pub(crate) fn live_ids(store: &Store, scope: &Scope) -> String {
    let jobs = store.list_states(scope.seen(), |_| true).unwrap_or_default().jobs;
    let (live, ended): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(_, state)| state.is_live());
    let name = |jobs: &[(Job, State)]| {
        let mut names: Vec<String> =
            jobs.iter().rev().take(NAMED).map(|(job, _)| job.id().to_string()).collect();
        if jobs.len() > NAMED {
            names.push(format!("{} more", jobs.len() - NAMED));
        }
        names.join(", ")
    };
    match (live.as_slice(), ended.as_slice()) {
        ([], []) => "there are no jobs: start one with run".to_owned(),
        ([], ended) => format!("no job is live; ended: {}", name(ended)),
        (live, _) => format!("live jobs: {}", name(live)),
    }
}

/// Describes a job: `web-3f9c (web) running, 42s`.
pub(crate) fn summary(job: &Job, state: &State) -> String {
    let name = job.name().filter(|name| !job.id().as_str().starts_with(*name));
    let name = name.map(|name| format!(" ({})", shown(name))).unwrap_or_default();
    let ready = match state.status.has_ended() || !job.spec().can_be_ready() {
        true => None,
        false => Some(readiness(job, state).unwrap_or_else(|| "not ready".to_owned())),
    };
    let ready = ready.map(|ready| format!(", {ready}")).unwrap_or_default();
    let condition =
        if state.status == Status::Completed { with_pipe(condition(state), job) } else { condition(state) };
    format!("{}{name} {condition}{ready}", job.id())
}

/// Adds the codes of a pipeline to the words for a success that hides a failure: `completed, exit 0 (pipe exits 1, 0), after 3s`.
pub(crate) fn with_pipe(words: String, job: &Job) -> String {
    let Some(codes) = job.pipe_codes() else { return words };
    // A command whose reader has seen enough is ended by SIGPIPE, which is no failure.
    match codes.split_last() {
        Some((0, before)) if before.iter().any(|code| !matches!(code, 0 | 141)) => {
            let codes: Vec<String> = codes.iter().map(ToString::to_string).collect();
            words.replacen(", exit 0", &format!(", exit 0 (pipe exits {})", codes.join(", ")), 1)
        }
        _ => words,
    }
}

/// Describes the state of a job: `failed, exit 1, after 42s`, `queued (slurm: Resources)`.
pub(crate) fn condition(state: &State) -> String {
    if let (None, Some(waits_for)) = (&state.outcome, &state.waits_for) {
        return format!("{} ({})", state.words(), outlive::one_line(waits_for));
    }
    let how = state.outcome.as_ref().and_then(|outcome| match (&outcome.cause, outcome.wait_status) {
        (Cause::Natural, WaitStatus::Exited { code }) => Some(format!("exit {code}")),
        _ => outlive::reason(state),
    });
    let how = how.map(|how| format!(", {}", outlive::one_line(&how))).unwrap_or_default();
    let after = if state.outcome.is_some() { "after " } else { "" };
    let time = state.runtime_ms().map(|millis| format!(", {after}{}", format_duration(millis)));
    format!("{}{how}{}", state.words(), time.unwrap_or_default())
}

/// Describes an ending: `failed, exit 1, after 42s`.
pub(crate) fn exit_words(notice: &Notice) -> String {
    let how = match (notice.cause.as_deref(), notice.exit_code, &notice.reason) {
        (None | Some("natural"), Some(code), _) => Some(format!("exit {code}")),
        (_, _, Some(reason)) => Some(outlive::one_line(reason)),
        (_, _, None) => notice.signal.as_ref().map(|signal| format!("ended by {signal}")),
    };
    let how = how.map(|how| format!(", {how}")).unwrap_or_default();
    let after =
        notice.runtime_ms.map(|millis| format!(", after {}", format_duration(millis))).unwrap_or_default();
    format!("{}{how}{after}", notice.status)
}

/// Notes how far a reader has read. Of two concurrent answers the later position counts.
fn note_read(job: &Job, reader: &SessionName, stream: Option<Stream>, end: u64) {
    if job.cursor(reader, stream).is_none_or(|place| place < end) {
        // If the store cannot be written, the output is shown again.
        job.set_cursor(reader, stream, end).ok();
    }
}

/// Marks an answer as delivering the end of a job, if it has ended, and notes that once the client has the answer.
pub(crate) fn delivers(call: &Call<'_>, reply: Reply, job: Job, state: &State) -> Reply {
    delivers_output(call, reply, job, state, None)
}

/// As [`delivers`], and notes how far a stream was read.
pub(crate) fn delivers_output(
    call: &Call<'_>,
    reply: Reply,
    job: Job,
    state: &State,
    read: Option<(Option<Stream>, u64)>,
) -> Reply {
    let (reader, has_ended) = (call.scope.reader.clone(), state.status.has_ended());
    reply.tells(&job, state).after(move || {
        if let Some((stream, end)) = read {
            note_read(&job, &reader, stream, end);
        }
        if has_ended {
            note_delivered(&job, &reader);
        }
    })
}

/// As [`delivers`], for several jobs.
pub(crate) fn delivers_all(call: &Call<'_>, reply: Reply, jobs: Vec<Job>) -> Reply {
    jobs.into_iter().fold(reply, |reply, job| {
        let state = job.state(call.store);
        delivers(call, reply, job, &state)
    })
}

/// Notes that a reader has received the end of a job.
pub(crate) fn note_delivered(job: &Job, reader: &SessionName) {
    job.mark_seen();
    job.mark_delivered(reader);
}

/// Waits until a job that was just started has ended, asks for an answer, or is ready if it has conditions for that; or until the
/// limit, or until the call is cancelled.
pub(crate) fn wait_for_start(call: &Call<'_>, job: &Job, limit: Duration) -> Result<(), WaitError> {
    if limit.is_zero() {
        return Ok(());
    }
    let conditions = Conditions {
        ready: job.spec().can_be_ready(),
        // A program that only reads a pipe may have nothing to ask.
        input: job.spec().options.pty.then_some(InputWanted::Question),
        ..Conditions::default()
    };
    let jobs = std::slice::from_ref(job);
    call.store.wait_for(&WaitFor {
        conditions,
        limit: Some(limit),
        stop: call.stop(),
        ..WaitFor::exits(jobs)
    })?;
    await_leftovers(call, job);
    Ok(())
}

/// Looks whether a job waits for an answer, puts that into its state, and returns a line that says what to do.
pub(crate) fn question(call: &Call<'_>, job: &Job, state: &mut State) -> Option<String> {
    call.store.look_for_input_wait(job, state);
    let awaited = AwaitedObject::new(job, state.awaits().filter(|awaited| awaited.kind.is_question())?);
    call.claims.note_question(job.spec().nonce, &awaited);
    let hint = awaited.tool_hint(job.id()).map(|hint| format!("; {hint}")).unwrap_or_default();
    Some(format!("{} {}{hint}", job.id(), awaited.sentence()))
}

/// How long leftover children may take to print their last output and end.
const LEFTOVERS: Duration = Duration::from_millis(500);

/// Waits briefly for leftover children: most are about to end, as `tee` in `exec > >(tee log)` is, and what they print belongs to
/// the answer.
pub(crate) fn await_leftovers(call: &Call<'_>, job: &Job) {
    let until = Instant::now() + LEFTOVERS;
    while job.state(call.store).is_lingering() && Instant::now() < until && !call.is_cancelled() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns `ready`, with the address or the line that showed it; `None` if the job is not ready.
fn readiness(job: &Job, state: &State) -> Option<String> {
    let record = job.ready_now(state)?;
    let line = record.line_number.and_then(|number| line(job, number)).unwrap_or_default();
    Some(match record.url.as_deref().or_else(|| url_in(&line)) {
        Some(url) => format!("ready at {}", shown(url)),
        None if line.is_empty() => "ready".to_owned(),
        None => format!("ready: {}", quoted(&line)),
    })
}

/// Reads one line of a job's output.
fn line(job: &Job, number: u64) -> Option<String> {
    let selection = Selection {
        begin: Begin::Line(number),
        limit: Some(1),
        form: Form::Plain,
        ..Selection::after(0, Room::of(400), false)
    };
    show(job, &selection).ok().map(|shown| shown.text.trim().to_owned())
}

/// Finds the address in a line.
fn url_in(line: &str) -> Option<&str> {
    let at = line.find("http://").or_else(|| line.find("https://"))?;
    let end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | ']' | ',');
    line[at..].split(end).next().map(|url| url.trim_end_matches(['.', ';']))
}
