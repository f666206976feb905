//! `send_input`: write to a job's standard input.

use std::time::{Duration, Instant};

use outlive::{Job, Output, keys};

use super::read_output::{answer, await_output, unreadable};
use super::{Call, Hints, Kind, Parameter, Tool, read_screen};
use crate::arguments::scalar;
use crate::jobs::{self, LONGEST_WAIT_MS, UNREAD, failed, summary};
use crate::reading::{Selection, show};
use crate::reply::{Failure, Reply};

pub(crate) static TOOL: Tool = Tool {
    name: "send_input",
    title: "Write to a job's input",
    description: "Write to a job that was started with stdin=open or pty=true (answer a prompt, drive a REPL or TUI), then return the new output, or the screen after keys, once it settles. A newline is added unless submit is false. eof closes its input. Passwords are for the user to type, not for you.",
    parameters: &[
        Parameter::required("job", Kind::Text, "Id or name"),
        Parameter::new("text", Kind::Text, "What to write"),
        Parameter::new("keys", Kind::Text, "Keys to press in its terminal: C-c Up Enter F5 \"text\""),
        Parameter::new("submit", Kind::Flag, "Add a newline; default true"),
        Parameter::new("eof", Kind::Flag, "Then close its input"),
        Parameter::new("wait_ms", Kind::Number, "Wait so long for output; default 2000, at most 45000"),
    ],
    hints: Hints { read_only: false, destructive: true, idempotent: false, open_world: true },
    waits: true,
    call,
};

/// The answer is shown once no more output has come for this long.
const QUIET: Duration = Duration::from_millis(150);

fn call(call: &mut Call<'_>) -> Result<Reply, Failure> {
    let reference = call.arguments.required("job", "send_input job=repl text=\"print(1)\"")?;
    let job = jobs::find_to_change(call, &reference)?;
    let wait = call.arguments.number("wait_ms", 0..=LONGEST_WAIT_MS)?.unwrap_or(2000);
    let eof = call.arguments.flag("eof")?;
    let submit = call.arguments.choice_of_two("submit")?;
    let wrong = || Failure::new("text must be a string").next("call send_input again with text as a string");
    let text = call.arguments.value("text").map(|text| scalar(text).ok_or_else(wrong)).transpose()?;
    if let Some(keys) = call.arguments.value("keys").and_then(scalar).filter(|keys| !keys.is_empty()) {
        return press(call, &job, &keys, wait);
    }
    if text.is_none() && !eof && submit != Some(true) {
        return Err(Failure::new("there is nothing to send")
            .next("give text, submit=true for an empty line, or eof=true"));
    }
    let mut bytes = text.clone().unwrap_or_default().into_bytes();
    let has_line = text.is_some() || submit == Some(true);
    if has_line && submit.unwrap_or(true) && !bytes.ends_with(b"\n") {
        bytes.push(job.spec().options.line_end());
    }
    let before = Output::open(&job).map_err(|error| unreadable(call, &job, &error))?.end();
    if !bytes.is_empty() {
        call.store.write_stdin(&job, &bytes, UNREAD).map_err(|error| failed(call, "not written", error))?;
    }
    if eof {
        call.store.close_stdin(&job).map_err(|error| failed(call, "not closed", error))?;
    }
    await_output(call, &job, before, Instant::now() + Duration::from_millis(wait), QUIET)?;
    let mut state = job.state(call.store);
    let question = jobs::question(call, &job, &mut state);
    let cursor = job.cursor(&call.scope.reader, None).unwrap_or(0);
    let selection = Selection::after(cursor, call.room(), state.is_live());
    let shown = show(&job, &selection).map_err(|error| unreadable(call, &job, &error))?;
    let sent = format!("{} bytes sent{}", bytes.len(), if eof { ", input closed" } else { "" });
    let lines = if shown.range.is_some() { shown.lines() } else { "no new output yet".to_owned() };
    let end = shown.end;
    let header = format!("{}; {sent}; {lines}", summary(&job, &state));
    let mut reply = answer(&job, header, shown, "");
    if let Some(question) = question {
        reply = reply.footer(question);
    } else if reply.body.is_empty() && !state.status.has_ended() {
        reply = reply.footer(format!("read_output job={} wait_ms=30000 waits for more", job.id()));
    }
    Ok(jobs::delivers_output(call, reply, job, &state, Some((None, end))))
}

/// Presses keys, and shows the screen once it is drawn.
fn press(call: &mut Call<'_>, job: &Job, keys: &str, wait: u64) -> Result<Reply, Failure> {
    let id = job.id();
    if !job.spec().options.pty {
        return Err(Failure::new(format!("keys are for a terminal, and {id} runs on pipes"))
            .next("give text (a newline is added) or eof=true; run pty=true starts one in a terminal"));
    }
    let screen = call
        .store
        .screen_apart(job, None)
        .map_err(|error| Failure::of("its screen cannot be read", &error))?;
    let typed = keys::parse(keys, &screen.key_modes()).map_err(|error| Failure::new(error.to_string()))?;
    let before = Output::open(job).map_err(|error| unreadable(call, job, &error))?.end();
    call.store.write_stdin(job, &typed, UNREAD).map_err(|error| failed(call, "not written", error))?;
    await_output(call, job, before, Instant::now() + Duration::from_millis(wait), QUIET)?;
    read_screen::show(call, job, "keys pressed; ", false)
}
