//! `outlive upgrade`: let running jobs go on with the version that is installed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive::{ControlError, InstalledKeeper, Job, JobId, KeeperVersion};
use serde::Serialize;

use crate::args::{LiveJobs, Upgrade};
use crate::commands::Context;
use crate::failure::{Failure, report};
use crate::render::{print, print_json};

/// How many jobs are upgraded at the same time: each executes two programs.
const AT_ONCE: usize = 4;

#[derive(Serialize)]
struct Report<'a> {
    program: String,
    version: &'a str,
    jobs: Vec<Answer>,
}

#[derive(Serialize)]
struct Answer {
    job: JobId,
    result: Outcome,
    /// Whether its guard was upgraded, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    with_guard: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Upgraded,
    /// It runs the installed version already.
    Current,
    TooOld,
    Failed,
    /// With `--dry-run`.
    WouldUpgrade,
}

pub(crate) fn run(context: &Context, arguments: &Upgrade) -> Result<ExitCode, Failure> {
    let chosen = LiveJobs {
        jobs: arguments.jobs.clone(),
        group: None,
        all: arguments.all || arguments.jobs.is_empty(),
    };
    let (jobs, mut failed) = context.find_live("upgrade", &chosen, |_| true)?;
    // First: a program that does not work is one failure, and not one for each job.
    let installed = context.store.installed_keeper()?;
    let mut answers = Vec::new();
    for result in each(context, arguments, &jobs, &installed) {
        match result {
            Ok(answer) => answers.push(answer),
            Err((job, error)) => {
                let message = Some(error.to_string());
                let status = report(&Failure::from(error).during("upgrade").about(&job), context.is_json);
                failed.get_or_insert(status);
                answers.push(Answer { job, result: Outcome::Failed, with_guard: None, message });
            }
        }
    }
    if context.is_json {
        let program = installed.path().display().to_string();
        print_json(&Report { program, version: installed.version(), jobs: answers })?;
    } else {
        answers.iter().for_each(|answer| print(&line(answer, installed.version())));
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// Upgrades jobs, some at a time; results are in the order of `jobs`.
fn each(
    context: &Context,
    arguments: &Upgrade,
    jobs: &[Job],
    installed: &InstalledKeeper,
) -> Vec<Result<Answer, (JobId, ControlError)>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { return done };
            done.push((
                at,
                one(context, arguments, job, installed).map_err(|error| (job.id().clone(), error)),
            ));
        }
    };
    let mut results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE.min(jobs.len())).map(|_| scope.spawn(work)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        results.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn one(
    context: &Context,
    arguments: &Upgrade,
    job: &Job,
    installed: &InstalledKeeper,
) -> Result<Answer, ControlError> {
    let answer = |result, with_guard| Answer { job: job.id().clone(), result, with_guard, message: None };
    Ok(match context.store.keeper_version(job, installed)? {
        KeeperVersion::TooOld => answer(Outcome::TooOld, None),
        KeeperVersion::Installed if !arguments.force => answer(Outcome::Current, None),
        _ if arguments.dry_run => answer(Outcome::WouldUpgrade, None),
        _ => match context.store.upgrade(job, installed) {
            Ok(upgraded) => answer(Outcome::Upgraded, Some(upgraded.with_guard)),
            Err(ControlError::TooOld(_)) => answer(Outcome::TooOld, None),
            Err(error) => return Err(error),
        },
    })
}

fn line(answer: &Answer, version: &str) -> String {
    let said = match (answer.result, answer.with_guard) {
        (Outcome::Upgraded, Some(false)) => {
            format!("upgraded to {version}; its guard is of the version before: try again")
        }
        (Outcome::Upgraded, _) => format!("upgraded to {version}"),
        (Outcome::Current, _) => "runs the installed version already".to_owned(),
        (Outcome::TooOld, _) => {
            "left as it is: its keeper is of an earlier version that cannot be upgraded".to_owned()
        }
        (Outcome::WouldUpgrade, _) => format!("would be upgraded to {version}"),
        // It was reported.
        (Outcome::Failed, _) => return String::new(),
    };
    format!("{} {said}\n", answer.job)
}
