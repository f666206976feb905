//! Answering jobs.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use outlive::{Code, ControlError, Failure, Job, JobId, Store, keys};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::find_to_change;
use crate::access::Caller;
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// How long a command may leave its input unread before the writer is told.
const LIMIT: Duration = Duration::from_secs(10);

/// What to write: one of the four, and perhaps the end.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SendRequest {
    /// A text, with what ends a line after it
    text: Option<String>,
    /// Without what ends a line
    no_newline: bool,
    /// Keys by their names, for a terminal: `C-c`, `Up Enter`
    keys: Option<String>,
    /// A text as it is pasted into a terminal
    paste: Option<String>,
    /// A line that is kept nowhere, such as a password. A terminal that would show it gets nothing: `not_hidden`
    secret: Option<String>,
    /// With `secret`: the program reads key by key, and does not show them itself
    masked: bool,
    /// Close its standard input afterwards
    eof: bool,
}

/// What was written.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Sent {
    #[schema(value_type = String)]
    job: JobId,
    /// How much; null for a secret: how long it is could help to guess it.
    bytes: Option<usize>,
    /// Whether its input was closed.
    eof: bool,
}

/// Writes to a job's standard input or terminal.
#[utoipa::path(post, path = "/v1/jobs/{job}/input", tag = "control", request_body = SendRequest, security(("token" = ["drive"])),
    params(("job" = String, Path, description = "Id or name")),
    responses((status = 200, description = "It is written", body = Sent)))]
pub(crate) async fn send(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Body(body): Body<SendRequest>,
) -> Result<Json<Sent>, Problem> {
    let sent = work::long(&shared, move |store, _| {
        let job = find_to_change(store, &caller, &job)?;
        let failed = |error: ControlError| Failure::from(error).during("send");
        let line = |text: String| {
            let mut bytes = text.into_bytes();
            bytes.extend((!body.no_newline).then(|| job.spec().options.line_end()));
            bytes
        };
        let is_secret = body.secret.is_some();
        let typed = match (body.text, body.keys, body.paste, body.secret) {
            (Some(text), None, None, None) | (None, None, None, Some(text)) => line(text),
            (None, Some(keys), None, None) => keys::parse(&keys, &key_modes(store, &job)?)
                .map_err(|error| Failure::usage(error.to_string(), "such as: C-c, Up Enter, F1"))?,
            (None, None, Some(text), None) => keys::paste(&text, &key_modes(store, &job)?),
            (None, None, None, None) if body.eof => Vec::new(),
            _ => {
                return Err(Failure::usage(
                    "input: one of `text`, `keys`, `paste` and `secret` is needed",
                    r#"such as {"text": "yes"}"#,
                ));
            }
        };
        if is_secret {
            store.write_secret(&job, &typed, body.masked, LIMIT).map_err(failed)?;
        } else if !typed.is_empty() {
            store.write_stdin(&job, &typed, LIMIT).map_err(failed)?;
        }
        if body.eof {
            store.close_stdin(&job).map_err(failed)?;
        }
        Ok(Sent { job: job.id().clone(), bytes: (!is_secret).then_some(typed.len()), eof: body.eof })
    });
    Ok(Json(sent.await?))
}

/// Returns what the program in a job's terminal has asked for, on which the bytes of keys depend.
fn key_modes(store: &Store, job: &Job) -> Result<keys::KeyModes, Failure> {
    if !job.spec().options.pty {
        return Err(no_terminal(job));
    }
    let screen = store.screen_apart(job, None).map_err(|error| Failure::other("send", &error))?;
    Ok(screen.key_modes())
}

/// A job on pipes has no screen.
pub(crate) fn no_terminal(job: &Job) -> Failure {
    let id = job.id();
    Failure::new(Code::NoTerminal, format!("{id} runs on pipes, not in a terminal"))
        .hint("start it with `pty`; its output has what it printed")
}
