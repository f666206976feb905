//! `outlive wait`: for the end of jobs, or for what comes before it.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use outlive::duration::format_duration;
use outlive::{
    AwaitedObject, Conditions, EventScope, InputWanted, Job, JobId, JobObject, Status, Until, WaitFor,
    WaitReason, WaitResult,
};
use outlive_sys::signal::{catch_interrupt, interrupt_fd, interrupted};
use serde::Serialize;
use serde_json::Value;

use crate::args::Wait;
use crate::commands::Context;
use crate::commands::events::{self, Gap};
use crate::commands::run::own_code;
use crate::failure::{Failure, UNSUCCESSFUL, end_interrupted};
use crate::progress::meanwhile;
use crate::render::{ending, for_stdout, note, one_line, print, print_json};
use crate::served;

/// How much of the output's end comes with the answer.
const TAIL_BYTES: usize = 2000;

/// A look.
const LEAST: Duration = Duration::from_millis(1);

/// The answer for scripts.
#[derive(Serialize)]
struct Answer<'a> {
    outcome: &'static str,
    /// The job that decided; none if no single job did.
    job: Option<&'a JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line_number: Option<u64>,
    status: Option<Status>,
    tail: Option<String>,
    /// The limit that was given; none: without limit.
    effective_timeout_ms: Option<u64>,
    jobs: &'a [JobObject],
    /// What the job that decided waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    awaits: Option<&'a AwaitedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Gap>,
}

pub(crate) fn run(context: &Context, arguments: &Wait) -> Result<ExitCode, Failure> {
    if arguments.timeout.is_some_and(|limit| limit.is_zero()) {
        let hint = "without --timeout it waits as long as it takes; --timeout 1ms only looks";
        return Err(Failure::usage("wait: --timeout 0 leaves no time to wait", hint));
    }
    if arguments.exit_code && arguments.jobs.len() != 1 {
        let hint = "without --exit-code, `wait` tells of several by 0 and 7";
        return Err(Failure::usage("wait: --exit-code is for one job", hint));
    }
    let conditions = conditions(arguments)?;
    let jobs = chosen(context, arguments)?;
    for job in jobs.iter().filter(|job| job.spec().ready().is_some()) {
        context.store.probe_in_passing(job, &job.state(&context.store));
    }
    // A person who gives up waiting is told that the job does not.
    if io::stderr().is_terminal() && !context.is_json {
        catch_interrupt();
    }
    let wanted = WaitFor {
        jobs: &jobs,
        until: if arguments.any { Until::Any } else { Until::All },
        conditions,
        events: arguments
            .event
            .then(|| EventScope { session: context.session.clone(), since: arguments.since }),
        // A caller elsewhere that lost its connection has waited already; the answer that came meanwhile is for it.
        limit: arguments.timeout.map(|limit| limit.saturating_sub(served::elapsed()).max(LEAST)),
        stop: interrupt_fd(),
    };
    let is_at = || still_waiting(context, &jobs);
    let result = meanwhile(context.is_json, is_at, || context.store.wait_for(&wanted))?;
    if !result.is_reached && interrupted() {
        return Ok(let_go(context, &jobs));
    }
    let objects: Vec<JobObject> =
        jobs.iter().zip(&result.states).map(|(job, state)| JobObject::new(job, state)).collect();
    if context.is_json {
        print_json(&answer(context, &jobs, &objects, &result, arguments.timeout)?)?;
    } else {
        tell(context, &jobs, &objects, &result, arguments)?;
    }
    if arguments.bell {
        ring(&objects, &result);
    }
    // Marked only after the answer was printed: if this program dies before, the inbox has the ending.
    for (job, _) in jobs.iter().zip(&objects).filter(|(_, object)| object.status.has_ended()) {
        job.mark_seen();
        job.mark_delivered(&context.reader);
    }
    // Likewise a line: no notice repeats it.
    if let (Some(job), Some(line)) = (result.job.and_then(|at| jobs.get(at)), result.reason.line()) {
        context.store.note_line_shown(job, &context.reader, line.number);
    }
    if !result.is_reached {
        return Err(failure(&objects, &result, arguments));
    }
    if let ([state], true) = (result.states.as_slice(), arguments.exit_code) {
        return Ok(own_code(state));
    }
    let has_failed = |status: Status| status.has_ended() && status != Status::Completed;
    let failed: Vec<&JobObject> = objects.iter().filter(|object| has_failed(object.status)).collect();
    if !failed.is_empty() && io::stderr().is_terminal() && !context.is_json {
        note(&tells_more(&failed));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(UNSUCCESSFUL) })
}

/// Names the command that tells more of jobs that failed: of one that never started there is no output.
fn tells_more(failed: &[&JobObject]) -> String {
    let ids = |failed: &[&JobObject]| {
        failed.iter().map(|object| object.job.to_string()).collect::<Vec<_>>().join(" ")
    };
    let (begun, never): (Vec<&JobObject>, Vec<&JobObject>) =
        failed.iter().partition(|object| object.started_at.is_some());
    match (begun.as_slice(), never.as_slice()) {
        ([], [never, ..]) => format!("`outlive why {}` tells more", never.job),
        (begun, _) => format!("`outlive logs -n 40 {}` tells more", ids(begun)),
    }
}

/// Says what goes on after Ctrl-C.
fn let_go(context: &Context, jobs: &[Job]) -> ExitCode {
    let mut live = jobs.iter().filter(|job| !job.state(&context.store).status.has_ended());
    let goes_on = match (live.next(), live.count()) {
        (None, _) => String::new(),
        (Some(job), 0) => format!("; {0} goes on. Stop it with: outlive kill {0}", job.id()),
        (Some(job), more) => format!("; {} and {more} more go on", job.id()),
    };
    // Over the `^C` that the terminal has shown.
    note(&format!("\routlive: no longer waiting{goes_on}"));
    end_interrupted()
}

/// Rings the bell of the terminal, and lets it show a notification (OSC 9) where it can; without a terminal nothing happens.
fn ring(objects: &[JobObject], result: &WaitResult) {
    let job = result.job.and_then(|at| objects.get(at));
    let text = job.map_or_else(|| "outlive wait is over".to_owned(), ending);
    let text = format!("\x1b]9;{text}\x07\x07");
    if io::stderr().is_terminal() {
        write!(io::stderr().lock(), "{text}").ok();
    } else if io::stdout().is_terminal() {
        print(&text);
    }
}

/// Names the first job that has not ended, how many more there are, and its last line.
fn still_waiting(context: &Context, jobs: &[Job]) -> String {
    let mut live = jobs.iter().filter(|job| !job.state(&context.store).status.has_ended());
    let Some(first) = live.next() else { return "waiting".to_owned() };
    let more = match live.count() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    let tail = outlive::tail_text(first, TAIL_BYTES).unwrap_or_default();
    let last = tail.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match last {
        "" => format!("waiting for {}{more}", first.id()),
        last => format!("{}{more}: {last}", first.id()),
    }
}

fn conditions(arguments: &Wait) -> Result<Conditions, Failure> {
    let compile = |text: &String, option: &str| {
        outlive::pattern(text, arguments.ignore_case).map_err(|error| Failure::from(error).during(option))
    };
    let compile_any = |text: Option<&String>, option| text.map(|text| compile(text, option)).transpose();
    Ok(Conditions {
        ready: arguments.ready,
        matches: compile_any(arguments.matches.as_ref(), "--match")?,
        fail_matches: compile_any(arguments.fail_match.as_ref(), "--fail-match")?,
        from_line: arguments.from_line,
        port: arguments.port,
        http: arguments.http.clone(),
        idle: arguments.idle,
        input: arguments.input.then_some(InputWanted::Any),
    })
}

/// Finds the jobs that are meant: named, of a group, or of the session; none for the events of all.
fn chosen(context: &Context, arguments: &Wait) -> Result<Vec<Job>, Failure> {
    if let Some(group) = &arguments.group {
        return context.of_group("wait", group);
    }
    if let Some(queue) = &arguments.queue {
        let mut jobs = context.list("wait")?.jobs;
        jobs.retain(|job| job.spec().options.queue.as_ref() == Some(queue));
        jobs.retain(|job| !job.state(&context.store).status.has_ended());
        if jobs.is_empty() && !context.is_json {
            note(&format!("outlive: no job waits or runs in queue {queue}"));
        }
        return Ok(jobs);
    }
    if !arguments.jobs.is_empty() {
        // Each once, by whatever names it was given.
        let mut jobs = Vec::<Job>::new();
        for reference in &arguments.jobs {
            let job = context.find(reference)?;
            if jobs.iter().all(|known| known.id() != job.id()) {
                jobs.push(job);
            }
        }
        return Ok(jobs);
    }
    if arguments.since.is_some() && context.session.is_none() {
        return Err(Failure::usage("--since needs --session", "each session has sequences of its own"));
    }
    if arguments.event {
        return Ok(Vec::new());
    }
    if context.session.is_none() {
        return Err(Failure::usage(
            "there is nothing to wait for",
            "name jobs, a --group or a --session, or wait for any --event",
        ));
    }
    let mut jobs = context.list("wait")?.jobs;
    // The end of all is also that of those which have ended; what comes before an end can only come of live ones.
    if arguments.any || arguments.has_condition() {
        jobs.retain(|job| !job.state(&context.store).status.has_ended());
    }
    if let Some(session) = context.session.as_ref().filter(|_| jobs.is_empty() && !context.is_json) {
        note(&format!("outlive: session {session} has no jobs to wait for"));
    }
    Ok(jobs)
}

fn answer<'a>(
    context: &Context,
    jobs: &[Job],
    objects: &'a [JobObject],
    result: &'a WaitResult,
    limit: Option<Duration>,
) -> Result<Answer<'a>, Failure> {
    let (event, of_event) = match &result.reason {
        WaitReason::Event(session, numbered) => {
            let line = events::line(context, session, numbered)?;
            (serde_json::from_str(&line).ok(), Some(&numbered.event))
        }
        _ => (None, None),
    };
    let awaits = match &result.reason {
        WaitReason::Input(awaits) => Some(awaits),
        _ => None,
    };
    let line = result.reason.line();
    let object = result.job.map(|at| &objects[at]);
    Ok(Answer {
        outcome: result.reason.word(),
        job: object.map(|object| &object.job).or(of_event.map(|event| &event.job)),
        line: line.map(|line| String::from_utf8_lossy(&line.text).into_owned()),
        line_number: line.map(|line| line.number),
        status: object
            .map(|object| object.status)
            .or(of_event.and_then(|event| event.status.as_ref()?.known().copied())),
        tail: result.job.and_then(|at| outlive::tail_text(&jobs[at], TAIL_BYTES).ok()),
        effective_timeout_ms: limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        jobs: objects,
        awaits,
        event,
        gap: result.gap.map(|(from, to)| Gap { from, to }),
    })
}

/// Says in a line what came of each job.
fn tell(
    context: &Context,
    jobs: &[Job],
    objects: &[JobObject],
    result: &WaitResult,
    arguments: &Wait,
) -> Result<(), Failure> {
    if let WaitReason::Event(session, numbered) = &result.reason {
        print(&events::line(context, session, numbered)?);
        return Ok(());
    }
    for ((job, object), came) in jobs.iter().zip(objects).zip(&result.each) {
        let text = match came {
            Some(WaitReason::Exit) => ending(object) + &next_run(context, job),
            Some(came) => one_line(&format!("{} {}", object.job, words(came, object, arguments))),
            None => continue,
        };
        // What failed is told as a failure.
        if !matches!(came, Some(WaitReason::FailMatch(_) | WaitReason::Timeout)) {
            print(&format!("{}\n", for_stdout(&text, "  ")));
        }
    }
    Ok(())
}

/// Names the run that follows one that has ended; nothing where none does.
fn next_run(context: &Context, job: &Job) -> String {
    let Some(next) = context.store.next_run_soon(job) else { return String::new() };
    let object = JobObject::new(&next, &next.state(&context.store));
    match object.starts_in_ms {
        Some(left) => format!("; the next run {} begins in {}", next.id(), format_duration(left)),
        None => format!("; the next run {} has begun", next.id()),
    }
}

fn words(came: &WaitReason, object: &JobObject, arguments: &Wait) -> String {
    let line =
        |line: &outlive::Line| format!("line {}: {}", line.number, String::from_utf8_lossy(&line.text));
    match came {
        WaitReason::Ready(said) => {
            let url = object.ready_place.iter().map(|place| format!(" at {place}"));
            let said = said.iter().map(|said| format!(", {}", line(said)));
            format!("is ready{}", url.chain(said).collect::<String>())
        }
        WaitReason::Match(matched) => format!("matched, {}", line(matched)),
        WaitReason::FailMatch(matched) => format!("printed what must not come, {}", line(matched)),
        WaitReason::Port(port) => {
            let place = port.url.strip_prefix("http://").unwrap_or(&port.url);
            format!("listens on port {} (pid {}, {place})", port.port, port.pid)
        }
        WaitReason::Http(status) => {
            let url = arguments.http.as_ref().map_or("", outlive::HttpAddress::as_str);
            format!("answers at {url} with {status}")
        }
        WaitReason::Idle => "is idle".to_owned(),
        WaitReason::Input(awaited) => {
            let hint = awaited.hint(&object.job).map(|hint| format!("; {hint}"));
            format!("{}{}", awaited.sentence(), hint.unwrap_or_default())
        }
        WaitReason::Timeout => "was not ready in its time".to_owned(),
        // These have words of their own.
        WaitReason::Exit | WaitReason::Event(..) => String::new(),
    }
}

fn failure(objects: &[JobObject], result: &WaitResult, arguments: &Wait) -> Failure {
    if result.can_still_come {
        return timed_out(objects, result);
    }
    let Some(object) = result.job.map(|at| &objects[at]) else {
        return Failure::not_reached("wait: no job is live", "`outlive list` shows those that have ended");
    };
    let job = &object.job;
    let said = format!("{job} {}", words(&result.reason, object, arguments));
    let (message, hint) = match &result.reason {
        WaitReason::FailMatch(line) => {
            (said, format!("it goes on; `outlive logs --from-line {} {job}` has more", line.number))
        }
        WaitReason::Timeout => (said, format!("it goes on; `outlive logs -n 20 {job}` tells what it does")),
        // How it ended was printed.
        _ if arguments.ready && object.ready == Some(true) => (
            format!("{job} is no longer ready: it has ended"),
            format!("`outlive logs -n 20 {job}` tells more"),
        ),
        _ => (
            format!("it can no longer come: {job} has ended"),
            format!("`outlive logs -n 20 {job}` tells more"),
        ),
    };
    Failure::not_reached(format!("wait: {message}"), hint).about(job)
}

/// Tells of the jobs that are still waited for: those that run, and those that wait to be started, with what they wait for.
fn timed_out(objects: &[JobObject], result: &WaitResult) -> Failure {
    let (mut running, mut queued, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    let mut missing: Vec<&str> = Vec::new();
    for (((object, state), _), lacks) in objects
        .iter()
        .zip(&result.states)
        .zip(&result.each)
        .zip(&result.missing)
        .filter(|((_, came), _)| came.is_none())
    {
        ids.push(&object.job);
        // Several jobs may wait for one address.
        missing.extend(lacks.as_deref().filter(|lacks| !missing.contains(lacks)));
        match state.status {
            Status::Queued => {
                let summary = state.summary();
                let why = summary.strip_prefix("queued: ").map(|why| format!(" ({why})"));
                queued.push(format!("{}{}", object.job, why.unwrap_or_default()));
            }
            _ => running.push(object.job.to_string()),
        }
    }
    let parts = [("still running", &running), ("still queued", &queued)];
    let parts = parts.into_iter().filter(|(_, jobs)| !jobs.is_empty());
    let mut parts: Vec<String> = parts.map(|(what, jobs)| format!("{what}: {}", jobs.join(", "))).collect();
    parts.extend(missing.into_iter().map(str::to_owned));
    let what = if parts.is_empty() { "nothing has happened".to_owned() } else { parts.join("; ") };
    let hint = match (ids.as_slice(), queued.is_empty()) {
        ([job], true) => format!("it goes on; wait again, or end it with: outlive kill {job}"),
        ([job], false) => {
            format!("it keeps its place; wait again, or take it out with: outlive kill {job}")
        }
        _ => "they go on; wait again, or end them with: outlive kill".to_owned(),
    };
    Failure::timed_out(format!("wait: {what}"), hint)
}
