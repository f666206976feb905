//! `send_input`: write to a job's standard input.

use std::time::{Duration, Instant};

use outlive::keys::{self, KeyModes};
use outlive::{Job, Output};

use super::read_output::{answer, await_output, unreadable};
use super::{Call, Hints, Kind, Parameter, Tool, read_screen};
use crate::arguments::scalar;
use crate::jobs::{self, UNREAD, failed, summary};
use crate::reading::{Selection, show};
use crate::reply::{Failure, Reply};

pub(crate) static TOOL: Tool = Tool {
    name: "send_input",
    title: "Write to a job's input",
    description: "Write to a job started with stdin=open or pty=true (answer a prompt, drive a REPL or TUI), then return its new output, or the screen after keys. A newline is added unless submit is false. Passwords are for the user to type.",
    parameters: &[
        Parameter::required("job", Kind::Text, "Id or name"),
        Parameter::new("text", Kind::Text, "What to write"),
        Parameter::new("keys", Kind::Text, "Keys of its terminal: C-c Up Enter F5 \"text\""),
        Parameter::new("paste", Kind::Flag, "Paste text into its terminal"),
        Parameter::new("submit", Kind::Flag, ""),
        Parameter::new("eof", Kind::Flag, "Then close its input"),
        Parameter::new("wait_ms", Kind::Number, "Wait so long for output; default 2000"),
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
    let longest_ms = call.longest_ms;
    let wait = call.arguments.number("wait_ms", 0..=longest_ms)?.unwrap_or(2000);
    let mut eof = call.arguments.flag("eof")?;
    let submit = call.arguments.choice_of_two("submit")?;
    let wrong = || Failure::new("text must be a string").next("call send_input again with text as a string");
    let text = call.arguments.value("text").map(|text| scalar(text).ok_or_else(wrong)).transpose()?;
    if let Some(keys) = call.arguments.value("keys").and_then(scalar).filter(|keys| !keys.is_empty()) {
        let parse =
            |modes: &KeyModes| keys::parse(&keys, modes).map_err(|error| Failure::new(error.to_string()));
        return press(call, &job, parse, "keys pressed; ", wait);
    }
    if call.arguments.flag("paste")? {
        let text = text.ok_or_else(|| Failure::new("there is nothing to paste").next("give text"))?;
        let paste = |modes: &KeyModes| {
            let mut typed = keys::paste(&text, modes);
            typed.extend((submit == Some(true)).then(|| job.spec().options.line_end()));
            Ok(typed)
        };
        return press(call, &job, paste, "pasted; ", wait);
    }
    let key = text.as_deref().and_then(control_key);
    match key {
        // A pipe has no keys: what they do in a terminal is asked for by name.
        Some(CTRL_D) if !job.spec().options.pty => eof = true,
        Some(CTRL_C) if !job.spec().options.pty => {
            return Err(Failure::new(format!("{} runs on pipes, where Ctrl-C is only a byte", job.id()))
                .next(format!("kill job={} signal=INT", job.id())));
        }
        _ => {}
    }
    if text.is_none() && !eof && submit != Some(true) {
        return Err(Failure::new("there is nothing to send")
            .next("give text, submit=true for an empty line, or eof=true"));
    }
    let mut bytes = match key {
        None => text.clone().unwrap_or_default().into_bytes(),
        Some(_) if !job.spec().options.pty => Vec::new(),
        Some(key) => vec![key],
    };
    let has_line = key.is_none() && (text.is_some() || submit == Some(true));
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
    let selection = Selection::after(cursor, call.room()?, state.is_live());
    let shown = show(&job, &selection).map_err(|error| unreadable(call, &job, &error))?;
    let unit = if bytes.len() == 1 { "byte" } else { "bytes" };
    let sent = format!("{} {unit} sent{}", bytes.len(), if eof { ", input closed" } else { "" });
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

const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;

/// Returns the key that a text stands for, also as models spell it.
fn control_key(text: &str) -> Option<u8> {
    match text.trim_end_matches(['\n', '\r']) {
        "\u{3}" | "^C" | "\\x03" | "\\u0003" => Some(CTRL_C),
        "\u{4}" | "^D" | "\\x04" | "\\u0004" => Some(CTRL_D),
        _ => None,
    }
}

/// Types what fits the modes of the job's terminal, and shows the screen once it is drawn.
fn press(
    call: &mut Call<'_>,
    job: &Job,
    typed: impl FnOnce(&KeyModes) -> Result<Vec<u8>, Failure>,
    done: &str,
    wait: u64,
) -> Result<Reply, Failure> {
    let id = job.id();
    if !job.spec().options.pty {
        return Err(Failure::new(format!("keys and pastes are for a terminal, and {id} runs on pipes"))
            .next("give text (a newline is added) or eof=true; run pty=true starts one in a terminal"));
    }
    let screen = call
        .store
        .screen_apart(job, None)
        .map_err(|error| Failure::of("its screen cannot be read", &error))?;
    let typed = typed(&screen.key_modes())?;
    let before = Output::open(job).map_err(|error| unreadable(call, job, &error))?.end();
    call.store.write_stdin(job, &typed, UNREAD).map_err(|error| failed(call, "not written", error))?;
    await_output(call, job, before, Instant::now() + Duration::from_millis(wait), QUIET)?;
    read_screen::show(call, job, done, false)
}
