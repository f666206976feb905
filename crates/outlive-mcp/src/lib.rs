//! The MCP server of outlive: eight tools for agents, over standard input and output.
//!
//! It holds nothing that is not in the store: killed at any moment, the next one goes on. Nothing that a client sends ends it but the
//! end of its input.

mod arguments;
mod environment;
mod jobs;
mod notices;
mod profiles;
mod reading;
mod reference;
mod reply;
mod resources;
mod scope;
mod server;
mod starting;
mod stdio;
mod tasks;
mod tools;
mod work;

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use outlive::{JobEnvironment, SessionName, Store};
use rmcp::service::{ServerInitializeError, serve_server};

pub use profiles::Profile;
pub use reference::{profiles as profiles_reference, reference};

use crate::server::Server;
use crate::stdio::Stdio;

/// How long answers that are under way may take once the client is gone.
const PARTING: Duration = Duration::from_secs(2);

/// How to serve.
#[derive(Debug, Default)]
pub struct Options {
    /// The session of its jobs; none: that of the client's project.
    pub session: Option<SessionName>,
    /// Jobs of all sessions are seen.
    pub all_sessions: bool,
    /// Who is told things; none: the conversation that the environment names, else this connection.
    pub reader: Option<SessionName>,
    /// The tools that it has.
    pub profile: &'static Profile,
    /// The environment that jobs start from; none: as configured.
    pub environment: Option<JobEnvironment>,
}

/// Serves a client on standard input and output until its end.
///
/// # Errors
///
/// If there are no threads or timers to be had.
pub fn serve(store: Store, options: Options) -> io::Result<()> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Threads that have nothing to do are not kept for long: most of the time a server has nothing to do.
    let runtime = builder.enable_time().thread_keep_alive(Duration::from_secs(2)).build()?;
    let stdio = Stdio::open(io::stdin(), io::stdout())?;
    let server = Server::new(store, options, &stdio);
    runtime.block_on(converse(&stdio, server));
    // Whoever still waits in a thread waits for nobody.
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(())
}

/// Serves until the end of input. A client that begins in a way that rmcp gives up on may begin anew.
async fn converse(stdio: &Stdio, server: Server) {
    let server = Arc::new(server);
    loop {
        match serve_server(Arc::clone(&server), stdio.reopen()).await {
            Ok(running) => {
                // Ends with the end of input, or when nobody reads the answers.
                running.waiting().await.ok();
                break;
            }
            Err(
                ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::TransportError { .. },
            ) => break,
            Err(error) => log(&format!("the client begins anew after: {error}")),
        }
    }
    tokio::time::timeout(PARTING, stdio.outgoing.flush()).await.ok();
}

/// Says something on standard error, if that is wanted: standard output is the client's alone.
pub(crate) fn log(text: &str) {
    if std::env::var_os("OUTLIVE_LOG").is_some_and(|level| !level.is_empty()) {
        // With standard error closed there is nobody to tell.
        writeln!(io::stderr().lock(), "outlive mcp: {text}").ok();
    }
}
