//! Listening, and the life of the server.
//!
//! In the store's directory `serve/`: `socket`; `unix.lock` and `tcp.lock`, held by the process that listens there; `server.json`, the
//! TCP address and pid of the process that holds `tcp.lock`; `port`, the port to take again, so that links and cookies stay good.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use outlive::{Code, Failure, Store};
use outlive_sys::{clock, durable, lock, socket};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, Semaphore};
use tower::ServiceExt;

use crate::access::site::{Certificate, Site, Tls, TlsError};
use crate::access::tokens::Tokens;
use crate::access::{Failures, Needs};
use crate::api;
use crate::api::events::Hub;
use crate::api::metrics::Counted;
use crate::api::written::Written;
use crate::unread::{Known, Unread};
use crate::work::{Pools, QUICK, WAITS};

/// Connections at once, of each listener: another user who fills TCP does not keep programs from the socket.
const CONNECTIONS: usize = 256;

/// The head of a request has come by then; also how long an idle connection is kept.
const HEAD_LIMIT: Duration = Duration::from_secs(15);

/// The most that the head of a request may have.
const HEAD_BYTES: usize = 32 << 10;

/// Of a request; a longer one is refused.
const HEADERS: usize = 64;

/// How the server is to be run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Listen on TCP, too.
    pub tcp: Option<Address>,
    /// Speak TLS on TCP.
    pub tls: Option<Tls>,
    /// End when no connection was open for so long; none: never.
    pub idle: Option<Duration>,
}

/// Where to listen on TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The address; one that other machines reach only with TLS.
    pub ip: IpAddr,
    /// The port; none: the one of last time, or any that is free.
    pub port: Option<u16>,
}

impl Address {
    /// Reads `ADDR:PORT`, `PORT`, `ADDR`, or nothing for a port of its own.
    ///
    /// # Errors
    ///
    /// If it is no address.
    pub fn parse(text: &str) -> Result<Self, String> {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let text = text.replace("localhost", "127.0.0.1");
        match (text.as_str(), text.parse::<SocketAddr>(), text.parse::<u16>(), text.parse::<IpAddr>()) {
            ("", ..) => Ok(Self { ip: local, port: None }),
            (_, Ok(address), ..) => {
                Ok(Self { ip: address.ip(), port: Some(address.port()).filter(|&port| port > 0) })
            }
            (_, _, Ok(port), _) => Ok(Self { ip: local, port: Some(port).filter(|&port| port > 0) }),
            (_, _, _, Ok(ip)) => Ok(Self { ip, port: None }),
            _ => Err("an address is such as 8080 or 127.0.0.1:8080".to_owned()),
        }
    }
}

/// A server that listens on TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// The name in its certificate; none: it does not speak TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it began, in microseconds.
    since_us: u64,
}

impl Running {
    /// Returns the address of its page.
    pub fn url(&self) -> String {
        match &self.name {
            Some(name) => format!("https://{name}:{}/", self.address.port()),
            None => format!("http://{}/", self.address),
        }
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another one listens there.
    #[error("a server of this store runs already{}", .0.as_ref().map(|running| format!(" at {}", running.url())).unwrap_or_default())]
    Runs(Option<Running>),
    /// Other machines reach the address, and what is said there could be read.
    #[error(
        "{0} is an address that other machines reach, and without TLS every machine between can read what is said"
    )]
    Open(IpAddr),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be used.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The store, or a socket in it, cannot be used.
    #[error("cannot serve this store")]
    Io(#[from] io::Error),
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        let (code, hint) = match &error {
            ServeError::Runs(Some(_)) => (Code::Exists, "`outlive open` gives a link to its page"),
            ServeError::Runs(None) => {
                (Code::Exists, "programs can use its socket; for a browser: outlive open")
            }
            ServeError::Open(_) => (
                Code::Usage,
                "use a tunnel: ssh -L 8080:127.0.0.1:8080 HOST; or with a certificate: --tls CERT KEY",
            ),
            ServeError::Tls(TlsError::Nameless(..)) => {
                (Code::Usage, "give it a subjectAltName with the name or the address by which browsers ask")
            }
            ServeError::Tls(_) => (Code::Usage, "--tls CERT KEY takes two files in PEM"),
            ServeError::Listen(..) => {
                (Code::Failed, "another program has the port: leave it out to get a free one")
            }
            ServeError::Io(_) => (Code::Failed, "look at the directory `serve` of the store"),
        };
        Self::new(code, outlive::chain(&error)).during("serve").hint(hint)
    }
}

/// From where a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The socket in the store; the kernel says that it is this user.
    Unix,
    /// Any user of this machine, and with TLS of others; the client's end of the connection, and ours.
    Tcp { client: SocketAddr, server: SocketAddr },
}

/// What all requests share; none of it is a fact about jobs that another server would miss: what is counted for metrics begins anew.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Arc<Store>,
    pub(crate) tokens: Tokens,
    pub(crate) needs: Needs,
    pub(crate) failures: Failures,
    pub(crate) pools: Pools,
    pub(crate) hub: Hub,
    pub(crate) written: Written,
    pub(crate) counted: Counted,
    pub(crate) mcp: outlive_mcp::Http,
    pub(crate) site: Option<Site>,
    pub(crate) openapi: serde_json::Value,
    pub(crate) connections: AtomicUsize,
    /// The last connection was closed.
    quiet: Notify,
}

pub(crate) type Shared = Arc<State>;

/// Returns the server of a store that listens on TCP.
pub fn running(store: &Store) -> Option<Running> {
    let dir = store.serve_dir().ok()?;
    durable::is_held(&dir, "tcp.lock").then(|| read_running(&dir)).flatten()
}

fn read_running(dir: &Path) -> Option<Running> {
    serde_json::from_slice(&durable::read(durable::CWD, dir.join("server.json")).ok()?).ok()
}

/// Serves a store until a signal ends it, or nobody has asked for long enough. `ready` is called when it listens.
///
/// # Errors
///
/// If another server of the store listens there, or the store or an address cannot be used.
pub fn serve(
    store: Store,
    options: &Options,
    ready: impl FnOnce(&Path, Option<&Running>),
) -> Result<(), ServeError> {
    // A server that was started in the background has all of them blocked.
    outlive_sys::signal::unblock_all();
    if let Some(Address { ip, .. }) = options.tcp.filter(|address| !address.ip.is_loopback())
        && options.tls.is_none()
    {
        return Err(ServeError::Open(ip));
    }
    let dir = store.serve_dir()?;
    let tokens = Tokens::of(&store)?;
    let tcp = match options.tcp {
        None => None,
        Some(address) => {
            let held = hold(&dir, "tcp.lock")?.ok_or_else(|| ServeError::Runs(read_running(&dir)))?;
            // Of a server that was killed: until this one has written its own, it has no address.
            fs::remove_file(dir.join("server.json")).ok();
            Some((listen_tcp(&dir, address)?, held))
        }
    };
    let unix = match hold(&dir, "unix.lock")? {
        Some(held) => Some((listen_unix(&dir)?, held)),
        // What listens on the socket already serves the same store.
        None if tcp.is_some() => None,
        None => return Err(ServeError::Runs(None)),
    };
    let (running, site) = match &tcp {
        None => (None, None),
        Some((listener, _)) => {
            let address = listener.local_addr()?;
            let read = |files| Certificate::read(files, address);
            let certificate = options.tls.as_ref().map(read).transpose()?;
            let name = certificate.as_ref().map(|certificate| certificate.name().to_owned());
            let running = Running { pid: std::process::id(), address, name, since_us: clock::wall_us() };
            (Some(running), Some(Site { port: address.port(), certificate }))
        }
    };
    let (router, shared, runtime) = prepare(store, tokens, site)?;
    let socket = dir.join("socket");
    let has_socket = unix.is_some();
    let served = runtime.block_on(async {
        // Before the file names this process: a program that reads it may ask it to end at once.
        let end = End::catch()?;
        if let Some(running) = &running {
            write(&dir, "server.json", &serde_json::to_vec(running).map_err(io::Error::from)?)?;
        }
        if let Some((listener, _)) = &unix {
            let listener = UnixListener::from_std(listener.try_clone()?)?;
            tokio::spawn(accept_unix(listener, router.clone(), Arc::clone(&shared)));
        }
        if let Some((listener, _)) = &tcp {
            let listener = TcpListener::from_std(listener.try_clone()?)?;
            tokio::spawn(accept_tcp(listener, router.clone(), Arc::clone(&shared)));
        }
        ready(&socket, running.as_ref());
        end.wait(&shared, options.idle).await;
        Ok(())
    });
    // What still waits in a thread ends with the process.
    runtime.shutdown_background();
    if has_socket {
        fs::remove_file(&socket).ok();
    }
    served
}

/// Makes what every request needs: the routes, what they share, and the runtime.
pub(crate) fn prepare(
    store: Store,
    tokens: Tokens,
    site: Option<Site>,
) -> io::Result<(Router, Shared, tokio::runtime::Runtime)> {
    let (router, openapi) = api::router();
    let store = Arc::new(store);
    let shared = Arc::new(State {
        mcp: outlive_mcp::Http::new(Arc::clone(&store)),
        store,
        tokens,
        needs: Needs::of(&openapi),
        failures: Failures::default(),
        pools: Pools::default(),
        hub: Hub::default(),
        written: Written::default(),
        counted: Counted::default(),
        site,
        openapi,
        connections: AtomicUsize::new(0),
        quiet: Notify::new(),
    });
    let router = api::layered(router, &shared);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(QUICK + WAITS + outlive_mcp::THREADS)
        .thread_keep_alive(Duration::from_secs(2))
        .thread_stack_size(1 << 20)
        .build()?;
    Ok((router, shared, runtime))
}

/// The signals that end a server.
pub(crate) struct End {
    term: Signal,
    int: Signal,
}

impl End {
    /// From here on these signals do not end the process by themselves: [`End::wait`] returns.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// Waits for a signal, or until no connection was open for long enough.
    pub(crate) async fn wait(mut self, shared: &Shared, idle: Option<Duration>) {
        loop {
            let quiet = shared.quiet.notified();
            let is_idle = shared.connections.load(Ordering::Relaxed) == 0;
            let nap = async {
                match idle.filter(|_| is_idle) {
                    Some(idle) => tokio::time::sleep(idle).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.term.recv() => return,
                _ = self.int.recv() => return,
                () = quiet => {}
                () = nap => {
                    // One that came meanwhile has announced itself only when it goes.
                    if shared.connections.load(Ordering::Relaxed) == 0 {
                        return;
                    }
                }
            }
        }
    }
}

/// Takes a lock for as long as the server lives; `None` if another process has it.
fn hold(dir: &Path, name: &str) -> io::Result<Option<File>> {
    let file = durable::open_or_create(durable::CWD, dir.join(name))?;
    Ok(lock::try_lock(&file, lock::Kind::Exclusive)?.then_some(file))
}

fn listen_unix(dir: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    // Left by a server that was killed: its lock is free.
    match fs::remove_file(dir.join("socket")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = socket::listen_in(durable::open_dir(dir)?, "socket")?;
    fs::set_permissions(dir.join("socket"), fs::Permissions::from_mode(0o600))?;
    Ok(listener.into())
}

/// Listens on the port that is asked for; else on that of last time, so that what was opened then stays good; else on any.
fn listen_tcp(dir: &Path, address: Address) -> Result<std::net::TcpListener, ServeError> {
    let last =
        || durable::read_line(durable::CWD, dir.join("port")).and_then(|port| port.parse::<u16>().ok());
    let bind = |port: u16| {
        let address = SocketAddr::new(address.ip, port);
        std::net::TcpListener::bind(address).map_err(|error| ServeError::Listen(address, error))
    };
    let listener = match address.port {
        Some(port) => bind(port)?,
        None => last().and_then(|port| bind(port).ok()).map_or_else(|| bind(0), Ok)?,
    };
    listener.set_nonblocking(true)?;
    write(dir, "port", format!("{}\n", listener.local_addr()?.port()).as_bytes())?;
    Ok(listener)
}

/// Replaces a small file that only hints: one that is torn is ignored.
fn write(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = dir.join(durable::temporary_name(name));
    fs::write(&temporary, bytes)?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o600))?;
    fs::rename(temporary, dir.join(name))
}

async fn accept_unix(listener: UnixListener, router: Router, shared: Shared) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == socket::own_uid());
                if is_own {
                    tokio::spawn(connection(stream, router.clone(), Arc::clone(&shared), Peer::Unix, permit));
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn accept_tcp(listener: TcpListener, router: Router, shared: Shared) {
    let certificate = shared.site.as_ref().and_then(|site| site.certificate.as_ref());
    let acceptor = certificate.map(Certificate::acceptor);
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                let Ok(server) = stream.local_addr() else { continue };
                let peer = Peer::Tcp { client, server };
                // Small answers must not wait for more; that it fails costs only time.
                stream.set_nodelay(true).ok();
                let (router, shared) = (router.clone(), Arc::clone(&shared));
                match acceptor.clone() {
                    None => drop(tokio::spawn(connection(stream, router, shared, peer, permit))),
                    Some(acceptor) => drop(tokio::spawn(async move {
                        let private = tokio::time::timeout(HEAD_LIMIT, acceptor.accept(stream)).await;
                        // A client that speaks no TLS, or does not trust the certificate, is gone.
                        if let Ok(Ok(stream)) = private {
                            connection(stream, router, shared, peer, permit).await;
                        }
                    })),
                }
            }
            // No descriptors are left: those who are connected go on.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Counts a connection while it is open.
struct Open(Shared);

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.quiet.notify_one();
        }
    }
}

/// Serves one connection.
pub(crate) async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    shared: Shared,
    peer: Peer,
    permit: tokio::sync::OwnedSemaphorePermit,
) {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let open = Arc::new((Open(shared), permit));
    let known = Known::default();
    let stream = Unread::new(stream, known.clone());
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(known.clone());
        // A WebSocket outlives its connection's task, and counts as long as it lasts.
        request.extensions_mut().insert(Held(Arc::clone(&open)));
        router.clone().oneshot(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A client that breaks off, or speaks no HTTP, has been answered as far as it can be.
    served.await.ok();
}

/// Keeps a connection counted.
#[derive(Clone)]
pub(crate) struct Held(
    #[expect(dead_code, reason = "held, not read")] Arc<(Open, tokio::sync::OwnedSemaphorePermit)>,
);
