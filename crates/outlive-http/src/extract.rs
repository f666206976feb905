//! What a request says, checked; mistakes are answered in the form of all failures.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use outlive::{Code, Failure};
use serde::de::DeserializeOwned;

use crate::access::Caller;
use crate::problem::Problem;

/// A body has come by then, or the client is too slow to be served.
const BODY_LIMIT: Duration = Duration::from_secs(20);

/// What stands behind the `?`.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + 'static> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(usage(error.body_text(), "GET /openapi.json describes every parameter").into()),
        }
    }
}

/// A body of JSON. Nothing else is taken: a form of another site can send anything but that.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            let failure = usage("the body must be JSON", "send it with `Content-Type: application/json`");
            return Err(Problem::from(failure).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = read_body(request, state).await?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| usage(error.to_string(), "GET /openapi.json describes every body").into())
    }
}

/// Reads a body that is not too long, from a client that is not too slow.
pub(crate) async fn read_body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    match tokio::time::timeout(BODY_LIMIT, Bytes::from_request(request, state)).await {
        Err(_) => {
            let failure = Failure::timed_out("the body took too long", "send it again at once");
            Err(Problem::from(failure).with_status(StatusCode::REQUEST_TIMEOUT))
        }
        Ok(Err(error)) => {
            let status = error.status();
            Err(Problem::from(usage(error.body_text(), "send less at a time")).with_status(status))
        }
        Ok(Ok(bytes)) => Ok(bytes),
    }
}

fn usage(message: impl Into<String>, hint: &str) -> Failure {
    Failure::usage(message, hint)
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Failure::new(Code::Unauthorized, "a token is needed").into())
    }
}
