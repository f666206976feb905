//! The page: our own files, embedded, so that nothing has to be built or found.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::server::Shared;

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal $file:literal $kind:expr;)*) => {
        /// Path, kind and text of each file.
        const FILES: &[(&str, &str, &str)] = &[$(($path, $kind, include_str!(concat!("../page/", $file)))),*];
    };
}

files! {
    "/" "index.html" "text/html; charset=utf-8";
    "/style.css" "style.css" "text/css; charset=utf-8";
    "/icon.svg" "icon.svg" "image/svg+xml";
    "/app.js" "app.js" SCRIPT;
    "/actions.js" "actions.js" SCRIPT;
    "/ansi.js" "ansi.js" SCRIPT;
    "/api.js" "api.js" SCRIPT;
    "/dom.js" "dom.js" SCRIPT;
    "/width.js" "width.js" SCRIPT;
    "/views/cards.js" "views/cards.js" SCRIPT;
    "/views/job.js" "views/job.js" SCRIPT;
    "/views/list.js" "views/list.js" SCRIPT;
    "/views/log.js" "views/log.js" SCRIPT;
    "/views/projects.js" "views/projects.js" SCRIPT;
    "/views/queues.js" "views/queues.js" SCRIPT;
    "/views/recording.js" "views/recording.js" SCRIPT;
    "/views/hosts.js" "views/hosts.js" SCRIPT;
    "/views/schedules.js" "views/schedules.js" SCRIPT;
    "/views/terminal.js" "views/terminal.js" SCRIPT;
}

/// Returns the routes of the page; anybody may have its files, which hold no data.
pub(crate) fn routes() -> Router<Shared> {
    FILES.iter().fold(Router::new(), |router, &(path, kind, text)| {
        let tag = format!("\"{:016x}\"", outlive::hash(text.as_bytes()));
        router.route(path, get(move |headers: HeaderMap| async move { file(&headers, kind, text, &tag) }))
    })
}

/// Answers with a file, or that the browser has it already.
fn file(headers: &HeaderMap, kind: &'static str, text: &'static str, tag: &str) -> Response {
    let is_known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let caching = [(CACHE_CONTROL, "no-cache"), (CONTENT_TYPE, kind)];
    let tag = [(ETAG, tag.to_owned())];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, caching, tag).into_response(),
        false => (caching, tag, text).into_response(),
    }
}
