//! `wait`: wait for the end of jobs or another condition.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive::duration::format_duration;
use outlive::{
    Conditions, Event, EventKind, EventScope, InputWanted, Job, Line, Plain, State, Status, Until, WaitFor,
    WaitReason, WaitResult,
};

use serde_json::{Map, Value};

use super::read_output::{answer, pattern, unreadable};
use super::{Call, Hints, Kind, Parameter, Tool, servers};
use crate::jobs::{self, summary};
use crate::reading::{Room, Selection, show};
use crate::reply::{Failure, Reply, push_line, push_own_line, quoted};

const FOR: [&str; 7] = ["exit", "ready", "match", "port", "idle", "input", "event"];

pub(crate) static TOOL: Tool = Tool {
    name: "wait",
    title: "Wait for jobs",
    description: "Wait until jobs end (the default), get ready, print a line that matches pattern, listen on port, fall silent or ask for input; without jobs, until anything happens. Use it instead of sleep or polling. When the time is over, jobs go on: call it again.",
    parameters: &[
        Parameter::new("jobs", Kind::Texts, "Ids or names; none: any event"),
        Parameter::new("group", Kind::Text, "All jobs of this group"),
        Parameter::new("all", Kind::Flag, "All of them, not the first"),
        Parameter::new("for", Kind::Word(&FOR), ""),
        Parameter::new("pattern", Kind::Text, "Regex"),
        Parameter::new("fail_pattern", Kind::Text, "Regex of a line that fails the wait"),
        Parameter::new("port", Kind::Number, ""),
        Parameter::new("idle_ms", Kind::Number, "Silent so long; default 2000"),
        Parameter::new("timeout_ms", Kind::Number, ""),
        Parameter::new("max_bytes", Kind::Number, ""),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: false, open_world: false },
    waits: true,
    call,
};

/// The longest that a task or an idle job is waited for, in milliseconds: a day.
pub(crate) const LONGEST: u64 = 86_400_000;

/// How many bytes of output each of several ended jobs has at least.
const LEAST: usize = 300;

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let longest_ms = call.longest_ms;
    let timeout = call.arguments.number("timeout_ms", 0..=longest_ms)?.unwrap_or(longest_ms);
    let timeout = Duration::from_millis(timeout);
    let until = if call.arguments.flag("all")? { Until::All } else { Until::Any };
    let (jobs, goal) = chosen(call)?;
    let conditions = conditions(call, goal)?;
    for job in &jobs {
        call.store.probe_in_passing(job, &job.state(call.store));
    }
    if goal == "event" && jobs.is_empty() && call.has_due() {
        // An ending is pending, and comes with this answer.
        return Ok(Reply::new("something happened since your last call"));
    }
    let began = Instant::now();
    // This answer reports the end of a single job, not a concurrent one.
    let claim = match jobs.as_slice() {
        [job] => Some(call.claims.claim(job.id().clone())),
        _ => None,
    };
    let mut since = call.since;
    let mut result = loop {
        let events = (goal == "event").then(|| EventScope {
            // Each session numbers its own events.
            session: since.map_or_else(|| call.scope.seen().cloned(), |_| Some(call.scope.session.clone())),
            since,
        });
        let limit = Some(timeout.saturating_sub(began.elapsed()));
        let conditions = conditions.clone();
        let wanted = WaitFor { jobs: &jobs, until, conditions, events, limit, stop: call.stop() };
        let result = call.store.wait_for(&wanted).map_err(|error| jobs::failed(call, "", error))?;
        match &result.reason {
            WaitReason::Event(_, numbered) if is_own(call, &numbered.event) => {
                since = Some(numbered.seq).filter(|_| !call.scope.sees_all);
            }
            _ => break result,
        }
    };
    let each = jobs.iter().zip(&mut result.states);
    let questions: Vec<String> = each.filter_map(|(job, state)| jobs::question(call, job, state)).collect();
    let waited = (!timeout.is_zero()).then(|| began.elapsed());
    let mut reply = tell(call, jobs, &result, waited)?.after(move || drop(claim));
    // Before the advice to wait on, which helps no job that asks.
    reply.footers.splice(0..0, questions);
    Ok(reply)
}

/// Tells whether this reader caused an event itself: the start of its own job, or an end that another answer reports.
fn is_own(call: &Call<'_>, event: &Event) -> bool {
    let Some(job) = call.store.find_exactly(&event.job, event.nonce) else { return false };
    match event.event.known() {
        Some(EventKind::Started) => job.spec().reader.as_ref() == Some(&call.scope.reader),
        // What another reader watches for.
        Some(EventKind::Matched) => event.reader.as_ref().is_some_and(|reader| *reader != call.scope.reader),
        _ => event.is_end() && (call.claims.has_claimed(job.id()) || job.is_delivered(&call.scope.reader)),
    }
}

/// Returns the jobs and the kind of condition.
fn chosen(call: &mut Call<'_>) -> Result<(Vec<Job>, &'static str), Failure> {
    let references = call.arguments.texts("jobs")?;
    let group = call.arguments.text("group")?;
    let goal = call.arguments.word("for", &FOR)?;
    let is_all = references.is_empty() && group.is_none();
    let given = |name| call.arguments.value(name).is_some();
    let goal = goal.unwrap_or(match is_all {
        _ if given("pattern") => "match",
        _ if given("port") => "port",
        _ if given("idle_ms") => "idle",
        true => "event",
        false => "exit",
    });
    let mut jobs = Vec::new();
    for reference in references {
        jobs.push(jobs::find(call, &reference)?);
    }
    if is_all && goal == "event" {
        return Ok((jobs, goal));
    }
    if is_all || group.is_some() {
        let is_meant = |job: &Job| match &group {
            Some(group) => job.spec().options.group.as_ref() == Some(group),
            None => !job.state(call.store).status.has_ended(),
        };
        jobs.extend(jobs::list(call)?.into_iter().filter(is_meant));
    }
    if jobs.is_empty() {
        let what = group.map_or_else(
            || "no job is live".to_owned(),
            |group| format!("no job is in group {}", quoted(&group)),
        );
        return Err(Failure::new(format!("there is nothing to wait for: {what}"))
            .next(jobs::live_ids(call.store, call.scope)));
    }
    Ok((jobs, goal))
}

/// Returns the arguments with ids in place of names and groups, which may mean other jobs later.
pub(crate) fn pinned(
    call: &mut Call<'_>,
    mut given: Map<String, Value>,
) -> Result<Map<String, Value>, Failure> {
    let (jobs, goal) = chosen(call)?;
    given.insert("for".to_owned(), goal.into());
    if !jobs.is_empty() {
        let ids: Vec<Value> = jobs.iter().map(|job| job.id().as_str().into()).collect();
        given.insert("jobs".to_owned(), ids.into());
        given.remove("group");
    }
    Ok(given)
}

fn conditions(call: &mut Call<'_>, goal: &str) -> Result<Conditions, Failure> {
    let mut conditions = Conditions { fail_matches: pattern(call, "fail_pattern")?, ..Conditions::default() };
    match goal {
        "ready" => conditions.ready = true,
        "match" => {
            call.arguments.required("pattern", "wait jobs=[\"web\"] for=match pattern=\"listening\"")?;
            conditions.matches = pattern(call, "pattern")?;
        }
        "port" => {
            let port = call.arguments.number("port", 1..=65_535)?.and_then(|port| u16::try_from(port).ok());
            let missing = || {
                Failure::new("wait for=port needs port")
                    .next("for example wait jobs=[\"web\"] for=port port=3000")
            };
            conditions.port = Some(port.ok_or_else(missing)?);
        }
        "idle" => {
            let millis = call.arguments.number("idle_ms", 50..=LONGEST)?.unwrap_or(2000);
            conditions.idle = Some(Duration::from_millis(millis));
        }
        "input" => conditions.input = Some(InputWanted::Any),
        _ => {}
    }
    Ok(conditions)
}

/// Reports the result, and what to do next.
fn tell(
    call: &mut Call<'_>,
    mut jobs: Vec<Job>,
    result: &WaitResult,
    waited: Option<Duration>,
) -> Result<Reply, Failure> {
    // With a timeout of 0 there was no wait.
    let waited = waited.map(|waited| format!(" after {}", format_duration(waited.as_millis() as u64)));
    let waited = waited.unwrap_or_default();
    let decided = result.job.filter(|&at| at < jobs.len());
    let what = decided.map(|at| summary(&jobs[at], &result.states[at])).unwrap_or_default();
    let header = match &result.reason {
        WaitReason::Timeout if jobs.is_empty() => format!("nothing has happened{waited}"),
        // Each of several has a line of its own.
        WaitReason::Timeout if jobs.len() > 1 => format!("not yet{waited}"),
        WaitReason::Timeout => format!("not yet{waited}: {what}"),
        WaitReason::Exit if result.is_reached && jobs.len() > 1 => ends(&result.states),
        WaitReason::Exit if result.is_reached => what,
        WaitReason::Exit => format!("ended before what was waited for: {what}"),
        WaitReason::Ready(_) | WaitReason::Http(_) => what,
        WaitReason::Match(line) => format!("{what}; line {} matches", line.number),
        WaitReason::FailMatch(line) => format!("failed: {what}; line {} matches fail_pattern", line.number),
        WaitReason::Port(port) => format!("{what}; listens at {}", port.url),
        WaitReason::Idle => format!("{what}; silent"),
        // A question has a line of its own, with what to do.
        WaitReason::Input(awaited) if awaited.kind.is_question() => what,
        WaitReason::Input(awaited) => format!("{what}; {}", awaited.sentence()),
        WaitReason::Event(_, numbered) => {
            let event = &numbered.event;
            let exit = event.exit_code.map(|code| format!(", exit {code}")).unwrap_or_default();
            let status =
                event.status.as_ref().map(|status| format!(" {}", status.word())).unwrap_or_default();
            format!("{} {}{status}{exit}", event.job, event.event.word())
        }
    };
    let mut reply = Reply::new(header);
    // The end of a job is told with its output, and once.
    if let WaitReason::Event(_, numbered) = &result.reason
        && numbered.event.is_end()
        && let Some(job) = call.store.find_exactly(&numbered.event.job, numbered.event.nonce)
    {
        let state = job.state(call.store);
        reply.header = summary(&job, &state);
        return with_output(call, job, &state, reply);
    }
    // A line that is watched for comes as a notice with this answer.
    if let WaitReason::Event(_, numbered) = &result.reason
        && numbered.event.event == EventKind::Matched
        && let Some(job) = call.store.find_exactly(&numbered.event.job, numbered.event.nonce)
    {
        reply.header = summary(&job, &job.state(call.store));
        return Ok(reply);
    }
    if let Some(line) = result.reason.line() {
        push_line(&mut reply.body, &text(line));
        if let Some(job) = decided.map(|at| &jobs[at]) {
            let (store, reader, number) = (Arc::clone(call.store), call.scope.reader.clone(), line.number);
            let (id, nonce) = (job.id().clone(), job.spec().nonce);
            reply = reply.after(move || {
                if let Some(job) = store.find_exactly(&id, nonce) {
                    store.note_line_shown(&job, &reader, number);
                }
            });
        }
    }
    let live = jobs.iter().zip(&result.states).filter(|(_, state)| !state.status.has_ended());
    let ids: Vec<String> = live.map(|(job, _)| format!("\"{}\"", job.id())).collect();
    reply.is_pending = result.can_still_come;
    if result.can_still_come {
        let jobs = if ids.is_empty() { String::new() } else { format!(" jobs=[{}]", ids.join(", ")) };
        let conditions =
            given(call, &["all", "for", "pattern", "fail_pattern", "port", "idle_ms", "timeout_ms"]);
        reply = reply.footer(format!("jobs go on; call it again: wait{jobs}{conditions}"));
    }
    if jobs.len() > 1 {
        return with_each(call, jobs, &result.states, reply);
    }
    match jobs.pop() {
        Some(job) if result.states[0].status.has_ended() => with_output(call, job, &result.states[0], reply),
        Some(job) => Ok(jobs::delivers(call, reply, job, &result.states[0])),
        None => Ok(reply),
    }
}

/// Says how many of several jobs have ended.
fn ends(states: &[State]) -> String {
    let ended = states.iter().filter(|state| state.status.has_ended()).count();
    match ended == states.len() {
        true => format!("all {ended} have ended"),
        false => format!("{ended} of {} ended", states.len()),
    }
}

/// Adds a line for each of several jobs, and below it the unread output of one that has ended: its end is told here, and once.
fn with_each(
    call: &mut Call<'_>,
    jobs: Vec<Job>,
    states: &[State],
    mut reply: Reply,
) -> Result<Reply, Failure> {
    let room = call.room()?;
    let ended = states.iter().filter(|state| state.status.has_ended()).count().max(1);
    let share = Room { whole: (room.whole / ended).max(LEAST), cut: (room.cut / ended).max(LEAST) };
    for (job, state) in jobs.into_iter().zip(states) {
        let summary = summary(&job, state);
        if !state.status.has_ended() {
            push_own_line(&mut reply.body, &summary);
            continue;
        }
        let of_job = unread(call, job, state, summary, share)?;
        push_own_line(&mut reply.body, &of_job.header);
        reply.body.push_str(&of_job.body);
        for footer in &of_job.footers {
            push_own_line(&mut reply.body, footer);
        }
        reply.delivered.extend(of_job.delivered);
        reply.after.extend(of_job.after);
    }
    Ok(reply)
}

/// Repeats parameters of the call as they were given.
fn given(call: &Call<'_>, names: &[&str]) -> String {
    let repeat = |name: &&str| Some(format!(" {name}={}", call.arguments.value(name)?));
    names.iter().filter_map(repeat).collect()
}

/// Adds the unread output of a job that has ended.
fn with_output(call: &mut Call<'_>, job: Job, state: &State, reply: Reply) -> Result<Reply, Failure> {
    let mut room = call.room()?;
    room.whole = room.whole.saturating_sub(reply.body.len()).max(room.cut);
    let mut with = unread(call, job, state, reply.header, room)?;
    with.body = reply.body + &with.body;
    with.footers.extend(reply.footers);
    Ok(with)
}

/// Answers with the unread output of a job that has ended, and with its end.
fn unread(call: &Call<'_>, job: Job, state: &State, header: String, room: Room) -> Result<Reply, Failure> {
    let cursor = job.cursor(&call.scope.reader, None).unwrap_or(0);
    let selection = Selection::after(cursor, room, false);
    let shown = show(&job, &selection).map_err(|error| unreadable(call, &job, &error))?;
    let lines = if shown.range.is_some() { shown.lines() } else { "no new output".to_owned() };
    let end = shown.end;
    let mut reply = answer(&job, format!("{header}; {lines}"), shown, "");
    reply.footers.extend(servers::port_conflict(call, &job, &reply.body));
    if state.status == Status::Completed {
        reply.footers.extend(servers::pipeline(&job));
    }
    Ok(jobs::delivers_output(call, reply, job, state, Some((None, end))))
}

fn text(line: &Line) -> String {
    // Models have no use for control sequences.
    let (mut plain, mut bytes) = (Plain::new(), Vec::new());
    plain.push(&line.text, &mut bytes);
    plain.finish(&mut bytes);
    let mut text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
    if let Some((at, _)) = text.char_indices().nth(1000) {
        text.truncate(at);
        text.push('…');
    }
    text
}
