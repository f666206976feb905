//! `read_screen`: read a job's terminal screen.

use std::time::{Duration, Instant};

use outlive::Output;

use super::read_output::{await_output, unreadable};
use super::{Call, Hints, Kind, Parameter, Tool};
use crate::jobs::{self, summary};
use crate::reply::{Failure, Reply, chain, push_line, quoted};

pub(crate) static TOOL: Tool = Tool {
    name: "read_screen",
    title: "See a job's screen",
    description: "See the screen of a job started with pty=true (REPL, prompt, TUI).",
    parameters: &[
        Parameter::required("job", Kind::Text, "Id or name"),
        Parameter::new("changes", Kind::Flag, "Only rows changed since you last looked"),
        Parameter::new("wait_ms", Kind::Number, "Wait so long for it to be drawn; default 0"),
    ],
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    waits: true,
    call,
};

/// It counts as drawn once no more output has come for this long.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let reference = call.arguments.required("job", "read_screen job=web")?;
    let job = jobs::find(call, &reference)?;
    let longest = u64::try_from(call.longest().as_millis()).unwrap_or(u64::MAX);
    let wait = call.arguments.number("wait_ms", 0..=longest)?.unwrap_or(0);
    if wait > 0 {
        let end = Output::open(&job).map_err(|error| unreadable(call, &job, &error))?.end();
        await_output(call, &job, end, Instant::now() + Duration::from_millis(wait), QUIET)?;
    }
    let is_changes = call.arguments.flag("changes")?;
    show(call, &job, "", is_changes)
}

/// Answers with the screen, or only with the rows that changed since this reader last looked; `done` is what was done before.
pub(crate) fn show(
    call: &Call<'_>,
    job: &outlive::Job,
    done: &str,
    is_changes: bool,
) -> Result<Reply, Failure> {
    let id = job.id();
    if !job.spec().options.pty {
        return Err(Failure::new(format!("{id} has no screen: it runs on pipes, not in a terminal")).next(
            format!(
                "read_output job={id} lines=40 shows what it printed; run pty=true starts one in a terminal"
            ),
        ));
    }
    let mut state = job.state(call.store);
    let question = jobs::question(call, job, &mut state);
    let since = job.screen_cursor(&call.scope.reader).filter(|_| is_changes);
    let screen = call.store.screen_apart(job, since).map_err(|error| {
        Failure::of("its screen cannot be shown", &error)
            .next(format!("read_output job={id} lines=40 shows what it printed"))
    })?;
    let cursor = match screen.cursor.visible {
        true => format!("cursor row {}, column {}", screen.cursor.row, screen.cursor.column),
        false => "cursor hidden".to_owned(),
    };
    let title = screen.title.as_ref().map(|title| format!("; title {}", quoted(title))).unwrap_or_default();
    let mut header = format!("{}; {done}screen {}, {cursor}{title}", summary(job, &state), screen.size);
    let mut body = String::new();
    let end = screen.rows.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1);
    match &screen.changed_rows {
        // Not more than half: without their numbers all rows are as short.
        Some(changed) if changed.len() * 2 <= end.max(1) => {
            let rows = if changed.len() == 1 { "row" } else { "rows" };
            header += &format!("; {} {rows} changed", changed.len());
            for &number in changed {
                push_line(&mut body, &format!("{number}: {}", screen.rows[number - 1]));
            }
        }
        _ => screen.rows[..end].iter().for_each(|row| push_line(&mut body, row)),
    }
    if let Err(error) = job.set_screen_cursor(&call.scope.reader, screen.offset) {
        // The next answer shows more than it must.
        crate::log(&format!("the screen of {id} counts as not seen: {}", chain(&error)));
    }
    let mut reply = Reply::new(header).body(body);
    if let Some(question) = question {
        reply = reply.footer(question);
    } else if end == 0 && screen.changed_rows.is_none() {
        reply = reply.footer(format!(
            "the screen is blank; read_screen job={id} wait_ms=2000 waits for it to be drawn"
        ));
    }
    Ok(reply)
}
