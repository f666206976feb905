//! Sessions.

use axum::Json;
use axum::extract::State;
use outlive::{Failure, SessionObject};

use crate::access::Caller;
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// Lists the sessions that were created or have jobs.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions", security(("token" = ["view"])),
    responses((status = 200, description = "The sessions, by name", body = Vec<SessionObject>)))]
pub(crate) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<Vec<SessionObject>>, Problem> {
    let listed = work::quick(&shared, move |store| {
        let sessions = store.list_sessions().map_err(|error| Failure::other("session", &error))?;
        let is_seen = |name: &outlive::SessionName| caller.session.as_ref().is_none_or(|own| own == name);
        let seen = sessions.iter().filter(|session| is_seen(&session.name));
        Ok(seen.map(|session| session.object(None, false)).collect())
    });
    Ok(Json(listed.await?))
}
