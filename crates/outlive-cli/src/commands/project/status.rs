//! `outlive status`: how the jobs of a project are doing; outside a project, `list`.

use std::process::ExitCode;

use outlive::duration::format_duration;
use outlive_project::{JobRun, JobStatus};
use serde::Serialize;

use crate::args::{List, Status};
use crate::commands::project::down::other_file;
use crate::commands::project::{here, is_outside, load};
use crate::commands::{Context, list};
use crate::failure::Failure;
use crate::render::{colour, is_coloured, note, one_line, print, print_json, table, width};
use crate::served;

#[derive(Serialize)]
struct Answer<'a> {
    project: &'a str,
    session: String,
    jobs: &'a [JobStatus],
}

pub(crate) fn run(context: &Context, arguments: &Status) -> Result<ExitCode, Failure> {
    if is_outside(&arguments.project) {
        // A caller elsewhere has no directory here.
        if !served::is_called()
            && let Some(project) = outlive_project::left_up(&context.store, &here()?)?
            && project.file.exists()
        {
            return Err(other_file("status", &project));
        }
        return list::run(context, &List::default());
    }
    let project = load(context, &arguments.project)?;
    let jobs = outlive_project::status(&context.store, &project)?;
    if context.is_json {
        let session = project.session().to_string();
        return print_json(&Answer { project: &project.name, session, jobs: &jobs });
    }
    if jobs.is_empty() {
        note(&format!(
            "no jobs in {}; `outlive up --help` and `outlive help projects` tell more",
            project.file.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["NAME", "STATUS", "TIME", "JOB", "AT"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(jobs.iter().map(row)).collect();
    let is_coloured = is_coloured();
    let text = table(&rows, width(), |line, column, cell| match (line, column) {
        (1.., 1) => match &jobs[line - 1].job {
            Some(job) if jobs[line - 1].waits_for.is_none() => colour(job.status(), cell, is_coloured),
            _ => cell.into(),
        },
        _ => cell.into(),
    });
    print(&text);
    Ok(ExitCode::SUCCESS)
}

fn row(status: &JobStatus) -> Vec<String> {
    let none = || "-".to_owned();
    // The job of an earlier `up` says nothing of one that waits to be started.
    let is_begun = status.waits_for.is_none() && status.state != outlive_project::NOT_STARTED;
    let job = status.job.as_ref().filter(|_| is_begun);
    let time = job.and_then(JobRun::runtime_ms).map_or_else(none, format_duration);
    let id = job.map_or_else(none, |job| match &status.host {
        Some(host) => format!("{host}/{}", job.id()),
        None => job.id().to_owned(),
    });
    let url = job.filter(|job| !job.status().has_ended()).and_then(JobRun::ready_place);
    vec![status.name.clone(), one_line(&status.state), time, id, url.map_or_else(none, str::to_owned)]
}
