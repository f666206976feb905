//! `outlive down`: end the jobs of a project.

use std::process::ExitCode;

use outlive::{Code, JobId};
use outlive_project::{FILE, Project};
use serde::Serialize;

use crate::args::Down;
use crate::commands::Context;
use crate::commands::project::{here, is_outside, load};
use crate::failure::{FAILED, Failure, report};
use crate::render::{note, one_line, print, print_json};

#[derive(Serialize)]
struct Ended {
    name: Option<String>,
    job: JobId,
    is_ended: bool,
}

pub(crate) fn run(context: &Context, arguments: &Down) -> Result<ExitCode, Failure> {
    if is_outside(&arguments.project)
        && let Some(project) = outlive_project::left_up(&context.store, &here()?)?
    {
        let file = project.file.display();
        if project.file.exists() {
            let message = format!("down: there is no {FILE} here, and jobs of {file} run");
            return Err(Failure::new(Code::NotFound, message).hint(format!("outlive down -f {file}")));
        }
        note(&format!("outlive: {file} is gone; this ends the jobs that were started from it"));
        return end(context, &project);
    }
    end(context, &load(&arguments.project)?)
}

/// Ends them and tells of each.
pub(super) fn end(context: &Context, project: &Project) -> Result<ExitCode, Failure> {
    let mut answers = Vec::new();
    for outlive_project::Down { job, killed } in outlive_project::down(&context.store, project)? {
        let name = job.name().unwrap_or_default();
        let is_ended = match &killed {
            Ok(killed) => killed.survivors.is_empty(),
            Err(_) => false,
        };
        if is_ended && !context.is_json {
            print(&one_line(&format!("{name} ended, {}", job.id())));
            print("\n");
        }
        match killed {
            Ok(killed) => {
                for survivor in &killed.survivors {
                    note(&format!("outlive: {name}: pid {} is left: {}", survivor.pid, survivor.why));
                }
            }
            Err(error) => drop(report(&Failure::from(error).during("down").about(job.id()), context.is_json)),
        }
        job.mark_delivered(&context.reader);
        answers.push(Ended { name: job.name().map(str::to_owned), job: job.id().clone(), is_ended });
    }
    if context.is_json {
        print_json(&answers)?;
    } else if answers.is_empty() {
        note("nothing is up");
    }
    let all_ended = answers.iter().all(|answer| answer.is_ended);
    Ok(if all_ended { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
