//! Signing a browser in: the secret of a one-time link becomes a cookie that no script can read.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use outlive::{Code, Failure};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Caller, check_user, too_many_guesses};
use crate::extract::Body;
use crate::problem::Problem;
use crate::server::{Peer, Shared};
use crate::work;

/// How long a browser keeps the cookie: as long as its token is good.
const SECONDS: u64 = 30 * 86_400;

/// The secret of a link.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginRequest {
    /// What stood behind `#t=`
    link: String,
}

/// What the caller may do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Access {
    /// `view`, `drive` or `admin`.
    scope: &'static str,
    /// The only session that is seen; none: all.
    session: Option<String>,
    /// The version of this server.
    version: &'static str,
}

/// Exchanges the secret of a link, once, for a cookie.
#[utoipa::path(post, path = "/v1/login", tag = "server", request_body = LoginRequest, security(()),
    responses((status = 200, description = "The browser is signed in", body = Access)))]
pub(crate) async fn login(
    State(shared): State<Shared>,
    Extension(peer): Extension<Peer>,
    Body(body): Body<LoginRequest>,
) -> Result<Response, Problem> {
    let Some(site) = &shared.site else {
        return Err(Failure::usage("no browser can sign in on this socket", "outlive open").into());
    };
    let tokens = shared.tokens.clone();
    let redeemed = work::quick(&shared, move |_| {
        check_user(peer)?;
        tokens.redeem(&body.link).map_err(|error| Failure::other("login", &error))
    });
    let Some((secret, token)) = redeemed.await? else {
        if !shared.failures.count() {
            return Err(too_many_guesses().into());
        }
        return Err(Failure::new(Code::Unauthorized, "this link was used before, or is too old")
            .hint("get another: outlive open")
            .into());
    };
    let cookie = format!("{}={secret}; Max-Age={SECONDS}; {}", site.cookie(), site.cookie_rules());
    let cookie = HeaderValue::try_from(cookie).map_err(|error| Failure::other("login", &error))?;
    let access = Access {
        scope: token.scope.word(),
        session: token.session.map(|session| session.to_string()),
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok((HeaderMap::from_iter([(SET_COOKIE, cookie)]), Json(access)).into_response())
}

/// Tells what the caller may do.
#[utoipa::path(get, path = "/v1/login", tag = "server", security(("token" = ["view"])),
    responses((status = 200, description = "What the caller may do", body = Access)))]
pub(crate) async fn whoami(caller: Caller) -> Json<Access> {
    Json(Access {
        scope: caller.scope.word(),
        session: caller.session.map(|session| session.to_string()),
        version: env!("CARGO_PKG_VERSION"),
    })
}
