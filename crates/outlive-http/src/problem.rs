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
    title: &'static str,
}

/// What went wrong, and what to do next.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ProblemObject {
    /// The HTTP status.
    status: u16,
    /// What the code means, in a few words.
    title: &'static str,
    /// What happened, and what to do next: all that many clients show.
    detail: String,
    /// The stable code, as of the command line.
    code: &'static str,
    /// What to do next, alone.
    hint: Option<String>,
}

/// What a code means, without the verbs of the command line that it is for.
fn title(code: Code) -> &'static str {
    let first = code.meaning().split("; ").next().unwrap_or_default();
    let of_verbs = first.rsplit_once("`: ").map_or(first, |(_, meaning)| meaning);
    of_verbs.strip_prefix("over HTTP: ").unwrap_or(of_verbs)
}

impl Problem {
    /// Answers with another status than that of the failure's code.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status.as_u16();
        self
    }

    /// Answers with another title than that of the failure's code.
    pub(crate) fn with_title(mut self, title: &'static str) -> Self {
        self.title = title;
        self
    }
}

impl<T: Into<Failure>> From<T> for Problem {
    fn from(failure: T) -> Self {
        let failure = failure.into();
        Self { status: failure.code.http_status(), title: title(failure.code), failure }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { failure, status, title } = self;
        let hint = failure.hint.as_deref().map(str::to_owned);
        let object = ProblemObject {
            status,
            title,
            detail: match &hint {
                Some(hint) => format!("{}; {hint}", failure.text()),
                None => failure.text(),
            },
            code: failure.code.word(),
            hint,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_short_and_say_nothing_of_verbs() {
        for code in Code::ALL {
            let title = title(*code);
            assert!(!title.is_empty() && !title.contains(';') && !title.contains("`:"), "{title}");
        }
        assert_eq!(title(Code::NotFound), "no such job, session or agent");
        assert_eq!(title(Code::Ended), "the job or agent has ended");
        assert_eq!(title(Code::Unauthorized), "no token came with the request, or one that is not valid");
    }
}
