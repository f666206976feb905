//! The MCP server, for clients that are not on standard input and output.

use std::path::PathBuf;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use outlive::{Code, Failure};
use outlive_mcp::{Asked, Profile};
use serde::Deserialize;
use utoipa::IntoParams;

use super::session;
use crate::access::Caller;
use crate::extract::{Params, read_body};
use crate::problem::Problem;
use crate::server::Shared;

/// How a client is served. It gives the same with each request: it is part of the address.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpParams {
    /// The tools: a profile, as of `outlive mcp --profile`
    profile: Option<String>,
    /// The session of its jobs; else the token's, else that of the directory, else `default`
    session: Option<String>,
    /// What this reader has received is not repeated; else each client is one
    reader: Option<String>,
    /// The project's directory on the server's machine, where jobs start; else the client's first root, else the user's home
    directory: Option<String>,
    /// Tools see the jobs of all sessions
    all_sessions: Option<bool>,
    /// What the caller calls this machine: ids of jobs begin with it
    host: Option<String>,
}

/// Takes a message of MCP, in either era of the protocol.
#[utoipa::path(post, path = "/mcp", tag = "mcp", params(McpParams), request_body = Object, security(("token" = ["drive"])),
    responses(
        (status = 200, description = "The answer, after progress if there is some: one message as JSON, or events", content(
            (Object = "application/json"), (String = "text/event-stream"))),
        (status = 202, description = "A message that has no answer was taken"),
        (status = 400, description = "What is wrong with the message", content((Object = "application/json"), (crate::problem::ProblemObject = "application/problem+json"))),
        (status = 404, description = "There is no such session or method", content((Object = "application/json"), (crate::problem::ProblemObject = "application/problem+json")))))]
pub(crate) async fn post(call: Call) -> Result<Response, Problem> {
    call.answer().await
}

/// Opens the stream of a session of the protocol, or goes on with one (`Last-Event-ID`); for clients of the handshake era.
#[utoipa::path(get, path = "/mcp", tag = "mcp", params(McpParams), security(("token" = ["drive"])),
    responses((status = 200, description = "Messages of the server, as events", body = String, content_type = "text/event-stream")))]
pub(crate) async fn get(call: Call) -> Result<Response, Problem> {
    call.answer().await
}

/// Ends a session of the protocol; its jobs go on.
#[utoipa::path(delete, path = "/mcp", tag = "mcp", params(McpParams), security(("token" = ["drive"])),
    responses((status = 202, description = "The session is over")))]
pub(crate) async fn delete(call: Call) -> Result<Response, Problem> {
    call.answer().await
}

/// A request of a client, by whatever method.
pub(crate) struct Call {
    shared: Shared,
    asked: Asked,
    request: Request,
}

impl FromRequest<Shared> for Call {
    type Rejection = Problem;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::from_request_parts(&mut parts, shared).await?;
        let Params(params) = Params::<McpParams>::from_request_parts(&mut parts, shared).await?;
        let request = Request::from_parts(parts, body);
        Ok(Self { shared: shared.clone(), asked: asked(caller, params)?, request })
    }
}

impl Call {
    async fn answer(self) -> Result<Response, Problem> {
        let Self { shared, asked, request } = self;
        let (parts, body) = request.into_parts();
        // The limit of bodies is among the extensions.
        let mut reading = Request::new(body);
        *reading.extensions_mut() = parts.extensions.clone();
        let bytes = read_body(reading, &()).await?;
        let answer = shared.mcp.handle(Request::from_parts(parts, bytes), asked).await;
        let (parts, body) = answer.into_parts();
        let is_json = parts
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let body = Body::new(body);
        if is_json || !(parts.status.is_client_error() || parts.status.is_server_error()) {
            return Ok(Response::from_parts(parts, body));
        }
        // What is wrong with the request as such is told as everywhere else here.
        let words = to_bytes(body, 4096).await.unwrap_or_default();
        let mut answer = problem(parts.status, String::from_utf8_lossy(&words).into_owned()).into_response();
        for (name, value) in &parts.headers {
            answer.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        Ok(answer)
    }
}

fn problem(status: StatusCode, words: String) -> Problem {
    let code = match status {
        StatusCode::NOT_FOUND => Code::NotFound,
        StatusCode::TOO_MANY_REQUESTS => Code::LimitReached,
        _ if status.is_server_error() => Code::Failed,
        _ => Code::Usage,
    };
    let hint = match status {
        StatusCode::NOT_FOUND => "the client has to send `initialize` again",
        _ => "see docs/guide/agents/mcp.md for clients that are known to work",
    };
    Problem::from(Failure::new(code, words).hint(hint)).with_status(status)
}

fn asked(caller: Caller, params: McpParams) -> Result<Asked, Failure> {
    let profile = match params.profile.as_deref() {
        None => <&'static Profile>::default(),
        Some(name) => Profile::find(name).ok_or_else(|| {
            let names: Vec<&str> = Profile::names().collect();
            Failure::usage(format!("there is no profile {name:?}"), format!("there are {}", names.join(", ")))
        })?,
    };
    let directory = params.directory.map(PathBuf::from);
    if directory.as_ref().is_some_and(|directory| !directory.is_absolute()) {
        let hint = "give it from the root, as in directory=/home/me/shop";
        return Err(Failure::usage("the directory is not absolute", hint));
    }
    let all_sessions = params.all_sessions.unwrap_or(false);
    if all_sessions && let Some(own) = &caller.session {
        let words = format!("this token is for session {own} alone");
        return Err(Failure::new(Code::Forbidden, words).hint("leave all_sessions out"));
    }
    Ok(Asked {
        profile,
        session: caller.session(session(params.session.as_deref())?)?,
        all_sessions,
        reader: params.reader.as_deref().map(outlive::reader_name),
        directory,
        host: params.host,
        caller: caller.name,
    })
}
