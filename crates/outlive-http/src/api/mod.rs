//! The API: every route with its description, so that none is missing from the reference.

#![expect(unused_qualifications, reason = "made by the macro that describes a route")]

mod control;
pub(crate) mod events;
mod hosts;
mod inbox;
mod input;
mod jobs;
mod login;
mod mcp;
pub(crate) mod metrics;
mod output;
mod queues;
mod sessions;
mod start;
mod wait;
pub(crate) mod written;

use axum::extract::DefaultBodyLimit;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use outlive::{Code, Failure, FindError, SessionName, Store};
use serde_json::Value;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{Caller, in_scope, same_site};
use crate::page;
use crate::problem::{Problem, ProblemObject};
use crate::projects;
use crate::server::Shared;

/// Of a body: a paste of this size is long, and a command line cannot be longer.
const BODY_BYTES: usize = 1 << 20;

/// So many characters of a path are said again.
const MOST_OF_PATH: usize = 200;

/// Nothing but our own files, no script in a page, and in no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "outlive",
        description = "Jobs of outlive over HTTP. On the Unix socket `serve/socket` of the store the kernel says who asks; on TCP \
            each request has a token: `Authorization: Bearer …`. Each operation says the scope that it needs. A failure is \
            `application/problem+json` with the code and hint of the command line.",
        license(name = "MIT OR Apache-2.0"),
        contact(),
    ),
    components(schemas(ProblemObject))
)]
struct Description;

/// Returns the routes, and their description.
pub(crate) fn router() -> (Router<Shared>, Value) {
    let (router, openapi) = OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(jobs::list, start::start))
        .routes(routes!(jobs::show, control::remove))
        .routes(routes!(output::output))
        .routes(routes!(output::log::log))
        .routes(routes!(output::export::export))
        .routes(routes!(output::screen::screen))
        .routes(routes!(output::terminal::terminal))
        .routes(routes!(wait::wait))
        .routes(routes!(wait::wait_for_several))
        .routes(routes!(input::send))
        .routes(routes!(control::kill))
        .routes(routes!(control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::clear))
        .routes(routes!(control::transfer))
        .routes(routes!(control::rename))
        .routes(routes!(control::restart))
        .routes(routes!(control::resize))
        .routes(routes!(events::events))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::show))
        .routes(routes!(sessions::close))
        .routes(routes!(inbox::inbox))
        .routes(routes!(inbox::acknowledge))
        .routes(routes!(hosts::list))
        .routes(routes!(queues::list))
        .routes(routes!(queues::change))
        .routes(routes!(projects::list, projects::up))
        .routes(routes!(projects::status))
        .routes(routes!(projects::why))
        .routes(routes!(projects::define))
        .routes(routes!(projects::down))
        .routes(routes!(crate::command::command))
        .routes(routes!(login::login, login::whoami))
        .routes(routes!(metrics::metrics))
        .routes(routes!(mcp::post, mcp::get, mcp::delete))
        .routes(routes!(description))
        .split_for_parts();
    let mut openapi = serde_json::to_value(openapi).unwrap_or_default();
    start::describe(&mut openapi);
    complete(&mut openapi);
    (router, openapi)
}

/// Returns the description of the API, for the reference.
pub fn openapi() -> Value {
    router().1
}

/// Adds what every operation has: how to sign in, and what failures look like.
fn complete(openapi: &mut Value) {
    openapi["components"]["securitySchemes"]["token"] =
        serde_json::json!({ "type": "http", "scheme": "bearer" });
    let problem = serde_json::json!({
        "description": "What went wrong, and what to do next",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/ProblemObject" } } }
    });
    for item in openapi["paths"].as_object_mut().into_iter().flatten().map(|(_, item)| item) {
        for operation in item.as_object_mut().into_iter().flatten().map(|(_, operation)| operation) {
            operation["responses"]["default"] = problem.clone();
        }
    }
}

/// Puts the checks around the routes, the outermost first in time.
pub(crate) fn layered(router: Router<Shared>, shared: &Shared) -> Router {
    router
        .route_layer(middleware::from_fn_with_state(shared.clone(), in_scope))
        .merge(page::routes())
        .method_not_allowed_fallback(wrong_method)
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .layer(middleware::from_fn_with_state(shared.clone(), same_site))
        .layer(middleware::from_fn(secured))
        .with_state(shared.clone())
}

/// Tells browsers to run nothing but our own files, and to keep no answer.
async fn secured(request: axum::extract::Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Says what is not there, and what is most likely meant.
async fn unknown(
    axum::extract::State(shared): axum::extract::State<Shared>,
    uri: axum::http::Uri,
) -> Problem {
    let paths = shared.openapi["paths"].as_object().into_iter().flatten().map(|(path, _)| path.as_str());
    let hint = match outlive::nearest(uri.path(), paths) {
        Some(path) => format!("did you mean {path}? GET /openapi.json lists every path"),
        None => "GET /openapi.json lists every path".to_owned(),
    };
    let path: String = uri.path().chars().take(MOST_OF_PATH).collect();
    let failure = Failure::new(Code::NotFound, format!("there is no {path:?} here")).hint(hint);
    Problem::from(failure).with_title("no such path")
}

async fn wrong_method() -> Problem {
    let failure =
        Failure::usage("this cannot be asked for in that way", "GET /openapi.json lists what there is");
    Problem::from(failure).with_status(StatusCode::METHOD_NOT_ALLOWED)
}

/// The description of this API.
#[utoipa::path(get, path = "/openapi.json", tag = "server", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = Object)))]
async fn description(axum::extract::State(shared): axum::extract::State<Shared>) -> Response {
    Json(shared.openapi.clone()).into_response()
}

/// Finds a job that is only read.
fn find(store: &Store, caller: &Caller, job: &str) -> Result<outlive::Job, Failure> {
    store.find(job, caller.session.as_ref()).map_err(not_found)
}

/// Finds a job that is to be changed.
fn find_to_change(store: &Store, caller: &Caller, job: &str) -> Result<outlive::Job, Failure> {
    store.find_to_change(job, caller.session.as_ref()).map_err(not_found)
}

/// Says where jobs are listed, unless a similar one is known.
fn not_found(error: FindError) -> Failure {
    let is_unlike_all = matches!(&error, FindError::Unknown(_, similar) if similar.is_empty());
    let failure = Failure::from(error);
    if is_unlike_all { failure.hint("GET /v1/jobs lists all jobs") } else { failure }
}

/// Reads the name of a session.
fn session(name: Option<&str>) -> Result<Option<SessionName>, Failure> {
    name.map(SessionName::parse)
        .transpose()
        .map_err(|error| Failure::usage(format!("session: {error}"), "GET /v1/sessions lists them"))
}
