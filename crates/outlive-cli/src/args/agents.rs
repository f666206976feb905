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

/// Tell an agent's client of the MCP server, or a shell of completion
///
/// Shows the exact change to the client's settings; with `--write` it is made. With the global `--session NAME` the server
/// always works for that session, else for the project that the agent is in. `outlive setup shell` makes the tab key complete
/// jobs, names, groups, sessions and labels; it is done at once, and says what it changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive setup --list                  # the clients that it knows\n  \
outlive setup claude-code             # show what would be changed\n  \
outlive setup claude-code --write     # change it\n  \
outlive setup shell                   # completion in bash, zsh or fish\n  \
outlive setup --print                 # the entry for any other client")]
pub(crate) struct Setup {
    /// The client
    #[arg(value_name = "CLIENT", required_unless_present_any = ["print", "list"])]
    pub(crate) client: Option<ClientChoice>,

    /// List the clients, where their settings are, and which of them have outlive
    #[arg(long, conflicts_with_all = ["client", "write", "remove", "print"])]
    pub(crate) list: bool,

    /// Make the change; the settings as they were stay beside them, in a file that ends in .before-outlive
    #[arg(long)]
    pub(crate) write: bool,

    /// Take the entry out again
    #[arg(long)]
    pub(crate) remove: bool,

    /// The tools that the server speaks; without it outlive's own
    #[arg(long, value_name = "NAME", value_parser = parse_profile)]
    pub(crate) profile: Option<&'static Profile>,

    /// The shell; without it the one that you log in with
    #[arg(long, value_name = "bash|zsh|fish")]
    pub(crate) shell: Option<clap_complete::Shell>,

    /// Print the entry and change nothing: as the client writes it, or without a client as JSON that most take
    #[arg(long, conflicts_with_all = ["write", "remove"])]
    pub(crate) print: bool,
}

/// A client whose settings outlive knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientChoice {
    ClaudeCode,
    Codex,
    Gemini,
    Opencode,
    Goose,
    Qwen,
    Copilot,
    Cursor,
    Vscode,
    Zed,
    /// Completion in your shell: bash, zsh or fish
    Shell,
}
