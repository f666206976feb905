//! The MCP server of outlive: eight tools for agents, over standard input and output, or over HTTP.
//!
//! All its state is in the store: when a server is killed, the next one goes on. On standard input only the end of that ends it, nothing
//! that a client sends.

mod answers;
mod arguments;
mod environment;
mod http;
mod jobs;
mod notices;
mod profiles;
mod reading;
mod reference;
mod remote;
mod reply;
mod resources;
mod scope;
mod server;
mod starting;
mod stdio;
mod tasks;
mod tools;
mod wake;
mod work;

use std::env::current_dir;
use std::fs::read_link;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use outlive::{JobEnvironment, SessionName, Store};
use rmcp::service::{ServerInitializeError, serve_server};

pub use http::{Asked, Http, HttpBody, THREADS};
pub use profiles::Profile;
pub use reference::{profiles as profiles_reference, reference};
pub use wake::wake;

use crate::answers::Answers;
use crate::server::{Origin, Server, Turns};
use crate::stdio::Stdio;

/// How long the last answers may take to be written once input has ended.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// How to serve.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// The session of its jobs; `None` for that of the client's project.
    pub session: Option<SessionName>,
    /// Tools see the jobs of all sessions.
    pub all_sessions: bool,
    /// The reader; `None` for the conversation that the environment names, else for one of this connection.
    pub reader: Option<SessionName>,
    /// The tools that it has.
    pub profile: &'static Profile,
    /// The environment that jobs start from; `None` for the configured one.
    pub environment: Option<JobEnvironment>,
    /// What a client on another machine calls this one: ids of jobs begin with it.
    pub host: Option<String>,
}

/// Serves a client on standard input and output until its end.
///
/// # Errors
///
/// If threads or timers cannot be created.
pub fn serve(store: Store, options: Options) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Idle threads end soon: a server is idle most of the time.
    let runtime = builder.enable_time().thread_keep_alive(Duration::from_secs(2)).build()?;
    let stdio = Stdio::open(io::stdin(), io::stdout())?;
    // If it is gone, a path that does not exist.
    let here = current_dir().or_else(|_| read_link("/proc/self/cwd")).unwrap_or_default();
    let answers = Answers::Stdio(stdio.outgoing.clone());
    let store = Arc::new(store.with_spare_keepers());
    let server = Server::new(store, options, Origin::Parent { here }, answers, Turns::default());
    runtime.block_on(converse(&stdio, server));
    // Calls that still wait in a thread have no client any more.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(())
}

/// Serves until the end of input. After a handshake that rmcp rejects, the client may begin anew.
async fn converse(stdio: &Stdio, server: Server) {
    let server = Arc::new(server);
    loop {
        match serve_server(Arc::clone(&server), stdio.reopen()).await {
            Ok(running) => {
                // Returns at the end of input, or when the client has closed the other end of standard output.
                running.waiting().await.ok();
                break;
            }
            Err(
                ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::TransportError { .. },
            ) => break,
            Err(error) => log(&format!("the client begins anew after: {error}")),
        }
    }
    tokio::time::timeout(FLUSH_LIMIT, stdio.outgoing.flush()).await.ok();
}

/// Logs to standard error if `OUTLIVE_LOG` is set: standard output is for messages alone.
pub(crate) fn log(text: &str) {
    if std::env::var_os("OUTLIVE_LOG").is_some_and(|level| !level.is_empty()) {
        // Standard error may be closed.
        writeln!(io::stderr().lock(), "outlive mcp: {text}").ok();
    }
}
