//! `outlive watch`: be told of each line that a job prints and that matches.

use std::process::ExitCode;

use serde_json::json;

use crate::args::Watch;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{answer, one_line};

pub(crate) fn run(context: &Context, arguments: &Watch) -> Result<ExitCode, Failure> {
    let job = context.find_to_change(&arguments.job)?;
    let (reader, id) = (&context.reader, job.id());
    if arguments.off {
        context.store.unwatch(&job, reader).map_err(|error| Failure::other("watch", &error))?;
    } else if let Some(pattern) = &arguments.pattern {
        context.store.watch(&job, reader, pattern).map_err(|error| Failure::from(error).about(id))?;
    }
    let pattern = job.watched_for(reader);
    answer(context.is_json, &json!({ "job": id, "reader": reader, "pattern": pattern }), || match &pattern {
        Some(pattern) => format!("{id} is watched for {}\n", one_line(pattern)),
        None => format!("{id} is not watched\n"),
    })
}
