//! `outlive events`: tell what happened to jobs.

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use outlive::{
    EventObject, Events, Numbered, OrNewer, SessionName, Stream, Timestamp, WatchedOutput, signal_name,
};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::signal::{catch_interrupt, interrupt_fd, interrupted};
use outlive_sys::watch::Watch;
use serde::Serialize;

use crate::args::{self, Since};
use crate::commands::Context;
use crate::failure::{Failure, end_interrupted};
use crate::local_time;
use crate::render::{end_with_reader, note, one_line, print};
use crate::served;

/// How often to look where the kernel cannot tell of all sessions, or of new ones.
const EVERY: Duration = Duration::from_secs(1);

/// How often to look for keepers that were killed: no event is written for that.
const RECONCILE_EVERY: Duration = Duration::from_secs(5);

/// Stands for events that are no longer kept, or damaged.
#[derive(Serialize)]
struct GapObject<'a> {
    session: &'a SessionName,
    gap: Gap,
}

#[derive(Serialize)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// One session that is read.
struct Reading {
    session: SessionName,
    events: Events,
    watch: Option<Watch>,
}

pub(crate) fn run(context: &Context, arguments: &args::Events) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::other("events", &error);
    let (since, from) = match arguments.since {
        Some(Since::Sequence(sequence)) => (Some(sequence), Timestamp(0)),
        Some(Since::Time(time)) => (None, time),
        None => (None, Timestamp(0)),
    };
    if since.is_some() && context.session.is_none() {
        let hint = "each session counts its own: outlive --session NAME events --since SEQ; or give a time, such as 5m";
        return Err(Failure::usage("events: --since with a number needs --session", hint));
    }
    let find = |reference: &String| context.find(reference);
    let job = arguments.job.as_ref().map(find).transpose()?;
    let is_wanted = |numbered: &Numbered| {
        numbered.event.at >= from && job.as_ref().is_none_or(|job| numbered.event.job == *job.id())
    };
    // One that is followed may be about to begin.
    if !arguments.follow {
        context.refuse_unknown_session("events")?;
    }
    if arguments.follow {
        catch_interrupt();
        end_with_reader();
    }
    // A program that follows a session holds its lease, whether any job lives with it yet or not.
    let stays = context.session.as_ref().filter(|_| arguments.follow);
    let _lease = stays.and_then(|session| context.store.hold_lease_until_drop(session));
    let mut watched = WatchedOutput::new(context.session.clone());
    let mut readings: Vec<Reading> = Vec::new();
    let mut reconciled: Option<Instant> = None;
    loop {
        if reconciled.is_none_or(|reconciled| reconciled.elapsed() >= RECONCILE_EVERY) {
            context.store.reconcile(context.session.as_ref());
            reconciled = Some(Instant::now());
        }
        let sessions = match &context.session {
            Some(session) => vec![session.clone()],
            None => context.store.sessions().map_err(failed)?,
        };
        for session in sessions {
            if !readings.iter().any(|reading| reading.session == session) {
                let place = served::place(Stream::Stdout, session.as_str());
                let events = context.store.events(&session, place.or(since).unwrap_or(0));
                // Watching begins before the first look, so that nothing is missed between the two.
                let watch = arguments.follow.then(|| events.watch());
                readings.push(Reading { session, events, watch });
            }
        }
        watched.look(&context.store);
        let mut unread = Vec::new();
        for reading in &mut readings {
            if let Some(watch) = &reading.watch {
                watch.clear();
            }
            let events = reading.events.read_with_gaps(since.is_none()).map_err(failed)?;
            // Within a session the sequence decides: an event counts as no earlier than those before it.
            let mut latest = Timestamp(0);
            unread.extend(events.into_iter().map(|(_, what)| {
                latest = what.as_ref().map_or(latest, |numbered| latest.max(numbered.event.at));
                (latest, reading.session.clone(), what)
            }));
        }
        let is_new = !unread.is_empty();
        // Sessions have no common order but time. The sort is stable, so each keeps its own.
        unread.sort_by_key(|(latest, ..)| *latest);
        for (_, session, what) in &unread {
            match what {
                Ok(numbered) if !is_wanted(numbered) => {}
                Ok(numbered) => print(&line(context, session, numbered)?),
                Err((from, to)) => tell_gap(context, session, Gap { from: *from, to: *to })?,
            }
        }
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
        if is_new {
            let places = readings.iter().map(|reading| (reading.session.as_str(), reading.events.position()));
            served::mark(Stream::Stdout, places);
        }
        wait(&readings, &watched, context.session.is_none()).map_err(failed)?;
        if interrupted() {
            return Ok(end_interrupted());
        }
    }
}

fn tell_gap(context: &Context, session: &SessionName, gap: Gap) -> Result<(), Failure> {
    let Gap { from, to } = gap;
    note(&format!("outlive: events {from} to {to} of {session} are no longer kept or damaged"));
    if context.is_json {
        print(&json(&GapObject { session, gap })?);
    }
    Ok(())
}

/// Waits until something may be new.
fn wait(readings: &[Reading], watched: &WatchedOutput, may_be_more_sessions: bool) -> io::Result<()> {
    let watches = readings.iter().filter_map(|reading| reading.watch.as_ref());
    let is_pushed = watches.clone().all(Watch::is_pushed) && !may_be_more_sessions;
    let fds = watches.filter_map(Watch::fd).chain(watched.fd()).chain(interrupt_fd());
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let nap = if is_pushed { RECONCILE_EVERY } else { EVERY };
    poll(&mut fds, Some(watched.nap().map_or(nap, |due| due.min(nap)))).map(|_| ())
}

fn json(object: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(object).map_err(|error| Failure::other("events", &error))?;
    Ok(json + "\n")
}

pub(super) fn line(context: &Context, session: &SessionName, numbered: &Numbered) -> Result<String, Failure> {
    let object = EventObject::new(&context.store, session, numbered);
    if context.is_json {
        return json(&object);
    }
    let event = &numbered.event;
    let mut more =
        match (event.status.as_ref().map(OrNewer::word), event.exit_code, event.signal, &event.limit) {
            (_, _, _, Some(limit)) => format!(" {limit}"),
            (Some(status), Some(code), ..) => format!(" {status}, {code}"),
            (Some(status), None, Some(signal), _) => format!(" {status}, {}", signal_name(signal)),
            (Some(status), ..) => format!(" {status}"),
            _ => String::new(),
        };
    if let Some(awaits) = &event.awaits {
        more += &format!(" {}", awaits.word());
    }
    if let Some(url) = &event.url {
        let job = context.store.find_exactly(&event.job, event.nonce);
        more += &format!(" {}", one_line(job.as_ref().map_or(url, |job| job.ready_place(url))));
    }
    if let (Some(line), Some(text)) = (event.line, &event.text) {
        let skipped = event.skipped.map(|skipped| format!(" and {skipped} before it")).unwrap_or_default();
        more += &format!(" line {line}{skipped}: {}", one_line(text));
    }
    if let (None, Some(text)) = (event.line, &event.text) {
        more += &format!(": {}", one_line(text));
    }
    // A natural end is told by the rest.
    if let Some(cause) = object.cause.filter(|cause| cause != "natural") {
        more += &format!(" ({cause})");
    }
    let whose = if context.session.is_none() { format!("{session} ") } else { String::new() };
    let tail = outlive::quoted(object.tail.as_deref().unwrap_or_default());
    let at = local_time::shown_exactly(event.at);
    Ok(format!("{at} {whose}{} {}{more}\n{tail}", event.job, event.event.word()))
}
