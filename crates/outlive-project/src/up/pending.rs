//! What holds a job up that is there: its place in a queue, a question, a pause; and the end of what it printed.

use outlive::{Job, JobObject, Store};

/// How many lines of the end of a job's output explain it.
const LAST_LINES: usize = 5;

/// So much of the output has these lines, unless they are very long.
const LAST_BYTES: usize = 4000;

/// Returns the last lines as a reader of a terminal sees them.
pub(super) fn last_lines(job: &Job) -> Vec<String> {
    let screen = if job.spec().options.pty { outlive::JobScreen::of(job).ok().flatten() } else { None };
    let text = match screen {
        Some(screen) => screen.screen().text(),
        None => outlive::tail_text(job, LAST_BYTES).unwrap_or_default(),
    };
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(LAST_LINES);
    lines[skipped..].iter().map(|line| outlive::one_line(line.trim_end())).collect()
}

/// Says which jobs come before one that waits in a queue; nothing of any other.
pub(super) fn place_in_queue(store: &Store, job: &Job) -> String {
    let Some(name) = &job.spec().options.queue else { return String::new() };
    let Some(queue) =
        store.list_queues().ok().and_then(|queues| queues.into_iter().find(|queue| queue.queue == *name))
    else {
        return String::new();
    };
    let Some(place) = queue.queued.iter().position(|id| id == job.id()) else { return String::new() };
    let join = |ids: &[outlive::JobId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut parts = vec![format!("number {} of {} that wait", place + 1, queue.queued.len())];
    if queue.paused {
        parts.push(format!("the queue is paused: `outlive queue resume {name}`"));
    }
    if !queue.running.is_empty() {
        parts.push(format!("running: {} of at most {}", join(&queue.running), queue.parallel));
    }
    if place > 0 {
        parts.push(format!("before it: {}", join(&queue.queued[..place])));
    }
    format!(", {}", parts.join("; "))
}

/// Says of a job that runs what keeps it from going on: it is paused, or waits for an answer.
pub(super) fn held_up(object: &JobObject) -> String {
    let paused = object.paused.then(|| format!("is paused: `outlive resume {}` lets it go on", object.job));
    let asks = object.awaits.as_ref().filter(|_| !object.paused).map(|awaits| {
        let hint = awaits.hint(&object.job).map(|hint| format!("; {hint}")).unwrap_or_default();
        format!("{}{hint}", awaits.sentence())
    });
    paused.or(asks).map(|why| format!(" and {why}")).unwrap_or_default()
}
