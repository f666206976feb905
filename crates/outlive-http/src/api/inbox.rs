//! Endings that a reader has not received yet.
//!
//! A look acknowledges nothing. The client says what it has received, and until then the same comes again: an answer that is lost on
//! its way is lost to nobody.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use outlive::{Failure, Pending, SessionName, reader_name};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::session;
use crate::access::Caller;
use crate::extract::{Body, Params};
use crate::problem::Problem;
use crate::server::Shared;
use crate::work;

/// How long another program of the same reader is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Whose {
    /// The session; else the token's, else `default`
    session: Option<String>,
    /// The reader; else `default`
    reader: Option<String>,
}

/// What a reader has received.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Received {
    /// The session; else the token's, else `default`
    session: Option<String>,
    /// The reader; else `default`
    reader: Option<String>,
    /// `up_to` of the answer that was received
    up_to: u64,
}

/// What is new for a reader.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboxObject {
    #[schema(value_type = String)]
    session: SessionName,
    #[schema(value_type = String)]
    reader: SessionName,
    /// `notices`, the oldest first; `up_to`, for the acknowledgement; `left`, how many come with the next look.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pending: Pending,
}

/// How far a reader is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Acknowledged {
    #[schema(value_type = String)]
    session: SessionName,
    #[schema(value_type = String)]
    reader: SessionName,
    /// Endings up to this sequence are not told again.
    up_to: u64,
}

fn whose(
    caller: &Caller,
    asked: Option<&str>,
    reader: Option<&str>,
) -> Result<(SessionName, SessionName), Failure> {
    let session = caller.session(session(asked)?)?.unwrap_or_default();
    Ok((session, reader_name(reader.unwrap_or_default())))
}

/// Tells of endings, and of jobs that ask for an answer, which a reader has not acknowledged.
#[utoipa::path(get, path = "/v1/inbox", tag = "events", params(Whose), security(("token" = ["view"])),
    responses((status = 200, description = "What is new", body = InboxObject)))]
pub(crate) async fn inbox(
    State(shared): State<Shared>,
    caller: Caller,
    Params(asked): Params<Whose>,
) -> Result<Json<InboxObject>, Problem> {
    let (session, reader) = whose(&caller, asked.session.as_deref(), asked.reader.as_deref())?;
    let told = work::quick(&shared, move |store| {
        let mut inbox = store.peek(&session, &reader).with_questions();
        let pending = inbox.pending().map_err(|error| Failure::other("inbox", &error))?;
        Ok(InboxObject { session, reader, pending })
    });
    Ok(Json(told.await?))
}

/// Says what a reader has received: it is not told again.
#[utoipa::path(post, path = "/v1/inbox/acknowledge", tag = "events", request_body = Received, security(("token" = ["drive"])),
    responses((status = 200, description = "How far the reader is", body = Acknowledged)))]
pub(crate) async fn acknowledge(
    State(shared): State<Shared>,
    caller: Caller,
    Body(body): Body<Received>,
) -> Result<Json<Acknowledged>, Problem> {
    let (session, reader) = whose(&caller, body.session.as_deref(), body.reader.as_deref())?;
    let told = work::long(&shared, move |store, _| {
        let failed = |error: std::io::Error| Failure::other("inbox", &error);
        let mut inbox = store.inbox(&session, &reader, PATIENCE)?.with_questions();
        let up_to = body.up_to.min(inbox.pending().map_err(failed)?.up_to);
        inbox.acknowledge(up_to).map_err(failed)?;
        Ok(Acknowledged { session, reader, up_to })
    });
    Ok(Json(told.await?))
}
