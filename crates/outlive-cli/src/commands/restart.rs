//! `outlive restart`: end jobs and start them again.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use outlive::{Job, JobObject, Restarted};

use crate::args::Restart;
use crate::commands::Context;
use crate::failure::{Failure, report};
use crate::render::{note, print, print_json};

pub(crate) fn run(context: &Context, arguments: &Restart) -> Result<ExitCode, Failure> {
    let (jobs, mut failed) = context.find_each(&arguments.jobs);
    let mut objects = Vec::new();
    for job in &jobs {
        match restart(context, job) {
            Ok(next) => objects.push(JobObject::new(&next, &next.state(&context.store))),
            Err(failure) => {
                let status = report(&failure.about(job.id()), context.is_json);
                failed.get_or_insert(status);
            }
        }
    }
    if context.is_json && !objects.is_empty() {
        print_json(&objects)?;
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

fn restart(context: &Context, job: &Job) -> Result<Job, Failure> {
    let restarted = context.store.restart(job, Some(context.reader.clone()), "outlive restart")?;
    // The caller knows of the end of the run before.
    job.mark_delivered(&context.reader);
    let (next, said) = match restarted {
        Restarted::Started(started) => {
            started.warning.iter().for_each(|warning| note(&format!("outlive: warning: {warning}")));
            (started.job, "")
        }
        Restarted::Already(next) => (next, " (another program restarted it at the same time)"),
    };
    if !context.is_json {
        print(&format!("{}{said}\n", next.id()));
        let pid = JobObject::new(&next, &next.state(&context.store)).pid;
        if let Some(pid) = pid.filter(|_| io::stdout().is_terminal()) {
            note(&format!(
                "running as pid {pid}, with this shell's variables; outlive logs -f {}",
                next.id()
            ));
        }
    }
    Ok(next)
}
