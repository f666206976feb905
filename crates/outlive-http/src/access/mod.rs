//! Who may ask, before anything else is looked at.
//!
//! A page of another site that reaches the server through a browser is the danger: it can name any host (DNS rebinding), post
//! across origins and open WebSockets. So the `Host` is exact, `Origin` and `Sec-Fetch-Site` must be ours where they are sent, and on
//! TCP every request for data has a token. On the Unix socket the kernel says who asks, and nothing that a browser sends is taken:
//! a tunnel to the socket must not make a browser that user.

pub(crate) mod scope;
pub(crate) mod site;
pub(crate) mod tokens;

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use outlive::{Code, Failure, SessionName};
use outlive_sys::{ports, socket};
use serde_json::Value;

use crate::problem::Problem;
use crate::server::{Peer, Shared};
use crate::unread::Known;
use scope::Scope;
use site::Site;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// So many wrong tokens within [`WINDOW`] are answered; further ones are told to wait.
const MOST_FAILURES: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    /// The only session that the caller sees; none: all.
    pub(crate) session: Option<SessionName>,
    /// For the record of what was done.
    pub(crate) name: String,
}

impl Caller {
    /// The user that runs this program, as the kernel says it of the other end of a socket or pipe.
    pub(crate) fn user() -> Self {
        Self { scope: Scope::Admin, session: None, name: "outlive serve (socket)".to_owned() }
    }

    /// Returns the session to look in: the caller's own, or the one that is asked for.
    ///
    /// # Errors
    ///
    /// If another session is asked for than the caller may see.
    pub(crate) fn session(&self, asked: Option<SessionName>) -> Result<Option<SessionName>, Failure> {
        match (&self.session, asked) {
            (Some(own), Some(asked)) if *own != asked => Err(Failure::new(
                Code::Forbidden,
                format!("this token is for session {own}, not for {asked}"),
            )
            .hint("leave the session out, or use a token without one")),
            (own, asked) => Ok(own.clone().or(asked)),
        }
    }
}

/// The scope that each route needs, as its description says; none: anybody.
#[derive(Debug, Default)]
pub(crate) struct Needs(HashMap<(String, Method), Option<Scope>>);

impl Needs {
    /// Reads them from the description of the API: what it does not describe cannot be reached.
    pub(crate) fn of(openapi: &Value) -> Self {
        let mut needs = HashMap::new();
        for (path, item) in openapi["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let Ok(method) = method.to_uppercase().parse::<Method>() else { continue };
                let word = operation["security"][0]["token"][0].as_str();
                let is_public = operation["security"][0].as_object().is_some_and(|none| none.is_empty());
                match word.and_then(Scope::parse) {
                    Some(scope) => drop(needs.insert((path.clone(), method), Some(scope))),
                    None if is_public => drop(needs.insert((path.clone(), method), None)),
                    // A description without a scope is a mistake, and nobody gets in.
                    None => {}
                }
            }
        }
        Self(needs)
    }

    fn of_route(&self, path: &str, method: &Method) -> Option<Option<Scope>> {
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.get(&(path.to_owned(), method)).copied()
    }
}

/// Refuses a link to another user of this machine. Who may look at the processes of a machine sees the address that a browser is started
/// with, and a link signs in whoever is first. Root may, and so may what comes from another machine, over TLS.
pub(crate) fn check_user(peer: Peer) -> Result<(), Failure> {
    let Peer::Tcp { client, server } = peer else { return Ok(()) };
    match ports::user_at(client, server) {
        Some(user) if user != 0 && user != socket::own_uid() => {
            Err(Failure::new(Code::Forbidden, "this link is for the user whose jobs these are")
                .hint("for another user: outlive token create NAME --scope view"))
        }
        _ => Ok(()),
    }
}

/// Wrong tokens of late.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Option<(Instant, u32)>>);

impl Failures {
    /// Counts one; false if there were too many.
    pub(crate) fn count(&self) -> bool {
        let mut recent = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (since, count) =
            recent.filter(|(since, _)| since.elapsed() < WINDOW).unwrap_or((Instant::now(), 0));
        *recent = Some((since, count + 1));
        count < MOST_FAILURES
    }
}

/// Refuses what comes from another site; for every request, the page's too.
pub(crate) async fn same_site(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let checked = match request.extensions().get::<Peer>() {
        Some(Peer::Unix) => check_local(&request),
        _ => match &shared.site {
            Some(site) => check_site(&request, site),
            None => Err(Failure::new(Code::Forbidden, "this server is on no port")),
        },
    };
    match checked {
        Ok(()) => next.run(request).await,
        Err(failure) => Problem::from(failure).into_response(),
    }
}

/// Refuses a caller without the scope that the route needs.
pub(crate) async fn in_scope(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let need = route.and_then(|route| shared.needs.of_route(&route, request.method()));
    let caller = match need {
        None => Err(Failure::new(Code::Forbidden, "this route says no scope").hint("it is a bug of outlive")),
        Some(None) => Ok(None),
        Some(Some(scope)) => identify(&shared, &request).and_then(|caller| match caller.scope >= scope {
            true => Ok(Some(caller)),
            false => Err(Failure::new(
                Code::Forbidden,
                format!(
                    "this needs a token of scope {}, and {} has {}",
                    scope.word(),
                    caller.name,
                    caller.scope.word()
                ),
            )
            .hint(format!("outlive token create NAME --scope {}", scope.word()))),
        }),
    };
    match caller {
        Ok(Some(caller)) => {
            if let Some(known) = request.extensions().get::<Known>() {
                known.set();
            }
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) => next.run(request).await,
        Err(failure) => Problem::from(failure).into_response(),
    }
}

/// Returns the only value of a header; an error if there are several.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Failure> {
    let mut values = headers.get_all(name).iter();
    let refused = || Failure::new(Code::Forbidden, format!("{name} must be sent once, as text"));
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| refused()),
        _ => Err(refused()),
    }
}

/// On the Unix socket: a program of this user, and no browser behind a tunnel.
fn check_local(request: &Request) -> Result<(), Failure> {
    let headers = request.headers();
    let host = only(headers, &HOST)?.or(request.uri().authority().map(|authority| authority.as_str()));
    let is_browser = headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE);
    match host {
        None | Some("localhost" | "outlive") if !is_browser => Ok(()),
        _ => Err(Failure::new(Code::Forbidden, "the Unix socket is for programs, not for browsers")
            .hint("send `Host: localhost` and no Origin; for a browser: outlive open")),
    }
}

/// On TCP: our own name, and our own page or none.
fn check_site(request: &Request, site: &Site) -> Result<(), Failure> {
    let headers = request.headers();
    let host = only(headers, &HOST)?.unwrap_or_default();
    let is_named =
        site.is_ours(host) && request.uri().authority().is_none_or(|authority| authority.as_str() == host);
    if !is_named {
        return Err(Failure::new(Code::Forbidden, format!("this server is not {host:?}"))
            .hint(format!("it answers as {}", site.url())));
    }
    if only(headers, &ORIGIN)?.is_some_and(|origin| origin.strip_prefix(site.scheme()) != Some(host)) {
        return Err(Failure::new(Code::Forbidden, "another site may not ask here")
            .hint("use the page of this server"));
    }
    if !matches!(only(headers, &FETCH_SITE)?, None | Some("same-origin" | "none")) {
        return Err(Failure::new(Code::Forbidden, "another site may not lead here")
            .hint("paste the address into the address bar"));
    }
    Ok(())
}

pub(crate) fn too_many_guesses() -> Failure {
    Failure::new(Code::LimitReached, "too many wrong tokens").hint("wait ten seconds")
}

/// Finds out who asks.
fn identify(shared: &Shared, request: &Request) -> Result<Caller, Failure> {
    if request.extensions().get::<Peer>() == Some(&Peer::Unix) {
        return Ok(Caller::user());
    }
    let headers = request.headers();
    let bearer = only(headers, &AUTHORIZATION)?.and_then(|value| value.strip_prefix("Bearer "));
    let secret = match bearer {
        Some(secret) => Some(secret.trim()),
        None => shared.site.as_ref().and_then(|site| cookie(headers, &site.cookie())),
    };
    let hint = "outlive open signs a browser in; for a program: outlive token create NAME --scope view";
    let Some(secret) = secret else {
        return Err(Failure::new(Code::Unauthorized, "a token is needed").hint(hint));
    };
    match shared.tokens.find(secret) {
        Some(token) => {
            Ok(Caller { scope: token.scope, session: token.session, name: format!("token {}", token.name) })
        }
        None if shared.failures.count() => {
            Err(Failure::new(Code::Unauthorized, "this token is not valid, or was revoked").hint(hint))
        }
        None => Err(too_many_guesses()),
    }
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}
