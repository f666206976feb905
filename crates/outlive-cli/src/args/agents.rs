//! Serving AI agents' clients.

use clap::{Args, ValueEnum};
use outlive_mcp::Profile;

use super::values::parse_profile;

/// Serve an AI agent's client: the Model Context Protocol on standard input and output
///
/// Clients start this themselves: give them the command `outlive mcp`. Jobs belong to the session of the client's project
/// unless --session names another, and go on when the server ends.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// The tools that it has: outlive's own, or those of a design that agents already know
    #[arg(long, value_name = "NAME", value_parser = parse_profile, default_value = "native")]
    pub(crate) profile: &'static Profile,

    /// See the jobs of all sessions, not only those of the project
    #[arg(long)]
    pub(crate) all_sessions: bool,

    /// Environment of jobs: the server's, that of a login shell, or only what is needed
    #[arg(long, value_name = "inherit|login|clean")]
    pub(crate) env: Option<outlive::JobEnvironment>,
}

/// Tell an agent's client of the MCP server
///
/// Shows the exact change to the client's settings; with `--write` it is made. With the global `--session NAME` the server
/// always works for that session, else for the project that the agent is in.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive setup claude-code             # show what would be changed\n  \
outlive setup claude-code --write     # change it\n  \
outlive setup --print                 # the entry for any other client")]
pub(crate) struct Setup {
    /// The client
    #[arg(value_name = "CLIENT", required_unless_present = "print")]
    pub(crate) client: Option<ClientChoice>,

    /// Make the change; the settings as they were stay beside them, in a file that ends in .before-outlive
    #[arg(long)]
    pub(crate) write: bool,

    /// Take the entry out again
    #[arg(long)]
    pub(crate) remove: bool,

    /// The tools that the server speaks; without it outlive's own
    #[arg(long, value_name = "NAME", value_parser = parse_profile)]
    pub(crate) profile: Option<&'static Profile>,

    /// Print the entry as JSON, for any other client
    #[arg(long, conflicts_with_all = ["client", "write", "remove"])]
    pub(crate) print: bool,
}

/// A client whose settings outlive knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientChoice {
    ClaudeCode,
    Codex,
    Gemini,
}
