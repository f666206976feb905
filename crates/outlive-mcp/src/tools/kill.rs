//! `kill`: end jobs with everything they started.

use std::time::Duration;

use outlive::{ControlError, Job, Kill, Killed, Signal};

use super::{Call, Hints, Kind, Parameter, Tool};
use crate::arguments::shown;
use crate::jobs::{self, BY, failed};
use crate::notices::Claim;
use crate::reply::{Failure, MARK, Reply, push_own_line, quoted};

pub(crate) static TOOL: Tool = Tool {
    name: "kill",
    title: "End jobs",
    description: "End jobs with every process they started: TERM, then KILL after a grace. By id, name, group, or the port a job listens on. Another signal (INT, HUP, USR1 …) is only sent.",
    parameters: &[
        Parameter::new("job", Kind::Text, "Id or name"),
        Parameter::new("jobs", Kind::Texts, "Several"),
        Parameter::new("group", Kind::Text, ""),
        Parameter::new("signal", Kind::Text, "Default TERM"),
        Parameter::new("grace_ms", Kind::Number, "Time before KILL"),
        Parameter::new("port", Kind::Number, ""),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: true, open_world: false },
    waits: false,
    call,
};

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let grace = call.arguments.number("grace_ms", 0..=600_000)?.map(Duration::from_millis);
    let signal = signal(call)?;
    let (jobs, missing) = chosen(call)?;
    if jobs.is_empty() && missing.is_empty() {
        return Ok(Reply::new(format!("nothing to end; {}", jobs::live_ids(call.store, call.scope))));
    }
    // This answer reports their ends, not a concurrent one.
    let claims: Vec<Claim> = jobs.iter().map(|job| call.claims.claim(job.id().clone())).collect();
    let ended = match (signal, grace) {
        (Some(signal), None) if signal != Signal::TERM && signal != Signal::KILL => {
            let send = |job: &Job| call.store.signal(job, signal, BY);
            let sent: Vec<_> = jobs.iter().map(send).collect();
            drop(claims);
            return tell(call, jobs, sent, missing, Some(signal));
        }
        (signal, grace) => {
            let force = signal == Some(Signal::KILL);
            call.store.kill_all(&jobs, &Kill { signal, grace, force, by: BY.to_owned() })
        }
    };
    Ok(tell(call, jobs, ended, missing, None)?.after(move || drop(claims)))
}

fn signal(call: &Call<'_>) -> Result<Option<Signal>, Failure> {
    let Some(text) = call.arguments.text("signal")? else { return Ok(None) };
    let unknown = || {
        Failure::new(format!("there is no signal {}", quoted(&text)))
            .next("TERM, KILL, INT, HUP, QUIT, USR1, USR2 …")
    };
    Signal::parse(text.trim()).map(Some).ok_or_else(unknown)
}

/// Finds the jobs, and why some of them were not found; the others are ended all the same.
fn chosen(call: &mut Call<'_>) -> Result<(Vec<Job>, Vec<Failure>), Failure> {
    let mut references = call.arguments.texts("jobs")?;
    references.extend(call.arguments.texts("job")?);
    let group = call.arguments.text("group")?;
    let port = call.arguments.number("port", 1..=65_535)?.and_then(|port| u16::try_from(port).ok());
    if references.is_empty() && group.is_none() && port.is_none() {
        return Err(
            Failure::new("kill needs job, jobs, group or port").next(jobs::live_ids(call.store, call.scope))
        );
    }
    let find = |reference: &String| jobs::find_to_change(call, reference);
    let mut found: Vec<Result<Job, Failure>> = references.iter().map(find).collect();
    if let Some(port) = port {
        let job = call.store.find_by_port(port, call.scope.seen());
        found.push(job.map_err(|error| failed(call, "", error)));
    }
    let (mut chosen, mut missing) = (Vec::new(), Vec::new());
    for found in found {
        match found {
            Ok(job) => chosen.push(job),
            Err(failure) => missing.push(failure),
        }
    }
    if let Some(group) = group {
        let is_member = |job: &Job| job.spec().options.group.as_ref() == Some(&group);
        let members = jobs::list(call)?.into_iter().filter(is_member);
        chosen.extend(members.filter(|job| job.state(call.store).is_live()));
    }
    // A job may be given twice, as by name and by port.
    let mut ids = std::collections::BTreeSet::new();
    chosen.retain(|job| ids.insert(job.id().clone()));
    Ok((chosen, missing))
}

fn tell(
    call: &Call<'_>,
    jobs: Vec<Job>,
    ended: Vec<Result<Killed, ControlError>>,
    missing: Vec<Failure>,
    sent: Option<Signal>,
) -> Result<Reply, Failure> {
    let mut body = String::new();
    let asked = jobs.len() + missing.len();
    let mut failures = missing;
    for (job, ended) in jobs.iter().zip(ended) {
        match ended {
            Ok(killed) => describe(job, &killed, sent, &mut body),
            // A job that has ended already is no failure.
            Err(ControlError::Ended(_)) => describe(job, &Killed::was_over(), sent, &mut body),
            Err(error) => failures.push(failed(call, &format!("{} is left", job.id()), error)),
        }
    }
    if body.is_empty()
        && let [failure] = failures.as_slice()
    {
        return Err(failure.clone());
    }
    let header = match body.lines().count() {
        1 if failures.is_empty() => std::mem::take(&mut body).trim_start_matches(MARK).trim().to_owned(),
        count => format!("{count} of {asked} jobs:"),
    };
    let mut reply = Reply::new(header).body(body);
    for failure in failures {
        let failed = Reply::from(failure);
        reply.is_error = true;
        reply.footers.push(failed.header);
        reply.footers.extend(failed.footers);
    }
    // This answer reports the end of these.
    Ok(jobs::delivers_all(call, reply, jobs))
}

fn describe(job: &Job, killed: &Killed, sent: Option<Signal>, body: &mut String) {
    let processes = match killed.signalled {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let what = match sent {
        _ if killed.was_over => "had already ended".to_owned(),
        Some(signal) => format!("{} sent to {processes}", signal.name()),
        None if killed.survivors.is_empty() => format!("ended, {processes}"),
        None => {
            let left: Vec<String> = killed
                .survivors
                .iter()
                .take(5)
                .map(|left| format!("pid {} {}: {}", left.pid, shown(&left.command), left.why))
                .collect();
            format!("not wholly ended, {processes} signalled; left: {}", left.join("; "))
        }
    };
    let untraced = killed.untraced.as_ref().map(|untraced| format!("; {untraced}")).unwrap_or_default();
    push_own_line(body, &format!("{} {what}{untraced}", job.id()));
}
