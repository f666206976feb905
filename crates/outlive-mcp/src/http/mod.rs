//! The protocol over HTTP: one address for both eras.
//!
//! Clients of the handshake era have a session of the protocol, which the store keeps. Later ones send all that is needed with each
//! request; requests of one caller share a server, so that its lease lasts between them. Who may ask is decided before (crate
//! `outlive-http`): what comes here is from a caller that may drive jobs.

mod delivery;
#[cfg(feature = "conformance")]
mod fixtures;
mod sessions;

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use outlive::{SessionName, Store};
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

pub(crate) use self::delivery::Deliveries;
use self::delivery::Exchange;
pub use self::delivery::HttpBody;
use self::sessions::Sessions;
use crate::Options;
use crate::answers::Answers;
use crate::profiles::Profile;
use crate::server::{Origin, Server, Turns};

/// Calls that wait may go on at the same time, of all clients, a thread each; more are queued.
const WAITING: usize = 64;

/// As [`WAITING`], for calls that answer at once.
const WORKING: usize = 8;

/// So many threads of the runtime this uses at most: besides calls, for what is done once a client has its answer.
pub const THREADS: usize = WAITING + WORKING + 8;

/// A client that has not called for so long counts as gone: its lease ends. It may come back.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// How often to look for clients that are gone.
const SWEEP: Duration = Duration::from_secs(60);

/// Clients at once, each with some memory of its own.
const MOST_CLIENTS: usize = 256;

/// By which clients of the handshake era name their session.
const SESSION_ID: &str = "mcp-session-id";

/// By which a client says the version of the protocol.
const VERSION: &str = "mcp-protocol-version";

/// The first version without sessions.
const MODERN: &str = "2026-07-28";

tokio::task_local! {
    /// The request that is handled, for what is made meanwhile.
    static ASKING: Asking;
}

/// A request that is handled.
struct Asking {
    asked: Asked,
    /// It comes without a session of the protocol.
    is_modern: bool,
}

/// Who asks, and what for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who, in words: the same for all requests of one caller.
    pub caller: String,
    /// The tools.
    pub profile: &'static Profile,
    /// The session of its jobs; `None` for that of the directory.
    pub session: Option<SessionName>,
    /// Tools see the jobs of all sessions.
    pub all_sessions: bool,
    /// The reader; `None` for the client's session of the protocol, or the caller.
    pub reader: Option<SessionName>,
    /// The project's directory.
    pub directory: Option<PathBuf>,
    /// What the caller calls this machine.
    pub host: Option<String>,
}

impl Asked {
    /// Returns a text that differs wherever something of it differs.
    fn owner(&self) -> String {
        let Self { caller, profile, session, all_sessions, reader, directory, host } = self;
        format!("{caller:?} {} {session:?} {all_sessions} {reader:?} {directory:?} {host:?}", profile.name)
    }
}

/// What answers requests.
#[cfg(not(feature = "conformance"))]
type Handler = Arc<Server>;
#[cfg(feature = "conformance")]
use self::fixtures::Fixtures as Handler;

/// The MCP server of an HTTP server.
pub struct Http {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Sessions,
    servers: Arc<Servers>,
}

/// The servers of clients without a session of the protocol, by who asks.
struct Servers {
    store: Arc<Store>,
    turns: Turns,
    by_owner: Mutex<HashMap<String, (Arc<Server>, Instant)>>,
    /// Of servers that live, a clone each.
    living: Arc<()>,
    /// What forgets clients that are gone.
    sweeping: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl Http {
    /// Makes the server of a store.
    pub fn new(store: Arc<Store>) -> Self {
        let servers = Arc::new(Servers {
            store: Arc::clone(&store),
            turns: Turns::new(WAITING, WORKING),
            by_owner: Mutex::default(),
            living: Arc::default(),
            sweeping: Mutex::default(),
        });
        let sessions = Sessions::new(store);
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        let mut manager = LocalSessionManager::default();
        manager.session_config = config;
        // Names and origins have been checked, more strictly.
        let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
        config.session_store = Some(Arc::new(sessions.clone()));
        let of_request = Arc::clone(&servers);
        let service = StreamableHttpService::new(move || of_request.serve(), Arc::new(manager), config);
        Self { service, sessions, servers }
    }

    /// Answers a request whose body has been read.
    pub async fn handle(&self, request: Request<Bytes>, asked: Asked) -> Response<HttpBody> {
        let exchange = Exchange::default();
        let session = request.headers().get(SESSION_ID).and_then(|id| id.to_str().ok());
        let is_modern = request.headers().get(VERSION).is_some_and(|version| version == MODERN);
        // One without a session has a server from its first request on.
        let is_new = if is_modern { !self.servers.has(&asked.owner()) } else { session.is_none() };
        let refused = match session {
            Some(id) if self.sessions.is_foreign(id, &asked.owner()) => {
                Some((StatusCode::NOT_FOUND, "Not Found: Session not found"))
            }
            _ if is_new && self.servers.count() >= MOST_CLIENTS => {
                Some((StatusCode::TOO_MANY_REQUESTS, "too many clients at once: try again later"))
            }
            _ => None,
        };
        if let Some((status, words)) = refused {
            return refusal(status, words).map(|body| HttpBody::new(body, exchange));
        }
        let mut request = request.map(Full::new);
        request.extensions_mut().insert(exchange.clone());
        let handled = ASKING.scope(Asking { asked, is_modern }, self.service.handle(request)).await;
        self.servers.sweep_later();
        handled.map(|body| HttpBody::new(body, exchange))
    }
}

impl Servers {
    fn by_owner(&self) -> MutexGuard<'_, HashMap<String, (Arc<Server>, Instant)>> {
        self.by_owner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether a caller without sessions has a server.
    fn has(&self, owner: &str) -> bool {
        self.by_owner().contains_key(owner)
    }

    /// Returns how many clients there are.
    fn count(&self) -> usize {
        Arc::strong_count(&self.living) - 1
    }

    /// Returns the server for the request that is handled: of its caller, or a new one for a new session of the protocol.
    fn serve(&self) -> io::Result<Handler> {
        let server = ASKING.try_with(|asking| self.serve_asking(asking)).map_err(io::Error::other);
        #[cfg(feature = "conformance")]
        let server = server.map(Handler::new);
        server
    }

    fn serve_asking(&self, asking: &Asking) -> Arc<Server> {
        let asked = &asking.asked;
        if !asking.is_modern {
            return Arc::new(self.new_server(asked));
        }
        let mut servers = self.by_owner();
        let new = || (Arc::new(self.new_server(asked)), Instant::now());
        let (server, used) = servers.entry(asked.owner()).or_insert_with(new);
        *used = Instant::now();
        Arc::clone(server)
    }

    fn new_server(&self, asked: &Asked) -> Server {
        let Asked { caller, profile, session, all_sessions, reader, directory, host } = asked.clone();
        let options = Options { session, all_sessions, reader, profile, environment: None, host };
        let origin = Origin::Remote { directory, caller, living: Arc::clone(&self.living) };
        let answers = Answers::Http(Deliveries::default());
        Server::new(Arc::clone(&self.store), options, origin, answers, self.turns.clone())
    }

    /// Forgets clients that are gone, in the background for as long as there are some.
    fn sweep_later(self: &Arc<Self>) {
        let mut sweeping = self.sweeping.lock().unwrap_or_else(PoisonError::into_inner);
        if sweeping.as_ref().is_some_and(|task| !task.is_finished()) || self.by_owner().is_empty() {
            return;
        }
        let servers = Arc::clone(self);
        *sweeping = Some(tokio::spawn(async move {
            while !servers.by_owner().is_empty() {
                tokio::time::sleep(SWEEP).await;
                let is_used = |server: &Arc<Server>| Arc::strong_count(server) > 1;
                let is_kept =
                    |(server, used): &mut (Arc<Server>, Instant)| is_used(server) || used.elapsed() < IDLE;
                // Dropped after the lock: a lease is given back, in the store.
                let gone: Vec<_> = servers.by_owner().extract_if(|_, server| !is_kept(server)).collect();
                drop(gone);
            }
        }));
    }
}

/// Returns the session of the protocol that a request names.
pub(crate) fn session_of(context: &RequestContext<RoleServer>) -> Option<String> {
    let parts = context.extensions.get::<Parts>()?;
    parts.headers.get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

fn refusal(status: StatusCode, words: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from_static(words.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}

impl std::fmt::Debug for Http {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Http").finish_non_exhaustive()
    }
}
