//! Failures as answers: RFC 9457, with the codes and hints of the one table.

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use outlive::{Code, Failure};
use serde::Serialize;
use utoipa::ToSchema;

/// An answer that says what went wrong, and what to do next.
#[derive(Debug)]
pub(crate) struct Problem {
    failure: Failure,
    status: u16,
}

/// What went wrong, and what to do next.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemObject {
    /// The HTTP status.
    status: u16,
    /// What the code means.
    title: &'static str,
    /// What happened.
    detail: String,
    /// The stable code, as of the command line.
    code: &'static str,
    /// What to do next.
    hint: Option<String>,
}

impl Problem {
    /// Answers with another status than that of the failure's code.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status.as_u16();
        self
    }
}

impl<T: Into<Failure>> From<T> for Problem {
    fn from(failure: T) -> Self {
        let failure = failure.into();
        Self { status: failure.code.http_status(), failure }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { failure, status } = self;
        let object = ProblemObject {
            status,
            title: failure.code.title(),
            detail: failure.text(),
            code: failure.code.word(),
            hint: failure.hint.as_deref().map(str::to_owned),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(object)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if failure.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"outlive\""));
        }
        if failure.code == Code::LimitReached {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        response
    }
}
