//! `outlive events`: tell what happened to jobs.

use std::io;
use std::process::ExitCode;

use outlive::{EventKind, Events, Numbered, SessionName, Status, signal_name};
use outlive_sys::poll::{PollFd, PollFlags, poll};
use outlive_sys::signal::{catch_interrupt, interrupt_fd, interrupted};
use outlive_sys::watch::Watch;
use serde::Serialize;

use crate::args;
use crate::commands::Context;
use crate::failure::{Failure, INTERRUPTED};
use crate::render::{note, print};

/// How often to look where the kernel cannot tell of all sessions, or of new ones.
const EVERY: std::time::Duration = std::time::Duration::from_secs(1);

#[derive(Serialize)]
struct EventObject<'a> {
    seq: u64,
    session: &'a SessionName,
    event: EventKind,
    job: &'a outlive::JobId,
    at: String,
    status: Option<Status>,
    exit_code: Option<i32>,
    signal: Option<String>,
    limit: Option<&'a str>,
}

/// One session that is read.
struct Reading {
    session: SessionName,
    events: Events,
    watch: Option<Watch>,
}

pub(crate) fn run(context: &Context, arguments: &args::Events) -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::other("events", &error);
    if arguments.follow {
        catch_interrupt();
    }
    let mut readings: Vec<Reading> = Vec::new();
    loop {
        let sessions = match &context.session {
            Some(session) => vec![session.clone()],
            None => context.store.sessions().map_err(failed)?,
        };
        for session in sessions {
            if !readings.iter().any(|reading| reading.session == session) {
                let events = context.store.events(&session, arguments.since.unwrap_or(0));
                // Watching begins before the first look, so that nothing is missed between the two.
                let watch = arguments.follow.then(|| events.watch());
                readings.push(Reading { session, events, watch });
            }
        }
        let mut fresh: Vec<(SessionName, Numbered)> = Vec::new();
        for reading in &mut readings {
            if let Some(watch) = &reading.watch {
                watch.clear();
            }
            let events = reading.events.read().map_err(failed)?;
            if let Some((from, to)) = reading.events.take_gap().filter(|_| arguments.since.is_some()) {
                note(&format!("outlive: events {from} to {to} of {} are no longer kept", reading.session));
            }
            fresh.extend(events.into_iter().map(|event| (reading.session.clone(), event)));
        }
        // Sessions have no common order but time.
        fresh.sort_by_key(|(_, numbered)| numbered.event.at);
        for (session, numbered) in &fresh {
            print(&line(context, session, numbered)?);
        }
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
        wait(&readings, context.session.is_none()).map_err(failed)?;
        if interrupted() {
            return Ok(ExitCode::from(INTERRUPTED));
        }
    }
}

/// Waits until something may be new.
fn wait(readings: &[Reading], may_be_more_sessions: bool) -> io::Result<()> {
    let watches = readings.iter().filter_map(|reading| reading.watch.as_ref());
    let is_pushed = watches.clone().all(Watch::is_pushed) && !may_be_more_sessions;
    let fds = watches.filter_map(Watch::fd).chain(interrupt_fd());
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    poll(&mut fds, (!is_pushed).then_some(EVERY)).map(|_| ())
}

pub(super) fn line(context: &Context, session: &SessionName, numbered: &Numbered) -> Result<String, Failure> {
    let Numbered { seq, event } = numbered;
    if context.is_json {
        let object = EventObject {
            seq: *seq,
            session,
            event: event.event,
            job: &event.job,
            at: event.at.to_string(),
            status: event.status,
            exit_code: event.exit_code,
            signal: event.signal.map(signal_name),
            limit: event.limit.as_deref(),
        };
        let json = serde_json::to_string(&object).map_err(|error| Failure::other("events", &error))?;
        return Ok(json + "\n");
    }
    let more = match (event.status, event.exit_code, event.signal, &event.limit) {
        (_, _, _, Some(limit)) => format!(" {limit}"),
        (Some(status), Some(code), ..) => format!(" {status}, {code}"),
        (Some(status), None, Some(signal), _) => format!(" {status}, {}", signal_name(signal)),
        (Some(status), ..) => format!(" {status}"),
        _ => String::new(),
    };
    let whose = if context.session.is_none() { format!("{session} ") } else { String::new() };
    Ok(format!("{} {whose}{} {}{more}\n", event.at, event.job, event.event.word()))
}
