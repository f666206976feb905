//! `outlive queue`: list queues, pause and resume them, say how many of their jobs run at once.

use std::process::ExitCode;

use outlive::{JobId, QueueChange, QueueError, QueueName, QueueObject};

use crate::args::Queue;
use crate::commands::Context;
use crate::failure::{Failure, report};
use crate::render::{counted, note, print, print_json, table, width};

pub(crate) fn run(context: &Context, arguments: Queue) -> Result<ExitCode, Failure> {
    match arguments {
        Queue::List => list(context),
        Queue::Pause { queues } => change(context, &queues, QueueChange::Pause),
        Queue::Resume { queues } => change(context, &queues, QueueChange::Resume),
        Queue::Parallel { queue, count } => change(context, &[queue], QueueChange::Parallel(count)),
    }
}

fn list(context: &Context) -> Result<ExitCode, Failure> {
    let queues = context.store.list_queues()?;
    if context.is_json {
        return print_json(&queues);
    }
    if queues.is_empty() {
        note("no queues; one begins with its first job: outlive run --queue NAME 'LINE'");
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["QUEUE", "STATE", "PARALLEL", "RUNNING", "QUEUED", "NEXT"].map(str::to_owned).to_vec();
    let row = |queue: &QueueObject| {
        vec![
            queue.queue.to_string(),
            if queue.paused { "paused" } else { "open" }.to_owned(),
            queue.parallel.to_string(),
            queue.running.len().to_string(),
            queue.queued.len().to_string(),
            queue.queued.first().map_or_else(|| "-".to_owned(), JobId::to_string),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(queues.iter().map(row)).collect();
    print(&table(&rows, width(), |_, _, cell| cell.into()));
    Ok(ExitCode::SUCCESS)
}

/// Changes each queue. What fails for one is reported, and the others are changed.
fn change(context: &Context, queues: &[QueueName], change: QueueChange) -> Result<ExitCode, Failure> {
    let (mut changed, mut failed) = (Vec::new(), None);
    for queue in queues {
        match context.store.change_queue(queue, change) {
            Ok(queue) => changed.push(queue),
            Err(error @ QueueError::Parallel(_)) => return Err(error.into()),
            Err(error) => {
                let status = report(&error.into(), context.is_json);
                failed.get_or_insert(status);
            }
        }
    }
    if context.is_json && !changed.is_empty() {
        print_json(&changed)?;
    } else {
        changed.iter().for_each(|queue| print(&format!("{}\n", sentence(queue))));
    }
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

fn sentence(queue: &QueueObject) -> String {
    let waits = counted(queue.queued.len() as u64, "job waits", "jobs wait");
    let paused = if queue.paused { ", paused" } else { "" };
    let state = format!("{} at once{paused}", queue.parallel);
    format!("{}: {state}, {} running, {waits}", queue.queue, queue.running.len())
}
