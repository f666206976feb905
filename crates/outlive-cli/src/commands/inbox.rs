//! `outlive inbox`: the endings that a reader has not received yet.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use outlive::{Notice, Pending, SessionName};
use serde::Serialize;

use crate::args::{Inbox, NoticeForm};
use crate::commands::Context;
use crate::failure::Failure;
use crate::render::{counted, note, print, print_json};

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
    .with_questions();
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
        NoticeForm::Text => notice.to_text(),
        NoticeForm::Message => format!("{}\n", notice.to_message(&context.store).trim_end_matches('\n')),
    };
    let notices: Vec<String> = pending.notices.iter().map(one).collect();
    let mut text = notices.join("\n");
    if form == NoticeForm::Text {
        let asking = pending.notices.iter().filter(|notice| notice.awaits.is_some()).count();
        let ended = pending.notices.len() - asking;
        let count = counted(pending.notices.len() as u64, "job", "jobs");
        let what = match (ended, asking) {
            (_, 0) => "ended".to_owned(),
            (0, 1) => "asks for an answer".to_owned(),
            (0, _) => "ask for an answer".to_owned(),
            (ended, asking) => format!("told something: {ended} ended, {asking} asked for an answer"),
        };
        text = format!("{count} of session {session} {what}:\n\n{text}");
        if pending.left > 0 {
            text += &format!("\n{} more have ended: outlive inbox tells of them next\n", pending.left);
        }
    }
    text
}
