//! Sessions.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use outlive::{Failure, RawText, Running, SessionError, SessionName, SessionObject};
use serde::Deserialize;
use utoipa::ToSchema;

use super::session;
use crate::access::Caller;
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// A session to make, and what its jobs start from.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateRequest {
    /// Its name
    name: String,
    /// The directory that its jobs start in, absolute
    cwd: Option<String>,
    /// Variables of its jobs
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// What becomes of the jobs of a session that is closed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloseRequest {
    /// Its live jobs: `refuse` to close, `kill` them, or `transfer` them to the session `default`
    #[serde(default)]
    running: Option<String>,
}

/// Lists the sessions that were created or have jobs.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", security(("token" = ["view"])),
    responses((status = 200, description = "The sessions, by name", body = Vec<SessionObject>)))]
pub(crate) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<SessionObject>>, Problem> {
    let listed = work::quick(&shared, move |store| {
        let sessions = store.list_sessions().map_err(|error| Failure::other("session", &error))?;
        let is_seen = |name: &SessionName| caller.session.as_ref().is_none_or(|own| own == name);
        let seen = sessions.iter().filter(|session| is_seen(&session.name));
        Ok(seen.map(|session| session.object(None, false)).collect())
    });
    Ok(Json(listed.await?))
}

/// Shows a session, and what its live jobs use together.
#[utoipa::path(get, path = "/v1/sessions/{session}", tag = "sessions", security(("token" = ["view"])),
    params(("session" = String, Path, description = "Its name")),
    responses((status = 200, description = "The session", body = SessionObject)))]
pub(crate) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<SessionObject>, Problem> {
    let name = named(&caller, &name)?;
    let shown = work::quick(&shared, move |store| {
        let session = store.session(&name).map_err(not_found)?;
        Ok(session.object(Some(session.usage(store)), false))
    });
    Ok(Json(shown.await?))
}

/// Makes a session.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = CreateRequest, security(("token" = ["admin"])),
    responses((status = 201, description = "The session", body = SessionObject)))]
pub(crate) async fn create(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body<CreateRequest>,
) -> Result<(StatusCode, Json<SessionObject>), Problem> {
    let name = named(&caller, &body.name)?;
    let made = work::quick(&shared, move |store| {
        if let Some(cwd) = body
            .cwd
            .as_deref()
            .filter(|cwd| !FilePath::new(cwd).is_absolute() || !FilePath::new(cwd).is_dir())
        {
            return Err(Failure::usage(
                format!("session: {cwd:?} is no directory here"),
                "give the absolute path of one on the server's machine",
            ));
        }
        let env = body.env.into_iter().map(|(name, value)| (name, RawText::from(value))).collect();
        store.create_session(&name, body.cwd.map(RawText::from), env)?;
        Ok(store.session(&name)?.object(None, false))
    });
    Ok((StatusCode::CREATED, Json(made.await?)))
}

/// Closes a session; one with live jobs only if it is said what becomes of them.
#[utoipa::path(post, path = "/v1/sessions/{session}/close", tag = "sessions", request_body = CloseRequest, security(("token" = ["admin"])),
    params(("session" = String, Path, description = "Its name")),
    responses((status = 200, description = "The session as it is now", body = SessionObject)))]
pub(crate) async fn close(
    State(shared): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    Body(body): Body<CloseRequest>,
) -> Result<Json<SessionObject>, Problem> {
    let name = named(&caller, &name)?;
    let running = match body.running.as_deref() {
        None | Some("refuse") => Running::Refuse,
        Some("kill") => Running::Kill,
        Some("transfer") => Running::Transfer,
        Some(other) => {
            return Err(Failure::usage(
                format!("running: {other:?} is not known"),
                "write refuse, kill or transfer",
            )
            .into());
        }
    };
    // Jobs that are ended have their grace.
    let closed = work::long(&shared, move |store, _| {
        store.close_session(&name, running).map_err(not_found)?;
        Ok(store.session(&name)?.object(None, false))
    });
    Ok(Json(closed.await?))
}

/// Reads the name of a session that the caller may see.
fn named(caller: &Caller, name: &str) -> Result<SessionName, Failure> {
    Ok(caller.session(session(Some(name))?)?.unwrap_or_default())
}

/// Says where sessions are listed.
fn not_found(error: SessionError) -> Failure {
    let is_unknown = matches!(error, SessionError::Unknown(_));
    let failure = Failure::from(error);
    if is_unknown { failure.hint("GET /v1/sessions lists all sessions") } else { failure }
}
