//! `outlive down`: end the jobs of a project.

use std::process::ExitCode;

use outlive::Code;
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
    job: String,
    is_ended: bool,
}

pub(crate) fn run(context: &Context, arguments: &Down) -> Result<ExitCode, Failure> {
    if is_outside(&arguments.project)
        && let Some(project) = outlive_project::left_up(&context.store, &here()?)?
    {
        let file = project.file.display();
        if project.file.exists() {
            return Err(other_file("down", &project));
        }
        note(&format!("outlive: {file} is gone; this ends the jobs that were started from it"));
        return end(context, &project);
    }
    if is_outside(&arguments.project) {
        let hint = "outlive kill JOB ends one job, outlive kill --all every one; `outlive list` shows them";
        let here = here()?;
        let message =
            format!("down: no project is here: there is no {FILE} in {} or above it", here.display());
        return Err(Failure::new(Code::NotFound, message).hint(hint));
    }
    let project = load(context, &arguments.project).map(Some).or_else(|failure| {
        // A file with a mistake keeps nothing from being ended that was started from it.
        if arguments.project.file.is_some() {
            return Err(failure);
        }
        let left = outlive_project::left_up(&context.store, &here()?)?;
        if left.is_some() {
            report(&failure, context.is_json);
            note("outlive: this ends all jobs that were started from it, in no particular order");
        }
        Ok::<_, Failure>(left)
    })?;
    match project {
        Some(project) => end(context, &project),
        None if context.is_json => print_json(&[(); 0]),
        None => {
            note("nothing is up");
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Tells that the jobs here are those of a file of another name.
pub(super) fn other_file(verb: &str, project: &Project) -> Failure {
    let file = project.file.display();
    let message = format!("{verb}: there is no {FILE} here, and jobs of {file} run");
    Failure::new(Code::NotFound, message).hint(format!("outlive {verb} -f {file}"))
}

/// Ends them and tells of each.
pub(super) fn end(context: &Context, project: &Project) -> Result<ExitCode, Failure> {
    let mut answers = Vec::new();
    for outlive_project::Down { name, id, job, left } in outlive_project::down(&context.store, project, &[])?
    {
        let shown = name.as_deref().unwrap_or_default();
        let is_ended = left.as_ref().is_ok_and(Vec::is_empty);
        if is_ended && !context.is_json {
            print(&one_line(&format!("{shown} ended, {id}")));
            print("\n");
        }
        match left {
            Ok(left) => left.iter().for_each(|left| note(&format!("outlive: {shown}: {left}"))),
            Err(failure) => drop(report(&failure, context.is_json)),
        }
        if let Some(job) = job {
            job.mark_delivered(&context.reader);
        }
        answers.push(Ended { name, job: id, is_ended });
    }
    if context.is_json {
        print_json(&answers)?;
    } else if answers.is_empty() {
        note("nothing is up");
    }
    let all_ended = answers.iter().all(|answer| answer.is_ended);
    Ok(if all_ended { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}
