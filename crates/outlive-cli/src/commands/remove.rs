//! `outlive remove`.

use std::process::ExitCode;

use crate::args::Jobs;
use crate::commands::{Context, each};
use crate::failure::Failure;

pub(crate) fn run(context: &Context, arguments: &Jobs) -> Result<ExitCode, Failure> {
    each(context, &arguments.jobs, "removed", |job| {
        // A reader that removes a job knows that it has ended.
        if !job.state(&context.store).is_live() {
            job.mark_delivered(&context.reader);
        }
        Ok(context.store.remove(job)?)
    })
}
