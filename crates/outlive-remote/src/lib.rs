//! A client of outlive somewhere else: small, blocking, over a Unix socket, TCP with a token, SSH, or any pair of pipes.
//!
//! [`Client`] has the API as functions. [`Channel`] runs a verb of the command line where the store is, which is how `outlive --host`
//! does there what it does here.
//!
//! ```no_run
//! use outlive_remote::{Address, Client, Start};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new("unix:///home/me/.local/state/outlive/serve/socket".parse()?);
//! let job = client.start(&Start::line("make test"))?;
//! let waited = client.wait(&job.job, None)?;
//! println!("{} {}", waited.job.job, waited.job.status);
//! # Ok(())
//! # }
//! ```

mod address;
mod channel;
mod client;
mod connection;
mod error;
mod http;
mod look;
mod named;
mod objects;
mod projects;
mod ssh;
mod sync;
mod tools;
pub mod websocket;

pub use address::{Address, AddressError};
pub use channel::{Call, Channel, End, Said, Sender};
pub use client::{Client, EventStream, Filter, Follow, Followed, Start};
pub use connection::Connection;
pub use error::RemoteError;
pub use look::{HostLook, Seen, machines};
pub use named::token_of_environment;
pub use objects::{Event, Inbox, Job, Jobs, Killed, Session, Waited};
pub use projects::{ProjectCause, ProjectDown, ProjectJobStatus, ProjectStatus, ProjectStep};
pub use ssh::{GREETING, Ssh, runtime_dir};
pub use tools::{ToolAnswer, ToolCaller};
