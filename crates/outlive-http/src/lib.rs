//! The HTTP server of outlive: an API, a stream of events, and a page for people.
//!
//! A front end like any other. It holds no fact that is not in the store, so it can be killed at any time and the next one goes on.
//! Library calls block, and so run in a bounded pool of threads (`work`); the one thread of the runtime only moves bytes.

mod access;
mod api;
mod command;
mod extract;
mod page;
mod problem;
mod projects;
mod rpc;
mod server;
mod unread;
mod work;

pub use access::scope::Scope;
pub use access::site::{Tls, TlsError};
pub use access::tokens::{Token, TokenError, TokenObject, Tokens};
pub use api::openapi;
pub use command::Verb;
pub use rpc::serve_pipes;
pub use server::{Address, Options, Running, ServeError, running, serve};
