//! Serving AI agents' clients.

use std::time::Duration;

use clap::{Args, ValueEnum};
use outlive::duration::parse_duration;
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

/// Wait until an agent has something to hear, and tell it; for hooks of its client
///
/// A client runs this when its agent has ended a turn: `outlive setup CLIENT --wake` sees to it. It waits while jobs of the agent
/// are live. When one ends, asks for an answer or prints a line that the agent watches for, and no result of a tool has told it
/// within 1.5 s, that is on standard error and the exit status is 2, which clients take as a reason to go on. Else it is 0: nothing
/// can come any more, the time is over, the client has no outlive or has ended, or another `outlive wake` waits for it already. With
/// `--json` it is on standard output, as `{"decision": "block", "reason": …}`, and the exit status is 0.
#[derive(Debug, Args)]
pub(crate) struct Wake {
    /// Wait at most this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1d")]
    pub(crate) timeout: Duration,

    /// Do not wait for jobs that listen on a port or said when they are ready: for clients that do nothing else meanwhile
    #[arg(long)]
    pub(crate) skip_servers: bool,
}

/// Tell an agent's client of the MCP server, a shell of completion, or the machine what comes back after a restart
///
/// Shows the exact change to the client's settings; with `--write` it is made. With the global `--session NAME` the server
/// always works for that session, else for the project that the agent is in. `outlive setup shell` makes the tab key complete
/// jobs, names, groups, sessions and labels; it is done at once, and says what it changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
outlive setup --list                  # the clients that it knows\n  \
outlive setup claude-code             # show what would be changed\n  \
outlive setup claude-code --write     # change it\n  \
outlive setup claude-code --wake      # what wakes the agent when a job ends\n  \
outlive setup shell                   # completion in bash, zsh or fish\n  \
outlive setup boot                    # schedules go on after a restart of the machine\n  \
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

    /// Instead of the server, set up what wakes an idle agent when a job of it ends: a hook of the client that runs `outlive wake`
    #[arg(long, conflicts_with_all = ["list", "profile", "shell"])]
    pub(crate) wake: bool,

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
    /// What comes back after a restart of the machine: schedules, and jobs with --restart always
    Boot,
}

impl ClientChoice {
    /// Tells whether it is a client of an agent.
    pub(crate) fn is_client(self) -> bool {
        !matches!(self, Self::Shell | Self::Boot)
    }
}
