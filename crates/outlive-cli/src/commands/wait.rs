//! `outlive wait`: until jobs have ended.

use std::process::ExitCode;

use outlive::{Job, JobObject, Until};

use crate::args::Wait;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{ending, print, print_json};

pub(crate) fn run(context: &Context, arguments: &Wait) -> Result<ExitCode, Failure> {
    let jobs = arguments
        .jobs
        .iter()
        .map(|reference| context.store.find(reference, context.session.as_ref()))
        .collect::<Result<Vec<Job>, _>>()?;
    let until = if arguments.any { Until::Any } else { Until::All };
    let waited = context.store.wait(&jobs, until, arguments.timeout);
    let objects: Vec<JobObject> =
        jobs.iter().zip(&waited.states).map(|(job, state)| JobObject::new(job, state)).collect();
    let ended = || jobs.iter().zip(&objects).filter(|(_, object)| object.status.has_ended());
    if context.is_json {
        print_json(&objects)?;
    } else {
        ended().for_each(|(_, object)| print(&format!("{}\n", ending(object))));
    }
    // Only now that it is told: whoever dies before is told by the inbox.
    for (job, _) in ended() {
        job.mark_seen();
        job.mark_told(&context.reader);
    }
    if waited.is_reached {
        return Ok(ExitCode::SUCCESS);
    }
    let running: Vec<String> = objects
        .iter()
        .filter(|object| !object.status.has_ended())
        .map(|object| object.job.to_string())
        .collect();
    Err(Failure::timed_out(
        format!("wait: still running: {}", running.join(", ")),
        "they go on; wait again, or stop them with outlive kill",
    ))
}
