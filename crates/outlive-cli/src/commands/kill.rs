//! `outlive kill`: end jobs with everything they started, or send a signal.

use std::process::ExitCode;

use outlive::{ControlError, Job, Killed};
use serde::Serialize;

use crate::args::Kill;
use crate::commands::{Context, each};
use crate::failure::{FAILED, Failure};
use crate::render::{note, print, print_json};

#[derive(Serialize)]
struct Answer {
    job: outlive::JobId,
    status: outlive::Status,
    /// It had ended before, and nothing of it was left.
    already_ended: bool,
    signalled: u32,
    survivors: Vec<SurvivorObject>,
}

#[derive(Serialize)]
struct SurvivorObject {
    pid: i32,
    command: String,
    why: String,
}

pub(crate) fn run(context: &Context, arguments: &Kill) -> Result<ExitCode, Failure> {
    let mut answers = Vec::new();
    let code = each(context, &arguments.jobs, |job| {
        let killed = kill(context, job, arguments)?;
        if !context.is_json {
            print(&format!("{} {}\n", job.id(), words(&killed, arguments)));
        }
        for survivor in &killed.survivors {
            note(&format!("outlive: {} is left: {}", survivor.pid, survivor.why));
        }
        answers.push(Answer {
            job: job.id().clone(),
            status: job.state(&context.store).status,
            already_ended: killed.was_over,
            signalled: killed.signalled,
            survivors: killed
                .survivors
                .into_iter()
                .map(|survivor| SurvivorObject {
                    pid: survivor.pid,
                    command: survivor.command,
                    why: survivor.why,
                })
                .collect(),
        });
        Ok(())
    })?;
    let has_survivors = answers.iter().any(|answer| !answer.survivors.is_empty());
    if context.is_json {
        print_json(&answers)?;
    }
    Ok(if has_survivors { ExitCode::from(FAILED) } else { code })
}

fn kill(context: &Context, job: &Job, arguments: &Kill) -> Result<Killed, Failure> {
    let by = "outlive kill";
    let killed = match (arguments.signal, arguments.grace) {
        (Some(signal), None) => match context.store.signal(job, signal, by) {
            // Asking twice is no failure: what was wanted is so.
            Err(ControlError::Ended(_)) => Ok(Killed { was_over: true, signalled: 0, survivors: Vec::new() }),
            other => other,
        },
        (signal, grace) => {
            let request = outlive::Kill { signal, grace, force: arguments.force, by: by.to_owned() };
            context.store.kill(job, &request)
        }
    };
    killed.map_err(|error| Failure::control("kill", &error))
}

fn words(killed: &Killed, arguments: &Kill) -> String {
    let processes = match killed.signalled {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    match (arguments.signal, arguments.grace) {
        _ if killed.was_over => "had already ended".to_owned(),
        (Some(signal), None) => format!("{} sent to {processes}", signal.name()),
        _ if killed.survivors.is_empty() => format!("ended, {processes}"),
        _ => format!("not wholly ended, {processes} signalled"),
    }
}
