//! `outlive inbox`: the endings that a reader has not received yet.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use outlive::{Notice, Pending, SessionName};
use serde::Serialize;

use crate::args::{Inbox, NoticeForm};
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{counted, for_stdout, note, print, print_json};

/// How long another program of the same reader is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Document<'a> {
    session: &'a SessionName,
    reader: &'a SessionName,
    #[serde(flatten)]
    pending: &'a Pending,
}

pub(crate) fn run(context: &Context, arguments: &Inbox) -> Result<ExitCode, Failure> {
    let session = context.own_session()?;
    let reader = &context.reader;
    let mut inbox = match arguments.peek {
        true => context.store.peek(&session, reader),
        false => context.store.inbox(&session, reader, PATIENCE)?,
    }
    .with_questions()
    .with_matches();
    let pending = inbox.pending().map_err(|error| Failure::other("inbox", &error))?;
    if context.is_json {
        print_json(&Document { session: &session, reader, pending: &pending })?;
    } else if !pending.notices.is_empty() {
        print(&text(context, arguments.form, &session, &pending));
    } else if io::stdout().is_terminal() {
        note("nothing new");
    }
    // Acknowledged only after it was printed: if this program dies before, the same sequences come again.
    inbox
        .acknowledge(pending.up_to)
        .map_err(|error| Failure::other("inbox: it will be told again", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes all pending notices as one block.
fn text(context: &Context, form: NoticeForm, session: &SessionName, pending: &Pending) -> String {
    let one = |notice: &Notice| match form {
        NoticeForm::Text => notice.to_text().lines().map(fitted).collect(),
        NoticeForm::Message => format!("{}\n", notice.to_message(&context.store).trim_end_matches('\n')),
    };
    let notices: Vec<String> = pending.notices.iter().map(one).collect();
    let mut text = notices.join("\n");
    if form == NoticeForm::Text {
        text = format!("{}:\n\n{text}", summary(session, &pending.notices));
        if pending.left > 0 {
            text += &format!("\n{} more: outlive inbox tells of them next\n", pending.left);
        }
    }
    text
}

/// Fits a line to the terminal. What goes on below is indented as the line, and quoted as it.
fn fitted(line: &str) -> String {
    let indent = ["    | ", "    "].into_iter().find(|indent| line.starts_with(indent)).unwrap_or("    ");
    format!("{}\n", for_stdout(line, indent))
}

/// Says how many jobs have ended, ask for an answer or printed a line that is watched for.
fn summary(session: &SessionName, notices: &[Notice]) -> String {
    let asking = notices.iter().filter(|notice| notice.awaits.is_some()).count();
    let matched = notices.iter().filter(|notice| notice.matched.is_some()).count();
    let ended = notices.len() - asking - matched;
    let jobs = |count: usize| format!("{} of session {session}", counted(count as u64, "job", "jobs"));
    match (ended, asking, matched) {
        (ended, 0, 0) => format!("{} ended", jobs(ended)),
        (0, 1, 0) => format!("{} asks for an answer", jobs(1)),
        (0, asking, 0) => format!("{} ask for an answer", jobs(asking)),
        (0, 0, 1) => format!("1 line of session {session} matches"),
        (0, 0, matched) => format!("{matched} lines of session {session} match"),
        _ => {
            let parts =
                [(ended, "ended"), (asking, "asked for an answer"), (matched, "printed a line that matches")];
            let parts: Vec<String> = parts
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}"))
                .collect();
            format!("in session {session}, {}", parts.join(", "))
        }
    }
}
