//! `outlive kill`: end jobs with everything they started, or send a signal.
//!
//! Jobs are named, or meant by what they are; never a pid or a pattern.

use std::process::ExitCode;

use outlive::{ControlError, Job, Killed};
use serde::Serialize;

use crate::args::Kill;
use crate::commands::Context;
use crate::failure::{FAILED, Failure, report};
use crate::progress::meanwhile;
use crate::render::{counted, note, one_line, print, print_json};

/// The program that asks, as the outcome names it.
const BY: &str = "outlive kill";

#[derive(Serialize)]
struct Answer {
    job: outlive::JobId,
    status: outlive::Status,
    /// It had ended before, and nothing of it was left.
    already_ended: bool,
    signalled: u32,
    survivors: Vec<outlive::Survivor>,
    /// Of a job without keeper: what cannot be said for certain.
    untraced: Option<String>,
    /// The run after it, which was ended with it or in its place.
    next_run: Option<outlive::JobId>,
}

/// The results so far.
#[derive(Default)]
struct Tally {
    answers: Vec<Answer>,
    /// The first failure's exit status.
    failed: Option<ExitCode>,
}

impl Tally {
    fn fail(&mut self, context: &Context, failure: &Failure) {
        let code = report(failure, context.is_json);
        self.failed.get_or_insert(code);
    }
}

pub(crate) fn run(context: &Context, arguments: &Kill) -> Result<ExitCode, Failure> {
    let mut tally = Tally::default();
    let mut jobs = chosen(context, arguments, &mut tally)?;
    // With --all, the jobs inside others are among them already.
    let takes_nested = arguments.nested && !arguments.all;
    if takes_nested {
        jobs.extend(nested(context, &jobs, &tally)?);
        // Checked before anything is killed: a command that ends its own job would leave the rest.
        if let Some(own) = jobs.iter().find(|job| context.store.is_inside(job)) {
            return Err(Failure::from(ControlError::OwnAncestor(own.id().clone())).during("kill"));
        }
    }
    let mut next = 0;
    while next < jobs.len() {
        let all_ended = end(context, arguments, &jobs[next..], &mut tally);
        next = jobs.len();
        // What a job started while it was being ended is inside it, too.
        if takes_nested && all_ended {
            jobs.extend(nested(context, &jobs, &tally)?);
        }
    }
    if !arguments.nested && !arguments.all && arguments.signal.is_none() {
        for left in nested(context, &jobs, &tally)? {
            let id = left.id();
            note(&format!("outlive: {id} was started from inside and goes on; --nested ends such jobs, too"));
        }
    }
    let has_survivors = tally.answers.iter().any(|answer| !answer.survivors.is_empty());
    // Where no job was found, the failures are the whole answer.
    if context.is_json && !(jobs.is_empty() && tally.failed.is_some()) {
        print_json(&tally.answers)?;
    } else if arguments.jobs.is_empty() && tally.answers.is_empty() && tally.failed.is_none() {
        note("no live jobs");
    }
    // Marked only after the answer was printed.
    for job in &jobs {
        let is_ended = |answer: &&Answer| answer.job == *job.id() && answer.status.has_ended();
        if tally.answers.iter().any(|answer| is_ended(&answer)) {
            job.mark_delivered(&context.reader);
        }
    }
    Ok(if has_survivors { ExitCode::from(FAILED) } else { tally.failed.unwrap_or(ExitCode::SUCCESS) })
}

/// Finds the jobs that are meant. One that does not exist is told, and does not keep the others from their end.
fn chosen(context: &Context, arguments: &Kill, tally: &mut Tally) -> Result<Vec<Job>, Failure> {
    let store = &context.store;
    if let Some(port) = arguments.port {
        return Ok(vec![store.find_by_port(port, context.session.as_ref())?]);
    }
    if !arguments.all && arguments.group.is_none() {
        let jobs;
        (jobs, tally.failed) = context.find_each(&arguments.jobs);
        return Ok(jobs);
    }
    let listed = match &arguments.group {
        Some(group) => context.of_group("kill", group)?,
        None => context.list("kill")?.jobs,
    };
    let mut jobs = Vec::new();
    for job in listed {
        let state = job.state(store);
        if !state.is_live() {
            continue;
        }
        if state.is_elsewhere() {
            note(&format!("outlive: {} is left: it belongs to another host or pid namespace", job.id()));
        } else if store.is_inside(&job) {
            note(&format!("outlive: {} is left: this command runs inside it", job.id()));
        } else {
            jobs.push(job);
        }
    }
    Ok(jobs)
}

/// Lists the live jobs that were started from inside these, and are neither among them nor done.
fn nested(context: &Context, jobs: &[Job], tally: &Tally) -> Result<Vec<Job>, Failure> {
    let mut found: Vec<Job> = Vec::new();
    for job in jobs {
        let nested = context.store.nested(job, context.session.as_ref());
        for nested in nested.map_err(|error| Failure::other("kill", &error))? {
            let is_known = jobs.iter().chain(&found).any(|known| known.id() == nested.id())
                || tally.answers.iter().any(|answer| answer.job == *nested.id());
            if !is_known && nested.state(&context.store).is_live() {
                found.push(nested);
            }
        }
    }
    Ok(found)
}

/// Names the first job that has not ended, and how many more there are.
fn still_live(context: &Context, jobs: &[Job]) -> String {
    let mut live = jobs.iter().filter(|job| job.state(&context.store).is_live());
    match (live.next(), live.count()) {
        (None, _) => "all".to_owned(),
        (Some(job), 0) => job.id().to_string(),
        (Some(job), more) => format!("{} and {more} more", job.id()),
    }
}

/// Ends these, all at the same time. What fails for one is told and does not keep the others from theirs. Returns whether
/// nothing failed.
fn end(context: &Context, arguments: &Kill, jobs: &[Job], tally: &mut Tally) -> bool {
    let ended = match (arguments.signal, arguments.grace) {
        (Some(signal), None) => jobs.iter().map(|job| context.store.signal(job, signal, BY)).collect(),
        (signal, grace) => {
            let request = outlive::Kill { signal, grace, force: arguments.force, by: BY.to_owned() };
            let is_at = || format!("waiting for the end of {}", still_live(context, jobs));
            meanwhile(context.is_json, is_at, || context.store.kill_all(jobs, &request))
        }
    };
    let mut all_ended = true;
    for (job, ended) in jobs.iter().zip(ended) {
        let killed = match ended {
            Ok(killed) => killed,
            // Asking twice is no failure: what was wanted is so.
            Err(ControlError::Ended(_)) => Killed::was_over(),
            Err(error) => {
                tally.fail(context, &Failure::from(error).during("kill").about(job.id()));
                all_ended = false;
                continue;
            }
        };
        tell(context, arguments, job, killed, tally);
    }
    all_ended
}

fn tell(context: &Context, arguments: &Kill, job: &Job, killed: Killed, tally: &mut Tally) {
    let status = job.state(&context.store).status;
    if !context.is_json {
        let words = words(&killed, arguments);
        print(&match &killed.next_run {
            None => format!("{} {words}\n", job.id()),
            Some(next) if status == outlive::Status::Killed => {
                format!("{} and its next run {next} {words}\n", job.id())
            }
            Some(next) => format!("{} had already ended; its next run {next} {words}\n", job.id()),
        });
    }
    for survivor in &killed.survivors {
        let command = one_line(&survivor.command);
        note(&format!("outlive: pid {} is left ({command}): {}", survivor.pid, survivor.why));
    }
    if let Some(untraced) = &killed.untraced {
        note(&format!("outlive: {}: {untraced}", job.id()));
    }
    tally.answers.push(Answer {
        job: job.id().clone(),
        status,
        already_ended: killed.was_over,
        signalled: killed.signalled,
        survivors: killed.survivors,
        untraced: killed.untraced,
        next_run: killed.next_run,
    });
}

fn words(killed: &Killed, arguments: &Kill) -> String {
    let processes = counted(killed.signalled.into(), "process", "processes");
    match (arguments.signal, arguments.grace) {
        _ if killed.was_over => "had already ended".to_owned(),
        (Some(signal), None) => format!("{} sent to {processes}", signal.name()),
        _ if killed.survivors.is_empty() => format!("ended, {processes}"),
        _ => format!("not wholly ended, {processes} signalled"),
    }
}
