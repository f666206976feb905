//! `outlive mcp`: serve an AI agent's client.

use std::process::ExitCode;

use outlive::{SessionName, Store};
use outlive_mcp::Options;

use crate::args::Mcp;
use crate::failure::Failure;

pub(crate) fn run(
    store: Store,
    arguments: &Mcp,
    session: Option<SessionName>,
    reader: Option<SessionName>,
) -> Result<ExitCode, Failure> {
    let options = Options {
        session,
        all_sessions: arguments.all_sessions,
        reader,
        profile: arguments.profile,
        environment: arguments.env,
        host: None,
    };
    outlive_mcp::serve(store, options).map_err(|error| Failure::other("mcp", &error))?;
    Ok(ExitCode::SUCCESS)
}
