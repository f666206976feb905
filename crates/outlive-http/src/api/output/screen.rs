//! The screen of a job in a terminal, derived by another process: what a job prints cannot harm the server.

use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use outlive::{Failure, Timestamp};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::access::Caller;
use crate::api::find;
use crate::api::input::no_terminal;
use crate::extract::Params;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// As it was at this time, RFC 3339
    at: Option<String>,
    /// With the rows that are others than they were when the output had come to this offset
    changes_since: Option<u64>,
    /// With colours and styles
    #[serde(default)]
    styled: bool,
}

/// Shows a job's screen, as `outlive screen --json` does.
#[utoipa::path(get, path = "/v1/jobs/{job}/screen", tag = "output", security(("token" = ["view"])),
    params(("job" = String, Path, description = "Id, name, or the beginning of an id"), Which),
    responses((status = 200, description = "The screen", body = Object)))]
pub(crate) async fn screen(
    State(shared): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(which): Params<Which>,
) -> Result<Response, Problem> {
    if let Some(Err(error)) = which.at.as_deref().map(Timestamp::parse) {
        return Err(Failure::usage(format!("at: {error}"), "such as 2026-11-16T11:47:00Z").into());
    }
    let shown = work::long(&shared, move |store, _| {
        let job = find(store, &caller, &job)?;
        if !job.spec().options.pty {
            return Err(no_terminal(&job));
        }
        let at = which.at.map(|at| format!("--at={at}"));
        let since = which.changes_since.map(|offset| format!("--changes-since={offset}"));
        let styled = which.styled.then(|| "--ansi".to_owned());
        let arguments: Vec<String> = at.into_iter().chain(since).chain(styled).collect();
        store.screen_json_apart(&job, &arguments).map_err(|error| Failure::other("screen", &error))
    });
    Ok(([(CONTENT_TYPE, "application/json")], shown.await?).into_response())
}
